"""One row of a published table: tokens per step, speed-up, step cost, and what the row cannot give."""

from dataclasses import dataclass

from breakeven.analysis.audit.acceptance import NO_UNIT, Acceptance, Refusal, read_acceptance
from breakeven.analysis.audit.table import Row
from breakeven.analysis.cost import (
    alpha_breakeven,
    ceiling,
    conditional,
    possible,
    profile_breakeven,
    rate_breakeven,
    step_cost,
)

BASELINE_MOVED = 0.03
"""Relative difference of two readings of one baseline that is worth a word."""


@dataclass(frozen=True, slots=True)
class AtN:
    """What the cost of steps that all draft N tokens decides (Method 3); `scale` needs a profile per position."""

    ceiling: float
    possible: bool
    breakeven_rate: float
    breakeven_alpha: float | None
    breakeven_scale: float | None


@dataclass(frozen=True)
class Alternative:
    """Tokens per step and step cost under another reading of the same acceptance figure."""

    definition: str
    length: float
    cost: float


@dataclass(frozen=True, slots=True)
class Arm:
    """One audited row. What is None is not known, and `refusals` say why. Costs in baseline steps.

    `status` is computed, refused (no step cost) or baseline. `implied_cost` is shown but not used when it
    contradicts what a step is.
    """

    row: Row
    status: str
    acceptance: Acceptance
    speedup: float | None = None
    cost: float | None = None
    implied_cost: float | None = None
    at_n: AtN | None = None
    alternatives: tuple[Alternative, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    caveats: tuple[str, ...] = ()

    @property
    def point(self) -> tuple[int, float] | None:
        """(N, C) where each step drafts N, so that the arm may stand in a fit; else None."""
        return None if self.at_n is None or not self.row.n or self.cost is None else (self.row.n, self.cost)


def audit_arm(row: Row) -> Arm:
    """Audit one row on its own."""
    if row.n == 0:
        return _baseline(row)
    acceptance = read_acceptance(row)
    length = acceptance.length
    speedup, speed_refusals = _speedup(row, length)
    refusals = [*speed_refusals, *acceptance.refusals]
    implied = None if length is None or speedup is None else step_cost(length, speedup)
    cost = implied
    if implied is not None and implied < 1:
        cost = None
        words = (
            f"{length:.3f} tokens per step at {speedup:.3f} times the speed would make a step cost {implied:.3f} "
            "baseline steps: one with drafts cannot be cheaper than one without; speed, baseline and acceptance do "
            "not belong together, or acceptance counts something else"
        )
        refusals.append(Refusal("step cost", "step_cheaper_than_baseline", words))
    at_n = None
    if cost is not None and acceptance.every_step and row.n is not None:
        at_n = _at_n(row.n, cost, acceptance.survival)
    elif cost is not None:
        words = "not every step drafts N tokens, so this cost is a mean over steps of different kinds"
        refusals.append(Refusal("ceiling, break-even at N", "not_every_step", words))
    return Arm(
        row=row,
        status="refused" if cost is None else "computed",
        acceptance=acceptance,
        speedup=speedup,
        cost=cost,
        implied_cost=implied,
        at_n=at_n,
        alternatives=tuple(
            Alternative(words, other, other / speedup) for words, other in acceptance.alternatives if speedup
        ),
        refusals=tuple(refusals),
        caveats=acceptance.caveats,
    )


def _speedup(row: Row, length: float | None) -> tuple[float | None, list[Refusal]]:
    if row.tok_s is None:
        return None, [Refusal("speed-up", "no_speed", "no speed of the arm was published")]
    if row.baseline_tok_s is None:
        words = "no baseline was published; a speed alone says nothing of speculation"
        return None, [Refusal("speed-up", "no_baseline", words)]
    if row.unit == "unknown" or NO_UNIT.search(row.notes):
        return None, [Refusal("speed-up", "unit_unknown", "the table does not say what its speeds count")]
    if row.unit == "steps/s":
        return None if length is None else row.tok_s * length / row.baseline_tok_s, []
    return row.tok_s / row.baseline_tok_s, []


def _at_n(n: int, cost: float, survival: tuple[float, ...] | None) -> AtN:
    profile = None if survival is None else [q for q in conditional(survival) if q is not None]
    return AtN(
        ceiling=ceiling(n, cost),
        possible=possible(n, cost),
        breakeven_rate=rate_breakeven(cost, n),
        breakeven_alpha=alpha_breakeven(cost, n),
        breakeven_scale=None if profile is None else profile_breakeven(profile, cost),
    )


def _baseline(row: Row) -> Arm:
    caveats = []
    if row.tok_s and row.baseline_tok_s and abs(row.tok_s / row.baseline_tok_s - 1) > BASELINE_MOVED:
        caveats.append(
            f"the baseline row reads {row.tok_s:g}, the column beside the arms {row.baseline_tok_s:g}"
        )
    return Arm(row, "baseline", Acceptance("a baseline drafts nothing"), caveats=tuple(caveats))
