"""The kinds of acceptance figures that people publish, and the tokens per step that each means (Method 1.3, 2)."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import mul

from breakeven.analysis.cost import iid_length

Numbers = tuple[float, ...]
FRACTION = "a fraction from 0 to 1 (58 % is 0.58)"


@dataclass(frozen=True)
class Kind:
    """One kind of figure.

    `length(values, n)`: tokens per step with the bonus token. `basis` says of which steps: `n` = of steps that all
    draft n tokens, `drafted` = of the steps that drafted, `all` = of every step.
    """

    name: str
    aliases: tuple[str, ...]
    shape: str
    allowed: str
    check: Callable[[Numbers], bool]
    definition: str
    basis: str
    length: Callable[[Numbers, int | None], float]


def _fractions(values: Numbers) -> bool:
    return bool(values) and all(0 <= v <= 1 for v in values)


def _rate_from(n: int | None) -> int:
    if n is None:
        raise ValueError("no draft length")
    return n


def _whole(values: Numbers) -> bool:
    return all(v == int(v) and 0 <= v <= 1e15 for v in values)


KINDS: tuple[Kind, ...] = (
    Kind(
        "ratio",
        ("rate", "acceptance_rate", "accepted/drafted"),
        "number",
        FRACTION,
        _fractions,
        "accepted over drafted tokens; tokens per step = 1 + N x ratio when every step drafts N",
        "n",
        lambda v, n: 1 + _rate_from(n) * v[0],
    ),
    Kind(
        "alpha",
        ("iid", "iid_alpha"),
        "number",
        FRACTION,
        _fractions,
        "chance that a draft token is accepted after the ones before it were; tokens per step = "
        "(1 - alpha^(N+1))/(1 - alpha)",
        "n",
        lambda v, n: iid_length(v[0], _rate_from(n)),
    ),
    Kind(
        "bonus_ratio",
        ("ratio_bonus",),
        "number",
        FRACTION,
        _fractions,
        "emitted over drafted tokens, the bonus token counted in both; tokens per step = (N + 1) x ratio",
        "n",
        lambda v, n: (_rate_from(n) + 1) * v[0],
    ),
    Kind(
        "len",
        (
            "length",
            "mean_len",
            "acceptance_length",
            "accept_len",
            "tau",
            "emitted",
            "len_bonus",
            "len_with_bonus",
        ),
        "number",
        "a number from 0 to 10000",
        lambda v: 0 <= v[0] <= 10_000,
        "tokens that a step emits, bonus token included",
        "drafted",
        lambda v, n: v[0],
    ),
    Kind(
        "len_no_bonus",
        ("len_nobonus", "len_without_bonus", "accepted_len", "accepted_per_step", "accepted_per_draft"),
        "number",
        "a number from 0 to 10000",
        lambda v: 0 <= v[0] <= 10_000,
        "accepted draft tokens of a step, bonus token not included; tokens per step = 1 + length",
        "drafted",
        lambda v, n: 1 + v[0],
    ),
    Kind(
        "per_position",
        ("perpos", "per_pos", "pos", "surv", "survival"),
        "list",
        "a JSON list of fractions from 0 to 1, one per draft position",
        _fractions,
        "share of drafting steps that accepted position i and all before it; tokens per step = 1 + their sum",
        "drafted",
        lambda v, n: 1 + sum(v),
    ),
    Kind(
        "conditional",
        ("cond", "conditional_per_position"),
        "list",
        "a JSON list of fractions from 0 to 1, one per draft position",
        _fractions,
        "share of position i among steps that accepted all before it; tokens per step = 1 + sum of their products",
        "drafted",
        lambda v, n: 1 + sum(accumulate(v, mul)),
    ),
    Kind(
        "draftlen",
        ("draft_len", "mean_draft"),
        "list",
        "a JSON list [mean draft length, accepted/drafted], such as [3.3, 0.86]",
        lambda v: len(v) == 2 and 0 <= v[0] <= 10_000 and 0 <= v[1] <= 1,
        "mean draft length m and accepted/drafted; tokens per step = 1 + m x ratio",
        "drafted",
        lambda v, n: 1 + v[0] * v[1],
    ),
    Kind(
        "counts",
        ("counters", "drafts_accepted"),
        "list",
        "a JSON list [drafts, accepted] or [drafts, draft tokens, accepted] of whole numbers, drafts above 0",
        lambda v: len(v) in (2, 3) and _whole(v) and v[0] > 0 and (len(v) == 2 or v[2] <= v[1]),
        "steps that drafted and accepted tokens, counted; tokens per step = 1 + accepted/drafts",
        "drafted",
        lambda v, n: 1 + v[-1] / v[0],
    ),
    Kind(
        "predacc",
        ("pred_acc", "predicted_accepted"),
        "list",
        "a JSON list [completion tokens, accepted] of whole numbers, accepted below completion tokens - 1",
        lambda v: len(v) == 2 and _whole(v) and v[1] < v[0] - 1,
        "completion tokens P and accepted A; steps = P - 1 - A, as prefill gave the first token; tokens per step = "
        "(P - 1)/steps",
        "all",
        lambda v, n: (v[0] - 1) / (v[0] - 1 - v[1]),
    ),
    Kind(
        "none",
        ("", "n/a", "na", "-"),
        "none",
        "anything; it is not read",
        lambda v: True,
        "no acceptance was published",
        "all",
        lambda v, n: 1.0,
    ),
)
_BY_NAME = {name: kind for kind in KINDS for name in (kind.name, *kind.aliases)}


def kind_of(name: str) -> Kind | None:
    """The kind of this name or alias, in any case; None when it is not known."""
    key = name.strip().lower()
    return _BY_NAME.get(key) or _BY_NAME.get(key.replace(" ", "_").replace("-", "_"))


def rises(values: Numbers) -> bool:
    """Whether a per-position curve rises anywhere: survival cannot."""
    return any(after > before for before, after in pairwise(values))
