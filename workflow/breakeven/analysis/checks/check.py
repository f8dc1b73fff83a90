"""What a check is, and how its findings become rows of the checks table.

A check looks at everything that was measured and says of each place (an arm, and where it can tell, a round, depth
and prompt class) whether a number from there can be trusted. What cannot be decided is null, with the reason.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from breakeven.analysis.checks.measured import Measured
from breakeven.tables import CHECKS

Severity = Literal["block", "warn"]
PLACE = ["arm", "round", "depth", "prompt_class"]
FINDING = [*PLACE, "passed", "value", "reason"]
FORCED = "not judged: acceptance is forced, so this arm's text and acceptance mean nothing; only its step cost counts"


@dataclass(frozen=True)
class Check:
    """One check: a failed `block` makes its place invalid, a failed `warn` is printed.

    `judge` gives a frame of FINDING. `of_drafts`: it reads text or acceptance, which an arm with forced acceptance
    does not have.
    """

    name: str
    severity: Severity
    allowed: str
    judge: Callable[[Measured], pd.DataFrame]
    of_drafts: bool = False


def findings(
    places: pd.DataFrame,
    value: Any,
    passed: Any,
    *,
    holds: str,
    fails: Callable[[Any], str],
    unknown: str = "not known",
) -> pd.DataFrame:
    """FINDING rows: one for each row of `places`, whose columns `fails` may use (as a named tuple, with
    `value`; a column that had this name is `reading`).

    `passed`: True, False or NaN for each place; a place without a value is not decided.
    """
    frame = places.reset_index(drop=True)
    frame = frame.rename(columns={"value": "reading"})
    frame["value"] = np.asarray(value, dtype=float)
    decided = np.asarray(passed, dtype=float)
    decided = np.where(np.isnan(frame["value"].to_numpy()), np.nan, decided)
    verdict = [None if np.isnan(one) else bool(one) for one in decided]
    frame["passed"] = pd.Series(verdict, dtype=object)
    words = {None: unknown, True: holds}
    frame["reason"] = [
        fails(row) if row.passed is False else words[row.passed]  # type: ignore[index]
        for row in frame.itertuples(index=False)
    ]
    return frame.reindex(columns=FINDING)


def undecided(places: pd.DataFrame, why: str) -> pd.DataFrame:
    """FINDING rows that decide nothing, for a stated reason."""
    return findings(places, np.full(len(places), np.nan), np.nan, holds="", fails=str, unknown=why)


def merged(parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Several findings of one check below one another."""
    whole = [part for part in parts if len(part)]
    return pd.concat(whole, ignore_index=True) if whole else pd.DataFrame(columns=FINDING)


def rows_of(check: Check, measured: Measured) -> list[dict[str, Any]]:
    """The check's rows for the table. Where all places of an arm agree, one row says so with the extreme figure."""
    found = check.judge(measured).astype(object)
    if check.of_drafts:
        forced = found["arm"].isin(measured.forced_arms)
        found = found[~forced]
        places = pd.DataFrame({"arm": list(measured.forced_arms)})
        found = merged([found, undecided(places, FORCED)]).astype(object)
    rows: list[dict[str, Any]] = []
    for _, of_arm in found.groupby("arm", sort=False):
        agree = len(of_arm) > 1 and of_arm["reason"].nunique() == 1
        rows += [_together(of_arm)] if agree else _records(of_arm)
    fixed = {
        "experiment": measured.name,
        "check": check.name,
        "severity": check.severity,
        "allowed": check.allowed,
    }
    return [{name: _plain((fixed | row).get(name)) for name in CHECKS.names} for row in rows]


def _together(found: pd.DataFrame) -> dict[str, Any]:
    """One row for places that agree: keys that they share, and the figure furthest from 0."""
    one = _records(found.iloc[:1])[0]
    for key in PLACE[1:]:
        one[key] = one[key] if found[key].nunique(dropna=False) == 1 else None
    values = found["value"].to_numpy(dtype=float)
    known = values[np.isfinite(values)]
    one["value"] = known[np.abs(known).argmax()] if known.size else None
    return one


def _records(found: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): value for key, value in row.items()} for row in found.to_dict("records")]


def _plain(value: Any) -> Any:
    """A Python value: None for what is missing, no numpy scalars."""
    if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
        return None
    return value.item() if isinstance(value, np.generic) else value
