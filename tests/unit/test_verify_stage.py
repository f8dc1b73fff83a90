"""Real servers, verified: the right arms pass, the wrong ones are refused with the reason in words."""

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from breakeven.demo import Recipe, write_model
from breakeven.engine.reader import read_facts
from breakeven.engine.registry import ENGINES, speculation_asked
from breakeven.verify.differences import launch_drift
from breakeven.verify.identity import describe
from breakeven.verify.stage import verify
from breakeven.verify.structure import from_verified

pytestmark = pytest.mark.slow

COMMON = {
    "ctx-size": 1024,
    "parallel": 1,
    "threads": 1,
    "threads-batch": 1,
    "cache-ram": 0,
    "no-warmup": True,
}
MTP_1 = {"spec-type": "draft-mtp", "spec-draft-n-max": 1}
ARMS: dict[str, dict[str, Any]] = {
    "base": {},
    "base_again": {},
    "mtp1": MTP_1,
    "mtp3": {"spec-type": "draft-mtp", "spec-draft-n-max": 3},
    "gated": {**MTP_1, "spec-draft-p-min": 0.99},
    "ngram": {"spec-type": "ngram-simple"},
    "no_drafter": {"spec-type": "draft-simple", "spec-draft-n-max": 3},
    "other_context": {**MTP_1, "ctx-size": 512},
    "no_mtp_block": {**MTP_1, "model": "without"},
}


