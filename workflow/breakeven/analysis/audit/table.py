"""A published table of speculative-decoding runs, read from CSV: every cell checked, nothing interpreted.

One row is one arm of a published comparison beside its baseline. Lines that start with # are comments. A cell that
was not published stays empty; what it would have said is then unknown, never 0.
"""

import csv
import difflib
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from breakeven.analysis.audit.kinds import kind_of, rises
from breakeven.errors import ConfigError

NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
LONGEST_LIST = 1000
SHOWN_PROBLEMS = 20
UNITS = ("tok/s", "steps/s", "unknown")
PHASES = ("decode", "prefill")
BANDWIDTHS = ("origin not stated", "measured", "datasheet")
VERDICTS = ("pays", "loses", "impossible")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. Numbers are None where the cell is empty; `extra` holds optional numeric columns."""

    line: int
    table: str
    source: str
    engine: str
    model: str
    hardware: str
    n: int | None
    setting: str
    tok_s: float | None
    baseline_tok_s: float | None
    acc_kind: str
    acc_value: float | tuple[float, ...] | None
    acc_definition: str
    inferred: str
    author_conclusion: str
    notes: str
    unit: str = "tok/s"
    phase: str = "decode"
    claimed_verdict: str = ""
    bandwidth_kind: str = ""
    survival: tuple[float, ...] | None = None
    extra: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Column:
    """How one column is read; `allowed` is said to the person whose value does not fit."""

    what: str
    allowed: str
    read: Callable[[str], Any]
    required: bool = False
    extra: bool = False


def _number(low: float, high: float, *, whole: bool = False) -> Callable[[str], float | None]:
    def read(text: str) -> float | None:
        if not text:
            return None
        if not NUMBER.fullmatch(text):
            raise ValueError
        value = float(text)
        if not (low <= value <= high) or (whole and value != int(value)):
            raise ValueError
        return value

    return read


def _choice(*allowed: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text and text.lower() not in allowed:
            raise ValueError
        return text.lower() or allowed[0]

    return read


def _rate(what: str, **kind: bool) -> Column:
    return Column(what, "a number from 0.001 to 1e9", _number(1e-3, 1e9), **kind)


def _count(what: str) -> Column:
    return Column(what, "a whole number from 0 to 1e15", _number(0, 1e15, whole=True), extra=True)


def _bytes(what: str) -> Column:
    return Column(what, "a number from 1 to 1e15", _number(1, 1e15), extra=True)


def _block(what: str) -> Column:
    return Column(what, "a whole number from 1 to 1e9", _number(1, 1e9, whole=True), extra=True)


def _claim(what: str, high: float) -> Column:
    return Column(what, f"a number from 0 to {high:g}", _number(0, high), extra=True)


def _text(what: str, required: bool = False) -> Column:
    return Column(what, "any text", str, required)


def _numbers(text: str) -> tuple[float, ...]:
    value = json.loads(text)
    if not isinstance(value, list) or len(value) > LONGEST_LIST:
        raise ValueError
    if not all(isinstance(x, int | float) and not isinstance(x, bool) for x in value):
        raise ValueError
    numbers = tuple(float(x) for x in value)
    if not all(map(isfinite, numbers)):
        raise ValueError
    return numbers


def _survival(text: str) -> tuple[float, ...] | None:
    if not text:
        return None
    values = _numbers(text)
    if not values or rises(values) or not all(0 <= v <= 1 for v in values):
        raise ValueError
    return values


COLUMNS: dict[str, Column] = {
    "table": _text("name that joins the rows of one published table", required=True),
    "source": _text("where it was published"),
    "engine": _text("engine and build"),
    "model": _text("model and quantisation"),
    "hardware": _text("device"),
    "N": Column(
        "draft tokens asked for per step; 0 is a baseline row",
        "a whole number from 0 to 10000, or empty",
        _number(0, 10_000, whole=True),
        required=True,
    ),
    "setting": _text("what else differs between rows: prompt, depth, gate, head"),
    "tok_s": _rate("decode speed of the arm as printed", required=True),
    "baseline_tok_s": _rate("decode speed without speculation, same prompt and setting", required=True),
    "acc_kind": _text("what acc_value is; `none` where no acceptance was published", required=True),
    "acc_value": _text("acceptance as published", required=True),
    "acc_definition": _text("the author's own definition"),
    "inferred": _text("what the typist inferred"),
    "author_conclusion": _text("what the author concluded"),
    "notes": _text("anything else"),
    "unit": Column("unit of both speeds", f"one of {', '.join(UNITS)}, or empty for tok/s", _choice(*UNITS)),
    "phase": Column("what was timed", "decode or prefill, or empty for decode", _choice(*PHASES)),
    "survival": Column(
        "survival acceptance per position where acc_value is something else",
        "a JSON list of numbers from 1 down to 0 such as [0.87, 0.68]",
        _survival,
    ),
    "drafts": _count("steps that verified a draft, pooled over the run"),
    "accepted": _count("accepted draft tokens, pooled over the run"),
    "requests": _count("requests behind these counters"),
    "completion_tokens": _count("completion tokens of those requests together"),
    "bytes_target": _bytes("bytes a baseline step reads"),
    "bytes_draft": _bytes("bytes a draft pass reads"),
    "bandwidth_gb_s": _bytes("memory bandwidth of the device"),
    "bandwidth_kind": Column(
        "what the bandwidth is",
        f"one of {', '.join(BANDWIDTHS)}, or empty for {BANDWIDTHS[0]}",
        _choice(*BANDWIDTHS),
    ),
    "prefix_tokens": _count("prefill: prompt tokens served before"),
    "new_tokens": _count("prefill: prompt tokens that follow"),
    "block_tokens": _block("prefill: tokens of a cache block of the arm"),
    "baseline_block_tokens": _block("prefill: tokens of a cache block of the baseline"),
    "claimed_cost": _claim("step cost the author derived", 1e6),
    "claimed_a": _claim("a the author derived", 1e6),
    "claimed_b": _claim("b the author derived", 1e6),
    "claimed_breakeven": _claim("break-even acceptance the author derived, as a fraction", 1),
    "claimed_verdict": Column(
        "what the author claims of the arm",
        f"one of {', '.join(VERDICTS)}, or empty",
        lambda text: _choice(*VERDICTS)(text) if text else "",
    ),
}
REQUIRED = tuple(name for name, column in COLUMNS.items() if column.required)
_FIELDS = {"N": "n"}
_ABSENT = {name: column.read("") for name, column in COLUMNS.items() if not (column.required or column.extra)}


def parse(text: str, name: str) -> tuple[Row, ...]:
    """All rows of a table. Raises ConfigError naming file, line, column, value and what is allowed."""
    records = _records(text, name)
    line, header = next(records, (0, []))
    if not header:
        raise ConfigError(
            f"{name}: no header; the first line must name the columns {', '.join(REQUIRED)}, .."
        )
    header = [cell.strip() for cell in header]
    _check_header(header, f"{name} line {line}")
    rows, problems = [], []
    for line, record in records:
        where = f"{name} line {line}"
        if len(record) != len(header):
            problems.append(f"{where}: {len(record)} cells, but the header has {len(header)} columns")
        else:
            row, wrong = _row(line, dict(zip(header, map(str.strip, record), strict=True)))
            problems += [f"{where}, column {problem}" for problem in wrong]
            rows.append(row)
        if len(problems) >= SHOWN_PROBLEMS:
            break
    if problems:
        raise ConfigError("\n".join(problems[:SHOWN_PROBLEMS]))
    if not rows:
        raise ConfigError(f"{name}: a header but no rows; one row per arm is wanted")
    return tuple(row for row in rows if row is not None)


def preamble(text: str) -> tuple[str, ...]:
    """The comment above the header, one string per paragraph; a line with # alone parts paragraphs."""
    paragraphs: list[list[str]] = [[]]
    for line in text.removeprefix("\ufeff").splitlines():
        if not line.lstrip().startswith("#"):
            break
        words = line.lstrip().lstrip("#").strip()
        if words:
            paragraphs[-1].append(words)
        else:
            paragraphs.append([])
    return tuple(" ".join(words) for words in paragraphs if words)


