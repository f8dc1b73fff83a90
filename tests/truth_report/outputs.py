"""Outputs that leave the baseline's: a near-tie that numerics flip is told from a defect by the baseline's margin."""

from functools import partial
from typing import Any

import pandas as pd

from breakeven import tables
from breakeven.analysis import lossless
from breakeven.analysis.evidence import records
from breakeven.engine.registry import ENGINES
from breakeven.measure import margins
from breakeven.measure.client import open_client
from breakeven.measure.workload import plan, read_workload
from truth_report.experiment import (
    BASE,
    DIALECTS,
    READ_TIMEOUT_S,
    document,
    frame,
    launch,
    resolved,
    tables_of,
)
from truth_report.figure import Figure, section
from truth_report.fleet import fleet

from reference_server import Faults, Truth

TIE_AT, CLEAR_AT = 6, 20
TRUTH = Truth(t0_s=0.001, ttft_s=0.002, near_tie_at=TIE_AT)
WORKLOAD = {"pp": 32, "tg": 48, "depths": [0, 128], "reps": 1, "warmup": 1, "prompts": {"code": {"count": 4}}}
PARTS_AT = {BASE: None, "same": None, "flips a tie": TIE_AT, "is broken": CLEAR_AT}
"""Arms by the token from which their outputs are others than the baseline's."""
EXPECTED = {"same": "identical", "flips a tie": "tie flip", "is broken": "diverges"}
MARGIN_SHARE = 0.01


def run() -> dict[str, Any]:
    """The section: arms whose outputs part from the baseline's at known margins, in both dialects."""
    rows = [row for dialect in DIALECTS for row in _judged(dialect)]
    wrong = [f"{row['arm']} in {row['dialect']}: {row['kind']}" for row in rows if not row["passed"]]
    return section(
        [
            Figure(
                "outputs that part from the baseline's: near-ties told from defects by its margins",
                "the kind of every arm, margins within 1%",
                f"{len(rows) - len(wrong)} of {len(rows)}" + (f"; {', '.join(wrong)}" if wrong else ""),
                not wrong,
            )
        ],
        rows=rows,
        tie=lossless.TIE_MARGIN,
    )


def _judged(dialect: str) -> list[dict[str, Any]]:
    arms = {arm.replace(" ", "_"): place for arm, place in PARTS_AT.items()}
    spec = resolved(document(dialect, dict.fromkeys(arms, 0), WORKLOAD, 1), "outputs")
    with fleet([(dialect, TRUTH, Faults(diverges_at=place)) for place in arms.values()]) as urls:
        launches = [
            launch(url, spec, arm, slot=slot) for slot, (url, arm) in enumerate(zip(urls, arms, strict=True))
        ]
        requests = tables_of(launches, spec).requests
        outputs = lossless.comparable(requests, spec["workload"]["prompts"], [])
        places = lossless.to_ask(lossless.paired(outputs, BASE)).assign(experiment=spec["name"])
        asked = _margins(dialect, urls[0], spec, places)
    found = {one.arm: one for one in lossless.compare(outputs, BASE, (), asked)}
    rows = []
    for arm, place in PARTS_AT.items():
        if arm == BASE:
            continue
        one = found[arm.replace(" ", "_")]
        true = None if place is None else TRUTH.logprob_margin(place)
        close = true is None or (one.margin is not None and abs(one.margin - true) <= MARGIN_SHARE * true)
        rows.append(
            {
                "dialect": dialect,
                "arm": arm,
                "parts_at": place,
                "true_margin": true,
                "margin": one.margin,
                "kind": one.kind,
                "passed": one.kind == EXPECTED[arm] and close,
            }
        )
    return rows


def _margins(dialect: str, url: str, spec: dict[str, Any], places: pd.DataFrame) -> pd.DataFrame:
    planned = partial(plan, read_workload(spec["workload"]), spec["seed"])
    with open_client(url, READ_TIMEOUT_S) as http:
        return frame(list(margins.ask(http, ENGINES[dialect], records(places), planned)), tables.MARGINS)
