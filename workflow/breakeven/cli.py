"""The `breakeven` command: what a person asks besides running the workflow."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from breakeven import __version__, config
from breakeven.errors import BreakevenError
from breakeven.publish.ledger.cli import app as ledger

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(ledger, name="ledger")
console = Console(highlight=False)


def main() -> None:
    """Run the command; a person's error is one message and exit code 2, not a traceback."""
    try:
        app()
    except BreakevenError as error:
        Console(stderr=True).print(f"breakeven: {error}", style="red", markup=False, highlight=False)
        raise SystemExit(2) from error


@app.command()
def version() -> None:
    """Print the version."""
    console.print(__version__)


@app.command()
def plan(experiment: Annotated[str, typer.Argument(help="Name or file of an experiment.")]) -> None:
    """What an experiment will take, and what stands in its way; starts nothing."""
    from breakeven.launch import machine
    from breakeven.plan import estimate, obstacles
    from breakeven.publish.report.prior import known_of

    spec = config.experiment(_experiment_file(experiment))
    guess = estimate(spec, Path("results"))
    table = Table("arm", "drafts a step", "flags that are its own", title=spec["name"], title_justify="left")
    base = spec["arms"][spec["baseline"]]["server"]["args"]
    for name, arm in spec["arms"].items():
        own = {key: value for key, value in arm["server"]["args"].items() if base.get(key) != value}
        asked = f"repeats {arm['repeat_of']}" if arm["repeat_of"] else str(arm["n_spec"] or "none")
        table.add_row(name, asked, " ".join(f"--{key} {value}" for key, value in own.items()))
    console.print(table)
    console.print(
        f"launches   {guess.launches_planned} ({guess.launches_done} on record; rounds: {spec['rounds']})\n"
        f"requests   {guess.requests_per_launch} a launch, {guess.prompt_tokens_per_launch} prompt tokens, "
        f"{guess.completion_tokens_per_launch} completion tokens\n"
        f"time left  {_duration(guess.seconds_left)} ({guess.basis})\n"
        f"disk left  {_megabytes(guess.bytes_left)}",
        markup=False,
    )
    for known in known_of(spec.get("ledger", {}).get("lead"), Path("results")):
        console.print(f"known      {known}", style="yellow", markup=False)
    found = obstacles(spec, machine())
    for obstacle in found:
        console.print(f"refused    {obstacle}", style="red", markup=False)
    if found:
        raise typer.Exit(1)
    console.print(f"ready      snakemake --cores 1 reports/{spec['name']}.md", style="green")


@app.command()
def facts(
    file: Annotated[str, typer.Argument(help="A server's log; - reads standard input.")],
    engine: Annotated[
        str | None, typer.Option(help="vllm, llamacpp or sglang; recognised when not given.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """What a server's log says about the server, with the lines that say it."""
    from breakeven.engine.facts_table import facts_command

    facts_command(file, engine, as_json)


@app.command()
def audit(
    table: Annotated[Path, typer.Argument(help="CSV of a published comparison.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of Markdown.")] = False,
) -> None:
    """Read somebody's published table again, under the right definitions."""
    from breakeven.publish.audit import command

    command(table, as_json)


@app.command()
def image(
    tag: Annotated[
        str, typer.Argument(help="Name and tag of the image to make.")
    ] = "breakeven/embedded:local",
) -> None:
    """Make an image of the embedded server from this machine's own files; nothing is pulled."""
    from breakeven.launch import machine
    from breakeven.runtime.docker import connect
    from breakeven.runtime.image import build_embedded_image

    console.print(f"{tag} {build_embedded_image(tag, connect(machine().get('docker_host')))}")


def _experiment_file(name: str) -> Path:
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        return path
    known = sorted(file.stem for file in Path("config/experiments").glob("*.yaml"))
    if name not in known:
        raise BreakevenError(
            f"no experiment {name!r} in config/experiments; there are: {', '.join(known) or 'none'}"
        )
    return Path("config/experiments", f"{name}.yaml")


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    return f"about {seconds:.0f} s" if seconds < 180 else f"about {seconds / 60:.0f} min"


def _megabytes(size: int | None) -> str:
    return "unknown" if size is None else f"about {size / 1e6:.1f} MB"


if __name__ == "__main__":
    main()
