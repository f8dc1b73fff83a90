"""The device lock: one holder, named to those who wait, gone with its process."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from breakeven.runtime import lock
from breakeven.runtime.owner import DeviceBusyError, Owner, Standing

HOLD = """
import sys, time
from breakeven.runtime import lock
with lock.hold("gpu0", "other_exp", "mtp3", wait_s=0):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def own_lock_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(lock.DIRECTORY_VARIABLE, str(tmp_path / "locks"))


@pytest.fixture
def neighbour():
    with subprocess.Popen([sys.executable, "-c", HOLD], stdout=subprocess.PIPE, text=True) as popen:
        assert popen.stdout.readline() == "held\n"
        yield popen
        popen.kill()


def take(device="gpu0", wait_s=0.0):
    with lock.hold(device, "exp", "base", wait_s) as owner:
        return owner


def test_a_free_device_is_had_at_once_and_given_back():
    take()
    assert take().pid == os.getpid()
    assert lock.holder("gpu0") is None


def test_whoever_waits_is_told_who_holds(neighbour):
    began = time.monotonic()
    with pytest.raises(DeviceBusyError, match=f"other_exp, arm mtp3, pid {neighbour.pid}"):
        take(wait_s=0.5)
    assert 0.5 <= time.monotonic() - began < 2


def test_another_device_is_free(neighbour):
    take("gpu1")


def test_the_lock_goes_with_a_killed_holder(neighbour):
    os.kill(neighbour.pid, signal.SIGKILL)
    neighbour.wait()
    take(wait_s=1)


def test_a_note_that_nobody_can_read_does_not_hurt(tmp_path):
    take()
    for note in (b"", b"[1]", b"{}", b"\xff", b'{"breakeven.pid": "x"}'):
        (tmp_path / "locks" / "gpu0.holder.json").write_bytes(note)
        assert lock.holder("gpu0") is None


def test_a_device_name_cannot_leave_the_folder(tmp_path):
    take("../../etc/passwd")
    assert [path.name for path in (tmp_path / "locks").iterdir()] == ["_.._etc_passwd.lock"]


def test_other_users_can_take_the_lock_too(tmp_path):
    take()
    folder = tmp_path / "locks"
    assert folder.stat().st_mode & 0o1777 == 0o777
    assert (folder / "gpu0.lock").stat().st_mode & 0o666 == 0o666


def test_an_owner_is_judged_by_pid_start_boot_and_host():
    me = Owner.here("gpu0", "exp", "base")
    assert me.standing() is Standing.SELF
    assert replace(me, pid=1, started=0).standing() is Standing.DEAD, "the pid was used again"
    assert replace(me, pid=2**22 - 1).standing() is Standing.DEAD
    assert replace(me, boot_id="an earlier boot").standing() is Standing.DEAD
    assert replace(me, host="elsewhere").standing() is Standing.ELSEWHERE
    assert replace(me, host="elsewhere", boot_id="theirs").standing() is Standing.ELSEWHERE


def test_an_owner_survives_labels_and_environment():
    me = Owner.here("gpu0", "exp", "base")
    assert Owner.from_labels(me.labels()) == me
    assert Owner.from_environment(me.environment()) == me
    assert Owner.from_labels({"breakeven.device": "gpu0"}) is None
