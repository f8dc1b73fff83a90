"""Entries as Markdown: the page of an experiment, the page of one entry, the index. Text in, text out."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from breakeven.publish.escape import Markdown, environment, markdown_code, markdown_text
from breakeven.publish.ledger.entry import Entry, newest_first

_PAGE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")


def experiment_page(experiment: str, entries: Iterable[Entry], ledger: Iterable[Entry]) -> str:
    """`reports/ledger/<experiment>.md`: a section a finding, then what the findings supersede in the ledger."""
    own = newest_first(entries)
    names = {entry.id for entry in own}
    replaced = [
        entry for entry in newest_first(ledger) if entry.superseded_by in names and entry.id not in names
    ]
    return _render("ledger_entry", title=f"Ledger: {experiment}", entries=own, replaced=replaced)


def entry_page(entry: Entry) -> str:
    """One entry in full."""
    return _render("ledger_entry", title="Ledger entry", entries=[entry], replaced=[])


def index_page(entries: Iterable[Entry], loose_ends: Sequence[str] = ()) -> str:
    """`reports/ledger.md`: open defects, then every lead, the one with the newest entry first.

    `loose_ends`: notes and references that point to entries which are not in this ledger.
    """
    ordered = newest_first(entries)
    leads: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in ordered:
        leads[entry.lead].append(entry)
    defects = [entry for entry in ordered if entry.in_force and entry.verdict == "open-defect"]
    return _render(
        "ledger_index",
        count=len(ordered),
        closed=sum(entry.closed for entry in ordered),
        defects=defects,
        leads=leads,
        loose_ends=loose_ends,
    )


def number(value: float) -> str:
    """Four significant digits, without an exponent for what a ratio or a rate can be."""
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def factor_text(entry: Entry) -> str:
    """Factor with its interval: `1.58 [1.55, 1.61] (95 %)`."""
    if entry.factor is None:
        return "unknown"
    if entry.interval is None:
        return f"{number(entry.factor)}, interval unknown"
    low, high = entry.interval
    level = "level unknown" if entry.level is None else f"{number(100 * entry.level)} %"
    return f"{number(entry.factor)} [{number(low)}, {number(high)}] ({level})"


def quantity_text(value: Any) -> str:
    """A quantity, or its values by N."""
    if isinstance(value, dict):
        return ", ".join(f"N = {n}: {quantity_text(each)}" for n, each in value.items())
    if value is None:
        return "unknown"
    return str(value) if isinstance(value, str) else number(value)


def joined(*words: str | None) -> str:
    """The words that are known, or "unknown"."""
    return " ".join(word for word in words if word) or "unknown"


def _table(entries: Sequence[Entry]) -> Markdown:
    head = ["Date", "Entry", "Engine", "Model", "Hardware", "Metric", "Factor", "Verdict"]
    rows: list[list[str]] = [
        [
            markdown_text(entry.date or "unknown"),
            _link(entry),
            markdown_text(joined(entry.engine, entry.engine_version)),
            markdown_text(joined(entry.model, entry.quant)),
            markdown_text(entry.hardware or "unknown"),
            markdown_text(entry.metric or "unknown"),
            markdown_text(factor_text(entry)),
            markdown_text(entry.verdict),
        ]
        for entry in entries
    ]
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    lines: list[list[str]] = [head, ["-" * width for width in widths], *rows]
    return Markdown(
        "\n".join(
            f"| {' | '.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))} |"
            for line in lines
        )
    )


def _page(entry: Entry) -> str | None:
    """File name of the page that holds the entry, where it can be linked to."""
    safe = entry.source == "measured" and entry.experiment and _PAGE_NAME.fullmatch(entry.experiment)
    return f"{entry.experiment}.md" if safe else None


def _link(entry: Entry) -> Markdown:
    page = _page(entry)
    if page is None:
        return markdown_code(entry.id, in_table=True)
    return Markdown(f"[{markdown_text(entry.id)}](ledger/{page}#{entry.id})")


def _render(template: str, **values: Any) -> str:
    jinja = environment()
    jinja.filters.update(factor=factor_text, quantity=quantity_text, table=_table, link=_link)
    jinja.globals["joined"] = joined
    return jinja.get_template(f"{template}.md.j2").render(**values)
