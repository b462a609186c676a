"""Consensus clustering: agreement, the embedding, the shares, and Ward trees."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import cut_tree, ward
from sklearn.metrics import adjusted_rand_score

import tensormvc as tm
from tensormvc.auto._consensus import (
    cluster_embedding,
    consensus_embedding,
    consensus_shares,
    decided,
    smoothed,
    ward_labels,
)
from tensormvc.auto._members import pairwise_agreement
from tensormvc.rows import SampleRandom
from tensormvc.views import as_views


@st.composite
def weighted_clusterings(draw):
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, count = draw(st.integers(2, 40)), draw(st.integers(1, 6))
    # Every number from 0 occurs, as in our clusterings.
    labelings = [np.unique(rng.integers(draw(st.integers(1, 5)), size=n), return_inverse=True)[1] for _ in range(count)]
    weights = rng.random(count) + 1e-3
    return labelings, weights / weights.sum()


@given(weighted_clusterings())
def test_agreement_is_the_adjusted_rand_index(clusterings):
    labelings, _weights = clusterings
    expected = [[adjusted_rand_score(one, other) for other in labelings] for one in labelings]
    np.testing.assert_allclose(pairwise_agreement(labelings), expected, atol=1e-12)


@given(weighted_clusterings(), st.integers(1, 6))
def test_shares_of_a_sample_sum_to_one(clusterings, k):
    labelings, weights = clusterings
    labels = np.random.default_rng(0).integers(k, size=len(labelings[0]))
    shares = consensus_shares(labelings, weights, labels, k)
    assert shares.shape == (len(labels), k)
    assert shares.min() >= 0
    # A few additions.
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-12)
    expected = np.zeros_like(shares)
    for own, weight in zip(labelings, weights, strict=True):
        for i in range(len(labels)):
            group = labels[own == own[i]]
            expected[i] += weight * np.bincount(group, minlength=k) / len(group)
    np.testing.assert_allclose(shares, expected, atol=1e-12)


def test_one_clustering_is_its_own_consensus():
    labels = np.array([0, 2, 1, 1, 0])
    np.testing.assert_array_equal(consensus_shares([labels], [1.0], labels, 3), np.eye(3)[labels])


@given(st.integers(0, 10**6), st.integers(1, 20), st.integers(1, 6))
def test_half_of_the_shares_are_those_of_the_neighbours(seed, n, k):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(k), size=n)
    graph = rng.random((n, n)) * (rng.random((n, n)) < 0.2)
    graph[0] = 0  # the first has no neighbours
    expected = shares.copy()
    for i in range(1, n):
        if graph[i].any():
            expected[i] = shares[i] / 2 + np.average(shares, axis=0, weights=graph[i]) / 2
    # A few additions and a division.
    np.testing.assert_allclose(smoothed(shares, sp.csr_array(graph)), expected, rtol=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 6))
def test_no_renumbering_of_clusters_decides_ties(seed, n, k):
    """Shares in quarters are full of ties; a priority that is renumbered, too, gives them to the same cluster."""
    rng = np.random.default_rng(seed)
    shares = rng.multinomial(4, np.ones(k) / k, size=n) / 4
    priority, order = rng.permutation(k), rng.permutation(k)
    raised = decided(shares, priority)
    np.testing.assert_allclose(raised.sum(axis=1), 1, rtol=1e-15)
    np.testing.assert_allclose(raised, shares, atol=2e-9)
    best = shares.max(axis=1)
    for row, winner in enumerate(np.argmax(raised, axis=1)):
        tied = np.flatnonzero(shares[row] == best[row])
        assert winner == min(tied, key=lambda cluster: np.flatnonzero(priority == cluster)[0])
    # The cluster `order[j]` is now called j.
    renumbered = decided(shares[:, order], np.argsort(order)[priority])
    np.testing.assert_array_equal(renumbered, raised[:, order])
    np.testing.assert_array_equal(order[np.argmax(raised[:, order], axis=1)], np.argmax(raised, axis=1))
    np.testing.assert_array_equal(np.argmax(decided(raised, priority), axis=1), np.argmax(raised, axis=1))


def test_the_consensus_is_that_of_the_whole_co_association():
    rng = np.random.default_rng(0)
    labelings = [rng.integers(4, size=50) for _ in range(6)]
    weights = rng.random(6)
    together = sum(w * (one[:, None] == one) for w, one in zip(weights, labelings, strict=True))
    scale = 1 / np.sqrt(together.sum(axis=1))
    _values, vectors = np.linalg.eigh(scale[:, None] * together * scale)
    ours = consensus_embedding(labelings, weights, 5)
    # The same five-dimensional space.
    np.testing.assert_allclose(ours @ ours.T, vectors[:, -5:] @ vectors[:, -5:].T, atol=1e-10)


@given(st.integers(0, 10**6), st.integers(2, 40), st.sampled_from(["distinct", "grid", "duplicates"]), st.data())
def test_ward_trees_are_cut_into_exactly_k_clusters(seed, n, kind, data):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, 3))
    if kind == "grid":
        points = rng.integers(0, 3, size=(n, 3)).astype(float)
    elif kind == "duplicates":
        points = points[rng.integers(0, max(1, n // 3), size=n)]
    k = data.draw(st.integers(1, n))
    labels = ward_labels(points, k)
    assert set(labels) == set(range(k))
    heights = ward(points)[:, 2]
    cuts = [k]
    if 0 < n - k < n - 1 and heights[n - k - 1] == heights[n - k]:
        # The cut is within merges of equal height: SciPy may leave out others of them.
        cuts = [n - np.count_nonzero(heights < heights[n - k]), n - np.count_nonzero(heights <= heights[n - k])]
    finer, coarser = (cut_tree(ward(points), [cut]).ravel() for cut in (cuts[0], cuts[-1]))
    if len(cuts) == 1:
        np.testing.assert_array_equal(labels, finer)
    # Every cluster of the finer cut is within one of ours, and each of ours within one of the coarser cut.
    assert len(set(zip(finer.tolist(), labels.tolist(), strict=True))) == finer.max() + 1
    assert len(set(zip(labels.tolist(), coarser.tolist(), strict=True))) == k


def test_a_rare_cluster_that_none_of_the_first_rows_is_in():
    rng = np.random.default_rng(0)
    labels = np.r_[rng.integers(5, size=5990), np.full(10, 5)]
    points = np.eye(6)[labels] + 0.1 * rng.normal(size=(6000, 6))
    found = cluster_embedding(points, 6, SampleRandom(as_views([points], canonical=False), 0), n_init=0)
    assert tm.metrics.ari(labels, found) == 1
