"""Entry points of the analysing rules: `python -m breakeven.stages STAGE ...`. Read tables, call analysis, write.

Nothing here starts a server or opens a socket; all of it can be run again on stored launches. Every stage is a process
of its own, and statistics take most of a second to import: the stages that need them import them.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd

from breakeven import tables
from breakeven.analysis import cells as reduce
from breakeven.analysis import lossless
from breakeven.analysis.gather import gather
from breakeven.analysis.warmup import late_compiles
from breakeven.config import context_tokens, on_host
from breakeven.engine.facts import COMPILING
from breakeven.engine.reader import read_facts
from breakeven.engine.registry import ENGINES
from breakeven.errors import BreakevenError
from breakeven.files import read_json, write_json, write_text
from breakeven.verify.again import Logs, gates_of

MEASURED = "measured"

RESET = "counters_only_rise"
"""Check that a launch fails whose counters fell: what they say of it cannot be added up."""


def differences(home: str, look: str, compared: str, out: str) -> None:
    """Where outputs first differ from the baseline's on the same prompt: what margins are asked for.

    `compared`: JSON with experiment, baseline, arms, twins, forced (arms by their role) and prompts (classes).
    """
    asked, folder = json.loads(compared), Path(home)
    places = pd.DataFrame(
        [(arm, number) for arm in asked["arms"] for number in range(1, int(look) + 1)],
        columns=["arm", "round"],
    )
    requests = _tables(folder, places, "requests", tables.REQUESTS)
    outputs = lossless.comparable(requests, asked["prompts"], asked["forced"])
    found = lossless.to_ask(lossless.paired(outputs, asked["baseline"], asked["twins"]))
    tables.write(found.assign(experiment=asked["experiment"]), Path(out), tables.DIFFERENCES)


def acceptance(
    home: str, look: str, traffic: str, margins: str, cells: str, prompts: str, checks: str, gates: str
) -> None:
    """Every launch up to a look -> counts per cell and prompt, checks, and the gates of every stored log."""
    from breakeven.analysis import checks as checking

    folder, rounds = Path(home), int(look)
    experiment, model = read_json(folder / "experiment.json"), read_json(Path(traffic))
    launches = _launches(folder, experiment, rounds)
    logs = _logs(folder, launches, experiment["engine"])
    requests, events, counters, telemetry = (
        _tables(folder, launches, name, schema)
        for name, schema in (
            ("requests", tables.REQUESTS),
            ("events", tables.EVENTS),
            ("counters", tables.COUNTERS),
            ("telemetry", tables.TELEMETRY),
        )
    )
    found = checking.run(
        requests,
        events,
        counters,
        telemetry,
        launches.assign(late_compiles=_late_compiles(folder, launches, logs, requests)),
        experiment,
        step_bytes=_step_bytes(model, experiment),
        eos_ids=[] if ENGINES[experiment["engine"]].hides_end else model["eos_ids"],
        natural_tokens=read_json(folder / experiment["baseline"] / "bring_up.json").get("natural_tokens"),
        margins=tables.read(Path(margins), tables.MARGINS),
    )
    tables.write(found, Path(checks), tables.CHECKS)
    reset = {(row["arm"], row["round"]) for row in found if row["check"] == RESET and row["passed"] is False}
    keys = zip(launches["arm"], launches["round"], strict=True)
    sound, name = launches[[key not in reset for key in keys]], experiment["name"]
    per_request = gather([folder / arm / str(n) for arm, n in zip(sound["arm"], sound["round"], strict=True)])
    tables.write(reduce.cells(per_request, sound, name), Path(cells), reduce.CELLS)
    tables.write(reduce.prompts(per_request, sound, name), Path(prompts), reduce.PROMPTS)
    write_json(Path(gates), gates_of(folder, experiment, launches, logs) | {"drafting_s": _drafting_s(logs)})


def _drafting_s(logs: Logs) -> dict[str, float]:
    """Seconds per drafted token by the engine's own timer (llama.cpp's `dur`), a mean over launches; by arm."""
    seconds: dict[str, list[float]] = {}
    for (arm, _), facts in logs.items():
        for drafter in (facts.get("impl") or {}).values():
            drafted, spent = drafter.get("gen_tokens"), drafter.get("dur_ms")
            if drafted and spent:
                seconds.setdefault(arm, []).append(spent[1] / 1000 / drafted)
    return {arm: sum(found) / len(found) for arm, found in seconds.items()}


def fit(
    look: str,
    experiment: str,
    cells: str,
    prompts: str,
    checks: str,
    gates: str,
    traffic: str,
    out: str,
) -> None:
    """Step costs, a + b*N and what follows from them, cell by cell."""
    from breakeven.analysis.stored import numbers_to_json
    from breakeven.analysis.verdict import fit as fit_cells

    spec = read_json(Path(experiment))
    for arm, seconds in read_json(Path(gates))["drafting_s"].items():
        spec["arms"][arm]["drafting_s"] = seconds
    for arm, n_bytes in read_json(Path(traffic))["drafts"].items():
        spec["arms"][arm]["draft_bytes"] = n_bytes
    numbers = fit_cells(
        spec,
        tables.read(Path(cells), reduce.CELLS),
        tables.read(Path(prompts), reduce.PROMPTS),
        tables.read(Path(checks), tables.CHECKS),
        int(look),
    )
    write_text(Path(out), numbers_to_json(numbers))


def traffic(experiment: str, verified: str, out: str) -> None:
    """Bytes of a decode step, from the headers of the baseline's model where this machine can read it."""
    from breakeven.analysis.bandwidth import model_bytes

    spec = read_json(Path(experiment))
    facts = read_json(Path(verified))["facts"]["facts"]
    server = spec["arms"][spec["baseline"]]["server"]
    model = on_host(server.get("args", {}).get("model"), server.get("mounts", []))
    cache_type = facts.get("kv_type_k") or facts.get("kv_dtype") or facts.get("dtype")
    counted = model_bytes(model, spec["workload"]["depths"], cache_type)
    write_json(Path(out), counted | {"drafts": dict(_draft_bytes(spec))})


