"""Telemetry reads what is there and says what is not.

No GPU is assumed: the sysfs tree below stands for a device that does not exist here, written from the kernel's
description of the files; the NVML stand-in has the library's names and units.
"""

import os
import struct
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from breakeven import tables
from breakeven.errors import ConfigError
from breakeven.measure.cooldown import cool_down, decide
from breakeven.measure.host import cpu_model, host_facts
from breakeven.measure.sensors import amdgpu
from breakeven.measure.sensors.cpu import HostLoad, OtherProcesses, ProcessTime, outside
from breakeven.measure.sensors.find import accelerators
from breakeven.measure.sensors.nvidia import NvidiaGpu
from breakeven.measure.telemetry import Telemetry
from breakeven.pci import pci_address

PCI = "0000:8a:00.0"
KEYS = {"experiment": "e", "arm": "base", "round": 1, "slot": 0}


def metrics_v1_3(independent: int, dependent: int = 0) -> bytes:
    """A gpu_metrics file of format 1.3: 120 bytes, the throttle fields at 68 and 112, everything else unset."""
    data = bytearray(b"\xff" * 120)
    struct.pack_into("<HBB", data, 0, 120, 1, 3)
    struct.pack_into("<I", data, 68, dependent)
    struct.pack_into("<Q", data, 112, independent)
    return bytes(data)


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    home = tmp_path / "sys/bus/pci/devices" / PCI
    hwmon = home / "hwmon/hwmon3"
    hwmon.mkdir(parents=True)
    for name, text in {
        "vendor": "0x1002",
        "device": "0x740f",
        "class": "0x038000",
        "vbios_version": "113-NOWHERE-000",
        "mem_info_vram_used": "21474836480",
        "mem_info_vram_total": "68702699520",
        "gpu_busy_percent": "99",
        "pp_dpm_sclk": "0: 500Mhz\n1: 1650Mhz *\n2: 1700Mhz",
    }.items():
        (home / name).write_text(text + "\n")
    (home / "gpu_metrics").write_bytes(metrics_v1_3(1 << 36))
    for name, text in {
        "freq1_label": "sclk",
        "freq1_input": "1650000000",
        "freq2_label": "mclk",
        "freq2_input": "1600000000",
        "temp1_label": "edge",
        "temp1_input": "41000",
        "temp2_label": "junction",
        "temp2_input": "52500",
        "temp3_label": "mem",
        "temp3_input": "47000",
        "power1_average": "187000000",
        "power1_cap": "250000000",
        "power1_cap_max": "300000000",
    }.items():
        (hwmon / name).write_text(text + "\n")
    return tmp_path / "sys"


def test_amd_gpu_readings_have_the_units_their_names_say(sysfs: Path) -> None:
    readings = amdgpu.AmdGpu(PCI, sysfs).read()
    assert readings == pytest.approx(
        {
            "gpu_clock_mhz": 1650,
            "memory_clock_mhz": 1600,
            "temperature_edge_c": 41,
            "temperature_junction_c": 52.5,
            "temperature_memory_c": 47,
            "power_w": 187,
            "power_cap_w": 250,
            "power_cap_max_w": 300,
            "vram_used_bytes": 20 * 2**30,
            "vram_total_bytes": 68702699520,
            "gpu_busy_percent": 99,
            "throttle_power": 0,
            "throttle_current": 0,
            "throttle_temperature": 1,
            "throttle_other": 0,
            "throttle_any": 1,
        }
    )


def test_a_file_that_is_gone_or_unreadable_is_absent_and_never_zero(sysfs: Path) -> None:
    home = sysfs / "bus/pci/devices" / PCI
    gpu = amdgpu.AmdGpu(PCI, sysfs)
    (home / "hwmon/hwmon3/power1_cap").write_text("")
    (home / "hwmon/hwmon3/temp2_input").unlink()
    (home / "gpu_metrics").unlink()
    readings = gpu.read()
    for quantity in ("power_cap_w", "temperature_junction_c", "throttle_any"):
        assert quantity not in readings


