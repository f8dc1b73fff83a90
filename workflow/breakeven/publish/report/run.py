"""Everything that a report is made of, read from the results folder of one experiment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from breakeven import tables
from breakeven.analysis.cells import CELLS, PROMPTS
from breakeven.files import read_json

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Arm:
    """What stands on record about one arm: its discarded launch, its verification, its launches by round."""

    name: str
    bring_up: Document = field(default_factory=dict)
    verify: Document = field(default_factory=dict)
    launches: Mapping[int, Document] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """One experiment at one look."""

    name: str
    experiment: Document
    verdict: Document
    arms: Mapping[str, Arm]
    cells: pd.DataFrame
    prompts: pd.DataFrame
    checks: pd.DataFrame
    folder: Path

    @property
    def alpha(self) -> float:
        """Level at which this look was taken."""
        return float(self.verdict["look"]["alpha"])

    @property
    def baseline(self) -> str:
        """Name of the arm that all others are compared with."""
        return str(self.verdict["baseline"])

    @property
    def candidates(self) -> list[str]:
        """Arms that get a verdict, in the experiment's order."""
        return [arm["arm"] for arm in self.verdict["arms"] if arm["role"] == "candidate"]

    @cached_property
    def telemetry(self) -> pd.DataFrame:
        """Readings beside all launches; empty where there are none."""
        found = [
            tables.read(path, tables.TELEMETRY)
            for arm, own in self.arms.items()
            for number in own.launches
            if (path := self.folder / arm / str(number) / "telemetry.parquet").exists()
        ]
        found = [frame for frame in found if not frame.empty]
        return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=tables.TELEMETRY.names)


def place(cell: Document) -> str:
    """A cell in words."""
    return f"depth {cell['depth']}, {cell['prompt_class']}"


def read_run(verdict: Path) -> Run:
    """The run that a verdict belongs to: results/<experiment>/look<R>/verdict.json.

    Raises BreakevenError naming the file that is missing or is not what it should be.
    """
    look = verdict.parent
    folder = look.parent
    judged, experiment = read_json(verdict), read_json(folder / "experiment.json")
    rounds = int(judged["look"]["rounds"])
    return Run(
        name=str(judged["experiment"]),
        experiment=experiment,
        verdict=judged,
        arms={name: _arm(folder / name, rounds) for name in experiment["arms"]},
        cells=tables.read(look / "cells.parquet", CELLS),
        prompts=tables.read(look / "prompts.parquet", PROMPTS),
        checks=tables.read(look / "checks.parquet", tables.CHECKS),
        folder=folder,
    )


def _arm(home: Path, rounds: int) -> Arm:
    launches = {
        number: read_json(path)
        for number in range(1, rounds + 1)
        if (path := home / str(number) / "launch.json").exists()
    }
    return Arm(home.name, _optional(home / "bring_up.json"), _optional(home / "verify.json"), launches)


def _optional(path: Path) -> Document:
    return read_json(path) if path.exists() else {}
