"""Forced acceptance on the real embedded server: counts as forced, a step cost, a ceiling, and nothing else said."""

import pandas as pd
import pytest

from breakeven import tables
from breakeven.config import experiment
from small_project import ROOT, Project, check_out, drafting

pytestmark = pytest.mark.slow

N = 3
VERDICT = "results/small/look1/verdict.json"


def forced(rate: int) -> dict[str, object]:
    """An arm whose every draft position is accepted with this probability: 0 or 1."""
    return {"args": drafting(N)["args"] | {"spec-synth-rates": ",".join([str(rate)] * N)}}


@pytest.fixture(scope="module")
def probed(tmp_path_factory) -> Project:
    folder = tmp_path_factory.mktemp("probe") / "checkout"
    check_out(folder)
    project = Project(folder)
    project.experiment(arms={"base": {}, "reject": forced(0), "accept": forced(1)})
    project.run(VERDICT)
    return project


@pytest.fixture(scope="module")
def arms(probed) -> dict[str, dict]:
    return {arm["arm"]: arm for cell in probed.json(VERDICT)["cells"] for arm in cell["arms"]}


def test_every_draft_is_thrown_away_or_kept_as_forced(arms):
    rejected, accepted = (arms[name]["acceptance"] for name in ("reject", "accept"))
    assert rejected["rate"]["value"] == 0
    assert rejected["length"]["value"] == 1
    assert accepted["rate"]["value"] == 1
    assert accepted["counts"]["accepted"] == accepted["counts"]["draft_tokens"] > 0


def test_the_step_has_a_cost_and_a_ceiling(arms):
    for name in ("reject", "accept"):
        cost, ceiling = arms[name]["cost"]["value"], arms[name]["ceiling"]["value"]
        assert cost > 0
        assert ceiling == pytest.approx((N + 1) / cost)


def test_no_verdict_and_no_finding_comes_from_a_forced_text(probed, arms):
    verdict = probed.json(VERDICT)
    assert {arm["arm"]: arm["role"] for arm in verdict["arms"]} == {
        "base": "baseline", "reject": "cost_only", "accept": "cost_only"
    }  # fmt: skip
    assert arms["reject"]["verdict"] is None and arms["accept"]["verdict"] is None
    assert verdict["wins_anywhere"] == [] and verdict["configurations"] == [] and verdict["findings"] == []


def test_tokens_of_a_cost_probe_are_checked_and_its_text_is_not(probed):
    found = tables.read(probed.folder / "results/small/look1/checks.parquet", tables.CHECKS)
    for arm in ("reject", "accept"):
        own = found[found["arm"] == arm].groupby("check")
        for check in ("usage_equals_ids", "conservation", "drafts_add_up", "draft_length", "lever_live"):
            assert own.get_group(check)["passed"].all(), own.get_group(check)["reason"].tolist()
        for check in ("lossless", "positions_alive", "not_looping"):
            row = own.get_group(check)
            assert row["passed"].isna().all() and row["reason"].str.contains("acceptance is forced").all()


def test_the_documented_example_forces_one_rate_per_draft_token():
    spec = experiment(ROOT / "config/experiments/cost_probe.yaml")
    probes = {name: arm for name, arm in spec["arms"].items() if arm["cost_only"]}
    assert pd.Series({name: arm["n_spec"] for name, arm in probes.items()}).value_counts().to_dict() == {
        1: 2, 3: 2, 7: 2
    }  # fmt: skip
    for arm in probes.values():
        assert len(arm["server"]["args"]["spec-synth-rates"].split(",")) == arm["n_spec"]
