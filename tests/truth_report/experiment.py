"""Small experiments on reference servers, measured by the pipeline's sweep and judged by its checks and analysis."""

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import yaml

from breakeven import config, tables
from breakeven.analysis import cells as reduce
from breakeven.analysis import checks as checking
from breakeven.analysis.verdict import verdict as judge
from breakeven.engine.registry import ENGINES
from breakeven.errors import LaunchError
from breakeven.measure import sweep
from breakeven.measure.client import open_client
from breakeven.measure.workload import Request, Workload, plan, read_workload
from truth_report.fleet import fleet

from reference_server import Faults, Truth
from reference_server.vocabulary import EOS

DIALECTS = ("vllm", "llamacpp")
VARIABLE = {"vllm": "speculative-config", "llamacpp": "spec-*"}
READ_TIMEOUT_S = 10.0
WARM_UP_TOKENS = 8
BASE = "base"


NGRAM = {"spec-type": "ngram-simple"}
"""llama.cpp's flag for a drafter without weights, whose drafts have no fixed length."""


def drafting(dialect: str, n: int | Mapping[str, Any]) -> dict[str, Any]:
    """Flags with which an arm of this engine asks for n draft tokens a step, or the flags themselves."""
    if isinstance(n, Mapping):
        return dict(n)
    if n == 0:
        return {}
    if dialect == "vllm":
        return {"speculative-config": {"method": "mtp", "num_speculative_tokens": n}}
    return {"spec-type": "draft-mtp", "spec-draft-n-max": n}


def document(
    dialect: str,
    arms: Mapping[str, int | str | Mapping[str, Any]],
    workload: Mapping[str, Any],
    rounds: int | str,
    server: Mapping[str, Any] | None = None,
    program: Sequence[str] = ("reference_server",),
) -> dict[str, Any]:
    """An experiment file. `arms`: name -> draft length, flags, or the name of the arm that it repeats."""
    patches = {
        name: {"repeat_of": what} if isinstance(what, str) else {"args": drafting(dialect, what)}
        for name, what in arms.items()
    }
    return {
        "engine": dialect,
        "runtime": "process",
        "program": list(program),
        "server": dict(server or {}),
        "baseline": BASE,
        "variable": VARIABLE[dialect],
        "arms": patches,
        "workload": dict(workload),
        "rounds": rounds,
    }


