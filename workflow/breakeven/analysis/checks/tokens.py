"""Are tokens and drafts counted right? The same tokens by several counts, and bounds that no engine can leave.

An engine that counts accepted tokens past the length limit has a surplus of at most N a request, one that cuts its
last draft has a last step without drafts (Method 2).
"""

from typing import Any

import numpy as np
import pandas as pd

from breakeven.analysis.cells import TG
from breakeven.analysis.checks.check import Check, findings, undecided
from breakeven.analysis.checks.measured import CELL, LAUNCH, Measured, counted

MOST_POSITIONS = 1000
"""More draft positions than any drafter has: numbers counter and position together."""


def by_cell(frame: pd.DataFrame, **columns: Any) -> Any:
    """The columns grouped by arm, round, depth and class."""
    return frame[CELL].assign(**columns).groupby(CELL, observed=True, sort=False)


def same_counts(requests: pd.DataFrame, apart: Any, *, what: str, remedy: str, unknown: str) -> pd.DataFrame:
    """FINDING rows: two counts of the same thing, `apart` in each request (NaN: not both known), agree in a cell."""
    groups = by_cell(requests, known=apart.notna(), differ=apart > 0, apart=apart)
    table = groups.agg(known=("known", "sum"), differ=("differ", "sum"), worst=("apart", "max")).reset_index()
    return findings(
        table,
        table["worst"],
        table["differ"] == 0,
        holds=f"{what} agree",
        fails=lambda row: (
            f"{what} differ in {row.differ} of {row.known} requests, by up to {row.worst:g}; {remedy}"
        ),
        unknown=unknown,
    )


def _finished(measured: Measured) -> pd.DataFrame:
    """Requests with a last event, whether or not as many tokens came as were asked for."""
    ended = measured.requests["stop"].notna() & measured.requests["completion_tokens"].notna()
    finished: pd.DataFrame = measured.requests[ended]
    return finished


def usage_equals_ids(measured: Measured) -> pd.DataFrame:
    """The server's own count of completion tokens is the number of token ids that came."""
    tg = _finished(measured)
    return same_counts(
        tg,
        (tg["completion_tokens"].astype(float) - tg["id_tokens"].astype(float)).abs(),
        what="the server's count of completion tokens and the token ids received",
        remedy="one of them is wrong, so no rate can be given: look at the stream of one request by hand",
        unknown="the server sends no token ids (a newer build does), so its count has no witness",
    )


def counters_equal_usage(measured: Measured) -> pd.DataFrame:
    """The process-wide counter moved by at least this request's tokens."""
    tg = _finished(measured)
    missing = tg["completion_tokens"].astype(float) - counted(tg, "completion_tokens")
    return same_counts(
        tg,
        missing.clip(lower=0),
        what="the tokens of each answer and what the server's counter moved by",
        remedy="the counter is late or belongs to another server: acceptance from it cannot be used",
        unknown="the server exposes no counter of completion tokens",
    )


def timings_equal_counters(measured: Measured) -> pd.DataFrame:
    """Drafted and accepted tokens by the request's timings equal those by the counters around it."""
    tg = measured.tg
    drafted, accepted = (
        (tg[name].astype(float) - counted(tg, name)).abs() for name in ("draft_tokens", "accepted_tokens")
    )
    return same_counts(
        tg,
        np.fmax(drafted, accepted),
        what="drafts by the request's timings and by the server's counters",
        remedy="one of the two also counts something else; look for other traffic and for a changed definition",
        unknown="the server tells drafts in one place only",
    )


