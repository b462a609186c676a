"""GFT and AGFT: what the paper's theorems say, on graphs made for it and on real data."""

import pickle
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import block_diag
from sklearn.base import clone

import tensormvc as tm
from tensormvc.bases import make_basis
from tensormvc.bases._base import eigenvalue_groups
from tensormvc.graphs import normalised_adjacency
from tensormvc.views import as_views

from . import textbook
from .names import ADAPTIVE

BASES = {
    **{name: partial(make_basis, name) for name in ADAPTIVE},
    "gft-sim, 20 components": lambda: tm.GFT("sim", n_components=20),
}


def blobs(seed=0, n=60, dims=(5, 4), c=3):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, c, size=n)
    return [rng.normal(size=(c, d))[y] * 2 + rng.normal(size=(n, d)) for d in dims], y


@pytest.mark.parametrize("name", BASES)
def test_protocol(name):
    tm.testing.check_basis(BASES[name]())


@pytest.mark.parametrize("name", ["gft", *ADAPTIVE])
def test_names(name):
    views, _ = blobs()
    basis = make_basis(name).fit(views, n_clusters=3)
    tensor = np.random.default_rng(0).normal(size=(60, 3, 2))
    again = pickle.loads(pickle.dumps(basis))
    np.testing.assert_array_equal(again.forward(tensor), basis.forward(tensor))
    assert repr(clone(basis)) == repr(make_basis(name))


@pytest.mark.parametrize("name", BASES)
def test_backends_and_precisions(name, backend):
    views, _ = blobs()
    basis = BASES[name]().fit(views, n_clusters=3)
    tensor = np.random.default_rng(0).normal(size=(60, 7, 2))
    slices = basis.forward(tensor)
    given = backend.array(tensor)
    np.testing.assert_allclose(backend.numpy(basis.forward(given)), slices, atol=1e-13)
    back = basis.inverse(basis.forward(given))
    np.testing.assert_allclose(backend.numpy(back), basis.inverse(slices), atol=1e-13)
    room = given * 0
    assert basis.inverse(basis.forward(given), out=room) is room
    np.testing.assert_allclose(backend.numpy(room), backend.numpy(back), atol=1e-14)
    single = basis.inverse(basis.forward(backend.array(tensor, "float32")))
    assert str(single.dtype).endswith("float32")
    np.testing.assert_allclose(backend.numpy(single), basis.inverse(slices), atol=1e-5)


def test_full_gft_diagonalises_the_laplacian():
    views, _ = blobs()
    basis = tm.GFT("sum").fit(as_views(views, canonical=False))
    u, values = basis.eigenvectors_, basis.eigenvalues_
    laplacian = np.eye(60) - normalised_adjacency(basis.graph_).toarray()
    np.testing.assert_allclose(laplacian @ u, u * values, atol=1e-12)
    np.testing.assert_allclose(u.T @ u, np.eye(60), atol=1e-12)
    assert np.all(np.diff(values) >= -1e-12)
    tensor = np.random.default_rng(0).normal(size=(60, 3, 2))
    np.testing.assert_allclose(basis.inverse(basis.forward(tensor)), tensor, atol=1e-12)
    assert np.linalg.norm(basis.forward(tensor)) == pytest.approx(np.linalg.norm(tensor))


@pytest.mark.parametrize("k", [1, 2, 5, 25, 49])
def test_low_frequencies_are_those_of_the_full_transform(k):
    views, _ = blobs()
    made = as_views(views)
    full, part = tm.GFT("sum").fit(made), tm.GFT("sum", n_components=k).fit(made)
    kept = len(part.eigenvalues_)
    assert kept >= k
    np.testing.assert_allclose(part.eigenvalues_, full.eigenvalues_[:kept], atol=1e-11)
    np.testing.assert_allclose(part.eigenvectors_, full.eigenvectors_[:, :kept], atol=1e-8)


def disconnected_copies():
    """Two equal paths, and a triangle apart from them."""
    path = np.diag(np.ones(4), 1)
    path += path.T
    return block_diag(path, path, np.ones((3, 3)) - np.eye(3))


