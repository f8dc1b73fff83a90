"""A docker-archive from files of this machine; no engine is asked."""

import hashlib
import io
import json
import os
import sys
import tarfile
from pathlib import Path

import pytest

from breakeven.errors import BreakevenError
from breakeven.runtime import image


def archive(files, tag="test:1"):
    out = io.BytesIO()
    image.write_archive(out, files, entrypoint=["/opt/server"], env={"B": "2", "A": "1"}, tag=tag)
    return out.getvalue()


@pytest.fixture
def files(tmp_path):
    server, data = tmp_path / "server", tmp_path / "data"
    server.write_bytes(b"binary")
    server.chmod(0o755)
    data.write_bytes(b"x" * 5000)
    return {"/opt/server": server, "/opt/share/data": data}


def opened(content):
    with tarfile.open(fileobj=io.BytesIO(content)) as outer:
        (manifest,) = json.load(outer.extractfile("manifest.json"))
        configuration = outer.extractfile(manifest["Config"]).read()
        layer = outer.extractfile(manifest["Layers"][0]).read()
    return manifest, configuration, layer


def test_the_same_files_are_the_same_bytes_whenever_they_were_written(files):
    first = archive(files)
    for path in files.values():
        os.utime(path, (0, 0))
    assert archive(dict(reversed(files.items()))) == first


def test_another_content_is_another_image(files):
    first = archive(files)
    files["/opt/share/data"].write_bytes(b"y" * 5000)
    assert opened(archive(files))[0]["Config"] != opened(first)[0]["Config"]


def test_it_is_what_the_image_format_asks_for(files):
    """Docker image specification v1.2: configuration named by its hash, layers by the hash of their tar."""
    manifest, configuration, layer = opened(archive(files))
    assert manifest["RepoTags"] == ["test:1"]
    assert manifest["Config"] == hashlib.sha256(configuration).hexdigest() + ".json"
    parsed = json.loads(configuration)
    assert parsed["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(layer).hexdigest()]
    assert parsed["config"]["Entrypoint"] == ["/opt/server"]
    assert parsed["config"]["Env"] == ["A=1", "B=2"]


def test_the_layer_has_the_files_their_folders_and_a_tmp(files):
    with tarfile.open(fileobj=io.BytesIO(opened(archive(files))[2])) as layer:
        entries = {entry.name: entry for entry in layer}
    assert {name: oct(entry.mode) for name, entry in entries.items()} == {
        "tmp": "0o1777",
        "opt": "0o755",
        "opt/server": "0o755",
        "opt/share": "0o755",
        "opt/share/data": "0o644",
    }
    assert {entry.mtime for entry in entries.values()} == {0}
    assert list(entries) == ["tmp", "opt", "opt/server", "opt/share", "opt/share/data"]


@pytest.mark.skipif(sys.platform != "linux", reason="images are made of Linux files")
def test_python_comes_with_its_library_and_the_dynamic_loader():
    files = image.python_files(["breakeven", "breakeven.errors"], ["xllamacpp"])
    assert str(Path(sys.executable).resolve()) in files
    assert {name for name in files if "/breakeven/breakeven" in name} == {
        "/opt/breakeven/breakeven/__init__.py",
        "/opt/breakeven/breakeven/errors.py",
    }
    assert "/opt/breakeven/xllamacpp/__init__.py" in files
    names = {Path(name).name for name in files}
    assert {"os.py", "libc.so.6"} <= names
    assert any(name.startswith("ld-linux") for name in names)
    assert not any("__pycache__" in name or "/test/" in name for name in files)


def test_a_package_that_is_not_here_is_named():
    with pytest.raises(BreakevenError, match="no-such-package is not installed"):
        image.python_files([], ["no-such-package"])
