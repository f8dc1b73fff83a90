"""An unsound ledger is refused with file, entry, key, value and what is allowed."""

import json
from dataclasses import replace
from importlib import resources

import pytest

from breakeven.publish.ledger.check import check
from breakeven.publish.ledger.entry import Change, Entry, Reopen

SOUND = Entry("a", "lead", "adopted", "hand-written", date="2026-01-01", origin="one.yaml")


def test_a_sound_entry_has_no_problem():
    assert check([SOUND]) == []


@pytest.mark.parametrize(
    ("entries", "key", "said"),
    [
        ([SOUND, replace(SOUND, origin="two.yaml")], "id", "one.yaml, two.yaml"),
        ([replace(SOUND, supersedes=("gone",))], "supersedes", "gone, which is not in the ledger"),
        ([replace(SOUND, verdict="superseded", superseded_by="gone")], "superseded_by", "gone"),
        ([replace(SOUND, verdict="superseded")], "superseded_by", "the id of the successor"),
        ([SOUND, replace(SOUND, id="b", supersedes=("a",))], "supersedes", "names no successor"),
        ([replace(SOUND, date="2026-02-30")], "date", "2026-02-30"),
        ([replace(SOUND, interval=(2.0, 1.0))], "interval", "[2.0, 1.0]"),
        ([replace(SOUND, factor=3.0, interval=(1.0, 2.0))], "factor", "3.0"),
        ([replace(SOUND, reopen=(Reopen("b falls", "b", "<"),))], "reopen", "b falls"),
        ([replace(SOUND, reopen=(Reopen("v", "engine_version", "<", "0.9"),))], "reopen.op", "== or !="),
        ([replace(SOUND, verdict="rejected")], "reopen", "what reopens it"),
    ],
)
def test_each_fault_is_named(entries, key, said):
    [problem] = check(entries)
    assert problem.key == key
    assert said in str(problem)
    assert str(problem).startswith(entries[-1].origin)


def test_a_ring_of_successors_is_named_once():
    ring = [
        replace(SOUND, id=one, verdict="superseded", superseded_by=two, supersedes=(three,))
        for one, two, three in [("a", "b", "c"), ("b", "c", "a"), ("c", "a", "b")]
    ]
    [problem] = check(ring)
    assert problem.value == "a -> b -> c -> a"


def test_an_entry_that_supersedes_itself_is_a_ring():
    own = replace(SOUND, verdict="superseded", superseded_by="a", supersedes=("a",))
    assert [problem.value for problem in check([own])] == ["a -> a"]


def test_yes_and_no_of_one_day_contradict():
    setting = {"engine": "vllm", "model": "m", "hardware": "h", "metric": "tg"}
    good = replace(SOUND, **setting)
    bad = replace(SOUND, id="b", verdict="rejected", reopen=(Reopen("w"),), **setting)
    [problem] = check([good, bad])
    assert problem.entry == "b"
    assert "rejected, while a of the same setting is adopted" in str(problem)


def test_a_superseded_entry_says_so_in_its_verdict():
    old = replace(SOUND, superseded_by="b", history=(Change(None, "adopted", "deployed", None),))
    [problem] = check([old, replace(SOUND, id="b", supersedes=("a",))])
    assert (problem.key, problem.value) == ("verdict", "adopted")


@pytest.mark.parametrize("name", ["ledger_entry", "ledger_notes"])
def test_every_key_of_a_schema_is_described_and_no_other_is_allowed(name):
    def walk(schema, path):
        for key, inner in schema.get("properties", {}).items():
            assert "$ref" in inner or inner.get("description"), f"{path}.{key}"
            walk(inner, f"{path}.{key}")
        if "properties" in schema and "additionalProperties" not in schema:
            raise AssertionError(f"{path} allows unknown keys")
        if "items" in schema:
            walk(schema["items"], f"{path}[]")

    text = (resources.files("breakeven") / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8")
    walk(json.loads(text), name)
