"""A number with its interval, or the reason why there is none."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats


@dataclass(frozen=True)
class Estimate:
    """`value` with an interval `low` to `high`; whatever is None has its `reason`."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None

    @property
    def bounded(self) -> bool:
        """Whether there is an interval to decide on."""
        return self.low is not None and self.high is not None


def absent(reason: str) -> Estimate:
    """A quantity that is not known, and why."""
    return Estimate(reason=reason)


def point(value: float, reason: str) -> Estimate:
    """A value without an interval, and why it has none."""
    return Estimate(value=finite(value), reason=reason)


def symmetric(value: float, half_width: float) -> Estimate:
    """value +- half_width."""
    return Estimate(finite(value), finite(value - half_width), finite(value + half_width))


def exponential(log_value: float, half_width: float) -> Estimate:
    """An interval that is symmetric in the logarithm, such as that of a ratio."""
    value, low, high = (math.exp(log_value + shift) for shift in (0.0, -half_width, half_width))
    return Estimate(finite(value), finite(low), finite(high))


def mean_t(values: Sequence[float] | np.ndarray, alpha: float, what: str) -> Estimate:
    """Mean of independent values and its t interval of level 1 - alpha; `what` names one of them."""
    known = np.asarray(values, dtype=float)
    known = known[np.isfinite(known)]
    if known.size == 0:
        return absent(f"no {what} has a value")
    if known.size == 1:
        return point(float(known[0]), f"one {what} alone")
    half = float(stats.t.ppf(1 - alpha / 2, known.size - 1) * known.std(ddof=1) / math.sqrt(known.size))
    return symmetric(float(known.mean()), half)


def finite(value: float) -> float | None:
    """None for what JSON cannot hold."""
    return float(value) if math.isfinite(value) else None
