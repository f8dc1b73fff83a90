"""What the checks look at: the tables of all launches, requests joined with what the counters say of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from breakeven.analysis.cells import POSITIONS, RAN, TG
from breakeven.tables import ENGINES

CELL = ["arm", "round", "depth", "prompt_class"]
LAUNCH = ["arm", "round"]
COUNTED = "counted_"
"""Prefix of a request's columns that are differences of the server's counters around it."""


@dataclass(frozen=True)
class Measured:
    """Everything up to a look. `requests` holds the launches that ran, with columns of the arm and of the counters.

    `requests`, `events` and `counters` have numbers to join on, `launch` and `request`. Columns added to `requests`:
    n_spec (0: no drafts; NaN: not stated), drafting, gated, counted_<counter>, pos_<i> (accepted at each draft
    position), and drafts, drafted, accepted, window_s (s) and window_tokens by the best source there is.
    """

    experiment: Mapping[str, Any]
    launches: pd.DataFrame
    requests: pd.DataFrame
    events: pd.DataFrame
    counters: pd.DataFrame
    telemetry: pd.DataFrame
    step_bytes: Mapping[str, float] = field(default_factory=dict)
    eos_ids: tuple[int, ...] = ()
    natural_tokens: Mapping[str, Sequence[int | None]] | None = None
    margins: pd.DataFrame | None = None

    @property
    def name(self) -> str:
        """The experiment's name."""
        return str(self.experiment["name"])

    @property
    def baseline(self) -> str:
        """The arm that others are compared with."""
        return str(self.experiment["baseline"])

    @property
    def twins(self) -> list[str]:
        """The baseline's second names."""
        return [arm for arm, keys in self._arms if keys.get("repeat_of")]

    @property
    def plain_arms(self) -> list[str]:
        """The baseline and its second names."""
        return [self.baseline, *self.twins]

    @cached_property
    def forced_arms(self) -> list[str]:
        """Arms whose acceptance is forced: cost probes."""
        had = set(self.launches["arm"])
        return [arm for arm, keys in self._arms if keys.get("cost_only") and arm in had]

    @cached_property
    def arms(self) -> pd.DataFrame:
        """The arms that ran, in the order of their launches."""
        return pd.DataFrame({"arm": list(dict.fromkeys(self.launches["arm"]))})

    @cached_property
    def engine(self) -> str:
        """What the server speaks."""
        return str(self.experiment.get("engine"))

    @cached_property
    def tg(self) -> pd.DataFrame:
        """Decode requests that were answered in full."""
        return self.requests[(self.requests["kind"] == TG) & (self.requests["status"] == "ok")]

    @cached_property
    def answered(self) -> pd.DataFrame:
        """All requests that were answered in full, warm-up and prefill included."""
        return self.requests[self.requests["status"] == "ok"]

    @property
    def _arms(self) -> list[tuple[str, Mapping[str, Any]]]:
        return [(str(arm), keys or {}) for arm, keys in self.experiment["arms"].items()]


def measured(
    requests: pd.DataFrame,
    events: pd.DataFrame,
    counters: pd.DataFrame,
    telemetry: pd.DataFrame,
    launches: pd.DataFrame,
    experiment: Mapping[str, Any],
) -> Measured:
    """Join the tables. Launches that did not run are left out of `requests` and `launches`."""
    ran = launches[launches["status"].isin(RAN)].copy()
    n_spec = pd.to_numeric(ran["n_spec"]).astype(float)
    gated = ran["gated"].fillna(False).astype(bool) if "gated" in ran else pd.Series(False, ran.index)
    ran = ran.assign(
        n_spec=n_spec.where(n_spec.notna() | gated, 0.0), gated=gated, drafting=(n_spec > 0) | gated
    )
    key = _RequestKey(ran, requests)
    requests = key.on(_numbers(requests)).assign(prompt_class=requests["prompt_class"].astype("category"))
    requests = requests.merge(
        ran[[*LAUNCH, "n_spec", "gated", "drafting"]].astype({"arm": key.arms}), on=LAUNCH, how="inner"
    )
    counters, events = key.on(_numbers(counters)), key.on(events)
    requests = requests.assign(**_differences(requests, counters))
    return Measured(
        experiment,
        ran,
        _with_counts(requests),
        events,
        counters,
        telemetry,
    )


