"""Every stored log gated again: an expectation may have changed since a launch was measured, and every launch must be
the arm that was verified.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from breakeven.config import expect_key
from breakeven.engine.facts import Facts
from breakeven.files import read_json
from breakeven.tables import OK
from breakeven.verify.differences import launch_drift
from breakeven.verify.gates import evaluate

Logs = Mapping[tuple[str, int], Facts]
"""Facts of a launch's own log, by arm and round."""


def gates_of(
    folder: Path, experiment: Mapping[str, Any], launches: pd.DataFrame, logs: Logs
) -> dict[str, Any]:
    """Status of each arm, and the gates of its verification and of every log that a measured launch left."""
    statuses, gates = {}, {}
    verified = {name: read_json(folder / name / "verify.json") for name in experiment["arms"]}
    for name, arm in experiment["arms"].items():
        own = launches[launches["arm"] == name]
        ran = own[own["status"] == OK]
        failed = own[own["status"] != OK]
        if len(ran):
            statuses[name] = {"status": OK, "reason": None}
        else:
            first = failed.iloc[0]
            statuses[name] = {"status": first["status"], "reason": first["reason"]}
        reference = arm["repeat_of"] or experiment["baseline"]
        known = None if name == reference else Facts.from_json(verified[reference]["facts"])
        gates[name] = [*verified[name]["gates"], *_differences(verified[name])]
        for number in ran["round"]:
            launch = folder / name / str(number)
            gates[name] += _gated_again(launch, logs[name, number], verified[name], known, experiment, name)
    return {"statuses": statuses, "gates": gates}


def _differences(verified: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What verification found against the arm beside its gates, as gates."""
    if verified.get("lever_live") is False:
        yield {
            "name": "lever live",
            "fact": "lever_live",
            "passed": False,
            "severity": "block",
            "reason": "the variable is set, but nothing in the log differs from the baseline: it is not live here",
        }
    for difference in verified["differences"]:
        if difference["blocks"]:
            yield {
                "name": f"one variable: {difference['name']}",
                "fact": difference["name"],
                "passed": False,
                "severity": "block",
                "reason": difference["message"],
            }


def _gated_again(
    launch: Path,
    facts: Facts,
    verified: Mapping[str, Any],
    known: Facts | None,
    experiment: Mapping[str, Any],
    arm: str,
) -> Iterator[dict[str, Any]]:
    """Gates that a launch's own log fails, and facts in which it is not the launch that was verified."""
    record = read_json(launch / "launch.json")
    wanted = json.loads(expect_key(experiment, arm))
    for gate in evaluate(facts, wanted, known, record["evidence"]):
        if gate.passed is False:
            yield gate.to_json() | {"name": f"round {launch.name}: {gate.name}"}
    for drift in launch_drift(Facts.from_json(verified["facts"]), facts):
        if drift.blocks:
            yield {
                "name": f"round {launch.name}: same as verified",
                "fact": drift.name,
                "passed": False,
                "severity": "block",
                "reason": drift.message,
            }
