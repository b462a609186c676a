import csv

import numpy as np
import pytest

from tensormvc.datasets import DataError, load_dataset, save_labels, save_views

h5py = pytest.importorskip("h5py", reason="h5py is not installed (extra 'io')")

from .test_anndata import IDS, A, Y, mudata_file, put_frame  # noqa: E402


def test_text_survives(tmp_path):
    ids = ["a,b", 'quoted "x"', "line\nbreak", "ä\t"]
    for name, delimiter in (("l.csv", ","), ("l.tsv", "\t")):
        save_labels(tmp_path / name, [0, 1, 2, 0], ids, column="c")
        with open(tmp_path / name, encoding="utf-8", newline="") as stream:
            rows = list(csv.reader(stream, delimiter=delimiter))
        assert rows == [["sample", "c"], *([i, label] for i, label in zip(ids, "0120", strict=True))]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("l.txt", [0, 1]), "labels can be written to"),
        (("l.csv", [0.5, 1]), "vector of integers"),
        (("l.csv", [[0, 1]]), "vector"),
        (("l.csv", [0, 1], ["a"]), "2 labels for 1 sample ids"),
        (("l.h5mu", [0, 1]), "is a copy of the input"),
    ],
)
def test_wrong_arguments(arguments, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        save_labels(tmp_path / arguments[0], *arguments[1:])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["l.csv", "l.tsv", "l.parquet"])
def test_the_column_of_ids_is_not_that_of_the_labels(name, tmp_path):
    with pytest.raises(ValueError, match="'sample' holds the sample ids"):
        save_labels(tmp_path / name, [0, 1], column="sample")
    assert list(tmp_path.iterdir()) == []


def read_column(path, name):
    with h5py.File(path) as file:
        group = file["obs"][name]
        categories = group["categories"].asstr()[()].tolist()
        labels = [None if code < 0 else categories[code] for code in group["codes"][()]]
        return labels, file["obs"].attrs["column-order"].tolist()


def test_column_in_obs(tmp_path):
    source = mudata_file(tmp_path / "cells.h5mu", IDS[:30], ["rna", "atac"], age=Y)
    data = load_dataset(source, join="inner")
    assert data.sample_ids.tolist() == IDS[:30]
    labels = np.arange(30)[::-1] % 4
    save_labels(tmp_path / "new.h5mu", labels, data.sample_ids, source=source)
    found, order = read_column(tmp_path / "new.h5mu", "cluster")
    assert found == [str(label) for label in labels] + [None] * 10
    assert order == ["cluster"]
    with h5py.File(tmp_path / "new.h5mu") as file:
        np.testing.assert_array_equal(file["obs/age"], Y)
        np.testing.assert_array_equal(file["mod/rna/X"], A)
    with pytest.raises(FileExistsError, match="column 'cluster'"):
        save_labels(tmp_path / "other.h5mu", labels, data.sample_ids, source=tmp_path / "new.h5mu")
    save_labels(tmp_path / "new.h5mu", labels % 2, data.sample_ids, source=tmp_path / "new.h5mu", overwrite=True)
    assert read_column(tmp_path / "new.h5mu", "cluster")[0][:3] == ["1", "0", "1"]
    # The views and what else is in obs are still read as before.
    np.testing.assert_array_equal(load_dataset(tmp_path / "new.h5mu", join="inner").views["rna"], A[:30])
    for name in ("_index", "a/b", ""):
        with pytest.raises(ValueError, match="name of a column"):
            save_labels(tmp_path / "x.h5mu", labels, data.sample_ids, source=source, column=name)


