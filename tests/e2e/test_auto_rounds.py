"""`rounds: auto` adds rounds until decided, through the workflow, against a server whose truth is known."""

import sys
from pathlib import Path

import pytest

from small_project import SMALL, Project

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[1]


def with_truth(project: Project, **truth: object) -> None:
    """Two arms on the reference server; `truth` are its flags, in both arms alike."""
    flags = {"launch-noise-sd": 0.002, "launch-count": "launches", "even-draws": True, "t0-s": 0.003} | truth
    project.experiment(
        engine="vllm",
        program=[sys.executable, "-m", "reference_server", "--dialect", "vllm"],
        variable="speculative-config",
        server={"args": flags, "env": {"PYTHONPATH": str(TESTS)}},
        arms={
            "base": {},
            "mtp2": {"args": {"speculative-config": {"method": "mtp", "num_speculative_tokens": 2}}},
        },
        workload=SMALL["workload"] | {"pp": 32, "tg": 120},
        rounds="auto",
        expect={},
    )


def rounds_of(project: Project, arm: str) -> list[int]:
    return sorted(int(path.parent.name) for path in project.folder.glob(f"results/small/{arm}/*/launch.json"))


def looks_of(project: Project) -> list[str]:
    return sorted(path.parent.name for path in project.folder.glob("results/small/look*/verdict.json"))


def test_what_three_rounds_cannot_tell_gets_more_and_nothing_is_measured_twice(fresh):
    with_truth(fresh, a=1.0, b=0.5, acceptance="0.6667,0.5")  # L = 2 = C: no difference at all
    fresh.run("reports/small.md")
    assert not fresh.json("results/small/look3/verdict.json")["decided"]
    assert "look5" in looks_of(fresh)
    last = int(looks_of(fresh)[-1].removeprefix("look"))
    assert rounds_of(fresh, "base") == list(range(1, last + 1))
    started = [
        fresh.json(f"results/small/base/{number}/launch.json")["started_at"] for number in range(1, last + 1)
    ]
    assert started == sorted(started)
    first_look = (fresh.folder / "results/small/look3/verdict.json").stat().st_mtime
    assert started[2] < first_look < started[3]
