"""Tables: aligned in the source, untrusted text harmless, reasons below instead of in cells."""

import pytest
from markdown_it import MarkdownIt

from breakeven.publish.report.table import Table, aligned


def test_columns_are_padded_and_numbers_stand_right():
    table = Table(["arm", "t/s >"])
    table.add("base", "36.13")
    table.add("mtp1", "5.1")
    assert table.markdown() == "\n".join(
        ["| arm  |   t/s |", "| ---- | ----: |", "| base | 36.13 |", "| mtp1 |   5.1 |"]
    )


def test_a_row_of_the_wrong_length_is_an_error():
    with pytest.raises(ValueError, match="2 cells under 1 headings"):
        Table(["arm"]).add("base", "extra")


def test_a_pipe_or_a_link_in_a_cell_stays_text():
    table = Table(["reason"])
    table.add("a | b [link](http://evil.example)\n# heading <b>")
    html = MarkdownIt("commonmark").enable("table").render(table.markdown())
    assert html.count("<td>") == 1 and "<a " not in html and "<b>" not in html and "<h1>" not in html


def test_equal_reasons_share_one_note():
    table = Table(["cost"])
    for _ in range(2):
        table.add(table.estimate({"value": None, "low": None, "high": None, "reason": "no steps"}))
    assert table.markdown().count("no steps") == 1
    assert table.markdown().count("unknown") == 2


def test_a_long_cell_does_not_pad_all_others():
    table = Table(["why"])
    table.add("x" * 500)
    table.add("short")
    assert len(table.markdown().split("\n")[-1]) < 100


def test_tables_of_templates_are_aligned_and_fenced_blocks_are_left_alone():
    page = "```text\n| a|b |\n|-|-|\n```\n\n| a|b \\| c |\n|:-|-:|\n| longer|1 |\n\nend"
    assert aligned(page) == (
        "```text\n| a|b |\n|-|-|\n```\n\n"
        "| a      | b \\| c |\n| ------ | -----: |\n| longer |      1 |\n\nend"
    )
