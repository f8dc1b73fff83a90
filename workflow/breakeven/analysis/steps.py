"""What a step costs in baseline steps, with intervals that cover: C(N), a + b*N, and whether a line holds.

Method 4. E8: two-way analysis of variance of log times, rounds x arms; Cov(log C) = s^2/R*(I + 11') with
(R-1)(A-1) degrees of freedom. E5: every round on its own, mean +- t*sd/sqrt(R). Neither is moved by drift.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg, optimize, stats

from breakeven.analysis.cost import best_n, expert_union, fit_line
from breakeven.analysis.estimate import Estimate, absent, exponential, symmetric
from breakeven.analysis.noise import Noise, SlotEffect, launch_noise, residuals, slot_effect
from breakeven.errors import BreakevenError

E5_FROM_ROUNDS = 5
E5_SPREAD = 3.0
"""Ratio of residual sds between arms above which one pooled noise is not believed."""
FAMILY_SPREAD = 2.0
"""The same for verdicts from five rounds on: residuals understate the ratio, and chance seldom gives 2 any more."""
LINE_ALPHA = 0.05
A_LOWEST = 0.9
"""An upper bound of `a` below this says that a verify step beats a plain one: suspect the counters."""
ELLIPSE_POINTS = 180


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

    The first slot is a factor where it stands out. Raises BreakevenError when there is no usable error.
    """
    noise = launch_noise(y)
    slot = SlotEffect(None, None, False, "slots unknown") if slots is None else slot_effect(y, slots)
    first = None
    if slots is not None and slot.present and slot.log_effect is not None:
        first = (slots == 0).astype(float)
        noise = launch_noise(y - slot.log_effect * first)
    chosen, why = pick(len(y), noise.spread)
    if estimator is not None and estimator != chosen:
        chosen, why = estimator, "asked for"
    log, s2, unit, df = e8(y, first)
    clean = y if first is None or slot.log_effect is None else y - slot.log_effect * first
    per_round = clean[:, 1:] - clean[:, :1]
    noise = Noise(math.sqrt(s2), df, len(y), noise.arm_sds)
    if chosen == "E8":
        return Contrasts(tuple(arms[1:]), log, s2 * unit, df, per_round, noise, slot, chosen, why)
    log, cov, df = e5(per_round)
    return Contrasts(tuple(arms[1:]), log, cov, df, per_round, noise, slot, chosen, why)


def t_half(alpha: float, df: int) -> float:
    """Two-sided t quantile."""
    return float(stats.t.ppf(1 - alpha / 2, df))


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


@dataclass(frozen=True)
class Decomposition:
    """Parts of b in baseline steps: a draft pass, verifying one more token; absent where not separated."""

    draft_pass: Estimate
    verify: Estimate
    reason: str


def decompose(
    fit: CostFit,
    found: Contrasts,
    free_drafts: Mapping[str, int],
    alpha: float,
    drafting_s: Mapping[str, float] | None = None,
    t0_s: float | None = None,
) -> Decomposition:
    """Split b with an arm whose drafts cost nothing (`free_drafts`: arm -> N in every step) or a timer.

    d = (C(N) - C_free(N))/N at the same N. `drafting_s`: arm -> seconds per draft pass by the engine's own
    timer, an independent reading of d.
    """
    n_of = dict(zip(fit.n, fit.arms, strict=True))
    pairs = [(n_of[n], free, n) for free, n in free_drafts.items() if n in n_of and free in found.arms]
    if pairs:
        arm, free, n = pairs[0]
        i, j = found.arms.index(arm), found.arms.index(free)
        t = t_half(alpha, found.df)
        gradient = np.zeros(len(found.arms))
        gradient[i], gradient[j] = math.exp(found.log[i]) / n, -math.exp(found.log[j]) / n
        d = symmetric(float(gradient[i] + gradient[j]), t * math.sqrt(gradient @ found.cov @ gradient))
        growth = (math.exp(found.log[j]) - 1) / n
        verify = symmetric(growth, t * math.exp(found.log[j]) / n * found.se(free))
        return Decomposition(d, verify, f"{arm} against {free}, whose drafts cost nothing, at N = {n}")
    timed = [seconds for arm, seconds in (drafting_s or {}).items() if arm in fit.arms]
    if timed and t0_s:
        d = Estimate(sum(timed) / len(timed) / t0_s, reason="the engine's own timer; no interval")
        rest = (
            absent("b is not known")
            if fit.b.value is None or d.value is None
            else Estimate(fit.b.value - d.value, reason="b less the engine's own drafting time")
        )
        return Decomposition(
            d, rest, "drafting time by the engine's own timer over the baseline's time per token"
        )
    why = "no arm drafts for free at the same N and the engine reports no drafting time"
    return Decomposition(absent(why), absent(why), why)
