"""Acceptance from counts: exact cases, and what counters do not identify."""

import pandas as pd
import pytest

from breakeven.analysis.acceptance import Counts, acceptance, over_prompts, pool


def test_o1_counters_give_length_rate_survival_and_conditional_acceptance():
    counts = Counts(9, drafts=749, draft_tokens=2247, accepted=1571, per_position=(652, 511, 408))
    found = acceptance(counts, 3)
    assert found.length_drafted.value == pytest.approx(3.097463, abs=1e-6)
    assert found.rate.value == pytest.approx(0.699154, abs=1e-6)
    assert found.survival == pytest.approx((0.870494, 0.682243, 0.544726), abs=1e-6)
    assert found.conditional == pytest.approx((0.870494, 0.783742, 0.798434), abs=1e-6)


def test_o18_gated_arm_has_a_length_over_all_steps_and_no_survival():
    counts = Counts(
        1, 256, drafts=55, draft_tokens=120, accepted=90, undrafted=111, steps=166, per_position=(50, 30, 10)
    )
    found = acceptance(counts, 3, gated=True)
    assert found.length.value == pytest.approx(1.5422, abs=1e-4)
    assert found.length_drafted.value == pytest.approx(2.6364, abs=1e-4)
    assert found.draft_length.value == pytest.approx(2.1818, abs=1e-4)
    assert found.rate.value == 0.75
    assert found.survival is None and "draft lengths vary" in str(found.reason)


def test_short_drafts_are_noticed_without_being_told():
    found = acceptance(Counts(1, drafts=55, draft_tokens=120, accepted=90, per_position=(50, 30, 10)), 3)
    assert found.survival is None and "draft lengths vary" in str(found.reason)


def test_short_outputs_keep_survival_and_say_that_later_positions_read_low():
    found = acceptance(Counts(4, drafts=100, draft_tokens=290, accepted=150, per_position=(80, 45, 25)), 3)
    assert found.survival is not None and "read low" in str(found.reason)


def test_last_draft_cut_at_the_length_limit_keeps_survival():
    found = acceptance(Counts(4, drafts=100, draft_tokens=296, accepted=150, per_position=(80, 45, 25)), 3)
    assert found.survival == pytest.approx((0.8, 0.45, 0.25)) and found.reason is None


def test_positions_that_do_not_sum_to_the_accepted_tokens_are_not_believed():
    found = acceptance(Counts(1, drafts=10, draft_tokens=20, accepted=9, per_position=(6, 2)), 2)
    assert found.survival is None and "sum to 8" in str(found.reason)


def test_missing_counters_are_absent_with_reasons_never_zero():
    found = acceptance(Counts(3, 300), 1)
    assert found.rate.value is None and "not counted" in str(found.rate.reason)
    assert found.length.value is None and found.survival is None


def test_an_arm_that_never_drafted_has_no_rate():
    found = acceptance(
        Counts(1, 99, drafts=0, draft_tokens=0, accepted=0, undrafted=99, steps=99), 3, gated=True
    )
    assert found.rate.value is None and found.rate.reason == "nothing was drafted"
    assert found.length.value == 1


def rows(**columns: list[object]) -> pd.DataFrame:
    names = ["requests", "completion_tokens", "drafts", "draft_tokens", "accepted", "undrafted", "steps"]
    return pd.DataFrame({name: pd.array([1, 1], dtype="Int64") for name in names} | columns)


def test_pooling_with_one_unknown_count_leaves_the_sum_unknown():
    table = rows(
        drafts=pd.array([10, None], dtype="Int64"),
        accepted=pd.array([4, 5], dtype="Int64"),
        accepted_per_pos=[[4.0], [5.0]],
    )
    found = pool(table)
    assert found.drafts is None and found.accepted == 9 and found.per_position == (9.0,)


def test_interval_over_prompts_is_wider_than_tokens_as_coins():
    prompts = pd.DataFrame({"rate": [0.9, 0.5, 0.7, 0.85, 0.45, 0.6]})
    found = over_prompts(prompts, "rate", 0.05)
    assert found.value == pytest.approx(0.6667, abs=1e-4)
    assert found.high is not None and found.low is not None
    binomial = 2 * 1.96 * (0.667 * 0.333 / (6 * 300)) ** 0.5
    assert found.high - found.low > 4 * binomial


def test_one_prompt_has_no_interval():
    found = over_prompts(pd.DataFrame({"rate": [0.9]}), "rate", 0.05)
    assert found.value == 0.9 and not found.bounded and "one prompt" in str(found.reason)
