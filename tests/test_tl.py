"""Clustering of AnnData and MuData objects in place, with the libraries that read the results."""

import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import tensormvc as tm

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what the libraries warn of when they are imported
    anndata = pytest.importorskip("anndata", reason="anndata is not installed (extra 'mudata')")
    mudata = pytest.importorskip("mudata", reason="mudata is not installed (extra 'mudata')")
    pandas = pytest.importorskip("pandas")

# What mudata, scanpy and their dependencies announce for their next versions.
pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning:mudata"
)
TUTORIAL = Path(__file__).parents[1] / "docs" / "tutorials" / "single_cells.py"
N = 90
CELLS = np.array([f"cell {i}" for i in range(N)])
(RNA, ADT), Y = tm.datasets.make_multiview(N, n_clusters=3, n_features=(12, 6), random_state=0)
OPTIONS = {"n_clusters": 3, "random_state": 0}


def annotated(values, cells=CELLS, **fields):
    return anndata.AnnData(values, obs=pandas.DataFrame(index=cells), **fields)


@pytest.fixture(scope="module")
def expected():
    """The estimator itself, on the same views."""
    return tm.MultiViewClustering(**OPTIONS).fit({"rna": RNA, "adt": ADT})


@pytest.fixture(scope="module")
def cells():
    """Two views of one AnnData object, clustered."""
    data = annotated(None, obsm={"rna": RNA, "adt": ADT})
    assert tm.tl.cluster(data, 3, use_rep=["rna", "adt"], random_state=0) is None
    return data


@pytest.fixture(scope="module")
def modalities():
    """A MuData object with 80 of the cells in one modality and 70 in the other, in other orders, clustered."""
    data = partly_measured()
    tm.tl.cluster(data, **OPTIONS)
    return data


def partly_measured(order=None):
    order = np.arange(N) if order is None else order
    first, second = order[order < 80], order[order >= 20][::-1]
    return mudata.MuData({"rna": annotated(RNA[first], CELLS[first]), "adt": annotated(ADT[second], CELLS[second])})


def assert_same_results(data, model, key="tensormvc"):
    assert_array_equal(data.obs[key].astype(int), model.labels_)
    assert_array_equal(data.obs[f"{key}_confidence"], model.confidence_)
    assert_array_equal(data.obsm[f"X_{key}"], model.embedding_)
    assert_array_equal(data.obsp[f"{key}_connectivities"].toarray(), model.graph_.toarray())


def test_fields(cells, expected):
    assert_same_results(cells, expected)
    assert cells.obs["tensormvc"].cat.categories.tolist() == ["0", "1", "2"]
    uns = cells.uns["tensormvc"]
    assert uns["connectivities_key"] == "tensormvc_connectivities"
    assert uns["distances_key"] == "tensormvc_distances"
    assert uns["report"] == str(expected.report_)
    assert uns["params"]["n_clusters"] == 3
    assert uns["params"]["use_rep"] == "X_tensormvc"
    degrees = (expected.graph_.toarray() > 0).sum(axis=1)
    assert uns["params"]["n_neighbors"] == int(np.median(degrees))


def test_distances_are_reciprocals_of_connectivities(cells):
    weights, distances = (cells.obsp[f"tensormvc_{name}"] for name in ("connectivities", "distances"))
    assert_array_equal(weights.indices, distances.indices)
    assert_allclose(weights.data * distances.data, 1, rtol=1e-6)  # the graph may be in single precision
    assert distances.data.min() >= 1


