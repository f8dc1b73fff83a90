"""What each figure shows, as a table of one row a mark: empty where nothing is known."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from breakeven.publish.report.numbers import known
from breakeven.publish.report.run import Document, Run, place

MEASURED, PERFECT = "measured", "if every draft were accepted"
FIT, LIMIT = "fit a + b·N", "limit N + 1"
MOST_READINGS = 400
"""Readings drawn of one quantity: more than that is a smear, and makes the page heavy."""
TEMPERATURE, CLOCK = "temperature (°C)", "clock (MHz)"


def speedups(run: Run) -> pd.DataFrame:
    """Speed-up of every candidate with its interval, and its ceiling."""
    rows = []
    for cell, own in _judged(run):
        for series, estimate in ((MEASURED, own["ratio"]), (PERFECT, own["ceiling"])):
            if known(estimate["value"]):
                rows.append(
                    {
                        **_place(cell),
                        "arm": own["arm"],
                        "n_spec": own["n_spec"],
                        "series": series,
                        **_bounds(estimate),
                    }
                )
    return pd.DataFrame(rows)


def step_costs(run: Run) -> pd.DataFrame:
    """C(N) of the arms that the line is fitted to, the line, and the limit that no acceptance can beat."""
    rows: list[dict[str, Any]] = []
    for cell in run.verdict["cells"]:
        fit = cell["fit"]
        if fit is None:
            continue
        here = _place(cell)
        for arm, n, drafted, cost in zip(fit["arms"], fit["n"], fit["drafted"], fit["cost"], strict=True):
            if known(cost["value"]):
                rows.append(
                    {**here, "arm": arm, "n_spec": n, "drafted": drafted, "series": MEASURED, **_bounds(cost)}
                )
        a, b = fit["a"]["value"], fit["b"]["value"]
        for drafted in (0.0, max(fit["drafted"])):
            if known(a) and known(b):
                rows.append({**here, "drafted": drafted, "series": FIT, "value": a + b * drafted})
            rows.append({**here, "drafted": drafted, "series": LIMIT, "value": drafted + 1})
    frame = pd.DataFrame(rows)
    return frame if not frame.empty and (frame["series"] == MEASURED).any() else pd.DataFrame()


def tokens_by_depth(run: Run) -> pd.DataFrame:
    """Decode speed of every arm at every depth."""
    rows = [
        {**_place(cell), "arm": own["arm"], **_bounds(own["tok_s"])}
        for cell in run.verdict["cells"]
        for own in cell["arms"]
        if known(own["tok_s"]["value"])
    ]
    return pd.DataFrame(rows)


def acceptance(run: Run) -> pd.DataFrame:
    """Share of drafts accepted up to each position."""
    rows = [
        {
            **_place(cell),
            "cell": place(cell),
            "arm": own["arm"],
            "position": index + 1,
            "value": float(survival),
        }
        for cell in run.verdict["cells"]
        for own in cell["arms"]
        for index, survival in enumerate(own["acceptance"]["survival"] or ())
        if known(survival)
    ]
    return pd.DataFrame(rows)


def samples(run: Run) -> pd.DataFrame:
    """Decode speed of every launch over time in the shallowest cell, and what temperature and clock did meanwhile."""
    cells = run.cells[run.cells["started_at"].notna() & run.cells["tok_s"].notna()]
    if cells.empty:
        return pd.DataFrame()
    first = cells.sort_values(["depth", "prompt_class"], kind="stable").iloc[0]
    own = cells[(cells["depth"] == first["depth"]) & (cells["prompt_class"] == first["prompt_class"])]
    began = float(cells["started_at"].min())
    launches = pd.DataFrame(
        {
            "minutes": (own["started_at"].astype(float) - began) / 60,
            "series": "tokens/s",
            "value": own["tok_s"].astype(float),
            "arm": own["arm"],
            "round": own["round"].astype(int),
            "slot": own["slot"].astype(int),
            "depth": own["depth"].astype(int),
            "prompt_class": own["prompt_class"],
        }
    )
    return pd.concat([launches, *_readings(run, began)], ignore_index=True)


def _readings(run: Run, began: float) -> Iterator[pd.DataFrame]:
    readings = run.telemetry
    for (device, quantity), own in readings.groupby(["device", "quantity"], sort=True):
        series = _series(str(quantity))
        if series is None:
            continue
        own = own.sort_values("at")
        thinned = own.iloc[:: max(1, len(own) // MOST_READINGS)]
        yield pd.DataFrame(
            {
                "minutes": (thinned["at"] - began) / 60,
                "series": series,
                "value": thinned["value"],
                "arm": thinned["arm"],
                "round": thinned["round"].astype(int),
                "quantity": f"{device} {quantity}",
            }
        )


def _series(quantity: str) -> str | None:
    if quantity.startswith("temperature_") and quantity.endswith("_c"):
        return TEMPERATURE
    return CLOCK if quantity.endswith(("clock_mhz", "frequency_mhz")) else None


def _judged(run: Run) -> Iterator[tuple[Document, Document]]:
    for cell in run.verdict["cells"]:
        for own in cell["arms"]:
            if own["verdict"] and own["verdict"]["verdict"] not in ("invalid", "not measured"):
                yield cell, own


def _place(cell: Document) -> dict[str, Any]:
    return {"depth": cell["depth"], "prompt_class": cell["prompt_class"]}


def _bounds(estimate: Document) -> dict[str, float | None]:
    return {key: estimate[key] for key in ("value", "low", "high")}
