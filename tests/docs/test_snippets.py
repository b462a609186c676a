"""Every Python block and every command of README and guide runs, page by page, from top to bottom.

A comment before a block says otherwise: ``<!-- slow: reason -->`` leaves it to the slow tests, and
``<!-- not run: reason -->`` to the reader. Commands that install are run by `test_packaging`.
"""

import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import tensormvc as tm

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "guide").glob("*.md"))]
BLOCK = re.compile(r"(?:^ *<!-- (slow|not run): [^>]+ -->\n)?^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
SHELL = {"", "console"}
PROGRAMS = {"tensormvc", "python", "unzip", "make", "pip", "python3"}


def blocks(page):
    """The parts of a page that run: (when, language, text)."""
    found = [(when, language, textwrap.dedent(text)) for when, language, text in BLOCK.findall(page.read_text("utf-8"))]
    return [(when, language, text) for when, language, text in found if language == "python" or language in SHELL]


def commands(text):
    """The commands of a block: lines after a prompt, or that begin with a program."""
    lines = [line.removeprefix("$ ").partition("  #")[0].strip() for line in text.splitlines()]
    return [line for line in lines if line.split(" ")[0] in PROGRAMS]


RUN = [page for page in PAGES if any(language == "python" or commands(text) for _, language, text in blocks(page))]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with the files that the pages speak of, small, and names that pages build on."""
    for module in ("matplotlib", "typer", "h5py"):
        pytest.importorskip(module, reason=f"{module} is not installed (extras 'plot', 'cli' and 'io')")
    mudata = pytest.importorskip("mudata", reason="mudata is not installed (extra 'mudata')")
    import anndata
    import matplotlib.pyplot as plt
    import pandas as pd

    monkeypatch.chdir(tmp_path)
    plt.switch_backend("Agg")
    views, y = tm.datasets.load_digits_views(150)
    for file in ("data.npz", "new.npz", "data.mat"):
        tm.datasets.save_views(file, views, y)
    (rna, adt), _ = tm.datasets.make_multiview(60, n_clusters=3, n_features=(30, 12), random_state=0)
    cells = pd.DataFrame(index=[f"cell-{i}" for i in range(60)])
    counts = {"rna": np.round(np.exp(rna)), "protein": np.round(np.exp(adt))}
    data = mudata.MuData({name: anndata.AnnData(values, obs=cells) for name, values in counts.items()})
    data["rna"].obsm["X_pca"] = rna[:, :5]
    for file in ("cells.h5mu", "new.h5mu"):
        data.write(file)
    yield {"tm": tm, "np": np, "views": views, "y": y, "mdata": data}
    plt.close("all")


def run_command(line):
    from typer.testing import CliRunner

    from tensormvc.cli import app

    program, *arguments = shlex.split(line.partition(" | ")[0])
    if program == "tensormvc":
        ended = CliRunner().invoke(app, arguments, prog_name="tensormvc")
        assert ended.exit_code == 0, f"{line}\n{ended.output}"
    elif program == "python" or (program == "unzip" and shutil.which("unzip")):
        command = [sys.executable if program == "python" else program, *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, f"{line}\n{ended.stderr}"


def run_page(page, place, leave_out):
    for when, language, text in blocks(page):
        if when in leave_out:
            continue
        if language == "python":
            exec(compile(text, f"{page.name}: {text[:40]!r}", "exec"), place)
        else:
            for line in commands(text):
                if "slow" not in leave_out or line.split(" ")[:2] != ["tensormvc", "demo"]:
                    run_command(line)


SILENT = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")


@SILENT
@pytest.mark.parametrize("page", RUN, ids=[str(page.relative_to(ROOT)) for page in RUN])
def test_page(page, place):
    if page.name == "README.md":
        Path("tensormvc-demo").mkdir()  # as the demo writes it, which runs in the slow tests
        tm.datasets.save_views("tensormvc-demo/digits.npz", *tm.datasets.load_digits_views(80))
    run_page(page, place, {"not run", "slow"})


@pytest.mark.slow
@SILENT
@pytest.mark.parametrize(
    "page", [page for page in RUN if any(when == "slow" for when, _, _ in blocks(page))], ids=lambda page: page.name
)
def test_page_with_slow_parts(page, place):
    run_page(page, place, {"not run"})


def test_what_is_left_out_has_a_reason():
    """Few blocks are left out, and each says why."""
    left_out = [(page.name, when) for page in PAGES for when, _, _ in blocks(page) if when]
    assert len(left_out) <= 12
