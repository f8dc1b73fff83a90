"""From cells to a configuration: end-to-end time of the declared mixes decides, not decode speed alone (Method 6)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from breakeven.analysis.estimate import Estimate, absent
from breakeven.analysis.experiment import Mix, Plan
from breakeven.analysis.judgement import Condition, Evidence, Judgement, Reopen, judge
from breakeven.analysis.matched import Matrix, Ratio, compare, matrix

LOSSES = ("loses", "impossible")


@dataclass(frozen=True)
class MixResult:
    """One arm's end-to-end speed-up for one mix at one depth and prompt class."""

    arm: str
    prompt_tokens: int
    output_tokens: int
    depth: int
    prompt_class: str
    ratio: Estimate
    verdict: str
    reason: str


@dataclass(frozen=True)
class Configuration:
    """An arm as a setting to use: ledger word, the mixes it rests on, its worst ratio, and a factor per class."""

    arm: str
    ledger: str
    reason: str
    sentence: str
    mixes: tuple[MixResult, ...]
    worst: Estimate
    factors: Mapping[str, float]
    reopen: Reopen | None


@dataclass(frozen=True)
class Winner:
    """The recommended arm with the best worst-class lower bound, then the smaller N."""

    arm: str | None
    reason: str


def request_times(rows: pd.DataFrame, every_class: pd.DataFrame, mix: Mix) -> pd.Series:
    """log seconds of one request of the mix, launch by launch: prompt/pp_new + output*seconds per token.

    Prefill is taken from the cell, else from the other classes of the same launch and depth (the text of a
    prompt does not change its cost). Scales the measured prefill rate to the mix's prompt.
    """
    launch = ["arm", "round", "depth"]
    elsewhere = every_class.groupby(launch)["pp_new_tok_s"].mean().rename("elsewhere").reset_index()
    rate = rows["pp_new_tok_s"].fillna(
        rows[launch].merge(elsewhere, on=launch, how="left")["elsewhere"].set_axis(rows.index)
    )
    ttft_s = mix.prompt_tokens / rate if mix.prompt_tokens else 0.0
    seconds: pd.Series = np.log(ttft_s + mix.output_tokens * np.exp(rows["log_token_s"]))
    return seconds


def judge_mixes(rows: pd.DataFrame, every_class: pd.DataFrame, plan: Plan) -> list[MixResult]:
    """Every candidate at every mix in one cell; rows are the CELLS rows of one depth and class with `shared`."""
    depth, prompt_class = int(rows["depth"].iloc[0]), str(rows["prompt_class"].iloc[0])
    present = plan.compared(set(rows["arm"]))
    candidates = [arm.arm for arm in plan.candidates if arm.arm in present]
    return [
        _judge_mix(arm, ratio, mix, len(table.rounds), depth, prompt_class, plan)
        for mix in plan.mixes
        for table, ratios in [_mix_ratios(rows, every_class, mix, present, candidates, plan)]
        for arm, ratio in ratios.items()
    ]


def _mix_ratios(
    rows: pd.DataFrame,
    every_class: pd.DataFrame,
    mix: Mix,
    present: Sequence[str],
    candidates: Sequence[str],
    plan: Plan,
) -> tuple[Matrix, dict[str, Ratio]]:
    table = matrix(rows.assign(log_request_s=request_times(rows, every_class, mix)), "log_request_s", present)
    _, ratios, _ = compare(table, candidates, plan.look.alpha)
    unknown = Ratio(absent("no prefill rate of this arm and the baseline at this depth"))
    return table, {arm: ratios.get(arm, unknown) if table.rounds else unknown for arm in candidates}


def _judge_mix(
    arm: str, ratio: Ratio, mix: Mix, rounds: int, depth: int, prompt_class: str, plan: Plan
) -> MixResult:
    where = f"{mix.prompt_tokens} prompt + {mix.output_tokens} output tokens, depth {depth}, {prompt_class}"
    tie = ratio.equivalent(plan.margin, plan.look.alpha, rounds)
    found = judge(Evidence(arm, where, ratio=ratio.value, equivalent=tie, margin=plan.margin))
    tokens = (mix.prompt_tokens, mix.output_tokens)
    return MixResult(arm, *tokens, depth, prompt_class, ratio.value, found.verdict, found.reason)


def promote(
    arm: str,
    cells: Mapping[tuple[int, str], Judgement],
    ratios: Mapping[tuple[int, str], Estimate],
    mixes: Sequence[MixResult],
    plan: Plan,
) -> Configuration:
    """One arm's ledger word: every required class x depth x mix wins or ties and one wins -> recommended.

    `cells`, `ratios`: by (depth, class). Without declared mixes decode speed alone decides, and the reason says so.
    """
    needed = {key: found for key, found in cells.items() if plan.required(key[1])}
    own = tuple(mix for mix in mixes if mix.arm == arm and plan.required(mix.prompt_class))
    if plan.mixes:
        outcomes = [
            (
                mix.prompt_class,
                mix.ratio,
                mix.verdict,
                f"{mix.prompt_tokens}+{mix.output_tokens} tokens at depth {mix.depth}, {mix.prompt_class}",
            )
            for mix in own
        ]
        basis = "end-to-end time of the declared mixes"
    else:
        outcomes = [
            (key[1], ratios[key], found.verdict, f"depth {key[0]}, {key[1]}") for key, found in needed.items()
        ]
        basis = "decode speed alone, no mixes declared"
    worst = min(
        (ratio for _, ratio, _, _ in outcomes if ratio.value is not None),
        key=_lower,
        default=absent("no ratio"),
    )
    factors: dict[str, float] = {}
    for prompt_class, ratio, _, _ in outcomes:
        if ratio.value is not None:
            factors[prompt_class] = min(ratio.value, factors.get(prompt_class, ratio.value))
    ledger, reason, reopen = _decide(needed, outcomes, basis)
    if ledger in ("blocked", "diagnosis", "open-defect"):
        own, worst, factors = (), absent("no valid measurement"), {}
    sentence = f"{arm}: {ledger}; {reason}."
    return Configuration(arm, ledger, reason, sentence, own, worst, factors, reopen)


