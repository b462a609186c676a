"""Order is not information: permuted samples and views give the same labels, to the last one."""

import numpy as np
import pytest

import tensormvc as tm
from tensormvc import metrics
from tensormvc._views import as_views

METHODS = {
    "TSVDMVC": tm.TSVDMVC,
    "TLSpNM": tm.TLSpNM,
    "ASRETR": tm.ASRETR,
    "ESTMC": tm.ESTMC,
    "TLRLF4MVC": tm.TLRLF4MVC,
}
ADAPTIVE = ["gft-sim", "gft-sum", "gft-gmc", "agft"]
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


@quiet
@pytest.mark.parametrize("data", ["digits", "MSRCv1", "BBCSport"])
@pytest.mark.parametrize("basis", ADAPTIVE)
@pytest.mark.parametrize("method", METHODS)
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
@pytest.mark.parametrize("basis", ["fft", "dct", "haar", "random"])
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


@quiet
@pytest.mark.parametrize("method", ["TSVDMVC"])
@pytest.mark.parametrize("basis", ["gft-sim", "gft-sum", "agft"])
def test_noise_moves_nothing_without_the_canonical_order(shared, monkeypatch, method, basis):
    views, _ = tm.datasets.load_views(shared / "data" / "MSRCv1.mat")
    monkeypatch.setattr(
        "tensormvc.methods._base.as_views", lambda v, **options: as_views(v, **{**options, "canonical": False})
    )
    make = METHODS[method](7, basis=basis, random_state=0)
    labels = make.fit_predict(views)
    rng = np.random.default_rng(0)
    order = rng.permutation(210)
    noisy = [view[order] + 1e-10 * rng.standard_normal(view.shape) for view in views]
    assert metrics.ari(labels[order], make.fit_predict(noisy)) >= 0.99


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