def test_the_clock_comes_from_the_active_level_where_hwmon_has_none(sysfs: Path) -> None:
    for name in ("freq1_label", "freq1_input"):
        (sysfs / "bus/pci/devices" / PCI / "hwmon/hwmon3" / name).unlink()
    assert amdgpu.AmdGpu(PCI, sysfs).read()["gpu_clock_mhz"] == 1650


def test_power_input_serves_where_there_is_no_average(sysfs: Path) -> None:
    hwmon = sysfs / "bus/pci/devices" / PCI / "hwmon/hwmon3"
    (hwmon / "power1_average").rename(hwmon / "power1_input")
    assert amdgpu.AmdGpu(PCI, sysfs).read()["power_w"] == pytest.approx(187)


@pytest.mark.parametrize(
    ("bit", "kind"),
    [(0, "power"), (7, "power"), (16, "current"), (32, "temperature"), (47, "temperature"), (56, "other")],
)
def test_throttle_bits_mean_what_the_kernel_says(bit: int, kind: str) -> None:
    found = amdgpu.throttling(metrics_v1_3(1 << bit))
    assert {name for name, value in found.items() if value} == {f"throttle_{kind}", "throttle_any"}


def test_throttling_is_absent_where_the_format_does_not_report_it() -> None:
    assert amdgpu.throttling(b"") == {}
    assert amdgpu.throttling(metrics_v1_3(0)[:-1]) == {}
    assert amdgpu.throttling(metrics_v1_3(2**64 - 1, 2**32 - 1)) == {}
    newer = struct.pack("<HBB", 200, 1, 4) + bytes(196)
    assert amdgpu.throttling(newer) == {}
    assert amdgpu.throttling(metrics_v1_3(2**64 - 1, 5)) == {"throttle_any": 1.0}


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("03:00.0", "0000:03:00.0"),
        ("00000000:8A:00.0", "0000:8a:00.0"),
        ("0001:8a:00.1", "0001:8a:00.1"),
        ("gpu0", None),
        ("cpu", None),
    ],
)
def test_pci_addresses_are_written_as_sysfs_does(text: str, address: str | None) -> None:
    assert pci_address(text) == address


def test_only_accelerators_of_known_vendors_count(sysfs: Path) -> None:
    for address, vendor, kind in (
        ("0000:00:02.0", "0x1a03", "0x030000"),
        ("0000:8a:00.1", "0x1002", "0x040300"),
    ):
        home = sysfs / "bus/pci/devices" / address
        home.mkdir()
        (home / "vendor").write_text(vendor + "\n")
        (home / "class").write_text(kind + "\n")
    assert accelerators(sysfs) == {PCI: "0x1002"}


def test_rows_fit_the_table_and_cover_host_and_gpu(sysfs: Path, tmp_path: Path) -> None:
    with Telemetry(["8a:00.0"], period_s=0.05, root=sysfs) as telemetry:
        time.sleep(0.4)
    rows = telemetry.rows(KEYS)
    tables.write(rows, tmp_path / "telemetry.parquet", tables.TELEMETRY)
    table = tables.read(tmp_path / "telemetry.parquet", tables.TELEMETRY)
    assert set(table["source"]) == {"sysfs", "psutil"}
    assert set(table["device"]) == {PCI, "cpu"}
    watts = table[(table["device"] == PCI) & (table["quantity"] == "power_w")]
    assert len(watts) >= 4
    assert (watts["value"] == 187).all()
    assert not any(PCI in sentence for sentence in telemetry.missing)


def test_what_is_missing_is_said_once(sysfs: Path) -> None:
    (sysfs / "bus/pci/devices" / PCI / "hwmon/hwmon3/power1_cap_max").unlink()
    with Telemetry([PCI], period_s=0.02, root=sysfs) as telemetry:
        time.sleep(0.2)
    assert telemetry.missing.count(f"{PCI}: sysfs does not tell power_cap_max_w") == 1


