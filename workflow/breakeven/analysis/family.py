"""Several arms against one baseline: intervals and claims that hold together, and equality (Method 4)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from breakeven.analysis.steps import Contrasts, t_half
from breakeven.errors import BreakevenError


@dataclass(frozen=True)
class Simultaneous:
    """Critical value of a family of comparisons with one baseline, and how it was found."""

    critical: float
    method: str


def dunnett_critical(cov: np.ndarray, df: int, alpha: float) -> float:
    """c with P(max |T_i| <= c) = 1 - alpha under the correlations of `cov` (multivariate t, root finding)."""
    k = len(cov)
    if k == 1:
        return t_half(alpha, df)
    sd = np.sqrt(np.diag(cov))
    law = stats.multivariate_t(shape=cov / np.outer(sd, sd), df=df, seed=0)

    def outside(c: float) -> float:
        inside = law.cdf(np.full(k, c), lower_limit=np.full(k, -c), random_state=np.random.default_rng(0))
        return 1 - float(inside) - alpha

    return float(optimize.brentq(outside, t_half(alpha, df) * 0.98, t_half(alpha / k, df) * 1.02, xtol=1e-4))


def family(found: Contrasts, arms: Sequence[str], alpha: float) -> Simultaneous:
    """Critical value for `arms` against the baseline: Dunnett on E8's covariance, Bonferroni under E5."""
    if not arms:
        raise BreakevenError("no arm to compare with the baseline")
    if found.estimator == "E5":
        return Simultaneous(t_half(alpha / len(arms), found.df), "E5, Bonferroni")
    index = [found.arms.index(arm) for arm in arms]
    return Simultaneous(dunnett_critical(found.cov[np.ix_(index, index)], found.df, alpha), "E8, Dunnett")


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p values, in the order given: for the claim that some arm wins somewhere."""
    order = np.argsort(p_values)
    sizes = len(p_values) - np.arange(len(p_values))
    adjusted = np.minimum(1.0, np.maximum.accumulate(np.asarray(p_values)[order] * sizes))
    result = np.empty(len(p_values))
    result[order] = adjusted
    return result.tolist()


def equivalent(log_ratio: float, se: float, df: int, margin: float, alpha: float) -> bool:
    """Two one-sided t tests: the ratio is inside 1 +- margin at level alpha."""
    t = float(stats.t.ppf(1 - alpha, df))
    if margin >= 1:
        return False  # noise that could hide everything proves no equality
    return math.log1p(-margin) < log_ratio - t * se and log_ratio + t * se < math.log1p(margin)
