"""Every check on its fault: which fire, and which pass where there is none."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from breakeven.analysis.checks import REGISTRY
from breakeven.analysis.checks.check import Check
from truth_report.cases import CASES, Case
from truth_report.cores import on_cores
from truth_report.experiment import Launch, check
from truth_report.figure import Figure, section
from truth_report.fleet import fleet
from truth_report.scenes import SCENES, seen, sound, spec_of, step_bytes

Rows = list[dict[str, Any]]
Spec = Mapping[str, Any]
Key = tuple[str, str]
"""A scene and the engine that it is played in."""


def run() -> dict[str, Any]:
    """The section: sound servers one at a time, then all faults, whose times are not looked at closely."""
    keys = [(name, engine) for name, scene in SCENES.items() for engine in scene.engines]
    specs = {key: spec_of(*key) for key in keys}
    launches = {key: sound(*key, specs[key]) for key in keys}
    found = on_cores(_of_sound, [(key, specs[key], launches[key]) for key in keys])
    quiet = dict(zip(keys, found, strict=True))
    with fleet([server for case in CASES for server in case.servers()]) as urls:
        served = iter(urls)
        todo = []
        for number, case in enumerate(CASES):
            key, own = (case.scene, case.engine), [next(served) for _ in case.servers()]
            todo.append((number, own, specs[key], launches[key]))
        fired = on_cores(_fired_on, todo)
    rows = [
        _row(case, found, failed(quiet[case.scene, case.engine]))
        for case, found in zip(CASES, fired, strict=True)
    ]
    every = [_every(one, quiet) for one in REGISTRY]
    missed = [f'{name} on "{row["fault"]}"' for row in rows for name in row["missed"]]
    without = [row["check"] for row in every if row["fault"] is None]
    loud = [row["check"] for row in every if not row["silent"]]
    return section(
        [
            Figure(
                f"checks fire on their faults ({len(CASES)} faults)",
                f"{len(REGISTRY)} of {len(REGISTRY)} checks",
                _count(without) + (f"; silent: {', '.join(missed)}" if missed else ""),
                not missed and not without,
            ),
            Figure(
                "and pass on sound servers, where none fires",
                f"{len(REGISTRY)} of {len(REGISTRY)} checks",
                _count(loud),
                not loud,
            ),
        ],
        rows=rows,
        checks=every,
    )


def launched(case: Case, urls: Iterator[str], spec: Spec, sound_ones: Iterable[Launch]) -> list[Launch]:
    """The scene's launches: those with the fault measured on the servers at `urls`, the others as they are."""
    places = SCENES[case.scene].places()
    return [
        case.launching(next(urls), spec, place) if case.touches(place) else one
        for place, one in zip(places, sound_ones, strict=True)
    ]


def judged(case: Case, launches: list[Launch], spec: Spec, registry: Iterable[Check] = REGISTRY) -> Rows:
    """What checks say of a case's launches."""
    tables = seen(launches, spec)
    return check(case.altering(tables) if case.altering else tables, spec, step_bytes(case.scene), registry)


def failed(rows: Rows) -> set[str]:
    """Checks that fire somewhere."""
    return {row["check"] for row in rows if row["passed"] is False}


def _fired_on(given: tuple[int, list[str], Spec, list[Launch]]) -> set[str]:
    number, urls, spec, sound_ones = given
    case = CASES[number]
    return failed(judged(case, launched(case, iter(urls), spec, sound_ones), spec))


def _of_sound(given: tuple[Key, Spec, list[Launch]]) -> Rows:
    (name, _), spec, launches = given
    return check(seen(launches, spec), spec, step_bytes(name))


def _row(case: Case, found: set[str], without: set[str]) -> dict[str, Any]:
    return {
        "fault": case.fault,
        "how": case.how,
        "engine": case.engine,
        "arm": case.arm or "all",
        "fires": case.fires,
        "missed": [name for name in case.fires if name not in found],
        "also": sorted(found - set(case.fires) - without),
    }


def _every(one: Check, quiet: Mapping[Key, Rows]) -> dict[str, Any]:
    """A check with its first fault, and whether it passes on a sound server and fires on none that is large enough."""
    case = next((case for case in CASES if one.name in case.fires), None)
    own = [
        row["passed"]
        for (name, _), rows in quiet.items()
        for row in rows
        if row["check"] == one.name and one.name not in SCENES[name].small
    ]
    return {
        "check": one.name,
        "severity": one.severity,
        "fault": case and case.fault,
        "how": case and case.how,
        "silent": True in own and False not in own,
    }


def _count(without: list[str]) -> str:
    count = f"{len(REGISTRY) - len(without)} of {len(REGISTRY)}"
    return f"{count}, without {', '.join(without)}" if without else count
