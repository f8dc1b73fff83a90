"""Print a log's facts for a person, or as JSON for a program: `breakeven facts [--engine E] [--json] FILE`."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from breakeven.engine.facts import Fact, Facts
from breakeven.engine.logtext import CHUNK_BYTES
from breakeven.engine.reader import read_facts
from breakeven.errors import BreakevenError

SHOWN_FINDINGS = 40
LONGEST_VALUE = 160
LONGEST_LINE = 100
WIDE_COLUMNS = 150
_GROUPS = (
    (
        "Speculation",
        ("spec_", "draft", "requested_spec", "resolved_spec", "n_max", "n_min", "p_min", "num_draft_tokens"),
    ),
    (
        "Kernels",
        (
            "kernel",
            "attention",
            "moe",
            "gdn",
            "flash",
            "fallback",
            "wanted",
            "jit",
            "decode_backend",
            "kv_layout",
        ),
    ),
    ("Graphs", ("graph", "cudagraph", "complete", "largest", "compil", "inductor", "enforce_eager", "lazy")),
    (
        "Memory",
        (
            "kv_",
            "gpu_",
            "cpu_blocks",
            "block",
            "available",
            "max_concurrency",
            "concurrency",
            "weights",
            "model_mib",
        ),
    ),
)
_STYLES = {"error": "bold red", "warn": "yellow", "note": "dim"}


def facts_command(file: str, engine: str | None = None, as_json: bool = False) -> None:
    """Read FILE ('-' is standard input) and print its facts.

    Raises BreakevenError when it cannot be read, the engine is not known, or no line is recognised.
    """
    facts = read_facts(_source(file), engine)
    if as_json:
        sys.stdout.write(json.dumps(facts.to_json(), indent=2, ensure_ascii=False) + "\n")
        return
    if facts.engine is None:
        raise BreakevenError(
            f"{file}: no line of vLLM, llama.cpp or SGLang was recognised; give the server's own log, or "
            f"--engine"
        )
    console = Console()
    console.print(facts_table(facts, with_text=console.width >= WIDE_COLUMNS))


def _source(file: str) -> Path | Iterator[bytes]:
    if file == "-":
        return iter(lambda: sys.stdin.buffer.read(CHUNK_BYTES), b"")
    path = Path(file)
    try:
        path.open("rb").close()
    except OSError as error:
        raise BreakevenError(
            f"{file}: cannot be read ({error.strerror}); give a log file, or - for stdin"
        ) from error
    return path


def facts_table(facts: Facts, with_text: bool = False) -> RenderableType:
    """Return the facts in groups, each with its line, then the findings, the gravest first."""
    left = dict(facts.facts)
    parts: list[RenderableType] = []
    groups = [("Server", ())] + [(title, prefixes) for title, prefixes in _GROUPS]
    picked = {title: _pick(left, prefixes) for title, prefixes in groups[1:]}
    picked["Server"] = left
    for title, _ in groups:
        if picked[title]:
            parts.append(
                _group(f"{title} ({facts.engine})" if title == "Server" else title, picked[title], with_text)
            )
    order = {severity: place for place, severity in enumerate(_STYLES)}
    for finding in sorted(facts.findings, key=lambda f: order.get(f.severity, 9))[:SHOWN_FINDINGS]:
        where = f"  (line {', '.join(map(str, finding.lines[:5]))})" if finding.lines else ""
        style = _STYLES.get(finding.severity, "")
        parts.append(Text(f"{finding.severity}: {finding.kind}: {finding.message}{where}", style=style))
    for name in facts.statistics:
        entry = facts.statistics[name]
        definition = entry.get("definition") if isinstance(entry, dict) else None
        if definition:
            parts.append(Text(f"{name}: {definition}", style="dim"))
    return Group(*parts)


def _pick(left: dict[str, Fact], prefixes: tuple[str, ...]) -> dict[str, Fact]:
    return {name: left.pop(name) for name in list(left) if name.startswith(prefixes)}


def _group(title: str, facts: dict[str, Fact], with_text: bool) -> Table:
    table = Table(
        title=title, title_justify="left", show_header=True, header_style="bold", box=None, pad_edge=False
    )
    table.add_column("fact", style="cyan", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("line", justify="right", style="dim")
    table.add_column("said by", style="dim", overflow="fold")
    if with_text:
        table.add_column("text", style="dim", overflow="ellipsis", no_wrap=True, max_width=LONGEST_LINE)
    for name, fact in facts.items():
        number = "" if fact.line_number is None else str(fact.line_number)
        text = [Text(fact.source_line[:LONGEST_LINE])] if with_text else []
        table.add_row(name, Text(_shown(fact)), number, Text(fact.rank or ""), *text)
    return table


def _shown(fact: Fact) -> str:
    value: Any = fact.value
    text = (
        "unknown"
        if value is None
        else value
        if isinstance(value, str)
        else json.dumps(value, ensure_ascii=False)
    )
    text = text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + " .."
    return (
        text
        + (f" {fact.unit}" if fact.unit and value is not None else "")
        + ("" if fact.complete else " (partial)")
    )
