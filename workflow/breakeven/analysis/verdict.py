"""One verdict per arm x depth x prompt class and one per configuration, from gates, checks, fit and prefill (Method 6).

`to_json()` of the result is all that a report or a ledger needs. Its shape; an *estimate* is
`{"value", "low", "high", "reason"}`: any of the numbers may be null, `reason` then says why.

    {"experiment", "question", "baseline", "margin",
     "look": {"rounds": int, "planned": int | "auto", "alpha", "cap": int, "next_rounds": int | null, "rule": str},
     "decided": bool, "undecided": ["mtp1 at depth 8192, code: inconclusive", ...],
     "definitions": {"rate": "accepted draft tokens / ...", ...},
     "arms": [{"arm", "n_spec": int | null, "role": "baseline" | "repeat" | "candidate" | "cost_only", "gated": bool,
               "status", "reason", "rounds": [int], "interleaved": bool,
               "gates": [as given], "acceptance": acceptance}],                     # all cells pooled
       where acceptance = {"counts": {"requests", "generated", "drafts", "draft_tokens", "accepted", "undrafted",
               "steps", "per_position"}, "rate": estimate, "length_drafted": estimate, "length": estimate,
               "draft_length": estimate, "survival": [float] | null, "conditional": [float] | null, "reason"}
     "cells": [{"depth", "prompt_class", "rounds": [int], "dropped": [str], "df": int | null,
                "estimator": "E8" | "E5" | null,
                "estimator_reason", "interval_method": "E8, Dunnett" | ..., "launch_sd": float | null,
                "noise_floor": estimate, "same_arm_p": float | null,     # sd of log time between launches; A/A
                "minimum_detectable_effect": float | null, "rounds_for_margin": int | null,  # ratio minus 1; rounds
                "slot": {"log_effect", "p", "present", "reason"} | null,
                "fit": {"arms": [str], "n": [int], "drafted": [float], "cost": [estimate], "a": estimate, "b": estimate,
                        "cov_ab": float | null, "df", "residuals": [float], "linear": bool,
                        "lack_of_fit": {"statistic", "p", "rejected": bool | null, "reason"},
                        "anchor_flags": [{"arm", "reason"}],
                        "alternative": {"name", "parameters", "residual_sd"} | null} | null,
                "fit_reason": str | null, "impossible": bool,
                "decomposition": {"parts": [{"part", "cost": estimate, "how"}], "reason": str | null},
                "best_n": {"n", "low", "high": int | null, "speedups": [float], "reason"},
                "arms": [{"arm", "n_spec", "rounds": int, "interleaved": bool, "tok_s": estimate, "step_ms": estimate,
                          "ratio": estimate, "p": float | null, "unpaired_ratio": estimate,      # ratio 1: no change
                          "cost": estimate, "ceiling": estimate, "possible": bool | null, "on_the_line": bool,
                          "acceptance": acceptance, "prompts": {"rate": estimate, "length": estimate},
                          "breakeven": {"length", "rate", "alpha", "profile_scale": float | null, "reason"},
                          "headroom": estimate,           # ceiling over the speed-up: what perfect drafts would add
                          "needed": [str],                # what would have to change, in plain words
                          "steps_reason": str | null,
                          "verdict": judgement | null}]}],       # null: baseline, its twins, cost_only arms
       where judgement = {"verdict": "wins" | "loses" | "tie" | "inconclusive" | "impossible" | "invalid"
               | "not measured", "row": int, "cause": str | null, "ledger", "reason", "sentence",
               "minimum_detectable_effect": float | null, "gates": [as given],
               "checks": [rows of the checks table], "reopen": reopen | null}
       and reopen = {"words", "conditions": [{"quantity", "below", "above", "at_n"}]}
     "prefill": [{"depth", "kind": "regression" | "none" | "inconclusive", "cause": str | null, "margin", "reason",
                  "arms": [{"arm", "n_spec", "pp_new_ratio": estimate, "pp_computed_ratio": estimate,
                            "pp_new_tok_s", "pp_computed_tok_s", "ttft_s", "new_tokens", "computed_tokens"}],
                  "slope": estimate, "flat": bool | null}],
     "drift": [{"depth", "prompt_class", "drift": {"per_hour": estimate, "over_all", "flagged", "reason"}}],
     "record": {"ratio", "flagged", "reason"} | null,         # today's baseline against the last on record
     "checks": [rows of the checks table that did not pass],
     "warnings": [str], "limitations": [str],
     "wins_anywhere": [{"arm", "depth", "prompt_class", "p_holm"}],
     "configurations": [{"arm", "ledger": "recommended" | "rejected" | "noise" | "impossible" | "blocked" | "diagnosis"
                         | "open-defect", "reason", "sentence",
                         "mixes": [{"arm", "prompt_tokens", "output_tokens", "depth", "prompt_class", "ratio": estimate,
                                    "verdict", "reason"}],
                         "worst": estimate, "factors": {"code": float}, "reopen": reopen | null}],
     "winner": {"arm": str | null, "reason"},
     "findings": [{"finding", "arm": str | null, "ledger", "title", "sentence", "numbers": {}, "reopen",
                   "evidence": [str]}],
     "next_arm": {"change": {}, "reason"} | null}
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from breakeven.analysis import evidence
from breakeven.analysis.acceptance import DEFINITIONS, Acceptance, acceptance, pool
from breakeven.analysis.comparison import ArmNumbers, CellNumbers, compare_cell
from breakeven.analysis.depths import CellDrift, PrefillDepth, drifts, prefill_depths
from breakeven.analysis.document import plain
from breakeven.analysis.estimate import Estimate, absent
from breakeven.analysis.experiment import Arm, Plan, read_experiment
from breakeven.analysis.family import holm
from breakeven.analysis.findings import Finding, findings
from breakeven.analysis.judgement import RAN, Evidence, Judgement, judge
from breakeven.analysis.noise import RecordShift, against_record
from breakeven.analysis.promotion import (
    Configuration,
    MixResult,
    NextArm,
    Trial,
    Winner,
    judge_mixes,
    next_arm,
    promote,
    winner,
)

Row = Mapping[str, Any]
WIN_ALPHA = 0.05


@dataclass(frozen=True)
class ArmSummary:
    """An arm over the whole experiment."""

    arm: str
    n_spec: int | None
    role: str
    gated: bool
    status: str
    reason: str | None
    rounds: tuple[int, ...]
    interleaved: bool
    gates: tuple[Row, ...]
    acceptance: Acceptance


@dataclass(frozen=True)
class Win:
    """A cell in which an arm is faster even when all arms and cells are tested together (Holm)."""

    arm: str
    depth: int
    prompt_class: str
    p_holm: float


@dataclass(frozen=True)
class Verdict:
    """All that is known of an experiment at one look."""

    plan: Plan
    decided: bool
    undecided: tuple[str, ...]
    arms: tuple[ArmSummary, ...]
    cells: tuple[CellNumbers, ...]
    judgements: Mapping[tuple[str, int, str], Judgement]
    prefill: tuple[PrefillDepth, ...]
    drift: tuple[CellDrift, ...]
    record: RecordShift | None
    checks: tuple[Row, ...]
    warnings: tuple[str, ...]
    limitations: tuple[str, ...]
    wins_anywhere: tuple[Win, ...]
    configurations: tuple[Configuration, ...]
    winner: Winner
    findings: tuple[Finding, ...]
    next_arm: NextArm | None

    def to_json(self) -> dict[str, Any]:
        """The document described at the top of this module, in JSON's own types."""
        own = plain(self)
        own["experiment"] = self.plan.name
        for key in ("question", "baseline", "margin", "look"):
            own[key] = own["plan"][key]
        own["definitions"] = DEFINITIONS
        own["cells"] = [self._cell(cell) for cell in self.cells]
        return {key: value for key, value in own.items() if key not in ("plan", "judgements")}

    def _cell(self, cell: CellNumbers) -> dict[str, Any]:
        document: dict[str, Any] = plain(cell)
        if cell.fit is not None:
            fit = document["fit"]
            fit["cov_ab"] = None if cell.fit.cov is None else float(cell.fit.cov[0, 1])
            fit["lack_of_fit"], fit["linear"] = fit.pop("lack"), cell.fit.linear
            del fit["cov"]
        arms = []
        for arm in document["arms"].values():
            ratio = arm.pop("ratio")
            judged = self.judgements.get((arm["arm"], cell.depth, cell.prompt_class))
            arms.append(arm | {"ratio": ratio["value"], "p": ratio["p"], "verdict": plain(judged)})
        return document | {"arms": arms}


