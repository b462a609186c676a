"""The same fits with PyTorch, on the CPU and on a GPU where there is one, as with NumPy."""

import pickle
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import tensormvc as tm
from tensormvc.backend import inner
from tensormvc.graphs import anchor_graph, bkhk, knn_graph
from tensormvc.rows import SampleRandom, kmeans, uniform, waves
from tensormvc.views import as_views

METHODS = {"ASRETR": tm.ASRETR, "ESTMC": tm.ESTMC, "TLRLF4MVC": tm.TLRLF4MVC}


def data(n=151, dtype=np.float64):
    # Not a power of 2: the halves of the anchors' tree are of different sizes.
    return tm.datasets.make_multiview(n, n_clusters=4, n_features=(5, 12, 200), noise=0.8, dtype=dtype, random_state=3)[
        0
    ]


@pytest.mark.parametrize("basis", ["gft-sim", "gft-sum", "gft-gmc", "agft", "fft", "fft-view", "dct", "haar"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_is_that_of_numpy(backend, method, basis):
    views = data()
    make = METHODS[method](4, basis=basis, random_state=0, max_iter=60, keep="all")
    host = make.fit(views)
    expected = host.labels_, host.embedding_, host.representation_, host.history_
    ours = make.fit([backend.array(view) for view in views])
    np.testing.assert_array_equal(ours.labels_, expected[0])
    assert isinstance(ours.embedding_, np.ndarray)
    # Signs of singular vectors are open.
    signs = np.sign(np.sum(ours.embedding_ * expected[1], axis=0))
    np.testing.assert_allclose(ours.embedding_ * signs, expected[1], atol=1e-7)
    np.testing.assert_allclose(ours.representation_, expected[2], atol=1e-8)
    assert len(ours.history_) == len(expected[3])
    for a, b in zip(ours.history_, expected[3], strict=True):
        np.testing.assert_allclose(list(a.residuals.values()), list(b.residuals.values()), atol=1e-9)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("basis", ["gft-sum", "agft"])
def test_single_precision(backend, basis):
    views = data(dtype=np.float32)
    make = tm.ESTMC(4, basis=basis, random_state=0)
    labels = make.fit_predict(views)
    ours = make.fit_predict([backend.array(view) for view in views])
    assert tm.metrics.ari(labels, ours) >= 0.99


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_tlrlf4mvc_in_coordinates(backend, dtype):
    """With many samples and few kernel anchors the rounds do not run on the samples."""
    views, _ = tm.datasets.make_multiview(1500, n_clusters=4, n_features=(6, 5), noise=0.8, dtype=dtype, random_state=3)
    make = tm.TLRLF4MVC(4, tm.AGFT(16, 5), n_kernel_anchors=16, max_iter=15, tol=0, random_state=0, keep="all")
    host = make.fit(views)
    expected = host.labels_, host.embedding_, host.representation_
    ours = make.fit([backend.array(view) for view in views])
    np.testing.assert_array_equal(ours.labels_, expected[0])
    # Rounding of the features, if they are of single precision.
    atol = 1e-9 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(ours.embedding_, expected[1], atol=atol)
    np.testing.assert_allclose(ours.representation_, expected[2], atol=atol)


@pytest.mark.parametrize("basis", ["gft-sim", "gft-sum", "agft"])
def test_the_order_means_nothing_on_a_device(backend, basis):
    views = data()
    order = np.random.default_rng(0).permutation(len(views[0]))
    make = tm.ESTMC(4, basis=basis, random_state=0)
    labels = make.fit_predict([backend.array(view) for view in views])
    moved = make.fit_predict([backend.array(view[order]) for view in views[::-1]])
    np.testing.assert_array_equal(moved, labels[order])


def test_device_moves_views_of_every_kind(backend):
    views = data()
    expected = tm.ESTMC(4, basis="agft", random_state=0).fit_predict(views)
    mixed = [sp.csr_array(views[0]), views[1], backend.array(views[2])]
    # NumPy has no devices, and a sparse view stays sparse there.
    host = backend.name == "numpy"
    for given in [views] if host else [views, mixed]:
        model = tm.ESTMC(4, basis="agft", random_state=0, device=None if host else backend.device).fit(given)
        np.testing.assert_array_equal(model.labels_, expected)
    # Without a device, all go where the first tensor is.
    where = {"host" if isinstance(a, np.ndarray) or sp.issparse(a) else a.device.type for a in as_views(mixed).arrays}
    assert where == {"host" if host else backend.device}


def test_a_fitted_basis_of_a_device_is_pickled_without_it(backend):
    views = data()
    for basis in ("gft-sum", "agft"):
        model = tm.ESTMC(4, basis=basis, random_state=0).fit([backend.array(view) for view in views])
        restored = pickle.loads(pickle.dumps(model)).basis_
        tensor = np.random.default_rng(0).normal(size=(len(views[0]), 3, 2))
        np.testing.assert_allclose(restored.forward(tensor), model.basis_.forward(tensor), atol=1e-12)


def test_clear_words_where_the_device_is_missing(monkeypatch):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra 'torch')")
    views = data(40)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(RuntimeError, match="finds 0 CUDA devices here; leave device=None"):
        tm.ESTMC(4, device="cuda").fit(views)
    with pytest.raises(ValueError, match="'gpu' is not a PyTorch device, such as 'cuda'"):
        tm.ESTMC(4, device="gpu").fit(views)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"needs PyTorch: pip install 'tensormvc\[torch\]'"):
        tm.ASRETR(4, device="cuda").fit(views)


