"""Do times and steps hang together? Client against server, steps against events, costs and speeds that cannot be."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from breakeven.analysis.checks.check import Check, findings, undecided
from breakeven.analysis.checks.measured import CELL, Measured
from breakeven.analysis.checks.tokens import by_cell
from breakeven.analysis.experiment import MARGIN
from breakeven.measure.bursts import BURST_GAP

CLIENT_SHARE = 0.01
"""Share by which the client's decode time of a typical request may differ from the server's own."""
CLIENT_S = 0.005
"""And seconds: a scheduler may wake a client so late, which short answers cannot average out."""
DISTURBED_SHARE = 0.05
"""A request that is off by more was disturbed on its way; a cell whose mean is off by more is not measured."""
STEPS_SHARE = {"vllm": 0.01, "llamacpp": 0.1}
"""Share by which steps may differ from events (vLLM: one a step) or bursts (llama.cpp: read off arrival times)."""
KNOWABLE_STEP_S = 0.01
"""Shorter steps than this cannot be read off the arrival of bursts: a late wake-up joins two of them."""
HALVES_MADS = 3.0
"""Halves of a request differ when their medians are further apart than this many MAD (Method 4)."""
HALVES_REQUESTS = 200
"""Requests a cell whose steps are looked at: their medians are long steady by then."""
SURE_ALPHA = 0.01
"""Level of tests that run over many cells and must stay silent in good runs."""
FEW_ROUNDS_SHARE = 0.1
"""Without three rounds for a test, only a difference of this share is called one."""


UNTIMED = "this server gives no timings of its own, or tokens were held back so that the client has none"


def _client_and_server(measured: Measured) -> tuple[pd.DataFrame, pd.Series, pd.Series]:
    """Decode requests, log of the client's over the server's decode time, and their distance in seconds."""
    tg = measured.tg
    server, client = tg["server_decode_s"].astype(float), tg["decode_s"].astype(float)
    ratio = client.where(client > 0) / server.where(server > 0)
    return tg, ratio.map(np.log), (client - server).abs()


def client_matches_server(measured: Measured) -> pd.DataFrame:
    """The typical request took as long for the client as for the server, and the cell's mean is not far off.

    A few late wake-ups are noise that intervals between launches cover; two clocks that disagree, or one answer
    that came all at once, are not.
    """
    tg, log, seconds = _client_and_server(measured)
    groups = by_cell(tg, log=log, seconds=seconds)
    table = groups.median().join(groups["log"].mean().rename("mean")).reset_index()
    late = table["seconds"] <= CLIENT_S
    typical, mean = np.expm1(table["log"]), np.expm1(table["mean"])
    agree = (typical.abs() <= CLIENT_SHARE) | late
    table["share"] = typical.where(~agree, mean)
    return findings(
        table,
        table["share"],
        agree & ((mean.abs() <= DISTURBED_SHARE) | (groups["seconds"].mean().to_numpy() <= CLIENT_S)),
        holds="client and server agree on the decode time",
        fails=lambda row: (
            f"the client's decode time is {row.share:+.1%} off the server's own: events reached the client late or "
            "joined, or the server's clock means something else; quieten this machine and measure again"
        ),
        unknown=UNTIMED,
    )


def requests_disturbed(measured: Measured) -> pd.DataFrame:
    """No single request took longer or shorter on its way to the client."""
    tg, log, seconds = _client_and_server(measured)
    share = np.expm1(log)
    off = (share.abs() > DISTURBED_SHARE) & (seconds > CLIENT_S)
    groups = by_cell(tg, off=off, known=share.notna(), share=share)
    table = groups.agg(off=("off", "sum"), known=("known", "sum"), worst=("share", _extreme)).reset_index()
    return findings(
        table,
        table["worst"],
        table["off"] == 0,
        holds="every request took as long for the client as for the server",
        fails=lambda row: (
            f"single requests differ from the server's own time by more than {DISTURBED_SHARE:.0%}: something held the "
            "client up; more requests or a quieter machine help"
        ),
        unknown=UNTIMED,
    )


def _extreme(values: pd.Series) -> float:
    known = values.dropna().to_numpy()
    return float(known[np.abs(known).argmax()]) if known.size else math.nan


def steps_match_events(measured: Measured) -> pd.DataFrame:
    """Steps by the counters against steps as the stream shows them."""
    tg = measured.tg
    column = {"vllm": "token_events", "llamacpp": "bursts"}.get(measured.engine)
    if column is None or tg.empty:
        return undecided(measured.arms, f"how {measured.engine} cuts its stream is not known")
    accepted = tg["accepted"].where(tg["drafting"], 0.0)
    lossless = tg["completion_tokens"] - 1.0 - accepted
    steps = np.fmax(lossless, tg["drafts"].where(lossless.notna()))
    groups = by_cell(
        tg,
        steps=steps,
        seen=tg[column].astype(float) - 1,
        n=pd.Series(1, tg.index),
        step_s=tg["window_s"] / steps,
    )
    table = groups.agg(
        steps=("steps", _sum), seen=("seen", _sum), n=("n", "sum"), step_s=("step_s", "median")
    ).reset_index()
    allowed = np.maximum(STEPS_SHARE[measured.engine] * table["steps"], table["n"])
    if column == "bursts":
        table["steps"] = table["steps"].where(table["step_s"] > KNOWABLE_STEP_S)
    return findings(
        table,
        table["seen"] / table["steps"] - 1,
        (table["seen"] - table["steps"]).abs() <= allowed,
        holds="the stream shows the steps that were counted",
        fails=lambda row: (
            f"{row.steps:.0f} steps by the counters, {row.seen:.0f} by the stream: events were held back, joined or "
            "split on their way; rates stand on tokens and hold, but read no step times off this stream"
        ),
        unknown="steps are not counted, or so short that a client cannot tell one's tokens from the next one's",
    )


def _sum(values: pd.Series) -> float:
    return float(values.sum(skipna=False))


def step_times(measured: Measured) -> pd.DataFrame:
    """Per cell: log of the median over requests of seconds per decode step, NaN where steps are not known."""
    tg = measured.tg
    accepted = tg["accepted"].where(tg["drafting"], 0.0)
    generated = tg["completion_tokens"] - 1.0
    lossless = generated - accepted
    steps = np.fmax(lossless, tg["drafts"].where(lossless.notna()))
    decoded = tg["window_tokens"]
    seconds: pd.Series = tg["window_s"].where(decoded > 0) / decoded * generated / steps
    table = by_cell(tg, step_s=seconds).median().reset_index()
    logs: pd.DataFrame = table.assign(log_s=np.log(table["step_s"].where(table["step_s"] > 0)))
    return logs


def surely_below(values: np.ndarray, margin: float, few: float = FEW_ROUNDS_SHARE) -> bool | None:
    """Whether the mean of one value a round lies below -margin, -few where rounds are too few; None: unknown."""
    values = values[np.isfinite(values)]
    if not values.size:
        return None
    if values.size < 3:
        return bool(values.mean() < -few)
    half = stats.t.ppf(1 - SURE_ALPHA, values.size - 1) * values.std(ddof=1) / math.sqrt(values.size)
    return bool(values.mean() < -margin and values.mean() + half < 0)


def not_faster_deeper(measured: Measured) -> pd.DataFrame:
    """A step does not get faster with more context; compared inside launches, which share their noise."""
    wide = step_times(measured).pivot_table(
        index=["arm", "prompt_class", "round"], columns="depth", values="log_s", observed=True
    )
    depths = sorted(wide.columns)
    rows = []
    for shallow, deep in pairwise(depths):
        change = wide[deep] - wide[shallow]
        places: Any = change.groupby(level=[0, 1], observed=True)
        for (arm, name), values in places:
            faster = surely_below(values.to_numpy(), MARGIN)
            rows.append((arm, deep, name, values.mean(), math.nan if faster is None else not faster, shallow))
    if not rows:
        return undecided(measured.arms, "one depth only")
    table = pd.DataFrame(rows, columns=["arm", "depth", "prompt_class", "change", "ok", "shallow"])
    return findings(
        table,
        np.expm1(table["change"]),
        table["ok"],
        holds="steps do not get faster with more context",
        fails=lambda row: (
            f"a step is {-row.value:.1%} faster at depth {row.depth} than at {row.shallow}: the context was probably "
            "not there, or clocks changed inside the launch; look at cached and prompt tokens, then at telemetry"
        ),
        unknown="steps are not counted",
    )


def step_not_cheaper(measured: Measured) -> pd.DataFrame:
    """A step that verifies drafts costs at least a baseline step."""
    times = step_times(measured)
    base = times[times["arm"] == measured.baseline][["round", "depth", "prompt_class", "log_s"]]
    arms = times[~times["arm"].isin(measured.plain_arms)]
    both = arms.merge(base, on=["round", "depth", "prompt_class"], suffixes=("", "_base"))
    both["log_cost"] = both["log_s"] - both["log_s_base"]
    rows = []
    for key, group in both.groupby(["arm", "depth", "prompt_class"], observed=True, sort=False):
        cheaper = surely_below(group["log_cost"].to_numpy(), MARGIN)
        rows.append((*key, math.exp(group["log_cost"].mean()), math.nan if cheaper is None else not cheaper))
    table = pd.DataFrame(rows, columns=["arm", "depth", "prompt_class", "cost", "ok"])
    return findings(
        table,
        table["cost"],
        table["ok"],
        holds="a step costs at least a baseline step",
        fails=lambda row: (
            f"a step costs {row.cost:.3f} baseline steps; verifying drafts cannot be cheaper than a plain step, so "
            "steps are counted wrong or the baseline was slowed down: check the counters, measure the baseline again"
        ),
        unknown="steps are not counted",
    )


def halves_alike(measured: Measured) -> pd.DataFrame:
    """The typical step of a request's first half lasts as long as that of its second (Method 4)."""
    gaps = _step_gaps(measured)
    if gaps.empty:
        return undecided(measured.arms, "no request has enough steps to halve")
    request = gaps["request"].to_numpy()
    starts = np.flatnonzero(np.diff(request, prepend=-1))
    sizes = np.diff(starts, append=len(request))
    gaps["second"] = np.arange(len(request)) - np.repeat(starts, sizes) >= np.repeat(sizes // 2, sizes)
    groups = gaps.groupby([*CELL, "second"], observed=True, sort=False)["gap"]
    centre = groups.transform("median")
    spread = (gaps["gap"] - centre).abs().groupby([gaps[k] for k in CELL], observed=True, sort=False).median()
    halves = groups.median().unstack("second")
    table = halves.set_axis(["first", "later"], axis=1).assign(mad=spread).reset_index()
    change = table["later"] - table["first"]
    alike = (change.abs() <= HALVES_MADS * table["mad"]) | (change.abs() <= MARGIN * table["first"])
    return findings(
        table,
        change / table["first"],
        alike,
        holds="both halves of a request run alike",
        fails=lambda row: (
            f"steps of the second half of a request last {row.value:+.1%} against the first, beyond {HALVES_MADS:g} "
            "MAD: something changes inside a request (heat, clocks, a neighbour); look at telemetry, warm up longer"
        ),
    )


def _step_gaps(measured: Measured) -> pd.DataFrame:
    """Seconds between successive steps, in order, of up to HALVES_REQUESTS decode requests a cell."""
    tg = measured.tg[[*CELL, "request"]]
    tg = tg[tg.groupby(CELL, observed=True, sort=False).cumcount() < HALVES_REQUESTS]
    events = measured.events
    events = events[events["request"].isin(tg["request"]) & (events["kind"] == "token")]
    request, arrived = events["request"].to_numpy(), events["arrived_s"].to_numpy(dtype=float)
    inside = np.diff(request, prepend=-1) == 0
    gaps = pd.DataFrame({"request": request, "gap": np.diff(arrived, prepend=0.0)})[inside].merge(
        tg, on="request"
    )
    usual = gaps.groupby(CELL, observed=True, sort=False)["gap"].quantile(0.95).rename("usual").reset_index()
    gaps = gaps.merge(usual, on=CELL)
    steps: pd.DataFrame = gaps[gaps["gap"] >= BURST_GAP * gaps["usual"]].reset_index(drop=True)
    return steps


def within_bandwidth(measured: Measured) -> pd.DataFrame:
    """No step reads more bytes a second than the memory can deliver (Method 7); the KV cache is left out."""
    declared = measured.experiment.get("bandwidth_gb_s")
    if not declared:
        return undecided(measured.arms, "bandwidth_gb_s is not declared")
    if not measured.step_bytes:
        return undecided(
            measured.arms, "the bytes of a step are not known: the model's header cannot be read here"
        )
    times = step_times(measured)
    size = times["arm"].astype(object).map(measured.step_bytes).astype(float)
    speed = size / times["step_s"] / 1e9
    kind = measured.experiment.get("bandwidth_kind", "datasheet")
    limit = float(declared) * (1 + (CLIENT_SHARE if kind == "measured" else 0.0))
    return findings(
        times,
        speed,
        speed <= limit,
        holds=f"no step reads faster than the {kind} bandwidth",
        fails=lambda row: (
            f"a step would have read {row.value:.0f} GB/s, the {kind} bandwidth is {declared:g}: tokens are counted "
            "more than once, steps are missed, or the weights are not what was declared"
        ),
        unknown="steps are not counted, or the bytes of this arm's step are not known",
    )


CHECKS = (
    Check(
        "client_matches_server",
        "block",
        f"{CLIENT_SHARE:.0%}, or {1000 * CLIENT_S:g} ms",
        client_matches_server,
    ),
    Check("requests_disturbed", "warn", f"no request off by {DISTURBED_SHARE:.0%}", requests_disturbed),
    Check(
        "steps_match_events",
        "warn",
        "1 % (vLLM: events), 10 % (llama.cpp: bursts), or one step a request",
        steps_match_events,
    ),
    Check(
        "not_faster_deeper", "warn", f"not surely faster, and by more than {MARGIN:.0%}", not_faster_deeper
    ),
    Check(
        "step_not_cheaper", "block", f"not surely below 1, and by more than {MARGIN:.0%}", step_not_cheaper
    ),
    Check("halves_alike", "warn", f"{HALVES_MADS:g} MAD, or {MARGIN:.0%}", halves_alike),
    Check("within_bandwidth", "block", "the declared bandwidth_gb_s", within_bandwidth),
)
