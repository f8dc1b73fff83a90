"""The machine at the time of a launch: provenance, not telemetry."""

import hashlib
import platform
from pathlib import Path
from typing import Any

import psutil

from breakeven.measure.sensors import amdgpu, nvidia
from breakeven.measure.sensors.amdgpu import read_text
from breakeven.measure.sensors.find import AMD, accelerators

HASH_CHARACTERS = 12
LAUNCH_QUANTITIES = (
    "power_cap_w",
    "power_cap_max_w",
    "gpu_clock_mhz",
    "memory_clock_mhz",
    "vram_total_bytes",
)


def host_facts(name: str | None = None, root: Path = Path("/")) -> dict[str, Any]:
    """Host, kernel, CPU, memory, boot and GPUs; unknown is None.

    `name` stands for the host; without it a hash of the host's name does, which says "same machine" and no more.
    """
    memory = psutil.virtual_memory()
    return {
        "host": name or f"host-{hashlib.sha256(platform.node().encode()).hexdigest()[:HASH_CHARACTERS]}",
        "boot_id": read_text(root / "proc/sys/kernel/random/boot_id"),
        "system": platform.system(),
        "kernel": platform.release(),
        "cpu_model": cpu_model(read_text(root / "proc/cpuinfo") or "") or platform.processor() or None,
        "cpu_governor": read_text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "cores": psutil.cpu_count(logical=False),
        "threads": psutil.cpu_count(),
        "memory_bytes": memory.total,
        "gpus": [
            _gpu(address, vendor, root / "sys") for address, vendor in accelerators(root / "sys").items()
        ],
    }


def cpu_model(cpuinfo: str) -> str | None:
    """The first model name in /proc/cpuinfo; None where the architecture prints none."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return value.strip()
    return None


def _gpu(address: str, vendor: str, root: Path) -> dict[str, Any]:
    facts: dict[str, Any] = {"pci": address, **amdgpu.facts(address, root)}
    sensor: amdgpu.AmdGpu | nvidia.NvidiaGpu | None = None
    if vendor == AMD:
        sensor = amdgpu.AmdGpu(address, root)
    else:
        try:
            sensor = next((gpu for gpu in nvidia.find() if gpu.device == address), None)
        except ImportError:
            sensor = None
    if isinstance(sensor, nvidia.NvidiaGpu):
        facts |= sensor.facts()
    readings = sensor.read() if sensor else {}
    return facts | {quantity: readings.get(quantity) for quantity in LAUNCH_QUANTITIES}
