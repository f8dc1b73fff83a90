"""What an arm is, beyond its log: hashes change with the content, secrets are not read, unknown is said."""

import json
from pathlib import Path
from typing import Any

import pytest

from breakeven.engine.registry import ENGINES
from breakeven.verify.identity import EDGE_BYTES, describe
from breakeven.verify.one_variable import one_variable

IDENTITY = {"runtime": "docker", "program": "local/server:1", "digest": "sha256:aa", "env": {}, "mounts": []}


def serve(**server: Any) -> dict[str, Any]:
    return {"engine": "llamacpp", "runtime": "docker", "image": "local/server:1", "server": server}


def described(root: Path, argv: list[str], full_hash: bool = False, **server: Any) -> dict[str, Any]:
    return describe(serve(**server), IDENTITY | {"argv": argv}, root, full_hash=full_hash)


def test_a_model_in_a_container_is_found_through_its_mount(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "m.gguf").write_bytes(b"GGUF")
    known = described(tmp_path, ["-m", "/models/m.gguf"], mounts=["weights:/models:ro"])
    assert known["models"]["model"]["m.gguf"]["bytes"] == 4
    assert known["unknown"] == []


@pytest.mark.parametrize("changed_byte", [0, 3 * EDGE_BYTES - 1])
def test_both_ends_of_a_large_model_file_count(tmp_path: Path, changed_byte: int) -> None:
    model = tmp_path / "m.gguf"
    model.write_bytes(bytes(3 * EDGE_BYTES))
    before = described(tmp_path, ["-m", "m.gguf"])
    content = bytearray(3 * EDGE_BYTES)
    content[changed_byte] = 1
    model.write_bytes(content)
    assert [d.name for d in one_variable(described(tmp_path, ["-m", "m.gguf"]), before, ())] == ["model"]


def test_the_middle_of_a_large_model_file_counts_with_a_full_hash(tmp_path: Path) -> None:
    model, argv = tmp_path / "m.gguf", ["-m", "m.gguf"]
    model.write_bytes(bytes(3 * EDGE_BYTES))
    before = described(tmp_path, argv), described(tmp_path, argv, full_hash=True)
    content = bytearray(3 * EDGE_BYTES)
    content[EDGE_BYTES + 5] = 1
    model.write_bytes(content)
    assert described(tmp_path, argv) == before[0]
    assert described(tmp_path, argv, full_hash=True) != before[1]


def test_a_checkpoint_folder_is_known_by_its_weights_and_configuration(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    for name in ("model-1.safetensors", "config.json", "README.md"):
        (folder / name).write_text(name)
    known = describe(serve() | {"engine": "vllm"}, IDENTITY | {"argv": ["checkpoint"]}, tmp_path)
    assert sorted(known["models"]["model"]) == ["config.json", "model-1.safetensors"]


def test_a_model_that_is_not_here_is_unknown_with_a_reason(tmp_path: Path) -> None:
    known = described(tmp_path, ["-m", "/models/m.gguf"])
    assert known["models"] == {"model": None}
    assert "No such file" in known["unknown"][0]


def test_code_in_a_read_only_mount_counts_and_weights_beside_it_do_not(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "kernel.py").write_text("a = 1")

    def content() -> str:
        (mount,) = described(tmp_path, [], mounts=["code:/app:ro"])["mounts"]
        return str(mount["content"])

    before = content()
    (folder / "__pycache__" / "kernel.pyc").write_bytes(b"x")
    (folder / "m.gguf").write_bytes(b"GGUF")
    assert content() == before
    (folder / "kernel.py").write_text("a = 2")
    assert content() != before


def test_a_writable_folder_is_not_compared_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    known = described(tmp_path, [], mounts=["cache:/root/.cache"])
    assert known["mounts"][0]["content"] is None
    assert "mount it read-only" in known["unknown"][0]


def test_the_value_of_a_secret_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_very_secret")
    known = described(tmp_path, [], env_from=["HF_TOKEN"])
    assert known["env_from"] == ["HF_TOKEN"]
    assert "hf_very_secret" not in json.dumps(known)


def test_what_belongs_to_the_program_is_not_a_flag_of_the_server(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    arm = {
        "engine": "llamacpp",
        "runtime": "process",
        "program": "embedded",
        "server": {"args": {"model": "m.gguf"}},
    }
    flags = ENGINES["llamacpp"].argv(arm["server"]["args"], host="127.0.0.1", port=1)
    known = describe(arm, IDENTITY | {"argv": ["-m", "breakeven.engine.embedded", *flags]}, tmp_path)
    assert (known["leading"], known["argv"]) == (["-m", "breakeven.engine.embedded"], flags)
    assert known["packages"]["xllamacpp"]


def test_another_entrypoint_is_another_arm(tmp_path: Path) -> None:
    flags = ENGINES["llamacpp"].argv({}, host="127.0.0.1", port=1)
    one, other = (describe(serve(), IDENTITY | {"argv": [entry, *flags]}, tmp_path) for entry in ("/a", "/b"))
    assert [(d.name, d.blocks) for d in one_variable(one, other, ())] == [("leading", True)]


def test_nothing_is_known_of_a_server_that_somebody_else_started() -> None:
    attached = {"engine": "vllm", "runtime": "attach", "server": {"url": "http://127.0.0.1:8000"}}
    identity = dict.fromkeys(("program", "digest", "argv", "env", "mounts"))
    known = describe(attached, identity)
    assert [known[key] for key in ("argv", "env", "mounts", "models", "digest")] == [None] * 5
