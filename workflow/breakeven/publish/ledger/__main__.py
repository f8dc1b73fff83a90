"""Entry points of the rules: `entry` after an experiment's verdict, `index` over all experiments."""

from pathlib import Path
from typing import Annotated

import typer

from breakeven.errors import BreakevenError
from breakeven.publish.ledger.files import write_experiment, write_index

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
Notes = Annotated[Path, typer.Option(help="Folder of hand-written entries, notes and status changes.")]
NOTES = Path("config/ledger")


@app.command()
def entry(
    findings: Path,
    page: Path,
    entries: Path,
    notes: Notes = NOTES,
    previous: Annotated[list[Path] | None, typer.Option(help="Entries of other experiments or runs.")] = None,
) -> None:
    """Write an experiment's ledger page and its entries."""
    write_experiment(findings, page, entries, notes, previous or [])


@app.command()
def index(
    page: Path,
    jsonl: Path,
    entries: Annotated[list[Path] | None, typer.Argument(help="Entries of the experiments.")] = None,
    notes: Notes = NOTES,
) -> None:
    """Write the index page and ledger.jsonl."""
    for problem in write_index(page, jsonl, entries or [], notes):
        typer.echo(f"warning: {problem}", err=True)


if __name__ == "__main__":
    try:
        app()
    except BreakevenError as error:
        raise SystemExit(str(error)) from error
