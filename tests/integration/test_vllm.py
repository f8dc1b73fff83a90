"""The whole chain on a real vLLM server, with a tiny generated checkpoint: docs/integration.md says how to run it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tiny_vllm_checkpoint import Recipe, write_checkpoint

from small_project import REPORT, Project, check_out

PROGRAM = shutil.which(os.environ.get("BREAKEVEN_VLLM") or "BREAKEVEN_VLLM-is-not-set")
HOUR_S = 3600
DEPTH, PP, TG = 256, 64, 64
SHARED_MEMORY = Path("/dev/shm")

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.timeout(HOUR_S),
    pytest.mark.skipif(PROGRAM is None, reason="BREAKEVEN_VLLM names no vllm program (docs/integration.md)"),
]


def drafting(method: str, n: int) -> dict[str, Any]:
    return {"args": {"speculative-config": {"method": method, "num_speculative_tokens": n}}}


def experiment(checkpoint: Path) -> dict[str, Any]:
    return {
        "engine": "vllm",
        "program": [PROGRAM, "serve"],
        "server": {
            "model": str(checkpoint),
            "args": {"max-model-len": 1024, "enforce-eager": True},
            "env": {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_SERVER_DEV_MODE": "1"},
        },
        "variable": "speculative-config",
        "arms": {
            "base": {},
            "mtp1": drafting("mtp", 1),
            "mtp2": drafting("mtp", 2),
            "typo": drafting("mpt", 1),
        },
        "workload": {"pp": PP, "tg": TG, "depths": [0, DEPTH], "reps": 2, "warmup": 1},
        "rounds": 1,
    }


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The experiment, run once up to its report."""
    folder = tmp_path_factory.mktemp("vllm")
    write_checkpoint(folder / "tiny-mimo", Recipe())
    check_out(folder / "project")
    project = Project(folder / "project")
    project.experiment(**experiment(folder / "tiny-mimo"))
    before = set(SHARED_MEMORY.glob("*"))
    run = subprocess.run(
        project.command(REPORT),
        cwd=project.folder,
        env=project.environment(),
        capture_output=True,
        text=True,
        timeout=HOUR_S,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    yield project
    assert not project.processes()
    assert set(SHARED_MEMORY.glob("*")) <= before


def table(project: Project, name: str) -> pd.DataFrame:
    """A table of every measured launch."""
    return pd.concat(
        pd.read_parquet(path) for path in project.folder.glob(f"results/small/*/1/{name}.parquet")
    )


def check(project: Project, name: str, arm: str) -> pd.DataFrame:
    checks = pd.read_parquet(project.folder / "results/small/look1/checks.parquet")
    return checks[(checks["check"] == name) & (checks["arm"] == arm)]


def measured(project: Project, arm: str, kind: str, depth: int) -> pd.DataFrame:
    rows = table(project, "requests")
    return rows[(rows["arm"] == arm) & (rows["kind"] == kind) & (rows["depth"] == depth)]


@pytest.mark.parametrize("arm", ["base", "mtp1", "mtp2"])
def test_the_arm_is_what_it_claims_to_be(project, arm):
    verified = project.json(f"results/small/{arm}/verify.json")
    assert verified["passed"], verified["reason"]
    assert verified["facts"]["facts"]["spec_n"] == {"base": None, "mtp1": 1, "mtp2": 2}[arm]
    assert project.json(f"results/small/{arm}/1/launch.json")["status"] == "measured"


def test_the_servers_count_of_tokens_is_the_ids_that_came(project):
    rows = table(project, "requests")
    assert rows["status"].eq("ok").all(), rows["error"].dropna().tolist()
    assert (rows["completion_tokens"] == rows["id_tokens"]).all()
    assert (rows["completion_tokens"] == rows["asked_tokens"]).all()


def test_the_engines_own_clock_tells_the_decode_time(project):
    rows = table(project, "requests").query("kind == 'tg'")
    assert (rows["server_decode_s"] > 0).all()


@pytest.mark.parametrize("arm", ["mtp1", "mtp2"])
def test_the_first_request_shows_that_the_arm_drafts(project, arm):
    assert project.json(f"results/small/{arm}/bring_up.json")["smoke"]["draft_tokens"] > 0


def test_only_speculating_arms_count_drafts(project):
    counters = table(project, "counters")
    moved = counters.assign(by=counters["after"] - counters["before"])
    drafts = moved[moved["counter"] == "drafts"].groupby("arm")["by"].sum()
    assert set(drafts.index) == {"mtp1", "mtp2"}
    assert (drafts > 0).all()


@pytest.mark.parametrize("arm", ["mtp1", "mtp2"])
def test_drafts_and_accepted_are_conserved(project, arm):
    assert check(project, "conservation", arm)["passed"].eq(True).all()
    assert check(project, "counters_equal_usage", arm)["passed"].eq(True).all()
    assert check(project, "drafts_add_up", arm)["passed"].eq(True).all()


@pytest.mark.parametrize("arm", ["mtp1", "mtp2"])
def test_an_event_carries_the_tokens_of_a_step(project, arm):
    """Fewer events than tokens under speculation; steps that were sent together make them fewer still."""
    decoded = measured(project, arm, "tg", 0)
    assert (decoded["token_events"] < decoded["completion_tokens"]).all()


def test_the_baseline_finds_the_depth_in_its_cache(project):
    assert measured(project, "base", "pp", DEPTH)["cached_tokens"].eq(DEPTH).all()


@pytest.mark.parametrize("arm", ["mtp1", "mtp2"])
def test_a_check_names_the_cache_block_that_speculation_gives_up(project, arm):
    cached = measured(project, arm, "pp", DEPTH)["cached_tokens"].unique().tolist()
    (block,) = {DEPTH - hit for hit in cached}
    assert block > 0
    [finding] = check(project, "computed_equal", arm).query(f"depth == {DEPTH}").to_dict("records")
    assert finding["passed"] is False
    assert f"one cache block of {block} tokens" in finding["reason"]


def test_an_unknown_method_is_refused_with_the_engines_own_words(project):
    verified = project.json("results/small/typo/verify.json")
    assert (verified["passed"], verified["status"]) == (False, "died")
    first = verified["reason"].splitlines()[0]
    assert "SpeculativeConfig method" in first and "input_value='mpt'" in first
    assert project.json("results/small/typo/1/launch.json")["status"] in ("died", "refused")
    assert "input_value='mpt'" in project.report()


def test_there_is_a_verdict_for_every_arm_and_depth(project):
    verdict = project.json("results/small/look1/verdict.json")
    judged = {
        (arm["arm"], cell["depth"])
        for cell in verdict["cells"]
        for arm in cell["arms"]
        if arm["arm"] != "base" and arm["verdict"]
    }
    assert {(arm, depth) for arm in ("mtp1", "mtp2") for depth in (0, DEPTH)} <= judged
