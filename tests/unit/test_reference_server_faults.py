"""Every fault of the reference server can be seen, and nothing else changes with it."""

import time
from typing import Any

import httpx
import numpy as np
import pytest

from reference_server import Faults, Truth
from reference_server.plain_client import (
    PROMPT,
    counters,
    llamacpp,
    served,
    spec,
    vllm,
)
from reference_server.truth import completion

QUICK = {"t0_s": 0.0005, "ttft_s": 0.001}


def test_a_server_dies_inside_a_stream() -> None:
    with served(Truth(**QUICK), "vllm", Faults(dies_after_tokens=10)) as client:
        seen = vllm(client)
        assert seen.error is not None and 0 < len(seen.ids()) <= 10
        time.sleep(0.1)
        with pytest.raises(httpx.ConnectError):
            client.get("/health")


def test_a_stream_stalls_and_goes_on() -> None:
    faults = Faults(stalls_after_tokens=10, stall_s=0.2)
    with served(Truth(**QUICK), "vllm", faults) as client:
        seen = vllm(client)
    gaps = np.diff(seen.token_times_s())
    assert int(gaps.argmax()) == 9 and gaps.max() > 0.15 and len(seen.ids()) == 64


def test_requests_fail_with_500_and_then_succeed() -> None:
    with served(Truth(**QUICK), "llamacpp", Faults(http_500=2)) as client:
        assert [llamacpp(client, tokens=2).status for _ in range(4)] == [500, 500, 200, 200]


def test_a_server_is_healthy_and_dead() -> None:
    with served(Truth(**QUICK), "vllm", Faults(healthy_but_dead=True)) as client:
        assert client.get("/health").status_code == 200
        assert {vllm(client).status for _ in range(3)} == {500}


def test_a_stream_breaks_inside_an_event() -> None:
    with served(Truth(**QUICK), "vllm", Faults(truncates_after_tokens=10)) as client:
        seen = vllm(client)
        assert len(seen.ids()) == 10 and seen.error is not None and not seen.done
        assert client.get("/health").status_code == 200


@pytest.mark.parametrize(("dialect", "request_"), [("vllm", vllm), ("llamacpp", llamacpp)])
def test_a_stream_ends_without_its_last_words(dialect: str, request_: Any) -> None:
    with served(Truth(**QUICK), dialect, Faults(ends_without_done=True)) as client:
        seen = request_(client)
    assert seen.error is None and not seen.done and len(seen.ids()) == 64
    assert not any("timings" in event for event in seen.events)


def test_usage_and_timings_can_be_wrong_while_ids_and_counters_are_right() -> None:
    faults = Faults(wrong_usage=3, wrong_timings=1.1)
    with served(Truth(**QUICK), "vllm", faults) as client:
        seen = vllm(client)
        assert (seen.usage()["completion_tokens"], len(seen.ids())) == (67, 64)
        assert counters(client)["generation_tokens_total", None] == 64
    with served(Truth(t0_s=0.002), "llamacpp", faults) as client:
        seen = llamacpp(client)
    timings, times = seen.timings(), seen.token_times_s()
    assert timings["predicted_n"] == 67
    assert timings["predicted_ms"] / 1e3 / (times[-1] - times[0]) == pytest.approx(1.1, abs=0.02)


def test_counters_start_again() -> None:
    with served(Truth(n=1, **QUICK), "vllm", Faults(counter_reset_after=2)) as client:
        counted = []
        for _ in range(3):
            vllm(client)
            counted.append(counters(client)["generation_tokens_total", None])
    assert counted == [64, 0, 64]


def test_foreign_traffic_shows_in_the_counters_alone() -> None:
    for dialect, request, name in (
        ("vllm", vllm, "generation_tokens"),
        ("llamacpp", llamacpp, "tokens_predicted"),
    ):
        with served(Truth(n=1, **QUICK), dialect, Faults(other_traffic=40)) as client:
            assert len(request(client).ids()) == 64
            assert counters(client)[f"{name}_total", None] == 104


def test_old_builds_export_neither_speculation_counters_nor_ids() -> None:
    faults = Faults(no_spec_counters=True, no_token_ids=True)
    for dialect, request in (("vllm", vllm), ("llamacpp", llamacpp)):
        with served(Truth(n=1, **QUICK), dialect, faults) as client:
            assert request(client).ids() == []
            assert not any("spec_decode" in name for name, _ in counters(client))


def test_a_completion_stops_early_in_spite_of_ignore_eos() -> None:
    with served(Truth(n=2, **QUICK), "llamacpp", Faults(stops_early=20)) as client:
        seen = llamacpp(client)
    assert len(seen.ids()) == 20 and seen.events[-1]["stop_type"] == "eos"


def test_a_draft_length_is_ignored_while_the_settings_claim_it() -> None:
    drafted = []
    for n in (1, 2, 3):
        with served(Truth(n=n, **QUICK), "llamacpp", Faults(effective_n=1)) as client:
            drafted.append(llamacpp(client).timings()["draft_n"])
    assert len(set(drafted)) == 1
    with served(Truth(n=3, **QUICK), "llamacpp", Faults(effective_n=0)) as client:
        last = llamacpp(client).events[-1]
        assert client.get("/slots").json()[0]["speculative"] is False
    assert "draft_n" not in last["timings"]
    assert last["generation_settings"]["speculative.types"] == "none,draft-mtp"


def test_positions_can_be_dead() -> None:
    with served(Truth(n=3, **QUICK), "vllm", Faults(dead_from_position=1)) as client:
        vllm(client)
        after = counters(client)
    assert spec(after, "accepted_tokens_per_pos", 0) > 0
    assert spec(after, "accepted_tokens_per_pos", 1) == spec(after, "accepted_tokens_per_pos", 2) == 0


def test_an_arm_diverges_or_loops() -> None:
    with served(Truth(**QUICK), "vllm", Faults(diverges_at=30)) as client:
        ids = vllm(client).ids()
    assert ids[:30] == completion(PROMPT, 30) and ids[30] != completion(PROMPT, 31)[30]
    with served(Truth(**QUICK), "vllm", Faults(loops_after=8)) as client:
        ids = vllm(client).ids()
    assert ids == ids[:8] * 8


def test_a_prompt_is_cut_without_a_word() -> None:
    with served(Truth(**QUICK), "vllm", Faults(prompt_limit=30)) as client:
        seen = vllm(client)
    assert seen.usage()["prompt_tokens"] == 30 and len(seen.ids()) == 64


def test_the_first_requests_are_cold() -> None:
    with served(Truth(**QUICK), "vllm", Faults(cold_requests=1, cold=8.0)) as client:
        first, later = vllm(client, tokens=16), vllm(client, tokens=16)
    assert first.window_s() > 4 * later.window_s()


def test_a_drafter_remembers_a_text_whatever_stands_before_it() -> None:
    with served(Truth(n=3, acceptance=(0.2,) * 3, **QUICK), "llamacpp", Faults(remembers=True)) as client:
        first, other, again = (
            llamacpp(client, prompt).timings()["draft_n_accepted"]
            for prompt in (PROMPT, PROMPT[::-1], [700, *PROMPT])
        )
    assert again > 2 * max(first, other)


def test_texts_repeat_their_words() -> None:
    with served(Truth(words=5, **QUICK), "vllm") as client:
        ids = vllm(client).ids()
    assert len(set(ids)) == 5 and ids == completion(PROMPT, 64, words=5)
