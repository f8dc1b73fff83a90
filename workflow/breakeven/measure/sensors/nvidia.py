"""NVIDIA GPUs through NVML (nvidia-ml-py)."""

import contextlib
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from breakeven.pci import pci_address

MILLI = 1e-3
THROTTLE_REASONS = {
    "throttle_power": ("SwPowerCap", "HwPowerBrakeSlowdown"),
    "throttle_temperature": ("SwThermalSlowdown", "HwThermalSlowdown"),
    "throttle_hardware": ("HwSlowdown",),
    "throttle_other": ("SyncBoost", "ApplicationsClocksSetting", "DisplayClockSetting"),
}


class NvidiaGpu:
    """Clocks, temperature, power and its cap, memory and throttling of one GPU."""

    source = "nvml"
    continuous = True
    expected = frozenset(
        {
            "gpu_clock_mhz",
            "memory_clock_mhz",
            "temperature_gpu_c",
            "power_w",
            "power_cap_w",
            "power_cap_max_w",
        }
        | {"vram_used_bytes", "vram_total_bytes", "gpu_busy_percent", *THROTTLE_REASONS}
    )

    def __init__(self, nvml: Any, handle: Any, address: str) -> None:
        self.device = address
        self._nvml, self._gpu = nvml, handle

    def read(self) -> Mapping[str, float]:
        """Readings by quantity; what the card does not support is absent."""
        nvml, gpu = self._nvml, self._gpu
        readings: dict[str, float] = {}

        def ask(quantities: Callable[[], Mapping[str, float]]) -> None:
            with contextlib.suppress(nvml.NVMLError):
                readings.update(quantities())

        ask(lambda: {"gpu_clock_mhz": nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM)})
        ask(lambda: {"memory_clock_mhz": nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_MEM)})
        ask(lambda: {"temperature_gpu_c": nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU)})
        ask(lambda: {"power_w": nvml.nvmlDeviceGetPowerUsage(gpu) * MILLI})
        ask(lambda: {"power_cap_w": nvml.nvmlDeviceGetEnforcedPowerLimit(gpu) * MILLI})
        ask(lambda: {"power_cap_max_w": nvml.nvmlDeviceGetPowerManagementLimitConstraints(gpu)[1] * MILLI})
        ask(lambda: {"gpu_busy_percent": nvml.nvmlDeviceGetUtilizationRates(gpu).gpu})
        ask(lambda: self._memory(nvml.nvmlDeviceGetMemoryInfo(gpu)))
        ask(lambda: self._throttling(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)))
        return {quantity: float(value) for quantity, value in readings.items()}

    def facts(self) -> dict[str, str | None]:
        """Name, driver and firmware; unknown is None."""

        def ask(question: Callable[[], str]) -> str | None:
            try:
                return question()
            except self._nvml.NVMLError:
                return None

        return {
            "name": ask(lambda: self._nvml.nvmlDeviceGetName(self._gpu)),
            "driver_version": ask(self._nvml.nvmlSystemGetDriverVersion),
            "vbios": ask(lambda: self._nvml.nvmlDeviceGetVbiosVersion(self._gpu)),
        }

    def _memory(self, memory: Any) -> Mapping[str, float]:
        return {"vram_used_bytes": memory.used, "vram_total_bytes": memory.total}

    def _throttling(self, bits: int) -> Mapping[str, float]:
        return {
            kind: float(
                any(bits & getattr(self._nvml, f"nvmlClocksThrottleReason{reason}") for reason in reasons)
            )
            for kind, reasons in THROTTLE_REASONS.items()
        }


def find() -> list[NvidiaGpu]:
    """All NVIDIA GPUs of the machine. Raises ImportError with the reason when NVML cannot be used."""
    nvml = import_module("pynvml")
    try:
        nvml.nvmlInit()
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        found = [(handle, pci_address(nvml.nvmlDeviceGetPciInfo(handle).busId)) for handle in handles]
    except nvml.NVMLError as error:
        raise ImportError(str(error)) from error
    return [NvidiaGpu(nvml, handle, address) for handle, address in found if address]
