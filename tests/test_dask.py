"""Views on a cluster: the labels of the same data in memory, whatever the chunks and the fate of the workers."""

import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

import tensormvc as tm
from tensormvc.methods._base import tidy_labels
from tensormvc.rows import InMemory
from tensormvc.views import as_views

from .conftest import CLUSTER_LEFTOVERS, local_cluster

dask = pytest.importorskip("dask", reason="Dask is not installed (extra 'dask')")
distributed = pytest.importorskip("distributed", reason="distributed is not installed (extra 'dask')")
import dask.array as da  # noqa: E402
from dask.sizeof import sizeof  # noqa: E402

pytestmark = [pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"), CLUSTER_LEFTOVERS]


@pytest.fixture(scope="module")
def client():
    with local_cluster(n_workers=2, threads_per_worker=1) as cluster, distributed.Client(cluster) as client:
        yield client


def data(n, dims=(5, 4), seed=0):
    return tm.datasets.make_multiview(n, n_clusters=3, n_features=dims, random_state=seed)[0]


def estimator(cls=tm.ESTMC, **parameters):
    return cls(3, tm.AGFT(4, 3), n_latent=4, random_state=0, **{"max_iter": 5, **parameters})


def in_chunks(views, *rows):
    return [da.from_array(view, chunks=(size, -1)) for view, size in zip(views, rows, strict=True)]


@pytest.fixture(scope="module")
def many():
    views = data(100_000)
    return views, estimator(max_iter=4).fit(views)


@pytest.mark.parametrize("n_chunks", [1, 3, 17])
def test_labels_are_those_in_memory(client, many, n_chunks):
    views, expected = many
    n = len(views[0])
    order = np.random.default_rng(n_chunks).permutation(n)
    size = -(-n // n_chunks)
    fitted = estimator(max_iter=4).fit(in_chunks([view[order] for view in views], size, size // 2 + 1))
    assert isinstance(fitted.labels_, da.Array)
    assert fitted.labels_.chunks[0] == da.from_array(views[0], chunks=(size, -1)).chunks[0]
    np.testing.assert_array_equal(fitted.labels_.compute(), expected.labels_[order])
    with pytest.raises(ValueError, match="labels stay on the cluster: fit it to samples in memory or on disk"):
        fitted.predict(views)
    # Rounding of sums over other blocks, in the search for anchors alone.
    np.testing.assert_allclose(fitted.embedding_.compute(), expected.embedding_[order], atol=1e-9)
    assert [record.residuals for record in fitted.history_] == [
        pytest.approx(record.residuals, rel=1e-6) for record in expected.history_
    ]


@pytest.mark.parametrize(
    ("cls", "dtype"), [(tm.ESTMC, np.float32), (tm.ESTMC, np.int32), (tm.ASRETR, np.float64), (tm.ASRETR, np.float32)]
)
def test_types_and_forms(client, cls, dtype):
    views = [(100 * view).astype(dtype) for view in data(1500, (6, 3, 4))]
    expected = estimator(cls, keep="all").fit(views)
    named = dict(zip("abc", in_chunks(views, 500, 1500, 400), strict=True))
    fitted = estimator(cls, keep="all").fit(named)
    np.testing.assert_array_equal(fitted.labels_.compute(), expected.labels_)
    np.testing.assert_allclose(fitted.representation_.compute(), expected.representation_, atol=1e-4)
    for ours, theirs in zip(fitted.basis_.anchors_, expected.basis_.anchors_, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)
    with pytest.raises(ValueError, match="fitted to samples on a cluster"):
        fitted.basis_.forward(np.zeros((1500, 2, 2)))


def low_frequency(**parameters):
    basis = tm.AGFT(16, 5)
    return tm.TLRLF4MVC(3, basis, n_kernel_anchors=16, max_iter=6, tol=0, random_state=0, keep="all", **parameters)


@pytest.mark.parametrize(("n", "dtype"), [(400, np.float64), (3000, np.float64), (3000, np.float32)])
def test_codes_of_kernel_features(client, n, dtype):
    """The state of few samples is on the workers; with many the rounds run in coordinates."""
    views = [view.astype(dtype) for view in data(n, (6, 3))]
    expected = low_frequency().fit(views)
    order = np.random.default_rng(0).permutation(n)
    fitted = low_frequency().fit(in_chunks([view[order] for view in views], n // 3, n // 2))
    np.testing.assert_array_equal(fitted.labels_.compute(), expected.labels_[order])
    np.testing.assert_allclose(fitted.embedding_.compute(), expected.embedding_[order], atol=1e-9)
    np.testing.assert_allclose(fitted.representation_.compute(), expected.representation_[order], atol=1e-9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Sending large graph")
@pytest.mark.parametrize("name", ["Handwritten", "CCV", "MNIST70k"])
@pytest.mark.parametrize("cls", [tm.ESTMC, tm.ASRETR, tm.TLRLF4MVC])
def test_benchmark_files(client, shared, name, cls):
    views, y = tm.datasets.load_views(shared / "data" / f"{name}.mat")
    views = [np.asarray(view) for view in views]
    model = cls(len(np.unique(y)), "agft", random_state=0)
    expected = model.fit(views).labels_
    n = len(y)
    for n_chunks in (1, 3, 17):
        order = np.random.default_rng(n_chunks).permutation(n) if n_chunks > 1 else np.arange(n)
        chunks = [-(-n // n_chunks) + v for v in range(len(views))]
        labels = model.fit(in_chunks([view[order] for view in views], *chunks)).labels_
        np.testing.assert_array_equal(labels.compute(), expected[order])


def test_views_in_one_array(client):
    views = data(1500)
    together = da.from_array(np.concatenate(views, axis=1), chunks=(400, 3))
    fitted = estimator(view_sizes=[5, 4]).fit(together)
    np.testing.assert_array_equal(fitted.labels_.compute(), estimator().fit_predict(views))
    assert fitted.n_features_in_ == 9


def test_dataframes(client, tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    views = data(2500)
    frames = []
    for v, view in enumerate(views):
        table = pd.DataFrame(view, columns=[f"f{i}" for i in range(view.shape[1])])
        dd.from_pandas(table, npartitions=3 + v).to_parquet(tmp_path / str(v))
        frames.append(dd.read_parquet(tmp_path / str(v)))
    fitted = estimator().fit(frames)
    np.testing.assert_array_equal(fitted.labels_.compute(), estimator().fit_predict(views))


def test_duplicates_have_one_label(client):
    few = data(40)
    which = np.random.default_rng(0).integers(0, 40, size=4000)
    views = [view[which] for view in few]
    labels = estimator().fit(in_chunks(views, 900, 1300)).labels_.compute()
    np.testing.assert_array_equal(labels, estimator().fit_predict(views))
    for sample in range(40):
        assert len(np.unique(labels[which == sample])) == 1


def test_tidy_labels_by_blocks(monkeypatch):
    """Against sorting: duplicates have the label of the first in working order; clusters are numbered by size."""
    monkeypatch.setattr("tensormvc.rows._memory._MOST_ROWS", 3)
    for seed in range(30):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 60))
        views = as_views([rng.integers(0, 1 + seed % 7, size=(n, 2)) + 1.0])
        labels = rng.integers(0, 5, size=n)
        _, first, group = np.unique(views.row_keys, return_index=True, return_inverse=True)
        same = labels[first][group]
        values, first, codes, counts = np.unique(same, return_index=True, return_inverse=True, return_counts=True)
        number = np.empty(len(values), dtype=int)
        number[np.lexsort((first, -counts))] = np.arange(len(values))
        for cached in (2**17, 2):
            monkeypatch.setattr("tensormvc.rows._memory._CACHED", cached)
            rows = InMemory(labels)
            rows.hold(labels=labels.copy(), keys=views.row_keys)
            tidy_labels(rows)
            np.testing.assert_array_equal(rows["labels"], number[codes])


def test_nothing_as_large_as_the_samples_comes_here(client, many, monkeypatch):
    views, _ = many
    sizes = []
    gather = distributed.Client.gather

    def watched(self, *args, **kwargs):
        found = gather(self, *args, **kwargs)
        sizes.append(sizeof(found))
        return found

    monkeypatch.setattr(distributed.Client, "gather", watched)
    estimator(max_iter=2).fit(in_chunks(views, 20_000, 30_000))
    assert len(sizes) > 30
    assert max(sizes) < 8 * 100_000


def test_a_lost_worker_changes_nothing(client):
    views = data(5000)
    expected = estimator().fit_predict(views)

    def kill(record):
        if record.iteration == 3:
            pids = client.run(os.getpid)
            os.kill(next(iter(pids.values())), signal.SIGKILL)

    fitted = estimator(callback=kill).fit(in_chunks(views, 1500, 1500))
    np.testing.assert_array_equal(fitted.labels_.compute(), expected)
    assert fitted.n_iter_ == 5


def test_an_interrupted_fit_frees_the_cluster(client):
    def interrupt(record):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        estimator(callback=interrupt).fit(in_chunks(data(3000), 1000, 1000))
    assert caught.tb is not None  # frames, and what they refer to, are alive
    for _ in range(100):
        if not (left := client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))):
            break
        time.sleep(0.1)
    assert left == 0


def test_a_lost_scheduler_is_said_clearly(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard", "--host", address]
    worker_command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-dashboard", "--nthreads=1"]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    scheduler = subprocess.Popen(command, **silent)
    worker = subprocess.Popen([*worker_command, "--death-timeout=5"], **silent)
    try:
        with (
            dask.config.set({"distributed.comm.timeouts.connect": "3s", "distributed.client.reconnect": False}),
            distributed.Client(address, timeout="30s", set_as_default=True) as client,
        ):
            client.wait_for_workers(1, timeout=30)
            with pytest.raises(RuntimeError, match="the connection to the Dask scheduler was lost"):
                estimator(callback=lambda record: scheduler.kill()).fit(in_chunks(data(2000), 1000, 1000))
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()


def test_what_is_wrong_is_named(client):
    views = data(1000)
    chunked = in_chunks(views, 300, 400)
    unknown = chunked[0][chunked[0][:, 0] > 0]
    with pytest.raises(ValueError, match=r"view 0 has chunks of unknown sizes: call its compute_chunk_sizes"):
        estimator().fit([unknown, chunked[1]])
    with pytest.raises(ValueError, match="different numbers of samples"):
        estimator().fit([chunked[0][:500], chunked[1]])
    with pytest.raises(ValueError, match='basis="agft"'):
        tm.ESTMC(3, "dct").fit(chunked)
    with pytest.raises(TypeError, match="view 0 is a Dask collection"):
        tm.TSVDMVC(3).fit(chunked)
    views[1][777, 2] = np.inf
    with pytest.raises(ValueError, match=r"view 1 contains NaN or infinity at row 777, column 2 \(inf\), and 0 more"):
        estimator().fit(in_chunks(views, 300, 400))
    views[1][777] = np.nan
    with pytest.raises(ValueError, match=r"sample 777 is missing in view 1, .*impute_views"):
        estimator().fit(in_chunks(views, 300, 400))
    wide = in_chunks([np.ones((5, 20)), np.ones((5, 2))], 3, 3)
    with pytest.raises(ValueError, match=r"bring the views into memory with \.compute"):
        tm.ESTMC(2, tm.AGFT(2, 1)).fit(wide)


def test_there_must_be_a_cluster():
    script = (
        "import dask.array as da, tensormvc as tm\n"
        "try:\n    tm.ESTMC(2).fit([da.ones((100, 3), chunks=10)])\n"
        "except ValueError as error:\n    print(error)\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "create a client first" in found.stdout
