"""Every figure is drawn: its text is legible, its lines and pixels carry the numbers it was given."""

import inspect
import os
import random
import re
import runpy
import subprocess
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.sparse as sp
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.decomposition import PCA

import tensormvc as tm
from tensormvc import plotting

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))
SLOW_EXAMPLES = {"plot_finding.py", "plot_shuffle_by_basis.py", "plot_shuffle_rate.py"}
PAPER = (3.5, 2.6)


@pytest.fixture(autouse=True)
def _no_figures_left():
    plt.switch_backend("Agg")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def digits():
    return tm.datasets.load_digits_views(120, class_sorted=True)


@pytest.fixture(scope="module")
def model(digits):
    return tm.TSVDMVC(10, basis="gft-sum", random_state=0, keep="all").fit(digits[0])


@pytest.fixture(scope="module")
def sweeps(digits):
    views, y = digits
    models = {name: tm.ESTMC(10, basis=name, random_state=0) for name in ("fft", "gft-sum", "agft")}
    return {name: tm.shuffle_sweep(model, views, y, rates=(0, 0.5, 1), n_repeats=2) for name, model in models.items()}


@pytest.fixture(scope="module")
def energies(digits):
    """Slice energies of each basis at each shuffle rate."""
    found = {"FFT": {}, "GFT": {}, "AGFT": {}}
    for rate in (0, 0.5, 1):
        views, _, _ = tm.datasets.shuffle_samples(digits[0], rate=rate, random_state=0)
        tensor = tm.diagnostics.similarity_tensor(views)
        for name, basis in {"FFT": tm.FFT(), "GFT": tm.GFT("sum"), "AGFT": tm.AGFT()}.items():
            found[name][rate] = tm.diagnostics.slice_energies(tensor, basis.fit(views))
    return found


@pytest.fixture(scope="module")
def ratios(energies):
    return {
        name: {rate: np.cumsum(values[1:]) / values[1:].sum() for rate, values in by_rate.items()}
        for name, by_rate in energies.items()
    }


@pytest.fixture(scope="module")
def audits(digits):
    views = digits[0]
    return {
        "dependent": tm.audit_order(KMeans(10, n_init=1, random_state=0), views, n_permutations=5),
        "not dependent, no seed": tm.audit_order(AgglomerativeClustering(10), views, n_permutations=5),
    }


