"""Step costs and their intervals: exact cases first, coverage on seeded launches last."""

import numpy as np
import pytest
from scipy import stats

from breakeven.analysis import family, line, steps
from breakeven.errors import BreakevenError

STEP_MS = np.array([[27.7, 33.1, 37.0, 40.8], [27.5, 32.9, 36.7, 40.6], [27.8, 33.0, 37.2, 40.7]])
ARMS = ["base", "mtp1", "mtp2", "mtp3"]
N = {"mtp1": 1, "mtp2": 2, "mtp3": 3}
ALPHA = 0.05


def launches(
    rng: np.random.Generator,
    costs: list[float],
    rounds: int,
    sd: float | np.ndarray,
    shape: tuple[int, ...] = (),
) -> np.ndarray:
    """log step times of launches with the given true costs and launch noise."""
    y = np.log([1.0, *costs]) + sd * rng.standard_normal((*shape, rounds, len(costs) + 1))
    return y + 0.02 * rng.standard_normal((*shape, rounds, 1))


def test_o16_log_anova_and_delta_method_give_costs_line_noise_and_intervals():
    found = steps.contrasts(np.log(STEP_MS), ARMS, estimator="E8")
    fit = line.fit_costs(found, N, ALPHA)
    assert np.exp(found.log) == pytest.approx([1.19278, 1.33614, 1.4711], abs=1e-5)
    assert fit.a.value == pytest.approx(1.05502, abs=1e-5)
    assert fit.b.value == pytest.approx(0.13916, abs=1e-5)
    assert found.noise.sd == pytest.approx(0.002916, abs=1e-5)
    assert found.df == 6
    assert (fit.a.low, fit.a.high) == pytest.approx((1.04599, 1.06405), abs=1e-5)
    assert (fit.b.low, fit.b.high) == pytest.approx((0.13522, 0.1431), abs=1e-5)


def test_o16_covariance_is_that_of_differences_with_one_baseline():
    found = steps.contrasts(np.log(STEP_MS), ARMS, estimator="E8")
    assert found.cov == pytest.approx(found.noise.sd**2 / 3 * (np.eye(3) + 1))


def test_three_rounds_of_like_noise_are_pooled_and_five_rounds_are_fitted_alone():
    assert steps.pick(3, 1.8)[0] == "E8"
    assert steps.pick(4, 3.2)[0] == "E5"
    assert steps.pick(5, 1.0)[0] == "E5"


def test_e5_is_the_t_interval_of_what_each_round_gives_alone():
    y = launches(np.random.default_rng(3), [1.2, 1.35, 1.5], 6, 0.01)
    fit = line.fit_costs(steps.contrasts(y, ARMS), N, ALPHA)
    slopes = [np.polyfit([1, 2, 3], np.exp(row[1:] - row[0]), 1)[0] for row in y]
    low, high = stats.t.interval(0.95, 5, np.mean(slopes), stats.sem(slopes))
    assert fit.df == 5
    assert (fit.b.value, fit.b.low, fit.b.high) == pytest.approx((np.mean(slopes), low, high))


def test_one_round_has_no_error_and_says_so():
    with pytest.raises(BreakevenError, match="add rounds"):
        steps.contrasts(np.log(STEP_MS[:1]), ARMS)


def test_one_draft_length_gives_costs_but_no_line():
    found = steps.contrasts(np.log(STEP_MS[:, :2]), ARMS[:2])
    fit = line.fit_costs(found, {"mtp1": 1}, ALPHA)
    assert fit.cost[0].bounded
    assert fit.a.value is None and "two different draft lengths" in str(fit.a.reason)


def test_a_cold_first_slot_is_taken_out_of_the_comparison():
    rng = np.random.default_rng(5)
    y = launches(rng, [1.2, 1.35, 1.5], 5, 0.003)
    slots = np.array([rng.permutation(4) for _ in range(5)])
    cold = y + 0.07 * (slots == 0)
    found = steps.contrasts(cold, ARMS, slots, estimator="E8")
    assert found.slot.present and found.slot.log_effect == pytest.approx(0.07, abs=0.006)
    assert np.exp(found.log) == pytest.approx([1.2, 1.35, 1.5], rel=0.006)
    assert found.df == 11


def test_curvature_of_a_mixture_is_seen_at_n_1_3_7_and_a_union_model_offered():
    costs = [1 + 0.2 * k + 1.5 * (1 - (1 - 8 / 128) ** k) for k in (1, 3, 7)]
    y = launches(np.random.default_rng(7), costs, 4, 0.005)
    fit = line.fit_costs(
        steps.contrasts(y, ["base", "a", "b", "c"], estimator="E8"), {"a": 1, "b": 3, "c": 7}, ALPHA, (128, 8)
    )
    assert fit.lack.rejected and not fit.linear
    assert fit.alternative is not None and fit.alternative.residual_sd < 0.05


