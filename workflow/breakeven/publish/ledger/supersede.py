"""What a later result makes of an earlier one. Pure: entries in, entries out."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from breakeven.publish.ledger import scope
from breakeven.publish.ledger.entry import Change, Entry

_DAY = re.compile(r"-\d{4}-\d{2}-\d{2}$")


def rerun(new: Sequence[Entry], before: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
    """New entries under their final ids, and those of before that stay.

    A run repeated replaces its own entries. Where it contradicts what it found on an earlier day, both stay:
    the new entry has the day in its id and supersedes the old one.
    """
    family: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in before:
        family[_DAY.sub("", entry.id)].append(entry)
    named, dropped = [], set()
    for entry in new:
        runs = family.get(entry.id)
        if runs:
            old = max(runs, key=lambda run: (run.date or "", run.id))
            if entry.date and old.date and old.date < entry.date and scope.overturns(entry, old):
                entry = replace(entry, id=f"{entry.id}-{entry.date}", supersedes=(old.id,))
            else:
                replaced = [run for run in runs if run.id in old.supersedes and scope.overturns(entry, run)]
                entry = replace(entry, id=old.id, supersedes=tuple(run.id for run in replaced))
        dropped.add(entry.id)
        named.append(entry)
    return named, [entry for entry in before if entry.id not in dropped]


def supersede(entries: Sequence[Entry], fresh: set[str]) -> list[Entry]:
    """Mark what is superseded: as entries say, then where a later result contradicts an earlier one.

    `fresh` are ids of new results, which count as later than others of the same day. Undated entries are
    neither earlier nor later. Entries with an id that stands twice are left to `check`.
    """
    made = {entry.id: entry for entry in entries}
    if len(made) < len(entries):
        return list(entries)
    for entry in entries:
        claims = [old for old in entry.supersedes if _may_claim(entry, made.get(old))]
        made[entry.id] = replace(made[entry.id], supersedes=tuple(claims))
        for old in claims:
            if old in made and made[old].superseded_by is None:
                made[old] = _replaced(made[old], entry)
    for entry in entries:
        successor = made.get(made[entry.id].superseded_by or "")
        if successor and entry.id not in successor.supersedes:
            made[successor.id] = replace(successor, supersedes=(*successor.supersedes, entry.id))
    for group in _dated_groups(made):
        _sweep(made, sorted(group, key=lambda name: (made[name].date or "", name in fresh, name)), fresh)
    return list(made.values())


def _may_claim(entry: Entry, old: Entry | None) -> bool:
    """A person's word stands; a run's claim falls with a verdict that no longer contradicts the old one."""
    return entry.source != "measured" or old is None or scope.overturns(entry, old)


def _dated_groups(made: dict[str, Entry]) -> list[list[str]]:
    """Ids in force, by the setting that they are about."""
    groups: defaultdict[scope.Scope, list[str]] = defaultdict(list)
    for entry in made.values():
        setting = scope.scope_of(entry)
        if setting and entry.date and entry.in_force:
            groups[setting].append(entry.id)
    return list(groups.values())


def _sweep(made: dict[str, Entry], names: list[str], fresh: set[str]) -> None:
    """Go through one setting's entries by date, each against those that still stand."""
    standing: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        for word in [word for word in standing if scope.overturns_word(made[name].verdict, word)]:
            for other in list(standing[word]):
                new, old = made[name], made[other]
                if _later(new, old, fresh) and scope.comparable(new, old):
                    made[other] = _replaced(old, new)
                    made[name] = replace(new, supersedes=(*new.supersedes, other))
                    standing[word].remove(other)
        standing[made[name].verdict].append(name)


def _later(new: Entry, old: Entry, fresh: set[str]) -> bool:
    if new.date == old.date:
        return new.id in fresh and old.id not in fresh
    return (new.date or "") > (old.date or "")


def _replaced(old: Entry, new: Entry) -> Entry:
    if old.verdict == "superseded":
        return replace(old, superseded_by=new.id)
    change = Change(new.date, old.verdict, "superseded", f"contradicted by {new.id} ({new.verdict})")
    return replace(old, verdict="superseded", superseded_by=new.id, history=(*old.history, change))


def flag_doubts(entries: Sequence[Entry], fresh: set[str]) -> list[Entry]:
    """New entries that may contradict one whose setting is not fully known, flagged with what is unknown."""
    by_lead: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_lead[entry.lead.casefold()].append(entry)
    made = []
    for entry in entries:
        if entry.id in fresh:
            pairs = (
                (old, scope.doubts(entry, old)) for old in by_lead[entry.lead.casefold()] if old is not entry
            )
            flags = (
                f"may contradict {old.id} ({old.verdict}): unknown {keys}" for old, keys in pairs if keys
            )
            entry = replace(entry, flags=(*entry.flags, *flags))
        made.append(entry)
    return made
