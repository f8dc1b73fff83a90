"""Prefill by depth, and drift by cell: what is judged beside decode (Methods 4 and 5)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from breakeven.analysis.comparison import CellNumbers
from breakeven.analysis.estimate import Estimate, absent
from breakeven.analysis.experiment import Plan
from breakeven.analysis.matched import matrix
from breakeven.analysis.noise import Drift, drift, noise_floor
from breakeven.analysis.prefill import cause, classify, rate_ratios, slope
from breakeven.analysis.steps import Contrasts, contrasts


@dataclass(frozen=True)
class PrefillArm:
    """One arm's prefill at one depth; rates and tokens are means over launches and prompt classes."""

    arm: str
    n_spec: int | None
    pp_new_ratio: Estimate
    pp_computed_ratio: Estimate
    pp_new_tok_s: float | None
    pp_computed_tok_s: float | None
    ttft_s: float | None
    new_tokens: float | None
    computed_tokens: float | None


@dataclass(frozen=True)
class PrefillDepth:
    """Class of one depth with its cause; `kind` is regression, none or inconclusive."""

    depth: int
    kind: str
    cause: str | None
    margin: float
    reason: str
    arms: tuple[PrefillArm, ...]
    slope: Estimate
    flat: bool | None


@dataclass(frozen=True)
class CellDrift:
    """Drift of the baseline in one cell."""

    depth: int
    prompt_class: str
    drift: Drift


def _contrasts(rows: pd.DataFrame, rate: str, names: Sequence[str]) -> tuple[Contrasts | None, str]:
    """Contrasts of log seconds per token at one depth, prompt classes averaged within a launch."""
    logs = rows.assign(y=-np.log(rows[rate]))
    launches = logs.groupby(["arm", "round", "slot", "shared"])["y"].mean().reset_index()
    table = matrix(launches, "y", names)
    if len(table.y) < 2 or len(table.arms) < 2:
        return None, table.alone if len(table.y) == 1 else "no complete round with prefill times"
    return contrasts(table.y, table.arms, table.known_slots), ""


def prefill_depths(
    cells: pd.DataFrame, numbers: Sequence[CellNumbers], plan: Plan
) -> tuple[PrefillDepth, ...]:
    """Method 5 at every depth that has prefill requests; `cells` has `shared`."""
    measured = cells[cells["pp_requests"].notna() & (cells["pp_requests"] > 0)]
    found: list[PrefillDepth] = []
    for depth in sorted(measured["depth"].unique()):
        at_zero = next((one.kind == "regression" for one in found if one.depth == 0), None)
        rows = measured[measured["depth"] == depth]
        found.append(_depth(int(depth), rows, [n for n in numbers if n.depth == depth], plan, at_zero))
    return tuple(found)


def _depth(
    depth: int, rows: pd.DataFrame, numbers: Sequence[CellNumbers], plan: Plan, at_zero: bool | None
) -> PrefillDepth:
    alpha = plan.look.alpha
    here = set(rows["arm"])
    candidates = [arm for arm in plan.candidates if arm.arm in here]
    names = [plan.baseline, *(twin for twin in plan.twins if twin in here), *(arm.arm for arm in candidates)]
    new, why = _contrasts(rows, "pp_new_tok_s", names)
    computed, _ = _contrasts(rows, "pp_computed_tok_s", names)
    columns = ["pp_new_tok_s", "pp_computed_tok_s", "ttft_s", "new_tokens", "computed_tokens"]
    means = rows.groupby("arm")[columns].mean()
    judged = [arm.arm for arm in candidates if new and arm.arm in new.arms]
    ratios, computed_ratios = (rate_ratios(found, alpha) if found else {} for found in (new, computed))
    arms = tuple(
        _arm(arm, n_spec, means, ratios, computed_ratios, plan.baseline, why)
        for arm, n_spec in [(plan.baseline, None), *((one.arm, one.n_spec) for one in candidates)]
        if arm in means.index
    )
    if new is None or not judged:
        return PrefillDepth(
            depth, "inconclusive", None, plan.margin, why or "no arm", arms, absent(why), None
        )
    margin = max(plan.margin, math.expm1(noise_floor(new.noise.sd, new.noise.df, new.noise.rounds, alpha)))
    seen = new.only(judged)
    kind = classify(seen, margin, alpha)
    n_spec = {one.arm: one.n_spec for one in candidates if one.n_spec and one.arm in judged}
    tokens = {
        arm: float(value)
        for arm, value in means["computed_tokens"].items()
        if arm in [plan.baseline, *judged]
    }
    why_so, words = cause(
        kind,
        computed.only(judged) if computed and set(judged) <= set(computed.arms) else None,
        {str(arm): value for arm, value in tokens.items() if math.isfinite(value)},
        plan.baseline,
        margin,
        alpha,
        regresses_at_zero=(kind == "regression") if depth == 0 else at_zero,
        ttft_s={str(arm): float(value) for arm, value in means["ttft_s"].items()},
        n_spec=n_spec,
        draft_pass_s=_draft_pass_s(numbers, plan),
    )
    change, flat = slope(seen, n_spec, margin)
    return PrefillDepth(depth, kind, why_so, margin, words, arms, change, flat)


def _draft_pass_s(numbers: Sequence[CellNumbers], plan: Plan) -> float | None:
    """b*t0 of the depth's first cell that has both: seconds of one drafted token."""
    for cell in numbers:
        b = cell.fit.b.value if cell.fit else None
        tok_s = cell.arms[plan.baseline].tok_s.value if plan.baseline in cell.arms else None
        if b and tok_s:
            return b / tok_s
    return None


def _arm(
    arm: str,
    n_spec: int | None,
    means: pd.DataFrame,
    new: Mapping[str, Estimate],
    computed: Mapping[str, Estimate],
    baseline: str,
    why: str,
) -> PrefillArm:
    def known(column: str, of: str = arm) -> float | None:
        values = means.loc[means.index == of, column].to_numpy(dtype=float)
        return float(values[0]) if len(values) and math.isfinite(values[0]) else None

    def ratio(ratios: Mapping[str, Estimate], column: str) -> Estimate:
        if arm in ratios:
            return ratios[arm]
        own, base = known(column), known(column, baseline)
        return Estimate(own / base if own and base else None, reason=why or "no complete rounds")

    return PrefillArm(
        arm,
        n_spec,
        ratio(new, "pp_new_tok_s"),
        ratio(computed, "pp_computed_tok_s"),
        known("pp_new_tok_s"),
        known("pp_computed_tok_s"),
        known("ttft_s"),
        known("new_tokens"),
        known("computed_tokens"),
    )


def drifts(cells: pd.DataFrame, plan: Plan) -> tuple[CellDrift, ...]:
    """Drift of the baseline and its twins in every cell."""
    own = cells[cells["arm"].isin([plan.baseline, *plan.twins])]
    return tuple(
        CellDrift(
            int(rows["depth"].iloc[0]),
            str(rows["prompt_class"].iloc[0]),
            drift(
                rows["started_at"].to_numpy(dtype=float),
                rows["log_token_s"].to_numpy(dtype=float),
                plan.margin,
            ),
        )
        for _, rows in own.groupby(["depth", "prompt_class"], sort=True)
    )
