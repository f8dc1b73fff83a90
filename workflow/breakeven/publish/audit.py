"""Audits as a Markdown page and as JSON: `python -m breakeven.publish.audit IN.csv OUT.md`."""

import gc
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import jinja2
import typer

from breakeven.analysis.audit.arm import Arm
from breakeven.analysis.audit.conclude import conclusions
from breakeven.analysis.audit.groups import Group, TableAudit, audit
from breakeven.analysis.audit.table import parse, preamble
from breakeven.errors import BreakevenError, ConfigError
from breakeven.files import write_text
from breakeven.publish.escape import Markdown, environment

JSON_VERSION = 1
TITLES = {
    "source": "Source",
    "engine": "Engine",
    "model": "Model",
    "hardware": "Hardware",
    "author_conclusion": "The author concludes",
    "acc_definition": "The author's definition of acceptance",
    "notes": "Notes",
}
"""Columns that describe a table as a whole, and their headings."""


def read_text(path: Path) -> str:
    """The table as text. Raises ConfigError when the file is missing or is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read ({error}); a CSV file in UTF-8 is wanted") from error


@cache
def _page() -> jinja2.Template:
    pages = environment()
    pages.filters |= {"number": _number, "percent": _percent}
    return pages.get_template("audit.md.j2")


def as_markdown(text: str, name: str) -> str:
    """The page about a table given as CSV text. Raises ConfigError where the table cannot be read."""
    tables = audit(parse(text, name))
    return _page().render(
        name=name,
        preamble=preamble(text),
        tables=[
            {
                "audit": table,
                "heads": [(TITLES[key], texts) for key, texts in _heads(table).items() if texts],
                "conclusions": conclusions(table),
                "notes": _notes(table),
                "claims": [(group.setting, claim) for group in table.groups for claim in group.claims],
            }
            for table in tables
        ],
    )


def _number(value: float | None, digits: int = 3) -> Markdown:
    return Markdown("–" if value is None else f"{value:.{digits}f}")


def _percent(value: float | None) -> Markdown:
    return Markdown("–" if value is None else f"{value:.1%}")


def as_json(text: str, name: str) -> str:
    """The same as JSON: what is not known is null, with a refusal beside it."""
    tables = audit(parse(text, name))
    document = {
        "version": JSON_VERSION,
        "file": name,
        "preamble": preamble(text),
        "tables": [_table(table) for table in tables],
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False)


def command(
    table: Annotated[Path, typer.Argument(help="Published table as CSV, one row per arm.")],
    as_json_: Annotated[bool, typer.Option("--json", help="JSON instead of Markdown.")] = False,
) -> None:
    """Re-read a published table: step costs, break-even, ceiling, what it cannot say, and why."""
    text = read_text(table)
    with _collection_paused():
        page = as_json(text, table.name) if as_json_ else as_markdown(text, table.name)
    typer.echo(page)


def _table(table: TableAudit) -> dict[str, Any]:
    return {
        "table": table.table,
        **_heads(table),
        "conclusions": conclusions(table),
        "groups": [_group(group) for group in table.groups],
        "same_n": _plain(table.same_n),
        "prefill": [
            {"line": prefill.row.line, "n": prefill.row.n, "setting": prefill.row.setting}
            | {key: _plain(getattr(prefill, key)) for key in ("ratio", "predicted", "computed_tokens")}
            for prefill in table.prefill
        ],
    }


def _heads(table: TableAudit) -> dict[str, list[str]]:
    return {
        column: list(dict.fromkeys(text for row in table.rows if (text := getattr(row, column))))
        for column in TITLES
    }


def _notes(table: TableAudit) -> list[tuple[str, list[int]]]:
    """What stands under the rows, each text once with the lines that it is about."""
    notes: dict[str, list[int]] = {}
    for arm in (arm for group in table.groups for arm in group.arms):
        texts = [f"no {refusal.quantity}: {refusal.reason}" for refusal in arm.refusals]
        texts += arm.caveats
        texts += [
            f"{other.definition}: L = {other.length:.3f}, C = {other.cost:.3f}" for other in arm.alternatives
        ]
        if arm.at_n is not None and not arm.at_n.possible:
            texts.append("no acceptance pays at this step cost, C ≥ N + 1")
        if arm.at_n is not None and arm.at_n.breakeven_scale is not None:
            scale = f"{arm.at_n.breakeven_scale:.3f}"
            texts.append(
                f"breaks even when every conditional acceptance of its profile is {scale} times what it is"
            )
        for text in texts:
            notes.setdefault(text, []).append(arm.row.line)
    return list(notes.items())


def _group(group: Group) -> dict[str, Any]:
    rest = {
        f.name: _plain(getattr(group, f.name)) for f in fields(group) if f.name not in ("arms", "changes")
    }
    changes = [{"n": n, **_plain(change)} for n, found in group.changes for change in found]
    return rest | {"arms": [_arm(arm) for arm in group.arms], "changes": changes}


def _arm(arm: Arm) -> dict[str, Any]:
    row = arm.row
    at_n = arm.at_n
    return {
        "line": row.line,
        "n": row.n,
        "setting": row.setting,
        "unit": row.unit,
        "tok_s": row.tok_s,
        "baseline_tok_s": row.baseline_tok_s,
        "acc_kind": row.acc_kind,
        "acc_value": _plain(row.acc_value),
        "definition": arm.acceptance.definition,
        "status": arm.status,
        "tokens_per_step": arm.acceptance.length,
        "every_step_drafts_n": arm.acceptance.every_step,
        "speedup": arm.speedup,
        "cost": arm.cost,
        "implied_cost": arm.implied_cost,
        "breakeven_tokens_per_step": arm.cost,
        "breakeven_rate": None if at_n is None else at_n.breakeven_rate,
        "breakeven_alpha": None if at_n is None else at_n.breakeven_alpha,
        "breakeven_scale": None if at_n is None else at_n.breakeven_scale,
        "ceiling": None if at_n is None else at_n.ceiling,
        "possible": None if at_n is None else at_n.possible,
        "alternatives": _plain(arm.alternatives),
        "refusals": _plain(arm.refusals),
        "caveats": list(arm.caveats),
    }


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


@contextmanager
def _collection_paused() -> Iterator[None]:
    # A large table is millions of objects without cycles; looking for cycles doubles the time.
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def main(arguments: Sequence[str]) -> int:
    """IN.csv OUT.md: write the page, whole or not at all. 2 and a message when the table cannot be read."""
    if len(arguments) != 2:
        print("usage: python -m breakeven.publish.audit IN.csv OUT.md", file=sys.stderr)
        return 2
    source, target = map(Path, arguments)
    try:
        with _collection_paused():
            page = as_markdown(read_text(source), source.name)
    except BreakevenError as error:
        print(error, file=sys.stderr)
        return 2
    write_text(target, page)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
