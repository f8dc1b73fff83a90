"""Numbers as a person would write them; what is not known says so."""

import math

import pytest

from breakeven.publish.report import numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (36.13, "36.13"),
        (1058.87, "1059"),
        (0.8381, "0.8381"),
        (0.0, "0"),
        (2.5e-7, "0.000000"),
        (123456.0, "123456"),
    ],
)
def test_four_significant_digits(value: float, text: str):
    assert numbers.significant(value) == text


@pytest.mark.parametrize("missing", [None, math.nan, math.inf])
def test_what_is_not_a_number_is_unknown(missing: float | None):
    formats = (
        numbers.fixed, numbers.significant, numbers.percent, numbers.change, numbers.whole, numbers.seconds,
        numbers.size, numbers.moment,
    )  # fmt: skip
    assert {write(missing) for write in formats} == {"unknown"}


@pytest.mark.parametrize(
    ("ratio", "text"), [(0.838, "−16.2 %"), (1.31, "+31.0 %"), (1.0, "0.0 %"), (0.99999, "0.0 %")]
)
def test_a_ratio_as_a_change(ratio: float, text: str):
    assert numbers.change(ratio) == text


def test_no_minus_before_a_zero():
    assert numbers.fixed(-0.0004) == "0.000"


@pytest.mark.parametrize(
    ("value", "text"), [(0.31, "0.310 s"), (12.44, "12.4 s"), (200.4, "3 min 20 s"), (7500.0, "2 h 5 min")]
)
def test_durations(value: float, text: str):
    assert numbers.seconds(value) == text


@pytest.mark.parametrize(("count", "text"), [(26.93e9, "26.93 GB"), (14_236_480, "14.24 MB"), (512, "512 B")])
def test_bytes_in_decimal_units(count: float, text: str):
    assert numbers.size(count) == text


@pytest.mark.parametrize(("alpha", "text"), [(0.05, "95 %"), (0.01, "99 %"), (0.015, "98.5 %")])
def test_level_of_an_interval(alpha: float, text: str):
    assert numbers.level(alpha) == text


def test_an_estimate_says_why_it_has_no_interval_or_no_value():
    alone = {"value": 0.838, "low": None, "high": None, "reason": "one launch"}
    absent = {"value": None, "low": None, "high": None, "reason": "no fit"}
    assert numbers.spelled(alone) == "0.838 (no interval: one launch)"
    assert numbers.spelled(absent) == "unknown (no fit)"


def test_llama_bench_names_no_depth_at_depth_0():
    assert [numbers.test_name("pp", 2048, depth) for depth in (0, 8192)] == ["pp2048", "pp2048 @ d8192"]
