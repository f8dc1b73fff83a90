"""The HTML page, as far as it can be judged without a browser: self-contained, same words, nothing untrusted in it."""

import json
import re
from pathlib import Path

import pytest

from breakeven.publish.report import html
from breakeven.publish.report.figures import figures
from breakeven.publish.report.page import markdown
from breakeven.publish.report.run import read_run
from reported_runs import CLOSE, write_run

HOSTILE = "</script><script>alert(1)</script> <!-- [x](javascript:alert(1))"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    run = read_run(write_run(tmp_path_factory.mktemp("run"), CLOSE, n_prompts=3, note=HOSTILE))
    drawn, missing = figures(run)
    return html.page(markdown(run, drawn, missing), drawn)


def body(page: str) -> str:
    return page.split("<main")[1].split("</main>")[0]


def test_nothing_on_the_page_is_loaded_from_elsewhere(page: str):
    head = page.split("<script>")[0]
    for text in (head, body(page)):
        assert not re.search(r'(src|href)="(?!#|data:|ledger/)', text)


def test_the_page_forbids_itself_every_connection(page: str):
    assert "default-src 'none'" in page and "connect-src" not in page


def test_untrusted_text_opens_no_element(page: str):
    assert "<script" not in body(page) and not re.search(r'(href|src)="javascript:', body(page))
    assert "&lt;/script&gt;" in body(page)


def test_specifications_are_json_that_cannot_end_their_element(page: str):
    specs = page.split('id="specs">')[1].split("</script>")[0]
    assert "<" not in specs
    assert set(json.loads(specs)) == {"speedup", "step_cost", "tokens_by_depth", "acceptance", "samples"}


def test_every_menu_entry_names_a_heading(page: str):
    targets = re.findall(r'<li><a href="#([\w-]+)">', page)
    assert len(targets) > 10 and all(f'id="{target}"' in body(page) for target in targets)


def test_a_page_without_figures_carries_no_library(tmp_path: Path):
    text = markdown(read_run(write_run(tmp_path, CLOSE, n_prompts=3)))
    assert len(html.page(text, [])) < 100_000
