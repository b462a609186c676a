"""Data as they are measured: missing and empty samples, single gaps, useless views, and hostile inputs."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import tensormvc as tm
from tensormvc.auto._looks import gather_evidence
from tensormvc.auto._members import made_by_absence
from tensormvc.views import as_views

from .data import acc, blobs, fit, limit_landmarks, quiet_fit, with_gaps
from .test_estimator import assert_same_results

# 20 random inputs in the quick profile, 2 000 in the full one.
HOSTILE_INPUTS = 20 if settings.default.max_examples < 100 else 2000


@pytest.mark.parametrize("n_landmarks", [90, 50])
def test_order_changes_nothing_with_gaps(monkeypatch, n_landmarks):
    """Missing samples, single gaps, duplicates, and empty rows placed anywhere."""
    limit_landmarks(monkeypatch, n_landmarks)
    views = with_gaps(blobs(90, widths=(4, 6, 5))[0])
    for view in views:
        view[[2, 40]] = 0
    model = quiet_fit(views, 3)
    assert model.report_.n_empty == 2
    for seed in range(2):
        rng = np.random.default_rng(seed)
        order, view_order = rng.permutation(90), rng.permutation(3)
        assert_same_results(quiet_fit([views[v][order] for v in view_order], 3), model, order, view_order)


def test_gaps_cost_little():
    views, y = blobs(150, n_clusters=4, widths=(4, 6, 5))
    model = fit(with_gaps(views), 4)
    assert acc(y, model.labels_) > 0.97
    report = str(model.report_)
    assert "15 samples lack it" in report
    assert "30 single values were missing and were imputed" in report
    assert model.report_.n_gaps == {"view 1": 30}


def test_missing_samples_in_every_form_are_the_same():
    """Rows of NaN, rows of zeros, samples that are absent from a table, sparse rows without values."""
    pd = pytest.importorskip("pandas")
    views, _y = blobs(60)
    rows = np.arange(5, 15)
    nan, zero = views[0].copy(), views[0].copy()
    nan[rows], zero[rows] = np.nan, 0
    frames = [pd.DataFrame(view, index=[f"s{i}" for i in range(60)]) for view in views]
    forms = [
        [nan, views[1]],
        [zero, views[1]],
        [sp.csr_array(zero), views[1]],
        [frames[0].drop(index=frames[0].index[rows]), frames[1]],
    ]
    models = [fit(form, 3) for form in forms]
    ids = models[-1].sample_ids_.tolist()
    models[-1].labels_ = models[-1].labels_[[ids.index(f"s{i}") for i in range(60)]]
    for model in models:
        assert tm.metrics.clustering_accuracy(models[0].labels_, model.labels_) == 1
        assert "10 samples lack it" in str(model.report_)
        assert model.report_.n_single == 10
        assert "10 samples have only one view" in str(model.report_)


def test_empty_samples_are_left_out():
    views, y = blobs(90)
    empty = np.array([3, 4, 50])
    rest = np.setdiff1d(np.arange(90), empty)
    for view in views:
        view[empty] = 0
    with pytest.warns(UserWarning, match="3 samples have no value in any view: they were left out"):
        model = fit(views, 3)
    np.testing.assert_array_equal(model.labels_[empty], 0)
    np.testing.assert_array_equal(model.membership_[empty], 1 / 3)
    np.testing.assert_array_equal(model.confidence_[empty], 0)
    np.testing.assert_array_equal(model.outlier_score_[empty], 0)
    np.testing.assert_array_equal(model.sample_view_weights_[empty], 0)
    for k in (1, 2, 3, model.tree_.most):
        np.testing.assert_array_equal(model.labels_at(k)[empty], 0)
    assert np.isnan(model.map_[empty]).all()
    assert np.isfinite(model.map_[rest]).all()
    assert not np.isin(empty, model.landmarks_).any()
    assert "3 samples have no value in any view" in str(model.report_)
    assert acc(y[rest], model.labels_[rest]) > 0.97
    # The fit is that of the others.
    np.testing.assert_array_equal(fit([view[rest] for view in views], 3).membership_, model.membership_[rest])


def test_a_sample_without_any_view_is_named():
    views, _y = blobs()
    for view in views:
        view[[8, 30]] = np.nan
    with pytest.raises(ValueError, match=r"sample 8 is NaN in every view \(2 such samples\)"):
        fit(views, 3)
    with pytest.raises(ValueError, match="with a value that is not zero, and there are 1"):
        fit([np.eye(6)[:, :3] * [1, 0, 0], np.eye(6)[:, :4] * [1, 0, 0, 0]], 2)


def test_a_view_that_nobody_has_is_named():
    views, _y = blobs()
    views[1][1:] = np.nan
    with pytest.raises(ValueError, match="view 1 has values for 1 of the 90 samples compared: leave this view out"):
        fit(views, 3)


def test_zeros_are_values_where_everything_is_zero():
    """A view of zeros is one of constants, in which no sample is missing."""
    views, y = blobs(60)
    model = fit([*views, np.zeros((60, 2))], 3)
    assert model.report_.n_empty == 0
    assert acc(y, model.labels_) > 0.97
    np.testing.assert_array_equal(model.predict([*views, np.zeros((60, 2))]), model.labels_)


@pytest.mark.parametrize("draws", [1, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("useless", ["noise", "constants", "empty rows"])
def test_a_useless_view_costs_at_most_a_point(useless, draws):
    """On digits in three views, over several draws of a fourth view."""
    n = 120 if draws == 1 else 300
    views, y = tm.datasets.load_digits_views(n)
    views = views[:3]
    before = acc(y, fit(views).labels_)
    found = []
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        extra = {
            "noise": rng.normal(size=(n, 30)),
            "constants": np.full((n, 5), rng.normal()),
            "empty rows": rng.normal(size=(n, 30)) * (rng.random((n, 1)) < 0.1),
        }[useless]
        found.append(acc(y, fit([*views, extra]).labels_))
    assert np.mean(found) > before - 0.01


def test_a_view_that_few_samples_have_does_not_weigh_the_others():
    """Two views are compared on few samples then, and what they share beyond chance is chance, too."""
    lost = []
    for seed in (4, 6):
        rng = np.random.default_rng(seed)
        y = np.arange(150) % 4
        views = [rng.normal(size=(150, d)) + 2.2 * np.eye(d)[y] for d in (5, 7)]
        few = rng.normal(size=(150, 30)) * (rng.random((150, 1)) < 0.1)
        model, more = quiet_fit(views, 4), quiet_fit([*views, few], 4)
        lost.append(acc(y, model.labels_) - acc(y, more.labels_))
        assert abs(np.diff(more.sample_view_weights_[:, :2].mean(axis=0))) < 0.1
    assert np.mean(lost) < 0.01


def test_agreement_on_few_samples_does_not_relate_unrelated_views():
    related = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        few = rng.normal(size=(150, 30))
        few[rng.random(150) > 0.1] = np.nan
        views = [rng.normal(size=(150, 4)), rng.normal(size=(150, 5)), few]
        related.append(gather_evidence(as_views(views, lenient=True, unit=False)).related)
    assert sum(related) <= 1


KINDS = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "ties": lambda rng, shape: rng.integers(0, 3, size=shape).astype(float),
    "constant": lambda rng, shape: np.full(shape, rng.normal()),
    "one-hot": lambda rng, shape: np.eye(shape[1])[rng.integers(shape[1], size=shape[0])],
    "duplicates": lambda rng, shape: rng.normal(size=shape)[rng.integers(1 + shape[0] // 4, size=shape[0])],
    "nearly duplicates": lambda rng, shape: np.ones(shape) + 1e-9 * rng.normal(size=shape),
    "few counts": lambda rng, shape: rng.poisson(0.05, size=shape).astype(float),
    "counts": lambda rng, shape: rng.poisson(5, size=shape).astype(float),
    "zeros": lambda rng, shape: np.zeros(shape),
    "extreme": None,
    "mixed sizes": lambda rng, shape: rng.normal(size=shape) * 10.0 ** rng.integers(-60, 45, size=shape),
}


@st.composite
def hostile_views(draw):
    """Views with ties, constants, duplicates, extreme values and all kinds of gaps, and a number of clusters."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(2, 30))
    views, first = [], None
    for _ in range(draw(st.integers(1, 3))):
        d = draw(st.sampled_from([1, 2, 3, 5, 12, 40]))
        shape = (n, d)
        kind = draw(st.sampled_from(list(KINDS)))
        if kind == "extreme":
            view = rng.normal(size=shape) * 10.0 ** draw(st.sampled_from([-300, -40, 40, 300]))
        else:
            view = KINDS[kind](rng, shape)
        first = view.copy() if first is None else first
        gaps = draw(st.sampled_from(["none", "none", "missing", "empty", "cells", "most", "all of these"]))
        if gaps in ("missing", "all of these"):
            view[rng.random(n) < 0.3] = np.nan
        if gaps in ("empty", "all of these"):
            view[rng.random(n) < 0.3] = 0
        if gaps in ("cells", "all of these"):
            view[rng.random(shape) < 0.3] = np.nan
        if gaps == "most":
            view[rng.random(n) < 0.7] = np.nan
        views.append(sp.csr_array(view) if draw(st.booleans()) and draw(st.booleans()) else view)
    if draw(st.booleans()):
        # Most inputs shall be possible: no sample is NaN everywhere.
        lost = np.all([np.isnan(view.sum(axis=1)) for view in views], axis=0)
        # With their own values: which views samples have must not depend on the values, or it would be information.
        views[0] = np.where(lost[:, None], first, dense(views[0]))
    return views, draw(st.one_of(st.integers(1, 6), st.just("auto")))


