"""Outputs that differ on the real embedded server: the baseline tells how sure it was, and only then is it asked."""

import pytest

from breakeven import tables
from breakeven.analysis.lossless import TIE_MARGIN
from breakeven.demo import Recipe, write_model
from small_project import SMALL, Project, check_out

pytestmark = pytest.mark.slow

LOOK = "results/small/look1"
NOISE = {"near": 1.0125, "far": 0.25}
"""Other models than the baseline's, by the strength of the noise that picks between near-tied tokens."""
ARMS = {"base": {}} | {name: {"args": {"model": f"models/{name}.gguf"}} for name in NOISE}
DIFFERING = {
    "variable": "model",
    "arms": ARMS,
    "workload": SMALL["workload"] | {"tg": 48, "prompts": {"natural": {"count": 4}}},
}


@pytest.fixture
def project(tmp_path) -> Project:
    folder = tmp_path / "checkout"
    check_out(folder)
    return Project(folder)


def test_margins_are_asked_of_a_launch_of_the_baseline_and_judge_every_arm(project):
    for name, factor in NOISE.items():
        write_model(project.folder / "models" / f"{name}.gguf", Recipe(noise=factor * Recipe().noise))
    project.experiment(**DIFFERING)
    project.run(f"{LOOK}/checks.parquet")
    margins = tables.read(project.folder / LOOK / "margins.parquet", tables.MARGINS)
    assert margins["reason"].isna().all()
    largest = margins.groupby("arm")["margin"].max()
    assert 0 < largest["near"] < TIE_MARGIN < largest["far"]
    assert (project.folder / LOOK / "margins.log").read_text()
    checks = tables.read(project.folder / LOOK / "checks.parquet", tables.CHECKS)
    rows = checks[checks["check"] == "lossless"].set_index("arm")
    assert rows.loc["near", "passed"] and "near-ties" in rows.loc["near", "reason"]
    assert not rows.loc["far", "passed"] and "prefers its own token" in rows.loc["far", "reason"]

    project.experiment(**DIFFERING, margin=0.05)
    again = project.run(f"{LOOK}/verdict.json", "-n").stdout
    assert "rule acceptance" in again and "rule margins" not in again, "another tie margin starts a server"
