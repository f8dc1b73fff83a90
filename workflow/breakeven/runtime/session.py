"""The order around every launch: lock, reap, port, idle, launch; and back."""

import contextlib
import logging
from collections.abc import Callable, Iterator
from functools import partial

from breakeven.errors import ConfigError
from breakeven.runtime import LaunchSpec, Runtime, Server, docker, lock, port, process, tenants
from breakeven.runtime.attach import AttachRuntime
from breakeven.runtime.docker import DockerRuntime
from breakeven.runtime.idle import Limits, wait_until_idle
from breakeven.runtime.process import ProcessRuntime

logger = logging.getLogger(__name__)

RUNTIMES: dict[str, Callable[[], Runtime]] = {
    ProcessRuntime.name: ProcessRuntime,
    DockerRuntime.name: DockerRuntime,
    AttachRuntime.name: AttachRuntime,
}


def named(name: str) -> Runtime:
    """The runtime that an experiment's `runtime:` names."""
    if name not in RUNTIMES:
        raise ConfigError(f"runtime {name!r} is not one of {', '.join(RUNTIMES)}.")
    return RUNTIMES[name]()


def idle_gate(
    device: str, limits: Limits, timeout_s: float, docker_host: str | None = None
) -> Callable[[], None]:
    """The `idle` of `serve`: waits until nobody else is on the device, DeviceBusyError after `timeout_s`."""

    def wait() -> None:
        if device != "cpu" or limits.cpu_share is not None:
            names = partial(docker.running_names, docker_host)
            wait_until_idle(partial(tenants.read, device, names), limits, timeout_s)

    return wait


@contextlib.contextmanager
def serve(
    runtime: Runtime,
    spec: LaunchSpec,
    lock_wait_s: float,
    idle: Callable[[], None] | None = None,
    docker_host: str | None = None,
) -> Iterator[Server]:
    """A server that is alone on its device for as long as the context lasts.

    The device's lock comes first; under it, and only then, what dead jobs left on the device is ended; then
    the port must be free and `idle` return (it raises when the device stays busy); then the server is
    launched. A server that is attached to has port and device already: neither is asked about.

    Raises DeviceBusyError naming the holder when the device is not to be had within `lock_wait_s` seconds, or
    the port is taken.
    """
    with lock.hold(spec.device, spec.experiment, spec.arm, lock_wait_s):
        for ended in (
            *process.reap(spec.device, spec.stop_timeout_s),
            *docker.reap(spec.device, spec.stop_timeout_s, docker_host or spec.options.get("docker_host")),
        ):
            logger.warning("ended a server left by an earlier run: %s", ended)
        if runtime.name != AttachRuntime.name:
            port.require_free(spec.host, spec.port)
            if idle is not None:
                idle()
        with runtime.launch(spec) as server:
            yield server
