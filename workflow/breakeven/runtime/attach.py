"""A server that somebody else started and will stop: a URL, and a log file where there is one."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from breakeven.errors import ConfigError, LaunchError
from breakeven.runtime import Identity, LaunchSpec, Server

OPTIONS = frozenset({"url", "log_file"})
_CONNECT_TIMEOUT_S = 2.0


class AttachedServer:
    """A server at a URL; see `breakeven.runtime.Server`."""

    def __init__(self, base_url: str, log: Path, source: Path | None, identity: Identity):
        self.base_url = base_url
        self.log = log
        self.identity = identity
        self._source = source
        self._copied_bytes = 0

    def alive(self) -> bool:
        """Whether the URL's port accepts a connection: all that can be seen from outside."""
        return _refusal(self.base_url) is None

    def exit_reason(self) -> str | None:
        """Why the port does not answer, None while it does."""
        refusal = _refusal(self.base_url)
        return None if refusal is None else f"no answer at {self.base_url} ({refusal})"

    def drain(self) -> None:
        """Append what the server's own log file has gained; one that shrank was rotated and is read anew."""
        if self._source is None:
            return
        with self._source.open("rb") as source, self.log.open("ab") as log:
            if source.seek(0, 2) < self._copied_bytes:
                self._copied_bytes = 0
            source.seek(self._copied_bytes)
            while block := source.read(1 << 20):
                log.write(block)
                self._copied_bytes += len(block)


class AttachRuntime:
    """Options: `url` (default http://host:port) and `log_file` (the server's own log, from its first line).

    Nothing is started or stopped. One arm per attach: what the log does not say stays unverified.
    """

    name = "attach"

    @contextlib.contextmanager
    def launch(self, spec: LaunchSpec) -> Iterator[Server]:
        """Hand over the server at the URL; raises LaunchError when nothing answers there."""
        if unknown := set(spec.options) - OPTIONS:
            raise ConfigError(
                f"arm {spec.arm}: runtime attach knows the options {', '.join(sorted(OPTIONS))}; "
                f"found {', '.join(sorted(unknown))}."
            )
        url = str(spec.options.get("url") or f"http://{spec.host}:{spec.port}").rstrip("/")
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise ConfigError(f"arm {spec.arm}: attach url {url!r} is not of the form http://host:port.")
        source = Path(spec.options["log_file"]) if spec.options.get("log_file") else None
        if source is not None and not source.is_file():
            raise ConfigError(
                f"arm {spec.arm}: attach log_file {source} is not a file. Give the path of the server's "
                "log, or leave `log_file` out: its facts are then unverified."
            )
        if (refusal := _refusal(url)) is not None:
            raise LaunchError(f"no server answers at {url} ({refusal}). Start it first, or correct `url`.")
        spec.log.parent.mkdir(parents=True, exist_ok=True)
        spec.log.write_bytes(b"")
        identity = Identity(self.name, program=None, digest=None, argv=None, env=None, mounts=None)
        server = AttachedServer(url, spec.log, source, identity)
        server.drain()
        try:
            yield server
        finally:
            server.drain()


def _refusal(url: str) -> str | None:
    """Why no TCP connection to the URL's host and port comes about, None when one does."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), _CONNECT_TIMEOUT_S).close()
    except OSError as error:
        return error.strerror or str(error)
    return None
