import inspect
import json
import os
import shlex
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import tensormvc as tm
from tensormvc._registry import BASIS_NAMES, METHODS
from tensormvc.cli import app
from tensormvc.cli._audit import audit
from tensormvc.cli._cluster import cluster
from tensormvc.cli._options import BasisName, Choice, Method

from .conftest import ENVIRONMENT

# What the demo prints: accuracy sorted by class, half shuffled and shuffled, and the ARI of the last with the first.
DEMO = {
    "TLSpNM, FFT": [97.2, 83.9, 78.0, 0.702],
    "TLSpNM, GFT": [89.0, 89.0, 89.0, 1.0],
    "TLSpNM, AGFT": [89.0, 89.0, 89.0, 1.0],
    "k-means, views side by side": [88.8, 88.5, 88.1, 0.965],
    "graph alone, spectral": [87.2, 87.2, 87.2, 1.0],
}
COMMANDS = ["cluster", "predict", "explain", "audit", "info", "convert", "demo"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help(command, run_program):
    ended = run_program(command, "--help")
    assert (ended.code, ended.err) == (0, "")
    assert f"Example: tensormvc {command}" in ended.out
    for text in ("Exit codes: 0 success", "--json"):
        assert text in ended.out
    assert ("--seed" in ended.out) == (command not in ("predict", "explain", "info"))


def test_help_fills_the_width_of_the_terminal(run_program):
    """What is a paragraph in the source is one line where there is room."""
    lines = [
        line.strip() for line in run_program("audit", "--help", env=ENVIRONMENT | {"COLUMNS": "400"}).out.splitlines()
    ]
    paragraphs = [" ".join(paragraph.split()) for paragraph in inspect.getdoc(audit).split("\n\n")]
    assert len(paragraphs) == 3
    assert set(paragraphs) <= set(lines)


def test_help_lists_all_commands(run_program):
    assert [command.callback.__name__ for command in app.registered_commands] == COMMANDS
    ended = run_program("--help")
    assert all(f" {command} " in ended.out for command in COMMANDS)
    assert run_program("--version").out == f"tensormvc {tm.__version__}\n"


def test_help_and_completion_do_not_wait_for_numpy(run_script):
    ended = run_script("import atexit; atexit.register(lambda: print('numpy' in sys.modules))", "cluster", "--help")
    assert ended.code == 0
    assert ended.out.endswith("\nFalse\n")


def test_names_on_the_command_line_are_those_of_python():
    assert set(get_args(Method)) == {*METHODS, "auto"}
    assert set(get_args(BasisName)) == {*BASIS_NAMES, "auto"}


def test_shell_completion(run_program, tmp_path):
    words = {"_TENSORMVC_COMPLETE": "complete_bash", "COMP_WORDS": "tensormvc cluster --basis gft-", "COMP_CWORD": "3"}
    ended = run_program(env=ENVIRONMENT | words)
    assert ended.out.split() == ["gft-sum", "gft-sim", "gft-gmc"]
    script = run_program(
        "--show-completion", "bash", env=ENVIRONMENT | {"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    )
    assert "_TENSORMVC_COMPLETE=complete_bash" in script.out


def test_info(run, digits, data):
    ended = run("info", digits)
    assert (ended.code, ended.err) == (0, "")
    for text in ("100 samples", "10 known classes of 8 to 12", "sorted by class", "view 3", "z-score-unit: features"):
        assert text in ended.out
    found = json.loads(run("info", digits, "--json").out)
    wanted = tm.datasets.describe(data[0], data[1])
    assert (found["n_samples"], found["class_sorted"]) == (100, True)
    assert [view["n_features"] for view in found["views"]] == [view.n_features for view in wanted.views]
    assert [view["maximum"] for view in found["views"]] == [view.maximum for view in wanted.views]
    assert [view["name"] for view in found["views"]] == ["view 0", "view 1", "view 2", "view 3"]


@pytest.mark.filterwarnings("ignore:the clusters are weak")
@pytest.mark.filterwarnings("ignore:the clusters may be parts of a continuum:UserWarning")
def test_info_suggests_scalings_that_the_front_door_takes(run, digits, data):
    views = json.loads(run("info", digits, "--json").out)["views"]
    for view, values in zip(views, data[0], strict=True):
        model = tm.MultiViewClustering(3, normalisation=view["scaling"], random_state=0).fit([values])
        assert model.report_.normalisations[0].name == view["scaling"]


def test_info_of_numbers_that_json_lacks(run_program, tmp_path):
    view = np.ones((5, 2))
    view[0] = np.nan
    np.savez(tmp_path / "gaps.npz", X1=view, X2=np.full((5, 3), np.nan))
    found = json.loads(run_program("info", "gaps.npz", "--json").out)
    assert [part["n_missing"] for part in found["views"]] == [1, 5]
    assert found["views"][1]["maximum"] is None


@pytest.mark.parametrize("ending", [".mat", ".npz", "", ".parquet"])
def test_convert(ending, run, digits, data, tmp_path):
    if ending in ("", ".parquet"):
        pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra 'io')")
    ended = run("convert", digits, f"out{ending}", "--json")
    assert (ended.code, json.loads(ended.out)["n_features"]) == (0, [64, 32, 40, 46])
    views, y = tm.datasets.load_views(tmp_path / f"out{ending}")
    for view, wanted in zip(views, data[0], strict=True):
        np.testing.assert_array_equal(view, wanted)
    np.testing.assert_array_equal(y, data[1])


def test_convert_shuffles_views_and_labels_alike(run_program, digits, data, tmp_path):
    assert run_program("convert", digits, "shuffled.mat", "--shuffle", 1, "--seed", 7).code == 0
    views, y = tm.datasets.load_views(tmp_path / "shuffled.mat")
    wanted, wanted_y, _ = tm.datasets.shuffle_samples(*data, random_state=7)
    np.testing.assert_array_equal(y, wanted_y)
    for view, want in zip(views, wanted, strict=True):
        np.testing.assert_array_equal(view, want)
    assert not tm.datasets.describe(views, y).class_sorted


def test_audit_says_what_python_says(run_program, digits, data, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra 'plot')")
    wanted = tm.audit_order(tm.ESTMC(10, basis="fft", random_state=0), data[0], n_permutations=3, random_state=0)
    ended = run_program("audit", digits, "-k", 10, "--basis", "fft", "--orders", 3, "--plot", "audit.png", "--json")
    assert (ended.code, ended.err) == (0, "")
    found = json.loads(ended.out)
    assert (found["verdict"], found["severity"]) == (wanted.verdict, wanted.severity)
    assert found["order_dependent"] is True
    assert found["order_ari"] == pytest.approx(wanted.order_ari, abs=1e-12)
    assert [run["kind"] for run in found["runs"]] == ["order"] * 3 + ["repeat"] + ["seed"] * 2
    assert (tmp_path / "audit.png").read_bytes().startswith(b"\x89PNG")


def test_cluster_and_audit_choose_the_same_method():
    assert all(inspect.signature(command).parameters["choice"] for command in (cluster, audit))
    assert (type(Choice().estimator()), Choice().estimator().n_clusters) == (tm.MultiViewClustering, "auto")
    assert type(Choice(clusters=3, basis="fft").estimator()) is tm.ESTMC
    assert type(Choice(clusters=3, param=["alpha=1"]).estimator()) is tm.ESTMC
    assert Choice(param=["normalisation=unit"]).estimator().normalisation == "unit"
    assert Choice(param=["view_weights={'a': 2}"]).estimator().view_weights == {"a": 2}
    assert Choice(view_weights="a=b=2, c=0.5").estimator().view_weights == {"a=b": 2.0, "c": 0.5}


def test_audit_of_the_default_finds_nothing(run, digits, tmp_path):
    ended = run("audit", digits, "-k", 10, "--orders", 2)
    assert ended.code == 0, ended.err
    assert "MultiViewClustering gave the same partition of 100 samples in all 2 orders." in ended.out.splitlines()[0]
    assert "ACC uses the known classes in the file; nothing else here does." in ended.out
    (tmp_path / "audit.png").write_text("precious")
    assert run("audit", digits, "-k", 10, "--plot", "audit.png").code == 4
    assert (tmp_path / "audit.png").read_text() == "precious"


def test_demo(run, run_program, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra 'plot')")
    ended = run_program("demo", "-o", "shown", "-n", 100, "--json")
    assert (ended.code, ended.err) == (0, "")
    result = json.loads(ended.out)
    for name, found in result["methods"].items():
        if "GFT" in name:
            assert set(found["ari_with_class_sorted"]) == {1.0}
            assert len(set(found["accuracy"])) == 1
    fft = result["methods"]["TLSpNM, FFT"]
    assert fft["accuracy"][0] > fft["accuracy"][-1]
    assert fft["ari_with_class_sorted"][-1] < 0.95
    assert len(result["methods"]) == 5
    assert (tmp_path / "shown" / "order.png").read_bytes().startswith(b"\x89PNG")
    assert "<html" in (tmp_path / "shown" / "index.html").read_text(encoding="utf-8")
    before = {name: (tmp_path / "shown" / name).stat().st_mtime_ns for name in os.listdir(tmp_path / "shown")}
    assert sorted(before) == ["digits.npz", "index.html", "labels.csv", "map.png", "order.png"]
    assert [found["cluster"] for found in result["clusters"]] == list(range(10))
    assert sum(found["size"] for found in result["clusters"]) == 100
    assert all(0 <= found["median_confidence"] <= 1 + 1e-9 for found in result["clusters"])  # sums of shares
    assert all(found["features"] for found in result["clusters"])
    written = (tmp_path / "shown" / "labels.csv").read_text(encoding="utf-8").splitlines()
    assert written[0] == "sample,cluster,confidence,runner_up"
    assert len(written) == 101
    assert tm.datasets.load_views(tmp_path / "shown" / "digits.npz")[0][0].shape == (100, 64)
    assert run("demo", "-o", "shown", "-n", 100).code == 4
    assert {name: (tmp_path / "shown" / name).stat().st_mtime_ns for name in before} == before


def figures(text):
    """Return the numbers of the demo's table by row."""
    rows = [row for row in text.splitlines() if row.startswith((" TLSpNM", " k-means", " graph"))]
    return {row[:28].strip(): [float(number.strip("%")) for number in row[28:].split()] for row in rows}


@pytest.mark.slow
def test_readme_as_it_is_typed(run_program, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra 'plot')")
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    lines = [line for line in readme.splitlines() if line.startswith("tensormvc ")]
    assert len(lines) == 6
    for line in lines:
        ended = run_program(*shlex.split(line)[1:])
        assert ended.code == 0, (line, ended.err)
        if line == "tensormvc demo":
            # What depends on the order depends on rounding, too.
            assert figures(ended.out) == {name: pytest.approx(values, abs=3) for name, values in DEMO.items()}
            assert "For your own data, use MultiViewClustering" in ended.out
    written = ["again.csv", "labels.csv", "model.tmvc", "page", "tensormvc-demo"]
    assert sorted(os.listdir(tmp_path)) == written
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "labels.csv").read_bytes()
