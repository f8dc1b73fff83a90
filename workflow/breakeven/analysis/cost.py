"""What a speculative step costs, in baseline steps, and what follows from it (Method 3).

C(N) = a + b*N: `a` is 1 plus the fixed overhead of a verify step, `b` what one more drafted token adds. An
arm pays when its tokens per step L exceed C. Everything here is exact arithmetic on given numbers, no noise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile
from math import expm1, inf, isfinite, isnan, log
from operator import mul
from statistics import linear_regression

from scipy.optimize import brentq

from breakeven.errors import BreakevenError

REPORTED_UNION = 2.5
"""Experts that 4 consecutive tokens touch, in units of one token's top-8 of 128: published, rounded."""

NEVER_ACCEPTED = 1e-12
"""Conditional acceptance below which no scale is looked for: no counter resolves it."""


@dataclass(frozen=True)
class Line:
    """C(N) = a + b*N by least squares, with residuals C - fit in the order of the points given."""

    a: float
    b: float
    residuals: tuple[float, ...]

    def at(self, n: float) -> float:
        """Cost of a step that drafts n tokens, in baseline steps."""
        return self.a + self.b * n

    @property
    def worst_residual(self) -> float | None:
        """Largest |C - fit|; None when the line passes through its two points by construction."""
        return max(map(abs, self.residuals)) if len(self.residuals) > 2 else None


@dataclass(frozen=True)
class Flag:
    """A figure that cannot be taken at face value, with the reason in words."""

    name: str
    reason: str


@dataclass(frozen=True)
class BestN:
    """The draft length with the highest speed-up; `speedups[n]` for n = 0 (the baseline, 1), 1, 2, .."""

    n: int
    speedups: tuple[float, ...]


@dataclass(frozen=True)
class Change:
    """What one quantity would have to become for the arm to pay; `needed` is None when no value is enough."""

    quantity: str
    now: float
    needed: float | None
    sentence: str


def _finite(name: str, value: float) -> float:
    if not isfinite(value):
        raise BreakevenError(f"{name} is {value}; a finite number is wanted")
    return float(value)


def _draft_length(n: float) -> float:
    if not (isfinite(n) and n > 0):
        raise BreakevenError(f"draft length N is {n}; a number above 0 is wanted")
    return float(n)


def _probability(name: str, value: float) -> float:
    if not 0 <= value <= 1:
        raise BreakevenError(f"{name} is {value}; a probability from 0 to 1 is wanted")
    return float(value)


def fit_line(n: Sequence[float], cost: Sequence[float]) -> Line:
    """Least squares of cost on n, unweighted.

    Raises BreakevenError when the lengths differ, a value is not finite, or fewer than two n differ.
    """
    if len(n) != len(cost):
        raise BreakevenError(
            f"{len(n)} draft lengths but {len(cost)} step costs; one cost per draft length is wanted"
        )
    if not all(map(isfinite, (*n, *cost))):
        raise BreakevenError("a draft length or step cost is not finite; leave that arm out of the fit")
    if len(set(n)) < 2:
        raise BreakevenError("a line needs step costs at two different draft lengths or more")
    b, a = linear_regression(n, cost)
    return Line(a, b, tuple(c - (a + b * k) for k, c in zip(n, cost, strict=True)))


def step_cost(length: float, speedup: float) -> float:
    """C = L/r: baseline steps per speculative step; L and r of the same requests (Method 2)."""
    if not (isfinite(length) and length >= 1):
        raise BreakevenError(f"tokens per step is {length}; a step emits at least 1")
    if not (isfinite(speedup) and speedup > 0):
        raise BreakevenError(f"speed-up is {speedup}; a number above 0 is wanted")
    return length / speedup


def ceiling(n: float, cost: float) -> float:
    """(N+1)/C(N): the speed-up if every draft token were accepted."""
    n, cost = _draft_length(n), _finite("step cost", cost)
    return (n + 1) / cost if cost > 0 else inf


def possible(n: float, cost: float) -> bool:
    """Whether any acceptance at all could pay at N: C(N) < N + 1."""
    return _finite("step cost", cost) < _draft_length(n) + 1


def b_threshold(n: float, a: float) -> float:
    """1 - (a-1)/N: below this b, an arm that drafts N tokens could pay."""
    return 1 - (_finite("a", a) - 1) / _draft_length(n)


def impossible_everywhere(a: float, b: float) -> bool:
    """Whether a + b*N >= N + 1 at every N >= 1: a + b >= 2 and b >= 1. `b > 1` alone decides nothing."""
    return _finite("a", a) + _finite("b", b) >= 2 and b >= 1


