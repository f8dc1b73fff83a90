"""A closed lead is found before it is measured again, with what reopens it and whether that holds now."""

import pytest

from breakeven.publish.ledger.entry import Entry, Reopen
from breakeven.publish.ledger.prior_art import judge, prior_art

B_FALLS = Reopen("b < 0.89 at N = 1", "b", "<", 0.89, 1)


def closed(*reopen, name="old", date="2026-08-03", verdict="rejected", lead="native-mtp", **more):
    return Entry(name, lead, verdict, "measured", date=date, reopen=reopen, **more)


@pytest.mark.parametrize(
    ("quantities", "met"),
    [
        ({"b": 0.14, "a": 1.05}, True),
        ({"b": 1.16}, False),
        ({"b": {"1": 0.14, "2": 2.0}}, True),
        ({"b": {1: 0.9}}, False),
        ({"b": {"2": 0.1}}, None),
        ({"a": 1.05}, None),
        ({"b": None}, None),
        ({"b": float("nan")}, None),
        ({"b": True}, None),
        ({"b": "0.14"}, None),
    ],
)
def test_a_condition_is_met_unmet_or_unknown(quantities, met):
    assert judge(B_FALLS, quantities).met is met


@pytest.mark.parametrize(
    ("op", "met"), [("<", False), ("<=", True), (">", False), (">=", True), ("==", True), ("!=", False)]
)
def test_operators_at_their_bound(op, met):
    assert judge(Reopen("w", "rate", op, 0.5), {"rate": 0.5}).met is met


def test_texts_compare_for_equality_only():
    assert judge(Reopen("w", "engine_version", "!=", "0.11.0"), {"engine_version": "0.32.0"}).met is True
    assert judge(Reopen("w", "engine_version", "<", "0.11.0"), {"engine_version": "0.32.0"}).met is None


def test_words_alone_can_never_be_met_by_machine():
    assert judge(Reopen("a new kernel"), {"b": 0.0}).met is None


@pytest.mark.parametrize(
    ("reopen", "met"),
    [
        ((B_FALLS, Reopen("a new kernel")), True),
        ((Reopen("a > 2", "a", ">", 2.0), Reopen("a new kernel")), None),
        ((Reopen("a > 2", "a", ">", 2.0),), False),
        ((), None),
    ],
)
def test_any_one_condition_reopens(reopen, met):
    [found] = prior_art("native-mtp", [closed(*reopen)], {"a": 1.05, "b": 0.14})
    assert found.met is met


def test_only_closed_entries_of_the_lead_that_are_in_force_count_newest_first():
    entries = [
        closed(B_FALLS, name="first", date="2026-01-01"),
        closed(B_FALLS, name="second", verdict="impossible"),
        closed(B_FALLS, name="replaced", superseded_by="second"),
        closed(name="open", verdict="open-defect"),
        closed(B_FALLS, name="another", lead="native-mtp-gated"),
        closed(B_FALLS, name="undated", date=None, lead="Native-MTP "),
    ]
    assert [found.entry.id for found in prior_art("native-mtp", entries, {})] == [
        "second",
        "first",
        "undated",
    ]


def test_the_sentence_says_when_why_and_what_now():
    [found] = prior_art("native-mtp", [closed(B_FALLS, engine="vllm", model="27b")], {"b": 0.14})
    assert found.sentence == (
        "native-mtp was closed as rejected (2026-08-03, vllm, 27b; entry old). "
        "It reopens when b < 0.89 at N = 1: met now."
    )
    assert found.conditions[0].now == 0.14
