"""What goes to the ledger: a record per configuration, and prefill regressions as records of their own (Method 6)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from breakeven.analysis.comparison import CellNumbers
from breakeven.analysis.depths import PrefillDepth
from breakeven.analysis.experiment import Plan
from breakeven.analysis.judgement import Judgement, Reopen
from breakeven.analysis.promotion import Configuration


@dataclass(frozen=True)
class Finding:
    """One ledger record; `finding` is its stable name inside the experiment."""

    finding: str
    arm: str | None
    ledger: str
    title: str
    sentence: str
    numbers: Mapping[str, Any] = field(default_factory=dict)
    reopen: Reopen | None = None
    evidence: tuple[str, ...] = ()


def findings(
    configurations: Sequence[Configuration],
    prefill: Sequence[PrefillDepth],
    judgements: Mapping[tuple[str, int, str], Judgement],
    numbers: Mapping[tuple[int, str], CellNumbers],
    plan: Plan,
) -> tuple[Finding, ...]:
    """One finding per configuration, one per arm-independent prefill regression."""
    rounds = sorted({number for cell in numbers.values() for number in cell.rounds})
    look = f"rounds {', '.join(map(str, rounds)) or 'none'}; alpha {plan.look.alpha:g}"
    found = [_configuration(one, judgements, numbers, look) for one in configurations]
    worse = [depth for depth in prefill if depth.kind == "regression"]
    if worse:
        found.append(_prefill(worse, plan, look))
    return tuple(found)


def _configuration(
    one: Configuration,
    judgements: Mapping[tuple[str, int, str], Judgement],
    numbers: Mapping[tuple[int, str], CellNumbers],
    look: str,
) -> Finding:
    cells = {key: judged for key, judged in judgements.items() if key[0] == one.arm}
    figures: dict[str, Any] = {"factors": dict(one.factors), "worst": one.worst}
    for (arm, depth, prompt_class), judged in cells.items():
        measured = numbers[depth, prompt_class].arms.get(arm)
        if measured and judged.verdict not in ("invalid", "not measured"):
            figures[f"depth {depth}, {prompt_class}"] = {
                "ratio": measured.ratio.value,
                "cost": measured.cost,
                "ceiling": measured.ceiling,
                "length": measured.acceptance.length,
                "rate": measured.acceptance.rate,
            }
    return Finding(
        finding=one.arm,
        arm=one.arm,
        ledger=one.ledger,
        title=f"{one.arm}: {one.ledger}",
        sentence=one.sentence,
        numbers=figures,
        reopen=one.reopen,
        evidence=(look, *(judged.sentence for judged in cells.values())),
    )


def _prefill(worse: Sequence[PrefillDepth], plan: Plan, look: str) -> Finding:
    depths = ", ".join(str(depth.depth) for depth in worse)
    causes = sorted({str(depth.cause) for depth in worse})
    ratios = {
        f"depth {depth.depth}": {arm.arm: arm.pp_new_ratio for arm in depth.arms if arm.arm != plan.baseline}
        for depth in worse
    }
    lowest = min(
        ratio.value for arms in ratios.values() for ratio in arms.values() if ratio.value is not None
    )
    flat = {True: ", flat in N", False: ", changing with N", None: ""}[worse[0].flat]
    return Finding(
        finding="prefill",
        arm=None,
        ledger="open-defect",
        title=f"prefill regresses at depth {depths}",
        sentence=f"Prefill falls to {lowest:.3f} of the baseline at depth {depths}{flat}; cause: {', '.join(causes)}.",
        numbers=ratios,
        evidence=(look, *(f"depth {depth.depth}: {depth.reason}" for depth in worse)),
    )
