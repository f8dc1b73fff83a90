"""What the numbers do not say, and what was looked at and found not to be the cause."""

from collections.abc import Iterator, Sequence

import pandas as pd

from breakeven.publish.report.arms import findings
from breakeven.publish.report.numbers import counted, fixed, percent
from breakeven.publish.report.run import Run, place


def limitations(run: Run, missing_figures: Sequence[str] = ()) -> list[str]:
    """Everything on record that weakens a conclusion, each once; then the titles of figures that are left out."""
    found = list(dict.fromkeys(_limitations(run)))
    if missing_figures:
        found.append(f"Figures left out, as nothing that they show is known: {', '.join(missing_figures)}.")
    return found


def _limitations(run: Run) -> Iterator[str]:
    yield from (f"{text}." for text in run.verdict.get("limitations", []))
    yield from (f"{text}." for text in run.verdict.get("warnings", []))
    for arm in run.verdict["arms"]:
        if arm["rounds"] and arm["role"] != "baseline" and not arm["interleaved"]:
            yield f"{arm['arm']} was not launched in turn with the baseline: its figures carry no paired interval."
        if arm["rounds"] and len(arm["rounds"]) < run.verdict["look"]["rounds"]:
            yield (
                f"{arm['arm']} has {len(arm['rounds'])} of {run.verdict['look']['rounds']} rounds; "
                "incomplete rounds are left out for all arms."
            )
    for cell in run.verdict["cells"]:
        yield from (f"{place(cell)}: {text}." for text in cell["dropped"])
    opened: dict[str, list[str]] = {}
    for arm in run.verdict["arms"]:
        for gate in arm["gates"]:
            if gate["passed"] is None:
                opened.setdefault(str(gate.get("gate") or gate.get("name")), []).append(arm["arm"])
    if opened:
        said = "; ".join(f"{gate} ({', '.join(dict.fromkeys(arms))})" for gate, arms in opened.items())
        yield f"Not verified, as the logs do not say: {said}."
    unknown = dict.fromkeys(text for arm in run.arms.values() for text in arm.verify.get("unknown") or ())
    yield from (f"Not compared between arms: {text}." for text in unknown)
    missing = dict.fromkeys(
        text
        for arm in run.arms.values()
        for one in arm.launches.values()
        for text in one.get("telemetry_missing") or ()
    )
    yield from (f"Not recorded: {text}." for text in missing)
    yield from (f"The log says: {text}." for text in findings(run))


def ruled_out(run: Run) -> list[str]:
    """What was tested and not found; "not found" is said where a test cannot prove absence."""
    return list(_ruled_out(run))


def _ruled_out(run: Run) -> Iterator[str]:
    verdict = run.verdict
    gates = [gate for arm in verdict["arms"] for gate in arm["gates"]]
    passed = [gate for gate in gates if gate["passed"]]
    if passed and not any(gate["passed"] is False for gate in gates):
        names = dict.fromkeys(str(gate.get("gate") or gate.get("name")) for gate in passed)
        yield (
            f"An arm that silently is not what it claims to be: {counted(len(passed), 'gate')} passed "
            f"({', '.join(names)})."
        )
    results: dict[str, list[bool]] = {}
    for check, ok in zip(run.checks["check"], run.checks["passed"], strict=True):
        results.setdefault(str(check), []).append(not pd.isna(ok) and bool(ok))
    if clean := [name for name, own in results.items() if all(own)]:
        yield f"Faults of measurement, by checks that passed everywhere: {', '.join(clean)}."
    if calm := [depth for depth in verdict["prefill"] if depth["kind"] == "none"]:
        depths = ", ".join(str(depth["depth"]) for depth in calm)
        yield f"A prefill regression at depth {depths}: every arm is within {percent(calm[0]['margin'])}."
    steady = [one for one in verdict["drift"] if one["drift"]["flagged"] is False]
    if steady:
        yield (
            f"Drift of the machine: not found in {len(steady)} of {counted(len(verdict['drift']), 'cell')}, beyond "
            "noise and margin."
        )
    straight = [
        cell for cell in verdict["cells"] if cell["fit"] and cell["fit"]["lack_of_fit"]["rejected"] is False
    ]
    if straight:
        yield (
            f"A step cost that bends with N: not found in {len(straight)} of {counted(len(verdict['cells']), 'cell')}."
        )
    same = [cell["same_arm_p"] for cell in verdict["cells"] if cell["same_arm_p"] is not None]
    if same and not any("differs from its twin" in str(one["reason"]) for one in verdict["configurations"]):
        yield (
            f"A baseline that differs from itself: not found, launched twice a round (smallest p {fixed(min(same))} "
            f"of {counted(len(same), 'cell')}, judged together)."
        )
