"""Processes for work that holds the interpreter's lock; they end with this one, however it ends."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from breakeven.runtime.tether import die_with_parent


@contextmanager
def workers(tasks: int) -> Iterator[Callable[..., Iterable[Any]]]:
    """`map` over a process for each core; in this process where there is one task, which is not worth a start."""
    if tasks < 2:
        yield map
        return
    processes = min(tasks, os.cpu_count() or 1)
    with ProcessPoolExecutor(
        processes, get_context("spawn"), initializer=die_with_parent, initargs=(os.getpid(),)
    ) as pool:
        yield pool.map
