"""The embedded server as an image: the same bytes each time, and the same server as the process."""

import sys
from dataclasses import replace

import httpx
import pytest
from docker_waiting import wait_for

from breakeven.demo import Recipe, write_model
from breakeven.runtime import image
from breakeven.runtime.docker import DockerRuntime
from breakeven.runtime.process import ProcessRuntime

pytestmark = pytest.mark.docker


def test_built_again_after_removal_it_has_the_same_id(engine, embedded_image):
    first = engine.images.get(embedded_image).id
    engine.images.remove(first, force=True)
    assert image.build_embedded_image(embedded_image, engine) == first


def completion(server):
    def healthy():
        try:
            return httpx.get(f"{server.base_url}/health").status_code == 200
        except httpx.HTTPError:
            return False

    wait_for(healthy)
    body = {"prompt": "abcdef", "n_predict": 64, "temperature": 0, "ignore_eos": True, "return_tokens": True}
    return httpx.post(f"{server.base_url}/completion", json=body, timeout=60).json()


def test_it_drafts_and_accepts_as_the_process_does(spec, embedded_image, tmp_path):
    tmp_path.chmod(0o755)  # the image's user is nobody
    write_model(tmp_path / "tiny.gguf", Recipe())
    flags = ["--spec-type", "draft-mtp", "--spec-draft-n-max", "3", "-c", "2048", "-t", "1", "-tb", "1"]
    argv = [*flags, "--port", str(spec.port)]
    in_container = replace(
        spec,
        argv=[*argv, "--host", "0.0.0.0", "--model", "/models/tiny.gguf"],
        env={},
        options={"image": embedded_image, "mounts": [f"{tmp_path}:/models:ro"], "read_only": True},
    )
    as_process = replace(
        spec,
        argv=[*argv, "--host", "127.0.0.1", "--model", str(tmp_path / "tiny.gguf")],
        program=[sys.executable, "-m", "breakeven.engine.embedded"],
        env={},
        options={},
    )
    with DockerRuntime().launch(in_container) as server:
        container = completion(server)
    with ProcessRuntime().launch(as_process) as server:
        process = completion(server)
    counts = ("predicted_n", "draft_n", "draft_n_accepted")
    assert [container["timings"][name] for name in counts] == [process["timings"][name] for name in counts]
    assert container["timings"]["draft_n_accepted"] > 0
    assert container["tokens"] == process["tokens"]
