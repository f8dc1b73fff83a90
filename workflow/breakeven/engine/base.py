"""The interface that every engine fills, and the types that cross it. Nothing here opens a socket."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

EventKind = Literal["token", "empty", "role", "reasoning", "usage", "keepalive", "final"]


@dataclass(frozen=True)
class Speculation:
    """What an arm's flags ask for (not what the server did with it)."""

    method: str
    n: int | None
    """Draft tokens a step at most; None when the flags do not say."""
    gated: bool = False
    """Some steps may draft less than n or nothing: tokens per step cannot be read off the rate."""
    forced: bool = False
    """Acceptance is forced: the step cost is true, text and speed-up are not."""
    p_min: float = 0.0
    """Confidence below which nothing is drafted."""
    free_drafts: bool = False
    """Drafts come from n-grams: they cost no pass of a model."""
    draft_model: str | None = None
    """The draft model's path, as the server sees it; None where the target itself drafts, or n-grams do."""


@dataclass(frozen=True)
class StreamEvent:
    """One server-sent event, understood. Counts are None where the server does not say."""

    kind: EventKind
    token_ids: tuple[int, ...] = ()
    tokens: int | None = None
    """Tokens of this event where the server sends no ids."""
    running_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    prompt_s: float | None = None
    decode_s: float | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    stop: str | None = None
    error: str | None = None
    top_logprobs: tuple[Mapping[int, float], ...] = ()
    """Where asked for: at each place of this event the most likely tokens, id -> log probability (nats)."""


@dataclass(frozen=True)
class Request:
    """An HTTP request of this engine."""

    path: str
    body: Mapping[str, Any]


@dataclass(frozen=True)
class Metric:
    """Where a counter stands in /metrics: the family's name without suffix, and its position label if it has one."""

    name: str
    position_label: str | None = None
    suffix: Literal["_total", "_sum"] = "_total"
    """`_total` of a counter, or `_sum` of a histogram that observes every request once."""


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen; greedy by default. Extra keys go to the server as they are."""

    extra: Mapping[str, Any] = field(default_factory=dict)
    schema: Mapping[str, Any] | None = None
    may_end: bool = False
    """Whether the answer may end by itself; guided answers always may."""

    @property
    def ignore_eos(self) -> bool:
        """Whether decoding goes on past the natural end."""
        return self.schema is None and not self.may_end


class Engine(Protocol):
    """What a server speaks: flags, requests, events, counters."""

    name: str
    instrumentation: Mapping[str, Any]
    """Flags that the pipeline adds to every arm alike; exempt from the one-variable rule."""
    counters: Mapping[str, Metric]
    """Our name of a counter -> where the server exposes it."""
    hides_end: bool
    """`ignore_eos` forbids the token that ends a text, so that an output does not show where it would have ended."""
    health_path: str
    metrics_path: str
    event_per_token: bool
    """Whether every token is an event of its own; otherwise an event is a step."""

    def argv(self, args: Mapping[str, Any], *, host: str, port: int) -> list[str]:
        """Command line without the program, instrumentation included."""
        ...

    def speculation(self, args: Mapping[str, Any]) -> Speculation | None:
        """What the flags ask for; None without speculation."""
        ...

    def completion(self, prompt: Sequence[int], tokens: int, sampling: Sampling) -> Request:
        """Streamed completion of exactly `tokens` tokens, prefix cache allowed, token ids asked for."""
        ...

    def with_logprobs(self, completion: Request, top: int) -> Request:
        """The same completion, telling the `top` most likely tokens at every place."""
        ...

    def event(self, data: bytes) -> StreamEvent:
        """Understand the payload of one `data:` line. Raises ValueError when it is not this engine's."""
        ...

    def tokenize(self, text: str, special: bool = False) -> Request:
        """Request that turns text into token ids; `special` adds those that every prompt of the model starts with."""
        ...

    def tokens(self, answer: Mapping[str, Any]) -> list[int]:
        """Token ids in the answer to `tokenize` or `chat`."""
        ...

    def chat(self, messages: Sequence[Mapping[str, Any]]) -> Request:
        """Request that renders chat messages through the model's chat template."""
        ...

    def properties(self) -> Sequence[str]:
        """Paths whose JSON answers are stored as evidence of the resolved configuration."""
        ...
