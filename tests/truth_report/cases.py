"""Every check with what makes it fire: the one list of faults, for the truth report and for the tests.

A case changes one thing of a sound experiment. Most are faults that a reference server really has. What no server
can do wrong (a device's clocks, a limit that was read elsewhere) is altered in the tables of a sound launch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

from breakeven.engine.base import Sampling
from breakeven.engine.registry import ENGINES
from breakeven.measure.client import open_client, record
from truth_report.experiment import BASE, READ_TIMEOUT_S, Launch, Tables, launch
from truth_report.fleet import Wanted
from truth_report.scenes import SCENES, SMALL, Place

from reference_server import Faults, Truth
from reference_server.faults import NO_FAULTS
from reference_server.vocabulary import WORDS

How = Literal["server", "machine", "workload", "altered table"]
Launching = Callable[[str, Mapping[str, Any], Place], Launch]
Altering = Callable[[Tables], Tables]


def plainly(url: str, spec: Mapping[str, Any], place: Place, **how: Any) -> Launch:
    """A launch with nothing peculiar about it; `how`: as `launch` takes it."""
    return launch(url, spec, place.arm, place.round, place.slot, **how)


def _as_fast(place: Place) -> float:
    return 0.0


@dataclass(frozen=True)
class Case:
    """A fault, and the checks that must fire on it.

    `arm`: whose launches have it, None for all. `truth` and `faults`: what differs in its servers. `slower`: by how
    much the machine is slower at a place. `launching`: another way to measure. `altering`: sound tables changed.
    """

    fault: str
    fires: tuple[str, ...]
    engine: str = "vllm"
    arm: str | None = "n3"
    scene: str = "requests"
    truth: Mapping[str, Any] = field(default_factory=dict)
    faults: Faults = NO_FAULTS
    slower: Callable[[Place], float] = _as_fast
    launching: Launching = plainly
    altering: Altering | None = None
    how: How = "server"

    def touches(self, place: Place) -> bool:
        """Whether this launch has the fault; otherwise it is a sound one."""
        return self.how in ("server", "machine") and self.arm in (None, place.arm)

    def servers(self) -> list[Wanted]:
        """The servers of the launches that have the fault."""
        faulty = [place for place in SCENES[self.scene].places() if self.touches(place)]
        return [(self.engine, self._truth_at(place), self.faults) for place in faulty]

    def _truth_at(self, place: Place) -> Truth:
        truth = replace(SCENES[self.scene].truth_at(place), **self.truth)
        return replace(truth, t0_s=truth.t0_s * (1 + self.slower(place)))


def _replayed(url: str, spec: Mapping[str, Any], place: Place) -> Launch:
    """The same prompts a second time: a server that was not restarted, or a fixed seed."""
    plainly(url, spec, place)
    return plainly(url, spec, place)


def _other_prompts(url: str, spec: Mapping[str, Any], place: Place) -> Launch:
    return plainly(url, spec, place, seed=spec["seed"] + 1)


def _with_an_intruder(url: str, spec: Mapping[str, Any], place: Place) -> Launch:
    def intrude(url: str) -> None:
        with open_client(url, READ_TIMEOUT_S) as http:
            record(http, ENGINES[spec["engine"]].completion(range(10, 40), 8, Sampling()))

    return plainly(url, spec, place, between=intrude)


def _first_slot(place: Place) -> float:
    return 0.3 * (place.slot == 0)


def _drift(place: Place) -> float:
    return 0.2 * place.since


def _launch_column(seen: Tables, *, name: str, value: float) -> Tables:
    """A fact of arm n3's launches changed."""
    launches = seen.launches.copy()
    launches.loc[launches["arm"] == "n3", name] = value
    return replace(seen, launches=launches)


def _reading(seen: Tables, *, quantity: str, value: float) -> Tables:
    """A reading changed in arm n3's launches."""
    telemetry = seen.telemetry.copy()
    telemetry.loc[(telemetry["arm"] == "n3") & (telemetry["quantity"] == quantity), "value"] = value
    return replace(seen, telemetry=telemetry)


def _altered(fault: str, fires: str, altering: Callable[..., Tables], **what: Any) -> Case:
    return Case(fault, (fires,), scene="text", altering=partial(altering, **what), how="altered table")


