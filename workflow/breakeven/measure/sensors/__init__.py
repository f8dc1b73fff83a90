"""What can be read about a machine while a server runs on it. A sensor reads numbers; what it cannot read is absent."""

from collections.abc import Mapping
from typing import Protocol


class Sensor(Protocol):
    """Readings of one device from one source, by quantity with its unit in the name.

    `continuous` sensors are read in every period, the others as often as their cost allows.
    """

    device: str
    source: str
    expected: frozenset[str]
    continuous: bool

    def read(self) -> Mapping[str, float]:
        """What can be read now; a quantity that cannot be read is left out, never 0."""
        ...
