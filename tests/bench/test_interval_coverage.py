"""A small seeded version of the coverage study: what it claims must hold in fewer experiments too."""

import interval_coverage as study
import numpy as np
import pytest

SIMS = 1500
NOISE = {noise.name: noise for noise in study.SCENARIOS}
ALIKE = [noise for noise in study.SCENARIOS if "1 : 4" not in noise.name]


@pytest.mark.parametrize("noise", ALIKE, ids=lambda noise: noise.name)
@pytest.mark.parametrize("rounds", [3, 5])
def test_intervals_as_picked_cover_93_to_97_percent(noise, rounds):
    y = study.launches(np.random.default_rng(rounds), noise, SIMS, rounds)
    for share in study.coverage(study.by_rule(y)):
        assert 0.925 < share < 0.975


@pytest.mark.parametrize("rounds", [3, 5])
def test_e5_covers_even_when_one_arm_is_four_times_as_noisy(rounds):
    y = study.launches(np.random.default_rng(1), NOISE["arms' noise 1 : 1 : 1 : 4"], SIMS, rounds)
    for share in study.coverage(study.by_e5(y)):
        assert 0.93 < share < 0.97


def test_blocked_arms_do_not_cover_under_drift():
    shares = study.blocked_coverage(np.random.default_rng(2), SIMS, 5)
    assert max(shares) < 0.85 and min(shares) < 0.2


def test_percentile_bootstrap_over_rounds_does_not_cover():
    rng = np.random.default_rng(3)
    assert study.bootstrap_coverage(rng, study.launches(rng, study.SCENARIOS[0], SIMS, 3)) < 0.8


def test_repetitions_inside_one_launch_do_not_cover():
    assert study.one_launch_coverage(np.random.default_rng(4), SIMS) < 0.3


@pytest.mark.parametrize("arms", [2, 4])
def test_sequential_rule_calls_nothing_a_difference_in_at_most_five_percent(arms):
    found = study.sequential(np.random.default_rng(5), 3000, arms=arms)
    assert found.any_difference <= 0.05 + 2 * 0.004


def test_sequential_rule_calls_the_margin_a_tie_in_at_most_five_percent():
    for noise in (study.QUIET, study.SCENARIOS[0]):
        found = study.sequential(
            np.random.default_rng(6), SIMS, effect=float(np.log1p(study.MARGIN)), arms=2, noise=noise
        )
        assert found.any_tie <= 0.05


def test_baseline_against_its_twin_answers_no_difference_in_95_percent():
    assert study.same_arm_share(np.random.default_rng(7), SIMS) >= 0.94
