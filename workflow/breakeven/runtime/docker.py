"""A server as a container of this host's Docker engine, its port on 127.0.0.1, its output in the log file."""

import contextlib
import math
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import docker
import requests
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.models.containers import Container
from docker.models.images import Image

from breakeven.errors import BreakevenError, ConfigError, LaunchError
from breakeven.runtime import Identity, LaunchSpec, Server
from breakeven.runtime.docker_log import LogFollower
from breakeven.runtime.docker_options import (
    PUBLISH_HOST,
    bind_mounts,
    check_names,
    create_arguments,
)
from breakeven.runtime.owner import LABEL_PREFIX, Owner, require_stale
from breakeven.runtime.process import read_env_from
from breakeven.runtime.signals import shield

_TIMEOUT_S = 60
_ENGINE_ERRORS = (DockerException, requests.RequestException)
_HERE = ("localhost", "127.0.0.1", "::1")


def connect(docker_host: str | None = None) -> docker.DockerClient:
    """A client of the engine at `docker_host`, else at DOCKER_HOST, else at Docker's own default.

    Raises ConfigError for an engine on another machine, BreakevenError when none answers.
    """
    address = docker_host or os.environ.get("DOCKER_HOST")
    check_local(address)
    environment = dict(os.environ) | ({"DOCKER_HOST": address} if address else {})
    try:
        return docker.from_env(timeout=_TIMEOUT_S, environment=environment)
    except _ENGINE_ERRORS as error:
        raise BreakevenError(
            f"no Docker engine answers at {address or 'the default socket'} ({error}). Start it "
            "(systemctl start docker), set DOCKER_HOST to its socket, or join the group that may use it "
            "(usermod -aG docker)."
        ) from error


def check_local(address: str | None) -> None:
    """Raise ConfigError when `address` names an engine on another machine."""
    if not address:
        return
    parts = urlsplit(address)
    if parts.scheme in ("unix", "npipe", "http+unix"):
        return
    if parts.scheme in ("tcp", "http", "https") and parts.hostname in _HERE:
        return
    raise ConfigError(
        f"DOCKER_HOST is {address}: its containers would publish their port on that machine, not here, and "
        "this machine's device, lock and telemetry would be the wrong ones. Run Breakeven over there, or "
        "unset it."
    )


class DockerServer:
    """A started container; see `breakeven.runtime.Server`."""

    def __init__(self, base_url: str, identity: Identity, container: Container, follower: LogFollower):
        self.base_url = base_url
        self.log = follower.path
        self.identity = identity
        self._container = container
        self._follower = follower
        self._state: Mapping[str, Any] | None = None

    def alive(self) -> bool:
        """Whether the container still runs."""
        return self.exit_reason() is None

    def exit_reason(self) -> str | None:
        """Exit code, OOM mark and the engine's own error in words, None while it runs."""
        if self._state is None:
            try:
                self._container.reload()
            except NotFound:
                return "the container was removed by somebody else"
            except _ENGINE_ERRORS as error:
                return f"the Docker engine does not answer any more: {error}"
            state = self._container.attrs["State"]
            if state["Status"] not in ("exited", "dead"):
                return None
            self._state = state
        return exit_in_words(self._state)

    def drain(self) -> None:
        """Wait for the last lines of a container that has ended; a running one's are in the file already."""
        if not self.alive():
            self._follower.finish()


def exit_in_words(state: Mapping[str, Any]) -> str:
    """What `docker inspect` says in `State` about the end of a container."""
    code = state["ExitCode"]
    reason = f"exited with code {code}"
    if state.get("OOMKilled"):
        reason += "; it ran into its memory limit (OOMKilled)"
    elif code > 128:
        reason += f" (signal {code - 128})"
    return f"{reason}; {state['Error']}" if state.get("Error") else reason


class DockerRuntime:
    """Options: `breakeven.runtime.docker_options.OPTIONS`."""

    name = "docker"

    @contextlib.contextmanager
    def launch(self, spec: LaunchSpec) -> Iterator[Server]:
        """Create and start the container; on exit stop and remove it.

        Its server is sent SIGTERM, and SIGKILL after `stop_timeout_s`.
        """
        check_names(spec.options)
        _check_paths(spec)
        secrets = read_env_from(spec)
        client = connect(spec.options.get("docker_host"))
        owner = Owner.here(spec.device, spec.experiment, spec.arm)
        try:
            image = find_image(client, spec.options["image"], pull=bool(spec.options.get("pull")))
            arguments = create_arguments(
                spec.options,
                argv=spec.argv,
                base=Path.cwd(),
                port=spec.port,
                name=_container_name(owner),
                environment=dict(spec.env) | secrets,
                labels=owner.labels(),
            )
            with shield() as signals:
                try:
                    container = _start(client, arguments, spec, secrets)
                    follower = LogFollower(container, spec.log)
                    identity = _identity(spec, image, container)
                    server = DockerServer(f"http://{PUBLISH_HOST}:{spec.port}", identity, container, follower)
                    try:
                        with signals.open():
                            yield server
                    finally:
                        _stop(container, spec.stop_timeout_s)
                        server.drain()
                finally:
                    _remove_all(client, owner)
        finally:
            client.close()


