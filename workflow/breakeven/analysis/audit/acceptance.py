"""What one row's acceptance figure means, which of its words limit that, and what it cannot say.

The words of a table (setting, definition, notes) are searched for what makes a formula wrong: gates, trees, n-gram
drafters, drafting that was off. A search may refuse a row too many; the reason names the words, so a person can judge.
"""

import re
from dataclasses import dataclass

from breakeven.analysis.audit.kinds import KINDS, Kind, kind_of, rises
from breakeven.analysis.audit.table import Row
from breakeven.analysis.cost import survival

GATE = re.compile(r"\bp[-_ ]?(?:min|split)\s*[=:]?\s*(\d*\.?\d+)", re.IGNORECASE)
GATE_IN_WORDS = re.compile(r"\b(gated|adaptive|dynamic)\b", re.IGNORECASE)
GATE_IN_NOTES = re.compile(r"\bp[-_ ]?min\b[^0-9+]{0,40}(0?\.\d+)", re.IGNORECASE)
TREE = re.compile(r"(?<!no )(?<!not a )(?<!without )\b(trees?|medusa|sequoia)\b", re.IGNORECASE)
TOP_K = re.compile(r"\b(?:eagle[-_ ]?)?top[-_ ]?k\s*[=:]?\s*(\d+)", re.IGNORECASE)
CHAIN_OR_TREE = re.compile(r"eagle|sglang", re.IGNORECASE)
"""Drafters whose top-k, when it is named, is the width of the draft; elsewhere it is a sampler's."""
NGRAM = re.compile(r"n-?gram|prompt[- ]?lookup|lookup[- ]decod|suffix[- ]?decod", re.IGNORECASE)
OFF = re.compile(
    r"stop(s|ped)? drafting|(spec\w*|drafting) (is |was |were )?(inactive|off|disabled)|never drafted",
    re.IGNORECASE,
)
OTHER_RUN = re.compile(r"(different|another|other|separate)\b[^.;]{0,30}\brun\b", re.IGNORECASE)
NO_UNIT = re.compile(
    r"\bunits?\b[^.;,]{0,30}\b(unknown|unclear|ambiguous|missing|not (given|stated|published|known|named))\b"
    r"|\b(unknown|no) units?\b",
    re.IGNORECASE,
)
IID = re.compile(r"i\.?i\.?d\b|1\s*-\s*a(lpha)?\s*\^|α\^", re.IGNORECASE)
WITHOUT_BONUS = re.compile(
    r"(without|exclud\w*|excl\.?|no|minus)( the)? bonus|bonus (token )?(is )?(not|excluded)", re.I
)
BONUS_NAMED = re.compile(r"bonus|emitted|per verify|1 \+|\+ ?1", re.IGNORECASE)
ROUNDING = 5e-3
"""How far a published length may pass N + 1 by rounding."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A quantity that the row cannot give, with the reason. `code` is stable for programs."""

    quantity: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Tokens per step under the chosen definition.

    `every_step`: each step drafted N, as far as the table tells. `alternatives`: (words, tokens per step) of other
    readings of the same figure.
    """

    definition: str
    length: float | None = None
    survival: tuple[float, ...] | None = None
    every_step: bool = False
    refusals: tuple[Refusal, ...] = ()
    caveats: tuple[str, ...] = ()
    alternatives: tuple[tuple[str, float], ...] = ()


def gate(row: Row) -> float | None:
    """The gate that the setting names: 0 is off, None not named; a gate without a number counts as 1."""
    named = GATE.search(row.setting)
    if named:
        return float(named[1])
    return 1.0 if GATE_IN_WORDS.search(row.setting) else None


def read_acceptance(row: Row) -> Acceptance:
    """The row's tokens per step, or why there are none."""
    kind = kind_of(row.acc_kind)
    if kind is None:
        known = ", ".join(k.name for k in KINDS)
        words = f"acc_kind {row.acc_kind!r} is not known; known are {known}"
        return _refused("unknown definition", "unknown_kind", words)
    refusal = _refusal(row, kind)
    if refusal is not None:
        return _refused(kind.definition, *refusal)
    values = row.acc_value if isinstance(row.acc_value, tuple) else (row.acc_value or 0.0,)
    if kind.name == "len" and WITHOUT_BONUS.search(row.acc_definition):
        kind = _kind("len_no_bonus")
    length = kind.length(values, row.n)
    contradiction = _contradiction(row, kind, values, length)
    if contradiction is not None:
        return _refused(kind.definition, *contradiction)
    gated = (gate(row) or 0) > 0
    drafts_n = kind.basis != "all" and not gated and not _shorter_drafts(kind, values, row.n)
    return Acceptance(
        definition=kind.definition,
        length=length,
        survival=_survival(row, kind, values),
        every_step=drafts_n,
        caveats=_caveats(row, kind, gated),
        alternatives=_alternatives(row, kind, values, length),
    )


