"""Granularity: nested levels with exactly k clusters, around the final one."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tensormvc.auto._consensus import merged
from tensormvc.auto._tree import _merge, _numbered, _separation, _stability, _widest_cut

from .data import acc, blobs, fit, limit_landmarks, quiet_fit, with_gaps


@pytest.fixture(scope="module")
def complete():
    views, _y = blobs(120, n_clusters=4)
    return fit(views, 4)


@pytest.fixture(scope="module")
def gappy():
    views, _y = blobs(120, n_clusters=4)
    views = with_gaps(views)
    for view in views:
        view[11] = 0
    return quiet_fit(views, 4)


@pytest.fixture(scope="module")
def few_landmarks():
    views, _y = blobs(150, n_clusters=4)
    with pytest.MonkeyPatch.context() as patch:
        limit_landmarks(patch, 60)
        return fit(with_gaps(views), 4)


@pytest.fixture(params=["complete", "gappy", "few_landmarks"])
def model(request):
    return request.getfixturevalue(request.param)


def described(model):
    return np.flatnonzero(np.diff(model.links_.indptr))


def test_every_level_has_exactly_its_number_of_clusters(model):
    for k in range(1, model.tree_.most + 1):
        labels = model.labels_at(k)
        sizes = np.bincount(labels[described(model)], minlength=k)
        assert len(sizes) == k
        assert sizes.min() > 0
        assert (np.diff(sizes) <= 0).all()
    np.testing.assert_array_equal(model.labels_at(model.n_clusters_), model.labels_)
    np.testing.assert_array_equal(model.labels_at(1), 0)


def test_levels_are_nested(model):
    some = described(model)
    levels = [model.labels_at(k)[some] for k in range(1, model.tree_.most + 1)]
    for coarse, fine in pairwise(levels):
        assert len(set(zip(coarse.tolist(), fine.tolist(), strict=True))) == fine.max() + 1


def test_numbers_of_clusters_beyond_the_levels_are_refused(model):
    for k in (0, model.tree_.most + 1, 2.0, True):
        with pytest.raises(ValueError, match=f"k={k}: this fit has levels from 1 to {model.tree_.most} clusters"):
            model.labels_at(k)


def test_merges_make_a_tree(model):
    tree = model.tree_
    assert tree.merges.shape == (tree.most - 1, 2)
    np.testing.assert_array_equal(np.sort(tree.merges.ravel()), np.arange(2 * tree.most - 2))
    assert (tree.merges < tree.most + np.arange(tree.most - 1)[:, None]).all()
    assert tree.stability.shape == (tree.most - 1,)
    assert (abs(tree.stability) <= 1).all()
    np.testing.assert_array_equal(tree.leaf_labels[tree.leaves], np.argmax(model.fitted_.shares, axis=1))


def test_clear_clusters_split_stably():
    """Two groups of two: the clusters at four, and the groups at two, are told apart; further splits are not."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 40)
    centres = np.array([[0.0, 0, 0], [6, 0, 0], [30, 0, 0], [30, 6, 0]])
    views = [(centres @ np.linalg.qr(rng.normal(size=(3, 3)))[0])[y] + rng.normal(size=(160, 3)) for _ in range(2)]
    views[0][:50:7] = np.nan
    model = fit(views, 4, normalisation="none")
    assert acc(y, model.labels_) > 0.97
    # Nothing is shared between these clusters: the distances of their centres decide.
    assert acc(y // 2, model.labels_at(2)) > 0.97
    frame = model.tree_.to_frame()
    stability = dict(zip(frame["n_clusters"], frame["stability"], strict=True))
    assert min(stability[2], stability[4]) > 0.9
    assert max(stability[k] for k in range(5, model.tree_.most + 1)) < 0.5


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [3, 6])
def test_planted_splits_are_stable_and_others_are_not(seed, k):
    """Three groups of two clusters, whichever level is the final one; in any order of the samples."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(6), 50)
    views = []
    for _ in range(2):
        axes = np.linalg.qr(rng.normal(size=(8, 8)))[0]
        centres = 15 * axes[:3].repeat(2, axis=0) + 5 * np.tile(axes[3:5], (3, 1))
        views.append(centres[y] + rng.normal(size=(300, 8)))
    tree = fit(views, k).tree_
    by_level = tree.stability[::-1]
    assert by_level[:5].min() > 0.8
    assert by_level[5:].max() < 0.5
    order = rng.permutation(300)
    np.testing.assert_array_equal(fit([view[order] for view in views], k).tree_.stability, tree.stability)


@pytest.mark.parametrize("dimension", [2, 5, 30])
def test_hardly_any_split_of_a_single_blob_is_stable(dimension):
    """The views are the same blob with a little noise; sides of 25 samples in a plane have a gap by chance at times."""
    blob = np.random.default_rng(0).normal(size=(300, dimension))
    views = [blob + 0.1 * np.random.default_rng(v).normal(size=blob.shape) for v in (1, 2)]
    tree = quiet_fit(views, 2, normalisation="none").tree_
    assert np.quantile(tree.stability, 0.8) < 0.5
    assert np.median(tree.stability) < 0.4


@given(st.integers(2, 12), st.integers(0, 2**16))
def test_the_widest_cut_is_that_of_the_best_threshold(n, seed):
    rng = np.random.default_rng(seed)
    weights = np.triu(rng.integers(0, 3, size=(n, n)), 1)
    position = rng.permutation(n).astype(float)
    cuts = [
        sum(weights[i, j] for i in range(n) for j in range(n) if min(position[[i, j]]) <= t < max(position[[i, j]]))
        for t in range(n)
    ]
    assert _widest_cut(sp.csr_array(weights + weights.T), position) == max(cuts)


def test_separation_of_simple_graphs():
    path = sp.csr_array(np.eye(10, k=1) + np.eye(10, k=-1))
    assert _separation(path, 5) == 0  # one link across, and one at any place inside
    pairs = np.kron(np.eye(2), np.ones((6, 6)) - np.eye(6))
    assert _separation(sp.csr_array(pairs), 6) == 1
    pairs[5, 6] = pairs[6, 5] = 1
    # Nine links run between the halves of six samples that are all linked.
    assert _separation(sp.csr_array(pairs), 6) == pytest.approx(1 - 1 / 9, rel=1e-12)
    assert _separation(sp.csr_array(pairs), 1) == 0  # a single sample has no inside
    together = _stability([sp.csr_array(pairs)], np.repeat([0, 1, 2], [6, 3, 3]), np.array([[1, 2], [0, 3]]), 3)
    np.testing.assert_allclose(together, [0, 1 - 1 / 9], rtol=1e-12)


def test_duplicates_are_never_split():
    rng = np.random.default_rng(0)
    distinct = [rng.normal(size=(8, 3)), rng.normal(size=(8, 2))]
    copies = np.repeat(np.arange(8), 6)
    model = quiet_fit([view[copies] for view in distinct], 3)
    assert model.tree_.most <= 8
    for k in range(1, model.tree_.most + 1):
        labels = model.labels_at(k)
        np.testing.assert_array_equal(labels, labels[6 * copies])
        assert labels.max() + 1 == k


@given(st.integers(0, 10**6), st.integers(2, 8), st.integers(0, 6))
def test_merges_of_final_clusters_follow_their_shares(seed, k, more):
    """Leaves of one cluster first, then clusters: after all merges but one, each final cluster is on one side."""
    rng = np.random.default_rng(seed)
    leaf_labels = np.sort(np.concatenate([np.arange(k), rng.integers(k, size=more)]))
    most = k + more
    below = [(1.0, i, i + 1) for i in range(most - 1) if leaf_labels[i] == leaf_labels[i + 1]]
    below = _numbered(below, most)
    assert len(below) == more
    np.testing.assert_array_equal(merged(below, most), leaf_labels)
    shares = rng.dirichlet(np.ones(k), size=20)
    merges = np.concatenate([below, _merge(shares, np.zeros((k, k)), leaf_labels, below)])
    assert merges.shape == (most - 1, 2)
    groups = merged(merges[:-1], most)
    assert groups.max() == 1
    assert all(len(set(groups[leaf_labels == cluster])) == 1 for cluster in range(k))
    # The first two that merge have the most in common.
    common = shares.T @ shares
    likeness = common / np.sqrt(np.outer(np.diag(common), np.diag(common)))
    np.fill_diagonal(likeness, -1)
    once = merged(merges[: more + 1], most)
    first, second = np.unravel_index(np.argmax(likeness), likeness.shape)
    assert once[leaf_labels == first][0] == once[leaf_labels == second][0]
