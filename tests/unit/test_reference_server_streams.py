"""The shapes that a stream of the reference server can take, and its other answers."""

from itertools import pairwise

import numpy as np
import pytest

from reference_server import Truth
from reference_server.plain_client import (
    PROMPT,
    chat,
    llamacpp,
    served,
    token_ids,
    vllm,
)
from reference_server.truth import completion
from reference_server.vocabulary import encode

QUICK = {"t0_s": 0.0005, "ttft_s": 0.001}


@pytest.mark.parametrize("k", [1, 2, 5, 16])
def test_tokens_are_regrouped_across_steps(k: int) -> None:
    with served(Truth(n=3, tokens_per_event=k, **QUICK), "vllm") as client:
        seen = vllm(client)
    sizes = [len(token_ids(event)) for event in seen.events if event["choices"]]
    assert sizes == [1] + [k] * (63 // k) + [63 % k] * (63 % k > 0)
    assert seen.ids() == completion(PROMPT, 64)


def test_events_held_back_arrive_together() -> None:
    with served(Truth(buffered_events=8, t0_s=0.004, ttft_s=0.02), "vllm") as client:
        seen = [vllm(client, tokens=33).token_times_s() for _ in range(3)]
    assert [len(times) for times in seen] == [33] * 3
    assert np.median([sum(b - a > 0.01 for a, b in pairwise(times)) for times in seen]) == 4


def test_the_first_event_can_carry_several_tokens() -> None:
    with served(Truth(first_event_tokens=3, **QUICK), "vllm") as client:
        seen = vllm(client, tokens=10)
    assert [len(token_ids(event)) for event in seen.events] == [3] + [1] * 7 + [0]


def test_a_role_chunk_can_leave_long_before_the_first_token() -> None:
    for dialect in ("vllm", "llamacpp"):
        for at_once in (False, True):
            truth = Truth(role_at_once=at_once, ttft_s=0.05, t0_s=0.001)
            with served(truth, dialect) as client:
                seen = chat(client)
            assert seen.events[0]["choices"][0]["delta"]["role"] == "assistant"
            assert (seen.arrived_s[0] < 0.03) == at_once
            assert seen.arrived_s[1] >= 0.05


def test_reasoning_comes_first_and_a_delta_can_hold_both() -> None:
    for dialect in ("vllm", "llamacpp"):
        with served(Truth(n=3, reasoning_tokens=7, **QUICK), dialect) as client:
            deltas = [event["choices"][0]["delta"] for event in chat(client).events if event["choices"]]
        reasoning = "".join(delta.get("reasoning_content") or "" for delta in deltas)
        content = "".join(delta.get("content") or "" for delta in deltas)
        assert (len(encode(reasoning)), len(encode(content))) == (7, 13)


def test_usage_only_chunks_and_keepalives_carry_no_tokens() -> None:
    with served(Truth(usage_first=True, keepalive_s=0.01, ttft_s=0.05, t0_s=0.001), "vllm") as client:
        seen = vllm(client, tokens=4)
    assert seen.events[0]["choices"] == [] and seen.events[0]["usage"]["completion_tokens"] == 0
    assert seen.comments in (3, 4, 5)
    assert seen.ids() == completion(PROMPT, 4)


def test_usage_and_ids_come_only_when_asked_for() -> None:
    with served(Truth(**QUICK), "vllm") as client:
        seen = vllm(client, tokens=4, stream_options=None, return_token_ids=False)
    assert seen.done and seen.ids() == [] and not any(event.get("usage") for event in seen.events)


@pytest.mark.parametrize("dialect", ["vllm", "llamacpp"])
def test_answers_that_do_not_stream_say_the_same(dialect: str) -> None:
    with served(Truth(n=2, **QUICK), dialect) as client:
        if dialect == "vllm":
            body = {"prompt": PROMPT, "max_tokens": 9, "return_token_ids": True}
            answer = client.post("/v1/completions", json=body).json()
            ids, counted = answer["choices"][0]["token_ids"], answer["usage"]["completion_tokens"]
        else:
            body = {"prompt": PROMPT, "n_predict": 9, "return_tokens": True}
            answer = client.post("/completion", json=body).json()
            ids, counted = answer["tokens"], answer["tokens_predicted"]
    assert (ids, counted) == (completion(PROMPT, 9), 9)


def test_the_top_two_logprobs_are_close_only_at_a_near_tie() -> None:
    truth = Truth(near_tie_at=5, **QUICK)
    with served(truth, "vllm") as client:
        choices = [event["choices"][0] for event in vllm(client, tokens=9, logprobs=2).events[:-1]]
        tops = [sorted(top.values()) for choice in choices for top in choice["logprobs"]["top_logprobs"]]
    with served(truth, "llamacpp") as client:
        events = llamacpp(client, tokens=9, n_probs=2).events[:-1]
        pairs = [place["top_logprobs"] for event in events for place in event["completion_probabilities"]]
    expected = [0.01 if place == 5 else 2.0 for place in range(9)]
    assert [high - low for low, high in tops] == pytest.approx(expected)
    assert [best["logprob"] - second["logprob"] for best, second in pairs] == pytest.approx(expected)


def test_tokenizers_templates_and_descriptions_answer() -> None:
    with served(Truth(n=2, **QUICK), "vllm") as client:
        tokens = client.post("/tokenize", json={"prompt": "Hi bako"}).json()
        assert tokens["count"] == 3 and client.post("/detokenize", json=tokens).json() == {
            "prompt": "Hi bako"
        }
        assert client.get("/health").content == b"" and "version" in client.get("/version").json()
        config = client.get("/server_info").json()["vllm_config"]["speculative_config"]
        assert config["num_speculative_tokens"] == 2
        assert client.get("/nowhere").status_code == 404
    with served(Truth(n=2, **QUICK), "llamacpp") as client:
        tokens = client.post("/tokenize", json={"content": "Hi bako"}).json()
        assert client.post("/detokenize", json=tokens).json() == {"content": "Hi bako"}
        assert client.get("/health").json() == {"status": "ok"}
        params = client.get("/props").json()["default_generation_settings"]["params"]
        assert params["speculative.types"] == "none,draft-mtp"


def test_requests_past_the_context_are_refused() -> None:
    for dialect, request in (("vllm", vllm), ("llamacpp", llamacpp)):
        with served(Truth(max_context=50), dialect) as client:
            assert request(client, prompt=list(range(300, 351))).status == 400


def test_the_natural_end_is_passed_only_when_told_to_ignore_it() -> None:
    with served(Truth(natural_tokens=12, **QUICK), "vllm") as client:
        natural, ignored = vllm(client, ignore_eos=False), vllm(client)
        held = vllm(client, ignore_eos=False, min_tokens=20)
    assert [len(s.ids()) for s in (natural, ignored, held)] == [12, 64, 20]
    assert natural.events[-2]["choices"][0]["finish_reason"] == "stop"
