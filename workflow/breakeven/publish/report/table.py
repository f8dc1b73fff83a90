"""Markdown tables that are aligned in their source, with notes for what a cell has no room for."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

from breakeven.publish.escape import Markdown, markdown_text
from breakeven.publish.report import numbers
from breakeven.publish.report.numbers import Estimate

RIGHT, LEFT = "right", "left"


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
        right = [heading.endswith(">") for heading in self.headings]
        head = [markdown_text(heading.removesuffix(">").rstrip()) for heading in self.headings]
        widths = [max(3, *(_width(row[column]) for row in [head, *self.rows])) for column in range(len(head))]
        rule = [
            f"{'-' * (width - 1)}:" if of_numbers else "-" * width
            for width, of_numbers in zip(widths, right, strict=True)
        ]
        made = [_line(head, widths, right), f"| {' | '.join(rule)} |"]
        made += [_line(row, widths, right) for row in self.rows]
        if self.notes:
            made += [
                "",
                *(f"- {markdown_text(f'[{_letter(i)}] {note}')}" for i, note in enumerate(self.notes)),
            ]
        return Markdown("\n".join(made))


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
