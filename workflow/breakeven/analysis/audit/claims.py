"""An author's own figures and verdict beside what the same table gives."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from breakeven.analysis.audit.arm import Arm
from breakeven.analysis.audit.fit import Fit
from breakeven.analysis.audit.readings import Readings

AGREES = 0.02
"""Relative difference up to which a figure counts as confirmed: the tie margin of Method 4."""

OF_ONE_N = ("claimed_cost", "claimed_breakeven")


@dataclass(frozen=True)
class Claim:
    """One claim and what became of it.

    `status`: confirmed; corrected: the printed figures say otherwise; withdrawn: it holds only under the less
    likely reading of the speeds; open: it hangs on a reading that is undecided; unsupported: the table cannot tell.
    """

    n: int | None
    quantity: str
    claimed: str
    found: str | None
    status: str
    reason: str


def check_claims(arms: Sequence[Arm], fit: Fit | None, readings: Readings | None) -> tuple[Claim, ...]:
    """Check what the rows of a group claim."""
    doubted = readings if readings is not None and readings.favoured != "tok/s" else None
    return tuple(claim for arm in arms for claim in _claims(arm, fit, doubted))


def _claims(arm: Arm, fit: Fit | None, doubted: Readings | None) -> Iterator[Claim]:
    steps = None if doubted is None else doubted.steps.line
    cost = None if steps is None or not arm.row.n else steps.at(arm.row.n)
    found = {
        "claimed_cost": ("step cost C", arm.cost, cost),
        "claimed_a": ("a", fit.line.a if fit else None, steps.a if steps else None),
        "claimed_b": ("b", fit.line.b if fit else None, steps.b if steps else None),
        "claimed_breakeven": (
            "break-even accepted/drafted",
            arm.at_n.breakeven_rate if arm.at_n else None,
            None if cost is None or not arm.row.n else (cost - 1) / arm.row.n,
        ),
    }
    for key, (quantity, printed, as_steps) in found.items():
        if key in arm.row.extra:
            claimed = arm.row.extra[key]
            agrees = printed is not None and abs(printed - claimed) <= AGREES * abs(claimed)
            words = [] if printed is None else [f"{printed:.4g} from the printed figures"]
            words += [] if as_steps is None else [f"{as_steps:.4g} if they are steps/s"]
            yield Claim(
                n=arm.row.n if key in OF_ONE_N else None,
                quantity=quantity,
                claimed=f"{claimed:g}",
                found=None if printed is None else f"{printed:.4g}",
                status="unsupported" if printed is None else _status(agrees, doubted),
                reason="; ".join(words) or "the table does not give this figure",
            )
    if arm.row.claimed_verdict:
        yield _verdict(arm, doubted)


def _status(agrees: bool, doubted: Readings | None) -> str:
    if not agrees:
        return "corrected"
    if doubted is None:
        return "confirmed"
    return "withdrawn" if doubted.favoured == "steps/s" else "open"


def _verdict(arm: Arm, doubted: Readings | None) -> Claim:
    claimed, n = arm.row.claimed_verdict, arm.row.n
    if arm.speedup is None:
        return Claim(n, "verdict", claimed, None, "unsupported", "the table gives no speed-up")
    printed = "loses" if arm.speedup <= 1 else "pays"
    if arm.at_n is not None and not arm.at_n.possible:
        printed = "impossible"
    agrees = printed == claimed or (printed, claimed) == ("impossible", "loses")
    words = f"speed-up {arm.speedup:.3f} as printed"
    if doubted is not None:
        words += ", as steps/s " + " / ".join(f"{r:.2f}" for r in doubted.steps.speedup)
        words += " for N = " + " / ".join(map(str, doubted.n))
    return Claim(n, "verdict", claimed, printed, _status(agrees, doubted), words)
