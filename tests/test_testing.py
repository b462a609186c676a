"""`assert_order_independent` passes what does not depend on the order, and names what does, for pytest elsewhere."""

import re

import numpy as np
import pytest
from sklearn.cluster import AgglomerativeClustering, KMeans

import tensormvc as tm
from tensormvc.testing import assert_order_independent


@pytest.fixture(scope="module")
def views():
    return tm.datasets.load_digits_views(120)[0]


def by_position(data):
    return np.arange(len(data[0])) * 4 // len(data[0])


@pytest.mark.parametrize(
    "clusterer",
    [
        tm.MultiViewClustering(10, random_state=0),
        tm.ESTMC(10, basis="agft", random_state=0),
        AgglomerativeClustering(10),
        lambda data: (data[0][:, 20] > 8).astype(int),
    ],
    ids=["MultiViewClustering", "ESTMC", "AgglomerativeClustering", "function"],
)
def test_independent(clusterer, views):
    assert_order_independent(clusterer, views)


def test_renumbered_clusters_are_the_same(views):
    def numbered_by_first_row(data):
        positive = data[0][:, 2] > 4
        return (positive == positive[0]).astype(int)

    assert_order_independent(numbered_by_first_row, views, n_permutations=8)


@pytest.mark.parametrize("seed", [0, None])
def test_kmeans_depends_on_the_order(seed, views):
    clusterer = KMeans(10, n_init=1, random_state=seed)
    with pytest.raises(
        AssertionError, match="KMeans depends on the order of the rows: in permutation 1 of 3"
    ) as caught:
        assert_order_independent(clusterer, views)
    # The numbers of the message are those of the audit's first two orders, which are drawn alike.
    labels = tm.audit_order(clusterer, views, n_permutations=2).labels
    numbers = re.search(r"(\d+) of (\d+) samples change their cluster \(ARI (\S+),", str(caught.value))
    moved, total, ari = numbers.groups()
    assert int(total) == len(views[0])
    assert int(moved) == round(len(views[0]) * (1 - tm.metrics.clustering_accuracy(*labels)))
    assert float(ari) == pytest.approx(tm.metrics.ari(*labels), abs=5e-4)  # three digits are printed


def test_the_fft_depends_on_the_order(views):
    with pytest.raises(AssertionError, match="TSVDMVC depends on the order"):
        assert_order_independent(tm.TSVDMVC(10, basis="fft", random_state=0), [view[:60] for view in views])


def test_tolerance(views):
    assert_order_independent(KMeans(10, n_init=1, random_state=0), views, min_ari=0.1)
    with pytest.raises(AssertionError, match=r"at least 0\.5 is required"):
        assert_order_independent(by_position, views, min_ari=0.5)


def test_not_repeatable(views):
    rng = np.random.default_rng(0)

    def random(data):
        return rng.integers(3, size=len(data[0]))

    with pytest.raises(AssertionError, match="random is not repeatable: two runs on the same rows"):
        assert_order_independent(random, views)


def test_graph_is_permuted_with_the_samples(views):
    graph = (np.arange(120)[:, None] // 40 == np.arange(120) // 40).astype(float)

    def by_graph(data, sample_graph):
        return np.unique(sample_graph, axis=0, return_inverse=True)[1]

    assert_order_independent(by_graph, views, sample_graph=graph)


def test_wrong_arguments(views):
    with pytest.raises(ValueError, match="n_permutations=0 must be at least 1"):
        assert_order_independent(KMeans(10), views, n_permutations=0)
    with pytest.raises(TypeError, match="is not a clusterer"):
        assert_order_independent(KMeans, views)