def iid_length(alpha: float, k: float) -> float:
    """(1 - alpha^(k+1))/(1 - alpha): tokens per step when each draft is accepted with chance alpha."""
    return _iid_length(_probability("alpha", alpha), _draft_length(k))


def _iid_length(alpha: float, k: float) -> float:
    if alpha in (0, 1):
        return 1 + k * alpha
    # expm1 keeps the digits that 1 - alpha^(k+1) loses near alpha = 1.
    return -expm1((k + 1) * log(alpha)) / (1 - alpha)


def alpha_breakeven(cost: float, n: float) -> float | None:
    """The i.i.d. conditional acceptance that breaks even; None when impossible, 0 when always."""
    cost, n = _finite("step cost", cost), _draft_length(n)
    if cost > n + 1:
        return None
    if cost <= 1:
        return 0.0
    return float(brentq(lambda alpha: _iid_length(alpha, n) - cost, 0.0, 1.0, xtol=1e-12))


def rate_breakeven(cost: float, n: float) -> float:
    """(C-1)/N: accepted/drafted that breaks even when every step drafts N; above 1: impossible."""
    return (_finite("step cost", cost) - 1) / _draft_length(n)


def conditional(survival: Sequence[float]) -> tuple[float | None, ...]:
    """q_i = S_i/S_(i-1) with S_0 = 1; None at positions that were never reached.

    Raises BreakevenError when the survival curve rises or leaves 0..1.
    """
    q: list[float | None] = []
    before = 1.0
    for position, now in enumerate(survival, start=1):
        if _probability(f"survival acceptance at position {position}", now) > before * (1 + 1e-12):
            raise BreakevenError(
                f"survival acceptance rises from {before} to {now} at position {position}; a later "
                "position cannot be accepted more often than an earlier one; are these conditional rates?"
            )
        q.append(now / before if before > 0 else None)
        before = now
    return tuple(None if value is None else min(1.0, value) for value in q)


def survival(conditional: Sequence[float]) -> tuple[float, ...]:
    """S_i = q_1 * .. * q_i, the inverse of `conditional` where every position was reached."""
    values = [
        _probability(f"conditional acceptance at position {i}", q) for i, q in enumerate(conditional, start=1)
    ]
    return tuple(accumulate(values, mul))


def profile_length(conditional: Sequence[float], scale: float = 1.0) -> float:
    """1 + sum_j prod_(i<=j) min(1, scale*q_i): tokens per step on a measured profile with every q scaled."""
    if isnan(scale) or scale < 0:
        raise BreakevenError(f"scale of a profile is {scale}; a number from 0 is wanted")
    length, product = 1.0, 1.0
    for position, q in enumerate(conditional, start=1):
        if _probability(f"conditional acceptance at position {position}", q) > 0:
            product *= min(1.0, scale * q)
        else:
            product = 0.0
        length += product
    return length


def profile_breakeven(conditional: Sequence[float], cost: float) -> float | None:
    """The smallest scale of the conditional profile whose tokens per step reach the cost; None if none does.

    Below 1 the measured acceptance has headroom; above 1 it falls short.
    """
    cost = _finite("step cost", cost)
    if cost <= 1:
        return 0.0
    reachable = list(takewhile(lambda q: q > NEVER_ACCEPTED, conditional))
    if cost > len(reachable) + 1:
        return None
    top = 1 / min(reachable)
    if cost == len(reachable) + 1:
        return top
    return float(brentq(lambda s: profile_length(reachable, s) - cost, 0.0, top, xtol=1e-12))


def best_n(survival: Sequence[float], a: float, b: float) -> BestN:
    """argmax over N of (1 + S_1 + .. + S_N)/(a + b*N), N = 0 counting as 1; ties go to the smaller N.

    Raises BreakevenError when a cost on the line is not positive.
    """
    speedups, length = [1.0], 1.0
    for n, s in enumerate(survival, start=1):
        length += _probability(f"survival acceptance at position {n}", s)
        cost = _finite("a", a) + _finite("b", b) * n
        if cost <= 0:
            raise BreakevenError(
                f"the line gives a step cost of {cost:.4g} at N={n}; a cost above 0 is wanted"
            )
        speedups.append(length / cost)
    return BestN(speedups.index(max(speedups)), tuple(speedups))


def general_cost(
    k: int, d: float, *, f: float = 0.0, v: float = 0.0, cut: bool = False, rollback: float = 0.0
) -> float:
    """C(k) = 1 + f + v + d*(k + 1[cut]) + rollback, in baseline steps.

    k tokens submitted; `cut`: a gate ended the draft, so one more draft pass ran than was submitted. A step
    that submits nothing verifies nothing: f, v and rollback do not apply; it costs 1 + d if it tried, else 1.
    """
    if k < 0:
        raise BreakevenError(f"submitted draft length is {k}; a number from 0 is wanted")
    passes = k + int(cut)
    return 1 + d * passes if k == 0 else 1 + f + v + d * passes + rollback


