"""A server as a container: what it is, how it ends, and that nothing of it stays. Against a real engine."""

import json
import socket
import time
from dataclasses import asdict, replace

import pytest
from docker_waiting import answers, wait_for

from breakeven.errors import ConfigError, LaunchError
from breakeven.runtime.docker import DockerRuntime
from breakeven.runtime.log import last_lines
from breakeven.runtime.owner import Owner

pytestmark = pytest.mark.docker


def with_options(spec, **options):
    return replace(spec, options={**spec.options, **options})


def python(spec, code):
    return replace(spec, argv=["-c", code])


def test_a_server_lives_as_long_as_its_context(spec, containers):
    with DockerRuntime().launch(spec) as server:
        wait_for(lambda: answers(spec))
        assert server.alive() and server.exit_reason() is None
        (container,) = containers(spec.device)
        assert container.id == server.identity.container
        assert server.base_url == f"http://127.0.0.1:{spec.port}"
    assert not server.alive()
    assert containers(spec.device) == []
    assert "serving" in spec.log.read_text() and "this is stderr" in spec.log.read_text()


def test_the_port_is_published_on_this_host_alone(spec, containers):
    with DockerRuntime().launch(spec):
        (container,) = containers(spec.device)
        (binding,) = container.attrs["HostConfig"]["PortBindings"][f"{spec.port}/tcp"]
        assert binding == {"HostIp": "127.0.0.1", "HostPort": str(spec.port)}


def test_the_port_inside_may_be_another_one(spec):
    inside = replace(with_options(spec, port=8080), argv=[*spec.argv[:-1], "8080"])
    with DockerRuntime().launch(inside):
        wait_for(lambda: answers(spec))


def test_identity_says_what_really_ran(spec, engine, python_image):
    with DockerRuntime().launch(spec) as server:
        identity = server.identity
    image = engine.images.get(python_image)
    assert (identity.runtime, identity.program, identity.digest) == ("docker", python_image, image.id)
    assert identity.argv == (*image.attrs["Config"]["Entrypoint"], *spec.argv)
    assert identity.env == spec.env
    (mount,) = identity.mounts
    assert (mount["target"], mount["mode"]) == ("/tests", "ro")
    assert identity.pid


def test_labels_name_the_owner(spec, containers):
    with DockerRuntime().launch(spec):
        (container,) = containers(spec.device)
        owner = Owner.from_labels(container.labels)
    me = Owner.here(spec.device, "exp", "base")
    assert owner == replace(me, launch=owner.launch)


def test_a_secret_reaches_the_server_and_nothing_else(spec, containers, monkeypatch):
    monkeypatch.setenv("SECRET", "hunter2-hunter2")
    with DockerRuntime().launch(replace(spec, env_from=["SECRET"])) as server:
        wait_for(lambda: "serving" in spec.log.read_text())
        (container,) = containers(spec.device)
        seen = json.dumps(asdict(server.identity)) + json.dumps(container.labels) + spec.log.read_text()
    assert "serving 15" in spec.log.read_text()
    assert "hunter2" not in seen


def test_a_secret_is_not_in_the_error_of_an_engine_that_quotes_it(spec, monkeypatch):
    monkeypatch.setenv("SECRET", "hunter2-hunter2")
    quoting = with_options(replace(spec, env_from=["SECRET"]), entrypoint=["/hunter2-hunter2"], init=False)
    with pytest.raises(LaunchError, match="<SECRET>") as caught, DockerRuntime().launch(quoting):
        pass
    assert "hunter2" not in str(caught.value) and caught.value.__suppress_context__


def test_what_a_bench_box_needs_reaches_the_engine(spec, containers):
    options = {
        "groups": [44, 991],
        "ipc": "private",
        "shm_size": "1g",
        "security_opt": ["seccomp=unconfined"],
        "ulimits": {"memlock": 65536, "nofile": "1024:2048"},
        "devices": ["/dev/null:/dev/kfd"],
        "cap_drop": ["ALL"],
        "cap_add": ["SYS_NICE"],
        "read_only": True,
        "tmpfs": {"/scratch": "size=1m"},
        "memory": "512m",
        "user": "65534:65534",
        "labels": {"team": "bench"},
    }
    with DockerRuntime().launch(with_options(spec, **options)):
        wait_for(lambda: answers(spec))
        (container,) = containers(spec.device)
        container.reload()
        host = container.attrs["HostConfig"]
    assert host["GroupAdd"] == ["44", "991"]
    assert (host["IpcMode"], host["ShmSize"], host["Memory"]) == ("private", 2**30, 2**29)
    assert host["SecurityOpt"] == ["seccomp=unconfined"]
    assert {(u["Name"], u["Soft"], u["Hard"]) for u in host["Ulimits"]} == {
        ("memlock", 65536, 65536),
        ("nofile", 1024, 2048),
    }
    assert host["Devices"][0]["PathInContainer"] == "/dev/kfd"
    assert (host["CapDrop"], host["CapAdd"]) == (["ALL"], ["SYS_NICE"])
    assert host["ReadonlyRootfs"] and host["Tmpfs"] == {"/scratch": "size=1m"}
    assert container.attrs["Config"]["User"] == "65534:65534"
    assert container.labels["team"] == "bench"


