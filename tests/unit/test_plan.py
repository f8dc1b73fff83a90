"""What a run will take and what stands in its way, said before anything is started; against real obstacles."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from breakeven import config
from breakeven.errors import ConfigError
from breakeven.plan import estimate, obstacles

ROOT = Path(__file__).parents[2]
MTP_AB = ROOT / "config/experiments/mtp_ab.yaml"
MTP_AB_DOCKER = ROOT / "config/experiments/mtp_ab_docker.yaml"


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def machine(free_port, tmp_path, monkeypatch):
    """Settings of a machine on which nothing runs, no Docker engine either."""
    monkeypatch.chdir(tmp_path)
    nobody = f"unix://{tmp_path}/none.sock"
    return config.machine({"experiment": "trial", "port": free_port, "docker_host": nobody})


def changed(tmp_path: Path, source: Path = MTP_AB, **changes: object) -> dict:
    """A copy of an experiment, resolved, with other values for some keys."""
    path = tmp_path / "trial.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(source.read_text()) | changes))
    return config.experiment(path)


def test_the_embedded_demo_has_nothing_in_its_way(machine):
    assert obstacles(config.experiment(MTP_AB), machine) == []


def test_launches_and_requests_are_counted(tmp_path):
    """By hand: 6 arms x (bring-up + 3 rounds). Each of the depths 0, 512, 2048 has 2 + 2 warm-ups, 3 pp and 3 tg;
    the two that are not 0 are filled once. pp asks for 1 token, tg for 64."""
    found = estimate(config.experiment(MTP_AB), tmp_path)
    assert (found.launches_planned, found.launches_done) == (24, 0)
    assert found.requests_per_launch == 3 * 10 + 2
    assert found.completion_tokens_per_launch == 3 * (2 + 2 * 64 + 3 + 3 * 64) + 2
    assert found.prompt_tokens_per_launch == 3 * 10 * 128 + 11 * (512 + 2048)


def test_time_and_disk_are_unknown_until_a_launch_is_on_record(tmp_path):
    found = estimate(config.experiment(MTP_AB), tmp_path)
    assert (found.seconds_left, found.bytes_left) == (None, None)
    assert "unknown" in found.basis


def test_time_and_disk_left_follow_from_the_launches_on_record(tmp_path):
    """23 launches of 24 are left after one of 5 s."""
    folder = tmp_path / "mtp_ab/base/1"
    folder.mkdir(parents=True)
    (folder / "launch.json").write_text(
        json.dumps({"status": "measured", "started_at": 100.0, "ended_at": 105.0})
    )
    found = estimate(config.experiment(MTP_AB), tmp_path)
    assert found.seconds_left == 23 * 5
    assert found.bytes_left == 23 * (folder / "launch.json").stat().st_size


def test_a_port_in_use_names_its_owner(machine):
    with socket.create_server(("127.0.0.1", machine["port"])):
        [said] = obstacles(config.experiment(MTP_AB), machine)
    assert f"port {machine['port']}" in said
    assert f"(pid {os.getpid()})" in said


def test_a_model_that_is_not_there_is_named_with_its_arm(tmp_path, machine):
    arms = {"base": {}, "drafted": {"args": {"spec-draft-model": "none.gguf"}}}
    [said] = obstacles(changed(tmp_path, arms=arms), machine)
    assert said == "arm drafted: --spec-draft-model none.gguf does not exist"


def test_a_name_that_vllm_downloads_is_no_missing_file(tmp_path, machine):
    server = {"model": "Qwen/Qwen3-0.6B", "args": {"max-model-len": 4096}}
    spec = changed(
        tmp_path, engine="vllm", program=sys.executable, server=server, arms={"base": {}}, expect={}
    )
    assert obstacles(spec, machine) == []


def test_a_program_that_is_not_there_is_named_with_what_is_known(tmp_path, machine):
    machine |= {"binaries": {"llama-server": "/opt/none/llama-server"}}
    [said] = obstacles(changed(tmp_path, program="llama-server"), machine)
    assert "program 'llama-server' is not on PATH" in said
    assert "llama-server: /opt/none/llama-server" in said


def test_a_cell_that_does_not_fit_one_arms_context_is_named(tmp_path, machine):
    arms = {"base": {}, "short": {"args": {"ctx-size": 2230}}}
    [said] = obstacles(changed(tmp_path, arms=arms), machine)
    assert said.startswith("arm short: ")
    assert "depth 2048 + new 128 + completion 64 + margin 32 = 2272 tokens" in said
    assert "the server's context holds 2230" in said


def test_a_variable_of_env_from_that_is_not_set_is_named(tmp_path, machine, monkeypatch):
    monkeypatch.delenv("TRIAL_TOKEN", raising=False)
    server = yaml.safe_load(MTP_AB.read_text())["server"] | {"env_from": ["TRIAL_TOKEN"]}
    [said] = obstacles(changed(tmp_path, server=server), machine)
    assert "TRIAL_TOKEN" in said


def test_a_container_needs_an_engine_and_is_told_once_how_to_get_one(machine):
    [said] = obstacles(config.experiment(MTP_AB_DOCKER), machine)
    assert "no Docker engine answers at unix://" in said
    assert "systemctl start docker" in said


def test_an_engine_on_another_machine_is_refused(machine):
    machine |= {"docker_host": "ssh://user@box"}
    [said] = obstacles(config.experiment(MTP_AB_DOCKER), machine)
    assert "DOCKER_HOST is ssh://user@box" in said


def test_a_device_and_a_mount_that_are_not_there_are_named(tmp_path, machine):
    server = yaml.safe_load(MTP_AB_DOCKER.read_text())["server"] | {
        "devices": ["/dev/none"],
        "mounts": ["/none/models:/m:ro"],
    }
    said = obstacles(changed(tmp_path, MTP_AB_DOCKER, server=server), machine)
    assert "device /dev/none does not exist on this machine (server.devices)" in said
    assert "/none/models does not exist on this machine (server.mounts)" in said


def test_an_arm_that_does_not_exist_is_named_with_those_that_do(tmp_path):
    with pytest.raises(ConfigError, match=r"found arm 'bse' in baseline .* arms are: base, base_again, mtp1"):
        changed(tmp_path, baseline="bse")


def command(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    program = "from breakeven.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program, "plan", *arguments], cwd=cwd, capture_output=True, text=True
    )


def test_the_command_says_what_runs_and_how_to_start_it(tmp_path, free_port):
    (tmp_path / "config/experiments").mkdir(parents=True)
    (tmp_path / "config/experiments/mtp_ab.yaml").write_text(MTP_AB.read_text())
    (tmp_path / "config/config.yaml").write_text(f"experiment: mtp_ab\nport: {free_port}\n")
    done = command("mtp_ab", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "launches   24 (0 on record; rounds: 3)" in done.stdout
    assert "snakemake --cores 1 reports/mtp_ab.md" in done.stdout
    with socket.create_server(("127.0.0.1", free_port)):
        refused = command("mtp_ab", cwd=tmp_path)
    assert refused.returncode == 1
    assert f"refused    port {free_port}" in refused.stdout


def test_the_command_names_the_experiments_that_there_are():
    done = command("mtp_abc")
    assert done.returncode == 2
    assert "no experiment 'mtp_abc' in config/experiments; there are:" in done.stderr
    assert "Traceback" not in done.stderr
