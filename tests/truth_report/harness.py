"""What the harness costs: the whole workflow on reference servers, its wall clock split into its parts."""

import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from breakeven import tables
from truth_report.experiment import BASE, document
from truth_report.figure import Figure, section

REPOSITORY = Path(__file__).parents[2]
WORKLOAD = {"pp": 128, "tg": 193, "depths": [0], "reps": 4, "warmup": 2}
TRUTH = {"t0_s": 0.002, "ttft_s": 0.01}
STARTUP_S = 1.0
MINUTE_S, SHARE = 60.0, 0.05
ARMS: dict[str, int | str] = {BASE: 0, "n3": 3}


def run() -> dict[str, Any]:
    """The section: bring_up, verify and one measured launch of two arms, as `snakemake` runs them."""
    with tempfile.TemporaryDirectory(prefix="breakeven-truth-") as name:
        folder = Path(name)
        _configure(folder)
        began = time.monotonic()
        _snakemake(folder, *(f"results/overhead/{arm}/1/launch.json" for arm in ARMS))
        wall_s = time.monotonic() - began
        launches = [
            json.loads((folder / f"results/overhead/{arm}/1/launch.json").read_text()) for arm in ARMS
        ]
        brought_up = [
            json.loads((folder / f"results/overhead/{arm}/bring_up.json").read_text()) for arm in ARMS
        ]
        warm_up = [_warm_up_s(folder / f"results/overhead/{arm}/1/requests.parquet") for arm in ARMS]
    rows = [_parts(one, warm) for one, warm in zip(launches, warm_up, strict=True)]
    bring_up_s = sum(one["ended_at"] - one["started_at"] for one in brought_up)
    jobs_s = wall_s - bring_up_s - sum(row["job_s"] for row in rows)
    each_s = jobs_s / (len(rows) + len(brought_up)) + max(row["inside_s"] + row["teardown_s"] for row in rows)
    return section(
        [
            Figure(
                "harness overhead of a launch that takes a minute",
                f"< {SHARE:.0%}",
                f"{each_s:.2f} s a launch, {each_s / MINUTE_S:.1%}",
                each_s < SHARE * MINUTE_S,
            )
        ],
        rows=rows,
        wall_s=wall_s,
        bring_up_s=bring_up_s,
        jobs_s=jobs_s,
        each_s=each_s,
        statuses=[one["status"] for one in (*brought_up, *launches)],
    )


def _parts(one: dict[str, Any], warm_up_s: float) -> dict[str, Any]:
    parts = {name: one[name] for name in ("launch_s", "ready_s", "measure_s", "teardown_s")}
    job_s = one["ended_at"] - one["started_at"]
    inside_s = job_s - one["launch_s"] - one["measure_s"] - one["teardown_s"]
    return {"arm": one["arm"], **parts, "warm_up_s": warm_up_s, "job_s": job_s, "inside_s": inside_s}


def _warm_up_s(path: Path) -> float:
    """From the first request to the first measured one."""
    requests = tables.read(path, tables.REQUESTS)
    measured = requests[requests["kind"] != "warmup"]
    return float(measured["started_at"].min() - requests["started_at"].min())


def _configure(folder: Path) -> None:
    server = {
        "args": {"truth": TRUTH, "startup-s": STARTUP_S},
        "env": {"PYTHONPATH": str(REPOSITORY / "tests")},
    }
    program = [sys.executable, "-m", "reference_server", "--dialect", "vllm"]
    experiment = document("vllm", ARMS, WORKLOAD, 1, server, program)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        machine = {"experiment": "overhead", "device": "cpu", "port": free.getsockname()[1]}
    for path, content in (("config.yaml", machine), ("experiments/overhead.yaml", experiment)):
        file = folder / "config" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(content))


def _snakemake(folder: Path, *targets: str) -> None:
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(REPOSITORY / "Snakefile")]
    command += ["--directory", str(folder), "--cores", "1", "--quiet", "all", "--", *targets]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the workflow failed: {done.stdout[-2000:]}{done.stderr[-4000:]}")
