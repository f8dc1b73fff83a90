"""Which requests compiled kernels: lines of a log placed among the requests that were sent.

Every arm discards the same number of requests (`workload.warmup`); whether that was enough is checked afterwards.
"""

import re
from collections.abc import Collection, Sequence

import pandas as pd

GENERATION = re.compile(r'"POST /(?:v1/)?(?:chat/)?completions? HTTP')
"""An access-log line of a request that generates."""
SCRAPE = re.compile(r'"GET /metrics HTTP')
"""An access-log line of the reading of counters that follows every request."""
MEASURED = ("pp", "tg")


def requests_at(log: Sequence[str], lines: Collection[int]) -> list[int] | None:
    """Order (from 0) of the generation request that each numbered line (from 1) of a log belongs to.

    A server notes a streamed request when it begins or when it ends; what lies between the readings of the
    counters before and after it is its own in both cases. None when the log notes no requests.
    """
    wanted, found = set(lines), []
    begun, open_request = 0, False
    for number, line in enumerate(log, 1):
        if number in wanted:
            found.append(begun - 1 if open_request else begun)
        if GENERATION.search(line):
            begun, open_request = begun + 1, True
        elif SCRAPE.search(line):
            open_request = False
    return found if begun or not wanted else None


def late_compiles(log: str, compile_lines: Collection[int], requests: pd.DataFrame) -> int | None:
    """How many of the numbered lines, which tell of a compilation, fell into measured requests of one launch.

    `requests`: the launch's `seq` and `kind`. Requests before the first planned one (readiness) are left out, by
    counting from the end. None when the log does not show requests.
    """
    if not compile_lines:
        return 0
    lines = log.splitlines()
    places = requests_at(lines, compile_lines)
    if places is None:
        return None
    sent = sum(bool(GENERATION.search(line)) for line in lines)
    measured = set(requests.loc[requests["kind"].isin(MEASURED), "seq"] + sent - len(requests))
    return sum(place in measured for place in places)
