"""Labels from a cluster, on the command line."""

import json

import numpy as np
import pytest

import tensormvc as tm

from ..conftest import CLUSTER_LEFTOVERS, local_cluster

dd = pytest.importorskip("dask.dataframe", reason="Dask is not installed (extra 'dask')")
da = pytest.importorskip("dask.array", reason="Dask is not installed (extra 'dask')")
pd = pytest.importorskip("pandas", reason="pandas is not installed")

pytestmark = CLUSTER_LEFTOVERS


@pytest.fixture(scope="module")
def address():
    with local_cluster(n_workers=1, threads_per_worker=2) as cluster:
        yield cluster.scheduler_address


@pytest.fixture
def views(tmp_path):
    views, _ = tm.datasets.make_multiview(600, n_clusters=3, n_features=(5, 4, 6), random_state=0)
    (tmp_path / "data").mkdir()
    frames = [pd.DataFrame(view, columns=[f"f{i}" for i in range(view.shape[1])]) for view in views]
    dd.from_pandas(frames[0], npartitions=4).to_parquet(tmp_path / "data" / "a")
    frames[1].to_parquet(tmp_path / "data" / "b.parquet")
    try:
        da.from_array(views[2], chunks=(250, -1)).to_zarr(str(tmp_path / "data" / "c.zarr"))
    except ImportError:
        frames[2].to_parquet(tmp_path / "data" / "c.parquet")
    return views


ARGUMENTS = ["--param", "n_latent=4", "--param", "max_iter=40", "--param", "tol=1e-3"]


def test_labels_are_those_in_memory(run, address, views, tmp_path):
    wanted = tm.ESTMC(3, "agft", n_latent=4, max_iter=40, tol=1e-3, random_state=0).fit(views)
    ended = run("cluster", "data", "-k", 3, "-o", "labels", "--scheduler", address, "--json", *ARGUMENTS)
    assert ended.code == 0, ended.err
    result = json.loads(ended.out)
    assert result["n_samples"] == 600
    assert result["cluster_sizes"] == np.bincount(wanted.labels_).tolist()
    assert result["n_iter"] == wanted.n_iter_
    files = sorted((tmp_path / "labels").glob("*.parquet"))
    assert len(files) == 4
    labels = dd.read_parquet(tmp_path / "labels")["cluster"].compute(scheduler="synchronous")
    np.testing.assert_array_equal(labels, wanted.labels_)
    assert not list(tmp_path.glob(".labels*"))
    again = run("cluster", "data", "-k", 3, "-o", "labels", "--scheduler", address, *ARGUMENTS)
    assert (again.code, "labels exists" in again.err) == (4, True)


def test_the_front_door_is_the_default(run_program, address, views, tmp_path):
    wanted = tm.MultiViewClustering(3, random_state=0).fit(views).labels_
    ended = run_program("cluster", "data", "-k", 3, "-o", "labels", "--scheduler", address, "--json")
    assert ended.code == 0, ended.err
    result = json.loads(ended.out)
    assert result["chosen"] == {"method": "MultiViewClustering", "basis": None}
    labels = dd.read_parquet(tmp_path / "labels")["cluster"].compute(scheduler="synchronous")
    np.testing.assert_array_equal(labels, wanted)


def test_what_is_wrong_is_named(run, address, views, tmp_path):
    start = ["cluster", "data", "-k", 3, "-o", "labels", "--scheduler"]
    for arguments, code, message in [
        ([address, "--method", "tsvdmvc"], 2, "--method auto (the default), estmc, asretr or tlrlf4mvc"),
        ([address, "--report", "page"], 2, "--scheduler excludes --save, --report"),
        ([address, "--views", "a,x"], 3, "has the views a, b, c, not x"),
    ]:
        ended = run(*start, *arguments)
        assert ended.code == code, ended.err
        assert message in " ".join(ended.err.split())
    ended = run("cluster", "data", "-k", 3, "-o", "labels.csv", "--scheduler", address)
    assert (ended.code, "a folder of Parquet files" in ended.err) == (2, True)
    pd.DataFrame({"name": ["x"] * 600}).to_parquet(tmp_path / "data" / "d.parquet")
    ended = run(*start, address)
    assert (ended.code, "columns that are not numeric: name" in ended.err) == (3, True)
