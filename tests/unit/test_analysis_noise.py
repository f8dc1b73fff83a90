"""Launch noise: floors, power, slots, drift, and what belongs to a round."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from breakeven.analysis import noise
from breakeven.errors import BreakevenError


def test_o15_bar_for_one_run_against_another_uses_t_not_z():
    sd, mean = 1.073, 82.66
    assert 1 + noise.noise_floor(sd / mean, 4, 1, 0.05) == pytest.approx(1.051, abs=5e-4)
    assert 1 + noise.noise_floor(sd / mean, 10**6, 1, 0.05) == pytest.approx(1.036, abs=5e-4)


def test_anova_leaves_nothing_of_additive_round_and_arm_effects():
    y = np.add.outer([0.0, 0.3, -0.2], [1.0, 1.2, 1.5, 1.4])
    assert noise.launch_noise(y).sd == pytest.approx(0, abs=1e-12)
    assert noise.launch_noise(y).df == 6


def test_noise_of_launches_is_recovered():
    y = 0.013 * np.random.default_rng(0).standard_normal((400, 5)) + np.arange(400)[:, None] * 0.01
    assert noise.launch_noise(y).sd == pytest.approx(0.013, rel=0.05)


def test_missing_values_are_refused_not_averaged():
    with pytest.raises(BreakevenError, match="5 finite"):
        noise.launch_noise(np.array([[1.0, 2.0, 3.0], [1.0, 2.0, np.nan]]))


def test_detectable_effect_is_found_with_the_stated_power():
    rng = np.random.default_rng(1)
    sd, rounds, arms, alpha = 0.013, 4, 4, 0.05
    df = (rounds - 1) * (arms - 1)
    critical = stats.t.ppf(1 - alpha / 2, df)
    effect = noise.detectable(sd * math.sqrt(2 / rounds), df, critical)
    y = sd * rng.standard_normal((4000, rounds, arms))
    y[..., 1] += effect
    s = np.sqrt((noise.residuals(y) ** 2).sum((-1, -2)) / df)
    t = (y[..., 1] - y[..., 0]).mean(-1) / (s * math.sqrt(2 / rounds))
    assert np.mean(np.abs(t) > critical) == pytest.approx(0.8, abs=0.02)


def test_planned_rounds_reach_the_effect_and_one_fewer_do_not():
    rounds = noise.rounds_needed(0.013, 4, 0.02, 0.05)
    assert rounds is not None

    def reach(r: int) -> float:
        df = (r - 1) * 3
        return noise.detectable(0.013 * math.sqrt(2 / r), df, float(stats.t.ppf(0.975, df)))

    assert reach(rounds) <= 0.02 < reach(rounds - 1)


def test_rounds_beyond_reason_are_not_planned():
    assert noise.rounds_needed(0.5, 2, 0.001, 0.05) is None


def test_baseline_against_itself_is_one_test_over_all_cells():
    assert noise.same_arm_test([0.04] + [0.5] * 8, 0.05)
    assert not noise.same_arm_test([0.004] + [0.5] * 8, 0.05)


def test_same_arm_test_passes_95_percent_of_null_experiments_of_nine_cells():
    p = np.random.default_rng(2).uniform(size=(2000, 9))
    assert np.mean([noise.same_arm_test(row.tolist(), 0.05) for row in p]) >= 0.94


def test_first_slot_effect_is_seen_and_absent_when_there_is_none():
    rng = np.random.default_rng(3)
    slots = np.array([rng.permutation(4) for _ in range(5)])
    y = 0.005 * rng.standard_normal((5, 4))
    assert not noise.slot_effect(y, slots).present
    found = noise.slot_effect(y + 0.07 * (slots == 0), slots)
    assert found.present and found.log_effect == pytest.approx(0.07, abs=0.01)


def test_first_slot_that_is_always_the_same_arm_cannot_be_told_from_it():
    found = noise.slot_effect(np.random.default_rng(4).standard_normal((3, 4)), np.tile(np.arange(4), (3, 1)))
    assert found.log_effect is None and not found.present


def test_drift_beyond_the_margin_is_flagged_with_its_rate():
    hours = np.arange(6) * 0.5
    values = 0.02 * hours + 0.001 * np.array([1, -1, 1, -1, 1, -1])
    found = noise.drift(hours * 3600, values, 0.02)
    assert found.flagged and found.per_hour.value == pytest.approx(0.02, abs=0.002)
    assert noise.drift(hours[:2] * 3600, values[:2], 0.02).flagged is None


def test_unpaired_interval_is_welchs():
    a, b = np.array([0.10, 0.12, 0.11]), np.array([0.0, 0.01, -0.01, 0.0])
    interval = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    found = noise.unpaired(a, b, 0.05)
    assert (found.low, found.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))


def test_one_launch_has_no_unpaired_interval():
    found = noise.unpaired(np.array([0.1]), np.array([0.0]), 0.05)
    assert found.value == pytest.approx(math.exp(0.1)) and not found.bounded


def test_baseline_off_its_record_is_flagged_without_an_interval():
    assert noise.against_record(34.0, 36.0, 0.02).flagged
    assert noise.against_record(36.1, 36.0, 0.02).flagged is False
    assert noise.against_record(36.1, None, 0.02).flagged is None


def order(rows: list[tuple[str, int, float, str]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["arm", "round", "started_at", "session"]).astype({"round": "Int64"})


def test_rounds_in_turn_are_shared_and_an_arm_measured_again_alone_is_not():
    rows = [(arm, r, 10.0 * r + i, "a") for r in (1, 2, 3) for i, arm in enumerate(("base", "mtp1", "mtp2"))]
    shared = noise.shared_rounds(order(rows), "base")
    assert shared.all()
    later = [(a, r, t + 100 if a == "mtp1" else t, s) for a, r, t, s in rows]
    again = order(later)
    shared = noise.shared_rounds(again, "base")
    assert not shared[again["arm"] == "mtp1"].any() and shared[again["arm"] != "mtp1"].all()


def test_another_session_is_another_block_even_without_times():
    rows = order(
        [("base", 1, math.nan, "monday"), ("mtp1", 1, math.nan, "tuesday"), ("mtp2", 1, math.nan, "monday")]
    )
    assert noise.shared_rounds(rows, "base").tolist() == [True, False, True]
