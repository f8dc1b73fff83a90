"""How an engine writes the same truth on the wire: `vllm` and `llamacpp`."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from reference_server.engine import Engine, Generation, Plan, Sent


class BadRequestError(Exception):
    """A request that the dialect refuses, with its status and message."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Reply:
    """A whole answer, sent at once."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"

    @classmethod
    def of(cls, value: Any, status: int = 200) -> "Reply":
        """A JSON answer."""
        return cls(json.dumps(value).encode(), status)


class Writer(Protocol):
    """Writes one request's answer; every method returns whole SSE events but `whole`."""

    def opening(self) -> list[bytes]:
        """What leaves when the request arrives."""
        ...

    def event(self, index: int) -> list[bytes]:
        """Event `index` of the plan, with what belongs right before it."""
        ...

    def closing(self, sent: Sent) -> list[bytes]:
        """What follows the last token."""
        ...

    def whole(self, sent: Sent) -> dict[str, Any]:
        """The answer to a request that does not stream."""
        ...


class Dialect(Protocol):
    """One engine's ways."""

    event_per_token: bool
    cut_last_draft: bool
    block_cache: bool

    def get(self, engine: Engine, path: str) -> Reply | None:
        """Answer to a GET; None when there is no such route."""
        ...

    def post(self, engine: Engine, path: str, body: Mapping[str, Any]) -> Reply | None:
        """Answer to a POST that generates nothing; None when there is no such route."""
        ...

    def generation(self, engine: Engine, path: str, body: Mapping[str, Any]) -> Generation | None:
        """The generation request in a POST; None when it is none. Raises BadRequestError."""
        ...

    def writer(self, engine: Engine, plan: Plan) -> Writer:
        """Writer of a plan's answer."""
        ...

    def error(self, message: str, status: int) -> Reply:
        """An error in the engine's own form."""
        ...

    def startup_log(self, engine: Engine, url: str) -> list[str]:
        """Lines that the engine would print while it comes up."""
        ...

    def request_log(self, engine: Engine, plan: Plan, sent: Sent) -> list[str]:
        """Lines that the engine would print after a request."""
        ...


def sse(value: Any) -> bytes:
    """One server-sent event of a JSON value, or of bytes as they are."""
    data = value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()
    return b"data: " + data + b"\n\n"


def token_ids(value: Any) -> list[int] | None:
    """The value itself when it is a list of token ids."""
    if isinstance(value, list) and value and all(type(item) is int for item in value):
        return value
    return None
