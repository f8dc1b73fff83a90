"""A copy of the workflow with a small experiment on the embedded server, built once; every test works on a copy."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import yaml

ROOT = Path(__file__).parents[2]
PARTS = ("Snakefile", "config", "profiles", "workflow")

SMALL = {
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
    "arms": {
        "base": {},
        "mtp1": {"args": {"spec-type": "draft-mtp", "spec-draft-n-max": 1}},
        "mtp2": {"args": {"spec-type": "draft-mtp", "spec-draft-n-max": 2}},
    },
    "workload": {
        "pp": 32,
        "tg": 24,
        "depths": [0],
        "reps": 1,
        "warmup": 1,
        "prompts": {"natural": {"count": 1}},
    },
    "rounds": 2,
    "ledger": {"lead": "native-mtp", "demo": True},
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass(frozen=True)
class Project:
    """A checkout that can be run."""

    folder: Path
    port: int

    def experiment(self, **changes: object) -> None:
        path = self.folder / "config/experiments/small.yaml"
        path.write_text(yaml.safe_dump(SMALL | changes, sort_keys=False))

    def command(self, *arguments: str) -> list[str]:
        return [
            sys.executable,
            "-m",
            "snakemake",
            "--cores",
            "1",
            *arguments,
            "--config",
            f"port={self.port}",
        ]

    def environment(self, **extra: str) -> dict[str, str]:
        own = {"BREAKEVEN_LOCK_DIR": str(self.folder / "locks"), "PYTHONUNBUFFERED": "1"}
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

    def json(self, path: str) -> dict:
        return json.loads((self.folder / path).read_text())

    def times(self, pattern: str) -> dict[str, int]:
        return {str(p.relative_to(self.folder)): p.stat().st_mtime_ns for p in self.folder.glob(pattern)}

    def servers(self) -> list[psutil.Process]:
        """Servers under test that still run for this project."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            words = process.info["cmdline"] or []
            if str(self.port) in words and any("embedded" in word for word in words):
                found.append(process)
        return found


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkout")
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, folder / part)
    return folder


@pytest.fixture(scope="session")
def built(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "project"
    shutil.copytree(checkout, folder)
    project = Project(folder, free_port())
    project.experiment()
    project.run("reports/small.md")
    return folder


@pytest.fixture
def fresh(checkout: Path, tmp_path: Path) -> Project:
    """Nothing measured yet."""
    folder = tmp_path / "project"
    shutil.copytree(checkout, folder)
    project = Project(folder, free_port())
    project.experiment()
    return project


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Project:
    """The small experiment, measured and reported."""
    folder = tmp_path / "project"
    shutil.copytree(built, folder, copy_function=shutil.copy2)
    return Project(folder, free_port())


@pytest.fixture
def until() -> Callable[[Callable[[], object], float], None]:
    """Wait until a condition holds, at most so many seconds."""
    import time

    def wait(condition: Callable[[], object], seconds: float = 30.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not within {seconds} s"
            time.sleep(0.05)

    return wait
