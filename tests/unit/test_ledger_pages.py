"""Ledger pages say what the entries say, and nothing in an entry becomes markup."""

from dataclasses import replace

import pytest
from markdown_it import MarkdownIt

from breakeven.publish.ledger.entry import Change, Entry, Evidence, HashedFile, Imported, Remark, Reopen
from breakeven.publish.ledger.pages import entry_page, experiment_page, factor_text, index_page
from breakeven.publish.ledger.search import search

HOSTILE = "![x](http://evil.example) <script>alert(1)</script> | `a` **b**\n# c"
WIN = Entry(
    "mtp_ab-mtp1-decode", "native-mtp", "recommended", "measured", date="2026-11-30", experiment="mtp_ab",
    engine="vllm", engine_version="0.32.0", model="27b", quant="w8a8", hardware="MI210", metric="tg256 @ d0",
    factor=1.58, interval=(1.55, 1.61), level=0.95, sentence="MTP pays.", supersedes=("old",),
    evidence=Evidence("reports/mtp_ab.md", (HashedFile("results/cells.parquet", "0" * 64),)),
)  # fmt: skip
OLD = Entry(
    "old", "native-mtp", "superseded", "hand-written", date="2026-08-03", superseded_by=WIN.id,
    history=(Change("2026-11-30", "rejected", "superseded", "contradicted"),), reopen=(Reopen("b < 0.89"),),
)  # fmt: skip
DEFECT = Entry(
    "mtp_ab-prefill", "zz-prefill", "open-defect", "measured", date="2026-01-01", experiment="mtp_ab"
)
CLOSED = Entry(
    "closed", "other", "rejected", "imported", reason="slow", reopen=(Reopen("a new kernel"),),
    flags=("no successor",), imported=Imported("x.jsonl", 2, '{"a": "```\\u0000"}'),
)  # fmt: skip
LEDGER = [WIN, OLD, DEFECT, CLOSED]
RENDER = MarkdownIt("commonmark").enable("table")


def elements(page):
    tokens = RENDER.parse(page)
    return {token.tag for token in tokens} | {
        inner.type for token in tokens for inner in token.children or ()
    }


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({}, "1.58 [1.55, 1.61] (95 %)"),
        ({"level": None}, "1.58 [1.55, 1.61] (level unknown)"),
        ({"interval": None}, "1.58, interval unknown"),
        ({"factor": None}, "unknown"),
        ({"factor": 0.83805, "interval": (0.7, 12345.6)}, "0.838 [0.7, 12346] (95 %)"),
    ],
)
def test_a_factor_never_stands_without_its_uncertainty(change, text):
    assert factor_text(replace(WIN, **change)) == text


def test_an_experiment_s_page_has_a_section_a_finding_and_names_what_it_supersedes():
    page = experiment_page("mtp_ab", [WIN, DEFECT], LEDGER)
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        "## mtp_ab-mtp1-decode", "## mtp_ab-prefill", "## Superseded by these findings",
    ]  # fmt: skip
    assert "- `old` (2026-08-03): was rejected; contradicted" in page
    assert f"- `results/cells.parquet`, SHA-256 `{'0' * 64}`" in page


def test_the_index_has_open_defects_on_top_then_leads_newest_first():
    page = index_page(LEDGER)
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        "## Open defects", "## native-mtp", "## zz-prefill", "## other",
    ]  # fmt: skip
    assert page.index(WIN.id, page.index("## native-mtp")) < page.index("`old`", page.index("## native-mtp"))
    assert "[mtp_ab-mtp1-decode](ledger/mtp_ab.md#mtp_ab-mtp1-decode)" in page
    assert "Reopens when a new kernel" in page
    assert "Superseded by `mtp_ab-mtp1-decode`" in page


def test_a_closed_defect_is_not_on_top():
    assert "Open defects" not in index_page([replace(DEFECT, verdict="superseded", superseded_by="x")])


@pytest.mark.parametrize(
    "page", [index_page(LEDGER), experiment_page("mtp_ab", [WIN], LEDGER), entry_page(CLOSED)]
)
def test_no_page_prints_none_or_nan_or_an_empty_section(page):
    assert "None" not in page
    assert "nan" not in page.lower()
    lines = [line for line in page.splitlines() if line]
    assert not any(
        a.startswith("## ") and b.startswith("## ")
        for a, b in zip(lines, [*lines[1:], "## end"], strict=True)
    )
    assert "\n\n\n" not in page


def test_an_empty_ledger_is_a_page():
    assert "0 entries" in index_page([])


def test_nothing_in_an_entry_becomes_markup():
    words = (
        "lead",
        "question",
        "configuration",
        "engine",
        "model",
        "quant",
        "hardware",
        "metric",
        "reason",
        "sentence",
    )
    hostile = _entry_of(words, HOSTILE)
    harmless = _entry_of(words, "plain")
    for render in (
        entry_page,
        lambda entry: index_page([entry]),
        lambda entry: experiment_page("e", [entry], []),
    ):
        assert elements(render(hostile)) <= elements(render(harmless))


def _entry_of(words, text):
    return Entry(
        id="x", verdict=text, source="imported", date="2026-01-01", **dict.fromkeys(words, text),
        reopen=(Reopen(text),), quantities={text: text, "by_n": {text: 1.0}}, flags=(text,),
        notes=(Remark(None, text),), history=(Change(None, text, text, text),), superseded_by=text,
        supersedes=(text,), evidence=Evidence(text, (HashedFile(text, text),)),
        imported=Imported(text, 1, text + "\n```\n# out"),
    )  # fmt: skip


class TestSearch:
    def test_more_words_come_first_then_the_lead_then_the_newest(self):
        lead = Entry("a", "native-mtp", "noise", "measured", date="2026-01-01")
        newer = replace(lead, id="b", date="2026-02-01")
        mention = Entry("c", "graphs", "noise", "measured", reason="native graphs")
        both = Entry("d", "x", "noise", "measured", reason="native mtp on mi210")
        found = search("native MI210", [mention, lead, newer, both])
        assert [entry.id for entry in found] == ["d", "b", "a", "c"]

    def test_the_beginning_of_a_word_counts_and_no_word_finds_nothing(self):
        assert search("nativ", [WIN]) == [WIN]
        assert search("absent", [WIN]) == []
        assert search("  -- ", [WIN]) == []

    def test_versions_reports_and_conditions_are_searched(self):
        assert search("0.32.0", LEDGER) == [WIN]
        assert search("reports", LEDGER) == [WIN]
        assert search("kernel", LEDGER) == [CLOSED]
