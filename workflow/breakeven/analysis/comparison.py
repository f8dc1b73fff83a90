"""One cell (depth x prompt class): every arm against the baseline in numbers, without a verdict."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from breakeven.analysis.acceptance import VARYING, Acceptance, acceptance, mean_drafted, over_prompts, pool
from breakeven.analysis.cost import (
    Line,
    alpha_breakeven,
    changes,
    impossible_everywhere,
    possible,
    profile_breakeven,
    rate_breakeven,
)
from breakeven.analysis.decomposition import Decomposition, decompose
from breakeven.analysis.estimate import Estimate, absent, exponential, mean_t, point
from breakeven.analysis.experiment import Arm, Plan
from breakeven.analysis.line import BestLength, CostFit, best_length, fit_costs
from breakeven.analysis.looks import ONE_LAUNCH
from breakeven.analysis.matched import NOT_INTERLEAVED, Matrix, Ratio, compare, matrix
from breakeven.analysis.noise import SlotEffect, noise_floor, rounds_needed, unpaired
from breakeven.analysis.steps import Contrasts, contrasts, t_half

UNDRAFTED_SHARE = 0.05
"""Share of steps without drafts above which an arm's cost is no C(N): the line wants N drafts in every step."""


@dataclass(frozen=True)
class Breakeven:
    """What an arm would need to break even: tokens per step, accepted/drafted, i.i.d. alpha, scale of its profile."""

    length: float | None = None
    rate: float | None = None
    alpha: float | None = None
    profile_scale: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class ArmNumbers:
    """One arm in one cell; every quantity has its interval or its reason."""

    arm: str
    n_spec: int | None
    rounds: int
    interleaved: bool
    tok_s: Estimate
    step_ms: Estimate
    ratio: Ratio
    unpaired_ratio: Estimate
    cost: Estimate
    ceiling: Estimate
    possible: bool | None
    acceptance: Acceptance
    prompts: Mapping[str, Estimate]
    breakeven: Breakeven
    headroom: Estimate
    needed: tuple[str, ...]
    on_the_line: bool
    steps_reason: str | None


@dataclass(frozen=True)
class CellNumbers:
    """One depth and prompt class: noise, fit and arms."""

    depth: int
    prompt_class: str
    rounds: tuple[int, ...]
    dropped: tuple[str, ...]
    df: int | None
    estimator: str | None
    estimator_reason: str
    interval_method: str
    launch_sd: float | None
    noise_floor: Estimate
    same_arm_p: float | None
    minimum_detectable_effect: float | None
    rounds_for_margin: int | None
    slot: SlotEffect | None
    fit: CostFit | None
    fit_reason: str | None
    impossible: bool
    decomposition: Decomposition
    best_n: BestLength
    arms: Mapping[str, ArmNumbers] = field(default_factory=dict)

    def line_of(self, arm: str) -> CostFit | None:
        """The line, for an arm that it was fitted on: arms with another drafter have a step cost but no part in it."""
        return self.fit if self.fit and arm in self.fit.arms else None


def compare_cell(rows: pd.DataFrame, prompts: pd.DataFrame, plan: Plan) -> CellNumbers:
    """All numbers of one cell. `rows`: CELLS rows of one depth and class with `shared`; `prompts`: PROMPTS rows."""
    alpha = plan.look.alpha
    present = plan.compared(set(rows["arm"]))
    counted = {arm.arm: _acceptance(rows, arm) for arm in plan.arms if arm.arm in present}
    token_table = matrix(rows, "log_token_s", present)
    tokens, ratios, method = compare(token_table, [arm.arm for arm in plan.candidates], alpha)
    line = {arm.arm: arm for arm in plan.arms if arm.arm in present and _on_line(arm, counted[arm.arm])}
    steps, step_reason = _steps(matrix(rows, "log_step_s", present))
    costed = [arm for arm in line.values() if steps and arm.arm in steps.arms]
    fitted = {arm.arm: arm.n_spec for arm in _of_one_drafter(costed) if arm.n_spec}
    drafted = {name: mean for name in fitted if (mean := mean_drafted(counted[name].counts)) is not None}
    fit = fit_costs(steps, fitted, alpha, plan.experts, drafted) if steps and fitted else None
    arms = {
        arm.arm: _arm(
            arm, rows, prompts, plan, token_table, ratios, steps, fit, counted[arm.arm], arm.arm in line
        )
        for arm in plan.arms
        if arm.arm in present
    }
    effects = [ratios[arm.arm].minimum_detectable_effect for arm in plan.candidates if arm.arm in ratios]
    twin = next((ratios[name].p for name in plan.twins if name in ratios), None)
    noise = tokens.noise if tokens else None
    t0 = arms[plan.baseline].tok_s.value if plan.baseline in arms else None
    return CellNumbers(
        depth=int(rows["depth"].iloc[0]),
        prompt_class=str(rows["prompt_class"].iloc[0]),
        rounds=token_table.rounds,
        dropped=_dropped(rows, token_table),
        df=tokens.df if tokens else None,
        estimator=steps.estimator if steps else None,
        estimator_reason=steps.why if steps else step_reason,
        interval_method=method,
        launch_sd=noise.sd if noise else None,
        noise_floor=point(math.expm1(noise_floor(noise.sd, noise.df, noise.rounds, alpha)), "t*sqrt(2/R)*s")
        if noise
        else absent(method),
        same_arm_p=twin,
        minimum_detectable_effect=max((e for e in effects if e is not None), default=None),
        rounds_for_margin=rounds_needed(noise.sd, len(token_table.arms), math.log1p(plan.margin), alpha)
        if noise and noise.sd > 0
        else None,
        slot=tokens.slot if tokens else None,
        fit=fit,
        fit_reason=None if fit else step_reason or "no arm drafts the same number of tokens in every step",
        impossible=_impossible(fit, arms),
        decomposition=decompose(
            fit, steps, plan.arms, counted, alpha, steady=costed, t0_s=1 / t0 if t0 else None
        )
        if steps
        else Decomposition(reason=step_reason),
        best_n=best_length(_longest_survival([arms[name] for name in fit.arms]), fit, alpha)
        if fit
        else BestLength(None, None, None, (), "no fit"),
        arms=arms,
    )


