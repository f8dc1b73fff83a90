"""Is the ledger sound? What no schema can say: dates and intervals, and the entries against each other."""

import datetime
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from breakeven.publish.ledger import scope
from breakeven.publish.ledger.entry import CLOSED, IN_FAVOUR, Entry
from breakeven.publish.ledger.schema import Problem


def check(entries: Sequence[Entry]) -> list[Problem]:
    """Problems of entries and between them: ids, dates, cycles, one-sided or contrary supersession."""
    return [
        *_values(entries),
        *_duplicates(entries),
        *_supersession(entries),
        *_cycles(entries),
        *_contradictions(entries),
    ]


def _at(entry: Entry, key: str, value: str, allowed: str, dangling: bool = False) -> Problem:
    return Problem(entry.origin, entry.id, key, value, allowed, dangling)


def _values(entries: Iterable[Entry]) -> Iterator[Problem]:
    for entry in entries:
        days = [("date", entry.date), *(("notes.date", note.date) for note in entry.notes)]
        for key, day in [*days, *(("history.date", change.date) for change in entry.history)]:
            if day is not None and not _is_day(day):
                yield _at(entry, key, day, "a day of the calendar, YYYY-MM-DD")
        if entry.interval:
            low, high = entry.interval
            if low > high:
                yield _at(entry, "interval", f"[{low}, {high}]", "[low, high]")
            elif entry.factor is not None and not low <= entry.factor <= high:
                yield _at(entry, "factor", str(entry.factor), f"a value inside its interval [{low}, {high}]")
        for past in entry.history:
            if past.was in CLOSED and past.now in IN_FAVOUR:
                found = f"{past.was} changed to {past.now} by hand"
                allowed = "a new entry that supersedes this one, with its evidence"
                yield _at(entry, "verdict", found, allowed)
        if entry.source != "imported" and entry.verdict in CLOSED and not entry.reopen:
            yield _at(entry, "reopen", "nothing", f"what reopens it, for {entry.verdict}")
        if entry.source != "imported" and entry.verdict == "superseded" and entry.superseded_by is None:
            yield _at(entry, "superseded_by", "nothing", "the id of the successor")
        for condition in entry.reopen:
            machine = (condition.quantity, condition.op, condition.value)
            if None in machine and (machine != (None, None, None) or condition.at_n is not None):
                yield _at(entry, "reopen", condition.words, "quantity, op and value together, or words alone")
            elif isinstance(condition.value, str) and condition.op not in ("==", "!="):
                yield _at(entry, "reopen.op", str(condition.op), "== or != for a text")


def _is_day(text: str) -> bool:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _duplicates(entries: Iterable[Entry]) -> Iterator[Problem]:
    files: defaultdict[str, list[str]] = defaultdict(list)
    for entry in entries:
        files[entry.id].append(entry.origin or "ledger")
    for name, origins in files.items():
        if len(origins) > 1:
            yield Problem(
                origins[-1],
                name,
                "id",
                f"{len(origins)} entries of this id ({', '.join(origins)})",
                "one entry an id",
            )


def _supersession(entries: Sequence[Entry]) -> Iterator[Problem]:
    known = {entry.id: entry for entry in entries}
    for entry in entries:
        for old in entry.supersedes:
            if old not in known:
                yield _dangling(entry, "supersedes", old, known)
            elif known[old].superseded_by != entry.id:
                yield _at(
                    entry,
                    "supersedes",
                    f"{old}, which names {known[old].superseded_by or 'no successor'}",
                    f"an entry whose superseded_by is {entry.id}",
                )
        new = entry.superseded_by
        if new is None:
            continue
        if new not in known:
            yield _dangling(entry, "superseded_by", new, known)
        elif entry.id not in known[new].supersedes:
            yield _at(entry, "superseded_by", new, f"an entry that supersedes {entry.id}")
        if entry.verdict != "superseded":
            yield _at(entry, "verdict", entry.verdict, f"superseded, since {new} replaces this entry")


def _dangling(entry: Entry, key: str, name: str, known: Collection[str]) -> Problem:
    return _at(entry, key, f"{name}, which is not in the ledger", near(name, known), True)


def near(name: str, known: Collection[str]) -> str:
    """The ids that a mistyped one may stand for, for an error message."""
    parts = set(name.split("-"))
    likely = sorted(known, key=lambda other: (-len(parts & set(other.split("-"))), other))[:3]
    return f"an id of the ledger, such as {', '.join(likely)}" if likely else "nothing: the ledger is empty"


def _cycles(entries: Iterable[Entry]) -> Iterator[Problem]:
    successor = {entry.id: entry.superseded_by for entry in entries}
    origin = {entry.id: entry.origin for entry in entries}
    done: set[str] = set()
    for start in successor:
        trail: list[str] = []
        on_trail: set[str] = set()
        here: str | None = start
        while here is not None and here not in done and here not in on_trail:
            trail.append(here)
            on_trail.add(here)
            here = successor.get(here)
        if here in on_trail:
            ring = trail[trail.index(here) :]
            yield Problem(
                origin[here],
                here,
                "superseded_by",
                " -> ".join([*ring, here]),
                "a successor that is not a predecessor",
            )
        done |= on_trail


def _contradictions(entries: Iterable[Entry]) -> Iterator[Problem]:
    """Pairs in force that say yes and no to the same thing, neither the later: undated, or of one day."""
    groups: defaultdict[scope.Scope, list[Entry]] = defaultdict(list)
    for entry in entries:
        key = scope.scope_of(entry)
        if key is not None and entry.in_force:
            groups[key].append(entry)
    for group in groups.values():
        in_favour = [entry for entry in group if entry.verdict in IN_FAVOUR]
        for bad in [entry for entry in group if entry.verdict in CLOSED]:
            good = next((entry for entry in in_favour if scope.comparable(entry, bad)), None)
            if good:
                found = f"{bad.verdict}, while {good.id} of the same setting is {good.verdict}"
                allowed = "one verdict in force: date both, or let one supersede the other"
                yield Problem(bad.origin, bad.id, "verdict", found, allowed)
