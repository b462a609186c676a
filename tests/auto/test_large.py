"""Views on disk: the results of the same arrays in memory, which only blocks of rows ever enter."""

import sys
import tracemalloc

import numpy as np
import pytest

from ..memory import is_on_disk, peak_memory
from ..methods.test_on_disk import in_hdf5, in_npy, in_parquet
from .data import blobs, limit_landmarks, quiet_fit, with_gaps

RESULTS = ("labels_", "membership_", "confidence_", "embedding_", "outlier_score_", "sample_view_weights_", "ranks_")


@pytest.fixture
def small_blocks(monkeypatch):
    """Let little data be much: many blocks of few rows, and few landmarks."""
    monkeypatch.setattr("tensormvc.views._views.LAZY_BYTES", 0)
    monkeypatch.setattr("tensormvc.views._disk._DISK_BLOCK", 300)
    monkeypatch.setattr("tensormvc.auto._samples._BLOCK", 400)
    limit_landmarks(monkeypatch, 80)


def gappy(n=300, dtype=np.float64):
    views = with_gaps(blobs(n, widths=(4, 12))[0])
    for view in views:
        view[7] = 0
    return [view.astype(dtype) for view in views]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("write", [in_npy, in_hdf5, in_parquet])
def test_results_are_those_in_memory(write, dtype, tmp_path, small_blocks):
    views = gappy(dtype=dtype)
    expected = quiet_fit(views, 3)
    mapped = write(views, tmp_path)
    fitted = quiet_fit(mapped, 3)
    assert len(fitted.landmarks_) == 80
    for name in (*RESULTS, "landmarks_"):
        np.testing.assert_array_equal(getattr(fitted, name), getattr(expected, name))
    assert (fitted.links_ != expected.links_).nnz == 0
    assert str(fitted.report_) == str(expected.report_)
    assert is_on_disk(fitted.membership_)
    assert is_on_disk(fitted.embedding_)
    assert is_on_disk(fitted.links_.data)
    assert is_on_disk(fitted.links_.indices)
    for method in ("predict", "predict_proba", "transform", "outlier_score", "map_of"):
        np.testing.assert_array_equal(getattr(fitted, method)(mapped), getattr(expected, method)(views))
    np.testing.assert_array_equal(fitted.predict(mapped), expected.labels_)
    np.testing.assert_array_equal(fitted.labels_at(5), expected.labels_at(5))


def test_integers_and_views_in_memory_beside_those_on_disk(tmp_path, small_blocks):
    views = [np.rint(20 * view).astype(kind) for view, kind in zip(blobs(300)[0], (np.int16, np.float64), strict=True)]
    expected = quiet_fit(views, 3)
    mapped = in_npy(views, tmp_path)
    for given in (mapped, [mapped[0], views[1]]):
        np.testing.assert_array_equal(quiet_fit(given, 3).membership_, expected.membership_)


def test_wrong_values_on_disk_are_named(tmp_path, small_blocks):
    views = blobs(300)[0]
    views[1][123, 4] = np.inf
    with pytest.raises(ValueError, match=r"view 1 contains NaN or infinity at row 123, column 4 \(inf\), and 0 more"):
        quiet_fit(in_npy(views, tmp_path), 3)
    views[1][123, 4] = 1e200
    with pytest.raises(ValueError, match=r"view 1 has values of size 1e\+200"):
        quiet_fit(in_npy(views, tmp_path), 3)


def test_progress_is_reported_while_samples_are_placed(small_blocks):
    seen = []
    quiet_fit(blobs(300)[0], 3, progress=lambda done, total, stage: seen.append((done, total, stage)))
    placed = [(done, total) for done, total, stage in seen if stage == "samples placed"]
    assert 5 < len(placed) <= 20
    assert placed == sorted(placed)
    assert placed[-1] == (300, 300)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_views_on_disk_are_never_in_memory(tmp_path):
    """Beside what a fit of as many landmarks took: blocks of rows, and some numbers per sample."""
    rng, n, d = np.random.default_rng(0), 20_000, 500
    paths = [tmp_path / f"{v}.npy" for v in range(2)]
    for path in paths:
        np.save(path, rng.normal(size=(n, d)) + 3 * (np.arange(n) % 3)[:, None])
    make = 'tm.MultiViewClustering(3, normalisation="unit", random_state=0, effort="low")'
    setup = f"{make}.fit([view[:2000].copy() for view in views])"
    fit = f"model = {make}.fit(views); assert len(model.landmarks_) == 2000; model.predict(views)"
    # Both views take 160 MB.
    assert peak_memory(setup, fit, paths) < 50e6


def test_memory_grows_by_a_few_numbers_per_sample(tmp_path, monkeypatch):
    """Keys, labels, confidence, outlier scores, ranks, where the links of each sample start, and sizes per view."""
    monkeypatch.setattr("tensormvc.views._views.LAZY_BYTES", 0)
    monkeypatch.setattr("tensormvc.views._disk._DISK_BLOCK", 10_000)
    monkeypatch.setattr("tensormvc.auto._samples._BLOCK", 10_000)
    limit_landmarks(monkeypatch, 80)
    sizes, peaks = (10_000, 40_000), []
    for n in sizes:
        views = in_npy(blobs(n, widths=(4, 12))[0], tmp_path)
        tracemalloc.start()
        quiet_fit(views, 3, n_jobs=1)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (peaks[1] - peaks[0]) / (sizes[1] - sizes[0]) < 100
