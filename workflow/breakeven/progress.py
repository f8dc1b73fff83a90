"""How far a run is: launches done and, from their durations, how long it still takes."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from breakeven.files import read_json

LAUNCHES_VARIABLE = "BREAKEVEN_LAUNCHES"
"""For each experiment of a run its arms and rounds, as JSON; set by the workflow for the jobs it starts."""


def outlook(experiment: str, results: Path = Path("results")) -> str:
    """In words: `launch 7 of 24, about 95 s left`; less when it is not known."""
    brought_up = durations_s(sorted(results.glob(f"{experiment}/*/bring_up.json")))
    measured = durations_s(sorted(results.glob(f"{experiment}/*/*/launch.json")))
    done = len(brought_up) + len(measured)
    asked = json.loads(os.environ.get(LAUNCHES_VARIABLE, "{}")).get(experiment)
    if asked is None:
        return f"{done} launches done"
    arms, rounds = asked
    words = f"launch {min(done + 1, arms * (rounds + 1))} of {arms * (rounds + 1)}"
    left = seconds_left(brought_up, arms) + seconds_left(measured, arms * rounds)
    return f"{words}, about {left:.0f} s left" if measured else words


def seconds_left(durations: Sequence[float], planned: int) -> float:
    """What the launches still missing take at the mean of those done; 0 when none was done."""
    if not durations:
        return 0.0
    return sum(durations) / len(durations) * max(planned - len(durations), 0)


def last_ended_at(results: Path = Path("results")) -> float | None:
    """When a server last ended on this machine's device, seconds since 1970; None before the first."""
    records = [*results.glob("*/*/bring_up.json"), *results.glob("*/*/*/launch.json")]
    return max((read_json(path)["ended_at"] for path in records), default=None)


def durations_s(launches: Sequence[Path]) -> list[float]:
    """How long launches took, by their records; one that was refused took nothing and tells nothing."""
    records = [read_json(path) for path in launches]
    return [record["ended_at"] - record["started_at"] for record in records if record["status"] != "refused"]
