"""A ledger in the public MI210 format comes in whole, flagged where it does not fit, and goes out as it came."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven.errors import ConfigError
from breakeven.publish.ledger.build import Notes, StatusChange, build
from breakeven.publish.ledger.check import check
from breakeven.publish.ledger.entry import VERDICTS, Entry, Evidence, Reopen
from breakeven.publish.ledger.imported import KEYS, export_rows, read_rows
from breakeven.publish.ledger.schema import problems_of

HEADER = '{"_schema": "One record per lead. Fields: round, lead, ..."}'
ROW = {
    "round": 12, "lead": "graph-capture", "engine": "vllm", "model": "m30", "quant": "w8a8", "metric": "decode",
    "factor": 1.25, "verdict": "adopted", "doc": "docs/7", "note": "on by default, see `flags` | <b>",
}  # fmt: skip


def text_of(*rows):
    return "\n".join([HEADER, *(row if isinstance(row, str) else json.dumps(row) for row in rows)]) + "\n"


def only(row):
    [entry] = read_rows(text_of(row), "x.jsonl").entries
    return entry


def test_a_row_becomes_an_entry():
    entry = only(ROW)
    assert entry.id == "r12-graph-capture-vllm-m30-w8a8-decode"
    assert (entry.lead, entry.engine, entry.model, entry.quant) == ("graph-capture", "vllm", "m30", "w8a8")
    assert (entry.factor, entry.verdict, entry.evidence.report, entry.reason) == (
        1.25,
        "adopted",
        "docs/7",
        ROW["note"],
    )
    assert (entry.date, entry.hardware, entry.interval) == (None, None, None)
    assert entry.flags == ()
    assert (entry.imported.file, entry.imported.line) == ("x.jsonl", 2)


@pytest.mark.parametrize("word", ["open", "upstream-candidate", "obsolete"])
def test_a_word_outside_the_vocabulary_is_kept_and_flagged(word):
    entry = only({**ROW, "verdict": word})
    assert entry.verdict == word
    assert entry.flags == (f"verdict {word} is not in the vocabulary",)


@pytest.mark.parametrize(
    ("change", "flag"),
    [
        ({"upstream_checked": "2026-08-03"}, "unknown key upstream_checked"),
        ({"factor": "1.2x"}, 'factor "1.2x" is not a number above 0'),
        ({"factor": True}, "factor true is not a number above 0"),
        ({"round": "58b"}, 'round "58b" is not a number'),
        ({"model": ["a", "b"]}, "model is not a text"),
        ({"verdict": "rejected"}, "no reopen condition on record"),
        ({"verdict": "superseded"}, "no successor on record"),
    ],
)
def test_what_does_not_fit_is_flagged_and_kept(change, flag):
    entry = only({**ROW, **change})
    assert flag in entry.flags
    assert json.loads(entry.imported.row) == {**ROW, **change}
    assert check([entry]) == []
    assert problems_of(entry.document(), "ledger_entry", "x") == []


def test_a_key_that_is_missing_is_flagged():
    assert only({key: value for key, value in ROW.items() if key != "doc"}).flags == ("no doc",)


def test_a_null_round_and_words_for_unknown_leave_the_name():
    assert only({**ROW, "round": None, "model": "n/a", "quant": "n/a"}).id == "graph-capture-vllm-decode"


def test_rows_of_one_name_are_told_apart_in_order():
    ledger = read_rows(text_of(ROW, ROW, ROW), "x.jsonl")
    assert [entry.id.removeprefix("r12-graph-capture-vllm-m30-w8a8-decode") for entry in ledger.entries] == [
        "",
        "-2",
        "-3",
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"lead": "x"', "not JSON"),
        ("[1]", "not an object"),
        ('{"lead": "x", "lead": "y", "verdict": "noise"}', "key lead stands twice"),
        ('{"lead": "x", "verdict": "noise", "factor": NaN}', "NaN"),
        ('{"verdict": "noise"}', "no lead"),
        ('{"lead": "x", "verdict": null}', "no verdict"),
        (HEADER, "a `_schema` row"),
    ],
)
def test_a_bad_line_is_named(line, said):
    with pytest.raises(ConfigError, match=r"x\.jsonl, line 3") as error:
        read_rows(text_of(ROW, line), "x.jsonl")
    assert said in str(error.value)


def test_all_bad_lines_are_named_at_once():
    with pytest.raises(ConfigError, match=r"line 2(?s:.)*line 4"):
        read_rows(text_of("{", ROW, "}"), "x.jsonl")


def test_a_file_without_a_schema_row_and_with_windows_line_ends_reads():
    ledger = read_rows("\ufeff" + json.dumps(ROW) + "\r\n\r\n" + json.dumps(ROW) + "\r\n", "x.jsonl")
    assert ledger.header is None
    assert [entry.imported.line for entry in ledger.entries] == [1, 3]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
WORD = st.text(min_size=1, max_size=12).filter(str.strip)
ROWS = st.builds(
    lambda lead, verdict, known, unknown: {"lead": lead, **unknown, "verdict": verdict, **known},
    WORD,
    st.sampled_from([*VERDICTS, "open", "obsolete"]) | WORD,
    st.dictionaries(st.sampled_from([key for key in KEYS if key not in ("lead", "verdict")]), JSON),
    st.dictionaries(
        st.text(max_size=6).filter(lambda key: key != "_schema" and key not in KEYS), JSON, max_size=2
    ),
)


@settings(max_examples=150, deadline=None)
@given(rows=st.lists(ROWS, max_size=5), ascii_only=st.booleans())
def test_what_is_imported_is_exported_as_it_came(rows, ascii_only):
    text = text_of(*(json.dumps(row, ensure_ascii=ascii_only) for row in rows))
    ledger = read_rows(text, "x.jsonl")
    entries = build(None, Notes(), ledger.entries, [])
    assert [
        problem for entry in entries for problem in problems_of(entry.document(), "ledger_entry", "x")
    ] == []
    assert export_rows(reversed(entries), ledger.header) == text


def test_a_changed_status_is_all_that_changes_in_a_row():
    entry = only(ROW)
    [changed] = build(
        None, Notes(changes=(StatusChange(entry.id, "2026-09-01", "deployed", "r"),)), [entry], []
    )
    exported = json.loads(export_rows([changed], HEADER).splitlines()[1])
    assert exported == {**ROW, "verdict": "deployed"}
    assert list(exported) == list(ROW)


def test_a_measured_entry_is_exported_as_a_row_that_imports():
    entry = Entry(
        "e-mtp1-decode", "native-mtp", "rejected", "measured", engine="vllm", metric="tg256 @ d0", factor=0.838,
        sentence="MTP loses.", reopen=(Reopen("b falls"),), evidence=Evidence("reports/e.md"),
    )  # fmt: skip
    ledger = read_rows(export_rows([entry]), "x.jsonl")
    assert ledger.header is not None
    [back] = ledger.entries
    assert (back.lead, back.factor, back.verdict) == ("native-mtp", 0.838, "rejected")
    assert (back.reason, back.evidence.report) == ("MTP loses.", "reports/e.md")
