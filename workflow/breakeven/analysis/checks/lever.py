"""Did the declared variable do anything, and do draft positions work?

A flag that a build ignores leaves every observable as it was: such an arm is "not live", never a tie (Method 6).
"""

import numpy as np
import pandas as pd

from breakeven.analysis.checks.check import Check, findings, merged, undecided
from breakeven.analysis.checks.measured import Measured

ENOUGH_TRIALS = 30
"""Drafts that must have reached a position before its acceptance says anything."""
COLLAPSE = 0.25
"""A position accepted less than this share as often as the one before it has collapsed."""
REQUEST = ["round", "depth", "prompt_class", "prompt", "rep"]
OBSERVED = ["drafts", "drafted", "accepted"]


def drafts_when_asked(measured: Measured) -> pd.DataFrame:
    """An arm that asks for drafts gets some; one that asks for none gets none."""
    tg = measured.tg
    drafted = tg["drafted"].fillna(tg["drafts"])
    if measured.engine == "llamacpp":  # its timings leave drafts out when there were none
        drafted = drafted.where(drafted.notna() | tg["server_decode_s"].isna(), 0.0)
    plain_and_silent = ~tg["drafting"] & drafted.isna()
    groups = tg.assign(drafted=drafted.mask(plain_and_silent, 0.0)).groupby("arm", observed=True, sort=False)
    table = groups.agg(drafted=("drafted", _sum), drafting=("drafting", "first")).reset_index()
    gated = table["arm"].astype(object).map(dict(zip(tg["arm"].astype(object), tg["gated"], strict=True)))
    table["gated"] = gated.astype(float) > 0
    return findings(
        table,
        table["drafted"],
        np.where(table["drafting"], table["drafted"] > 0, table["drafted"] == 0),
        holds="drafts come where they are asked for, and only there",
        fails=lambda row: (
            "the arm asks for drafts and not one was made: speculation is off on this server, or its gate never "
            "opens, so this is a second baseline; look in the log for a drafter that was refused"
            if row.drafting
            else f"{row.drafted:.0f} tokens were drafted in an arm that asks for none: its flags are not what runs"
        ),
        unknown="the server tells no drafts",
    )


def _sum(values: pd.Series) -> float:
    return float(values.sum(min_count=1))


def draft_length(measured: Measured) -> pd.DataFrame:
    """A step drafts N tokens: never more, and less only where an answer ends (at most N(N+1)/2 fewer a request)."""
    tg = measured.tg
    tg = tg[tg["drafting"] & (tg["n_spec"] > 0)]
    if tg.empty:
        return undecided(_drafting_arms(measured), "no arm states a draft length")
    steps = tg["completion_tokens"] - 1.0 - tg["accepted"]
    own = tg["drafts"].where(tg["drafts"].notna(), steps)
    columns = {"drafts": own, "drafted": tg["drafted"], "requests": pd.Series(1.0, tg.index)}
    groups = tg[["arm"]].assign(**columns).groupby("arm", observed=True, sort=False)
    table = groups.sum(min_count=1).join(tg.groupby("arm", observed=True)[["n_spec", "gated"]].first())
    table = table.reset_index()
    n = table["n_spec"]
    most = n * table["drafts"]
    least = np.where(table["gated"], 0.0, most - table["requests"] * n * (n + 1) / 2)
    return findings(
        table,
        table["drafted"] / table["drafts"],
        (table["drafted"] <= most) & (table["drafted"] >= least),
        holds="steps draft as many tokens as were asked for",
        fails=lambda row: (
            f"steps draft {row.value:.2f} tokens, {row.n_spec:.0f} were asked for: this build takes another draft "
            "length, so the arm is not the N it is named after; do not tabulate it by N"
        ),
        unknown="drafted tokens or steps are not told by this server",
    )


def lever_live(measured: Measured) -> pd.DataFrame:
    """Arms with different flags differ in what they draft or accept; request by request nothing may be equal."""
    tg = measured.tg[[*REQUEST, "arm", *OBSERVED]]
    signatures = {}
    for arm, rows in tg.groupby("arm", observed=True, sort=False):
        rows = rows.sort_values(REQUEST, kind="stable")
        if rows["drafted"].notna().any():
            signatures[str(arm)] = rows
    arms = measured.experiment["arms"]
    flags = {arm: _flags(arms.get(arm) or {}) for arm in signatures}
    parts, twins = [], {}
    for arm, rows in signatures.items():
        same = [
            other
            for other, theirs in signatures.items()
            if other != arm and flags[other] != flags[arm] and _equal(rows, theirs)
        ]
        twins[arm] = ", ".join(same)
    for arm in _drafting_arms(measured)["arm"]:
        place = pd.DataFrame({"arm": [arm]})
        if arm not in signatures:
            parts.append(undecided(place, "the server tells no drafts for this arm"))
            continue
        parts.append(
            findings(
                place,
                float(bool(twins[arm])),
                not twins[arm],
                holds="no arm with other flags drafted and accepted the same",
                fails=lambda row: (
                    f"lever not live: every request drafted and accepted exactly what it did in {twins[row.arm]}, "
                    "whose flags differ; this build ignores the flag, or the flag has no effect on this workload"
                ),
            )
        )
    return merged(parts) if parts else undecided(measured.arms.iloc[:0], "")