def test_a_gpu_that_is_not_there_is_named_with_every_tool_that_was_tried(tmp_path: Path) -> None:
    with Telemetry(["0000:ff:1f.7"], root=tmp_path) as telemetry:
        pass
    (sentence,) = [sentence for sentence in telemetry.missing if "0000:ff:1f.7" in sentence]
    assert "amdgpu" in sentence
    assert "amdsmi" in sentence
    assert "nvidia-ml-py" in sentence


def test_a_device_name_that_is_no_address_stands_for_all_gpus(sysfs: Path) -> None:
    with Telemetry(["big-card"], root=sysfs) as telemetry:
        pass
    assert {row["device"] for row in telemetry.rows(KEYS)} == {PCI, "cpu"}
    assert any("'big-card' is no PCI address" in sentence for sentence in telemetry.missing)


def test_a_sensor_that_breaks_ends_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: HostLoad) -> dict[str, float]:
        raise RuntimeError("no such counter")

    monkeypatch.setattr(HostLoad, "read", broken)
    with Telemetry(["cpu"], period_s=0.02) as telemetry:
        time.sleep(0.1)
    assert telemetry.missing.count("cpu: psutil failed with RuntimeError: no such counter") == 1
    assert telemetry.rows(KEYS)


def test_sampling_twice_a_second_costs_under_one_percent_of_a_core() -> None:
    began = time.monotonic()
    with Telemetry(["cpu"], period_s=0.5) as telemetry:
        time.sleep(6)
    assert telemetry.cost_s / (time.monotonic() - began) < 0.01


def test_the_busy_share_follows_a_busy_core() -> None:
    load = HostLoad()
    until = time.monotonic() + 0.4
    while time.monotonic() < until:
        pass
    assert load.read()["cpu_busy_percent"] > 0.5 * 100 / (psutil.cpu_count() or 1)


def test_the_busy_share_is_absent_before_time_has_passed() -> None:
    assert "cpu_busy_percent" not in HostLoad().read()


def test_a_busy_process_of_somebody_else_is_counted_and_named() -> None:
    """The process detaches into a session of its own whose parent has ended, as a stranger's would."""
    spin = "import time; end = time.monotonic() + 3\nwhile time.monotonic() < end: pass"
    leave = (
        "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', sys.argv[1]], "
        "start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid)"
    )
    started = subprocess.run([sys.executable, "-c", leave, spin], capture_output=True, text=True, check=True)
    pid = int(started.stdout)
    try:
        processes = OtherProcesses()
        time.sleep(1)
        readings = processes.read()
    finally:
        name = psutil.Process(pid).name()
        psutil.Process(pid).kill()
    assert readings["other_busy_processes"] >= 1
    assert readings[f"busy_process_percent:{name}"] > 10


def test_own_tree_is_not_somebody_else() -> None:
    tree = [
        ProcessTime(1, 0, "init", 0),
        ProcessTime(10, 1, "shell", 0),
        ProcessTime(20, 10, "breakeven", 0),
        ProcessTime(21, 20, "llama-server", 0),
        ProcessTime(22, 21, "worker", 0),
        ProcessTime(30, 10, "browser", 0),
        ProcessTime(40, 1, "containerd-shim", 0),
        ProcessTime(41, 40, "vllm", 0),
        ProcessTime(42, 41, "engine-core", 0),
    ]
    assert {process.pid for process in outside(tree, {20})} == {30, 40, 41, 42}
    assert {process.pid for process in outside(tree, {20, 41})} == {30}


class NvmlError(Exception):
    pass


def refuse(*_: object) -> None:
    raise NvmlError("not supported")


