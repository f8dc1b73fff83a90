"""Numbers as text: sensible digits, units, intervals; what is not known reads "unknown", never nan, None or 0."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

UNKNOWN = "unknown"
MOST_DECIMALS = 6

Estimate = Mapping[str, Any]
"""`{"value", "low", "high", "reason"}` as verdict.json has it."""


def known(value: float | None) -> bool:
    """Whether there is a number to show."""
    return value is not None and math.isfinite(value)


def fixed(value: float | None, decimals: int = 3) -> str:
    """A number with so many decimals."""
    if value is None or not known(value):
        return UNKNOWN
    text = f"{value:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0 else text


def decimals_of(value: float, digits: int = 4) -> int:
    """Decimals that give a number so many significant digits."""
    if value == 0:
        return 0
    return min(max(digits - 1 - math.floor(math.log10(abs(value))), 0), MOST_DECIMALS)


def significant(value: float | None, digits: int = 4) -> str:
    """A number with so many significant digits: 36.13, 1058.9 becomes 1059."""
    return UNKNOWN if value is None or not known(value) else fixed(value, decimals_of(value, digits))


def percent(share: float | None, decimals: int = 1) -> str:
    """A share as a percentage: 0.886 is 88.6 %."""
    return UNKNOWN if share is None or not known(share) else f"{fixed(100 * share, decimals)} %"


def change(ratio: float | None) -> str:
    """A ratio as what it changes: 0.838 is −16.2 %."""
    if ratio is None or not known(ratio):
        return UNKNOWN
    text = fixed(100 * (ratio - 1), 1)
    sign = "" if float(text) == 0 else "−" if text.startswith("-") else "+"
    return f"{sign}{text.lstrip('-')} %"


def level(alpha: float) -> str:
    """The confidence level of intervals at this alpha: 95 %, 98.5 %."""
    return f"{100 * (1 - alpha):.4g} %"


def whole(value: float | None) -> str:
    """A count: 262,144."""
    return UNKNOWN if value is None or not known(value) else f"{int(value):,}"


def seconds(value: float | None) -> str:
    """A duration: 0.31 s, 12.4 s, 3 min 20 s, 2 h 5 min."""
    if value is None or not known(value):
        return UNKNOWN
    if value < 120:
        return f"{significant(value, 3)} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def size(count: float | None) -> str:
    """Bytes in decimal units: 26.93 GB."""
    if count is None or not known(count):
        return UNKNOWN
    for factor, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= factor:
            return f"{significant(count / factor)} {unit}"
    return f"{int(count)} B"


def moment(timestamp: float | None) -> str:
    """Seconds since 1970 as UTC: 2026-06-20 14:03 UTC."""
    if timestamp is None or not known(timestamp):
        return UNKNOWN
    return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d %H:%M UTC")


def interval(estimate: Estimate, decimals: int = 3) -> str | None:
    """`0.831 to 0.845`; None without an interval."""
    low, high = estimate["low"], estimate["high"]
    if not (known(low) and known(high)):
        return None
    return f"{fixed(low, decimals)} to {fixed(high, decimals)}"


def spelled(estimate: Estimate, alpha: float | None = None, decimals: int = 3) -> str:
    """An estimate inside a sentence: `0.838 (95 % interval 0.831 to 0.845)`, or why there is none."""
    if not known(estimate["value"]):
        return f"{UNKNOWN} ({estimate['reason'] or 'no reason on record'})"
    text, span = fixed(estimate["value"], decimals), interval(estimate, decimals)
    if span is None:
        return f"{text} (no interval: {estimate['reason'] or 'no reason on record'})"
    return f"{text} ({span})" if alpha is None else f"{text} ({level(alpha)} interval {span})"


def test_name(kind: str, tokens: int, depth: int | None) -> str:
    """llama-bench's name of a test: pp2048, tg256 @ d8192."""
    return f"{kind}{tokens}" if not depth else f"{kind}{tokens} @ d{depth}"


def counted(count: int, thing: str) -> str:
    """A count with its noun: 1 round, 3 rounds."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def sentence(text: str) -> str:
    """Text that ends as a sentence does."""
    return text if text.endswith((".", "!", "?")) else f"{text}."
