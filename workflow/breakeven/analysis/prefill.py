"""Does the arm slow prefill down, and why (Method 5).

Two rates, because a prefix cache can shorten or lengthen the prompt: per *new* token is what a person waits for,
per *computed* token is how fast the server computed. An arm whose cache hit is shorter loses the first alone.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from breakeven.analysis.estimate import Estimate, absent, exponential
from breakeven.analysis.family import equivalent
from breakeven.analysis.steps import Contrasts, t_half

NONE_ALPHA = 0.05
"""Level of each one-sided test of equivalence: 90 % intervals inside the margin."""
SAME_TOKENS = 0.01
"""Computed tokens that differ by less than this share are the same prompt."""
DRAFT_SHARE = (0.5, 2.0)
"""Range of (extra TTFT per drafted token)/(d*t0) that is taken for drafting inside the TTFT."""

PrefillClass = Literal["regression", "none", "inconclusive"]
Cause = Literal["cache-hit length", "compute", "draft inside TTFT", "unknown"]


@dataclass(frozen=True)
class Prefill:
    """Class of one depth, with each arm's prefill rate over the baseline's."""

    kind: PrefillClass
    cause: Cause | None
    margin: float
    new: Mapping[str, Estimate]
    computed: Mapping[str, Estimate]
    slope: Estimate
    flat: bool | None
    reason: str


def rate_ratios(found: Contrasts, alpha: float) -> dict[str, Estimate]:
    """Ratio of prefill rates from contrasts of log seconds per token, with t intervals."""
    t = t_half(alpha, found.df)
    return {arm: exponential(-found.of(arm), t * found.se(arm)) for arm in found.arms}


def classify(new: Contrasts, margin: float, alpha: float) -> PrefillClass:
    """Regression: every arm's upper bound below 0 and one below -margin; none: all 90 % intervals inside it.

    `new`: contrasts of log seconds per new token.
    """
    t = t_half(alpha, new.df)
    upper = [-new.of(arm) + t * new.se(arm) for arm in new.arms]
    if max(upper) < 0 and min(upper) < math.log1p(-margin):
        return "regression"
    inside = (equivalent(-new.of(arm), new.se(arm), new.df, margin, NONE_ALPHA) for arm in new.arms)
    return "none" if all(inside) else "inconclusive"


def slope(new: Contrasts, n_spec: Mapping[str, int], margin: float) -> tuple[Estimate, bool | None]:
    """Change of the log rate ratio per drafted token (90 % interval) and whether it is flat over the tested N."""
    n = np.array([n_spec[arm] for arm in new.arms if arm in n_spec], dtype=float)
    if len(set(n)) < 2:
        return absent("one draft length has no slope"), None
    index = [new.arms.index(arm) for arm in new.arms if arm in n_spec]
    weights = (n - n.mean()) / ((n - n.mean()) ** 2).sum()
    value = -float(weights @ new.log[index])
    se = math.sqrt(weights @ new.cov[np.ix_(index, index)] @ weights)
    half = float(stats.t.ppf(1 - NONE_ALPHA, new.df)) * se
    span, bound = np.ptp(n), math.log1p(margin)
    low, high = (value - half) * span, (value + half) * span
    flat = True if -bound < low and high < bound else False if low > 0 or high < 0 else None
    return Estimate(value, value - half, value + half), flat


def cause(
    kind: PrefillClass,
    computed: Contrasts | None,
    computed_tokens: Mapping[str, float],
    baseline: str,
    margin: float,
    alpha: float,
    *,
    regresses_at_zero: bool | None,
    ttft_s: Mapping[str, float],
    n_spec: Mapping[str, int],
    draft_pass_s: float | None,
) -> tuple[Cause | None, str]:
    """What a regression comes from, as far as the figures tell, with the reason in words.

    `computed_tokens`, `ttft_s`: means by arm, baseline included; `draft_pass_s`: seconds of one draft (d*t0).
    """
    if kind != "regression":
        return None, "no regression to explain"
    base = computed_tokens.get(baseline)
    more = {arm: tokens / base - 1 for arm, tokens in computed_tokens.items() if base and arm != baseline}
    slower = computed is not None and classify(computed, margin, alpha) == "regression"
    if more and min(more.values()) > SAME_TOKENS and computed is not None and not slower:
        worst = max(more.values())
        return (
            "cache-hit length",
            f"the arms computed up to {worst:.0%} more prompt tokens and no token more slowly",
        )
    per_draft = _extra_seconds_per_draft(ttft_s, baseline, n_spec)
    if per_draft is not None and draft_pass_s and draft_pass_s > 0:
        share = per_draft / draft_pass_s
        if DRAFT_SHARE[0] <= share <= DRAFT_SHARE[1]:
            return (
                "draft inside TTFT",
                f"TTFT grows by {per_draft * 1e3:.2f} ms a drafted token, {share:.1f} draft passes",
            )
    if slower and regresses_at_zero:
        return "compute", "a computed token takes longer, at depth 0 too"
    return (
        "unknown",
        "neither cache length, nor drafting, nor the time per computed token at depth 0 explains it",
    )


def _extra_seconds_per_draft(
    ttft_s: Mapping[str, float], baseline: str, n_spec: Mapping[str, int]
) -> float | None:
    """Least squares through the baseline: extra TTFT = slope*N."""
    arms = [arm for arm in n_spec if arm in ttft_s]
    if not arms or baseline not in ttft_s:
        return None
    n = np.array([n_spec[arm] for arm in arms], dtype=float)
    extra = np.array([ttft_s[arm] - ttft_s[baseline] for arm in arms])
    return float(n @ extra / (n @ n))
