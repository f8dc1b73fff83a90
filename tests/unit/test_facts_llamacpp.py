"""Logs of the embedded server (b11549), recorded at verbosity 4: what each arm is, and which went wrong."""

import json
from pathlib import Path

import pytest

from breakeven.engine.facts import Facts
from breakeven.engine.fatal import diagnose
from breakeven.engine.reader import read_facts

LOGS = Path(__file__).parent / "fixtures" / "logs"


def recorded(name: str) -> Facts:
    return read_facts(LOGS / f"llamacpp-b11549-{name}.log")


@pytest.mark.parametrize("path", sorted(LOGS.glob("llamacpp-*.log")), ids=lambda path: path.stem)
def test_the_engine_is_recognised(path: Path) -> None:
    assert read_facts(path).engine == "llamacpp"


def test_the_baseline_says_what_it_runs_on() -> None:
    facts = recorded("baseline")
    wanted = {
        "model": "/models/tiny-mtp.gguf",
        "arch": "qwen35",
        "n_ctx": 4096,
        "n_ctx_train": 8192,
        "kv_mib": 2.0,
        "kv_type_k": "f16",
        "kv_type_v": "f16",
        "flash_attn": "auto",
        "flash_attn_enabled": True,
        "threads": 1,
        "verbosity": 4,
        "graph_splits": 1,
        "ready": True,
    }
    assert {name: facts.get(name) for name in wanted} == wanted
    assert "AVX2" in facts.get("cpu_features")


def test_a_build_without_a_number_is_unknown_and_not_zero() -> None:
    facts = recorded("baseline")
    assert "build" in facts and facts.get("build") is None and facts.get("version") is None


def test_every_start_up_fact_names_its_line() -> None:
    lines = (LOGS / "llamacpp-b11549-mtp3.log").read_text().split("\n")
    facts = recorded("mtp3")
    for name in ("model", "n_ctx", "kv_mib", "recurrent_mib", "threads", "spec_types", "n_max"):
        fact = facts.facts[name]
        assert fact.source_line in lines[fact.line_number - 1], name


@pytest.mark.parametrize(("name", "n"), [("mtp1", 1), ("mtp3", 3)])
def test_mtp_is_active_with_the_length_asked_for(name: str, n: int) -> None:
    facts = recorded(name)
    wanted = {
        "spec_asked": True,
        "spec_method": "draft-mtp",
        "spec_types": ["draft-mtp"],
        "spec_n": n,
        "n_min": 0,
        "p_min": 0.0,
        "drafter_loaded": True,
        "spec_initialized": True,
        "spec_active": True,
        "draft_kv_mib": 2.0,
        "n_rs_seq": n,
    }
    assert {fact: facts.get(fact) for fact in wanted} == wanted
    assert facts.findings == ()


def test_the_drafters_context_is_not_the_targets() -> None:
    facts = recorded("draft3")
    assert (facts.get("model"), facts.get("draft_model")) == (
        "/models/tiny-target.gguf",
        "/models/tiny-draft.gguf",
    )
    assert (facts.get("graph_nodes"), facts.get("draft_graph_nodes")) == (195, 40)
    assert facts.get("kv_mib") == 24.0 and facts.get("draft_kv_mib") == 2.0


def test_requests_add_up_to_the_cumulative_statistics() -> None:
    facts = recorded("mtp3")
    last = facts.statistics["implementations"]["last"]["draft-mtp"]
    assert (facts.get("drafted"), facts.get("accepted")) == (last["gen_tokens"], last["acc_tokens"])
    requests = facts.statistics["requests"]["first"]
    assert sum(request["accepted"] for request in requests) == last["acc_tokens"]
    difference = facts.statistics["implementations"]["delta"]["draft-mtp"]
    assert difference["gen_tokens"] == requests[1]["drafted"], "the second line adds the second request"


def test_log_and_metrics_agree() -> None:
    page = read_facts(LOGS / "llamacpp-b11549-mtp3.metrics.txt", "llamacpp")
    log = recorded("mtp3")
    assert [page.get(name) for name in ("drafted", "accepted")] == [
        log.get(name) for name in ("drafted", "accepted")
    ]
    assert page.get("num_drafts") == log.statistics["implementations"]["last"]["draft-mtp"]["gen_drafts"]


def test_the_baseline_has_no_drafts_which_is_not_zero() -> None:
    facts = recorded("baseline")
    assert facts.facts["drafted"].value is None and facts.facts["accepted"].value is None
    assert facts.get("spec_active") is False and facts.get("drafter_loaded") is False
    assert facts.get("spec_asked") is False


@pytest.mark.parametrize("name", ["vocab", "nodrafter"])
def test_a_server_that_goes_on_without_speculation_is_found(name: str) -> None:
    facts = recorded(name)
    assert facts.get("spec_asked") is True
    assert facts.get("spec_initialized") is False and facts.get("spec_active") is False
    assert facts.of_kind("spec_failed")
    assert "error" not in facts, "it serves, so it is not dead"


def test_a_drafter_without_a_type_never_drafts() -> None:
    facts = recorded("draft-no-type")
    assert facts.get("drafter_loaded") is True and facts.get("spec_active") is False
    assert [finding.severity for finding in facts.of_kind("drafter_loaded_spec_off")] == ["error"]


def test_mtp_on_a_model_without_it_ends_the_server() -> None:
    facts = recorded("mtp-on-nomtp")
    assert facts.get("error") == "failed to create MTP context" and facts.get("spec_active") is False
    text = (LOGS / "llamacpp-b11549-mtp-on-nomtp.log").read_text()
    told = diagnose(text, alive=False, silent_s=1.0, engine="llamacpp")
    assert told.startswith("crashed: failed to create MTP context") and "exiting due to model loading" in told


def test_n_gram_drafting_needs_no_drafter() -> None:
    facts = recorded("ngram")
    assert facts.get("spec_method") == "ngram-simple" and facts.get("drafter_loaded") is False
    assert facts.get("spec_initialized") is True


def test_json_lines_say_the_same_as_text() -> None:
    text = (LOGS / "llamacpp-b11549-mtp3.log").read_text()
    records = (
        json.dumps({"type": "log", "level": "info", "msg": line[15:] + "\n"}) for line in text.split("\n")
    )
    plain, wrapped = recorded("mtp3"), read_facts("\n".join(records).encode())
    for name in (
        "model",
        "n_ctx",
        "kv_mib",
        "spec_method",
        "spec_n",
        "spec_active",
        "drafted",
        "accepted",
        "threads",
    ):
        assert wrapped.get(name) == plain.get(name), name


@pytest.mark.parametrize(("line", "found"), [("offloaded 40/65", True), ("offloaded 65/65", False)])
def test_layers_left_on_the_host_are_a_finding(line: str, found: bool) -> None:
    facts = read_facts(f"load_tensors: {line} layers to GPU\n".encode())
    assert bool(facts.of_kind("partial_offload")) is found