def fit(
    experiment: Row,
    cells: pd.DataFrame,
    prompts: pd.DataFrame,
    checks: pd.DataFrame,
    rounds: int | None = None,
) -> list[CellNumbers]:
    """Noise, step costs, a + b*N and what follows from them, cell by cell, at the look after `rounds` rounds.

    `cells`, `prompts`, `checks`: the tables CELLS, PROMPTS, CHECKS; launches whose own check failed are left out.
    """
    plan = read_experiment(experiment, rounds)
    groups = _groups(_usable(cells, evidence.records(checks), plan))
    return [compare_cell(group, _of(prompts, *key), plan) for key, group in groups.items()]


def verdict(
    experiment: Row,
    cells: pd.DataFrame,
    prompts: pd.DataFrame,
    checks: pd.DataFrame,
    statuses: Mapping[str, Row],
    gates: Mapping[str, Sequence[Row]],
    rounds: int | None = None,
    fitted: Sequence[CellNumbers] | None = None,
) -> Verdict:
    """Judge an experiment at the look after `rounds` rounds (None: its first or only one).

    `cells`, `prompts`, `checks`: the tables CELLS, PROMPTS, CHECKS. `statuses`: arm -> {status, reason}; `gates`: arm
    -> gates {gate or name, passed, severity, reason}. `fitted`: what `fit` gave; None: fit now. Raises ConfigError
    on an experiment that cannot be judged.
    """
    plan = read_experiment(experiment, rounds)
    rows = evidence.records(checks)
    usable = _usable(cells, rows, plan)
    cells = cells[cells["round"] <= plan.look.rounds]
    groups = _groups(usable)
    if fitted is None:
        fitted = fit(experiment, cells, prompts, checks, rounds)
    numbers = {(cell.depth, cell.prompt_class): cell for cell in fitted}
    same_arm = evidence.same_arm_objection(numbers.values(), plan)
    judgements = {}
    for (depth, prompt_class), cell in numbers.items():
        for arm in plan.candidates:
            seen = _seen(arm, cell, plan, rows, cells, statuses, gates, same_arm)
            own = [row for row in rows if evidence.concerns(row, arm.arm, depth, prompt_class)]
            judgements[arm.arm, depth, prompt_class] = replace(
                judge(seen), gates=tuple(gates.get(arm.arm, ())), checks=tuple(own)
            )
    mixes = [
        mix
        for group in groups.values()
        for mix in judge_mixes(group, usable[usable["depth"] == group["depth"].iloc[0]], plan)
    ]
    configurations = tuple(
        _configuration(arm, judgements, numbers, mixes, plan, statuses) for arm in plan.candidates
    )
    prefill = prefill_depths(usable, list(numbers.values()), plan)
    undecided = _undecided(judgements, mixes, plan)
    drift = drifts(usable, plan)
    return Verdict(
        plan=plan,
        decided=not undecided or plan.look.next_rounds is None,
        undecided=tuple(undecided),
        arms=tuple(_summary(arm, usable, statuses, gates) for arm in plan.arms),
        cells=tuple(numbers.values()),
        judgements=judgements,
        prefill=prefill,
        drift=drift,
        record=_record(numbers, plan),
        checks=tuple(row for row in rows if not row["passed"]),
        warnings=tuple(_warnings(numbers, drift, plan)),
        limitations=(*evidence.small_workload(usable, prompts), *evidence.scaled_mixes(usable, plan)),
        wins_anywhere=_wins_anywhere(numbers, judgements),
        configurations=configurations,
        winner=winner(configurations, {arm.arm: arm.n_spec for arm in plan.arms}),
        findings=findings(configurations, prefill, judgements, numbers, plan),
        next_arm=_next_arm(experiment, configurations),
    )


