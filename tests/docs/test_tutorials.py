"""The tutorials that run when the site is built."""

import runpy
from pathlib import Path

import pytest

TUTORIALS = sorted((Path(__file__).parents[2] / "docs" / "tutorials" / "at_build").glob("*.py"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the clusters may be parts of a continuum")  # means fill gaps
@pytest.mark.parametrize("tutorial", TUTORIALS, ids=lambda path: path.stem)
def test_tutorial(tutorial, monkeypatch):
    plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed (extra 'plot')")
    pytest.importorskip("pandas", reason="pandas is not installed (extra 'docs')")
    plt.switch_backend("Agg")
    monkeypatch.setattr(plt, "show", lambda: None)
    runpy.run_path(str(tutorial), run_name="__main__")
    plt.close("all")
