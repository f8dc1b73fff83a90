"""Counters of a server's /metrics page, read around every request.

Only samples of TYPE counter whose name ends in `_total` are counts: a `_created` twin is a date. The `_sum` of a
histogram rises by a request's own time when one request alone has finished. Sums go over the `engine` label, and
`engines` says how many there were. A counter that is not exposed is missing from the result, never 0 (Method 2).
"""

import time
from collections.abc import Mapping

import httpx
from prometheus_client.parser import text_string_to_metric_families

from breakeven import tables
from breakeven.engine.base import Engine, Metric
from breakeven.errors import LaunchError
from breakeven.measure.client import ask

SETTLE_S = 2.0
"""Some servers count a moment after they answer; this long is waited for the counters to catch up."""

Counters = Mapping[tuple[str, int | None], float]
"""(our name of the counter, position or None) -> value summed over engines."""

ENGINES = (tables.ENGINES, None)
"""Not a count but a number: engines (data-parallel ranks) whose series were summed, where any series was found."""
ENGINE_LABEL = "engine"
FAMILY_TYPES = {"_total": "counter", "_sum": "histogram"}
REQUESTS = ("requests", None)
TIMES = ("server_prompt_s", "server_decode_s")
"""Counters that are a request's time by the server's own clock."""


def parse(text: str, wanted: Mapping[str, Metric]) -> dict[tuple[str, int | None], float]:
    """Wanted counters of a Prometheus text page."""
    ours = {metric.name: (name, metric) for name, metric in wanted.items()}
    relevant = "\n".join(line for line in text.splitlines() if any(name in line for name in ours)) + "\n"
    totals: dict[tuple[str, int | None], float] = {}
    engines: set[str] = set()
    for family in text_string_to_metric_families(relevant):
        if family.name not in ours:
            continue
        name, metric = ours[family.name]
        label = metric.position_label
        if family.type != FAMILY_TYPES[metric.suffix]:
            continue
        for sample in family.samples:
            if sample.name == family.name + metric.suffix:
                key = (name, int(sample.labels[label]) if label else None)
                totals[key] = totals.get(key, 0.0) + sample.value
                engines.add(sample.labels.get(ENGINE_LABEL, ""))
    return totals | {ENGINES: float(len(engines))} if totals else totals


def scrape(http: httpx.Client, engine: Engine) -> Counters:
    """Read the page. Raises LaunchError when the server does not give it."""
    answer = ask(http, "GET", engine.metrics_path)
    if answer.status_code != 200:
        raise LaunchError(
            f"{engine.metrics_path} answered HTTP {answer.status_code}; counters are needed for acceptance, "
            "so start the server with its metrics switched on"
        )
    return parse(answer.text, engine.counters)


def scrape_after(
    http: httpx.Client, engine: Engine, before: Counters, completion_tokens: int | None
) -> Counters:
    """Read the page after a request, waiting until the server has counted the request's tokens."""
    key = ("completion_tokens", None)
    deadline = time.monotonic() + SETTLE_S
    while True:
        after = scrape(http, engine)
        counted = key not in before or after.get(key, 0.0) - before[key] >= (completion_tokens or 0)
        if counted or time.monotonic() > deadline:
            return after
        time.sleep(0.02)


def request_times(before: Counters, after: Counters) -> dict[str, float]:
    """Seconds of the one request that finished between two readings; empty when it was not one, or is not told."""
    if REQUESTS not in before or after.get(REQUESTS, 0.0) - before[REQUESTS] != 1.0:
        return {}
    keys = {name: (name, None) for name in TIMES}
    return {name: after[key] - before[key] for name, key in keys.items() if key in before and key in after}