def _acceptance(rows: pd.DataFrame, arm: Arm) -> Acceptance:
    own = rows[(rows["arm"] == arm.arm) & rows["requests"].notna()]
    return acceptance(pool(own), arm.n_spec, gated=arm.gated)


def _on_line(arm: Arm, found: Acceptance) -> bool:
    counts = found.counts
    undrafted = (counts.undrafted or 0) - counts.requests  # a request may end with one token left
    few = undrafted <= UNDRAFTED_SHARE * (counts.steps or 0)
    return arm.on_the_line and found.reason != VARYING and few


def _of_one_drafter(arms: Sequence[Arm]) -> list[Arm]:
    """The arms of the drafter with the most draft lengths: two drafters have two lines."""
    groups: dict[str | None, list[Arm]] = {}
    for arm in arms:
        groups.setdefault(arm.drafter, []).append(arm)
    return max(groups.values(), key=lambda group: len({arm.n_spec for arm in group}), default=[])


def _dropped(rows: pd.DataFrame, table: Matrix) -> tuple[str, ...]:
    """Rounds that count for no arm, and the arms that they lack."""
    usable = rows[rows["log_token_s"].notna() & rows["shared"]]
    found = []
    for number in sorted({int(one) for one in rows["round"]} - set(table.rounds)):
        here = set(usable.loc[usable["round"] == number, "arm"])
        lacking = [arm for arm in table.arms if arm not in here]
        found.append(f"round {number}: no usable value of {', '.join(lacking) or 'any arm'}")
    return tuple(found)


def _steps(table: Matrix) -> tuple[Contrasts | None, str]:
    if len(table.y) < 2:
        return None, table.alone if len(table.y) == 1 else "no complete round with step times"
    if len(table.arms) < 2:
        return None, "no arm beside the baseline has step times"
    return contrasts(table.y, table.arms, table.known_slots), ""


def _impossible(fit: CostFit | None, arms: Mapping[str, ArmNumbers]) -> bool:
    """Row 2 of Method 6: ceilings surely below 1 at every tested N, and a line that is not rejected agrees."""
    if fit is None or not fit.linear or fit.a.value is None or fit.b.value is None:
        return False
    ceilings = [arms[name].ceiling for name in fit.arms]
    surely = all(ceiling.high is not None and ceiling.high < 1 for ceiling in ceilings)
    return surely and impossible_everywhere(fit.a.value, fit.b.value)


def _longest_survival(arms: Sequence[ArmNumbers]) -> tuple[float, ...] | None:
    curves = [arm.acceptance.survival for arm in arms if arm.acceptance.survival]
    return max(curves, key=len, default=None)


