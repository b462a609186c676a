"""The built site in headless Chromium: no message, no request, readable by everybody, on a phone, in light and dark.

`make docs` builds it, and `make docs-check` runs this. TENSORMVC_SCREENSHOTS names a folder for screenshots.
"""

import base64
import http.server
import os
import re
import threading
from html import unescape
from pathlib import Path
from urllib.parse import unquote

import pytest

from ..report.conftest import axe, browser, requests, show  # noqa: F401

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
PAGES = {
    "landing": "index",
    "start": "start",
    "guide": "guide/index",
    "pictures": "guide/how_it_works",
    "tables": "without_labels",
    "tutorial": "tutorials/built/images",
    "shipped": "tutorials/single_cells",
    "gallery": "gallery/index",
    "example": "gallery/plot_audit",
    "names": "api/index",
    "class": "api/generated/tensormvc.MultiViewClustering",
    "function": "api/generated/tensormvc.audit_order",
    "commands": "api/command_line",
    "comparison": "coming_from",
    "search": "search",
}
SCHEMES = ["light", "dark"]
WIDTHS = [390, 1280]


if not (SITE / "index.html").is_file() and not os.environ.get("TENSORMVC_NEED_SITE"):
    pytest.skip("the site is not built: make docs", allow_module_level=True)


def open_page(browser, name, scheme, width):  # noqa: F811
    requests(browser), browser.get_log("browser")
    show(browser, SITE / f"{PAGES[name]}.html", scheme, width)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", PAGES)
def test_page(browser, axe, name, scheme, width, tmp_path):  # noqa: F811
    open_page(browser, name, scheme, width)
    asked = [url for url in requests(browser) if not url.startswith(("file:", "data:", "chrome:"))]
    assert asked == []
    full, inner = browser.execute_script(
        "const e = document.documentElement; return [[e.scrollWidth, e.scrollHeight], e.clientWidth]"
    )
    whole = {"x": 0, "y": 0, "width": width, "height": min(full[1], 6000), "scale": 1}
    taken = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": whole})
    folder = Path(os.environ.get("TENSORMVC_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}-{scheme}-{width}.png").write_bytes(base64.b64decode(taken["data"]))
    assert full[0] <= inner, "the page scrolls sideways"
    browser.execute_script(axe)
    run = "axe.run({preload: false}).then(done, e => done({error: '' + e}))"  # it would ask for style sheets by script
    found = browser.execute_async_script(f"const done = arguments[0]; {run}")
    assert "error" not in found
    violations = {v["id"]: [v["impact"], [node["html"][:200] for node in v["nodes"]]] for v in found["violations"]}
    assert violations == {}
    assert browser.get_log("browser") == []


def test_search_finds_a_name(browser):  # noqa: F811
    """Served as it would be: from a file, the search works, but may not read the pages that it quotes."""
    from selenium.webdriver.support.wait import WebDriverWait

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=SITE)

        def log_message(self, *args):
            pass

    browser.get_log("browser")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.get(f"http://127.0.0.1:{server.server_port}/search.html?q=audit_order")
        WebDriverWait(browser, 20).until(lambda b: "audit_order" in b.find_element("id", "search-results").text)
        assert browser.get_log("browser") == []
        server.shutdown()


def test_every_internal_link():
    """Of all pages: the target is there, and so is the anchor."""
    own = [path for path in SITE.rglob("*.html") if path.relative_to(SITE).parts[0] not in ("_static", "_downloads")]
    pages = {path: path.read_text("utf-8") for path in own}
    anchors = {path: set(map(unescape, re.findall(r"\bid=\"([^\"]+)\"", text))) for path, text in pages.items()}
    broken = []
    for path, text in pages.items():
        for link in set(re.findall(r"(?:href|src)=\"([^\"]+)\"", text)):
            target, _, anchor = unescape(link).partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            place = (path.parent / unquote(target.partition("?")[0])).resolve() if target else path
            if not place.is_file() or (anchor and place in pages and unquote(anchor) not in anchors[place]):
                broken.append(f"{path.relative_to(SITE)}: {link}")
    assert broken == []


def test_nothing_comes_from_elsewhere():
    for path in SITE.rglob("*.html"):
        loaded = re.findall(r"(?:src|<link[^>]+href)=\"(?:https?:)?//[^\"]+", path.read_text("utf-8"))
        assert loaded == [], path
