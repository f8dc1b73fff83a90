"""Every pattern reads its own example, and is found by one of its words."""

import re

import pytest

from breakeven.engine.fatal import BENIGN, FATAL, fatal
from breakeven.engine.patterns import NAMES, Pattern
from breakeven.engine.reader import PATTERNS, read_facts

ROWS = [
    pytest.param(engine, pattern, id=f"{engine}-{place}")
    for engine, patterns in PATTERNS.items()
    for place, pattern in enumerate(patterns)
]


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9_]+", text.lower()))


@pytest.mark.parametrize(("engine", "pattern"), ROWS)
def test_a_pattern_reads_its_example(engine: str, pattern: Pattern) -> None:
    assert pattern.read(pattern.example)[0] == dict(pattern.gives)


@pytest.mark.parametrize(("engine", "pattern"), ROWS)
def test_a_pattern_is_found_by_its_words(engine: str, pattern: Pattern) -> None:
    assert set(pattern.words.split()) & words(pattern.example)


@pytest.mark.parametrize(("engine", "pattern"), ROWS)
def test_a_log_of_one_example_is_read_by_its_engine(engine: str, pattern: Pattern) -> None:
    facts = read_facts(pattern.example.encode(), engine)
    assert facts.engine == engine
    said = {name for name, value in pattern.gives.items() if value is not None and pattern.record is None}
    shown = {name for name in facts.facts if facts.facts[name].value is not None}
    hidden = {"graph_plan", "v0_args", "server_args", "spec_resolved", "graphs_finished", "spec_none"}
    assert said - hidden <= shown | {"n_max"}


@pytest.mark.parametrize("entry", FATAL, ids=lambda entry: entry.regex[:40])
def test_a_fatal_pattern_finds_its_example(entry) -> None:
    assert fatal(entry.engines[0], entry.example)
    assert set(entry.words.split()) & words(entry.example)


@pytest.mark.parametrize(("regex", "why", "example"), BENIGN)
def test_a_benign_line_is_not_fatal(regex: str, why: str, example: str) -> None:
    assert re.search(regex, example)
    assert fatal(None, example) is None


def test_every_fact_name_is_a_flat_word() -> None:
    assert [name for name in NAMES if not re.fullmatch(r"[a-z][a-z0-9_]*", name)] == []
