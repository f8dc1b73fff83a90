"""Was the server ours alone? Its counters must move by our requests and by nothing else."""

import numpy as np
import pandas as pd

from breakeven.analysis.cells import PP, TG
from breakeven.analysis.checks.check import Check, findings, undecided
from breakeven.analysis.checks.measured import LAUNCH, Measured, counted
from breakeven.analysis.checks.tokens import by_cell
from breakeven.tables import ENGINES


def alone_inside(measured: Measured) -> pd.DataFrame:
    """During a request no more was counted than the request itself."""
    asked = measured.answered[measured.answered["kind"].isin([PP, TG])]
    surplus = pd.DataFrame(
        {
            "completion": counted(asked, "completion_tokens") - asked["completion_tokens"],
            "prompt": counted(asked, "prompt_tokens") - asked["prompt_tokens"],
            "computed": counted(asked, "computed_tokens") - asked["computed_tokens"],
            "requests": counted(asked, "requests") - 1,
        }
    ).astype(float)
    groups = by_cell(asked, hit=(surplus > 0).any(axis=1), known=surplus.notna().any(axis=1), **surplus)
    table = groups.agg(
        hit=("hit", "sum"), known=("known", "sum"), completion=("completion", "max"), prompt=("prompt", "max")
    ).reset_index()
    return findings(
        table,
        table["hit"].where(table["known"] > 0),
        table["hit"] == 0,
        holds="the counters moved by our requests alone",
        fails=lambda row: (
            f"during {row.hit} of {row.known} requests the server counted more than the request (up to "
            f"{np.nan_to_num(row.completion):.0f} completion tokens): somebody else used it; keep it to yourself and "
            "measure again"
        ),
        unknown="the server exposes no counters of tokens or requests",
    )


def alone_between(measured: Measured) -> pd.DataFrame:
    """Between two of our requests nothing was counted."""
    names = ["completion_tokens", "requests"]
    counters = measured.counters[measured.counters["counter"].isin(names)]
    launches = measured.launches[LAUNCH]
    if counters.empty:
        return undecided(launches, "the server exposes no counters of tokens or requests")
    counters = counters.sort_values("seq", kind="stable")
    last = counters.groupby([*LAUNCH, "counter"], observed=True, sort=False)["after"].shift()
    gap = (counters["before"] - last).astype(float)
    table = counters[LAUNCH].assign(gap=gap.clip(lower=0), hit=gap > 0)
    table = table.groupby(LAUNCH, observed=True, sort=False).agg(gap=("gap", "sum"), hit=("hit", "sum"))
    table = table.reset_index()
    return findings(
        table,
        table["hit"],
        table["hit"] == 0,
        holds="nothing was counted between our requests",
        fails=lambda row: (
            f"{row.hit} times the server counted something between two of our requests: somebody else used it; keep "
            "it to yourself and measure again"
        ),
    )


def one_engine(measured: Measured) -> pd.DataFrame:
    """One engine answers; several share counters, but not prefix caches."""
    if ENGINES not in measured.requests:
        return undecided(measured.arms, "the number of engines was not recorded")
    table = measured.requests.groupby(LAUNCH, observed=True, sort=False)[ENGINES].max().reset_index()
    return findings(
        table,
        table[ENGINES],
        table[ENGINES] <= 1,
        holds="one engine answers",
        fails=lambda row: (
            f"{row.engines:.0f} engines answer: counters are summed over them, but each has its own prefix cache, so a "
            "depth may have to be computed again; start the server with one data-parallel rank"
        ),
        unknown="the number of engines was not recorded",
    )


CHECKS = (
    Check("alone_inside", "block", "no more counted than the request", alone_inside),
    Check("alone_between", "block", "nothing counted between two requests", alone_between),
    Check("one_engine", "warn", "1 engine", one_engine),
)
