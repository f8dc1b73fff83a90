"""One job at a time on a device, host-wide: a lock that the kernel gives back whatever happens to the job."""

import json
import logging
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from breakeven.errors import BreakevenError
from breakeven.runtime.owner import DeviceBusyError, Owner, Standing

logger = logging.getLogger(__name__)

DIRECTORY_VARIABLE = "BREAKEVEN_LOCK_DIR"
_REMIND_EVERY_S = 30.0


def directory() -> Path:
    """One folder for every user of this host: `BREAKEVEN_LOCK_DIR`, else in /run/lock, else in /tmp.

    TMPDIR is not asked: two jobs with different values would not exclude each other. The folder is
    writable for all without the sticky bit, which would keep a second user from opening the first one's file.
    """
    chosen = os.environ.get(DIRECTORY_VARIABLE)
    system = Path("/run/lock")
    shared = system.is_dir() and stat.S_IMODE(system.stat().st_mode) & 0o002
    folder = Path(chosen) if chosen else (system if shared else Path("/tmp")) / "breakeven"
    with suppress(FileExistsError):
        folder.mkdir(parents=True)
        folder.chmod(0o777)
    if not os.access(folder, os.W_OK):
        raise BreakevenError(
            f"the lock folder {folder} is not writable for this user: make it so (chmod 777 {folder}), or "
            f"point {DIRECTORY_VARIABLE} at a folder that every user of this host's devices shares."
        )
    return folder


def _paths(device: str) -> tuple[Path, Path]:
    name = re.sub(r"[^A-Za-z0-9._-]", "_", device).lstrip(".") or "_"
    folder = directory()
    return folder / f"{name}.lock", folder / f"{name}.holder.json"


def holder(device: str) -> Owner | None:
    """Who wrote that it holds the device's lock, None when nobody did or the note cannot be read."""
    try:
        note = json.loads(_paths(device)[1].read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(note, dict):
        return None
    return Owner.from_labels({str(key): str(value) for key, value in note.items()})


def _holder_in_words(device: str) -> str:
    owner = holder(device)
    if owner is None or owner.standing() is Standing.DEAD:
        return "a job that left no note"  # it has the lock but has not written yet
    return str(owner)


def _write_note(path: Path, owner: Owner) -> None:
    temporary = path.with_suffix(f".{owner.launch}")
    temporary.write_text(json.dumps(owner.labels()))
    temporary.chmod(0o644)
    temporary.replace(path)


@contextmanager
def hold(device: str, experiment: str, arm: str, wait_s: float) -> Iterator[Owner]:
    """Hold the device's lock; raises DeviceBusyError naming the holder after `wait_s` seconds."""
    lock_path, note_path = _paths(device)
    lock = FileLock(str(lock_path), mode=0o666)
    owner = Owner.here(device, experiment, arm)
    deadline = time.monotonic() + wait_s
    while True:
        remaining_s = max(0.0, deadline - time.monotonic())
        try:
            lock.acquire(timeout=min(remaining_s, _REMIND_EVERY_S), poll_interval=0.2)
            break
        except Timeout:
            who = _holder_in_words(device)
            if time.monotonic() >= deadline:
                raise DeviceBusyError(
                    f"device {device} is held by {who}; waited {wait_s:g} s for its lock {lock_path}. "
                    "Wait for that job to end or stop it; the lock goes with it."
                ) from None
            logger.warning("waiting for device %s, held by %s", device, who)
    try:
        _write_note(note_path, owner)
        yield owner
    finally:
        note_path.unlink(missing_ok=True)
        lock.release()
