"""May acceptance be quoted from this output? Not past the natural end, not from loops or noise, not from few prompts.

Outputs are looked at in a sample of each cell; what a class does there it does everywhere.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from breakeven.analysis import lossless as outputs
from breakeven.analysis.checks.check import FINDING, Check, findings, undecided
from breakeven.analysis.checks.measured import Measured
from breakeven.analysis.evidence import FEW_PROMPTS, FEW_TOKENS

SAMPLE = 24
"""Outputs looked at per arm, depth and class."""
LOOPING_SHARE = 0.1
"""Share of outputs that may loop."""
LOOP_PART, LOOP_TURNS = 0.5, 3
"""An output loops when at least this part of it, at its end, is one pattern repeated at least so often."""
RANDOM_SHARE, RANDOM_TOKENS = 0.9, 100
"""Text of so many tokens repeats words: where more than this share of its tokens is distinct, it is noise."""
MEMORY_SHARE = 0.25
"""A drafter that accepts this much more in later repetitions of the same text remembers it."""
CELL_OF_ARM = ["arm", "depth", "prompt_class"]


def _sampled(measured: Measured) -> pd.DataFrame:
    """Up to SAMPLE different outputs with their token ids per arm, depth and class."""
    tg = measured.tg[[*CELL_OF_ARM, "output_sha256", "output_ids"]]
    tg = tg[tg["output_ids"].notna()].drop_duplicates([*CELL_OF_ARM, "output_sha256"])
    kept: pd.DataFrame = tg[tg.groupby(CELL_OF_ARM, observed=True, sort=False).cumcount() < SAMPLE]
    return kept


def _places(measured: Measured) -> pd.DataFrame:
    return measured.tg[CELL_OF_ARM].drop_duplicates().reset_index(drop=True)


UNSEEN = "token ids were not kept (a private class, or a server that sends none)"


def looping_part(ids: Sequence[int]) -> float:
    """Part of an output, at its end, that is one pattern repeated LOOP_TURNS times or more; 0 without one."""
    tokens = np.asarray(ids)
    longest = 0
    for period in range(1, len(tokens) // LOOP_TURNS + 1):
        same = tokens[period:] == tokens[:-period]
        run = len(same) if same.all() else int(np.argmin(same[::-1]))
        if run >= (LOOP_TURNS - 1) * period:
            longest = max(longest, run + period)
    return longest / len(tokens) if len(tokens) else 0.0


def not_looping(measured: Measured) -> pd.DataFrame:
    """Outputs do not end in a loop, which any drafter predicts."""
    seen = _sampled(measured)
    parts = {sha: looping_part(ids) for sha, ids in _distinct(seen)}
    loops = seen["output_sha256"].map(parts).astype(float) >= LOOP_PART
    groups = seen[CELL_OF_ARM].assign(loops=loops).groupby(CELL_OF_ARM, observed=True, sort=False)
    shares = groups.agg(share=("loops", "mean"), count=("loops", "size")).reset_index()
    table = _places(measured).merge(shares, on=CELL_OF_ARM, how="left")
    return findings(
        table,
        table["share"],
        table["share"] <= LOOPING_SHARE,
        holds="outputs do not loop",
        fails=lambda row: (
            f"{row.share:.0%} of {row.count:.0f} outputs end in a loop that fills at least {LOOP_PART:.0%} of them: "
            "any drafter predicts a loop, so do not quote this acceptance; ask for fewer tokens, or use other prompts"
        ),
        unknown=UNSEEN,
    )


def _distinct(seen: pd.DataFrame) -> list[tuple[str, Sequence[int]]]:
    once = seen.drop_duplicates("output_sha256")
    return list(zip(once["output_sha256"], once["output_ids"], strict=True))


def not_noise(measured: Measured) -> pd.DataFrame:
    """Outputs repeat words, as text does; random token ids do not."""
    seen = _sampled(measured)
    shares = {
        sha: len(np.unique(ids)) / len(ids) if len(ids) >= RANDOM_TOKENS else np.nan
        for sha, ids in _distinct(seen)
    }
    distinct = seen["output_sha256"].map(shares).astype(float)
    groups = seen[CELL_OF_ARM].assign(distinct=distinct).groupby(CELL_OF_ARM, observed=True, sort=False)
    table = _places(measured).merge(groups.median().reset_index(), on=CELL_OF_ARM, how="left")
    return findings(
        table,
        table["distinct"],
        table["distinct"] <= RANDOM_SHARE,
        holds="outputs repeat words as text does",
        fails=lambda row: (
            f"{row.distinct:.0%} of an output's tokens are distinct: this is noise, not text (random prompts, random "
            "weights); its acceptance says nothing about real use"
        ),
        unknown=f"outputs are shorter than {RANDOM_TOKENS} tokens, or " + UNSEEN,
    )


def not_past_the_end(measured: Measured) -> pd.DataFrame:
    """Outputs stop before their natural end, past which a model rambles."""
    places = _places(measured)
    if measured.natural_tokens is not None:
        asked = float(measured.experiment["workload"]["tg"])
        past_of = {name: _past_natural(asked, own) for name, own in measured.natural_tokens.items()}
        # A guided class is not asked: its outputs end where its schema does.
        share = places["prompt_class"].astype(str).map(past_of).astype(float).fillna(0.0)
        table, unknown = places.assign(share=share), ""
    elif not measured.eos_ids:
        return undecided(places, "which token ends a text is not known, or this engine never emits it")
    else:
        seen = _sampled(measured)
        past = {sha: _past_end(ids, measured.eos_ids) for sha, ids in _distinct(seen)}
        share = seen["output_sha256"].map(past).astype(float)
        groups = seen[CELL_OF_ARM].assign(share=share).groupby(CELL_OF_ARM, observed=True, sort=False)
        table, unknown = places.merge(groups.mean().reset_index(), on=CELL_OF_ARM, how="left"), UNSEEN
    return findings(
        table,
        table["share"],
        table["share"] == 0,
        holds="no output goes past its natural end",
        fails=lambda row: (
            f"{row.share:.0%} of the tokens come after the text's natural end: acceptance there is not that of "
            "answers; ask for fewer tokens, or take prompts with longer answers"
        ),
        unknown=unknown,
    )


def _past_natural(asked: float, natural: Sequence[int | None]) -> float:
    """Share of tokens past the natural end, where answers of these lengths (None: longer) go on to `asked` tokens."""
    return float(np.mean([0.0 if own is None else max(0.0, 1 - own / asked) for own in natural]))


def _past_end(ids: Sequence[int], eos: Sequence[int]) -> float:
    ends = np.flatnonzero(np.isin(ids, list(eos)))
    return 1 - (ends[0] + 1) / len(ids) if ends.size else 0.0


def enough_prompts(measured: Measured) -> pd.DataFrame:
    """Enough different prompts a class to speak of the class (Method 4)."""
    groups = measured.tg.groupby(CELL_OF_ARM, observed=True, sort=False)["prompt"]
    table = groups.nunique().rename("prompts").reset_index()
    return findings(
        table,
        table["prompts"],
        table["prompts"] >= FEW_PROMPTS,
        holds=f"{FEW_PROMPTS} prompts a class or more",
        fails=lambda row: (
            f"{row.prompts} of {FEW_PROMPTS} prompts wanted: acceptance is that of these, not of the class; "
            f"raise workload.prompts.{row.prompt_class}.count"
        ),
    )


def enough_tokens(measured: Measured) -> pd.DataFrame:
    """Requests long enough that the cut last draft does not weigh (Method 4)."""
    groups = measured.tg.groupby(CELL_OF_ARM, observed=True, sort=False)["completion_tokens"]
    table = groups.median().rename("tokens").reset_index()
    return findings(
        table,
        table["tokens"],
        table["tokens"] >= FEW_TOKENS,
        holds=f"{FEW_TOKENS} tokens a request or more",
        fails=lambda row: (
            f"{row.tokens:.0f} tokens a request, {FEW_TOKENS} wanted: the last draft, cut at the end, weighs visibly; "
            "raise workload.tg"
        ),
    )


def drafter_forgets(measured: Measured) -> pd.DataFrame:
    """An n-gram drafter does not accept more when a prompt's text comes again: it would remember the answer."""
    tg = measured.tg
    tg = tg[tg["drafting"] & tg["n_spec"].isna()]
    if tg.empty:
        return pd.DataFrame(columns=FINDING)
    share = (tg["accepted"] / tg["completion_tokens"]).astype(float)
    first = tg["rep"] == 0
    groups = tg[CELL_OF_ARM].assign(first=share.where(first), later=share.where(~first))
    table = groups.groupby(CELL_OF_ARM, observed=True, sort=False).mean().reset_index()
    return findings(
        table,
        table["later"] / table["first"] - 1,
        table["later"] <= (1 + MEMORY_SHARE) * table["first"],
        holds="repetitions accept no more than first requests",
        fails=lambda row: (
            f"later repetitions accept {row.value:+.0%} against the first of the same text: the drafter remembers "
            "earlier answers, which fresh requests do not offer; use reps: 1 and more prompts"
        ),
        unknown="one repetition only, or nothing was accepted",
    )


