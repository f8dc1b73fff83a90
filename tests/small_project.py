"""A copy of the workflow with a small experiment on the embedded server, run as a person runs it."""

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
import pyarrow.parquet as pq
import yaml

from breakeven.config import DEMO_MODELS
from breakeven.demo import Recipe, write_model
from breakeven.runtime import lock

ROOT = Path(__file__).parents[1]
PARTS = ("Snakefile", "config", "profiles", "workflow")
REPORT = "reports/small.md"
STOP_TIMEOUT_S = 10


def drafting(n: int) -> dict[str, Any]:
    return {"args": {"spec-type": "draft-mtp", "spec-draft-n-max": n}}


SMALL: dict[str, Any] = {
    "engine": "llamacpp",
    "runtime": "process",
    "program": "embedded",
    "server": {
        "model": "demo",
        "args": {
            "ctx-size": 1024,
            "parallel": 1,
            "threads": 1,
            "threads-batch": 1,
            "cache-ram": 0,
            "no-warmup": True,
        },
    },
    "baseline": "base",
    "variable": "spec-*",
    "arms": {"base": {}, "mtp1": drafting(1), "mtp2": drafting(2)},
    "workload": {
        "pp": 32,
        "tg": 24,
        "depths": [0],
        "reps": 1,
        "warmup": 1,
        "prompts": {"natural": {"count": 1}},
    },
    "rounds": 1,
    "ledger": {"lead": "native-mtp", "demo": True},
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(condition: Callable[[], Any], seconds: float = 30.0) -> Any:
    """The condition's value once it is true; fails after so many seconds."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.05)
    return value


def check_out(folder: Path) -> None:
    """The files that a run needs, as they are now, and the model, which is the same for all."""
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, folder / part)
    models = folder / DEMO_MODELS
    models.mkdir()
    write_model(models / Recipe().file_name, Recipe())


@dataclass(frozen=True)
class Project:
    """A checkout that can be run, on a port and a device of its own: no run of anybody else is in its way."""

    folder: Path
    port: int = field(default_factory=free_port)

    @property
    def device(self) -> str:
        """A PCI address that no machine has: its lock is free and nobody else is on it."""
        return f"{self.port:04x}:00:00.0"

    def experiment(self, **changes: object) -> None:
        """The small experiment, changed; a key that is None is left out."""
        path = self.folder / "config/experiments/small.yaml"
        document = {key: value for key, value in (SMALL | changes).items() if value is not None}
        path.write_text(yaml.safe_dump(document, sort_keys=False))

    def command(self, *arguments: str) -> list[str]:
        machine = f"port={self.port}", f"device={self.device}", f"stop_timeout_s={STOP_TIMEOUT_S}"
        return [sys.executable, "-m", "snakemake", "--cores", "1", *arguments, "--config", *machine]

    def environment(self, **extra: str) -> dict[str, str]:
        own = {
            "PYTHONPATH": str(self.folder / "workflow"),
            lock.DIRECTORY_VARIABLE: str(self.folder / "locks"),
        }
        return dict(os.environ) | own | extra

    def run(self, *arguments: str, check: bool = True, **extra: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment(**extra),
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    @contextmanager
    def running(self, *arguments: str, **extra: str) -> Iterator[subprocess.Popen[str]]:
        """The command in a session of its own, as a terminal would have it; what it prints is its `stdout`."""
        process = subprocess.Popen(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment(**extra),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=_as_in_a_terminal,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def json(self, path: str) -> dict[str, Any]:
        return json.loads((self.folder / path).read_text())

    def launches(self, *arms: str, round: int = 1) -> list[str]:
        """Targets: the launches of a round, and what leads to them."""
        return [f"results/small/{arm}/{round}/launch.json" for arm in arms or SMALL["arms"]]

    def report(self) -> str:
        return (self.folder / REPORT).read_text()

    def times(self, *patterns: str) -> dict[str, int]:
        """Modification time of every file by its path below the project."""
        return {
            str(path.relative_to(self.folder)): path.stat().st_mtime_ns
            for pattern in patterns
            for path in self.folder.glob(pattern)
        }

    def holding(self, secret: str) -> list[Path]:
        """Files with a secret in them: Snakemake's own too, Parquet is unpacked, and Base64 of it counts."""
        forms = secret, base64.b64encode(secret.encode()).decode().rstrip("=")
        found = []
        for path in self.folder.rglob("*"):
            if path.is_file() and path.suffix != ".gguf":
                text = path.read_text(errors="replace")
                if path.suffix == ".parquet":
                    text += str(pq.read_table(path).to_pylist())
                found += [path] * any(form in text for form in forms)
        return found

    def processes(self) -> list[psutil.Process]:
        """Whatever runs for this project: Snakemake, jobs, servers."""
        found = []
        for process in psutil.process_iter(["cmdline", "cwd", "status"]):
            inside = process.info["cwd"] == str(self.folder)
            served = str(self.port) in (process.info["cmdline"] or [])
            if (inside or served) and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process)
        return found

    def servers(self) -> list[psutil.Process]:
        """Servers under test that run for this project."""
        return [
            process
            for process in self.processes()
            if "breakeven.engine.embedded" in _command_line(process)
            and "tether" not in " ".join(_command_line(process))
        ]

    def lock_is_free(self) -> bool:
        """Raises DeviceBusyError naming the holder when it is not."""
        with (
            patch.dict(os.environ, self.environment()),
            lock.hold(self.device, "test", "test", wait_s=0),
        ):
            return True


def _as_in_a_terminal() -> None:
    """Under nohup, or behind a shell's `&`, tests inherit signals that are ignored."""
    for signum in (signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_DFL)


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []
