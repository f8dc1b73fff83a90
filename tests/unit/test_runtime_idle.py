"""The idle gate: its decision, and what its readers see. GPUs here are simulated: files and objects of their format."""

import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from breakeven.runtime import tenants
from breakeven.runtime.idle import IDLE_VRAM_BYTES, Limits, Reading, Tenant, obstacles, wait_until_idle
from breakeven.runtime.owner import DeviceBusyError

GPU = "0000:03:00.0"
VLLM = Tenant(71, "python3", container="mi50-llm", memory_bytes=21 * 10**9)
ALLOW = Limits(allow=frozenset({"mi50-llm"}))


def gpu(*on_it, busy=0.0, used=None):
    used = sum(tenant.memory_bytes or 0 for tenant in on_it) if used is None else used
    return Reading(GPU, on_it, busy_share=busy, vram_used_bytes=used)


def test_an_empty_gpu_is_idle():
    assert obstacles(gpu(), Limits()) == ()


def test_another_tenant_is_named_with_what_it_holds():
    assert obstacles(gpu(VLLM), Limits()) == (f"python3 (pid 71, container mi50-llm) holds 21.0 GB of {GPU}",)


def test_a_declared_co_tenant_may_stay_while_idle():
    assert obstacles(gpu(VLLM), ALLOW) == ()


def test_a_declared_co_tenant_that_works_may_not():
    (sentence,) = obstacles(gpu(VLLM, busy=0.37), ALLOW)
    assert sentence.endswith("while idle, but is busy (37%)")


def test_a_co_tenant_that_cannot_be_seen_idle_may_not():
    (sentence,) = obstacles(gpu(VLLM, busy=None), ALLOW)
    assert "cannot be read" in sentence


def test_memory_that_is_not_back_yet_is_an_obstacle():
    (sentence,) = obstacles(gpu(used=12 * 10**9), Limits())
    assert sentence.startswith(f"12.0 GB of {GPU} are in use by no process that can be seen")
    assert obstacles(gpu(used=IDLE_VRAM_BYTES), Limits()) == ()


def test_memory_beyond_what_a_co_tenant_holds_is_an_obstacle():
    (sentence,) = obstacles(gpu(VLLM, used=30 * 10**9), ALLOW)
    assert sentence.startswith("9.0 GB")


def test_work_of_nobody_that_can_be_seen_is_an_obstacle():
    (sentence,) = obstacles(gpu(busy=0.9), Limits())
    assert "90% busy with work of a process that cannot be seen" in sentence


def test_what_is_unknown_is_no_obstacle_by_itself():
    assert obstacles(Reading(GPU), Limits()) == ()


def test_a_cpu_box_names_who_is_busy():
    reading = Reading("cpu", (Tenant(9, "cc1plus", busy_share=0.5),), busy_share=0.6)
    (sentence,) = obstacles(reading, Limits(cpu_share=0.25))
    assert "use 60% of all cores, 25% are allowed: cc1plus (pid 9) 50%" in sentence
    assert obstacles(reading, Limits(cpu_share=0.7)) == ()
    assert obstacles(reading, Limits()) == ()


def test_it_waits_until_the_memory_is_back():
    readings = iter([[gpu(used=12 * 10**9)], [gpu(used=0)]])
    wait_until_idle(lambda: next(readings), Limits(), timeout_s=5)
    assert next(readings, None) is None


def test_it_gives_up_naming_the_holder():
    with pytest.raises(DeviceBusyError, match=r"not idle after 0 s: python3 .*mi50-llm.* holds 21\.0 GB"):
        wait_until_idle(lambda: [gpu(VLLM)], Limits(), timeout_s=0)


def test_what_is_missing_is_said_once(caplog):
    gap = "no tool"
    readings = iter([[Reading(GPU, busy_share=0.9, missing=(gap,))], [Reading(GPU, missing=(gap,))]])
    wait_until_idle(lambda: next(readings), Limits(), timeout_s=5)
    assert [record.getMessage() for record in caplog.records].count(f"idle gate: {gap}") == 1


def test_a_process_that_works_is_seen_on_the_cpu():
    """A real one: started by a shell that ends, so that it is no child of this process."""
    spin = "import time; t = time.monotonic()\nwhile time.monotonic() - t < 5: pass"
    command = f"{sys.executable} -c '{spin}' >/dev/null 2>&1 & echo $!"
    pid = int(subprocess.run(command, shell=True, capture_output=True, text=True, check=True).stdout)
    try:
        time.sleep(0.2)
        reading = tenants.read_cpu()
    finally:
        subprocess.run(["kill", str(pid)], check=True)
    assert pid in [tenant.pid for tenant in reading.tenants]
    assert reading.busy_share > 0.1


def test_this_process_and_its_children_are_not_others():
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as child:
        reading = tenants.read_cpu()
        child.kill()
    assert child.pid not in [tenant.pid for tenant in reading.tenants]


