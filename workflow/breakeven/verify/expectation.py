"""Is a value what was expected: the forms that an experiment's `expect` may take.

A value of several parts (kernels of several layers, sizes on several devices) meets an expectation only when every
part does: one layer that fell back makes the arm another arm.
"""

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from breakeven.errors import ConfigError

BLOCK, WARN = "block", "warn"


def as_rules(expectation: Any) -> Mapping[str, Any]:
    """A plain value means equality."""
    return expectation if isinstance(expectation, Mapping) else {"equals": expectation}


def same(one: Any, other: Any) -> bool:
    """Whether two values are one, however they are spelled: 48, 48.0 and "48"; true and "True".

    Two texts are compared as texts ("0.10" is not "0.1"), true is not 1, and a missing value is equal to a
    missing value only.
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, str) and isinstance(other, str):
        return one.strip() == other.strip()
    return bool(_canonical(one) == _canonical(other))


def _canonical(value: Any) -> Any:
    """Numbers as Decimal, true and false as texts, so that they are not 1 and 0."""
    if value is None or isinstance(value, Mapping | list | tuple):
        return value
    text = str(value).strip()
    if text.lower() in ("true", "false"):
        return text.lower()
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    return number if number.is_finite() else text


def only_adds(value: Any, baseline: Any) -> bool:
    """Whether a table by layer kind says all that the baseline's says, and names further kinds."""
    if not isinstance(value, Mapping) or not isinstance(baseline, Mapping):
        return False
    return value.keys() > baseline.keys() and all(same(value[key], baseline[key]) for key in baseline)


def parts(value: Any) -> list[Any]:
    """The single values in a value: itself, or what a list or an object holds."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [part for item in value for part in parts(item)]
    return [value]


def shown(value: Any) -> str:
    """A value in a sentence."""
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, default=str)
    if isinstance(value, bool):
        return str(value).lower()
    return "not stated" if value is None else str(value)


def holds(rules: Mapping[str, Any], value: Any, baseline: Any = None) -> bool:
    """Whether a stated value meets every rule. Raises ConfigError at a regular expression that is none."""
    if "same_as_baseline" in rules and not same(value, baseline):
        return False
    found = parts(value)
    return bool(found) and all(
        check(rules[name], value, found) for name, check in _CHECKS.items() if name in rules
    )


def _equals(wanted: Any, value: Any, found: list[Any]) -> bool:
    single = not isinstance(wanted, Mapping | list | tuple)
    return same(wanted, value) or (single and all(same(wanted, part) for part in found))


_CHECKS: Mapping[str, Callable[[Any, Any, list[Any]], bool]] = {
    "equals": _equals,
    "regex": lambda wanted, _, found: all(_found_in(wanted, part) for part in found),
    "one_of": lambda wanted, value, found: (
        any(_equals(one, value, found) for one in wanted)
        or all(any(same(one, part) for one in wanted) for part in found)
    ),
    "min": lambda wanted, _, found: all(
        n is not None and n >= Decimal(str(wanted)) for n in map(_number, found)
    ),
    "max": lambda wanted, _, found: all(
        n is not None and n <= Decimal(str(wanted)) for n in map(_number, found)
    ),
}


def _found_in(pattern: str, part: Any) -> bool:
    try:
        return re.search(pattern, shown(part)) is not None
    except re.error as error:
        raise ConfigError(
            f"expect: {pattern!r} is not a regular expression: {error}; correct it in the experiment file"
        ) from error


def _number(value: Any) -> Decimal | None:
    number = None if isinstance(value, bool) else _canonical(value)
    return number if isinstance(number, Decimal) else None


def in_words(rules: Mapping[str, Any], baseline: Any = None) -> str:
    """What is wanted, for a person."""
    words: Mapping[str, Callable[[Any], str]] = {
        "equals": shown,
        "regex": lambda wanted: f"matching /{wanted}/",
        "one_of": lambda wanted: f"one of {', '.join(map(shown, wanted))}",
        "min": lambda wanted: f"at least {wanted}",
        "max": lambda wanted: f"at most {wanted}",
        "same_as_baseline": lambda _: f"as the baseline: {shown(baseline)}",
    }
    return " and ".join(say(rules[name]) for name, say in words.items() if name in rules)
