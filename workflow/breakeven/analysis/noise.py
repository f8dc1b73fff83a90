"""How much launches differ for no reason, and what that allows to be seen (Method 4).

The replicate is the launch. `y` is always rounds x arms: the log of a time, one launch a value, arm 0 the
baseline. Round and arm are additive: what is left of y after both is noise.
"""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import optimize, stats

from breakeven.analysis.estimate import Estimate, absent, exponential, point, symmetric
from breakeven.errors import BreakevenError

POWER = 0.8
"""Chance of seeing an effect of the minimum detectable size."""
SLOT_ALPHA = 0.01
"""Level at which the first slot of a round counts as different: launches there are known to start cold."""
MOST_ROUNDS = 64
NOISE_QUANTILES = 512


@dataclass(frozen=True)
class Noise:
    """Launch noise of y: sd of one launch, its degrees of freedom, and the sd of each arm's residuals."""

    sd: float
    df: int
    rounds: int
    arm_sds: tuple[float, ...]

    @property
    def spread(self) -> float:
        """Largest over smallest residual sd of an arm; inf when one has none."""
        return max(self.arm_sds) / min(self.arm_sds) if min(self.arm_sds) > 0 else math.inf


def residuals(y: np.ndarray) -> np.ndarray:
    """y (.., rounds, arms) without its round and arm means."""
    rest: np.ndarray = (
        y - y.mean(-1, keepdims=True) - y.mean(-2, keepdims=True) + y.mean((-1, -2), keepdims=True)
    )
    return rest


def launch_noise(y: np.ndarray) -> Noise:
    """Two-way analysis of variance of one data set, rounds x arms.

    Raises BreakevenError with fewer than two rounds or arms, or a value that is not finite.
    """
    rounds, arms = y.shape
    if rounds < 2 or arms < 2 or not np.isfinite(y).all():
        raise BreakevenError(
            f"{rounds} rounds of {arms} arms, {np.isfinite(y).sum()} finite values; an error needs two "
            "complete rounds of two arms: add rounds"
        )
    rest = residuals(y)
    df = (rounds - 1) * (arms - 1)
    by_arm = np.sqrt((rest**2).sum(0) / (rounds - 1))
    return Noise(math.sqrt((rest**2).sum() / df), df, rounds, tuple(by_arm.tolist()))


def noise_floor(sd: float, df: int, rounds: int, alpha: float) -> float:
    """t*sqrt(2/R)*s: the largest |log ratio| that the baseline shows against itself at level alpha."""
    return float(stats.t.ppf(1 - alpha / 2, df) * math.sqrt(2 / rounds) * sd)


def same_arm_test(p_values: list[float], alpha: float) -> bool:
    """One familywise test that the baseline equals its twin in every cell (Bonferroni); True: no difference.

    Cell by cell at alpha, nine cells would fail 37 % of good runs.
    """
    return not p_values or min(p_values) * len(p_values) > alpha


def detectable(se: float, df: int, critical: float, power: float = POWER) -> float:
    """The |log ratio| that a two-sided t test with this critical value finds with the given power.

    The noncentral t as a mean over the estimated noise: scipy.stats.nct gives NaN at few degrees of freedom.
    """
    sd = np.sqrt(stats.chi2.ppf((np.arange(NOISE_QUANTILES) + 0.5) / NOISE_QUANTILES, df) / df)

    def missing(shift: float) -> float:
        found = stats.norm.sf(critical * sd - shift) + stats.norm.cdf(-critical * sd - shift)
        return float(found.mean()) - power

    return float(optimize.brentq(missing, 0.0, 4 * critical + 10, xtol=1e-6)) * se


def rounds_needed(sd: float, arms: int, effect: float, alpha: float, power: float = POWER) -> int | None:
    """Fewest rounds that find a log ratio of `effect` with the given power; None: more than MOST_ROUNDS."""
    for rounds in range(2, MOST_ROUNDS + 1):
        df = (rounds - 1) * (arms - 1)
        critical = float(stats.t.ppf(1 - alpha / 2, df))
        if detectable(sd * math.sqrt(2 / rounds), df, critical, power) <= abs(effect):
            return rounds
    return None


@dataclass(frozen=True)
class SlotEffect:
    """How much slower the first slot of a round is (log), and whether that stands out from the noise."""

    log_effect: float | None
    p: float | None
    present: bool
    reason: str | None = None


