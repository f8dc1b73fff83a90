"""When are two entries about the same thing, and when does one contradict the other?"""

from breakeven.publish.ledger.entry import CLOSED, IN_FAVOUR, Entry

Scope = tuple[str, ...]

SCOPE = ("lead", "engine", "model", "hardware", "metric")
"""Entries must agree in all of these to be compared; what is unknown agrees with nothing."""

NARROWING = ("quant", "configuration")
"""Entries that both say these must agree in them too; an entry without them speaks for all."""

_UNKNOWN = {"", "n/a", "unknown"}


def _word(entry: Entry, key: str) -> str | None:
    value = getattr(entry, key)
    word = "" if value is None else str(value).strip().casefold()
    return None if word in _UNKNOWN else word


def scope_of(entry: Entry) -> Scope | None:
    """The setting that an entry speaks about; None when a part of it is unknown."""
    words = [_word(entry, key) for key in SCOPE]
    return None if None in words else tuple(word for word in words if word is not None)


def side_of(verdict: str) -> int | None:
    """+1 in favour, -1 closed, 0 no effect seen or not measured, None for words that take no side."""
    if verdict in IN_FAVOUR:
        return 1
    if verdict in CLOSED:
        return -1
    return 0 if verdict in ("noise", "blocked") else None


def overturns_word(new: str, old: str) -> bool:
    """Whether a later verdict contradicts an earlier one.

    A win or a loss overturns its opposite and "no effect seen"; any measured result overturns "blocked".
    `noise` may be no more than an inconclusive run, so it overturns nothing that was measured.
    """
    side, before = side_of(new), side_of(old)
    if side is None or before is None:
        return False
    if old == "blocked":
        return new != "blocked"
    return side not in (0, before)


def overturns(new: Entry, old: Entry) -> bool:
    """Whether a later result contradicts an earlier one, if both are about the same thing."""
    return overturns_word(new.verdict, old.verdict)


def comparable(one: Entry, other: Entry) -> bool:
    """Whether two entries of one scope are about the same configuration, and not arms of one run."""
    if one.experiment is not None and one.experiment == other.experiment and one.date == other.date:
        return False
    return _agree(one, other, NARROWING)


def _agree(one: Entry, other: Entry, keys: tuple[str, ...]) -> bool:
    pairs = ((_word(one, key), _word(other, key)) for key in keys)
    return all(a is None or b is None or a == b for a, b in pairs)


def doubts(new: Entry, old: Entry) -> str | None:
    """Keys that keep a contradiction from being certain, in words; None when there is no such pair.

    For entries that agree in what both say, where one leaves something unknown.
    """
    if not (old.in_force and overturns(new, old) and comparable(new, old) and _agree(new, old, SCOPE)):
        return None
    unknown = [key for key in SCOPE if _word(new, key) is None or _word(old, key) is None]
    return ", ".join(unknown) or None
