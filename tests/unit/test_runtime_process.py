"""A server as a process: what it is, how it ends, and that nothing of it stays."""

import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import psutil
import pytest

from breakeven.errors import ConfigError
from breakeven.runtime import LaunchSpec, lock, process, session
from breakeven.runtime.owner import DeviceBusyError, Owner
from breakeven.runtime.process import ProcessRuntime

HERE = Path(__file__).parent
SERVER = str(HERE / "runtime_server.py")
JOB = str(HERE / "runtime_job.py")


@pytest.fixture(autouse=True)
def own_lock_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(lock.DIRECTORY_VARIABLE, str(tmp_path / "locks"))


@pytest.fixture
def spec(tmp_path, request):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    spec = LaunchSpec(
        experiment="exp",
        arm="base",
        device=f"test-{os.getpid()}-{request.node.name}",
        host="127.0.0.1",
        port=port,
        program=[sys.executable, SERVER],
        argv=[str(port)],
        log=tmp_path / "server.log",
        stop_timeout_s=2.0,
    )
    yield spec
    left = process.marked(spec.device)
    for leaked, _ in left:
        leaked.kill()
    assert left == [], "a process stayed"
    session.port.require_free(spec.host, spec.port)
    with lock.hold(spec.device, "exp", "next", wait_s=0):
        pass


def wait_for(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return value


def answers(spec):
    try:
        socket.create_connection((spec.host, spec.port), 1).close()
    except OSError:
        return False
    return True


def test_a_server_lives_as_long_as_its_context(spec):
    with ProcessRuntime().launch(spec) as server:
        assert server.base_url == f"http://127.0.0.1:{spec.port}"
        wait_for(lambda: answers(spec))
        assert server.alive() and server.exit_reason() is None
    assert not server.alive()
    assert not answers(spec)
    assert "serving" in spec.log.read_text() and "this is stderr" in spec.log.read_text()


def test_identity_says_what_really_ran(spec):
    spec = replace(spec, env={"GGML_X": "1"})
    with ProcessRuntime().launch(spec) as server:
        identity = server.identity
    python = Path(sys.executable)
    assert (identity.runtime, identity.program) == ("process", str(python))
    assert identity.digest == "sha256:" + hashlib.sha256(python.read_bytes()).hexdigest()
    assert identity.argv == (SERVER, str(spec.port))
    assert identity.env is not None and identity.env["GGML_X"] == "1"
    assert identity.container is None and identity.pid


def test_a_script_has_no_binary_hash(tmp_path):
    script = tmp_path / "serve"
    script.write_text("#!/bin/sh\n")
    assert process.binary_digest(script) is None


def test_a_variable_of_the_shell_does_not_reach_the_server_undeclared(spec, monkeypatch):
    monkeypatch.setenv("SECRET", "xyz")
    with ProcessRuntime().launch(spec):
        wait_for(lambda: "serving" in spec.log.read_text())
    assert "serving 0" in spec.log.read_text()


def test_a_secret_reaches_the_server_and_nothing_else(spec, monkeypatch):
    monkeypatch.setenv("SECRET", "hunter2-hunter2")
    with ProcessRuntime().launch(replace(spec, env_from=["SECRET"])) as server:
        wait_for(lambda: "serving" in spec.log.read_text())
    assert "serving 15" in spec.log.read_text()
    assert "hunter2" not in json.dumps(asdict(server.identity)) + spec.log.read_text()


def test_a_secret_that_is_not_there_is_named(spec):
    with (
        pytest.raises(ConfigError, match="env_from names NO_SUCH_TOKEN"),
        ProcessRuntime().launch(replace(spec, env_from=["NO_SUCH_TOKEN"])),
    ):
        pass


def test_a_program_that_is_not_there_is_named(spec):
    with (
        pytest.raises(ConfigError, match="no-such-server was not found"),
        ProcessRuntime().launch(replace(spec, program=["no-such-server"])),
    ):
        pass


def test_options_of_another_runtime_are_refused(spec):
    with (
        pytest.raises(ConfigError, match="no options, found image"),
        ProcessRuntime().launch(replace(spec, options={"image": "x"})),
    ):
        pass


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise SystemExit(3)", "exited with code 3"),
        ("import os; os.kill(os.getpid(), 11)", "ended by SIGSEGV (signal 11)"),
    ],
)
def test_an_exit_has_its_reason_in_words(spec, code, reason):
    with ProcessRuntime().launch(replace(spec, program=[sys.executable], argv=["-c", code])) as server:
        wait_for(lambda: not server.alive())
        assert server.exit_reason() == reason