GRAPHS_WITH_REPEATED_EIGENVALUES = {
    "ideal": tm.ideal_graph(np.repeat([0, 1, 2, 3], [5, 3, 6, 4])).toarray(),
    "cliques": block_diag(*[np.ones((5, 5)) - np.eye(5)] * 3),
    "copies": disconnected_copies(),
    "isolated": block_diag(np.ones((6, 6)), np.zeros((5, 5))),
    "complete": np.ones((12, 12)) - np.eye(12),
    "ring": np.roll(np.eye(10), 1, axis=0) + np.roll(np.eye(10), -1, axis=0),
    "empty": np.zeros((8, 8)),
}


@pytest.mark.parametrize("name", GRAPHS_WITH_REPEATED_EIGENVALUES)
def test_repeated_eigenvalues_are_settled_by_the_data(name):
    """Theorem 4.2, part 1: U' = P U Q with Q block-orthogonal; by our rule Q is the identity."""
    graph = GRAPHS_WITH_REPEATED_EIGENVALUES[name]
    n = len(graph)
    rng = np.random.default_rng(0)
    views = [rng.normal(size=(n, d)) for d in (4, 3)]
    basis = tm.GFT().fit(as_views(views, canonical=False), sample_graph=graph)
    values = basis.eigenvalues_
    groups = eigenvalue_groups(values)
    assert max(group.stop - group.start for group in groups) > 1
    laplacian = np.eye(n) - normalised_adjacency(sp.csr_array(graph)).toarray()
    np.testing.assert_allclose(laplacian @ basis.eigenvectors_, basis.eigenvectors_ * values, atol=1e-12)
    np.testing.assert_allclose(basis.eigenvectors_.T @ basis.eigenvectors_, np.eye(n), atol=1e-12)
    tensor = rng.normal(size=(n, 3, 2))
    for _ in range(10):
        order = rng.permutation(n)
        permuted = as_views([view[order] for view in views], canonical=False)
        other = tm.GFT().fit(permuted, sample_graph=graph[np.ix_(order, order)])
        np.testing.assert_allclose(other.eigenvalues_, values, atol=1e-12)
        q = basis.eigenvectors_[order].T @ other.eigenvectors_
        blocks = np.zeros((n, n), dtype=bool)
        for group in groups:
            blocks[group, group] = True
        assert np.abs(q[~blocks]).max(initial=0) < 1e-9
        np.testing.assert_allclose(q, np.eye(n), atol=1e-9)
        # With the canonical order the coefficients are equal to the last bit.
        first = tm.GFT().fit(views, sample_graph=graph).forward(tensor)
        second = tm.GFT().fit([view[order] for view in views], sample_graph=sp.csr_array(graph[np.ix_(order, order)]))
        np.testing.assert_array_equal(second.forward(tensor[order]), first)


def test_an_eigensolver_alone_would_not_do():
    """The premise of the rule: LAPACK's vectors of a repeated eigenvalue depend on the order."""
    graph = GRAPHS_WITH_REPEATED_EIGENVALUES["cliques"]
    laplacian = np.eye(15) - normalised_adjacency(sp.csr_array(graph)).toarray()
    order = np.random.default_rng(0).permutation(15)
    u = np.linalg.eigh(laplacian)[1][order]
    v = np.linalg.eigh(laplacian[np.ix_(order, order)])[1]
    assert np.abs(np.abs(u.T @ v) - np.eye(15)).max() > 0.1


def test_simple_spectra_are_equivariant():
    """Theorem 4.2, part 2: U' = P U up to signs, and our rule settles the signs too."""
    rng = np.random.default_rng(0)
    weights = rng.uniform(size=(30, 30))
    graph = weights + weights.T
    views = [rng.normal(size=(30, 4))]
    basis = tm.GFT().fit(as_views(views, canonical=False), sample_graph=graph)
    assert all(group.stop - group.start == 1 for group in eigenvalue_groups(basis.eigenvalues_))
    for _ in range(10):
        order = rng.permutation(30)
        permuted = as_views([views[0][order]], canonical=False)
        other = tm.GFT().fit(permuted, sample_graph=graph[np.ix_(order, order)])
        np.testing.assert_allclose(other.eigenvectors_, basis.eigenvectors_[order], atol=1e-9)


