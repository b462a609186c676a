"""The page in headless Chromium: no error, no request, readable in light and dark, on a phone and on paper.

Needs Chromium with its driver, selenium and axe-core; `.ci/run` installs them and sets TENSORMVC_NEED_BROWSER, under
which nothing here is skipped. TENSORMVC_SCREENSHOTS names a folder for the screenshots.
"""

import base64
import http.server
import os
import threading
from pathlib import Path

import pytest

import tensormvc as tm

from .conftest import requests, show

SCHEMES = ["light", "dark"]
WIDTHS = [390, 1280]


@pytest.fixture(scope="module", params=["digits", "hostile", "auto"])
def path(request, tmp_path_factory):
    run = request.getfixturevalue(f"{request.param}_run")
    return tm.report.write_cluster_report(tmp_path_factory.mktemp(request.param), run)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_screenshots(browser, path, scheme, width, tmp_path):
    requests(browser)
    show(browser, path, scheme, width)
    assert browser.get_log("browser") == []
    assert [url for url in requests(browser) if not url.startswith("data:")] == [path.as_uri()]
    full, inner = browser.execute_script(
        "const e = document.documentElement; return [[e.scrollWidth, e.scrollHeight], e.clientWidth]"
    )
    assert full[0] <= inner, "the page scrolls sideways"
    whole = {"x": 0, "y": 0, "width": width, "height": full[1], "scale": 1}
    taken = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": whole})
    folder = Path(os.environ.get("TENSORMVC_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{path.parent.name}-{scheme}-{width}.png").write_bytes(base64.b64decode(taken["data"]))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_accessibility(browser, axe, path, scheme, width):
    show(browser, path, scheme, width)
    browser.execute_script(axe)
    found = browser.execute_async_script("const done = arguments[0]; axe.run().then(done, e => done({error: '' + e}))")
    assert "error" not in found
    assert len(found["passes"]) > 20
    violations = {v["id"]: [v["impact"], [node["html"][:200] for node in v["nodes"]]] for v in found["violations"]}
    assert violations == {}


def test_colours_follow_the_scheme(browser, path):
    ink = {}
    for scheme in SCHEMES:
        show(browser, path, scheme)
        ink[scheme] = browser.execute_script(
            "const style = s => getComputedStyle(document.querySelector(s));"
            "return [style('body').backgroundColor, style('h1').color, style('svg text').fill]"
        )
        paper, heading, in_picture = ink[scheme]
        assert heading == in_picture != paper
    assert all(a != b for a, b in zip(ink["light"], ink["dark"], strict=True))


def test_names_do_not_run(browser, path):
    show(browser, path)
    assert browser.title.startswith("Clusters of ")
    assert browser.execute_script("return document.scripts.length + document.images.length") == 0


def test_keyboard(browser, path):
    from selenium.webdriver.common.keys import Keys

    show(browser, path)
    active = browser.switch_to.active_element
    active.send_keys(Keys.TAB)
    skip = browser.switch_to.active_element
    assert skip.text == "Skip to the content"
    assert skip.rect["x"] >= 0, "the link is seen once it has the focus"
    skip.send_keys(Keys.ENTER)
    assert browser.switch_to.active_element.get_attribute("id") == "content"
    # Every other stop is a link of the contents or something that may scroll, and shows that it has the focus.
    stops = []
    for _ in range(40):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        active = browser.switch_to.active_element
        if active.tag_name == "body":
            break
        assert active.value_of_css_property("outline-style") == "solid"
        stops.append(active.accessible_name)
    assert len(stops) >= 5
    assert all(stops)
    assert len(stops) == len(set(stops))


def test_served_over_http_nothing_else_is_asked_for(browser, path):
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=path.parent)

        def log_request(self, *args):
            asked.append(self.path)

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.get(f"http://127.0.0.1:{server.server_port}/index.html")
        assert browser.title.startswith("Clusters of ")
        assert browser.get_log("browser") == []
        browser.get("about:blank")
        server.shutdown()
    assert asked == ["/index.html"]


def test_paper(browser, path):
    """Dark on white whatever the screen, everything in view, and nothing wider than the sheet."""
    show(browser, path, "dark", 720)
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"media": "print", "features": [{"name": "prefers-color-scheme", "value": "dark"}]},
    )
    paper, shown, cut = browser.execute_script(
        "const style = s => getComputedStyle(document.querySelector(s));"
        "return [style('body').backgroundColor, style('nav').display,"
        "[...document.querySelectorAll('.table')].filter(e => e.scrollHeight > e.clientHeight + 1).length]"
    )
    assert (paper, shown, cut) == ("rgb(255, 255, 255)", "none", 0)
    pdf = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": False})["data"])
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert pdf.startswith(b"%PDF")
    assert 2 <= pdf.count(b"/Type /Page\n") <= 12
