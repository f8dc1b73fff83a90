"""Do launches compare? The first slot of a round, drift over the run, and whether a launch was warm when measured."""

import math

import numpy as np
import pandas as pd

from breakeven.analysis.cells import PP, TG
from breakeven.analysis.checks.check import Check, findings, undecided
from breakeven.analysis.checks.measured import CELL, LAUNCH, Measured
from breakeven.analysis.checks.steps import surely_below
from breakeven.analysis.experiment import MARGIN
from breakeven.analysis.noise import SLOT_ALPHA, drift, slot_effect

COLD_SHARE = 0.25
"""A first measured request that is slower than the later ones by more than this was not warm."""
STALLED = 5.0
"""A request that takes this many times as long as the others waited for something."""
PLACE = ["depth", "prompt_class"]


def _log_token_s(measured: Measured) -> pd.DataFrame:
    """Per cell: log of the median seconds per decode token, with slot and time of the launch."""
    tg = measured.tg
    token_s = tg["window_s"].where(tg["window_tokens"] > 0) / tg["window_tokens"]
    table = tg[CELL].assign(token_s=token_s).groupby(CELL, observed=True, sort=False).median().reset_index()
    table = table.assign(y=np.log(table["token_s"].where(table["token_s"] > 0))).astype({"arm": object})
    merged: pd.DataFrame = table.merge(measured.launches[[*LAUNCH, "slot", "started_at"]], on=LAUNCH)
    return merged


def first_slot(measured: Measured) -> pd.DataFrame:
    """The launch that opens a round runs like the others."""
    times = _log_token_s(measured)
    rows = []
    for key, cell in times.groupby(PLACE, observed=True, sort=False):
        y = cell.pivot(index="round", columns="arm", values="y").dropna()
        slots = cell.pivot(index="round", columns="arm", values="slot").reindex(y.index)
        if len(y) < 2 or y.shape[1] < 2:
            rows.append((*key, math.nan, math.nan))
            continue
        seen = slot_effect(y.to_numpy(dtype=float), slots.to_numpy(dtype=float, na_value=np.nan))
        value = math.nan if seen.log_effect is None else math.expm1(seen.log_effect)
        rows.append((*key, value, math.nan if seen.p is None else not seen.present))
    table = pd.DataFrame(rows, columns=[*PLACE, "effect", "ok"]).assign(arm=measured.baseline)
    return findings(
        table,
        table["effect"],
        table["ok"],
        holds="the first slot of a round is like the others",
        fails=lambda row: (
            f"launches in the first slot of a round are {row.value:+.1%} slower: they start cold; the slot is taken "
            "out as a factor, but a discarded launch before each round is better"
        ),
        unknown="the first slot cannot be told from arms and rounds: too few complete rounds",
    )


def baseline_drift(measured: Measured) -> pd.DataFrame:
    """The baseline is as fast at the end of the run as at its start."""
    times = _log_token_s(measured)
    times = times[times["arm"].isin(measured.plain_arms)]
    margin = float(measured.experiment.get("margin") or MARGIN)
    rows = []
    for key, cell in times.groupby(PLACE, observed=True, sort=False):
        seen = drift(cell["started_at"].to_numpy(dtype=float), cell["y"].to_numpy(dtype=float), margin)
        known = seen.over_all is not None and seen.flagged is not None
        value = math.expm1(seen.over_all) if seen.over_all is not None else math.nan
        rows.append((*key, value, not seen.flagged if known else math.nan, seen.reason))
    table = pd.DataFrame(rows, columns=[*PLACE, "change", "ok", "words"]).assign(arm=measured.baseline)
    return findings(
        table,
        table["change"],
        table["ok"],
        holds="the baseline does not drift",
        fails=lambda row: (
            f"{row.words}: heat, clocks or a neighbour; interleaving keeps the comparison fair, but look at telemetry "
            "before quoting a rate"
        ),
        unknown="fewer than three baseline launches",
    )


