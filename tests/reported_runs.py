"""Results folders whose truth is known: simulated launches, judged by the real analysis, laid out as the rules do."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from breakeven import tables
from breakeven.analysis.cells import CELLS, PROMPTS
from breakeven.analysis.verdict import verdict
from breakeven.engine.facts import Facts
from breakeven.tables import CHECKS, TELEMETRY
from unit.simulated_launches import Tables, TrueArm, simulate

BASE = {"base": TrueArm(), "base_again": TrueArm(repeat_of="base")}
WON = BASE | {
    "mtp1": TrueArm(1.20, (0.88,)),
    "mtp2": TrueArm(1.34, (0.88, 0.80)),
    "mtp3": TrueArm(1.48, (0.88, 0.80, 0.70)),
}
LOST = BASE | {
    "mtp1": TrueArm(1.60, (0.30,)),
    "mtp2": TrueArm(2.20, (0.30, 0.20)),
    "mtp3": TrueArm(2.80, (0.30, 0.20, 0.10)),
}
IMPOSSIBLE = BASE | {
    "mtp1": TrueArm(2.30, (0.88,)),
    "mtp2": TrueArm(3.50, (0.88, 0.80)),
    "mtp3": TrueArm(4.70, (0.88, 0.80, 0.70)),
}
CLOSE = BASE | {"mtp1": TrueArm(1.50, (0.50,))}
STARTED_AT = 1_790_000_000.0
LAUNCH_S, MEASURE_S, TEARDOWN_S, JOB_S = 2.0, 30.0, 0.5, 0.5

Died = Mapping[str, tuple[str, list[str]]]


def write_run(
    home: Path,
    arms: Mapping[str, TrueArm],
    *,
    died: Died | None = None,
    refused: Died | None = None,
    note: str | None = None,
    gpu: bool = False,
    checks: Sequence[Mapping[str, object]] | None = None,
    **simulated: Any,
) -> Path:
    """Simulate, judge and write one experiment `ab` under `home`; the path of its verdict.json.

    `died`, `refused`: arm -> (reason, last log lines); such an arm has no launch that measured.
    """
    failed = dict(died or {}) | dict(refused or {})
    whole = simulate(arms, **simulated)
    made = Tables(
        whole.cells[~whole.cells["arm"].isin(failed)].copy(),
        whole.prompts[~whole.prompts["arm"].isin(failed)].copy(),
        pd.DataFrame(checks or [], columns=CHECKS.names),
        whole.experiment,
    )
    made.cells["started_at"] += STARTED_AT
    experiment = _experiment(made, arms, note)
    rounds = int(whole.cells["round"].max())
    folder = home / "ab"
    statuses, gates = {}, {}
    for name in arms:
        status = "died" if name in (died or {}) else "refused" if name in (refused or {}) else "ok"
        reason = failed[name][0] if name in failed else None
        statuses[name] = {"status": status, "reason": reason}
        gates[name] = _gates(reason if status == "refused" else None) if status != "died" else []
        _write_arm(folder / name, name, arms[name], status, failed.get(name), rounds, made, gpu)
    judged = verdict(
        experiment, made.cells, made.prompts, made.checks, statuses, gates,
        rounds if experiment["rounds"] == "auto" else None,
    )  # fmt: skip
    look = folder / f"look{rounds}"
    _json(folder / "experiment.json", experiment)
    _json(look / "verdict.json", judged.to_json())
    _json(look / "gates.json", {"statuses": statuses, "gates": gates})
    tables.write(made.cells, look / "cells.parquet", CELLS)
    tables.write(made.prompts, look / "prompts.parquet", PROMPTS)
    tables.write(made.checks, look / "checks.parquet", CHECKS)
    return look / "verdict.json"


def _experiment(made: Tables, arms: Mapping[str, TrueArm], note: str | None) -> dict[str, Any]:
    described: dict[str, Any] = {
        name: {
            "n_spec": len(arm.conditional) or None,
            "repeat_of": arm.repeat_of,
            "cost_only": arm.cost_only,
            "gated": False,
            "method": "draft-mtp" if arm.conditional else None,
        }
        for name, arm in arms.items()
    }
    own: dict[str, Any] = {
        "engine": "llamacpp", "runtime": "process", "program": "llama-server", "seed": 1, "variable": ["spec-*"],
        "server": {"model": "models/tiny.gguf", "args": {}}, "mixes": made.experiment.get("mixes", []),
        "workload": {"pp": 2048, "tg": 256, "depths": [0], "reps": 1, "prompts": {"code": {"count": 12}}},
        "ledger": {"lead": "native-mtp", "model": "tiny", "quant": "F32"},
    }  # fmt: skip
    return {**own, **made.experiment, "arms": described, **({"note": note} if note else {})}


def _gates(refused: str | None) -> list[dict[str, Any]]:
    wanted = {"fact": "spec_active", "wanted": "as asked", "found": True, "severity": "block"}
    gates = [
        {"name": "speculation active", "passed": refused is None, "reason": refused or "as asked", **wanted}
    ]
    return [
        *gates,
        {**wanted, "name": "attention backend", "passed": None, "severity": "warn", "reason": "not stated"},
    ]


def _write_arm(
    home: Path, name: str, arm: TrueArm, status: str, failed: Any, rounds: int, made: Tables, gpu: bool
) -> None:
    n = len(arm.conditional)
    argv = ["--model", "models/tiny.gguf", *(["--spec-draft-n-max", str(n)] if n else [])]
    reason, tail = failed or (None, [])
    bring_up: dict[str, Any] = {
        "experiment": "ab",
        "arm": name,
        "started_at": STARTED_AT,
        "ended_at": STARTED_AT + 3,
    }
    if status == "died":
        bring_up |= {"status": "died", "reason": reason, "log_tail": tail}
    else:
        bring_up |= {
            "status": "ready", "reason": None, "ready_s": 0.5,
            "identity": {"program": "/opt/llama-server", "argv": argv, "env": {}, "digest": "sha256:" + "0" * 64},
            "described": {
                "engine": "llamacpp", "runtime": "process", "program": "/opt/llama-server",
                "digest": "sha256:" + "0" * 64, "argv": argv, "env": {}, "env_from": [], "mounts": [],
                "models": {"model": {"tiny.gguf": {"bytes": 14_236_480, "sha256_of_ends": "c5" * 32}}},
                "options": {}, "packages": None, "unknown": [],
            },
            "evidence": {"/props": {"build_info": "b11549-abcdef0"}},
        }  # fmt: skip
    _json(home / "bring_up.json", bring_up)
    _json(
        home / "verify.json",
        {
            "passed": status == "ok", "status": {"ok": "verified"}.get(status, status), "reason": reason,
            "facts": Facts("llamacpp").to_json(), "findings": [], "gates": [], "differences": [], "unknown": [],
        },
    )  # fmt: skip
    own = made.cells[made.cells["arm"] == name].drop_duplicates("round").set_index("round")
    for number in range(1, rounds + 1):
        record: dict[str, Any] = {"experiment": "ab", "arm": name, "round": number, "slot": 0}
        telemetry = []
        if status == "ok":
            began = float(own.at[number, "started_at"])
            took = LAUNCH_S + MEASURE_S + TEARDOWN_S + JOB_S
            record |= {
                "slot": int(own.at[number, "slot"]), "started_at": began, "ended_at": began + took,
                "status": "measured", "reason": None, "launch_s": LAUNCH_S, "measure_s": MEASURE_S,
                "teardown_s": TEARDOWN_S, "identity": bring_up["identity"], "telemetry_missing": [],
                "host": {"host": "bench", "system": "Linux", "kernel": "6.1", "cpu_model": "CPU", "cores": 2,
                         "threads": 2, "memory_bytes": 8_000_000_000, "boot_id": "a", "cpu_governor": None, "gpus": []},
            }  # fmt: skip
            quantities = {"load_1m": 1.0} | (
                {"temperature_edge_c": 60.0, "gpu_clock_mhz": 1725.0} if gpu else {}
            )
            keys = {"experiment": "ab", "arm": name, "round": number, "slot": record["slot"]}
            telemetry = [
                {**keys, "at": began + second, "device": "0000:03:00.0" if gpu else "cpu",
                 "quantity": quantity, "value": value + second / 10, "source": "sysfs"}
                for second in range(0, 30, 3)
                for quantity, value in quantities.items()
            ]  # fmt: skip
        else:
            record |= {
                "started_at": STARTED_AT,
                "ended_at": STARTED_AT + 1,
                "status": status,
                "reason": reason,
            }
            record |= {"log_tail": tail} if status == "died" else {}
        _json(home / str(number) / "launch.json", record)
        tables.write(telemetry, home / str(number) / "telemetry.parquet", TELEMETRY)


def _json(path: Path, document: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, allow_nan=False))
