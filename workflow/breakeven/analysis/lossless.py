"""Does an arm emit the tokens that the baseline emits for the same prompt?

Greedy decoding with lossless speculation must. The baseline is compared with itself first: where two runs of it
differ, numerics alone flip near-tied tokens, and an arm that differs no more than that has shown nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from breakeven.tables import CHECKS

TIE_MARGIN = 0.05
"""Top-2 margin (log probability) below which a first difference is a tie that batch numerics can flip."""

LOSSY_SHARE = 0.5
"""Share of differing outputs above which flipped ties are no explanation, margins known or not."""

LosslessClass = Literal["identical", "tie flip", "diverges", "as the baseline itself", "unknown"]
OUTPUT_COLUMNS = ("arm", "round", "rep", "kind", "status", "prompt_sha256", "output_sha256", "output_ids")


@dataclass(frozen=True)
class Lossless:
    """One arm's outputs against the baseline's on the same prompts; indices count completion tokens from 0."""

    arm: str
    prompts: int
    identical: int
    diverging: int
    share: float | None
    first_divergence: int | None
    median_divergence: float | None
    kind: LosslessClass
    reason: str


def compare(
    requests: pd.DataFrame, baseline: str, twins: Sequence[str] = (), margins: pd.DataFrame | None = None
) -> list[Lossless]:
    """Every arm against the baseline; first the baseline against its twins and its own further runs.

    `requests`: OUTPUT_COLUMNS of the decode requests. `margins`: prompt_sha256, token (index), margin of the
    baseline's top two, where an engine gives them; without it a divergence cannot be called a tie.
    """
    tg = requests[
        (requests["kind"] == "tg") & (requests["status"] == "ok") & requests["output_sha256"].notna()
    ]
    own = tg[tg["arm"] == baseline]
    reference = own.drop_duplicates("prompt_sha256").set_index("prompt_sha256")
    again = own[own.duplicated("prompt_sha256")]
    itself = _arm(baseline, pd.concat([again, tg[tg["arm"].isin(twins)]]), reference, margins)
    others = [arm for arm in dict.fromkeys(requests["arm"]) if arm != baseline and arm not in twins]
    found = [_arm(arm, tg[tg["arm"] == arm], reference, margins) for arm in others]
    return [itself, *(_excused(arm, itself.share) for arm in found)]


def _arm(arm: str, rows: pd.DataFrame, reference: pd.DataFrame, margins: pd.DataFrame | None) -> Lossless:
    rows = rows[rows["prompt_sha256"].isin(reference.index)]
    if rows.empty:
        return Lossless(
            arm, 0, 0, 0, None, None, None, "unknown", "no output on a prompt that the baseline had too"
        )
    expected = reference.loc[rows["prompt_sha256"]]
    differs = rows["output_sha256"].to_numpy() != expected["output_sha256"].to_numpy()
    pairs = zip(
        rows["prompt_sha256"][differs],
        expected["output_ids"][differs],
        rows["output_ids"][differs],
        strict=True,
    )
    places = [(sha, first_difference(a, b)) for sha, a, b in pairs]
    known = [place for _, place in places if place is not None]
    count, total = int(differs.sum()), len(rows)
    share = count / total
    first, median = (min(known), float(np.median(known))) if known else (None, None)
    if not count:
        return Lossless(
            arm, total, total, 0, 0.0, None, None, "identical", f"all {total} outputs are identical"
        )
    ties = _ties(places, margins)
    words = f"{count} of {total} outputs differ from the baseline's, the first at token {first}"
    if ties:
        return Lossless(
            arm, total, total - count, count, share, first, median, "tie flip", words + ", all at near-ties"
        )
    unsure = "" if margins is not None else "; top-2 margins were not recorded"
    return Lossless(arm, total, total - count, count, share, first, median, "diverges", words + unsure)


def first_difference(a: np.ndarray | None, b: np.ndarray | None) -> int | None:
    """Index of the first token that differs, or the shorter length when one output ends early; None: equal, unknown."""
    if a is None or b is None:
        return None
    common = min(len(a), len(b))
    different = np.flatnonzero(np.asarray(a)[:common] != np.asarray(b)[:common])
    if different.size:
        return int(different[0])
    return None if len(a) == len(b) else common


def _ties(places: list[tuple[str, int | None]], margins: pd.DataFrame | None) -> bool:
    if margins is None:
        return False
    known = margins.set_index(["prompt_sha256", "token"])["margin"]
    return all(place is not None and known.get((sha, place), np.inf) < TIE_MARGIN for sha, place in places)


def _excused(arm: Lossless, noisy: float | None) -> Lossless:
    """A divergence hardly more frequent than that of the baseline against itself shows nothing about the arm."""
    if arm.kind != "diverges" or not noisy or arm.share is None or arm.share > 2 * noisy:
        return arm
    words = f"{arm.reason}; two runs of the baseline differ in {noisy:.0%} of outputs themselves"
    return replace(arm, kind="as the baseline itself", reason=words)


def checks(
    found: Sequence[Lossless], experiment: str, *, margins_known: bool, block: bool = True
) -> pd.DataFrame:
    """Rows of the checks table: an arm fails when its outputs differ and near-ties do not explain it.

    Without margins, up to LOSSY_SHARE of differing outputs leave the question open (passed is null).
    `block`: whether a failure makes an arm's cells invalid; the baseline against itself, the first, only warns.
    """
    rows = []
    for arm in found:
        passed: bool | None = arm.kind in ("identical", "tie flip", "as the baseline itself")
        if arm.kind == "unknown" or (
            arm.kind == "diverges"
            and not margins_known
            and arm.share is not None
            and arm.share <= LOSSY_SHARE
        ):
            passed = None
        rows.append(
            {
                "experiment": experiment,
                "arm": arm.arm,
                "check": "lossless",
                "severity": "block" if block and arm is not found[0] else "warn",
                "passed": passed,
                "value": arm.share,
                "allowed": "outputs equal to the baseline's, near-ties apart",
                "reason": arm.reason,
            }
        )
    return pd.DataFrame(rows, columns=CHECKS.names)
