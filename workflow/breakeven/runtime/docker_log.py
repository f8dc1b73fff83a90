"""A container's output into a file while it runs."""

import threading
from pathlib import Path

import requests
from docker.errors import DockerException
from docker.models.containers import Container

_FINISH_TIMEOUT_S = 10.0


class LogFollower:
    """Writes each piece of output to `path` as it comes; `finish` makes sure that none is missing."""

    def __init__(self, container: Container, path: Path):
        self.path = path
        self._container = container
        self._complete = False
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        self._thread = threading.Thread(target=self._follow, name=f"log of {container.name}", daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        try:
            with self.path.open("ab", buffering=0) as file:
                for piece in self._container.logs(stream=True, follow=True):
                    file.write(piece)
            self._complete = True
        except (DockerException, requests.RequestException):
            pass  # a broken stream (engine restarted): `finish` copies the whole log again

    def finish(self) -> None:
        """Wait for the rest of the output of a container that has ended."""
        self._thread.join(_FINISH_TIMEOUT_S)
        if self._complete or self._thread.is_alive():
            return
        with self.path.open("wb") as file:
            for piece in self._container.logs(stream=True, follow=False):
                file.write(piece)
        self._complete = True
