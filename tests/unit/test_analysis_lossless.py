"""Outputs against the baseline's: identical, near-tie, diverging, or no more than the baseline itself."""

import pandas as pd
import pytest

from breakeven.analysis.lossless import checks, compare, first_difference

TEXT = list(range(100, 140))


def output(arm: str, prompt: int, ids: list[int] | None, round: int = 1) -> dict[str, object]:
    return {
        "arm": arm, "round": round, "rep": 0, "kind": "tg", "status": "ok", "prompt_sha256": f"p{prompt}",
        "output_sha256": None if ids is None else str(hash(tuple(ids))), "output_ids": ids,
    }  # fmt: skip


def changed(at: int) -> list[int]:
    return [*TEXT[:at], 7, *TEXT[at + 1 :]]


def outputs(arm: str, differing: dict[int, int], prompts: int = 10) -> list[dict[str, object]]:
    return [output(arm, p, changed(differing[p]) if p in differing else TEXT) for p in range(prompts)]


def found(rows: list[dict[str, object]], **options):
    return {one.arm: one for one in compare(pd.DataFrame(rows), "base", **options)}


def test_equal_token_ids_are_identical():
    one = found(outputs("base", {}) + outputs("mtp1", {}))["mtp1"]
    assert (one.kind, one.prompts, one.share) == ("identical", 10, 0.0)


def test_first_divergence_and_share_are_told():
    one = found(outputs("base", {}) + outputs("mtp1", {2: 5, 7: 30}))["mtp1"]
    assert (one.kind, one.share, one.first_divergence, one.median_divergence) == ("diverges", 0.2, 5, 17.5)
    assert "margins were not recorded" in one.reason


def test_differences_at_recorded_near_ties_are_flips():
    margins = pd.DataFrame([("p2", 5, 0.001), ("p7", 30, 0.02)], columns=["prompt_sha256", "token", "margin"])
    rows = outputs("base", {}) + outputs("mtp1", {2: 5, 7: 30})
    assert found(rows, margins=margins)["mtp1"].kind == "tie flip"
    clear = margins.assign(margin=[0.001, 3.0])
    assert found(rows, margins=clear)["mtp1"].kind == "diverges"


def test_an_arm_that_differs_no_more_than_the_baseline_from_itself_shows_nothing():
    rows = outputs("base", {}) + outputs("base_again", {1: 9}) + outputs("mtp1", {2: 5, 7: 30})
    both = found(rows, twins=["base_again"])
    assert (both["base"].kind, both["base"].share) == ("diverges", 0.1)
    assert both["mtp1"].kind == "as the baseline itself"
    assert "base_again" not in both


def test_only_prompts_that_both_arms_had_are_compared():
    one = found([*outputs("base", {}), output("mtp1", 99, TEXT)])["mtp1"]
    assert (one.kind, one.prompts, one.share) == ("unknown", 0, None)


def test_an_output_that_ends_early_differs_where_it_ends():
    assert first_difference(TEXT, TEXT[:12]) == 12
    assert first_difference(TEXT, TEXT) is None
    assert first_difference(None, TEXT) is None


@pytest.mark.parametrize(
    ("differing", "passed"), [({}, True), ({1: 3}, None), (dict.fromkeys(range(8), 3), False)]
)
def test_check_blocks_only_what_near_ties_do_not_explain(differing, passed):
    rows = checks(
        compare(pd.DataFrame(outputs("base", {}) + outputs("mtp1", differing)), "base"),
        "ab",
        margins_known=False,
    )
    assert rows[rows["arm"] == "base"]["severity"].tolist() == ["warn"]
    row = rows[rows["arm"] == "mtp1"].iloc[0]
    assert row["passed"] is passed and row["severity"] == "block"