def _refused(definition: str, code: str, reason: str) -> Acceptance:
    return Acceptance(definition, refusals=(Refusal("tokens per step", code, reason),))


def _kind(name: str) -> Kind:
    return next(kind for kind in KINDS if kind.name == name)


def _refusal(row: Row, kind: Kind) -> tuple[str, str] | None:
    words = f"{row.acc_definition} {row.notes}"
    gated, published = (gate(row) or 0) > 0, row.acc_value is not None
    drafter = f"{row.engine} {row.model} {row.setting}"
    tree = TREE.search(f"{drafter} {words}")
    wide = TOP_K.search(drafter) if CHAIN_OR_TREE.search(drafter) else None
    off = OFF.search(words)
    if tree or (wide and int(wide[1]) > 1):
        found = tree or wide
        said = found[0] if found else ""
        return "tree_draft", f"{said!r}: drafts form a tree, so N is not the depth and N + 1 not the ceiling"
    if off:
        return (
            "drafting_off",
            f"{off[0]!r}: most steps did not draft, so the run does not show what a drafting step costs",
        )
    if not published and gated and kind.name == "none":
        return "gated_without_draft_length", "a gate shortens drafts and no mean draft length was published"
    if not published:
        return "no_acceptance", "no acceptance was published, so tokens per step and step cost are unknown"
    if NO_UNIT.search(row.acc_definition):
        return "unit_unknown", "the table does not say what its acceptance figure counts"
    if kind.basis != "all" and NGRAM.search(drafter):
        return (
            "ngram_not_every_step",
            "an n-gram drafter drafts in some steps only, and the undrafted steps are not counted",
        )
    if kind.basis == "n" and gated:
        return (
            "gated_without_draft_length",
            "a gate shortens drafts: 1 + N x ratio is wrong without the mean draft length",
        )
    if kind.basis == "n" and not row.n:
        return "no_draft_length", "the draft length N was not published, which this figure needs"
    return None


def _contradiction(row: Row, kind: Kind, values: tuple[float, ...], length: float) -> tuple[str, str] | None:
    if length < 1:
        return (
            "length_below_one",
            f"{length:g} tokens per step: a step emits at least one; is the bonus token missing?",
        )
    if row.n is not None and length > row.n + 1 + ROUNDING:
        return (
            "length_beyond_n",
            f"{length:.4g} tokens per step at N={row.n}: at most {row.n + 1} can be emitted",
        )
    if kind.name == "per_position" and rises(values):
        return (
            "survival_rises",
            "a later position is accepted more often than an earlier one; are these conditional rates?",
        )
    if (
        kind.shape == "list"
        and kind.name in ("per_position", "conditional")
        and row.n
        and len(values) != row.n
    ):
        return "positions_missing", f"{len(values)} positions at N={row.n}; one rate per position is needed"
    return None


def _shorter_drafts(kind: Kind, values: tuple[float, ...], n: int | None) -> bool:
    if n is None:
        return True
    if kind.name == "draftlen":
        return values[0] < n - ROUNDING
    if kind.name == "counts" and len(values) == 3:
        return values[1] / values[0] < n - ROUNDING
    return False


def _survival(row: Row, kind: Kind, values: tuple[float, ...]) -> tuple[float, ...] | None:
    if kind.name == "per_position":
        return values
    if kind.name == "conditional":
        return survival(values)
    return row.survival


def _caveats(row: Row, kind: Kind, gated: bool) -> tuple[str, ...]:
    found = []
    noted = GATE_IN_NOTES.search(f"{row.acc_definition} {row.notes}")
    if kind.basis == "n" and gate(row) is None and noted and float(noted[1]) > 0:
        found.append(
            f"a gate of {noted[1]} may have been on: then drafts are shorter than N and tokens per step, step cost and "
            "break-even are upper bounds"
        )
    if gated and kind.basis == "drafted":
        found.append(
            "steps in which the gate stopped the first draft are not counted: tokens per step is an upper bound"
        )
    if OTHER_RUN.search(f"{row.acc_definition} {row.notes}"):
        found.append("the table says that acceptance comes from another run than the speed")
    if row.inferred:
        found.append(f"inferred by the typist: {row.inferred}")
    return tuple(found)


def _alternatives(
    row: Row, kind: Kind, values: tuple[float, ...], length: float
) -> tuple[tuple[str, float], ...]:
    if kind.name == "ratio" and IID.search(row.acc_definition) and row.n:
        other = _kind("alpha")
        return ((f"as the author used it: {other.definition}", other.length(values, row.n)),)
    if (
        kind.name == "len"
        and not BONUS_NAMED.search(row.acc_definition)
        and (row.n is None or length <= row.n)
    ):
        return (("if the bonus token is not included", length + 1),)
    if kind.name == "predacc":
        completion, accepted = values
        return (("if the first token is counted as a decode step", completion / (completion - accepted)),)
    return ()
