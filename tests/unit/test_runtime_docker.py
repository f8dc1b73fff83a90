"""Docker options as the engine gets them, and which engines are taken at all; no engine is asked."""

from pathlib import Path

import pytest

from breakeven.errors import BreakevenError, ConfigError
from breakeven.runtime import docker
from breakeven.runtime.docker_options import BindMount, bind_mounts, container_port, create_arguments


def arguments(**options):
    return create_arguments(
        {"image": "local/vllm:1", **options},
        argv=["--model", "/m"],
        base=Path("/repo"),
        port=18080,
        name="breakeven-exp-base",
        environment={"A": "1"},
        labels={"breakeven.arm": "base"},
    )


def test_the_bench_box_line_of_docker_run():
    """--device=/dev/kfd --device=/dev/dri --group-add 44 --group-add 991 --ipc=private --shm-size=32g"""
    asked = arguments(devices=["/dev/kfd", "/dev/dri"], groups=[44, 991], ipc="private", shm_size="32g")
    assert asked["devices"] == ["/dev/kfd", "/dev/dri"]
    assert asked["group_add"] == ["44", "991"]
    assert (asked["ipc_mode"], asked["shm_size"]) == ("private", "32g")


def test_without_options_the_engine_decides():
    assert set(arguments()) == {
        *("image", "command", "name", "detach", "environment", "labels", "ports", "init", "log_config")
    }


def test_the_port_is_published_on_the_loopback_alone():
    assert arguments()["ports"] == {"18080/tcp": ("127.0.0.1", 18080)}
    assert arguments(port=8000)["ports"] == {"8000/tcp": ("127.0.0.1", 18080)}
    assert container_port({"port": 8000}, 18080) == 8000


@pytest.mark.parametrize(
    ("gpus", "request_"),
    [
        ("all", {"Count": -1, "DeviceIDs": []}),
        (2, {"Count": 2, "DeviceIDs": []}),
        ([0, "GPU-1f"], {"Count": 0, "DeviceIDs": ["0", "GPU-1f"]}),
    ],
)
def test_nvidia_gpus_by_all_number_or_id(gpus, request_):
    (asked,) = arguments(gpus=gpus)["device_requests"]
    assert {key: asked[key] for key in request_} == request_
    assert asked["Capabilities"] == [["gpu"]]


def test_ulimits_as_docker_run_has_them():
    limits = arguments(ulimits={"memlock": -1, "nofile": "1024:2048"})["ulimits"]
    assert [(limit.name, limit.soft, limit.hard) for limit in limits] == [
        ("memlock", -1, -1),
        ("nofile", 1024, 2048),
    ]


def test_mounts_in_parts():
    assert bind_mounts({"mounts": ["/a:/b", "models:/d:ro"]}, Path("/repo")) == (
        BindMount("/a", "/b", "rw"),
        BindMount("/repo/models", "/d", "ro"),
    )
    assert [mount["ReadOnly"] for mount in arguments(mounts=["/a:/b", "/c:/d:ro"])["mounts"]] == [False, True]


def test_our_labels_cannot_be_overwritten():
    asked = arguments(labels={"team": "x", "breakeven.arm": "faked"})
    assert asked["labels"] == {"team": "x", "breakeven.arm": "base"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shm": "1g"}, "does not know shm; it knows .*shm_size"),
        ({"image": ""}, "needs `image`"),
        ({"network": "host"}, "network: host"),
        ({"gpus": "0"}, "gpus: '0'"),
        ({"gpus": True}, "gpus: True"),
        ({"ulimits": {"nofile": "many"}}, "ulimit nofile: 'many'"),
        ({"mounts": ["/models:models"]}, "'/models:models' is not"),
        ({"mounts": ["/a:/b:z"]}, "'/a:/b:z' is not"),
        ({"mounts": ["/a"]}, "'/a' is not"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(options, message):
    with pytest.raises(ConfigError, match=message):
        arguments(**options)


@pytest.mark.parametrize(
    "address", [None, "", "unix:///var/run/docker.sock", "tcp://127.0.0.1:2375", "tcp://localhost:2376"]
)
def test_an_engine_of_this_host_is_taken(address):
    docker.check_local(address)


@pytest.mark.parametrize("address", ["ssh://bench@mi210", "tcp://10.0.0.5:2375", "tcp://bench.example:2376"])
def test_an_engine_of_another_host_is_refused(address):
    with pytest.raises(ConfigError, match=f"DOCKER_HOST is {address}: .*publish their port on that machine"):
        docker.check_local(address)


def test_an_engine_that_does_not_answer_is_an_error_that_says_what_to_do(tmp_path):
    with pytest.raises(
        BreakevenError, match=rf"no Docker engine answers at unix://{tmp_path}/none.*Start it"
    ):
        docker.connect(f"unix://{tmp_path}/none")


def test_without_an_engine_there_is_nothing_to_reap(tmp_path):
    assert docker.reap("gpu0", timeout_s=1, docker_host=f"unix://{tmp_path}/none") == []


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"ExitCode": 1, "OOMKilled": False, "Error": ""}, "exited with code 1"),
        ({"ExitCode": 139, "OOMKilled": False, "Error": ""}, "exited with code 139 (signal 11)"),
        (
            {"ExitCode": 137, "OOMKilled": True, "Error": ""},
            "exited with code 137; it ran into its memory limit (OOMKilled)",
        ),
        ({"ExitCode": 127, "Error": "exec: no such file"}, "exited with code 127; exec: no such file"),
    ],
)
def test_the_end_of_a_container_in_words(state, words):
    assert docker.exit_in_words(state) == words
