"""Which sensors the devices of an experiment have, and in words what is missing."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from breakeven.measure.sensors import Sensor, amdsmi, nvidia
from breakeven.measure.sensors.amdgpu import SYSFS, AmdGpu, read_text
from breakeven.measure.sensors.cpu import HostClock, HostLoad, OtherProcesses
from breakeven.pci import pci_address

AMD, NVIDIA = "0x1002", "0x10de"
ACCELERATOR_CLASSES = ("0x03", "0x12")  # PCI base classes: display controller, processing accelerator


@dataclass(frozen=True)
class Found:
    """Sensors that exist, and sentences about those that do not."""

    sensors: tuple[Sensor, ...]
    missing: tuple[str, ...]


def accelerators(root: Path = SYSFS) -> dict[str, str]:
    """PCI address -> vendor of the AMD and NVIDIA accelerators that the machine has."""
    found = {}
    for home in sorted((root / "bus/pci/devices").glob("*")):
        vendor, kind = read_text(home / "vendor"), read_text(home / "class") or ""
        if vendor in (AMD, NVIDIA) and kind.startswith(ACCELERATOR_CLASSES):
            found[home.name] = vendor
    return found


def find(devices: Iterable[str], own_pids: Iterable[int] = (), root: Path = SYSFS) -> Found:
    """The host's sensors and those of the devices: `cpu`, PCI addresses, or a name, which stands for all GPUs."""
    sensors: list[Sensor] = [HostLoad(), HostClock(), OtherProcesses(own_pids)]
    present, missing = accelerators(root), []
    wanted: dict[str, None] = {}
    for device in devices:
        if device == "cpu":
            continue
        if (address := pci_address(device)) is not None:
            wanted[address] = None
        else:
            missing.append(
                f"device {device!r} is no PCI address: all {len(present)} GPUs found are read instead"
            )
            wanted |= dict.fromkeys(present)
    for address in wanted:
        gpu, why_not = _gpu(address, present.get(address), root)
        sensors += [gpu] if gpu else []
        missing += [why_not] if why_not else []
    return Found(tuple(sensors), tuple(missing))


def _gpu(address: str, vendor: str | None, root: Path) -> tuple[Sensor | None, str | None]:
    if vendor == AMD and list((root / "bus/pci/devices" / address).glob("hwmon/hwmon*")):
        return AmdGpu(address, root), None
    reasons = [f"{address}: no AMD GPU with the amdgpu driver in {root}"]
    libraries: list[tuple[str, Callable[[], Sequence[Sensor]]]] = []
    if vendor != NVIDIA:
        libraries.append(("amdsmi", amdsmi.find))
    if vendor != AMD:
        libraries.append(("nvidia-ml-py", nvidia.find))
    for name, library in libraries:
        try:
            if gpu := next((gpu for gpu in library() if gpu.device == address), None):
                return gpu, None
            reasons.append(f"{name} does not see it")
        except ImportError as error:
            reasons.append(f"{name} cannot be used ({error})")
    return None, "; ".join(reasons)