def _usable(cells: pd.DataFrame, checks: Sequence[Row], plan: Plan) -> pd.DataFrame:
    """Cells of this look without the launches whose own check failed."""
    looked_at = cells[cells["round"] <= plan.look.rounds]
    return evidence.with_shared(evidence.without_failed_rounds(looked_at, checks), plan.baseline)


def _groups(cells: pd.DataFrame) -> dict[tuple[int, str], pd.DataFrame]:
    decoded = cells[cells["requests"].notna()]
    groups = (group for _, group in decoded.groupby(["depth", "prompt_class"], sort=True))
    return {(int(one["depth"].iloc[0]), str(one["prompt_class"].iloc[0])): one for one in groups}


def _of(prompts: pd.DataFrame, depth: int, prompt_class: str) -> pd.DataFrame:
    return prompts[(prompts["depth"] == depth) & (prompts["prompt_class"] == prompt_class)]


def _seen(
    arm: Arm,
    cell: CellNumbers,
    plan: Plan,
    checks: Sequence[Row],
    cells: pd.DataFrame,
    statuses: Mapping[str, Row],
    gates: Mapping[str, Sequence[Row]],
    same_arm: str | None,
) -> Evidence:
    """Everything one cell's verdict on one arm looks at."""
    place = (cell.depth, cell.prompt_class)
    status = statuses.get(arm.arm, {})
    found = cell.arms.get(arm.arm)
    objections = [
        *evidence.gate_objections(gates.get(arm.arm, ())),
        *evidence.check_objections(checks, cells, arm.arm, *place),
    ]
    base = (
        *evidence.gate_objections(gates.get(plan.baseline, ())),
        *evidence.check_objections(checks, cells, plan.baseline, *place),
    )
    objections += [f"the baseline is not valid: {reason}" for reason in base]
    objections += [same_arm] if same_arm else []
    where = f"depth {cell.depth}, {cell.prompt_class}"
    diverges = any(reason.startswith(f"check {evidence.LOSSLESS}") for reason in objections)
    baseline = statuses.get(plan.baseline, {})
    if found is None or baseline.get("status", RAN[0]) not in RAN:
        word = str(status.get("status") or "missing")
        why = status.get("reason") or "no usable launch in this cell"
        if found is not None:
            why = f"there is nothing to compare it with: the baseline did not run: {baseline.get('reason')}"
        seen = Evidence(arm.arm, where, arm.n_spec, word, str(why), tuple(objections), diverges)
        return seen if word not in RAN else replace(seen, status="missing")
    objections += evidence.number_objections(cell, found)
    ratio = found.ratio
    seen = Evidence(
        arm=arm.arm,
        where=where,
        n_spec=arm.n_spec,
        objections=tuple(dict.fromkeys(objections)),
        diverges=diverges,
        ratio=ratio.value,
        equivalent=ratio.equivalent(plan.margin, plan.look.alpha, len(cell.rounds)),
        ceiling=found.ceiling,
        impossible=cell.impossible and cell.line_of(arm.arm) is not None,
        margin=plan.margin,
        level=1 - plan.look.alpha,
        minimum_detectable_effect=ratio.minimum_detectable_effect,
    )
    return replace(seen, reopen=evidence.reopen(found, cell, plan, seen))


