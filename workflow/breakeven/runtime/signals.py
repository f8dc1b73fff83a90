"""Ctrl-C, SIGTERM and SIGHUP as an exception inside a job, and a teardown that they cannot cut short."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A stop signal. Not an `Exception`: code that turns an arm's failure into data must let it through."""

    def __init__(self, signum: int):
        self.signum = signal.Signals(signum)
        super().__init__(f"stopped by {self.signum.name}")

    @property
    def exit_code(self) -> int:
        """What a shell reports for a process that this signal ended: 128 + its number."""
        return 128 + self.signum


class Shield:
    """Keeps stop signals back until it is opened; see `shield`."""

    def __init__(self) -> None:
        self._opened = False
        self._kept: list[int] = []

    def receive(self, signum: int, _frame: FrameType | None) -> None:
        """The signal handler."""
        if self._opened:
            raise Interrupted(signum)
        self._kept.append(signum)

    def release(self) -> None:
        """Raise what was kept back, as one Interrupted."""
        if self._kept:
            signum, self._kept = self._kept[0], []
            raise Interrupted(signum)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Let signals through, beginning with those kept back."""
        self._opened = True
        try:
            self.release()
            yield
        finally:
            self._opened = False


@contextmanager
def shield() -> Iterator[Shield]:
    """Keep stop signals back; raise Interrupted at the end if any came.

    A launch is shielded as a whole and opened around its body only, so that no signal, first or second, falls
    between starting a server and the code that will stop it, or into that code::

        with shield() as signals:
            server = start()
            try:
                with signals.open():
                    yield server
            finally:
                stop(server)

    A signal that is ignored (nohup) stays ignored. Outside the main thread nothing is installed: Python
    delivers signals to the main thread only.
    """
    kept = Shield()
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {signum: signal.getsignal(signum) for signum in STOPPING}
        before = {signum: old for signum, old in handlers.items() if old not in (signal.SIG_IGN, None)}
    for signum in before:
        signal.signal(signum, kept.receive)
    try:
        yield kept
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
    kept.release()


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn stop signals into Interrupted for the whole of a job: everything it holds is given back."""
    with shield() as signals, signals.open():
        yield
