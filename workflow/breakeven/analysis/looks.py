"""When the data may be looked at, and at what level (Method 4)."""

from dataclasses import dataclass
from typing import Literal

from breakeven.errors import ConfigError

LOOKS = {3: 0.01, 5: 0.015, 8: 0.025}
"""Rounds at which `rounds: auto` looks, with the share of the error that each look may spend: .05 together."""
FIXED_ALPHA = 0.05
TIE_FROM_ROUNDS = 5
"""Fewer rounds cannot prove a tie."""
ONE_LAUNCH = "one launch per arm has no usable error"


@dataclass(frozen=True)
class Look:
    """One look at the data: rounds asked for, its level, and the look that follows."""

    rounds: int
    planned: int | Literal["auto"]
    alpha: float
    next_rounds: int | None
    cap: int
    rule: str


def look(planned: int | Literal["auto"], rounds: int | None = None) -> Look:
    """The look after `rounds` rounds of an experiment with `rounds: planned`; the first look when None.

    Raises ConfigError for rounds at which no look is planned.
    """
    if planned != "auto":
        if planned < 1 or rounds not in (None, planned):
            raise ConfigError(
                f"rounds: {planned}, looked at after {rounds}; a fixed number is looked at once, at its end"
            )
        rule = (
            ONE_LAUNCH
            if planned == 1
            else f"{planned} rounds, fixed before the first: one look at alpha {FIXED_ALPHA}"
        )
        return Look(planned, planned, FIXED_ALPHA, None, planned, rule)
    order = sorted(LOOKS)
    rounds = order[0] if rounds is None else rounds
    if rounds not in LOOKS:
        raise ConfigError(f"a look after {rounds} rounds is not planned; rounds: auto looks after {order}")
    later = [number for number in order if number > rounds]
    levels = ", ".join(f"{LOOKS[number]:g} at {number}" for number in order)
    rule = f"rounds are added until decided; the error of .05 is spent as {levels} rounds"
    return Look(rounds, "auto", LOOKS[rounds], later[0] if later else None, order[-1], rule)


def may_tie(rounds: int) -> bool:
    """Whether so many complete rounds may prove a tie."""
    return rounds >= TIE_FROM_ROUNDS
