"""A snapshot of the public names: a change here is a change for every user, and belongs in the changelog."""

import importlib
import importlib.metadata
import inspect
import subprocess
import sys
from pkgutil import resolve_name

import pytest

import tensormvc
from tensormvc._registry import GRAPHS, METHODS, TRANSFORMS

REGISTERED = {resolve_name(path).__name__ for table in (GRAPHS, METHODS, TRANSFORMS) for path in table.values()}
NAMES = {
    "tensormvc": [
        *["AGFT", "DCT", "FFT", "GFT", "Haar", "RandomOrthogonal", "ViewFFT"],
        *["GMCGraph", "SimGraph", "SumGraph", "ideal_graph"],
        *["ASRETR", "ESTMC", "GMC", "TLRLF4MVC", "TLSpNM", "TSVDMVC"],
        *["algebra", "bench", "datasets", "diagnostics", "explain", "metrics", "penalties", "plotting", "published"],
        *["report", "shrinkage", "testing", "tl"],
        *["audit_order", "shuffle_sweep"],
        *["MultiViewClustering", "estimate_n_clusters", "impute_views", "select_model", "selection"],
        *["load", "save"],
    ],
    "tensormvc.algebra": [
        *["facewise_product", "gt_svd", "inverse_transform", "is_f_diagonal", "is_orthogonal", "mode3_product"],
        *["singular_values", "surrogate_norm", "t_identity", "t_product", "t_transpose", "tensor_rank", "transform"],
    ],
    "tensormvc.audit": ["OrderAudit", "ShuffleSweep", "audit_order", "shuffle_sweep"],
    "tensormvc.auto": ["MultiViewClustering", "impute_views", "suggest_scaling"],
    "tensormvc.bench": ["Plan", "RunSummary", "load_plan", "run_plan", "write_bench_report"],
    "tensormvc.datasets": [
        *["DataError", "Dataset", "RowSource", "describe", "load_dataset", "load_digits_views", "load_views"],
        *["make_multiview", "save_labels", "save_views", "shuffle_samples"],
    ],
    "tensormvc.diagnostics": [
        *["EquivarianceError", "FrequencyBound", "Multiplicities"],
        *["circular_total_variation", "cumulative_energy_ratio", "equivariance_error", "frequency_bound"],
        *["lipschitz_constants", "low_frequency_share", "similarity_tensor", "slice_energies"],
        "spectrum_multiplicities",
    ],
    "tensormvc.explain": ["ClusterSummary", "Explanation", "FeatureEffect", "SampleExplanation", "explain_clusters"],
    "tensormvc.metrics": [
        *["ari", "clustering_accuracy", "clustering_report", "nmi"],
        *["pairwise_f_score", "pairwise_precision_recall", "purity"],
    ],
    "tensormvc.penalties": [
        *["ETP", "ETR", "GammaNorm", "Geman", "Laplace", "Log", "MCP", "Nuclear", "Penalty", "SCAD", "SchattenP"],
        "make_penalty",
    ],
    "tensormvc.persistence": ["load", "save"],
    "tensormvc.plotting": [
        *[
            "plot_affinity",
            "plot_audit",
            "plot_basis",
            "plot_cluster_features",
            "plot_cluster_number",
            "plot_convergence",
            "plot_embedding",
            "plot_energy_ratio",
            "plot_map",
        ],
        *["plot_sample_votes", "plot_shuffle_by_basis", "plot_shuffle_sweep", "plot_spectrum", "plot_tree"],
    ],
    "tensormvc.published": ["PublishedResult", "ReweightedETR", "asr_etr", "tlspnm", "tsvd_mvc"],
    "tensormvc.report": ["ClusterRun", "write_cluster_report"],
    "tensormvc.selection": ["estimate_n_clusters", "modularity", "neighbour_information", "select_model"],
    "tensormvc.shrinkage": ["l21_shrink", "low_rank_shrink", "shrink_slices"],
    "tensormvc.testing": ["assert_order_independent", "check_basis", "check_penalty"],
    "tensormvc.tl": ["cluster"],
}


def public_objects():
    for module_name in NAMES:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            if not inspect.ismodule(obj := getattr(module, name)):
                yield pytest.param(obj, id=f"{module_name}.{name}")


@pytest.mark.parametrize("module", NAMES)
def test_names(module):
    """No name disappears, and none appears by accident: a new transform, graph or method is registered as one."""
    names = importlib.import_module(module).__all__
    assert set(names) - (REGISTERED if module == "tensormvc" else set()) <= set(NAMES[module]) <= set(names)
    assert len(set(names)) == len(names)


def test_public_names_are_imported_when_they_are_used():
    code = "import sys, tensormvc; dir(tensormvc), tensormvc.__all__; print('numpy' in sys.modules); tensormvc.FFT"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "False\n"
    assert set(tensormvc.__all__) <= set(dir(tensormvc))
    with pytest.raises(AttributeError, match="has no attribute 'FTT'"):
        _ = tensormvc.FTT


def test_version_is_that_of_the_distribution():
    assert tensormvc.__version__ == importlib.metadata.version("tensormvc")


@pytest.mark.parametrize("obj", list(public_objects()))
def test_docstrings_have_parameters_and_an_example(obj):
    doc = inspect.getdoc(obj)
    assert doc
    assert ">>> " in doc, "no runnable example"
    parameters = [p for p in inspect.signature(obj).parameters if p not in ("self", "args", "kwargs")]
    if parameters:
        assert "Parameters\n----------" in doc
        for parameter in parameters:
            assert f"{parameter} :" in doc, f"{parameter} is not documented"
