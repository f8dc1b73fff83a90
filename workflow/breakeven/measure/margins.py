"""How sure the baseline was where another output took another token: its own request again, log probabilities on.

Nothing is timed here: asking for log probabilities costs time, so measured requests never do.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import httpx

from breakeven.engine.base import Engine, Sampling
from breakeven.errors import LaunchError
from breakeven.measure.client import ids_sha256, record, sample
from breakeven.measure.server_tokenizer import ServerTokenizer
from breakeven.measure.workload import Request
from breakeven.tables import PLACE_KEYS

Place = Mapping[str, Any]
"""A row of DIFFERENCES."""

TOP = 5
"""Most likely tokens asked for at every place."""


def unknown(places: Iterable[Place], reason: str) -> list[dict[str, Any]]:
    """Rows of MARGINS that say why nothing is known."""
    return [_row(place, reason=reason) for place in places]


def ask(
    http: httpx.Client,
    engine: Engine,
    places: Iterable[Place],
    planned: Callable[[int], Sequence[Request]],
) -> Iterator[dict[str, Any]]:
    """Rows of MARGINS, one for each row of DIFFERENCES. `planned`: the requests of a round.

    Raises LaunchError when the server stops answering.
    """
    key = itemgetter("round", "seq")
    try:
        prompts = ServerTokenizer(http, engine).prompts()
        for (round, seq), group in groupby(sorted(places, key=key), key=key):
            request, here = planned(round)[seq], list(group)
            ids = prompts.tokens(request).ids
            if ids_sha256(ids) == here[0]["prompt_sha256"]:
                yield from _replayed(http, engine, request, ids, here)
            else:
                yield from unknown(here, "the prompt cannot be made again: its text or the tokenizer changed")
    except httpx.HTTPError as error:
        raise LaunchError(f"the server stopped answering ({error})") from error


def _replayed(
    http: httpx.Client, engine: Engine, request: Request, prompt: Sequence[int], places: Sequence[Place]
) -> Iterator[dict[str, Any]]:
    kind = request.prompt_class
    tokens = max(place["token"] for place in places) + 1
    asked = engine.completion(prompt, tokens, Sampling(kind.sampling, kind.schema))
    answer = sample(record(http, engine.with_logprobs(asked, TOP)), engine)
    if answer.error:
        yield from unknown(places, f"the server did not answer: {answer.error}")
        return
    likely = [tokens for timed in answer.events for tokens in timed.event.top_logprobs]
    chosen = answer.output_ids or ()
    for place in places:
        at = place["token"]
        if place["baseline_id"] is None or place["arm_id"] is None:
            yield _row(place, reason="one of the two outputs ended there")
        elif len(likely) != len(chosen) or at >= len(likely):
            yield _row(place, reason="the server gives no log probabilities")
        elif chosen[:at] != tuple(place["baseline_ids"][:at]):
            yield _row(place, reason="asked again, the baseline left its own output before that token")
        else:
            yield _row(place, margin=max(likely[at].values()) - _logprob(likely[at], place["arm_id"]))


def _logprob(likely: Mapping[int, float], token: int) -> float:
    """Log probability of a token; of the least likely one that is named where the token is not among them."""
    return likely.get(token, min(likely.values()))


def _row(place: Place, *, margin: float | None = None, reason: str | None = None) -> dict[str, Any]:
    keys = {field.name: place[field.name] for field in PLACE_KEYS}
    return keys | {"margin": margin, "reason": reason}
