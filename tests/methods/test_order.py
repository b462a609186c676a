"""Order is not information: permuted samples and views give the same labels, to the last one."""

import numpy as np
import pytest

import tensormvc as tm
from tensormvc import metrics
from tensormvc.views import as_views

from ..names import ADAPTIVE, ORDER_DEPENDENT

METHODS = {
    "TSVDMVC": tm.TSVDMVC,
    "TLSpNM": tm.TLSpNM,
    "ASRETR": tm.ASRETR,
    "ESTMC": tm.ESTMC,
    "TLRLF4MVC": tm.TLRLF4MVC,
}
# The order is settled before the first round: a few rounds show it as well as all of them, in less time.
ROUNDS = 12
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def load(request, name):
    if name == "digits":
        return tm.datasets.load_digits_views(400)
    return tm.datasets.load_views(request.getfixturevalue("shared") / "data" / f"{name}.mat")


def check(make, views, n_permutations, seed=0):
    n = views[0].shape[0]
    labels = make().fit_predict(views)
    assert labels.shape == (n,)
    for i in range(n_permutations):
        rng = np.random.default_rng(seed + i)
        order, view_order = rng.permutation(n), rng.permutation(len(views))
        permuted = make().fit_predict([views[v][order] for v in view_order])
        np.testing.assert_array_equal(permuted, labels[order])


# Every method with every basis; on the texts, which are larger, every method and every basis at least once: all pairs
# are in the slow test below, which runs all rounds and more permutations.
PAIRS = [(method, basis) for method in METHODS for basis in ADAPTIVE]
ONCE = [(method, ADAPTIVE[i % len(ADAPTIVE)]) for i, method in enumerate(METHODS)]


@quiet
@pytest.mark.parametrize(
    ("data", "method", "basis"),
    [(data, *pair) for data in ("digits", "MSRCv1") for pair in PAIRS]
    + [(data, *pair) for data in ("NGs", "BBCSport") for pair in ONCE],
)
def test_labels_follow_the_samples(request, method, basis, data):
    views, y = load(request, data)
    c = len(np.unique(y))
    check(lambda: METHODS[method](c, basis=basis, max_iter=ROUNDS, random_state=0), views, 1)


@quiet
@pytest.mark.slow
@pytest.mark.parametrize("data", ["all digits", "MSRCv1", "NGs", "BBCSport"])
@pytest.mark.parametrize("basis", ADAPTIVE)
@pytest.mark.parametrize("method", METHODS)
def test_labels_follow_the_samples_in_full(request, method, basis, data):
    views, y = tm.datasets.load_digits_views() if data == "all digits" else load(request, data)
    c = len(np.unique(y))
    check(lambda: METHODS[method](c, basis=basis, random_state=0), views, 1 if data == "all digits" else 3)


@quiet
@pytest.mark.parametrize("data", ["digits", "MSRCv1", "NGs", "BBCSport"])
def test_gmc_follows_the_samples(request, data):
    views, y = load(request, data)
    check(lambda: tm.GMC(len(np.unique(y))), views, 3)


@quiet
@pytest.mark.parametrize("basis", ORDER_DEPENDENT)
@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_the_views_changes_no_label(method, basis):
    views, _ = tm.datasets.load_digits_views(100)
    make = METHODS[method]
    labels = make(10, basis=basis, max_iter=ROUNDS, random_state=0).fit_predict(views)
    again = make(10, basis=basis, max_iter=ROUNDS, random_state=0).fit_predict(views[::-1])
    np.testing.assert_array_equal(again, labels)


@quiet
@pytest.mark.parametrize("method", METHODS)
def test_view_mode_follows_the_samples(method):
    views, _ = tm.datasets.load_digits_views(100)
    make = METHODS[method]
    labels = make(10, basis="fft-view", max_iter=ROUNDS, random_state=0).fit_predict(views)
    order = np.random.default_rng(0).permutation(100)
    permuted = [view[order] for view in views]
    again = make(10, basis="fft-view", max_iter=ROUNDS, random_state=0).fit_predict(permuted)
    np.testing.assert_array_equal(again, labels[order])


@quiet
def test_the_fft_keeps_the_order_it_is_given(shared):
    """The finding: on class-sorted MSRCv1 the FFT does far better than on the same samples shuffled."""
    views, y = tm.datasets.load_views(shared / "data" / "MSRCv1.mat")
    shuffled, shuffled_y, _ = tm.datasets.shuffle_samples(views, y, random_state=0)
    make = tm.TSVDMVC(7, basis="fft", lam=0.2, random_state=0)
    in_order = metrics.clustering_accuracy(y, make.fit_predict(views))
    out_of_order = metrics.clustering_accuracy(shuffled_y, make.fit_predict(shuffled))
    assert in_order > 0.95
    assert out_of_order < in_order - 0.08


