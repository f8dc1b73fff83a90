"""A person's own prompts: text files and chat messages, read once and kept whole."""

import json
from collections.abc import Mapping, Sequence
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


def read_prompts(files: Sequence[Path]) -> tuple[str | Chat, ...]:
    """Prompts of all files in order: a .txt file is one prompt, a folder its .txt files in order of name.

    Each line of a .jsonl file is a chat: a list of messages, or an object whose `messages` is that list.
    Raises ConfigError naming file and line.
    """
    return tuple(prompt for file in files for prompt in _prompts(file))


def _prompts(file: Path) -> list[str] | list[Chat]:
    if file.is_dir():
        if not (texts := sorted(file.glob("*.txt"))):
            raise ConfigError(f"{file}: found no .txt file in the folder; wanted one prompt a file")
        return [_text(text) for text in texts]
    if file.suffix == ".jsonl":
        lines = enumerate(_text(file).splitlines(), 1)
        return [_chat(line, f"{file}, line {number}") for number, line in lines if line.strip()]
    if file.suffix == ".txt":
        return [_text(file)]
    raise ConfigError(f"{file}: found neither .txt, .jsonl nor a folder; wanted one of these")


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
