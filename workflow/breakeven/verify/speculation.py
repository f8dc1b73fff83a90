"""Names of speculative methods: one method under the spellings of flags, logs and versions."""

import re
from collections.abc import Mapping

from breakeven.engine.facts import Facts

SPELLINGS: Mapping[str, str] = {
    "simple": "draft-model",
    "draft": "draft-model",
    "standalone": "draft-model",
    "nextn": "mtp",
    "prompt-lookup": "ngram",
    "[ngram]": "ngram",
}
"""A spelling, lower case with dashes and without a leading `draft-` -> the method's name here."""

WITHOUT_DRAFTER = ("ngram", "suffix")
"""Methods that draft from the text itself start with one of these; all others run a drafter."""


def methods(text: str) -> frozenset[str]:
    """The methods that a flag or a log line names; several stand with commas or + between them.

    vLLM's `qwen3_5_mtp`, `deepseek_mtp` and the like are its `mtp` since 0.12 ("deprecated and replaced with mtp").
    """
    named = (part.strip().lower().replace("_", "-") for part in re.split(r"[,+]", text))
    return frozenset(_canonical(name) for name in named if name and name != "none")


def _canonical(name: str) -> str:
    bare = name.removeprefix("draft-") if name != "draft-model" else name
    if bare.endswith("-mtp"):
        return "mtp"
    return SPELLINGS.get(bare, bare)


def has_drafter(text: str) -> bool:
    """Whether a method runs a model or head of its own to draft."""
    return any(not name.startswith(WITHOUT_DRAFTER) for name in methods(text))


def drafts_every_step(method: str, facts: Facts) -> bool:
    """Whether one short request shows that a method works: neither n-gram nor gated by confidence or length."""
    gated = any((facts.get(name) or 0) > 0 for name in ("p_min", "n_min"))
    return has_drafter(method) and not gated
