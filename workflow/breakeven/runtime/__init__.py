"""Where a server lives. A runtime starts one server, hands it over and leaves nothing behind.

It knows no engine.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class LaunchSpec:
    """All that decides how one server process is started.

    `argv` excludes the program itself: the runtime puts the binary or the image's entrypoint in front of it.
    `env_from` names variables whose values are taken from the environment at start and never stored.
    `options` are the runtime's own keys of the experiment's `server:` section (image, mounts, devices, ...).
    """

    experiment: str
    arm: str
    device: str
    host: str
    port: int
    argv: Sequence[str]
    log: Path
    program: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    env_from: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    stop_timeout_s: float = 30.0


@dataclass(frozen=True)
class Identity:
    """What really ran, as far as it can be known; unknown is None. Goes into bring_up.json and launch.json.

    `program` is the binary's path or the image's name, `digest` the hash of either. `env` holds what was
    declared, never a value of `env_from`. Each mount has source, target and mode.
    """

    runtime: str
    program: str | None
    digest: str | None
    argv: tuple[str, ...] | None
    env: Mapping[str, str] | None
    mounts: tuple[Mapping[str, str], ...] | None = ()
    container: str | None = None
    pid: int | None = None


class Server(Protocol):
    """A server that has been started and may still be loading."""

    base_url: str
    log: Path
    identity: Identity

    def alive(self) -> bool:
        """Whether the process or container still runs."""
        ...

    def exit_reason(self) -> str | None:
        """Exit code, OOM mark or signal in words once it has ended; None while it runs.

        The lines that explain it are in the log: `breakeven.runtime.log.last_lines`.
        """
        ...

    def drain(self) -> None:
        """Bring the log file up to date with what the server has printed."""
        ...


class Runtime(Protocol):
    """Starts servers of one kind."""

    name: str

    def launch(self, spec: LaunchSpec) -> AbstractContextManager[Server]:
        """Start a server and stop it on exit, whatever happens inside.

        Raises LaunchError when this arm's server cannot be started, ConfigError when its description
        cannot be used as it stands (no such program, image, mount or variable). Takes no lock: that is
        `breakeven.runtime.session`.
        """
        ...
