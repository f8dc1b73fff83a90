"""Every check against faults that a real server really has: which fire, and which are silent on a sound one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from breakeven.analysis.checks import REGISTRY
from breakeven.engine.base import Sampling
from breakeven.engine.registry import ENGINES
from breakeven.measure.client import open_client, record
from truth_report.experiment import BASE, READ_TIMEOUT_S, Launch, check, document, launch, resolved
from truth_report.figure import Figure, section
from truth_report.fleet import fleet

from reference_server import Faults, Truth
from reference_server.faults import NO_FAULTS

WORKLOAD = {
    "pp": 40,
    "tg": 48,
    "depths": [0, 512],
    "reps": 1,
    "warmup": 1,
    "prompts": {"natural": {"count": 2}},
}
SOUND = Truth(t0_s=0.002, ttft_s=0.004, prompt_tokens_details=True, drop_last_block=False)
ARMS = {BASE: 0, "n1": 1, "n3": 3}
STEP_BYTES, BANDWIDTH_GB_S, CONTEXT = 1e9, 600.0, 4096
SMALL = ("enough_prompts", "enough_tokens")
"""Checks that say that this workload is small, which it is: they fire on every server here, as they should."""


@dataclass(frozen=True)
class Case:
    """A fault of one arm's server, and the checks that must fire on it. `arms`: other draft lengths than ARMS."""

    fault: str
    fires: tuple[str, ...]
    engine: str = "vllm"
    arm: str = "n3"
    truth: Mapping[str, Any] = field(default_factory=dict)
    faults: Faults = NO_FAULTS
    launched: Callable[[str, Mapping[str, Any], str], Launch] | None = None


def _replayed(url: str, spec: Mapping[str, Any], arm: str) -> Launch:
    """The same prompts a second time: a server that was not restarted, or a fixed seed."""
    launch(url, spec, arm)
    return launch(url, spec, arm)


def _other_prompts(url: str, spec: Mapping[str, Any], arm: str) -> Launch:
    return launch(url, spec, arm, seed=spec["seed"] + 1)


def _with_an_intruder(url: str, spec: Mapping[str, Any], arm: str) -> Launch:
    def intrude(url: str) -> None:
        with open_client(url, READ_TIMEOUT_S) as http:
            record(http, ENGINES[spec["engine"]].completion(range(10, 40), 8, Sampling()))

    return launch(url, spec, arm, between=intrude)


CASES = (
    Case(
        "3 tokens too many in usage",
        ("usage_equals_ids", "counters_equal_usage"),
        faults=Faults(wrong_usage=3),
    ),
    Case("another request inside ours", ("alone_inside", "conservation"), faults=Faults(other_traffic=20)),
    Case(
        "another request inside ours",
        ("timings_equal_counters", "drafts_add_up"),
        "llamacpp",
        faults=Faults(other_traffic=20),
    ),
    Case("another request between ours", ("alone_between",), launched=_with_an_intruder),
    Case("counters start again from 0", ("counters_only_rise",), faults=Faults(counter_reset_after=9)),
    Case(
        "ends after 20 tokens, whatever is asked",
        ("runs_full_length",),
        "llamacpp",
        faults=Faults(stops_early=20),
    ),
    Case("one request fails with status 500", ("requests_answered",), faults=Faults(http_500=1)),
    Case("streams break off", ("requests_answered",), faults=Faults(truncates_after_tokens=20)),
    Case("first event with 4 tokens", ("first_event",), truth={"first_event_tokens": 4}),
    Case("events joined and split", ("steps_match_events",), truth={"tokens_per_event": 7}),
    Case(
        "own timings 50 % too long",
        ("client_matches_server", "requests_disturbed"),
        "llamacpp",
        faults=Faults(wrong_timings=1.5),
    ),
    Case(
        "heat slows the steps of a request",
        ("halves_alike",),
        arm=BASE,
        truth={"heat_per_s": 8.0, "cooling_s": 0.005},
    ),
    Case(
        "deeper context decodes faster",
        ("not_faster_deeper",),
        truth={"t0_s": 0.003, "t0_per_context_token_s": -2e-6},
    ),
    Case("a verify step cheaper than a plain one", ("step_not_cheaper",), truth={"a": 0.6, "b": 0.0}),
    Case("faster than the memory delivers", ("within_bandwidth",), arm=BASE, truth={"t0_s": 0.001}),
    Case("drafts with another N than asked for", ("draft_length",), faults=Faults(effective_n=1)),
    Case("drafts with another N than asked for", ("lever_live",), "llamacpp", faults=Faults(effective_n=1)),
    Case("claims to draft and does not", ("drafts_when_asked",), faults=Faults(effective_n=0)),
    Case("position 1 never accepted", ("positions_alive",), faults=Faults(dead_from_position=1)),
    Case("position 1 hardly accepted", ("positions_steady",), truth={"acceptance": (0.9, 0.1, 0.9)}),
    Case("no prefix cache", ("depth_cached",), arm=BASE, truth={"prefix_cache": False}),
    Case("last cache block given up", ("computed_equal",), truth={"drop_last_block": True, "block": 64}),
    Case("prompts come from the cache", ("new_tokens_computed",), arm=BASE, launched=_replayed),
    Case("other prompts than the baseline", ("same_prompts",), launched=_other_prompts),
    Case("two data-parallel engines", ("one_engine",), truth={"engines": 2}),
    Case("text differs from token 10 on", ("lossless",), "llamacpp", faults=Faults(diverges_at=10)),
    Case("text repeats 8 tokens for ever", ("not_looping",), faults=Faults(loops_after=8)),
    Case("text ends at token 20", ("not_past_the_end",), truth={"natural_tokens": 20}),
)