def slot_effect(y: np.ndarray, slots: np.ndarray) -> SlotEffect:
    """Effect of being launched first in the round, given round and arm; `slots` has the shape of y."""
    first = (slots == 0).astype(float)
    free = residuals(first)
    weight = float((free**2).sum())
    df = (y.shape[0] - 1) * (y.shape[1] - 1) - 1
    if weight < 1e-9 or df < 1:
        return SlotEffect(None, None, False, "the first slot cannot be told from an arm or a round")
    effect = float((free * y).sum() / weight)
    rest = residuals(y - effect * first)
    se = math.sqrt((rest**2).sum() / df / weight)
    if se == 0:
        return SlotEffect(effect, None, False, "no noise to compare with")
    p = float(2 * stats.t.sf(abs(effect) / se, df))
    return SlotEffect(effect, p, p < SLOT_ALPHA)


@dataclass(frozen=True)
class Drift:
    """Change of the baseline's seconds per token per hour (log), and over the whole experiment."""

    per_hour: Estimate
    over_all: float | None
    flagged: bool | None
    reason: str


def drift(started_at: np.ndarray, log_t0: np.ndarray, margin: float, alpha: float = 0.05) -> Drift:
    """Regress the baseline's log t0 on launch time (s). Flagged: certain, and larger than the margin."""
    known = np.isfinite(started_at) & np.isfinite(log_t0)
    hours, values = (started_at[known] - started_at[known].min(initial=np.inf)) / 3600, log_t0[known]
    if len(values) < 3 or np.ptp(hours) == 0:
        why = f"{len(values)} baseline launches with a time: three are wanted for a drift"
        return Drift(absent(why), None, None, why)
    line = stats.linregress(hours, values)
    half = float(stats.t.ppf(1 - alpha / 2, len(values) - 2)) * line.stderr
    total = float(line.slope * np.ptp(hours))
    flagged = bool(abs(line.slope) > half and abs(total) > margin)
    words = f"the baseline's time per token changed by {math.expm1(total):+.1%} in {np.ptp(hours):.2f} h"
    return Drift(symmetric(line.slope, half), total, flagged, words)


def unpaired(arm: np.ndarray, baseline: np.ndarray, alpha: float) -> Estimate:
    """E9, Welch: exp(mean difference) of log values that share no rounds; an indication, not a verdict.

    Its interval holds launch noise only: what differs between sessions or hours is not in it.
    """
    arm, baseline = arm[np.isfinite(arm)], baseline[np.isfinite(baseline)]
    if not (arm.size and baseline.size):
        return absent("no launches to compare")
    shift = float(arm.mean() - baseline.mean())
    if min(arm.size, baseline.size) < 2:
        return point(math.exp(shift), "one launch per arm has no usable error")
    interval = stats.ttest_ind(arm, baseline, equal_var=False).confidence_interval(1 - alpha)
    return exponential(shift, float(interval.high - interval.low) / 2)


@dataclass(frozen=True)
class RecordShift:
    """Today's baseline against the last on record for the same setting."""

    ratio: float | None
    flagged: bool | None
    reason: str


def against_record(tok_s: float, recorded_tok_s: float | None, margin: float) -> RecordShift:
    """Today's baseline tok/s over that on record; no interval, since launch noise says nothing about days."""
    if recorded_tok_s is None:
        return RecordShift(None, None, "no baseline on record for this setting")
    ratio = tok_s / recorded_tok_s
    words = f"the baseline runs at {tok_s:.2f} tok/s, {ratio:.3f} of the {recorded_tok_s:.2f} on record"
    return RecordShift(ratio, abs(math.log(ratio)) > margin, words)


def shared_rounds(launches: pd.DataFrame, baseline: str) -> pd.Series:
    """Whether each launch belongs to its round's baseline: same session, no other round's launch between.

    `launches`: arm, round, started_at (s), session. A re-measured arm leaves its rounds.
    """
    ordered = launches.sort_values("started_at", kind="stable", na_position="last")
    number = ordered["round"].astype(int)
    unbroken = (number != number.shift()).cumsum()
    block = (
        unbroken.where(ordered["started_at"].notna(), -1).astype(str) + ":" + ordered["session"].astype(str)
    )
    own = ordered[ordered["arm"] == baseline]
    of_round = dict(zip(number[own.index], block[own.index], strict=True))
    same = block == number.map(of_round)
    return same.reindex(launches.index)
