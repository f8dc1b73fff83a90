"""Names of devices as the kernel writes them."""

import re

_ADDRESS = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", re.IGNORECASE)


def pci_address(text: str) -> str | None:
    """`03:00.0` or `00000000:03:00.0` as sysfs writes it, `0000:03:00.0`; None when it is no PCI address."""
    match = _ADDRESS.fullmatch(text.strip())
    return f"{int(match[1] or '0', 16):04x}:{match[2].lower()}" if match else None