def _configuration(
    arm: Arm,
    judgements: Mapping[tuple[str, int, str], Judgement],
    numbers: Mapping[tuple[int, str], CellNumbers],
    mixes: Sequence[MixResult],
    plan: Plan,
    statuses: Mapping[str, Row],
) -> Configuration:
    own = {key: judgements[arm.arm, *key] for key in numbers}
    if not own:
        status = statuses.get(arm.arm, {})
        why = str(status.get("reason") or "no cell of the experiment was measured")
        own = {
            (0, ""): judge(
                Evidence(arm.arm, "any depth", arm.n_spec, str(status.get("status") or "missing"), why)
            )
        }
        ratios = {(0, ""): absent("not measured")}
        return promote(arm.arm, own, ratios, (), replace(plan, mixes=(), classes_required=()))
    ratios = {key: _ratio(cell.arms.get(arm.arm)) for key, cell in numbers.items()}
    return promote(arm.arm, own, ratios, mixes, plan)


def _ratio(arm: ArmNumbers | None) -> Estimate:
    return arm.ratio.value if arm else absent("not measured")


def _summary(
    arm: Arm, cells: pd.DataFrame, statuses: Mapping[str, Row], gates: Mapping[str, Sequence[Row]]
) -> ArmSummary:
    own = cells[(cells["arm"] == arm.arm) & cells["requests"].notna()]
    status = statuses.get(arm.arm, {})
    return ArmSummary(
        arm=arm.arm,
        n_spec=arm.n_spec,
        role=arm.role,
        gated=arm.gated,
        status=str(status.get("status") or ("measured" if len(own) else "missing")),
        reason=status.get("reason"),
        rounds=tuple(sorted({int(number) for number in own["round"]})),
        interleaved=bool(own["shared"].any()) if len(own) else False,
        gates=tuple(gates.get(arm.arm, ())),
        acceptance=acceptance(pool(own), arm.n_spec, gated=arm.gated),
    )


