"""The truth report's own sections, small: what is true is recovered, and a page can be made of it."""

import math
import re

import pytest

from breakeven.analysis.cost import fit_line, impossible_everywhere
from truth_report import mi210, recovery
from truth_report.experiment import BASE, DIALECTS, document, measured, reduced, resolved
from truth_report.page import page

LOADED = 0.1
"""Tests share their machine; a count of events would be off by a factor. The report has the real bounds."""


def test_decode_rate_is_recovered_for_any_number_of_tokens_a_step():
    found = recovery.run(range(1, 17, 5))
    for row in found["by_k"]:
        assert row["error"] == pytest.approx(0, abs=LOADED), row
    shown = page({"recovery": found | {"seconds": 1.0, "load": [0.0, 0.0]}})
    assert all(dialect in shown for dialect in DIALECTS)
    assert len(re.findall(r"k = \d+", shown)) >= len(found["by_k"])


def test_an_event_counter_finds_impossible_what_the_pipeline_sees_win():
    arms = {BASE: 0, **{f"n{n}": n for n in mi210.NS}}
    spec = resolved(document("vllm", arms, mi210.DECODE | {"reps": 1}, 2), "mi210")
    truths = {arm: mi210.mi210(spec["arms"][arm]["n_spec"], scale=mi210.SCALE) for arm in arms}
    launches = measured(spec, truths, 2)
    naive = mi210.count_events(launches)
    assert naive["impossible"] and naive["b"] == pytest.approx(mi210.NAIVE["b"], rel=LOADED)
    cells, _ = reduced(launches, spec)
    log_s = cells.groupby("arm")["log_step_s"].median()
    costs = [math.exp(log_s[f"n{n}"] - log_s[BASE]) for n in mi210.NS]
    line = fit_line(mi210.NS, costs)
    assert line.a == pytest.approx(mi210.TRUE["a"], rel=LOADED) and not impossible_everywhere(line.a, line.b)
