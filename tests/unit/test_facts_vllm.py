"""What vLLM's lines mean together: bars, ranks, statistics, and whether speculation is really on."""

import pytest

from breakeven.engine.facts import Facts
from breakeven.engine.reader import read_facts

BANNER = (
    "(EngineCore pid=9) INFO 03-04 10:11:12 [core.py:97] Initializing a V1 LLM engine (v0.13.0) with config: "
    "model='/srv/big', speculative_config={spec}, dtype=torch.bfloat16, max_seq_len=8192, "
    "tensor_parallel_size=1"
)
MTP2 = "SpeculativeConfig(method='mtp', model='/srv/big', num_spec_tokens=2)"
LOADED = "(Worker pid=8) INFO 03-04 10:11:13 [gpu_model_runner.py:1] Loading drafter model..."
READY = "INFO:     Application startup complete."


def window(accepted: int, drafted: int, positions: list[float], mean: float) -> str:
    listed = ", ".join(f"{value:.3f}" for value in positions)
    return (
        f"(APIServer pid=1) INFO 03-04 10:12:12 [metrics.py:101] SpecDecoding metrics: Mean acceptance "
        f"length: {mean:.2f}, "
        f"Accepted throughput: 1.00 tokens/s, Drafted throughput: 2.00 tokens/s, Accepted: {accepted} "
        f"tokens, "
        f"Drafted: {drafted} tokens, Per-position acceptance rate: {listed}, Avg Draft acceptance rate: "
        f"{100 * accepted / drafted:.1f}%"
    )


def bar(mode: str, done: int, total: int) -> str:
    return (
        f"\rCapturing CUDA graphs ({mode}): {100 * done // total:3d}%|###  | {done}/{total} [00:01<00:01, "
        f"3.1it/s]"
    )


def read(*lines: str) -> Facts:
    return read_facts("\n".join(lines).encode(), "vllm")


def test_a_whole_bar_is_a_count() -> None:
    facts = read("".join(bar("mixed prefill-decode, PIECEWISE", done, 4) for done in range(5)))
    assert facts.get("graphs_piecewise") == 4 and facts.get("complete") is True


def test_a_bar_that_was_cut_off_is_no_count() -> None:
    facts = read(bar("decode, FULL", 3, 8))
    fact = facts.facts["graphs_full"]
    assert fact.value is None and fact.complete is False
    assert (facts.get("graphs_full_seen"), facts.get("graphs_full_total"), facts.get("complete")) == (
        3,
        8,
        False,
    )


def test_a_finished_capture_completes_a_bar_whose_last_frame_is_missing() -> None:
    done = "INFO 03-04 10:11:12 [gpu_model_runner.py:1] Graph capturing finished in 7 secs, took 0.55 GiB"
    assert read(bar("decode, FULL", 7, 8), done).get("graphs_full") == 8


def test_an_engine_that_dies_at_the_first_graph_has_captured_none() -> None:
    facts = read(
        bar("decode, FULL", 0, 8),
        "ERROR 03-04 10:11:12 [multiproc_executor.py:1] WorkerProc hit an exception.",
    )
    assert facts.get("graphs_full") == 0 and facts.get("error") == "WorkerProc hit an exception"


def test_the_bar_of_the_draft_is_not_the_targets() -> None:
    facts = read(
        bar("decode, FULL", 8, 8),
        "\rCapturing eagle CUDA graphs (FULL): 100%|###| 5/5 [00:01<00:00, 3.1it/s]",
    )
    assert (facts.get("graphs_full"), facts.get("draft_graphs_full")) == (8, 5)


def test_ranks_that_agree_are_one_fact() -> None:
    line = "(Worker_TP{} pid={}) INFO 03-04 10:11:12 [x.py:1] GPU KV cache size: 1,000 tokens"
    facts = read(line.format(0, 10), line.format(1, 11))
    assert facts.get("kv_tokens") == 1000 and facts.facts["kv_tokens"].complete
    assert facts.findings == () and facts.get("rank") == ["TP0", "TP1"]


