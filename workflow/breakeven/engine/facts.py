"""What a server said about itself: facts with the line they came from, findings, and runtime statistics."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from breakeven.errors import BreakevenError

COMPILING = "cold_first_request"
"""Kind of a finding that tells of a compilation while requests were served."""


@dataclass(frozen=True)
class Fact:
    """One thing a log says, and where it says it.

    `value` is JSON data; None means that the log speaks of it but leaves the value open (a bar cut off).
    `source_line` is the cleaned line, `line_number` counts lines of the file from 1, `rank` is the process that
    said it first (None when the line names none). `complete` is False when the value is known to be partial.
    A fact that adds lines up (statistics) or follows from others has no line number; it may quote its last line.
    """

    name: str
    value: Any
    unit: str | None = None
    source_line: str = ""
    line_number: int | None = None
    rank: str | None = None
    complete: bool = True


@dataclass(frozen=True)
class Finding:
    """Something in a log that a person must know before believing a measurement.

    `kind` is a stable word for rules to test (`ranks_differ`, `spec_off_though_asked`, ...), `severity` is error
    (the arm is not what it claims to be), warn (results may change) or note. `lines` are line numbers from 1.
    """

    kind: str
    severity: str
    message: str
    lines: tuple[int, ...] = ()


@dataclass(frozen=True)
class Facts:
    """All that one log says. `engine` is vllm, llamacpp, sglang, or None when it could not be recognised.

    `statistics` holds runtime lines (requests, windows, counters) with the definition each was read under.
    """

    engine: str | None = None
    facts: Mapping[str, Fact] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    statistics: Mapping[str, Any] = field(default_factory=dict)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a fact; `default` when the log does not say it or leaves it open."""
        fact = self.facts.get(name)
        return default if fact is None or fact.value is None else fact.value

    def __contains__(self, name: str) -> bool:
        return name in self.facts

    def __iter__(self) -> Iterator[str]:
        return iter(self.facts)

    def of_kind(self, kind: str) -> tuple[Finding, ...]:
        """Return the findings of one kind."""
        return tuple(finding for finding in self.findings if finding.kind == kind)

    def to_json(self) -> dict[str, Any]:
        """Return JSON data: engine, facts (name -> value), sources (name -> where), findings, statistics."""
        return {
            "engine": self.engine,
            "facts": {name: fact.value for name, fact in self.facts.items()},
            "sources": {name: _source(fact) for name, fact in self.facts.items()},
            "findings": [
                {"kind": f.kind, "severity": f.severity, "message": f.message, "lines": list(f.lines)}
                for f in self.findings
            ],
            "statistics": dict(self.statistics),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | str | bytes) -> "Facts":
        """Read back what `to_json` gave. Raises BreakevenError when it is not that."""
        try:
            data = json.loads(data) if isinstance(data, str | bytes) else data
            sources = data["sources"]
            return cls(
                engine=data["engine"],
                facts={name: _fact(name, value, sources[name]) for name, value in data["facts"].items()},
                findings=tuple(
                    Finding(f["kind"], f["severity"], f["message"], tuple(f["lines"]))
                    for f in data["findings"]
                ),
                statistics=data["statistics"],
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BreakevenError(
                f"not the facts of a log: {error!r}; wanted an object with engine, facts, sources, "
                f"findings and "
                "statistics; run `breakeven facts --json` on the log again"
            ) from error


def _source(fact: Fact) -> dict[str, Any]:
    return {
        "line": fact.line_number,
        "text": fact.source_line,
        "rank": fact.rank,
        "unit": fact.unit,
        "complete": fact.complete,
    }


def _fact(name: str, value: Any, source: Mapping[str, Any]) -> Fact:
    return Fact(
        name, value, source["unit"], source["text"], source["line"], source["rank"], source["complete"]
    )
