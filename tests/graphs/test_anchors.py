import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tensormvc.graphs import anchor_graph, bkhk
from tensormvc.graphs._anchors import ArrayGroups
from tensormvc.graphs._anchors import two_means as split
from tensormvc.views import as_views

from .. import textbook


def two_means(points, ties, *, balanced, start=None):
    """Split one group; return who is on the first side, and the centres."""
    groups = ArrayGroups([points[None]], ties[None], np.array([len(points)]))
    centres = split(groups, balanced=balanced, start=start and tuple([centre[None]] for centre in start))
    return groups.side[0], [side[0][0] for side in centres]


@pytest.fixture
def points(shared):
    return np.load(shared / "reference" / "subset60.npz")["view3"].T


def test_one_split_is_the_reference(shared, points):
    reference = np.load(shared / "reference" / "bkhk.npz")
    start = [points[reference["bkm_initF_onehot"][:, j] > 0].mean(axis=0) for j in range(2)]
    for suffix, balanced in (("r1", True), ("r2", False)):
        for name, given_start in (("prog", None), ("hot", start)):
            side, centres = two_means(points, np.arange(60.0), balanced=balanced, start=given_start)
            np.testing.assert_array_equal(np.where(side, 1, 2), reference[f"bkm_{name}_y_{suffix}"])
            expected = reference[f"bkm_{name}_C_{suffix}"]
            np.testing.assert_allclose(np.stack(centres, axis=1), expected, rtol=0, atol=1e-11)


def test_anchors_and_their_graph_are_the_reference(shared, points):
    reference = np.load(shared / "reference" / "bkhk.npz")
    data = np.load(shared / "reference" / "subset60.npz")
    for v in (1, 2, 3):
        anchors = bkhk([data[f"view{v}"].T], 4, np.arange(60.0))[0]
        np.testing.assert_allclose(anchors, reference[f"anchors_v{v}"], rtol=0, atol=1e-11)
    for depth in (3, 4):
        anchors = bkhk([points], depth, np.arange(60.0))
        np.testing.assert_allclose(anchors[0].T, reference[f"anchors_l{depth}"], rtol=0, atol=1e-11)
        for k in (3, 5):
            graph = anchor_graph([points], anchors, k)
            np.testing.assert_allclose(graph.toarray(), reference[f"Z_l{depth}_k{k}"], rtol=0, atol=1e-11)


@given(seed=st.integers(0, 99), n=st.integers(16, 40), depth=st.integers(1, 3))
def test_anchors_are_the_textbook(seed, n, depth):
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(n, 3)) + 1, rng.normal(size=(n, 2))]
    anchors = bkhk(parts, depth, rng.normal(size=n))
    together = np.column_stack(parts)
    np.testing.assert_allclose(np.column_stack(anchors), textbook.bkhk(together, depth), rtol=0, atol=1e-10)
    k = min(3, 2**depth - 1)
    graph = anchor_graph(parts, anchors, k).toarray()
    np.testing.assert_allclose(graph, textbook.anchor_graph(together, np.column_stack(anchors), k), rtol=0, atol=1e-9)
    np.testing.assert_allclose(graph.sum(axis=1), 1, atol=1e-9)


@pytest.mark.parametrize("copies", [0, 20])
def test_anchor_sets_commute_with_permutations(copies):
    rng = np.random.default_rng(0)
    views = [rng.normal(size=(100, d)) for d in (5, 3)]
    views = [np.concatenate([view, view[:copies]]) for view in views]
    n = 100 + copies
    made = as_views(views, canonical=False)
    anchors = bkhk(list(made.arrays), 4, made.probes(1)[:, 0])
    graph = anchor_graph(list(made.arrays), anchors, 5)
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(n)
        other = as_views([view[order] for view in views], canonical=False)
        same = bkhk(list(other.arrays), 4, other.probes(1)[:, 0])
        for a, b in zip(anchors, same, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
        moved = anchor_graph(list(other.arrays), same, 5)
        np.testing.assert_allclose(moved.toarray(), graph[order].toarray(), rtol=0, atol=1e-9)


def test_two_samples_of_equal_length_tie_and_the_data_decide():
    """Both samples of a pair at unit length are as near to their mean as to the origin, relative to each other."""
    points = np.array([[1.0, 0.0], [0.0, 1.0]])
    ties = np.array([0.3, 0.7])
    first, _ = two_means(points, ties, balanced=False)
    swapped, _ = two_means(points[::-1], ties[::-1], balanced=False)
    np.testing.assert_array_equal(first, swapped[::-1])


def test_sparse_parts():
    dense = np.random.default_rng(0).poisson(0.5, size=(50, 30)).astype(float)
    ties = np.arange(50.0)
    a, b = bkhk([dense], 3, ties), bkhk([sp.csr_array(dense)], 3, ties)
    np.testing.assert_allclose(a[0], b[0], atol=1e-12)
    np.testing.assert_allclose(
        anchor_graph([dense], a, 4).toarray(), anchor_graph([sp.csr_array(dense)], b, 4).toarray(), atol=1e-9
    )


def test_samples_equally_far_from_all_anchors_have_equal_weights():
    anchors = [np.eye(4)]
    graph = anchor_graph([np.array([[0.5, 0.5, 0.5, 0.5], [1, 0, 0, 0]])], anchors, 2).toarray()
    np.testing.assert_allclose(graph[0], 0.25)
    np.testing.assert_allclose(graph[1, 0], 1)


def test_wrong_sizes():
    points = [np.random.default_rng(0).normal(size=(6, 2))]
    with pytest.raises(ValueError, match="8 anchors need"):
        bkhk(points, 3, np.arange(6.0))
    anchors = bkhk(points, 1, np.arange(6.0))
    for k in (0, 2):
        with pytest.raises(ValueError, match="less than the 2 anchors"):
            anchor_graph(points, anchors, k)
