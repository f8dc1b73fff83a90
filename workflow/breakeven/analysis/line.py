"""The line C(N) = a + b*N through step costs, whether it holds, and the draft length it favours."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg, optimize, stats

from breakeven.analysis.cost import best_n, expert_union, fit_line
from breakeven.analysis.estimate import Estimate, absent, exponential, symmetric
from breakeven.analysis.steps import Contrasts, e5, t_half

LINE_ALPHA = 0.05
A_LOWEST = 0.9
"""An upper bound of `a` below this says that a verify step beats a plain one: suspect the counters."""
ELLIPSE_POINTS = 180


@dataclass(frozen=True)
class LackOfFit:
    """Test of the line: C1 - 2*C2 + C3, for other N all contrasts beside it. Not rejected is not linear."""

    statistic: float | None
    p: float | None
    rejected: bool | None
    reason: str


@dataclass(frozen=True)
class Alternative:
    """A model that is offered where the line is rejected; residual_sd in baseline steps."""

    name: str
    parameters: Mapping[str, float]
    residual_sd: float


@dataclass(frozen=True)
class AnchorFlag:
    """A cost that contradicts C(0) = 1: of one arm, or of the line (arm is None)."""

    arm: str | None
    reason: str


@dataclass(frozen=True)
class CostFit:
    """C(N) = a + b*N over the arms that draft N tokens in every step, in baseline steps.

    `drafted`: draft tokens a step on average, what the line is fitted on; below N where outputs end inside a draft.
    """

    arms: tuple[str, ...]
    n: tuple[int, ...]
    drafted: tuple[float, ...]
    cost: tuple[Estimate, ...]
    a: Estimate
    b: Estimate
    cov: np.ndarray | None
    df: int
    residuals: tuple[float, ...]
    lack: LackOfFit
    anchor_flags: tuple[AnchorFlag, ...]
    alternative: Alternative | None

    @property
    def linear(self) -> bool:
        """Whether a line could be fitted and was not rejected."""
        return self.a.value is not None and not self.lack.rejected


def fit_costs(
    found: Contrasts,
    n_spec: Mapping[str, int],
    alpha: float,
    experts: tuple[int, int] | None = None,
    drafted: Mapping[str, float] | None = None,
) -> CostFit:
    """Fit the line to the arms of `n_spec` (arm -> N) from contrasts of log step times.

    `drafted`: arm -> draft tokens a step on average, where counted; else N is taken.
    `experts`: (experts, active) of a mixture, for the model offered where the line is rejected.
    """
    index = [found.arms.index(arm) for arm in n_spec]
    n = np.array([(drafted or {}).get(arm, length) for arm, length in n_spec.items()], dtype=float)
    log, cov_log = found.log[index], found.cov[np.ix_(index, index)]
    cost = np.exp(log)
    t = t_half(alpha, found.df)
    costs = tuple(
        exponential(float(value), t * math.sqrt(var))
        for value, var in zip(log, np.diag(cov_log), strict=True)
    )
    cov_cost = cost[:, None] * cov_log * cost
    names, lengths = tuple(n_spec), tuple(n_spec.values())
    if len(set(lengths)) < 2:
        why = "a line needs arms with two different draft lengths"
        lack = LackOfFit(None, None, None, why)
        flags = _anchor(None, names, costs)
        return CostFit(
            names,
            lengths,
            tuple(n.tolist()),
            costs,
            absent(why),
            absent(why),
            None,
            found.df,
            (),
            lack,
            flags,
            None,
        )
    design = np.column_stack([np.ones_like(n), n])
    pinv = linalg.pinv(design)
    line = fit_line(n.tolist(), cost.tolist())
    coefficients, cov = np.array([line.a, line.b]), pinv @ cov_cost @ pinv.T
    per_round = np.exp(found.per_round[:, index])
    if found.estimator == "E5":
        coefficients, cov, _ = e5(per_round @ pinv.T)
    a, b = (
        symmetric(float(value), t * math.sqrt(var))
        for value, var in zip(coefficients, np.diag(cov), strict=True)
    )
    lack = _lack_of_fit(design, cost, cov_cost, found, per_round)
    alternative = _mixture(n, cost, experts) if lack.rejected and experts else None
    flags = _anchor(a, names, costs)
    return CostFit(
        names,
        lengths,
        tuple(n.tolist()),
        costs,
        a,
        b,
        cov,
        found.df,
        line.residuals,
        lack,
        flags,
        alternative,
    )


def _lack_of_fit(
    design: np.ndarray, cost: np.ndarray, cov: np.ndarray, found: Contrasts, per_round: np.ndarray
) -> LackOfFit:
    beside = linalg.null_space(design.T)
    q = beside.shape[1]
    if q == 0:
        return LackOfFit(None, None, None, "two draft lengths always lie on a line; a third tests it")
    df, factor = found.df, 1.0
    if found.estimator == "E5":
        rounds = len(per_round)
        if rounds <= q:
            return LackOfFit(None, None, None, f"{rounds} rounds cannot test {q} contrasts; add rounds")
        cost, cov, _ = e5(per_round)
        df, factor = rounds - q, (rounds - q) / (rounds - 1)
    off = beside.T @ cost
    scale = beside.T @ cov @ beside
    if np.linalg.matrix_rank(scale) < q:
        return LackOfFit(None, None, None, "no noise to compare the departure with")
    statistic = float(off @ np.linalg.solve(scale, off)) / q * factor
    p = float(stats.f.sf(statistic, q, df))
    words = (
        "the line is rejected: costs hold at the measured N only"
        if p < LINE_ALPHA
        else "the line is not rejected"
    )
    return LackOfFit(statistic, p, p < LINE_ALPHA, words)


def _mixture(n: np.ndarray, cost: np.ndarray, experts: tuple[int, int]) -> Alternative | None:
    """C = 1 + f + d*N + w*(union(N+1)/k - 1), terms >= 0: verify reads the union of experts (Method 3)."""
    if len(n) < 3:
        return None
    total, active = experts
    union = np.array([expert_union(total, active, round(k) + 1) / active - 1 for k in n])
    design = np.column_stack([np.ones_like(n), n, union])
    weights, rest = optimize.nnls(design, np.maximum(cost - 1, 0))
    names = ("overhead", "draft_pass", "expert_share")
    spread = rest / math.sqrt(max(1, len(n) - 3))
    return Alternative("union of experts", dict(zip(names, weights.tolist(), strict=True)), float(spread))


def _anchor(a: Estimate | None, arms: Sequence[str], costs: Sequence[Estimate]) -> tuple[AnchorFlag, ...]:
    """C(0) = 1 exactly: what surely lies below contradicts a verify step, so the counters are suspect."""
    flags = []
    if a is not None and a.high is not None and a.high < A_LOWEST:
        words = f"a is below {A_LOWEST} (upper bound {a.high:.3f}): suspect the counters or an outlying arm"
        flags.append(AnchorFlag(None, words))
    for arm, cost in zip(arms, costs, strict=True):
        if cost.high is not None and cost.high < 1:
            words = (
                f"a step of {arm} beats a baseline step (upper bound {cost.high:.3f}): suspect the counters"
            )
            flags.append(AnchorFlag(arm, words))
    return tuple(flags)


@dataclass(frozen=True)
class BestLength:
    """Best draft length on the line, and the range of it within the joint interval of (a, b)."""

    n: int | None
    low: int | None
    high: int | None
    speedups: tuple[float, ...]
    reason: str


def best_length(survival: Sequence[float] | None, fit: CostFit, alpha: float) -> BestLength:
    """argmax of (1 + S_1 + .. + S_N)/(a + b*N), and its range over the joint ellipse of (a, b)."""
    if survival is None or fit.a.value is None or fit.b.value is None or fit.cov is None:
        return BestLength(None, None, None, (), fit.a.reason or "position survival is not known")
    if fit.lack.rejected:
        return BestLength(None, None, None, (), "the line is rejected: compare the measured arms instead")
    centre = np.array([fit.a.value, fit.b.value])
    best = best_n(survival, *centre)
    radius = math.sqrt(2 * stats.f.ppf(1 - alpha, 2, fit.df))
    values, vectors = np.linalg.eigh(fit.cov)
    angle = np.linspace(0, 2 * math.pi, ELLIPSE_POINTS, endpoint=False)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    edge = centre[:, None] + vectors @ (np.sqrt(np.maximum(values, 0))[:, None] * circle) * radius
    lengths = np.arange(len(survival) + 1)
    tokens = 1 + np.concatenate([[0.0], np.cumsum(survival)])
    costs = np.where(lengths == 0, 1.0, edge[0][:, None] + edge[1][:, None] * lengths)
    if (costs <= 0).any():
        return BestLength(best.n, None, None, best.speedups, "the interval of (a, b) reaches costs below 0")
    chosen = np.append(np.argmax(tokens / costs, axis=1), best.n)
    words = "range over the joint interval of (a, b); the acceptance is taken as measured"
    return BestLength(best.n, int(chosen.min()), int(chosen.max()), best.speedups, words)
