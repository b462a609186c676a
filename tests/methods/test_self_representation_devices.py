"""TSVDMVC and TLSpNM with PyTorch, on the CPU and on a GPU where there is one, as with NumPy."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp

import tensormvc as tm
from tensormvc.backend.linalg import thin_qr
from tensormvc.bases import make_basis
from tensormvc.methods._admm import Schedule, run_admm
from tensormvc.methods._coordinates import SampleCoordinates
from tensormvc.methods._self_representation import SelfRepresentation, spectral_embedding
from tensormvc.penalties import Log, Nuclear
from tensormvc.views import as_views

METHODS = {"TSVDMVC": tm.TSVDMVC, "TLSpNM": tm.TLSpNM}
BASES = ["gft-sum", "agft", "fft", "fft-view"]


def data(n=81, dtype=np.float64):
    # One view has more features than there are samples.
    return tm.datasets.make_multiview(n, n_clusters=4, n_features=(5, 12, 150), noise=0.8, dtype=dtype, random_state=3)[
        0
    ]


def run(parts, name, method, rounds=12):
    """Return a solver after some rounds, and its residuals."""
    basis = make_basis(name) if isinstance(name, str) else name
    # In the order as given: NumPy's iterates and a device's are of the same samples.
    basis.fit(as_views(parts, canonical=False, keep_view_order=True), random_state=0)
    stacked = method == "TSVDMVC"
    solver = SelfRepresentation(parts, basis, Nuclear() if stacked else Log(), 0.5 if stacked else 0.2, stacked=stacked)
    start, caps = {"mu": 1e-2}, {"mu": 1e9}
    if stacked:
        start["rho"], caps["rho"] = 2e-2, 1e9
    history = run_admm(solver.step, Schedule(start, caps), max_iter=rounds, tol=0).history
    return solver, np.array([list(record.residuals.values()) for record in history])


def relative(a, b):
    return np.linalg.norm(a - b) / np.linalg.norm(b)


@pytest.mark.parametrize("name", [*BASES, "gft-sim", "dct", "haar", "random"])
@pytest.mark.parametrize("method", METHODS)
def test_iterates_are_those_of_numpy(backend, method, name):
    parts = list(as_views(data(), canonical=False, keep_view_order=True).arrays)
    host, expected = run(parts, name, method)
    ours, residuals = run([backend.array(part) for part in parts], name, method)
    assert isinstance(ours.coordinates, SampleCoordinates) == (name == "fft-view")
    np.testing.assert_allclose(residuals, expected, rtol=1e-9, atol=1e-12)
    assert relative(backend.numpy(ours.representation), host.representation) < 1e-9
    assert np.linalg.norm(backend.numpy(ours.low_rank) - host.low_rank) <= 1e-9 * np.linalg.norm(host.representation)
    assert relative(backend.numpy(ours.affinity()), host.affinity()) < 1e-9


class Halved(tm.DCT):
    """A transform whose inverse is not its transpose."""

    def _inverse(self, slices, out):
        return super()._inverse(slices, out) / 2


@pytest.mark.parametrize("method", METHODS)
def test_transforms_that_are_not_orthogonal(backend, method):
    parts = list(as_views(data(), canonical=False, keep_view_order=True).arrays)
    host, _ = run(parts, Halved(), method)
    ours, _ = run([backend.array(part) for part in parts], Halved(), method)
    assert isinstance(ours.coordinates, SampleCoordinates)
    assert relative(backend.numpy(ours.representation), host.representation) < 1e-9


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("method", METHODS)
def test_a_device_with_little_room_takes_blocks(backend, method, name, monkeypatch):
    parts = list(as_views(data(), canonical=False, keep_view_order=True).arrays)
    host, _ = run(parts, name, method)
    monkeypatch.setattr("tensormvc.methods._self_representation._DEVICE_ROOM_BYTES", 50_000)
    monkeypatch.setattr("tensormvc.methods._coordinates._DEVICE_BLOCK_BYTES", 20_000)
    ours, _ = run([backend.array(part) for part in parts], name, method)
    assert ours.width < 60
    assert relative(backend.numpy(ours.representation), host.representation) < 1e-9


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("method", METHODS)
def test_a_fit_is_that_of_numpy(backend, method, basis):
    views = data()
    make = METHODS[method](4, basis=basis, random_state=0, keep="all")
    host = make.fit(views)
    expected = host.labels_, host.embedding_, host.representation_, host.affinity_, host.n_iter_
    ours = make.fit([backend.array(view) for view in views])
    np.testing.assert_array_equal(ours.labels_, expected[0])
    for array in (ours.embedding_, ours.representation_, ours.affinity_):
        assert isinstance(array, np.ndarray)
    # Signs of eigenvectors are open.
    signs = np.sign(np.sum(ours.embedding_ * expected[1], axis=0))
    np.testing.assert_allclose(ours.embedding_ * signs, expected[1], atol=1e-6)
    assert relative(ours.representation_, expected[2]) < 1e-8
    assert relative(ours.affinity_, expected[3]) < 1e-8
    assert ours.n_iter_ == expected[4]


@pytest.mark.parametrize("method", METHODS)
def test_device_moves_views_of_every_kind(backend, method):
    views = data(60, dtype=np.float32)
    host = METHODS[method](4, basis="gft-sum", random_state=0, keep="all").fit(views)
    # NumPy has no devices, and a sparse view stays sparse there.
    where = None if backend.name == "numpy" else backend.device
    mixed = [sp.csr_array(views[0]), views[1], backend.array(views[2])]
    for given in [views] if where is None else [views, mixed, [backend.array(view) for view in views]]:
        model = METHODS[method](4, basis="gft-sum", random_state=0, keep="all", device=where).fit(given)
        np.testing.assert_array_equal(model.labels_, host.labels_)
        # Always in double precision; but the views themselves are rounded to single.
        assert model.representation_.dtype == np.float64
        assert relative(model.representation_, host.representation_) < 1e-4


@pytest.mark.parametrize("method", METHODS)
def test_the_order_means_nothing_on_a_device(backend, method):
    views = data()
    order = np.random.default_rng(0).permutation(len(views[0]))
    make = METHODS[method](4, basis="gft-sum", random_state=0)
    labels = make.fit_predict([backend.array(view) for view in views])
    moved = make.fit_predict([backend.array(view[order]) for view in views[::-1]])
    np.testing.assert_array_equal(moved, labels[order])


@pytest.mark.parametrize("method", METHODS)
def test_clear_words_where_the_device_is_missing(method, monkeypatch):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra 'torch')")
    views = data(40)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(RuntimeError, match="finds 0 CUDA devices here; leave device=None"):
        METHODS[method](4, device="cuda").fit(views)
    with pytest.raises(ValueError, match="'gpu' is not a PyTorch device, such as 'cuda'"):
        METHODS[method](4, device="gpu").fit(views)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"needs PyTorch: pip install 'tensormvc\[torch\]'"):
        METHODS[method](4, device="cuda").fit(views)


def test_spectral_embedding(backend):
    affinity = np.random.default_rng(0).uniform(size=(20, 20))
    affinity += affinity.T
    # A sample without links has no place in the embedding, and moves no other.
    affinity[3] = affinity[:, 3] = 0
    others = np.arange(20) != 3
    expected = spectral_embedding(affinity.copy(), 4)[others]
    ours = backend.numpy(spectral_embedding(backend.array(affinity), 4))[others]
    np.testing.assert_allclose(ours * np.sign(np.sum(ours * expected, axis=0)), expected, atol=1e-10)


@pytest.mark.parametrize("size", [1e-170, 1.0, 1e170])
@pytest.mark.parametrize("p", [3, 5, 30])
@pytest.mark.parametrize("kind", ["real", "complex"])
@pytest.mark.parametrize("backend", ["torch", "torch-cuda"], indirect=True)
def test_thin_qr(backend, kind, p, size):
    rng = np.random.default_rng(0)
    decades = 10.0 ** -np.arange(0, 15, 3)
    tall = rng.normal(size=(4, p, 5)) * decades * size
    if kind == "complex":
        tall = tall + 1j * rng.normal(size=tall.shape) * decades * size
    tall[1, :, 2:] = tall[1, :, :1] * rng.normal(size=3)
    tall[2] = 0
    columns, triangle = map(backend.numpy, thin_qr(backend.array(tall)))
    np.testing.assert_allclose(columns @ triangle, tall, atol=1e-14 * size)
    gram = columns.conj().transpose(0, 2, 1) @ columns
    # Columns are of length 1, or 0 where they depend on others.
    present = np.round(np.diagonal(gram, axis1=1, axis2=2).real)
    np.testing.assert_allclose(gram, present[:, :, None] * np.eye(5), atol=1e-13)
    assert (present[[0, 3]].sum(axis=1) == min(p, 5)).all()
    assert not present[2].any()


@pytest.mark.parametrize("method", METHODS)
def test_memory_is_that_of_the_device(backend, method, monkeypatch):
    """What does not fit is refused before anything is allocated, by the memory of where it would be."""
    monkeypatch.setattr("tensormvc.backend.checks.available_memory", lambda: 10**6)
    monkeypatch.setattr("tensormvc.backend.checks.available_device_memory", lambda like: 10**5)
    words = "0.0 GiB are available on the device" if backend.device == "cuda" else "0.0 GiB are available: "
    with pytest.raises(MemoryError, match=words):
        METHODS[method](4, basis="fft").fit([backend.array(view) for view in data(150)])
