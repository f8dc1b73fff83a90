"""Markdown tables that are aligned in their source, with notes for what a cell has no room for."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

from breakeven.publish.escape import Markdown, markdown_text
from breakeven.publish.report import numbers
from breakeven.publish.report.numbers import Estimate


@dataclass
class Table:
    """Rows under headings. A heading that ends in `>` is of a right-aligned column (numbers).

    Cells are text, escaped on the way in unless it is Markdown already; `estimate` writes a value with its interval
    and moves the reason for what is missing into a note below the table.
    """

    headings: Sequence[str]
    rows: list[list[Markdown]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, *cells: str | int | None) -> None:
        """Append one row."""
        if len(cells) != len(self.headings):
            raise ValueError(f"{len(cells)} cells under {len(self.headings)} headings: {cells}")
        self.rows.append([_cell(cell) for cell in cells])

    def noted(self, text: str, reason: str | None) -> Markdown:
        """Text that refers to a note with the reason."""
        if not reason:
            return markdown_text(text)
        if reason not in self.notes:
            self.notes.append(reason)
        return markdown_text(f"{text} [{_letter(self.notes.index(reason))}]")

    def estimate(self, estimate: Estimate, decimals: int | None = 3, *, share: bool = False) -> Markdown:
        """`0.838 (0.831 to 0.845)`; `decimals` None: four significant digits; `share`: as a percentage."""
        value = estimate["value"]
        if not numbers.known(value):
            return self.noted(numbers.UNKNOWN, estimate["reason"] or "no reason on record")
        shown: Estimate = estimate
        if share:
            shown = {key: _hundredfold(estimate[key]) for key in ("value", "low", "high")}
            decimals = 1
        places = numbers.decimals_of(value) if decimals is None else decimals
        unit = " %" if share else ""
        text, span = numbers.fixed(shown["value"], places), numbers.interval(shown, places)
        if span is None:
            return self.noted(f"{text}{unit}", f"no interval: {estimate['reason'] or 'no reason on record'}")
        return markdown_text(f"{text}{unit} ({span})")

    def __bool__(self) -> bool:
        return bool(self.rows)

    def markdown(self) -> Markdown:
        """The table and its notes."""
        head = [markdown_text(heading.removesuffix(">").rstrip()) for heading in self.headings]
        rule = ["-:" if heading.endswith(">") else "-" for heading in self.headings]
        lines: list[Sequence[str]] = [head, rule, *self.rows]
        made = [aligned("\n".join(f"| {' | '.join(line)} |" for line in lines))]
        for index, note in enumerate(self.notes):
            made += ["", markdown_text(f"[{_letter(index)}] {note}")]
        return Markdown("\n".join(made))


def aligned(markdown: str) -> str:
    """The same page with the columns of every table padded to one width; fenced blocks stay as they are."""
    made: list[str] = []
    rows: list[str] = []
    fence = ""
    for line in [*markdown.split("\n"), ""]:
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and fence and line.strip() == fence:
            fence = ""
        if line.startswith("|") and not fence:
            rows.append(line)
            continue
        made += _padded(rows)
        rows = []
        made.append(line)
    return "\n".join(made[:-1])


MOST_COLUMNS = 60
"""A cell that is longer sticks out: padding all others to it would make pages of blanks."""
_FENCE = re.compile(r"\s{0,3}(`{3,})")
_CELL_END = re.compile(r"(?<!\\)\|")


def _padded(rows: Sequence[str]) -> list[str]:
    cells = [[cell.strip() for cell in _CELL_END.split(row)[1:-1]] for row in rows]
    if len(cells) < 2 or len({len(row) for row in cells}) != 1:
        return list(rows)
    right = [mark.endswith(":") for mark in cells[1]]
    others = [cells[0], *cells[2:]]
    widths = [
        max(3, *(min(_width(row[column]), MOST_COLUMNS) for row in others)) for column in range(len(right))
    ]
    cells[1] = [
        f"{'-' * (width - 1)}:" if of_numbers else "-" * width
        for width, of_numbers in zip(widths, right, strict=True)
    ]
    return [_line(row, widths, right) for row in cells]


def _cell(cell: str | int | None) -> Markdown:
    if isinstance(cell, Markdown):
        return cell
    return markdown_text("unknown" if cell is None else str(cell))


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = [
        f"{' ' * (width - _width(cell))}{cell}" if of_numbers else f"{cell}{' ' * (width - _width(cell))}"
        for cell, width, of_numbers in zip(cells, widths, right, strict=True)
    ]
    return f"| {' | '.join(padded)} |"


def _width(text: str) -> int:
    """Columns that a text takes in a monospaced font."""
    return sum(
        0
        if unicodedata.category(mark) in ("Mn", "Cf")
        else 2
        if unicodedata.east_asian_width(mark) in "WF"
        else 1
        for mark in text
    )


def _letter(index: int) -> str:
    return chr(ord("a") + index) if index < 26 else f"a{index - 25}"


def _hundredfold(value: float | None) -> float | None:
    return None if value is None else 100 * value
