"""The reference server tells the truth it was given, in counts, ids and counters of both dialects."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from reference_server import Truth, mi210
from reference_server.plain_client import (
    PROMPT,
    counters,
    llamacpp,
    served,
    served_by_process,
    spec,
    token_ids,
    vllm,
)
from reference_server.truth import completion, simulate
from reference_server.vocabulary import decode, encode

QUICK = {"t0_s": 0.0005, "ttft_s": 0.001}


def test_a_completion_depends_on_the_prompt_alone_and_longer_ones_start_with_shorter_ones() -> None:
    assert completion(PROMPT, 200)[:50] == completion(PROMPT, 50)
    assert completion(PROMPT, 50) != completion(PROMPT[1:], 50)
    assert len(set(completion(PROMPT, 200))) > 150


def test_words_and_text_survive_the_vocabulary() -> None:
    assert encode(decode(completion(PROMPT, 300))) == completion(PROMPT, 300)
    for text in ("The bako, fine: zuzu\n", "naïve ☃ text", ""):
        assert decode(encode(text)) == text


@pytest.mark.parametrize("even", [False, True])
def test_acceptance_follows_the_conditional_profile(even: bool) -> None:
    truth = Truth(n=3, acceptance=(0.9, 0.6, 0.5), even_draws=even)
    steps = [s for p in range(60) for s in simulate(truth, (p,), 400, cut_last_draft=False)]
    survival = [np.mean([step.accepted > i for step in steps]) for i in range(3)]
    assert survival == pytest.approx([0.9, 0.54, 0.27], abs=0.002 if even else 0.02)
    assert truth.acceptance_length == pytest.approx(2.71)


def test_arms_of_one_seed_share_their_draws() -> None:
    one, three = (simulate(Truth(n=n), PROMPT, 2, cut_last_draft=False)[0] for n in (1, 3))
    assert one.accepted == min(three.accepted, 1)


@pytest.mark.parametrize("wrong", [{"n": 17}, {"n": 2, "acceptance": (0.5,)}, {"gate": 1.5}, {"t0_s": 0.0}])
def test_a_truth_that_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Truth(**wrong)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_vllm_sends_an_event_a_step_and_its_counts_conserve_tokens(n: int) -> None:
    with served(Truth(n=n, **QUICK), "vllm") as client:
        before = counters(client)
        seen = [vllm(client, [7, 8, 9, p]) for p in range(5)]
        after = counters(client)
    assert [len(s.ids()) for s in seen] == [s.usage()["completion_tokens"] for s in seen] == [64] * 5
    assert all(s.ids() == completion([7, 8, 9, p], 64) for p, s in enumerate(seen))
    assert after["generation_tokens_total", None] - before["generation_tokens_total", None] == 5 * 64
    for s in seen:
        running = [event["usage"]["completion_tokens"] for event in s.events if event["choices"]]
        assert running == list(np.cumsum([len(token_ids(event)) for event in s.events if event["choices"]]))
        assert s.events[-1]["choices"] == [] and s.done
    if not n:
        assert not any("spec_decode" in name for name, _ in after)
        return
    drafts, accepted = spec(after, "drafts"), spec(after, "accepted_tokens")
    assert drafts == sum(len(s.token_times_s()) - 1 for s in seen)
    assert spec(after, "draft_tokens") == n * drafts
    assert sum(spec(after, "accepted_tokens_per_pos", i) for i in range(n)) == accepted
    assert 5 * 63 <= drafts + accepted <= 5 * 63 + 5 * n


@pytest.mark.parametrize("n", [0, 1, 3])
def test_llamacpp_sends_an_event_a_token_and_its_timings_conserve_tokens(n: int) -> None:
    with served(Truth(n=n, **QUICK), "llamacpp") as client:
        seen = llamacpp(client)
        after = counters(client)
        slots = client.get("/slots").json()
    last, timings = seen.events[-1], seen.timings()
    assert [token_ids(event) for event in seen.events[:-1]] == [[token] for token in completion(PROMPT, 64)]
    assert timings["predicted_n"] == last["tokens_predicted"] == after["tokens_predicted_total", None] == 64
    assert (timings["prompt_n"], timings["cache_n"]) == (len(PROMPT), 0)
    assert last["stop_type"] == "limit" and slots[0]["speculative"] == (n > 0)
    if not n:
        assert "draft_n" not in timings
        return
    steps = 63 - timings["draft_n_accepted"]
    assert steps - spec(after, "drafts") in (0, 1)
    assert spec(after, "draft_tokens") == timings["draft_n"] <= n * steps
    assert spec(after, "accepted_tokens") == timings["draft_n_accepted"]


def test_llamacpp_sends_the_tokens_of_a_step_in_one_burst() -> None:
    with served(Truth(n=3, t0_s=0.004), "llamacpp") as client:
        seen = [llamacpp(client, tokens=40) for _ in range(5)]
    bursts = [1 + sum(b - a > 0.002 for a, b in pairwise(s.token_times_s())) for s in seen]
    assert 1 + 39 - seen[0].timings()["draft_n_accepted"] in bursts


def test_every_arm_of_every_dialect_gives_the_same_tokens() -> None:
    outputs = []
    for n in (0, 2, 16):
        for dialect, request in (("vllm", vllm), ("llamacpp", llamacpp)):
            with served(Truth(n=n, seed=n, **QUICK), dialect) as client:
                outputs.append(request(client).ids())
    assert all(output == outputs[0] for output in outputs)


def test_gated_steps_draft_nothing_and_are_not_drafts() -> None:
    with served(Truth(n=2, gate=0.4, **QUICK), "vllm") as client:
        seen = vllm(client, tokens=200)
        after = counters(client)
    steps = len(seen.token_times_s()) - 1
    assert 0.25 * steps < spec(after, "drafts") < 0.55 * steps


def test_counters_of_several_engines_have_created_twins_and_add_up() -> None:
    with served(Truth(n=1, engines=3, **QUICK), "vllm") as client:
        for _ in range(4):
            vllm(client, tokens=8)
        text = client.get("/metrics").text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    shares = [s.value for s in families["vllm:generation_tokens"].samples if s.name.endswith("_total")]
    assert sorted(shares) == [8, 8, 16]
    assert families["vllm:generation_tokens_created"].type == "gauge"
    assert "e+09" in text and families["vllm:iteration_tokens_total"].type == "histogram"


def test_the_mi210_prefill_ratio_is_a_dropped_block() -> None:
    """10240 prompt tokens at depth 8192: 10 blocks of 784 stay cached, or 9 of 800 under speculation."""
    prefix = list(range(300, 300 + 8192))
    ttft_s, computed = {}, {}
    for n in (0, 1):
        with served_by_process(mi210(n, scale=0.1), "vllm") as client:
            vllm(client, prefix, 1)
            seen = [vllm(client, [*prefix, *range(new, new + 2048)], 1) for new in (1000, 2000, 3000)]
        ttft_s[n] = min(s.token_times_s()[0] for s in seen)
        cached = {s.usage()["prompt_tokens_details"]["cached_tokens"] for s in seen}
        computed[n] = {8192 + 2048 - tokens for tokens in cached}
    assert computed == {0: {2400}, 1: {3040}}
    assert ttft_s[0] / ttft_s[1] == pytest.approx(0.7895, abs=0.02)


def test_cached_tokens_can_be_unreported_and_the_cache_off() -> None:
    for truth, cached in ((Truth(**QUICK), 32), (Truth(prefix_cache=False, **QUICK), 0)):
        with served(truth, "vllm") as client:
            vllm(client, tokens=1)
            assert "prompt_tokens_details" not in vllm(client, tokens=1).usage()
            assert counters(client)["prefix_cache_hits_total", None] == cached


def test_llamacpp_keeps_what_its_slot_held_last() -> None:
    with served(Truth(**QUICK), "llamacpp") as client:
        llamacpp(client, PROMPT, 1)
        longer = llamacpp(client, PROMPT + [999] * 10, 4, cache_prompt=True, id_slot=0).timings()
        again = llamacpp(client, PROMPT + [999] * 10, 4).timings()
        fresh = llamacpp(client, PROMPT + [999] * 10, 4, cache_prompt=False).timings()
    assert [(t["cache_n"], t["prompt_n"]) for t in (longer, again, fresh)] == [(40, 10), (49, 1), (0, 50)]
