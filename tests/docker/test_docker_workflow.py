"""The whole workflow in containers: the same counts as in a process, and nothing left behind, however it ends."""

import os
import shutil
import signal
import subprocess
import sys

import pandas as pd
import pytest
from docker_waiting import wait_for

from small_project import REPORT, SMALL, STOP_TIMEOUT_S, Project, check_out, drafting

pytestmark = [pytest.mark.docker, pytest.mark.slow]

SECRET = "s3cr3t-41c0de"
BRING_UP = "results/small/base/bring_up.json"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkout") / "project"
    check_out(folder)
    return folder


def contained(image: str, **server: object) -> dict[str, object]:
    """What makes the small experiment one in containers, as little privileged as the server can be."""
    own = {"user": 65534, "read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges"]}
    return {
        "runtime": "docker",
        "program": None,
        "image": image,
        "server": SMALL["server"] | own | server,
    }


@pytest.fixture
def fresh(checkout, tmp_path, engine, embedded_image, containers):
    """An experiment in containers; afterwards no container of it may be left."""
    shutil.copytree(checkout, tmp_path / "project")
    project = Project(tmp_path / "project")
    project.experiment(**contained(embedded_image))
    yield project
    left = containers(project.device)
    for container in left:
        container.remove(force=True)
    assert left == [], "a container stayed"
    assert not project.processes()
    assert project.lock_is_free()


def counts(project: Project, arm: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Of every decode request its texts and counts, and what the server's own counters say of it."""
    home = project.folder / f"results/small/{arm}/1"
    requests = pd.read_parquet(home / "requests.parquet").query("kind == 'tg'")
    counters = pd.read_parquet(home / "counters.parquet").query("seq in @requests.seq")
    counters["counted"] = counters["after"] - counters["before"]
    return (
        requests[
            ["seq", "prompt_sha256", "output_sha256", "completion_tokens", "draft_tokens", "accepted_tokens"]
        ],
        counters[["seq", "counter", "position", "counted"]],
    )


def test_a_container_drafts_and_accepts_as_a_process_does(fresh, checkout, tmp_path, embedded_image):
    workload = SMALL["workload"] | {"depths": [0, 64], "reps": 2}
    arms = {"base": {}, "mtp3": drafting(3)}
    fresh.experiment(**contained(embedded_image), workload=workload, arms=arms)
    fresh.run(*fresh.launches(*arms))
    shutil.copytree(checkout, tmp_path / "process")
    process = Project(tmp_path / "process")
    process.experiment(workload=workload, arms=arms)
    process.run(*process.launches(*arms))
    for arm in arms:
        for found, wanted in zip(counts(fresh, arm), counts(process, arm), strict=True):
            pd.testing.assert_frame_equal(found, wanted)
    requests, counters = counts(fresh, "mtp3")
    assert (requests["accepted_tokens"] > 0).all()
    assert {"drafts", "draft_tokens", "accepted_tokens", "accepted_per_pos"} <= set(counters["counter"])


def test_a_container_that_is_killed_is_a_row_and_a_secret_is_stored_nowhere(
    fresh, embedded_image, containers
):
    fresh.experiment(
        **contained(embedded_image, env_from=["TRIAL_TOKEN"]),
        workload=SMALL["workload"] | {"tg": 200, "reps": 4},
    )
    with fresh.running(REPORT, TRIAL_TOKEN=SECRET) as run:
        said = []
        for line in run.stdout:
            said.append(line)
            if "mtp1 round 1: depth 0" in line:
                [container] = containers(fresh.device)
                container.kill()
        assert run.wait(timeout=60) == 0, "".join(said)
    bindings = [end for ends in container.attrs["HostConfig"]["PortBindings"].values() for end in ends]
    assert bindings == [{"HostIp": "127.0.0.1", "HostPort": str(fresh.port)}]
    assert f"TRIAL_TOKEN={SECRET}" in container.attrs["Config"]["Env"], "the server has it, and nothing else"
    launch = fresh.json("results/small/mtp1/1/launch.json")
    assert launch["status"] == "died"
    assert "exited with code 137 (signal 9)" in launch["reason"]
    assert launch["log_tail"]
    for arm in ("base", "mtp2"):
        assert fresh.json(f"results/small/{arm}/1/launch.json")["status"] == "measured"
    assert "exited with code 137" in fresh.report()
    assert SECRET not in "".join(said)
    assert not fresh.holding(SECRET)


@pytest.mark.parametrize(
    ("send", "signals"),
    [(os.killpg, [signal.SIGINT, signal.SIGINT]), (os.kill, [signal.SIGTERM]), (os.killpg, [signal.SIGHUP])],
    ids=["ctrl-c-twice", "sigterm-to-snakemake", "terminal-closed"],
)
def test_a_stopped_run_leaves_no_container_within_the_stop_timeout(fresh, containers, send, signals):
    with fresh.running(BRING_UP) as run:
        wait_for(lambda: containers(fresh.device), 60)
        for signum in signals:
            send(run.pid, signum)
        run.communicate(timeout=STOP_TIMEOUT_S)
    assert run.returncode != 0
    assert containers(fresh.device) == []
    assert not (fresh.folder / BRING_UP).exists()


def test_after_sigkill_unlock_and_the_same_command_end_the_container_and_go_on(fresh, containers):
    with fresh.running(BRING_UP) as run:
        wait_for(lambda: [c for c in containers(fresh.device) if c.status == "running"], 60)
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
    [stale] = containers(fresh.device)
    fresh.run("--unlock")
    done = fresh.run(BRING_UP)
    assert f"ended a server left by an earlier run: container {stale.name}" in done.stdout + done.stderr
    assert fresh.json(BRING_UP)["status"] == "ready"


def test_an_arm_without_its_image_says_how_to_get_it_and_is_measured_once_it_is_there(
    fresh, engine, embedded_image
):
    """The other arms go on; nothing is stored of an arm that was never tried, so the same command tries it."""
    missing = f"breakeven-test/later:{os.getpid()}"
    fresh.experiment(**contained(embedded_image), arms={"base": {}, "mtp1": drafting(1) | {"image": missing}})
    done = fresh.run(*fresh.launches("base", "mtp1"), check=False)
    assert done.returncode != 0
    assert (
        f"image {missing} is not on this host. Get it with `docker pull {missing}` or build it" in done.stderr
    )
    assert "Traceback" not in done.stderr
    base = fresh.times("results/small/base/1/launch.json")
    assert base
    engine.images.get(embedded_image).tag(missing)
    try:
        fresh.run(*fresh.launches("base", "mtp1"))
    finally:
        engine.images.remove(missing)
    assert fresh.json("results/small/mtp1/1/launch.json")["status"] == "measured"
    assert fresh.times("results/small/base/1/launch.json") == base


def test_an_engine_on_another_machine_is_refused(fresh):
    done = fresh.run(BRING_UP, check=False, DOCKER_HOST="ssh://user@box")
    assert done.returncode != 0
    assert "DOCKER_HOST is ssh://user@box" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_plan_says_how_to_get_an_image_before_anything_starts(fresh):
    fresh.experiment(**contained("breakeven-test/none:1"))
    done = subprocess.run(
        [sys.executable, "-c", "from breakeven.cli import main; main()", "plan", "small"],
        cwd=fresh.folder,
        env=fresh.environment(COLUMNS="500"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stdout.count("image breakeven-test/none:1 is not on this host. Get it with `docker pull") == 1