CASES = (
    Case(
        "3 tokens too many in usage",
        ("usage_equals_ids", "counters_equal_usage"),
        faults=Faults(wrong_usage=3),
        launching=partial(plainly, first=1),  # for each the client waits long that the counters catch up
    ),
    Case("another request inside ours", ("alone_inside", "conservation"), faults=Faults(other_traffic=20)),
    Case(
        "another request inside ours",
        ("timings_equal_counters", "drafts_add_up"),
        "llamacpp",
        faults=Faults(other_traffic=20),
    ),
    Case("another request between ours", ("alone_between",), launching=_with_an_intruder),
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
        truth={"heat_per_s": 16.0, "cooling_s": 0.005},
    ),
    Case(
        "deeper context decodes faster",
        ("not_faster_deeper",),
        truth={"t0_s": 0.003, "t0_per_context_token_s": -2e-6},
    ),
    Case("a verify step cheaper than a plain one", ("step_not_cheaper",), truth={"a": 0.6, "b": 0.0}),
    Case("faster than the memory delivers", ("within_bandwidth",), arm=BASE, truth={"t0_s": 0.001}),
    Case("prompts cut to 256 tokens", ("prompt_as_planned",), faults=Faults(prompt_limit=256)),
    Case("other prompts than the baseline", ("same_prompts",), launching=_other_prompts),
    Case("prompts come from the cache", ("new_tokens_computed",), arm=BASE, launching=_replayed),
    Case("no prefix cache", ("depth_cached",), arm=BASE, truth={"prefix_cache": False}),
    Case("last cache block given up", ("computed_equal",), truth={"drop_last_block": True, "block": 64}),
    Case("claims to draft and does not", ("drafts_when_asked",), faults=Faults(effective_n=0)),
    Case("drafts with another N than asked for", ("draft_length",), faults=Faults(effective_n=1)),
    Case("drafts with another N than asked for", ("lever_live",), "llamacpp", faults=Faults(effective_n=1)),
    Case("position 1 never accepted", ("positions_alive",), faults=Faults(dead_from_position=1)),
    Case("position 1 hardly accepted", ("positions_steady",), truth={"acceptance": (0.9, 0.1, 0.9)}),
    Case("text differs from token 10 on", ("lossless",), "llamacpp", faults=Faults(diverges_at=10)),
    Case("text repeats 8 tokens for ever", ("not_looping",), faults=Faults(loops_after=8)),
    Case("text ends at token 20", ("not_past_the_end",), truth={"natural_tokens": 20}),
    Case("text of words that do not come again", ("not_noise",), scene="text", truth={"words": WORDS}),
    Case("two data-parallel engines", ("one_engine",), truth={"engines": 2}),
    Case(
        "n-gram drafter remembers earlier answers",
        ("drafter_forgets",),
        "llamacpp",
        "ngram",
        "rounds",
        faults=Faults(remembers=True),
    ),
    Case(
        "first measured request takes 8 times as long",
        ("first_request_warm",),
        "llamacpp",
        scene="rounds",
        faults=Faults(cold_requests=3, cold=8.0),
    ),
    Case(
        "first measured request takes 3 times as long",
        ("settled",),
        "llamacpp",
        scene="rounds",
        faults=Faults(cold_requests=3, cold=3.0),
    ),
    Case(
        "first launch of a round 30 % slower",
        ("first_slot",),
        "llamacpp",
        None,
        "rounds",
        slower=_first_slot,
        how="machine",
    ),
    Case(
        "20 % slower in the end",
        ("baseline_drift",),
        "llamacpp",
        None,
        "rounds",
        slower=_drift,
        how="machine",
    ),
    Case("3 prompts, 48 tokens a request", SMALL, how="workload"),
    _altered("context of 128 tokens", "within_context", _launch_column, name="n_ctx", value=128),
    _altered("4 compile lines in the log", "compiled_before", _launch_column, name="late_compiles", value=4),
    _altered("throttle bit set", "not_throttled", _reading, quantity="throttle_power", value=1),
    _altered("clock of 1500 MHz", "clocks_equal", _reading, quantity="gpu_clock_mhz", value=1500),
    _altered("85 degrees", "temperature_equal", _reading, quantity="temperature_junction_c", value=85),
    _altered("power cap of 250 W", "power_cap_equal", _reading, quantity="power_cap_w", value=250),
    _altered("a busy process", "machine_quiet", _reading, quantity="other_busy_processes", value=1),
)
