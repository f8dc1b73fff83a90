"""Files between the stages: written under a temporary name and renamed, so that a name means a whole file."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from breakeven.errors import BreakevenError


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A name beside `path` to write to; it becomes `path` when the block succeeds and is removed when not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid4().hex[:8]}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all. A lone surrogate becomes its escape, as UTF-8 has none."""
    with whole(path) as part:
        part.write_bytes(text.encode("utf-8", "backslashreplace"))


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a JSON object, keys sorted; what JSON has no type for is written as its text."""
    write_text(path, json.dumps(document, indent=1, sort_keys=True, default=str))


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object that a stage wrote. Raises BreakevenError naming the file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BreakevenError(f"{path}: cannot be read ({error}); run the workflow again") from error
    if not isinstance(document, dict):
        raise BreakevenError(f"{path}: found no JSON object; run the workflow again")
    return document