@settings(max_examples=HOSTILE_INPUTS)
@given(hostile_views())
def test_hostile_inputs_lead_to_a_clustering_or_to_an_error_of_ours(case):
    views, n_clusters = case
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        said = (
            "no view confirms another",
            "the clusters are weak",
            "the clusters may be parts of a continuum",
            "the clusters follow which views",
            r"\d+ samples have no value",
        )
        for message in said:
            warnings.filterwarnings("ignore", message, UserWarning)
        warnings.filterwarnings("ignore", "only . distinct clusters", ConvergenceWarning)
        try:
            model = tm.MultiViewClustering(n_clusters, random_state=0).fit(views)
        except ValueError as error:
            assert "tensormvc" in innermost_file(error)  # noqa: PT017
            return
        check_results(model, views)
        if HOSTILE_INPUTS > 20:
            order = np.random.default_rng(0).permutation(len(model.labels_))
            again = tm.MultiViewClustering(n_clusters, random_state=0).fit([view[order] for view in views])
            np.testing.assert_array_equal(again.membership_, model.membership_[order])
        assert str(model.report_)
        model.explain()
        model.explain_sample(0)


@pytest.mark.slow
@settings(max_examples=HOSTILE_INPUTS)
@given(hostile_views())
def test_no_cluster_is_what_lacks_a_view(case):
    views, n_clusters = case
    try:
        model = quiet_fit(views, n_clusters)
    except ValueError:
        return
    assert_no_cluster_is_what_lacks_a_view(model, views)


