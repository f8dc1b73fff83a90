"""What the cost of a drafted token is made of, where other arms or the engine's own timer tell its parts apart.

C(N) = 1 + f + (d + v)*N: `d` is one draft pass, `v` one more verified token, `f` the overhead of a step with drafts;
a rejected draft adds its rollback. Every reading is linear in the arms' step costs, so its interval follows from
theirs. Several readings of one part stand beside one another and are not averaged.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
from scipy import linalg

from breakeven.analysis.acceptance import Acceptance, mean_drafted
from breakeven.analysis.estimate import Estimate, mean_t, point, symmetric
from breakeven.analysis.experiment import Arm
from breakeven.analysis.line import CostFit
from breakeven.analysis.steps import Contrasts, t_half

FEWEST_DRAFTED = 0.1
"""Draft tokens a step below which an n-gram arm says nothing of what verifying one costs."""
REJECTS, ACCEPTS = 0.01, 0.99
"""Acceptance below and above which an arm with forced acceptance rejects or accepts all."""

PartName = Literal["draft pass", "verified token", "rollback", "bytes of the draft", "b without those bytes"]
Weights = Mapping[str, float]


@dataclass(frozen=True)
class Part:
    """One reading of one part, in baseline steps: of a drafted token, of a rollback a step."""

    part: PartName
    cost: Estimate
    how: str


@dataclass(frozen=True)
class Decomposition:
    """All readings of the parts of b; `reason` when there is none."""

    parts: tuple[Part, ...] = ()
    reason: str | None = None


def decompose(
    fit: CostFit | None,
    found: Contrasts,
    arms: Sequence[Arm],
    counted: Mapping[str, Acceptance],
    alpha: float,
    *,
    steady: Sequence[Arm] = (),
    t0_s: float | None = None,
) -> Decomposition:
    """The parts of b. `steady`: the arms that draft N tokens in every step, whatever drafts; `counted`: acceptance by
    arm; `t0_s`: the baseline's seconds per token.
    """
    present = {arm.arm: arm for arm in arms if arm.arm in found.arms}
    seen = _Seen(fit, found, present, counted, alpha, t0_s)
    parts = (*_by_timer(seen), *_by_ngram(seen), *_by_forcing(seen), *_by_bytes(seen, steady))
    why = (
        "no engine timer, no n-gram arm, no pair of arms that reject and accept everything, and no two drafts of "
        "different size"
    )
    return Decomposition(parts, None if parts else why)


@dataclass(frozen=True)
class _Seen:
    fit: CostFit | None
    found: Contrasts
    arms: Mapping[str, Arm]
    counted: Mapping[str, Acceptance]
    alpha: float
    t0_s: float | None

    @property
    def a_weights(self) -> Weights | None:
        """a as a linear function of the step costs of the line's arms; None without a line."""
        return self._coefficient(0)

    @property
    def b_weights(self) -> Weights | None:
        """b, as `a_weights`."""
        return self._coefficient(1)

    def _coefficient(self, row: int) -> Weights | None:
        if self.fit is None or self.fit.b.value is None:
            return None
        design = np.column_stack([np.ones(len(self.fit.drafted)), self.fit.drafted])
        return dict(zip(self.fit.arms, linalg.pinv(design)[row].tolist(), strict=True))

    def drafted(self, arm: str) -> float | None:
        """Draft tokens a step on average."""
        return mean_drafted(self.counted[arm].counts)

    def estimate(self, weights: Weights, constant: float = 0.0) -> Estimate:
        """constant + the weighted sum of the arms' step costs, with its interval."""
        w = np.array([weights.get(arm, 0.0) for arm in self.found.arms])
        if self.found.estimator == "E5":
            return mean_t(np.exp(self.found.per_round) @ w + constant, self.alpha, "round")
        costs = np.exp(self.found.log)
        gradient = w * costs
        half = t_half(self.alpha, self.found.df) * float(np.sqrt(gradient @ self.found.cov @ gradient))
        return symmetric(float(w @ costs) + constant, half)


def _plus(*terms: tuple[float, Weights | None]) -> Weights:
    """Weighted sum of weights."""
    total: dict[str, float] = {}
    for factor, weights in terms:
        for arm, weight in (weights or {}).items():
            total[arm] = total.get(arm, 0.0) + factor * weight
    return total