@pytest.mark.parametrize("n", [16, 37, 151])
def test_graphs_and_anchors(backend, n):
    made = as_views(data(n))
    parts = [backend.array(array) for array in made.arrays]
    ties = made.probes(1)[:, 0]
    assert abs(knn_graph(parts, 5) - knn_graph(list(made.arrays), 5)).sum() == 0
    for depth in (1, 2, 4):
        expected = bkhk(list(made.arrays), depth, ties)
        anchors = bkhk(parts, depth, backend.array(ties))
        for a, b in zip(anchors, expected, strict=True):
            np.testing.assert_allclose(backend.numpy(a), b, atol=1e-12)
        k = min(5, 2**depth - 1)
        graph = anchor_graph(parts, anchors, k)
        np.testing.assert_allclose(graph.toarray(), anchor_graph(list(made.arrays), expected, k).toarray(), atol=1e-9)


def test_tied_samples(backend):
    """Duplicates, of which no half has room for all, and samples in the middle of all anchors."""
    rng = np.random.default_rng(0)
    points = np.repeat(rng.normal(size=(5, 3)), 9, axis=0)
    ties = np.repeat(rng.normal(size=5), 9)
    expected = bkhk([points], 3, ties)
    anchors = bkhk([backend.array(points)], 3, backend.array(ties))
    np.testing.assert_allclose(backend.numpy(anchors[0]), expected[0], atol=1e-12)
    corners = np.array([[1.0, 1], [1, -1], [-1, 1], [-1, -1]])
    middle = np.array([[0.0, 0.0], [0.5, 0.2], [0.0, 0.0]])
    graph = anchor_graph([backend.array(middle)], [backend.array(corners)], 2).toarray()
    np.testing.assert_allclose(graph[[0, 2]], 0.25)
    assert (graph[1] > 0).sum() == 2


def test_random_numbers_and_kmeans(backend):
    views = data()
    host, ours = as_views(views), as_views([backend.array(view) for view in views])
    np.testing.assert_allclose(backend.numpy(ours.probes(3)), host.probes(3), atol=1e-12)
    a, b = SampleRandom(ours, 5), SampleRandom(host, 5)
    for kind in (uniform, waves):
        here, there = (kind(random.rows["phases"], random.draw(4)) for random in (a, b))
        np.testing.assert_allclose(backend.numpy(here), there, atol=1e-10)
    for k in (1, 4, 30):
        points = np.column_stack(host.arrays[:2])
        labels, inertia = kmeans(backend.array(points), k, n_init=3, random=a)
        expected, best = kmeans(points, k, n_init=3, random=b)
        np.testing.assert_array_equal(labels, expected)
        assert inertia == pytest.approx(best, rel=1e-12)
        assert len(np.unique(labels)) == k


def test_anchor_transform_unpacks_in_blocks(backend, monkeypatch):
    monkeypatch.setattr("tensormvc.backend.linalg.UNPACKED_BYTES", 8 * 16 * 10)
    views = data()
    tensor = np.random.default_rng(0).normal(size=(len(views[0]), 3, 2))
    basis = tm.AGFT(n_anchors=16).fit(views)
    slices = basis.forward(tensor)
    given = backend.array(tensor)
    np.testing.assert_allclose(backend.numpy(basis.forward(given)), slices, atol=1e-12)
    np.testing.assert_allclose(backend.numpy(basis.inverse(backend.array(slices))), basis.inverse(slices), atol=1e-12)
    fitted_there = tm.AGFT(n_anchors=16).fit([backend.array(view) for view in views])
    np.testing.assert_allclose(fitted_there.singular_values_, basis.singular_values_, atol=1e-12)


def test_products_of_tall_matrices(backend, monkeypatch):
    monkeypatch.setattr("tensormvc.backend.linalg.DEVICE_CHUNKS", 4)
    rng = np.random.default_rng(0)
    for n in (3, 16, 30):
        left, right = rng.normal(size=(n, 2, 3)), rng.normal(size=(n, 5))
        product = inner(backend.array(left)[:, 1], backend.array(right))
        np.testing.assert_allclose(backend.numpy(product), left[:, 1].T @ right, atol=1e-13)
