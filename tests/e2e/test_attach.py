"""Servers that somebody else started: measured, never stopped, and only as verified as their logs allow."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from breakeven.config import DEMO_MODELS
from breakeven.demo import Recipe
from breakeven.engine.registry import ENGINES
from small_project import REPORT, SMALL, Project, drafting, free_port, until

pytestmark = pytest.mark.slow

ARMS = {"base": {"args": {}}, "mtp1": drafting(1), "mtp2": drafting(2)}


@dataclass(frozen=True)
class Attended:
    """A server as its owner sees it."""

    url: str
    log: Path
    process: subprocess.Popen[bytes]

    def healthy(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health").status_code == 200
        except httpx.HTTPError:
            return False


@pytest.fixture(scope="module")
def servers(checkout, tmp_path_factory) -> Iterator[dict[str, Attended]]:
    """One for each arm, with a log and the flags that every arm gets."""
    logs, model = tmp_path_factory.mktemp("logs"), checkout / DEMO_MODELS / Recipe().file_name
    running = {}
    for name, arm in ARMS.items():
        port, log = free_port(), logs / f"{name}.log"
        flags = SMALL["server"]["args"] | {"model": str(model)} | arm["args"]
        argv = ENGINES["llamacpp"].argv(flags, host="127.0.0.1", port=port)
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "breakeven.engine.embedded", *argv],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        running[name] = Attended(f"http://127.0.0.1:{port}", log, process)
    for server in running.values():
        until(server.healthy)
    yield running
    for server in running.values():
        server.process.terminate()
        server.process.wait(10)


def attached(servers: dict[str, Attended], with_logs: bool) -> dict[str, object]:
    arms = {
        name: arm | {"url": servers[name].url} | ({"log_file": str(servers[name].log)} if with_logs else {})
        for name, arm in ARMS.items()
    }
    server = {"args": SMALL["server"]["args"]}
    return {"runtime": "attach", "program": None, "server": server, "arms": arms}


def test_without_logs_everything_is_measured_and_the_report_says_unverified(fresh: Project, servers):
    fresh.experiment(**attached(servers, with_logs=False))
    fresh.run(REPORT)
    for arm in ARMS:
        launch = fresh.json(f"results/small/{arm}/1/launch.json")
        assert launch["status"] == "measured"
        assert launch["identity"]["argv"] is None
        verified = fresh.json(f"results/small/{arm}/verify.json")
        assert verified["facts"]["facts"] == {}
        assert verified["lever_live"] is None
        known = {gate["name"] for gate in verified["gates"] if gate["passed"] is not None}
        assert known <= {"speculation active", "first request drafted"}, "what /slots and the answers show"
    assert "unverified" in fresh.report()
    assert all(server.healthy() and server.process.poll() is None for server in servers.values())


def test_with_their_logs_the_same_servers_are_verified(fresh: Project, servers):
    fresh.experiment(**attached(servers, with_logs=True), expect={"n_ctx": 1024})
    fresh.run(*(f"results/small/{arm}/verify.json" for arm in ARMS))
    for arm, drafts in (("mtp1", 1), ("mtp2", 2)):
        verified = fresh.json(f"results/small/{arm}/verify.json")
        assert verified["passed"]
        assert verified["facts"]["facts"]["spec_n"] == drafts
        passed = {gate["fact"] for gate in verified["gates"] if gate["passed"]}
        assert {"n_ctx", "spec_n", "drafter_loaded"} <= passed


def test_a_server_that_is_not_the_arm_it_should_be_is_refused(fresh: Project, servers):
    """mtp2's flags, mtp1's server."""
    swapped = servers | {"mtp2": servers["mtp1"], "mtp1": servers["mtp2"]}
    fresh.experiment(**attached(swapped, with_logs=True))
    fresh.run(*fresh.launches("mtp2"))
    launch = fresh.json("results/small/mtp2/1/launch.json")
    assert launch["status"] == "refused"
    assert "spec_n" in launch["reason"]


def test_a_server_that_is_not_up_is_the_arms_failure(fresh: Project, servers):
    url = f"http://127.0.0.1:{free_port()}"
    experiment = attached(servers, with_logs=False)
    experiment["arms"] |= {"mtp1": drafting(1) | {"url": url}}
    fresh.experiment(**experiment)
    fresh.run(*fresh.launches("mtp1", "mtp2"))
    launch = fresh.json("results/small/mtp1/1/launch.json")
    assert launch["status"] != "measured"
    assert f"no server answers at {url}" in launch["reason"]
    assert fresh.json("results/small/mtp2/1/launch.json")["status"] == "measured"
