"""An experiment's verdict as the findings that the ledger reads: names and forms change, figures do not."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from breakeven.publish.engine_version import engine_version

PREFILL = "prefill"
NOT_RUN = ("blocked",)
BASELINE_SPEED = "baseline_tok_s"
END_TO_END = "end-to-end time, worst required mix"


def document(
    verdict: Mapping[str, Any],
    experiment: Mapping[str, Any],
    facts: Mapping[str, Any],
    bring_up: Mapping[str, Any],
    host: Mapping[str, Any],
    settings: Mapping[str, Any],
    measured_at: float,
    evidence: Sequence[Mapping[str, str]],
) -> dict[str, Any]:
    """What the ledger files. `facts`: name -> value of the baseline's log, `bring_up`: the record of that launch;
    `host`: of a launch; `measured_at`: seconds since 1970; `evidence`: path and sha256 of tables. Unknown is left out:
    the ledger says "unknown".
    """
    filed = experiment.get("ledger", {})
    return {
        "experiment": experiment["name"],
        "date": datetime.fromtimestamp(measured_at, UTC).date().isoformat(),
        "lead": filed.get("lead"),
        "question": filed.get("question", experiment.get("question")),
        "engine": experiment["engine"],
        "engine_version": engine_version(facts, bring_up),
        "model": filed.get("model") or facts.get("model"),
        "quant": filed.get("quant") or facts.get("quant") or facts.get("quantization"),
        "hardware": settings.get("hardware") or host.get("cpu_model"),
        "findings": [_finding(one, verdict, experiment) for one in verdict["findings"]],
        "evidence": list(evidence),
    }


def _finding(
    one: Mapping[str, Any], verdict: Mapping[str, Any], experiment: Mapping[str, Any]
) -> dict[str, Any]:
    configuration = next((c for c in verdict["configurations"] if c["arm"] == one["arm"]), None)
    kind = PREFILL if one["arm"] is None else "failure" if one["ledger"] in NOT_RUN else "decode"
    worst = (configuration or {}).get("worst") or {}
    found: dict[str, Any] = {
        "kind": kind,
        "configuration": one["arm"],
        "metric": END_TO_END
        if kind == "decode"
        else "prefill rate per new token"
        if kind == PREFILL
        else None,
        "verdict": one["ledger"],
        "reason": (configuration or {}).get("reason") or "; ".join(one["evidence"]),
        "sentence": one["sentence"],
        "reopen": list(_conditions(one.get("reopen"))),
        "quantities": dict(_quantities(one, verdict)),
        "flags": ["demonstration"] if experiment.get("ledger", {}).get("demo") else [],
    }
    if worst.get("value") is not None:
        found["factor"] = worst["value"]
        found["quantities"]["end_to_end_ratio"] = worst["value"]
        if worst.get("low") is not None and worst.get("high") is not None:
            found |= {"interval": [worst["low"], worst["high"]], "level": 1 - verdict["look"]["alpha"]}
    return found


def _conditions(reopen: Mapping[str, Any] | None) -> Iterator[dict[str, Any]]:
    """`{"quantity": "b", "below": 0.89, "at_n": 1}` in the ledger's form; words alone where no bound is known."""
    if reopen is None:
        return
    if not reopen["conditions"]:
        yield {"words": reopen["words"]}
    for condition in reopen["conditions"]:
        op, key = ("<", "below") if condition["below"] is not None else (">", "above")
        bound = {"quantity": condition["quantity"], "op": op, "value": condition[key]}
        at_n = {} if condition["at_n"] is None else {"at_n": condition["at_n"]}
        yield bound | at_n | {"words": reopen["words"]}


def _quantities(one: Mapping[str, Any], verdict: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The figures of the shallowest cell, by the names that reopen conditions use."""
    if one["arm"] is None or not verdict["cells"]:
        return
    cell = min(verdict["cells"], key=lambda c: (c["depth"], c["prompt_class"]))
    named = [(name, (cell["fit"] or {}).get(name)) for name in ("a", "b")]
    for arm in cell["arms"]:
        if arm["arm"] == verdict["baseline"]:
            named.append((BASELINE_SPEED, arm["tok_s"]))
        if arm["arm"] == one["arm"]:
            named += [("cost", arm["cost"]), ("ceiling", arm["ceiling"])]
            named += [
                ("tokens_per_step", arm["acceptance"]["length"]),
                ("acceptance_rate", arm["acceptance"]["rate"]),
            ]
    for name, estimate in named:
        if estimate and estimate["value"] is not None:
            yield name, estimate["value"]
    yield "rounds", cell["rounds"] if isinstance(cell["rounds"], int) else len(cell["rounds"])
