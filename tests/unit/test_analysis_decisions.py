"""Looks, the order of the table of conditions, and the staged search."""

import pytest

from breakeven.analysis.estimate import Estimate, point
from breakeven.analysis.judgement import TABLE, Evidence, judge
from breakeven.analysis.looks import LOOKS, look
from breakeven.analysis.promotion import Trial, next_arm
from breakeven.errors import ConfigError

WIN, LOSS, OPEN = Estimate(1.5, 1.4, 1.6), Estimate(0.8, 0.7, 0.9), Estimate(1.0, 0.97, 1.03)


def test_the_looks_spend_an_error_of_five_percent_together():
    assert sum(LOOKS.values()) == pytest.approx(0.05)
    assert [look("auto", r).next_rounds for r in (3, 5, 8)] == [5, 8, None]
    assert look("auto").rounds == 3 and look("auto").cap == 8


def test_fixed_rounds_are_looked_at_once():
    assert (look(4).alpha, look(4).next_rounds) == (0.05, None)
    assert "no usable error" in look(1).rule


def test_a_look_that_was_not_planned_is_refused():
    with pytest.raises(ConfigError, match="not planned"):
        look("auto", 4)
    with pytest.raises(ConfigError, match="once"):
        look(3, 5)


def test_rows_are_tried_in_their_order_and_the_last_always_holds():
    assert [row.number for row in TABLE] == [0, 1, 2, 3, 4, 5, 6]
    assert TABLE[-1].holds(Evidence("a", "depth 0"))


@pytest.mark.parametrize(
    ("evidence", "verdict", "ledger"),
    [
        (Evidence("a", "d0", status="died", ratio=WIN), "not measured", "blocked"),
        (Evidence("a", "d0", status="unsupported"), "not measured", "impossible"),
        (Evidence("a", "d0", status="refused", ratio=WIN), "invalid", "diagnosis"),
        (Evidence("a", "d0", objections=("gate kernel",), ratio=WIN, impossible=True), "invalid", "diagnosis"),
        (Evidence("a", "d0", objections=("check lossless: ..",), diverges=True, ratio=WIN), "invalid", "open-defect"),
        (Evidence("a", "d0", impossible=True, ratio=LOSS), "impossible", "impossible"),
        (Evidence("a", "d0", ratio=LOSS, equivalent=True), "loses", "rejected"),
        (Evidence("a", "d0", ratio=WIN), "wins", "candidate"),
        (Evidence("a", "d0", ratio=OPEN, equivalent=True), "tie", "noise"),
        (Evidence("a", "d0", ratio=OPEN, equivalent=False), "inconclusive", "noise"),
        (Evidence("a", "d0", ratio=point(1.5, "one launch per arm has no usable error")), "inconclusive", "noise"),
    ],
)  # fmt: skip
def test_first_row_that_holds_gives_verdict_and_ledger_word(evidence, verdict, ledger):
    found = judge(evidence)
    assert (found.verdict, found.ledger) == (verdict, ledger)
    assert found.sentence.startswith("a ") and found.sentence.endswith(".")


def test_a_loss_names_its_limit():
    for ceiling, cause in (
        (Estimate(1.7, 1.6, 1.8), "acceptance-limited"),
        (Estimate(0.9, 0.85, 0.95), "cost-limited"),
        (Estimate(1.0, 0.9, 1.1), "undetermined"),
    ):
        assert judge(Evidence("a", "d0", ratio=LOSS, ceiling=ceiling)).cause == cause


def test_sentence_quotes_factor_interval_and_level():
    words = judge(Evidence("mtp2", "depth 0, code", n_spec=2, ratio=WIN, level=0.99)).sentence
    assert (
        words
        == "mtp2 (N = 2) runs at 1.500 times the baseline at depth 0, code (99% interval 1.400 to 1.600): it pays."
    )


def test_staged_search_raises_p_min_until_the_loss_is_gone_then_n_max_then_ngram():
    trials: list[Trial] = []

    def proposed() -> dict[str, object] | None:
        following = next_arm(trials, [0.0, 0.5, 0.7], [2, 3, 4], 3)
        return None if following is None else dict(following.change)

    assert proposed() == {"p_min": 0.0, "n_max": 3}
    trials.append(Trial(3, 0.0, "model", True))
    assert proposed() == {"p_min": 0.5, "n_max": 3}
    trials.append(Trial(3, 0.5, "model", None))
    assert proposed() is None
    trials[-1] = Trial(3, 0.5, "model", False)
    assert proposed() == {"p_min": 0.5, "n_max": 2}
    trials.append(Trial(2, 0.5, "model", False))
    assert proposed() == {"p_min": 0.5, "n_max": 4}
    trials.append(Trial(4, 0.5, "model", True))
    assert proposed() == {"drafter": "ngram"}
    trials.append(Trial(4, 0.0, "ngram", False))
    assert proposed() is None