def test_line_is_fitted_on_the_tokens_really_drafted():
    """N = 7 whose drafts are cut to 6.4 on average: a line in 6.4 is one, in 7 it is not."""
    drafted = {"mtp1": 1.0, "mtp3": 2.96, "mtp7": 6.4}
    y = launches(np.random.default_rng(17), [1.05 + 0.3 * k for k in drafted.values()], 4, 0.002)
    found = steps.contrasts(y, ["base", *drafted], estimator="E8")
    lengths = {"mtp1": 1, "mtp3": 3, "mtp7": 7}
    assert line.fit_costs(found, lengths, ALPHA).lack.rejected
    fit = line.fit_costs(found, lengths, ALPHA, drafted=drafted)
    assert not fit.lack.rejected and fit.b.value == pytest.approx(0.3, abs=0.005) and fit.n == (1, 3, 7)


def test_three_draft_lengths_test_the_second_difference():
    found = steps.contrasts(np.log(STEP_MS), ARMS, estimator="E8")
    cost = np.exp(found.log)
    contrast = np.array([1, -2, 1])
    variance = contrast @ (cost[:, None] * found.cov * cost) @ contrast
    p = 2 * stats.t.sf(abs(contrast @ cost) / np.sqrt(variance), found.df)
    assert line.fit_costs(found, N, ALPHA).lack.p == pytest.approx(p)


def test_costs_surely_below_a_baseline_step_are_flagged():
    y = launches(np.random.default_rng(9), [0.8, 0.9, 1.0], 4, 0.002)
    fit = line.fit_costs(steps.contrasts(y, ARMS, estimator="E8"), N, ALPHA)
    assert {flag.arm for flag in fit.anchor_flags} >= {None, "mtp1"}
    assert any("a is below 0.9" in flag.reason for flag in fit.anchor_flags)


def test_dunnett_critical_value_agrees_with_scipys_own_dunnett_in_one_way_layouts():
    """Balanced one-way layout, no rounds: scipy.stats.dunnett is the oracle; df = 4*(8-1)."""
    rng = np.random.default_rng(11)
    groups = rng.standard_normal((4, 8))
    result = stats.dunnett(*groups[1:], control=groups[0], rng=np.random.default_rng(0))
    interval = result.confidence_interval(0.95)
    pooled = np.sqrt(groups.var(axis=1, ddof=1).mean() * 2 / 8)
    critical = (interval.high - interval.low)[0] / 2 / pooled
    assert family.dunnett_critical((np.eye(3) + 1) / 8, 28, 0.05) == pytest.approx(critical, abs=0.01)


def test_dunnett_for_one_arm_is_the_t_quantile():
    assert family.dunnett_critical(np.array([[2.0]]), 6, 0.05) == pytest.approx(stats.t.ppf(0.975, 6))


def test_holm_steps_down_and_never_decreases():
    assert family.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_equivalence_needs_the_whole_interval_inside_the_margin():
    assert family.equivalent(0.001, 0.004, 12, 0.02, 0.05)
    assert not family.equivalent(0.015, 0.004, 12, 0.02, 0.05)
    assert not family.equivalent(0.0, 0.02, 12, 0.02, 0.05)


def test_best_length_is_certain_with_little_noise_and_a_range_with_much():
    survival = (0.87, 0.682, 0.545)
    small, large = (
        line.fit_costs(
            steps.contrasts(
                launches(np.random.default_rng(2), [1.75, 2.3, 2.9], 3, sd), ARMS, estimator="E8"
            ),
            N,
            ALPHA,
        )
        for sd in (0.001, 0.03)
    )
    narrow, wide = line.best_length(survival, small, ALPHA), line.best_length(survival, large, ALPHA)
    assert (narrow.low, narrow.high) == (narrow.n, narrow.n)
    assert wide.low is not None and wide.high is not None and wide.low < wide.high


@pytest.mark.parametrize("rounds", [3, 4, 5, 8])
def test_nominal_95_percent_intervals_of_a_cost_cover_93_to_97_percent(rounds):
    y = launches(np.random.default_rng(rounds), [1.2, 1.34, 1.47], rounds, 0.013, (3000,))
    if rounds < steps.E5_FROM_ROUNDS:
        log, s2, unit, df = steps.e8(y)
        se = np.sqrt(s2 * unit[0, 0])
    else:
        log, cov, df = steps.e5(y[..., 1:] - y[..., :1])
        se = np.sqrt(cov[:, 0, 0])
    inside = np.abs(log[:, 0] - np.log(1.2)) < stats.t.ppf(0.975, df) * se
    assert 0.93 < inside.mean() < 0.97