@pytest.mark.parametrize("n_clusters", [2, "auto"])
def test_views_of_constants_that_some_samples_lack_make_no_clusters(n_clusters):
    lacking = np.full((22, 3), 0.5)
    lacking[[0, 1, 2, 10, 12, 14, 17]] = np.nan
    model = quiet_fit([lacking, np.full((22, 1), 0.3)], n_clusters)
    assert model.n_clusters_ == 1
    check_results(model, [lacking, np.full((22, 1), 0.3)])


def absent_in_the_clearest_view(separation):
    """Two categories, which a third group of samples lacks, beside a view that may show all three groups."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(3), [6, 6, 5])
    categories = np.array([[1, 0], [0, 1], [np.nan, np.nan]])[groups]
    return [rng.normal(size=(17, 5)) + separation * np.eye(5)[groups], categories], groups


def test_samples_that_lack_a_view_are_no_cluster_by_themselves():
    views, groups = absent_in_the_clearest_view(separation=0)
    model = quiet_fit(views, 3)
    assert_no_cluster_is_what_lacks_a_view(model, views)
    check_results(model, views)
    assert model.n_clusters_ == 2
    assert tm.metrics.ari(groups[groups < 2], model.labels_[groups < 2]) == 1


def test_clusters_by_which_views_samples_have_are_recognised():
    """Groups of ten samples: two have a view that tells them apart, the third one of noise, and the last constants."""
    groups = np.repeat(np.arange(4), 10)
    clear, noise = np.full((40, 1), np.nan), np.full((40, 5), np.nan)
    clear[:20] = 1.0 + groups[:20, None]
    noise[20:30] = np.random.default_rng(0).normal(size=(10, 5))
    evidence = gather_evidence(as_views([clear, noise, np.ones((40, 3))], lenient=True, unit=False, canonical=False))

    def artefacts(labels):
        return made_by_absence(evidence, np.array(labels), len(labels)).tolist()[: max(labels) + 1]

    assert artefacts(groups.tolist()) == [False, False, True, True]
    assert artefacts((groups // 2).tolist()) == [True, True]
    assert artefacts((groups % 2).tolist()) == [False, False]
    assert artefacts([0] * 40) == [False]


@pytest.mark.parametrize(("n_lacking", "artefact"), [(2, True), (4, True), (5, False), (8, False)])
def test_a_few_samples_far_from_the_others_show_nothing(n_lacking, artefact):
    """Two of them are each other's nearest neighbours by chance in one case out of n."""
    rng = np.random.default_rng(0)
    lacking = np.arange(20) < n_lacking
    views = [rng.normal(size=(20, 3)) + 20 * lacking[:, None], np.where(lacking, np.nan, 1.0)[:, None]]
    evidence = gather_evidence(as_views(views, lenient=True, unit=False, canonical=False))
    assert made_by_absence(evidence, lacking.astype(np.intp), 2)[1] == artefact


