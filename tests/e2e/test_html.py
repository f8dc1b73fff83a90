"""The self-contained page in a real browser without a network: it draws, complains of nothing, and can be read and
reached on a phone and from a keyboard.

Needs Chromium and its driver (Debian: `chromium chromium-driver`). Without them the tests are skipped, or fail where
BREAKEVEN_REQUIRE_CHROMIUM is set.
"""

import json
import os
import shutil
from collections.abc import Iterator

import pytest

from breakeven.publish.report.__main__ import publish
from reported_runs import WON, write_run

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
PHONE_PX = 400
HOSTILE = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>"
FIGURES = ["acceptance", "samples", "speedup", "step_cost", "tokens_by_depth"]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator["object"]:
    browser, own_driver = next(filter(None, map(shutil.which, BROWSERS)), None), shutil.which("chromedriver")
    if not (browser and own_driver):
        why = "no Chromium with its driver on PATH (Debian: apt-get install chromium chromium-driver)"
        if os.environ.get("BREAKEVEN_REQUIRE_CHROMIUM"):
            pytest.fail(why)
        pytest.skip(why)
    selenium = pytest.importorskip("selenium.webdriver")
    options = selenium.ChromeOptions()
    options.binary_location = browser
    for argument in (*ARGUMENTS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    opened = selenium.Chrome(options=options, service=selenium.ChromeService(own_driver))
    yield opened
    opened.quit()


@pytest.fixture(scope="module")
def page(driver, tmp_path_factory: pytest.TempPathFactory):
    """The page of a won experiment with a hostile note and a failed arm, opened with the network switched off."""
    home = tmp_path_factory.mktemp("report")
    verdict = write_run(
        home / "results", WON, depths=(0, 8192), gpu=True, note=HOSTILE,
        died={"mtp3": (HOSTILE, [HOSTILE, "</script>"])},
    )  # fmt: skip
    web = home / "ab.html"
    publish(verdict, home / "ab.md", web, home / "figures" / "ab")
    driver.execute_cdp_cmd("Network.enable", {})
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    driver.get(web.as_uri())
    wait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait
    wait(driver, 30).until(lambda d: len(d.execute_script(DRAWN)) == len(FIGURES))
    return driver


DRAWN = "return [...document.querySelectorAll('[data-drawn=yes]')].map(e => e.dataset.figure).sort()"


def test_all_figures_are_drawn_as_vectors(page):
    assert page.execute_script(DRAWN) == FIGURES
    marks = "return [...document.querySelectorAll('svg.marks')].map(s => s.querySelectorAll('path').length)"
    assert min(page.execute_script(marks)) > 5


def test_console_is_silent_and_nothing_is_fetched(page):
    assert page.get_log("browser") == []
    sent = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    requests = [m["params"] for m in sent if m["method"] == "Network.requestWillBeSent"]
    own = [r["request"]["url"] for r in requests if r["documentURL"] == page.current_url]
    assert own and not [address for address in own if address != page.current_url and address[:5] != "data:"]


def test_untrusted_text_is_shown_and_does_nothing(page):
    assert page.execute_script("return window.pwned === undefined")
    assert "<script>window.pwned" in page.execute_script("return document.querySelector('main').innerText")
    assert page.execute_script("return document.querySelectorAll('main script, main img[src=x]').length") == 0


def test_page_says_what_the_markdown_says(page):
    text = page.execute_script("return document.querySelector('main').innerText")
    for words in ("Yes.", "mtp2 pays", "By how much?", "What differs between the arms", "Definitions"):
        assert words in text


@pytest.mark.parametrize("width_px", [PHONE_PX, 1200])
def test_page_never_scrolls_sideways(page, width_px: int):
    _resize(page, width_px)
    assert page.execute_script("return document.documentElement.scrollWidth") <= width_px
    widest = "return Math.max(...[...document.querySelectorAll('svg.marks')].map(s => s.getBoundingClientRect().right))"
    assert page.execute_script(widest) <= width_px


def test_text_on_a_phone_is_large_enough_to_read(page):
    _resize(page, PHONE_PX)
    sizes = """
        const sizes = [];
        for (const text of document.querySelectorAll('svg.marks text')) {
          const svg = text.closest('svg');
          const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
          if (text.textContent) sizes.push(scale * parseFloat(getComputedStyle(text).fontSize));
        }
        return Math.min(...sizes);"""
    assert page.execute_script(sizes) >= 9
    body = """
        return Math.min(
          ...[...document.querySelectorAll('p, li, td')].map(e => parseFloat(getComputedStyle(e).fontSize)))"""
    assert page.execute_script(body) >= 14


def test_keyboard_reaches_sections_tables_and_figures(page):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    page.execute_script("window.scrollTo(0, 0); document.activeElement.blur()")
    reached = set()
    for _ in range(200):
        page.find_element(By.TAG_NAME, "body")
        page.switch_to.active_element.send_keys(Keys.TAB)
        name = page.execute_script(
            "const e = document.activeElement; return e.id || e.getAttribute('href') || e.className || e.tagName"
        )
        if name in ("BODY", "HTML"):
            break
        reached.add(name)
    assert {"#content", "#arms", "#definitions", "wide"} <= reached
    assert {f"figure-{name}" for name in FIGURES} <= reached


def test_menu_leads_to_every_section(page):
    broken = """
        return [...document.querySelectorAll('nav a')].map(a => a.getAttribute('href'))
          .filter(href => !document.getElementById(href.slice(1)))"""
    assert page.execute_script(broken) == []


def test_every_figure_and_table_has_a_name(page):
    nameless = "return [...document.querySelectorAll('[role=figure], [role=region]')].filter(e => !e.ariaLabel).length"
    assert page.execute_script(nameless) == 0


def _resize(page, width_px: int) -> None:
    size = {"width": width_px, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
