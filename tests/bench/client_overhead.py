"""What the client itself costs: its share of the time to first token, and the tokens that one core can take in.

    PYTHONPATH=tests python tests/bench/client_overhead.py

Against a reference server in a process of its own, whose time to first token is known.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from breakeven.engine.base import Sampling
from breakeven.engine.registry import ENGINES
from breakeven.measure.client import open_client, record, sample

from reference_server import Truth, reference_process

PROMPT_TOKENS = (16, 128, 1024, 8192, 32_768, 131_072)
REQUESTS = 11
TTFT_S = (0.02, 1.5e-6)
"""Time to first token, fixed and per prompt token: longer than the server, in Python, needs to read the prompt."""
INTAKE_TOKENS = 20_000
READ_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class FirstToken:
    """Client's TTFT minus the server's true one, in seconds."""

    dialect: str
    prompt_tokens: int
    true_s: float
    median_s: float
    least_s: float
    most_s: float


@dataclass(frozen=True)
class Intake:
    """Tokens of one stream per second of the client's processor time, and per second of the clock."""

    dialect: str
    tokens: int
    per_cpu_s: float
    per_s: float


def first_tokens(
    dialect: str, prompt_tokens: Iterable[int] = PROMPT_TOKENS, requests: int = REQUESTS
) -> list[FirstToken]:
    """One row a prompt length."""
    engine, found = ENGINES[dialect], []
    truth = Truth(ttft_s=TTFT_S[0], pp_per_s=1 / TTFT_S[1], prefix_cache=False, t0_s=0.001)
    with reference_process(truth, dialect=dialect) as url, open_client(url, READ_TIMEOUT_S) as http:
        for length in prompt_tokens:
            call = engine.completion([300 + i % 4096 for i in range(length)], 2, Sampling())
            record(http, call)
            true = truth.time_to_first_token_s(length, 0)
            over = [sample(record(http, call), engine).ttft_s - true for _ in range(requests)]  # type: ignore[operator]
            found.append(FirstToken(dialect, length, true, median(over), min(over), max(over)))
    return found


def intake(dialect: str, tokens: int = INTAKE_TOKENS) -> Intake:
    """A server that sends as fast as it can; recording and understanding are both paid for."""
    engine = ENGINES[dialect]
    truth = Truth(ttft_s=0.2, t0_s=1e-7, buffered_events=64, prefix_cache=False)
    call = engine.completion(range(300, 340), tokens, Sampling())
    with reference_process(truth, dialect=dialect) as url, open_client(url, READ_TIMEOUT_S) as http:
        record(http, engine.completion(range(300, 340), 64, Sampling()))
        cpu, clock = time.process_time(), time.perf_counter()
        got = sample(record(http, call), engine)
        cpu, clock = time.process_time() - cpu, time.perf_counter() - clock - truth.ttft_s
    if got.id_tokens != tokens:
        raise RuntimeError(f"{got.id_tokens} of {tokens} tokens came: {got.error}")
    return Intake(dialect, tokens, tokens / cpu, tokens / clock)


def main() -> None:
    """Print both tables."""
    for dialect in sorted(ENGINES):
        for row in first_tokens(dialect):
            print(
                f"{dialect:9} {row.prompt_tokens:7d} prompt tokens: TTFT {1e3 * row.median_s:+6.2f} ms over the truth "
                f"({1e3 * row.least_s:+.2f} to {1e3 * row.most_s:+.2f})"
            )
        one = intake(dialect)
        print(f"{dialect:9} {one.per_cpu_s:,.0f} tokens a CPU second, {one.per_s:,.0f} a second")


if __name__ == "__main__":
    main()