def test_a_cluster_that_lacks_a_view_is_kept_if_other_views_show_it():
    views, groups = absent_in_the_clearest_view(separation=12)
    assert tm.metrics.ari(groups, quiet_fit(views, 3).labels_) == 1


def test_order_changes_nothing_where_views_have_the_same_rows_for_other_samples():
    """Samples with exchanged rows are told apart, whatever the form of the views."""
    rng = np.random.default_rng(0)
    first, second = (np.where(rng.permutation(20) < 6, np.nan, 1)[:, None] for _ in range(2))
    views = [first, rng.normal(size=(20, 1)).round(), second]
    order = rng.permutation(20)
    for form in (np.array, sp.csr_array):
        model = quiet_fit([*views[:2], form(second)], 3)
        again = quiet_fit([first[order], views[1][order], form(second[order])], 3)
        np.testing.assert_array_equal(again.membership_, model.membership_[order])


@pytest.mark.parametrize("width", [1, 2, 3])
def test_zero_is_a_value_in_a_narrow_view(width):
    rng = np.random.default_rng(0)
    levels = np.repeat(np.arange(3.0), 10)[:, None] * np.ones(width)
    model = quiet_fit([levels, rng.normal(size=(30, 4))], 3)
    assert sum(choice.n_missing for choice in model.report_.normalisations) == (10 if width > 2 else 0)


def assert_no_cluster_is_what_lacks_a_view(model, views):
    """Views that fewer than five samples lack, or have, are left out: chance may make such clusters."""
    lacking = np.column_stack([lacks(dense(view)) for view in views])
    empty = lacking.all(axis=1)
    for cluster in range(model.n_clusters_):
        members = (model.labels_ == cluster) & ~empty
        for lack in (lacking[:, v] & ~empty for v in range(len(views)) if 5 <= lacking[:, v].sum() < len(lacking) - 5):
            assert not (members.any() and np.array_equal(members, lack))


def lacks(view):
    """Rows of NaN, or of zeros where there are three features or more."""
    empty = ~np.nan_to_num(view).any(axis=1)
    return empty if view.shape[1] > 2 else np.isnan(view).all(axis=1)


def innermost_file(error):
    traceback = error.__traceback__
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_frame.f_code.co_filename


def dense(view):
    return view.toarray() if sp.issparse(view) else view


def check_results(model, views):
    """Everything is finite, rows sum to 1, labels are defined by shares, levels have their number of clusters."""
    described = np.diff(model.links_.indptr) > 0
    for values in (model.membership_, model.embedding_, model.outlier_score_, model.sample_view_weights_):
        assert np.isfinite(values).all()
    assert np.isfinite(model.map_[described]).all()
    np.testing.assert_allclose(model.membership_.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(model.labels_, np.argmax(model.membership_, axis=1))
    np.testing.assert_array_equal(model.predict_proba(views), model.membership_)
    np.testing.assert_array_equal(model.predict_proba([view[[0]] for view in views]), model.membership_[:1])
    for k in (1, model.n_clusters_, model.tree_.most):
        assert len(np.unique(model.labels_at(k)[described])) == k


@pytest.mark.parametrize("count", [2, 3])
def test_a_view_that_hardly_any_sample_has(count):
    """The number of clusters is estimated on some samples, none of which may have the view."""
    views, y = blobs(1500, widths=(4, 6, 5))
    whole = views[2].copy()
    for first in range(0, 1500, count):
        views[2] = np.full((1500, 5), np.nan)
        views[2][first : first + count] = whole[first : first + count]
        place = np.argsort(np.argsort(as_views(views, unit=False, canonical=False, lenient=True).row_keys))
        if place[first : first + count].min() >= 1000:
            break
    model = quiet_fit(views, "auto")
    assert model.n_clusters_ == 3
    assert tm.metrics.ari(y, model.labels_) > 0.95
