"""Who is on a device now: readers for the CPU, AMD GPUs (sysfs, no tool needed) and NVIDIA GPUs (NVML)."""

import contextlib
import re
import time
from collections.abc import Callable, Mapping
from heapq import nlargest
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil

from breakeven.pci import pci_address
from breakeven.runtime.idle import Reading, Tenant

CPU_WINDOW_S = 0.5
_NAMED = 3
_ROOT = Path("/")
_CONTAINER_ID = re.compile(r"\b[0-9a-f]{64}\b")
_AMDGPU_FILES = "sys/bus/pci/devices/*/mem_info_vram_used"

Names = Callable[[], Mapping[str, str]]
"""Container names by id; asked only when a tenant runs in a container."""


def read(device: str, container_names: Names = dict, root: Path = _ROOT) -> tuple[Reading, ...]:
    """`cpu`, a GPU's PCI address, or any other name, which stands for all GPUs of the host."""
    if device == "cpu":
        return (read_cpu(),)
    amd, nvidia = amd_addresses(root), _nvml()
    wanted = pci_address(device)
    found = [
        read_amd(address, container_names, root) for address in amd if wanted is None or address == wanted
    ]
    if nvidia is not None:
        found += [
            read_nvidia(nvidia, handle, address, container_names, root)
            for handle, address in nvidia_addresses(nvidia)
            if wanted is None or address == wanted
        ]
    if not found:
        without = "" if nvidia is not None else ", and nvidia-ml-py is not installed or finds no driver"
        gap = f"no GPU {device} under /sys/bus/pci/devices{without}: whether it is in use is not checked"
        return (Reading(device, missing=(gap,)),)
    return tuple(found)


def read_cpu(window_s: float = CPU_WINDOW_S) -> Reading:
    """Share of all cores that others use, over a window; this process, its children and parents are not others."""
    own, before, began = _own_tree(), _cpu_seconds(), time.monotonic()
    busy_before = _busy_seconds()
    time.sleep(window_s)
    core_s = (time.monotonic() - began) * (psutil.cpu_count() or 1)
    busy, after = _busy_seconds() - busy_before, _cpu_seconds()
    used = {pid: cpu_s - before.get(pid, ("", 0.0))[1] for pid, (_, cpu_s) in after.items()}
    ours = sum(cpu_s for pid, cpu_s in used.items() if pid in own)
    others = {pid: cpu_s for pid, cpu_s in used.items() if pid not in own and cpu_s > 0}
    tenants = tuple(
        Tenant(pid, after[pid][0], busy_share=others[pid] / core_s)
        for pid in nlargest(_NAMED, others, key=others.__getitem__)
    )
    return Reading("cpu", tenants, busy_share=max(0.0, busy - ours) / core_s)


def _own_tree() -> set[int]:
    me = psutil.Process()
    return {me.pid, *(process.pid for process in (*me.parents(), *me.children(recursive=True)))}


def _busy_seconds() -> float:
    times = psutil.cpu_times()._asdict()
    waiting = (
        "idle",
        "iowait",
        "guest",
        "guest_nice",
        "steal",
    )  # guests are part of user; stolen time is not used
    return float(sum(seconds for name, seconds in times.items() if name not in waiting))


def _cpu_seconds() -> dict[int, tuple[str, float]]:
    found = {}
    for process in psutil.process_iter(["pid", "name", "cpu_times"]):
        if (times := process.info["cpu_times"]) is not None:
            found[process.info["pid"]] = process.info["name"] or "?", times.user + times.system
    return found


def amd_addresses(root: Path = _ROOT) -> list[str]:
    """PCI addresses of the GPUs that the amdgpu driver serves."""
    return sorted(path.parent.name for path in root.glob(_AMDGPU_FILES))


def read_amd(address: str, container_names: Names, root: Path = _ROOT) -> Reading:
    """Memory and work on one GPU: compute processes from KFD's sysfs, graphics ones from DRM's fdinfo.

    Formats: the kernel's amdgpu documentation, and "DRM client usage stats".
    """
    home = root / "sys/bus/pci/devices" / address
    held = _drm_memory(address, root)
    for pid, size_bytes in _kfd_memory(address, root).items():
        held[pid] = max(size_bytes, held.get(pid, 0))
    busy_percent = _number(home / "gpu_busy_percent")
    used = _number(home / "mem_info_vram_used")
    gaps = [
        f"{address}: {what} cannot be read from sysfs"
        for what, value in (("gpu_busy_percent", busy_percent), ("mem_info_vram_used", used))
        if value is None
    ]
    return Reading(
        address,
        _tenants(held, container_names, root),
        None if busy_percent is None else busy_percent / 100,
        used,
        tuple(gaps),
    )


