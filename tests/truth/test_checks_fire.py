"""Checks against a real HTTP server whose faults are known: each fires on its fault, none on a sound server.

Only what counts decide is asked of faults here: checks on clocks depend on the machine that runs the tests, and are
shown in the truth report, which has the same list of cases.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from breakeven.analysis.checks import REGISTRY
from truth_report.cases import CASES, Case
from truth_report.checks import failed, judged, launched
from truth_report.experiment import BASE, Launch, check, launch
from truth_report.fleet import fleet
from truth_report.scenes import REQUESTS, SCENES, seen, sound, spec_of, step_bytes

from reference_server import Faults, Truth

ON_CLOCKS = {
    "client_matches_server", "requests_disturbed", "not_faster_deeper", "step_not_cheaper", "halves_alike",
    "within_bandwidth", "first_slot", "baseline_drift", "first_request_warm", "settled",
}  # fmt: skip
JOINED = {"steps_match_events", "first_event"}
"""And those that a late wake-up of the client can make fire on a sound server: events arrive together."""
COUNTED = [case for case in CASES if case.scene == "requests" and not ON_CLOCKS & set(case.fires)]
"""Cases of small requests; those of many requests or launches are shown in the report."""


@cache
def spec(engine: str) -> dict[str, Any]:
    return spec_of("requests", engine)


@cache
def sound_launches(engine: str) -> list[Launch]:
    return sound("requests", engine, spec(engine))


def launches(engine: str, truth: Truth, faults: Faults) -> list[Launch]:
    """The scene's launches on servers that are all like this one, but for their draft lengths."""
    places = REQUESTS.places()
    wanted = [(engine, replace(truth, n=REQUESTS.truth_at(place).n), faults) for place in places]
    with fleet(wanted) as urls:
        return [
            launch(url, spec(engine), place.arm, place.round, place.slot)
            for url, place in zip(urls, places, strict=True)
        ]


def rows(given: list[Launch], experiment: dict[str, Any]) -> list[dict[str, Any]]:
    return check(seen(given, experiment), experiment, step_bytes("requests"))


@pytest.mark.parametrize("engine", REQUESTS.engines)
@pytest.mark.parametrize("gate", [1.0, 0.5])
def test_a_sound_server_fails_no_check_that_counts_decide(engine, gate):
    arms = {arm: keys | {"gated": gate < 1 and arm != BASE} for arm, keys in spec(engine)["arms"].items()}
    given = launches(engine, replace(REQUESTS.truth, gate=gate), Faults())
    found = rows(given, spec(engine) | {"arms": arms})
    assert failed(found) <= ON_CLOCKS | JOINED | set(REQUESTS.small)


@pytest.mark.parametrize("case", COUNTED, ids=lambda case: f"{case.engine}: {case.fault}")
def test_a_check_fires_on_its_fault(case: Case):
    engine = case.engine
    with fleet(case.servers()) as urls:
        given = launched(case, iter(urls), spec(engine), sound_launches(engine))
    wanted = [one for one in REGISTRY if one.name in case.fires]
    assert failed(judged(case, given, spec(engine), wanted)) == set(case.fires)


def test_every_check_has_a_case_and_every_case_a_check():
    assert {name for case in CASES for name in case.fires} == {one.name for one in REGISTRY}
    assert all(case.scene in SCENES and case.engine in SCENES[case.scene].engines for case in CASES)


def test_a_build_without_token_ids_or_speculation_counters_leaves_checks_undecided():
    older = Faults(no_token_ids=True, no_spec_counters=True)
    found = rows(launches("vllm", REQUESTS.truth, older), spec("vllm"))
    for name in ("usage_equals_ids", "conservation", "lever_live", "positions_alive", "lossless"):
        own = [row["passed"] for row in found if row["check"] == name and row["arm"] == "n3"]
        assert own and set(own) == {None}, name
