"""`breakeven ledger`: search, show, check, import, export."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown as RichMarkdown

from breakeven.errors import BreakevenError
from breakeven.publish.escape import one_line, printable
from breakeven.publish.ledger.check import near
from breakeven.publish.ledger.files import Ledger, import_ledger, read_ledger
from breakeven.publish.ledger.imported import export_rows
from breakeven.publish.ledger.pages import entry_page, factor_text
from breakeven.publish.ledger.search import search

app = typer.Typer(help="Search and keep the ledger of what was tried.", no_args_is_help=True)

Config = Annotated[Path, typer.Option(help="Hand-written and imported entries.")]
Generated = Annotated[Path, typer.Option(help="The ledger that the workflow writes.")]
CONFIG, GENERATED = Path("config/ledger"), Path("reports/ledger.jsonl")


@app.command("search")
def search_command(
    words: list[str], config: Config = CONFIG, ledger: Generated = GENERATED, limit: int = 20
) -> None:
    """List the entries with these words, best first."""
    with _messages():
        found = search(" ".join(words), _read(config, ledger).entries)
    for entry in found[:limit]:
        parts = [entry.id, entry.date or "date unknown", entry.verdict, f"factor {factor_text(entry)}"]
        typer.echo(one_line(", ".join(parts)))
        said = entry.sentence or entry.reason
        if said:
            typer.echo(f"    {one_line(said)}")
        for condition in entry.reopen if entry.closed else ():
            typer.echo(f"    reopens when {one_line(condition.words)}")
    if len(found) > limit:
        typer.echo(f"{len(found) - limit} more: --limit {len(found)}")
    if not found:
        typer.echo("no entry has any of these words", err=True)
        raise typer.Exit(1)


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="ID")], config: Config = CONFIG, ledger: Generated = GENERATED
) -> None:
    """Print an entry in full."""
    with _messages():
        entries = {entry.id: entry for entry in _read(config, ledger).entries}
        if name not in entries:
            raise BreakevenError(f"{name} is not in the ledger; wanted {near(name, entries)}")
        page = entry_page(entries[name])
    if sys.stdout.isatty():
        Console().print(RichMarkdown(page))
    else:
        typer.echo(_bytes(page), nl=False)


@app.command()
def check(config: Config = CONFIG, ledger: Generated = GENERATED) -> None:
    """Check entries, notes and references; the exit code is 1 when something is wrong."""
    with _messages():
        found = _read(config, ledger)
    for problem in found.problems:
        typer.echo(one_line(str(problem)), err=True)
    flagged = sum(bool(entry.flags) for entry in found.entries)
    typer.echo(f"{len(found.entries)} entries, {flagged} flagged, {len(found.problems)} problems")
    if found.problems:
        raise typer.Exit(1)


@app.command("import")
def import_command(file: Path, config: Config = CONFIG) -> None:
    """Take over a ledger of the public MI210 format (JSONL); every row is kept as it stands."""
    with _messages():
        target, count = import_ledger(file, config)
    typer.echo(f"{count} entries in {target}")


@app.command()
def export(
    config: Config = CONFIG,
    ledger: Generated = GENERATED,
    of: Annotated[
        str | None, typer.Option(help="Only the rows imported from this file of config/ledger.")
    ] = None,
) -> None:
    """Print the ledger in the public MI210 format, imported rows as they came."""
    with _messages():
        found = _read(config, ledger)
        headers = {Path(file).name: header for file, header in found.inputs.headers}
        entries = found.entries
        if of is not None:
            if of not in headers:
                raise BreakevenError(
                    f"{of} is no imported ledger; wanted one of {', '.join(headers) or 'none, there are none'}"
                )
            entries = tuple(
                entry for entry in entries if entry.imported and Path(entry.imported.file).name == of
            )
        header = headers[of] if of else next(iter(headers.values()), None)
        typer.echo(_bytes(export_rows(entries, header)), nl=False)


def _read(config: Path, ledger: Path) -> Ledger:
    return read_ledger(config, [ledger] if ledger.exists() else [])


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


@contextmanager
def _messages() -> Iterator[None]:
    try:
        yield
    except BreakevenError as error:
        typer.echo("\n".join(map(printable, str(error).split("\n"))), err=True)
        raise typer.Exit(1) from error
