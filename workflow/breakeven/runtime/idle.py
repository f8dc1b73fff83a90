"""Is a device free for a launch? Neither another's memory on it, nor another's work, nor what the last one left.

A second tenant spoils both arms, and the memory of a GPU comes back seconds after the container is gone.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from breakeven.runtime.owner import DeviceBusyError

logger = logging.getLogger(__name__)

GPU_BUSY_SHARE = 0.05
"""Chosen: a co-tenant that only answers health checks stays below it."""

IDLE_VRAM_BYTES = 2**30
"""Chosen: what a driver may keep on a GPU that nobody uses, with room; every served model is larger."""

_POLL_S = 1.0


@dataclass(frozen=True)
class Tenant:
    """A process, not ours, that has memory of a device or uses it. Unknown is None.

    `busy_share`: of all cores on a CPU; of the GPU's compute, where the driver counts it by process.
    """

    pid: int
    name: str
    container: str | None = None
    memory_bytes: int | None = None
    busy_share: float | None = None

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid}{f', container {self.container}' if self.container else ''})"


@dataclass(frozen=True)
class Reading:
    """What was seen of one device. Unknown is None; `missing` says why."""

    device: str
    tenants: tuple[Tenant, ...] = ()
    busy_share: float | None = None
    vram_used_bytes: int | None = None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Limits:
    """What may be on a device at a launch; `allow` names processes or containers that may stay while idle."""

    cpu_share: float | None = None
    allow: frozenset[str] = frozenset()


def obstacles(reading: Reading, limits: Limits) -> tuple[str, ...]:
    """Why nothing should be launched on the device now, one sentence each; empty when it is idle."""
    return tuple(_cpu(reading, limits) if reading.device == "cpu" else _gpu(reading, limits))


def _cpu(reading: Reading, limits: Limits) -> Iterator[str]:
    if limits.cpu_share is None or reading.busy_share is None or reading.busy_share <= limits.cpu_share:
        return
    busiest = [f"{tenant} {tenant.busy_share:.0%}" for tenant in reading.tenants if tenant.busy_share]
    yield (
        f"other processes use {reading.busy_share:.0%} of all cores, {limits.cpu_share:.0%} are allowed: "
        f"{', '.join(busiest) or 'none that lived long enough to be named'}"
    )


def _gpu(reading: Reading, limits: Limits) -> Iterator[str]:
    allowed = [t for t in reading.tenants if t.name in limits.allow or t.container in limits.allow]
    for tenant in reading.tenants:
        if tenant not in allowed:
            yield f"{tenant} holds {_gb(tenant.memory_bytes)} of {reading.device}"
            continue
        busy = reading.busy_share if tenant.busy_share is None else tenant.busy_share
        if busy is None:
            yield f"{tenant} may stay on {reading.device} while idle, but whether it is cannot be read"
        elif busy > GPU_BUSY_SHARE:
            yield f"{tenant} may stay on {reading.device} while idle, but is busy ({busy:.0%})"
    if len(allowed) < len(reading.tenants):
        return
    if not allowed and reading.busy_share is not None and reading.busy_share > GPU_BUSY_SHARE:
        yield f"{reading.device} is {reading.busy_share:.0%} busy with work of a process that cannot be seen"
    theirs = [tenant.memory_bytes for tenant in allowed]
    if reading.vram_used_bytes is not None and None not in theirs:
        rest = reading.vram_used_bytes - sum(filter(None, theirs))
        if rest > IDLE_VRAM_BYTES:
            yield (
                f"{_gb(rest)} of {reading.device} are in use by no process that can be seen: memory of the last "
                "server that is not back yet, or another user's process"
            )


def _gb(size_bytes: int | None) -> str:
    return "an unknown part" if size_bytes is None else f"{size_bytes / 1e9:.1f} GB"


def wait_until_idle(read: Callable[[], Sequence[Reading]], limits: Limits, timeout_s: float) -> None:
    """Return once nothing stands in the way; raises DeviceBusyError naming what does after `timeout_s` seconds.

    `read` is asked about once a second. What it could not read is logged, once; it does not stop a launch.
    """
    deadline = time.monotonic() + timeout_s
    said: set[str] = set()
    while True:
        readings = read()
        for gap in (gap for reading in readings for gap in reading.missing):
            if gap not in said:
                said.add(gap)
                logger.warning("idle gate: %s", gap)
        found = [sentence for reading in readings for sentence in obstacles(reading, limits)]
        if not found:
            return
        if time.monotonic() >= deadline:
            raise DeviceBusyError(
                f"the device is not idle after {timeout_s:g} s: {'; '.join(found)}. Stop it, or name a tenant that "
                "stays idle in `allow`."
            )
        if (waiting := f"waiting for an idle device: {'; '.join(found)}") not in said:
            said.add(waiting)
            logger.warning(waiting)
        time.sleep(_POLL_S)
