"""Step times of arms against the baseline, with intervals that cover: the two estimators and which to use.

Method 4. E8: two-way analysis of variance of log times, rounds x arms; Cov(log C) = s^2/R*(I + 11') with
(R-1)(A-1) degrees of freedom. E5: every round on its own, mean +- t*sd/sqrt(R). Neither is moved by drift.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from breakeven.analysis.noise import Noise, SlotEffect, launch_noise, residuals, slot_effect

E5_FROM_ROUNDS = 5
E5_SPREAD = 3.0
"""Ratio of residual sds between arms above which one pooled noise is not believed."""
FAMILY_SPREAD = 2.0
"""The same for verdicts from five rounds on: residuals understate the ratio, and chance seldom gives 2 any more."""

SLOT_DF = 4
"""Degrees of freedom that must be left beside the first slot's effect; below, the random order has to do."""


@dataclass(frozen=True)
class Contrasts:
    """log(arm) - log(baseline) of each arm but the baseline, its covariance, and the rounds it came from."""

    arms: tuple[str, ...]
    log: np.ndarray
    cov: np.ndarray
    df: int
    per_round: np.ndarray
    noise: Noise
    slot: SlotEffect
    estimator: str
    why: str

    def only(self, arms: Sequence[str]) -> "Contrasts":
        """The same comparison, seen for these arms alone; noise and degrees of freedom stay those of all."""
        i = [self.arms.index(arm) for arm in arms]
        return replace(
            self,
            arms=tuple(arms),
            log=self.log[i],
            cov=self.cov[np.ix_(i, i)],
            per_round=self.per_round[:, i],
        )

    def se(self, arm: str) -> float:
        """Standard error of one arm's log ratio."""
        i = self.arms.index(arm)
        return math.sqrt(self.cov[i, i])

    def of(self, arm: str) -> float:
        """One arm's log ratio to the baseline."""
        return float(self.log[self.arms.index(arm)])


def e8(y: np.ndarray, first: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """(log ratios (.., k), s^2 (..), unit covariance (k, k), df) of y (.., rounds, arms), arm 0 the baseline.

    Leading axes are further data sets. `first` (rounds, arms), 1 for the first launch of a round, takes that
    slot's effect out for one degree of freedom.
    """
    rounds, arms = y.shape[-2:]
    df = (rounds - 1) * (arms - 1)
    unit = (np.eye(arms - 1) + 1) / rounds
    if first is not None:
        free = residuals(first)
        weight = (free**2).sum()
        y = y - (free * y).sum((-1, -2), keepdims=True) / weight * first
        share = first.mean(0)[1:] - first.mean(0)[0]
        unit, df = unit + np.outer(share, share) / weight, df - 1
    means = y.mean(-2)
    s2 = (residuals(y) ** 2).sum((-1, -2)) / df
    return means[..., 1:] - means[..., :1], s2, unit, df


def e5(per_round: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """(means (.., k), their covariance (.., k, k), df) of values (.., rounds, k) that each round gives."""
    rounds = per_round.shape[-2]
    means = per_round.mean(-2)
    away = per_round - means[..., None, :]
    return means, np.swapaxes(away, -1, -2) @ away / (rounds - 1) / rounds, rounds - 1


def pick(rounds: int, spread: float) -> tuple[str, str]:
    """(estimator, reason) by Method 4: E5 from five rounds on or when the arms' noise differs, else E8."""
    if rounds >= E5_FROM_ROUNDS:
        return "E5", f"{rounds} rounds: every round is fitted alone"
    if spread > E5_SPREAD and rounds > 2:
        return "E5", f"the arms' noise differs by {spread:.1f} times: every round is fitted alone"
    return "E8", f"{rounds} rounds: round and arm effects, one pooled launch noise"


def family_spread(rounds: int) -> float:
    """Ratio of residual sds above which verdicts do not pool the arms' noise."""
    return E5_SPREAD if rounds < E5_FROM_ROUNDS else FAMILY_SPREAD


def family_estimator(noise: Noise) -> str:
    """The estimator for several arms against one baseline: E8 pools their noise unless it differs by arm."""
    return "E5" if noise.spread > family_spread(noise.rounds) and noise.rounds > 2 else "E8"


def contrasts(
    y: np.ndarray, arms: Sequence[str], slots: np.ndarray | None = None, *, estimator: str | None = None
) -> Contrasts:
    """Compare the arms of complete rounds: y (rounds, arms) logs of times, arm 0 the baseline.

    The first slot is a factor of E8 wherever enough is left to tell it; it is neither tested first and then left
    out, nor taken out of rounds that are fitted alone: both understate the error (simulated under the null, 5 %
    become up to 10 %). The random order then has to do. Raises BreakevenError when there is no usable error.
    """
    noise = launch_noise(y)
    slot = SlotEffect(None, None, False, "slots unknown") if slots is None else slot_effect(y, slots)
    chosen, why = pick(len(y), noise.spread)
    if estimator is not None and estimator != chosen:
        chosen, why = estimator, "asked for"
    per_round = y[:, 1:] - y[:, :1]
    if chosen == "E5":
        log, cov, df = e5(per_round)
        return Contrasts(tuple(arms[1:]), log, cov, df, per_round, noise, slot, chosen, why)
    first = None
    left = (y.shape[0] - 1) * (y.shape[1] - 1) - 1
    if slots is not None and slot.log_effect is not None and left >= SLOT_DF:
        first = (slots == 0).astype(float)
        clean = y - slot.log_effect * first
        noise, per_round = launch_noise(clean), clean[:, 1:] - clean[:, :1]
    log, s2, unit, df = e8(y, first)
    noise = Noise(math.sqrt(s2), df, len(y), noise.arm_sds)
    return Contrasts(tuple(arms[1:]), log, s2 * unit, df, per_round, noise, slot, chosen, why)


def t_half(alpha: float, df: int) -> float:
    """Two-sided t quantile."""
    return float(stats.t.ppf(1 - alpha / 2, df))