def lossless(measured: Measured) -> pd.DataFrame:
    """Every arm's greedy outputs against the baseline's, the baseline against itself first."""
    classes = measured.experiment["workload"].get("prompts", {})
    tg = outputs.comparable(measured.requests, classes, measured.forced_arms)
    if tg.empty:
        return undecided(
            measured.arms, "every class draws its tokens at random, so outputs cannot be compared"
        )
    itself, *arms = outputs.compare(tg, measured.baseline, measured.twins, measured.margins)
    if itself.passed is False:
        words = f"{itself.reason}; the baseline does not repeat itself, so arms are held against that"
        itself = replace(itself, kind="unknown", reason=words)
    return pd.DataFrame(
        [
            {"arm": one.arm, "passed": one.passed, "value": one.share, "reason": one.reason}
            for one in (itself, *arms)
        ]
    ).reindex(columns=FINDING)


CHECKS = (
    Check("lossless", "block", "outputs equal to the baseline's, near-ties apart", lossless, of_drafts=True),
    Check("not_looping", "warn", f"at most {LOOPING_SHARE:.0%} of the outputs", not_looping, of_drafts=True),
    Check("not_noise", "warn", f"at most {RANDOM_SHARE:.0%} distinct tokens", not_noise, of_drafts=True),
    Check(
        "not_past_the_end", "warn", "no token after an end-of-text token", not_past_the_end, of_drafts=True
    ),
    Check("enough_prompts", "warn", f"at least {FEW_PROMPTS} a class", enough_prompts),
    Check("enough_tokens", "warn", f"at least {FEW_TOKENS} a request", enough_tokens),
    Check(
        "drafter_forgets",
        "warn",
        f"at most {MEMORY_SHARE:.0%} more in later repetitions",
        drafter_forgets,
        of_drafts=True,
    ),
)
