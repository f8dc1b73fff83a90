"""However a job ends, no container, port or lock of it stays, and nobody else's is touched. Against a real engine."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace

import pytest
from docker_waiting import UNIT, answers, wait_for

from breakeven.runtime import docker, session
from breakeven.runtime.docker import DockerRuntime
from breakeven.runtime.owner import DeviceBusyError, Owner

pytestmark = pytest.mark.docker


@pytest.fixture
def job(spec, tmp_path):
    """Starts the job of runtime_job.py and returns once its container's port is open."""
    started = []

    def start(*mode):
        path = tmp_path / "spec.json"
        path.write_text(json.dumps(asdict(spec) | {"log": str(spec.log)}))
        command = [sys.executable, str(UNIT / "runtime_job.py"), "docker", str(path), *mode]
        popen = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(popen)
        assert popen.stdout.readline().startswith("up")
        return popen

    yield start
    for popen in started:
        popen.kill()
        popen.communicate()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_job_leaves_nothing(job, signum):
    popen = job()
    popen.send_signal(signum)
    _, errors = popen.communicate(timeout=20)
    assert popen.returncode != 0
    assert f"Interrupted: stopped by {signum.name}" in errors


def test_a_second_ctrl_c_does_not_cut_the_teardown_short(spec, job, containers):
    popen = job()
    for signum in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
        popen.send_signal(signum)
        time.sleep(0.1)
    popen.communicate(timeout=20)
    assert containers(spec.device) == []


def test_a_failed_measurement_leaves_nothing(job):
    _, errors = job("raise").communicate(timeout=20)
    assert "the measurement failed" in errors


def test_after_sigkill_the_next_launch_ends_what_stayed_and_goes_on(spec, job, containers):
    popen = job()
    popen.kill()
    popen.wait()
    (stale,) = containers(spec.device)
    with session.serve(DockerRuntime(), spec, lock_wait_s=1) as server:
        wait_for(lambda: answers(spec))
        assert server.alive()
        assert [container.id for container in containers(spec.device)] == [server.identity.container]
        assert stale.id != server.identity.container


def test_a_process_server_ends_what_a_container_server_left(spec, job, containers):
    popen = job()
    popen.kill()
    popen.wait()
    program = [sys.executable, str(UNIT / "runtime_server.py")]
    as_process = replace(spec, program=program, argv=[str(spec.port)], env={}, options={})
    with session.serve(session.named("process"), as_process, lock_wait_s=1):
        assert containers(spec.device) == []
        wait_for(lambda: answers(spec))


def test_a_neighbours_live_container_is_named_and_left_alone(spec, job, containers):
    popen = job()
    (container,) = containers(spec.device)
    with pytest.raises(DeviceBusyError, match=f"held by experiment exp, arm base, pid {popen.pid}"):
        session.serve(DockerRuntime(), spec, lock_wait_s=0.3).__enter__()
    with pytest.raises(DeviceBusyError, match=f"in use by container {container.name} .*pid {popen.pid}"):
        docker.reap(spec.device, timeout_s=1)
    wait_for(lambda: answers(spec))
    popen.terminate()
    popen.communicate(timeout=20)


def test_only_the_devices_own_leftovers_are_ended(spec, engine, containers):
    """Also one that never ran: a failed start leaves a container in state created."""
    dead = replace(Owner.here(spec.device, "exp", "base"), pid=2**22 - 1)
    elsewhere = replace(dead, device=spec.device + "-other")
    for owner in (dead, elsewhere):
        engine.containers.create(spec.options["image"], labels=owner.labels())
    try:
        (ended,) = docker.reap(spec.device, timeout_s=1)
        assert ended.endswith(f"of {dead}")
        assert containers(spec.device) == []
        assert len(containers(elsewhere.device)) == 1
    finally:
        for container in containers(elsewhere.device):
            container.remove(force=True)


def test_a_container_of_a_job_that_cannot_be_judged_is_left_alone(spec, engine, containers):
    elsewhere = replace(Owner.here(spec.device, "exp", "base"), host="elsewhere", boot_id="theirs")
    container = engine.containers.create(spec.options["image"], labels=elsewhere.labels())
    try:
        with pytest.raises(DeviceBusyError, match="is on elsewhere and cannot be judged"):
            docker.reap(spec.device, timeout_s=1)
        assert len(containers(spec.device)) == 1
    finally:
        container.remove(force=True)


def test_no_process_of_a_job_stays(job):
    popen = job()
    popen.terminate()
    popen.communicate(timeout=20)
    with pytest.raises(ProcessLookupError):
        os.kill(popen.pid, 0)
