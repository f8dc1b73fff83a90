"""Does an arm emit the tokens that the baseline emits for the same prompt?

Greedy decoding with lossless speculation must. The baseline is compared with itself first: where two runs of it
differ, numerics alone flip near-tied tokens, and an arm that differs no more than that has shown nothing. Where an arm
first chose another token, the baseline's margin between the two tells a flipped tie from a defect.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from breakeven.tables import OK

TIE_MARGIN = 0.25
"""Margin (log probability) below which a first difference is a tie that numerics flip: two steps of bfloat16 at logits
of 16 to 32, which is how finely many engines know them."""

LOSSY_SHARE = 0.5
"""Share of differing outputs above which flipped ties are no explanation where margins are not known."""

PLACES_A_CELL = 8
"""First differences of an arm, depth and class whose margin is asked for."""

LosslessClass = Literal["identical", "tie flip", "diverges", "as the baseline itself", "unknown"]
OUTPUT_COLUMNS = (
    *("arm", "round", "seq", "depth", "prompt_class", "rep", "kind", "status"),
    *("prompt_sha256", "output_sha256", "output_ids"),
)


@dataclass(frozen=True)
class Lossless:
    """One arm's outputs against the baseline's on the same prompts; indices count completion tokens from 0.

    `margin`: the largest known one at a first difference, in log probability.
    """

    arm: str
    prompts: int
    diverging: int = 0
    first_divergence: int | None = None
    median_divergence: float | None = None
    margin: float | None = None
    kind: LosslessClass = "unknown"
    reason: str = "no output on a prompt that the baseline had too"

    @property
    def share(self) -> float | None:
        """Part of the outputs that differ."""
        return self.diverging / self.prompts if self.prompts else None

    @property
    def passed(self) -> bool | None:
        """Whether the arm is lossless; None: without margins, up to LOSSY_SHARE of differing outputs leave it open."""
        if self.kind == "diverges":
            clear = self.margin is not None and self.margin >= TIE_MARGIN
            return False if clear or (self.share or 0) > LOSSY_SHARE else None
        return None if self.kind == "unknown" else True


def comparable(
    requests: pd.DataFrame, prompt_classes: Mapping[str, Any], forced: Collection[str]
) -> pd.DataFrame:
    """Decode requests of which equal outputs can be wanted: not drawn at random, not of arms with forced acceptance.

    `prompt_classes`: the section `prompts` of a workload.
    """
    drawn = [
        name
        for name, keys in prompt_classes.items()
        if float(((keys or {}).get("sampling") or {}).get("temperature", 0) or 0) > 0
    ]
    tg = requests[list(OUTPUT_COLUMNS)]
    kept: pd.DataFrame = tg[
        (tg["kind"] == "tg") & ~tg["prompt_class"].isin(drawn) & ~tg["arm"].isin(list(forced))
    ]
    return kept


def compare(
    requests: pd.DataFrame, baseline: str, twins: Sequence[str] = (), margins: pd.DataFrame | None = None
) -> list[Lossless]:
    """Every arm against the baseline; first the baseline against its twins and its own further runs.

    `requests`: as `comparable` gives them. `margins`: the table MARGINS, of the first differences that were
    asked about; None: of none.
    """
    outputs = paired(requests, baseline, twins)
    if margins is not None:
        asked = margins[["arm", "prompt_sha256", "token", "arm_id", "margin", "reason"]].drop_duplicates()
        outputs = outputs.merge(
            asked, on=["arm", "prompt_sha256", "token", "arm_id"], how="left", indicator="asked"
        )
    arms = [arm for arm in dict.fromkeys(requests["arm"]) if arm != baseline and arm not in twins]
    itself, *others = (_arm(arm, outputs[outputs["arm"] == arm]) for arm in (baseline, *arms))
    return [itself, *(_excused(arm, itself) for arm in others)]


def paired(requests: pd.DataFrame, baseline: str, twins: Sequence[str] = ()) -> pd.DataFrame:
    """Every output beside the baseline's first one on the same prompt; twins count as further runs of the baseline.

    Columns: arm, depth, prompt_class, prompt_sha256; round, seq, baseline_ids (of the baseline's request); differs;
    token (index of the first difference, null where token ids are unknown), baseline_id, arm_id (null where an output
    ended).
    """
    answered = (requests["status"] == OK) & requests["output_sha256"].notna()
    tg = requests[answered].astype({"arm": str, "prompt_class": str})
    own = tg[tg["arm"] == baseline].drop_duplicates("prompt_sha256")
    rest = tg.drop(index=own.index).drop(columns=["round", "seq"])
    rest["arm"] = rest["arm"].where(~rest["arm"].isin(list(twins)), baseline)
    own = own[["prompt_sha256", "round", "seq", "output_sha256", "output_ids"]]
    own = own.rename(columns={"output_sha256": "baseline_sha256", "output_ids": "baseline_ids"})
    both = rest.merge(own, on="prompt_sha256")
    both["differs"] = both["output_sha256"] != both["baseline_sha256"]
    pairs = zip(both["baseline_ids"], both["output_ids"], both["differs"], strict=True)
    places = [first_difference(a, b) if differs else None for a, b, differs in pairs]
    both["token"] = pd.array(places, dtype="Int64")
    for name, texts in (("baseline_id", both["baseline_ids"]), ("arm_id", both["output_ids"])):
        found = [_at(ids, place) for ids, place in zip(texts, places, strict=True)]
        both[name] = pd.array(found, dtype="Int64")
    kept: pd.DataFrame = both[
        [
            *("arm", "depth", "prompt_class", "prompt_sha256", "round", "seq", "baseline_ids"),
            *("differs", "token", "baseline_id", "arm_id"),
        ]
    ]
    return kept


def to_ask(outputs: pd.DataFrame) -> pd.DataFrame:
    """Rows of `paired` whose margin tells what they are: first differences, the same one once, PLACES_A_CELL a cell."""
    known = outputs[outputs["token"].notna()].drop_duplicates(["arm", "prompt_sha256", "token", "arm_id"])
    cells = known.groupby(["arm", "depth", "prompt_class"], sort=False)
    kept: pd.DataFrame = known[cells.cumcount() < PLACES_A_CELL].reset_index(drop=True)
    return kept


def first_difference(a: np.ndarray | None, b: np.ndarray | None) -> int | None:
    """Index of the first token that differs, or the shorter length when one output ends early; None: equal, unknown."""
    if a is None or b is None:
        return None
    common = min(len(a), len(b))
    different = np.flatnonzero(np.asarray(a)[:common] != np.asarray(b)[:common])
    if different.size:
        return int(different[0])
    return None if len(a) == len(b) else common


def _at(ids: np.ndarray | None, place: int | None) -> int | None:
    return None if ids is None or place is None or place >= len(ids) else int(ids[place])


def _arm(arm: str, outputs: pd.DataFrame) -> Lossless:
    total, different = len(outputs), outputs[outputs["differs"]]
    if not total:
        return Lossless(arm, 0)
    if different.empty:
        return Lossless(arm, total, kind="identical", reason=f"all {total} outputs are identical")
    places = different["token"].dropna().astype(int)
    first, median = (int(places.min()), float(places.median())) if len(places) else (None, None)
    words = f"{len(different)} of {total} outputs differ from the baseline's"
    words += "" if first is None else f", the first at token {first}"
    kind, margin, more = _margins(different)
    return Lossless(arm, total, len(different), first, median, margin, kind, words + more)


def _margins(different: pd.DataFrame) -> tuple[LosslessClass, float | None, str]:
    """What the margins at first differences say: kind, the largest, in words."""
    if "asked" not in different:
        return "diverges", None, "; the baseline's margins there were not asked for"
    asked = different[different["asked"] == "both"]
    known = asked["margin"].dropna()
    largest = float(known.max()) if len(known) else None
    if largest is not None and largest >= TIE_MARGIN:
        token = asked.loc[asked["margin"] == largest, "token"].iloc[0]
        return (
            "diverges",
            largest,
            f"; in one of them, at token {token}, the baseline prefers its own token by {largest:.2f} in log "
            f"probability, where numerics flip ties below {TIE_MARGIN}",
        )
    if len(known) == len(asked) > 0:
        looked = "all" if len(asked) == len(different) else f"all {len(asked)} looked at"
        return (
            "tie flip",
            largest,
            f", {looked} at near-ties (largest margin {largest:.3f} in log probability)",
        )
    why = next(iter(asked["reason"].dropna()), "their token ids are not on record")
    return "diverges", largest, f"; the baseline's margins there are not known: {why}"


def _excused(arm: Lossless, itself: Lossless) -> Lossless:
    """A divergence hardly more frequent than that of the baseline against itself shows nothing about the arm."""
    own = itself.share if itself.kind == "diverges" else None
    if arm.kind != "diverges" or not own or arm.share is None or arm.share > 2 * own:
        return arm
    words = f"{arm.reason}; two runs of the baseline differ in {own:.0%} of outputs themselves"
    return replace(arm, kind="as the baseline itself", reason=words)
