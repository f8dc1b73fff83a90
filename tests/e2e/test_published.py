"""What a real run leaves for readers: pages, figures, the ledger's files, and Snakemake's own report."""

import json
import re

import pytest
from markdown_it import MarkdownIt

from small_project import REPORT, Project

pytestmark = pytest.mark.slow


def test_links_of_the_page_lead_to_files_that_are_there(project: Project):
    page = project.folder / REPORT
    tokens = MarkdownIt("commonmark").enable("table").parse(page.read_text())
    inline = [child for token in tokens for child in token.children or ()]
    links = [str(t.attrGet("href") or t.attrGet("src")) for t in inline if t.type in ("link_open", "image")]
    assert links and all((page.parent / link).is_file() for link in links)


def test_every_figure_has_its_data_beside_it(project: Project):
    folder = project.folder / "reports/figures/small"
    stems = {path.stem for path in folder.glob("*.svg")}
    assert stems and all(
        (folder / f"{stem}.{suffix}").is_file() for stem in stems for suffix in ("png", "parquet")
    )


def test_provenance_of_a_real_run_is_known(project: Project):
    provenance = project.report().split("## Provenance")[1].split("Command lines")[0]
    known = dict(re.findall(r"^\| (\S.*?) +\| (.*?) +\|$", provenance, re.MULTILINE))
    for what in ("its hash", "host", "system", "memory", "first launch", "model file (--model)"):
        assert "unknown" not in known[what]


def test_ledger_holds_the_findings_of_the_run(project: Project):
    lines = (project.folder / "reports/ledger.jsonl").read_text().splitlines()
    assert {json.loads(line)["experiment"] for line in lines} == {"small"}
    assert (project.folder / "reports/ledger.md").is_file()


def test_snakemakes_report_has_description_categories_and_captions(project: Project):
    project.run("--report", "report.html", REPORT)
    text = (project.folder / "report.html").read_text()
    for words in (
        "Breakeven measures whether a speculative-decoding setting pays",
        "The whole report of experiment small",
        "One point a launch; the number beside it is its slot",
        '"Figures"',
        '"Ledger"',
    ):
        assert words in text
