"""How long, and in how much memory, 10^6 requests of 10^4 launches become verdicts.

    python tests/bench/million_requests.py [--launches 10000] [--folder DIR]

Writes the launches' tables as the client writes them (not timed), then, in a fresh process, reads them, reduces them to
cells and prompts, and judges every cell. Prints seconds and peak memory of that process.

The checks, which read every event, are not in it.

Seen on 2 x AMD EPYC (virtual, Python 3.11, pyarrow 26): 16.9 to 18.1 s, of it 13 s for reading 20,000 files, and
0.82 GiB. With tables compressed by zstd it took 20 s at best: its set-up is paid for every column of every file.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from breakeven import tables
from breakeven.analysis import cells as reduce
from breakeven.analysis.gather import gather
from breakeven.analysis.verdict import verdict

ARMS = {"base": 0, "base_again": 0, "mtp1": 1, "mtp2": 2, "mtp3": 3}
CONDITIONAL = (0.87, 0.784, 0.799)
DEPTHS, CLASSES, PROMPTS = (0, 8192), ("code", "prose"), 24
TOKENS, T0_S = 257, 0.027
REQUESTS_PER_LAUNCH = len(DEPTHS) * len(CLASSES) * (PROMPTS + 1)


def launch_tables(rng: np.random.Generator, arm: str, number: int, slot: int) -> tuple[pa.Table, pa.Table]:
    """requests and counters of one launch without noise: 100 requests, one engine's counters around each."""
    n = ARMS[arm]
    count = REQUESTS_PER_LAUNCH
    place = [
        (depth, prompt_class, kind, prompt)
        for depth in DEPTHS
        for prompt_class in CLASSES
        for kind, prompt in [("pp", 0), *(("tg", p) for p in range(PROMPTS))]
    ]
    depth, prompt_class, kind, prompt = (np.array(column) for column in zip(*place, strict=True))
    accepted = np.zeros((count, 3), dtype=int)
    steps = np.full(count, TOKENS - 1)
    if n:
        steps = (256 / (1 + sum(np.cumprod(CONDITIONAL[:n])))).round().astype(int) + rng.integers(
            -3, 4, count
        )
        accepted[:, :n] = np.minimum(steps[:, None], (steps[:, None] * np.cumprod(CONDITIONAL[:n])).round())
        accepted[:, 0] += TOKENS - 1 - steps - accepted.sum(1)
    base = {"experiment": "big", "arm": arm, "round": number, "slot": slot}
    empty: dict[str, object] = dict.fromkeys(tables.REQUESTS.names)
    columns = (
        empty
        | base
        | {"depth": depth, "prompt_class": prompt_class, "prompt": prompt, "rep": 0, "kind": kind}
    )
    columns |= {"seq": np.arange(count), "status": "ok", "started_at": 1e9, "asked_tokens": TOKENS}
    columns |= {
        "prompt_tokens": 2048,
        "planned_new_tokens": 2048,
        "computed_tokens": 2048,
        "prompt_sha256": "0" * 64,
    }
    columns |= {"completion_tokens": TOKENS, "first_event_tokens": 1, "ttft_s": 1.4}
    columns |= {"decode_s": steps * (1.0549 + 0.1396 * n if n else 1.0) * T0_S}
    columns |= {"output_ids": [rng.integers(0, 32000, TOKENS) for _ in range(count)]}
    requests = pa.Table.from_pandas(
        pd.DataFrame(columns, index=range(count)), schema=tables.REQUESTS, preserve_index=False
    )
    names = [
        ("drafts", None, steps),
        ("draft_tokens", None, steps * n),
        ("accepted_tokens", None, accepted.sum(1)),
    ]
    names += [("accepted_per_pos", i, accepted[:, i]) for i in range(n)]
    series = [
        pd.DataFrame(
            base
            | {
                "seq": np.arange(count),
                "counter": name,
                "position": position,
                "before": 1e6,
                "after": 1e6 + values,
            }
        )
        for name, position, values in (names if n else [])
    ]
    counted = pd.concat(series) if series else pd.DataFrame(columns=tables.COUNTERS.names)
    return requests, pa.Table.from_pandas(counted, schema=tables.COUNTERS, preserve_index=False)


