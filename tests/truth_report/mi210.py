"""The published MI210 case replayed: what a counter of events makes of it, and what the pipeline does."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import mean
from typing import Any

from breakeven.analysis.cost import fit_line, impossible_everywhere, step_cost
from truth_report.experiment import BASE, Judged, Launch, document, judged, measured, numbers, resolved
from truth_report.figure import Figure, section

from reference_server import mi210

SCALE = 0.05
"""Times of the replay in units of the published ones."""
NS = (1, 2, 3)
ROUNDS, DEPTH = 3, 8192
LAUNCH_SD = 0.001
DECODE = {"pp": 128, "tg": 256, "depths": [0], "reps": 2, "warmup": 1}
PREFILL = {"pp": 2048, "tg": 8, "depths": [DEPTH], "reps": 3, "warmup": 1}
PUBLISHED = {"base": 36.13, "n1": 30.27, "n2": 27.04, "n3": 24.53}
"""tokens/s as they were printed, at depth 0."""
NAIVE = {"a": 1.11, "b": 1.16}
TRUE = {"a": 1.0549, "b": 0.1396}
SHARE = 0.02


def run() -> dict[str, Any]:
    """The section."""
    arms: dict[str, int | str] = {BASE: 0, "base_again": BASE, **{f"n{n}": n for n in NS}}
    launches, found = _replayed(arms, DECODE)
    _, at_depth = _replayed(arms, PREFILL)
    naive = count_events(launches)
    fit = found.verdict["cells"][0]["fit"]
    a, b = fit["a"], fit["b"]
    verdicts = [numbers(found.verdict, f"n{n}")["verdict"] for n in NS]
    prefill = next(one for one in at_depth.verdict["prefill"] if one["depth"] == DEPTH)
    blocks = _blocks(at_depth)
    audit = _events_per_token(launches)
    return section(
        [
            Figure(
                "a counter of events reads the MI210 case as published",
                f"a = {NAIVE['a']}, b = {NAIVE['b']}, impossible",
                f"a = {naive['a']:.3f}, b = {naive['b']:.3f}, {'impossible' if naive['impossible'] else 'possible'}",
                all(abs(naive[key] / NAIVE[key] - 1) <= SHARE for key in NAIVE) and naive["impossible"],
            ),
            Figure(
                "the pipeline reads a and b of the same streams",
                f"a = {TRUE['a']}, b = {TRUE['b']} within {SHARE:.0%}",
                f"a = {a['value']:.4f} ({a['low']:.3f} to {a['high']:.3f}), "
                f"b = {b['value']:.4f} ({b['low']:.3f} to {b['high']:.3f})",
                abs(a["value"] / TRUE["a"] - 1) <= SHARE and abs(b["value"] / TRUE["b"] - 1) <= SHARE,
            ),
            Figure(
                "and its verdict on N = 1, 2, 3",
                "wins",
                ", ".join(one["verdict"] for one in verdicts),
                all(one["verdict"] == "wins" for one in verdicts),
            ),
            Figure(
                f"the prefill ratio at depth {DEPTH} is put down to the block that is given up",
                "cache-hit length, block of 800 tokens named",
                f"{prefill['kind']}, {prefill['cause']}" + (", block named" if blocks else ""),
                prefill["cause"] == "cache-hit length" and bool(blocks),
            ),
        ],
        scale=SCALE,
        depth=DEPTH,
        rows=[_row(arm, naive, found, audit) for arm in (BASE, *(f"n{n}" for n in NS))],
        naive={key: naive[key] for key in ("a", "b", "impossible")},
        pipeline={"a": a, "b": b},
        sentences=[one["sentence"] for one in verdicts],
        prefill=prefill["arms"],
        prefill_reason=prefill["reason"],
        blocks=blocks,
    )


def _replayed(arms: Mapping[str, int | str], workload: Mapping[str, Any]) -> tuple[list[Launch], Judged]:
    spec = resolved(document("vllm", arms, workload, "auto"), "mi210")
    truths = {
        arm: replace(mi210(spec["arms"][arm]["n_spec"], scale=SCALE), launch_noise_sd=LAUNCH_SD)
        for arm in arms
    }
    launches = measured(spec, truths, ROUNDS)
    return launches, judged(launches, spec, ROUNDS)


def count_events(launches: Sequence[Launch]) -> dict[str, Any]:
    """The naive reading: every `data:` line with text is one token. L = 1 + A/D from the counters, C = L/r."""
    rate = {arm: mean(_naive_rates(launches, arm)) for arm in {one.arm for one in launches}}
    lengths = {
        f"n{n}": 1 + _counted(launches, f"n{n}", "accepted_tokens") / _counted(launches, f"n{n}", "drafts")
        for n in NS
    }
    costs = [step_cost(lengths[f"n{n}"], rate[f"n{n}"] / rate[BASE]) for n in NS]
    line = fit_line(NS, costs)
    return {
        "rate": rate,
        "a": line.a,
        "b": line.b,
        "impossible": impossible_everywhere(line.a, line.b),
    }


def _naive_rates(launches: Sequence[Launch], arm: str) -> list[float]:
    return [(row["token_events"] - 1) / row["decode_s"] for row in _decodes(launches, arm)]


def _decodes(launches: Sequence[Launch], arm: str) -> list[Mapping[str, Any]]:
    return [
        row
        for one in launches
        if one.arm == arm
        for row in one.rows.requests
        if row["kind"] == "tg" and row["depth"] == 0 and row["status"] == "ok"
    ]


def _counted(launches: Sequence[Launch], arm: str, counter: str) -> float:
    return sum(
        row["after"] - row["before"]
        for one in launches
        if one.arm == arm
        for row in one.rows.counters
        if row["counter"] == counter
    )


def _events_per_token(launches: Sequence[Launch]) -> dict[str, float]:
    arms = {one.arm for one in launches}
    return {
        arm: sum(row["token_events"] for row in _decodes(launches, arm))
        / sum(row["completion_tokens"] for row in _decodes(launches, arm))
        for arm in arms
    }


def _row(arm: str, naive: Mapping[str, Any], found: Judged, audit: Mapping[str, float]) -> dict[str, Any]:
    own = numbers(found.verdict, arm)
    return {
        "arm": arm,
        "published_tok_s": PUBLISHED[arm],
        "naive_tok_s": naive["rate"][arm] * SCALE,
        "tok_s": own["tok_s"]["value"] * SCALE,
        "ratio": own["ratio"],
        "cost": own["cost"],
        "verdict": own["verdict"]["verdict"] if own["verdict"] else None,
        "events_per_token": audit[arm],
    }


def _blocks(found: Judged) -> list[str]:
    """What the check on computed tokens says of the arms."""
    reasons = [
        row["reason"] for row in found.checks if row["check"] == "computed_equal" and row["passed"] is False
    ]
    return sorted({reason for reason in reasons if "800" in reason})
