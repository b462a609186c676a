"""Models in files: saved by ``cluster``, asked by ``predict`` and ``explain``."""

import csv
import json
import shutil

import numpy as np
import pytest

import tensormvc as tm
from tensormvc.cli import app

from .test_cluster import read_columns

pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra 'io')")
CliRunner = pytest.importorskip("typer.testing").CliRunner

RNG = np.random.default_rng(0)
Y = np.arange(60) % 3
WIDE = {"text": RNG.normal(size=(60, 4)) + 6 * np.eye(3)[Y][:, [0, 1, 2, 2]], "image": RNG.normal(size=(60, 3))}
WIDE["image"][:, 1] += 5 * Y
WIDE["image"][59, 1] = 7.5  # between two clusters
IDS = [f"s{i:02}" for i in range(60)]
NAMES = {"text": ["red", "green", "blue", "noise"], "image": ["x", "height", "z"]}


def write(folder, rows, views=("text", "image"), backwards=False):
    """Write some samples as CSV files; `backwards` reverses the columns."""
    folder.mkdir()
    step = -1 if backwards else 1
    for view in views:
        with open(folder / f"{view}.csv", "w", newline="") as stream:
            table = csv.writer(stream)
            table.writerow(["id", *NAMES[view][::step]])
            table.writerows([IDS[i], *WIDE[view][i][::step].tolist()] for i in rows)


@pytest.fixture
def invoke(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return invoke


def rows_of(path):
    with open(path, newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A folder with the first 48 samples, their labels, and the saved model."""
    folder = tmp_path_factory.mktemp("saved")
    write(folder / "first", range(48))
    options = ["-k", "3", "-o", str(folder / "fit.csv"), "--save", str(folder / "model.tmvc")]
    ended = CliRunner().invoke(app, ["cluster", str(folder / "first"), *options, "--view-weights", "text=2"])
    assert ended.exit_code == 0, ended.output
    assert f"Model: {folder / 'model.tmvc'}" in ended.output
    return folder


@pytest.fixture
def model(saved, invoke, tmp_path):
    """The saved model, in a folder of the test's own."""
    shutil.copytree(saved, tmp_path, dirs_exist_ok=True)
    return tm.load(tmp_path / "model.tmvc")


def test_the_model_is_that_of_python(model, tmp_path):
    views = {name: view[:48] for name, view in sorted(WIDE.items())}
    wanted = tm.MultiViewClustering(3, view_weights={"text": 2.0}, random_state=0).fit(views)
    np.testing.assert_array_equal(model.labels_, wanted.labels_)
    assert model.sample_ids_.tolist() == IDS[:48]
    assert model.report_.asked_weights == {"text": 2.0}
    assert set(model.explain().features) == {*NAMES["text"], *NAMES["image"]}


def test_samples_of_the_fit_keep_their_rows(model, invoke, tmp_path):
    assert invoke("predict", "model.tmvc", "first", "-o", "again.csv").exit_code == 0
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "fit.csv").read_bytes()


def test_new_samples_are_matched_by_the_names_of_views_and_features(model, invoke, tmp_path):
    write(tmp_path / "new", range(48, 60), backwards=True)
    ended = invoke("predict", "model.tmvc", "new", "-o", "new.csv", "--json")
    assert ended.exit_code == 0, ended.output
    found = json.loads(ended.output)
    shares = model.predict_proba({name: view[48:] for name, view in WIDE.items()})
    assert found["samples"] == IDS[48:]
    assert found["labels"] == shares.argmax(axis=1).tolist()
    ordered = np.sort(shares, axis=1)
    np.testing.assert_array_equal(found["confidence"], np.minimum(ordered[:, -1] - ordered[:, -2], 1))
    assert found["cluster_sizes"] == np.bincount(found["labels"], minlength=3).tolist()
    rows = rows_of(tmp_path / "new.csv")
    assert [row["sample"] for row in rows] == IDS[48:]
    assert [int(row["cluster"]) for row in rows] == found["labels"]
    assert [row["runner_up"] for row in rows] == ["" if c is None else str(c) for c in found["runner_up"]]


def test_one_view_is_enough_and_doubtful_samples_get_no_cluster(model, invoke, tmp_path):
    write(tmp_path / "new", range(48, 60), views=["image"])
    confidence = np.sort(model.predict_proba({"image": WIDE["image"][48:]}), axis=1)
    confidence = confidence[:, -1] - confidence[:, -2]
    limit = (confidence.min() + confidence.max()) / 2
    assert confidence[-1] < limit
    ended = invoke("predict", "model.tmvc", "new", "-o", "-", "--min-confidence", limit)
    assert ended.exit_code == 0, ended.output
    (tmp_path / "printed.csv").write_text("".join(f"{line}\n" for line in ended.stdout.splitlines()))
    rows = rows_of(tmp_path / "printed.csv")
    assert [int(row["cluster"]) == -1 for row in rows] == (confidence < limit).tolist()
    assert f"{np.sum(confidence < limit)} samples with a confidence below" in ended.stderr


def test_a_single_view_may_be_in_a_file_of_another_name(invoke, tmp_path):
    write(tmp_path / "all", range(60))
    assert invoke("cluster", "all/text.csv", "-k", 3, "-o", "fit.csv", "--save", "model.tmvc").exit_code == 0
    (tmp_path / "all" / "text.csv").rename(tmp_path / "other.csv")
    assert invoke("predict", "model.tmvc", "other.csv", "-o", "again.csv").exit_code == 0
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "fit.csv").read_bytes()


