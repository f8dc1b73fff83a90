"""Tables of launches whose truth is known, made request by request and reduced by the real code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from breakeven.analysis import cells as reduce
from breakeven.tables import CHECKS

TOKENS = 257
T0_S = 0.027
PREFILL_TOK_S = 1400.0
NEW_TOKENS = 2048


@dataclass(frozen=True)
class TrueArm:
    """An arm: step cost in baseline steps, conditional acceptance by position (none: drafts nothing), prefill rate."""

    cost: float = 1.0
    conditional: Sequence[float] = ()
    prefill: float = 1.0
    computed_share: float = 1.0
    prefill_s_per_draft: float = 0.0
    repeat_of: str | None = None
    cost_only: bool = False
    by_class: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Tables:
    cells: pd.DataFrame
    prompts: pd.DataFrame
    checks: pd.DataFrame
    experiment: dict[str, object]


def no_checks() -> pd.DataFrame:
    return pd.DataFrame(columns=CHECKS.names)


def check(arm: str, passed: bool | None, *, name: str = "requests", **changes: object) -> dict[str, object]:
    row: dict[str, object] = {
        "experiment": "ab",
        "arm": arm,
        "round": None,
        "depth": None,
        "prompt_class": None,
    }
    row |= {"check": name, "severity": "block", "passed": passed, "value": None, "allowed": "all ok"}
    return row | {"reason": "it was found so"} | changes


def steps_of(rng: np.random.Generator, conditional: Sequence[float], decode: int) -> tuple[int, np.ndarray]:
    """(steps, accepted by position) of one lossless request; the last step may overshoot, as engines count it."""
    n = len(conditional)
    chance = rng.uniform(size=(decode, n)) < np.asarray(conditional)
    lengths = np.cumprod(chance, axis=1)
    emitted = np.cumsum(1 + lengths.sum(axis=1))
    steps = int(np.searchsorted(emitted, decode)) + 1
    return steps, lengths[:steps].sum(axis=0)


def simulate(
    arms: Mapping[str, TrueArm],
    *,
    rounds: int = 3,
    sd: float = 0.004,
    depths: Sequence[int] = (0,),
    classes: Sequence[str] = ("code",),
    n_prompts: int = 12,
    seed: int = 0,
    drift_per_round: float = 0.02,
    planned: int | str | None = None,
    **experiment: object,
) -> Tables:
    """Interleaved rounds in random order with launch noise `sd` and drift; the first arm is the baseline."""
    rng = np.random.default_rng(seed)
    requests, counters, launches = [], [], []
    clock = 0.0
    for number in range(1, rounds + 1):
        for slot, name in enumerate(rng.permutation(list(arms))):
            arm, clock = arms[name], clock + 100.0
            slow = np.exp(sd * rng.standard_normal() + drift_per_round * number)
            n = len(arm.conditional)
            key = {"arm": name, "round": number}
            launches.append(
                key
                | {
                    "slot": slot,
                    "started_at": clock,
                    "session": "a",
                    "n_spec": n or None,
                    "status": "measured",
                }
            )
            seq = 0
            for depth in depths:
                for prompt_class in classes:
                    place = key | {"slot": slot, "depth": depth, "prompt_class": prompt_class, "status": "ok"}
                    prefill_s = NEW_TOKENS / PREFILL_TOK_S / arm.prefill * slow + arm.prefill_s_per_draft * n
                    requests.append(
                        place
                        | {"prompt": 0, "rep": 0, "seq": seq, "kind": "pp", "ttft_s": prefill_s}
                        | {
                            "planned_new_tokens": NEW_TOKENS,
                            "computed_tokens": NEW_TOKENS * arm.computed_share,
                        }
                    )
                    seq += 1
                    for prompt in range(n_prompts):
                        q = arm.by_class.get(prompt_class, arm.conditional)
                        steps, accepted = steps_of(rng, q, TOKENS - 1) if n else (TOKENS - 1, np.zeros(0))
                        seconds = steps * arm.cost * T0_S * (1 + depth / 1e5) * slow
                        requests.append(
                            place
                            | {
                                "prompt": prompt,
                                "rep": 0,
                                "seq": seq,
                                "kind": "tg",
                                "ttft_s": 0.1,
                                "decode_s": seconds,
                            }
                            | {"completion_tokens": TOKENS, "first_event_tokens": 1}
                        )
                        if n:
                            counts = [("drafts", None, steps), ("draft_tokens", None, steps * n)]
                            counts += [("accepted_tokens", None, accepted.sum())]
                            counts += [("accepted_per_pos", i, value) for i, value in enumerate(accepted)]
                            counters += [
                                key
                                | {"seq": seq, "counter": c, "position": i, "before": 5.0, "after": 5.0 + v}
                                for c, i, v in counts
                            ]
                        seq += 1
    rows = reduce.per_request(
        pd.DataFrame(requests, columns=list(reduce.REQUEST_COLUMNS)),
        pd.DataFrame(counters, columns=list(reduce.COUNTER_COLUMNS)),
    )
    frame = pd.DataFrame(launches).astype({"n_spec": "Int64"})
    described = {
        name: {
            "n_spec": len(arm.conditional) or None,
            "repeat_of": arm.repeat_of,
            "cost_only": arm.cost_only,
            "gated": False,
        }
        for name, arm in arms.items()
    }
    document: dict[str, object] = {
        "name": "ab", "question": "does it pay?", "baseline": next(iter(arms)), "arms": described,
        "margin": 0.02, "rounds": planned or rounds,
    }  # fmt: skip
    return Tables(
        reduce.cells(rows, frame, "ab"),
        reduce.prompts(rows, frame, "ab"),
        no_checks(),
        document | experiment,
    )