def run() -> dict[str, Any]:
    """The section."""
    specs = {
        engine: resolved(document(engine, ARMS, WORKLOAD, 1), "checks") | {"bandwidth_gb_s": BANDWIDTH_GB_S}
        for engine in ENGINES
        if engine in {case.engine for case in CASES}
    }
    sound = {engine: _sound(spec) for engine, spec in specs.items()}
    fired = {engine: _fired(list(launches.values()), specs[engine]) for engine, launches in sound.items()}
    rows = [_row(case, _with_fault(case, specs[case.engine], sound[case.engine]), fired) for case in CASES]
    silent = sorted({name for found in fired.values() for name in found} - set(SMALL))
    shown = {name for case in CASES for name in case.fires}
    missed = [row for row in rows if row["missed"]]
    return section(
        [
            Figure(
                f"checks fire on their faults ({len(CASES)} faults, {len(shown)} of {len(REGISTRY)} checks)",
                "every one",
                "all"
                if not missed
                else ", ".join(f'{name} on "{row["fault"]}"' for row in missed for name in row["missed"]),
                not missed,
            ),
            Figure(
                "and are silent on a sound server",
                "none fires",
                ", ".join(silent) or "silent",
                not silent,
            ),
        ],
        rows=rows,
        checks=[
            {
                "check": one.name,
                "severity": one.severity,
                "fault": next((case.fault for case in CASES if one.name in case.fires), None),
                "silent": {engine: one.name not in found for engine, found in fired.items()},
            }
            for one in REGISTRY
        ],
        small=SMALL,
    )


def _sound(spec: Mapping[str, Any]) -> dict[str, Launch]:
    truths = {arm: replace(SOUND, n=n) for arm, n in ARMS.items()}
    with fleet([(spec["engine"], truth, Faults()) for truth in truths.values()]) as urls:
        return {
            arm: launch(url, spec, arm, slot=slot)
            for slot, (arm, url) in enumerate(zip(truths, urls, strict=True))
        }


def _with_fault(case: Case, spec: Mapping[str, Any], sound: Mapping[str, Launch]) -> set[str]:
    """Checks that fire when this arm's launch has the fault and the others are sound."""
    truth = replace(SOUND, n=ARMS[case.arm], **case.truth)
    with fleet([(case.engine, truth, case.faults)]) as (url,):
        faulty = (case.launched or launch)(url, spec, case.arm)
    slot = sound[case.arm].slot
    return _fired([*(one for arm, one in sound.items() if arm != case.arm), replace(faulty, slot=slot)], spec)


def _fired(launches: list[Launch], spec: Mapping[str, Any]) -> set[str]:
    rows = check(launches, spec, dict.fromkeys(ARMS, STEP_BYTES), CONTEXT)
    return {row["check"] for row in rows if row["passed"] is False}


def _row(case: Case, found: set[str], fired: Mapping[str, set[str]]) -> dict[str, Any]:
    return {
        "fault": case.fault,
        "engine": case.engine,
        "arm": case.arm,
        "fires": case.fires,
        "missed": [name for name in case.fires if name not in found],
        "also": sorted(found - set(case.fires) - fired[case.engine]),
    }
