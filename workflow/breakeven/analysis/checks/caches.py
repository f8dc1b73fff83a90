"""Was the prompt as long, and as much of it cached, as planned, and the same in every arm (Method 1.2)?"""

import math

import numpy as np
import pandas as pd

from breakeven.analysis.cells import PP, TG
from breakeven.analysis.checks.check import Check, findings, undecided
from breakeven.analysis.checks.measured import Measured
from breakeven.analysis.checks.tokens import by_cell
from breakeven.analysis.experiment import MARGIN
from breakeven.analysis.prefix_cache import computed_tokens
from breakeven.errors import BreakevenError

SHARED_TOKENS = 4
"""Two salts may begin alike: so many new tokens can come from a cache without harm."""
BLOCK_TOKENS = range(16, 4096 + 1, 16)
"""Cache block sizes that are looked for when a block that was given up is named: engines take multiples of 16."""


def prompt_as_planned(measured: Measured) -> pd.DataFrame:
    """The server saw as many prompt tokens as were sent: nothing cut off, nothing added."""
    asked = measured.answered
    off = asked["prompt_tokens"].astype(float) - (asked["depth"] + asked["planned_new_tokens"].astype(float))
    table = by_cell(asked, off=off, size=off.abs()).agg(off=("off", "median"), worst=("size", "max"))
    table = table.reset_index()
    return findings(
        table,
        table["worst"],
        table["worst"] == 0,
        holds="every prompt had the length that was planned",
        fails=lambda row: (
            f"prompts are up to {row.worst:.0f} tokens off their planned length (typically {row.off:+.0f}): the server "
            "cut the context or added tokens, so this is another depth; raise its context length"
        ),
        unknown="the server does not tell prompt tokens",
    )


def same_prompts(measured: Measured) -> pd.DataFrame:
    """Every arm of a round got the same prompts."""
    if measured.experiment.get("runtime") == "attach":
        return undecided(measured.arms, "attached servers get salts of their own in each launch")
    key = ["round", "depth", "prompt_class", "prompt", "rep", "kind"]
    asked = measured.requests[measured.requests["kind"].isin([PP, TG])]
    own = asked[asked["arm"] == measured.baseline][[*key, "prompt_sha256"]]
    both = asked[asked["arm"] != measured.baseline].merge(own, on=key, suffixes=("", "_base"))
    other = both["prompt_sha256"] != both["prompt_sha256_base"]
    table = by_cell(both, other=other, all=pd.Series(1, both.index)).sum().reset_index()
    return findings(
        table,
        table["other"],
        table["other"] == 0,
        holds="the prompts are the baseline's",
        fails=lambda row: (
            f"{row.other} of {row.all} prompts differ from the baseline's: the tokenizers or the workload differ, so "
            "the arms did not do the same work; serve the same model files in both"
        ),
    )


def new_tokens_computed(measured: Measured) -> pd.DataFrame:
    """What should be new was computed, not taken from a cache."""
    asked = measured.answered[measured.answered["kind"].isin([PP, TG])]
    missing = asked["planned_new_tokens"].astype(float) - asked["computed_tokens"].astype(float)
    table = by_cell(asked, missing=missing).max().reset_index()
    return findings(
        table,
        table["missing"].clip(lower=0),
        table["missing"] <= SHARED_TOKENS,
        holds="new tokens were computed",
        fails=lambda row: (
            f"up to {row.missing:.0f} tokens that should be new came from a prefix cache: prefill was not measured; "
            "restart the server between launches, or change the seed"
        ),
        unknown=_NOT_TOLD,
    )


_NOT_TOLD = (
    "the server does not tell cached tokens (vLLM does with --enable-prompt-tokens-details, unless its prefix cache "
    "is off)"
)


def depth_cached(measured: Measured) -> pd.DataFrame:
    """The context of the depth came from the cache, so that prefill times are those of the new tokens."""
    asked = measured.answered[(measured.answered["kind"] == PP) & (measured.answered["depth"] > 0)]
    again = asked["computed_tokens"].astype(float) - asked["planned_new_tokens"].astype(float)
    table = by_cell(asked, again=again, new=asked["planned_new_tokens"]).max().reset_index()
    allowed = np.maximum(MARGIN * table["new"], SHARED_TOKENS)
    return findings(
        table,
        table["again"],
        table["again"] <= allowed,
        holds="the context came from the cache",
        fails=lambda row: (
            f"up to {row.again:.0f} of {row.depth} context tokens were computed again beside {row.new:.0f} new ones: "
            "read prefill per computed token; decode is not concerned (whole cache blocks, or no prefix cache)"
        ),
        unknown=_NOT_TOLD,
    )


