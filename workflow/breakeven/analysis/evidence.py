"""What speaks against an arm before its speed is looked at: gates, checks, anchors, drift, depth."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from breakeven.analysis.cells import CONTRADICTION
from breakeven.analysis.comparison import ArmNumbers, CellNumbers
from breakeven.analysis.cost import b_threshold
from breakeven.analysis.experiment import Plan
from breakeven.analysis.judgement import Condition, Reopen, cause_of_loss
from breakeven.analysis.judgement import Evidence as Seen
from breakeven.analysis.noise import same_arm_test, shared_rounds

BLOCK = "block"
LOSSLESS = "lossless"
TOO_MANY = 0.5
"""Share of an arm's rounds with a failed check from which the arm, not the rounds, is invalid."""
FEW_PROMPTS, FEW_TOKENS = 12, 256
"""Fewer prompts a class, or tokens a request, describe the machine but not a workload (Method 4)."""


def failed(check: Mapping[str, Any]) -> bool:
    """Whether a gate or check makes what it speaks of invalid."""
    return check.get("severity") == BLOCK and check.get("passed") is not None and not bool(check["passed"])


def gate_objections(gates: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Failed blocking gates in words."""
    return tuple(
        f"gate {gate.get('gate') or gate.get('name')}: {gate.get('reason')}" for gate in gates if failed(gate)
    )


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of a table with None for what is missing."""
    plain = table.astype(object).where(table.notna(), None)
    return [{str(key): value for key, value in row.items()} for row in plain.to_dict("records")]


def concerns(check: Mapping[str, Any], arm: str, depth: int, prompt_class: str) -> bool:
    """Whether a check speaks of this arm in this cell; what it leaves open it says of all."""
    here = check["depth"] in (None, depth) and check["prompt_class"] in (None, prompt_class)
    return bool(here and check["arm"] == arm)


def without_failed_rounds(cells: pd.DataFrame, checks: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Cells less the launches whose own check failed, where few rounds of the arm are concerned.

    An arm with half of its rounds failing keeps them: `check_objections` then makes it invalid.
    """
    drop = np.zeros(len(cells), dtype=bool)
    for check in checks:
        if failed(check) and check["round"] is not None and not _most_rounds(check, checks, cells):
            hit = (cells["arm"] == check["arm"]) & (cells["round"] == check["round"])
            for key in ("depth", "prompt_class"):
                if check[key] is not None:
                    hit &= cells[key] == check[key]
            drop |= hit.to_numpy(dtype=bool)
    kept: pd.DataFrame = cells[~drop]
    return kept


def _most_rounds(check: Mapping[str, Any], checks: Sequence[Mapping[str, Any]], cells: pd.DataFrame) -> bool:
    same = ("arm", "check", "depth", "prompt_class")
    bad = {c["round"] for c in checks if failed(c) and all(c[key] == check[key] for key in same)}
    rounds = int(cells.loc[cells["arm"] == check["arm"], "round"].nunique())
    return len(bad) >= TOO_MANY * rounds


def check_objections(
    checks: Sequence[Mapping[str, Any]], cells: pd.DataFrame, arm: str, depth: int, prompt_class: str
) -> tuple[str, ...]:
    """Failed blocking checks of an arm in a cell, in words: those that span rounds, or fail in half of them."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for check in checks:
        spans = check["round"] is None or _most_rounds(check, checks, cells)
        if failed(check) and concerns(check, arm, depth, prompt_class) and spans:
            found.setdefault(check["check"], []).append(check)
    return tuple(_said(name, failures) for name, failures in found.items())


def _said(name: str, failures: Sequence[Mapping[str, Any]]) -> str:
    rounds = sorted({int(check["round"]) for check in failures if check["round"] is not None})
    where = f" in rounds {', '.join(map(str, rounds))}" if len(rounds) > 1 else ""
    return f"check {name}{where}: {failures[0]['reason']}"


def number_objections(cell: CellNumbers, arm: ArmNumbers) -> tuple[str, ...]:
    """Counters that contradict tokens, and step costs that contradict what a verify step is."""
    found = [arm.steps_reason] if arm.steps_reason == CONTRADICTION else []
    flags = cell.fit.anchor_flags if cell.fit and arm.arm in cell.fit.arms else ()
    return (*found, *(flag.reason for flag in flags if flag.arm in (None, arm.arm)))


def same_arm_objection(cells: Iterable[CellNumbers], plan: Plan) -> str | None:
    """The A/A gate: one familywise test over all cells that the baseline equals its twin."""
    p_values = [cell.same_arm_p for cell in cells if cell.same_arm_p is not None]
    if same_arm_test(p_values, plan.look.alpha):
        return None
    return (
        f"the baseline differs from its twin {', '.join(plan.twins)} (smallest p {min(p_values):.2g} of "
        f"{len(p_values)} cells at alpha {plan.look.alpha:g}): launches are not comparable; look at drift, load, clocks"
    )


def with_shared(cells: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Cells with `shared`: whether the launch belongs to its round's baseline."""
    launches = cells.drop_duplicates(["arm", "round"])[["arm", "round", "started_at", "session"]].reset_index(
        drop=True
    )
    launches["started_at"] = launches["started_at"].astype(float)
    launches["shared"] = shared_rounds(launches, baseline)
    return cells.merge(launches[["arm", "round", "shared"]], on=["arm", "round"], how="left")


def reopen(arm: ArmNumbers, cell: CellNumbers, plan: Plan, seen: Seen) -> Reopen | None:
    """When the question is worth asking again, in words and as conditions."""
    n, cost = arm.n_spec, arm.cost.value
    ratio = arm.ratio.value
    undecided = not ratio.bounded or (
        ratio.low is not None and ratio.high is not None and ratio.low <= 1 <= ratio.high
    )
    if undecided and not seen.impossible:
        rounds = len(cell.rounds)
        return Reopen(f"more than {rounds} complete rounds", (Condition("rounds", above=rounds),))
    if cost is None:
        return None
    more = Reopen(f"more than {cost:.3f} tokens per step", (Condition("tokens_per_step", above=cost),))
    if not n:
        return more
    if cause_of_loss(seen) == "acceptance-limited" and not seen.impossible:
        words = f"at N = {n} more than {cost:.3f} tokens per step"
        conditions = [Condition("tokens_per_step", above=cost, at_n=n)]
        if arm.breakeven.rate is not None:
            words += f", that is more than {arm.breakeven.rate:.1%} of the drafts accepted"
            conditions.append(Condition("acceptance_rate", above=arm.breakeven.rate, at_n=n))
        return Reopen(words, tuple(conditions))
    line = cell.line_of(arm.arm)
    if line and line.linear and line.a.value is not None:
        needed = b_threshold(n, line.a.value)
        if needed > 0:
            return Reopen(f"b below {needed:.3f} at N = {n}", (Condition("b", below=needed, at_n=n),))
        words = f"a below {n + 1}: at N = {n} even free drafts fail"
        return Reopen(words, (Condition("a", below=n + 1, at_n=n),))
    if arm.on_the_line:
        return Reopen(
            f"a step at N = {n} below {n + 1} baseline steps", (Condition("cost", below=n + 1, at_n=n),)
        )
    return more


def faster_when_deeper(cells: Sequence[CellNumbers], baseline: str) -> list[str]:
    """Cells where an arm decodes surely faster with more context, which attention does not allow."""
    found = []
    for shallow in cells:
        for deep in cells:
            if deep.depth <= shallow.depth or deep.prompt_class != shallow.prompt_class:
                continue
            before, after = (cell.arms[baseline].tok_s for cell in (shallow, deep) if baseline in cell.arms)
            if before.high is not None and after.low is not None and after.low > before.high:
                found.append(
                    f"{baseline} decodes faster at depth {deep.depth} than at {shallow.depth} ({deep.prompt_class}): "
                    f"{after.value:.2f} against {before.value:.2f} tok/s"
                )
    return found


def against_bytes(cell: CellNumbers, plan: Plan) -> str | None:
    """A warning where b is more than 3 times, or less than a third of, what the bytes say (Method 4)."""
    b = cell.fit.b.value if cell.fit else None
    if b is None or not plan.b_from_bytes or b <= 0:
        return None
    share = b / plan.b_from_bytes
    if 1 / 3 <= share <= 3:
        return None
    return (
        f"explain this: b = {b:.3f} at depth {cell.depth}, {cell.prompt_class} is {share:.1f} times the "
        f"{plan.b_from_bytes:.3f} that the bytes of a draft give"
    )


def scaled_mixes(cells: pd.DataFrame, plan: Plan) -> list[str]:
    """Mixes whose prompt was not measured at its own length: their prefill is the measured rate, scaled."""
    measured = sorted({round(float(tokens)) for tokens in cells["new_tokens"].dropna()})
    scaled = sorted({mix.prompt_tokens for mix in plan.mixes} - set(measured))
    if not scaled or not measured:
        return []
    asked, known = (", ".join(map(str, tokens)) for tokens in (scaled, measured))
    return [f"prefill of mixes with {asked} prompt tokens is scaled from the rate measured at {known}"]


def small_workload(cells: pd.DataFrame, prompts: pd.DataFrame) -> list[str]:
    """Where the workload is too small to stand for one: intervals are then the machine's alone."""
    found = []
    if not prompts.empty:
        fewest = int(prompts.groupby(["arm", "depth", "prompt_class"])["prompt"].nunique().min())
        if fewest < FEW_PROMPTS:
            found.append(
                f"{fewest} of {FEW_PROMPTS} prompts wanted a class: intervals are the machine's, not the workload's"
            )
    counted = cells[cells["requests"].notna() & (cells["requests"] > 0)]
    if not counted.empty:
        tokens = (counted["completion_tokens"] / counted["requests"]).astype(float).min()
        if math.isfinite(tokens) and tokens < FEW_TOKENS:
            found.append(
                f"{tokens:.0f} tokens a request ({FEW_TOKENS} wanted): the cut last draft weighs visibly"
            )
    return found