def _kfd_memory(address: str, root: Path) -> dict[int, int]:
    """Bytes by process id, for processes that opened /dev/kfd and have memory of this GPU."""
    kfd = root / "sys/class/kfd/kfd"
    gpu_ids = [
        node.parent.joinpath("gpu_id").read_text().strip()
        for node in kfd.glob("topology/nodes/*/properties")
        if _kfd_address(node) == address
    ]
    sizes = {
        int(process.name): sum(_number(process / f"vram_{gpu_id}") or 0 for gpu_id in gpu_ids)
        for process in kfd.glob("proc/[0-9]*")
    }
    return {pid: size_bytes for pid, size_bytes in sizes.items() if size_bytes > 0}


def _kfd_address(properties: Path) -> str | None:
    """PCI address from `domain` and `location_id`, whose low byte is device (5 bits) and function (3 bits)."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        values = dict(line.split(maxsplit=1) for line in properties.read_text().splitlines() if " " in line)
        domain, location = int(values["domain"]), int(values["location_id"])
        return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"
    return None


def _drm_memory(address: str, root: Path) -> dict[int, int]:
    """Bytes by process id, for processes of this user (all for root) with an open /dev/dri file of this GPU."""
    found: dict[int, int] = {}
    for process in root.glob("proc/[0-9]*"):
        clients: dict[str, int] = {}
        with contextlib.suppress(OSError):
            for fd in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if fd.readlink().is_relative_to("/dev/dri"):
                        clients |= _drm_client((process / "fdinfo" / fd.name).read_text(), address)
        if total := sum(clients.values()):
            found[int(process.name)] = total
    return found


def _drm_client(fdinfo: str, address: str) -> Mapping[str, int]:
    """VRAM bytes by client id: one client behind several descriptors counts once."""
    values = {key: value.strip() for key, _, value in (line.partition(":") for line in fdinfo.splitlines())}
    vram = re.fullmatch(r"(\d+)\s*(KiB|MiB)?", values.get("drm-memory-vram", ""))
    if values.get("drm-pdev") != address or vram is None:
        return {}
    scale = {None: 1, "KiB": 2**10, "MiB": 2**20}[vram[2]]
    return {values.get("drm-client-id", ""): int(vram[1]) * scale}


def _nvml() -> Any | None:
    """The initialised NVML binding, None without it or without a driver."""
    try:
        nvml = import_module("pynvml")
        nvml.nvmlInit()
    except (ImportError, OSError):
        return None
    except Exception as error:  # NVML's own class, which cannot be named before the import
        if type(error).__name__.startswith("NVMLError"):
            return None
        raise
    return nvml


def nvidia_addresses(nvml: Any) -> list[tuple[Any, str]]:
    """Handle and PCI address of every GPU."""
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
    found = []
    for handle in handles:
        bus_id = nvml.nvmlDeviceGetPciInfo(handle).busId
        address = pci_address(bus_id.decode() if isinstance(bus_id, bytes) else bus_id)
        if address is not None:
            found.append((handle, address))
    return found


def read_nvidia(nvml: Any, handle: Any, address: str, container_names: Names, root: Path = _ROOT) -> Reading:
    """Memory and work on one GPU; memory by process is None where NVML does not know it."""
    gaps: list[str] = []

    def ask(what: str, question: Callable[[Any], Any]) -> Any | None:
        try:
            return question(handle)
        except nvml.NVMLError as error:
            gaps.append(f"{address}: NVML does not tell {what} ({error})")
            return None

    held: dict[int, int | None] = {}
    for what in ("Compute", "Graphics"):
        question = getattr(nvml, f"nvmlDeviceGet{what}RunningProcesses")
        for process in ask(f"{what.lower()} processes", question) or ():
            held[process.pid] = process.usedGpuMemory
    memory = ask("memory in use", nvml.nvmlDeviceGetMemoryInfo)
    utilization = ask("utilization", nvml.nvmlDeviceGetUtilizationRates)
    return Reading(
        address,
        _tenants(held, container_names, root),
        None if utilization is None else utilization.gpu / 100,
        None if memory is None else int(memory.used),
        tuple(gaps),
    )


def _tenants(held: Mapping[int, int | None], container_names: Names, root: Path) -> tuple[Tenant, ...]:
    ids = {pid: _container_id(pid, root) for pid in held}
    names = container_names() if any(ids.values()) else {}
    return tuple(
        Tenant(pid, _process_name(pid, root), names.get(id_, id_[:12]) if (id_ := ids[pid]) else None, size)
        for pid, size in sorted(held.items())
    )


def _container_id(pid: int, root: Path) -> str | None:
    with contextlib.suppress(OSError):
        match = _CONTAINER_ID.search((root / f"proc/{pid}/cgroup").read_text())
        return match[0] if match else None
    return None


def _process_name(pid: int, root: Path) -> str:
    with contextlib.suppress(OSError):
        return (root / f"proc/{pid}/comm").read_text().strip()
    return "a process of another PID namespace"


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
