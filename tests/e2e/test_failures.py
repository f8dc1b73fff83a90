"""An arm that fails is a row in the report and the others complete; a run that is stopped leaves nothing behind."""

import os
import shutil
import signal
import subprocess

import pytest

from small_project import REPORT, SMALL, STOP_TIMEOUT_S, Project, drafting, until

pytestmark = pytest.mark.slow

SECRET = "s3cr3t-7f0c1d"
BROKEN = {"args": {"spec-type": "draft-simple", "spec-draft-model": "models/none.gguf"}}
LONG = SMALL["workload"] | {"tg": 200, "reps": 4}
BRING_UP = "results/small/base/bring_up.json"


class Troubled:
    """A run with a secret, an arm that cannot start and an arm whose server is killed while it is measured."""

    def __init__(self, project: Project):
        self.project = project
        arms = {"base": {}, "broken": BROKEN, "killed": drafting(1), "mtp2": drafting(2)}
        project.experiment(arms=arms, workload=LONG, server=SMALL["server"] | {"env_from": ["TRIAL_TOKEN"]})
        with project.running(REPORT, TRIAL_TOKEN=SECRET) as run:
            said = []
            for line in run.stdout:
                said.append(line)
                if "killed round 1: depth 0" in line:
                    [server] = project.servers()
                    server.kill()
            self.said = "".join(said)
            assert run.wait(timeout=60) == 0, self.said


@pytest.fixture(scope="module")
def troubled(checkout, tmp_path_factory):
    folder = tmp_path_factory.mktemp("troubled") / "project"
    shutil.copytree(checkout, folder)
    return Troubled(Project(folder))


def test_an_arm_that_dies_at_start_is_a_row_with_its_reason(troubled):
    bring_up = troubled.project.json("results/small/broken/bring_up.json")
    assert bring_up["status"] == "died"
    assert "none.gguf" in bring_up["reason"]
    assert "none.gguf" in "\n".join(bring_up["log_tail"])
    report = troubled.project.report()
    assert "broken" in report
    assert "none.gguf" in report


def test_an_arm_that_dies_while_it_is_measured_is_a_row_with_its_reason(troubled):
    launch = troubled.project.json("results/small/killed/1/launch.json")
    assert launch["status"] == "died"
    assert "SIGKILL" in launch["reason"]
    assert launch["log_tail"]
    assert "SIGKILL" in troubled.project.report()


def test_the_report_says_how_to_measure_a_failed_arm_again(troubled):
    report = troubled.project.report()
    assert "-R results/small/broken/bring_up.json" in report
    assert "-R results/small/killed/1/launch.json" in report


def test_the_other_arms_complete_and_nothing_stays(troubled):
    for arm in ("base", "mtp2"):
        assert troubled.project.json(f"results/small/{arm}/1/launch.json")["status"] == "measured"
    assert not troubled.project.processes()
    assert troubled.project.lock_is_free()


def test_a_secret_appears_nowhere(troubled):
    """Not in results, reports, Snakemake's metadata and logs, nor in what was printed."""
    assert (troubled.project.folder / ".snakemake/metadata").is_dir()
    assert not troubled.project.holding(SECRET)
    assert SECRET not in troubled.said


def test_a_secret_is_in_the_servers_environment(fresh):
    fresh.experiment(server=SMALL["server"] | {"env_from": ["TRIAL_TOKEN"]})
    with fresh.running(BRING_UP, TRIAL_TOKEN=SECRET):
        [server] = until(fresh.servers, 60)
        assert server.environ()["TRIAL_TOKEN"] == SECRET


def test_a_secret_that_is_not_set_is_named_and_nothing_is_started(fresh):
    fresh.experiment(server=SMALL["server"] | {"env_from": ["TRIAL_TOKEN_NOT_SET"]})
    done = fresh.run(BRING_UP, check=False)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert "env_from names TRIAL_TOKEN_NOT_SET" in said
    assert "Traceback" not in said
    assert not any(log.read_text() for log in fresh.folder.glob("results/small/*/bring_up.log"))


def everybody(run: subprocess.Popen[str], signum: int) -> None:
    """As a terminal does it: to the whole foreground group."""
    os.killpg(run.pid, signum)


def snakemake_alone(run: subprocess.Popen[str], signum: int) -> None:
    """As `kill PID` does it."""
    run.send_signal(signum)


STOPS = {
    "ctrl-c": (everybody, [signal.SIGINT]),
    "ctrl-c-twice": (everybody, [signal.SIGINT, signal.SIGINT]),
    "terminal-closed": (everybody, [signal.SIGHUP]),
    "sigterm-to-all": (everybody, [signal.SIGTERM]),
    "sigterm-to-snakemake": (snakemake_alone, [signal.SIGTERM]),
    "sighup-to-snakemake": (snakemake_alone, [signal.SIGHUP]),
}


@pytest.mark.parametrize("how", STOPS)
def test_a_stopped_run_leaves_nothing_within_the_stop_timeout(fresh, how):
    send, signals = STOPS[how]
    with fresh.running(BRING_UP) as run:
        until(fresh.servers, 60)
        for signum in signals:
            send(run, signum)
        run.communicate(timeout=STOP_TIMEOUT_S)
    assert run.returncode != 0
    until(lambda: not fresh.processes(), 2)
    assert fresh.lock_is_free()
    assert not list(fresh.folder.glob(".snakemake/locks/*"))
    assert not (fresh.folder / BRING_UP).exists()


@pytest.mark.parametrize("send", [everybody, snakemake_alone])
def test_after_sigkill_unlock_and_the_same_command_clean_up_and_go_on(fresh, send):
    with fresh.running(BRING_UP) as run:
        until(fresh.servers, 60)
        send(run, signal.SIGKILL)
        run.wait()
    refused = fresh.run(BRING_UP, check=False)
    assert "--unlock" in refused.stdout + refused.stderr
    fresh.run("--unlock")
    fresh.run(BRING_UP)
    assert fresh.json(BRING_UP)["status"] == "ready"
    assert not fresh.processes()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rounds: many", ["key rounds", "'many'"]),
        ("speed: 9", ["unknown speed"]),
        ("rounds: [1", ["not readable as YAML", "line 39, column 1"]),
    ],
)
def test_a_bad_experiment_is_one_message_with_file_and_key(fresh, text, said):
    file = fresh.folder / "config/experiments/small.yaml"
    kept = [line for line in file.read_text().splitlines() if not line.startswith("rounds")]
    file.write_text("\n".join([*kept, text, ""]))
    done = fresh.run(REPORT, check=False)
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert "Traceback" not in output
    for words in ("config/experiments/small.yaml", *said):
        assert output.count(words) == 1, output
    assert not list(fresh.folder.glob(".snakemake/locks/*"))


def test_a_bad_setting_of_the_machine_is_one_message_with_file_and_key(fresh):
    with (fresh.folder / "config/config.yaml").open("a") as file:
        file.write("prot: 8000\n")
    done = fresh.run(REPORT, check=False)
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert "Traceback" not in output
    assert output.count("config/config.yaml: key top level: unknown prot; allowed: allow,") == 1
