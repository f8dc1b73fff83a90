"""Clocks, temperatures, power, memory and load beside the samples, from a thread that costs next to nothing."""

import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from breakeven.measure.host import host_facts
from breakeven.measure.sensors import Sensor
from breakeven.measure.sensors.amdgpu import SYSFS
from breakeven.measure.sensors.find import find

__all__ = ["Telemetry", "host_facts"]

# A sensor that is not continuous rests this many times as long as reading it took: at most 0.2 % of one core.
REST_PER_COST = 500


class Telemetry:
    """Reads the host and `devices` every `period_s` while the block runs, costly sensors less often, and at its end.

    `own_pids`: processes, besides this one's tree, that belong to the measurement (a server in a container).
    After the block `missing` says in words what could not be read, and `cost_s` the CPU seconds that reading took.
    """

    def __init__(
        self,
        devices: Iterable[str],
        period_s: float = 0.5,
        *,
        own_pids: Iterable[int] = (),
        root: Path = SYSFS,
    ) -> None:
        found = find(devices, own_pids, root)
        self.missing = list(found.missing)
        self.cost_s = 0.0
        self._period_s = period_s
        self._sensors = list(found.sensors)
        self._due = dict.fromkeys(range(len(self._sensors)), 0.0)
        self._readings: list[tuple[float, str, str, float, str]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._sample(everything=True)
        seen = {(device, quantity) for _, device, quantity, _, _ in self._readings}
        for sensor in self._sensors:
            unread = sorted(quantity for quantity in sensor.expected if (sensor.device, quantity) not in seen)
            if unread:
                self.missing.append(f"{sensor.device}: {sensor.source} does not tell {', '.join(unread)}")

    def rows(self, launch_keys: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The readings as rows of the telemetry table, `launch_keys` in each."""
        names = ("at", "device", "quantity", "value", "source")
        return [{**launch_keys, **dict(zip(names, reading, strict=True))} for reading in self._readings]

    def _run(self) -> None:
        while not self._stop.is_set():
            self._sample()
            self._stop.wait(self._period_s)

    def _sample(self, everything: bool = False) -> None:
        for index, sensor in enumerate(self._sensors):
            if everything or time.monotonic() >= self._due[index]:
                began = time.thread_time()
                self._read(sensor)
                cost = time.thread_time() - began
                self.cost_s += cost
                self._due[index] = time.monotonic() + (0 if sensor.continuous else REST_PER_COST * cost)

    def _read(self, sensor: Sensor) -> None:
        at = time.time()
        try:
            readings = sensor.read()
        except Exception as error:  # a sensor must never end a measurement; the reason is said once
            message = f"{sensor.device}: {sensor.source} failed with {type(error).__name__}: {error}"
            if message not in self.missing:
                self.missing.append(message)
            return
        self._readings += [
            (at, sensor.device, quantity, value, sensor.source) for quantity, value in readings.items()
        ]