def gated_total_cost(steps: Mapping[int, int], cut: Mapping[int, bool], a0: float, d: float) -> float:
    """Cost of a gated run in baseline steps; steps[k] of them submitted k tokens; a0 = 1 + f + v."""
    return sum(count * general_cost(k, d, f=a0 - 1, cut=cut[k]) for k, count in steps.items())


def gated_floor(d: float) -> float:
    """1/(1+d): speed-up of a gated arm on a prompt where every step tries once and submits nothing."""
    if not (isfinite(d) and d > -1):
        raise BreakevenError(f"cost of a draft pass is {d}; a finite number above -1 is wanted")
    return 1 / (1 + d)


def expert_union(experts: int, active: int, tokens: int, reuse: float = 0.0) -> float:
    """Expected experts that `tokens` consecutive tokens touch together in one layer.

    `reuse` is the share of a token's experts taken from those already touched: 0 is independent routing,
    E(1-(1-k/E)^M); 1 is k.
    """
    if not (1 <= active <= experts and tokens >= 1):
        raise BreakevenError(
            f"{active} of {experts} experts over {tokens} tokens; wanted: 1 <= active <= experts, tokens >= 1"
        )
    missed_first = 1 - active / experts
    missed_later = 1 - (1 - _probability("reuse", reuse)) * active / experts
    return float(experts * (1 - missed_first * missed_later ** (tokens - 1)))


def reported_reuse() -> float:
    """The reuse at which 4 tokens touch `REPORTED_UNION` x top-8 of 128 experts: low edge of the band."""
    return float(brentq(lambda reuse: expert_union(128, 8, 4, reuse) / 8 - REPORTED_UNION, 0.0, 1.0))


def union_band(experts: int, active: int, tokens: int) -> tuple[float, float]:
    """(correlated, independent) expected union of experts: `reported_reuse` and no reuse."""
    return expert_union(experts, active, tokens, reported_reuse()), expert_union(experts, active, tokens)


def implausible(n: Sequence[float], cost: Sequence[float], line: Line | None = None) -> tuple[Flag, ...]:
    """Figures that contradict what a verify step is, each with its reason; nothing is corrected."""
    flags = [
        Flag(
            "step_cheaper_than_baseline",
            f"C({k:g}) = {c:.3f} is below 1: a step with drafts would cost less than one without; "
            "suspect the acceptance figure, the counters or the baseline",
        )
        for k, c in zip(n, cost, strict=True)
        if c < 1
    ]
    if line is not None and line.a < 1:
        flags.append(
            Flag(
                "a_below_one",
                f"a = {line.a:.3f} is below 1: a verify step without drafts would beat a baseline step; "
                "the cost grows faster than a line, an arm is an outlier, or tokens and steps are confused",
            )
        )
    if line is not None and line.b < 0:
        flags.append(
            Flag(
                "b_below_zero",
                f"b = {line.b:.3f} is below 0: a longer draft would cost less; no line describes these arms",
            )
        )
    return tuple(flags)


def changes(n: float, cost: float, length: float, line: Line | None = None) -> tuple[Change, ...]:
    """What would have to change for an arm of draft length n to break even; empty when it already pays.

    Without a line (one draft length measured) a and b are unknown and only the acceptance is spoken of.
    """
    n, cost = _draft_length(n), _finite("step cost", cost)
    if length > cost:
        return ()
    found = []
    if cost < n + 1:
        rate = rate_breakeven(cost, n)
        words = f"tokens per step must reach {cost:.3f} (now {length:.3f}): {rate:.1%} of the drafts accepted"
        found.append(Change("tokens per step", length, cost, words))
    else:
        words = (
            f"no acceptance is enough at N={n:g}: a step costs {cost:.3f} and emits at most {n + 1:g} tokens"
        )
        found.append(Change("tokens per step", length, None, words))
    if line is not None:
        for needed, when in (
            (b_threshold(n, line.a), f"before any acceptance can pay at N={n:g}"),
            ((length - line.a) / n, f"to pay at N={n:g} with the acceptance as it is"),
        ):
            if needed <= 0:
                words = f"b = {line.b:.3f} is not what matters: at a = {line.a:.3f} even free drafts fail"
                found.append(Change("b", line.b, None, f"{words} {when}"))
            elif line.b >= needed:
                found.append(
                    Change("b", line.b, needed, f"b must fall from {line.b:.3f} below {needed:.3f} {when}")
                )
    return tuple(found)
