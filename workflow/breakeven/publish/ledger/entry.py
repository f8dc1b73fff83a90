"""A ledger entry: one finding that is to be believed, and found again, a year later.

What is not known is None, never a guess. Keys, types and what they mean: `schemas/ledger_entry.schema.json`.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

VERDICTS = (
    "adopted",
    "deployed",
    "recommended",
    "rejected",
    "noise",
    "blocked",
    "impossible",
    "diagnosis",
    "capability",
    "superseded",
    "open-defect",
)
"""The ledger's words (Method 6)."""

CLOSED = frozenset({"rejected", "impossible"})
"""Words that mean "do not propose again" until a reopen condition is met."""

IN_FAVOUR = frozenset({"adopted", "deployed", "recommended"})


@dataclass(frozen=True)
class Reopen:
    """What reopens a closed lead: in words, and as `quantity op value` (at N) where a machine can tell."""

    words: str
    quantity: str | None = None
    op: str | None = None
    value: float | str | None = None
    at_n: int | None = None


@dataclass(frozen=True)
class HashedFile:
    """A Parquet file that a finding stands on."""

    path: str
    sha256: str


@dataclass(frozen=True)
class Evidence:
    """Where the finding is reported, and the hashes of the tables under it (never of the report itself)."""

    report: str | None = None
    files: tuple[HashedFile, ...] = ()


@dataclass(frozen=True)
class Remark:
    """A hand-written note on an entry."""

    date: str | None
    text: str


@dataclass(frozen=True)
class Change:
    """A change of an entry's verdict: by hand, or by a later result."""

    date: str | None
    was: str
    now: str
    reason: str | None


@dataclass(frozen=True)
class Imported:
    """Where an imported entry comes from; `row` is its line of that file, character by character."""

    file: str
    line: int
    row: str


@dataclass(frozen=True)
class Entry:
    """One finding. `origin` is the file it was read from: for messages, not part of the entry."""

    id: str
    lead: str
    verdict: str
    source: str
    date: str | None = None
    experiment: str | None = None
    configuration: str | None = None
    kind: str | None = None
    question: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    model: str | None = None
    quant: str | None = None
    hardware: str | None = None
    metric: str | None = None
    factor: float | None = None
    interval: tuple[float, float] | None = None
    level: float | None = None
    reason: str | None = None
    sentence: str | None = None
    reopen: tuple[Reopen, ...] = ()
    quantities: Mapping[str, Any] = field(default_factory=dict)
    evidence: Evidence = Evidence()
    supersedes: tuple[str, ...] = ()
    superseded_by: str | None = None
    flags: tuple[str, ...] = ()
    notes: tuple[Remark, ...] = ()
    history: tuple[Change, ...] = ()
    imported: Imported | None = None
    origin: str = field(default="", compare=False)

    @property
    def in_force(self) -> bool:
        """Whether no later entry has replaced this one."""
        return self.superseded_by is None and self.verdict != "superseded"

    @property
    def closed(self) -> bool:
        """Whether the lead is not to be proposed again."""
        return self.in_force and self.verdict in CLOSED

    @classmethod
    def from_document(cls, document: Mapping[str, Any], origin: str = "") -> "Entry":
        """Entry of a document that fits the schema (`schema.problems_of`); keys left out are unknown."""
        known = dict(document)
        evidence = known.pop("evidence", None) or {}
        interval, imported = known.pop("interval", None), known.pop("imported", None)
        return cls(
            reopen=tuple(Reopen(**each) for each in known.pop("reopen", ())),
            evidence=Evidence(
                evidence.get("report"), tuple(HashedFile(**each) for each in evidence.get("files", ()))
            ),
            interval=(interval[0], interval[1]) if interval else None,
            notes=tuple(Remark(**each) for each in known.pop("notes", ())),
            history=tuple(Change(**each) for each in known.pop("history", ())),
            imported=Imported(**imported) if imported else None,
            supersedes=tuple(known.pop("supersedes", ())),
            flags=tuple(known.pop("flags", ())),
            origin=origin,
            **known,
        )

    def document(self) -> dict[str, Any]:
        """The entry as plain JSON values, every key present."""
        return {
            **{key: value for key, value in vars(self).items() if key != "origin"},
            "interval": list(self.interval) if self.interval else None,
            "reopen": [dict(vars(each)) for each in self.reopen],
            "quantities": dict(self.quantities),
            "evidence": {
                "report": self.evidence.report,
                "files": [dict(vars(each)) for each in self.evidence.files],
            },
            "supersedes": list(self.supersedes),
            "flags": list(self.flags),
            "notes": [dict(vars(each)) for each in self.notes],
            "history": [dict(vars(each)) for each in self.history],
            "imported": dict(vars(self.imported)) if self.imported else None,
        }


def newest_first(entries: Iterable[Entry]) -> list[Entry]:
    """Entries by date, newest first, undated ones last; those of one day by id."""
    return sorted(
        sorted(entries, key=lambda entry: entry.id), key=lambda entry: entry.date or "", reverse=True
    )


def canonical_json(entry: Entry) -> str:
    """One line of `ledger.jsonl`: keys sorted, no blanks, the same text for the same entry."""
    return json.dumps(
        entry.document(), sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )


def ledger_jsonl(entries: Iterable[Entry]) -> str:
    """The whole ledger as text, one entry a line, sorted by id."""
    return "".join(f"{canonical_json(entry)}\n" for entry in sorted(entries, key=lambda entry: entry.id))
