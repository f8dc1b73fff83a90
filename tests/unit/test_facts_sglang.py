"""SGLang's decode batches: two definitions of the accept rate, ranks, graphs."""

import pytest

from breakeven.engine.facts import Facts
from breakeven.engine.reader import read_facts
from breakeven.engine.statistics_sglang import NEW_RATE, OLD_RATE, rate_definition


def batch(
    length: float, rate: float | None, speed: float = 100.0, graph: bool = True, rank: str = "TP0"
) -> str:
    told = "" if rate is None else f" accept rate: {rate:.2f},"
    return (
        f"[2025-03-04 10:11:12 {rank}] Decode batch, #running-req: 1, #token: 186, token usage: 0.00, "
        f"accept len: "
        f"{length:.2f},{told} cuda graph: {graph}, gen throughput (token/s): {speed:.2f}, #queue-req: 0, "
    )


def read(*lines: str) -> Facts:
    return read_facts("\n".join(lines).encode())


@pytest.mark.parametrize("drafts", [2, 4, 8, 16])
def test_the_definition_is_found_from_the_numbers(drafts: int) -> None:
    """Oracle: old rate = len/D, new rate = (len-1)/(D-1), both rounded to two decimals as printed."""
    lengths = [1 + share * (drafts - 1) for share in (0.2, 0.55, 0.8)]
    old = [(length, round(length / drafts, 2)) for length in lengths]
    new = [(length, round((length - 1) / (drafts - 1), 2)) for length in lengths]
    assert rate_definition(old) == (drafts, OLD_RATE)
    assert rate_definition(new) == (drafts, NEW_RATE)


def test_figures_that_fit_neither_or_both_have_no_definition() -> None:
    assert rate_definition([(4.0, 1.0)], asked=4) == (None, None), "full acceptance is 1 under both"
    assert rate_definition([(2.5, 0.01)]) == (None, None)
    assert rate_definition([]) == (None, None)


def test_windows_keep_their_figures_and_the_cold_one_is_marked() -> None:
    facts = read(batch(2.0, 0.5, 0.5), batch(2.2, 0.55, 150.0), batch(1.8, 0.45, 160.0))
    assert [w["valid"] for w in facts.get("windows")] == [False, True, True]
    assert (facts.get("num_draft_tokens"), facts.get("rate_definition")) == (4, OLD_RATE)
    assert facts.get("spec_active") is True


def test_ranks_are_listed_and_not_added() -> None:
    facts = read(batch(2.0, None, 100.0, rank="DP0 TP0"), batch(2.2, None, 90.0, rank="DP1 TP1"))
    assert facts.get("ranks") == ["DP0 TP0", "DP1 TP1"] and facts.get("gen_tok_s") == [100.0, 90.0]
    assert facts.facts["accept_rate"].value is None


def test_windows_without_graphs_are_flagged() -> None:
    facts = read(batch(1.0, 0.25, graph=False), batch(2.0, 0.5))
    assert facts.of_kind("decode_without_graphs") and facts.of_kind("nothing_accepted")


def test_the_drafters_pool_and_graphs_are_not_the_targets() -> None:
    facts = read(
        "[2025-03-04 10:11:12 TP0] KV Cache is allocated. #tokens: 5000, K size: 1.50 GB, V size: 1.50 GB",
        "[2025-03-04 10:11:12 TP0] Capture cuda graph begin. This can take up to several minutes. avail "
        "mem=9.00 GB",
        "Capturing batches (bs=1 avail_mem=9.00 GB): 100%|###| 6/6 [00:10<00:00,  3.37it/s]",
        "[2025-03-04 10:11:13 TP0] Capture cuda graph end. Time elapsed: 4.50 s. mem usage=0.50 GB. avail "
        "mem=8.50 GB.",
        "[2025-03-04 10:11:14 TP0] KV Cache is allocated. #tokens: 5000, K size: 0.10 GB, V size: 0.10 GB",
        "[2025-03-04 10:11:14 TP0] Capture draft cuda graph begin. This can take up to several minutes. "
        "avail mem=8.00 GB",
        "Capturing batches (bs=1 avail_mem=8.00 GB):  50%|###| 3/6 [00:10<00:00,  3.37it/s]",
    )
    assert (facts.get("kv_tokens"), facts.get("k_gb"), facts.get("draft_k_gb")) == (5000, 1.5, 0.1)
    assert facts.get("graphs_decode") == 6 and facts.facts["draft_graphs_decode"].value is None
    assert facts.get("target") == {"secs": 4.5, "gb": 0.5} and facts.get("graph_secs") == {"TP0": 4.5}


def test_speculation_asked_in_the_arguments() -> None:
    line = (
        "[2025-03-04 10:11:12] server_args=ServerArgs(model_path='m', speculative_algorithm={}, "
        "speculative_num_draft_tokens={})"
    )
    asked, plain = read(line.format("'EAGLE'", 4)), read(line.format("None", "None"))
    assert (
        asked.get("spec_asked") is True
        and asked.get("spec_n") == 3
        and asked.facts["spec_active"].value is None
    )
    assert plain.get("spec_asked") is False and plain.get("spec_active") is False
