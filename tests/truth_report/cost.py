"""a, b and acceptance recovered in both dialects: launches with noise -> cells -> checks -> fit -> verdict."""

from dataclasses import replace
from typing import Any

from truth_report.experiment import BASE, DIALECTS, document, judged, measured, numbers, resolved
from truth_report.figure import Figure, section

from reference_server import Truth
from reference_server.truth import simulate

NS = (1, 2, 3, 7)
ROUNDS = 3
SHARE = 0.02
ACCEPTANCE = (0.9, 0.8, 0.7, 0.65, 0.6, 0.6, 0.6)
ACCEPTANCE_POINTS = 0.02
LAUNCH_SD = 0.003
"""At the MI210's 1.3 % three rounds cannot give b to 2 %: its interval would say so."""
TRUTH = Truth(
    t0_s=0.002,
    ttft_s=0.004,
    acceptance=ACCEPTANCE,
    even_draws=True,
    launch_noise_sd=LAUNCH_SD,
    prompt_tokens_details=True,
)
ABSENT = {"value": None, "low": None, "high": None}
WORKLOAD = {"pp": 64, "tg": 129, "depths": [0], "reps": 2, "warmup": 1}
PROMPTS = 300
"""Prompts that the true acceptance of a request of this length is computed from."""


def run(ns: tuple[int, ...] = NS) -> dict[str, Any]:
    """The section."""
    found = [_recovered(dialect, ns) for dialect in DIALECTS]
    parameters = [row for one in found for row in one["parameters"]]
    rows = [row for one in found for row in (*one["parameters"], *one["costs"])]
    intervals = [row for row in rows if row["covered"] is not None]
    positions = [row for one in found for row in one["positions"]]
    known = [row for row in parameters if row["value"] is not None]
    worst = max(known, key=lambda row: abs(row["error"]), default=None)
    off = max(positions, key=lambda row: abs(row["found"] - row["true"]))
    reasons = [one["fit_reason"] for one in found if one["fit_reason"]]
    covered = sum(row["covered"] for row in intervals)
    return section(
        [
            Figure(
                f"a and b, {' and '.join(DIALECTS)}, N = {', '.join(map(str, ns))}, {ROUNDS} rounds",
                f"within {SHARE:.0%}",
                "; ".join(reasons)
                if reasons or worst is None
                else f"worst {worst['error']:+.2%} ({worst['name']}, {worst['dialect']})",
                None if reasons or worst is None else abs(worst["error"]) <= SHARE,
            ),
            Figure(
                "intervals of a, b and C(N) hold the truth",
                "nominally 99 %",
                f"{covered} of {len(intervals)}",
                covered >= len(intervals) - 1,
            ),
            Figure(
                "acceptance by draft position",
                f"within {100 * ACCEPTANCE_POINTS:g} points",
                f"worst {100 * (off['found'] - off['true']):+.1f} points "
                f"({off['dialect']}, {off['arm']}, position {off['position']}) of {len(positions)}",
                abs(off["found"] - off["true"]) <= ACCEPTANCE_POINTS,
            ),
        ],
        parameters=parameters,
        costs=[row for one in found for row in one["costs"]],
        positions=positions,
        failed_checks={one["dialect"]: one["failed_checks"] for one in found},
        rounds=ROUNDS,
        launch_sd=LAUNCH_SD,
    )


def _recovered(dialect: str, ns: tuple[int, ...]) -> dict[str, Any]:
    arms: dict[str, int | str] = {BASE: 0, "base_again": BASE, **{f"n{n}": n for n in ns}}
    spec = resolved(document(dialect, arms, WORKLOAD, "auto"), "cost")
    cut = dialect == "llamacpp"  # it cuts the last draft at the token limit, and such a step costs less
    truths = {arm: replace(TRUTH, n=spec["arms"][arm]["n_spec"], cheap_cut_steps=cut) for arm in arms}
    found = judged(measured(spec, truths, ROUNDS), spec, ROUNDS)
    cell = found.verdict["cells"][0]
    fit = cell["fit"] or {name: ABSENT | {"reason": cell["fit_reason"]} for name in ("a", "b")}
    true = {"a": TRUTH.a, "b": TRUTH.b}
    return {
        "dialect": dialect,
        "parameters": [_against(dialect, name, true[name], fit[name]) for name in true],
        "costs": [
            _against(
                dialect,
                f"C({n})",
                expected_cost(truths[f"n{n}"], cut),
                numbers(found.verdict, f"n{n}")["cost"],
            )
            for n in ns
        ],
        "positions": [
            {
                "dialect": dialect,
                "arm": f"n{n}",
                "position": position,
                "true": truth,
                "found": measured_rate,
            }
            for n in ns
            for position, (truth, measured_rate) in enumerate(
                zip(
                    expected_survival(truths[f"n{n}"], cut_last_draft=cut),
                    numbers(found.verdict, f"n{n}")["acceptance"]["survival"],
                    strict=True,
                )
            )
        ],
        "fit_reason": None if cell["fit"] else f"{dialect}: {cell['fit_reason']}",
        "failed_checks": sorted(found.failed()),
    }


def _against(dialect: str, name: str, true: float, found: dict[str, Any]) -> dict[str, Any]:
    return {
        "dialect": dialect,
        "name": name,
        "true": true,
        **{key: found[key] for key in ("value", "low", "high")},
        "error": None if found["value"] is None else found["value"] / true - 1,
        "covered": None if found["low"] is None else found["low"] <= true <= found["high"],
    }


def expected_cost(truth: Truth, cut_last_draft: bool) -> float:
    """C that a request of this length has on average, in baseline steps."""
    steps = [
        step
        for prompt in range(PROMPTS)
        for step in simulate(truth, (prompt,), WORKLOAD["tg"], cut_last_draft=cut_last_draft)  # type: ignore[arg-type]
    ]
    return sum(step.cost for step in steps) / len(steps)


def expected_survival(truth: Truth, *, cut_last_draft: bool) -> list[float]:
    """S_1..S_n that a request of this length has on average: the last draft is cut, or looks past the end."""
    accepted, drafts = [0] * truth.n, 0
    for prompt in range(PROMPTS):
        for step in simulate(truth, (prompt,), WORKLOAD["tg"], cut_last_draft=cut_last_draft):  # type: ignore[arg-type]
            drafts += step.drafted > 0
            for position in range(step.accepted):
                accepted[position] += 1
    return [count / drafts for count in accepted]