def _arm(
    arm: Arm,
    rows: pd.DataFrame,
    prompts: pd.DataFrame,
    plan: Plan,
    table: Matrix,
    ratios: Mapping[str, Ratio],
    steps: Contrasts | None,
    fit: CostFit | None,
    counted: Acceptance,
    on_line: bool,
) -> ArmNumbers:
    alpha = plan.look.alpha
    own = rows[rows["arm"] == arm.arm]
    own_prompts = prompts[prompts["arm"] == arm.arm]
    baseline = arm.arm == plan.baseline
    ratio = (
        Ratio(point(1.0, "the baseline")) if baseline else ratios.get(arm.arm, Ratio(absent("not measured")))
    )
    cost = _cost(arm, rows, steps, alpha, plan)
    ceiling = _ceiling(arm, cost, on_line)
    reached = ratio.value.value
    reasons = own["steps_reason"].dropna()
    return ArmNumbers(
        arm=arm.arm,
        n_spec=arm.n_spec,
        rounds=int(own["log_token_s"].notna().sum()),
        interleaved=table.left_out.get(arm.arm) != NOT_INTERLEAVED,
        tok_s=_over_rounds(-own["log_token_s"], alpha),
        step_ms=_over_rounds(own["log_step_s"] + math.log(1000), alpha),
        ratio=ratio,
        unpaired_ratio=_unpaired(own, rows[rows["arm"] == plan.baseline], alpha)
        if table.left_out.get(arm.arm) == NOT_INTERLEAVED
        else absent("compared within rounds"),
        cost=cost,
        ceiling=ceiling,
        possible=possible(arm.n_spec, cost.value) if on_line and arm.n_spec and cost.value else None,
        acceptance=counted,
        prompts={name: over_prompts(own_prompts, name, alpha) for name in ("rate", "length")},
        breakeven=_breakeven(arm, cost, counted, on_line),
        headroom=point(ceiling.value / reached, "ceiling over the speed-up reached")
        if ceiling.value and reached
        else absent(ceiling.reason or "no speed-up"),
        needed=_needed(arm, cost, counted, fit if fit and arm.arm in fit.arms else None, on_line, reached),
        on_the_line=on_line,
        steps_reason=None if reasons.empty else str(reasons.iloc[0]),
    )


def _over_rounds(logs: pd.Series, alpha: float) -> Estimate:
    known = mean_t(logs.to_numpy(dtype=float, na_value=np.nan), alpha, "launch")
    if known.value is None:
        return known
    if known.low is None or known.high is None:
        return point(math.exp(known.value), ONE_LAUNCH)
    return Estimate(math.exp(known.value), math.exp(known.low), math.exp(known.high))


def _unpaired(own: pd.DataFrame, base: pd.DataFrame, alpha: float) -> Estimate:
    arm, baseline = (-frame["log_token_s"].to_numpy(dtype=float, na_value=np.nan) for frame in (own, base))
    return unpaired(arm, baseline, alpha)


def _cost(arm: Arm, rows: pd.DataFrame, steps: Contrasts | None, alpha: float, plan: Plan) -> Estimate:
    if arm.arm == plan.baseline:
        return point(1.0, "the baseline, by definition")
    if steps and arm.arm in steps.arms:
        return exponential(steps.of(arm.arm), t_half(alpha, steps.df) * steps.se(arm.arm))
    both = rows[rows["shared"] & rows["log_step_s"].notna()].pivot(
        index="round", columns="arm", values="log_step_s"
    )
    if arm.arm in both and plan.baseline in both:
        apart = (both[arm.arm] - both[plan.baseline]).dropna()
        if len(apart):
            return point(
                math.exp(float(apart.mean())), ONE_LAUNCH if len(apart) == 1 else "no complete rounds"
            )
    return absent("steps are not known in a round shared with the baseline")


def _ceiling(arm: Arm, cost: Estimate, on_line: bool) -> Estimate:
    if not arm.n_spec:
        return absent("the arm drafts nothing")
    if not on_line:
        return absent("not every step drafts N tokens, so (N+1)/C(N) does not apply")
    if cost.value is None:
        return cost
    top = arm.n_spec + 1
    low, high = (None if bound is None else top / bound for bound in (cost.high, cost.low))
    return Estimate(top / cost.value, low, high, cost.reason)


def _breakeven(arm: Arm, cost: Estimate, counted: Acceptance, on_line: bool) -> Breakeven:
    if cost.value is None or not arm.n_spec:
        return Breakeven(reason=cost.reason if arm.n_spec else "the arm drafts nothing")
    if not on_line:
        return Breakeven(
            length=cost.value, reason="drafts vary in length: only the tokens per step are determined"
        )
    known = [q for q in counted.conditional or () if q is not None]
    scale = profile_breakeven(known, cost.value) if known and len(known) == arm.n_spec else None
    alpha = alpha_breakeven(cost.value, arm.n_spec)
    reason = "impossible at this N" if alpha is None else None if scale is not None else counted.reason
    return Breakeven(cost.value, rate_breakeven(cost.value, arm.n_spec), alpha, scale, reason)


def _needed(
    arm: Arm, cost: Estimate, counted: Acceptance, fit: CostFit | None, on_line: bool, reached: float | None
) -> tuple[str, ...]:
    length = counted.length.value
    if (
        not on_line
        or not arm.n_spec
        or cost.value is None
        or length is None
        or reached is None
        or reached >= 1
    ):
        return ()
    line = None
    if fit and fit.linear and fit.a.value is not None and fit.b.value is not None:
        line = Line(fit.a.value, fit.b.value, fit.residuals)
    return tuple(change.sentence for change in changes(arm.n_spec, cost.value, length, line))
