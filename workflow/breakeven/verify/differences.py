"""What differs between two logs, and what each difference means (Method 6)."""

from collections.abc import Collection, Iterator
from typing import Any

from breakeven.engine.facts import Fact, Facts
from breakeven.verify.consequences import (
    CONTAMINATION,
    LISTS_THAT_A_DRAFTER_EXTENDS,
    Consequence,
    consequence_of,
)
from breakeven.verify.difference import Difference, Meaning
from breakeven.verify.expectation import only_adds, same, shown
from breakeven.verify.run_facts import CAPACITY, CAPACITY_TOLERANCE, UNSTEADY, matches, names_the_arm
from breakeven.verify.speculation import has_drafter, methods

SPOKEN = {
    "mtp": "MTP",
    "eagle": "EAGLE",
    "eagle3": "EAGLE-3",
    "dflash": "DFlash",
    "draft-model": "a draft model",
}


def log_differences(
    arm: Facts,
    baseline: Facts,
    strict: Collection[str] = (),
    declared: Collection[str] = (),
    expected: Collection[str] = (),
) -> tuple[Difference, ...]:
    """Every fact in which an arm's log differs from its baseline's, in the order of their names.

    `strict` are globs of consequences that the experiment forbids, `declared` globs of facts that the variable
    sets by itself, `expected` facts that have the very value that the experiment demands of this arm.
    """
    method = _method(arm)
    found = []
    for name, one, other in _differing(arm, baseline):
        known = consequence_of(name)
        meaning: Meaning
        if name in expected or matches(name, declared):
            meaning, why = "declared", "set by the declared variable"
        elif method and _comes_on_top(name, one, other) and has_drafter(method):
            meaning, why = "consequence", "the drafter's own comes on top"
        elif known is not None:
            meaning, why = "consequence", _because(known, method, relative(one, other))
        elif matches(name, CONTAMINATION):
            meaning, why = "contamination", "a speculation flag does not change this: it is a second variable"
        else:
            meaning = "unexplained"
            why = (
                f"no known consequence of the declared variable; name {name} under `expect` of this arm with "
                "its value if it is meant"
            )
        if meaning == "consequence" and matches(name, strict):
            meaning = "strict"
        found.append(_difference(name, one, other, meaning, why, known, method))
    return tuple(found)


def launch_drift(verified: Facts, now: Facts) -> tuple[Difference, ...]:
    """What a launch shows otherwise than the verified launch of the same arm; nothing, if all is well.

    Also the comparison of a twin (`repeat_of`) with its arm. Facts that fill (compile caches) are left out,
    capacities that depend on free memory may differ by CAPACITY_TOLERANCE (then they are noise, and do not block).
    A fact that only one log states is drift: the other launch may not have done what it names.
    """
    found = []
    for name, one, other in _differing(now, verified):
        if matches(name, UNSTEADY):
            continue
        near = matches(name, CAPACITY) and _nearly(one, other)
        text = f"{name}: {_stated(now, name, one)}, {_stated(verified, name, other)} in the verified launch"
        found.append(Difference("fact", name, one, other, "noise" if near else "contamination", text))
    return tuple(found)


def _differing(one: Facts, other: Facts) -> Iterator[tuple[str, Any, Any]]:
    for name in sorted({*one, *other}):
        if not names_the_arm(name, one.engine):
            continue
        here, there = one.get(name), other.get(name)
        if not same(here, there):
            yield name, here, there


def _stated(facts: Facts, name: str, value: Any) -> str:
    fact: Fact | None = facts.facts.get(name)
    line = "" if fact is None or fact.line_number is None else f" (line {fact.line_number})"
    return f"{shown(value)}{line}"


def _nearly(one: Any, other: Any) -> bool:
    change = relative(one, other)
    return change is not None and abs(change) <= CAPACITY_TOLERANCE


def relative(value: Any, baseline: Any) -> float | None:
    """Relative change of a number against a baseline's; None when there is none."""
    if any(isinstance(side, bool) or not isinstance(side, int | float) for side in (value, baseline)):
        return None
    return float((value - baseline) / baseline) if baseline else None


def _comes_on_top(name: str, one: Any, other: Any) -> bool:
    """Whether the arm says all that the baseline says, and more, where a drafter may add."""
    if name in LISTS_THAT_A_DRAFTER_EXTENDS and isinstance(one, list) and isinstance(other, list):
        return one[: len(other)] == other
    return only_adds(one, other)


def _method(facts: Facts) -> str:
    """The speculative method that a log shows; empty when it shows none."""
    method = facts.get("spec_method")
    return "" if method is None or facts.get("spec_active") is False else str(method)


def _because(known: Consequence, method: str, change: float | None) -> str:
    if change is not None and known.grows is not None and (change > 0) is not known.grows:
        return f"cause not known: {known.with_drafter} would go the other way"
    return known.with_drafter if method and has_drafter(method) else known.otherwise


def _difference(
    name: str, one: Any, other: Any, meaning: Meaning, why: str, known: Consequence | None, method: str
) -> Difference:
    """`KV capacity -5.8 % with MTP (699,008 -> 658,466): the drafter's layers share the pool`."""
    what = known.what if known is not None and meaning in ("consequence", "strict") else name
    change = relative(one, other)
    size = f"{change:+.1%}".replace("%", " %") if change is not None else "differs"
    if change is None and what != name:
        what = f"{what} ({name})"
    spoken = ", ".join(SPOKEN.get(part, part) for part in sorted(methods(method)))
    label = f" with {spoken}" if spoken else ""
    text = f"{what} {size}{label} ({_grouped(other)} -> {_grouped(one)}): {why}"
    return Difference("fact", name, one, other, meaning, text, why)


def _grouped(value: Any) -> str:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return f"{value:,}" if whole else shown(value)
