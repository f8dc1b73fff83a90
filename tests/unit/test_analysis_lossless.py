"""Outputs against the baseline's: identical, near-tie, diverging, or no more than the baseline itself."""

import pandas as pd
import pytest

from breakeven.analysis.lossless import (
    PLACES_A_CELL,
    comparable,
    compare,
    first_difference,
    paired,
    to_ask,
)

TEXT = list(range(100, 140))
OTHER = 7


def output(arm: str, prompt: int, ids: list[int] | None, **keys: object) -> dict[str, object]:
    return {
        "arm": arm, "round": 1, "seq": prompt, "depth": 0, "prompt_class": "code", "rep": 0, "kind": "tg",
        "status": "ok", "prompt_sha256": f"p{prompt}",
        "output_sha256": None if ids is None else str(hash(tuple(ids))), "output_ids": ids,
    } | keys  # fmt: skip


def changed(at: int) -> list[int]:
    return [*TEXT[:at], OTHER, *TEXT[at + 1 :]]


def outputs(arm: str, differing: dict[int, int], prompts: int = 10) -> list[dict[str, object]]:
    return [output(arm, p, changed(differing[p]) if p in differing else TEXT) for p in range(prompts)]


def margins(arm: str, known: dict[tuple[int, int], float | str]) -> pd.DataFrame:
    """(prompt, token) -> margin, or the reason why there is none."""
    return pd.DataFrame(
        [
            {
                "arm": arm, "prompt_sha256": f"p{prompt}", "token": token, "arm_id": OTHER,
                "margin": None if isinstance(found, str) else found,
                "reason": found if isinstance(found, str) else None,
            }
            for (prompt, token), found in known.items()
        ]
    ).astype({"token": "Int64", "arm_id": "Int64", "margin": float})  # fmt: skip


def found(rows: list[dict[str, object]], **options):
    return {one.arm: one for one in compare(pd.DataFrame(rows), "base", **options)}


def test_equal_token_ids_are_identical():
    one = found(outputs("base", {}) + outputs("mtp1", {}))["mtp1"]
    assert (one.kind, one.prompts, one.share, one.passed) == ("identical", 10, 0.0, True)


def test_first_divergence_and_share_are_told():
    one = found(outputs("base", {}) + outputs("mtp1", {2: 5, 7: 30}))["mtp1"]
    assert (one.kind, one.share, one.first_divergence, one.median_divergence) == ("diverges", 0.2, 5, 17.5)
    assert one.passed is None and "not asked for" in one.reason


def test_differences_at_near_ties_are_flips():
    rows = outputs("base", {}) + outputs("mtp1", {2: 5, 7: 30})
    one = found(rows, margins=margins("mtp1", {(2, 5): 0.001, (7, 30): 0.02}))["mtp1"]
    assert (one.kind, one.margin, one.passed) == ("tie flip", 0.02, True)
    assert "all at near-ties" in one.reason


def test_one_clear_margin_is_a_defect_however_few_outputs_differ():
    rows = outputs("base", {}) + outputs("mtp1", {2: 5, 7: 30})
    one = found(rows, margins=margins("mtp1", {(2, 5): 0.001, (7, 30): 3.0}))["mtp1"]
    assert (one.kind, one.margin, one.passed) == ("diverges", 3.0, False)
    assert "at token 30" in one.reason and "3.00" in one.reason


def test_a_margin_that_the_server_did_not_tell_leaves_it_open_with_the_reason():
    rows = outputs("base", {}) + outputs("mtp1", {2: 5, 7: 30})
    one = found(rows, margins=margins("mtp1", {(2, 5): 0.001, (7, 30): "no log probabilities"}))["mtp1"]
    assert (one.kind, one.passed) == ("diverges", None) and "no log probabilities" in one.reason


def test_what_was_looked_at_speaks_for_the_rest_and_says_so():
    rows = outputs("base", {}) + outputs("mtp1", dict.fromkeys(range(9), 3))
    one = found(rows, margins=margins("mtp1", {(p, 3): 0.01 for p in range(4)}))["mtp1"]
    assert one.passed is True and "all 4 looked at" in one.reason


def test_an_arm_that_differs_no_more_than_the_baseline_from_itself_shows_nothing():
    rows = outputs("base", {}) + outputs("base_again", {1: 9}) + outputs("mtp1", {2: 5, 7: 30})
    both = found(rows, twins=["base_again"])
    assert (both["base"].kind, both["base"].share) == ("diverges", 0.1)
    assert both["mtp1"].kind == "as the baseline itself"
    assert "base_again" not in both


def test_a_baseline_that_only_flips_ties_excuses_no_clear_divergence():
    rows = outputs("base", {}) + outputs("base_again", {1: 9}) + outputs("mtp1", {2: 5})
    asked = pd.concat([margins("base", {(1, 9): 0.01}), margins("mtp1", {(2, 5): 4.0})])
    both = found(rows, twins=["base_again"], margins=asked)
    assert both["base"].kind == "tie flip" and both["mtp1"].passed is False


def test_only_prompts_that_both_arms_had_are_compared():
    one = found([*outputs("base", {}), output("mtp1", 99, TEXT)])["mtp1"]
    assert (one.kind, one.prompts, one.share, one.passed) == ("unknown", 0, None, None)


def test_an_output_that_ends_early_differs_where_it_ends():
    assert first_difference(TEXT, TEXT[:12]) == 12
    assert first_difference(TEXT, TEXT) is None
    assert first_difference(None, TEXT) is None
    row = paired(pd.DataFrame([output("base", 0, TEXT), output("mtp1", 0, TEXT[:12])]), "base").iloc[0]
    assert (row["token"], row["baseline_id"]) == (12, TEXT[12]) and pd.isna(row["arm_id"])


@pytest.mark.parametrize(
    ("differing", "passed"), [({}, True), ({1: 3}, None), (dict.fromkeys(range(8), 3), False)]
)
def test_without_margins_only_what_near_ties_do_not_explain_fails(differing, passed):
    assert found(outputs("base", {}) + outputs("mtp1", differing))["mtp1"].passed is passed


def test_what_is_asked_names_the_baselines_request_and_both_tokens():
    rows = [output("base", 4, TEXT, round=2, seq=17), output("mtp1", 4, changed(5), round=2, seq=17)]
    (row,) = to_ask(paired(pd.DataFrame(rows), "base")).to_dict("records")
    assert (row["arm"], row["round"], row["seq"], row["token"]) == ("mtp1", 2, 17, 5)
    assert (row["baseline_id"], row["arm_id"], row["baseline_ids"]) == (TEXT[5], OTHER, TEXT)


def test_so_many_places_a_cell_are_asked_and_hidden_texts_are_not():
    many = outputs("base", {}, 30) + outputs("mtp1", dict.fromkeys(range(30), 3), 30)
    assert len(to_ask(paired(pd.DataFrame(many), "base"))) == PLACES_A_CELL
    hidden = [row | {"output_ids": None} for row in many]
    assert to_ask(paired(pd.DataFrame(hidden), "base")).empty


def test_drawn_tokens_and_forced_acceptance_are_not_compared():
    rows = [output("base", 0, TEXT), output("base", 1, TEXT, prompt_class="drawn"), output("reject", 0, TEXT)]
    classes = {"code": {"count": 1}, "drawn": {"sampling": {"temperature": 0.7}}}
    kept = comparable(pd.DataFrame(rows), classes, ["reject"])
    assert kept[["arm", "prompt_class"]].to_numpy().tolist() == [["base", "code"]]
