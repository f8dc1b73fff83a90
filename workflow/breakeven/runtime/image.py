"""Images made of files of this machine, without a builder or a registry, the same bytes each time.

A docker-archive is written by hand (one layer and a configuration, every time stamp 0) and loaded into the
engine.
"""

import hashlib
import io
import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

import docker
from docker.errors import DockerException

from breakeven.errors import BreakevenError

EPOCH = "1970-01-01T00:00:00Z"
NOBODY = "65534:65534"

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_NOT_IN_A_SERVER = re.compile(
    r"(^|/)(__pycache__|site-packages|test|tests|idlelib|tkinter|turtledemo|ensurepip|lib2to3|pydoc_data|config-.*)/"
    r"|(^|/)_tkinter\.|\.pyc$|\.a$"
)
_PACKAGES_HOME = Path("/opt/breakeven")
_ELF_MAGIC = b"\x7fELF"


def write_archive(
    destination: BinaryIO,
    files: Mapping[str, Path],
    *,
    entrypoint: Sequence[str],
    env: Mapping[str, str],
    tag: str,
    user: str = NOBODY,
) -> None:
    """Write a docker-archive of one layer: `files` (absolute path in the image -> file here) and /tmp.

    The bytes depend on the arguments and the files' content and executable bits alone. Memory stays small.
    """
    with tempfile.TemporaryFile() as layer:
        _write_layer(layer, files)
        layer.seek(0)
        diff_id = f"sha256:{hashlib.file_digest(layer, 'sha256').hexdigest()}"
        configuration = {
            "architecture": _architecture(),
            "os": "linux",
            "created": EPOCH,
            "config": {
                "Entrypoint": list(entrypoint),
                "Env": [f"{name}={value}" for name, value in sorted(env.items())],
                "User": user,
                "WorkingDir": "/tmp",
            },
            "rootfs": {"type": "layers", "diff_ids": [diff_id]},
            "history": [{"created": EPOCH, "created_by": "breakeven"}],
        }
        content = json.dumps(configuration, sort_keys=True).encode()
        name = f"{hashlib.sha256(content).hexdigest()}.json"
        manifest = json.dumps([{"Config": name, "RepoTags": [tag], "Layers": ["layer.tar"]}]).encode()
        with tarfile.open(fileobj=destination, mode="w", format=tarfile.GNU_FORMAT) as archive:
            _add(archive, name, len(content), io.BytesIO(content))
            size = layer.seek(0, os.SEEK_END)
            layer.seek(0)
            _add(archive, "layer.tar", size, layer)
            _add(archive, "manifest.json", len(manifest), io.BytesIO(manifest))


def _write_layer(destination: BinaryIO, files: Mapping[str, Path]) -> None:
    with tarfile.open(fileobj=destination, mode="w", format=tarfile.GNU_FORMAT) as layer:
        _add_directory(layer, "tmp", 0o1777)
        known = {"tmp"}
        for name in sorted(name.lstrip("/") for name in files):
            for parent in reversed(Path(name).parents[:-1]):
                if str(parent) not in known:
                    known.add(str(parent))
                    _add_directory(layer, str(parent), 0o755)
            source = files[f"/{name}"]
            with source.open("rb") as content:
                mode = 0o755 if os.access(source, os.X_OK) else 0o644
                _add(layer, name, source.stat().st_size, content, mode)