def _first_against_later(measured: Measured) -> pd.DataFrame:
    """Per launch, cell and kind: log of the first measured request's time per token over the median of the later."""
    asked = measured.answered[measured.answered["kind"].isin([PP, TG])]
    decoded = asked["window_tokens"]
    per_token = (asked["window_s"] / decoded.where(decoded > 0)).where(
        asked["kind"] == TG, asked["ttft_s"] / asked["computed_tokens"].fillna(asked["prompt_tokens"])
    )
    key = [*CELL, "kind"]
    asked = asked[[*key, "seq"]].assign(s=per_token.astype(float)).sort_values("seq", kind="stable")
    first = asked.groupby(key, observed=True, sort=False)["s"].first()
    later = asked[asked.groupby(key, observed=True, sort=False).cumcount() > 0]
    usual = later.groupby(key, observed=True, sort=False)["s"].agg(["median", "size"])
    table = usual.assign(first=first).reset_index()
    ratio = table["first"] / table["median"].where(table["size"] >= 2)
    cold: pd.DataFrame = table[key].assign(cold=np.log(ratio))
    return cold


FEW_LATER = "fewer than three requests a cell: first and later ones cannot be told apart"


def first_request_warm(measured: Measured) -> pd.DataFrame:
    """The first measured request of a launch is not one that waited for a compilation."""
    table = _first_against_later(measured).sort_values("cold", kind="stable", na_position="first")
    table = table.groupby(CELL, observed=True, sort=False).last().reset_index()
    return findings(
        table,
        np.exp(table["cold"]),
        table["cold"] <= np.log(STALLED),
        holds="first and later measured requests take as long",
        fails=lambda row: (
            f"the first measured {row.kind} request took {row.value:.1f} times as long as the later ones: something "
            "was compiled or loaded in it; raise workload.warmup, for every arm alike, and measure again"
        ),
        unknown=FEW_LATER,
    )


def settled(measured: Measured) -> pd.DataFrame:
    """In launch after launch the first measured request is no slower than the later ones."""
    ratios = _first_against_later(measured)
    rows = []
    for key, of_cell in ratios.groupby(["arm", *PLACE, "kind"], observed=True, sort=False):
        cold = surely_below(-of_cell["cold"].to_numpy(), np.log1p(COLD_SHARE), few=np.log(STALLED))
        rows.append((*key, np.expm1(of_cell["cold"].mean()), math.nan if cold is None else float(not cold)))
    table = pd.DataFrame(rows, columns=["arm", *PLACE, "kind", "slow", "ok"])
    table = table.sort_values(["ok", "slow"], ascending=[False, True], kind="stable", na_position="first")
    table = table.groupby(["arm", *PLACE], observed=True, sort=False).last().reset_index()
    return findings(
        table,
        table["slow"],
        table["ok"],
        holds="first and later measured requests take as long",
        fails=lambda row: (
            f"in launch after launch the first measured {row.kind} request takes {row.slow:+.0%} against the later "
            "ones: the server is still warming up; raise workload.warmup, for every arm alike"
        ),
        unknown=FEW_LATER,
    )


def compiled_before(measured: Measured) -> pd.DataFrame:
    """No kernel was compiled while a measured request ran."""
    launches = measured.launches
    if "late_compiles" not in launches:
        return undecided(measured.arms, "the log was not searched for compilation during requests")
    return findings(
        launches[LAUNCH],
        launches["late_compiles"].astype(float),
        launches["late_compiles"].astype(float) == 0,
        holds="nothing was compiled during a measured request",
        fails=lambda row: (
            f"kernels were compiled {row.value:.0f} times during measured requests: these requests are cold; raise "
            "workload.warmup until no such line follows, for every arm alike"
        ),
        unknown="compilation lines cannot be placed among the requests: the log does not show requests",
    )


CHECKS = (
    Check("first_slot", "warn", f"no effect at p < {SLOT_ALPHA:g}", first_slot),
    Check("baseline_drift", "warn", "no sure change beyond the margin", baseline_drift),
    Check("first_request_warm", "block", f"at most {STALLED:g} times the later ones", first_request_warm),
    Check("settled", "warn", f"not surely slower, and by more than {COLD_SHARE:.0%}", settled),
    Check("compiled_before", "block", "no compilation during a measured request", compiled_before),
)