def test_a_missing_image_says_how_to_get_it(spec):
    missing = with_options(spec, image="breakeven-test/none:1")
    with (
        pytest.raises(
            ConfigError, match=r"breakeven-test/none:1 is not on this host\. Get it with `docker pull"
        ),
        DockerRuntime().launch(missing),
    ):
        pass


def test_an_image_is_pulled_only_when_asked_to(spec):
    """The registry does not exist: that it is asked for at all is what can be seen."""
    missing = with_options(spec, image="127.0.0.1:9/none:1", pull=True)
    with pytest.raises(ConfigError, match="could not be pulled"), DockerRuntime().launch(missing):
        pass


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mounts": ["/no/such/folder:/models"]}, "mount source /no/such/folder does not exist"),
        ({"devices": ["/dev/no-such-gpu"]}, "device /dev/no-such-gpu does not exist"),
    ],
)
def test_what_is_not_on_the_host_is_named_before_anything_is_created(spec, options, message):
    with pytest.raises(ConfigError, match=message), DockerRuntime().launch(with_options(spec, **options)):
        pass


def test_a_port_that_is_taken_leaves_no_created_container(spec):
    with (
        socket.create_server((spec.host, spec.port)),
        pytest.raises(LaunchError, match="address already in use"),
        DockerRuntime().launch(spec),
    ):
        pass


def test_a_gpu_that_the_engine_cannot_give_leaves_no_created_container(spec):
    with (
        pytest.raises(LaunchError, match="could not select device driver"),
        DockerRuntime().launch(with_options(spec, gpus="all")),
    ):
        pass


def test_an_exit_has_its_reason_in_words_and_its_last_lines(spec):
    code = "import sys; print('loading'); sys.exit('error: model not found')"
    with DockerRuntime().launch(python(spec, code)) as server:
        wait_for(lambda: not server.alive())
        assert server.exit_reason() == "exited with code 1"
        server.drain()
        # the engine reads stdout and stderr apart: lines of one moment may swap
        assert set(last_lines(spec.log)) == {"loading", "error: model not found"}


def test_running_out_of_memory_is_told_from_other_ends(spec):
    hungry = with_options(python(spec, "x = bytearray(10**9)"), memory="64m")
    with DockerRuntime().launch(hungry) as server:
        wait_for(lambda: not server.alive())
        assert "OOMKilled" in server.exit_reason()


def test_no_line_is_lost_however_fast_they_come(spec):
    lines = 50_000
    code = f"for i in range({lines}): print('line', i)"
    with DockerRuntime().launch(python(spec, code)) as server:
        wait_for(lambda: not server.alive())
        server.drain()
        assert spec.log.read_text().splitlines() == [f"line {i}" for i in range(lines)]


def test_lines_are_in_the_file_while_the_server_runs(spec):
    code = "import time; print('loading', flush=True); time.sleep(600)"
    with DockerRuntime().launch(python(spec, code)) as server:
        wait_for(lambda: "loading" in spec.log.read_text())
        assert server.alive()


def test_a_stubborn_server_ends_within_the_stop_timeout(spec):
    stubborn = replace(spec, argv=[spec.argv[0], "--stubborn", spec.argv[1]])
    with DockerRuntime().launch(stubborn):
        wait_for(lambda: answers(spec))
        began = time.monotonic()
    assert spec.stop_timeout_s <= time.monotonic() - began < spec.stop_timeout_s + 5


def test_a_container_that_somebody_removes_is_seen(spec, containers):
    with DockerRuntime().launch(spec) as server:
        containers(spec.device)[0].remove(force=True)
        assert not server.alive()
        assert server.exit_reason() == "the container was removed by somebody else"


def test_an_error_in_the_body_comes_through(spec):
    with pytest.raises(ZeroDivisionError), DockerRuntime().launch(spec):
        raise ZeroDivisionError