def _check_paths(spec: LaunchSpec) -> None:
    """What the engine would only find out after the container was created."""
    for mount in bind_mounts(spec.options, Path.cwd()):
        if not Path(mount.source).exists():
            raise ConfigError(
                f"arm {spec.arm}: mount source {mount.source} does not exist on this host. "
                "Correct `mounts`, or make the folder; named volumes are not taken."
            )
    for device in spec.options.get("devices") or ():
        if not Path(device.partition(":")[0]).exists():
            raise ConfigError(
                f"arm {spec.arm}: device {device} does not exist on this host (driver not loaded?). "
                "Correct `devices`."
            )


def find_image(client: docker.DockerClient, name: str, pull: bool) -> Image:
    """The image of that name; pulled only when `pull` is true. Raises ConfigError saying how to get it."""
    try:
        return client.images.get(name)
    except ImageNotFound:
        if not pull:
            raise ConfigError(
                f"image {name} is not on this host. Get it with `docker pull {name}` or build it "
                "(`breakeven image TAG` builds the embedded server's), or let a run pull it: `pull: true`."
            ) from None
    try:
        return client.images.pull(name)
    except _ENGINE_ERRORS as error:
        raise ConfigError(f"image {name} is not on this host and could not be pulled: {error}") from error


def _start(
    client: docker.DockerClient, arguments: Mapping[str, Any], spec: LaunchSpec, secrets: Mapping[str, str]
) -> Container:
    try:
        container = client.containers.create(**arguments)
        container.start()
    except _ENGINE_ERRORS as error:
        text = str(error.explanation if isinstance(error, APIError) and error.explanation else error)
        for name, value in secrets.items():
            text = text.replace(value, f"<{name}>") if value else text
        # `from None`: the engine's own exception may quote the request, and with it a secret
        raise LaunchError(
            f"arm {spec.arm}: the Docker engine could not start its container: {text}"
        ) from None
    return container


def _identity(spec: LaunchSpec, image: Image, container: Container) -> Identity:
    container.reload()
    entrypoint = container.attrs["Config"].get("Entrypoint") or []
    return Identity(
        runtime=DockerRuntime.name,
        program=spec.options["image"],
        digest=image_digest(image),
        argv=(*entrypoint, *spec.argv),
        env=dict(spec.env),
        mounts=tuple(mount.as_record() for mount in bind_mounts(spec.options, Path.cwd())),
        container=container.id,
        pid=container.attrs["State"]["Pid"] or None,
    )


def image_digest(image: Image) -> str:
    """The registry's digest where the image came from one, else its id: `name@sha256:...` or `sha256:...`."""
    digests = sorted(image.attrs.get("RepoDigests") or ())
    return str(digests[0] if digests else image.id)


def running_names(docker_host: str | None = None) -> dict[str, str]:
    """Names of running containers by id; empty when no engine answers."""
    try:
        with contextlib.closing(connect(docker_host)) as client:
            return {
                str(container.id): str(container.name)
                for container in client.containers.list(ignore_removed=True)
            }
    except (BreakevenError, *_ENGINE_ERRORS):
        return {}


def _container_name(owner: Owner) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", f"breakeven-{owner.experiment}-{owner.arm}-{owner.launch[:8]}")


def _labelled(client: docker.DockerClient, **labels: str) -> list[Container]:
    filters: dict[str, str | list[str] | bool] = {
        "label": [f"{LABEL_PREFIX}{name}={value}" for name, value in labels.items()]
    }
    return client.containers.list(all=True, filters=filters, ignore_removed=True)


def _remove_all(client: docker.DockerClient, owner: Owner) -> None:
    """Also a container that the engine made although its answer to `create` or `start` was an error."""
    try:
        for container in _labelled(client, launch=owner.launch):
            _remove(container)
    except _ENGINE_ERRORS as error:
        raise BreakevenError(
            f"the container of arm {owner.arm} could not be removed ({error}). The next launch on device "
            f"{owner.device} tries again once the Docker engine answers."
        ) from error


def _stop(container: Container, timeout_s: float) -> None:
    """An engine that cannot do it says so when the container is removed, which always follows."""
    with contextlib.suppress(*_ENGINE_ERRORS):
        container.stop(timeout=math.ceil(timeout_s))


def _remove(container: Container) -> None:
    with contextlib.suppress(NotFound):
        container.remove(v=True, force=True)


def reap(device: str, timeout_s: float, docker_host: str | None = None) -> list[str]:
    """Stop and remove containers that dead jobs left on `device`, and say which they were.

    Call it under the device's lock. Without an engine that answers there is nothing to do. Raises
    DeviceBusyError, before anything is ended, when a living job owns one.
    """
    try:
        client = connect(docker_host)
    except BreakevenError:
        return []
    with contextlib.closing(client):
        stale = []
        for container in _labelled(client, device=device):
            owner = Owner.from_labels(container.labels)
            if owner is None:
                raise ConfigError(
                    f"container {container.name} carries {LABEL_PREFIX}device={device} but not its owner. "
                    f"Remove it if it is not needed: docker rm -f {container.name}"
                )
            require_stale(owner, f"container {container.name}")
            stale.append((container, owner))
        for container, _ in stale:
            _stop(container, timeout_s)
            _remove(container)
    return [f"container {container.name} of {owner}" for container, owner in stale]
