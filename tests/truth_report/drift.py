"""A machine that gets slower while it is measured: arms one after the other are fooled, interleaved ones are not."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from breakeven.analysis.noise import unpaired
from truth_report.experiment import BASE, document, judged, launch, numbers, resolved
from truth_report.figure import Figure, section
from truth_report.fleet import fleet

from reference_server import Faults, Truth

ROUNDS, DRIFT, LAUNCH_SD = 5, 0.06, 0.003
RIVAL = "same"
ARMS: dict[str, int | str] = {BASE: 0, "base_again": BASE, RIVAL: 0}
TRUTH = Truth(t0_s=0.001, ttft_s=0.002, launch_noise_sd=LAUNCH_SD, prompt_tokens_details=True)
WORKLOAD = {"pp": 16, "tg": 97, "depths": [0], "reps": 1, "warmup": 1}


def run() -> dict[str, Any]:
    """The section: an arm that is the baseline under another name, measured in two orders."""
    arms, rounds = list(ARMS), range(1, ROUNDS + 1)
    turned = [(number, arms[(slot + number) % len(arms)]) for number in rounds for slot in range(len(arms))]
    rows = [
        _measured("interleaved rounds", turned),
        _measured("one arm after the other", [(number, arm) for arm in arms for number in rounds]),
    ]
    interleaved, blocked = rows
    return section(
        [
            Figure(
                f"interleaved rounds under {DRIFT:.0%} drift: an arm equal to the baseline",
                "no difference",
                f"ratio {interleaved['pipeline']['value']:.4f}, {interleaved['verdict']}",
                interleaved["verdict"] in ("tie", "inconclusive"),
            ),
            Figure(
                "arms one after the other: the pipeline does not compare them",
                "no factor",
                f"{blocked['pipeline']['reason']} (read by hand: {blocked['by_hand']['value']:.3f}, "
                f"{blocked['by_hand']['low']:.3f} to {blocked['by_hand']['high']:.3f})",
                blocked["verdict"] not in ("wins", "loses", "tie") and blocked["pipeline"]["value"] is None,
            ),
        ],
        rows=rows,
        drift=DRIFT,
        rounds=ROUNDS,
    )


def _measured(order: str, launches: Sequence[tuple[int, str]]) -> dict[str, Any]:
    spec = resolved(document("vllm", ARMS, WORKLOAD, "auto"), "drift")
    last = len(launches) - 1
    truths = [
        replace(TRUTH, t0_s=TRUTH.t0_s * (1 + DRIFT * i / last), launch=i) for i in range(len(launches))
    ]
    with fleet([("vllm", truth, Faults()) for truth in truths]) as urls:
        found = [
            launch(url, spec, arm, number, slot % len(ARMS))
            for slot, (url, (number, arm)) in enumerate(zip(urls, launches, strict=True))
        ]
    done = judged(found, spec, ROUNDS)
    rival = numbers(done.verdict, RIVAL)
    seconds = {arm: np.array(done.cells.loc[done.cells["arm"] == arm, "log_token_s"], float) for arm in ARMS}
    by_hand = unpaired(-seconds[RIVAL], -seconds[BASE], 0.05)
    return {
        "order": order,
        "by_hand": {"value": by_hand.value, "low": by_hand.low, "high": by_hand.high},
        "pipeline": rival["ratio"],
        "verdict": rival["verdict"]["verdict"],
        "sentence": rival["verdict"]["sentence"],
    }