def _records(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    first, between = 0, True

    def lines() -> Iterator[str]:
        nonlocal first, between
        for number, line in enumerate(io.StringIO(text.removeprefix("\ufeff"), newline=""), start=1):
            if between:
                if line.lstrip().startswith("#") or not line.strip():
                    continue
                first, between = number, False
            yield line

    reader = csv.reader(lines(), strict=True)
    while True:
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ConfigError(
                f"{name} line {first}: not CSV ({error}); quote cells that hold commas or quotes"
            ) from None
        between = True
        yield first, record


def _check_header(header: Sequence[str], where: str) -> None:
    unknown = [cell for cell in header if cell not in COLUMNS]
    if unknown:
        near = difflib.get_close_matches(unknown[0], COLUMNS, n=1)
        hint = f"; did you mean {near[0]}" if near else ""
        raise ConfigError(f"{where}: unknown column {unknown[0]!r}{hint}. Allowed: {', '.join(COLUMNS)}")
    twice = {cell for cell in header if header.count(cell) > 1}
    if twice:
        raise ConfigError(f"{where}: column {min(twice)!r} stands twice")
    missing = [cell for cell in REQUIRED if cell not in header]
    if missing:
        raise ConfigError(f"{where}: column {missing[0]!r} is missing; required: {', '.join(REQUIRED)}")


def _row(line: int, cells: dict[str, str]) -> tuple[Row | None, list[str]]:
    problems: list[str] = []
    values: dict[str, Any] = dict(_ABSENT)
    extra: dict[str, float] = {}
    for name, text in cells.items():
        column = COLUMNS[name]
        try:
            value = column.read(text)
        except (ValueError, RecursionError, OverflowError):
            problems.append(f"{name}: {text[:80]!r}, allowed is {column.allowed}")
            continue
        if column.extra:
            if value is not None:
                extra[name] = value
        else:
            values[_FIELDS.get(name, name)] = value
    if not cells.get("table"):
        problems.append("table: empty, allowed is a name")
    kind = kind_of(cells.get("acc_kind", ""))
    text = cells.get("acc_value", "")
    if kind is None:
        values["acc_value"] = None
    else:
        try:
            values["acc_value"] = _acceptance(text, kind.shape, kind.check)
        except (ValueError, RecursionError, OverflowError):
            problems.append(f"acc_value: {text[:80]!r}, allowed for acc_kind {kind.name} is {kind.allowed}")
    if problems:
        return None, problems
    values["n"] = None if values["n"] is None else int(values["n"])
    return Row(line=line, extra=extra, **values), []


def _acceptance(
    text: str, shape: str, check: Callable[[tuple[float, ...]], bool]
) -> float | tuple[float, ...] | None:
    if shape == "none" or not text:
        return None
    numbers = _numbers(text) if shape == "list" else _one(text)
    if not check(numbers):
        raise ValueError
    return numbers if shape == "list" else numbers[0]


def _one(text: str) -> tuple[float]:
    if not NUMBER.fullmatch(text) or not isfinite(float(text)):
        raise ValueError
    return (float(text),)
