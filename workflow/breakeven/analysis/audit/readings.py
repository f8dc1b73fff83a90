"""Tokens or steps? A table's speeds read both ways, and what speaks for each reading (Method 1.1).

A client that counts stream events may report steps/s and call it tokens/s. Then every speculative arm looks slower
than it is, by its own tokens per step. The table alone proves neither reading; it can contradict one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from breakeven.analysis.cost import Line, fit_line, impossible_everywhere, possible
from breakeven.analysis.line import A_LOWEST
from breakeven.analysis.traffic import BytesCheck, check_bytes

CLEARER_RESIDUALS = 3.0
"""Residuals of one reading, relative to its costs, this many times the other's count as evidence."""
EVENT_PER_TOKEN = re.compile(r"llama[._-]?cpp|llama-server", re.IGNORECASE)
"""Engines whose stream carries one event per token, also under speculation."""
SETTLE = "Only a count of tokens (usage, timings or token ids) beside the events would settle it."


@dataclass(frozen=True)
class Point:
    """What both readings need of an arm: draft length, tokens per step, printed speed, baseline tok/s."""

    n: int
    length: float
    printed: float
    baseline: float


@dataclass(frozen=True)
class Reading:
    """One reading of the printed speeds; `against` lists what contradicts it.

    `relative_residual`: worst residual of the line over the mean cost, None below three draft lengths.
    """

    unit: str
    tok_s: tuple[float, ...]
    speedup: tuple[float, ...]
    cost: tuple[float, ...]
    line: Line | None
    relative_residual: float | None
    bytes: BytesCheck | None
    against: tuple[str, ...]


@dataclass(frozen=True)
class Evidence:
    """One finding and the reading that it speaks for."""

    favours: str
    finding: str


@dataclass(frozen=True)
class Readings:
    """Both readings side by side. `favoured`: tok/s, steps/s or undecided; never a proof."""

    n: tuple[int, ...]
    tokens: Reading
    steps: Reading
    suspicious: bool
    favoured: str
    evidence: tuple[Evidence, ...]
    conclusion: str


def read_both(
    points: Sequence[Point], engine: str, b: float | None, share: float | None, faster_line: int | None = None
) -> Readings:
    """Compare the readings of arms that differ in N alone.

    `b`: draft bytes over target bytes; `share`: bandwidth that the baseline achieves over the device's;
    `faster_line`: a line of the same table whose arm prints more than its baseline.
    """
    n = tuple(point.n for point in points)
    tokens = _reading("tok/s", points, [1.0] * len(points), b, share)
    steps = _reading("steps/s", points, [point.length for point in points], b, share)
    if steps.against:
        words = f"Tokens/s: read as steps/s, {steps.against[0]}."
        return Readings(n, tokens, steps, False, "tok/s", (), words)
    hopeless = [point.n for point, c in zip(points, tokens.cost, strict=True) if not possible(point.n, c)]
    if not hopeless and not tokens.against:
        words = "Tokens/s: nothing in the table contradicts the unit that it prints."
        return Readings(n, tokens, steps, False, "tok/s", (), words)
    evidence = tuple(_evidence(tokens, steps, engine, faster_line))
    favoured, words = _conclude(points, tokens, evidence)
    if steps.line is not None and steps.line.a < 1:
        words += f" As steps/s a = {steps.line.a:.3f} is below 1 as well: there the cost may grow faster than a line."
    return Readings(n, tokens, steps, True, favoured, evidence, words)


def _reading(
    unit: str,
    points: Sequence[Point],
    tokens_per_printed: Sequence[float],
    b: float | None,
    share: float | None,
) -> Reading:
    tok_s = tuple(point.printed * tokens for point, tokens in zip(points, tokens_per_printed, strict=True))
    speedup = tuple(rate / point.baseline for rate, point in zip(tok_s, points, strict=True))
    cost = tuple(point.length / r for point, r in zip(points, speedup, strict=True))
    n = [point.n for point in points]
    line = fit_line(n, cost) if len(set(n)) > 1 else None
    worst = line.worst_residual if line is not None and len(set(n)) > 2 else None
    return Reading(
        unit=unit,
        tok_s=tok_s,
        speedup=speedup,
        cost=cost,
        line=line,
        relative_residual=None if worst is None else worst / (sum(cost) / len(cost)),
        bytes=None if line is None or b is None else check_bytes(line.b, b, share),
        against=tuple(_against(n, cost, line)),
    )


def _against(n: Sequence[int], cost: Sequence[float], line: Line | None) -> list[str]:
    found = [
        f"a step at N={k} would take {c:.3f} baseline steps, less than a step without drafts"
        for k, c in zip(n, cost, strict=True)
        if c < 1
    ]
    if line is not None and line.a < A_LOWEST:
        found.append(f"a = {line.a:.3f} would make a verify step cheaper than a plain one")
    if line is not None and line.b < 0:
        found.append(f"b = {line.b:.3f} would make longer drafts cheaper")
    return found


def _evidence(tokens: Reading, steps: Reading, engine: str, faster_line: int | None) -> list[Evidence]:
    found = [Evidence("steps/s", f"as tokens/s, {words}") for words in tokens.against]
    if tokens.bytes is not None and steps.bytes is not None and tokens.bytes.explain != steps.bytes.explain:
        better = "steps/s" if tokens.bytes.explain else "tok/s"
        words = f"bytes: as tokens/s, {tokens.bytes.sentence}; as steps/s, {steps.bytes.sentence}"
        found.append(Evidence(better, words))
    if tokens.relative_residual is not None and steps.relative_residual is not None:
        one, other = tokens.relative_residual, steps.relative_residual
        words = f"the line misses the cost by up to {one:.2%} as tokens/s, by up to {other:.2%} as steps/s"
        if other * CLEARER_RESIDUALS < one:
            found.append(Evidence("steps/s", words))
        elif one * CLEARER_RESIDUALS < other:
            found.append(Evidence("tok/s", words))
    if faster_line is not None:
        words = f"line {faster_line} of this table prints more than its baseline, which steps/s cannot"
        found.append(Evidence("tok/s", words))
    if EVENT_PER_TOKEN.search(engine):
        words = "this engine streams one event per token, so a count of events is a count of tokens"
        found.append(Evidence("tok/s", words))
    return found


def _conclude(points: Sequence[Point], tokens: Reading, evidence: Sequence[Evidence]) -> tuple[str, str]:
    sides = {finding.favours for finding in evidence}
    if sides == {"steps/s"}:
        strength = "Probably" if len(evidence) > 1 else "Possibly"
        lengths = ", ".join(f"{point.length:.2f}" for point in points)
        words = f"{strength} steps/s: what is found speaks for it and nothing against it. The true speeds would then"
        return "steps/s", f"{words} be {lengths} times the printed ones. {SETTLE}"
    if sides == {"tok/s"}:
        return "tok/s", f"Tokens/s, as printed: what is found speaks for it and nothing against it. {SETTLE}"
    why = "findings on both sides" if sides else "no finding for either side"
    everywhere = tokens.line is not None and impossible_everywhere(tokens.line.a, tokens.line.b)
    loss = "could not pay at any acceptance" if everywhere else "lose"
    return "undecided", f"Undecided, {why}. As tokens/s the arms {loss}. {SETTLE}"
