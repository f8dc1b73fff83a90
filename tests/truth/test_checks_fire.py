"""Checks against a real HTTP server whose faults are known: each fires on its fault, none on a sound server.

Only what counts decide is asked to be silent here: checks on clocks depend on the machine that runs the tests, and
are shown on tables written by hand.
"""

from contextlib import suppress
from dataclasses import replace
from functools import cache

import pandas as pd
import pytest

from breakeven import tables
from breakeven.analysis import checks
from breakeven.engine.base import Sampling
from breakeven.engine.registry import ENGINES
from breakeven.errors import LaunchError
from breakeven.measure.client import open_client, record
from breakeven.measure.sweep import Rows
from breakeven.measure.sweep import run as send
from breakeven.measure.workload import plan, read_workload

from reference_server import Faults, Truth, reference_server
from reference_server.vocabulary import EOS

WORKLOAD = {
    "pp": 40, "tg": 48, "depths": [0, 256], "reps": 2, "warmup": 1, "prompts": {"natural": {"count": 2}}
}  # fmt: skip
SOUND = Truth(t0_s=0.001, ttft_s=0.001, prompt_tokens_details=True, drop_last_block=False)
BASE, SPEC = SOUND, replace(SOUND, n=3)
ON_CLOCKS = {
    "client_matches_server", "requests_disturbed", "steps_match_events", "not_faster_deeper", "step_not_cheaper",
    "halves_alike", "first_slot", "baseline_drift", "first_request_warm", "settled", "first_event",
}  # fmt: skip
SMALL = {"enough_prompts", "enough_tokens", "not_noise"}


@cache
def launch(arm: str, engine: str, truth: Truth, faults: Faults, intruder: bool = False) -> Rows:
    """One launch's rows; a server that fails leaves what was measured."""
    rows, spoken = Rows(), ENGINES[engine]
    keys = {"experiment": "e", "arm": arm, "round": 1, "slot": 0}
    planned = plan(read_workload(WORKLOAD), seed=1, round=1)
    with (
        reference_server(truth, dialect=engine, faults=faults) as url,
        open_client(url, read_timeout_s=5.0) as http,
        suppress(LaunchError),
    ):
        half = len(planned) // 2 if intruder else len(planned)
        send(http, spoken, planned[:half], keys, n_ctx=None, alive=lambda: True, rows=rows)
        if intruder:
            record(http, spoken.completion(range(10, 40), 8, Sampling()))
            send(http, spoken, planned[half:], keys, n_ctx=None, alive=lambda: True, rows=rows)
    return rows


def judged(
    engine: str, arms: dict[str, tuple[Truth, Faults]], *, intruder: str = "", gated: bool = False
) -> pd.DataFrame:
    """The checks table of one round of these arms; the first is the baseline."""
    launched = {arm: launch(arm, engine, *given, intruder=arm == intruder) for arm, given in arms.items()}
    read = {
        name: pd.DataFrame(
            [row for rows in launched.values() for row in getattr(rows, name)], columns=schema.names
        )
        for name, schema in (
            ("requests", tables.REQUESTS),
            ("events", tables.EVENTS),
            ("counters", tables.COUNTERS),
        )
    }
    launches = pd.DataFrame(
        [
            {"arm": arm, "round": 1, "slot": slot, "started_at": float(slot), "n_spec": truth.n, "gated": gated,
             "status": "measured", "n_ctx": 4096}
            for slot, (arm, (truth, _)) in enumerate(arms.items())
        ]
    )  # fmt: skip
    launches["gated"] &= launches["n_spec"] > 0
    experiment = {
        "name": "e",
        "engine": engine,
        "runtime": "process",
        "baseline": next(iter(arms)),
        "arms": {
            arm: {"n_spec": truth.n, "server": {"args": {"n": truth.n}}} for arm, (truth, _) in arms.items()
        },
        "workload": WORKLOAD,
    }
    telemetry = pd.DataFrame(columns=tables.TELEMETRY.names)
    rows = checks.run(*read.values(), telemetry, launches, experiment, eos_ids=(EOS,))
    return pd.DataFrame(rows, columns=tables.CHECKS.names)