def _lower(ratio: Estimate) -> float:
    return ratio.low if ratio.low is not None else ratio.value if ratio.value is not None else float("inf")


def _decide(
    cells: Mapping[tuple[int, str], Judgement], outcomes: Sequence[tuple[str, Estimate, str, str]], basis: str
) -> tuple[str, str, Reopen | None]:
    for bad in ("not measured", "invalid"):
        hit = next((found for found in cells.values() if found.verdict == bad), None)
        if hit:
            return hit.ledger, hit.reason, hit.reopen
    if not cells:
        return "blocked", "no cell was measured", None
    closed = [found for found in cells.values() if found.verdict in LOSSES]
    reopen = next((found.reopen for found in closed if found.reopen), None)
    if all(found.verdict == "impossible" for found in cells.values()):
        return "impossible", next(iter(cells.values())).reason, reopen
    lost = [(ratio, where) for _, ratio, verdict, where in outcomes if verdict in LOSSES]
    if lost:
        worst, where = min(lost, key=lambda pair: _lower(pair[0]))
        return (
            "rejected",
            f"{len(lost)} of {len(outcomes)} lose, the worst {worst.value:.3f} at {where} ({basis})",
            reopen or _faster_there(where),
        )
    open_ones = [where for _, _, verdict, where in outcomes if verdict == "inconclusive"]
    if open_ones or not outcomes:
        first = f", such as {open_ones[0]}" if open_ones else ""
        waiting = next((found.reopen for found in cells.values() if found.verdict == "inconclusive"), None)
        return (
            "noise",
            f"{len(open_ones)} of {len(outcomes)} are inconclusive{first} ({basis}): more rounds",
            waiting,
        )
    wins = sum(verdict == "wins" for _, _, verdict, _ in outcomes)
    if not wins:
        return "noise", f"all {len(outcomes)} tie ({basis})", None
    return "recommended", f"{wins} of {len(outcomes)} win and the rest tie ({basis})", None


def _faster_there(where: str) -> Reopen:
    """What reopens a loss that no cell's decoding explains: prefill, or cells that are not decided alone."""
    words = f"less time than the baseline's for {where}"
    return Reopen(words, (Condition("end_to_end_ratio", above=1.0),))


def winner(configurations: Sequence[Configuration], n_spec: Mapping[str, int | None]) -> Winner:
    """Best worst-class lower bound among the recommended, then the smaller N."""
    passing = [
        found for found in configurations if found.ledger == "recommended" and found.worst.low is not None
    ]
    if not passing:
        return Winner(None, "no arm wins or ties everywhere with at least one win")
    best = min(passing, key=lambda found: (-(found.worst.low or 0.0), n_spec.get(found.arm) or 0))
    chosen = f"lower bound of its worst case {best.worst.low:.3f}"
    if len(passing) > 1:
        chosen += (
            f", best of {len(passing)} passing arms; its factor is to be quoted from a confirmation round"
        )
    return Winner(best.arm, chosen)


@dataclass(frozen=True)
class Trial:
    """An arm already measured in a staged search; `loses` is None while it is not decided."""

    n_max: int
    p_min: float
    drafter: str
    loses: bool | None


@dataclass(frozen=True)
class NextArm:
    """The arm to measure next in a staged search."""

    change: Mapping[str, float | str]
    reason: str


def next_arm(
    trials: Sequence[Trial], p_mins: Sequence[float], n_maxes: Sequence[int], n_start: int
) -> NextArm | None:
    """The lowest p-min that removes the loss, then n-max at that p-min, then n-gram; None: done, or undecided so far.

    A strategy beside the full grid: it finds a setting that does not lose, not the best of all.
    """
    model = {(trial.p_min, trial.n_max): trial for trial in trials if trial.drafter == "model"}
    chosen = None
    for p_min in sorted(p_mins):
        trial = model.get((p_min, n_start))
        if trial is None:
            return NextArm(
                {"p_min": p_min, "n_max": n_start},
                f"lower p-min lose at n-max {n_start}: the next gate is {p_min:g}",
            )
        if trial.loses is None:
            return None
        if not trial.loses:
            chosen = p_min
            break
    if chosen is not None:
        for n_max in n_maxes:
            if (chosen, n_max) not in model:
                return NextArm(
                    {"p_min": chosen, "n_max": n_max},
                    f"p-min {chosen:g} is the lowest without a loss: n-max there",
                )
        if any(model[(chosen, n_max)].loses is None for n_max in n_maxes):
            return None
    if not any(trial.drafter == "ngram" for trial in trials):
        return NextArm(
            {"drafter": "ngram"}, "the drafting model is settled: drafts from n-grams cost no model pass"
        )
    return None
