"""What can be read about a machine while a server runs on it. A sensor reads numbers; what it cannot read is absent."""

import re
from collections.abc import Mapping
from typing import Protocol

PCI_ADDRESS = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", re.IGNORECASE)


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


def pci_address(text: str) -> str | None:
    """`03:00.0` or `00000000:03:00.0` as sysfs writes it, `0000:03:00.0`; None when it is no PCI address."""
    match = PCI_ADDRESS.fullmatch(text.strip())
    return f"{int(match[1] or '0', 16):04x}:{match[2].lower()}" if match else None
