"""An arm that fails is a row in the report; the others complete, and nothing stays behind."""

import os
import signal
import subprocess

import pytest
from conftest import SMALL  # type: ignore[import-not-found]

pytestmark = pytest.mark.slow

BROKEN = {"args": {"spec-type": "draft-simple", "spec-draft-model": "models/none.gguf"}}


def test_an_arm_that_dies_at_start_is_a_row_with_its_reason(project):
    project.experiment(arms=SMALL["arms"] | {"broken": BROKEN})
    project.run("reports/small.md")
    bring_up = project.json("results/small/broken/bring_up.json")
    assert bring_up["status"] == "died"
    assert "none.gguf" in " ".join(bring_up["log_tail"]) + bring_up["reason"]
    report = (project.folder / "reports/small.md").read_text()
    assert "broken" in report
    assert "not measured" in report
    assert "none.gguf" in report
    assert project.json("results/small/mtp1/2/launch.json")["status"] == "measured"
    assert not project.servers()


def test_a_server_that_is_killed_mid_sweep_is_a_row_and_the_others_complete(fresh, until):
    workload = SMALL["workload"] | {"reps": 40, "tg": 200}
    fresh.experiment(workload=workload, rounds=1)
    run = subprocess.Popen(
        fresh.command("reports/small.md"),
        cwd=fresh.folder,
        env=fresh.environment(),
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in run.stderr:
        if "mtp1 round 1: depth" in line:
            break
    [server] = fresh.servers()
    server.kill()
    _, said = run.communicate(timeout=200)
    assert run.returncode == 0, said
    launch = fresh.json("results/small/mtp1/1/launch.json")
    assert launch["status"] == "died"
    assert "SIGKILL" in launch["reason"]
    assert fresh.json("results/small/mtp2/1/launch.json")["status"] == "measured"
    report = (fresh.folder / "reports/small.md").read_text()
    assert "SIGKILL" in report
    assert not fresh.servers()


@pytest.mark.parametrize("signals", [["SIGINT", "SIGINT"], ["SIGTERM"], ["SIGHUP"]], ids="-".join)
def test_a_stopped_run_leaves_nothing_and_goes_on_later(fresh, until, signals):
    run = subprocess.Popen(
        fresh.command("reports/small.md"),
        cwd=fresh.folder,
        env=fresh.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    until(fresh.servers, 60)
    for name in signals:
        os.killpg(run.pid, getattr(signal, name))  # as a terminal does it: to the whole foreground group
    assert run.wait(timeout=60) != 0
    until(lambda: not fresh.servers(), 30)
    fresh.run("reports/small.md")
    assert (fresh.folder / "reports/small.md").exists()


def test_after_sigkill_unlock_and_the_same_command_clean_up_and_go_on(fresh, until):
    run = subprocess.Popen(
        fresh.command("reports/small.md"),
        cwd=fresh.folder,
        env=fresh.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    until(fresh.servers, 60)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    fresh.run("--unlock")
    fresh.run("reports/small.md")
    assert (fresh.folder / "reports/small.md").exists()
    assert not fresh.servers()


def test_a_secret_reaches_the_server_and_appears_nowhere(fresh):
    secret = "s3cr3t-7f0c1d"
    fresh.experiment(
        server=SMALL["server"] | {"env_from": ["TRIAL_TOKEN"]},
        rounds=1,
        arms={k: SMALL["arms"][k] for k in ("base", "mtp1")},
    )
    done = fresh.run("reports/small.md", TRIAL_TOKEN=secret)
    assert secret not in done.stdout + done.stderr
    holding = [
        file
        for file in fresh.folder.rglob("*")
        if file.is_file() and file.suffix != ".gguf" and secret.encode() in file.read_bytes()
    ]
    assert not holding
    assert "TRIAL_TOKEN" in (fresh.folder / "results/small/base/bring_up.json").read_text()


def test_a_secret_that_is_not_set_is_named(fresh):
    fresh.experiment(server=SMALL["server"] | {"env_from": ["TRIAL_TOKEN_NOT_SET"]}, rounds=1)
    done = fresh.run("reports/small.md", check=False)
    assert "TRIAL_TOKEN_NOT_SET" in done.stdout + done.stderr


def test_a_bad_value_is_one_message_with_file_and_key(fresh):
    fresh.experiment(rounds="many")
    done = fresh.run("reports/small.md", check=False)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "config/experiments/small.yaml" in said
    assert "rounds" in said
    assert "Traceback" not in said