def test_explain(model, invoke, tmp_path):
    ended = invoke("explain", "model.tmvc", "--top", 2)
    assert (ended.exit_code, ended.output) == (0, model.explain().to_text(2) + "\n")
    assert invoke("explain", "model.tmvc").output == str(model.explain()) + "\n"
    found = json.loads(invoke("explain", "model.tmvc", "--json", "-o", "effects.csv").output)
    cluster = found["clusters"][0]
    assert cluster["size"] == 16
    assert cluster["features"][0]["feature"] == model.explain().top(1)[0].feature
    rows = rows_of(tmp_path / "effects.csv")
    assert list(rows[0]) == list(model.explain().to_frame().columns)
    assert [float(row["effect"]) for row in rows] == model.explain().to_frame()["effect"].tolist()
    assert invoke("explain", "model.tmvc", "--top", 2, "-o", "effects.tsv").exit_code == 0
    assert len((tmp_path / "effects.tsv").read_text().splitlines()) == 1 + 3 * 2


def test_explain_a_sample(model, invoke):
    assert invoke("explain", "model.tmvc", "--sample", "s07").output == f"{model.explain_sample(7)}\n"
    found = json.loads(invoke("explain", "model.tmvc", "--sample", "s07", "--json").output)
    assert (found["sample"], found["cluster"]) == ("s07", model.labels_[7])
    ended = invoke("explain", "model.tmvc", "--sample", "nobody")
    assert (ended.exit_code, "it has 48, such as s00" in ended.output) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["predict", "model.tmvc", "first"], 2, "-o labels.csv"),
        (["predict", "none.tmvc", "first", "-o", "l.csv"], 3, "none.tmvc cannot be read: No such file"),
        (["predict", "fit.csv", "first", "-o", "l.csv"], 3, "fit.csv: "),
        (["predict", "cut.tmvc", "first", "-o", "l.csv"], 3, "cut.tmvc: "),
        (["predict", "gmc.tmvc", "first", "-o", "l.csv"], 3, "is a model of GMC, which places no new samples"),
        (["explain", "gmc.tmvc"], 3, "is a model of GMC, which has no explanation"),
        (["predict", "unfitted.tmvc", "first", "-o", "l.csv"], 3, "is a model of MultiViewClustering, which"),
        (
            ["predict", "model.tmvc", "strange", "-o", "l.csv"],
            3,
            "the model has no view 'sound'; its views are image, text",
        ),
        (["predict", "model.tmvc", "narrow", "-o", "l.csv"], 3, "text lacks 1 of the fitted features, such as 'blue'"),
        (["predict", "model.tmvc", "first", "-o", "fit.csv"], 4, "--force"),
        (["predict", "model.tmvc", "first", "-o", "l.csv", "--min-confidence", "2"], 2, "--min-confidence"),
        (["explain", "model.tmvc", "-o", "effects.docx"], 2, "the ending must be .csv, .tsv or .parquet"),
        (["explain", "model.tmvc", "-o", "fit.csv"], 4, "--force"),
        (["explain", "model.tmvc", "--sample", "s07", "--top", "3"], 2, "--sample excludes"),
        (["cluster", "first", "-k", "3", "-o", "l.csv", "--save", "model.tmvc"], 4, "--force"),
    ],
)
def test_what_goes_wrong(arguments, code, message, model, invoke, tmp_path):
    tm.save(tm.GMC(3).fit([WIDE["text"]]), tmp_path / "gmc.tmvc")
    tm.save(tm.MultiViewClustering(), tmp_path / "unfitted.tmvc")
    (tmp_path / "cut.tmvc").write_bytes((tmp_path / "model.tmvc").read_bytes()[:-100])
    write(tmp_path / "strange", range(60))
    (tmp_path / "strange" / "text.csv").rename(tmp_path / "strange" / "sound.csv")
    write(tmp_path / "narrow", range(60))
    narrow = tmp_path / "narrow" / "text.csv"
    narrow.write_text(narrow.read_text().replace("blue", "pink"))
    before = (tmp_path / "model.tmvc").read_bytes(), (tmp_path / "fit.csv").read_bytes()
    ended = invoke(*arguments)
    assert (ended.exit_code, message in " ".join(ended.output.replace("│", "").split())) == (code, True), ended.output
    assert ((tmp_path / "model.tmvc").read_bytes(), (tmp_path / "fit.csv").read_bytes()) == before
    assert not (tmp_path / "l.csv").exists()


def test_other_methods_are_saved_too(invoke, digits, tmp_path):
    assert invoke("cluster", digits, "-k", 4, "-m", "gmc", "-o", "l.csv", "--save", "gmc.tmvc").exit_code == 0
    assert read_columns(tmp_path / "l.csv")["cluster"] == tm.load(tmp_path / "gmc.tmvc").labels_.tolist()
