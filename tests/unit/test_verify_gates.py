"""Gates let the right arm through and stop the wrong one; silence is never a pass."""

from typing import Any

import pytest
from facts_by_hand import BASE, MTP, changed, facts

from breakeven.engine.facts import Fact, Facts, Finding
from breakeven.errors import ConfigError
from breakeven.verify.gates import Gate, evaluate, passed

ASKS_MTP = {
    "engine": "vllm",
    "runtime": "docker",
    "expect": {},
    "n_spec": 1,
    "method": "qwen3_5_mtp",
    "strict": [],
}
ASKS_NOTHING = ASKS_MTP | {"n_spec": 0, "method": None}
LLAMACPP = {"engine": "llamacpp", "runtime": "process"}
DRAFTED, DREW_NOTHING = (
    {"draft_tokens": 6, "accepted_tokens": 5},
    {"draft_tokens": None, "accepted_tokens": None},
)


def judge(
    log: Facts,
    wanted: dict[str, Any] = ASKS_MTP,
    baseline: Facts | None = BASE,
    slots: list[bool] | None = None,
    smoke: dict[str, Any] | None = None,
    declared: tuple[str, ...] = (),
) -> dict[str, Gate]:
    """The gates by name and fact; two names may not fall together."""
    evidence = (
        {} if slots is None else {"/slots": [{"id": i, "speculative": on} for i, on in enumerate(slots)]}
    )
    gates = evaluate(log, wanted, baseline, evidence, smoke, declared)
    return {f"{gate.name}: {gate.fact}": gate for gate in gates}


def blocking(*args: Any, **kwargs: Any) -> set[str]:
    return {name for name, gate in judge(*args, **kwargs).items() if gate.blocks}


def expecting(**expect: Any) -> dict[str, Any]:
    return ASKS_MTP | {"expect": expect}


def test_an_arm_that_does_what_it_was_asked_passes() -> None:
    assert passed(judge(MTP).values())
    assert passed(judge(BASE, ASKS_NOTHING, baseline=None).values())


def test_speculation_that_is_off_though_asked_blocks_and_names_the_line() -> None:
    gate = judge(changed(MTP, spec_active=False))["speculation active: spec_active"]
    assert gate.blocks
    assert 'line 13: "INFO the line of spec_active"' in gate.reason


def test_speculation_that_is_on_in_the_baseline_blocks() -> None:
    assert "speculation active: spec_active" in blocking(MTP, ASKS_NOTHING, baseline=None)


def test_one_slot_that_does_not_speculate_blocks_though_the_log_claims_it() -> None:
    assert blocking(MTP, slots=[True, False]) == {"speculation active: spec_active"}
    assert not blocking(MTP, slots=[True, True])


def test_slots_prove_what_a_quiet_log_does_not_say() -> None:
    assert not blocking(changed(MTP, spec_active=None), slots=[True])
    assert blocking(changed(MTP, spec_active=None)) == {"speculation active: spec_active"}


def test_the_error_in_the_log_explains_why_speculation_is_off() -> None:
    finding = Finding("spec_failed", "error", "the drafter has another vocabulary", (31,))
    log = Facts("llamacpp", {"spec_active": Fact("spec_active", False)}, (finding,))
    gates = judge(log, ASKS_MTP | LLAMACPP, baseline=facts("llamacpp"))
    assert "another vocabulary (line 31)" in gates["speculation active: spec_active"].reason
    assert gates["no error in the log: spec_failed"].blocks


def test_a_drafter_that_drafts_nothing_blocks() -> None:
    name = "first request drafted: draft_tokens"
    assert name in blocking(MTP, ASKS_MTP | LLAMACPP, smoke=DREW_NOTHING)
    assert name not in blocking(MTP, ASKS_MTP | LLAMACPP, smoke=DRAFTED)
    assert name in blocking(BASE, ASKS_NOTHING | LLAMACPP, baseline=None, smoke=DRAFTED)


def test_the_counters_of_vllm_tell_whether_the_first_request_drafted() -> None:
    name, none = "first request drafted: draft_tokens", {"draft_tokens": 0, "accepted_tokens": 0}
    assert judge(MTP, smoke=DRAFTED)[name].passed is True
    assert name in blocking(MTP, smoke=none)
    assert judge(MTP, smoke=DREW_NOTHING)[name].passed is None


