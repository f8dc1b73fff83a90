"""The line through the arms of a published table that draft N tokens in each step."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from breakeven.analysis.audit.acceptance import Refusal
from breakeven.analysis.cost import BestN, Flag, Line, best_n, fit_line, implausible, impossible_everywhere


@dataclass(frozen=True)
class Fit:
    """C(N) = a + b*N over the points given.

    `worst_speed_error`: largest relative error of a speed recomputed from the line, None where two points decide
    it. `best_n` needs a profile of acceptance per position.
    """

    n: tuple[int, ...]
    cost: tuple[float, ...]
    line: Line
    worst_speed_error: float | None
    impossible_everywhere: bool
    best_n: BestN | None
    flags: tuple[Flag, ...]


def fit_points(
    points: Sequence[tuple[int, float]], survival: tuple[float, ...] | None
) -> tuple[Fit | None, Refusal | None]:
    """The fit of (N, C) points, or the reason why there is none."""
    n, cost = tuple(p[0] for p in points), tuple(p[1] for p in points)
    if not n:
        return None, Refusal("a, b", "no_cost", "no arm that drafts N in each step gives a step cost")
    if len(set(n)) == 1:
        words = f"only N={n[0]} gives a step cost; a and b cannot be told apart"
        return None, Refusal("a, b", "single_n", words)
    line = fit_line(n, cost)
    fitted = [line.at(k) for k in n]
    known = len(set(n)) > 2 and min(fitted) > 0
    profile = survival if survival and min(line.at(1), line.at(len(survival))) > 0 else None
    return (
        Fit(
            n=n,
            cost=cost,
            line=line,
            worst_speed_error=max(abs(c / f - 1) for c, f in zip(cost, fitted, strict=True))
            if known
            else None,
            impossible_everywhere=impossible_everywhere(line.a, line.b),
            best_n=best_n(profile, line.a, line.b) if profile else None,
            flags=(*implausible(n, cost, line), *_falls(points)),
        ),
        None,
    )


def _falls(points: Sequence[tuple[int, float]]) -> list[Flag]:
    return [
        Flag(
            "cost_falls",
            f"C falls from {before:.3f} at N={n} to {after:.3f} at N={next_n}: no line describes this; an arm or the "
            "baseline runs on another path than the rest",
        )
        for (n, before), (next_n, after) in pairwise(sorted(points))
        if n < next_n and after < before
    ]
