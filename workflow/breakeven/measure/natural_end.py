"""Where answers would end by themselves, for engines that do not show it: the measured prompts, allowed to end.

Measured requests go on to a fixed length. An engine that forbids the end token to do so leaves no trace of the place
behind which a model rambles, and acceptance there is not that of answers.
"""

from dataclasses import replace

import httpx

from breakeven.engine.base import Engine, Sampling
from breakeven.errors import LaunchError
from breakeven.measure.client import record, sample
from breakeven.measure.server_tokenizer import ServerTokenizer
from breakeven.measure.settling import DISCARDED_ROUND
from breakeven.measure.workload import Workload, plan


def natural_tokens(
    http: httpx.Client, engine: Engine, workload: Workload, seed: int
) -> dict[str, list[int | None]]:
    """Completion tokens of each prompt's own answer at the first depth, by class; None: longer than `tg`.

    Classes with a schema end by themselves anyway and are left out. Raises LaunchError when a request fails.
    """
    open_ended = tuple(kind for kind in workload.classes if kind.schema is None)
    asked = replace(workload, depths=workload.depths[:1], classes=open_ended, reps=1, warmup=1)
    found: dict[str, list[int | None]] = {kind.name: [] for kind in open_ended}
    try:
        prompts = ServerTokenizer(http, engine).prompts()
        for request in plan(asked, seed, DISCARDED_ROUND):
            if request.kind != "tg":
                continue
            kind = request.prompt_class
            call = engine.completion(
                prompts.tokens(request).ids, request.asked_tokens, Sampling(kind.sampling, may_end=True)
            )
            answer = sample(record(http, call), engine)
            if answer.error or answer.completion_tokens is None:
                raise LaunchError(f"{request.name}, allowed to end: {answer.error or 'no token came'}")
            ended = answer.completion_tokens < request.asked_tokens
            found[kind.name].append(answer.completion_tokens if ended else None)
    except httpx.HTTPError as error:
        raise LaunchError(f"the server stopped answering ({error})") from error
    return found
