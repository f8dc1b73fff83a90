"""One streamed request, timed event by event.

While a stream runs, nothing is done but noting when which bytes arrived; they are understood afterwards (`sample`).
Tokens are counted from token ids or the server's own count, never from events: one event is one step on some
servers, one token on others, and none of it on a third (Method 1.1).
"""

import functools
import hashlib
import ssl
import struct
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
from tenacity import retry, retry_if_exception_type, stop_after_attempt

from breakeven.engine.base import Engine, Request, StreamEvent
from breakeven.measure.bursts import burst_starts

DATA = b"data:"
COMMENT = b":"

SENDING = "http11.send_request_body.started"
"""httpcore's word for the moment in which a request leaves: what the client prepared before is no time to first
token. The end of sending would be too late: the server may have begun by then."""


@dataclass(frozen=True)
class Recording:
    """What came over the wire: arrival (seconds after sending) and bytes of each line, and how it ended."""

    started_at: float
    lines: Sequence[tuple[float, bytes]]
    error: str | None = None


@dataclass(frozen=True)
class TimedEvent:
    """One server-sent event and its arrival in seconds after the request was sent."""

    arrived_s: float
    event: StreamEvent


@dataclass(frozen=True)
class Sample:
    """One request, understood; the fields of the `requests` table that the client and the server know."""

    started_at: float
    error: str | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    computed_tokens: int | None = None
    completion_tokens: int | None = None
    id_tokens: int | None = None
    first_event_tokens: int | None = None
    token_events: int | None = None
    bursts: int | None = None
    ttft_s: float | None = None
    decode_s: float | None = None
    first_half_s: float | None = None
    server_prompt_s: float | None = None
    server_decode_s: float | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    stop: str | None = None
    output_ids: tuple[int, ...] | None = None
    events: Sequence[TimedEvent] = field(default=(), repr=False)


@functools.cache
def _trusted() -> ssl.SSLContext:
    """Certificates, read once: httpx would read them for every client, for http too."""
    return httpx.create_ssl_context(trust_env=False)


def open_client(base_url: str, read_timeout_s: float) -> httpx.Client:
    """HTTP/1.1 client with one kept connection: no request pays for a handshake after the first."""
    return httpx.Client(
        base_url=base_url,
        timeout=httpx.Timeout(read_timeout_s, connect=10.0),
        limits=httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=3600),
        verify=_trusted(),
        trust_env=False,
    )


@retry(retry=retry_if_exception_type(httpx.RemoteProtocolError), stop=stop_after_attempt(2), reraise=True)
def ask(http: httpx.Client, method: str, path: str, json: Any = None) -> httpx.Response:
    """A request that may be sent twice: servers close a kept connection after some number of requests unannounced.

    Raises httpx.HTTPError when the server does not answer.
    """
    return http.request(method, path, json=json)


def record(http: httpx.Client, request: Request) -> Recording:
    """Send a request and note every line of the answer with its arrival. Never raises for what the server does."""
    lines: list[tuple[float, bytes]] = []
    sent = time.perf_counter()

    def trace(event: str, _: Any) -> None:
        nonlocal sent
        if event == SENDING:
            sent = time.perf_counter()

    prepared = http.build_request("POST", request.path, json=dict(request.body), extensions={"trace": trace})
    started_at, sent = time.time(), time.perf_counter()
    try:
        answer = http.send(prepared, stream=True)
        try:
            if answer.status_code != 200:
                body = answer.read()[:500].decode(errors="replace")
                return Recording(started_at, lines, f"HTTP {answer.status_code}: {body}")
            rest = b""
            for chunk in answer.iter_raw():
                arrived = time.perf_counter() - sent
                *whole, rest = (rest + chunk).split(b"\n")
                lines += [(arrived, line) for line in whole]
            if rest.strip():
                lines.append((time.perf_counter() - sent, rest))
        finally:
            answer.close()
    except httpx.HTTPError as error:
        return Recording(started_at, lines, f"{type(error).__name__}: {error}")
    return Recording(started_at, lines)