def _undecided(
    judgements: Mapping[tuple[str, int, str], Judgement], mixes: Sequence[MixResult], plan: Plan
) -> list[str]:
    """What more rounds could decide: inconclusive required cells and mixes."""
    found = [
        f"{arm} at depth {depth}, {prompt_class}: inconclusive"
        for (arm, depth, prompt_class), one in judgements.items()
        if plan.required(prompt_class) and one.verdict == "inconclusive"
    ]
    invalid = {
        key for key, one in judgements.items() if one.verdict in ("invalid", "not measured", "impossible")
    }
    return found + [
        f"{mix.arm}, {mix.prompt_tokens} + {mix.output_tokens} tokens at depth {mix.depth}, {mix.prompt_class}: "
        "inconclusive"
        for mix in mixes
        if plan.required(mix.prompt_class)
        and mix.verdict == "inconclusive"
        and mix.ratio.value is not None
        and (mix.arm, mix.depth, mix.prompt_class) not in invalid
    ]


def _record(numbers: Mapping[tuple[int, str], CellNumbers], plan: Plan) -> RecordShift | None:
    first = next(iter(numbers.values()), None)
    if plan.recorded_tok_s is None or first is None or plan.baseline not in first.arms:
        return None
    now = first.arms[plan.baseline].tok_s.value
    return None if now is None else against_record(now, plan.recorded_tok_s, plan.margin)


def _warnings(
    numbers: Mapping[tuple[int, str], CellNumbers], drift: Sequence[CellDrift], plan: Plan
) -> list[str]:
    found = evidence.faster_when_deeper(list(numbers.values()), plan.baseline)
    found += [words for cell in numbers.values() if (words := evidence.against_bytes(cell, plan))]
    found += [
        f"depth {one.depth}, {one.prompt_class}: {one.drift.reason}" for one in drift if one.drift.flagged
    ]
    for cell in numbers.values():
        if cell.slot and cell.slot.present and cell.slot.log_effect is not None:
            found.append(
                f"depth {cell.depth}, {cell.prompt_class}: the first launch of a round is {cell.slot.log_effect:+.1%} "
                "slower; taken out as a factor"
            )
    return found


def _wins_anywhere(
    numbers: Mapping[tuple[int, str], CellNumbers], judgements: Mapping[tuple[str, int, str], Judgement]
) -> tuple[Win, ...]:
    """Cells that survive Holm over all arms and cells (one-sided, faster): the claim "wins somewhere"."""
    tests = []
    for (arm, depth, prompt_class), one in judgements.items():
        found = numbers[depth, prompt_class].arms.get(arm)
        if one.verdict not in ("invalid", "not measured") and found and found.ratio.p_faster is not None:
            tests.append((arm, depth, prompt_class, found.ratio.p_faster))
    adjusted = holm([p for *_, p in tests])
    return tuple(
        Win(arm, depth, prompt_class, p)
        for (arm, depth, prompt_class, _), p in zip(tests, adjusted, strict=True)
        if p < WIN_ALPHA
    )


def _next_arm(experiment: Row, configurations: Sequence[Configuration]) -> NextArm | None:
    """The staged search's next proposal, when the experiment declares one: search {p_min, n_max, n_start}."""
    search = experiment.get("search")
    if not search:
        return None
    arms = experiment["arms"]
    loses = {"rejected": True, "impossible": True, "recommended": False}
    trials = [
        Trial(
            int(arms[one.arm].get("n_spec") or 0),
            float(arms[one.arm].get("p_min") or 0.0),
            "ngram" if arms[one.arm].get("free_drafts") else "model",
            loses.get(one.ledger, None if "inconclusive" in one.reason else False),
        )
        for one in configurations
    ]
    return next_arm(trials, search["p_min"], search["n_max"], search.get("n_start") or max(search["n_max"]))
