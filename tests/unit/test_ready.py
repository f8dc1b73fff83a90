"""When a started server counts as ready, and what is said when it never does. The servers are real processes."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from breakeven.engine.registry import ENGINES
from breakeven.errors import LaunchError
from breakeven.measure.client import Sample, open_client
from breakeven.measure.ready import wait_until_ready
from breakeven.runtime import LaunchSpec, Server
from breakeven.runtime.process import ProcessRuntime
from small_project import free_port

from reference_server.faults import NO_FAULTS, Faults
from reference_server.truth import Truth

TESTS = Path(__file__).parents[1]
QUICK = {"t0_s": 0.0005}


@contextmanager
def started(tmp_path: Path, port: int, *program: str) -> Iterator[Server]:
    spec = LaunchSpec(
        experiment="exp",
        arm="base",
        device=f"test-{port}",
        host="127.0.0.1",
        port=port,
        program=[sys.executable, *program],
        argv=[],
        env={"PYTHONPATH": str(TESTS)},
        log=tmp_path / "server.log",
        stop_timeout_s=2.0,
    )
    with ProcessRuntime().launch(spec) as server:
        yield server


def ready(server: Server, engine: str) -> Sample:
    with open_client(server.base_url, 10.0) as http:
        return wait_until_ready(server, ENGINES[engine], http, timeout_s=20.0, silent_timeout_s=20.0)


def smoke(tmp_path: Path, dialect: str, n: int, faults: Faults = NO_FAULTS) -> Sample:
    truth, port = Truth(n=n, **QUICK), free_port()
    command = ["-m", "reference_server", "--dialect", dialect, "--port", str(port)]
    command += ["--truth", json.dumps(asdict(truth)), "--faults", json.dumps(asdict(faults))]
    with started(tmp_path, port, *command) as server:
        return ready(server, dialect)


@pytest.mark.parametrize("dialect", sorted(ENGINES))
def test_the_first_answer_tells_whether_there_were_drafts(tmp_path: Path, dialect: str) -> None:
    drafting = smoke(tmp_path, dialect, n=2)
    assert drafting.draft_tokens and drafting.completion_tokens == 8
    assert not smoke(tmp_path, dialect, n=0).draft_tokens


def test_a_server_that_is_healthy_and_dead_is_not_ready(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"healthy, but its first request failed: HTTP 500"):
        smoke(tmp_path, "vllm", 0, Faults(healthy_but_dead=True))


def test_a_dying_server_is_heard_out_to_its_cause(tmp_path: Path) -> None:
    dying = (
        "import time\n"
        "print('EngineCore failed to start.', flush=True); time.sleep(0.4)\n"
        "print('ValueError: no such method: mpt', flush=True); time.sleep(60)\n"
    )
    with started(tmp_path, free_port(), "-c", dying) as server, pytest.raises(LaunchError) as failed:
        ready(server, "vllm")
    first = str(failed.value).splitlines()[0]
    assert "EngineCore failed to start (ValueError: no such method: mpt)" in first