def test_a_stubborn_server_and_its_worker_end_within_the_stop_timeout(spec):
    with ProcessRuntime().launch(replace(spec, argv=["--stubborn", "--child", str(spec.port)])):
        wait_for(lambda: answers(spec))
        assert len(process.marked(spec.device)) == 2
        began = time.monotonic()
    assert spec.stop_timeout_s <= time.monotonic() - began < spec.stop_timeout_s + 3


def test_a_worker_that_outlives_its_server_is_ended(spec):
    with ProcessRuntime().launch(replace(spec, argv=["--child", str(spec.port)])) as server:
        wait_for(lambda: answers(spec))
        os.kill(server.identity.pid, signal.SIGKILL)
        wait_for(lambda: not server.alive())
    assert server.exit_reason() == "ended by SIGKILL (signal 9)"


def test_an_error_in_the_body_stops_the_server_and_comes_through(spec):
    with pytest.raises(ZeroDivisionError), session.serve(ProcessRuntime(), spec, lock_wait_s=0):
        wait_for(lambda: answers(spec))
        raise ZeroDivisionError


@pytest.fixture
def job(spec, tmp_path):
    """Starts the job of runtime_job.py and returns once its server is up."""
    started = []

    def start(*mode, argv=()):
        path = tmp_path / "spec.json"
        fields = asdict(replace(spec, argv=[*argv, str(spec.port)])) | {"log": str(spec.log)}
        path.write_text(json.dumps(fields))
        command = [sys.executable, JOB, "process", str(path), *mode]
        popen = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        started.append(popen)
        assert popen.stdout.readline().startswith("up")
        return popen

    yield start
    for popen in started:
        popen.kill()
        popen.communicate()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_job_leaves_nothing(spec, job, signum):
    popen = job()
    popen.send_signal(signum)
    _, errors = popen.communicate(timeout=10)
    assert popen.returncode != 0
    assert f"Interrupted: stopped by {signum.name}" in errors


def test_a_second_ctrl_c_does_not_cut_the_teardown_short(spec, job):
    popen = job(argv=["--stubborn"])
    popen.send_signal(signal.SIGINT)
    time.sleep(0.5)
    popen.send_signal(signal.SIGINT)
    popen.send_signal(signal.SIGTERM)
    popen.communicate(timeout=spec.stop_timeout_s + 5)
    assert process.marked(spec.device) == []


def test_a_failed_measurement_leaves_nothing(spec, job):
    popen = job("raise")
    _, errors = popen.communicate(timeout=10)
    assert "the measurement failed" in errors


@pytest.mark.skipif(sys.platform != "linux", reason="parent-death signals are Linux's")
def test_a_server_ends_with_a_job_that_was_killed(spec, job):
    popen = job()
    popen.kill()
    popen.wait()
    wait_for(lambda: not process.marked(spec.device))


def test_after_sigkill_the_next_launch_ends_what_stayed_and_goes_on(spec, job):
    popen = job(argv=["--stubborn", "--child"])
    popen.kill()
    popen.wait()
    stale = process.marked(spec.device)
    assert len(stale) == 2 and answers(spec)
    with session.serve(ProcessRuntime(), spec, lock_wait_s=1) as server:
        wait_for(lambda: answers(spec))
        assert server.alive()
        assert not set(stale) & set(process.marked(spec.device))


def test_a_neighbours_live_server_is_named_and_left_alone(spec, job):
    popen = job()
    (server, _), *_ = process.marked(spec.device)
    with pytest.raises(DeviceBusyError, match=f"held by experiment exp, arm base, pid {popen.pid}"):
        session.serve(ProcessRuntime(), spec, lock_wait_s=0.3).__enter__()
    with pytest.raises(DeviceBusyError, match=f"in use by process {server.pid} .*pid {popen.pid}"):
        process.reap(spec.device, timeout_s=1)
    assert server.is_running() and answers(spec)
    popen.terminate()
    popen.communicate(timeout=10)


def test_only_the_devices_own_leftovers_are_ended(spec):
    foreign = Owner.here(spec.device + "-other", "exp", "base")
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    dead = replace(foreign, pid=2**22 - 1)
    with subprocess.Popen(command, env=os.environ | dead.environment()) as neighbour:
        wait_for(lambda: process.marked(foreign.device))
        assert process.reap(spec.device, timeout_s=1) == []
        assert psutil.Process(neighbour.pid).is_running()
        assert process.reap(foreign.device, timeout_s=5) == [f"process {neighbour.pid} of {dead}"]


def test_a_taken_port_names_who_has_it(spec):
    taken = rf"port {spec.port} .*\(pid {os.getpid()}\)"
    with socket.create_server((spec.host, spec.port)), pytest.raises(DeviceBusyError, match=taken):
        session.serve(ProcessRuntime(), spec, lock_wait_s=0).__enter__()