def nvml(**changes: object) -> SimpleNamespace:
    """NVML's names with values in its units: MHz, degrees, milliwatts, bytes."""
    functions: dict[str, object] = {
        "nvmlDeviceGetClockInfo": lambda gpu, kind: {1: 1980, 2: 2619}[kind],
        "nvmlDeviceGetTemperature": lambda gpu, sensor: 61,
        "nvmlDeviceGetPowerUsage": lambda gpu: 412_500,
        "nvmlDeviceGetEnforcedPowerLimit": lambda gpu: 450_000,
        "nvmlDeviceGetPowerManagementLimitConstraints": lambda gpu: [200_000, 700_000],
        "nvmlDeviceGetUtilizationRates": lambda gpu: SimpleNamespace(gpu=97, memory=60),
        "nvmlDeviceGetMemoryInfo": lambda gpu: SimpleNamespace(used=5 * 2**30, total=80 * 2**30, free=0),
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda gpu: 0x4,
    }
    pynvml = pytest.importorskip("pynvml")
    constants = {
        name: getattr(pynvml, name) for name in dir(pynvml) if name.startswith(("NVML_", "nvmlClocks"))
    }
    return SimpleNamespace(NVMLError=NvmlError, **constants, **(functions | changes))


def test_nvidia_readings_have_the_units_their_names_say() -> None:
    readings = NvidiaGpu(nvml(), None, PCI).read()
    assert readings["gpu_clock_mhz"] == 1980
    assert readings["memory_clock_mhz"] == 2619
    assert readings["power_w"] == pytest.approx(412.5)
    assert readings["power_cap_w"] == pytest.approx(450)
    assert readings["power_cap_max_w"] == pytest.approx(700)
    assert readings["throttle_power"] == 1
    assert readings["throttle_temperature"] == 0
    assert set(readings) == NvidiaGpu.expected


def test_what_an_nvidia_card_does_not_support_is_absent() -> None:
    readings = NvidiaGpu(nvml(nvmlDeviceGetPowerUsage=refuse), None, PCI).read()
    assert "power_w" not in readings
    assert readings["gpu_busy_percent"] == 97


def test_host_facts_name_the_machine_without_naming_it(sysfs: Path) -> None:
    facts = host_facts(root=sysfs.parent)
    assert facts["host"].startswith("host-")
    assert facts["host"] == host_facts()["host"]
    assert os.uname().nodename not in facts["host"]
    assert facts["boot_id"] is None
    (gpu,) = facts["gpus"]
    assert gpu["pci"] == PCI
    assert gpu["vbios"] == "113-NOWHERE-000"
    assert gpu["pci_id"] == "0x1002:0x740f"
    assert gpu["name"] is None
    assert gpu["power_cap_w"] == pytest.approx(250)
    assert gpu["gpu_clock_mhz"] == 1650


def test_a_name_given_for_the_host_is_used() -> None:
    assert host_facts("bench-2")["host"] == "bench-2"


def test_cpu_model_is_the_first_one_or_unknown() -> None:
    assert cpu_model("processor\t: 0\nmodel name\t: Some CPU @ 2.0GHz\n") == "Some CPU @ 2.0GHz"
    assert cpu_model("processor\t: 0\nBogoMIPS\t: 50.00\n") is None


def test_cooldown_decides_on_the_hottest_sensor() -> None:
    warm = {"edge": 44.0, "junction": 51.0}
    assert decide(warm, 50, waited_s=3, timeout_s=60) == "wait"
    assert decide(warm, 50, waited_s=60, timeout_s=60) == "give_up"
    assert decide(warm, 52, waited_s=0, timeout_s=60) == "go"
    assert decide({}, 50, waited_s=0, timeout_s=60) == "blind"


def test_cooldown_waits_until_the_device_has_cooled(sysfs: Path) -> None:
    junction = sysfs / "bus/pci/devices" / PCI / "hwmon/hwmon3/temp2_input"
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        junction.write_text(f"{52500 - 2000 * len(naps)}\n")

    result = cool_down(PCI, below_c=50, timeout_s=60, root=sysfs, sleep=sleep)
    assert result.reached
    assert len(naps) == 2
    assert result.temperature_c == pytest.approx(48.5)


def test_cooldown_gives_up_at_the_timeout_and_says_how_warm_it_was(sysfs: Path) -> None:
    result = cool_down(PCI, below_c=30, timeout_s=0, root=sysfs)
    assert not result.reached
    assert result.temperature_c == pytest.approx(52.5)


def test_a_gate_that_cannot_see_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no temperature of 0000:8a:00\.0 can be read"):
        cool_down(PCI, below_c=50, timeout_s=1, root=tmp_path)