def test_eigenvalue_zero_belongs_to_the_components():
    graph = disconnected_copies()
    rng = np.random.default_rng(0)
    basis = tm.GFT().fit(as_views([rng.normal(size=(13, 3))], canonical=False), sample_graph=graph)
    assert np.sum(basis.eigenvalues_ == 0) == 3
    degrees = graph.sum(axis=1)
    for column in basis.eigenvectors_[:, :3].T:
        members = column > 0
        expected = np.where(members, np.sqrt(degrees), 0)
        np.testing.assert_allclose(column, expected / np.linalg.norm(expected), atol=1e-14)
        assert members.sum() in (3, 5)


def test_lanczos_finds_repeated_frequencies_and_does_not_cut_them():
    clique = np.ones((6, 6)) - np.eye(6)
    chain = block_diag(*[clique] * 10)
    for i in range(9):
        chain[6 * i, 6 * (i + 1)] = chain[6 * (i + 1), 6 * i] = 0.5
    graph = sp.csr_array(chain)
    made = as_views([np.random.default_rng(0).normal(size=(60, 3))])
    full = tm.GFT().fit(made, sample_graph=graph)
    for k in (3, 9, 12):
        part = tm.GFT(n_components=k).fit(made, sample_graph=graph)
        kept = len(part.eigenvalues_)
        assert kept >= k
        np.testing.assert_allclose(part.eigenvalues_, full.eigenvalues_[:kept], atol=1e-10)
        assert full.eigenvalues_[kept] - full.eigenvalues_[kept - 1] > 1e-6


@pytest.mark.parametrize("n_neighbors", [3, 10])
def test_agft_is_the_explicit_basis(n_neighbors):
    views, _ = blobs(n=200)
    made = as_views(views, canonical=False)
    basis = tm.AGFT(n_anchors=16, n_neighbors=n_neighbors).fit(made)
    formed = basis.inverse(np.eye(len(basis.slice_weights_))[:, :, None])[:, :, 0]
    np.testing.assert_allclose(formed.T @ formed, np.eye(formed.shape[1]), atol=1e-10)
    u, s = textbook.anchor_basis(basis.anchor_graph_.toarray())
    np.testing.assert_allclose(basis.singular_values_, s, atol=1e-10)
    # The same subspace, and column by column the same up to sign where singular values are simple.
    np.testing.assert_allclose(formed @ (formed.T @ u), u, atol=1e-10)
    np.testing.assert_allclose(np.abs(np.sum(u * formed, axis=0)), 1, atol=1e-9)
    tensor = np.random.default_rng(0).normal(size=(200, 4, 3))
    np.testing.assert_allclose(basis.forward(tensor), np.einsum("nk,ndm->kdm", formed, tensor), atol=1e-10)
    projected = np.einsum("nk,kdm->ndm", formed, basis.forward(tensor))
    np.testing.assert_allclose(basis.inverse(basis.forward(tensor)), projected, atol=1e-10)


def test_agft_graph_is_the_textbook():
    views, _ = blobs(n=100)
    basis = tm.AGFT(n_anchors=8, n_neighbors=3).fit(views)
    units = np.column_stack([textbook.unit_rows(view) for view in views])
    anchors = np.column_stack(basis.anchors_)
    together = sorted(map(tuple, np.round(textbook.bkhk(units, 3), 9).tolist()))
    assert sorted(map(tuple, np.round(anchors, 9).tolist())) == together
    np.testing.assert_allclose(basis.anchor_graph_.toarray(), textbook.anchor_graph(units, anchors, 3), atol=1e-9)


def test_number_of_anchors():
    views, _ = blobs(n=210)
    assert tm.AGFT().fit(views).n_anchors_ == 64
    assert tm.AGFT().fit(views, n_clusters=60).n_anchors_ == 128
    assert tm.AGFT("paper").fit(views, n_clusters=3).n_anchors_ == 8
    assert tm.AGFT("paper").fit(views, n_clusters=20).n_anchors_ == 128
    large, _ = blobs(n=2000)
    assert tm.AGFT().fit(large).n_anchors_ == 256
    assert tm.AGFT(n_anchors=4, n_neighbors=50).fit(views).anchor_graph_.shape == (210, 4)


