"""An optional gate before a launch: heat must not punish the arms that come later."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from breakeven.errors import ConfigError
from breakeven.measure.sensors.amdgpu import SYSFS
from breakeven.measure.sensors.find import find

Decision = Literal["go", "wait", "give_up", "blind"]
PERIOD_S = 1.0


@dataclass(frozen=True)
class Cooldown:
    """How long the device was waited for, and how warm it was in the end; `reached`: below the limit."""

    reached: bool
    waited_s: float
    temperature_c: float


def decide(
    temperatures_c: Mapping[str, float], below_c: float, waited_s: float, timeout_s: float
) -> Decision:
    """`go` once every temperature is below the limit, `give_up` at the timeout, `blind` without a temperature."""
    if not temperatures_c:
        return "blind"
    if max(temperatures_c.values()) < below_c:
        return "go"
    return "wait" if waited_s < timeout_s else "give_up"


def cool_down(
    device: str,
    below_c: float,
    timeout_s: float,
    *,
    root: Path = SYSFS,
    sleep: Callable[[float], None] = time.sleep,
) -> Cooldown:
    """Wait until the device is below a temperature or the time is up; the caller decides what a timeout means.

    Raises ConfigError when no temperature of the device can be read: a gate that cannot see is no gate.
    """
    found, began = find([device], root=root), time.monotonic()
    sensors = [sensor for sensor in found.sensors if (sensor.device == "cpu") == (device == "cpu")]
    while True:
        temperatures = {
            f"{sensor.device} {quantity}": value
            for sensor in sensors
            for quantity, value in sensor.read().items()
            if quantity.startswith("temperature_")
        }
        waited_s = time.monotonic() - began
        match decide(temperatures, below_c, waited_s, timeout_s):
            case "blind":
                raise ConfigError(
                    f"cooldown_c: {below_c:g} is asked for, but no temperature of {device} can be read"
                    f"{''.join('; ' + reason for reason in found.missing)}. Set cooldown_c to null or fix the sensor"
                )
            case "wait":
                sleep(PERIOD_S)
            case decision:
                return Cooldown(decision == "go", waited_s, max(temperatures.values()))
