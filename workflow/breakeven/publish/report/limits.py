"""What the numbers do not say, and what was looked at and found not to be the cause."""

from collections.abc import Iterator

from breakeven.publish.report.answer import place
from breakeven.publish.report.arms import findings
from breakeven.publish.report.numbers import fixed, percent
from breakeven.publish.report.run import Run


def limitations(run: Run) -> list[str]:
    """Everything on record that weakens a conclusion, each once."""
    return list(dict.fromkeys(_limitations(run)))


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
    opened: dict[str, list[str]] = {}
    for arm in run.verdict["arms"]:
        for gate in arm["gates"]:
            if gate["passed"] is None:
                opened.setdefault(str(gate.get("gate") or gate.get("name")), []).append(arm["arm"])
    if opened:
        yield f"Not verified, as the logs do not say: {'; '.join(f'{gate} ({_arms(arms)})' for gate, arms in opened.items())}."
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
    """What was tested and found not to be so."""
    return list(_ruled_out(run))


def _ruled_out(run: Run) -> Iterator[str]:
    gates = [gate for arm in run.verdict["arms"] for gate in arm["gates"]]
    passed = [gate for gate in gates if gate["passed"]]
    if passed and not any(gate["passed"] is False for gate in gates):
        names = dict.fromkeys(str(gate.get("gate") or gate.get("name")) for gate in passed)
        yield f"An arm that silently is not what it claims to be: {len(passed)} gates passed ({', '.join(names)})."
    steady = [one for one in run.verdict["drift"] if one["drift"]["flagged"] is False]
    if steady:
        yield f"Drift of the machine: none beyond noise and margin in {len(steady)} of {len(run.verdict['drift'])} cells."
    calm = [depth for depth in run.verdict["prefill"] if depth["kind"] == "none"]
    if calm:
        depths = ", ".join(str(depth["depth"]) for depth in calm)
        yield f"A prefill regression at depth {depths}: every arm is within {percent(calm[0]['margin'])} of the baseline."
    straight = [
        cell
        for cell in run.verdict["cells"]
        if cell["fit"] and cell["fit"]["lack_of_fit"]["rejected"] is False
    ]
    if straight:
        where = "; ".join(place(cell) for cell in straight)
        yield f"A step cost that surely bends with N: not shown at {where} (which does not prove a straight line)."
    same = [cell["same_arm_p"] for cell in run.verdict["cells"] if cell["same_arm_p"] is not None]
    objected = any("differs from its twin" in str(one["reason"]) for one in run.verdict["configurations"])
    if same and not objected:
        yield (
            f"A baseline that differs from itself: launched twice a round, smallest p {fixed(min(same), 3)} "
            f"of {len(same)} cells."
        )
    counted: dict[str, list[bool]] = {}
    for row in run.checks[["check", "passed"]].itertuples():
        counted.setdefault(str(row.check), []).append(
            row.passed is True or bool(row.passed is not None and row.passed == 1)
        )
    clean = [name for name, results in counted.items() if all(results)]
    if clean:
        yield f"Faults of the measurement, by checks that passed everywhere: {', '.join(clean)}."


def _arms(names: list[str]) -> str:
    return ", ".join(dict.fromkeys(names))