def computed_equal(measured: Measured) -> pd.DataFrame:
    """An arm computed as many prompt tokens as the baseline did for the same prompt, where prefill is measured."""
    asked = measured.answered[measured.answered["kind"] == PP]
    columns = {name: asked[f"{name}_tokens"].astype(float) for name in ("computed", "cached")}
    typical = by_cell(asked, **columns).median().reset_index()
    own = typical[typical["arm"] == measured.baseline].drop(columns="arm")
    arms = typical[typical["arm"] != measured.baseline]
    both = arms.merge(own, on=["round", "depth", "prompt_class"], suffixes=("", "_base"))
    more = both["computed"] - both["computed_base"]
    blocks = {
        str(arm): dropped_block(dict(zip(of_arm["depth"], of_arm["cached"], strict=True)))
        for arm, of_arm in both[both["depth"] > 0].groupby("arm", observed=True)
    }
    return findings(
        both,
        more,
        more.abs() <= SHARED_TOKENS,
        holds="as many prompt tokens are computed as in the baseline",
        fails=lambda row: (
            f"{row.computed:.0f} prompt tokens are computed where the baseline computes {row.computed_base:.0f}"
            + (blocks[row.arm] if row.value > 0 and row.arm in blocks else "")
            + "; compare prefill per computed token, per new token this looks like a regression"
        ),
        unknown=_NOT_TOLD,
    )


def dropped_block(cached: dict[int, float]) -> str:
    """Which cache block size explains the cached tokens of every depth when one whole block is given up."""
    known = {depth: int(hit) for depth, hit in cached.items() if math.isfinite(hit)}
    if not known or not any(known.values()):
        return ""
    sizes = [
        size for size in BLOCK_TOKENS if all(_gives_up_one(depth, hit, size) for depth, hit in known.items())
    ]
    if not sizes:
        return ""
    return f", as when one cache block of {' or '.join(map(str, sizes[:3]))} tokens is given up under speculation"


def _gives_up_one(depth: int, cached: int, block: int) -> bool:
    try:
        return depth - computed_tokens(depth, 0, block, dropped_blocks=1) == cached
    except BreakevenError:
        return False


def within_context(measured: Measured) -> pd.DataFrame:
    """Prompt and completion fit the server's context; past it text is lost or attention windows shift."""
    if "n_ctx" not in measured.launches:
        return undecided(measured.arms, "the server's context length is not known")
    limits = measured.launches[["arm", "round", "n_ctx"]].astype({"n_ctx": float})
    asked = measured.requests
    used = asked["prompt_tokens"].astype(float) + asked["completion_tokens"].astype(float)
    table = by_cell(asked, used=used).max().reset_index().astype({"arm": object})
    table = table.merge(limits, on=["arm", "round"], how="left")
    return findings(
        table,
        (table["used"] - table["n_ctx"]).clip(lower=0),
        (table["used"] <= table["n_ctx"]).where(table["n_ctx"].notna()).astype(float),
        holds="prompt and completion fit the context",
        fails=lambda row: (
            f"prompt and completion together are {row.used:.0f} tokens, the context holds {row.n_ctx:.0f}: raise the "
            "server's context length, or lower depths, pp or tg"
        ),
        unknown="the server's context length is not known",
    )


CHECKS = (
    Check("prompt_as_planned", "block", "equal", prompt_as_planned),
    Check("same_prompts", "block", "equal to the baseline's", same_prompts),
    Check(
        "new_tokens_computed", "block", f"at most {SHARED_TOKENS} tokens from a cache", new_tokens_computed
    ),
    Check(
        "depth_cached", "warn", f"at most {MARGIN:.0%} of the new tokens, or {SHARED_TOKENS}", depth_cached
    ),
    Check("computed_equal", "warn", f"{SHARED_TOKENS} tokens", computed_equal),
    Check("within_context", "block", "prompt + completion <= context", within_context),
)
