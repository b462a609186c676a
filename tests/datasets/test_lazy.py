"""Views on disk: indexing as NumPy does, and how much memory it takes."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tensormvc.datasets import DataError, RowSource, load_views, save_views
from tensormvc.datasets.readers import _rows as lazy

h5py = pytest.importorskip("h5py", reason="h5py is not installed (extra 'io')")
pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra 'io')")

from .writers import cell, mat73  # noqa: E402

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(500, 7)), RNG.normal(size=(500, 4))
Y = RNG.integers(0, 3, 500)


def parquet(folder, row_group_size=None):
    import pyarrow.parquet as pq

    (folder / "views").mkdir()
    for name, view in (("a", A), ("b", B)):
        table = pyarrow.table({f"f{i}": column for i, column in enumerate(view.T)})
        pq.write_table(table, folder / "views" / f"{name}.parquet", row_group_size=row_group_size)
    return folder / "views"


FORMATS = {
    "7.3 in rows": mat73(X=cell(A, B), Y=Y),
    "7.3 in columns": mat73(X=cell(A.T, B.T), Y=Y, options={"compression": "gzip", "chunks": True}),
    "Parquet": parquet,
    "Parquet in groups": lambda folder: parquet(folder, 90),
}
KEYS = [
    slice(None), slice(10, 20), slice(None, None, -3), slice(490, 900), slice(20, 10), [3, 1, 499, 3],
    np.array([], int), np.array([-1, 0]), np.arange(500) % 7 == 0, (slice(5, 9), 2), (slice(5, 9), slice(1, 3)),
    ([4, 2], [0, 1]), 7, -1,
    (7, 2), Ellipsis, np.int32(4),
]  # fmt: skip


@pytest.fixture(params=FORMATS)
def sources(request, tmp_path, monkeypatch):
    monkeypatch.setattr(lazy, "_BLOCK_BYTES", 2000)
    monkeypatch.setattr(lazy, "_WINDOW_BYTES", 5000)
    return load_views(FORMATS[request.param](tmp_path), lazy=True)[0]


def test_indexing_is_that_of_numpy(sources):
    for source, wanted in zip(sources, (A, B), strict=True):
        assert isinstance(source, RowSource)
        assert (source.shape, source.dtype, source.ndim, len(source)) == (wanted.shape, wanted.dtype, 2, len(wanted))
        assert source.nbytes == wanted.nbytes
        for key in KEYS:
            expected = wanted[key]
            if isinstance(key, tuple) and isinstance(key[0], list):
                expected = wanted[key[0]][:, key[1]]
            np.testing.assert_array_equal(source[key], expected, err_msg=str(key))
        assert np.isscalar(source[7, 2])
        np.testing.assert_array_equal(source, wanted)
        assert np.asarray(source, dtype=np.float32).dtype == np.float32
        np.testing.assert_array_equal(list(source), wanted)
        for key in (500, -501, [500], np.ones(3, bool), [0.5], (0, 0, 0)):
            with pytest.raises(IndexError):
                source[key]


def test_rows_are_taken_without_reading(sources):
    order = np.random.default_rng(1).permutation(500)[:300]
    taken = sources[0].take(order)
    assert taken.shape == (300, 7)
    np.testing.assert_array_equal(taken, A[order])
    np.testing.assert_array_equal(taken.take(np.arange(5, 0, -1))[1:3], A[order][[4, 3]])
    np.testing.assert_array_equal(sources[0][:3], A[:3])


def test_sources_are_pickled_and_shared_by_threads(sources):
    again = pickle.loads(pickle.dumps(sources[0].take(np.arange(499, -1, -1))))
    np.testing.assert_array_equal(again, A[::-1])
    with ThreadPoolExecutor(4) as pool:
        blocks = list(pool.map(lambda start: sources[1][start : start + 50], range(0, 500, 50)))
    np.testing.assert_array_equal(np.concatenate(blocks), B)


def test_results_do_not_share_memory(sources):
    block = sources[0][:10]
    block[...] = 0
    np.testing.assert_array_equal(sources[0][:10], A[:10])


def test_rule_for_what_stays_on_disk(tmp_path):
    small = np.zeros((1000, 8))
    large = np.zeros((2**20, 1), np.float32)
    for name, views, stays in (("small", [small, small], False), ("large", [large, large, large], True)):
        save_views(tmp_path / name, views)
        assert isinstance(load_views(tmp_path / name)[0][0], RowSource) is stays
        assert isinstance(load_views(tmp_path / name, lazy=True)[0][0], RowSource)
        assert isinstance(load_views(tmp_path / name, lazy=False)[0][0], np.ndarray)


def test_file_that_changes_is_an_error(tmp_path):
    path = parquet(tmp_path)
    source = load_views(path, lazy=True)[0][0]
    (path / "a.parquet").write_bytes(b"hello")
    with pytest.raises(DataError, match=r"a\.parquet"):
        source[:10]


def test_list_columns_are_embeddings(tmp_path):
    import pyarrow.parquet as pq

    table = pyarrow.table(
        {"id": [f"s{i}" for i in range(500)], "embedding": pyarrow.array(A.tolist()), "size": B[:, 0]}
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=70)
    fixed = pyarrow.array(B.astype("f4").tolist(), pyarrow.list_(pyarrow.float32(), 4))
    pq.write_table(pyarrow.table({"id": [f"s{i}" for i in range(500)], "e": fixed}), tmp_path / "b.parquet")
    for stays in (False, True):
        views, _ = load_views(tmp_path, lazy=stays)
        np.testing.assert_array_equal(views[0], np.column_stack([A, B[:, 0]]))
        np.testing.assert_array_equal(views[1], B.astype("f4"))
        assert views[1].dtype == np.float32
    ragged = pyarrow.table({"e": pyarrow.array([[1.0], [1.0, 2.0]])})
    pq.write_table(ragged, tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"b\.parquet: .*different lengths"):
        load_views(tmp_path / "b.parquet")


def test_whole_numbers_with_empty_places_are_nan(tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(pyarrow.table({"a": pyarrow.array([1, None, 3]), "b": [4, 5, 6]}), tmp_path / "v.parquet")
    np.testing.assert_array_equal(load_views(tmp_path)[0][0], [[1, 4], [np.nan, 5], [3, 6]])


MEASURE = """
import resource, sys
import h5py, numpy as np, pyarrow.parquet, scipy.io
from tensormvc.datasets import RowSource, load_views
load_views(sys.argv[2])  # what the libraries allocate once
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
before = peak()
views, y = load_views(sys.argv[1])
assert len(y) == 70000 and all(isinstance(view, RowSource) for view in views)
opened = peak()
views[0][:1000], views[0][np.arange(0, 70000, 5000)]
total = sum(float(views[0][start : start + 5000].sum()) for start in range(0, 70000, 5000))
print(opened - before, peak() - before, sum(view.nbytes for view in views), total)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no ru_maxrss here")
@pytest.mark.parametrize("kind", ["hdf5", "parquet", "parquet of one group"])
def test_opening_does_not_read_everything(kind, tmp_path):
    """A file of the size of 70 000 MNIST images, in float64."""
    n_features = 128 if kind == "parquet of one group" else 256
    view, y = np.random.default_rng(0).normal(size=(70000, n_features)), np.arange(70000) % 10
    views = [view, view[:, :32]]
    (tmp_path / "small").mkdir()
    if kind == "hdf5":
        path, small = mat73(X=cell(*views), Y=y)(tmp_path), mat73(X=cell(A, B), Y=Y)(tmp_path / "small")
    else:
        path, small = tmp_path / "large", tmp_path / "small" / "views"
        save_views(small, [A, B], Y)
        if kind == "parquet":
            save_views(path, views, y)
        else:
            import pyarrow.parquet as pq

            path.mkdir()
            table = pyarrow.table({f"f{i}": column for i, column in enumerate(view.T)} | {"label": y})
            pq.write_table(table, path / "a.parquet")
    command = [sys.executable, "-c", MEASURE, str(path), str(small)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert result.returncode == 0, result.stderr
    opened, walked, size, total = result.stdout.split()
    assert int(size) >= view.nbytes
    assert int(opened) < 20e6
    assert int(walked) < 130e6
    assert float(total) == pytest.approx(view.sum())