def test_discarded_part_comes_back_as_zero():
    views, _ = blobs(n=100)
    basis = tm.AGFT(n_anchors=8).fit(views)
    tensor = np.random.default_rng(0).normal(size=(100, 3, 2))
    inside = basis.inverse(basis.forward(tensor))
    np.testing.assert_allclose(basis.forward(tensor - inside), 0, atol=1e-12)
    shrunk = tm.shrinkage.low_rank_shrink(tensor, basis, "nuclear", 0.3)
    np.testing.assert_allclose(basis.inverse(basis.forward(shrunk)), shrunk, atol=1e-12)


# Real data, with the canonical order switched off: the mathematics is equivariant by itself.


def load(shared, name):
    return tm.datasets.load_views(shared / "data" / f"{name}.mat")


def noisy(view, rng):
    dense = view.toarray() if sp.issparse(view) else view
    return dense + 1e-10 * rng.standard_normal(dense.shape)


def tensor_of(views):
    """A tensor that is a function of the samples, so that it is permuted and perturbed as they are."""
    return views.probes(12).reshape(views.n_samples, 4, 3)


def singular_values(slices):
    return np.linalg.svd(slices, compute_uv=False)


def check_equivariance(views, n_clusters, make, n_permutations, *, tolerance=1e-9, noise_tolerance=1e-6):
    plain = as_views(views, canonical=False)
    basis = make().fit(plain, n_clusters=n_clusters)
    slices = basis.forward(tensor_of(plain))
    canonical = make().fit(views, n_clusters=n_clusters).forward(tensor_of(plain))
    size = np.linalg.norm(slices)
    for seed in range(n_permutations):
        rng = np.random.default_rng(seed)
        order = rng.permutation(plain.n_samples)
        permuted = [view[order] for view in views]
        moved = as_views(permuted, canonical=False)
        other = make().fit(moved, n_clusters=n_clusters)
        if isinstance(basis, tm.GFT):
            before = basis.graph_[order][:, order]
            if basis.graph == "gmc":
                np.testing.assert_allclose(other.graph_.toarray(), before.toarray(), rtol=0, atol=tolerance)
            else:
                assert abs(other.graph_ - before).nnz == 0
        else:
            before = basis.anchor_graph_[order]
            np.testing.assert_allclose(other.anchor_graph_.toarray(), before.toarray(), rtol=0, atol=tolerance)
            for a, b in zip(basis.anchors_, other.anchors_, strict=True):
                np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)
        assert np.abs(other.forward(tensor_of(moved)) - slices).max() <= tolerance * size
        fuzzy = as_views([noisy(view, rng) for view in permuted], canonical=False)
        perturbed = make().fit(fuzzy, n_clusters=n_clusters).forward(tensor_of(fuzzy))
        expected = singular_values(slices)
        margin = noise_tolerance * expected.max()
        np.testing.assert_allclose(singular_values(perturbed), expected, rtol=0, atol=margin)
        ordered = make().fit(permuted, n_clusters=n_clusters).forward(tensor_of(plain)[order])
        np.testing.assert_array_equal(ordered, canonical)


SMALL = ["MSRCv1", "NGs", "BBCSport"]


@pytest.mark.parametrize("data", SMALL)
@pytest.mark.parametrize("name", ["gft-sim", "gft-sum", "agft"])
def test_equivariance_on_real_data(shared, data, name):
    views, y = load(shared, data)
    check_equivariance(views, len(np.unique(y)), BASES[name], 2)


@pytest.mark.slow
@pytest.mark.parametrize("data", [*SMALL, "Handwritten"])
@pytest.mark.parametrize("name", ["gft-sim", "gft-sum", "gft-sim, 20 components", "agft"])
def test_equivariance_on_real_data_in_full(shared, data, name):
    views, y = load(shared, data)
    check_equivariance(views, len(np.unique(y)), BASES[name], 20)


