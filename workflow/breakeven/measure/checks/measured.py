"""What the checks look at: the tables of all launches, requests joined with what the counters say of them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from breakeven.analysis.cells import POSITIONS, RAN, TG
from breakeven.measure.counters import ENGINES as ENGINES_COUNTED

CELL = ["arm", "round", "depth", "prompt_class"]
LAUNCH = ["arm", "round"]
COUNTED = "counted_"
"""Prefix of a request's columns that are differences of the server's counters around it."""
ENGINES = ENGINES_COUNTED[0]


@dataclass(frozen=True)
class Measured:
    """Everything up to a look. `requests` holds the launches that ran, with columns of the arm and of the counters.

    Columns added to `requests`: n_spec (0: no drafts; NaN: not stated), drafting, gated, counted_<counter>, pos_<i>
    (accepted at each draft position), and drafts, drafted, accepted by the best source there is.
    """

    experiment: Mapping[str, Any]
    launches: pd.DataFrame
    requests: pd.DataFrame
    events: pd.DataFrame
    counters: pd.DataFrame
    telemetry: pd.DataFrame
    step_bytes: Mapping[str, float] = field(default_factory=dict)
    eos_ids: tuple[int, ...] = ()
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
    step_bytes: Mapping[str, float] | None = None,
    eos_ids: Iterable[int] = (),
    margins: pd.DataFrame | None = None,
) -> Measured:
    """Join the tables. Launches that did not run are left out of `requests` and `launches`."""
    ran = launches[launches["status"].isin(RAN)].copy()
    n_spec = pd.to_numeric(ran["n_spec"]).astype(float)
    gated = ran["gated"].fillna(False).astype(bool) if "gated" in ran else pd.Series(False, ran.index)
    ran = ran.assign(
        n_spec=n_spec.where(n_spec.notna() | gated, 0.0), gated=gated, drafting=(n_spec > 0) | gated
    )
    arms = pd.CategoricalDtype(list(dict.fromkeys(ran["arm"])))
    requests, counters = (
        frame.assign(arm=frame["arm"].astype(arms)).pipe(_numbers) for frame in (requests, counters)
    )
    requests = requests.assign(prompt_class=requests["prompt_class"].astype("category"))
    requests = requests.merge(
        ran[[*LAUNCH, "n_spec", "gated", "drafting"]].astype({"arm": arms}), on=LAUNCH, how="inner"
    )
    requests = requests.assign(**_differences(requests, counters))
    return Measured(
        experiment,
        ran,
        _with_counts(requests),
        events,
        counters,
        telemetry,
        dict(step_bytes or {}),
        tuple(eos_ids),
        margins,
    )


def _numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Nullable numbers as floats with NaN: one kind of missing value."""
    nullable = [name for name in frame if isinstance(frame[name].dtype, pd.Int64Dtype)]
    keys = {"round", "depth", "prompt", "rep", "seq", "slot", "event"}
    return frame.astype({name: "int64" if name in keys else "float64" for name in nullable})


def _differences(requests: pd.DataFrame, counters: pd.DataFrame) -> dict[str, np.ndarray]:
    """`counted_<counter>` and pos_<i> in the order of `requests`; NaN where a counter is not exposed."""
    count, width = (
        len(requests),
        int(max(requests["seq"].max(), counters["seq"].max(), 0)) + 1 if len(requests) else 1,
    )
    rounds = int(requests["round"].max()) + 1 if count else 1
    counters = counters[counters["arm"].notna() & (counters["round"] < rounds)]

    def key(frame: pd.DataFrame) -> np.ndarray:
        launch = frame["arm"].cat.codes.to_numpy().astype(np.int64) * rounds + frame["round"].to_numpy()
        return np.asarray(launch * width + frame["seq"].to_numpy(), dtype=np.int64)

    own, theirs = key(requests), key(counters)
    order = np.argsort(own, kind="stable")
    known = own[order]
    place = np.minimum(np.searchsorted(known, theirs), max(count - 1, 0))
    hit = known[place] == theirs if count else np.zeros(len(theirs), dtype=bool)
    row = order[place[hit]] if count else place[hit]
    change = (counters["after"] - counters["before"]).to_numpy(dtype=float)[hit]
    after = counters["after"].to_numpy(dtype=float)[hit]
    codes, names = pd.factorize(counters["counter"].to_numpy()[hit])
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
    """drafts, drafted and accepted: the request's own timings first, then the counters around it."""
    missing = pd.Series(np.nan, requests.index)

    def counted(name: str) -> pd.Series:
        return requests.get(COUNTED + name, missing)

    return requests.assign(
        drafts=counted("drafts"),
        drafted=requests["draft_tokens"].astype(float).fillna(counted("draft_tokens")),
        accepted=requests["accepted_tokens"].astype(float).fillna(counted("accepted_tokens")),
    )


def counted(requests: pd.DataFrame, name: str) -> pd.Series:
    """Difference of a counter around each request; NaN where it is not exposed."""
    return requests.get(COUNTED + name, pd.Series(np.nan, requests.index))
