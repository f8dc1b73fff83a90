"""Where compilation lines of a log fall among the requests that were sent."""

import pandas as pd
import pytest

from breakeven.analysis.warmup import late_compiles, requests_at

GET = 'INFO: 127.0.0.1:1 - "GET /metrics HTTP/1.1" 200 OK'
JIT = "JIT compilation"
POST = 'INFO: 127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK'
REQUESTS = pd.DataFrame({"seq": [0, 1, 2], "kind": ["warmup", "pp", "tg"]})


def one(*inside: str) -> list[str]:
    """A request as its log shows it, between the two readings of the counters."""
    return [GET, *inside, GET]


@pytest.mark.parametrize("noted", [(POST, JIT), (JIT, POST)], ids=["at its begin", "at its end"])
def test_a_line_belongs_to_the_request_between_the_readings_around_it(noted):
    log = [*one(POST), *one(*noted), *one(POST)]
    assert requests_at(log, [log.index(JIT) + 1]) == [1]


@pytest.mark.parametrize(("cold", "late"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_only_lines_inside_measured_requests_are_late(cold, late):
    """The first request in the log is the one that readiness sent; it is not in the table."""
    requests = [one(POST, JIT) if place == cold else one(POST) for place in range(4)]
    log = [line for request in requests for line in request]
    assert late_compiles("\n".join(log), [log.index(JIT) + 1], REQUESTS) == late


def test_a_log_without_compilations_has_none_and_one_without_requests_cannot_tell():
    assert late_compiles("anything", [], REQUESTS) == 0
    assert late_compiles(JIT, [1], REQUESTS) is None