class Launches:
    """Every arm launched once; its log, bring_up record and expect key."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.args: dict[str, dict[str, Any]] = {}
        self.records = {arm: self._bring_up(arm) for arm in ARMS}

    def log(self, arm: str) -> Path:
        return self.folder / f"{arm}.log"

    def early_log(self, arm: str) -> Path:
        return self.folder / f"{arm}.early.log"

    def verified(self, arm: str, repeat_of: str | None = None, **wanted: Any) -> dict[str, Any]:
        asked = speculation_asked("llamacpp", self.args[arm])
        key = {
            "engine": "llamacpp",
            "runtime": "process",
            "expect": {},
            "n_spec": asked.n if asked else 0,
            "method": asked.method if asked else None,
            "strict": [],
        }
        verdict = verify(
            self.records[arm],
            self.log(arm),
            self.records["base"],
            self.log("base"),
            key | wanted,
            ["spec-*"],
            repeat_of,
        )
        stored: dict[str, Any] = json.loads(json.dumps(verdict))
        return stored

    def _bring_up(self, arm: str) -> dict[str, Any]:
        name = ARMS[arm].get("model", "model")
        self.args[arm] = args = COMMON | ARMS[arm] | {"model": str(self.folder / f"{name}.gguf")}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        argv = [
            "-m",
            "breakeven.engine.embedded",
            *ENGINES["llamacpp"].argv(args, host="127.0.0.1", port=port),
        ]
        with self.log(arm).open("wb") as log:
            process = subprocess.Popen([sys.executable, *argv], stdout=log, stderr=log)
        serve = {"engine": "llamacpp", "runtime": "process", "program": "embedded", "server": {"args": args}}
        identity = {"program": sys.executable, "digest": "sha256:aa", "argv": argv, "env": {}, "mounts": []}
        try:
            answers = self._ask(process, f"http://127.0.0.1:{port}")
            self.early_log(arm).write_bytes(self.log(arm).read_bytes())
        finally:
            process.terminate()
            code = process.wait(20)
        if answers is None:
            return {"status": "died", "reason": f"the server exited with code {code}"}
        return {"status": "ready", "reason": None, "described": describe(serve, identity), **answers}

    def _ask(self, process: subprocess.Popen[bytes], url: str) -> dict[str, Any] | None:
        """Answers of a ready server; None when it ended before."""
        deadline = time.monotonic() + 60
        with httpx.Client(base_url=url, timeout=20) as http:
            while time.monotonic() < deadline and process.poll() is None:
                try:
                    if http.get("/health").status_code == 200:
                        request = {
                            "prompt": "The server answers.",
                            "n_predict": 8,
                            "temperature": 0,
                            "ignore_eos": True,
                        }
                        timings = http.post("/completion", json=request).json()["timings"]
                        return {
                            "evidence": {"/slots": http.get("/slots").json()},
                            "smoke": {"draft_tokens": timings.get("draft_n")},
                        }
                except httpx.TransportError:
                    time.sleep(0.05)
        return None


@pytest.fixture(scope="module")
def launches(tmp_path_factory: pytest.TempPathFactory) -> Launches:
    folder = tmp_path_factory.mktemp("arms")
    write_model(folder / "model.gguf", Recipe())
    write_model(folder / "without.gguf", Recipe(mtp=False))
    return Launches(folder)


@pytest.mark.parametrize("arm", ["base", "mtp1", "mtp3", "gated", "ngram"])
def test_an_arm_that_is_what_it_claims_to_be_passes(launches: Launches, arm: str) -> None:
    verdict = launches.verified(arm)
    assert (verdict["passed"], verdict["status"], verdict["reason"]) == (True, "verified", None)


@pytest.mark.parametrize("arm", ["mtp1", "mtp3"])
def test_a_drafting_arm_differs_by_its_flags_and_their_consequences_only(
    launches: Launches, arm: str
) -> None:
    found = launches.verified(arm)["differences"]
    assert {d["name"] for d in found if d["meaning"] == "declared"} == {"spec-type", "spec-draft-n-max"}
    assert {d["meaning"] for d in found} == {"declared", "consequence"}
    assert "recurrent_mib" in {d["name"] for d in found}
    assert launches.verified(arm)["lever_live"]


def test_the_twin_of_the_baseline_differs_in_nothing(launches: Launches) -> None:
    verdict = launches.verified("base_again", repeat_of="base")
    assert verdict["passed"]
    assert (verdict["differences"], verdict["lever_live"]) == ([], None)


def test_an_arm_that_equals_the_baseline_is_refused_unless_it_is_its_twin(launches: Launches) -> None:
    verdict = launches.verified("base_again")
    assert verdict["status"] == "refused"
    assert "differs from the baseline in nothing" in verdict["reason"]


def test_speculation_without_a_drafter_is_refused_with_the_engines_own_words(launches: Launches) -> None:
    verdict = launches.verified("no_drafter")
    assert verdict["status"] == "refused"
    assert "/slots says inactive" in verdict["reason"]
    assert "requires a draft context" in verdict["reason"]


def test_a_second_variable_is_refused_and_named(launches: Launches) -> None:
    verdict = launches.verified("other_context")
    assert verdict["reason"].startswith("flag ctx-size: 512 here, 1024 in the baseline")


def test_a_server_that_died_keeps_its_reason_and_its_facts(launches: Launches) -> None:
    verdict = launches.verified("no_mtp_block")
    assert (verdict["passed"], verdict["status"], verdict["lever_live"]) == (False, "died", None)
    assert "exited with code" in verdict["reason"]
    assert verdict["facts"]["facts"]["arch"] == "qwen35"


def test_strict_refuses_a_consequence(launches: Launches) -> None:
    verdict = launches.verified("mtp1", strict=["graph_nodes"])
    assert verdict["status"] == "refused"
    assert verdict["reason"].startswith("graph")


def test_a_corrected_expectation_changes_the_verdict(launches: Launches) -> None:
    wrong = launches.verified("mtp1", expect={"kv_type_k": "q8_0"})
    assert wrong["reason"].startswith("kv_type_k: found f16, wanted q8_0 (line ")
    assert launches.verified("mtp1", expect={"kv_type_k": {"one_of": ["f16", "bf16"]}})["passed"]


def test_an_expectation_that_is_not_met_declares_nothing(launches: Launches) -> None:
    warned = {"n_ctx": {"equals": 1024, "severity": "warn"}}
    verdict = launches.verified("other_context", expect=warned)
    assert {"n_ctx"} <= {d["name"] for d in verdict["differences"] if d["blocks"]}


@pytest.mark.parametrize("arm", ["base", "mtp1", "mtp3", "gated", "ngram"])
def test_a_launch_shows_its_verified_facts_before_the_first_measured_request(
    launches: Launches, arm: str
) -> None:
    whole, early = (read_facts(log, "llamacpp") for log in (launches.log(arm), launches.early_log(arm)))
    assert launch_drift(whole, early) == ()


def test_a_launch_of_another_arm_is_drift(launches: Launches) -> None:
    mtp1, mtp3 = (read_facts(launches.early_log(arm), "llamacpp") for arm in ("mtp1", "mtp3"))
    assert "spec_n" in {d.name for d in launch_drift(mtp1, mtp3) if d.blocks}


def test_the_structure_of_real_arms_needs_no_measurement(launches: Launches) -> None:
    arms = ("base", "mtp1", "mtp3")
    table = from_verified({arm: launches.verified(arm) for arm in arms}, launches.records, "base")
    rows = {row.name: [cell.text for cell in row.cells] for row in table.rows}
    assert rows["--spec-draft-n-max"] == ["not stated", "1", "3"]
    assert not any(row.blocks or row.meaning == () for row in table.rows)
