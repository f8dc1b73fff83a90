"""Acceptance from counts (Method 2): what the counters identify, and for the rest the reason why they do not.

accepted/drafted is the mean of the survival curve, not the per-token alpha of the i.i.d. formula, and 1 + A/D
is the tokens of a step *with* drafts: only L = (P - 1)/(D + U) says how many tokens a step gives.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd

from breakeven.analysis.cost import conditional
from breakeven.analysis.estimate import Estimate, absent, mean_t, point

UNIDENTIFIED = "position survival not identified because "
VARYING = UNIDENTIFIED + "draft lengths vary: how often position i was drafted is not counted"
CUT = "outputs are short: the last drafts of each are cut at its length limit, so later positions read low"
CUT_SHARE = 0.98
"""Share of the asked draft tokens below which cut drafts are worth a remark."""
POOLED = "all requests pooled; the interval over prompts stands beside it"
DEFINITIONS = {
    "rate": "accepted draft tokens / draft tokens submitted",
    "length_drafted": "1 + accepted / drafts: tokens of a step that verified drafts, bonus token included",
    "length": "(completion tokens - 1) / all decode steps",
    "survival": "accepted at position i / drafts; position 1 first",
    "conditional": "survival at i / survival at i - 1",
}
"""What the figures mean here; engines print others under the same names, so they come from counts."""


@dataclass(frozen=True)
class Counts:
    """Sums over requests; None where one of them is not known. `generated` is P - 1 summed."""

    requests: int
    generated: int | None = None
    drafts: int | None = None
    draft_tokens: int | None = None
    accepted: int | None = None
    undrafted: int | None = None
    steps: int | None = None
    per_position: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Acceptance:
    """Rates and lengths of Method 2; what the counts do not identify is None with its reason."""

    counts: Counts
    rate: Estimate
    length_drafted: Estimate
    length: Estimate
    draft_length: Estimate
    survival: tuple[float, ...] | None
    conditional: tuple[float | None, ...] | None
    reason: str | None


def pool(rows: pd.DataFrame) -> Counts:
    """Sum rows of a CELLS or PROMPTS table; a count that one row lacks is None."""
    if rows.empty:
        return Counts(0)

    def total(name: str) -> int | None:
        values = rows[name]
        return None if values.isna().any() else int(values.sum())

    requests, completion = total("requests"), total("completion_tokens")
    lists = [values for values in rows["accepted_per_pos"] if values is not None and len(values)]
    same = len(lists) == len(rows) and len({len(values) for values in lists}) == 1
    return Counts(
        requests=requests or 0,
        generated=None if completion is None or requests is None else completion - requests,
        drafts=total("drafts"),
        draft_tokens=total("draft_tokens"),
        accepted=total("accepted"),
        undrafted=total("undrafted"),
        steps=total("steps"),
        per_position=tuple(np.sum(lists, axis=0).tolist()) if same else None,
    )


def mean_drafted(counts: Counts) -> float | None:
    """M/(D + U): draft tokens a step on average, a little below N where outputs end inside a draft."""
    return counts.draft_tokens / counts.steps if counts.draft_tokens is not None and counts.steps else None


def acceptance(counts: Counts, n_spec: int | None = None, *, gated: bool = False) -> Acceptance:
    """Every quantity of Method 2 that the counts identify. `gated`: drafts may be shorter than n_spec.

    Without a gate a request ends inside a draft at most: its last drafts shrink from N to 1.
    """
    d, m, a = counts.drafts, counts.draft_tokens, counts.accepted
    nothing = "nothing was drafted"
    survival, reason = _survival(counts, n_spec, gated)
    return Acceptance(
        counts=counts,
        rate=_ratio(a, m, "accepted or draft tokens are not counted", nothing),
        length_drafted=_ratio(
            None if a is None or d is None else d + a, d, "drafts are not counted", nothing
        ),
        length=_ratio(counts.generated, counts.steps, "steps are not known", "no step was made"),
        draft_length=_ratio(m, d, "drafts are not counted", nothing),
        survival=survival,
        conditional=None if survival is None else conditional(survival),
        reason=reason,
    )


def _ratio(above: int | None, below: int | None, unknown: str, zero: str) -> Estimate:
    if above is None or below is None:
        return absent(unknown)
    return point(above / below, POOLED) if below > 0 else absent(zero)


def _survival(counts: Counts, n_spec: int | None, gated: bool) -> tuple[tuple[float, ...] | None, str | None]:
    d, m = counts.drafts, counts.draft_tokens
    if counts.per_position is None:
        return None, UNIDENTIFIED + "accepted tokens are not counted by position"
    if d is None or m is None or counts.accepted is None:
        return None, UNIDENTIFIED + "drafts are not counted"
    if d == 0:
        return None, UNIDENTIFIED + "nothing was drafted"
    if round(sum(counts.per_position)) != counts.accepted:
        return None, (
            f"{UNIDENTIFIED}the positions sum to {sum(counts.per_position):g} and the accepted tokens to "
            f"{counts.accepted}"
        )
    longest = n_spec or len(counts.per_position)
    if gated or d * longest - m > counts.requests * longest * (longest - 1) / 2:
        return None, VARYING
    survival = tuple(min(1.0, count / d) for count in counts.per_position[:longest])
    if any(later > earlier for earlier, later in pairwise(survival)):
        return None, UNIDENTIFIED + "a later position was accepted more often"
    return survival, CUT if m < CUT_SHARE * d * longest else None


def over_prompts(prompts: pd.DataFrame, quantity: str, alpha: float) -> Estimate:
    """Mean and t interval of `rate` or `length` over prompts, the clusters of the workload.

    Binomial intervals over tokens cover 54 % instead of 95 %: a prompt's tokens hang together (Method 4).
    """
    return mean_t(prompts[quantity].to_numpy(dtype=float, na_value=np.nan), alpha, "prompt")
