"""From findings, notes and what was known before to the ledger. Pure: documents and entries in and out."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from breakeven.publish.ledger.check import near
from breakeven.publish.ledger.entry import Change, Entry, Remark, Reopen
from breakeven.publish.ledger.findings import entries_of
from breakeven.publish.ledger.schema import Problem
from breakeven.publish.ledger.supersede import flag_doubts, rerun, supersede


@dataclass(frozen=True)
class Note:
    """A hand-written note, and the entry that it is about."""

    id: str
    remark: Remark
    origin: str = ""


@dataclass(frozen=True)
class StatusChange:
    """A hand-written change of an entry's verdict."""

    id: str
    date: str
    verdict: str
    reason: str
    reopen: tuple[Reopen, ...] = ()
    superseded_by: str | None = None
    origin: str = ""


@dataclass(frozen=True)
class Notes:
    """What people wrote about entries: notes, and changes of status."""

    notes: tuple[Note, ...] = ()
    changes: tuple[StatusChange, ...] = ()


def build(
    findings: Mapping[str, Any] | None,
    notes: Notes,
    hand_written: Sequence[Entry],
    previous: Sequence[Entry],
    origin: str = "findings",
) -> list[Entry]:
    """The whole ledger: an experiment's findings (or None) beside everything that was known before.

    `hand_written` are the entries of config/ledger, imported ones included; `previous` are measured entries
    of other experiments and earlier runs. An entry that a later result contradicts (same lead, engine, model,
    hardware and metric) becomes `superseded`, keeps its old verdict in its history and names its successor.
    `origin` is the file of the findings, for messages. Building again from the result gives the same ledger.
    Raises BreakevenError when findings do not fit the schema.
    """
    measured = [_as_measured(entry) for entry in previous if entry.source == "measured"]
    new = [] if findings is None else entries_of(findings, origin)
    named, kept = rerun(new, measured)
    fresh = {entry.id for entry in named}
    return flag_doubts(supersede(_changed([*hand_written, *kept, *named], notes), fresh), fresh)


def _as_measured(entry: Entry) -> Entry:
    """The entry as its run wrote it, without what people and later results added."""
    if not entry.history and not entry.notes and not entry.superseded_by:
        return entry
    first = entry.history[0].was if entry.history else entry.verdict
    return replace(entry, verdict=first, history=(), notes=(), superseded_by=None)


def _changed(entries: Sequence[Entry], notes: Notes) -> list[Entry]:
    """Entries with their notes and changes of status, in order of date."""
    remarks: defaultdict[str, list[Remark]] = defaultdict(list)
    for note in notes.notes:
        remarks[note.id].append(note.remark)
    changes: defaultdict[str, list[StatusChange]] = defaultdict(list)
    for change in sorted(notes.changes, key=lambda change: change.date):
        changes[change.id].append(change)
    made = []
    for entry in entries:
        if entry.id in remarks:
            entry = replace(entry, notes=(*entry.notes, *remarks[entry.id]))
        for change in changes.get(entry.id, ()):
            entry = replace(
                entry,
                verdict=change.verdict,
                reopen=change.reopen or entry.reopen,
                superseded_by=change.superseded_by,
                history=(*entry.history, Change(change.date, entry.verdict, change.verdict, change.reason)),
            )
        made.append(entry)
    return made


def check_notes(notes: Notes, entries: Sequence[Entry]) -> list[Problem]:
    """Notes and changes of status that cannot stand: about no entry, or two verdicts for one on one day."""
    known = {entry.id for entry in entries}
    remarks: list[Note | StatusChange] = [*notes.notes, *notes.changes]
    problems = [
        Problem(
            each.origin, each.id, "id", f"{each.id}, which is not in the ledger", near(each.id, known), True
        )
        for each in remarks
        if each.id not in known
    ]
    days: dict[tuple[str, str], StatusChange] = {}
    for change in notes.changes:
        first = days.setdefault((change.id, change.date), change)
        if first is not change:
            found = f"{change.verdict}, and {first.verdict} in {first.origin}, both on {change.date}"
            problems.append(Problem(change.origin, change.id, "verdict", found, "one change of status a day"))
    return problems
