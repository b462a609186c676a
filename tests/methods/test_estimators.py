"""What every estimator does with input of every kind, and what it leaves alone."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import threadpoolctl
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import tensormvc as tm
from tensormvc import metrics
from tensormvc._registry import BASIS_NAMES

ALL = [tm.TSVDMVC, tm.TLSpNM, tm.ASRETR, tm.ESTMC, tm.TLRLF4MVC, tm.GMC]
TENSOR = ALL[:-1]
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def make(cls, n_clusters=3, **parameters):
    if cls is not tm.GMC:
        parameters = {"random_state": 0, "max_iter": 10, **parameters}
    return cls(n_clusters, **parameters)


def blobs(n=40, dims=(5, 4), seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return [rng.normal(size=(3, d))[y] * 4 + rng.normal(size=(n, d)) for d in dims], y


@quiet
@pytest.mark.parametrize("cls", ALL)
def test_every_form_of_input_gives_the_same_labels(cls):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    views, _ = blobs()
    expected = make(cls).fit_predict(views)
    forms = [
        tuple(views),
        {"a": views[0], "b": views[1]},
        [view.tolist() for view in views],
        [pd.DataFrame(view) for view in views],
        [np.asfortranarray(view) for view in views],
    ]
    for form in forms:
        np.testing.assert_array_equal(make(cls).fit_predict(form), expected)
    joined = make(cls, view_sizes=[5, 4]).fit_predict(np.column_stack(views))
    np.testing.assert_array_equal(joined, expected)
    sparse = make(cls).fit_predict([sp.csr_array(view) for view in views])
    assert metrics.ari(expected, sparse) > 0.99


@quiet
@pytest.mark.parametrize("dims", [(5, 4), (50, 4)], ids=["narrow", "wide"])
@pytest.mark.parametrize("cls", ALL)
def test_tensors_of_pytorch_give_the_same_labels(cls, dims):
    torch = pytest.importorskip("torch", reason="torch is not installed (extra 'torch')")
    views, _ = blobs(dims=dims)
    expected = make(cls).fit_predict(views)
    np.testing.assert_array_equal(make(cls).fit_predict([torch.asarray(view) for view in views]), expected)


@quiet
@pytest.mark.parametrize("cls", ALL)
def test_clone_pickle_and_attributes(cls):
    views, _ = blobs()
    model = make(cls).fit(views)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).labels_, model.labels_)
    np.testing.assert_array_equal(clone(model).fit(views).labels_, model.labels_)
    assert model.labels_.dtype.kind == "i"
    sizes = np.bincount(model.labels_)
    assert np.all(np.diff(sizes) <= 0), "clusters are numbered by size"
    assert model.n_iter_ >= 1
    assert "n_clusters" in model._repr_html_()


@quiet
@pytest.mark.parametrize("cls", TENSOR)
def test_history_callback_and_what_is_kept(cls, capsys):
    views, _ = blobs()
    seen = []
    model = make(cls, keep="all", verbose=1, callback=lambda record: seen.append(record) or len(seen) == 3).fit(views)
    assert model.n_iter_ == 3
    assert len(model.history_) == 3
    assert not model.converged_
    assert model.representation_.shape[0] == 40
    assert capsys.readouterr().out.count(f"{cls.__name__}  iteration") == 3
    assert all(np.isfinite(list(record.residuals.values())).all() and record.seconds > 0 for record in seen)
    assert not hasattr(make(cls, max_iter=2).fit(views), "representation_")


def test_affinity_is_in_the_order_of_the_samples():
    views, _ = blobs()
    order = np.random.default_rng(1).permutation(40)
    model = tm.TSVDMVC(3, random_state=0, keep="all").fit(views)
    moved = tm.TSVDMVC(3, random_state=0, keep="all").fit([view[order] for view in views])
    np.testing.assert_array_equal(moved.affinity_, model.affinity_[np.ix_(order, order)])
    np.testing.assert_array_equal(moved.representation_, model.representation_[np.ix_(order, order)])
    total = np.abs(model.representation_).sum(axis=2)
    np.testing.assert_allclose(model.affinity_, total + total.T, rtol=1e-12)


@pytest.mark.parametrize("cls", [cls for cls in TENSOR if not cls.stops_early])
def test_too_few_rounds_get_a_warning(cls):
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        make(cls, max_iter=2).fit(blobs()[0])


@quiet
@pytest.mark.parametrize("cls", ALL)
def test_nothing_outside_is_touched(cls):
    views, _ = blobs()
    before = [view.copy() for view in views]
    np.random.seed(0)  # noqa: NPY002
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    threads = [(pool["internal_api"], pool["num_threads"]) for pool in threadpoolctl.threadpool_info()]
    parameters = {} if cls is tm.GMC else {"random_state": None}
    make(cls, **parameters).fit(views)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert [(pool["internal_api"], pool["num_threads"]) for pool in threadpoolctl.threadpool_info()] == threads
    for a, b in zip(views, before, strict=True):
        np.testing.assert_array_equal(a, b)


def spoiled(change):
    views, _ = blobs()
    return change(views)


def with_value(row, column, value):
    def change(views):
        views[1][row, column] = value
        return views

    return change


@quiet
@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda views: [views[0], views[1][:-1]], ValueError, "view 0: 40, view 1: 39"),
        (with_value(7, 2, np.nan), ValueError, "view 1 .*row 7, column 2"),
        (with_value(7, 2, np.inf), ValueError, "view 1 .*row 7, column 2"),
        (lambda views: [views[0] + 1j], ValueError, "Complex data not supported"),
        (lambda views: [views[0].astype(str)], TypeError, "not numeric"),
        (lambda views: [], ValueError, "no views"),
        (lambda views: views[0][:, 0], ValueError, "reshape"),
        (lambda views: [view[:1] for view in views], ValueError, "more than 1 sample"),
        (lambda views: [view[:2] for view in views], ValueError, "n_clusters=3 is more than n_samples=2"),
    ],
)
def test_wrong_input(cls, change, error, message):
    with pytest.raises(error, match=message):
        make(cls).fit(spoiled(change))


@quiet
@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize(
    "change",
    [
        lambda views: [views[0], np.zeros((40, 3))],
        lambda views: [views[0], np.column_stack([views[1], np.full(40, 7.0)])],
        lambda views: [view[:3] for view in views],
        lambda views: [np.ones((40, 3)), np.ones((40, 2))],
        lambda views: [views[0], views[0]],
    ],
    ids=["an all-zero view", "a constant column", "three samples", "only duplicates", "one view twice"],
)
def test_odd_input_has_a_sane_result(cls, change):
    views = spoiled(change)
    labels = make(cls).fit_predict(views)
    assert labels.shape == (len(views[0]),)
    if all(len(np.unique(view, axis=0)) == 1 for view in views):
        assert len(set(labels.tolist())) == 1, "exact duplicates share one label"


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("parameters", [{"n_clusters": 0}, {"n_clusters": 2.5}, {"max_iter": 0}, {"max_iter": "many"}])
def test_wrong_parameters(cls, parameters):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        make(cls).set_params(**parameters).fit(blobs()[0])


@pytest.mark.parametrize(
    "model",
    [
        tm.TSVDMVC(3, lam=-1),
        tm.TLSpNM(3, lam=0),
        tm.ASRETR(3, alpha=0),
        tm.ASRETR(3, gamma=-1),
        tm.ASRETR(3, delta=0),
        tm.ESTMC(3, penalty="l0"),
        tm.ESTMC(3, n_latent=0),
        tm.TLRLF4MVC(3, lam=0),
        tm.TLRLF4MVC(3, n_kernel_anchors=12),
        tm.TSVDMVC(3, basis="wavelet"),
        tm.GMC(3, n_neighbors=0),
    ],
    ids=repr,
)
def test_wrong_parameters_of_a_method(model):
    with pytest.raises(ValueError, match=r"lam|alpha|gamma|delta|penalty|n_latent|n_kernel_anchors|basis|n_neighbors"):
        model.fit(blobs()[0])


@quiet
@pytest.mark.parametrize("cls", TENSOR)
@pytest.mark.parametrize("basis", [*BASIS_NAMES, "auto"])
def test_every_basis(cls, basis):
    views, _ = blobs()
    labels = make(cls, basis=basis).fit_predict(views)
    assert len(set(labels.tolist())) <= 3


@quiet
@pytest.mark.parametrize("cls", TENSOR)
def test_a_basis_a_penalty_and_a_graph_of_ones_own(cls):
    views, _ = blobs()
    own = tm.GFT(tm.SimGraph(n_neighbors=4))
    model = make(cls, basis=own).fit(views)
    assert model.basis_ is not own
    graph = tm.SimGraph(n_neighbors=4).fit(views).graph_
    np.testing.assert_array_equal(make(cls, basis="gft").fit(views, sample_graph=graph).labels_, model.labels_)


@quiet
@pytest.mark.parametrize("cls", [tm.ASRETR, tm.ESTMC])
def test_single_precision_stays_single(cls):
    """TLRLF4MVC keeps its features in single precision, its codes in double."""
    views, _ = blobs()
    model = make(cls, keep="all").fit([view.astype(np.float32) for view in views])
    assert model.representation_.dtype == np.float32
    assert np.isfinite(model.embedding_).all()


@pytest.mark.parametrize("cls", [tm.ASRETR, tm.ESTMC])
def test_memory_of_anchors_is_predicted(cls, monkeypatch):
    views, _ = blobs()
    monkeypatch.setattr("tensormvc.backend.checks.available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match="n_latent=4 "):
        make(cls, n_latent=4).fit(views)


@quiet
@pytest.mark.parametrize("cls", [tm.ASRETR, tm.ESTMC])
def test_anchors_beyond_the_features_are_left_out(cls):
    views, _ = blobs()
    most = max(view.shape[1] for view in views)
    wanted, ours = (make(cls, n_latent=count, keep="all").fit(views) for count in (most, 1_000_000))
    np.testing.assert_array_equal(ours.representation_, wanted.representation_)
    np.testing.assert_array_equal(ours.labels_, wanted.labels_)


def test_memory_is_predicted():
    views = [np.random.default_rng(0).normal(size=(200_000, 2))]
    for cls in (tm.TSVDMVC, tm.TLSpNM):
        with pytest.raises(MemoryError, match="ESTMC"):
            cls(3, basis="agft").fit(views)