def understand(recording: Recording, engine: Engine) -> Iterator[TimedEvent]:
    """Events of a recording. Raises ValueError at a `data:` line that is not this engine's."""
    for arrived, line in recording.lines:
        line = line.strip()
        if line.startswith(DATA):
            yield TimedEvent(arrived, engine.event(line[len(DATA) :].strip()))
        elif line.startswith(COMMENT):
            yield TimedEvent(arrived, StreamEvent("keepalive"))


def sample(recording: Recording, engine: Engine) -> Sample:
    """The request's figures. What the server did not say is None; a broken stream has an error and no rates."""
    try:
        events = list(understand(recording, engine))
    except (ValueError, KeyError, TypeError) as unreadable:
        failed = f"the server's answer could not be read ({type(unreadable).__name__}: {unreadable})"
        return Sample(recording.started_at, error=recording.error or failed)
    known = {
        name: _last(events, name)
        for name in ("prompt_tokens", "cached_tokens", "draft_tokens", "accepted_tokens", "stop", "error")
    }
    error = recording.error or known.pop("error")
    if error is None and not any(timed.event.kind == "final" for timed in events):
        error = "the stream ended without its last event"
    result = Sample(
        recording.started_at,
        **(known | {"error": error}),
        completion_tokens=_last(events, "running_tokens"),
        server_prompt_s=_last(events, "prompt_s"),
        server_decode_s=_last(events, "decode_s"),
        events=events,
    )
    if result.prompt_tokens is not None and result.cached_tokens is not None:
        result = replace(result, computed_tokens=result.prompt_tokens - result.cached_tokens)
    return replace(result, **_times(events, engine.event_per_token))


def _last(events: Sequence[TimedEvent], name: str) -> Any:
    return next((v for e in reversed(events) if (v := getattr(e.event, name)) is not None), None)


def _times(events: Sequence[TimedEvent], event_per_token: bool) -> dict[str, Any]:
    """TTFT, decode window and counts, from the events that carried tokens.

    The window goes from the first burst to the last: what arrives together is noted one after the other, but was
    there together. Where tokens are events and several come with the first, they were held back, and more may have
    been made by then that were not let go: what the window holds is not known, and there is none.
    """
    carrying = [timed for timed in events if timed.event.kind == "token"]
    if not carrying:
        return {}
    arrivals = [timed.arrived_s for timed in carrying]
    counts = [_tokens_of(timed, before) for before, timed in zip([None, *carrying], carrying, strict=False)]
    ids = tuple(token for timed in carrying for token in timed.event.token_ids)
    known = None not in counts
    starts = burst_starts(arrivals)
    first = counts[: starts[1] if len(starts) > 1 else None]
    window = len(first) == 1 or not event_per_token
    return {
        "ttft_s": arrivals[0],
        "decode_s": arrivals[starts[-1]] - arrivals[0] if window else None,
        "first_half_s": _first_half(arrivals, counts) if known and window else None,  # type: ignore[arg-type]
        "first_event_tokens": sum(count for count in first if count is not None) if known else counts[0],
        "token_events": len(carrying),
        "bursts": len(starts),
        "id_tokens": len(ids) if ids else None,
        "output_ids": ids or None,
    }


def _tokens_of(timed: TimedEvent, before: TimedEvent | None) -> int | None:
    """Tokens of one event: by its ids, else by the step in the server's running count."""
    if timed.event.token_ids:
        return len(timed.event.token_ids)
    now = timed.event.running_tokens
    last = before.event.running_tokens if before else 0
    return None if now is None or last is None else now - last


def _first_half(arrivals: Sequence[float], counts: Sequence[int]) -> float | None:
    """Seconds until half of the decode tokens had come."""
    decode = sum(counts[1:])
    so_far = 0
    for arrived, count in zip(arrivals[1:], counts[1:], strict=True):
        so_far += count
        if 2 * so_far >= decode:
            return arrived - arrivals[0]
    return None


def ids_sha256(ids: Sequence[int]) -> str:
    """Hash of a token sequence, to say `the same` without keeping a private text."""
    return hashlib.sha256(struct.pack(f"<{len(ids)}q", *ids)).hexdigest()