@pytest.fixture
def amd_root(tmp_path):
    """A simulated host with two AMD GPUs: pid 71 has memory through KFD, pid 72 through DRM, both on the first."""
    container = "ab" * 32
    files = {
        f"sys/bus/pci/devices/{GPU}/mem_info_vram_used": "30000000000\n",
        f"sys/bus/pci/devices/{GPU}/gpu_busy_percent": "12\n",
        "sys/bus/pci/devices/0000:83:00.0/mem_info_vram_used": "10000000\n",
        "sys/class/kfd/kfd/topology/nodes/0/properties": "cpu_cores_count 8\nlocation_id 0\ndomain 0\n",
        "sys/class/kfd/kfd/topology/nodes/0/gpu_id": "0\n",
        "sys/class/kfd/kfd/topology/nodes/1/properties": "simd_count 416\nlocation_id 768\ndomain 0\n",
        "sys/class/kfd/kfd/topology/nodes/1/gpu_id": "52211\n",
        "sys/class/kfd/kfd/topology/nodes/2/properties": "simd_count 416\nlocation_id 33536\ndomain 0\n",
        "sys/class/kfd/kfd/topology/nodes/2/gpu_id": "9310\n",
        "sys/class/kfd/kfd/proc/71/vram_52211": "21000000000\n",
        "sys/class/kfd/kfd/proc/71/vram_9310": "0\n",
        "proc/71/comm": "python3\n",
        "proc/71/cgroup": f"0::/system.slice/docker-{container}.scope\n",
        "proc/72/comm": "llama-server\n",
        "proc/72/cgroup": "0::/user.slice\n",
        "proc/72/fdinfo/5": _fdinfo(client=3, vram_kib=2**20),
        "proc/72/fdinfo/6": _fdinfo(client=3, vram_kib=2**20),
        "proc/72/fdinfo/7": "pos:\t0\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "proc/72/fd").mkdir()
    for fd, target in (("5", "/dev/dri/renderD128"), ("6", "/dev/dri/renderD128"), ("7", "/dev/null")):
        (tmp_path / "proc/72/fd" / fd).symlink_to(target)
    return tmp_path


def _fdinfo(client, vram_kib):
    return (
        f"pos:\t0\ndrm-driver:\tamdgpu\ndrm-client-id:\t{client}\ndrm-pdev:\t{GPU}\n"
        f"drm-memory-vram:\t{vram_kib} KiB\ndrm-engine-gfx:\t1000 ns\n"
    )


def test_simulated_amd_gpu_tells_who_holds_what(amd_root):
    (reading,) = tenants.read("03:00.0", lambda: {"ab" * 32: "mi50-llm"}, amd_root)
    assert reading.tenants == (
        Tenant(71, "python3", "mi50-llm", 21 * 10**9),
        Tenant(72, "llama-server", None, 2**30),
    )
    assert (reading.busy_share, reading.vram_used_bytes, reading.missing) == (0.12, 30 * 10**9, ())


def test_simulated_amd_gpu_beside_it_is_free(amd_root):
    (reading,) = tenants.read("0000:83:00.0", dict, amd_root)
    assert (reading.tenants, reading.busy_share) == ((), None)
    assert reading.missing == ("0000:83:00.0: gpu_busy_percent cannot be read from sysfs",)


def test_a_device_name_stands_for_all_gpus(amd_root):
    assert [reading.device for reading in tenants.read("mi210", dict, amd_root)] == [GPU, "0000:83:00.0"]


def test_without_a_gpu_the_gap_is_said_and_nothing_assumed(tmp_path):
    (reading,) = tenants.read("mi210", dict, tmp_path)
    assert (reading.tenants, reading.busy_share, reading.vram_used_bytes) == ((), None, None)
    assert "not checked" in reading.missing[0]


class SimulatedNvml:
    """Answers as nvidia-ml-py does on a host with one GPU; utilization is not supported there."""

    class NVMLError(Exception):
        pass

    def nvmlDeviceGetCount(self):  # noqa: N802
        return 1

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        return index

    def nvmlDeviceGetPciInfo(self, handle):  # noqa: N802
        return SimpleNamespace(busId=b"00000000:03:00.0")

    def nvmlDeviceGetComputeRunningProcesses(self, handle):  # noqa: N802
        return [SimpleNamespace(pid=71, usedGpuMemory=None)]

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle):  # noqa: N802
        return []

    def nvmlDeviceGetMemoryInfo(self, handle):  # noqa: N802
        return SimpleNamespace(used=5 * 10**9)

    def nvmlDeviceGetUtilizationRates(self, handle):  # noqa: N802
        raise self.NVMLError("Not Supported")


def test_simulated_nvidia_gpu_tells_what_it_knows(tmp_path):
    nvml = SimulatedNvml()
    ((handle, address),) = tenants.nvidia_addresses(nvml)
    reading = tenants.read_nvidia(nvml, handle, address, dict, tmp_path)
    assert address == GPU
    assert [(tenant.pid, tenant.memory_bytes) for tenant in reading.tenants] == [(71, None)]
    assert (reading.busy_share, reading.vram_used_bytes) == (None, 5 * 10**9)
    assert reading.missing == (f"{GPU}: NVML does not tell utilization (Not Supported)",)
