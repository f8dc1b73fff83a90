"""Was this lead closed before, and does what is known now reopen it?"""

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from breakeven.publish.ledger.entry import Entry, Reopen, newest_first

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True)
class Condition:
    """A reopen condition held against what is known now; `met` is None when that cannot be told.

    `now` is the current value that decided it, None when unknown.
    """

    reopen: Reopen
    met: bool | None
    now: float | str | None = None


@dataclass(frozen=True)
class PriorArt:
    """A closed entry of a lead; any one of its conditions reopens it."""

    entry: Entry
    conditions: tuple[Condition, ...]

    @property
    def met(self) -> bool | None:
        """Whether the lead may be tried again; None when that cannot be told."""
        states = {condition.met for condition in self.conditions}
        if True in states:
            return True
        return None if None in states or not states else False

    @property
    def sentence(self) -> str:
        """The finding for a reader who is about to measure the lead again."""
        entry = self.entry
        parts = [entry.date or "date unknown", *(word for word in (entry.engine, entry.model) if word)]
        words = "; or ".join(condition.reopen.words for condition in self.conditions)
        state = {True: "met now", False: "not met now", None: "cannot be told from what is known now"}[
            self.met
        ]
        reopens = f"It reopens when {words}: {state}." if words else "No reopen condition is on record."
        return f"{entry.lead} was closed as {entry.verdict} ({', '.join(parts)}; entry {entry.id}). {reopens}"


def prior_art(lead: str, entries: Iterable[Entry], quantities: Mapping[str, Any]) -> list[PriorArt]:
    """Closed entries of a lead, newest first, each reopen condition held against the current quantities.

    `quantities`: name -> value, or name -> {N: value} for one that depends on N. Unknown is never met.
    """
    wanted = lead.strip().casefold()
    closed = [entry for entry in entries if entry.closed and entry.lead.strip().casefold() == wanted]
    return [
        PriorArt(entry, tuple(judge(reopen, quantities) for reopen in entry.reopen))
        for entry in newest_first(closed)
    ]


def judge(reopen: Reopen, quantities: Mapping[str, Any]) -> Condition:
    """Whether one condition is met; None for words alone, an unknown quantity, or a value of another kind."""
    if reopen.quantity is None or reopen.op not in OPERATORS or reopen.value is None:
        return Condition(reopen, None)
    now = quantities.get(reopen.quantity)
    if isinstance(now, Mapping):
        now = None if reopen.at_n is None else now.get(reopen.at_n, now.get(str(reopen.at_n)))
    if isinstance(now, bool) or not isinstance(now, int | float | str):
        return Condition(reopen, None)
    if isinstance(now, str) or isinstance(reopen.value, str):
        alike = isinstance(now, str) and isinstance(reopen.value, str) and reopen.op in ("==", "!=")
        return Condition(reopen, OPERATORS[reopen.op](now, reopen.value) if alike else None, now)
    if math.isnan(now):
        return Condition(reopen, None)
    return Condition(reopen, OPERATORS[reopen.op](now, reopen.value), now)
