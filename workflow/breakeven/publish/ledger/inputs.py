"""The inputs of the ledger in config/ledger: YAML by people, JSONL by `import`, JSON kept from runs."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from breakeven.errors import ConfigError
from breakeven.publish.ledger.build import Note, Notes, StatusChange
from breakeven.publish.ledger.entry import Entry, Remark, Reopen
from breakeven.publish.ledger.findings import reopen_documents
from breakeven.publish.ledger.imported import read_rows
from breakeven.publish.ledger.schema import Problem, problems_of

SET_BY_PROGRAM = frozenset({"source", "history", "imported"})


@dataclass(frozen=True)
class Inputs:
    """What config/ledger holds. `headers` are the `_schema` lines of imported ledgers, by file name."""

    hand_written: tuple[Entry, ...] = ()
    kept: tuple[Entry, ...] = ()
    notes: Notes = field(default_factory=Notes)
    headers: tuple[tuple[str, str | None], ...] = ()


def read_inputs(folder: Path) -> Inputs:
    """Everything in the folder; a folder that does not exist holds nothing.

    Raises ConfigError naming file, entry, key, value and what is allowed, for all files at once.
    """
    hand_written: list[Entry] = []
    kept: list[Entry] = []
    notes: list[Note] = []
    changes: list[StatusChange] = []
    headers: list[tuple[str, str | None]] = []
    faults: list[str] = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        try:
            match path.suffix:
                case ".yaml" | ".yml":
                    entries, remarks = hand_written_of(read_text(path), str(path))
                    hand_written += entries
                    notes += remarks.notes
                    changes += remarks.changes
                case ".jsonl":
                    ledger = read_rows(read_text(path), str(path))
                    hand_written += ledger.entries
                    headers.append((str(path), ledger.header))
                case ".json":
                    kept += read_entries(path)
                case ".md":
                    pass
                case _ if path.name.startswith(".") or path.name.endswith("~"):
                    pass
                case _:
                    faults.append(f"{path}: found a file of another kind; wanted .yaml, .jsonl, .json or .md")
        except ConfigError as error:
            faults.append(str(error))
    if faults:
        raise ConfigError("\n".join(faults))
    return Inputs(tuple(hand_written), tuple(kept), Notes(tuple(notes), tuple(changes)), tuple(headers))


def hand_written_of(text: str, file: str) -> tuple[list[Entry], Notes]:
    """Entries, notes and changes of status of one YAML file. Raises ConfigError."""
    try:
        document = yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{file}: not YAML: {error}") from error
    if document is None:
        return [], Notes()
    for written in _items(document, "entries") + _items(document, "status"):
        if "reopen" in written:
            written["reopen"] = reopen_documents(written["reopen"])
    problems = problems_of(document, "ledger_notes", file)
    entries = []
    for written in _items(document, "entries"):
        if not isinstance(written.get("id"), str):
            continue
        for key in sorted(SET_BY_PROGRAM & set(written)):
            value = str(written.pop(key))
            problems.append(Problem(file, written["id"], key, value, "no such key: the program sets it"))
        entry = {**written, "source": "hand-written"}
        found = problems_of(entry, "ledger_entry", file, written["id"])
        problems += found
        if not found:
            entries.append(Entry.from_document(entry, file))
    if problems:
        raise ConfigError("\n".join(map(str, problems)))
    return entries, Notes(
        tuple(
            Note(note["id"], Remark(note.get("date"), note["text"]), file)
            for note in document.get("notes", ())
        ),
        tuple(_change(change, file) for change in document.get("status", ())),
    )


def _items(document: object, section: str) -> list[dict[str, Any]]:
    items = document.get(section) if isinstance(document, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _change(change: Mapping[str, Any], file: str) -> StatusChange:
    reopen = tuple(Reopen(**each) for each in change.get("reopen", ()))
    return StatusChange(**{**change, "reopen": reopen}, origin=file)


def read_entries(path: Path) -> list[Entry]:
    """Entries of a JSON list or of JSONL as this program writes them. Raises ConfigError."""
    text = read_text(path)
    try:
        documents = (
            json.loads(text)
            if path.suffix == ".json"
            else [json.loads(line) for line in text.split("\n") if line]
        )
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}: not JSON ({error}); build it again") from error
    if not isinstance(documents, list):
        raise ConfigError(f"{path}: found no list of entries; build it again")
    problems = [problem for each in documents for problem in problems_of(each, "ledger_entry", str(path))]
    if problems:
        raise ConfigError("\n".join(map(str, problems)))
    return [Entry.from_document(document, str(path)) for document in documents]


def read_text(path: Path) -> str:
    """The file's text. Raises ConfigError when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read as UTF-8 text: {error}") from error


class _Loader(yaml.SafeLoader):
    """YAML whose dates stay texts and whose keys are unique."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own class attribute
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key.value, str):
                continue
            if key.value in keys:
                problem = f"key {key.value!r} stands twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            keys.add(key.value)
        return super().construct_mapping(node, deep)