def test_copy_and_key(expected):
    data = annotated(None, obsm={"rna": RNA, "adt": ADT})
    clustered = tm.tl.cluster(data, use_rep=["rna", "adt"], key_added="mine", copy=True, **OPTIONS)
    assert_same_results(clustered, expected, "mine")
    assert (list(data.obs), list(data.obsm), list(data.obsp), list(data.uns)) == ([], ["rna", "adt"], [], [])
    assert_array_equal(data.obsm["rna"], RNA)


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (lambda: annotated(RNA, obsm={"adt": pandas.DataFrame(ADT, CELLS)}), {"use_rep": ["X", "adt"]}),
        (lambda: annotated(None, obsm={"a": RNA, "b": ADT}), {"use_rep": {"rna": "a", "adt": "b"}}),
        (lambda: annotated(0 * RNA, obsm={"b": ADT}, layers={"scaled": RNA}), {"use_rep": "b", "layer": "scaled"}),
    ],
    ids=["X and a table", "names of views", "a layer"],
)
def test_views_of_anndata(data, keys, expected):
    data = data()
    tm.tl.cluster(data, **keys, **OPTIONS)
    assert_same_results(data, expected)


def test_x_alone():
    data = annotated(sp.csr_matrix(RNA))
    tm.tl.cluster(data, **OPTIONS)
    assert_same_results(data, tm.MultiViewClustering(**OPTIONS).fit({"X": sp.csr_matrix(RNA)}))


@pytest.mark.parametrize(
    ("fields", "keys"),
    [
        ({"X": RNA}, {}),
        ({"X": 0 * RNA, "obsm": {"X_pca": RNA}}, {"use_rep": {"rna": "X_pca"}}),
        ({"X": 0 * RNA, "layers": {"scaled": RNA}}, {"layer": {"rna": "scaled"}}),
    ],
    ids=["X", "obsm", "layer"],
)
def test_views_of_mudata(fields, keys, expected):
    data = mudata.MuData({"rna": annotated(fields.pop("X"), **fields), "adt": annotated(ADT)})
    tm.tl.cluster(data, **keys, **OPTIONS)
    assert_same_results(data, expected)
    assert list(data["rna"].obs) == []


def test_one_key_for_all_modalities(expected):
    parts = {name: annotated(0 * view, obsm={"X_pca": view}) for name, view in (("rna", RNA), ("adt", ADT))}
    data = mudata.MuData(parts)
    tm.tl.cluster(data, use_rep="X_pca", **OPTIONS)
    assert_same_results(data, expected)


def test_cells_missing_in_modalities(modalities):
    assert modalities.n_obs == N
    model = tm.MultiViewClustering(**OPTIONS).fit(partly_measured())
    place = pandas.Index(model.sample_ids_).get_indexer(modalities.obs_names)
    assert_array_equal(modalities.obs["tensormvc"].astype(int), model.labels_[place])
    weights = modalities.obsp["tensormvc_connectivities"].toarray()
    assert_array_equal(weights, model.graph_.toarray()[place][:, place])
    truth = Y[pandas.Index(CELLS).get_indexer(modalities.obs_names)]
    assert tm.metrics.clustering_accuracy(truth, modalities.obs["tensormvc"].astype(int)) > 0.9


def test_order_of_the_cells_changes_nothing(modalities):
    order = np.random.default_rng(0).permutation(N)
    data = partly_measured(order)
    tm.tl.cluster(data, **OPTIONS)
    place = modalities.obs_names.get_indexer(data.obs_names)
    assert_array_equal(data.obs["tensormvc"], modalities.obs["tensormvc"].iloc[place])
    assert_array_equal(data.obsm["X_tensormvc"], modalities.obsm["X_tensormvc"][place])


