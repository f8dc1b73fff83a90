"""Tensor names, shapes and sizes from the headers of a model on disk; no weight is read (Method 7).

GGUF: one file, or any part of a split set (`-00001-of-00003.gguf`; all parts are taken). safetensors: one
file, or a directory with the files its index names, and the `config.json` beside them.
"""

import json
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gguf import GGUFReader

from breakeven.errors import BreakevenError

LONGEST_SAFETENSORS_HEADER = 100_000_000
"""Bytes; the limit of the safetensors format itself."""
END_OF_TEXT = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "eos_token_id")
SPLIT_GGUF = re.compile(r"^(?P<stem>.+)-(?P<part>\d{5})-of-(?P<parts>\d{5})\.gguf$")


@dataclass(frozen=True)
class Tensor:
    """One tensor of a checkpoint: name, shape as stored, size on disk."""

    name: str
    shape: tuple[int, ...]
    n_bytes: int


@dataclass(frozen=True)
class Checkpoint:
    """The tensors of a model and its metadata: GGUF keys without the architecture prefix, or config.json."""

    path: Path
    layout: str
    tensors: tuple[Tensor, ...]
    metadata: dict[str, Any]


def read_checkpoint(path: Path) -> Checkpoint:
    """Read the headers of a model. Raises BreakevenError naming the file and what is wrong with it."""
    if path.is_dir():
        return _safetensors_directory(path)
    if not path.is_file():
        raise BreakevenError(
            f"{path}: no such model; a .gguf, a .safetensors or a directory of them is wanted"
        )
    if path.suffix == ".gguf":
        return _gguf(path)
    if path.suffix == ".safetensors":
        return Checkpoint(path, "safetensors", tuple(_safetensors(path)), _config(path.parent))
    raise BreakevenError(f"{path}: neither .gguf nor .safetensors nor a directory")


def end_of_text(checkpoint: Checkpoint) -> list[int]:
    """Ids of the tokens that end a text; empty where the model's files do not tell."""
    named = (checkpoint.metadata.get(key) for key in END_OF_TEXT)
    found = [ids if isinstance(ids, list) else [ids] for ids in named if ids is not None]
    return sorted({int(token) for ids in found for token in ids})


def _gguf(path: Path) -> Checkpoint:
    tensors: list[Tensor] = []
    metadata: dict[str, Any] = {}
    for part in _gguf_parts(path):
        try:
            reader = GGUFReader(part)
            fields = {name: field.contents() for name, field in reader.fields.items() if _small(field)}
            tensors += (
                Tensor(t.name, tuple(int(n) for n in reversed(t.shape)), int(t.n_bytes))
                for t in reader.tensors
            )
        except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
            raise BreakevenError(f"{part}: not a readable GGUF file ({error}); download it again") from error
        prefix = f"{fields.get('general.architecture')}."
        metadata = {key.removeprefix(prefix): value for key, value in fields.items()} | metadata
    _check_unique(path, tensors)
    return Checkpoint(path, "gguf", tuple(tensors), metadata)


def _small(field: Any) -> bool:
    # Token lists have 10^5 entries and say nothing about bytes.
    return len(field.data) < 10_000


def _gguf_parts(path: Path) -> list[Path]:
    split = SPLIT_GGUF.match(path.name)
    if split is None:
        return [path]
    parts = int(split["parts"])
    names = [
        path.with_name(f"{split['stem']}-{part:05d}-of-{parts:05d}.gguf") for part in range(1, parts + 1)
    ]
    missing = [name.name for name in names if not name.is_file()]
    if missing:
        raise BreakevenError(
            f"{path.parent}: {len(missing)} of {parts} parts are missing, first {missing[0]}"
        )
    return names


def _safetensors_directory(folder: Path) -> Checkpoint:
    indexes = sorted(folder.glob("*.safetensors.index.json"))
    if len(indexes) > 1:
        raise BreakevenError(
            f"{folder}: {len(indexes)} index files; name the .safetensors file that is meant"
        )
    weight_map: dict[str, Any] = {}
    if indexes:
        weight_map = _object(indexes[0], _json(indexes[0]).get("weight_map"), "weight_map")
        files = [folder / name for name in sorted({str(name) for name in weight_map.values()})]
    else:
        files = sorted(folder.glob("*.safetensors"))
    if not files:
        gguf = sorted(folder.glob("*.gguf"))
        wanted = (
            f"name one of its {len(gguf)} .gguf files" if gguf else "a directory with .safetensors is wanted"
        )
        raise BreakevenError(f"{folder}: no .safetensors in it; {wanted}")
    tensors = [tensor for file in files for tensor in _safetensors(file)]
    absent = set(weight_map) - {tensor.name for tensor in tensors}
    if absent:
        raise BreakevenError(f"{indexes[0]}: {len(absent)} tensors are in no file, e.g. {min(absent)}")
    _check_unique(folder, tensors)
    return Checkpoint(folder, "safetensors", tuple(tensors), _config(folder))


def _safetensors(path: Path) -> Iterator[Tensor]:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = struct.unpack("<Q", file.read(8))[0]
            if length > min(LONGEST_SAFETENSORS_HEADER, size - 8):
                raise ValueError(f"header of {length} bytes in a file of {size}")
            header = json.loads(file.read(length))
        for name, entry in header.items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                if not 0 <= begin <= end <= size - 8 - length:
                    raise ValueError(f"tensor {name} ends at {end}, behind the end of the file")
                yield Tensor(name, tuple(int(n) for n in entry["shape"]), int(end - begin))
    except (OSError, struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BreakevenError(
            f"{path}: not a readable safetensors file ({error}); download it again"
        ) from error


def _config(folder: Path) -> dict[str, Any]:
    path, generation = folder / "config.json", folder / "generation_config.json"
    if not path.is_file():
        return {}
    config = _json(path)
    # Multimodal checkpoints keep the language model's keys one level down.
    config |= _object(path, config.get("text_config", {}), "text_config")
    # What ends a text: servers take generation_config.json's word over config.json's.
    ends = _json(generation).get("eos_token_id") if generation.is_file() else None
    return config if ends is None else config | {"eos_token_id": ends}


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BreakevenError(f"{path}: not readable JSON ({error})") from error
    return _object(path, content, "the file")


def _object(path: Path, content: Any, what: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise BreakevenError(f"{path}: {what} must be a JSON object, found {type(content).__name__}")
    return content


def _check_unique(path: Path, tensors: list[Tensor]) -> None:
    names = [tensor.name for tensor in tensors]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BreakevenError(f"{path}: tensor {twice} is stored twice; its bytes would count twice")
