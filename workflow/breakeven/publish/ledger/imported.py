"""The public MI210 ledger's JSONL, one row a lead under a `_schema` row: read, and written back.

Rows are kept character by character. What has no place in an entry (a word that is not in the vocabulary, an
unknown key, a factor in words) stays in the row and is flagged.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from breakeven.errors import ConfigError
from breakeven.publish.ledger.entry import CLOSED, VERDICTS, Entry, Evidence, Imported
from breakeven.publish.ledger.findings import slug

KEYS = ("round", "lead", "engine", "model", "quant", "metric", "factor", "verdict", "doc", "note")
_NAMING = ("lead", "engine", "model", "quant", "metric")
_HEADER = json.dumps(
    {
        "_schema": "One record per lead. Fields: "
        + ", ".join(KEYS)
        + ". factor: above 1 is faster or better. "
        "Verdicts: "
        + " | ".join(VERDICTS)
        + ". rejected and impossible mean: do not propose again without new evidence."
    }
)


@dataclass(frozen=True)
class ImportedLedger:
    """An imported ledger file: its `_schema` line as it stands, or None, and its entries in order."""

    header: str | None
    entries: tuple[Entry, ...]


def read_rows(text: str, file: str) -> ImportedLedger:
    """Entries of a ledger in JSONL. Empty lines are skipped; nothing else is.

    Raises ConfigError naming file and line of every line that is no row: not JSON, not an object, a key twice,
    a number that is none, no lead or no verdict, a `_schema` row that is not the first.
    """
    header: str | None = None
    entries: list[Entry] = []
    faults: list[str] = []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        line = line.removesuffix("\r")
        if not line.strip():
            continue
        try:
            row = _row(line)
            if "_schema" in row:
                if header is not None or entries:
                    raise ValueError(
                        "a `_schema` row belongs on the first line; split the file into its ledgers"
                    )
                header = line
            else:
                entries.append(_entry(row, Imported(file, number, line)))
        except ValueError as error:
            faults.append(f"{file}, line {number}: {error}; found: {line[:120]}")
    if faults:
        raise ConfigError("\n".join([*faults, "Nothing was imported. Wanted: one JSON object a line."]))
    return ImportedLedger(header, tuple(_distinct(entries)))


def export_rows(entries: Iterable[Entry], header: str | None = None) -> str:
    """The ledger in that format: imported rows as they came, in order, then the other entries by id.

    An imported entry whose status was changed keeps its row, the verdict aside.
    """
    kept = sorted((entry for entry in entries if entry.imported), key=_position)
    own = sorted((entry for entry in entries if not entry.imported), key=lambda entry: entry.id)
    lines = [
        header or _HEADER,
        *(_written_back(entry) for entry in kept),
        *(_exported(entry) for entry in own),
    ]
    return "".join(f"{line}\n" for line in lines)


def _position(entry: Entry) -> tuple[str, int]:
    assert entry.imported is not None
    return entry.imported.file, entry.imported.line


def _written_back(entry: Entry) -> str:
    assert entry.imported is not None
    row = json.loads(entry.imported.row)
    if row["verdict"] == entry.verdict:
        return entry.imported.row
    return json.dumps({**row, "verdict": entry.verdict}, ensure_ascii=False)


def _exported(entry: Entry) -> str:
    row = {key: getattr(entry, key, None) for key in KEYS}
    return json.dumps(
        {**row, "doc": entry.evidence.report, "note": entry.sentence or entry.reason}, ensure_ascii=False
    )


def _row(line: str) -> dict[str, Any]:
    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        twice = [key for key, count in Counter(key for key, _ in found).items() if count > 1]
        if twice:
            raise ValueError(f"key {', '.join(twice)} stands twice")
        return dict(found)

    def no_constant(name: str) -> Any:
        raise ValueError(f"{name} is no number of JSON")

    try:
        row = json.loads(line, object_pairs_hook=pairs, parse_constant=no_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at column {error.colno})") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(row, dict):
        raise ValueError("not an object")
    return row


def _entry(row: dict[str, Any], imported: Imported) -> Entry:
    for key in ("lead", "verdict"):
        if not isinstance(row.get(key), str) or not row[key].strip():
            raise ValueError(f"no {key}")
    flags = [f"unknown key {key}" for key in row if key not in KEYS]
    flags += [f"no {key}" for key in KEYS if key not in row]
    if row["verdict"] not in VERDICTS:
        flags.append(f"verdict {row['verdict']} is not in the vocabulary")
    if row["verdict"] in CLOSED:
        flags.append("no reopen condition on record")
    if row["verdict"] == "superseded":
        flags.append("no successor on record")
    if not isinstance(row.get("round"), int | None) or isinstance(row.get("round"), bool):
        flags.append(f"round {json.dumps(row['round'])} is not a number")
    words = {}
    for key in ("engine", "model", "quant", "metric", "doc", "note"):
        value = row.get(key)
        words[key] = value if isinstance(value, str) and value else None
        if value is not None and not isinstance(value, str):
            flags.append(f"{key} is not a text")
    factor = _factor(row.get("factor"))
    if factor is None and row.get("factor") is not None:
        flags.append(f"factor {json.dumps(row['factor'])} is not a number above 0")
    return Entry(
        id="-".join(_name_parts(row)),
        lead=row["lead"],
        verdict=row["verdict"],
        source="imported",
        engine=words["engine"],
        model=words["model"],
        quant=words["quant"],
        metric=words["metric"],
        factor=factor,
        reason=words["note"],
        evidence=Evidence(report=words["doc"]),
        flags=tuple(flags),
        imported=imported,
        origin=f"{imported.file}, line {imported.line}",
    )


def _factor(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        factor = float(value)
    except OverflowError:
        return None
    return factor if math.isfinite(factor) and factor > 0 else None


def _name_parts(row: dict[str, Any]) -> list[str]:
    round_part = [] if row.get("round") is None else [f"r{slug(str(row['round']))}"]
    said = (row.get(key) for key in _NAMING)
    return [*round_part, *(slug(str(part)) for part in said if part not in (None, "", "n/a"))]


def _distinct(entries: list[Entry]) -> list[Entry]:
    """Rows of one name are told apart by their order in the file: name, name-2, name-3."""
    taken: set[str] = set()
    made = []
    for entry in entries:
        name, ordinal = entry.id, 1
        while name in taken:
            ordinal += 1
            name = f"{entry.id}-{ordinal}"
        taken.add(name)
        made.append(replace(entry, id=name))
    return made
