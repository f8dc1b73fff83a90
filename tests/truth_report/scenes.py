"""Sound experiments that faults are put into: reference servers, workloads and the places of their launches."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import pandas as pd

from truth_report.experiment import BASE, NGRAM, Launch, Tables, document, launch, resolved, tables_of
from truth_report.fleet import fleet

from reference_server import Faults, Truth

NOTHING: Mapping[str, Any] = MappingProxyType({})
TWIN = "base_again"
SMALL = ("enough_prompts", "enough_tokens")
FREE = {"a": 1.02, "b": 0.0, "undrafted_cost": 1.02}
"""Drafts without weights: a step costs the same with and without one."""
BANDWIDTH_GB_S = 600.0
BYTES_PER_S = 5e11
"""What a baseline step of a sound server reads, in bytes per second of its length: within the bandwidth."""
CONTEXT = 4096
READINGS = {
    "gpu_clock_mhz": 1700.0,
    "temperature_junction_c": 60.0,
    "power_cap_w": 300.0,
    "throttle_power": 0.0,
    "other_busy_processes": 0.0,
}
"""What sensors of a quiet device would say, the same in every launch: a reference server has no device."""
SAMPLES = 3


@dataclass(frozen=True)
class Place:
    """One launch of a scene. `since` is its share of the scene's time, 0 to 1."""

    arm: str
    round: int
    slot: int
    since: float


@dataclass(frozen=True)
class Scene:
    """A sound experiment. `arms`: as `document` takes them, with what differs from `truth` in each.

    `small`: checks that call this workload small, as it is.
    """

    arms: Mapping[str, tuple[Any, Mapping[str, Any]]]
    truth: Truth
    workload: Mapping[str, Any]
    engines: tuple[str, ...]
    rounds: int = 1
    small: tuple[str, ...] = SMALL

    def places(self) -> list[Place]:
        """The launches in their order, which turns from round to round."""
        arms, last = list(self.arms), self.rounds * len(self.arms) - 1
        return [
            Place(arms[(slot + number) % len(arms)], number, slot, ((number - 1) * len(arms) + slot) / last)
            for number in range(1, self.rounds + 1)
            for slot in range(len(arms))
        ]

    def truth_at(self, place: Place) -> Truth:
        """The sound server of a launch; its noise is the same in every run."""
        number = place.round * len(self.arms) + place.slot
        return replace(self.truth, launch=number, **self.arms[place.arm][1])


REQUESTS = Scene(
    arms={name: (n, {"n": n}) for name, n in ((BASE, 0), ("n1", 1), ("n3", 3))},
    truth=Truth(t0_s=0.002, ttft_s=0.004, prompt_tokens_details=True, drop_last_block=False),
    workload={
        "pp": 40,
        "tg": 48,
        "depths": [0, 512],
        "reps": 1,
        "warmup": 1,
        "prompts": {"natural": {"count": 3}},
    },
    engines=("vllm", "llamacpp"),
)
"""Faults inside a request."""
ROUNDS = Scene(
    arms={
        BASE: (0, NOTHING),
        TWIN: (BASE, NOTHING),
        "n3": (3, {"n": 3}),
        "ngram": (NGRAM, {"n": 3, "gate": 0.5, "acceptance": (0.4,) * 3} | FREE),
    },
    truth=Truth(t0_s=0.002, ttft_s=0.005, launch_noise_sd=0.003),
    workload={
        "pp": 40,
        "tg": 33,
        "depths": [0],
        "reps": 2,
        "warmup": 1,
        "prompts": {"natural": {"count": 3}},
    },
    engines=("llamacpp",),
    rounds=3,
)
"""Faults that show from request to request, or from launch to launch."""
TEXT = Scene(
    arms={BASE: (0, NOTHING), "n3": (3, {"n": 3})},
    truth=Truth(t0_s=0.001, ttft_s=0.003, prompt_tokens_details=True, words=64),
    workload={
        "pp": 40,
        "tg": 257,
        "depths": [0],
        "reps": 1,
        "warmup": 1,
        "prompts": {"natural": {"count": 12}},
    },
    engines=("vllm",),
    small=(),
)
"""As many and as long answers as are wanted, of words that come again."""
SCENES = {"requests": REQUESTS, "rounds": ROUNDS, "text": TEXT}


def spec_of(name: str, engine: str) -> dict[str, Any]:
    """A scene's experiment, resolved."""
    scene = SCENES[name]
    arms = {arm: flags for arm, (flags, _) in scene.arms.items()}
    experiment = document(engine, arms, scene.workload, scene.rounds)
    return resolved(experiment, name) | {"bandwidth_gb_s": BANDWIDTH_GB_S}


def step_bytes(name: str) -> dict[str, float]:
    """Bytes that a decode step of each arm of a scene reads."""
    return dict.fromkeys(SCENES[name].arms, BYTES_PER_S * SCENES[name].truth.t0_s)


def sound(name: str, engine: str, spec: Mapping[str, Any]) -> list[Launch]:
    """The launches of a scene without a fault, one after the other."""
    scene = SCENES[name]
    places = scene.places()
    with fleet([(engine, scene.truth_at(place), Faults()) for place in places]) as urls:
        return [
            launch(url, spec, place.arm, place.round, place.slot)
            for url, place in zip(urls, places, strict=True)
        ]


def seen(launches: list[Launch], spec: Mapping[str, Any]) -> Tables:
    """The tables of launches, with the facts and readings that a reference server has none of."""
    found = tables_of(launches, spec)
    table = found.launches.assign(n_ctx=CONTEXT, late_compiles=0)
    rows = [
        {
            **{key: getattr(one, key) for key in ("arm", "round", "slot")},
            "at": one.started_at + sample,
            "device": "stand-in",
            "quantity": quantity,
            "value": value,
            "source": "truth report",
        }
        for one in table.itertuples()
        for sample in range(SAMPLES)
        for quantity, value in READINGS.items()
    ]
    return replace(found, launches=table, telemetry=pd.DataFrame(rows))
