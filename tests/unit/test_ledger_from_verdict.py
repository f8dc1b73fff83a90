"""What of a verdict goes to the ledger: names and forms change, figures do not, unknown stays unknown."""

import pytest

from breakeven.publish.engine_version import engine_version
from breakeven.publish.ledger.findings import entries_of
from breakeven.publish.ledger.from_verdict import document

KNOWN = {"value": 0.62, "low": 0.6, "high": 0.64, "reason": None}
UNKNOWN = {"value": None, "low": None, "high": None, "reason": "no counters"}
REOPEN = {
    "words": "b below 0.89 at N = 1",
    "conditions": [{"quantity": "b", "below": 0.89, "above": None, "at_n": 1}],
}
EXPERIMENT = {"name": "trial", "engine": "vllm", "question": "Does it pay?", "ledger": {"lead": "native-mtp"}}


def verdict(ledger: str = "rejected", worst: dict = KNOWN, arm: str | None = "mtp1") -> dict:
    arms = [
        {"arm": "base", "tok_s": KNOWN, "cost": UNKNOWN, "ceiling": UNKNOWN, "acceptance": {}},
        {
            "arm": "mtp1",
            "tok_s": KNOWN,
            "cost": KNOWN,
            "ceiling": UNKNOWN,
            "acceptance": {"length": KNOWN, "rate": UNKNOWN},
        },
    ]
    return {
        "baseline": "base",
        "look": {"alpha": 0.05},
        "findings": [
            {
                "finding": "x",
                "arm": arm,
                "ledger": ledger,
                "sentence": "It loses.",
                "reopen": REOPEN,
                "evidence": ["why"],
            }
        ],
        "configurations": [{"arm": "mtp1", "worst": worst, "reason": "6 of 6 lose"}],
        "cells": [
            {
                "depth": 0,
                "prompt_class": "code",
                "rounds": 3,
                "fit": {"a": KNOWN, "b": UNKNOWN},
                "arms": arms,
            }
        ],
    }


def filed(one: dict, facts: dict | None = None) -> dict:
    return document(one, EXPERIMENT, facts or {}, {}, {"cpu_model": "A CPU"}, {}, 1_700_000_000.0, [])


def test_factor_interval_and_level_are_those_of_the_worst_mix():
    [found] = filed(verdict())["findings"]
    assert (found["factor"], found["interval"], found["level"]) == (0.62, [0.6, 0.64], 0.95)


def test_a_factor_that_is_not_known_is_left_out():
    [found] = filed(verdict(worst=UNKNOWN))["findings"]
    assert "factor" not in found


def test_a_reopen_condition_keeps_its_bound():
    [found] = filed(verdict())["findings"]
    assert found["reopen"] == [
        {"quantity": "b", "op": "<", "value": 0.89, "at_n": 1, "words": "b below 0.89 at N = 1"}
    ]


def test_quantities_carry_the_names_that_conditions_use_and_nothing_unknown():
    [found] = filed(verdict())["findings"]
    assert found["quantities"] == {
        "a": 0.62,
        "baseline_tok_s": 0.62,
        "cost": 0.62,
        "tokens_per_step": 0.62,
        "end_to_end_ratio": 0.62,
        "rounds": 3,
    }


def test_a_prefill_finding_is_a_record_of_its_own_without_the_decode_factor():
    [found] = filed(verdict(ledger="open-defect", arm=None))["findings"]
    assert found["kind"] == "prefill"
    assert "factor" not in found
    assert found["reason"] == "why"


@pytest.mark.parametrize(
    ("facts", "build", "version"),
    [
        ({"version": "0.12.0"}, "b1", "0.12.0"),
        ({"build": 11434}, "b1", "11434"),
        ({}, "b11549-dfd", "b11549-dfd"),
        ({}, "b0-unknown", "xllamacpp 2026.1"),
    ],
)
def test_the_engines_own_version_comes_before_that_of_its_packages(facts, build, version):
    launch = {
        "evidence": {"/props": {"build_info": build}},
        "described": {"packages": {"xllamacpp": "2026.1"}},
    }
    assert engine_version(facts, launch) == version
    assert engine_version(facts, {}) == (version if facts else None)


def test_the_ledger_takes_what_is_filed():
    [entry] = entries_of(filed(verdict()))
    assert (entry.verdict, entry.hardware, entry.date) == ("rejected", "A CPU", "2023-11-14")