def _sums(measured: Measured) -> pd.DataFrame:
    """Sums per cell of the arms that draft; NaN where one request lacks the count."""
    tg = measured.tg[measured.tg["drafting"]]
    positions = [name for name in tg if str(name).startswith("pos_")]
    tg = tg.assign(
        after_prefill=tg["completion_tokens"] - tg["first_event_tokens"].fillna(1),
        after_first=tg["completion_tokens"] - 1.0,
        requests=1.0,
        positions=tg[positions].sum(axis=1, min_count=1) if positions else np.nan,
    )
    names = ["after_prefill", "after_first", "requests", "drafts", "drafted", "accepted", "positions"]
    groups = tg.groupby(CELL, observed=True, sort=False)
    sums = groups[names].sum(skipna=False, min_count=1) if len(tg) else groups[names].sum()
    counted_positions = groups[positions].sum(min_count=1)
    arm = groups[["n_spec", "gated"]].first()
    return sums.join([counted_positions, arm]).reset_index()


def conservation(measured: Measured) -> pd.DataFrame:
    """Every decode step emits one token more than it accepts: drafts + accepted match the tokens (Method 2)."""
    table = _sums(measured)
    total = table["drafts"] + table["accepted"]
    least = table["after_prefill"] - table["requests"]
    most = table["after_first"] + table["requests"] * table["n_spec"]
    missing = (least - total).where(~table["gated"], -np.inf)
    excess = (total - most).clip(lower=missing)
    table = table.assign(total=total, least=np.where(table["gated"], 0, least), most=most)
    return findings(
        table,
        excess,
        excess <= 0,
        holds="drafts + accepted fit the tokens that came",
        fails=lambda row: (
            f"drafts + accepted = {row.total:.0f}, but the tokens allow {row.least:.0f} to {row.most:.0f}: counters "
            "and tokens do not speak of the same requests; acceptance and step cost cannot be used"
        ),
        unknown="steps that drafted, accepted tokens or the draft length are not told by this server",
    )


def drafts_add_up(measured: Measured) -> pd.DataFrame:
    """Accepted <= drafted, positions sum to accepted and fall with the position."""
    table = _sums(measured)
    positions = [name for name in table if str(name).startswith("pos_")]
    excess = table["accepted"] - table["drafted"]
    off = (table["positions"] - table["accepted"]).abs().fillna(0)
    counts = table[positions].to_numpy(dtype=float)
    rising = np.nan_to_num(np.diff(counts, axis=1)).max(axis=1, initial=0) if len(positions) > 1 else 0.0
    above = (table[positions[0]] - table["drafts"]).fillna(0) if positions else 0.0
    worst = np.maximum.reduce(
        [excess, off, np.full(len(table), 0.0) + rising, np.full(len(table), 0.0) + above]
    )
    return findings(
        table,
        worst,
        worst <= 0,
        holds="accepted tokens are no more than drafted ones, and add up over the positions",
        fails=lambda row: (
            f"{row.drafted:.0f} tokens were drafted, {row.accepted:.0f} accepted, {row.positions:.0f} by position: "
            "they do not add up, so this engine counts in another way; acceptance cannot be used"
        ),
        unknown="drafted or accepted tokens are not told by this server",
    )


def counters_only_rise(measured: Measured) -> pd.DataFrame:
    """No counter fell, inside a request or between two (a restart in between)."""
    counters = measured.counters
    launches = measured.launches[LAUNCH]
    if counters.empty:
        return undecided(launches, "no counters were read")
    names, _ = pd.factorize(counters["counter"])
    position = counters["position"].to_numpy(dtype=float, na_value=np.nan)
    series = names * MOST_POSITIONS + np.nan_to_num(position, nan=-1).astype(np.int64)
    order = np.lexsort((counters["request"].to_numpy(), series, counters["launch"].to_numpy()))
    before, after = (counters[name].to_numpy(dtype=float)[order] for name in ("before", "after"))
    same = np.diff(series[order], prepend=-9) == 0
    same &= np.diff(counters["launch"].to_numpy()[order], prepend=-9) == 0
    fell = np.maximum(before - after, np.where(same, np.roll(after, 1) - before, -np.inf))
    worst = pd.Series(fell).groupby(counters["launch"].to_numpy()[order], sort=False).idxmax()
    at = order[worst.to_numpy()]
    table = (
        counters[LAUNCH].iloc[at].assign(counter=counters["counter"].iloc[at], fell=fell[worst.to_numpy()])
    )
    return findings(
        table,
        table["fell"],
        table["fell"] <= 0,
        holds="no counter fell",
        fails=lambda row: (
            f"counter {row.counter} fell by {row.fell:g}: the server restarted, or another one answered; "
            "measure this launch again"
        ),
    )


