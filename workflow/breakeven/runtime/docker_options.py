"""An experiment's docker options as what the SDK's `containers.create` takes. Pure: no engine is asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from docker.types import DeviceRequest, LogConfig, Mount, Ulimit

from breakeven.errors import ConfigError

LISTEN_HOST = "0.0.0.0"
"""The address a server must listen on inside its container; outside it is on `PUBLISH_HOST` only."""

PUBLISH_HOST = "127.0.0.1"

_AS_THEY_ARE = {
    "entrypoint": "entrypoint",
    "devices": "devices",
    "security_opt": "security_opt",
    "cap_add": "cap_add",
    "cap_drop": "cap_drop",
    "shm_size": "shm_size",
    "ipc": "ipc_mode",
    "read_only": "read_only",
    "tmpfs": "tmpfs",
    "memory": "mem_limit",
    "network": "network",
}
_TRANSLATED = ("image", "port", "groups", "ulimits", "gpus", "mounts", "user", "labels", "init")
_NOT_FOR_CREATE = ("pull", "docker_host")
OPTIONS = frozenset((*_AS_THEY_ARE, *_TRANSLATED, *_NOT_FOR_CREATE))


@dataclass(frozen=True)
class BindMount:
    """A host path seen inside the container."""

    source: str
    target: str
    mode: str

    def as_record(self) -> dict[str, str]:
        """For `Identity.mounts`."""
        return {"source": self.source, "target": self.target, "mode": self.mode}


def container_port(options: Mapping[str, Any], port: int) -> int:
    """The port a server must listen on inside its container: the option `port`, else the published one."""
    return int(options.get("port") or port)


def check_names(options: Mapping[str, Any]) -> None:
    """Raise ConfigError for options that do not exist, and when there is no image."""
    if unknown := set(options) - OPTIONS:
        found, known = ", ".join(sorted(unknown)), ", ".join(sorted(OPTIONS))
        raise ConfigError(f"runtime docker does not know {found}; it knows {known}.")
    if not options.get("image"):
        raise ConfigError("runtime docker needs `image`: a name with its tag, or a digest.")
    if options.get("network") == "host":
        raise ConfigError(
            "network: host would show the server to the whole network: its port must be published on "
            f"{PUBLISH_HOST} alone. Leave `network` out."
        )


def bind_mounts(options: Mapping[str, Any], base: Path) -> tuple[BindMount, ...]:
    """`mounts` in parts, from `source:target` or `source:target:ro`; a relative source is below `base`.

    There are no named volumes: what is in them cannot be told from outside.
    """
    return tuple(_bind_mount(text, base) for text in options.get("mounts") or ())


def _bind_mount(text: str, base: Path) -> BindMount:
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    if not source or not PurePosixPath(target).is_absolute() or mode not in ("", "ro", "rw"):
        raise ConfigError(f"mount {text!r} is not source:/target or source:/target:ro.")
    return BindMount(str(base / source), target, mode or "rw")


def create_arguments(
    options: Mapping[str, Any],
    *,
    argv: Sequence[str],
    base: Path,
    port: int,
    name: str,
    environment: Mapping[str, str],
    labels: Mapping[str, str],
) -> dict[str, Any]:
    """Keyword arguments of `DockerClient.containers.create` for a server published on 127.0.0.1:`port`.

    `argv` follows the entrypoint; relative mounts are below `base`. An init process is added (`init: false`
    takes it away): as process 1 of its container a server without a handler of its own would not hear SIGTERM.
    Raises ConfigError.
    """
    check_names(options)
    arguments = {
        "image": options["image"],
        "command": list(argv),
        "name": name,
        "detach": True,
        "environment": dict(environment),
        "labels": {str(key): str(value) for key, value in (options.get("labels") or {}).items()}
        | dict(labels),
        "ports": {f"{container_port(options, port)}/tcp": (PUBLISH_HOST, port)},
        "init": options.get("init", True),
        # whatever the engine's default driver is, this one can be read back
        "log_config": LogConfig(type=LogConfig.types.JSON, config={}),
        "user": None if options.get("user") is None else str(options["user"]),
        "group_add": [str(group) for group in options.get("groups") or ()],
        "ulimits": [_ulimit(name, limit) for name, limit in (options.get("ulimits") or {}).items()],
        "device_requests": _device_requests(options.get("gpus")),
        "mounts": [
            Mount(mount.target, mount.source, type="bind", read_only=mount.mode == "ro")
            for mount in bind_mounts(options, base)
        ],
    }
    arguments |= {theirs: options.get(ours) for ours, theirs in _AS_THEY_ARE.items()}
    return {key: value for key, value in arguments.items() if value not in (None, [], {})}


def _ulimit(name: str, limit: int | str) -> Ulimit:
    """`1048576`, `-1` or `soft:hard`, as `docker run --ulimit` has them."""
    soft, _, hard = str(limit).partition(":")
    try:
        return Ulimit(name=name, soft=int(soft), hard=int(hard or soft))
    except ValueError:
        raise ConfigError(f"ulimit {name}: {limit!r} is neither a number nor soft:hard.") from None


def _device_requests(gpus: str | int | Sequence[str | int] | None) -> list[DeviceRequest]:
    match gpus:
        case None | []:
            return []
        case "all":
            return [DeviceRequest(count=-1, capabilities=[["gpu"]])]
        case bool() | str():
            raise ConfigError(f"gpus: {gpus!r} is not `all`, a number of GPUs, or a list of their ids.")
        case int():
            return [DeviceRequest(count=gpus, capabilities=[["gpu"]])]
    return [DeviceRequest(device_ids=[str(gpu) for gpu in gpus], capabilities=[["gpu"]])]
