"""The ledger's files: what the rules and the command line read and write. Files appear whole or not at all."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from breakeven.errors import BreakevenError, ConfigError
from breakeven.files import write_text
from breakeven.publish.ledger.build import build, check_notes
from breakeven.publish.ledger.check import check
from breakeven.publish.ledger.entry import Entry, ledger_jsonl
from breakeven.publish.ledger.imported import read_rows
from breakeven.publish.ledger.inputs import Inputs, read_entries, read_inputs, read_text
from breakeven.publish.ledger.pages import experiment_page, index_page
from breakeven.publish.ledger.schema import Problem


@dataclass(frozen=True)
class Ledger:
    """All entries, what is wrong with them, and the inputs that they were merged with."""

    entries: tuple[Entry, ...]
    problems: tuple[Problem, ...]
    inputs: Inputs


def read_ledger(notes: Path, files: Sequence[Path]) -> Ledger:
    """The ledger of entry files (JSON or JSONL, as written here) and of the folder config/ledger.

    Raises ConfigError when a file cannot be read as what it is; problems between entries are returned.
    """
    inputs = read_inputs(notes)
    measured = [entry for path in files for entry in read_entries(path) if entry.source == "measured"]
    current = {entry.id for entry in measured}
    kept = [entry for entry in inputs.kept if entry.id not in current]
    entries = build(None, inputs.notes, inputs.hand_written, [*kept, *measured])
    return Ledger(tuple(entries), (*check(entries), *check_notes(inputs.notes, entries)), inputs)


def write_experiment(
    findings: Path, page: Path, entries_out: Path, notes: Path, previous: Sequence[Path] = ()
) -> None:
    """Entries of one experiment, as a page and as JSON. Raises BreakevenError when an entry is not sound."""
    document = read_findings(findings)
    inputs = read_inputs(notes)
    before = [*inputs.kept, *(entry for path in previous for entry in read_entries(path))]
    unique = list({entry.id: entry for entry in before}.values())
    ledger = build(document, inputs.notes, inputs.hand_written, unique, str(findings))
    experiment = str(document["experiment"])
    own = [entry for entry in ledger if entry.origin == str(findings)]
    new = {entry.id for entry in own}
    _raise([problem for problem in check(ledger) if problem.entry in new and not problem.dangling])
    write_text(page, experiment_page(experiment, own, ledger))
    documents = [entry.document() for entry in sorted(own, key=lambda entry: entry.id)]
    write_text(
        entries_out,
        json.dumps(documents, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n",
    )


def write_index(page: Path, jsonl: Path, entries: Sequence[Path], notes: Path) -> list[Problem]:
    """Index and `ledger.jsonl` of all experiments. Returns what points to entries that are not there.

    Raises BreakevenError for every other problem.
    """
    ledger = read_ledger(notes, entries)
    _raise([problem for problem in ledger.problems if not problem.dangling])
    dangling = [problem for problem in ledger.problems if problem.dangling]
    write_text(page, index_page(ledger.entries, [str(problem) for problem in dangling]))
    write_text(jsonl, ledger_jsonl(ledger.entries))
    return dangling


def import_ledger(source: Path, folder: Path) -> tuple[Path, int]:
    """Copy a ledger of the public format into config/ledger once every line of it reads; its path and entries.

    Raises ConfigError for a bad line, for ids that the folder has already, and rather than overwrite a file.
    """
    target = folder / f"{source.stem}.jsonl"
    text = read_text(source)
    entries = read_rows(text, str(source)).entries
    if target.exists():
        raise ConfigError(
            f"{target} exists already; nothing was imported. Remove it, or rename {source.name}, and import again"
        )
    known = {entry.id: entry.origin for entry in read_inputs(folder).hand_written}
    clashes = [
        f"{entry.origin}: {entry.id} is in {known[entry.id]}" for entry in entries if entry.id in known
    ]
    if clashes:
        raise ConfigError(
            "\n".join(["These rows are in the ledger already; nothing was imported.", *clashes[:20]])
        )
    write_text(target, text if text.endswith("\n") else f"{text}\n")
    return target, len(entries)


def read_findings(path: Path) -> dict[str, object]:
    """An experiment's findings document. Raises BreakevenError when it is no JSON object."""
    try:
        document = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise BreakevenError(f"{path}: not JSON ({error}); run the verdict again") from error
    if not isinstance(document, dict):
        raise BreakevenError(f"{path}: found no JSON object; run the verdict again")
    return document


def _raise(problems: Sequence[Problem]) -> None:
    if problems:
        raise BreakevenError("\n".join(str(problem) for problem in problems))
