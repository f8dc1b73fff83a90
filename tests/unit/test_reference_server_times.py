"""The reference server keeps its times, so that a plain client recovers tg, a, b and prefill rates."""

import time
from collections.abc import Sequence

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
    truth = Truth(heat_per_s=10.0, cooling_s=0.05, t0_s=0.001, ttft_s=0.002)
    with served(truth, "vllm") as client:
        first, second = (seconds_per_step(vllm(client).token_times_s()) for _ in range(2))
        time.sleep(0.4)
        third = seconds_per_step(vllm(client).token_times_s())
    assert second > 1.3 * first
    assert third < (first + second) / 2


def test_prefill_takes_a_fixed_time_and_a_time_per_computed_token() -> None:
    prompts = {400: list(range(300, 700)), 2400: list(range(300, 2700))}
    with served_by_process(Truth(pp_per_s=20_000, ttft_s=0.01, prefix_cache=False), "vllm") as client:
        ttft = {
            size: min(vllm(client, prompt, 1).token_times_s()[0] for _ in range(6))
            for size, prompt in prompts.items()
        }
    assert 2000 / (ttft[2400] - ttft[400]) == pytest.approx(20_000, rel=0.02)
    assert ttft[400] == pytest.approx(0.01 + 0.02, abs=0.003)


def seconds_per_step(step_times_s: Sequence[float]) -> float:
    """Median over all spans of half the stream's length: a machine that stumbles once does not move it."""
    times, half = np.asarray(step_times_s), len(step_times_s) // 2
    return float(np.median(times[half:] - times[:-half]) / half)


def recovered_step_s(dialect: str, truth: Truth) -> tuple[float, list[float]]:
    """Seconds per decode step, and the errors of the whole decode windows in seconds, over some requests."""
    found, errors = [], []
    with served_by_process(truth, dialect) as client:
        for prompt in range(6):
            seen = (vllm if dialect == "vllm" else llamacpp)(client, [9, prompt])
            steps = simulate(truth, [9, prompt], 64, cut_last_draft=dialect == "llamacpp")
            first_tokens = np.cumsum([0, 1, *(step.emitted for step in steps[:-1])])
            times = np.asarray(seen.token_times_s())
            found.append(seconds_per_step(times if dialect == "vllm" else times[first_tokens]))
            errors.append(seen.window_s() - len(steps) * truth.t0_s * truth.cost(truth.n))
    return float(np.median(found)), errors


@pytest.mark.parametrize("dialect", ["vllm", "llamacpp"])
def test_a_client_recovers_tg_within_half_a_percent_and_a_and_b_within_two(dialect: str) -> None:
    arms = [recovered_step_s(dialect, Truth(n=n, **SCHEDULE)) for n in range(4)]
    steps = [step for step, _ in arms]
    b, a = np.polyfit([1, 2, 3], np.array(steps[1:]) / steps[0], 1)
    window_errors_us = 1e6 * np.percentile([error for _, errors in arms for error in errors], [5, 50, 95])
    print(
        f"{dialect}: t0 {steps[0]:.6f} s, a {a:.4f}, b {b:.4f}, window errors {window_errors_us.round()} us"
    )
    assert steps[0] == pytest.approx(0.004, rel=0.005)
    assert (a, b) == pytest.approx((1.05, 0.14), rel=0.02)


@pytest.mark.parametrize("k", [1, 4, 16])
def test_regrouping_leaves_the_rate_alone(k: int) -> None:
    truth = Truth(n=3, tokens_per_event=k, prefix_cache=False, **SCHEDULE)
    steps = len(simulate(truth, PROMPT, 129, cut_last_draft=False))
    with served_by_process(truth, "vllm") as client:
        times_s = [vllm(client, tokens=129).token_times_s() for _ in range(5)]
    window = min(times[-1] for times in times_s) - min(times[0] for times in times_s)
    assert 128 / window == pytest.approx(128 / (steps * 0.004 * (1.05 + 3 * 0.14)), rel=0.005)


def test_the_servers_own_timings_agree_with_an_undisturbed_client() -> None:
    with served_by_process(Truth(n=2, ttft_s=0.02, t0_s=0.004), "llamacpp") as client:
        seen = [llamacpp(client, [5, p]) for p in range(7)]
    overhead_s = [s.token_times_s()[0] - s.timings()["prompt_ms"] / 1e3 for s in seen]
    decode_ratio = np.array([s.window_s() / s.timings()["predicted_ms"] * 1e3 for s in seen])
    print(f"TTFT over the server's own: {[round(1e6 * over) for over in overhead_s]} us")
    assert 0 < min(overhead_s) < 0.002
    assert np.abs(decode_ratio - 1).min() < 0.005


@pytest.mark.parametrize("dialect", ["vllm", "llamacpp"])
def test_twenty_thousand_tokens_a_second_leave_in_bursts(dialect: str) -> None:
    truth = Truth(n=15, acceptance=(1.0,) * 15, costs=(1.0,) * 15, t0_s=0.0008, ttft_s=0.05)
    path = "/v1/completions" if dialect == "vllm" else "/completion"
    body = {"prompt": PROMPT, "max_tokens": 4001, "n_predict": 4001, "stream": True, "return_token_ids": True}
    rates = []
    with served_by_process(truth, dialect) as client:
        for _ in range(5):
            with client.stream("POST", path, json=body) as response:
                arrived = [time.monotonic() for _ in response.iter_raw()]
            rates.append(4000 / (arrived[-1] - arrived[0]))
    print(f"{dialect}: {[round(rate) for rate in rates]} tokens/s")
    assert np.abs(np.array(rates) / 20_000 - 1).min() < 0.02


@pytest.mark.parametrize(
    ("n", "printed", "true"), [(0, 36.13, 36.13), (1, 30.27, 57.1), (2, 27.04, 69.8), (3, 24.53, 76.0)]
)
def test_the_mi210_case_misleads_an_event_counter(n: int, printed: float, true: float) -> None:
    with served_by_process(mi210(n, scale=0.1), "vllm") as client:
        seen = [vllm(client, [4, p] * 100, 256) for p in range(3)]
    step_s = np.median([seconds_per_step(s.token_times_s()) for s in seen]) * 10
    tokens_per_step = np.mean(
        [(s.usage()["completion_tokens"] - 1) / (len(s.token_times_s()) - 1) for s in seen]
    )
    assert 1 / step_s == pytest.approx(printed, rel=0.005)
    assert tokens_per_step / step_s == pytest.approx(true, rel=0.012)
