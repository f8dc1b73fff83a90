"""From a resolved arm to a running, ready server, and back: the one place where runtime and engine meet."""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

from breakeven import config
from breakeven.engine.base import Engine
from breakeven.engine.registry import ENGINES
from breakeven.errors import BreakevenError, ConfigError
from breakeven.measure.client import ask, open_client
from breakeven.measure.cooldown import cool_down
from breakeven.measure.ready import wait_until_ready
from breakeven.runtime import LaunchSpec, Server, session
from breakeven.runtime.docker_options import LISTEN_HOST
from breakeven.runtime.idle import Limits

EMBEDDED = "embedded"
LOCALHOST = "127.0.0.1"
SERVER_KEYS = ("args", "env", "env_from")


@dataclass(frozen=True)
class Launched:
    """A ready server: its connection, its own word on its configuration, and how long it took."""

    server: Server
    engine: Engine
    http: httpx.Client
    evidence: Mapping[str, Any]
    ready_s: float
    smoke: Mapping[str, Any]


def machine() -> dict[str, Any]:
    """Settings of this machine: from Snakemake when it runs the job, else from config/config.yaml."""
    if config.MACHINE_VARIABLE in os.environ:
        return config.machine(json.loads(os.environ[config.MACHINE_VARIABLE]), config.MACHINE_VARIABLE)
    return config.machine(config.read_yaml(config.MACHINE_FILE), str(config.MACHINE_FILE))


def program(wanted: str | list[str], binaries: Mapping[str, str]) -> list[str]:
    """The program of a process: embedded, a name from `binaries`, a program on PATH, or a path.

    Raises ConfigError naming what was looked for and where.
    """
    name, *leading = [wanted] if isinstance(wanted, str) else wanted
    if name == EMBEDDED:
        return [sys.executable, "-m", "breakeven.engine.embedded", *leading]
    path = shutil.which(binaries.get(name, name))
    if path is None:
        known = ", ".join(f"{key}: {value}" for key, value in binaries.items()) or "none"
        raise ConfigError(
            f"program {name!r} is not on PATH and is no executable file; `binaries` in {config.MACHINE_FILE}: {known}. "
            "Name its path there."
        )
    return [path, *leading]


def launch_spec(
    serve: Mapping[str, Any], settings: Mapping[str, Any], *, experiment: str, arm: str, log: Path
) -> LaunchSpec:
    """What the runtime needs, from the arm's `serve` key and this machine's settings."""
    server, runtime = serve["server"], serve["runtime"]
    options = {key: value for key, value in server.items() if key not in SERVER_KEYS}
    if runtime == "docker":
        options["image"] = serve["image"]
        options["mounts"] = [_absolute(mount) for mount in options.get("mounts", [])]
        if "docker_host" in settings:
            options["docker_host"] = settings["docker_host"]
    in_container = runtime == "docker"
    return LaunchSpec(
        experiment=experiment,
        arm=arm,
        device=settings["device"],
        host=LOCALHOST,
        port=settings["port"],
        program=program(serve["program"], settings["binaries"]) if runtime == "process" else (),
        argv=ENGINES[serve["engine"]].argv(
            server.get("args", {}),
            host=LISTEN_HOST if in_container else LOCALHOST,
            port=settings["port"],
        ),
        env=server.get("env", {}),
        env_from=server.get("env_from", []),
        options=options,
        log=log,
        stop_timeout_s=settings["stop_timeout_s"],
    )


def _absolute(mount: str) -> str:
    """`models:/models:ro` with its source as Docker wants it: experiments say it relative to this folder."""
    source, rest = mount.split(":", 1)
    return f"{Path(source).absolute()}:{rest}"


@contextmanager
def launched(
    serve: Mapping[str, Any], settings: Mapping[str, Any], *, experiment: str, arm: str, log: Path
) -> Iterator[Launched]:
    """A server that is up, alone on its device, and has answered a request; stopped on exit, whatever happens.

    Raises LaunchError when the arm fails (which is data), ConfigError when the harness cannot do what is asked.
    """
    spec = launch_spec(serve, settings, experiment=experiment, arm=arm, log=log)
    engine = ENGINES[serve["engine"]]
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    runtime = session.named(serve["runtime"])
    with (
        session.serve(
            runtime, spec, settings["lock_timeout_s"], _idle(settings), settings.get("docker_host")
        ) as server,
        open_client(server.base_url, settings["request_timeout_s"]) as http,
    ):
        began = time.monotonic()
        smoke = wait_until_ready(
            server,
            engine,
            http,
            timeout_s=settings["ready_timeout_s"],
            silent_timeout_s=settings["silent_timeout_s"],
        )
        yield Launched(
            server,
            engine,
            http,
            evidence=_evidence(http, engine),
            ready_s=time.monotonic() - began,
            smoke={"draft_tokens": smoke.draft_tokens, "accepted_tokens": smoke.accepted_tokens},
        )
        server.drain()


def _idle(settings: Mapping[str, Any]) -> Callable[[], None]:
    """Wait until nobody else is on the device and it is cool. Raises BreakevenError when it stays busy or hot."""
    device, timeout_s = settings["device"], settings["idle_timeout_s"]
    limits = Limits(settings["idle_cpu_share"], frozenset(settings["allow"]))
    alone = session.idle_gate(device, limits, timeout_s, settings.get("docker_host"))

    def wait() -> None:
        alone()
        if settings["cooldown_c"] is not None:
            cooled = cool_down(device, settings["cooldown_c"], timeout_s)
            if not cooled.reached:
                raise BreakevenError(
                    f"{device} is still at {cooled.temperature_c:.0f} degrees C after {cooled.waited_s:.0f} s; "
                    f"cooldown_c in {config.MACHINE_FILE} asks for {settings['cooldown_c']}"
                )

    return wait


def _evidence(http: httpx.Client, engine: Engine) -> dict[str, Any]:
    """The server's own word on its resolved configuration; an endpoint that is not there is left out."""
    evidence: dict[str, Any] = {}
    for path in engine.properties():
        try:
            answer = ask(http, "GET", path)
            if answer.status_code == 200:
                evidence[path] = answer.json()
        except (httpx.HTTPError, ValueError):
            continue
    return evidence


def identity(server: Server) -> dict[str, Any]:
    """What really ran, as JSON."""
    document: dict[str, Any] = json.loads(json.dumps(asdict(server.identity)))
    return document
