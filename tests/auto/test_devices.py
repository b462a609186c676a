"""The front door on devices: the results of NumPy, whatever the views are made of."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

import tensormvc as tm
from tensormvc.auto import _effort
from tensormvc.auto._spectrum import _filtered, _null_vectors
from tensormvc.graphs import normalised_adjacency
from tensormvc.graphs._fuzzy import find_neighbours

from .data import blobs, fit, limit_landmarks, quiet_fit, with_gaps

RESULTS = ("labels_", "membership_", "outlier_score_", "embedding_", "sample_view_weights_", "links_")


@pytest.fixture
def device(backend):
    """A PyTorch device."""
    if backend.name == "numpy":
        pytest.skip("NumPy has no devices")
    return backend.device


def assert_like(ours, host):
    """All results are NumPy arrays; labels are the same, and numbers up to the accuracy of the frequencies."""
    for name in RESULTS:
        one, other = (getattr(model, name) for model in (ours, host))
        assert type(one) is type(other)
        if name == "labels_":
            np.testing.assert_array_equal(one, other)
        elif name == "links_":
            np.testing.assert_array_equal(one.indices, other.indices)
        else:
            np.testing.assert_allclose(one, other, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("n_landmarks", [100, 400])
@pytest.mark.parametrize("damaged", [False, True])
def test_results_are_those_of_the_host(backend, device, monkeypatch, n_landmarks, damaged):
    views, _y = blobs(500, n_clusters=4, widths=(5, 20, 9))
    views = with_gaps(views) if damaged else views
    limit_landmarks(monkeypatch, n_landmarks)
    host = quiet_fit(views, 4)
    for model in (quiet_fit(views, 4, device=device), quiet_fit([backend.array(view) for view in views], 4)):
        assert_like(model, host)
        np.testing.assert_array_equal(model.predict(views), model.labels_)
        np.testing.assert_array_equal(model.predict_proba([backend.array(view) for view in views]), model.membership_)
        np.testing.assert_array_equal(model.labels_at(6), host.labels_at(6))


def test_views_of_every_kind(backend, device, monkeypatch):
    views, _y = blobs(300, widths=(4, 40))
    views[1] = np.where(np.abs(views[1]) > 11, views[1], 0)
    assert (views[1] != 0).mean() < 0.1
    limit_landmarks(monkeypatch, 120)
    host = quiet_fit(views, 3)
    single = [backend.array(view, np.float32) for view in views]
    assert_like(quiet_fit([views[0], sp.csr_array(views[1])], 3, device=device), host)
    assert_like(quiet_fit([backend.array(views[0]), sp.csr_array(views[1])], 3), host)
    assert_like(quiet_fit(single, 3), quiet_fit([backend.numpy(view) for view in single], 3))


def test_the_order_means_nothing_on_a_device(backend, device, monkeypatch):
    views, _y = blobs(700, n_clusters=4)
    limit_landmarks(monkeypatch, 400)
    order = np.random.default_rng(0).permutation(700)
    model = fit([backend.array(view) for view in views], 4)
    moved = fit([backend.array(view[order]) for view in views[::-1]], 4)
    for name in ("labels_", "membership_", "outlier_score_"):
        np.testing.assert_array_equal(getattr(moved, name), getattr(model, name)[order])


@pytest.mark.parametrize("normalisation", ["auto", "z-score-whitened"])
def test_one_sample_alone_gets_what_it_gets_in_a_batch(device, normalisation):
    views, _y = blobs(200, widths=(4, 33))
    model = fit([view[:120] for view in views], 3, device=device, normalisation=normalisation)
    new = [view[120:] for view in views]
    for method in ("predict_proba", "transform", "outlier_score"):
        batch = getattr(model, method)(new)
        alone = [getattr(model, method)([view[[i]] for view in new]) for i in range(0, 80, 20)]
        # Products with principal components round differently for different rows of a block.
        np.testing.assert_allclose(np.concatenate(alone), batch[::20], rtol=0, atol=1e-12 * (normalisation != "auto"))


def test_a_model_of_a_device_is_loaded_without_it(backend, device):
    views, _y = blobs()
    model = fit([backend.array(view) for view in views], 3)
    state = pickle.dumps(model)
    assert b"torch" not in state
    loaded = pickle.loads(state)
    np.testing.assert_array_equal(loaded.predict(views), model.labels_)
    np.testing.assert_array_equal(loaded.labels_at(5), model.labels_at(5))


@pytest.mark.parametrize("n_components", [1, 2, 12])
def test_frequencies_are_those_of_the_full_spectrum(device, n_components):
    """Twelve groups along a line, linked in some components; eigenvectors up to rotations."""
    group = np.repeat(np.arange(12), 50)
    points = np.random.default_rng(0).normal(size=(600, 2)) + 3 * np.column_stack([group, group % 2])
    graph = find_neighbours([points], 8).fuzzy_graph()
    component = group * n_components // 12
    graph = sp.csr_array(graph.multiply(component[:, None] == component))
    graph.eliminate_zeros()
    assert connected_components(graph)[0] >= n_components
    expected, basis = np.linalg.eigh(np.eye(600) - normalised_adjacency(graph).toarray())
    values, vectors = _filtered(normalised_adjacency(graph), _null_vectors(graph, 12), 12, device)
    np.testing.assert_allclose(values, expected[:12], atol=1e-10)
    # Residuals of 1e-6 over the gap to the next eigenvalue.
    gap = expected[12] - expected[11]
    np.testing.assert_allclose(vectors @ vectors.T, basis[:, :12] @ basis[:, :12].T, atol=1e-6 / gap)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(12), atol=1e-12)


def test_a_device_allows_more_effort(monkeypatch):
    monkeypatch.setattr(_effort, "_unit_of_work", lambda: 0.01)
    levels = [_effort.choose_effort("auto", 10**7, [64] * 3, 10, 100, on_device).name for on_device in (False, True)]
    assert levels == ["low", "high"]


def test_dask_workers_have_no_device():
    da = pytest.importorskip("dask.array", reason="Dask is not installed (extra 'dask')")
    with pytest.raises(ValueError, match="device='cuda' cannot be used with Dask views"):
        tm.MultiViewClustering(3, device="cuda").fit([da.zeros((10, 3))])


def test_unknown_devices_are_named():
    pytest.importorskip("torch", reason="PyTorch is not installed (extra 'torch')")
    with pytest.raises(ValueError, match="'gpu' is not a PyTorch device, such as 'cuda'"):
        tm.MultiViewClustering(3, device="gpu").fit(blobs()[0])
