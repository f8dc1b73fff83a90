"""A sound experiment as tables, written from its truth: what checks must be silent about, and what tests spoil.

Two launches' worth of noise is in it (0.2 %), a baseline step of 10 ms that grows with the depth, C(N) = 1.05 + 0.15 N.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

ARMS = {"base": 0, "base_again": 0, "mtp1": 1, "mtp3": 3}
DEPTHS = (0, 512)
ROUNDS = 3
PROMPTS = 12
REPS = 2
PP, TOKENS = 64, 257
ACCEPTED = (0.8, 0.6, 0.5)
VOCABULARY = 200


@dataclass
class Tables:
    """Everything `checks.run` takes."""

    requests: pd.DataFrame
    events: pd.DataFrame
    counters: pd.DataFrame
    telemetry: pd.DataFrame
    launches: pd.DataFrame
    experiment: dict[str, Any]
    also: dict[str, Any] = field(default_factory=dict)

    def copy(self) -> "Tables":
        frames = ("requests", "events", "counters", "telemetry", "launches")
        arms = {arm: dict(keys) for arm, keys in self.experiment["arms"].items()}
        return replace(
            self,
            **{name: getattr(self, name).copy() for name in frames},
            experiment=self.experiment | {"arms": arms},
            also=dict(self.also),
        )


def sound(engine: str = "vllm", tokens: int = TOKENS, cost_only: tuple[str, ...] = ()) -> Tables:
    """The tables of three rounds of four arms at two depths."""
    noise = np.random.default_rng(7)
    requests, events, counters, launches, telemetry = [], [], [], [], []
    for number in range(1, ROUNDS + 1):
        for slot, arm in enumerate(np.roll(list(ARMS), number)):
            started = 1000.0 * number + 100.0 * slot
            launch = {"experiment": "e", "arm": str(arm), "round": number, "slot": slot}
            launches.append(launch | {"started_at": started, "ended_at": started + 90, "n_spec": ARMS[arm]})
            telemetry += _telemetry(launch, started)
            rows = _Launch(launch, ARMS[arm], engine, tokens, noise)
            requests += rows.requests
            events += rows.events
            counters += rows.counters
    table = pd.DataFrame(launches).assign(
        gated=False, status="measured", session="s", n_ctx=4096, late_compiles=0
    )
    arms = {
        arm: {
            "n_spec": n,
            "repeat_of": "base" if arm == "base_again" else None,
            "cost_only": arm in cost_only,
            "server": {"args": {"n": n}},
        }
        for arm, n in ARMS.items()
    }
    return Tables(
        pd.DataFrame(requests),
        pd.DataFrame(events),
        pd.DataFrame(counters),
        pd.DataFrame(telemetry),
        table,
        {
            "name": "e",
            "engine": engine,
            "runtime": "process",
            "baseline": "base",
            "margin": 0.02,
            "arms": arms,
            "workload": {"pp": PP, "tg": tokens, "prompts": {"natural": {"count": PROMPTS}}},
            "bandwidth_gb_s": 100,
        },
        {"step_bytes": dict.fromkeys(ARMS, 0.5e9), "eos_ids": (VOCABULARY,)},
    )


class _Launch:
    """Rows of one launch: per depth a prefix, then pp and tg requests."""

    def __init__(
        self, launch: dict[str, Any], n: int, engine: str, tokens: int, noise: np.random.Generator
    ) -> None:
        self.requests: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.counters: list[dict[str, Any]] = []
        self._launch, self._n, self._engine, self._tokens, self._noise = launch, n, engine, tokens, noise
        self._factor = np.exp(0.002 * noise.standard_normal())
        self._total: dict[tuple[str, int | None], float] = {("completion_tokens", None): 1000.0}
        for depth in DEPTHS:
            if depth:
                self._request(depth, "depth", 0, 0)
            for kind in ("pp", "tg"):
                for rep in range(REPS):
                    for prompt in range(PROMPTS):
                        self._request(depth, kind, prompt, rep)

    def _request(self, depth: int, kind: str, prompt: int, rep: int) -> None:
        seq, asked = len(self.requests), self._tokens if kind == "tg" else 1
        drafted, accepted, cost = self._steps(depth, prompt, rep) if kind == "tg" else ([], [], 1.0)
        step_s = 0.010 * (1 + depth / 5000) * cost * self._factor
        at = np.cumsum(step_s * np.exp(0.002 * self._noise.standard_normal(len(drafted))))
        ttft, decode = 0.05 * self._factor, float(at[-1]) if len(at) else 0.0
        ids = np.random.default_rng([self._launch["round"], depth, prompt, rep, kind == "tg"]).integers(
            0, VOCABULARY, asked
        )
        new = 0 if kind == "depth" else PP
        own_clock = self._engine == "llamacpp"
        m, a = sum(drafted), sum(accepted)
        self.requests.append(
            {
                **self._launch, "depth": depth, "prompt_class": "natural", "prompt": prompt, "rep": rep, "seq": seq,
                "kind": kind, "status": "ok", "error": None, "asked_tokens": asked, "planned_new_tokens": new,
                "prompt_tokens": depth + new, "cached_tokens": 0 if kind == "depth" else depth,
                "computed_tokens": depth if kind == "depth" else new, "completion_tokens": asked,
                "id_tokens": asked, "first_event_tokens": 1,
                "token_events": 1 + len(drafted) if not own_clock else asked, "bursts": 1 + len(drafted),
                "ttft_s": ttft, "decode_s": decode,
                "server_decode_s": decode if own_clock else None,
                "draft_tokens": m if own_clock and m else None, "accepted_tokens": a if own_clock and m else None,
                "stop": "limit", "prompt_sha256": f"{self._launch['round']}/{depth}/{kind}/{prompt}/{rep}",
                "output_sha256": str(ids.tolist()), "output_ids": ids,
            }
        )  # fmt: skip
        where = self._launch | {"seq": seq}
        arrivals = [ttft, *(ttft + at)]
        self.events += [
            where | {"event": i, "arrived_s": t, "kind": "token", "tokens": 1, "running_tokens": None}
            for i, t in enumerate(arrivals)
        ]
        counts = {"completion_tokens": asked, "prompt_tokens": depth + new, "requests": 1}
        if self._n:
            counts |= {
                "drafts": sum(k > 0 for k in drafted),
                "draft_tokens": m,
                "accepted_tokens": a,
            }
        changes: dict[tuple[str, int | None], float] = {(name, None): c for name, c in counts.items()}
        changes |= {("accepted_per_pos", i): sum(k > i for k in accepted) for i in range(self._n)}
        for key, change in {**changes, ("engines", None): 0}.items():
            before = self._total.setdefault(key, 1.0 if key[0] == "engines" else 0.0)
            self._total[key] = before + change
            self.counters.append(
                where | {"counter": key[0], "position": key[1], "before": before, "after": self._total[key]}
            )

    def _steps(self, depth: int, prompt: int, rep: int) -> tuple[list[int], list[int], float]:
        """Drafted and accepted tokens of every step (llama.cpp cuts the last draft), and the step's cost."""
        draws = np.random.default_rng([self._launch["round"], depth, prompt, rep]).random(self._tokens)
        drafted, accepted, left = [], [], self._tokens - 1
        for u in draws:
            if left <= 0:
                break
            k = min(self._n, left - 1) if self._engine == "llamacpp" else self._n
            hit = sum(u < s for s in ACCEPTED[:k])
            drafted.append(k)
            accepted.append(hit)
            left -= hit + 1
        return drafted, accepted, 1.05 + 0.15 * self._n if self._n else 1.0


def _telemetry(launch: dict[str, Any], started: float) -> list[dict[str, Any]]:
    quantities = {
        "gpu_clock_mhz": 1700, "temperature_junction_c": 60, "power_cap_w": 300, "throttle_power": 0,
        "other_busy_processes": 0,
    }  # fmt: skip
    return [
        launch
        | {"at": started + i, "device": "gpu", "quantity": name, "value": float(value), "source": "sysfs"}
        for i in range(5)
        for name, value in quantities.items()
    ]
