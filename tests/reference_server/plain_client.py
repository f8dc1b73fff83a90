"""A plain client for the reference server: counts, ids and arrival times as they come, nothing computed."""

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from reference_server.faults import NO_FAULTS, Faults
from reference_server.process import reference_process
from reference_server.server import reference_server
from reference_server.truth import Truth

PROMPT = list(range(300, 340))
Counted = dict[tuple[str, str | None], float]


@dataclass
class Stream:
    """What was seen of one stream: each event's JSON and its arrival in seconds since the request."""

    status: int = 200
    arrived_s: list[float] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    comments: int = 0
    done: bool = False
    error: str | None = None

    def ids(self) -> list[int]:
        """Token ids of all events."""
        return [token for event in self.events for token in token_ids(event)]

    def token_times_s(self) -> list[float]:
        """Arrivals of the events that carry token ids."""
        return [at for at, event in zip(self.arrived_s, self.events, strict=True) if token_ids(event)]

    def window_s(self) -> float:
        """First to last event with token ids."""
        times = self.token_times_s()
        return times[-1] - times[0]

    def usage(self) -> dict[str, Any]:
        """The last usage of the stream (vLLM)."""
        return next(event["usage"] for event in reversed(self.events) if event.get("usage"))

    def timings(self) -> dict[str, float]:
        """The server's own timings, in the last event (llama.cpp)."""
        return self.events[-1]["timings"]


@contextlib.contextmanager
def served(truth: Truth, dialect: str, faults: Faults = NO_FAULTS) -> Iterator[httpx.Client]:
    """A client of a server in threads of this process."""
    with reference_server(truth, dialect=dialect, faults=faults) as url, connected(url) as client:
        yield client


@contextlib.contextmanager
def served_by_process(truth: Truth, dialect: str, faults: Faults = NO_FAULTS) -> Iterator[httpx.Client]:
    """A client of a server in a process of its own."""
    with reference_process(truth, dialect=dialect, faults=faults) as url, connected(url) as client:
        yield client


def connected(url: str) -> httpx.Client:
    """A client with that base URL."""
    return httpx.Client(base_url=url, timeout=5)


def vllm(client: httpx.Client, prompt: Any = PROMPT, tokens: int = 64, **more: Any) -> Stream:
    """Stream a completion in vLLM's dialect, with ids and running usage unless told otherwise."""
    body = {"prompt": prompt, "max_tokens": tokens, "ignore_eos": True, "return_token_ids": True}
    usage = {"include_usage": True, "continuous_usage_stats": True}
    return ask(client, "/v1/completions", {**body, "stream_options": usage, **more})


def llamacpp(client: httpx.Client, prompt: Any = PROMPT, tokens: int = 64, **more: Any) -> Stream:
    """Stream a completion in llama.cpp's dialect."""
    return ask(client, "/completion", {"prompt": prompt, "n_predict": tokens, "ignore_eos": True, **more})


def chat(client: httpx.Client, tokens: int = 20, **more: Any) -> Stream:
    """Stream a chat completion in either dialect."""
    messages = [{"role": "user", "content": "say it"}]
    return ask(client, "/v1/chat/completions", {"messages": messages, "max_tokens": tokens, **more})


def ask(client: httpx.Client, path: str, body: dict[str, Any]) -> Stream:
    """Stream any request; what goes wrong on the way is in `error`."""
    seen, start = Stream(), time.monotonic()
    try:
        with client.stream("POST", path, json={**body, "stream": True}) as response:
            seen.status = response.status_code
            for line in response.iter_lines():
                at = time.monotonic() - start
                if line.startswith(":"):
                    seen.comments += 1
                elif line == "data: [DONE]":
                    seen.done = True
                elif line.startswith("data: "):
                    seen.events.append(json.loads(line[6:]))
                    seen.arrived_s.append(at)
    except (httpx.HTTPError, json.JSONDecodeError) as error:
        seen.error = repr(error)
    return seen


def token_ids(event: dict[str, Any]) -> list[int]:
    """Token ids of one event of either dialect."""
    if "choices" in event:
        return event["choices"][0].get("token_ids") or [] if event["choices"] else []
    return event.get("tokens") or []


def counters(client: httpx.Client) -> Counted:
    """Counters by name without prefix and by position, summed over engines."""
    out: Counted = {}
    for family in text_string_to_metric_families(client.get("/metrics").text):
        for sample in family.samples:
            if family.type == "counter" and sample.name.endswith("_total"):
                key = sample.name.split(":")[-1], sample.labels.get("position")
                out[key] = out.get(key, 0.0) + sample.value
    return out


def spec(counted: Counted, name: str, position: int | None = None) -> float:
    """A speculation counter by its short name."""
    return counted[f"spec_decode_num_{name}_total", None if position is None else str(position)]
