"""The stage between a launch and its measurement: is this arm what it claims to be, and the baseline's twin but for
the variable?
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from breakeven.engine.facts import Facts
from breakeven.engine.reader import read_facts
from breakeven.engine.registry import ENGINES
from breakeven.verify.consequences import facts_set_by
from breakeven.verify.difference import Difference
from breakeven.verify.differences import launch_drift, log_differences
from breakeven.verify.expectation import as_rules, holds
from breakeven.verify.gates import Gate, evaluate, passed
from breakeven.verify.one_variable import declared_names, one_variable

READY = "ready"
MOST_REASONS = 4


def verify(
    bring_up: Mapping[str, Any],
    log: Path,
    baseline_bring_up: Mapping[str, Any],
    baseline_log: Path,
    wanted: Mapping[str, Any],
    variable: Sequence[str],
    repeat_of: str | None = None,
) -> dict[str, Any]:
    """Read both logs and judge the arm; JSON data for verify.json.

    `bring_up` and `baseline_bring_up` are what bring_up wrote; the baseline is verified against itself when both
    logs are one file. `wanted` is the parsed `expect_key`, `variable` the experiment's. A twin (`repeat_of`) is given
    the launch of the arm that it repeats instead of the baseline's. Keys of the answer: passed, status (verified,
    refused, or bring_up's own when the server never became ready), reason, facts, gates, differences, findings,
    unknown (what the description of the arm could not tell), lever_live (whether the log shows that the variable
    changed anything; null for the baseline, a twin, a server that never became ready and one without a log).
    """
    engine = wanted["engine"]
    facts = _facts(log, engine)
    baseline = None if log == baseline_log else _facts(baseline_log, engine)
    gates: tuple[Gate, ...] = ()
    differences: tuple[Difference, ...] = ()
    faults = _not_ready(bring_up, baseline_bring_up if baseline is not None else None)
    compared = not faults and baseline is not None and not repeat_of
    if not faults:
        described = bring_up.get("described") or {}
        if baseline is not None:
            differences = _differences(
                facts,
                baseline,
                described,
                baseline_bring_up.get("described") or {},
                wanted,
                variable,
                repeat_of,
            )
        gates = evaluate(
            facts,
            wanted,
            baseline,
            bring_up.get("evidence") or {},
            bring_up.get("smoke"),
            facts_set_by(_variables(differences, variable)),
        )
        faults = [gate.reason for gate in gates if gate.blocks] + [d.message for d in differences if d.blocks]
        if compared and not _is_live(differences):
            faults.append(
                "this arm differs from the baseline in nothing: the variable "
                f"({', '.join(variable)}) is not set in it; correct the arm, or write `repeat_of`"
            )
    status = str(bring_up.get("status"))
    if status == READY:
        status = "refused" if faults else "verified"
    document = facts.to_json()
    return {
        "passed": not faults and passed(gates),
        "status": status,
        "reason": _said(faults),
        "facts": document,
        "findings": document["findings"],
        "gates": [gate.to_json() for gate in gates],
        "differences": [difference.to_json() for difference in differences],
        "lever_live": _lever_live(facts, differences) if compared else None,
        "unknown": list((bring_up.get("described") or {}).get("unknown", [])),
    }


def _facts(log: Path, engine: str) -> Facts:
    return read_facts(log, engine) if log.is_file() else Facts(engine)


def _not_ready(bring_up: Mapping[str, Any], baseline: Mapping[str, Any] | None) -> list[str]:
    """Why there is nothing to verify."""
    if bring_up.get("status") != READY:
        return [
            str(bring_up.get("reason") or f"bring_up ended as {bring_up.get('status')!r} without a reason")
        ]
    if baseline is not None and baseline.get("status") != READY:
        return [
            f"there is nothing to compare this arm with: the baseline did not start: {baseline.get('reason')}"
        ]
    return []


def _differences(
    facts: Facts,
    baseline: Facts,
    described: Mapping[str, Any],
    baseline_described: Mapping[str, Any],
    wanted: Mapping[str, Any],
    variable: Collection[str],
    repeat_of: str | None,
) -> tuple[Difference, ...]:
    """Differences of what was started, then of what the logs say. A twin may show none at all."""
    instrumentation = ENGINES[wanted["engine"]].instrumentation
    started = one_variable(described, baseline_described, () if repeat_of else variable, instrumentation)
    if repeat_of:
        return (*started, *launch_drift(baseline, facts))
    expect = {name: as_rules(expectation) for name, expectation in wanted.get("expect", {}).items()}
    met = [name for name, rules in expect.items() if "equals" in rules and holds(rules, facts.get(name))]
    return (
        *started,
        *log_differences(
            facts, baseline, wanted.get("strict", ()), facts_set_by(_variables(started, variable)), met
        ),
    )


def _variables(differences: Collection[Difference], variable: Collection[str]) -> Collection[str]:
    """What the variable really changed; where the command lines are not known, what it may have changed."""
    known = not any(d.meaning == "unverified" and d.about == "flag" for d in differences)
    return declared_names(differences) if known else variable


def _is_live(differences: Collection[Difference]) -> bool:
    return any(d.meaning in ("declared", "unverified", "consequence") for d in differences)


def _lever_live(facts: Facts, differences: Collection[Difference]) -> bool | None:
    if not facts.facts:
        return None
    return any(d.about == "fact" for d in differences)


def _said(faults: Sequence[str]) -> str | None:
    if not faults:
        return None
    more = f"; and {len(faults) - MOST_REASONS} more" if len(faults) > MOST_REASONS else ""
    return "; ".join(faults[:MOST_REASONS]) + more
