"""Answers of the real embedded server that would end before the length that is asked for: seen, and said."""

import numpy as np
import pytest

from breakeven import demo, tables
from breakeven.demo import END_OF_TEXT, PRINTABLE, Recipe, write_model
from small_project import SMALL, Project, check_out

pytestmark = pytest.mark.slow

CHECKS = "results/small/look1/checks.parquet"
ENDING = PRINTABLE[::6]
"""Bytes behind which this model ends its text."""
GROWN = 2.0


@pytest.fixture
def project(tmp_path, monkeypatch) -> Project:
    folder = tmp_path / "checkout"
    check_out(folder)
    plain = demo.tensors

    def ending(recipe: Recipe) -> dict[str, np.ndarray]:
        weights = plain(recipe)
        ends = weights["token_embd.weight"][ENDING].sum(0)
        weights["output.weight"][END_OF_TEXT] = GROWN * ends / np.sqrt(recipe.hidden)
        return weights

    monkeypatch.setattr(demo, "tensors", ending)
    write_model(folder / "models/ending.gguf", Recipe())
    return Project(folder)


def test_a_text_that_ends_early_is_past_its_natural_end(project):
    project.experiment(
        server=SMALL["server"] | {"model": "models/ending.gguf"},
        arms={"base": {}},
        workload=SMALL["workload"] | {"prompts": {"natural": {"count": 3}}},
    )
    project.run(CHECKS)
    asked = SMALL["workload"]["tg"]
    found = project.json("results/small/base/bring_up.json")["natural_tokens"]["natural"]
    assert len(found) == 3 and any(own is not None and own < asked for own in found)
    checks = tables.read(project.folder / CHECKS, tables.CHECKS)
    past = sum(1 - own / asked for own in found if own is not None) / len(found)
    for row in checks[checks["check"] == "not_past_the_end"].itertuples():
        assert row.passed is False and row.value == pytest.approx(past)
        assert f"{past:.0%}" in row.reason
    requests = tables.read(project.folder / "results/small/base/1/requests.parquet", tables.REQUESTS)
    measured = requests[requests["kind"] == "tg"]
    assert (measured["completion_tokens"] == asked).all() and (measured["status"] == "ok").all()
