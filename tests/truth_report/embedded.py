"""On the real embedded server: the client's decode times against the server's own."""

import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from breakeven import config
from breakeven.demo import Recipe
from breakeven.launch import launched, machine
from breakeven.measure import sweep
from breakeven.measure.workload import plan, read_workload
from truth_report.figure import Figure, section

EXPERIMENT = Path("config/experiments/mtp_ab.yaml")
ARMS = ("base", "mtp3")
WORKLOAD = {"pp": 128, "tg": 256, "depths": [0, 512], "reps": 3, "warmup": 1}
SHARE = 0.01


def run() -> dict[str, Any]:
    """The section; runs in the repository's folder and needs the demo's model."""
    spec = config.experiment(EXPERIMENT)
    model = config.DEMO_MODELS / Recipe().file_name
    assert model.exists(), f"{model} is missing: snakemake --cores 1 {model}"
    rows = [row for arm in ARMS for row in _measured(spec, arm)]
    worst = max(rows, key=lambda row: abs(row["share"]))
    return section(
        [
            Figure(
                "client's decode time against the embedded server's own (median of a cell)",
                f"within {SHARE:.0%}",
                f"worst {worst['share']:+.2%} ({worst['arm']}, depth {worst['depth']})",
                abs(worst["share"]) <= SHARE,
            )
        ],
        rows=rows,
    )


def _measured(spec: dict[str, Any], arm: str) -> list[dict[str, Any]]:
    serve = {"engine": spec["engine"], "runtime": spec["runtime"], **spec["arms"][arm]}
    rows, workload = sweep.Rows(), spec["workload"] | WORKLOAD
    keys = {"experiment": spec["name"], "arm": arm, "round": 1, "slot": 0}
    with (
        tempfile.TemporaryDirectory() as folder,
        launched(
            serve, machine() | {"device": "cpu"}, experiment="truth", arm=arm, log=Path(folder, "server.log")
        ) as up,
    ):
        planned = plan(read_workload(workload), spec["seed"], 1)
        sweep.run(up.http, up.engine, planned, keys, n_ctx=None, alive=up.server.alive, rows=rows)
    return [
        _row(arm, depth, [row for row in rows.requests if row["depth"] == depth and row["kind"] == kind])
        for kind, depth in (("tg", depth) for depth in WORKLOAD["depths"])  # type: ignore[attr-defined]
    ]


def _row(arm: str, depth: int, requests: list[dict[str, Any]]) -> dict[str, Any]:
    timed = [row for row in requests if row["decode_s"] is not None]
    return {
        "arm": arm,
        "depth": depth,
        "requests": len(timed),
        "client_s": median(row["decode_s"] for row in timed),
        "server_s": median(row["server_decode_s"] for row in timed),
        "share": median(row["decode_s"] / row["server_decode_s"] - 1 for row in timed),
        "ttft_over_s": median(row["ttft_s"] - row["server_prompt_s"] for row in requests),
    }
