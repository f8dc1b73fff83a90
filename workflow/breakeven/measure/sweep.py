"""All requests of one launch, in planned order, into table rows."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx

from breakeven.engine.base import Engine, Sampling
from breakeven.errors import LaunchError
from breakeven.measure import counters
from breakeven.measure.client import Sample, ids_sha256, record, sample
from breakeven.measure.prompt_tokens import PromptTokens
from breakeven.measure.server_tokenizer import ServerTokenizer
from breakeven.measure.workload import Request, check_fits

logger = logging.getLogger(__name__)

MAX_CONSECUTIVE_FAILURES = 3


@dataclass
class Rows:
    """Rows of one launch's tables, in the order of their requests."""

    requests: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    counters: list[dict[str, Any]] = field(default_factory=list)


def run(
    http: httpx.Client,
    engine: Engine,
    plan: Sequence[Request],
    keys: Mapping[str, Any],
    *,
    n_ctx: int | None,
    alive: Callable[[], bool],
    rows: Rows,
) -> None:
    """Send every planned request and append its rows; a failed request is a row with its error.

    Raises LaunchError when the server is gone or fails several requests in a row; `rows` keeps what was measured.
    """
    prompts = ServerTokenizer(http, engine).prompts()
    failures = 0
    began = time.monotonic()
    for done, request in enumerate(plan):
        _say_progress(plan, done, began, keys)
        try:
            tokens = prompts.tokens(request)
        except httpx.HTTPError as error:
            raise LaunchError(f"{request.name}: the server stopped answering ({error})") from error
        if n_ctx is not None:
            check_fits(request, tokens.new_tokens, n_ctx)
        result = _one(http, engine, request, tokens, keys, rows)
        failures = failures + 1 if result.error else 0
        if result.error and not alive():
            raise LaunchError(f"{request.name}: the server ended while it answered ({result.error})")
        if failures >= MAX_CONSECUTIVE_FAILURES:
            raise LaunchError(
                f"{request.name}: {failures} requests in a row failed, the last with: {result.error}"
            )


def _one(
    http: httpx.Client,
    engine: Engine,
    request: Request,
    tokens: PromptTokens,
    keys: Mapping[str, Any],
    rows: Rows,
) -> Sample:
    kind = request.prompt_class
    call = engine.completion(tokens.ids, request.asked_tokens, Sampling(kind.sampling, kind.schema))
    try:
        before = counters.scrape(http, engine)
        result = sample(record(http, call), engine)
        rows.requests.append(_request_row(request, tokens, result, keys))
        after = counters.scrape_after(http, engine, before, result.completion_tokens)
        if result.server_decode_s is None:
            rows.requests[-1] |= counters.request_times(before, after)
    except httpx.HTTPError as error:
        raise LaunchError(f"{request.name}: the server stopped answering ({error})") from error
    launch = {name: keys[name] for name in ("experiment", "arm", "round", "slot")} | {"seq": request.seq}
    rows.events += [
        launch
        | {
            "event": order,
            "arrived_s": timed.arrived_s,
            "kind": timed.event.kind,
            "tokens": len(timed.event.token_ids),
            "running_tokens": timed.event.running_tokens,
        }
        for order, timed in enumerate(result.events)
    ]
    rows.counters += [
        launch | {"counter": name, "position": position, "before": before[name, position], "after": value}
        for (name, position), value in after.items()
        if (name, position) in before
    ]
    return result


def _request_row(
    request: Request, tokens: PromptTokens, result: Sample, keys: Mapping[str, Any]
) -> dict[str, Any]:
    error = result.error
    asked = request.asked_tokens
    if error is None and request.prompt_class.ignore_eos and result.completion_tokens != asked:
        error = (
            f"{asked} tokens were asked for, {result.completion_tokens} came: a short run is not averaged in"
        )
    ids = result.output_ids
    figures = {
        name: getattr(result, name)
        for name in Sample.__dataclass_fields__
        if name not in ("events", "error", "output_ids")
    }
    return {
        **keys,
        "depth": request.depth,
        "prompt_class": request.prompt_class.name,
        "prompt": request.prompt,
        "rep": request.rep,
        "seq": request.seq,
        "kind": request.kind,
        **figures,
        "status": "error" if error else "ok",
        "error": error,
        "asked_tokens": asked,
        "planned_new_tokens": tokens.new_tokens,
        "prompt_sha256": ids_sha256(tokens.ids),
        "output_sha256": ids_sha256(ids) if ids else None,
        "output_ids": list(ids) if ids and not request.prompt_class.private else None,
    }


def _say_progress(plan: Sequence[Request], done: int, began: float, keys: Mapping[str, Any]) -> None:
    """One line a cell: which cell, and how long this launch still takes at the rate so far."""
    request, before = plan[done], plan[done - 1] if done else None
    if before and (before.depth, before.prompt_class) == (request.depth, request.prompt_class):
        return
    left = f", about {(time.monotonic() - began) / done * (len(plan) - done):.0f} s left" if done else ""
    logger.info(
        "%s/%s round %s: depth %d, %s (request %d of %d%s)",
        *(keys["experiment"], keys["arm"], keys["round"], request.depth, request.prompt_class.name),
        *(done + 1, len(plan), left),
    )
