"""Ranked word search over the ledger."""

import re
from collections.abc import Iterable, Iterator

from breakeven.publish.ledger.entry import Entry, newest_first

_WORD = re.compile(r"[^\W_]+(?:\.[^\W_]+)*")

_WEIGHTED = (
    (4.0, ("lead", "id")),
    (2.0, ("verdict", "engine", "engine_version", "model", "quant", "hardware", "metric", "configuration")),
    (1.0, ("date", "experiment", "kind", "question", "reason", "sentence", "source")),
)
_PREFIX = 0.5
"""A word that only begins with the wanted one counts half."""


def search(words: str, entries: Iterable[Entry]) -> list[Entry]:
    """Entries with at least one of the words: those with most of the words first, then by where the words stand.

    A word in the lead weighs more than one in a note. Equal ones newest first.
    """
    wanted = list(dict.fromkeys(_WORD.findall(words.casefold())))
    ranked = [(_rank(wanted, entry), entry) for entry in newest_first(entries)]
    found = [(rank, entry) for rank, entry in ranked if rank[0]]
    return [entry for _, entry in sorted(found, key=lambda pair: pair[0], reverse=True)]


def _rank(wanted: list[str], entry: Entry) -> tuple[int, float]:
    """How many of the words are there, and the weight of the places where they are."""
    best: dict[str, float] = {}
    for weight, text in _texts(entry):
        if not any(word in text for word in wanted):
            continue
        there = set(_WORD.findall(text))
        for word in wanted:
            if word in there:
                best[word] = max(best.get(word, 0.0), weight)
            elif any(other.startswith(word) for other in there):
                best[word] = max(best.get(word, 0.0), weight * _PREFIX)
    return len(best), sum(best.values())


def _texts(entry: Entry) -> Iterator[tuple[float, str]]:
    for weight, keys in _WEIGHTED:
        for key in keys:
            value = getattr(entry, key)
            if value:
                yield weight, str(value).casefold()
    for text in [*entry.flags, *(note.text for note in entry.notes), *(each.words for each in entry.reopen)]:
        yield 1.0, text.casefold()
    if entry.evidence.report:
        yield 1.0, entry.evidence.report.casefold()
