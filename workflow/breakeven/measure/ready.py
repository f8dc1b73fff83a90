"""When is a started server ready to be measured: it is healthy, and it has really answered a request.

A healthy port is not enough: an engine can be dead behind it. While waiting, the log is read for lines that mean
the end, so that nobody waits out a timeout for a server that has already failed.
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx

from breakeven.engine.base import Engine, Sampling
from breakeven.engine.fatal import diagnose, fatal
from breakeven.errors import LaunchError
from breakeven.measure import counters
from breakeven.measure.client import Sample, record, sample
from breakeven.measure.server_tokenizer import ServerTokenizer
from breakeven.measure.workload import salt
from breakeven.runtime import Server

POLL_S = 0.05
SMOKE_TOKENS = 8
HEAR_OUT_S = 10.0
SAID_ALL_S = 1.0
"""A dying server is listened to until it has ended or said nothing for so long: the cause comes after the headline."""
SMOKE_TEXT = "The server answers before it is measured."


def wait_until_ready(
    server: Server, engine: Engine, http: httpx.Client, *, timeout_s: float, silent_timeout_s: float
) -> Sample:
    """Wait until the server has answered its smoke request, and return that answer.

    Raises LaunchError as soon as the server has ended, printed a fatal line, fallen silent or run out of time; the
    message quotes the lines that matter and says where the log lies.
    """
    began = time.monotonic()
    lines = _new_lines(server)
    heard = began
    while True:
        for line in next(lines):
            heard = time.monotonic()
            if fatal(engine.name, line) is not None and not _healthy(http, engine):
                raise _failed(server, engine, "the log shows that it failed")
        now = time.monotonic()
        if not server.alive():
            raise _failed(server, engine, f"the server {server.exit_reason()}")
        if _healthy(http, engine):
            return _smoke(server, engine, http)
        if now - began > timeout_s:
            raise _failed(server, engine, f"not ready after {timeout_s:.0f} s", silent_s=now - heard)
        if now - heard > silent_timeout_s:
            raise _failed(server, engine, f"silent for {now - heard:.0f} s", silent_s=now - heard)
        time.sleep(POLL_S)


def _healthy(http: httpx.Client, engine: Engine) -> bool:
    try:
        return http.get(engine.health_path, timeout=5.0).status_code == 200
    except httpx.HTTPError:
        return False


def _smoke(server: Server, engine: Engine, http: httpx.Client) -> Sample:
    """A short request that must be answered."""
    try:
        result = _first_answer(http, engine)
    except (httpx.HTTPError, LaunchError) as error:
        raise _failed(server, engine, f"healthy, but it cannot be measured: {error}") from error
    if result.error or not result.completion_tokens:
        raise _failed(
            server, engine, f"healthy, but its first request failed: {result.error or 'no tokens came'}"
        )
    return result


def _first_answer(http: httpx.Client, engine: Engine) -> Sample:
    """The answer to a prompt whose salt is used nowhere else, with what the server counted meanwhile.

    A server that does not tell the drafts of one request counts those of all: nobody else is served yet.
    """
    prompt = ServerTokenizer(http, engine).ids(f"{salt('smoke')}\n{SMOKE_TEXT}")
    before = counters.scrape(http, engine)
    result = sample(record(http, engine.completion(prompt, SMOKE_TOKENS, Sampling())), engine)
    if result.error:
        return result
    after = counters.scrape_after(http, engine, before, result.completion_tokens)
    return replace(
        result,
        draft_tokens=_told_or_counted("draft_tokens", result, before, after),
        accepted_tokens=_told_or_counted("accepted_tokens", result, before, after),
    )


def _told_or_counted(
    name: str, result: Sample, before: counters.Counters, after: counters.Counters
) -> int | None:
    told: int | None = getattr(result, name)
    key = name, None
    return int(after[key] - before[key]) if told is None and key in before and key in after else told


def _new_lines(server: Server) -> Iterator[list[str]]:
    """Whole lines that the log has gained since the last call."""
    rest, offset = b"", 0
    while True:
        server.drain()
        chunk = _read_from(server.log, offset)
        offset += len(chunk)
        *whole, rest = (rest + chunk).split(b"\n")
        yield [line.decode(errors="replace") for line in whole]


def _read_from(log: Path, offset: int) -> bytes:
    if not log.exists():
        return b""
    with log.open("rb") as file:
        file.seek(offset)
        return file.read()


def _failed(server: Server, engine: Engine, what: str, silent_s: float = 0.0) -> LaunchError:
    text = _heard_out(server).decode(errors="replace")
    return LaunchError(f"{what}: {diagnose(text, server.alive(), silent_s, engine.name)}\nlog: {server.log}")


def _heard_out(server: Server) -> bytes:
    """The whole log, once nothing more comes."""
    text, began = b"", time.monotonic()
    heard = began
    while True:
        alive = server.alive()
        server.drain()
        more = _read_from(server.log, len(text))
        text += more
        now = time.monotonic()
        heard = now if more else heard
        if not alive or now - heard > SAID_ALL_S or now - began > HEAR_OUT_S:
            return text
        time.sleep(POLL_S)
