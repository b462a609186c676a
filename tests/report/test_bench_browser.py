"""The page of the benchmark in headless Chromium: it sorts and filters, by keyboard too, and asks for nothing."""

import base64
import os
from pathlib import Path

import pytest

from tensormvc.bench._page import results_page

from ..bench.conftest import fill
from ..bench.test_report import MADE, made_accuracy
from .conftest import HOSTILE, requests
from .conftest import show as show_page


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    text = MADE.replace("a remark", "a remark </script><script>document.title = 1</script>")
    made = fill(folder / "made.sqlite", text, made_accuracy)
    page = folder / "index.html"
    page.write_text(results_page(f"{HOSTILE}.sqlite", [made]), encoding="utf-8")
    return page


def show(browser, path, *arguments):
    """Open the page, and everything in it that is folded."""
    show_page(browser, path, *arguments)
    browser.execute_script("for (const part of document.querySelectorAll('details')) part.open = true")


EVERY = "[...document.querySelectorAll('table')].find(t => t.caption.textContent === 'Every figure of made')"


def shown(browser, column):
    """The texts of a column in the rows that are seen."""
    return browser.execute_script(
        f"return [...{EVERY}.tBodies[0].rows].filter(r => r.offsetParent !== null)"
        f".map(r => r.cells[{column}].textContent)"
    )


def control(browser, name):
    return browser.execute_script(
        f"return {EVERY}.closest('[data-filters]').querySelector('select[aria-label^=\"{name}\"]')"
    )


def choose(browser, name, value):
    from selenium.webdriver.support.ui import Select

    Select(control(browser, name)).select_by_visible_text(value)


def button(browser, column):
    """The button in the head of a column, in the middle of the window."""
    return browser.execute_script(
        f"const found = {EVERY}.tHead.rows[0].cells[{column}].querySelector('button');"
        "found.scrollIntoView({block: 'center', behavior: 'instant'}); return found"
    )


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_error_and_no_request(browser, path, scheme, width, tmp_path):
    requests(browser)
    show(browser, path, scheme, width)
    assert browser.get_log("browser") == []
    assert [url for url in requests(browser) if not url.startswith("data:")] == [path.as_uri()]
    assert browser.title == "Benchmark of tensor multi-view clustering"
    size = browser.execute_script(
        "const e = document.documentElement; return [e.scrollWidth, e.clientWidth, e.scrollHeight]"
    )
    assert size[0] <= size[1], "the page scrolls sideways"
    whole = {"x": 0, "y": 0, "width": width, "height": min(size[2], 12000), "scale": 1}
    taken = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": whole})
    folder = Path(os.environ.get("TENSORMVC_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"bench-{scheme}-{width}.png").write_bytes(base64.b64decode(taken["data"]))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessibility(browser, axe, path, scheme):
    show(browser, path, scheme)
    browser.execute_script(axe)
    found = browser.execute_async_script("const done = arguments[0]; axe.run().then(done, e => done({error: '' + e}))")
    assert "error" not in found
    violations = {v["id"]: [node["html"][:200] for node in v["nodes"]] for v in found["violations"]}
    assert violations == {}


def test_it_begins_with_the_main_table_and_a_figure(browser, path):
    show_page(browser, path)
    tops = browser.execute_script(
        "return [...document.querySelectorAll('main table, main svg')].slice(0, 2)"
        ".map(e => e.caption ? e.caption.textContent : e.getAttribute('aria-label').slice(0, 13))"
    )
    assert tops == ["Mean ACC over the methods", "Average ranks"]
    assert browser.execute_script("return document.querySelectorAll('.callout').length") == 0


def test_a_claim_leads_to_its_cells(browser, path):
    """They are folded, and the link unfolds them."""
    show_page(browser, path)
    shown = "return document.querySelector('#plan-made-0 table').checkVisibility()"
    assert not browser.execute_script(shown)
    browser.execute_script("[...document.querySelectorAll('#claims a')].find(a => a.hash === '#plan-made-0').click()")
    assert browser.execute_script(shown)


def test_filter(browser, path):
    show(browser, path)
    assert set(shown(browser, 3)) == {"ACC"}  # what the page begins with
    choose(browser, "Metric", "all")
    everything = len(shown(browser, 0))
    assert everything == 5 * 2 * (2 * 2 * 5 + 3)
    choose(browser, "Data set", "NGs")
    choose(browser, "Selection", "default")
    choose(browser, "Metric", "NMI")
    assert len(shown(browser, 0)) == 2 * 5 + 2
    assert (set(shown(browser, 0)), set(shown(browser, 4))) == ({"NGs"}, {"default"})
    status = browser.execute_script(
        f"return {EVERY}.closest('[data-filters]').querySelector('[role=status]').textContent"
    )
    assert status == f"12 of {everything} rows"


def test_sort(browser, path):
    show(browser, path)
    for expected in ("descending", "ascending"):
        button(browser, 5).click()
        values = [float(text.split()[0]) for text in shown(browser, 5)]
        assert values == sorted(values, reverse=expected == "descending")
        assert browser.execute_script(f"return {EVERY}.tHead.rows[0].cells[5].ariaSort") == expected
    button(browser, 7).click()
    gaps = [text.split()[0].replace("−", "-") for text in shown(browser, 7)]
    numbers = [float(gap) for gap in gaps if gap != "–"]
    assert numbers == sorted(numbers, reverse=True)
    assert gaps[len(numbers) :] == ["–"] * (len(gaps) - len(numbers)), "what has no figure comes last"
    button(browser, 1).click()
    assert shown(browser, 1) == sorted(shown(browser, 1), key=str.casefold)


def test_keyboard(browser, path):
    from selenium.webdriver.common.keys import Keys

    show(browser, path)
    browser.execute_script("arguments[0].focus()", control(browser, "Data set"))
    browser.switch_to.active_element.send_keys("N")
    assert set(shown(browser, 0)) == {"NGs"}
    browser.execute_script("arguments[0].focus()", button(browser, 5))
    active = browser.switch_to.active_element
    assert active.value_of_css_property("outline-style") == "solid"
    active.send_keys(Keys.ENTER)
    values = [float(text.split()[0]) for text in shown(browser, 5)]
    assert values == sorted(values, reverse=True)


def test_paper(browser, path):
    show(browser, path, "dark", 720)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    background, controls = browser.execute_script(
        "const style = s => getComputedStyle(document.querySelector(s));"
        "return [style('body').backgroundColor, style('.controls').display]"
    )
    assert (background, controls) == ("rgb(255, 255, 255)", "none")
    pdf = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": False})["data"])
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert pdf.startswith(b"%PDF")
    assert 3 <= pdf.count(b"/Type /Page\n") <= 20
