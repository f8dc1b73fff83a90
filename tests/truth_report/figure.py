"""A figure to reach: what is claimed, what was wanted, what was found."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """`passed` is None where this machine could not decide; `found` then says why."""

    claim: str
    wanted: str
    found: str
    passed: bool | None


def section(figures: Iterable[Figure], **tables: Sequence[Any] | Any) -> dict[str, Any]:
    """A section's document."""
    return {"figures": [asdict(figure) for figure in figures], **tables}
