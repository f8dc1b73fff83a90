"""The report of experiments whose truth is known, read as a machine reads Markdown and as a stranger reads a page."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from breakeven.publish.report.__main__ import main
from breakeven.publish.report.figures import figures
from breakeven.publish.report.page import markdown
from breakeven.publish.report.run import read_run
from breakeven.publish.report.table import MOST_COLUMNS
from reported_runs import BASE, CLOSE, IMPOSSIBLE, LOST, WON, TrueArm, write_run
from unit.simulated_launches import check

HOSTILE = (
    "<script>alert(1)</script> | [click](http://evil.example) `x` **bold** ![i](http://evil.example/i.png)"
)
PROBES = BASE | {
    "none": TrueArm(1.20, (0.0,), cost_only=True),
    "all": TrueArm(1.20, (1.0,), cost_only=True),
}
CASES: dict[str, dict[str, Any]] = {
    "won": {"arms": WON, "depths": (0, 8192), "mixes": [{"prompt": 2048, "output": 256}], "gpu": True},
    "lost": {"arms": LOST, "depths": (0, 8192), "note": "Demonstration, below method."},
    "inconclusive": {"arms": CLOSE, "n_prompts": 3},
    "impossible": {"arms": IMPOSSIBLE},
    "failed": {
        "arms": WON,
        "died": {"mtp3": (f"exit code 1: {HOSTILE}", ["E unknown flag", HOSTILE, "```", "# no heading"])},
        "refused": {"mtp2": ("speculation is off though asked", [])},
    },
    "baseline failed": {"arms": CLOSE, "died": {"base": ("exit code 1", ["E out of memory"])}},
    "cost probes": {"arms": PROBES},
    "one launch": {"arms": WON, "rounds": 1},
    "next look": {"arms": CLOSE, "planned": "auto", "sd": 0.01, "n_prompts": 3},
    "failed checks": {
        "arms": WON,
        "checks": [
            check("mtp1", False, reason=HOSTILE, value=0.5),
            check("mtp2", False, severity="warn", round=1),
            check("mtp3", None, name="lossless", reason="5 of 9 outputs differ", value=0.55),
            check("base", True, name="requests"),
        ],
    },
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {
        name: _page(write_run(tmp_path_factory.mktemp("run"), **case))  # type: ignore[arg-type]
        for name, case in CASES.items()
    }


def _page(verdict: Path) -> str:
    run = read_run(verdict)
    return markdown(run, *figures(run))


@pytest.fixture(params=CASES)
def page(request: pytest.FixtureRequest, pages: dict[str, str]) -> str:
    return pages[request.param]


def parse(page: str) -> list[Token]:
    return MarkdownIt("commonmark", {"html": True}).enable("table").parse(page)


def tables(tokens: list[Token]) -> Iterator[list[int]]:
    """Cells of every row, table by table, before the parser pads them: counted in the source."""
    lines: list[int] = []
    for token in tokens:
        if token.type == "table_open" and token.map:
            lines = list(range(*token.map))
            yield lines


def headline(page: str) -> str:
    return page.split("\n\n")[1]


def shown(tokens: list[Token]) -> str:
    """All text that a reader sees; code blocks left out, as they quote logs."""
    return "\n".join(
        child.content
        for token in tokens
        for child in token.children or ()
        if child.type in ("text", "code_inline")
    )


def test_unknown_is_never_shown_as_nan_or_none(page: str):
    words = shown(parse(page)).replace("none", "")  # "none" is an arm's method
    assert not re.search(r"\b(nan|NaN|None|inf)\b", words)


def test_page_holds_no_raw_html(page: str):
    tokens = parse(page)
    inline = [child for token in tokens for child in token.children or ()]
    assert not [token.content for token in [*tokens, *inline] if token.type in ("html_block", "html_inline")]


def test_every_row_of_a_table_has_as_many_cells_as_its_head(page: str):
    source = page.split("\n")
    for rows in tables(parse(page)):
        assert len({len(re.findall(r"(?<!\\)\|", source[row])) for row in rows}) == 1


def test_tables_are_aligned_in_the_source(page: str):
    source = page.split("\n")
    for rows in tables(parse(page)):
        lines = [source[row] for row in rows]
        if all(len(cell) <= MOST_COLUMNS + 2 for line in lines for cell in re.split(r"(?<!\\)\|", line)):
            assert len({tuple(m.start() for m in re.finditer(r"(?<!\\)\|", line)) for line in lines}) == 1


def test_every_heading_has_text_and_something_below_it(page: str):
    tokens = parse(page)
    for index, token in enumerate(tokens):
        if token.type == "heading_open":
            assert tokens[index + 1].content.strip()
            below = next((t for t in tokens[index + 3 :] if t.level == 0), None)
            deeper = below is not None and below.type == "heading_open" and below.tag > token.tag
            assert below is not None and (below.type != "heading_open" or deeper), tokens[index + 1].content


def test_nothing_untrusted_becomes_a_link_or_an_image(page: str):
    inline = [child for token in parse(page) for child in token.children or ()]
    targets = [str(t.attrGet("href") or t.attrGet("src")) for t in inline if t.type in ("link_open", "image")]
    assert all(re.fullmatch(r"(figures/ab/\w+\.svg|ledger/ab\.md)", target) for target in targets)


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("cost probes", "**Costs only.**"),
        ("won", "**Yes.** mtp3 pays"),
        ("lost", "**No.** mtp1, mtp2 and mtp3 lose"),
        ("inconclusive", "**Not decided.**"),
        ("impossible", "**No, at any acceptance.**"),
        ("failed", "**Yes.** mtp1 pays"),
        ("baseline failed", "**No answer.** The baseline base has no result"),
        ("one launch", "**Not decided.**"),
        ("next look", "**Not decided.**"),
    ],
)
def test_first_line_says_what_the_simulated_truth_is(pages: dict[str, str], case: str, words: str):
    assert headline(pages[case]).startswith(words)


@pytest.mark.parametrize("case", ["won", "lost", "impossible"])
def test_first_screen_states_the_factor_with_its_interval(pages: dict[str, str], case: str):
    verdict_free = pages[case].split("## Arms")[0]
    assert re.search(r"that is \d\.\d{3} \(95 % interval \d\.\d{3} to \d\.\d{3}\) times", verdict_free)


def test_first_screen_says_that_a_demonstration_is_one(pages: dict[str, str]):
    assert "Demonstration, below method." in pages["lost"].split("## Arms")[0]


def test_a_tie_is_no_difference_when_rounds_suffice(tmp_path: Path):
    twin = BASE | {"mtp1": TrueArm(1.5, (0.5,))}
    verdict = write_run(tmp_path, twin, rounds=8, sd=0.004, n_prompts=60, drift_per_round=0.0, seed=2)
    assert headline(_page(verdict)).startswith("**No difference.** mtp1 is as fast")


def test_a_prefill_regression_is_said_on_the_first_screen(tmp_path: Path):
    """Oracle: the simulated arm computes a prompt at 0.75 of the baseline's rate."""
    slow = BASE | {"mtp1": TrueArm(1.2, (0.88,), prefill=0.75)}
    first = _page(write_run(tmp_path, slow, n_prompts=3)).split("## Arms")[0]
    assert re.search(r"\*\*Also found\.\*\* Prefill falls to 0\.7[45]\d of the baseline at depth 0", first)