def _with(table: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    return table.set_column(table.column_names.index(name), table.schema.field(name), values)


def _moved(table: pa.Table, number: int, slot: int) -> pa.Table:
    """The same launch in another round."""
    for name, value in (("round", number), ("slot", slot)):
        table = _with(table, name, pa.array(np.full(len(table), value)))
    return table


def write(folder: Path, launches: int) -> None:
    """Tables of so many launches under folder/<arm>/<round>, and launches.parquet."""
    rng = np.random.default_rng(0)
    rows = []
    first = {arm: launch_tables(rng, arm, 1, 0) for arm in ARMS}
    for i in range(launches):
        number, slot = i // len(ARMS) + 1, i % len(ARMS)
        arm = list(ARMS)[slot]
        home = folder / arm / str(number)
        home.mkdir(parents=True, exist_ok=True)
        requests, counters = (_moved(table, number, slot) for table in first[arm])
        slow = pa.scalar(float(np.exp(0.013 * rng.standard_normal())))
        for name in ("decode_s", "ttft_s"):
            requests = _with(requests, name, pc.multiply(requests[name], slow))
        for name, table in (("requests", requests), ("counters", counters)):
            pq.write_table(table, home / f"{name}.parquet", compression=tables.COMPRESSION)
        place = {"arm": arm, "round": number, "slot": slot, "started_at": 100.0 * i}
        rows.append(place | {"session": "a", "status": "measured"})
    launches_frame = pd.DataFrame(rows).assign(n_spec=[ARMS[row["arm"]] or None for row in rows])
    launches_frame.to_parquet(folder / "launches.parquet")


def analyse(folder: Path) -> dict[str, float]:
    """The timed part."""
    clock = [time.perf_counter()]
    launches = pd.read_parquet(folder / "launches.parquet")
    folders = [
        folder / arm / str(number) for arm, number in zip(launches["arm"], launches["round"], strict=True)
    ]
    rows = gather(folders)
    clock.append(time.perf_counter())
    cells, prompts = reduce.cells(rows, launches, "big"), reduce.prompts(rows, launches, "big")
    clock.append(time.perf_counter())
    arms = {
        name: {"n_spec": n or None, "repeat_of": "base" if name == "base_again" else None}
        for name, n in ARMS.items()
    }
    experiment = {"name": "big", "baseline": "base", "arms": arms, "rounds": int(launches["round"].max())}
    found = verdict(experiment, cells, prompts, pd.DataFrame(columns=tables.CHECKS.names), {}, {}).to_json()
    clock.append(time.perf_counter())
    assert {arm["verdict"]["verdict"] for arm in found["cells"][0]["arms"] if arm["verdict"]} == {"wins"}
    read, reduced, judged = np.diff(clock)
    return {"requests": len(rows), "read_s": read, "reduce_s": reduced, "judge_s": judged}


def main() -> None:
    """Write, analyse in a fresh process, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--launches", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, help="keep the tables here and use them again")
    parser.add_argument("--analyse", action="store_true", help="the timed part alone, on --folder")
    options = parser.parse_args()
    if options.analyse:
        print(json.dumps(analyse(options.folder)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if not (folder / "launches.parquet").exists():
            write(folder, options.launches)
        began = time.perf_counter()
        command = [sys.executable, __file__, "--analyse", "--folder", str(folder)]
        figures = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(
            f"{figures['requests']:,} requests analysed in {time.perf_counter() - began:.1f} s, imports included"
        )
        figures |= {"cpu_s": used.ru_utime + used.ru_stime, "peak_gib": used.ru_maxrss / 1024**2}
        print(", ".join(f"{name} {value:.2f}" for name, value in figures.items() if name != "requests"))


if __name__ == "__main__":
    main()
