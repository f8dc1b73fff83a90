"""What an arm is, beyond what its log says: command line, environment, mounts, program, model files.

The thin edge: it reads files and hashes them; `one_variable` compares what it found. A value of `env_from` is never
read here.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePosixPath
from typing import Any

from breakeven.engine.registry import ENGINES
from breakeven.verify.flags import parse

EMBEDDED = "embedded"
EDGE_BYTES = 1 << 20
"""Hashed at each end of a weight file: a GGUF's or safetensors' header lies in the first, weights in the last."""

CONTENT_BYTES = 64 << 20
"""A mounted file up to this size is code or configuration and is hashed whole."""

MOST_FILES = 5000
"""A mounted folder with more files is taken for data and is not hashed."""

WEIGHTS = frozenset({".gguf", ".safetensors", ".bin", ".pt", ".pth", ".onnx", ".ggml"})
NOT_CONTENT = frozenset({"__pycache__", ".git", ".cache"})
MODEL_FLAGS = ("model", "spec-draft-model", "mmproj", "lora", "lookup-cache-static")
CONFIG_NAMES = (
    "config.json",
    "generation_config.json",
    "quantize_config.json",
    "tokenizer.json",
    "hf_quant_config.json",
)
OWN_KEYS = ("model", "args", "env", "env_from", "mounts", "url", "log_file", "pull")


def describe(
    serve: Mapping[str, Any], identity: Mapping[str, Any], root: Path = Path(), *, full_hash: bool = False
) -> dict[str, Any]:
    """JSON data on one arm, from its parsed `serve_key` and the identity of its launch.

    Relative paths start at `root`. `full_hash` reads every model file whole; the default reads both its ends. What
    cannot be known is None with its reason under `unknown`; a server that was attached to is unknown altogether.
    """
    server, runtime = serve.get("server", {}), serve.get("runtime")
    argv = identity.get("argv")
    leading = 0 if argv is None else _leading(serve, argv)
    own_argv = None if argv is None else list(argv)[leading:]
    declared = None if identity.get("mounts") is None else _mounts(server.get("mounts", []))
    unknown: list[str] = []
    mounts = None
    if declared is not None:
        mounts = [
            {**mount, "content": _content(root / mount["source"], mount, unknown)} for mount in declared
        ]
    return {
        "engine": serve.get("engine"),
        "runtime": runtime,
        "program": identity.get("program"),
        "digest": identity.get("digest"),
        "packages": _packages() if serve.get("program") == EMBEDDED else None,
        "leading": None if argv is None else list(argv)[:leading],
        "argv": own_argv,
        "env": None if identity.get("env") is None else dict(identity["env"]),
        "env_from": list(server.get("env_from", [])),
        "mounts": mounts,
        "models": None
        if own_argv is None
        else _models(str(serve.get("engine")), own_argv, declared or [], root, full_hash, unknown),
        "options": {key: value for key, value in server.items() if key not in OWN_KEYS},
        "unknown": unknown,
    }


def _leading(serve: Mapping[str, Any], argv: Sequence[str]) -> int:
    """Arguments before the server's own flags: the image's entrypoint, or the program's fixed arguments."""
    own = ENGINES[serve["engine"]].argv(serve.get("server", {}).get("args", {}), host="", port=0)
    return max(0, len(argv) - len(own))


def _packages() -> dict[str, str | None]:
    """The embedded server is a Python package: the interpreter's hash says nothing about it."""
    try:
        return {"xllamacpp": version("xllamacpp")}
    except PackageNotFoundError:
        return {"xllamacpp": None}


def _mounts(declared: Sequence[str]) -> list[dict[str, str]]:
    mounts = []
    for text in declared:
        source, target, *mode = text.split(":")
        mounts.append({"source": source, "target": target, "mode": mode[0] if mode else "rw"})
    return mounts


def _content(path: Path, mount: Mapping[str, str], unknown: list[str]) -> str | None:
    """Hash of the code and configuration in a mount; weights are compared as model files.

    A writable folder may be a cache that every launch fills, so only what is mounted read-only, or a single file,
    counts.
    """
    if path.is_dir() and mount["mode"] != "ro":
        unknown.append(
            f"content of {mount['target']}: mounted writable; mount it read-only (`:ro`) to compare it"
        )
        return None
    if not path.is_file() and not path.is_dir():
        unknown.append(f"content of {mount['target']}: {path} is no file or folder here")
        return None
    digest = hashlib.sha256()
    try:
        for count, (name, file) in enumerate(_files(path)):
            if count == MOST_FILES:
                unknown.append(f"content of {mount['target']}: more than {MOST_FILES} files, taken for data")
                return None
            if file.suffix not in WEIGHTS and file.stat().st_size <= CONTENT_BYTES:
                with file.open("rb") as opened:
                    digest.update(f"{name}\0{hashlib.file_digest(opened, 'sha256').hexdigest()}\n".encode())
    except OSError as error:
        unknown.append(f"content of {mount['target']}: {error}")
        return None
    return f"sha256:{digest.hexdigest()}"


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    if path.is_file():
        yield "", path
        return
    for file in sorted(path.rglob("*")):
        name = file.relative_to(path)
        if file.is_file() and not NOT_CONTENT & set(name.parts):
            yield name.as_posix(), file


def _models(
    engine: str,
    argv: Sequence[str],
    mounts: Sequence[Mapping[str, str]],
    root: Path,
    full_hash: bool,
    unknown: list[str],
) -> dict[str, Any]:
    """Model files by the flag that names them; their path inside the server is compared as a flag."""
    flags = parse(engine, argv)
    models: dict[str, Any] = {}
    for flag, inside in _model_paths(flags):
        path = _on_host(inside, mounts, root)
        try:
            models[flag] = _fingerprints(path, full_hash)
        except OSError as error:
            models[flag] = None
            unknown.append(f"model file {inside} ({flag}): {error.strerror or error} at {path}")
    return models


def _model_paths(flags: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for flag in MODEL_FLAGS:
        if isinstance(flags.get(flag), str):
            yield flag, flags[flag]
    speculative = flags.get("speculative-config")
    if isinstance(speculative, Mapping) and isinstance(speculative.get("model"), str):
        yield "speculative-config", speculative["model"]


def _on_host(inside: str, mounts: Sequence[Mapping[str, str]], root: Path) -> Path:
    """The file here that a path inside a container names."""
    path = PurePosixPath(inside)
    for mount in sorted(mounts, key=lambda mount: -len(mount["target"])):
        if path.is_relative_to(mount["target"]):
            return root / mount["source"] / path.relative_to(mount["target"])
    return root / inside


def _fingerprints(path: Path, full_hash: bool) -> dict[str, Any]:
    """One entry a file: its size and hash. Raises OSError when there is nothing."""
    if path.is_dir():
        files = [
            file for file in sorted(path.iterdir()) if file.suffix in WEIGHTS or file.name in CONFIG_NAMES
        ]
        return {file.name: _fingerprint(file, full_hash) for file in files}
    return {path.name: _fingerprint(path, full_hash)}


def _fingerprint(file: Path, full_hash: bool) -> dict[str, Any]:
    size = file.stat().st_size
    with file.open("rb") as opened:
        if full_hash or size <= 2 * EDGE_BYTES:
            return {"bytes": size, "sha256": hashlib.file_digest(opened, "sha256").hexdigest()}
        digest = hashlib.sha256(opened.read(EDGE_BYTES))
        opened.seek(size - EDGE_BYTES)
        digest.update(opened.read(EDGE_BYTES))
    return {"bytes": size, "sha256_of_ends": digest.hexdigest()}