def test_ranks_that_differ_are_a_finding() -> None:
    line = "(Worker_TP{0} pid=1{0}) INFO 03-04 10:11:12 [x.py:1] GPU KV cache size: {1} tokens"
    facts = read(line.format(0, "1,000"), line.format(1, "2,000"))
    (finding,) = facts.of_kind("ranks_differ")
    assert "Worker_TP0: 1000, Worker_TP1: 2000" in finding.message and finding.lines == (1, 2)
    assert facts.facts["kv_tokens"].complete is False


def test_the_smallest_rank_decides_the_memory_for_the_cache() -> None:
    line = "(Worker_TP{0} pid=1{0}) INFO 03-04 10:11:12 [x.py:1] Available KV cache memory: {1} GiB"
    assert read(line.format(0, 20.5), line.format(1, 19.25)).get("available_kv_gib") == 19.25


def test_v1_windows_are_added() -> None:
    """Oracle: 60 + 90 of 100 + 100 drafted; positions weighted by 50 drafts each: (.7+.9)/2, (.5+.9)/2."""
    facts = read(window(60, 100, [0.7, 0.5], 2.2), window(90, 100, [0.9, 0.9], 2.8))
    assert (facts.get("accepted"), facts.get("drafted"), facts.get("num_drafts")) == (150, 200, 100)
    assert facts.get("acceptance") == pytest.approx(0.75) and facts.get("mean_len") == pytest.approx(2.5)
    assert (
        facts.get("per_position") == pytest.approx([0.8, 0.7])
        and facts.get("mean_len_definition") == "with_bonus"
    )


def test_a_length_without_the_bonus_token_is_told_apart() -> None:
    facts = read(window(60, 100, [0.7, 0.5], 1.2))
    assert facts.get("mean_len") == 1.2 and facts.get("mean_len_definition") == "without_bonus"


def test_drafts_of_varying_length_are_not_counted_by_division() -> None:
    """49 drafted at most 3 a step: the number of drafts is unknown, not 16."""
    facts = read(window(30, 49, [0.8, 0.7, 0.7], 2.5))
    assert facts.facts["num_drafts"].value is None and facts.get("accepted") == 30


def test_v0_lines_are_differenced() -> None:
    line = (
        "INFO 03-04 10:11:12 metrics.py:367] Speculative metrics: Draft acceptance rate: 0.5, System "
        "efficiency: 0.6, "
        "Number of speculative tokens: 3, Number of accepted tokens: {}, Number of draft tokens: {}, "
        "Number of emitted "
        "tokens: {}."
    )
    facts = read(line.format(40, 90, 70), line.format(50, 120, 90))
    assert (
        facts.get("delta") == {"accepted": 10, "drafted": 30, "emitted": 20} and facts.get("accepted") == 50
    )
    restarted = read(line.format(1000, 2000, 1500), line.format(300, 500, 400))
    assert restarted.facts["delta"].value is None and restarted.of_kind("counter_reset")


def test_positions_that_are_never_accepted_are_flagged() -> None:
    facts = read(window(30, 160, [0.5, 0.25, 0.0, 0.0], 1.75))
    assert facts.of_kind("dead_positions") and facts.get("flag") == "dead_positions"


def test_two_draft_lengths_are_not_added() -> None:
    facts = read(window(60, 100, [0.7, 0.5], 2.2), window(30, 50, [0.6], 1.6))
    assert sorted(facts.get("arms")) == ["1", "2"] and facts.facts["per_position"].value is None


def test_metrics_are_summed_over_engines_and_dates_are_no_counts() -> None:
    page = "\n".join(
        f'vllm:spec_decode_{name}{{engine="{engine}",model_name="m"}} {value}'
        for engine in (0, 1)
        for name, value in (
            ("num_drafts_total", "1.5e+02"),
            ("num_draft_tokens_total", "300.0"),
            ("num_accepted_tokens_total", "120.0"),
            ("num_drafts_created", "1.7e+09"),
        )
    )
    facts = read(page)
    names = ("num_drafts", "drafted", "accepted", "k", "ignored_created")
    assert [facts.get(name) for name in names] == [300, 600, 240, 2, 2]