def failed(found: pd.DataFrame, arm: str = "spec") -> dict[str, str]:
    bad = found[(found["passed"] == False) & (found["arm"] == arm)]  # noqa: E712
    return dict(zip(bad["check"], bad["reason"], strict=True))


@pytest.mark.parametrize("engine", sorted(ENGINES))
@pytest.mark.parametrize("gate", [1.0, 0.5])
def test_a_sound_server_fails_no_check_that_counts_decide(engine, gate):
    spec = replace(SPEC, gate=gate)
    found = judged(engine, {"base": (BASE, Faults()), "spec": (spec, Faults())}, gated=gate < 1)
    for arm in ("base", "spec"):
        assert set(failed(found, arm)) <= ON_CLOCKS | SMALL, failed(found, arm)


FAULTS = {
    "usage_equals_ids": ("vllm", SPEC, Faults(wrong_usage=3), "by up to 3"),
    "counters_equal_usage": ("vllm", SPEC, Faults(wrong_usage=3), "counter"),
    "client_matches_server": (
        "llamacpp",
        replace(SPEC, t0_s=0.004),
        Faults(wrong_timings=1.5),
        "server's own",
    ),
    "counters_only_rise": ("vllm", SPEC, Faults(counter_reset_after=9), "fell"),
    "alone_inside": ("vllm", SPEC, Faults(other_traffic=20), "somebody else"),
    "runs_full_length": ("llamacpp", SPEC, Faults(stops_early=20), "after 20 tokens"),
    "requests_answered": ("vllm", SPEC, Faults(http_500=1), "HTTP 500"),
    "draft_length": ("vllm", SPEC, Faults(effective_n=1), "1.00 tokens, 3 were asked"),
    "positions_alive": ("vllm", SPEC, Faults(dead_from_position=1), "position 1"),
    "lossless": ("llamacpp", SPEC, Faults(diverges_at=10), "at token 10"),
    "not_looping": ("vllm", SPEC, Faults(loops_after=8), "loop"),
    "not_past_the_end": ("vllm", replace(SPEC, natural_tokens=20), Faults(), "58%"),
    "first_event": ("vllm", replace(SPEC, first_event_tokens=4), Faults(), "held back"),
    "steps_match_events": ("vllm", replace(SPEC, tokens_per_event=1), Faults(), "by the stream"),
    "one_engine": ("vllm", replace(SPEC, engines=2), Faults(), "2 engines"),
    "depth_cached": ("vllm", replace(SPEC, prefix_cache=False), Faults(), "256 of 256"),
    "computed_equal": ("vllm", replace(SPEC, drop_last_block=True), Faults(), "one cache block of 16 tokens"),
}


@pytest.mark.parametrize("name", list(FAULTS))
def test_a_check_fires_on_a_server_with_its_fault(name):
    engine, truth, faults, word = FAULTS[name]
    found = judged(engine, {"base": (BASE, Faults()), "spec": (truth, faults)})
    assert word in failed(found).get(name, ""), found.loc[found["check"] == name].to_string()


def test_a_build_that_takes_another_n_makes_the_lever_dead_for_every_arm():
    arms = {"base": (BASE, Faults())} | {
        f"mtp{n}": (replace(SOUND, n=n), Faults(effective_n=1)) for n in (1, 2, 3)
    }
    found = judged("llamacpp", arms)
    for arm in ("mtp1", "mtp2", "mtp3"):
        assert "lever not live" in failed(found, arm)["lever_live"]


def test_a_request_of_somebody_else_between_ours_is_noticed():
    arms = {"base": (BASE, Faults()), "spec": (SPEC, Faults())}
    assert "somebody else" in failed(judged("vllm", arms, intruder="spec"))["alone_between"]


def test_a_build_without_token_ids_or_speculation_counters_leaves_checks_undecided():
    faults = Faults(no_token_ids=True, no_spec_counters=True)
    found = judged("vllm", {"base": (BASE, faults), "spec": (SPEC, faults)})
    for check in ("usage_equals_ids", "conservation", "lever_live", "positions_alive", "lossless"):
        row = found[(found["check"] == check) & (found["arm"] == "spec")]
        assert len(row) and row["passed"].isna().all(), check
