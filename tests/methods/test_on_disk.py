"""Views on disk: the labels of the same data in memory, without their memory."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensormvc as tm
from tensormvc.backend.scratch import scratch_array
from tensormvc.graphs import bkhk
from tensormvc.graphs._bkhk_rows import bkhk_of_rows
from tensormvc.rows import InMemory
from tensormvc.views import as_views

from ..memory import is_on_disk, peak_memory

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def in_npy(views, folder):
    mapped = []
    for v, view in enumerate(views):
        np.save(folder / f"{v}.npy", view)
        mapped.append(np.load(folder / f"{v}.npy", mmap_mode="r"))
    return mapped


def in_hdf5(views, folder):
    h5py = pytest.importorskip("h5py", reason="h5py is not installed (extra 'io')")
    with h5py.File(folder / "views.h5", "w") as file:
        for v, view in enumerate(views):
            file[f"X{v}"] = view
    return tm.datasets.load_views(folder / "views.h5", views=[f"X{v}" for v in range(len(views))], lazy=True)[0]


def in_parquet(views, folder):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra 'io')")
    import pyarrow.parquet as pq

    for v, view in enumerate(views):
        table = pyarrow.table({f"f{i}": column for i, column in enumerate(view.T)})
        pq.write_table(table, folder / f"{v}.parquet", row_group_size=700)
    return tm.datasets.load_views(folder, lazy=True)[0]


@pytest.fixture
def small_blocks(monkeypatch):
    """Let little data be much, so that there are many blocks of it."""
    monkeypatch.setattr("tensormvc.views._views.LAZY_BYTES", 0)
    monkeypatch.setattr("tensormvc.views._disk._DISK_BLOCK", 3000)


def data(n=2000, dtype=np.float64):
    views, _ = tm.datasets.make_multiview(n, n_clusters=4, n_features=(9, 6, 12), random_state=0)
    return [view.astype(dtype) for view in views]


ESTIMATORS = {
    "ESTMC": lambda: tm.ESTMC(4, "agft", random_state=0, max_iter=25),
    "ASRETR": lambda: tm.ASRETR(4, "agft", gamma=0.1, random_state=0, max_iter=25),
    "TLRLF4MVC": lambda: tm.TLRLF4MVC(4, "agft", n_kernel_anchors=32, random_state=0, max_iter=20),
}


@quiet
@pytest.mark.parametrize("write", [in_npy, in_hdf5, in_parquet])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_labels_are_those_in_memory(name, write, tmp_path, small_blocks):
    views = data()
    expected = ESTIMATORS[name]().fit(views)
    fitted = ESTIMATORS[name]().fit(write(views, tmp_path))
    np.testing.assert_array_equal(fitted.labels_, expected.labels_)
    assert len(np.unique(fitted.labels_)) == 4
    # Sums of other blocks in the search for anchors, and what 25 rounds make of their rounding.
    np.testing.assert_allclose(fitted.embedding_, expected.embedding_, atol=1e-6)


@pytest.mark.parametrize("write", [in_npy, in_hdf5])
def test_graphs_in_single_precision_are_those_in_memory(write, tmp_path, small_blocks):
    """Rows at unit length are rounded on disk as they are in memory; a graph is of the values before that."""
    views = data(300, np.float32)
    mapped = as_views(write(views, tmp_path), keep_on_disk=True)
    assert all(map(is_on_disk, mapped.arrays))
    for v, part in enumerate(as_views([view.astype(np.float64) for view in views]).arrays):
        np.testing.assert_array_equal(np.sort(mapped.in_double(v), axis=0), np.sort(part, axis=0))
    basis = tm.GFT().fit(mapped)
    expected = tm.GFT().fit(as_views(views))
    np.testing.assert_array_equal(basis.eigenvalues_, expected.eigenvalues_)


@quiet
@pytest.mark.parametrize("name", ESTIMATORS)
def test_single_precision_and_views_in_memory_beside_those_on_disk(name, tmp_path, small_blocks):
    views = data(dtype=np.float32)
    expected = ESTIMATORS[name]().fit_predict(views)
    mapped = in_npy(views, tmp_path)
    np.testing.assert_array_equal(ESTIMATORS[name]().fit_predict(mapped), expected)
    np.testing.assert_array_equal(ESTIMATORS[name]().fit_predict([mapped[0], *views[1:]]), expected)


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16])
def test_views_are_those_in_memory(dtype, unit, tmp_path, small_blocks):
    views = [np.round(10 * view).astype(dtype) for view in data(1111)]
    views[0][7] = 0
    if dtype != np.int16:
        views[1][[3, 900]] = np.nan
    expected = as_views(views, unit=unit)
    made = as_views(in_npy(views, tmp_path), unit=unit, keep_on_disk=True)
    assert all(map(is_on_disk, made.arrays))
    assert not any(map(is_on_disk, expected.arrays))
    for name in ("order", "row_keys", "missing"):
        np.testing.assert_array_equal(getattr(made, name), getattr(expected, name))
    assert made.view_order == expected.view_order
    for ours, theirs in zip(made.arrays, expected.arrays, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


def test_what_is_wrong_is_named(tmp_path, small_blocks):
    views = data(1000)
    views[1][[999, 870], 2] = np.inf, np.nan
    with pytest.raises(ValueError, match=r"view 1 contains NaN or infinity at row 870, column 2 \(nan\), and 1 more"):
        as_views(in_npy(views, tmp_path), keep_on_disk=True)
    with pytest.raises(ValueError, match="different numbers of samples"):
        as_views(in_npy([np.ones((3, 2)), np.ones((4, 2))], tmp_path), keep_on_disk=True)
    with pytest.raises(ValueError, match="Complex data not supported"):
        as_views(in_npy([np.ones((3, 2), dtype=complex)], tmp_path), keep_on_disk=True)


def test_little_data_is_read_whole(tmp_path):
    assert not any(map(is_on_disk, as_views(in_npy(data(), tmp_path), keep_on_disk=True).arrays))


def test_scratch_arrays_leave_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    array = scratch_array((1000, 3), np.float32)
    assert is_on_disk(array)
    assert is_on_disk(array[10:20])
    assert not is_on_disk(np.ones(3))
    assert not array.any()
    array += 1
    assert array.sum() == 3000
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("Usage", (), {"free": 100}))
    with pytest.raises(OSError, match="set TMPDIR"):
        scratch_array((1000, 3), np.float32)


@given(
    n=st.integers(2, 300), depth=st.integers(1, 5), n_values=st.integers(1, 300), seed=st.integers(0, 100),
    few=st.sampled_from([1, 2**16]),
)  # fmt: skip
def test_halving_by_passes_is_that_in_memory(n, depth, n_values, seed, few):
    """Also where many samples tie, or are the same."""
    depth = min(depth, int(np.log2(n)))
    rng = np.random.default_rng(seed)
    which = rng.integers(0, n_values, size=n)
    parts = [rng.normal(size=(n_values, d))[which] for d in (3, 2)]
    ties = rng.normal(size=n_values)[which]
    rows = InMemory(ties)
    rows.hold(views=parts, ties=ties)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tensormvc.graphs._bkhk_rows._FEW", few)
        patch.setattr("tensormvc.rows._memory._CACHED", 100)
        anchors = bkhk_of_rows(rows, [0, 1], depth)
    for ours, theirs in zip(anchors, bkhk(parts, depth, ties), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-9)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("method", "n", "d"),
    [
        ("ESTMC(2, tm.AGFT(2, 1), n_latent=4, random_state=0, max_iter=2)", 30_000, 400),
        pytest.param(
            "TLRLF4MVC(2, tm.AGFT(2, 1), n_kernel_anchors=8, random_state=0, max_iter=2)",
            6000,
            3000,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_views_on_disk_are_never_in_memory(method, n, d, tmp_path):
    """Beside a few blocks of rows there are some hundred bytes a sample, with TLRLF4MVC a few thousand."""
    rng = np.random.default_rng(0)
    paths = [tmp_path / f"{v}.npy" for v in range(3)]
    for path in paths:
        view = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, d))
        for lo in range(0, n, 1000):
            view[lo : lo + 1000] = rng.standard_normal((1000, d), dtype=np.float32) + 3 * (np.arange(1000) % 2)[:, None]
    views = 3 * 4 * n * d
    setup = "tm.ESTMC(2, tm.AGFT(2, 1), n_latent=4, max_iter=1).fit([np.asarray(view[:500]) for view in views])"
    assert peak_memory(setup, f"tm.{method}.fit(views)", paths) < views / 2