@pytest.mark.parametrize("kind", ["cells", "modalities"])
def test_scanpy_runs_on_the_graph_before_and_after_writing(kind, request, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scanpy = pytest.importorskip("scanpy", reason="scanpy is not installed (extra 'test')")
        for module in ("igraph", "leidenalg"):
            pytest.importorskip(module, reason=f"{module} is not installed (extra 'test')")
    written = request.getfixturevalue(kind)
    if kind == "cells":
        written.write_h5ad(tmp_path / "cells.h5ad")
        read = anndata.read_h5ad(tmp_path / "cells.h5ad")
    else:
        written.write(tmp_path / "cells.h5mu")
        read = mudata.read_h5mu(tmp_path / "cells.h5mu")
    assert read.uns["tensormvc"] == written.uns["tensormvc"]
    pandas.testing.assert_frame_equal(read.obs, written.obs)
    assert_array_equal(read.obsm["X_tensormvc"], written.obsm["X_tensormvc"])
    for name in ("connectivities", "distances"):
        assert (read.obsp[f"tensormvc_{name}"] != written.obsp[f"tensormvc_{name}"]).nnz == 0
    for data in (written.copy(), read):
        scanpy.tl.umap(data, neighbors_key="tensormvc", maxiter=20)
        assert data.obsm["X_umap"].shape == (N, 2)
        assert np.isfinite(data.obsm["X_umap"]).all()
        scanpy.tl.leiden(data, neighbors_key="tensormvc", resolution=0.3)
        assert tm.metrics.ari(data.obs["tensormvc"].astype(int), data.obs["leiden"].astype(int)) > 0.8
        scanpy.tl.paga(data, groups="tensormvc", neighbors_key="tensormvc")
        assert data.uns["paga"]["connectivities"].shape == (3, 3)


@pytest.mark.parametrize("matrix", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_backed_objects_are_read(matrix, tmp_path):
    annotated(matrix(RNA)).write_h5ad(tmp_path / "cells.h5ad")
    on_disk, in_memory = anndata.read_h5ad(tmp_path / "cells.h5ad", backed="r"), annotated(matrix(RNA))
    for data in (on_disk, in_memory):
        tm.tl.cluster(data, **OPTIONS)
    assert_array_equal(on_disk.obs["tensormvc"], in_memory.obs["tensormvc"])
    on_disk.file.close()


def test_backed_modalities_are_read(expected, tmp_path):
    mudata.MuData({"rna": annotated(RNA), "adt": annotated(ADT)}).write(tmp_path / "cells.h5mu")
    data = mudata.read_h5mu(tmp_path / "cells.h5mu", backed="r")
    tm.tl.cluster(data, **OPTIONS)
    assert_same_results(data, expected)
    data.file.close()


def test_parameters_can_be_written(tmp_path):
    data = annotated(None, obsm={"rna": RNA, "adt": ADT})
    choices = {"normalisation": {"rna": "unit", "adt": "none"}, "random_state": np.random.RandomState(0)}
    tm.tl.cluster(data, np.int64(3), use_rep=["rna", "adt"], **choices)
    data.write_h5ad(tmp_path / "cells.h5ad")
    params = anndata.read_h5ad(tmp_path / "cells.h5ad").uns["tensormvc"]["params"]
    assert (params["n_clusters"], params["normalisation"]) == (3, "{'rna': 'unit', 'adt': 'none'}")


def one():
    return annotated(None, obsm={"rna": RNA, "adt": ADT}, layers={"rna": RNA})


def two():
    return mudata.MuData({"rna": annotated(RNA, obsm={"X_pca": RNA}), "adt": annotated(ADT)})


@pytest.mark.parametrize(
    ("data", "keys", "error", "message"),
    [
        (list, {}, TypeError, "data is a list: expected a MuData or AnnData object"),
        (lambda: sys.modules["pandas"].DataFrame(RNA), {}, TypeError, "data is a DataFrame: expected a MuData or"),
        (one, {}, ValueError, r"the AnnData object has no X: name one of its obsm, \['rna', 'adt'\], in use_rep"),
        (one, {"use_rep": ["rma"]}, ValueError, r"use_rep='rma': the AnnData object has no such key in obsm, only"),
        (one, {"use_rep": "rna", "layer": "rna"}, ValueError, "both have a view 'rna': name the views with a mapping"),
        (two, {"use_rep": {"adt": "X_pca"}}, ValueError, r"modality 'adt' has no such key in obsm, only \[\]"),
        (two, {"layer": {"rna": "counts"}}, ValueError, r"layer='counts': modality 'rna' has no such key in layers"),
        (two, {"use_rep": {"atac": "X"}}, ValueError, "use_rep names a modality 'atac': there are 'rna', 'adt'"),
        (two, {"use_rep": "X", "layer": {"rna": "a"}}, ValueError, "both name the modality 'rna': leave it out of one"),
        (two, {"use_rep": ["X_pca"]}, TypeError, "expected a mapping from modalities to keys, or one key for all"),
    ],
)
def test_errors(data, keys, error, message):
    with pytest.raises(error, match=message):
        tm.tl.cluster(data(), 3, **keys)


@pytest.mark.filterwarnings("ignore:.*names are not unique:UserWarning")
def test_names_of_cells_that_do_not_tell_them_apart():
    names = CELLS.copy()
    names[1] = names[0]
    data = mudata.MuData({"rna": annotated(RNA, names), "adt": annotated(ADT, names)})
    with pytest.raises(ValueError, match=r"several cells are named 'cell 0': call obs_names_make_unique\(\)"):
        tm.tl.cluster(data, 3)


def test_cells_that_changed_since_the_last_update():
    data = mudata.MuData({"rna": annotated(RNA), "adt": annotated(ADT)})
    for name in data.mod:
        data.mod[name] = data.mod[name][:60].copy()
    with pytest.raises(ValueError, match=r"the cells of the MuData object are not those .*: call update\(\)"):
        tm.tl.cluster(data, 3)


def test_the_libraries_are_imported_only_when_they_are_needed(monkeypatch):
    code = "import sys, tensormvc; tensormvc.tl; print({'anndata', 'mudata', 'scanpy'} & set(sys.modules))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "set()\n"
    monkeypatch.setitem(sys.modules, "anndata", None)
    with pytest.raises(ImportError, match=r"needs anndata: pip install 'tensormvc\[mudata\]'"):
        tm.tl.cluster(one())


@pytest.mark.slow
def test_blood_cells_without_a_step_by_hand(shared):
    scanpy = pytest.importorskip("scanpy", reason="scanpy is not installed (extra 'test')")
    data = mudata.read_h5mu(shared / "data" / "CITEseq500.h5mu")
    tm.tl.cluster(data, random_state=0)
    scanpy.tl.umap(data, neighbors_key="tensormvc")
    scanpy.tl.leiden(data, neighbors_key="tensormvc")
    assert data.obsm["X_umap"].shape == (500, 2)
    assert data.obs["tensormvc"].nunique() > 1
    assert data.obs["leiden"].nunique() > 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the clusters are weak")  # those of the last part, where cells lack an assay
@pytest.mark.filterwarnings("ignore:the clusters may be parts of a continuum")  # of T cells
def test_clusters_of_blood_cells_separate_lineages(shared, monkeypatch):
    """Each protein is on average higher in a cluster of its own than in those of the others, by 0.5 deviations.

    Most of the cells are T cells, so that their marker exceeds its mean by less than those of rare cells do.
    """
    plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed (extra 'plot')")
    pytest.importorskip("scanpy", reason="scanpy is not installed (extra 'test')")
    from .test_plotting import illegible

    plt.switch_backend("Agg")
    monkeypatch.setattr(plt, "show", lambda: None)
    monkeypatch.setenv("TENSORMVC_SHARED", str(shared))
    means = runpy.run_path(str(TUTORIAL), run_name="__main__")["means"]
    assert illegible(plt.gcf(), monkeypatch) == []
    plt.close("all")
    highest = means.idxmax()
    assert highest.nunique() == 4
    for protein, cluster in highest.items():
        assert means.loc[cluster, protein] > 0.3
        assert (means.loc[highest.drop(protein), protein] < means.loc[cluster, protein] - 0.5).all()
