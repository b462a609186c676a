import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import tensormvc as tm
from tensormvc.graphs import check_sample_graph, gmc, knn_graph, normalised_adjacency
from tensormvc.graphs._gmc import _Neighbourhood
from tensormvc.views import as_views

from .. import textbook


def blobs(seed, n=40, dims=(4, 6), c=3):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, c, size=n)
    return [rng.normal(size=(c, d))[y] * 2 + rng.normal(size=(n, d)) for d in dims], y


@given(seed=st.integers(0, 99), n=st.integers(3, 25), k=st.integers(1, 6))
def test_knn_graphs_are_the_textbook(seed, n, k):
    k = min(k, n - 1)
    views, _ = blobs(seed, n)
    units = [textbook.unit_rows(view) for view in views]
    sim = tm.SimGraph(k).fit(views).graph_.toarray()
    np.testing.assert_array_equal(sim, textbook.knn_graph(np.column_stack(units), k))
    total = tm.SumGraph(k).fit(views).graph_.toarray()
    np.testing.assert_array_equal(total, sum(textbook.knn_graph(unit, k) for unit in units))


@given(seed=st.integers(0, 99), k=st.integers(1, 5))
def test_all_ties_are_neighbours(seed, k):
    """Points of a grid, and copies of points: many equal distances, none of them broken."""
    points = np.random.default_rng(seed).integers(0, 3, size=(20, 3)).astype(float)
    np.testing.assert_array_equal(knn_graph([points], k).toarray(), textbook.knn_graph(points, k))


def test_sparse_and_dense_views_give_the_same_graph():
    rng = np.random.default_rng(0)
    dense = rng.poisson(0.3, size=(60, 80)).astype(float)
    assert (dense.sum(axis=1) > 0).all()
    a = tm.SimGraph().fit([dense, dense[:, ::2]]).graph_
    b = tm.SimGraph().fit([sp.csr_array(dense), sp.csr_array(dense[:, ::2])]).graph_
    assert abs(a - b).nnz == 0


def test_blocks_and_threads_change_nothing(monkeypatch):
    views, _ = blobs(0, 200)
    expected = [tm.SimGraph().fit(views).graph_, tm.GMCGraph().fit(views, n_clusters=3).graph_]
    monkeypatch.setattr("tensormvc.graphs._distances._BLOCK_BYTES", 8 * 200 * 7)
    monkeypatch.setattr("joblib.cpu_count", lambda: 3)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert abs(tm.SimGraph().fit(views).graph_ - expected[0]).nnz == 0
    difference = abs(tm.GMCGraph().fit(views, n_clusters=3).graph_ - expected[1])
    assert difference.nnz == 0 or difference.max() < 1e-12


def test_a_missing_view_has_no_links_there():
    views, _ = blobs(0, 30)
    only_second = tm.SumGraph(3).fit([views[1]]).graph_
    views[0][7] = np.nan
    graph = tm.SumGraph(3).fit(views).graph_
    np.testing.assert_array_equal(graph[[7]].toarray(), only_second[[7]].toarray())


def test_probabilistic_graph_reference(shared):
    reference = np.load(shared / "reference" / "anchor_graph.npz")
    for points in ("P", "P2"):
        for k in (3, 5):
            gaps = _Neighbourhood.of_view(reference[points].T, k).gaps
            weights = sp.csr_array(gaps.multiply(1 / gaps.sum(axis=1)[:, None]))
            graph = sp.csr_array((weights + weights.T) / 2)
            np.testing.assert_allclose(graph.toarray(), reference[f"{points}_B_k{k}"], rtol=0, atol=1e-11)
            laplacian = np.eye(graph.shape[0]) - normalised_adjacency(graph).toarray()
            np.testing.assert_allclose(laplacian, reference[f"{points}_Lb_k{k}"], rtol=0, atol=1e-11)


@pytest.fixture
def z_scored(shared):
    data = np.load(shared / "reference" / "subset60.npz")
    views = [data[f"view{v}"].T for v in (1, 2, 3)]
    return [(x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, ddof=1, keepdims=True) for x in views]


def test_gmc_reference(shared, z_scored):
    reference = np.load(shared / "reference" / "gmc.npz")
    result = gmc(z_scored, 3)
    assert result.n_iter == reference["iters"]
    assert result.converged
    np.testing.assert_allclose(result.affinity.toarray(), reference["U"], rtol=0, atol=1e-11)
    for v, affinity in enumerate(result.view_affinities):
        np.testing.assert_allclose(affinity.toarray(), reference["S_final"][:, :, v], rtol=0, atol=1e-11)
    np.testing.assert_allclose(result.weights, reference["w_hist"], rtol=1e-11)
    np.testing.assert_array_equal(result.lams, reference["lambda_hist"])
    np.testing.assert_allclose(result.eigenvalues.T, reference["evs"][:4], rtol=0, atol=1e-11)
    ours, theirs = result.labels, reference["labels"]
    assert len({(a, b) for a, b in zip(ours.tolist(), theirs.tolist(), strict=True)}) == 3
    for rounds in (1, 2):
        affinity = gmc(z_scored, 3, max_iter=rounds).affinity.toarray()
        np.testing.assert_allclose(affinity, reference[f"U_{rounds}"], rtol=0, atol=1e-11)
    np.testing.assert_allclose(
        textbook.probabilistic_neighbours(z_scored[1], 15)[0], reference["S_initial"][:, :, 1], rtol=0, atol=1e-11
    )


