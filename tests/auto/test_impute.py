"""Completing views: single gaps and missing samples from the nearest neighbours in all views."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import tensormvc as tm
from tensormvc.auto._impute import Completion, complete_gaps
from tensormvc.auto._low_rank import low_rank_values

from .data import blobs, with_gaps


def standardised(view):
    mean, deviation = np.nanmean(view, axis=0), np.nanstd(view, axis=0)
    return (view - mean) / deviation / np.sqrt(view.shape[1])


def test_missing_samples_are_the_mean_of_their_nearest_neighbours():
    """In the views that both have; neighbours that lack the view, too, are left out."""
    rng = np.random.default_rng(0)
    views = [rng.normal(size=(40, 3)), rng.normal(size=(40, 4)), rng.normal(size=(40, 2))]
    lacking = {0: np.arange(0, 6), 1: np.arange(4, 9), 2: np.array([20])}
    for v, rows in lacking.items():
        views[v][rows] = np.nan
    completed = tm.impute_views(views)
    parts = [standardised(view) for view in views]
    present = np.column_stack([~np.isnan(view[:, 0]) for view in views])
    for v, rows in lacking.items():
        for i in rows:
            distances = np.full(40, np.inf)
            for j in range(40):
                common = present[i] & present[j]
                if j != i and common.any():
                    total = sum(((parts[u][i] - parts[u][j]) ** 2).sum() for u in np.flatnonzero(common))
                    distances[j] = total / common.sum()
            nearest = np.argsort(distances)[:10]
            expected = views[v][nearest[present[nearest, v]]].mean(axis=0)
            np.testing.assert_allclose(completed[v][i], expected, rtol=1e-12)
        np.testing.assert_array_equal(completed[v][present[:, v]], views[v][present[:, v]])


def test_known_values_stay():
    views = with_gaps(blobs()[0])
    completed = tm.impute_views(views)
    for view, whole in zip(views, completed, strict=True):
        known = ~np.isnan(view)
        assert np.isfinite(whole).all()
        np.testing.assert_array_equal(whole[known], view[known])


def test_completed_values_are_closer_than_means():
    views, _y = blobs(150, widths=(5, 6))
    rng = np.random.default_rng(0)
    holes = rng.random(views[0].shape) < 0.2
    rows = rng.permutation(150)[:20]
    gappy = [np.where(holes, np.nan, views[0]), views[1].copy()]
    gappy[1][rows] = np.nan
    completed = tm.impute_views(gappy)
    for view, whole, lost in ((views[0], completed[0], holes), (views[1], completed[1], np.isnan(gappy[1]))):
        error = np.sqrt(np.mean((whole - view)[lost] ** 2))
        # The noise within a cluster has deviation 1, the centres 6: the mean of ten others is off by about 1.05.
        assert error < 1.6
        assert error < 0.4 * np.sqrt(np.mean((np.broadcast_to(view.mean(axis=0), view.shape) - view)[lost] ** 2))


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_order_changes_nothing(rate):
    views, _y = blobs(60)
    rng = np.random.default_rng(0)
    for view in views:
        view[rng.random(view.shape) < rate] = np.nan
    views[0][:4] = np.nan
    views[1][:4] = 1.0
    completed = tm.impute_views(views)
    order = rng.permutation(60)
    again = tm.impute_views([view[order] for view in views[::-1]])
    np.testing.assert_array_equal(again[1], completed[0][order])
    np.testing.assert_array_equal(again[0], completed[1][order])


def test_forms_of_views():
    pd = pytest.importorskip("pandas")
    a = pd.DataFrame({"x": [1.0, 2, 3, np.nan], "y": [1.0, 2, 3, 4]}, index=list("abcd"))
    b = pd.DataFrame({"z": [5.0, 6, 7]}, index=list("bcd"))
    completed = tm.impute_views({"first": a, "second": b})
    assert list(completed) == ["first", "second"]
    assert completed["second"].shape == (4, 1)
    np.testing.assert_array_equal(completed["second"][1:], b.to_numpy())
    np.testing.assert_allclose(completed["second"][0, 0], 6)
    np.testing.assert_allclose(completed["first"][3, 0], 2)
    joined = tm.impute_views(np.arange(12.0).reshape(4, 3), view_sizes=[2, 1])
    assert [view.shape for view in joined] == [(4, 2), (4, 1)]
    sparse = sp.random_array((30, 50), density=0.05, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(tm.impute_views([sparse, np.eye(30)])[0], sparse.toarray())


def test_views_without_gaps_stay_and_inputs_are_not_changed():
    views, _y = blobs()
    for view, whole in zip(views, tm.impute_views(views), strict=True):
        np.testing.assert_array_equal(whole, view)
    gappy = with_gaps(views)
    before = [view.copy() for view in gappy]
    tm.impute_views(gappy)
    for view, old in zip(gappy, before, strict=True):
        np.testing.assert_array_equal(view, old)


def test_a_sample_that_is_missing_everywhere_is_named():
    views, _y = blobs()
    for view in views:
        view[17] = np.nan
    with pytest.raises(ValueError, match="sample 17 is NaN in every view"):
        tm.impute_views(views)


def test_a_view_that_nobody_has_is_named():
    views, _y = blobs()
    with pytest.raises(ValueError, match="view 1 has no values to complete it from: leave this view out"):
        tm.impute_views([views[0], np.full((90, 3), np.nan)])


@pytest.mark.filterwarnings("error")
@given(st.integers(0, 10**6), st.integers(2, 25), st.sampled_from([0.1, 0.5, 0.9]))
def test_any_number_of_gaps_is_completed(seed, n, rate):
    rng = np.random.default_rng(seed)
    views = [rng.integers(0, 4, size=(n, d)).astype(float) for d in (1, 3)]
    missing = rng.random((n, 2)) < 0.3
    missing[missing.all(axis=1), 0] = False
    for view, lacking in zip(views, missing.T, strict=True):
        view[rng.random(view.shape) < rate] = np.nan
        view[lacking] = 0
    filled = complete_gaps(views, missing)
    for view, whole in zip(views, filled, strict=True):
        known = ~np.isnan(view)
        np.testing.assert_array_equal(whole[known], view[known])
        assert np.isfinite(whole).all()
        assert whole.min() >= 0
        assert whole.max() <= 3
    completed = Completion.of(filled, missing).completed(views, missing)
    assert all(np.isfinite(view).all() for view in completed)


def test_a_feature_that_nobody_has_is_named():
    views, _ = tm.datasets.make_multiview(20, n_clusters=2, random_state=0)
    views[1][4], views[1][np.arange(20) != 4, 2] = np.nan, np.nan
    with pytest.raises(ValueError, match="view 1 has no known value in column 2: leave this column out"):
        tm.impute_views(views)


def test_methods_that_refuse_gaps_name_the_remedy():
    views = with_gaps(blobs()[0])
    with pytest.raises(ValueError, match="impute_views"):
        tm.ESTMC(3).fit(views)
    labels = tm.TSVDMVC(3, tol=1e9, random_state=0).fit(tm.impute_views(views)).labels_
    assert labels.shape == (90,)


def test_features_that_depend_on_each_other_complete_each_other():
    """A matrix of rank 3: neighbours know its values roughly, the other features nearly exactly."""
    rng = np.random.default_rng(0)
    whole = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 20)) + 5
    holes = rng.random(whole.shape) < 0.2
    (found,) = complete_gaps([np.where(holes, np.nan, whole)], np.zeros((200, 1), dtype=bool))
    np.testing.assert_array_equal(found[~holes], whole[~holes])
    deviation = whole.std(axis=0)
    # Ten rounds of a method that converges linearly.
    assert np.sqrt(np.mean(np.square((found - whole) / deviation)[holes])) < 0.15


def test_independent_features_are_completed_from_neighbours():
    """Clusters of twenty equal samples, whose features are noise otherwise: no matrix of low rank is close to them."""
    rng = np.random.default_rng(0)
    whole = np.repeat(rng.normal(size=(60, 40)), 20, axis=0)
    holes = rng.random(whole.shape) < 0.1
    (found,) = complete_gaps([np.where(holes, np.nan, whole)], np.zeros((1200, 1), dtype=bool))
    np.testing.assert_allclose(found, whole, atol=1e-12)


def test_completed_values_stay_within_those_of_their_feature():
    rng = np.random.default_rng(0)
    whole = np.exp(rng.normal(size=(100, 2)) @ rng.normal(size=(2, 12)))
    holes = rng.random(whole.shape) < 0.3
    holes[:, 0] = True  # nothing is known of it
    start = np.where(holes, 1.0, whole)
    found = low_rank_values(whole, holes, start, 3)
    known = np.where(holes, np.nan, whole)[:, 1:]
    assert (found[:, 1:] >= np.nanmin(known, axis=0) - 1e-12).all()
    assert (found[:, 1:] <= np.nanmax(known, axis=0) * (1 + 1e-12)).all()
    np.testing.assert_array_equal(found[:, 0], start[:, 0])
    np.testing.assert_allclose(found[~holes], whole[~holes], rtol=1e-12)


def test_where_no_neighbour_has_a_value_it_is_the_mean_of_those_that_have():
    """A view that one in twenty samples has: samples without it do not count as zeros."""
    rng = np.random.default_rng(0)
    rare = np.full((400, 2), np.nan)
    rare[::20] = 1000 + rng.normal(size=(20, 2))
    rare[0, 0] = np.nan
    completed = tm.impute_views([rng.normal(size=(400, 5)), rare])[1]
    assert np.abs(completed - 1000).max() < 5


def test_one_table_is_a_list_of_one_view():
    pd = pytest.importorskip("pandas")
    values = np.arange(12.0).reshape(4, 3)
    (completed,) = tm.impute_views(pd.DataFrame(values, columns=list("abc")))
    np.testing.assert_array_equal(completed, values)
