"""AMD GPUs from sysfs, by PCI address: needs no tool, only the amdgpu driver.

Files and units: the kernel's amdgpu documentation, "GPU Power/Thermal Controls and Monitoring".
"""

import contextlib
import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

SYSFS = Path("/sys")
MICRO, MILLI, PER_MHZ = 1e-6, 1e-3, 1e-6
CLOCKS = {"sclk": "gpu_clock_mhz", "mclk": "memory_clock_mhz"}
TEMPERATURES = {
    "edge": "temperature_edge_c",
    "junction": "temperature_junction_c",
    "mem": "temperature_memory_c",
}
DPM_FILES = {"gpu_clock_mhz": "pp_dpm_sclk", "memory_clock_mhz": "pp_dpm_mclk"}
ACTIVE_LEVEL = re.compile(r"^\d+:\s*(\d+)\s*mhz\s*\*\s*$", re.IGNORECASE | re.MULTILINE)

# gpu_metrics of format 1, content revisions 0 to 3, by size: `throttle_status` (ASIC dependent) stands at byte 68, and
# revision 3 has `indep_throttle_status`. Later revisions are left out: their driver writes 0 for "not reported".
METRICS_SIZES = {80: 0, 96: 1, 104: 2, 120: 3}
THROTTLE_STATUS = struct.Struct("<I"), 68
INDEPENDENT_THROTTLE_STATUS = struct.Struct("<Q"), 112
THROTTLE_BITS = {
    "throttle_power": range(0, 8),
    "throttle_current": range(16, 24),
    "throttle_temperature": range(32, 48),
    "throttle_other": range(56, 64),
}


class AmdGpu:
    """Clocks, temperatures, power and its cap, VRAM and throttling of one GPU."""

    source = "sysfs"
    continuous = True
    expected = frozenset(
        {*CLOCKS.values(), *TEMPERATURES.values(), "power_w", "power_cap_w", "power_cap_max_w"}
        | {"vram_used_bytes", "vram_total_bytes", "gpu_busy_percent", "throttle_any"}
    )

    def __init__(self, address: str, root: Path = SYSFS) -> None:
        self.device = address
        self._home = root / "bus/pci/devices" / address
        self._files = dict(_files(self._home))

    def read(self) -> Mapping[str, float]:
        """Readings by quantity. A GPU in deep sleep refuses some files: those are absent."""
        readings: dict[str, float] = {}
        for quantity, (path, scale) in self._files.items():
            if (value := read_number(path)) is not None:
                readings[quantity] = value * scale
        for quantity, name in DPM_FILES.items():
            if quantity not in readings and (mhz := active_level_mhz(read_text(self._home / name) or "")):
                readings[quantity] = mhz
        with contextlib.suppress(OSError):
            readings |= throttling((self._home / "gpu_metrics").read_bytes())
        return readings


def facts(address: str, root: Path = SYSFS) -> dict[str, str | None]:
    """Name, driver and firmware of the GPU at a PCI address; unknown is None."""
    home = root / "bus/pci/devices" / address
    driver = home / "driver"
    vendor, device = read_text(home / "vendor"), read_text(home / "device")
    return {
        "name": read_text(home / "product_name") or None,
        "pci_id": f"{vendor}:{device}" if vendor and device else None,
        "driver": driver.resolve().name if driver.exists() else None,
        "driver_version": read_text(driver / "module/version"),
        "vbios": read_text(home / "vbios_version"),
    }


def active_level_mhz(levels: str) -> float | None:
    """The level marked with a star in a pp_dpm file (`1: 1700Mhz *`)."""
    match = ACTIVE_LEVEL.search(levels)
    return float(match[1]) if match else None


def throttling(metrics: bytes) -> dict[str, float]:
    """1 or 0 by kind of throttling, from a gpu_metrics file; empty when its format does not say.

    `throttle_any` where only the ASIC-dependent bits exist; all bits set means not reported.
    """
    if len(metrics) < 4:
        return {}
    size, form, content = struct.unpack_from("<HBB", metrics)
    if size != len(metrics) or form != 1 or METRICS_SIZES.get(size) != content:
        return {}
    if content == 3:
        layout, offset = INDEPENDENT_THROTTLE_STATUS
        (bits,) = layout.unpack_from(metrics, offset)
        if bits != 2**64 - 1:
            kinds = {kind: float(any(bits >> bit & 1 for bit in at)) for kind, at in THROTTLE_BITS.items()}
            return kinds | {"throttle_any": float(bits != 0)}
    layout, offset = THROTTLE_STATUS
    (bits,) = layout.unpack_from(metrics, offset)
    return {} if bits == 2**32 - 1 else {"throttle_any": float(bits != 0)}


def read_text(path: Path) -> str | None:
    """A sysfs file's text; None when it cannot be read."""
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return None


def read_number(path: Path) -> float | None:
    """A sysfs file's number; None when it cannot be read or is none."""
    try:
        return float(path.read_text())
    except (OSError, ValueError):
        return None


def _files(home: Path) -> Iterator[tuple[str, tuple[Path, float]]]:
    yield "vram_used_bytes", (home / "mem_info_vram_used", 1)
    yield "vram_total_bytes", (home / "mem_info_vram_total", 1)
    yield "gpu_busy_percent", (home / "gpu_busy_percent", 1)
    for hwmon in sorted(home.glob("hwmon/hwmon*"))[:1]:
        yield "power_cap_w", (hwmon / "power1_cap", MICRO)
        yield "power_cap_max_w", (hwmon / "power1_cap_max", MICRO)
        power = [hwmon / name for name in ("power1_average", "power1_input") if (hwmon / name).exists()]
        if power:
            yield "power_w", (power[0], MICRO)
        for kind, names, scale in (("freq", CLOCKS, PER_MHZ), ("temp", TEMPERATURES, MILLI)):
            for label in hwmon.glob(f"{kind}*_label"):
                if (quantity := names.get(read_text(label) or "")) is not None:
                    yield quantity, (label.with_name(label.name.replace("_label", "_input")), scale)
