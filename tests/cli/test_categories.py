"""Categorical columns of CSV and Parquet files are encoded as those of DataFrames, from the file to the saved model."""

import json

import numpy as np
import pytest

import tensormvc as tm
from tensormvc.datasets import DataError, load_dataset, load_views

pytest.importorskip("typer", reason="typer is not installed (extra 'cli')")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra 'io')")
pd = pytest.importorskip("pandas", reason="pandas is not installed")
from typer.testing import CliRunner  # noqa: E402

from tensormvc.cli import app  # noqa: E402

N = 60


def patients():
    """A table with three groups, of numbers, text, booleans, and gaps in each."""
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1, 2], N // 3)
    frame = pd.DataFrame(
        {
            "site": np.array(["north", "south", "east"])[group],
            "age": 3 * group + rng.normal(size=N),
            "smoker": (rng.random(N) < 0.2 + 0.3 * group).astype(object),
            "visits": rng.integers(0, 9, N).astype(float),
        },
        index=pd.Index([f"p{i:02}" for i in range(N)], name="id"),
    )
    frame.loc["p05", "site"] = frame.loc["p07", "smoker"] = None
    frame.loc["p09", "visits"] = np.nan
    return frame


def save(frame, path):
    if path.suffix == ".csv":
        frame.to_csv(path)
    else:
        frame.reset_index().to_parquet(path, index=False)
    return path.name


@pytest.fixture
def invoke(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return invoke


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_labels_and_models_are_those_of_python(invoke, tmp_path, ending):
    frame = patients()
    file = save(frame, tmp_path / f"patients{ending}")
    ended = invoke("cluster", file, "-k", 3, "-o", "fit.csv", "--save", "model.tmvc", "--report", "page")
    assert ended.exit_code == 0, ended.output
    assert "note: patients: one feature for each category of site (3 categories)" in ended.stderr
    wanted = tm.MultiViewClustering(3, random_state=0).fit({"patients": frame})
    labels = pd.read_csv(tmp_path / "fit.csv", index_col="sample")["cluster"]
    np.testing.assert_array_equal(labels, wanted.labels_)
    assert labels.index.tolist() == frame.index.tolist()
    assert set(tm.load(tmp_path / "model.tmvc").explain().features) == set(wanted.explain().features)

    # New rows alone lack categories, have unseen ones, and are in a file of another name.
    new = frame.iloc[[0, 25, 50, 3]].assign(site=["south", "west", None, "north"])
    new = new[["age", "site", "visits", "smoker"]]
    ended = invoke("predict", "model.tmvc", save(new, tmp_path / f"new{ending}"), "-o", "placed.csv", "--json")
    assert ended.exit_code == 0, ended.output
    shares = wanted.predict_proba({"patients": new})
    assert json.loads(ended.output)["labels"] == shares.argmax(axis=1).tolist()
    assert invoke("predict", "model.tmvc", file, "-o", "again.csv").exit_code == 0
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "fit.csv").read_bytes()
    without = save(new.drop(columns="site"), tmp_path / f"without{ending}")
    ended = invoke("predict", "model.tmvc", without, "-o", "no.csv")
    assert ended.exit_code == 3
    assert "there is no column 'site', which has categories" in ended.stderr


def test_info_and_convert_encode_too(invoke, tmp_path):
    file = save(patients(), tmp_path / "patients.csv")
    ended = invoke("info", file, "--json")
    assert ended.exit_code == 0, ended.output
    view = json.loads(ended.stdout)["views"][0]
    assert (view["n_features"], view["n_nonfinite"]) == (6, 5)
    assert invoke("convert", file, "numbers.npz").exit_code == 0
    np.testing.assert_array_equal(
        load_views(tmp_path / "numbers.npz")[0][0], load_dataset(tmp_path / file, categories="auto").views["patients"]
    )


@pytest.mark.parametrize("command", ["cluster", "audit"])
def test_the_methods_name_the_column_and_the_remedy(invoke, tmp_path, command):
    file = save(patients(), tmp_path / "patients.csv")
    output = ["-o", "labels.csv"] if command == "cluster" else []
    ended = invoke(command, file, "--method", "estmc", "-k", 3, *output)
    assert ended.exit_code == 3
    assert "column 'site' is string, not numbers" in ended.stderr
    assert "as --method auto does" in ended.stderr


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([f"free text {i}" for i in range(N)], "'c' has 60 different values in 60 samples, like ids.*on='c'"),
        ([f"town {i % 30}" for i in range(N)], None),
        (list(pd.date_range("2024", periods=N)), "'c' is (date|timestamp).*not numbers: remove it"),
    ],
)
def test_ids_and_free_text_are_refused(tmp_path, values, message):
    path = tmp_path / "t.csv"
    patients().assign(c=values).to_csv(path)
    if message is None:
        assert len(load_dataset(path, categories="auto").categories["t"]["c"]) == 30
        return
    with pytest.raises(DataError, match=message):
        load_dataset(path, categories="auto")


def test_many_categories_must_be_declared(tmp_path):
    frame = pd.DataFrame({"x": np.arange(180.0), "town": [f"town {i // 3}" for i in range(180)]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match=r"60 different values in 180 samples.*Parquet with the type category"):
        load_dataset(tmp_path / "t.csv", categories="auto")
    frame.astype({"town": "category"}).to_parquet(tmp_path / "t.parquet", index=False)
    data = load_dataset(tmp_path / "t.parquet", categories="auto", lazy=True)
    assert data.views["t"].shape == (180, 61)
    np.testing.assert_array_equal(data.views["t"][[3, 179], 1:].sum(axis=1), 1)
    np.testing.assert_array_equal(np.asarray(data.views["t"])[:, 1:].sum(axis=0), 3)
    again = load_dataset(tmp_path / "t.parquet", categories=data.categories)
    np.testing.assert_array_equal(again.views["t"], data.views["t"])


def test_a_report_shows_data_with_single_gaps(invoke, tmp_path):
    rng = np.random.default_rng(0)
    views = [np.repeat(np.eye(3), 20, axis=0) * 9 + rng.normal(size=(60, 3)) for _ in range(2)]
    views[0][[4, 30], 1] = np.nan
    views[1][7] = np.nan
    tm.datasets.save_views(tmp_path / "gaps.npz", views)
    ended = invoke("cluster", "gaps.npz", "-k", 3, "-o", "labels.csv", "--report", "page")
    assert ended.exit_code == 0, ended.output
    assert "2 single values were missing" in (tmp_path / "page" / "index.html").read_text(encoding="utf-8")
