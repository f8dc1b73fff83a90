"""Warming goes on until two requests in a row are alike and nothing compiled between them, and ends in any case."""

import pytest

from breakeven.engine.registry import ENGINES
from breakeven.errors import LaunchError
from breakeven.measure.client import open_client
from breakeven.measure.natural_end import natural_tokens
from breakeven.measure.settling import MOST, settle, unsettled, warm_up
from breakeven.measure.workload import read_workload

from reference_server import Faults, Truth, reference_server


def counts(*values: int):
    supply = iter(values)
    return lambda: next(supply)


@pytest.mark.parametrize(
    ("times", "compiled", "found"),
    [
        ([1.0, 1.05, 9.0], (0, 0, 0, 0), (2, True, 1.05)),
        ([9.0, 1.0, 1.0], (0, 0, 0, 0), (3, True, 1.0)),
        ([1.0, 1.0, 1.0], (0, 1, 2, 2), (3, True, 1.0)),
        ([1.0, 2.0, 4.0], (0, 0, 0, 0), (3, False, 4.0)),
    ],
    ids=["at once", "cold first", "compiling", "never"],
)
def test_it_takes_as_many_requests_as_it_needs(times, compiled, found):
    assert settle(iter(times), counts(*compiled)) == found


def test_what_compiles_for_ever_is_given_up_and_named():
    steadily = iter(range(100))
    sent, settled, _ = settle(iter([1.0] * MOST), lambda: next(steadily))
    assert (sent, settled) == (MOST, False)
    [words] = unsettled(
        [{"depth": 8192, "prompt_class": "code", "asked_tokens": 1, "requests": 8, "settled": False}]
    )
    assert "depth 8192" in words


WORKLOAD = {"pp": 16, "tg": 8, "depths": [0, 32], "reps": 3, "warmup": 2, "prompts": {"code": {"count": 1}}}


@pytest.mark.parametrize("dialect", sorted(ENGINES))
def test_every_measured_shape_is_warmed(dialect, tmp_path):
    workload = read_workload(WORKLOAD, tmp_path)
    with reference_server(Truth(), dialect=dialect) as url, open_client(url, 5.0) as http:
        warmed = warm_up(http, ENGINES[dialect], workload, 1, lambda: 0)
    assert [(one["depth"], one["asked_tokens"]) for one in warmed] == [(0, 1), (0, 8), (32, 1), (32, 8)]
    assert all(2 <= one["requests"] <= MOST for one in warmed)


def test_an_arm_that_cannot_answer_while_it_is_warmed_has_failed(tmp_path):
    workload = read_workload(WORKLOAD, tmp_path)
    faults = Faults(dies_after_tokens=0)
    with (
        reference_server(Truth(), dialect="vllm", faults=faults) as url,
        open_client(url, 5.0) as http,
        pytest.raises(LaunchError, match="warming"),
    ):
        warm_up(http, ENGINES["vllm"], workload, 1, lambda: 0)


@pytest.mark.parametrize(("ends", "tokens"), [(0, None), (5, 5), (8, None), (20, None)])
@pytest.mark.parametrize("dialect", sorted(ENGINES))
def test_answers_that_may_end_tell_where(dialect, ends, tokens, tmp_path):
    section = WORKLOAD | {
        "prompts": {"code": {"count": 2}, "json": {"count": 1, "schema": {"type": "object"}}}
    }
    workload = read_workload(section, tmp_path)
    with (
        reference_server(Truth(natural_tokens=ends), dialect=dialect) as url,
        open_client(url, 5.0) as http,
    ):
        assert natural_tokens(http, ENGINES[dialect], workload, 1) == {"code": [tokens, tokens]}