def test_failed_arm_is_a_row_with_its_reason_its_last_lines_and_the_command_to_try_again(
    pages: dict[str, str],
):
    page = pages["failed"]
    assert "| no result" in page
    blocks = [token.content for token in parse(page) if token.type == "fence"]
    assert any(block.startswith("E unknown flag\n") and "# no heading" in block for block in blocks)
    assert "snakemake --cores 1 reports/ab.md -R results/ab/mtp3/bring_up.json\n" in blocks
    assert "speculation is off though asked" in shown(parse(page))


def test_failed_checks_stand_above_open_and_passed_ones(pages: dict[str, str]):
    rows = pages["failed checks"].split("### Checks")[1].split("## ")[0]
    places = [rows.index(word) for word in ("**failed**", "**warning**", "| open ", "| passed ")]
    assert places == sorted(places)


def test_an_invalid_cell_shows_no_factor(pages: dict[str, str]):
    decode = pages["failed checks"].split("## Decode speed")[1].split("## Prefill")[0]
    row = next(line for line in decode.split("\n") if "`mtp1`" in line)
    assert "no factor" in row and "invalid" in row


def test_rows_for_comparison_are_named_as_llama_bench_names_them(pages: dict[str, str]):
    rows = pages["won"].split("## Rows to compare")[1].split("\n\n")[1]
    assert re.search(r"\| pp2048 @ d8192 +\| +1\d{3}\.\d\d \|", rows)
    assert re.search(r"\| tg256 @ d8192 +\| +\d+\.\d\d ± \d+\.\d\d \|", rows)


def test_harness_overhead_is_what_a_launch_took_beyond_launching_and_measuring(pages: dict[str, str]):
    """Oracle: the written launches take 2 s + 30 s, then 0.5 s teardown and 0.5 s job: 1/32."""
    assert re.search(r"\| all .*\| +3\.1 % \|", pages["won"])


def test_command_line_writes_page_web_page_and_figures(tmp_path: Path):
    verdict = write_run(tmp_path / "results", CLOSE, n_prompts=3)
    page, web, folder = tmp_path / "ab.md", tmp_path / "ab.html", tmp_path / "figures" / "ab"
    assert main(["ab", str(verdict), str(page), str(web), str(folder)]) == 0
    links = re.findall(r"\]\((figures/\S+)\)", page.read_text())
    assert links and all((tmp_path / link).is_file() for link in links)
    assert web.read_text().startswith("<!doctype html>")


def test_command_line_names_the_file_that_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    verdict = write_run(tmp_path, CLOSE, n_prompts=3)
    (verdict.parent / "cells.parquet").unlink()
    assert main(["ab", str(verdict), "a.md", "a.html", "figures"]) == 2
    assert "cells.parquet" in capsys.readouterr().err
