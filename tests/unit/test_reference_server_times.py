"""The reference server keeps its times, so that a plain client recovers tg, a, b and prefill rates."""

import time
from typing import Any

import numpy as np
import pytest

from reference_server import Truth, mi210
from reference_server.plain_client import (
    PROMPT,
    llamacpp,
    served,
    served_by_process,
    vllm,
)
from reference_server.truth import simulate, step_ends_s

SCHEDULE = {"t0_s": 0.004, "ttft_s": 0.004}


def test_drift_heat_and_launch_noise_act_on_every_time() -> None:
    steps = simulate(Truth(), PROMPT, 101, cut_last_draft=False)
    calm = {"prompt_tokens": 40, "cached": 0, "launch": 1.0, "age_s": 0.0, "busy_s": 0.0}
    plain = np.diff(step_ends_s(Truth(t0_s=0.01), steps, **calm))
    assert plain == pytest.approx([0.01] * 100)
    drifting = np.diff(step_ends_s(Truth(t0_s=0.01, drift_per_s=0.04), steps, **{**calm, "age_s": 1.0}))
    assert (drifting[0], drifting[-1]) == pytest.approx((0.01040, 0.01082), rel=0.001)
    hot = np.diff(step_ends_s(Truth(t0_s=0.01, heat_per_s=0.1), steps, **{**calm, "busy_s": 2.0}))
    assert hot[0] == pytest.approx(0.012, rel=0.001)
    noise = np.log([Truth(launch_noise_sd=0.013, launch=i).launch_factor() for i in range(2000)])
    assert (noise.mean(), noise.std()) == pytest.approx((0, 0.013), abs=0.001)
    assert Truth(launch_noise_sd=0.1).launch_factor() != Truth(launch_noise_sd=0.1).launch_factor()


def test_a_busy_server_heats_up_and_an_idle_one_cools() -> None:
    truth = Truth(heat_per_s=5.0, cooling_s=0.05, t0_s=0.001, ttft_s=0.001)
    with served(truth, "vllm") as client:
        first, second = vllm(client), vllm(client)
        time.sleep(0.3)
        third = vllm(client)
    windows = [s.window_s() for s in (first, second, third)]
    assert windows[1] > 1.15 * windows[0]
    assert windows[2] == pytest.approx(windows[0], rel=0.1)


def test_prefill_takes_a_fixed_time_and_a_time_per_computed_token() -> None:
    prompts = {400: list(range(300, 700)), 2400: list(range(300, 2700))}
    with served_by_process(Truth(pp_per_s=20_000, ttft_s=0.01, prefix_cache=False), "vllm") as client:
        ttft = {
            size: np.median([vllm(client, prompt, 1).token_times_s()[0] for _ in range(5)])
            for size, prompt in prompts.items()
        }
    assert 2000 / (ttft[2400] - ttft[400]) == pytest.approx(20_000, rel=0.02)
    assert ttft[400] == pytest.approx(0.01 + 0.02, abs=0.003)


def step_s(dialect: str, truth: Truth, late: list[float]) -> float:
    """Decode seconds per step as a client finds them: the median over requests of window / steps."""
    found = []
    with served_by_process(truth, dialect) as client:
        for prompt in range(6):
            if dialect == "vllm":
                seen = vllm(client, [9, prompt])
                steps = len(seen.token_times_s()) - 1
            else:
                seen = llamacpp(client, [9, prompt])
                steps = 63 - seen.timings().get("draft_n_accepted", 0)
            found.append(seen.window_s() / steps)
            late.append(seen.window_s() - steps * truth.t0_s * truth.cost(truth.n))
    return float(np.median(found[1:]))


@pytest.mark.parametrize("dialect", ["vllm", "llamacpp"])
def test_a_client_recovers_tg_within_half_a_percent_and_a_and_b_within_two(
    dialect: str, record_property: Any
) -> None:
    late: list[float] = []
    found = {n: step_s(dialect, Truth(n=n, **SCHEDULE), late) for n in range(4)}
    assert found[0] == pytest.approx(0.004, rel=0.005)
    b, a = np.polyfit([1, 2, 3], [found[n] / found[0] for n in (1, 2, 3)], 1)
    assert (a, b) == pytest.approx((1.05, 0.14), rel=0.02)
    figures = {
        "t0 error": found[0] / 0.004 - 1,
        "a": a,
        "b": b,
        "window error us": np.percentile(late, [5, 50, 95]) * 1e6,
    }
    record_property("figures", str(figures))
    print(dialect, figures)


@pytest.mark.parametrize("k", [1, 4, 16])
def test_regrouping_leaves_the_rate_alone(k: int) -> None:
    truth = Truth(n=3, tokens_per_event=k, **SCHEDULE)
    steps = len(simulate(truth, PROMPT, 129, cut_last_draft=False))
    with served_by_process(truth, "vllm") as client:
        window = np.median([vllm(client, tokens=129).window_s() for _ in range(5)])
    assert 128 / window == pytest.approx(128 / (steps * 0.004 * (1.05 + 3 * 0.14)), rel=0.005)


def test_the_servers_own_timings_agree_with_the_client() -> None:
    with served_by_process(Truth(n=2, ttft_s=0.02, t0_s=0.004), "llamacpp") as client:
        seen = [llamacpp(client, [5, p]) for p in range(5)]
    overhead = [s.token_times_s()[0] - s.timings()["prompt_ms"] / 1e3 for s in seen]
    decode = [s.window_s() / s.timings()["predicted_ms"] * 1e3 for s in seen]
    print("TTFT over the server's own, us:", [round(1e6 * o) for o in overhead], "decode ratio:", decode)
    assert 0 < np.median(overhead[1:]) < 0.003
    assert np.median(decode) == pytest.approx(1, abs=0.005)


@pytest.mark.parametrize("dialect", ["vllm", "llamacpp"])
def test_twenty_thousand_tokens_a_second_leave_in_bursts(dialect: str) -> None:
    truth = Truth(n=15, acceptance=(1.0,) * 16, costs=(1.0,) * 15, t0_s=0.0008, ttft_s=0.05)
    with served_by_process(truth, dialect) as client:
        body = {
            "prompt": PROMPT,
            "max_tokens": 4001,
            "n_predict": 4001,
            "stream": True,
            "return_token_ids": True,
        }
        path = "/v1/completions" if dialect == "vllm" else "/completion"
        arrived = []
        with client.stream("POST", path, json=body) as response:
            for _ in response.iter_raw():
                arrived.append(time.monotonic())
    assert 4000 / (arrived[-1] - arrived[0]) == pytest.approx(20_000, rel=0.03)


@pytest.mark.parametrize(
    ("n", "printed", "true"), [(0, 36.13, 36.13), (1, 30.27, 57.1), (2, 27.04, 69.8), (3, 24.53, 76.0)]
)
def test_the_mi210_case_misleads_an_event_counter(n: int, printed: float, true: float) -> None:
    scale = 0.1
    with served_by_process(mi210(n, scale=scale), "vllm") as client:
        seen = [vllm(client, [4, p] * 100, 256) for p in range(3)][1:]
    seconds = sum(s.window_s() for s in seen) / scale
    assert sum(len(s.token_times_s()) - 1 for s in seen) / seconds == pytest.approx(printed, rel=0.005)
    assert sum(s.usage()["completion_tokens"] - 1 for s in seen) / seconds == pytest.approx(true, rel=0.01)
