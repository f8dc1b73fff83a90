"""A person's own prompts: text files and chat messages, read once and kept whole."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breakeven.errors import ConfigError


@dataclass(frozen=True)
class Chat:
    """Messages that the server's own chat template renders; kept as JSON, so that it can be hashed."""

    messages_json: str

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages as a chat completion request carries them."""
        messages: list[dict[str, Any]] = json.loads(self.messages_json)
        return messages


def read_texts(where: Path) -> tuple[str, ...]:
    """One prompt a .txt file; a directory gives its .txt files in order of name.

    Raises ConfigError when there is no such file, no text in it, or it is not UTF-8.
    """
    files = sorted(where.glob("*.txt")) if where.is_dir() else [where]
    if not files:
        raise ConfigError(f"{where}: found no .txt file in the directory; wanted one prompt a file")
    return tuple(_text(file) for file in files)


def read_chats(where: Path) -> tuple[Chat, ...]:
    """One chat a line of a JSONL file: a list of messages, or an object whose `messages` is that list.

    Raises ConfigError naming file and line.
    """
    lines = [(number, line) for number, line in enumerate(_text(where).splitlines(), 1) if line.strip()]
    return tuple(_chat(line, f"{where}, line {number}") for number, line in lines)


def _text(file: Path) -> str:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{file}: cannot be read as UTF-8 text ({type(error).__name__}); check the path"
        ) from error
    if not text.strip():
        raise ConfigError(f"{file}: found no text; wanted a prompt. Remove the file or fill it")
    return text


def _chat(line: str, where: str) -> Chat:
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{where}: not JSON ({error.msg} at column {error.colno})") from error
    messages = found.get("messages") if isinstance(found, Mapping) else found
    if not isinstance(messages, list) or not messages or not all(map(_is_message, messages)):
        raise ConfigError(
            f'{where}: wanted {{"messages": [{{"role": ..., "content": ...}}, ...]}}, at least one message'
        )
    return Chat(json.dumps(messages, ensure_ascii=False, sort_keys=True))


def _is_message(message: object) -> bool:
    return isinstance(message, Mapping) and isinstance(message.get("role"), str) and "content" in message