def _by_timer(seen: _Seen) -> Iterator[Part]:
    """The engine's own clock around drafting."""
    own = [seen.arms[arm].drafting_s for arm in (seen.fit.arms if seen.fit else ())]
    timed = [seconds for seconds in own if seconds is not None]
    if not timed or not seen.t0_s:
        return
    d = sum(timed) / len(timed) / seen.t0_s
    how = (
        "the engine's own drafting time, all depths together, over the baseline's time per token at this one"
    )
    yield Part("draft pass", point(d, "a clock inside the engine"), how)
    if seen.b_weights is not None:
        yield Part("verified token", seen.estimate(seen.b_weights, -d), "b less that drafting time")


def _by_ngram(seen: _Seen) -> Iterator[Part]:
    """Drafts that cost no pass of a model leave what verifying them costs."""
    drafted = {arm: seen.drafted(arm) or 0.0 for arm, keys in seen.arms.items() if keys.free_drafts}
    arm = max(drafted, key=drafted.__getitem__, default=None)
    if arm is None or drafted[arm] < FEWEST_DRAFTED:
        return
    m, counts = drafted[arm], seen.counted[arm].counts
    how = f"C of {arm} less 1, over the {m:.2f} tokens a step that it drafts without a model"
    share, a = None, seen.a_weights
    if a is not None and counts.drafts is not None and counts.steps:
        share = counts.drafts / counts.steps
        how += f"; less a - 1 in the {share:.0%} of steps that draft"
    else:
        how += "; the overhead of such a step is in it, so at most this"
    weights = _plus((1 / m, {arm: 1.0}), (-(share or 0.0) / m, a))
    constant = ((share or 0.0) - 1) / m
    yield Part("verified token", seen.estimate(weights, constant), how)
    if seen.b_weights is not None:
        rest = _plus((1.0, seen.b_weights), (-1.0, weights))
        yield Part(
            "draft pass", seen.estimate(rest, -constant), f"b less what {arm} says a verified token costs"
        )


def _by_forcing(seen: _Seen) -> Iterator[Part]:
    """A step whose drafts are all rejected against one, of as many drafts, whose drafts are all accepted."""
    forced = [arm for arm in seen.arms.values() if arm.role == "cost_only" and arm.n_spec]
    rates = {arm.arm: seen.counted[arm.arm].rate.value for arm in forced}
    for rejecting, accepting in product(forced, forced):
        low, high = rates[rejecting.arm], rates[accepting.arm]
        same = (rejecting.n_spec, rejecting.drafter) == (accepting.n_spec, accepting.drafter)
        if not same or low is None or high is None or low > REJECTS or high < ACCEPTS:
            continue
        weights: Weights = {rejecting.arm: 1.0, accepting.arm: -1.0}
        longer = (seen.drafted(rejecting.arm) or 0.0) - (seen.drafted(accepting.arm) or 0.0)
        weights = _plus((1.0, weights), (-longer, seen.b_weights))
        how = f"C of {rejecting.arm} less C of {accepting.arm}, at N = {rejecting.n_spec}, a step"
        yield Part("rollback", seen.estimate(weights), how)


def _by_bytes(seen: _Seen, steady: Sequence[Arm]) -> Iterator[Part]:
    """Drafts of different size: C = a + (l + s*bytes)*N over all arms that draft N tokens in every step."""
    arms = [arm for arm in steady if arm.draft_bytes is not None]
    size = np.array([arm.draft_bytes or 0.0 for arm in arms])
    if len(set(size)) < 2:
        return
    largest = size.max()
    n = _drafted_by_length(seen, arms)
    line = np.column_stack([np.ones(len(arms)), n])
    design = np.column_stack([line, n * size / largest])
    rank = np.linalg.matrix_rank(design)
    if rank == np.linalg.matrix_rank(line):
        return
    names = [arm.arm for arm in arms]
    _, rest, grown = (dict(zip(names, row.tolist(), strict=True)) for row in linalg.pinv(design))
    share = seen.estimate(grown)
    how = f"arms whose drafts read {size.min() / 1e6:.4g} to {largest / 1e6:.4g} MB a pass; of the largest"
    if seen.t0_s and share.value is not None and share.value > 0:
        how += f", as if read at {largest / (share.value * seen.t0_s) / 1e9:.3g} GB/s"
    yield Part("bytes of the draft", share, how)
    if rank == design.shape[1]:
        how = "latency of a draft pass and verification of its token"
        yield Part("b without those bytes", seen.estimate(rest), how)


def _drafted_by_length(seen: _Seen, arms: Sequence[Arm]) -> np.ndarray:
    """Draft tokens a step, one figure for all arms of a length: where outputs cut a last draft is no matter of size."""
    found: dict[int | None, list[float]] = {}
    for arm in arms:
        found.setdefault(arm.n_spec, []).append(seen.drafted(arm.arm) or arm.n_spec or 0)
    return np.array([float(np.mean(found[arm.n_spec])) for arm in arms])