def check_noise(shared, monkeypatch, data, method, basis):
    """A permutation with noise, the canonical order switched off: the mathematics alone must be stable."""
    views, y = tm.datasets.load_views(shared / "data" / f"{data}.mat")
    views = [view.toarray() if hasattr(view, "toarray") else view for view in views]
    monkeypatch.setattr(
        "tensormvc.methods._base.as_views", lambda v, **options: as_views(v, **{**options, "canonical": False})
    )
    make = METHODS[method](len(np.unique(y)), basis=basis, random_state=0)
    labels = make.fit_predict(views)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(y))
    noisy = [view[order] + 1e-10 * rng.standard_normal(view.shape) for view in views]
    assert metrics.ari(labels[order], make.fit_predict(noisy)) >= 0.99


@quiet
@pytest.mark.parametrize("basis", ADAPTIVE)
@pytest.mark.parametrize("method", METHODS)
def test_noise_moves_nothing_without_the_canonical_order(shared, monkeypatch, method, basis):
    check_noise(shared, monkeypatch, "MSRCv1", method, basis)


@quiet
@pytest.mark.parametrize(
    ("method", "basis"),
    [
        ("ESTMC", "gft-sum"),
        ("ASRETR", "agft"),
        *(
            pytest.param(method, basis, marks=pytest.mark.slow)
            for method in METHODS
            for basis in ADAPTIVE
            if (method, basis) not in {("ESTMC", "gft-sum"), ("ASRETR", "agft")}
        ),
    ],
)
def test_noise_moves_nothing_on_text_either(shared, monkeypatch, method, basis):
    """NGs has many tied distances, which noise must not break."""
    check_noise(shared, monkeypatch, "NGs", method, basis)


@quiet
@pytest.mark.parametrize("basis", ["gft-sum", "agft"])
@pytest.mark.parametrize("method", ["ASRETR", "ESTMC", "TLRLF4MVC"])
@pytest.mark.parametrize(
    "data", ["MSRCv1", pytest.param("NGs", marks=pytest.mark.slow), pytest.param("Handwritten", marks=pytest.mark.slow)]
)
def test_single_precision_gives_the_same_clusters(shared, data, method, basis):
    views, y = tm.datasets.load_views(shared / "data" / f"{data}.mat")
    make = METHODS[method](len(np.unique(y)), basis=basis, random_state=0)
    labels = make.fit_predict([view.astype(np.float64) for view in views])
    single = make.fit_predict([view.astype(np.float32) for view in views])
    assert metrics.ari(labels, single) >= 0.99


def best_accuracy(method, parameter, grid, basis, views, y):
    """Return the best ACC over a small grid: it looks at the classes, for every basis alike."""
    make = METHODS[method]
    fits = [make(len(np.unique(y)), basis=basis, random_state=0, **{parameter: value}) for value in grid]
    return max(metrics.clustering_accuracy(y, fit.fit_predict(views)) for fit in fits)


@quiet
@pytest.mark.parametrize(("method", "parameter", "grid"), [("TSVDMVC", "lam", [0.2, 1.0]), ("ESTMC", "alpha", [1, 5])])
def test_adaptive_bases_beat_those_that_know_nothing_of_the_data(shared, method, parameter, grid):
    """Shuffled MSRCv1, best of the same small grid for every basis."""
    views, y = tm.datasets.load_views(shared / "data" / "MSRCv1.mat")
    views, y, _ = tm.datasets.shuffle_samples(views, y, random_state=0)
    best = {basis: best_accuracy(method, parameter, grid, basis, views, y) for basis in [*ADAPTIVE, "random", "fft"]}
    assert min(best[basis] for basis in ADAPTIVE) > max(best["random"], best["fft"]), best


def test_the_papers_numbers(shared):
    """Deterministic entries of the paper's tables; the last used the labels as its graph."""
    views, y = tm.datasets.load_views(shared / "data" / "MSRCv1.mat")

    def accuracy(basis, lam, graph=None):
        model = tm.TSVDMVC(7, basis=basis, lam=lam, random_state=0).fit(views, sample_graph=graph)
        return 100 * metrics.clustering_accuracy(y, model.labels_)

    assert accuracy("gft-sim", 1.0) == pytest.approx(88.57, abs=0.5)
    assert accuracy("gft-gmc", 0.2) == pytest.approx(91.90, abs=0.5)
    assert accuracy("gft-sim", 1.0, tm.ideal_graph(y)) == 100


@pytest.mark.slow
def test_the_papers_number_on_ngs(shared):
    views, y = tm.datasets.load_views(shared / "data" / "NGs.mat")
    labels = tm.TSVDMVC(5, basis="gft-sim", lam=1.0, random_state=0).fit_predict(views)
    assert metrics.clustering_accuracy(y, labels) >= 0.98