@pytest.mark.parametrize("data", SMALL)
def test_equivariance_of_gmc_on_real_data(shared, data):
    """GMC's own rounds amplify a perturbation by up to a hundred each, so that noise comes out much larger."""
    views, y = load(shared, data)
    check_equivariance(views, len(np.unique(y)), BASES["gft-gmc"], 1, noise_tolerance=1e-3)


def test_wrong_bases():
    views, y = blobs()
    with pytest.raises(ValueError, match="unknown graph 'knn'"):
        tm.GFT("knn").fit(views)
    with pytest.raises(TypeError, match="sample_graph="):
        tm.GFT(np.eye(60)).fit(views)
    with pytest.raises(TypeError, match="is not a graph"):
        tm.GFT(tm.SimGraph).fit(views)
    for wrong in (0, 61, 2.5, True):
        with pytest.raises(ValueError, match="n_components"):
            tm.GFT(n_components=wrong).fit(views)
    for wrong in (1, 0, "many", 2.0, True):
        with pytest.raises(ValueError, match="n_anchors"):
            tm.AGFT(n_anchors=wrong).fit(views)
    with pytest.raises(ValueError, match="use 64 or 128"):
        tm.AGFT(n_anchors=100).fit(views)
    with pytest.raises(ValueError, match="more than the 60 samples: use at most 32"):
        tm.AGFT(n_anchors=64).fit(views)
    with pytest.raises(ValueError, match="needs the number of clusters"):
        tm.AGFT("paper").fit(views)
    with pytest.raises(ValueError, match="n_neighbors"):
        tm.AGFT(n_neighbors=0).fit(views)
    with pytest.raises(ValueError, match="cannot use sample_graph"):
        tm.AGFT().fit(views, sample_graph=np.eye(60))
    with pytest.raises(ValueError, match=r"shape \(60, 60\)"):
        tm.GFT().fit([view[:20] for view in views], sample_graph=tm.ideal_graph(y))
    with pytest.raises(ValueError, match="at least 2 samples"):
        tm.AGFT().fit([np.ones((1, 2))])
    with pytest.raises(ValueError, match="fit it to the views first"):
        tm.shrinkage.low_rank_shrink(np.ones((60, 2, 2)), "agft", "nuclear", 1.0)


def test_what_does_not_fit_in_memory_is_refused_with_the_remedy():
    views = [np.random.default_rng(0).normal(size=(300_000, 1))]
    with pytest.raises(MemoryError, match="agft"):
        tm.GFT("sim").fit(views)


@pytest.mark.parametrize("name", BASES)
def test_awkward_data(name):
    """Constant features, zero rows, exact duplicates, a missing view: finite and equivariant all the same."""
    views, _ = blobs(n=60)
    views[0][:, 2] = 7.0
    views[1][[3, 4, 5]] = 0
    views = [np.concatenate([view, view[:15]]) for view in views]
    if name == "gft-sum":
        views[0][20] = np.nan
    basis = BASES[name]().fit(views, n_clusters=3)
    tensor = np.random.default_rng(0).normal(size=(75, 3, 2))
    slices = basis.forward(tensor)
    assert np.isfinite(slices).all()
    order = np.random.default_rng(1).permutation(75)
    other = BASES[name]().fit([view[order] for view in views], n_clusters=3)
    # Exact duplicates may change places with each other, so their rows of the tensor must agree.
    tensor[60:] = tensor[:15]
    np.testing.assert_array_equal(other.forward(tensor[order]), basis.forward(tensor))


@pytest.mark.parametrize("name", ["gft-sim", "gft-gmc", "agft"])
def test_missing_views_are_refused_where_they_would_be_a_cluster(name):
    views, _ = blobs()
    views[0][20] = np.nan
    with pytest.raises(ValueError, match=r"sample 20 is missing in view 0.*SumGraph"):
        BASES[name]().fit(views, n_clusters=3)


