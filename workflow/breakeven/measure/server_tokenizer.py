"""Text and chat messages to token ids, by the tokenizer of the server that is measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from breakeven.engine.base import Engine, Request
from breakeven.errors import LaunchError
from breakeven.measure.client import ask
from breakeven.measure.prompt_tokens import PromptTokenizer


@dataclass(frozen=True)
class ServerTokenizer:
    """One server's tokenizer. Every call raises LaunchError with the server's words when it refuses."""

    http: httpx.Client
    engine: Engine

    def ids(self, text: str) -> list[int]:
        """Token ids of a text, no special tokens added."""
        return self.engine.tokens(self._answer(self.engine.tokenize(text)))

    def opening_ids(self) -> list[int]:
        """The special tokens that every prompt of this model starts with; empty for most."""
        return self.engine.tokens(self._answer(self.engine.tokenize("", special=True)))

    def chat_ids(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Token ids of chat messages, rendered through the model's own template."""
        answer = self._answer(self.engine.chat(messages))
        return self.ids(answer["prompt"]) if "prompt" in answer else self.engine.tokens(answer)

    def prompts(self) -> PromptTokenizer:
        """What turns the planned requests of a launch into token ids of this server."""
        return PromptTokenizer(self.ids, self.chat_ids, self.opening_ids())

    def _answer(self, request: Request) -> Any:
        answer = ask(self.http, "POST", request.path, json=dict(request.body))
        if answer.status_code != 200:
            raise LaunchError(f"{request.path} answered HTTP {answer.status_code}: {answer.text[:300]}")
        return answer.json()
