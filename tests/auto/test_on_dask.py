"""The front door on a cluster: the results of the same data in memory, whatever happens to chunks and workers."""

import os
import signal

import numpy as np
import pytest

import tensormvc as tm

from ..conftest import CLUSTER_LEFTOVERS, local_cluster
from .data import blobs, limit_landmarks, quiet_fit, with_gaps

distributed = pytest.importorskip("distributed", reason="distributed is not installed (extra 'dask')")
import dask.array as da  # noqa: E402

pytestmark = CLUSTER_LEFTOVERS


@pytest.fixture(scope="module")
def client():
    with local_cluster(n_workers=2, threads_per_worker=1) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture
def few_landmarks(monkeypatch):
    limit_landmarks(monkeypatch, 200)


def in_chunks(views, *rows):
    return [da.from_array(view, chunks=(size, -1)) for view, size in zip(views, rows, strict=True)]


def gappy(n=2000):
    views = with_gaps(blobs(n, widths=(4, 12))[0])
    for view in views:
        view[7] = 0
    return views


def test_results_are_those_in_memory(client, few_landmarks):
    views = gappy()
    expected = quiet_fit(views, 3)
    order = np.random.default_rng(0).permutation(2000)
    fitted = quiet_fit(in_chunks([view[order] for view in views], 700, 450), 3)
    for name in ("labels_", "confidence_", "outlier_score_", "membership_", "embedding_", "sample_view_weights_"):
        found, wanted = getattr(fitted, name), getattr(expected, name)[order]
        assert isinstance(found, da.Array)
        assert found.chunks[0] == (700, 700, 600)
        np.testing.assert_array_equal(found.compute(), wanted)
    # Exact duplicates are the same landmark, whichever of them is chosen.
    for view in views:
        np.testing.assert_array_equal(view[order][fitted.landmarks_], view[expected.landmarks_])
    assert str(fitted.report_) == str(expected.report_)
    np.testing.assert_array_equal(fitted.predict(views), expected.labels_)
    assert str(fitted.explain()).split("typical")[0] == str(expected.explain()).split("typical")[0]


def test_many_samples(client, monkeypatch):
    """Few features and landmarks: it is the number of rows that counts."""
    limit_landmarks(monkeypatch, 500)
    views = tm.datasets.make_multiview(100_000, n_clusters=3, n_features=(5, 4), random_state=0)[0]
    expected = quiet_fit(views, 3, normalisation="unit")
    fitted = quiet_fit(in_chunks(views, 30_000, 45_000), 3, normalisation="unit")
    np.testing.assert_array_equal(fitted.labels_.compute(), expected.labels_)


def test_new_samples(client, few_landmarks):
    views = gappy()
    model = quiet_fit(views, 3)
    new = [view[:500] + 0.1 for view in views]
    for method in ("predict", "predict_proba", "transform", "outlier_score", "map_of"):
        found = getattr(model, method)(in_chunks(new, 130, 200))
        assert isinstance(found, da.Array)
        np.testing.assert_array_equal(found.compute(), getattr(model, method)(new))
    some = {"view 1": in_chunks(new[1:], 100)[0]}
    np.testing.assert_array_equal(model.predict(some).compute(), model.predict([None, new[1]]))


def test_dataframes_have_named_features(client, few_landmarks):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    views = blobs(600)[0]
    frames = {
        name: pd.DataFrame(view, columns=[f"{name}{j}" for j in range(view.shape[1])])
        for name, view in zip("ab", views, strict=True)
    }
    fitted = quiet_fit({name: dd.from_pandas(frame, npartitions=3) for name, frame in frames.items()}, 3)
    np.testing.assert_array_equal(fitted.labels_.compute(), quiet_fit(frames, 3).labels_)
    turned = {name: frame[frame.columns[::-1]] for name, frame in frames.items()}
    np.testing.assert_array_equal(fitted.predict(turned), fitted.labels_.compute())
    on_cluster = {name: dd.from_pandas(frame, npartitions=2) for name, frame in turned.items()}
    np.testing.assert_array_equal(fitted.predict(on_cluster).compute(), fitted.labels_.compute())


def test_a_lost_worker_changes_nothing(client, few_landmarks):
    views = gappy()
    expected = quiet_fit(views, 3).labels_
    lost = []

    def kill(done, total, stage):
        if stage == "chunks placed" and not lost:
            lost.append(next(iter(client.run(os.getpid).values())))
            os.kill(lost[0], signal.SIGKILL)

    fitted = quiet_fit(in_chunks(views, 250, 400), 3, progress=kill)
    np.testing.assert_array_equal(fitted.labels_.compute(), expected)
    np.testing.assert_array_equal(np.argmax(fitted.membership_.compute(), axis=1), expected)
    assert lost


def test_what_is_wrong_is_named(client, few_landmarks):
    views = blobs(400)[0]
    views[1][123, 4] = np.inf
    with pytest.raises(ValueError, match=r"view 1 contains NaN or infinity at row 123, column 4 \(inf\), and 0 more"):
        quiet_fit(in_chunks(views, 100, 150), 3)
    views[1][123, 4] = 1e200
    with pytest.raises(ValueError, match=r"view 1 has values of size 1e\+200"):
        quiet_fit(in_chunks(views, 100, 150), 3)
    for view in views:
        view[123] = np.nan
    with pytest.raises(ValueError, match="sample 123 is NaN in every view"):
        quiet_fit(in_chunks(views, 100, 150), 3)
    model = quiet_fit(in_chunks([view[:100] for view in views], 50, 50), 3)
    for use in (lambda: model.labels_at(2), lambda: model.graph_, lambda: model.map_, lambda: model.explain_sample(0)):
        with pytest.raises(ValueError, match="predict"):
            use()
