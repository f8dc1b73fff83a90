"""A/A: the baseline against itself, launch after launch, through checks, analysis and verdict."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from scipy import stats

from breakeven.analysis.looks import FIXED_ALPHA, LOOKS
from breakeven.analysis.noise import same_arm_test
from truth_report.cores import on_cores
from truth_report.experiment import BASE, Launch, document, judged, launch, numbers, resolved
from truth_report.figure import Figure, section
from truth_report.fleet import fleet

from reference_server import Faults, Truth

TRIALS, ROUNDS, TWIN = 50, 3, "base_again"
AT_ONCE = 10
LAUNCH_SD = 0.013
"""Noise between launches of the published MI210 runs."""
WANTED = 0.95
NO_DIFFERENCE = ("tie", "inconclusive")
WORKLOAD = {"pp": 16, "tg": 33, "depths": [0], "reps": 1, "warmup": 1}
TRUTH = Truth(t0_s=0.0005, ttft_s=0.002, launch_noise_sd=LAUNCH_SD, prompt_tokens_details=True)


def _reached(share: float, high: float) -> bool | None:
    """Yes by what was seen, no where the interval excludes it; undecided in between, for more trials to tell."""
    return True if share >= WANTED else None if high >= WANTED else False


def run(trials: int = TRIALS) -> dict[str, Any]:
    """The section: a trial is six fresh launches, judged with the second arm as a twin and as a rival."""
    twin, rival = (
        resolved(document("vllm", {BASE: 0, TWIN: second}, WORKLOAD, "auto"), "same") for second in (BASE, 0)
    )
    measured = [
        launches
        for first in range(0, trials, AT_ONCE)
        for launches in _launches(twin, range(first, min(first + AT_ONCE, trials)))
    ]
    found = on_cores(_judged, [(launches, twin, rival) for launches in measured])
    p_values = [p for p, _ in found]
    verdicts = Counter(word for _, word in found)
    rows = [
        _row(f"A/A gate, first look of `rounds: auto` (alpha {LOOKS[ROUNDS]:g})", LOOKS[ROUNDS], p_values),
        _row(f"A/A gate, `rounds: {ROUNDS}` (alpha {FIXED_ALPHA:g})", FIXED_ALPHA, p_values),
    ]
    same = sum(verdicts[word] for word in NO_DIFFERENCE)
    rows.append(_counted("verdict on the baseline as an arm, first look of `rounds: auto`", same, trials))
    return section(
        [
            Figure(
                f'"no difference": {row["what"]}',
                f"at least {WANTED:.0%}",
                f"{row['same']} of {trials}, interval {row['low']:.0%} to {row['high']:.0%}",
                _reached(row["same"] / trials, row["high"]),
            )
            for row in rows
        ],
        trials=trials,
        launches=2 * ROUNDS * trials,
        launch_sd=LAUNCH_SD,
        verdicts=dict(verdicts),
    )


def _judged(given: tuple[list[Launch], Mapping[str, Any], Mapping[str, Any]]) -> tuple[float, str]:
    """(p of the gate with the second arm as a twin, verdict on it as a rival) of one trial."""
    launches, *specs = given
    as_twin, as_rival = (judged(launches, spec, ROUNDS, checked=False).verdict for spec in specs)
    return as_twin["cells"][0]["same_arm_p"], numbers(as_rival, TWIN)["verdict"]["verdict"]


def _row(what: str, alpha: float, p_values: Sequence[float]) -> dict[str, Any]:
    return _counted(what, sum(same_arm_test([p], alpha) for p in p_values), len(p_values))


def _counted(what: str, same: int, trials: int) -> dict[str, Any]:
    interval = stats.binomtest(same, trials).proportion_ci(0.95)
    return {"what": what, "same": same, "low": interval.low, "high": interval.high}


def _launches(spec: Mapping[str, Any], trials: range) -> list[list[Launch]]:
    """The launches of some trials; the twin is first in every other round."""
    order = [
        (number, slot, (BASE, TWIN)[(slot + number) % 2])
        for number in range(1, ROUNDS + 1)
        for slot in (0, 1)
    ]
    wanted = [
        (spec["engine"], replace(TRUTH, launch=1000 * trial + place), Faults())
        for trial in trials
        for place in range(len(order))
    ]
    with fleet(wanted) as urls:
        served = iter(urls)
        return [
            [launch(next(served), spec, arm, number, slot) for number, slot, arm in order] for _ in trials
        ]