def resolved(experiment: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The experiment as the pipeline resolves it from its file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{name}.yaml")
        path.write_text(yaml.safe_dump(json.loads(json.dumps(dict(experiment)))))
        return config.experiment(path)


@dataclass(frozen=True)
class Launch:
    """One measured launch: its place and its rows."""

    arm: str
    round: int
    slot: int
    started_at: float
    rows: sweep.Rows


@dataclass(frozen=True)
class Judged:
    """What the pipeline makes of launches: its cells, the rows of its checks, its verdict."""

    cells: pd.DataFrame
    checks: list[dict[str, Any]]
    verdict: dict[str, Any]

    def failed(self) -> set[str]:
        """Names of checks that failed somewhere."""
        return {row["check"] for row in self.checks if row["passed"] is False}


def launch(
    url: str,
    spec: Mapping[str, Any],
    arm: str,
    round: int = 1,
    slot: int = 0,
    *,
    seed: int | None = None,
    first: int | None = None,
    between: Callable[[str], None] | None = None,
) -> Launch:
    """The planned requests of one launch against a server that is up, through the pipeline's sweep.

    Warm-up answers are short. `first`: only so many requests. `between` is called with the URL after half of them.
    A server that fails leaves the rows so far.
    """
    work: Workload = read_workload(spec["workload"])
    planned = [
        _short(request) for request in plan(work, spec["seed"] if seed is None else seed, round)[:first]
    ]
    rows, started = sweep.Rows(), time.time()
    keys = {"experiment": spec["name"], "arm": arm, "round": round, "slot": slot}
    half = len(planned) // 2 if between else len(planned)
    with open_client(url, READ_TIMEOUT_S) as http:
        for part in (planned[:half], planned[half:]):
            try:
                sweep.run(
                    http, ENGINES[spec["engine"]], part, keys, n_ctx=None, alive=lambda: True, rows=rows
                )
            except LaunchError:
                break
            if between and part is not planned[half:]:
                between(url)
    return Launch(arm, round, slot, started, rows)


def _short(request: Request) -> Request:
    """A reference server is as fast at once; it only has to draft before it shows counters of drafts (llama.cpp)."""
    if request.kind != "warmup":
        return request
    return replace(request, asked_tokens=min(request.asked_tokens, WARM_UP_TOKENS))


def measured(
    spec: Mapping[str, Any],
    truths: Mapping[str, Truth],
    rounds: int,
    *,
    faults: Mapping[str, Faults] | None = None,
    noise_seed: int = 0,
) -> list[Launch]:
    """Interleaved rounds: one fresh reference server a launch, the arms' order rotated from round to round.

    Launches are numbered, so that their noise is drawn afresh for each and is the same in every run of the report.
    """
    places = []
    for number in range(1, rounds + 1):
        order = list(truths)
        order = order[number % len(order) :] + order[: number % len(order)]
        places += [(number, slot, arm) for slot, arm in enumerate(order)]
    wanted = [
        (spec["engine"], replace(truths[arm], launch=noise_seed + i), (faults or {}).get(arm, Faults()))
        for i, (_, _, arm) in enumerate(places)
    ]
    with fleet(wanted) as urls:
        return [
            launch(url, spec, arm, number, slot)
            for url, (number, slot, arm) in zip(urls, places, strict=True)
        ]


def frame(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pd.DataFrame:
    """Rows as the pipeline reads them back from their Parquet file."""
    table = pa.Table.from_pylist(list(rows), schema=schema)
    read: pd.DataFrame = table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    return read


@dataclass(frozen=True)
class Tables:
    """What checks look at: the tables of some launches, one below the other."""

    requests: pd.DataFrame
    events: pd.DataFrame
    counters: pd.DataFrame
    telemetry: pd.DataFrame
    launches: pd.DataFrame


def launch_table(launches: Sequence[Launch], spec: Mapping[str, Any]) -> pd.DataFrame:
    """Launches as the analysing rules describe them."""
    return pd.DataFrame(
        [
            {
                "arm": one.arm,
                "round": one.round,
                "slot": one.slot,
                "started_at": one.started_at,
                "session": "one",
                "n_spec": spec["arms"][one.arm]["n_spec"],
                "gated": spec["arms"][one.arm]["gated"],
                "status": tables.OK,
                "reason": None,
            }
            for one in launches
        ]
    )


def tables_of(launches: Sequence[Launch], spec: Mapping[str, Any]) -> Tables:
    """Launches as the analysing rules read them; no telemetry."""
    requests, events, counters = (
        frame([row for one in launches for row in getattr(one.rows, name)], schema)
        for name, schema in (
            ("requests", tables.REQUESTS),
            ("events", tables.EVENTS),
            ("counters", tables.COUNTERS),
        )
    )
    return Tables(requests, events, counters, frame([], tables.TELEMETRY), launch_table(launches, spec))


def check(
    seen: Tables,
    spec: Mapping[str, Any],
    step_bytes: Mapping[str, float] | None = None,
    registry: Iterable[checking.Check] = checking.REGISTRY,
) -> list[dict[str, Any]]:
    """Rows of the pipeline's checks on these tables."""
    return checking.run(
        *(seen.requests, seen.events, seen.counters, seen.telemetry, seen.launches),
        spec,
        step_bytes=step_bytes,
        eos_ids=(EOS,),
        registry=registry,
    )


def judged(launches: Sequence[Launch], spec: Mapping[str, Any], look: int, *, checked: bool = True) -> Judged:
    """Cells, checks and verdict, as the rules acceptance, fit and verdict make them; without checks if so asked."""
    cells, prompts = reduced(launches, spec)
    rows = check(tables_of(launches, spec), spec) if checked else []
    verdict = judge(
        spec,
        cells,
        prompts,
        frame(rows, tables.CHECKS),
        {arm: {"status": tables.OK, "reason": None} for arm in spec["arms"]},
        {arm: [] for arm in spec["arms"]},
        look,
    )
    return Judged(cells, rows, verdict.to_json())


def reduced(launches: Sequence[Launch], spec: Mapping[str, Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(cells, prompts) of launches."""
    requests = frame([row for one in launches for row in one.rows.requests], tables.REQUESTS)
    counters = frame([row for one in launches for row in one.rows.counters], tables.COUNTERS)
    counts, table = reduce.per_request(requests, counters), launch_table(launches, spec)
    return reduce.cells(counts, table, spec["name"]), reduce.prompts(counts, table, spec["name"])


def numbers(verdict: Mapping[str, Any], arm: str, depth: int = 0) -> dict[str, Any]:
    """One arm's numbers in the cell of a depth."""
    cell = next(one for one in verdict["cells"] if one["depth"] == depth)
    own: dict[str, Any] = next(one for one in cell["arms"] if one["arm"] == arm)
    return own