@pytest.mark.parametrize(
    ("lines", "active", "kind"),
    [
        ([BANNER.format(spec=MTP2), LOADED, READY], True, None),
        ([BANNER.format(spec=MTP2), LOADED, READY, window(60, 100, [0.7, 0.5], 2.2)], True, None),
        ([BANNER.format(spec="None"), READY], False, None),
        ([BANNER.format(spec="None"), window(60, 100, [0.7, 0.5], 2.2)], None, "spec_metrics_without_spec"),
        ([READY], None, None),
        (
            [BANNER.format(spec=MTP2), LOADED, READY, window(60, 90, [0.7, 0.5, 0.8], 3.0)],
            True,
            "draft_length_differs",
        ),
    ],
)
def test_speculation_is_active_only_where_the_log_says_so(
    lines: list[str], active: bool | None, kind: str | None
) -> None:
    facts = read(*lines)
    assert facts.facts["spec_active"].value is active
    assert {f.kind for f in facts.findings if f.severity == "error"} == ({kind} if kind else set())


def test_a_request_for_speculation_is_not_its_resolution() -> None:
    facts = read(
        "INFO [u.py:1] non-default args: {'model': 'm', 'speculative_config': {'method': 'mtp', "
        "'num_speculative_tokens': 3}}"
    )
    assert facts.get("spec_asked") is True and facts.facts["resolved_spec"].value is None
    assert facts.facts["spec_active"].value is None
    lost = read(
        "INFO [u.py:1] non-default args: {'speculative_config': {'method': 'mtp'}}",
        BANNER.format(spec="None"),
    )
    assert lost.of_kind("spec_asked_not_resolved")


def test_kernels_are_kept_per_layer_kind() -> None:
    line = "(Worker_TP0 pid=7) INFO 03-04 10:11:12 [k.py:1] {} {} for {}"
    facts = read(
        line.format("Selected", "AiterInt8ScaledMMLinearKernel", "W8A8"),
        line.format("Using", "MarlinLinearKernel", "GPTQ"),
    )
    assert facts.get("kernels") == {"W8A8": "AiterInt8ScaledMMLinearKernel", "GPTQ": "MarlinLinearKernel"}
    assert facts.get("kernel") == "AiterInt8ScaledMMLinearKernel"


def test_block_size_follows_from_blocks_and_concurrency() -> None:
    """Oracle: 8.00 requests of 4096 tokens in 2048 blocks are 16 tokens a block."""
    blocks = "INFO 03-04 10:11:12 executor_base.py:76] # GPU blocks: 2048, # CPU blocks: 10"
    facts = read(blocks, "INFO 03-04 10:11:12 x.py:1] Maximum concurrency for 4096 tokens per request: 8.00x")
    assert (facts.get("block_size"), facts.get("kv_tokens")) == (16, 32768)
    assert read(blocks).get("kv_tokens") is None


def test_concurrency_beyond_the_pool_means_several_cache_groups() -> None:
    facts = read(
        "INFO GPU KV cache size: 100,000 tokens",
        "INFO Maximum concurrency for 10,000 tokens per request: 35.00x",
    )
    assert facts.get("hybrid") is True


def test_a_death_after_a_stop_that_was_asked_for_is_none() -> None:
    stop = "(APIServer pid=1) INFO 03-04 10:11:12 [launcher.py:254] [shutdown] API server: shutdown triggered"
    dead = "(APIServer pid=1) ERROR 03-04 10:11:13 [async_llm.py:906] AsyncLLM output_handler failed."
    assert read(READY, stop, dead).get("error") is None
    assert read(READY, dead, stop).get("error") == "AsyncLLM output_handler failed"


def test_ranks_that_chose_other_kernels_are_a_finding() -> None:
    line = "(Worker_TP{0} pid=1{0}) INFO 03-04 10:11:12 [k.py:1] Selected {1} for W8A8"
    facts = read(
        line.format(0, "AiterInt8ScaledMMLinearKernel"), line.format(1, "TritonInt8ScaledMMLinearKernel")
    )
    (finding,) = facts.of_kind("kernels_differ")
    assert "W8A8 runs AiterInt8ScaledMMLinearKernel, TritonInt8ScaledMMLinearKernel" in finding.message
