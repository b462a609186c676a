"""The number of clusters: closed forms of its parts, and what it may not depend on."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import block_diag

import tensormvc as tm
from tensormvc.auto import _number
from tensormvc.auto._looks import gather_evidence
from tensormvc.selection import modularity
from tensormvc.views import as_views


@pytest.fixture(scope="module")
def graph():
    rng = np.random.default_rng(0)
    weights = rng.uniform(size=(60, 60)) * (rng.uniform(size=(60, 60)) < 0.1)
    weights[:20, :20] += rng.uniform(size=(20, 20))
    return sp.csr_array(weights + weights.T)


def complete(n):
    return np.zeros((n, 2), dtype=bool)


def test_walks_are_compared_by_the_rows_of_a_power(graph):
    roots = np.sqrt(graph.sum(axis=1))
    ends = np.linalg.matrix_power(graph.toarray() / np.outer(roots, roots), 4)
    lengths = np.linalg.norm(ends, axis=1)
    # Three products in single precision.
    expected = ends @ ends.T / np.outer(lengths, lengths)
    np.testing.assert_allclose(_number._walk_similarities(graph, 12, complete(60)), expected, atol=1e-5)


def test_with_gaps_the_frequencies_lead_to_the_same_walks(graph):
    everywhere = np.ones((60, 1), dtype=bool)
    similarities = _number._walk_similarities(graph, 60, np.hstack([everywhere, ~everywhere]))
    np.testing.assert_allclose(similarities, _number._walk_similarities(graph, 60, complete(60)), atol=1e-5)


def test_modularities_come_from_the_finest_clusters(graph):
    numbers = np.array([2, 5, 12])
    labels, within = _number._clusterings(graph, numbers, complete(60))
    assert [len(np.unique(own)) for own in labels] == numbers.tolist()
    np.testing.assert_allclose(within, [modularity(graph, own) for own in labels], rtol=1e-12)


def test_samples_without_links_are_clusters_of_their_own():
    blocks = block_diag(np.ones((6, 6)), np.ones((5, 5)), np.zeros((1, 1)))
    labels, _ = _number._clusterings(sp.csr_array(blocks), np.array([2, 3]), complete(12))
    np.testing.assert_array_equal(labels[1], np.repeat([0, 1, 2], [6, 5, 1]))


def test_candidates_are_closer_than_the_tolerance_of_a_tenth():
    numbers = _number._candidates(130)
    assert (numbers[0], numbers[-1]) == (2, 130)
    assert np.all(np.diff(numbers) <= np.maximum(1, 0.1 * numbers[:-1]))


def test_one_way_of_looking_is_enough():
    views, _ = tm.datasets.make_multiview(120, n_clusters=4, random_state=0)
    assert tm.estimate_n_clusters(views, normalisation="z-score").n_clusters == 4
    assert tm.estimate_n_clusters(views[0]).n_clusters == 4


def test_levels_are_apart_and_their_shares_sum_to_one():
    views, _ = tm.datasets.load_digits_views(300)
    found = tm.estimate_n_clusters(views)
    numbers = [level.n_clusters for level in found.levels]
    assert numbers[0] == found.n_clusters
    assert sum(level.share for level in found.levels) == pytest.approx(1)
    assert all(abs(a - b) > max(1, 0.1 * b) for i, a in enumerate(numbers) for b in numbers[:i])


def test_local_maxima_are_proposed_before_numbers_beside_the_best_one():
    numbers, scores = np.arange(2, 10), np.array([0.1, 0.2, 1.0, 0.95, 0.9, 0.3, 0.4, 0.2])
    levels = _number._levels(numbers, scores, scores)
    assert [level.n_clusters for level in levels] == [4, 8, 6]


def test_of_more_samples_the_first_thousand_count_in_any_order():
    views, _ = tm.datasets.make_multiview(1100, n_clusters=5, random_state=0)
    order = np.random.default_rng(1).permutation(1100)
    found, again = tm.estimate_n_clusters(views), tm.estimate_n_clusters([view[order] for view in views])
    assert found.n_clusters == 5
    np.testing.assert_array_equal(found.stability, again.stability)


def test_a_look_without_neighbours_by_view_has_the_same_joint_graph():
    views, _ = tm.datasets.make_multiview(90, n_clusters=3, random_state=0)
    look = gather_evidence(as_views(views, unit=False))
    both = (look.first(60, by_view=by_view).graph("joint") for by_view in (True, False))
    np.testing.assert_array_equal(*(graph.toarray() for graph in both))
