"""The discarded launch is warmed in every shape that will be measured, until nothing compiles and times settle.

What compiles (kernels for a depth, a sampler, a drafter) is kept by the caches that engines have, so that every
measured launch starts from there and can discard the same small number of requests in every arm.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

import httpx

from breakeven.engine.base import Engine, Sampling
from breakeven.errors import LaunchError
from breakeven.measure.client import record, sample
from breakeven.measure.prompt_tokens import PromptTokenizer
from breakeven.measure.server_tokenizer import ServerTokenizer
from breakeven.measure.workload import Request, Workload, plan

MOST = 8
"""Requests of one shape after which warming ends, settled or not."""

AT_LEAST = 2
ALIKE = 0.10
"""Two requests in a row whose times differ by less than this share have settled."""

DISCARDED_ROUND = 0
"""Salts of no measured round: nothing that is warmed here can be found in a cache there."""


@dataclass(frozen=True)
class Warmed:
    """One shape: how many requests it took, and whether its times settled with nothing compiling any more."""

    depth: int
    prompt_class: str
    asked_tokens: int
    requests: int
    settled: bool
    last_s: float | None


def settle(times: Iterator[float], compiled: Callable[[], int]) -> tuple[int, bool, float | None]:
    """(requests, settled, last time): take times until two in a row are alike and nothing compiled between them.

    `times` sends one request for each value it gives; `compiled` counts the compilations that the log tells of.
    """
    before, count, sent = None, compiled(), 0
    for seconds in times:
        sent += 1
        now = compiled()
        alike = before is not None and abs(seconds - before) <= ALIKE * max(seconds, before)
        if sent >= AT_LEAST and alike and now == count:
            return sent, True, seconds
        before, count = seconds, now
    return sent, False, before


def warm_up(
    http: httpx.Client, engine: Engine, workload: Workload, seed: int, compiled: Callable[[], int]
) -> list[dict[str, Any]]:
    """Warm every shape of a workload; one JSON object (Warmed) a shape.

    Raises LaunchError when a request fails: an arm that cannot be warmed cannot be measured.
    """
    prompts = ServerTokenizer(http, engine).prompts()
    planned = plan(replace(workload, warmup=MOST, reps=1), seed, DISCARDED_ROUND)
    found = []
    for (depth, name, kind, asked), shape in groupby(planned, _shape):
        requests = list(shape)
        if kind == "depth":
            _seconds(http, engine, prompts, requests[0])
        elif kind == "warmup":
            times = (_seconds(http, engine, prompts, request) for request in requests)
            sent, settled, last_s = settle(times, compiled)
            found.append(asdict(Warmed(depth, name, asked, sent, settled, last_s)))
    return found


def _shape(request: Request) -> tuple[int, str, str, int]:
    return request.depth, request.prompt_class.name, request.kind, request.asked_tokens


def _seconds(http: httpx.Client, engine: Engine, prompts: PromptTokenizer, request: Request) -> float:
    kind = request.prompt_class
    try:
        ids = prompts.tokens(request).ids
    except httpx.HTTPError as error:
        raise LaunchError(f"warming, {request.name}: the server stopped answering ({error})") from error
    call = engine.completion(ids, request.asked_tokens, Sampling(kind.sampling, kind.schema))
    got = sample(record(http, call), engine)
    if got.error or got.ttft_s is None:
        raise LaunchError(f"warming, {request.name}: {got.error or 'no token came'}")
    if got.server_prompt_s is not None and got.server_decode_s is not None:
        return got.server_prompt_s + got.server_decode_s
    return got.ttft_s + (got.decode_s or 0.0)


def unsettled(warmed: Sequence[Mapping[str, Any]]) -> list[str]:
    """Shapes that did not settle, in words."""
    return [
        f"depth {one['depth']}, {one['prompt_class']}, {one['asked_tokens']} tokens: not settled after "
        f"{one['requests']} requests"
        for one in warmed
        if not one["settled"]
    ]
