"""Files whose views have different samples, or samples without values."""

import json

import numpy as np
import pytest

from tensormvc.datasets import load_dataset

pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra 'io')")

RNG = np.random.default_rng(0)
CENTRES = 9 * np.repeat(np.eye(3), 10, axis=0)
LEFT, RIGHT = CENTRES + RNG.normal(size=(30, 3)), CENTRES + RNG.normal(size=(30, 3))
IDS = [f"s{i:02}" for i in range(30)]


def write(folder, name, values, ids):
    folder.mkdir(exist_ok=True)
    lines = [",".join([i, *map(str, row)]) for i, row in zip(ids, values, strict=True)]
    (folder / f"{name}.csv").write_text(
        "\n".join(["id," + ",".join(f"{name}{j}" for j in range(values.shape[1])), *lines])
    )


@pytest.fixture
def partly(tmp_path):
    """A folder in which `left` has the first 28 samples and `right` the last 25, backwards."""
    write(tmp_path / "partly", "left", LEFT[:28], IDS[:28])
    write(tmp_path / "partly", "right", RIGHT[:4:-1], IDS[:4:-1])
    return "partly"


def test_samples_are_joined_with_a_note(run, partly):
    ended = run("info", partly, "--json")
    assert ended.code == 0
    assert "note: views have different samples; of 30, left lacks 2, right lacks 5 (--join inner" in ended.err
    found = json.loads(ended.out)
    assert found["n_samples"] == 30
    assert [(view["name"], view["n_missing"]) for view in found["views"]] == [("left", 2), ("right", 5)]
    assert run("info", partly, "--join", "outer", "--json").out == ended.out
    inner = run("info", partly, "--join", "inner", "--json")
    assert json.loads(inner.out)["n_samples"] == 23
    assert "note" not in inner.err


def test_joined_samples_are_clustered_and_audited(run, partly, tmp_path):
    options = ("--method", "tsvdmvc", "--basis", "gft-sum", "-k", 3)
    ended = run("cluster", partly, *options, "-o", "labels.csv")
    assert (ended.code, "left lacks 2" in ended.err) == (0, True)
    rows = [line.split(",") for line in (tmp_path / "labels.csv").read_text().split()[1:]]
    labels = {sample: int(cluster) for sample, cluster in rows}
    assert sorted(labels) == IDS
    assert [len({labels[i] for i in IDS[start : start + 10]}) for start in (0, 10, 20)] == [1, 1, 1]
    ended = run("audit", partly, *options, "--orders", 2, "--json")
    assert (ended.code, json.loads(ended.out)["order_dependent"]) == (0, False)


def test_methods_that_refuse_missing_samples_name_the_remedy(run, partly):
    ended = run("cluster", partly, "--method", "estmc", "--basis", "agft", "-k", 3, "-o", "labels.csv")
    assert ended.code == 3
    assert "is missing in" in ended.err
    assert "tensormvc.impute_views" in ended.err


def test_unrelated_ids_are_an_error_unless_they_are_to_be_joined(run, tmp_path):
    write(tmp_path / "apart", "left", LEFT, IDS)
    write(tmp_path / "apart", "right", RIGHT, [*IDS[:2], *(f"t{i}" for i in range(28))])
    ended = run("info", "apart")
    assert ended.code == 3
    assert "left.csv shares fewer than a tenth of its sample ids with any other view" in ended.err
    assert "--on and --join" in ended.err
    ended = run("info", "apart", "--join", "outer", "--json")
    assert (ended.code, json.loads(ended.out)["n_samples"]) == (0, 58)
    assert json.loads(run("info", "apart", "--join", "inner", "--json").out)["n_samples"] == 2


def test_labels_need_not_be_those_of_the_samples_alone(run, partly, tmp_path):
    labels = tmp_path / "partly" / "labels.csv"
    labels.write_text("\n".join(["id,label", *(f"{i},{k // 10}" for k, i in enumerate(IDS)), "stranger,1"]))
    data = load_dataset(tmp_path / "partly", join="auto")
    assert (data.n_samples, data.absent) == (30, {"left": 2, "right": 5})
    np.testing.assert_array_equal(data.y, [int(i[1:]) // 10 for i in data.sample_ids])
    labels.write_text("\n".join(["id,label", *(f"{i},{k // 10}" for k, i in enumerate(IDS[:-1]))]))
    ended = run("info", "partly")
    assert (ended.code, "labels are missing for 1 samples" in ended.err) == (3, True)
    assert run("info", "partly", "--no-labels").code == 0


def test_info_shows_empty_rows_and_gaps(run, tmp_path):
    left = LEFT.copy()
    left[[3, 5]], left[7], left[8, 1] = 0, np.nan, np.nan
    np.savez(tmp_path / "empty.npz", X1=left, X2=np.zeros((30, 2)))
    found = json.loads(run("info", "empty.npz", "--json").out)["views"]
    assert [(view["n_empty"], view["n_missing"], view["n_nonfinite"]) for view in found] == [(2, 1, 1), (0, 0, 0)]
    text = run("info", "empty.npz").out
    assert "view 0: 2 rows are empty (all zero)" in text
    assert "view 0: 1 rows are entirely NaN" in text
