"""How far a run is: launches done and, from their durations, how long it still takes."""

import json
import os
from pathlib import Path

LAUNCHES_VARIABLE = "BREAKEVEN_LAUNCHES"
"""Launches that the run may need by experiment, as JSON; set by the workflow for the jobs it starts."""


def outlook(experiment: str, results: Path = Path("results")) -> str:
    """In words: `launch 7 of 24, about 95 s left`; less when it is not known."""
    done = [*results.glob(f"{experiment}/*/bring_up.json"), *results.glob(f"{experiment}/*/*/launch.json")]
    durations = [end - start for start, end in map(_times, done)]
    total = json.loads(os.environ.get(LAUNCHES_VARIABLE, "{}")).get(experiment)
    if total is None:
        return f"{len(done)} launches done"
    words = f"launch {len(done) + 1} of {max(total, len(done) + 1)}"
    if durations:
        left = sum(durations) / len(durations) * (total - len(done))
        words += f", about {max(left, 0):.0f} s left"
    return words


def _times(launch: Path) -> tuple[float, float]:
    record = json.loads(launch.read_text())
    return record["started_at"], record["ended_at"]
