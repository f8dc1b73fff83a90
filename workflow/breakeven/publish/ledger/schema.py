"""Does a document fit its JSON schema? The answer names file, entry, key, value and what is allowed."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import jsonschema
from jsonschema.exceptions import ValidationError
from referencing import Registry, Resource


@dataclass(frozen=True)
class Problem:
    """What is wrong, and where: file, entry and key; the value found and what is allowed.

    `dangling` marks a name that points to nothing here: wrong in a whole ledger, but not in a part of one.
    """

    file: str
    entry: str
    key: str
    value: str
    allowed: str
    dangling: bool = False

    def __str__(self) -> str:
        place = f"{self.file or 'ledger'}: entry {self.entry}, {self.key}"
        return f"{place}: found {self.value}; allowed: {self.allowed}"


def problems_of(document: object, schema: str, file: str, entry: str | None = None) -> list[Problem]:
    """What does not fit the schema (`ledger_entry` or `ledger_notes`); empty when the document is sound."""
    problems = [_problem(error, document, file, entry) for error in _validator(schema).iter_errors(document)]
    for path, value in _not_finite(document, ()):
        name = entry or _name(document, path)
        problems.append(Problem(file, name, _key(path), str(value), "a finite number, or null where unknown"))
    return list(dict.fromkeys(problems))


@cache
def _validator(schema: str) -> jsonschema.Draft202012Validator:
    folder = resources.files("breakeven") / "schemas"
    documents = {
        name: json.loads((folder / f"{name}.schema.json").read_text(encoding="utf-8"))
        for name in ("ledger_entry", "ledger_notes")
    }
    registry: Registry[Any] = Registry().with_resource(
        "ledger_entry.schema.json", Resource.from_contents(documents["ledger_entry"])
    )
    return jsonschema.Draft202012Validator(documents[schema], registry=registry)


def _not_finite(value: object, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], float]]:
    if isinstance(value, float) and not math.isfinite(value):
        yield path, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _not_finite(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _not_finite(each, (*path, index))


def _key(path: Iterable[str | int]) -> str:
    return ".".join(str(step) for step in path) or "top level"


def _problem(error: ValidationError, document: object, file: str, entry: str | None) -> Problem:
    path = list(error.absolute_path)
    if entry is None:
        entry = _name(document, path)
    key = _key(path)
    schema: Any = error.schema
    rule: Any = error.validator_value
    found: Any = error.instance
    wanted = schema.get("description", "")
    match error.validator:
        case "enum":
            allowed = ", ".join(str(word) for word in rule if word is not None)
        case "additionalProperties":
            properties = schema["properties"]
            unknown = sorted(str(key) for key in found if key not in properties)
            return Problem(file, entry, key, f"unknown key {', '.join(unknown)}", ", ".join(properties))
        case "required":
            missing = [name for name in rule if name not in found]
            told = (schema.get("properties", {}).get(name, {}).get("description", "") for name in missing)
            key = ".".join(map(str, [*path, ", ".join(missing)]))
            return Problem(file, entry, key, "nothing", " ".join(["a value.", *told]).strip(". "))
        case "type":
            allowed = " or ".join([rule] if isinstance(rule, str) else rule)
        case "pattern" | "minimum" | "exclusiveMinimum" | "exclusiveMaximum" | "minItems" | "maxItems":
            allowed = f"{error.validator} {rule}"
        case _:
            allowed = error.message
    value = json.dumps(found, ensure_ascii=False, default=str)
    return Problem(
        file, entry, key, value if len(value) < 80 else f"{value[:77]}...", f"{allowed}. {wanted}".strip(". ")
    )


def _name(document: object, path: Sequence[str | int]) -> str:
    """The nearest id on the way to the fault."""
    name = "(no id)"
    for step in [None, *path]:
        document = document if step is None else document[step]  # type: ignore[index]
        if isinstance(document, Mapping) and isinstance(document.get("id"), str):
            name = document["id"]
    return name