@pytest.fixture(scope="module")
def figures(digits, model, sweeps, energies, ratios, audits):
    """Return name → function of axes, for every figure, several times where it can look different."""
    views, y = digits
    unlabelled = tm.shuffle_sweep(tm.ESTMC(10, basis="fft", random_state=0), views, rates=(0, 1), n_repeats=1)
    shuffled = {f"shuffle rate {rate:g}": values for rate, values in energies["FFT"].items()}
    four_residuals = tm.TLRLF4MVC(10, basis="agft", random_state=0).fit(views)
    explained = tm.explain.explain_clusters(views, y)
    words = [f"a feature whose name goes on and on, number {i}" for i in range(5)]
    long_names = tm.explain.explain_clusters(
        [np.arange(60).reshape(12, 5) % 7], np.arange(12) % 2, feature_names=[words]
    )
    votes = {"pixels": {0: 0.5, 1: 0.4, 2: 0.1}, "moments": {1: 1.0}}
    weights = {"pixels": 1.5, "moments": 0.5, "zones": 0.0}
    why = tm.explain.SampleExplanation("s17", 0, 0.2, {0: 0.5, 1: 0.4, 2: 0.1}, weights, votes, ())
    matrix, cloud = np.split(np.random.default_rng(0).normal(size=(620, 5)), [120])
    return {
        "shuffle_sweep": lambda ax: plotting.plot_shuffle_sweep(sweeps["fft"], ax=ax),
        "shuffle_sweep, no labels": lambda ax: plotting.plot_shuffle_sweep(unlabelled, ax=ax),
        "shuffle_by_basis": lambda ax: plotting.plot_shuffle_by_basis(sweeps, ax=ax),
        "shuffle_by_basis, eight": lambda ax: plotting.plot_shuffle_by_basis(
            {f"GFT (graph {i})": sweeps["fft"] for i in range(8)}, ax=ax
        ),
        "spectrum": lambda ax: plotting.plot_spectrum(shuffled, ax=ax),
        "spectrum, one line": lambda ax: plotting.plot_spectrum(energies["FFT"][0], ax=ax),
        "energy_ratio": lambda ax: plotting.plot_energy_ratio(ratios, ax=ax),
        "energy_ratio, one line": lambda ax: plotting.plot_energy_ratio({"FFT": {0: ratios["FFT"][0]}}, ax=ax),
        "basis": lambda ax: plotting.plot_basis(tm.GFT("sum").fit(views), y, ax=ax),
        "basis, no labels": lambda ax: plotting.plot_basis(tm.FFT().fit(views), ax=ax),
        "basis, small classes": lambda ax: plotting.plot_basis(matrix, np.arange(120) // 3, ax=ax),
        "convergence": lambda ax: plotting.plot_convergence(model, ax=ax),
        "convergence, four residuals": lambda ax: plotting.plot_convergence(four_residuals, ax=ax),
        "embedding": lambda ax: plotting.plot_embedding(model.embedding_, model.labels_, ax=ax),
        "embedding, twenty": lambda ax: plotting.plot_embedding(cloud, np.arange(500) % 20, ax=ax),
        "embedding, forty": lambda ax: plotting.plot_embedding(cloud, np.arange(500) % 40, ax=ax),
        "map": lambda ax: plotting.plot_map(a_map(y, confidence_=np.linspace(0, 1, 120)), ax=ax),
        "map, twenty": lambda ax: plotting.plot_map(a_map(np.arange(500) % 20), ax=ax),
        "map, a hundred": lambda ax: plotting.plot_map(a_map(np.arange(500) % 100), ax=ax),
        "tree": lambda ax: plotting.plot_tree(a_tree(10, 20), ax=ax),
        "tree, a hundred": lambda ax: plotting.plot_tree(a_tree(70, 100), ax=ax),
        "affinity": lambda ax: plotting.plot_affinity(model.affinity_, model.labels_, ax=ax),
        "affinity, unequal": lambda ax: plotting.plot_affinity(model.affinity_, [0] * 110 + [1] * 5 + [2] * 5, ax=ax),
        "affinity, a hundred": lambda ax: plotting.plot_affinity(model.affinity_, np.arange(120) % 100, ax=ax),
        "cluster_number": lambda ax: plotting.plot_cluster_number(tm.estimate_n_clusters(views), ax=ax),
        "cluster_features": lambda ax: plotting.plot_cluster_features(explained, 3, ax=ax),
        "cluster_features, long names": lambda ax: plotting.plot_cluster_features(long_names, 1, ax=ax),
        "sample_votes": lambda ax: plotting.plot_sample_votes(why, ax=ax),
        "audit": lambda ax: plotting.plot_audit(audits["dependent"], ax=ax),
        "audit, no seed": lambda ax: plotting.plot_audit(audits["not dependent, no seed"], ax=ax),
    }


def a_map(labels, **more):
    """Return what `plot_map` needs to know of a model: samples scattered around the places of their clusters."""
    generator = np.random.default_rng(0)
    places = generator.uniform(-40, 40, size=(len(np.unique(labels)), 2))
    return SimpleNamespace(map_=places[labels] + generator.normal(size=(len(labels), 2)), labels_=labels, **more)


def a_tree(n_clusters, most):
    """Return a tree in which the two oldest nodes merge, as `plot_tree` needs it."""
    merges = np.arange(2 * (most - 1)).reshape(-1, 2)
    leaf_labels = np.empty(most, dtype=int)
    nodes = [[leaf] for leaf in range(most)]
    for left, right in merges[: most - n_clusters]:
        nodes.append(nodes[left] + nodes[right])
    for cluster, node in enumerate(nodes[2 * (most - n_clusters) :]):
        leaf_labels[node] = cluster
    stability = np.linspace(0, 1, most - 1)
    return SimpleNamespace(
        n_clusters=n_clusters, most=most, merges=merges, stability=stability, leaf_labels=leaf_labels
    )


FIGURES = [
    *["shuffle_sweep", "shuffle_sweep, no labels", "shuffle_by_basis", "shuffle_by_basis, eight"],
    *["spectrum", "spectrum, one line", "energy_ratio", "energy_ratio, one line"],
    *["basis", "basis, no labels", "basis, small classes", "convergence", "convergence, four residuals"],
    *["embedding", "embedding, twenty", "embedding, forty", "affinity", "affinity, unequal", "affinity, a hundred"],
    *["cluster_features", "cluster_features, long names", "sample_votes"],
    *["map", "map, twenty", "map, a hundred", "tree", "tree, a hundred"],
    *["cluster_number", "audit", "audit, no seed"],
]


def new_axes():
    """Return axes of the size of a column of a paper, in a figure that pyplot knows nothing of."""
    figure = Figure(figsize=PAPER, layout="constrained")
    FigureCanvasAgg(figure)
    return figure.subplots()


def drawn_texts(figure, monkeypatch):
    """Draw a figure and return every text that appears in it, with its bounding box in pixels."""
    drawn = []
    draw = Text.draw

    def record(self, renderer, *args, **kwargs):
        if self.get_visible() and self.get_text().strip():
            drawn.append(self)
        return draw(self, renderer, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(Text, "draw", record)
        figure.canvas.draw()
    return [(text.get_text(), text.get_window_extent()) for text in drawn]


def illegible(figure, monkeypatch):
    """Return complaints about texts that leave the figure or touch each other."""
    texts = drawn_texts(figure, monkeypatch)
    assert len(texts) > 4
    width, height = figure.bbox.width, figure.bbox.height
    complaints = [
        f"{text!r} leaves the figure"
        for text, box in texts
        if box.x0 < 0 or box.y0 < 0 or box.x1 > width or box.y1 > height
    ]
    for (one, first), (other, second) in combinations(texts, 2):
        across = min(first.x1, second.x1) - max(first.x0, second.x0)
        along = min(first.y1, second.y1) - max(first.y0, second.y0)
        # Boxes have room for descenders: less than half a pixel is no overlap.
        if across > 0.5 and along > 0.5:
            complaints.append(f"{one!r} overlaps {other!r}")
    return complaints


def test_every_figure_is_here():
    assert {f"plot_{name.split(',')[0]}" for name in FIGURES} == set(plotting.__all__)


@pytest.mark.parametrize("size", ["default", "paper"])
@pytest.mark.parametrize("name", FIGURES)
def test_text_is_legible(figures, name, size, monkeypatch):
    ax = figures[name](None if size == "default" else new_axes())
    assert illegible(ax.figure, monkeypatch) == []


def test_the_check_sees_overlaps_and_overflows(monkeypatch):
    ax = new_axes()
    ax.text(0.5, 0.5, "one")
    ax.text(0.52, 0.5, "another")
    assert illegible(ax.figure, monkeypatch) == ["'one' overlaps 'another'"]
    ax = new_axes()
    ax.figure.set_layout_engine("none")
    ax.set_position([0, 0.2, 0.9, 0.7])
    assert any("leaves the figure" in complaint for complaint in illegible(ax.figure, monkeypatch))


@pytest.mark.parametrize("name", FIGURES)
def test_axes_are_labelled_and_say_how_many(figures, name, monkeypatch):
    """Axes have names; a number of samples, slices or rounds is on one of them."""
    ax = figures[name](new_axes())
    assert ax.get_xlabel()
    assert ax.get_ylabel() or all(label.get_text() for label in ax.get_yticklabels())
    assert re.search(r"\bof \d+|\b\d+ samples", f"{ax.get_xlabel()}\n{ax.get_ylabel()}")
    sizes = {text.get_fontsize() for text in (ax.xaxis.label, ax.yaxis.label, *ax.get_xticklabels())}
    assert min(sizes) >= 7


@pytest.mark.parametrize("name", FIGURES)
def test_leaves_settings_and_random_numbers_alone(figures, name):
    """Neither matplotlib's settings nor the global generators change, and given axes open no other figure."""
    settings, numpy_state, python_state = dict(mpl.rcParams), np.random.get_state(), random.getstate()  # noqa: NPY002
    before = plt.get_fignums()
    ax = new_axes()
    assert figures[name](ax) is ax
    ax.figure.canvas.draw()
    assert plt.get_fignums() == before
    assert dict(mpl.rcParams) == settings
    assert random.getstate() == python_state
    after = np.random.get_state()  # noqa: NPY002
    assert all(np.array_equal(one, other) for one, other in zip(numpy_state, after, strict=True))


def test_without_axes_a_new_figure_is_pyplots():
    ax = plotting.plot_spectrum([3.0, 2.0, 1.0])
    assert ax.figure.number in plt.get_fignums()


def test_import_needs_no_matplotlib_and_drawing_says_what_is_missing():
    code = (
        "import sys\n"
        "for name in ('matplotlib', 'matplotlib.pyplot'): sys.modules[name] = None\n"
        "import tensormvc as tm\n"
        "try: tm.plotting.plot_spectrum([1.0, 2.0])\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'tensormvc[plot]'" in done.stdout


@pytest.mark.parametrize("name", plotting.__all__)
def test_axes_are_a_keyword(name):
    parameter = inspect.signature(getattr(plotting, name)).parameters["ax"]
    assert parameter.default is None
    assert parameter.kind is inspect.Parameter.KEYWORD_ONLY


def test_sweep_draws_means_ranges_and_relative_variation(sweeps):
    sweep = sweeps["fft"]
    ax = plotting.plot_shuffle_sweep(sweep, ax=new_axes())
    accuracy, variation = ax.lines
    np.testing.assert_array_equal(accuracy.get_xdata(), sweep.rates)
    np.testing.assert_allclose(accuracy.get_ydata(), sweep.accuracy.mean(axis=1))
    np.testing.assert_allclose(variation.get_ydata(), sweep.ctv.mean(axis=1) / sweep.ctv.max())
    band = ax.collections[0].get_paths()[0].vertices
    for rate, values in zip(sweep.rates, sweep.accuracy, strict=True):
        heights = band[band[:, 0] == rate, 1]
        np.testing.assert_allclose([heights.min(), heights.max()], [values.min(), values.max()])
    low, high = ax.get_ylim()
    drawn = np.concatenate([sweep.accuracy.ravel(), sweep.ctv.ravel() / sweep.ctv.max()])
    assert low < drawn.min()
    assert drawn.max() < high
    assert "120 samples" in ax.get_xlabel()
    assert "labels used" in accuracy.get_label()
    assert sweep.plot(ax=new_axes()).lines[0].get_label() == accuracy.get_label()


def test_sweep_without_classes_draws_agreement(digits):
    sweep = tm.shuffle_sweep(AgglomerativeClustering(10), digits[0], rates=(0, 1), n_repeats=1)
    line = plotting.plot_shuffle_sweep(sweep, ax=new_axes()).lines[0]
    np.testing.assert_array_equal(line.get_ydata(), [1, 1])
    assert line.get_label() == "ARI with rate 0"


def test_sweep_over_equal_samples_has_no_variation():
    sweep = tm.shuffle_sweep(lambda rows: [0] * len(rows), np.ones((5, 2)), rates=(0, 1), n_repeats=1)
    np.testing.assert_array_equal(plotting.plot_shuffle_sweep(sweep, ax=new_axes()).lines[1].get_ydata(), [0, 0])


def test_bases_have_a_line_each(sweeps):
    ax = plotting.plot_shuffle_by_basis(sweeps, ax=new_axes())
    assert [line.get_label() for line in ax.lines] == list(sweeps)
    for line, sweep in zip(ax.lines, sweeps.values(), strict=True):
        np.testing.assert_allclose(line.get_ydata(), sweep.accuracy.mean(axis=1))
        assert ax.get_ylim()[0] < sweep.accuracy.min()
    assert len({line.get_color() for line in ax.lines}) == len(sweeps)
    assert np.ptp(ax.lines[1].get_ydata()) == 0
    assert "labels used" in ax.get_ylabel()


def test_spectrum_leaves_the_first_slice_out(energies):
    values = energies["FFT"][0]
    ax = plotting.plot_spectrum({"one": values, "two": 4 * values}, n_slices=20, ax=new_axes())
    one, two = ax.lines
    np.testing.assert_array_equal(one.get_xdata(), np.arange(1, 21))
    np.testing.assert_allclose(one.get_ydata() ** 2, values[1:21])
    np.testing.assert_allclose(two.get_ydata(), 2 * one.get_ydata())
    assert "119" in ax.get_xlabel()


def test_energy_ratios_are_nested_by_rate(ratios):
    ax = plotting.plot_energy_ratio(ratios, ax=new_axes())
    expected = [values for by_rate in ratios.values() for values in by_rate.values()]
    for line, values in zip(ax.lines, expected, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1, len(values) + 1))
        np.testing.assert_array_equal(line.get_ydata(), values)
    widths = [line.get_linewidth() for line in ax.lines[:3]]
    brightness = [sum(line.get_color()) for line in ax.lines[:3]]
    assert widths == sorted(widths, reverse=True)
    assert brightness == sorted(brightness, reverse=True)
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["FFT", "GFT", "AGFT", "shuffle rate 0", "shuffle rate 0.5", "shuffle rate 1"]


@pytest.mark.parametrize("make", [lambda: tm.GFT("sum"), tm.AGFT, tm.DCT, tm.Haar], ids=["gft", "agft", "dct", "haar"])
def test_basis_image_is_the_matrix_by_class(digits, make):
    """Up to a scale for each column; the columns synthesise what `inverse` does."""
    views, y, _ = tm.datasets.shuffle_samples(*digits, random_state=0)
    basis = make().fit(views)
    ax = plotting.plot_basis(basis, y, n_components=12, ax=new_axes())
    image = np.asarray(ax.images[0].get_array())
    coefficients = np.zeros((len(basis.slice_weights_), 12, 1))
    coefficients[np.arange(12), np.arange(12)] = 1
    columns = basis.inverse(coefficients)[np.argsort(y, kind="stable"), :, 0]
    np.testing.assert_allclose(image, columns / np.abs(columns).max(axis=0))
    assert np.allclose(np.abs(image).max(axis=0), 1)
    assert "labels used for display only" in ax.get_ylabel()
    assert [label.get_text() for label in ax.get_yticklabels()] == [str(digit) for digit in range(10)]


def test_basis_of_the_fft_is_cosines():
    n = 64
    ax = plotting.plot_basis(tm.FFT().fit(np.zeros((n, 1, 1))), n_components=5, ax=new_axes())
    waves = np.cos(2 * np.pi * np.outer(np.arange(n), np.arange(5)) / n)
    np.testing.assert_allclose(ax.images[0].get_array(), waves, atol=1e-12)
    assert "labels" not in ax.get_ylabel()


def test_basis_from_a_matrix_and_wrong_ones():
    matrix = np.array([[1.0, -4.0], [2.0, 0.0], [-4.0, 2.0]])
    ax = plotting.plot_basis(matrix, [1, 0, 1], ax=new_axes())
    np.testing.assert_array_equal(ax.images[0].get_array(), [[0.5, 0], [0.25, -1], [-1, 0.5]])
    with pytest.raises(ValueError, match="labels have shape"):
        plotting.plot_basis(matrix, [1, 0], ax=new_axes())
    with pytest.raises(ValueError, match="along the views"):
        plotting.plot_basis(tm.ViewFFT().fit(np.zeros((3, 2, 2))), ax=new_axes())


def test_convergence_draws_every_residual(model):
    ax = plotting.plot_convergence(model, ax=new_axes())
    *lines, tolerance = ax.lines
    assert [line.get_label() for line in lines] == list(model.history_[0].residuals)
    for line, name in zip(lines, model.history_[0].residuals, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1, model.n_iter_ + 1))
        np.testing.assert_array_equal(line.get_ydata(), [record.residuals[name] for record in model.history_])
    assert set(tolerance.get_ydata()) == {model.tol}
    assert len(plotting.plot_convergence(model.history_, ax=new_axes()).lines) == len(lines)


def test_convergence_with_an_objective(model):
    """The objective is not a residual: it is not drawn, and does not disturb."""
    history = [replace(record, objective=1.0) for record in model.history_]
    labels = [line.get_label() for line in plotting.plot_convergence(history, ax=new_axes()).lines]
    assert labels == list(model.history_[0].residuals)


@pytest.mark.parametrize("fitted", [tm.ESTMC(), tm.GMC(), []])
def test_convergence_needs_a_record(fitted):
    with pytest.raises(ValueError, match="has no history_"):
        plotting.plot_convergence(fitted, ax=new_axes())


def test_embedding_is_drawn_along_the_principal_components_of_its_centres(model):
    """Those of the samples with each replaced by the centre of its cluster; ten centres leave nothing to decide."""
    embedding, labels = model.embedding_, model.labels_
    ax = plotting.plot_embedding(embedding, labels, ax=new_axes())
    centres = np.array([embedding[labels == label].mean(axis=0) for label in labels])
    pca = PCA(2, svd_solver="full").fit(centres)
    for label, dots in zip(np.unique(labels), ax.collections, strict=True):
        assert dots.get_label() == str(label)
        # The drawn plane has a thousandth of the scatter of the samples in it.
        expected = pca.transform(embedding[labels == label])
        np.testing.assert_allclose(np.abs(dots.get_offsets()), np.abs(expected), atol=0.02 * np.abs(expected).max())
    shares = pca.transform(embedding).var(axis=0) / embedding.var(axis=0).sum()
    for share, text in zip(shares, (ax.get_xlabel(), ax.get_ylabel()), strict=True):
        assert abs(float(text.split("(")[1].split()[0]) - 100 * share) < 1
    looks = {(tuple(dots.get_facecolor()[0]), dots.get_paths()[0].vertices.tobytes()) for dots in ax.collections}
    assert len(looks) == 10
    with pytest.raises(ValueError, match="at least 2 dimensions"):
        plotting.plot_embedding(embedding[:, :1], labels, ax=new_axes())


def test_embedding_of_two_clusters_is_a_plane():
    """The line between the centres, and across it the direction in which the samples vary most."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(400, 3)) * [0.1, 1, 0.2]
    labels = np.arange(400) % 2
    points[:, 0] += 10 * labels
    ax = plotting.plot_embedding(points, labels, ax=new_axes())
    drawn = np.concatenate([dots.get_offsets() for dots in ax.collections])
    given = np.concatenate([points[labels == label] for label in (0, 1)])
    assert abs(np.corrcoef(drawn[:, 0], given[:, 0])[0, 1]) > 0.999
    assert abs(np.corrcoef(drawn[:, 1], given[:, 1])[0, 1]) > 0.98


@pytest.mark.parametrize("method", [tm.TSVDMVC, tm.ESTMC, tm.TLRLF4MVC])
def test_embedding_does_not_depend_on_the_order_of_the_samples(digits, method):
    """Not even one with orthonormal columns, whose own principal components are decided by rounding."""
    model = method(10, basis="agft", random_state=0).fit(digits[0])
    order = np.random.default_rng(0).permutation(len(model.labels_))
    given = plotting.plot_embedding(model.embedding_, model.labels_, ax=new_axes())
    permuted = plotting.plot_embedding(model.embedding_[order], model.labels_[order], ax=new_axes())
    for label, (one, other) in enumerate(zip(given.collections, permuted.collections, strict=True)):
        members = order[model.labels_[order] == label]
        places = np.searchsorted(np.flatnonzero(model.labels_ == label), members)
        scale = np.abs(one.get_offsets()).max()
        np.testing.assert_allclose(one.get_offsets()[places], other.get_offsets(), atol=1e-9 * scale)


def test_affinity_is_sorted_by_cluster():
    affinity = np.arange(16.0).reshape(4, 4)
    order = [1, 3, 0, 2]
    for given in (affinity, affinity.tolist(), sp.csr_array(affinity), sp.coo_matrix(affinity)):
        ax = plotting.plot_affinity(given, ["b", "a", "b", "a"], ax=new_axes())
        np.testing.assert_array_equal(ax.images[0].get_array(), affinity[np.ix_(order, order)])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    assert ax.get_ylim() == (3.5, -0.5)
    with pytest.raises(ValueError, match="expected a square matrix"):
        plotting.plot_affinity(affinity[:, :3], [0, 0, 1, 1], ax=new_axes())


@pytest.mark.parametrize("n", [2000, 2503])
def test_affinity_of_many_samples_is_averaged_in_blocks(n):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, n)
    affinity = sp.random_array((n, n), density=0.01, rng=rng, format="csr")
    images = []
    for given in (affinity, affinity.toarray()):
        ax = plotting.plot_affinity(given, labels, ax=new_axes())
        images.append(np.asarray(ax.images[0].get_array()))
        assert ax.get_xlim() == (-0.5, n - 0.5)
    size = -(-n // 1000)
    assert images[0].shape == (-(-n // size),) * 2
    np.testing.assert_allclose(images[0], images[1], atol=1e-15)
    order = np.argsort(labels, kind="stable")
    ordered = affinity.toarray()[np.ix_(order, order)]
    for i, j in [(0, 0), (3, 700), (len(images[0]) - 1, 5)]:
        block = ordered[i * size : (i + 1) * size, j * size : (j + 1) * size]
        np.testing.assert_allclose(images[0][i, j], block.mean())
    assert f"{size} × {size}" in ax.figure.axes[1].get_ylabel()


@pytest.mark.parametrize(("n_groups", "n_lines"), [(1, 0), (30, 29), (31, 0), (100, 0)])
def test_lines_part_groups_only_where_they_leave_room(n_groups, n_lines):
    labels = np.arange(200) % n_groups
    affinity = plotting.plot_affinity(np.eye(200), labels, ax=new_axes())
    assert [len(lines.get_segments()) for lines in affinity.collections] == [n_lines, n_lines]
    basis = plotting.plot_basis(np.eye(200), labels, ax=new_axes())
    assert [len(lines.get_segments()) for lines in basis.collections] == [n_lines]


def test_affinity_without_links_is_drawn():
    ax = plotting.plot_affinity(sp.csr_array((5, 5)), [0, 0, 1, 1, 1], ax=new_axes())
    assert not ax.images[0].get_array().any()


def test_audit_draws_every_pair_and_every_sample(audits):
    audit = audits["dependent"]
    ax = plotting.plot_audit(audit, ax=new_axes())
    dots = [part for part in ax.collections if len(part.get_offsets()) > 1]
    pairs = np.triu_indices(5, 1)
    for part, values in zip(
        dots, (audit.order_aris[pairs], audit.seed_aris[pairs], 1 - audit.sample_instability), strict=True
    ):
        np.testing.assert_array_equal(part.get_offsets()[:, 0], values)
    company = 1 - audit.sample_instability.mean()
    drawn = [*audit.order_ari_interval, audit.order_ari, *audit.seed_ari_interval, audit.seed_ari, company, 1, 1]
    np.testing.assert_allclose(np.concatenate([line.get_xdata() for line in ax.lines]), drawn, rtol=1e-14)
    assert f"({audit.severity})" in ax.get_title(loc="left")
    assert audit.plot(ax=new_axes()).get_title(loc="left") == ax.get_title(loc="left")


def test_audit_of_two_orders_is_drawn(digits, monkeypatch):
    """One pair, whose interval may be empty or not contain the mean."""
    audit = tm.audit_order(KMeans(10, n_init=1, random_state=0), digits[0], n_permutations=2)
    for interval in (audit.order_ari_interval, (np.nan, np.nan), (0.1, 0.2)):
        ax = plotting.plot_audit(replace(audit, order_ari_interval=interval), ax=new_axes())
        assert illegible(ax.figure, monkeypatch) == []


def test_map_draws_every_sample_in_the_colour_of_its_cluster():
    labels = np.arange(120) % 6 - 1
    model = a_map(labels, confidence_=np.linspace(0, 1, 120))
    ax = plotting.plot_map(model, ax=new_axes())
    dots = ax.collections[0]
    order = np.argsort(labels, kind="stable")
    np.testing.assert_array_equal(dots.get_offsets(), model.map_[order])
    colours = dots.get_facecolors()
    np.testing.assert_allclose(colours[:, 3], 0.15 + 0.75 * model.confidence_[order])
    by_cluster = [np.unique(colours[labels[order] == cluster, :3], axis=0) for cluster in range(-1, 5)]
    assert [len(found) for found in by_cluster] == [1] * 6
    assert len(np.unique(np.concatenate(by_cluster), axis=0)) == 6
    assert np.ptp(by_cluster[0]) == 0, "samples in no cluster are grey"
    assert {text.get_text() for text in ax.texts} <= {"0", "1", "2", "3", "4"}
    for text in ax.texts:
        np.testing.assert_allclose(text.xy, np.median(model.map_[labels == int(text.get_text())], axis=0))
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [str(cluster) for cluster in range(-1, 5)]


def test_map_by_other_labels_ignores_the_confidence():
    model = a_map(np.arange(120) % 6, confidence_=np.linspace(0, 1, 120))
    ax = plotting.plot_map(model, labels=np.where(model.labels_ < 3, "low", "high"), ax=new_axes())
    assert np.ptp(ax.collections[0].get_facecolors()[:, 3]) == 0
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["high", "low"]
    with pytest.raises(ValueError, match=r"labels have shape \(5,\)"):
        plotting.plot_map(model, labels=[0] * 5, ax=new_axes())


@pytest.mark.parametrize(("n_clusters", "most"), [(3, 8), (1, 5), (6, 6), (2, 2)])
def test_every_level_of_the_tree_crosses_as_many_branches(n_clusters, most):
    tree = a_tree(n_clusters, most)
    ax = plotting.plot_tree(tree, ax=new_axes())
    brackets = ax.collections[0].get_segments()
    for level in range(2, most + 1):
        crossed = [x for bracket in brackets for (x, y), (_, z) in (bracket[:2], bracket[:1:-1]) if z < level < y]
        assert len(set(crossed)) == level
    np.testing.assert_array_equal(ax.collections[0].get_array(), tree.stability)
    assert [text.get_text() for text in ax.texts] == [str(cluster) for cluster in range(n_clusters)]
    assert ax.lines[0].get_ydata()[0] == n_clusters


def test_a_model_without_a_map_is_refused(model):
    with pytest.raises(ValueError, match=r"TSVDMVC.* has no map_: pass a fitted MultiViewClustering"):
        plotting.plot_map(model)


def test_clusters_of_one_colour_are_far_apart_on_a_map():
    places = np.stack([np.repeat(np.arange(5.0), 4), np.tile(np.arange(4.0), 5)], axis=1)
    colours = np.array(plotting._far_apart_colours(places))
    assert len(set(colours[:8])) == 8
    same = (colours[:, None] == colours) & ~np.eye(20, dtype=bool)
    # On a grid of side 1, neither those beside a cluster nor those across a corner have its colour.
    assert np.linalg.norm(places[:, None] - places, axis=2)[same].min() > 1.5


def test_audit_of_a_clusterer_without_seed_has_no_row_of_seeds(audits):
    ax = plotting.plot_audit(audits["not dependent, no seed"], ax=new_axes())
    assert [label.get_text().split()[0] for label in ax.get_yticklabels()] == ["orders", "samples"]
    assert len(ax.lines[0].get_xdata()) == 2
    assert "the same partition" in ax.get_title(loc="left").replace("\n", " ")


@pytest.mark.parametrize(
    "example",
    [pytest.param(path, marks=[pytest.mark.slow] * (path.name in SLOW_EXAMPLES), id=path.stem) for path in EXAMPLES],
)
def test_examples_are_legible(example, monkeypatch):
    monkeypatch.setattr(plt, "show", lambda: None)
    runpy.run_path(str(example), run_name="__main__")
    assert len(plt.get_fignums()) == 1
    assert illegible(plt.gcf(), monkeypatch) == []


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_examples_run_by_themselves(example):
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    command = [sys.executable, "-W", "error", "-W", "ignore:FigureCanvasAgg", str(example)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_figures_of_the_documentation(tmp_path):
    """The script writes one picture an example, and they are small enough for the repository."""
    command = [sys.executable, str(ROOT / "docs" / "make_figures.py"), str(tmp_path)]
    subprocess.run(command, capture_output=True, text=True, check=True)
    written = {path.stem: path.stat().st_size for path in tmp_path.glob("*.png")}
    gallery = {path.stem.removeprefix("plot_") for path in EXAMPLES}
    assert set(written) == gallery
    assert max(written.values()) < 300_000
    # Those of benchmarks/front_door.py are drawn from its results.
    others = {"missing_views", "reliability"}
    assert {path.stem for path in (ROOT / "docs" / "figures").glob("*.png")} == gallery | others
