"""k-means against scikit-learn's, from the same starts, and where points are few or the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from tensormvc.backend.linalg import two_smallest
from tensormvc.rows import InMemory, SampleRandom, kmeans
from tensormvc.rows._kmeans import _inertia, _lloyd, _measure, _square
from tensormvc.views import as_views


def lloyd(points, starts):
    """Return the centres and labels of all starts, and their inertias, at the end of Lloyd's rounds."""
    rows = InMemory(points)
    rows.hold(points=points)
    longest, _ = rows.max(_measure)
    rows.create(squares=())
    rows.each(_square, 1e-14 * longest)
    centres = _lloyd(rows, starts, 1e-7 * np.sqrt(longest))
    return centres, rows["own"] - starts.shape[1] * np.arange(len(starts)), rows.sum(_inertia, centres)


def loses_a_cluster(points, centres):
    """Whether some cluster is empty on the way from these centres to those of k-means."""
    for _ in range(300):
        labels = np.argmin(((points[:, None] - centres) ** 2).sum(axis=2), axis=1)
        if np.unique(labels).size < len(centres):
            return True
        means = np.array([points[labels == cluster].mean(axis=0) for cluster in range(len(centres))])
        if np.array_equal(means, centres):
            break
        centres = means
    return False


@given(seed=st.integers(0, 2**32 - 1), n=st.integers(30, 300), k=st.integers(1, 9), d=st.integers(1, 12))
def test_lloyd_from_the_same_starts(seed, n, k, d):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, d)) + 5 * rng.integers(0, 3, size=(n, 1))
    starts = np.stack([points[rng.choice(n, k, replace=False)] for _ in range(3)])
    centres, labels, inertias = lloyd(points, starts)
    for r, start in enumerate(starts):
        theirs = KMeans(k, init=start, n_init=1, max_iter=300, tol=0, algorithm="lloyd").fit(points)
        if loses_a_cluster(points, start):  # which may restart elsewhere
            continue
        np.testing.assert_array_equal(labels[:, r], theirs.labels_)
        np.testing.assert_allclose(centres[r], theirs.cluster_centers_, atol=1e-12 * np.abs(points).max())
        np.testing.assert_allclose(inertias[r], theirs.inertia_, rtol=1e-10)


@given(seed=st.integers(0, 2**32 - 1), places=st.integers(1, 6), k=st.integers(1, 8))
def test_fewer_places_than_clusters(seed, places, k):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(places, 3))[np.arange(20) % places]
    made = as_views([points])
    labels, inertia = kmeans(points[made.order], k, n_init=2, random=SampleRandom(made, 0))
    assert ((labels >= 0) & (labels < k)).all()
    if places <= k:
        assert inertia <= 1e-20
    assert np.unique(labels).size >= min(places, k)


def test_an_emptied_cluster_restarts_at_the_farthest_point():
    points = np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [30.0]])
    starts = np.array([[[0.5], [-100.0], [10.5]]])
    _, labels, inertias = lloyd(points, starts)
    np.testing.assert_array_equal(labels[:, 0], [0, 0, 0, 2, 2, 1])
    np.testing.assert_allclose(inertias, 2.5)


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 70), count=st.integers(1, 30))
def test_two_smallest(seed, k, count):
    columns = np.random.default_rng(seed).uniform(size=(k, count))
    columns[:, ::3] = columns[:, ::3].round(1)
    ordered, first = np.sort(columns, axis=0), columns.argmin(axis=0)
    values, where, following = two_smallest(columns)
    np.testing.assert_array_equal(where, first)
    # The last bits of a number say which it is: at most seven of them, of 52.
    np.testing.assert_allclose(values, ordered[0], rtol=2.0**-45, atol=1e-300)
    np.testing.assert_allclose(following, ordered[1] if k > 1 else np.inf, rtol=2.0**-45, atol=1e-300)


def test_two_smallest_of_tensors():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra 'torch')")
    columns = np.random.default_rng(0).uniform(size=(5, 40))
    ours = two_smallest(torch.tensor(columns))
    for a, b in zip(ours, two_smallest(columns), strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=2.0**-45)
