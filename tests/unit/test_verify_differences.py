"""Every difference between two logs is explained, or it blocks."""

import pytest
from facts_by_hand import BASE, MTP, changed, facts

from breakeven.engine.facts import Facts
from breakeven.verify.consequences import facts_set_by
from breakeven.verify.difference import Difference
from breakeven.verify.differences import launch_drift, log_differences


def meanings(arm: Facts, baseline: Facts = BASE, **options: tuple[str, ...]) -> dict[str, str]:
    return {d.name: d.meaning for d in log_differences(arm, baseline, **options)}


def message(arm: Facts, name: str) -> str:
    return next(d.message for d in log_differences(arm, BASE) if d.name == name)


def test_equal_logs_differ_in_nothing_but_facts_of_the_run() -> None:
    assert log_differences(changed(BASE, compile_s=99.0), BASE) == ()


def test_all_that_mtp_brings_about_is_a_consequence() -> None:
    assert set(meanings(MTP).values()) == {"consequence"}


def test_lost_kv_capacity_is_told_with_its_size_and_its_cause() -> None:
    assert message(MTP, "kv_tokens") == (
        "KV capacity -5.8 % with MTP (1,000,000 -> 942,000): the drafter's layers share the pool"
    )


def test_a_graph_mode_that_the_spec_flag_downgrades_is_told_with_its_cause() -> None:
    arm = changed(MTP, cudagraph_mode="PIECEWISE", graphs_full=None)
    told = message(arm, "cudagraph_mode")
    assert told.startswith("graph mode (cudagraph_mode) differs with MTP (FULL_AND_PIECEWISE -> PIECEWISE)")
    assert told.endswith(": the spec flag itself changes it")
    assert meanings(arm)["graphs_full"] == "consequence"


def test_prefix_caching_takes_the_cache_of_recurrent_states_along() -> None:
    base = changed(BASE, enable_prefix_caching=True, mamba_cache_mode="align")
    arm = changed(MTP, enable_prefix_caching=False, mamba_cache_mode=None)
    told = meanings(arm, base)
    assert (told["enable_prefix_caching"], told["mamba_cache_mode"]) == ("consequence", "consequence")


def test_an_explanation_that_points_the_other_way_is_not_given() -> None:
    told = message(changed(MTP, kv_tokens=1_050_000), "kv_tokens")
    assert told.startswith("KV capacity +5.0 % with MTP")
    assert "cause not known" in told


def test_without_a_drafter_the_drafter_is_not_blamed() -> None:
    arm = changed(MTP, spec_method="ngram", drafter_loaded=None)
    assert "drafter" not in message(arm, "kv_tokens")


def test_strict_turns_chosen_consequences_into_blocks() -> None:
    arm = changed(MTP, cudagraph_mode="PIECEWISE", graphs_full=20)
    blocked = {d.name for d in log_differences(arm, BASE, strict=("cudagraph_mode", "graphs*")) if d.blocks}
    assert blocked == {"cudagraph_mode", "graphs_full"}


@pytest.mark.parametrize(
    ("fact", "value"),
    [
        ("kernel", "TritonScaledMMLinearKernel"),
        ("attention_backend", "TRITON_ATTN"),
        ("dtype", "torch.float16"),
        ("model", "/models/other"),
        ("version", "0.32.0"),
        ("tp", 2),
        ("kernel", None),
    ],
)
def test_what_a_spec_flag_does_not_change_is_contamination(fact: str, value: object) -> None:
    assert meanings(changed(MTP, **{fact: value}))[fact] == "contamination"


def test_a_difference_that_nobody_can_explain_blocks() -> None:
    (found,) = [d for d in log_differences(changed(MTP, fuse_rope="on"), BASE) if d.name == "fuse_rope"]
    assert found.meaning == "unexplained"
    assert found.blocks


def test_a_value_that_the_experiment_demands_of_the_arm_is_declared() -> None:
    arm = changed(MTP, kernel="TritonScaledMMLinearKernel")
    assert meanings(arm, expected=("kernel",))["kernel"] == "declared"


def test_a_variable_declares_the_facts_that_it_sets_by_itself() -> None:
    arm = changed(BASE, kernel="TritonScaledMMLinearKernel", dtype="torch.float16")
    found = meanings(arm, declared=facts_set_by(["env:VLLM_ROCM_USE_AITER"]))
    assert found == {"kernel": "declared", "dtype": "contamination"}


def test_values_are_compared_and_not_their_spelling() -> None:
    assert log_differences(changed(BASE, kv_tokens="1000000", max_concurrency="30.50"), BASE) == ()


def test_the_architecture_of_the_drafter_comes_on_top() -> None:
    base = changed(BASE, architectures=["MiMoForCausalLM"])
    arm = changed(MTP, architectures=["MiMoForCausalLM", "MiMoMTPModel"])
    assert meanings(arm, base)["architectures"] == "consequence"
    other = changed(arm, architectures=["LlamaForCausalLM", "MiMoMTPModel"])
    assert meanings(other, base)["architectures"] == "contamination"


def test_a_difference_survives_json() -> None:
    for found in log_differences(MTP, BASE):
        assert Difference.from_json(found.to_json()) == found


def test_the_same_arm_again_drifts_in_nothing() -> None:
    again = changed(MTP, compile_s=2.0, compile_cache_hit=True)
    assert launch_drift(changed(MTP, compile_cache_hit=False), again) == ()


def test_a_launch_with_another_kernel_is_not_the_verified_arm() -> None:
    (drift,) = launch_drift(MTP, changed(MTP, kernel="TritonScaledMMLinearKernel"))
    assert drift.blocks
    assert "AiterInt8ScaledMMLinearKernel (line 5) in the verified launch" in drift.message


def test_a_consequence_between_arms_is_drift_between_launches_of_one_arm() -> None:
    drift = launch_drift(MTP, changed(MTP, cudagraph_mode="PIECEWISE", spec_initialized=False))
    assert {d.name for d in drift if d.blocks} == {"cudagraph_mode", "spec_initialized"}


def test_capacity_that_follows_free_memory_may_vary_by_a_percent() -> None:
    assert not any(d.blocks for d in launch_drift(MTP, changed(MTP, kv_tokens=940_000, max_concurrency=28.6)))
    assert [d.name for d in launch_drift(MTP, changed(MTP, kv_tokens=925_000)) if d.blocks] == ["kv_tokens"]


def test_a_launch_that_does_not_state_a_verified_fact_is_drift() -> None:
    assert [d.name for d in launch_drift(MTP, facts(**{n: MTP.get(n) for n in MTP if n != "kernel"}))] == [
        "kernel"
    ]


def test_what_the_requests_of_a_run_add_up_to_is_no_fact_of_the_arm() -> None:
    served = {"tg": 35.1, "prompt_n": 41, "acceptance": 0.86, "per_position": [0.86], "running": 1}
    assert log_differences(changed(BASE, **served), BASE) == ()
    assert launch_drift(BASE, changed(BASE, **served)) == ()


def test_pp_is_a_rate_of_requests_for_one_engine_and_a_parallel_size_for_the_other() -> None:
    assert log_differences(facts("llamacpp", pp=1023.0), facts("llamacpp", pp=2768.4)) == ()
    assert meanings(facts(pp=2), facts(pp=1)) == {"pp": "contamination"}
