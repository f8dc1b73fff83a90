"""Entry points of the measuring rules: `python -m breakeven.job RULE ...`.

An arm's failure is data: a server that died, was refused or timed out leaves a `status` and a `reason` and the job
succeeds, so that the other arms go on. Only the harness's own errors fail a job.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from breakeven.errors import BreakevenError, LaunchError
from breakeven.files import read_json, write_json
from breakeven.runtime import Server
from breakeven.runtime.log import last_lines
from breakeven.runtime.signals import Interrupted, interruptible
from breakeven.runtime.tether import die_with_parent

if TYPE_CHECKING:
    from breakeven.launch import Launched

logger = logging.getLogger("breakeven")

LOG_TAIL_LINES = 12
END_SEEN_S = 2.0


def bring_up(experiment: str, arm: str, serve: str, is_baseline: str, log: str, out: str) -> None:
    """One discarded launch: its raw log, and what really ran; warms what engines keep in caches.

    The baseline is also asked where its answers would end, if its outputs do not show it. `is_baseline`: 1 or 0.
    """
    from breakeven.launch import identity, launched, machine
    from breakeven.measure.natural_end import natural_tokens
    from breakeven.measure.settling import unsettled, warm_up
    from breakeven.measure.workload import read_workload
    from breakeven.verify.identity import describe

    parameters, settings = json.loads(serve), machine()
    workload = read_workload(parameters["workload"], Path())
    record: dict[str, Any] = {"experiment": experiment, "arm": arm, "started_at": time.time()}
    _say_launch(experiment, arm, "bring_up")
    try:
        with launched(parameters, settings, experiment=experiment, arm=arm, log=Path(log)) as up:
            record |= {
                "status": "ready",
                "reason": None,
                "ready_s": up.ready_s,
                "identity": identity(up.server),
                "described": describe(parameters, identity(up.server), full_hash=settings["full_hash"]),
                "evidence": up.evidence,
                "smoke": up.smoke,
                "warmed": warm_up(
                    up.http, up.engine, workload, parameters["seed"], partial(_compilations, up)
                ),
            }
            if is_baseline == "1" and up.engine.hides_end:
                record["natural_tokens"] = natural_tokens(up.http, up.engine, workload, parameters["seed"])
            for words in unsettled(record["warmed"]):
                logger.warning("%s/%s bring_up: %s", experiment, arm, words)
    except LaunchError as error:
        record |= _failed(error, Path(log))
    record["ended_at"] = time.time()
    write_json(Path(out), record)


def _compilations(up: "Launched") -> int:
    """Lines of the log that tell of a compilation while requests are served."""
    from breakeven.engine.facts import COMPILING
    from breakeven.engine.reader import read_facts

    up.server.drain()
    if not up.server.log.exists():
        return 0
    found = read_facts(up.server.log, up.engine.name).of_kind(COMPILING)
    return sum(len(finding.lines) for finding in found)


def verify(wanted: str, bring_up: str, log: str, base_bring_up: str, base_log: str, out: str) -> None:
    """Facts of the log, gates on them, and what differs from the baseline."""
    from breakeven.verify.stage import verify as judge

    asked = json.loads(wanted)
    verdict = judge(
        read_json(Path(bring_up)),
        Path(log),
        read_json(Path(base_bring_up)),
        Path(base_log),
        asked,
        asked["variable"],
        asked["repeat_of"],
    )
    write_json(Path(out), verdict)


def sweep(
    experiment: str, arm: str, round: str, slot: str, serve: str, gate: str, log: str, folder: str
) -> None:
    """One measured launch: tables of requests, events, counters and telemetry, and `launch.json`."""
    from breakeven import tables
    from breakeven.measure.sweep import Rows

    home = Path(folder)
    record: dict[str, Any] = {
        "experiment": experiment,
        "arm": arm,
        "round": int(round),
        "slot": int(slot),
        "take": uuid4().hex[:12],
        "started_at": time.time(),
    }
    rows = Rows()
    telemetry: list[dict[str, Any]] = []
    verified = read_json(Path(gate))
    if verified["passed"]:
        _say_launch(experiment, arm, f"round {round}")
        try:
            record |= _measured(record, json.loads(serve), verified, Path(log), rows, telemetry)
        except LaunchError as error:
            record |= _failed(error, Path(log))
    else:
        Path(log).write_text("")
        record |= {"status": verified["status"], "reason": verified["reason"]}
        logger.warning("%s/%s round %s is not measured: %s", experiment, arm, round, verified["reason"])
    record["ended_at"] = time.time()
    for name, content, schema in (
        ("requests", rows.requests, tables.REQUESTS),
        ("events", rows.events, tables.EVENTS),
        ("counters", rows.counters, tables.COUNTERS),
        ("telemetry", telemetry, tables.TELEMETRY),
    ):
        tables.write(content, home / f"{name}.parquet", schema)
    write_json(home / "launch.json", record)


def margins(experiment: str, arm: str, serve: str, differences: str, log: str, out: str) -> None:
    """How sure the baseline was where outputs differ: one launch of it more, none where none differ."""
    from breakeven import tables
    from breakeven.launch import launched, machine
    from breakeven.measure import margins as measure
    from breakeven.measure.workload import plan, read_workload

    places, parameters = tables.rows(Path(differences), tables.DIFFERENCES), json.loads(serve)
    rows: list[dict[str, Any]] = []
    Path(log).touch()
    if places:
        logger.info(
            "%s: outputs differ at %d places; %s is asked how sure it was", experiment, len(places), arm
        )
        workload = read_workload(parameters["workload"], Path())
        planned = partial(plan, workload, parameters["seed"])
        try:
            with launched(parameters, machine(), experiment=experiment, arm=arm, log=Path(log)) as up:
                rows += measure.ask(up.http, up.engine, places, planned)
        except LaunchError as error:
            logger.warning("%s: margins stay unknown: %s", experiment, error)
            rows = measure.unknown(places, str(error))
    tables.write(rows, Path(out), tables.MARGINS)


def _measured(
    record: Mapping[str, Any],
    serve: Mapping[str, Any],
    verified: Mapping[str, Any],
    log: Path,
    rows: Any,
    telemetry: list[dict[str, Any]],
) -> dict[str, Any]:
    """Launch, compare with what was verified, measure. Raises LaunchError; `rows` keep what was measured."""
    from breakeven.config import context_tokens
    from breakeven.engine.facts import Facts
    from breakeven.engine.reader import read_facts
    from breakeven.launch import identity, launched, machine
    from breakeven.measure import sweep as requests
    from breakeven.measure.telemetry import Telemetry, host_facts
    from breakeven.measure.workload import plan, read_workload
    from breakeven.software import versions
    from breakeven.verify.differences import launch_drift

    settings = machine()
    keys = {name: record[name] for name in ("experiment", "arm", "round", "slot")}
    attached = serve["runtime"] == "attach"
    workload = read_workload(serve["workload"], Path())
    planned = plan(workload, serve["seed"], record["round"], nonce=record["take"] if attached else "")
    launching = {"experiment": keys["experiment"], "arm": keys["arm"], "log": log}
    cold = _is_cold(settings["cold_after_s"])
    if cold:
        logger.info("the device has been idle for long: one launch is discarded first")
        with launched(serve, settings, **launching):
            pass
    clock = time.monotonic()
    with launched(serve, settings, **launching) as up:
        up.server.drain()
        facts = read_facts(log, serve["engine"]) if log.exists() else Facts()
        if drift := [d for d in launch_drift(Facts.from_json(verified["facts"]), facts) if d.blocks]:
            raise LaunchError(
                "this launch is not the arm that was verified: " + "; ".join(d.message for d in drift)
            )
        began = time.monotonic()
        sampler = Telemetry(
            [settings["device"]], settings["telemetry_period_s"], own_pids=[up.server.identity.pid or 0]
        )
        try:
            with sampler:
                requests.run(
                    up.http,
                    up.engine,
                    planned,
                    keys,
                    n_ctx=context_tokens(serve),
                    alive=up.server.alive,
                    rows=rows,
                )
        except LaunchError as error:
            raise LaunchError(
                f"the server {ended}; {error}" if (ended := _ended(up.server)) else str(error)
            ) from error
        finally:
            telemetry += sampler.rows(keys)
        measured = time.monotonic()
        result = {
            "status": "measured",
            "reason": None,
            "identity": identity(up.server),
            "evidence": up.evidence,
            "host": host_facts(settings.get("host_name")),
            "software": versions(),
            "telemetry_missing": sampler.missing,
            "discarded_launch": cold,
            "ready_s": up.ready_s,
            "measure_s": measured - began,
        }
    return result | {"launch_s": began - clock, "teardown_s": time.monotonic() - measured}


def _ended(server: Server) -> str | None:
    """How the server ended, in words; a broken connection comes a moment before the end of its process can be seen."""
    deadline = time.monotonic() + END_SEEN_S
    while (reason := server.exit_reason()) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    return reason


def _is_cold(after_s: float) -> bool:
    """Whether the device has been idle for so long that the next launch would start colder than the others."""
    from breakeven.progress import last_ended_at

    last = last_ended_at()
    return last is None or time.time() - last > after_s


def _failed(error: LaunchError, log: Path) -> dict[str, Any]:
    tail = last_lines(log, LOG_TAIL_LINES)
    log.touch()
    logger.warning("the arm failed: %s", error)
    return {"status": "died", "reason": str(error), "log_tail": tail}


def _say_launch(experiment: str, arm: str, what: str) -> None:
    from breakeven.progress import outlook

    logger.info("%s/%s %s: launching (%s)", experiment, arm, what, outlook(experiment))


RULES: Mapping[str, Callable[..., None]] = {
    rule.__name__: rule for rule in (bring_up, verify, sweep, margins)
}


def main() -> None:
    """Run one rule; a person's error is printed without a traceback. A killed Snakemake takes its job along."""
    die_with_parent(os.getppid())
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr
    )
    logging.getLogger("httpx").setLevel(logging.WARNING)
    rule, *arguments = sys.argv[1:]
    try:
        with interruptible():
            RULES[rule](*arguments)
    except Interrupted as stop:
        logger.warning("%s; everything that was started has been ended", stop)
        raise SystemExit(stop.exit_code) from stop
    except BreakevenError as error:
        raise SystemExit(f"breakeven: {error}") from error


if __name__ == "__main__":
    main()
