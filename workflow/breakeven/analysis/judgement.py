"""Method 6 as a table: the first row whose condition holds is the verdict."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from breakeven.analysis.estimate import Estimate, absent

Outcome = Literal["not measured", "invalid", "impossible", "loses", "wins", "tie", "inconclusive"]
Cause = Literal["acceptance-limited", "cost-limited", "undetermined"]
NOT_MEASURED, NO_COST = absent("not measured"), absent("the step cost is not known")
REFUSED = "refused"
"""Status of an arm that its gates refused."""
RAN = ("ok", "measured", "verified", "ready")
LACKS_FEATURE = "unsupported"
"""Status of an arm whose engine does not have what it asks for."""


@dataclass(frozen=True)
class Condition:
    """A quantity and the bound whose crossing reopens a closed question; at_n: draft length it is stated for."""

    quantity: str
    below: float | None = None
    above: float | None = None
    at_n: int | None = None


@dataclass(frozen=True)
class Reopen:
    """When a closed question is worth asking again, for people and for a machine."""

    words: str
    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Evidence:
    """All that one verdict looks at: one arm at one depth and prompt class, or one mix end to end.

    `objections`: failed gates and checks, contamination, counters that contradict themselves. `impossible`: the
    ceilings at every tested N are surely below 1 and a line that holds agrees. `equivalent`: None while so few
    rounds cannot prove a tie.
    """

    arm: str
    where: str
    n_spec: int | None = None
    status: str = "ok"
    status_reason: str | None = None
    objections: tuple[str, ...] = ()
    diverges: bool = False
    ratio: Estimate = NOT_MEASURED
    equivalent: bool | None = None
    ceiling: Estimate = NO_COST
    impossible: bool = False
    margin: float = 0.02
    level: float = 0.95
    minimum_detectable_effect: float | None = None
    reopen: Reopen | None = None


@dataclass(frozen=True)
class Row:
    """One line of the table: its number in Method 6, what it says, when it holds, and why in words."""

    number: int
    outcome: Outcome
    ledger: Callable[[Evidence], str]
    holds: Callable[[Evidence], bool]
    reason: Callable[[Evidence], str]


@dataclass(frozen=True)
class Judgement:
    """A verdict and what it rests on; `row` is the line of Method 6."""

    verdict: Outcome
    row: int
    cause: Cause | None
    ledger: str
    reason: str
    sentence: str
    minimum_detectable_effect: float | None
    reopen: Reopen | None
    gates: tuple[Any, ...] = ()
    checks: tuple[Any, ...] = ()


def _below_one(estimate: Estimate) -> bool:
    return estimate.bounded and estimate.high is not None and estimate.high < 1


def _above_one(estimate: Estimate) -> bool:
    return estimate.bounded and estimate.low is not None and estimate.low > 1


def cause_of_loss(evidence: Evidence) -> Cause:
    """What a loss is limited by: perfect drafts would pay (acceptance), would not (cost), or it is not known."""
    if _above_one(evidence.ceiling):
        return "acceptance-limited"
    return "cost-limited" if _below_one(evidence.ceiling) else "undetermined"


def _loss_reason(evidence: Evidence) -> str:
    cause, reached = cause_of_loss(evidence), _figure(evidence.ceiling)
    if cause == "acceptance-limited":
        return f"acceptance-limited: with every draft accepted it would reach {reached}"
    if cause == "cost-limited":
        return f"cost-limited: even with every draft accepted it would reach {reached}"
    return f"by what is not determined: {evidence.ceiling.reason or 'the ceiling may lie above or below 1'}"


def _uncertain(evidence: Evidence) -> str:
    if not evidence.ratio.bounded:
        return evidence.ratio.reason or "no interval"
    words = f"the interval {_interval(evidence)} contains 1"
    if evidence.equivalent is None:
        words += "; so few rounds cannot prove a tie"
    return words


TABLE = (
    Row(
        0,
        "not measured",
        lambda e: "impossible" if e.status == LACKS_FEATURE else "blocked",
        lambda e: e.status not in RAN and e.status != REFUSED,
        lambda e: e.status_reason or f"the arm did not run: {e.status}",
    ),
    Row(
        1,
        "invalid",
        lambda e: "open-defect" if e.diverges else "diagnosis",
        lambda e: bool(e.objections) or e.status == REFUSED,
        lambda e: "; ".join(e.objections) or e.status_reason or "a gate refused the arm",
    ),
    Row(
        2,
        "impossible",
        lambda e: "impossible",
        lambda e: e.impossible,
        lambda e: (
            "at every tested draft length a step costs more than the tokens it could emit, and the line a + b*N agrees"
        ),
    ),
    Row(3, "loses", lambda e: "rejected", lambda e: _below_one(e.ratio), _loss_reason),
    Row(
        4,
        "wins",
        lambda e: "candidate",
        lambda e: _above_one(e.ratio),
        lambda e: f"the interval {_interval(e)} is above 1",
    ),
    Row(
        5,
        "tie",
        lambda e: "noise",
        lambda e: bool(e.equivalent),
        lambda e: f"inside +-{e.margin:.0%} by equivalence test",
    ),
    Row(6, "inconclusive", lambda e: "noise", lambda e: True, _uncertain),
)


def judge(evidence: Evidence) -> Judgement:
    """The first row of the table that holds, with one sentence to quote. Invalid arms get no factor."""
    row = next(row for row in TABLE if row.holds(evidence))
    reason = row.reason(evidence)
    reopen = evidence.reopen if row.outcome in ("impossible", "loses", "inconclusive") else None
    if evidence.status == LACKS_FEATURE:
        reopen = Reopen("an engine that has what this arm asks for", ())
    return Judgement(
        verdict=row.outcome,
        row=row.number,
        cause=cause_of_loss(evidence) if row.outcome == "loses" else None,
        ledger=row.ledger(evidence),
        reason=reason,
        sentence=_sentence(evidence, row.outcome, reason),
        minimum_detectable_effect=evidence.minimum_detectable_effect,
        reopen=reopen,
    )


def _figure(estimate: Estimate) -> str:
    return "an unknown speed-up" if estimate.value is None else f"{estimate.value:.3f} times the baseline"


def _interval(evidence: Evidence) -> str:
    ratio = evidence.ratio
    if ratio.low is None or ratio.high is None:
        return f"({ratio.reason})"
    return f"{ratio.low:.3f} to {ratio.high:.3f}"


def _sentence(evidence: Evidence, outcome: Outcome, reason: str) -> str:
    name = evidence.arm if not evidence.n_spec else f"{evidence.arm} (N = {evidence.n_spec})"
    if outcome == "not measured":
        return f"{name} was not measured: {reason}."
    if outcome == "invalid":
        return f"{name} at {evidence.where} has no valid measurement: {reason}."
    speed = f"{name} runs at {_figure(evidence.ratio)} at {evidence.where}"
    if evidence.ratio.bounded:
        speed += f" ({evidence.level:.1%} interval {_interval(evidence)})".replace(".0%", "%")
    ends = {
        "impossible": "speculation cannot pay here at any acceptance",
        "loses": f"it loses, {reason}",
        "wins": "it pays",
        "tie": f"a tie, {reason}",
        "inconclusive": f"inconclusive, {reason}",
    }
    effect = evidence.minimum_detectable_effect
    seen = (
        f"; effects of {effect:.1%} or more would have been seen"
        if outcome == "inconclusive" and effect
        else ""
    )
    return f"{speed}: {ends[outcome]}{seen}."
