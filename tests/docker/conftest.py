"""A Docker engine that answers, or a skip that says why; with BREAKEVEN_REQUIRE_DOCKER=1 a failure instead."""

import os
import socket

import pytest
from docker_waiting import UNIT

from breakeven.errors import BreakevenError
from breakeven.runtime import LaunchSpec, docker, image, lock, session


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="session")
def engine():
    try:
        client = docker.connect()
    except BreakevenError as error:
        if os.environ.get("BREAKEVEN_REQUIRE_DOCKER") == "1":
            pytest.fail(f"BREAKEVEN_REQUIRE_DOCKER=1, but {error}")
        pytest.skip(str(error))
    yield client
    client.close()


@pytest.fixture(scope="session")
def python_image(engine):
    """This machine's Python, in a container."""
    tag = f"breakeven-test/python:{os.getpid()}"
    image.build_python_image(engine, tag, arguments=[])
    yield tag
    engine.images.remove(tag, force=True)


@pytest.fixture(scope="session")
def embedded_image(engine):
    tag = f"breakeven-test/embedded:{os.getpid()}"
    image.build_embedded_image(tag, engine)
    yield tag
    engine.images.remove(tag, force=True)


@pytest.fixture
def containers(engine):
    """Lists the containers, of whatever state, of a device."""
    return lambda device: engine.containers.list(
        all=True,
        filters={"label": f"breakeven.device={device}"},
        ignore_removed=True,  # one may come or go between being listed and being looked at
    )


@pytest.fixture
def spec(python_image, containers, tmp_path, monkeypatch, request):
    """The tiny server of the process tests, in a container; afterwards nothing of it may be left."""
    monkeypatch.setenv(lock.DIRECTORY_VARIABLE, str(tmp_path / "locks"))
    port = free_port()
    spec = LaunchSpec(
        experiment="exp",
        arm="base",
        device=f"test-{os.getpid()}-{request.node.name}",
        host="127.0.0.1",
        port=port,
        argv=["/tests/runtime_server.py", str(port)],
        log=tmp_path / "server.log",
        env={"BIND": "0.0.0.0"},
        options={"image": python_image, "mounts": [f"{UNIT}:/tests:ro"]},
        stop_timeout_s=2.0,
    )
    yield spec
    left = containers(spec.device)
    for container in left:
        container.remove(force=True)
    assert left == [], "a container stayed"
    session.port.require_free(spec.host, spec.port)
    with lock.hold(spec.device, "exp", "next", wait_s=0):
        pass
