"""`predict` of the methods with anchors: the labels of the fit, one sample like many, in any order."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

import tensormvc as tm
from tensormvc.methods import _prediction

METHODS = [tm.ESTMC, tm.ASRETR, tm.TLRLF4MVC]
VIEWS, Y = tm.datasets.load_digits_views(400)
FITTED, NEW = [view[:250] for view in VIEWS], [view[250:] for view in VIEWS]


def fitted(method, views=FITTED, **parameters):
    return method(n_clusters=10, basis="agft", random_state=0, max_iter=15, **parameters).fit(views)


pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module", params=METHODS)
def model(request):
    return fitted(request.param)


def unit(view):
    return view / np.linalg.norm(view, axis=1, keepdims=True)


def voted(model, views, fitted_views):
    """The rule by brute force: all distances to all anchors, sample by sample."""
    anchors = np.hstack(model.basis_.anchors_)
    k = model.basis_.n_neighbors

    def weights(samples):
        for sample in np.hstack([unit(view) for view in samples]):
            squares = ((sample - anchors) ** 2).sum(axis=1)
            nearest = np.argsort(squares)[: k + 1]
            row = np.zeros(len(anchors))
            row[nearest] = squares[nearest[-1]] - squares[nearest]
            yield row / row.sum()

    votes = np.zeros((len(anchors), 10))
    for row, label in zip(weights(fitted_views), model.labels_, strict=True):
        votes[:, label] += row
    votes /= votes.sum(axis=1, keepdims=True)
    return np.array([np.argmax(row @ votes) for row in weights(views)])


def test_samples_of_the_fit_keep_their_labels(model):
    np.testing.assert_array_equal(model.predict(FITTED), model.labels_)


def test_new_samples_go_where_their_anchors_vote(model):
    labels = model.predict(NEW)
    np.testing.assert_array_equal(labels, voted(model, NEW, FITTED))
    assert tm.metrics.clustering_accuracy(Y[250:], labels) > 0.5


def test_a_sample_gets_alone_what_it_gets_in_any_batch_and_order(model, monkeypatch):
    both = [np.concatenate(parts) for parts in zip(FITTED, NEW, strict=True)]
    labels = model.predict(both)
    for i in range(240, 270):
        assert model.predict([view[i : i + 1] for view in both]) == labels[i]
    order = np.random.default_rng(0).permutation(400)
    np.testing.assert_array_equal(model.predict([view[order] for view in both]), labels[order])
    monkeypatch.setattr(_prediction, "_BLOCK", 7 * sum(view.shape[1] for view in both))
    np.testing.assert_array_equal(model.predict(both), labels)


def test_the_order_of_the_fitted_samples_and_of_the_views_changes_nothing():
    order = np.random.default_rng(1).permutation(250)
    model, other = fitted(tm.ESTMC), fitted(tm.ESTMC, [view[order] for view in FITTED[::-1]])
    np.testing.assert_array_equal(model.predict(NEW), other.predict(NEW[::-1]))


def test_a_loaded_model_predicts_the_same(model, tmp_path):
    tm.save(model, tmp_path / "model.tmvc")
    np.testing.assert_array_equal(tm.load(tmp_path / "model.tmvc").predict(NEW), model.predict(NEW))


def test_forms_of_input_agree(tmp_path):
    model = fitted(tm.ESTMC)
    labels = model.predict(NEW)
    files = []
    for v, view in enumerate(NEW):
        np.save(tmp_path / f"{v}.npy", view)
        files.append(np.load(tmp_path / f"{v}.npy", mmap_mode="r"))
    by_name = fitted(tm.ESTMC, {f"v{v}": view for v, view in enumerate(FITTED)})
    side_by_side = fitted(tm.ESTMC, np.hstack(FITTED), view_sizes=[view.shape[1] for view in FITTED])
    for predicted in (
        model.predict([sp.csr_array(view) for view in NEW]),
        model.predict([sp.csr_array(NEW[0]), *NEW[1:]]),
        model.predict(files),
        by_name.predict({f"v{v}": NEW[v] for v in (2, 0, 3, 1)}),
        by_name.predict(NEW),
        side_by_side.predict(np.hstack(NEW)),
    ):
        np.testing.assert_array_equal(predicted, labels)


def test_features_are_matched_by_name():
    pd = pytest.importorskip("pandas")
    tables = [pd.DataFrame(view, columns=[f"f{j}" for j in range(view.shape[1])]) for view in FITTED]
    model = fitted(tm.ESTMC, tables)
    new = [pd.DataFrame(view, columns=table.columns) for view, table in zip(NEW, tables, strict=True)]
    labels = model.predict(new)
    turned = [table[table.columns[::-1]] for table in new]
    np.testing.assert_array_equal(model.predict(turned), labels)
    np.testing.assert_array_equal(model.predict([turned[0].assign(more=1.0), *turned[1:]]), labels)
    with pytest.raises(ValueError, match=r"^view 0 lacks 1 of the fitted features, such as 'f3'$"):
        model.predict([new[0].drop(columns="f3"), *new[1:]])


def test_repeated_names_match_only_in_the_order_of_the_fit():
    names = np.array(["a", "b", "a"])
    assert _prediction.matching_columns(names, names, 3, 3, "x") == slice(None)
    assert _prediction.matching_columns(np.array(["c", "c", "b", "a"]), np.array(["a", "b"]), 4, 2, "x") == [3, 2]
    for new, old in ((["a", "a", "b"], names), (["a", "b"], names), (["b", "a", "a"], np.array(["a", "b"]))):
        with pytest.raises(ValueError, match=r"^x has several features called 'a', .* pass them in the order of"):
            _prediction.matching_columns(np.array(new), old, len(new), len(old), "x")


def test_missing_rows_are_compared_in_the_other_views(model):
    with_gaps = [view.copy() for view in NEW]
    with_gaps[0][:20] = np.nan
    with_gaps[1][10:30] = np.nan
    labels = model.predict(with_gaps)
    np.testing.assert_array_equal(labels[30:], model.predict(NEW)[30:])
    for i in (0, 15, 25):
        assert model.predict([view[i : i + 1] for view in with_gaps]) == labels[i]
    assert np.mean(labels[:30] == model.predict(NEW)[:30]) > 0.6
    known = [view.copy() for view in FITTED]
    known[2][:] = np.nan
    assert np.mean(model.predict(known) == model.labels_) > 0.6


def test_exact_duplicates_and_equal_anchors():
    views = [np.repeat(view[:20], 20, axis=0) for view in VIEWS]
    model = tm.ESTMC(n_clusters=5, basis=tm.AGFT(n_anchors=64), random_state=0, max_iter=10).fit(views)
    np.testing.assert_array_equal(model.predict(views), model.labels_)
    labels = model.predict(NEW)
    for i in range(10):
        assert model.predict([view[i : i + 1] for view in NEW]) == labels[i]


def test_what_does_not_fit_the_model_is_an_error():
    model = fitted(tm.ESTMC)
    with pytest.raises(ValueError, match=r"^view 1 has 3 features; the model was fitted with \d+$"):
        model.predict([NEW[0], NEW[1][:, :3], *NEW[2:]])
    with pytest.raises(ValueError, match=r"^the views are view 0, view 1; the model was fitted with view 0, view 1, v"):
        model.predict(NEW[:2])
    with pytest.raises(ValueError, match=r"^the views are a, b; the model"):
        model.predict({"a": NEW[0], "b": NEW[1]})
    with pytest.raises(ValueError, match="contains NaN or infinity at row 0, column 0"):
        model.predict([np.where(np.eye(*view.shape, dtype=bool), np.inf, view) for view in NEW])
    with pytest.raises(NotFittedError):
        tm.ESTMC(basis="agft").predict(NEW)


@pytest.mark.parametrize(
    "estimator", [tm.TSVDMVC(basis="agft"), tm.GMC(), tm.ESTMC(basis="fft"), tm.ESTMC(), tm.TLRLF4MVC(basis="gft-sum")]
)
def test_the_others_say_what_places_new_samples(estimator):
    assert not hasattr(estimator, "predict")
    with pytest.raises(AttributeError) as error:
        estimator.predict(NEW)
    assert 'use MultiViewClustering, or ESTMC, ASRETR or TLRLF4MVC with basis="agft"' in str(error.value.__cause__)


def test_the_fitted_basis_decides():
    model = tm.ESTMC(n_clusters=10, random_state=0, max_iter=3).fit(FITTED)
    assert not hasattr(model, "predict")  # "auto" was a full spectrum
    model.set_params(basis=tm.AGFT(n_anchors=32)).fit(FITTED)
    np.testing.assert_array_equal(model.predict(FITTED), model.labels_)


def test_many_samples_take_the_memory_of_a_block(monkeypatch):
    model = fitted(tm.ESTMC)
    monkeypatch.setattr(_prediction, "_BLOCK", 2**14)
    new = [np.tile(view, (20, 1)) + 1e-3 for view in NEW]
    tracemalloc.start()
    try:
        model.predict(new)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # The checked copy of the samples, the keys and labels, and a few blocks of 128 kB.
    assert peak < 2.2 * sum(view.nbytes for view in new) + 2**22
