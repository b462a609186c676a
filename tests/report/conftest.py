"""A clustering whose page is looked at, names that try to be more than names, and a browser to look with."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tensormvc as tm

ROOT = Path(__file__).parents[2]
HEIGHT = 900
HOSTILE = "\"><script>document.title='pwned'</script><img src='http://127.0.0.1:9/x' onerror='1'>&amp;\x00\u202e"


@pytest.fixture(scope="session")
def digits_run():
    views, y = tm.datasets.load_digits_views(150)
    views = dict(zip(["pixels", "projections", "gradients", "zones"], views, strict=True))
    model = tm.TSVDMVC(n_clusters=10, random_state=0).fit(views)
    return tm.report.ClusterRun(
        command="tensormvc cluster digits.npz -k 10 --seed 0",
        file_name="some/where/digits.npz",
        description=tm.datasets.describe(views, y),
        views=views,
        estimator=model,
        labels=model.labels_,
        seconds=1.25,
        y=y,
        audit=tm.audit_order(model, views, n_permutations=2),
        notes=[("basis gft-sum", "150 samples: the full spectrum fits")],
        versions={"tensormvc": tm.__version__},
    )


@pytest.fixture(scope="session")
def small_run(digits_run):
    """Fewer samples, for tests that fit anew."""
    views = {name: view[:60] for name, view in digits_run.views.items()}
    return replace(
        digits_run,
        description=tm.datasets.describe(views, digits_run.y[:60]),
        views=views,
        labels=digits_run.labels[:60],
        y=digits_run.y[:60],
        audit=None,
    )


@pytest.fixture(scope="session")
def hostile_run(digits_run):
    views = {f"{HOSTILE}{number}": view for number, view in enumerate(digits_run.views.values())}
    return replace(
        digits_run,
        command=f"tensormvc cluster {HOSTILE}",
        file_name=f"{HOSTILE}.npz".replace("/", ""),
        description=tm.datasets.describe(views),
        views=views,
        audit=None,
        sample_ids=[f"{HOSTILE}{row}" for row in range(150)],
        y=np.array([f"{HOSTILE}{label}" for label in digits_run.y]),
        notes=[(HOSTILE, HOSTILE)],
        versions={HOSTILE: HOSTILE},
    )


@pytest.fixture(scope="session")
def auto_run(digits_run):
    """By the front door, with samples that lack views, and features with hostile names."""
    views = {f"{HOSTILE}{number}": view.copy() for number, view in enumerate(digits_run.views.values())}
    first, second, third, fourth = views
    views[first][:20], views[second][10:15] = np.nan, 0
    views[third][:20], views[fourth][:10] = np.nan, np.nan
    for name in views:
        views[name][30] = 0
    features = {first: np.array([f"$x_{{{j}}}$ {HOSTILE}" for j in range(views[first].shape[1])])}
    data = tm.datasets.Dataset(views, None, np.array([f"{HOSTILE}{row}" for row in range(150)]), feature_names=features)
    with pytest.warns(UserWarning, match="1 samples have no value in any view"):
        model = tm.MultiViewClustering(random_state=0).fit(data.tables)
    return replace(
        digits_run,
        description=tm.datasets.describe(views),
        views=views,
        estimator=model,
        labels=model.labels_,
        audit=None,
        y=None,
        sample_ids=data.sample_ids.tolist(),
    )


def absent(reason):
    (pytest.fail if os.environ.get("TENSORMVC_NEED_BROWSER") else pytest.skip)(reason)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    try:
        from selenium import webdriver
    except ImportError:
        absent("selenium is not installed (extra 'test')")
    program, driver = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if not (program and driver):
        absent("no Chromium with its driver (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    profile = tmp_path_factory.mktemp("profile")
    for argument in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={profile}"):
        options.add_argument(argument)
    if os.geteuid() == 0:  # Chromium refuses its sandbox to root
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    chromium = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield chromium
    chromium.quit()


@pytest.fixture(scope="session")
def axe():
    folders = [Path(os.environ.get("TENSORMVC_AXE", "")), ROOT / ".ci" / "node_modules" / "axe-core"]
    for folder in folders:
        if (folder / "axe.min.js").is_file():
            return (folder / "axe.min.js").read_text(encoding="utf-8")
    return absent("no axe-core (npm install --prefix .ci --no-save axe-core, or its folder in TENSORMVC_AXE)")


def show(browser, path, scheme="light", width=1280):
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    size = {"width": width, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(path.as_uri())


def requests(browser):
    """The addresses that the browser asked for since the last call."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
