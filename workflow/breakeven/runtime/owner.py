"""Who started a server: the labels of its container, the marker variables in its environment.

A server that outlives its job is recognised by them: the next launch on the device ends it, and only it.
"""

import os
import platform
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Self

import psutil

from breakeven.errors import BreakevenError

LABEL_PREFIX = "breakeven."
VARIABLE_PREFIX = "BREAKEVEN_"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_START_TOLERANCE_S = (
    5  # psutil derives a start from the wall clock, which may be stepped between two readings
)


class DeviceBusyError(BreakevenError):
    """A device, or its port, is held by somebody who is alive: nothing was started."""


class Standing(Enum):
    """What is known about the job that started a server."""

    SELF = "this job"
    ALIVE = "alive"
    DEAD = "dead"
    ELSEWHERE = "another host"


@dataclass(frozen=True)
class Owner:
    """The job behind one launch. `started`, in Unix seconds, tells it from a later job with the same pid."""

    device: str
    experiment: str
    arm: str
    launch: str
    pid: int
    started: int
    boot_id: str
    host: str

    @classmethod
    def here(cls, device: str, experiment: str, arm: str) -> Self:
        """This process as the owner of a new launch."""
        started = int(psutil.Process().create_time())
        return cls(
            device, experiment, arm, uuid.uuid4().hex, os.getpid(), started, boot_id(), platform.node()
        )

    def labels(self) -> dict[str, str]:
        """As container labels, `breakeven.<field>`."""
        return {LABEL_PREFIX + name: str(value) for name, value in asdict(self).items()}

    def environment(self) -> dict[str, str]:
        """As environment variables, `BREAKEVEN_<FIELD>`, inherited by all that the server starts."""
        return {VARIABLE_PREFIX + name.upper(): str(value) for name, value in asdict(self).items()}

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> Self | None:
        """The owner that `labels` name, None when they do not name one."""
        return cls._parse({name: labels.get(LABEL_PREFIX + name) for name in _FIELDS})

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self | None:
        """The owner that marker variables name, None when they do not name one."""
        return cls._parse({name: environment.get(VARIABLE_PREFIX + name.upper()) for name in _FIELDS})

    @classmethod
    def _parse(cls, values: Mapping[str, str | None]) -> Self | None:
        text = {name: value for name, value in values.items() if value is not None}
        if len(text) < len(_FIELDS) or not (text["pid"].isdigit() and text["started"].isdigit()):
            return None
        return cls(
            **{name: text[name] for name in _FIELDS if name not in ("pid", "started")},
            pid=int(text["pid"]),
            started=int(text["started"]),
        )

    def standing(self) -> Standing:
        """Whether the job lives; one on another host, or in a container of its own, cannot be judged."""
        if self.boot_id != boot_id():
            return Standing.DEAD if self.host == platform.node() else Standing.ELSEWHERE
        if self.host != platform.node():
            return Standing.ELSEWHERE
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) <= _START_TOLERANCE_S
            if not same or process.status() == psutil.STATUS_ZOMBIE:
                return Standing.DEAD
        except psutil.NoSuchProcess:
            return Standing.DEAD
        return Standing.SELF if self.pid == os.getpid() else Standing.ALIVE

    def __str__(self) -> str:
        return f"experiment {self.experiment}, arm {self.arm}, pid {self.pid}"


_FIELDS = tuple(field.name for field in fields(Owner))


def boot_id() -> str:
    """Names this boot of the host; off Linux the boot time in Unix seconds."""
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else str(int(psutil.boot_time()))


def require_stale(owner: Owner, what: str) -> None:
    """Raise DeviceBusyError unless the server `what` was left behind and may be ended.

    Called under the device's lock: a server of this very job is then a leftover of an earlier launch.
    """
    standing = owner.standing()
    if standing in (Standing.ALIVE, Standing.ELSEWHERE):
        state = "still runs" if standing is Standing.ALIVE else f"is on {owner.host} and cannot be judged"
        raise DeviceBusyError(
            f"device {owner.device} is in use by {what} ({owner}); its job {state}. "
            "Wait for it, stop that job, or give this experiment another device."
        )
