"""The host: load, memory, clocks, and who else is busy."""

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import nlargest
from typing import Any

import psutil

PACKAGE_TEMPERATURES = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
BUSY_PERCENT = 10.0  # of one core, over the time between two readings: what can disturb a measurement
NAMED_PROCESSES = 5
SHORTEST_INTERVAL_S = 0.1  # the kernel counts CPU time in steps of 0.01 s


class HostLoad:
    """Busy share of all cores since the reading before, load average, memory."""

    device, source, continuous = "cpu", "psutil", True
    expected = frozenset({"cpu_busy_percent", "load_1m", "memory_used_bytes", "memory_available_bytes"})

    def __init__(self) -> None:
        self._before = _cpu_seconds()

    def read(self) -> Mapping[str, float]:
        """Readings by quantity; the busy share is absent right after the start."""
        memory = psutil.virtual_memory()
        readings = {
            "load_1m": psutil.getloadavg()[0],
            "memory_used_bytes": float(memory.used),
            "memory_available_bytes": float(memory.available),
        }
        busy, total = _cpu_seconds()
        passed = total - self._before[1]
        if passed >= SHORTEST_INTERVAL_S:
            readings["cpu_busy_percent"] = 100 * (busy - self._before[0]) / passed
            self._before = busy, total
        return readings


class HostClock:
    """Mean frequency of the cores and the hottest CPU package."""

    device, source, continuous = "cpu", "psutil", False
    expected = frozenset({"cpu_frequency_mhz", "temperature_cpu_c"})

    def read(self) -> Mapping[str, float]:
        """Readings by quantity; a virtual machine often has neither."""
        readings: dict[str, float] = {}
        frequency = psutil.cpu_freq()
        if frequency is not None and frequency.current > 0:
            readings["cpu_frequency_mhz"] = frequency.current
        chips: dict[str, list[Any]] = getattr(psutil, "sensors_temperatures", dict)()  # not on every system
        if hot := [entry.current for name in PACKAGE_TEMPERATURES for entry in chips.get(name, [])]:
            readings["temperature_cpu_c"] = max(hot)
        return readings


@dataclass(frozen=True)
class ProcessTime:
    """CPU seconds that a process has used so far."""

    pid: int
    parent: int
    name: str
    cpu_s: float


class OtherProcesses:
    """Number and names of busy processes outside this process's own tree and `own_pids` with theirs."""

    device, source, continuous = "cpu", "psutil", False
    expected = frozenset({"other_busy_processes"})

    def __init__(self, own_pids: Iterable[int] = ()) -> None:
        self._own = {os.getpid(), *own_pids}
        self._before = _processes()

    def read(self) -> Mapping[str, float]:
        """`other_busy_processes`, and `busy_process_percent:NAME` of one core for the busiest of them."""
        now = _processes()
        passed = now[0] - self._before[0]
        if passed < SHORTEST_INTERVAL_S:
            return {}
        used = {
            process: 100 * (process.cpu_s - self._before[1][process.pid].cpu_s) / passed
            for process in outside(now[1].values(), self._own)
            if process.pid in self._before[1] and self._before[1][process.pid].name == process.name
        }
        self._before = now
        busy = {process: percent for process, percent in used.items() if percent >= BUSY_PERCENT}
        by_name: defaultdict[str, float] = defaultdict(float)
        for process, percent in busy.items():
            by_name[process.name] += percent
        busiest = nlargest(NAMED_PROCESSES, by_name, key=by_name.__getitem__)
        named = {f"busy_process_percent:{name}": by_name[name] for name in busiest}
        return {"other_busy_processes": float(len(busy)), **named}


def outside(processes: Iterable[ProcessTime], own: set[int]) -> list[ProcessTime]:
    """Processes that are neither ancestors nor descendants of `own`, nor among them."""
    known = {process.pid: process for process in processes}

    def line(pid: int) -> set[int]:
        pids: set[int] = set()
        while pid in known and pid not in pids:
            pids.add(pid)
            pid = known[pid].parent
        return pids

    ancestors = set().union(*(line(pid) for pid in own))
    return [process for pid, process in known.items() if pid not in ancestors and not line(pid) & own]


def _cpu_seconds() -> tuple[float, float]:
    times = psutil.cpu_times()._asdict()
    total = sum(seconds for name, seconds in times.items() if not name.startswith("guest"))  # part of user
    return total - times["idle"] - times.get("iowait", 0.0), total


def _processes() -> tuple[float, dict[int, ProcessTime]]:
    found = {}
    for process in psutil.process_iter(["pid", "ppid", "name", "cpu_times"]):
        info = process.info
        if info["cpu_times"] is not None:
            used = info["cpu_times"].user + info["cpu_times"].system
            found[info["pid"]] = ProcessTime(info["pid"], info["ppid"] or 0, info["name"] or "?", used)
    return time.monotonic(), found