def test_a_graph_of_ones_own_is_permuted_along():
    rng = np.random.default_rng(0)
    views, _ = blobs(n=30)
    weights = rng.random((30, 30))
    graph = weights + weights.T
    tensor = rng.normal(size=(30, 3, 2))
    first = tm.GFT().fit(views, sample_graph=graph)
    np.testing.assert_allclose(first.graph_.toarray(), graph)
    order = rng.permutation(30)
    permuted = graph[np.ix_(order, order)]
    for form in (permuted, sp.csr_array(permuted), sp.coo_array(permuted)):
        second = tm.GFT().fit([view[order] for view in views], sample_graph=form)
        np.testing.assert_array_equal(second.forward(tensor[order]), first.forward(tensor))
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    names = np.array([f"s{i}" for i in range(30)])
    frames = [pd.DataFrame(view, index=names) for view in views]
    frame = pd.DataFrame(permuted, index=names[order], columns=names[order])
    aligned = tm.GFT().fit(frames, sample_graph=frame)
    np.testing.assert_array_equal(aligned.forward(tensor), first.forward(tensor))
    with pytest.raises(ValueError, match="does not fit that of the views"):
        tm.GFT().fit(frames, sample_graph=pd.DataFrame(graph))


def test_attributes_are_in_the_order_of_the_samples():
    views, _ = blobs()
    basis = tm.GFT("sim").fit(views)
    assert abs(basis.graph_ - tm.SimGraph().fit(views).graph_).nnz == 0
    tensor = np.random.default_rng(0).normal(size=(60, 3, 2))
    np.testing.assert_allclose(basis.forward(tensor), np.einsum("nk,ndm->kdm", basis.eigenvectors_, tensor), atol=1e-12)
    np.testing.assert_array_equal(basis.forward(tensor.tolist()), basis.forward(tensor))


@pytest.mark.parametrize("k", [5, 32])
def test_a_truncated_transform_cuts_through_no_eigenspace(k, monkeypatch):
    """Three cliques of twenty: beyond the components there is one frequency, 57-fold."""
    graph = block_diag(*[np.ones((20, 20)) - np.eye(20)] * 3)
    rng = np.random.default_rng(0)
    views = [rng.normal(size=(60, 4))]
    for dense_up_to in (500, 10):
        monkeypatch.setattr("tensormvc.bases._graph._DENSE_UP_TO", dense_up_to)
        basis = tm.GFT(n_components=k).fit(as_views(views, canonical=False), sample_graph=graph)
        assert len(basis.eigenvalues_) == 60
    monkeypatch.setattr("tensormvc.bases._graph._DENSE_UP_TO", 10)
    data, _ = blobs(n=300)
    for wanted in (3, 20, 295):
        part = tm.GFT("sim", n_components=wanted).fit(data)
        assert wanted <= len(part.eigenvalues_) <= wanted + 3
        again = tm.GFT("sim", n_components=wanted).fit(data)
        np.testing.assert_array_equal(again.eigenvectors_, part.eigenvectors_)


def test_tied_data_do_not_stop_lanczos(monkeypatch):
    monkeypatch.setattr("tensormvc.bases._graph._DENSE_UP_TO", 10)
    for seed in range(3):
        data = np.random.default_rng(seed).integers(0, 2, (300, 4)).astype(float) + 1
        basis = tm.GFT(tm.SimGraph(5), n_components=20).fit([data])
        assert np.isfinite(basis.eigenvectors_).all()


def test_torch_views(backend):
    views, _ = blobs()
    for name in ("gft-sum", "agft"):
        basis = BASES[name]().fit([backend.array(view) for view in views])
        tensor = np.random.default_rng(0).normal(size=(60, 3, 2))
        np.testing.assert_allclose(basis.forward(tensor), BASES[name]().fit(views).forward(tensor), atol=1e-9)


def test_a_strangers_graph():
    class Ring:
        def fit(self, views, *, n_clusters=None):
            n = len(views[0])
            self.graph_ = np.roll(np.eye(n), 1, axis=0) + np.roll(np.eye(n), -1, axis=0)
            return self

    views, _ = blobs()
    assert tm.GFT(Ring()).fit(views).eigenvalues_[0] == 0