@pytest.mark.parametrize("log", [changed(MTP, p_min=0.75), changed(MTP, n_min=2)])
def test_a_gated_drafter_may_skip_the_first_request(log: Facts) -> None:
    gate = judge(log, ASKS_MTP | LLAMACPP, smoke=DREW_NOTHING)["first request drafted: draft_tokens"]
    assert gate.passed is None


def test_n_gram_may_skip_the_first_request_and_needs_no_drafter() -> None:
    wanted = ASKS_MTP | LLAMACPP | {"method": "ngram-simple", "n_spec": None}
    log = changed(MTP, spec_method="ngram-simple", drafter_loaded=None)
    assert not blocking(log, wanted, smoke=DREW_NOTHING)


@pytest.mark.parametrize("found", [3, None])
def test_another_draft_length_blocks(found: int | None) -> None:
    assert blocking(changed(MTP, spec_n=found)) == {"draft length as asked: spec_n"}


@pytest.mark.parametrize(
    ("asked", "resolved"),
    [
        ("qwen3_5_mtp", "mtp"),
        ("draft-mtp", "mtp"),
        ("mtp", "draft-mtp"),
        ("draft-simple", "draft_model"),
        ("ngram", "[ngram]"),
        ("NEXTN", "mtp"),
        ("ngram-simple,draft-mtp", ["draft-mtp", "ngram-simple"]),
    ],
)
def test_a_method_is_known_under_every_spelling(asked: str, resolved: Any) -> None:
    gates = judge(changed(MTP, spec_method=resolved), ASKS_MTP | {"method": asked})
    assert gates["method as asked: spec_method"].passed


@pytest.mark.parametrize(
    ("asked", "resolved"), [("eagle3", "eagle"), ("mtp", "ngram"), ("draft-mtp", "draft-simple")]
)
def test_another_method_blocks(asked: str, resolved: str) -> None:
    assert "method as asked: spec_method" in blocking(
        changed(MTP, spec_method=resolved), ASKS_MTP | {"method": asked}
    )


@pytest.mark.parametrize("loaded", [False, None])
def test_a_drafter_that_is_not_loaded_blocks(loaded: bool | None) -> None:
    assert blocking(changed(MTP, drafter_loaded=loaded)) == {"drafter loaded: drafter_loaded"}


def test_a_silent_fallback_to_another_kernel_blocks() -> None:
    log = changed(MTP, kernel="TritonScaledMMLinearKernel")
    gate = judge(log)["equal to the baseline: kernel"]
    assert gate.blocks
    assert "TritonScaledMMLinearKernel" in gate.reason
    assert "AiterInt8ScaledMMLinearKernel" in gate.wanted


def test_a_fallback_of_one_layer_kind_blocks() -> None:
    base = changed(BASE, kernels={"int8": "Aiter", "fp8": "Aiter"})
    log = changed(MTP, kernels={"int8": "Aiter", "fp8": "Triton"})
    assert blocking(log, baseline=base) == {"equal to the baseline: kernels"}


def test_a_kernel_of_the_drafters_own_layers_is_no_fallback() -> None:
    base = changed(BASE, kernels={"int8": "Aiter"})
    assert not blocking(changed(MTP, kernels={"int8": "Aiter", "fp8": "Triton"}), baseline=base)


def test_a_kernel_that_only_the_baseline_states_is_unknown_and_blocks() -> None:
    gate = judge(changed(MTP, kernel=None))["equal to the baseline: kernel"]
    assert gate.blocks
    assert gate.reason.startswith("unknown: the log does not say kernel")


def test_what_neither_log_states_is_open_and_does_not_block() -> None:
    silent = {"attention_backend": None, "kernel": None}
    gate = judge(changed(MTP, **silent), baseline=changed(BASE, **silent))[
        "equal to the baseline: attention_backend"
    ]
    assert (gate.passed, gate.severity) == (None, "warn")
    assert "not stated by either log" in gate.reason


def test_a_declared_fact_need_not_equal_the_baselines() -> None:
    log = changed(MTP, kernel="TritonScaledMMLinearKernel")
    assert not blocking(log, declared=("*kernel*",))


def test_an_expectation_takes_the_place_of_the_default_gate() -> None:
    log = changed(MTP, kernel="TritonScaledMMLinearKernel")
    assert not blocking(log, expecting(kernel="TritonScaledMMLinearKernel"))