def _flags(arm: dict) -> str:  # type: ignore[type-arg]
    server = arm.get("server") or {}
    return repr((sorted((server.get("args") or {}).items(), key=str), arm.get("n_spec"), arm.get("image")))


def _equal(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    """Whether the requests that both arms have show the same drafts; False when they share none."""
    if len(one) == len(other) and (one[REQUEST].to_numpy() == other[REQUEST].to_numpy()).all():
        a, b = one, other
    else:
        both = one.merge(other, on=REQUEST, suffixes=("", "_other"))
        a = both[OBSERVED]
        b = both[[f"{name}_other" for name in OBSERVED]].set_axis(OBSERVED, axis=1)
    x, y = a[OBSERVED].to_numpy(dtype=float), b[OBSERVED].to_numpy(dtype=float)
    return bool(len(x)) and bool(np.array_equal(x, y, equal_nan=True))


def _drafting_arms(measured: Measured) -> pd.DataFrame:
    launches = measured.launches
    return pd.DataFrame({"arm": list(dict.fromkeys(launches.loc[launches["drafting"], "arm"]))})


def _positions(measured: Measured) -> pd.DataFrame | None:
    """Per arm that always drafts N: accepted at each position, with the drafts; None where no server tells it."""
    tg = measured.tg
    tg = tg[tg["drafting"] & ~tg["gated"]]
    names = sorted(
        (n for n in tg if str(n).startswith("pos_")), key=lambda n: int(str(n).removeprefix("pos_"))
    )
    if not names or tg.empty:
        return None
    sums = tg.groupby("arm", observed=True, sort=False)[["drafts", *names]].sum(min_count=1)
    return sums.join(tg.groupby("arm", observed=True)["n_spec"].first()).reset_index()


def _by_position(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """(times a position was reached, times it was accepted), arms x positions; NaN beyond N."""
    names = [name for name in table if str(name).startswith("pos_")]
    accepted = table[names].to_numpy(dtype=float, copy=True)
    accepted[np.arange(len(names)) >= table["n_spec"].to_numpy(dtype=float)[:, None]] = np.nan
    reached = np.column_stack([table["drafts"].to_numpy(dtype=float), accepted[:, :-1]])
    return reached, accepted


UNTOLD = "accepted tokens by position are not told, or drafts vary in length so that a position is not always tried"


def positions_alive(measured: Measured) -> pd.DataFrame:
    """No draft position is never accepted."""
    table = _positions(measured)
    if table is None:
        return undecided(_drafting_arms(measured), UNTOLD)
    reached, accepted = _by_position(table)
    dead = (accepted == 0) & (reached >= ENOUGH_TRIALS)
    table["dead"] = np.where(dead.any(axis=1), dead.argmax(axis=1), -1)
    table["tries"] = [row[max(at, 0)] for row, at in zip(reached, table["dead"], strict=True)]
    return findings(
        table,
        np.where(np.isfinite(accepted).any(axis=1), dead.sum(axis=1), np.nan),
        ~dead.any(axis=1),
        holds="every position is accepted at times",
        fails=lambda row: (
            f"draft position {row.dead} was reached {row.tries:.0f} times and never accepted: its weights were not "
            "loaded or its inputs are wrong; mend the drafter, or do not draft so far"
        ),
        unknown=UNTOLD,
    )


def positions_steady(measured: Measured) -> pd.DataFrame:
    """Acceptance falls from position to position, but off no cliff."""
    table = _positions(measured)
    if table is None:
        return undecided(_drafting_arms(measured), UNTOLD)
    reached, accepted = _by_position(table)
    with np.errstate(invalid="ignore", divide="ignore"):
        given = np.where(reached >= ENOUGH_TRIALS, accepted / reached, np.nan)
        ratio = given[:, 1:] / given[:, :-1] if given.shape[1] > 1 else np.full((len(given), 1), np.nan)
    fell = np.nan_to_num(ratio, nan=np.inf)
    table["at"] = fell.argmin(axis=1) + 1
    return findings(
        table,
        np.where(np.isfinite(fell.min(axis=1)), fell.min(axis=1), np.nan),
        fell.min(axis=1) >= COLLAPSE,
        holds="acceptance falls off no cliff",
        fails=lambda row: (
            f"draft position {row.at} is accepted {row.value:.2f} times as often as the one before it, given that it "
            "was reached: later positions are broken (a wrong hidden state, a cache that is not rolled back)"
        ),
        unknown="fewer than two positions, too few drafts, or " + UNTOLD,
    )


CHECKS = (
    Check("drafts_when_asked", "block", "drafts exactly where they are asked for", drafts_when_asked),
    Check("draft_length", "block", "N a step, less only at an answer's end (gated: at most N)", draft_length),
    Check("lever_live", "block", "no other flags with the same drafts in every request", lever_live),
    Check(
        "positions_alive",
        "block",
        f"accepted at least once in {ENOUGH_TRIALS}",
        positions_alive,
        of_drafts=True,
    ),
    Check(
        "positions_steady",
        "warn",
        f"at least {COLLAPSE:g} of the position before",
        positions_steady,
        of_drafts=True,
    ),
)
