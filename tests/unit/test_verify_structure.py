"""The structure table shows every arm beside the baseline, marks what differs and explains it where it can."""

from typing import Any

import pytest
from facts_by_hand import BASE, MTP, changed
from markdown_it import MarkdownIt

from breakeven.publish.escape import environment
from breakeven.verify.differences import log_differences
from breakeven.verify.one_variable import one_variable
from breakeven.verify.structure import Structure, from_verified, table

LOGS = {"mtp1": MTP, "base": BASE, "triton": changed(MTP, kernel="TritonScaledMMLinearKernel")}


def identity(*argv: str, **other: Any) -> dict[str, Any]:
    return {
        "engine": "vllm",
        "runtime": "docker",
        "digest": "sha256:aa",
        "argv": ["/m", *argv],
        "env": {},
        **other,
    }


IDENTITIES = {
    "base": identity("--port", "1"),
    "mtp1": identity("--port", "2", "--speculative-config", '{"method": "mtp", "num_speculative_tokens": 1}'),
    "triton": identity("-sc", '{"method": "mtp", "num_speculative_tokens": 1}', env={"AITER": "0"}),
}
FOUND = {
    arm: (
        *one_variable(IDENTITIES[arm], IDENTITIES["base"], ("speculative-config",)),
        *log_differences(LOGS[arm], BASE),
    )
    for arm in LOGS
}


@pytest.fixture
def structure() -> Structure:
    return table(LOGS, IDENTITIES, "base", FOUND)


def rendered(structure: Structure, **context: Any) -> str:
    return environment().get_template("structure.md.j2").render(structure=structure, **context)


def test_the_baseline_comes_first_and_what_blocks_stands_on_top(structure: Structure) -> None:
    assert structure.arms == ("base", "mtp1", "triton")
    assert {row.name for row in structure.rows if row.blocks} == {"kernel", "env:AITER"}
    assert [row.blocks for row in structure.rows[:3]] == [True, True, False]


def test_capacity_is_shown_with_its_change_and_its_cause(structure: Structure) -> None:
    (row,) = [row for row in structure.rows if row.name == "KV capacity (kv_tokens)"]
    assert [cell.text for cell in row.cells] == ["1,000,000", "942,000", "942,000"]
    assert row.cells[1].change == pytest.approx(-0.058)
    assert (row.meaning, row.why) == (("consequence",), ("the drafter's layers share the pool",))


def test_what_is_the_same_everywhere_is_collapsed_and_facts_of_the_run_are_left_out(
    structure: Structure,
) -> None:
    names = {row.name for row in structure.same}
    assert {"dtype", "version", "image", "--model"} <= names
    everything = names | {row.name for row in structure.rows}
    assert not {"compile_s", "--port"} & everything


def test_the_page_is_one_markdown_table_without_html(structure: Structure) -> None:
    page = MarkdownIt("gfm-like", {"linkify": False}).parse(rendered(structure, title="Structure of x"))
    kinds = [token.type for token in page]
    assert kinds.count("table_open") == 1
    assert kinds.count("tr_open") == 1 + len(structure.rows)
    assert kinds.count("td_open") == len(structure.rows) * (2 + len(structure.arms))
    assert not {"html_block", "html_inline"} & set(kinds)


def test_a_log_cannot_write_markup_into_the_table() -> None:
    logs = {"base": BASE, "mtp1": changed(MTP, kernel="<b>x</b> | [a](http://b) `c`")}
    page = MarkdownIt("gfm-like", {"linkify": False}).render(rendered(table(logs, {}, "base", {})))
    assert "&lt;b&gt;x&lt;/b&gt; | [a](http://b) `c`" in page.replace("\u2060", "")


def test_equal_arms_make_no_table() -> None:
    assert "differ in nothing" in rendered(table({"base": BASE, "again": BASE}, {}, "base", {}))


def test_the_table_needs_nothing_but_what_the_stages_stored(structure: Structure) -> None:
    verified = {
        arm: {"facts": log.to_json(), "differences": [found.to_json() for found in FOUND[arm]]}
        for arm, log in LOGS.items()
    }
    assert from_verified(verified, {arm: {"described": IDENTITIES[arm]} for arm in LOGS}, "base") == structure