def test_uninitialised_weights_block() -> None:
    assert "no uninitialised weights: weights_uninitialized" in blocking(
        changed(MTP, weights_uninitialized=["mtp.fc.weight"])
    )


def test_layers_left_on_the_host_block_when_all_of_the_baselines_are_offloaded() -> None:
    name, base = "all layers offloaded: layers_offloaded", changed(BASE, layers_offloaded=[41, 41])
    assert blocking(changed(MTP, layers_offloaded=[40, 42]), baseline=base) == {name}
    assert blocking(MTP, baseline=base) == {name}
    assert not blocking(changed(MTP, layers_offloaded=[42, 42]), baseline=base)
    assert name not in judge(MTP)
    assert judge(MTP, ASKS_MTP | LLAMACPP)[name].passed is None


def test_a_capture_bar_that_is_cut_off_blocks() -> None:
    fact = Fact("graphs_full", None, source_line="Capturing: 40%", line_number=9, complete=False)
    assert blocking(Facts("vllm", {**MTP.facts, "graphs_full": fact})) == {
        "graph capture complete: graphs_full"
    }


@pytest.mark.parametrize(
    "expectation",
    [
        48,
        48.0,
        "48",
        {"equals": 48},
        {"one_of": [35, 48]},
        {"min": 40, "max": 48},
        {"regex": "^4"},
        {"same_as_baseline": True},
    ],
)
def test_every_form_of_expectation_passes_on_its_value(expectation: Any) -> None:
    assert not blocking(MTP, expecting(graphs_piecewise=expectation))


@pytest.mark.parametrize(
    "expectation", [47, "48 ", True, {"one_of": []}, {"min": 49}, {"max": 47.5}, {"regex": "^8"}]
)
def test_every_form_of_expectation_blocks_on_another_value(expectation: Any) -> None:
    log = changed(MTP, graphs_piecewise="48" if expectation == "48 " else 48)
    wanted = blocking(
        log, expecting(graphs_piecewise=expectation), baseline=changed(BASE, graphs_piecewise=48)
    )
    assert wanted == (set() if expectation == "48 " else {"expected: graphs_piecewise"})


def test_an_expectation_must_hold_for_every_part_of_a_value() -> None:
    log = changed(MTP, kernels=["AiterInt8ScaledMMLinearKernel", "TritonScaledMMLinearKernel"])
    assert blocking(log, expecting(kernels={"regex": "Aiter"})) == {"expected: kernels"}


@pytest.mark.parametrize("expectation", [48, {"same_as_baseline": True}, {"regex": "."}, {"min": 0}])
def test_an_expectation_on_a_fact_that_the_log_does_not_say_blocks(expectation: Any) -> None:
    name = "expected: graphs_decode"
    gates = judge(MTP, expecting(graphs_decode=expectation))
    assert gates[name].blocks
    assert "unknown" in gates[name].reason


def test_an_expectation_of_severity_warn_does_not_block() -> None:
    gate = judge(MTP, expecting(graphs_piecewise={"equals": 1, "severity": "warn"}))[
        "expected: graphs_piecewise"
    ]
    assert gate.passed is False
    assert not gate.blocks


def test_an_expression_that_is_none_is_an_error_of_the_experiment() -> None:
    with pytest.raises(ConfigError, match="regular expression"):
        judge(MTP, expecting(kernel={"regex": "("}))


def test_without_a_log_an_attached_server_is_unverified_and_a_started_one_refused() -> None:
    attached = ASKS_MTP | {"runtime": "attach", "expect": {"kernel": "Aiter"}}
    gates = judge(Facts(), attached, baseline=Facts())
    assert passed(gates.values())
    assert gates["expected: kernel"].passed is None
    assert gates["speculation active: spec_active"].passed is None
    assert not passed(judge(Facts(), ASKS_MTP, baseline=Facts()).values())


def test_an_attached_server_that_says_otherwise_is_refused() -> None:
    assert "draft length as asked: spec_n" in blocking(
        changed(MTP, spec_n=3), ASKS_MTP | {"runtime": "attach"}
    )


def test_the_kernel_of_the_verify_step_is_there_in_speculating_arms_only() -> None:
    assert not blocking(changed(MTP, gdn_spec_decode_kernel="Triton"))
