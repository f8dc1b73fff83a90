"""Prefill classes, flatness and causes."""

import numpy as np
import pytest

from breakeven.analysis import prefill
from breakeven.analysis.steps import contrasts

N = {"mtp1": 1, "mtp2": 2, "mtp3": 3}


def rates(ratios: list[float], rounds: int = 5, sd: float = 0.003, seed: int = 0):
    """Contrasts of log seconds per token for arms with the given true rate ratios."""
    rng = np.random.default_rng(seed)
    y = -np.log([1.0, *ratios]) + sd * rng.standard_normal((rounds, len(ratios) + 1))
    return contrasts(y + 0.02 * rng.standard_normal((rounds, 1)), ["base", *list(N)[: len(ratios)]])


def test_every_arm_below_one_and_one_below_the_margin_is_a_regression():
    assert prefill.classify(rates([0.77, 0.765, 0.76]), 0.02, 0.05) == "regression"


def test_equal_rates_are_no_regression_and_a_noisy_set_is_inconclusive():
    assert prefill.classify(rates([1.0, 1.002, 0.998]), 0.02, 0.05) == "none"
    assert prefill.classify(rates([0.99, 1.0, 0.98], sd=0.03), 0.02, 0.05) == "inconclusive"


def test_one_slow_arm_among_equal_ones_is_not_called_a_regression_of_all():
    assert prefill.classify(rates([0.77, 1.0, 1.0], seed=1), 0.02, 0.05) == "inconclusive"


def test_flat_and_growing_regressions_are_told_apart():
    estimate, flat = prefill.slope(rates([0.77, 0.77, 0.77]), N, 0.02)
    assert flat is True and estimate.low < 0 < estimate.high
    estimate, flat = prefill.slope(rates([0.9, 0.85, 0.8]), N, 0.02)
    assert flat is False and estimate.value == pytest.approx(np.log(0.8 / 0.9) / 2, abs=0.005)
    assert prefill.slope(rates([0.9]), {"mtp1": 1}, 0.02)[1] is None


def explain(computed, tokens: dict[str, float], **known):
    defaults = {"regresses_at_zero": None, "ttft_s": {}, "n_spec": N, "draft_pass_s": None}
    return prefill.cause("regression", computed, tokens, "base", 0.02, 0.05, **(defaults | known))[0]


def test_o17_a_shorter_cache_hit_explains_a_loss_per_new_token():
    tokens = {"base": 2400.0, "mtp1": 3040.0, "mtp2": 3040.0, "mtp3": 3040.0}
    ratio = 2400 / 3040
    assert ratio == pytest.approx(0.7895, abs=1e-4)
    assert prefill.classify(rates([ratio] * 3), 0.02, 0.05) == "regression"
    assert explain(rates([1.0, 1.0, 1.0]), tokens) == "cache-hit length"


def test_slower_computed_tokens_at_depth_zero_too_are_compute():
    same = dict.fromkeys(["base", *N], 2048.0)
    assert explain(rates([0.77] * 3), same, regresses_at_zero=True) == "compute"
    assert explain(rates([0.77] * 3), same, regresses_at_zero=False) == "unknown"


def test_ttft_that_grows_by_a_draft_pass_a_token_is_drafting():
    same = dict.fromkeys(["base", *N], 128.0)
    ttft = {"base": 0.100, "mtp1": 0.104, "mtp2": 0.108, "mtp3": 0.112}
    assert explain(rates([0.96, 0.93, 0.89]), same, ttft_s=ttft, draft_pass_s=0.0038) == "draft inside TTFT"


def test_without_a_regression_no_cause_is_named():
    assert prefill.cause(
        "none", None, {}, "base", 0.02, 0.05, regresses_at_zero=None, ttft_s={}, n_spec=N, draft_pass_s=None
    )[0] is None  # fmt: skip
