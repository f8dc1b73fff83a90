"""A container's output into a file while it runs."""

import logging
import threading
from pathlib import Path

import requests
from docker.errors import DockerException
from docker.models.containers import Container

logger = logging.getLogger(__name__)

_FINISH_TIMEOUT_S = 60.0


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
        """Wait for the rest of the output of a container that has ended; what cannot be had is logged."""
        self._thread.join(_FINISH_TIMEOUT_S)
        if self._complete:
            return
        try:
            if self._thread.is_alive():
                raise TimeoutError(f"the engine still sends after {_FINISH_TIMEOUT_S:g} s")
            pieces = self._container.logs(stream=True, follow=False)
            with self.path.open("wb") as file:
                for piece in pieces:
                    file.write(piece)
            self._complete = True
        except (DockerException, requests.RequestException, TimeoutError) as error:
            logger.warning("%s may lack its last lines: %s", self.path, error)
