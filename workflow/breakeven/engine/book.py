"""Statements of a log, merged into facts: what several lines and several ranks say about one thing."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from breakeven.engine.facts import Fact, Finding
from breakeven.engine.logtext import Line
from breakeven.engine.patterns import named

MOST_STATEMENTS = 256
"""Different statements kept per fact; repetitions cost nothing."""
MOST_FINDINGS = 200
MOST_QUOTED_LINES = 20
LONGEST_SOURCE = 2_000


@dataclass
class _Statement:
    value: Any
    line: Line
    last_number: int
    count: int = 1


@dataclass
class Book:
    """Collects statements and findings; `facts` and `findings` settle them."""

    statements: dict[str, dict[tuple[str, str | None], _Statement]] = field(default_factory=dict)
    found: dict[tuple[str, str], tuple[str, list[int], list[int]]] = field(default_factory=dict)

    def note(self, name: str, value: Any, line: Line) -> None:
        """Take one statement."""
        known = self.statements.setdefault(name, {})
        key = (repr(value)[:500], line.rank)
        if key in known:
            known[key].count += 1
            known[key].last_number = line.number
        elif len(known) < MOST_STATEMENTS:
            known[key] = _Statement(value, line, line.number)

    def find(self, kind: str, severity: str, message: str, number: int) -> None:
        """Take one finding; repetitions add their line and their count."""
        key = (kind, message)
        if key not in self.found and len(self.found) >= MOST_FINDINGS:
            return
        _, lines, count = self.found.setdefault(key, (severity, [], [0]))
        count[0] += 1
        if len(lines) < MOST_QUOTED_LINES:
            lines.append(number)

    def value(self, name: str) -> Any:
        """Return the first statement's value, None without one."""
        known = self.statements.get(name)
        return next(iter(known.values())).value if known else None

    def facts(self) -> dict[str, Fact]:
        """Return every fact, merged as `patterns.NAMES` says."""
        return {name: _merged(name, list(known.values())) for name, known in self.statements.items()}

    def findings(self) -> Iterator[Finding]:
        """Yield the findings, then the disagreements between statements."""
        for (kind, message), (severity, lines, count) in self.found.items():
            times = f" ({count[0]} times)" if count[0] > 1 else ""
            yield Finding(kind, severity, message + times, tuple(lines))
        for name, known in self.statements.items():
            yield from _disagreements(name, list(known.values()))


def _merged(name: str, statements: list[_Statement]) -> Fact:
    kind = named(name)
    values = [statement.value for statement in statements]
    chosen = statements[0]
    match kind.merge:
        case "last":
            chosen = max(statements, key=lambda statement: statement.last_number)
            value = chosen.value
        case "min" | "max":
            known = [statement for statement in statements if statement.value is not None]
            if known:
                pick = min if kind.merge == "min" else max
                chosen = pick(known, key=lambda statement: statement.value)
            value = chosen.value
        case "sum":
            known = [statement for statement in statements if statement.value is not None]
            value = round(sum(s.value * s.count for s in known), 6) if len(known) == len(statements) else None
        case "every":
            value = all(values)
        case "list":
            flat = [item for value in values for item in (value if isinstance(value, list) else [value])]
            value = list(dict.fromkeys(item for item in flat if item is not None))
        case _:
            value = chosen.value
    complete = not (kind.merge == "same" and len({repr(value) for value in values}) > 1)
    line = chosen.line
    return Fact(name, value, kind.unit, line.text.strip()[:LONGEST_SOURCE], line.number, line.rank, complete)


def _disagreements(name: str, statements: list[_Statement]) -> Iterator[Finding]:
    if named(name).merge != "same" or len({repr(statement.value) for statement in statements}) < 2:
        return
    lines = tuple(statement.line.number for statement in statements[:MOST_QUOTED_LINES])
    by_rank: Mapping[str, list[Any]] = {}
    for statement in statements:
        by_rank = {
            **by_rank,
            str(statement.line.rank): [*by_rank.get(str(statement.line.rank), []), statement.value],
        }
    told = ", ".join(
        f"{rank}: {' then '.join(map(str, values))}" for rank, values in list(by_rank.items())[:8]
    )
    if all(len(values) == 1 for values in by_rank.values()):
        yield Finding("ranks_differ", "warn", f"{name} differs between ranks: {told}", lines)
    else:
        message = f"{name} is said again with another value ({told}): two starts in one log, or two models"
        yield Finding("said_again_differently", "warn", message, lines)
