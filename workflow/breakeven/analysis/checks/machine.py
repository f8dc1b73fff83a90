"""Was the machine the same for every arm? Clocks, heat, power caps, throttling, and who else was busy."""

from typing import Any

import pandas as pd

from breakeven.analysis.checks.check import Check, findings, undecided
from breakeven.analysis.checks.measured import LAUNCH, Measured

CLOCKS = ("gpu_clock_mhz", "memory_clock_mhz", "cpu_frequency_mhz")
CLOCK_SHARE = 0.03
"""Share by which a launch's typical clock may differ from that of its round's baseline."""
TEMPERATURE_C = 8.0
"""Degrees by which a launch may be warmer than its round's baseline."""
POWER_CAP = "power_cap_w"
CAP_W = 1.0
"""Drivers round power caps: smaller differences are none."""
THROTTLE = "throttle_"
TEMPERATURE = "temperature_"
OTHERS = "other_busy_processes"
NAMED = "busy_process_percent:"
BUSY_SHARE = 0.1
"""Share of a launch's samples in which somebody else may be busy."""


def _typical(measured: Measured, wanted: pd.Series) -> pd.DataFrame:
    """Median reading per launch, device and quantity of the chosen rows."""
    rows = measured.telemetry[wanted & measured.telemetry["value"].notna()]
    groups = rows.groupby([*LAUNCH, "device", "quantity"], observed=True, sort=False)["value"]
    return groups.median().reset_index().astype({"arm": object})


def _beside_baseline(measured: Measured, wanted: pd.Series) -> pd.DataFrame:
    """Typical readings of the other arms with the baseline's of the same round."""
    typical = _typical(measured, wanted)
    own = typical[typical["arm"] == measured.baseline].drop(columns="arm")
    arms = typical[typical["arm"] != measured.baseline]
    return arms.merge(own, on=["round", "device", "quantity"], suffixes=("", "_base"))


def _worst(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """Per launch the row that is furthest off."""
    order = table.assign(size=table[by].abs()).sort_values("size", kind="stable")
    worst: pd.DataFrame = order.groupby(LAUNCH, observed=True, sort=False).last().reset_index()
    return worst


def _compared(
    measured: Measured, wanted: pd.Series, off: Any, allowed: float, *, holds: str, fails: Any, unknown: str
) -> pd.DataFrame:
    both = _beside_baseline(measured, wanted)
    if both.empty:
        return undecided(measured.arms, unknown)
    table = _worst(both.assign(off=off(both)), "off")
    return findings(table, table["off"], table["off"].abs() <= allowed, holds=holds, fails=fails)


def clocks_equal(measured: Measured) -> pd.DataFrame:
    """An arm's launch ran at the clocks of its round's baseline."""
    return _compared(
        measured,
        measured.telemetry["quantity"].isin(CLOCKS),
        lambda both: both["value"] / both["value_base"] - 1,
        CLOCK_SHARE,
        holds="clocks are those of the baseline",
        fails=lambda row: (
            f"{row.quantity} of {row.device} was {row.off:+.1%} against the baseline of the round: the clock looks "
            "like a dearer or cheaper drafter; fix the clocks, or let the device cool between launches"
        ),
        unknown="no clock can be read on this machine",
    )


def temperature_equal(measured: Measured) -> pd.DataFrame:
    """An arm's launch was about as warm as its round's baseline."""
    return _compared(
        measured,
        measured.telemetry["quantity"].str.startswith(TEMPERATURE),
        lambda both: both["value"] - both["value_base"],
        TEMPERATURE_C,
        holds="temperatures are those of the baseline",
        fails=lambda row: (
            f"{row.quantity} of {row.device} was {row.off:+.0f} degrees against the baseline of the round; set a "
            "cooldown between launches if clocks follow"
        ),
        unknown="no temperature can be read on this machine",
    )


def power_cap_equal(measured: Measured) -> pd.DataFrame:
    """Every launch ran under the baseline's power cap."""
    return _compared(
        measured,
        measured.telemetry["quantity"] == POWER_CAP,
        lambda both: both["value"] - both["value_base"],
        CAP_W,
        holds="the power cap is that of the baseline",
        fails=lambda row: (
            f"the power cap of {row.device} was {row.reading:.0f} W, {row.value_base:.0f} W in the baseline of the "
            "round: a cap changes the cost of a draft; set one cap and measure this launch again"
        ),
        unknown="no power cap can be read on this machine",
    )


def not_throttled(measured: Measured) -> pd.DataFrame:
    """No throttling was reported while requests ran."""
    rows = measured.telemetry[measured.telemetry["quantity"].str.startswith(THROTTLE)]
    if rows.empty:
        return undecided(measured.arms, "throttling is not reported on this machine")
    seen = rows.assign(on=rows["value"] > 0)
    groups = seen.groupby([*LAUNCH, "device", "quantity"], observed=True, sort=False)["on"].mean()
    table = _worst(groups.reset_index(), "on").astype({"arm": object})
    return findings(
        table,
        table["on"],
        table["on"] == 0,
        holds="no throttling was reported",
        fails=lambda row: (
            f"{row.device} reported {row.quantity} in {row.on:.0%} of the samples: speeds are those of a throttled "
            "device; cool it, or lower and fix its clocks"
        ),
    )


def machine_quiet(measured: Measured) -> pd.DataFrame:
    """Nobody else was busy on the host."""
    telemetry = measured.telemetry
    rows = telemetry[telemetry["quantity"] == OTHERS]
    if rows.empty:
        return undecided(measured.arms, "other processes cannot be seen on this machine")
    busy = rows.assign(busy=rows["value"] > 0).groupby(LAUNCH, observed=True, sort=False)["busy"]
    table = busy.mean().reset_index().astype({"arm": object})
    named = telemetry[telemetry["quantity"].str.startswith(NAMED)]
    most = named.groupby([*LAUNCH, "quantity"], observed=True, sort=False)["value"].max().reset_index()
    most["words"] = [
        f"{quantity.removeprefix(NAMED)} ({value:.0f} %)"
        for quantity, value in zip(most["quantity"], most["value"], strict=True)
    ]
    most = most.sort_values("value", ascending=False, kind="stable")
    names = most.groupby(LAUNCH, observed=True, sort=False)["words"].agg(lambda w: ", ".join(w[:3]))
    table = table.merge(names.reset_index().astype({"arm": object}), on=LAUNCH, how="left")
    return findings(
        table,
        table["busy"],
        table["busy"] <= BUSY_SHARE,
        holds="nobody else was busy",
        fails=lambda row: (
            f"other processes were busy in {row.busy:.0%} of the samples: {_said(row.words)} of a core; end them or "
            "pin them to cores of their own"
        ),
    )


def _said(words: Any) -> str:
    return words if isinstance(words, str) else "unnamed"


CHECKS = (
    Check("not_throttled", "warn", "no throttling", not_throttled),
    Check("clocks_equal", "warn", f"{CLOCK_SHARE:.0%} of the baseline's", clocks_equal),
    Check("temperature_equal", "warn", f"{TEMPERATURE_C:g} degrees", temperature_equal),
    Check("power_cap_equal", "block", "the baseline's", power_cap_equal),
    Check("machine_quiet", "warn", f"at most {BUSY_SHARE:.0%} of the samples", machine_quiet),
)
