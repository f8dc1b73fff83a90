"""Every arm against the baseline within complete rounds: the matrix of launches and the ratios it gives."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from breakeven.analysis.estimate import Estimate, absent, exponential, point
from breakeven.analysis.family import equivalent, family
from breakeven.analysis.looks import ONE_LAUNCH, may_tie
from breakeven.analysis.noise import detectable
from breakeven.analysis.steps import Contrasts, contrasts, family_estimator, t_half

NOT_INTERLEAVED = "not interleaved with the baseline: measured in another session or at another time"


@dataclass(frozen=True)
class Matrix:
    """Complete rounds of one quantity: y and slots (rounds, arms), arm 0 the baseline; who was left out and why."""

    y: np.ndarray
    slots: np.ndarray
    rounds: tuple[int, ...]
    arms: tuple[str, ...]
    left_out: Mapping[str, str]
    launched: int

    @property
    def alone(self) -> str:
        """Why one complete round gives no interval."""
        if self.launched == 1:
            return ONE_LAUNCH
        return f"only round {self.rounds[0]} of {self.launched} is complete in every arm: {ONE_LAUNCH}"

    @property
    def known_slots(self) -> np.ndarray | None:
        """The slots where every launch has one."""
        return None if np.isnan(self.slots).any() else self.slots


def matrix(rows: pd.DataFrame, value: str, arms: Sequence[str]) -> Matrix:
    """Pivot one cell's rows (arm, round, slot, shared, value); a round that lacks an arm drops for all arms.

    An arm that shares fewer than half of the baseline's rounds is left out rather than costing the others theirs.
    """
    usable = rows[rows[value].notna() & rows["shared"]]
    wide = usable.pivot(index="round", columns="arm", values=value).reindex(columns=list(arms)).astype(float)
    wide = wide[wide[arms[0]].notna()]
    left_out = {}
    for arm in arms[1:]:
        had = int(wide[arm].notna().sum())
        if 2 * had < len(wide) or not had:
            of_arm = rows[(rows["arm"] == arm) & rows[value].notna()]
            apart = not of_arm.empty and not of_arm["shared"].any()
            few = f"{had} of {len(wide)} rounds have a usable value"
            left_out[arm] = NOT_INTERLEAVED if apart else few
    kept = [arm for arm in arms if arm not in left_out]
    wide = wide[kept].dropna()
    slots = usable.pivot(index="round", columns="arm", values="slot").reindex(index=wide.index, columns=kept)
    return Matrix(
        wide.to_numpy(),
        slots.to_numpy(dtype=float, na_value=np.nan),
        tuple(int(number) for number in wide.index),
        tuple(kept),
        left_out,
        int(rows["round"].nunique()),
    )


@dataclass(frozen=True)
class Ratio:
    """An arm's speed-up in one cell: simultaneous interval, its own p value and se (log), and what could be seen."""

    value: Estimate
    p: float | None = None
    log: float | None = None
    se: float | None = None
    df: int | None = None
    minimum_detectable_effect: float | None = None
    p_faster: float | None = None

    def equivalent(self, margin: float, alpha: float, rounds: int) -> bool | None:
        """Whether the ratio is inside 1 +- margin by equivalence test; None where so few rounds cannot prove it."""
        if self.log is None or self.se is None or self.df is None or not may_tie(rounds):
            return None
        return equivalent(self.log, self.se, self.df, margin, alpha)


def compare(
    table: Matrix, candidates: Sequence[str], alpha: float
) -> tuple[Contrasts | None, dict[str, Ratio], str]:
    """(contrasts, ratio of every arm but the baseline, how intervals were made) from logs of times.

    Candidates' intervals hold together (Dunnett); other arms have plain t intervals.
    """
    if len(table.y) == 0 or len(table.arms) < 2:
        return None, {arm: Ratio(absent(why)) for arm, why in table.left_out.items()}, "no complete round"
    if len(table.y) == 1:
        ones = {arm: math.exp(table.y[0, 0] - table.y[0, i]) for i, arm in enumerate(table.arms) if i}
        found = {arm: Ratio(point(value, table.alone)) for arm, value in ones.items()}
        return None, found | {arm: Ratio(absent(why)) for arm, why in table.left_out.items()}, table.alone
    pooled = contrasts(table.y, table.arms, table.known_slots, estimator="E8")
    found_all = contrasts(table.y, table.arms, table.known_slots, estimator=family_estimator(pooled.noise))
    judged = [arm for arm in table.arms[1:] if arm in candidates]
    together = family(found_all, judged, alpha) if judged else None
    plain = t_half(alpha, found_all.df)
    ratios = {arm: Ratio(absent(why)) for arm, why in table.left_out.items()}
    for arm in found_all.arms:
        log, se = -found_all.of(arm), found_all.se(arm)
        critical = together.critical if together and arm in judged else plain
        t = log / se if se > 0 else math.copysign(math.inf, log)
        ratios[arm] = Ratio(
            exponential(log, critical * se),
            p=float(2 * stats.t.sf(abs(t), found_all.df)),
            log=log,
            se=se,
            df=found_all.df,
            minimum_detectable_effect=math.expm1(detectable(se, found_all.df, critical)),
            p_faster=float(stats.t.sf(t, found_all.df)),
        )
    return found_all, ratios, together.method if together else found_all.estimator