def test_obs_in_another_file_is_not_touched(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        put_frame(file, "obs", IDS)
    with h5py.File(tmp_path / "evil.h5ad", "w") as file:
        file["X"] = A
        file["obs"] = h5py.ExternalLink("other.h5", "obs")
    before = (tmp_path / "other.h5").read_bytes()
    with pytest.raises(DataError, match=r"evil\.h5ad: 'the file' has no table obs"):
        save_labels(tmp_path / "new.h5ad", Y, IDS, source=tmp_path / "evil.h5ad")
    assert (tmp_path / "other.h5").read_bytes() == before
    assert not (tmp_path / "new.h5ad").exists()


def test_names_of_views_and_samples(tmp_path):
    save_views(tmp_path / "a.npz", [A, A[:, :2]], Y)
    data = load_dataset(tmp_path / "a.npz")
    assert (list(data.views), data.sample_ids, data.n_samples) == (["view 0", "view 1"], None, 40)
    assert list(load_dataset(tmp_path / "a.npz", views=["X1"]).views) == ["X1"]
    data = load_dataset(mudata_file(tmp_path / "a.h5mu", order=["rna", "atac"]))
    assert list(data.views) == ["rna", "atac"]


@pytest.mark.parametrize("ids", [np.array(IDS), np.array(IDS, "S"), np.arange(40)[::-1]])
def test_ids_of_numpy_archives(ids, tmp_path):
    np.savez(tmp_path / "a.npz", X0=A, X1=A[:, :2], y=Y, ids=ids)
    data = load_dataset(tmp_path / "a.npz")
    assert data.sample_ids.tolist() == ids.astype(str if ids.dtype.kind == "S" else ids.dtype).tolist()
    assert [view.shape for view in data.views.values()] == [A.shape, (40, 2)]
    np.savez(tmp_path / "named.npz", pixels=A, words=A[:, :2], ids=ids)
    assert (len(load_dataset(tmp_path / "named.npz").views), len(load_dataset(tmp_path / "named.npz").sample_ids)) == (
        2,
        40,
    )


def test_ids_of_numpy_archives_that_are_none(tmp_path):
    np.savez(tmp_path / "short.npz", X0=A, ids=IDS[1:])
    with pytest.raises(DataError, match="'ids' has 39 values for 40 samples: it needs one per sample"):
        load_dataset(tmp_path / "short.npz")
    np.savez(tmp_path / "view.npz", X0=A, ids=np.arange(40))
    data = load_dataset(tmp_path / "view.npz", views=["X0", "ids"])
    assert (list(data.views), data.sample_ids) == (["X0", "ids"], None)


def test_ids_of_tables(tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra 'io')")
    (tmp_path / "one.csv").write_text("id,a\n7,1\n9,2\n")
    data = load_dataset(tmp_path / "one.csv")
    assert (list(data.views), data.sample_ids.tolist()) == (["one"], [7, 9])
    folder = tmp_path / "several"
    folder.mkdir()
    (folder / "a.csv").write_text("name,f\nx,1\ny,2\n")
    (folder / "b.csv").write_text("name,f\nz,3\ny,4\n")
    (folder / "labels.csv").write_text("name,label\ny,1\nx,0\nz,2\n")
    data = load_dataset(folder, join="inner")
    assert (data.sample_ids.tolist(), data.y.tolist()) == (["y"], [0])
    assert {name: view.tolist() for name, view in data.views.items()} == {"a": [[2]], "b": [[4]]}
    (folder / "labels.csv").unlink()
    assert load_dataset(folder, join="outer").sample_ids.tolist() == ["x", "y", "z"]
    (folder / "b.csv").write_text("f\n3\n4\n")
    assert load_dataset(folder).sample_ids.tolist() == ["x", "y"]


def test_further_columns(tmp_path):
    further = {"confidence": [0.5, 1.0], "runner_up": [1, None]}
    save_labels(tmp_path / "l.csv", [0, 1], further=further)
    assert (tmp_path / "l.csv").read_text() == "sample,cluster,confidence,runner_up\n0,0,0.5,1\n1,1,1.0,\n"
    with pytest.raises(ValueError, match="'confidence' is another column"):
        save_labels(tmp_path / "other.csv", [0, 1], column="confidence", further=further)