def _draft_bytes(spec: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    """Bytes that one draft pass of each arm reads that drafts with a model."""
    from breakeven.analysis.bandwidth import draft_bytes

    for name, arm in spec["arms"].items():
        if arm["n_spec"] and not arm["free_drafts"]:
            server, separate = arm["server"], arm["draft_model"]
            path = on_host(separate or server.get("args", {}).get("model"), server.get("mounts", []))
            yield name, draft_bytes(path, separate=separate is not None)


def verdict(
    look: str,
    experiment: str,
    cells: str,
    prompts: str,
    checks: str,
    gates: str,
    fit: str,
    traffic: str,
    out: str,
) -> None:
    """One verdict per arm, depth and class; one per configuration."""
    from breakeven.analysis.bandwidth import against_time
    from breakeven.analysis.stored import numbers_from_json
    from breakeven.analysis.traffic import Bandwidth
    from breakeven.analysis.verdict import verdict as judge

    gated, spec = read_json(Path(gates)), read_json(Path(experiment))
    result = judge(
        spec | {"recorded_tok_s": _recorded_tok_s(spec["name"])},
        tables.read(Path(cells), reduce.CELLS),
        tables.read(Path(prompts), reduce.PROMPTS),
        tables.read(Path(checks), tables.CHECKS),
        gated["statuses"],
        gated["gates"],
        int(look),
        numbers_from_json(Path(fit).read_text()),
    )
    declared = spec.get("bandwidth_gb_s")
    known = Bandwidth(declared, spec["bandwidth_kind"] == "measured") if declared else None
    held = against_time(read_json(Path(traffic)), result.cells, spec["baseline"], known)
    write_json(Path(out), result.to_json() | {"bytes": held})


def _recorded_tok_s(experiment: str) -> float | None:
    """Speed of the baseline in the newest entry that is kept of this experiment: launch noise says nothing of days."""
    from breakeven.publish.ledger.files import read_ledger
    from breakeven.publish.ledger.from_verdict import BASELINE_SPEED

    kept = read_ledger(Path("config/ledger"), []).entries if Path("config/ledger").is_dir() else ()
    known = [entry for entry in kept if entry.experiment == experiment and BASELINE_SPEED in entry.quantities]
    newest = max(known, key=lambda entry: entry.date or "", default=None)
    return None if newest is None else float(newest.quantities[BASELINE_SPEED])


def findings(home: str, look: str, out: str) -> None:
    """What of a verdict goes to the ledger, with the hashes of the tables that it rests on."""
    from breakeven.launch import machine
    from breakeven.publish.ledger.from_verdict import document

    folder, number = Path(home), int(look)
    experiment = read_json(folder / "experiment.json")
    launches = [
        read_json(folder / arm / str(one) / "launch.json")
        for arm in experiment["arms"]
        for one in range(1, number + 1)
    ]
    base = folder / experiment["baseline"]
    facts = read_json(base / "verify.json")["facts"]["facts"]
    parquet = sorted(folder.glob("*/[0-9]*/requests.parquet"))
    parquet = [path for path in parquet if int(path.parent.name) <= number]
    result = document(
        read_json(folder / f"look{look}" / "verdict.json"),
        experiment,
        facts,
        read_json(base / "bring_up.json"),
        next((launch["host"] for launch in launches if "host" in launch), {}),
        machine(),
        max(launch["ended_at"] for launch in launches),
        [{"path": str(path), "sha256": sha256(path.read_bytes()).hexdigest()} for path in parquet],
    )
    write_json(Path(out), result)


def _launches(folder: Path, experiment: Mapping[str, Any], rounds: int) -> pd.DataFrame:
    """One row a launch: its place, times, session and whether it ran."""
    rows = []
    for name, arm in experiment["arms"].items():
        for number in range(1, rounds + 1):
            launch = read_json(folder / name / str(number) / "launch.json")
            host = launch.get("host", {})
            rows.append(
                {
                    "arm": name,
                    "round": number,
                    "slot": launch["slot"],
                    "started_at": launch["started_at"],
                    "ended_at": launch["ended_at"],
                    "session": host.get("boot_id"),
                    "n_spec": arm["n_spec"],
                    "n_ctx": context_tokens(arm),
                    "gated": arm["gated"],
                    "status": tables.OK if launch["status"] == MEASURED else launch["status"],
                    "reason": launch["reason"],
                }
            )
    return pd.DataFrame(rows)


def _tables(folder: Path, launches: pd.DataFrame, name: str, schema: Any) -> pd.DataFrame:
    """One table of all launches, one below the other."""
    frames = [
        tables.read(folder / arm / str(number) / f"{name}.parquet", schema)
        for arm, number in zip(launches["arm"], launches["round"], strict=True)
    ]
    filled = [frame for frame in frames if len(frame)]
    return pd.concat(filled, ignore_index=True) if filled else frames[0]


def _logs(folder: Path, launches: pd.DataFrame, engine: str) -> Logs:
    """Facts of the log of every launch that ran."""
    ran = launches[launches["status"] == tables.OK]
    places = zip(ran["arm"], ran["round"], strict=True)
    return {
        (arm, number): read_facts(folder / arm / str(number) / "server.log", engine) for arm, number in places
    }


def _late_compiles(folder: Path, launches: pd.DataFrame, logs: Logs, requests: pd.DataFrame) -> pd.Series:
    """Compilations that the log of each launch places inside measured requests; None when it cannot be told."""
    counts: list[int | None] = []
    for arm, number in zip(launches["arm"], launches["round"], strict=True):
        facts = logs.get((arm, number))
        lines = [line for finding in facts.of_kind(COMPILING) for line in finding.lines] if facts else []
        if facts is None or not lines:
            counts.append(None if facts is None else 0)
            continue
        log = (folder / arm / str(number) / "server.log").read_text(errors="replace")
        own = requests[(requests["arm"] == arm) & (requests["round"] == number)]
        counts.append(late_compiles(log, lines, own))
    return pd.Series(counts, index=launches.index, dtype="Int64")


def _step_bytes(counted: Mapping[str, Any], experiment: Mapping[str, Any]) -> dict[str, float]:
    """Bytes that one decode step of each arm reads, where they are known."""
    target, draft = counted["target"], counted["draft"]
    found = {}
    for name, arm in experiment["arms"].items():
        drafts = arm["n_spec"] or 0
        if target is not None and (draft is not None or not drafts) and not arm["gated"]:
            found[name] = target + drafts * (draft or 0.0)
    return found


STAGES: Mapping[str, Callable[..., None]] = {
    stage.__name__: stage for stage in (differences, acceptance, fit, traffic, verdict, findings)
}


def main() -> None:
    """Run one stage; a person's error is printed without a traceback."""
    stage, *arguments = sys.argv[1:]
    try:
        STAGES[stage](*arguments)
    except BreakevenError as error:
        raise SystemExit(f"breakeven: {error}") from error


if __name__ == "__main__":
    main()