@pytest.mark.parametrize("seed", range(5))
def test_gmc_is_the_textbook(seed):
    views, _ = blobs(seed, n=30, c=3)
    result = gmc(views, 3, n_neighbors=6)
    expected, rounds = textbook.gmc(views, 3, k=6)
    assert result.n_iter == rounds
    np.testing.assert_allclose(result.affinity.toarray(), expected, rtol=0, atol=1e-9)


def test_gmc_with_the_sparse_solver(monkeypatch):
    views, _ = blobs(0, n=120, c=4)
    dense = gmc(views, 4)
    monkeypatch.setattr("tensormvc.graphs._gmc._DENSE_UP_TO", 10)
    sparse = gmc(views, 4)
    assert sparse.n_iter == dense.n_iter
    np.testing.assert_allclose(sparse.affinity.toarray(), dense.affinity.toarray(), rtol=0, atol=1e-8)


def test_gmc_with_many_duplicates():
    """More copies of a point than it has neighbours: they keep together, and nothing is broken by position."""
    rng = np.random.default_rng(0)
    views = [rng.normal(size=(60, d)) for d in (5, 4)]
    views = [np.concatenate([view, np.repeat(view[:1], 25, axis=0)]) for view in views]
    graph = tm.GMCGraph().fit(views, n_clusters=3).graph_
    assert np.isfinite(graph.data).all()
    assert (graph.sum(axis=1) > 0).all()
    order = rng.permutation(85)
    permuted = tm.GMCGraph().fit(as_views([view[order] for view in views], canonical=False), n_clusters=3).graph_
    np.testing.assert_allclose(permuted.toarray(), graph[order][:, order].toarray(), rtol=0, atol=1e-9)


def test_only_duplicates():
    views = [np.ones((40, 3)), np.ones((40, 2))]
    for graph in (tm.SimGraph(), tm.SumGraph()):
        assert (graph.fit(views).graph_.sum(axis=1) > 0).all()
    assert np.isfinite(tm.GMCGraph().fit(views, n_clusters=2).graph_.data).all()


def test_ideal_graph():
    y = np.array([2, 0, 2, 1, 0, 2])
    np.testing.assert_array_equal(tm.ideal_graph(y).toarray(), y[:, None] == y[None, :])
    with pytest.raises(ValueError, match="one label per sample"):
        tm.ideal_graph([[1, 2]])
    with pytest.raises(MemoryError, match="fewer samples"):
        tm.ideal_graph(np.zeros(10_000_000, dtype=np.int8))


@pytest.mark.parametrize("graph", [tm.SimGraph, tm.SumGraph, tm.GMCGraph])
def test_graphs_commute_with_permutations(graph):
    views, _ = blobs(3, n=80)
    views[0][5] = views[0][6]
    plain = graph().fit(views, n_clusters=3).graph_
    assert abs(plain - plain.T).nnz == 0
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(80)
        permuted = [view[order] for view in views]
        assert abs(graph().fit(permuted, n_clusters=3).graph_ - plain[order][:, order]).nnz == 0
        free = graph().fit(as_views(permuted, canonical=False), n_clusters=3).graph_
        np.testing.assert_allclose(free.toarray(), plain[order][:, order].toarray(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("graph", [tm.SimGraph, tm.SumGraph, tm.GMCGraph])
def test_wrong_neighbours(graph):
    views, _ = blobs(0, n=8)
    for wrong in (8, 9, 0, -1, 2.5, True):
        with pytest.raises(ValueError, match="n_neighbors"):
            graph(n_neighbors=wrong).fit(views, n_clusters=2)


def test_gmc_needs_a_sane_number_of_clusters():
    views, _ = blobs(0)
    with pytest.raises(ValueError, match="needs the number of clusters"):
        tm.GMCGraph().fit(views)
    with pytest.raises(ValueError, match="n_clusters must be between"):
        tm.GMCGraph().fit(views, n_clusters=40)


@pytest.mark.parametrize(
    ("graph", "error", "message"),
    [
        (np.ones((3, 4)), ValueError, r"shape \(3, 4\)"),
        (np.ones((3, 3)), ValueError, r"must be \(4, 4\)"),
        (np.triu(np.ones((4, 4))), ValueError, "not symmetric"),
        (-np.ones((4, 4)), ValueError, "negative"),
        (np.full((4, 4), np.nan), ValueError, "NaN"),
        (np.ones((4, 4), complex), TypeError, "complex"),
        (sp.csr_array(np.triu(np.ones((4, 4)))), ValueError, "not symmetric"),
    ],
)
def test_wrong_user_graphs(graph, error, message):
    with pytest.raises(error, match=message):
        check_sample_graph(graph, 4)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_single_precision_has_the_graphs_of_the_same_values():
    """To the rounding of sums in another order: no unit length is rounded on the way."""
    single = [view.astype(np.float32) for view in tm.datasets.load_digits_views(150)[0]]
    double = [view.astype(np.float64) for view in single]
    for graph in (tm.SimGraph(), tm.SumGraph(), tm.GMCGraph()):
        ours, expected = (clone(graph).fit(views, n_clusters=10).graph_.toarray() for views in (single, double))
        np.testing.assert_allclose(ours, expected, atol=1e-12)
    np.testing.assert_allclose(tm.GMC(10).fit(single).graph_.toarray(), expected, atol=1e-12)
