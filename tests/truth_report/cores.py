"""Work that needs no quiet machine, spread over its cores."""

from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from os import cpu_count
from typing import TypeVar

Given, Found = TypeVar("Given"), TypeVar("Found")


def on_cores(work: Callable[[Given], Found], items: Sequence[Given]) -> list[Found]:
    """`work` of every item, in their order; a module's own function, in processes of their own."""
    with ProcessPoolExecutor(cpu_count()) as pool:
        return list(pool.map(work, items))
