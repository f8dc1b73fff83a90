"""The client's own share: time to first token over the truth, and tokens taken in by one core."""

from dataclasses import asdict
from typing import Any

from bench.client_overhead import first_tokens, intake
from truth_report.experiment import DIALECTS
from truth_report.figure import Figure, section

TTFT_S, SHORT_TOKENS = 0.001, 1024
TOKENS_PER_S = 20_000


def run() -> dict[str, Any]:
    """The section."""
    first = [row for dialect in DIALECTS for row in first_tokens(dialect)]
    taken = [intake(dialect) for dialect in DIALECTS]
    worst = max((row for row in first if row.prompt_tokens <= SHORT_TOKENS), key=lambda row: row.median_s)
    longest = max(first, key=lambda row: (row.prompt_tokens, row.median_s))
    slowest = min(taken, key=lambda one: one.per_cpu_s)
    return section(
        [
            Figure(
                f"time to first token over the server's own, prompts up to {SHORT_TOKENS} tokens (median)",
                f"< {1e3 * TTFT_S:g} ms",
                f"{1e3 * worst.median_s:.2f} ms; {1e3 * longest.median_s:.2f} ms at {longest.prompt_tokens:,} tokens",
                worst.median_s < TTFT_S,
            ),
            Figure(
                "tokens taken in on one core",
                f"at least {TOKENS_PER_S:,} tokens/s",
                f"{slowest.per_cpu_s:,.0f} ({slowest.dialect})",
                slowest.per_cpu_s >= TOKENS_PER_S,
            ),
        ],
        first=[asdict(row) for row in first],
        intake=[asdict(one) for one in taken],
    )
