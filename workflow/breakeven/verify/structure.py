"""The structure table: one row a fact, one column an arm, what differs marked and explained where it is known."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from breakeven.engine.facts import Facts
from breakeven.verify.consequences import consequence_of
from breakeven.verify.difference import BLOCKING, Difference
from breakeven.verify.differences import relative
from breakeven.verify.expectation import same, shown
from breakeven.verify.flags import parse
from breakeven.verify.one_variable import RUN_FLAGS
from breakeven.verify.run_facts import names_the_arm

NOT_STATED = shown(None)
LONGEST = 60
"""Characters of a value that a table cell can hold; the whole value stands in verify.json."""


@dataclass(frozen=True)
class Cell:
    """One arm's value as text. `change` is its relative difference from the baseline's, where both are numbers."""

    text: str
    differs: bool
    change: float | None = None


@dataclass(frozen=True)
class Row:
    """One fact or part of an arm; `meaning` and `why` say what its differences are, each distinct one once."""

    name: str
    cells: tuple[Cell, ...]
    meaning: tuple[str, ...] = ()
    why: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether any arm differs from the baseline."""
        return any(cell.differs for cell in self.cells)

    @property
    def added(self) -> bool:
        """Whether the baseline does not state it, the arms that do agree, and it is a consequence."""
        stated = {cell.text for cell in self.cells if cell.text != NOT_STATED}
        return self.cells[0].text == NOT_STATED and len(stated) == 1 and self.meaning == ("consequence",)

    @property
    def blocks(self) -> bool:
        """Whether a difference of this row makes an arm invalid."""
        return not BLOCKING.isdisjoint(self.meaning)


@dataclass(frozen=True)
class Structure:
    """The table: arms with the baseline first, rows that differ (blocking ones first), rows that do not.

    `added` are consequences that the baseline does not state and all arms that do state alike: a drafter's own facts.
    """

    arms: tuple[str, ...]
    baseline: str
    rows: tuple[Row, ...]
    added: tuple[Row, ...]
    same: tuple[Row, ...]


def table(
    arms: Mapping[str, Facts],
    identities: Mapping[str, Mapping[str, Any]],
    baseline: str,
    differences: Mapping[str, Sequence[Difference]],
) -> Structure:
    """Lay facts and identities of all arms beside each other.

    `identities` are the descriptions of `breakeven.verify.identity`, `differences` what verify found per arm; a
    difference without an entry there is shown, and not explained.
    """
    order = (baseline, *(arm for arm in arms if arm != baseline))
    values = {arm: _values(arms[arm], identities.get(arm) or {}) for arm in order}
    explained: dict[str, list[Difference]] = {}
    for arm in order:
        for difference in differences.get(arm, ()):
            explained.setdefault(_row_name(difference), []).append(difference)
    names = dict.fromkeys(name for arm in order for name in values[arm])
    rows = [_row(name, [values[arm].get(name) for arm in order], explained.get(name, ())) for name in names]
    return Structure(
        arms=order,
        baseline=baseline,
        rows=tuple(sorted((r for r in rows if r.differs and not r.added), key=lambda row: not row.blocks)),
        added=tuple(row for row in rows if row.added),
        same=tuple(row for row in rows if not row.differs and row.cells[0].text != NOT_STATED),
    )


def from_verified(
    verified: Mapping[str, Mapping[str, Any]], brought_up: Mapping[str, Mapping[str, Any]], baseline: str
) -> Structure:
    """The table from each arm's verify.json and bring_up.json: needs no measured launch."""
    return table(
        {arm: Facts.from_json(document["facts"]) for arm, document in verified.items()},
        {arm: document.get("described") or {} for arm, document in brought_up.items()},
        baseline,
        {
            arm: [Difference.from_json(difference) for difference in document["differences"]]
            for arm, document in verified.items()
        },
    )


def _row_name(difference: Difference) -> str:
    """Where a difference stands in the table: a flag and a fact may have one name."""
    prefix = {"flag": "--", "model": "model file of --"}.get(difference.about, "")
    return f"{prefix}{difference.name}"


def _values(facts: Facts, described: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that a column shows, by row name: the command line first, then the log."""
    return dict(_started(described)) | {
        fact.name: fact.value for fact in facts.facts.values() if names_the_arm(fact.name, facts.engine)
    }


def _started(described: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Flags, env:NAME, mount:TARGET, option:KEY, model files, image or binary."""
    flags = parse(described.get("engine") or "", described.get("argv") or [])
    yield from ((f"--{name}", value) for name, value in flags.items() if name not in RUN_FLAGS)
    yield from ((f"env:{name}", value) for name, value in (described.get("env") or {}).items())
    yield from ((f"env:{name}", "handed on") for name in described.get("env_from") or ())
    for name, files in (described.get("models") or {}).items():
        yield f"model file of --{name}", _files(files)
    for mount in described.get("mounts") or ():
        yield f"mount:{mount['target']}", mount.get("content") or mount["source"]
    yield from ((f"option:{name}", value) for name, value in (described.get("options") or {}).items())
    if digest := described.get("digest") or described.get("program"):
        yield "image" if described.get("runtime") == "docker" else "binary", digest


def _files(files: Mapping[str, Mapping[str, Any]] | None) -> str | None:
    """`name (bytes, start of the hash)` of every file; None when they could not be read."""
    if files is None:
        return None
    hashes = {name: str(file.get("sha256") or file.get("sha256_of_ends")) for name, file in files.items()}
    return ", ".join(f"{name} ({file['bytes']:,} bytes, {hashes[name][:8]})" for name, file in files.items())


def _row(name: str, values: Sequence[Any], differences: Iterable[Difference]) -> Row:
    baseline = values[0]
    known = consequence_of(name)
    label = name if known is None or known.what.replace(" ", "_") == name else f"{known.what} ({name})"
    return Row(
        name=label,
        cells=tuple(_cell(value, baseline) for value in values),
        meaning=tuple(dict.fromkeys(difference.meaning for difference in differences)),
        why=tuple(dict.fromkeys(difference.why for difference in differences if difference.why)),
    )


def _cell(value: Any, baseline: Any) -> Cell:
    whole = isinstance(value, int) and not isinstance(value, bool)
    text = f"{value:,}" if whole else shown(value)
    if len(text) > LONGEST:
        text = f"{text[: LONGEST - 1]}…"
    differs = not same(value, baseline)
    return Cell(text, differs, relative(value, baseline) if differs else None)
