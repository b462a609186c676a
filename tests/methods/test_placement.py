"""One contract for every method that works on rows, one of a user's own among them: where the samples are, and in
which order, changes no label."""

import importlib.util
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import tensormvc as tm

from ..conftest import CLUSTER_LEFTOVERS, local_cluster

pytestmark = [pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"), CLUSTER_LEFTOVERS]

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_method.py"
N = 460


def example():
    """Return the module of the example."""
    if "custom_method" not in sys.modules:
        spec = importlib.util.spec_from_file_location("custom_method", EXAMPLE)
        module = sys.modules["custom_method"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules["custom_method"]


METHODS = {
    "ESTMC": lambda basis: tm.ESTMC(4, basis, random_state=0, max_iter=12),
    "ASRETR": lambda basis: tm.ASRETR(4, basis, gamma=0.1, random_state=0, max_iter=12),
    # With 16 kernel anchors the rounds run on the 460 samples, with 8 in the coordinates of a span.
    "TLRLF4MVC": lambda basis: tm.TLRLF4MVC(4, basis, n_kernel_anchors=16, random_state=0, max_iter=4),
    "TLRLF4MVC in a span": lambda basis: tm.TLRLF4MVC(4, basis, n_kernel_anchors=8, random_state=0, max_iter=4),
    "custom": lambda basis: example().LeastSquares(4, basis, random_state=0, max_iter=12),
}
ANCHORS = tm.AGFT(8)


@pytest.fixture(params=METHODS, scope="module")
def method(request):
    return METHODS[request.param]


@pytest.fixture(scope="module")
def views():
    # Clusters overlap, so that labels are not right by themselves.
    views, _ = tm.datasets.make_multiview(N, n_clusters=4, n_features=(9, 12), noise=1.5, random_state=0)
    return views


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed", reason="distributed is not installed (extra 'dask')")
    with local_cluster(n_workers=2, threads_per_worker=1) as cluster, distributed.Client(cluster) as client:
        # All that a cluster asks for: that its workers can import the method.
        client.upload_file(str(EXAMPLE))
        yield client


@pytest.fixture(scope="module")
def expected(method, views):
    return method(ANCHORS).fit(views)


def test_it_clusters(expected):
    assert expected.labels_.shape == (N,)
    assert np.unique(expected.labels_).size == 4
    assert np.isfinite(expected.history_[-1].objective)


def test_tensors(method, views, expected):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra 'torch')")
    fitted = method(ANCHORS).fit([torch.tensor(view) for view in views])
    assert isinstance(fitted.labels_, np.ndarray)
    np.testing.assert_array_equal(fitted.labels_, expected.labels_)
    np.testing.assert_allclose(fitted.history_[-1].objective, expected.history_[-1].objective, rtol=1e-6)


def test_files(method, views, expected, tmp_path, monkeypatch):
    monkeypatch.setattr("tensormvc.views._views.LAZY_BYTES", 0)
    monkeypatch.setattr("tensormvc.views._disk._DISK_BLOCK", 3000)
    mapped = []
    for v, view in enumerate(views):
        np.save(tmp_path / f"{v}.npy", view)
        mapped.append(np.load(tmp_path / f"{v}.npy", mmap_mode="r"))
    fitted = method(ANCHORS).fit(mapped)
    np.testing.assert_array_equal(fitted.labels_, expected.labels_)
    np.testing.assert_allclose(fitted.history_[-1].objective, expected.history_[-1].objective, rtol=1e-9)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "TLRLF4MVC in a span"], indirect=True)
def test_dask(method, views, expected, client):
    """On two workers; spans are in the tests of Dask, with more samples."""
    da = pytest.importorskip("dask.array", reason="Dask is not installed (extra 'dask')")
    order = np.random.default_rng(0).permutation(N)
    size = -(-N // 3)
    fitted = method(ANCHORS).fit([da.from_array(view[order], chunks=(size, -1)) for view in views])
    assert fitted.labels_.numblocks == (3,)
    np.testing.assert_array_equal(fitted.labels_.compute(), expected.labels_[order])
    np.testing.assert_allclose(fitted.history_[-1].objective, expected.history_[-1].objective, rtol=1e-9)


@pytest.mark.parametrize("basis", [ANCHORS, "gft-sum"])
def test_the_order_of_samples_and_views_changes_nothing(method, views, basis):
    some = [view[:400] for view in views]
    order = np.random.default_rng(1).permutation(400)
    expected = method(basis).fit(some)
    fitted = method(basis).fit([some[v][order] for v in (1, 0)])
    np.testing.assert_array_equal(fitted.labels_, expected.labels_[order])


def test_the_example_needs_no_line_for_any_place():
    source = EXAMPLE.read_text()
    assert len(source.splitlines()) <= 120
    code = source.split('"""', 2)[2].lower()
    for word in ("torch", "dask", "numpy", "memmap", "isinstance", "tensormvc._", "tensormvc.methods._"):
        assert word not in code, word


def test_the_example_runs(capsys):
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert "gave the same partition" in capsys.readouterr().out
