"""AMD GPUs through the amdsmi library, where sysfs does not show them.

Only quantities whose unit is the same in all its releases are read: temperatures and power caps are not among them.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from breakeven.pci import pci_address

MEGABYTE = 1024 * 1024


class AmdSmiGpu:
    """Clocks, power and VRAM of one GPU."""

    source = "amdsmi"
    continuous = True
    expected = frozenset(
        {"gpu_clock_mhz", "memory_clock_mhz", "power_w", "vram_used_bytes", "vram_total_bytes"}
    )

    def __init__(self, library: Any, handle: Any, address: str) -> None:
        self.device = address
        self._library, self._handle = library, handle

    def read(self) -> Mapping[str, float]:
        """Readings by quantity; what the library refuses or calls "N/A" is absent."""
        return {
            quantity: float(value) for quantity, value in self._values() if isinstance(value, int | float)
        }

    def _values(self) -> Iterator[tuple[str, object]]:
        smi, gpu = self._library, self._handle
        kinds = {"gpu_clock_mhz": smi.AmdSmiClkType.GFX, "memory_clock_mhz": smi.AmdSmiClkType.MEM}
        for quantity, kind in kinds.items():
            yield quantity, self._ask(smi.amdsmi_get_clock_info, gpu, kind).get("clk")
        power = self._ask(smi.amdsmi_get_power_info, gpu)
        readings = [power.get(name) for name in ("current_socket_power", "average_socket_power")]
        yield "power_w", next((watt for watt in readings if isinstance(watt, int)), None)
        for name, value in self._ask(smi.amdsmi_get_gpu_vram_usage, gpu).items():
            yield f"{name}_bytes", value * MEGABYTE

    def _ask(self, question: Any, *of: Any) -> Mapping[str, Any]:
        try:
            answer: Mapping[str, Any] = question(*of)
        except self._library.AmdSmiException:
            return {}
        return answer


def find() -> list[AmdSmiGpu]:
    """All AMD GPUs that the library sees. Raises ImportError with the reason when it cannot be used."""
    try:
        smi = import_module("amdsmi")
        smi.amdsmi_init()
    except (
        Exception
    ) as error:  # the package raises KeyError, OSError or its own class when its driver is missing
        raise ImportError(f"{type(error).__name__}: {error}") from error
    handles = smi.amdsmi_get_processor_handles()
    found = [(handle, pci_address(smi.amdsmi_get_gpu_device_bdf(handle))) for handle in handles]
    return [AmdSmiGpu(smi, handle, address) for handle, address in found if address]
