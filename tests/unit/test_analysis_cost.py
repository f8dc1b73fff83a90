"""The cost model against worked cases, each named by its oracle, and against its own inverse relations."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from breakeven.analysis.cost import (
    Line,
    alpha_breakeven,
    b_threshold,
    best_n,
    ceiling,
    changes,
    conditional,
    expert_union,
    fit_line,
    gated_floor,
    gated_total_cost,
    general_cost,
    iid_length,
    implausible,
    impossible_everywhere,
    possible,
    profile_breakeven,
    profile_length,
    rate_breakeven,
    step_cost,
    survival,
    union_band,
)
from breakeven.errors import BreakevenError

PROFILE = (0.87, 0.682, 0.545)
FRACTIONS = st.floats(1e-6, 1)
LENGTHS = st.integers(1, 16)


def close(values: list[float], tolerance: float) -> object:
    return pytest.approx(values, abs=tolerance)


def test_o1_conditional_from_counted_positions() -> None:
    surv = [accepted / 749 for accepted in (652, 511, 408)]
    assert surv == close([0.870494, 0.682243, 0.544726], 1e-6)
    assert list(conditional(surv)) == close([0.870494, 0.783742, 0.798434], 1e-6)
    assert 1 + sum(surv) == pytest.approx(3.097463, abs=1e-6)


@pytest.mark.parametrize(
    ("oracle", "base", "rates", "cost", "a", "b"),
    [
        ("O4-d0", 36.13, [30.27, 27.04, 24.53], [2.2507, 3.4489, 4.5622], 1.1090, 1.1558),
        ("O4-d8192", 34.42, [28.37, 24.72, 20.27], [2.2877, 3.5940, 5.2597], 0.7418, 1.4860),
        ("O4-d32768", 29.62, [24.09, 19.66, 16.52], [2.3185, 3.8888, 5.5537], 0.6851, 1.6176),
    ],
)
def test_o4_mi210_as_printed(
    oracle: str, base: float, rates: list[float], cost: list[float], a: float, b: float
) -> None:
    lengths = [1 + accepted / drafts for drafts, accepted in ((1224, 1084), (893, 1412), (749, 1571))]
    found = [step_cost(length, rate / base) for length, rate in zip(lengths, rates, strict=True)]
    line = fit_line([1, 2, 3], found)
    assert found == close(cost, 5e-4)
    assert (line.a, line.b) == (pytest.approx(a, abs=5e-4), pytest.approx(b, abs=5e-4))
    named = {flag.name for flag in implausible([1, 2, 3], found, line)}
    assert ("a_below_one" in named) == (oracle != "O4-d0")


def test_o5_mi210_as_steps_at_depth_0() -> None:
    lengths, rates = [1.885621, 2.581187, 3.097463], [30.27, 27.04, 24.53]
    cost = [36.13 / rate for rate in rates]
    line = fit_line([1, 2, 3], cost)
    assert cost == close([1.1936, 1.3362, 1.4729], 5e-4)
    assert (line.a, line.b) == (pytest.approx(1.0549, abs=5e-4), pytest.approx(0.1396, abs=5e-4))
    assert [length / c for length, c in zip(lengths, cost, strict=True)] == close(
        [1.5798, 1.9318, 2.1030], 5e-4
    )


@pytest.mark.parametrize(
    ("oracle", "a", "b", "ceilings", "impossible"),
    [
        ("O6", 1.11, 1.16, [0.8811, 0.8746, 0.8715], [True, True, True]),
        ("O6b", 1.5, 0.8, [0.8696, 0.9677, 1.0256], [True, True, False]),
        ("O6c", 0.8, 1.05, [1.0811, 1.0345], [False, False]),
    ],
)
def test_o6_ceilings_and_impossibility(
    oracle: str, a: float, b: float, ceilings: list[float], impossible: list[bool]
) -> None:
    line = Line(a, b, ())
    n = range(1, 1 + len(ceilings))
    assert [ceiling(k, line.at(k)) for k in n] == close(ceilings, 1e-4)
    assert [not possible(k, line.at(k)) for k in n] == impossible
    assert [b >= b_threshold(k, a) for k in n] == impossible
    assert impossible_everywhere(a, b) == (oracle == "O6")
    assert any(flag.name == "a_below_one" for flag in implausible([], [], line)) == (oracle == "O6c")


def test_o6_thresholds() -> None:
    assert [b_threshold(n, 1.11) for n in (1, 2, 3)] == close([0.89, 0.945, 0.9633], 1e-4)


def test_o7_iid_length() -> None:
    found = [iid_length(alpha, 3) for alpha in (0, 0.29, 0.52, 0.7, 1)]
    assert found == close([1.0, 1.398489, 1.931008, 2.533, 4.0], 1e-6)


def test_o8_mi50_as_its_author_derived_it() -> None:
    cost = [step_cost(iid_length(alpha, 3), tps / 82) for alpha, tps in ((0.52, 94), (0.29, 70))]
    assert cost == close([1.6845, 1.6382], 1e-3)
    assert [alpha_breakeven(c, 3) for c in (1.66, 1.6381, 1.6845)] == close([0.4156, 0.4061, 0.4259], 1e-3)


def test_o9_mi50_corrected() -> None:
    lengths = [1 + 3 * rate for rate in (0.52, 0.29)]
    cost = [step_cost(length, tps / 82) for length, tps in zip(lengths, (94, 70), strict=True)]
    assert lengths == close([2.56, 1.87], 1e-3)
    assert cost == close([2.2332, 2.1906], 1e-3)
    assert [rate_breakeven(c, 3) for c in cost] == close([0.4111, 0.3969], 1e-3)
    assert [alpha_breakeven(length, 3) for length in lengths] == close([0.7069, 0.4982], 1e-3)


def test_o10_profile_breakeven() -> None:
    q = [value for value in conditional(PROFILE) if value is not None]
    assert profile_length(q) == pytest.approx(3.097, abs=1e-3)
    assert profile_breakeven(q, 1.66) == pytest.approx(0.493, abs=1e-3)


def test_o11_best_n() -> None:
    found = best_n(PROFILE, 1.0549, 0.1396)
    assert found.n == 3
    assert list(found.speedups) == close([1.0, 1.5655, 1.9129, 2.1015], 1e-3)


def test_o11c_best_n_is_the_baseline() -> None:
    found = best_n(PROFILE, 1.109, 1.1558)
    assert found.n == 0
    assert list(found.speedups) == close([1.0, 0.8257, 0.7461, 0.6767], 1e-3)


def test_o14_moe_union() -> None:
    found = [expert_union(128, 8, tokens) / 8 for tokens in (1, 2, 3, 4)]
    assert found == close([1.0, 1.9375, 2.8164, 3.6404], 1e-4)
    assert [expert_union(512, 10, tokens) / 10 for tokens in (2, 3)] == close([1.9805, 2.9418], 1e-4)


def test_the_band_of_the_union_ends_at_the_published_measurement() -> None:
    correlated, independent = union_band(128, 8, 4)
    assert correlated / 8 == pytest.approx(2.5)
    assert independent == expert_union(128, 8, 4)


def test_o19_gated_total_cost() -> None:
    total = gated_total_cost({0: 40, 1: 10, 3: 50}, {0: True, 1: True, 3: False}, a0=1.055, d=0.14)
    assert total == pytest.approx(132.7, abs=1e-4)


def test_a_gated_step_that_submits_nothing_costs_one_draft_pass_more_than_a_plain_one() -> None:
    assert general_cost(0, 0.14, f=0.05, v=0.2, cut=True, rollback=0.1) == pytest.approx(1.14)
    assert general_cost(0, 0.14) == 1
    assert general_cost(2, 0.14, f=0.05, v=0.2, rollback=0.1) == pytest.approx(1.63)
    assert gated_floor(0.14) == pytest.approx(1 / 1.14)


@pytest.mark.parametrize(
    ("q", "cost", "scale"),
    [
        ([0.5, 0.9], 3, 2),
        ([0.5, 0.0, 0.9], 2, 2),
        ([0.5, 0.0, 0.9], 2.01, None),
        ([], 1.5, None),
        ([0.5], 1, 0),
    ],
)
def test_profile_breakeven_at_its_edges(q: list[float], cost: float, scale: float | None) -> None:
    assert profile_breakeven(q, cost) == scale


def test_alpha_breakeven_at_its_edges() -> None:
    assert alpha_breakeven(4.0, 3) == 1
    assert alpha_breakeven(4.0001, 3) is None
    assert alpha_breakeven(0.9, 3) == 0


def test_what_would_have_to_change_names_the_obstacle() -> None:
    line = Line(1.109, 1.1558, ())
    hopeless, before, now = changes(1, line.at(1), 1.886, line)
    assert hopeless.needed is None
    assert before.needed == pytest.approx(0.891)
    assert now.needed == pytest.approx(1.886 - 1.109)
    assert changes(3, 1.47, 3.1, Line(1.055, 0.14, ())) == ()
    (acceptance,) = changes(3, 2.19, 1.87)
    assert acceptance.needed == 2.19
    assert changes(1, 2.6, 1.5, Line(2.5, 0.1, ()))[1].needed is None


@given(FRACTIONS, LENGTHS)
def test_alpha_breakeven_inverts_iid_length(alpha: float, n: int) -> None:
    found = alpha_breakeven(iid_length(alpha, n), n)
    assert found == pytest.approx(alpha, abs=1e-6)


@given(st.lists(FRACTIONS, min_size=1, max_size=8))
def test_survival_and_conditional_are_inverse(q: list[float]) -> None:
    assert list(conditional(survival(q))) == pytest.approx(q)


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=8), st.floats(1, 9))
def test_profile_breakeven_reaches_the_cost_and_nothing_smaller_does(q: list[float], cost: float) -> None:
    scale = profile_breakeven(q, cost)
    if scale is None:
        assert cost > len(q) + 1
    else:
        assert profile_length(q, scale) == pytest.approx(cost, abs=1e-6)
        assert cost <= 1 or profile_length(q, 0.99 * scale) < cost


@given(st.floats(0.5, 3), st.floats(0, 2), st.lists(LENGTHS, min_size=2, max_size=8, unique=True))
def test_a_fit_of_points_on_a_line_is_that_line(a: float, b: float, n: list[int]) -> None:
    line = fit_line(n, [a + b * k for k in n])
    assert (line.a, line.b) == (pytest.approx(a, abs=1e-9), pytest.approx(b, abs=1e-9))


@given(st.floats(0.1, 3), st.floats(0, 3))
def test_impossible_everywhere_means_impossible_at_each_n(a: float, b: float) -> None:
    line = Line(a, b, ())
    assume(abs(a + b - 2) > 1e-9 and abs(b - 1) > 1e-3)
    assert impossible_everywhere(a, b) == all(not possible(n, line.at(n)) for n in range(1, 5000))


@given(st.integers(1, 64), st.integers(1, 64), st.integers(1, 16), st.floats(0, 1))
def test_a_union_grows_with_tokens_and_shrinks_with_reuse(
    k: int, more: int, tokens: int, reuse: float
) -> None:
    experts = k + more
    union = expert_union(experts, k, tokens, reuse)
    assert k <= union * (1 + 1e-9)
    assert union <= min(experts, k * tokens) * (1 + 1e-9)
    assert union <= expert_union(experts, k, tokens + 1, reuse) * (1 + 1e-9)
    assert union <= expert_union(experts, k, tokens) * (1 + 1e-9)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: fit_line([1, 1], [1, 2]),
        lambda: fit_line([1], [1, 2]),
        lambda: fit_line([1, 2], [1, float("nan")]),
        lambda: step_cost(0.5, 1),
        lambda: step_cost(2, 0),
        lambda: ceiling(0, 1),
        lambda: iid_length(1.1, 3),
        lambda: conditional([0.5, 0.6]),
        lambda: expert_union(8, 9, 1),
        lambda: gated_floor(-1),
        lambda: best_n([0.5], 0, -1),
    ],
)
def test_a_value_outside_its_domain_is_an_error(wrong: object) -> None:
    assert callable(wrong)
    with pytest.raises(BreakevenError):
        wrong()