def _numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Nullable numbers as floats with NaN: one kind of missing value."""
    nullable = [name for name in frame if isinstance(frame[name].dtype, pd.Int64Dtype)]
    keys = {"round", "depth", "prompt", "rep", "seq", "slot", "event"}
    return frame.astype({name: "int64" if name in keys else "float64" for name in nullable})


class _RequestKey:
    """One number for each request of a launch that ran, so that tables join on it: column `request`."""

    def __init__(self, launches: pd.DataFrame, requests: pd.DataFrame) -> None:
        self.arms = pd.CategoricalDtype(list(dict.fromkeys(launches["arm"])))
        self._rounds = int(launches["round"].max()) + 1 if len(launches) else 1
        self._width = int(requests["seq"].max()) + 1 if len(requests) else 1

    def on(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The rows of launches that ran, `arm` as a category."""
        arm = frame["arm"].astype(self.arms)
        number, seq = (frame[name].to_numpy(dtype=np.int64) for name in ("round", "seq"))
        launch = arm.cat.codes.to_numpy().astype(np.int64) * self._rounds + number
        kept = (arm.cat.codes.to_numpy() >= 0) & (number < self._rounds) & (seq < self._width)
        frame = frame.assign(arm=arm, launch=launch, request=launch * self._width + seq)
        return frame if kept.all() else frame[kept]


def _differences(requests: pd.DataFrame, counters: pd.DataFrame) -> dict[str, np.ndarray]:
    """`counted_<counter>` and pos_<i> in the order of `requests`; NaN where a counter is not exposed."""
    count = len(requests)
    own, theirs = requests["request"].to_numpy(), counters["request"].to_numpy()
    order = np.argsort(own, kind="stable")
    known = own[order]
    place = np.minimum(np.searchsorted(known, theirs), max(count - 1, 0))
    hit = known[place] == theirs if count else np.zeros(len(theirs), dtype=bool)
    row = order[place[hit]] if count else place[hit]
    change = (counters["after"] - counters["before"]).to_numpy(dtype=float)[hit]
    after = counters["after"].to_numpy(dtype=float)[hit]
    codes, names = pd.factorize(counters["counter"])
    codes = codes[hit]
    position = counters["position"].to_numpy(dtype=float, na_value=np.nan)[hit]

    def column(mask: np.ndarray, values: np.ndarray) -> np.ndarray:
        filled = np.full(count, np.nan)
        filled[row[mask]] = values[mask]
        return filled

    found: dict[str, np.ndarray] = {}
    for code, name in enumerate(names):
        mask = codes == code
        if name == POSITIONS:
            deepest = int(np.nanmax(position[mask], initial=-1))
            found |= {f"pos_{i}": column(mask & (position == i), change) for i in range(deepest + 1)}
        elif name == ENGINES:
            found[ENGINES] = column(mask, after)
        else:
            found[COUNTED + str(name)] = column(mask, change)
    return found


def _with_counts(requests: pd.DataFrame) -> pd.DataFrame:
    """drafts, drafted and accepted: the request's own timings first, then the counters around it.

    The decode window and its tokens: the client's, and where it has none, the server's own from the first token on.
    """
    missing = pd.Series(np.nan, requests.index)

    def counted(name: str) -> pd.Series:
        return requests.get(COUNTED + name, missing)

    own = requests["decode_s"].astype(float)
    return requests.assign(
        window_s=own.fillna(requests["server_decode_s"].astype(float)),
        window_tokens=requests["completion_tokens"]
        - requests["first_event_tokens"].astype(float).fillna(1).where(own.notna(), 1.0),
        drafts=counted("drafts"),
        drafted=requests["draft_tokens"].astype(float).fillna(counted("draft_tokens")),
        accepted=requests["accepted_tokens"].astype(float).fillna(counted("accepted_tokens")),
    )


def counted(requests: pd.DataFrame, name: str) -> pd.Series:
    """Difference of a counter around each request; NaN where it is not exposed."""
    return requests.get(COUNTED + name, pd.Series(np.nan, requests.index))