def _add_directory(archive: tarfile.TarFile, name: str, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    archive.addfile(entry)


def _add(archive: tarfile.TarFile, name: str, size: int, content: BinaryIO, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, mode
    archive.addfile(entry, content)


def _architecture() -> str:
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _ARCHITECTURES:
        raise BreakevenError(
            f"an image of this machine's files needs Linux on {' or '.join(_ARCHITECTURES)}; this is "
            f"{sys.platform} on {machine}. Build it on such a host."
        )
    return _ARCHITECTURES[machine]


def python_files(modules: Sequence[str], distributions: Sequence[str]) -> dict[str, Path]:
    """This interpreter, its standard library, `modules`, `distributions` and their shared libraries.

    By path in an image. The interpreter and shared libraries keep their paths, so that run paths and prefixes
    stay right; `modules` and `distributions` move to /opt/breakeven. `modules` are single modules, without what
    they import.
    """
    interpreter = Path(sys.executable).resolve()
    files = {str(interpreter): interpreter}
    for place in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}:
        root = Path(place).resolve()
        files |= {
            str(path): path
            for path in root.rglob("*")
            if path.is_file() and not _NOT_IN_A_SERVER.search(str(path.relative_to(root)))
        }
    for name in modules:
        files |= _module(name)
    for name in distributions:
        files |= _distribution(name)
    libraries = _shared_libraries(path for path in files.values() if _is_elf(path))
    return {str(path): path for path in libraries} | files


def _module(name: str) -> dict[str, Path]:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise BreakevenError(f"module {name} has no file here. Install the package that has it.")
    relative = Path(*name.split("."))
    inside = relative / "__init__.py" if spec.submodule_search_locations else relative.with_suffix(".py")
    return {str(_PACKAGES_HOME / inside): Path(spec.origin)}


def _distribution(name: str) -> dict[str, Path]:
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise BreakevenError(f"package {name} is not installed here: pip install {name}") from None
    return {
        str(_PACKAGES_HOME / file): Path(str(file.locate()))
        for file in distribution.files or ()
        if not file.is_absolute() and ".." not in file.parts and not _NOT_IN_A_SERVER.search(str(file))
    }


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == _ELF_MAGIC


def _shared_libraries(binaries: Iterable[Path]) -> set[Path]:
    """Every library that the dynamic loader would load for `binaries`, the loader included."""
    listing = subprocess.run(
        ["ldd", *sorted(str(path) for path in binaries)], capture_output=True, text=True, check=False
    ).stdout
    if missing := sorted(set(re.findall(r"^\s+(\S+) => not found", listing, re.MULTILINE))):
        raise BreakevenError(
            f"shared libraries {', '.join(missing)} are not on this machine. Install them, or set "
            "LD_LIBRARY_PATH."
        )
    return {Path(path) for path in re.findall(r"^\s+(?:\S+ => )?(/\S+) \(0x", listing, re.MULTILINE)}


def build_python_image(
    client: docker.DockerClient,
    tag: str,
    *,
    arguments: Sequence[str],
    modules: Sequence[str] = (),
    distributions: Sequence[str] = (),
) -> str:
    """Load an image that runs this machine's Python with `arguments`; returns its id."""
    files = python_files(modules, distributions)
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "PYTHONPATH": str(_PACKAGES_HOME),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "LD_LIBRARY_PATH": ":".join(_library_folders(files)),
        "LANG": "C.UTF-8",
    }
    with tempfile.TemporaryFile() as archive:
        entrypoint = [str(Path(sys.executable).resolve()), *arguments]
        write_archive(archive, files, entrypoint=entrypoint, env=environment, tag=tag)
        archive.seek(0)
        try:
            (image,) = client.images.load(archive)
        except DockerException as error:
            raise BreakevenError(f"the Docker engine did not take image {tag}: {error}") from error
    return str(image.id)


def _library_folders(files: Mapping[str, Path]) -> Iterator[str]:
    """Folders of shared libraries outside Python's own: an image has no loader cache."""
    own = (str(_PACKAGES_HOME), str(Path(sysconfig.get_path("stdlib")).resolve()))
    folders = {
        str(Path(name).parent)
        for name in files
        if re.search(r"\.so(\.|$)", name) and not name.startswith(own)
    }
    return iter(sorted(folders))


def build_embedded_image(tag: str, client: docker.DockerClient) -> str:
    """Load an image of the embedded llama.cpp server as it is installed here; returns its id.

    Its entrypoint takes llama-server's flags. It holds nothing of this package but the launcher, so that its
    id changes with the server and not with the analysis.
    """
    return build_python_image(
        client,
        tag,
        arguments=["-m", "breakeven.engine.embedded"],
        modules=["breakeven", "breakeven.engine", "breakeven.engine.embedded"],
        distributions=["xllamacpp"],
    )