def runs_full_length(measured: Measured) -> pd.DataFrame:
    """Where decoding must go on past the natural end, every request has the tokens that were asked for."""
    tg = measured.requests[measured.requests["kind"] == TG]
    guided = [
        name
        for name, keys in measured.experiment["workload"].get("prompts", {}).items()
        if (keys or {}).get("schema")
    ]
    tg = tg[~tg["prompt_class"].isin(guided) & tg["completion_tokens"].notna()]
    short = tg["completion_tokens"] < tg["asked_tokens"]
    ended = short | ~tg["stop"].fillna("limit").isin(["limit", "length"])
    groups = by_cell(tg, ended=ended, all=pd.Series(1, tg.index), least=tg["completion_tokens"])
    table = groups.agg(ended=("ended", "sum"), all=("all", "sum"), least=("least", "min")).reset_index()
    return findings(
        table,
        table["ended"],
        table["ended"] == 0,
        holds="every request ran to the length asked for",
        fails=lambda row: (
            f"{row.ended} of {row.all} requests ended before the length asked for, one after {row.least:.0f} tokens: "
            "ignore_eos is not honoured; rates of short runs are not comparable, use a build that honours it"
        ),
    )


def first_event(measured: Measured) -> pd.DataFrame:
    """The first token event carries one token, as prefill gives one."""
    tg = measured.tg
    groups = by_cell(tg, first=tg["first_event_tokens"].astype(float))
    table = groups.agg(value=("first", "median")).reset_index()
    return findings(
        table,
        table["value"],
        table["value"] <= 1,
        holds="the first event carries one token",
        fails=lambda row: (
            "several tokens came with the first: it was held back, so TTFT is late and holds decode steps; decode "
            "rates leave these tokens out or stand on the server's own clock, but do not compare TTFT with another "
            "server's"
        ),
        unknown="the tokens of the first event are not told",
    )


def requests_answered(measured: Measured) -> pd.DataFrame:
    """No request failed: a failed one is left out for every arm of its round."""
    failed = measured.requests["status"] != "ok"
    table = measured.requests[[*CELL, "error"]].assign(failed=failed)
    groups = table.groupby(CELL, observed=True, sort=False)
    table = groups.agg(
        failed=("failed", "sum"), all=("failed", "size"), error=("error", "first")
    ).reset_index()
    return findings(
        table,
        table["failed"],
        table["failed"] == 0,
        holds="every request was answered",
        fails=lambda row: (
            f"{row.failed} of {row.all} requests failed and are left out in every arm; the first said: {row.error}"
        ),
    )


CHECKS = (
    Check("usage_equals_ids", "block", "equal in every request", usage_equals_ids),
    Check(
        "counters_equal_usage", "block", "no request has more tokens than were counted", counters_equal_usage
    ),
    Check("timings_equal_counters", "block", "equal in every request", timings_equal_counters),
    Check(
        "conservation",
        "block",
        "decoded tokens <= drafts + accepted <= decoded tokens + N a request (one step a request may draft nothing; "
        "gated: upper bound only)",
        conservation,
    ),
    Check("drafts_add_up", "block", "accepted <= drafted, positions sum to accepted and fall", drafts_add_up),
    Check("counters_only_rise", "block", "no counter falls", counters_only_rise),
    Check("runs_full_length", "block", "every request runs to the length asked for", runs_full_length),
    Check("first_event", "warn", "1 token", first_event),
    Check("requests_answered", "warn", "no failed request", requests_answered),
)
