"""Ways to look at the views: shared neighbours, the scaling of each view, and how much views and samples count."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import tensormvc as tm
from tensormvc.auto._evidence import neighbours_in, spread
from tensormvc.auto._looks import _shared_links, asked_weights, gather_evidence, gather_looks, scaled_rows
from tensormvc.auto._scaling import fit_and_scale
from tensormvc.views import as_views

from .data import blobs, with_gaps


def shared_by_brute_force(graphs, view_of, missing):
    """Common links over the root of both numbers of links, among samples in both views, minus its mean by chance."""
    result = np.empty((len(graphs), len(graphs)))
    for a, one in enumerate(graphs):
        for b, other in enumerate(graphs):
            both = np.flatnonzero(~missing[:, view_of[a]] & ~missing[:, view_of[b]])
            links = [{(i, j) for i in both for j in both if graph[i, j]} for graph in (one, other)]
            size = np.sqrt(len(links[0]) * len(links[1]))
            chance = size / max(len(both) * (len(both) - 1), 1)
            result[a, b] = len(links[0] & links[1]) / size - chance if size else 0
    return result


@given(st.integers(0, 10**6), st.integers(2, 20), st.sampled_from([0.0, 0.3, 0.8]))
def test_shared_links_are_those_of_brute_force(seed, n, rate):
    rng = np.random.default_rng(seed)
    missing = rng.random((n, 3)) < rate
    view_of = np.array([0, 0, 1, 2, 2])
    graphs = []
    for v in view_of:
        links = rng.random((n, n)) < 0.3
        np.fill_diagonal(links, False)
        links[missing[:, v]] = links[:, missing[:, v]] = False
        graphs.append(links.astype(float))
    found = _shared_links([sp.csr_array(graph) for graph in graphs], view_of, missing)
    expected = shared_by_brute_force(graphs, view_of, missing)
    # Counts, a root and a quotient.
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_neighbours_are_searched_among_the_samples_that_have_the_view():
    rng = np.random.default_rng(0)
    n = 40
    missing = rng.random((n, 2)) < 0.4
    parts = [rng.normal(size=(n, 3)), rng.normal(size=(n, 5))]
    for part, lacking in zip(parts, missing.T, strict=True):
        part[lacking] = 0
    for part, lacking, lists in zip(parts, missing.T, neighbours_in(parts, missing), strict=True):
        graph = spread(lists.nearest(4).graph(), ~lacking).toarray()
        distances = ((part[:, None] - part) ** 2).sum(axis=2)
        np.fill_diagonal(distances, np.inf)
        distances[lacking] = distances[:, lacking] = np.inf
        expected = np.zeros((n, n))
        for i in np.flatnonzero(~lacking):
            expected[i, np.argsort(distances[i])[:4]] = 1
        np.testing.assert_array_equal(graph, expected)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_scaled_rows_are_zero_where_a_sample_is_missing(form):
    view = np.random.default_rng(0).normal(size=(10, 4))
    for name in ("z-score", "whitened", "unit"):
        scaling = fit_and_scale(view, name)[0]
        whole = np.asarray(scaling.apply(view))
        for rows in (np.arange(10), np.array([1, 4, 7]), np.zeros(0, dtype=int)):
            scaled = scaled_rows(scaling, form(view), rows)
            expected = np.zeros_like(whole)
            expected[rows] = whole[rows]
            np.testing.assert_allclose(scaled.toarray() if sp.issparse(scaled) else scaled, expected, atol=1e-12)


def test_views_confirm_the_right_scaling():
    """One feature of a view drowns the others unless it is scaled; the other view knows better."""
    views, _y = tm.datasets.make_multiview(300, n_clusters=4, n_features=(12, 15), random_state=0)
    rng = np.random.default_rng(0)
    drowned = np.column_stack([views[0], 1000 * rng.normal(size=300)])
    evidence = gather_evidence(as_views({"drowned": drowned, "good": views[1]}, unit=False))
    chosen = {choice.view: choice for choice in evidence.choices}
    assert chosen["drowned"].name in ("z-score", "z-score-unit", "range")
    assert chosen["drowned"].shared > 0.05
    assert evidence.related


@pytest.mark.parametrize("useless", ["noise", "constants", "one-hot noise"])
def test_a_view_that_says_nothing_gets_little_weight(useless):
    views, _y = tm.datasets.make_multiview(300, n_clusters=4, random_state=0)
    rng = np.random.default_rng(0)
    extra = {
        "noise": rng.normal(size=(300, 20)),
        "constants": np.full((300, 3), 2.5),
        "one-hot noise": np.eye(5)[rng.integers(5, size=300)],
    }[useless]
    named = {"a": views[0], "b": views[1], "useless": extra}
    for evidence in gather_looks(as_views(named, unit=False)):
        weights = dict(zip(evidence.views.names, evidence.weights, strict=True))
        assert weights["useless"] < 0.2 * min(weights["a"], weights["b"])
        assert evidence.related


def test_unrelated_views_are_weighted_by_their_own_neighbourhoods():
    """Two halves of the features agree on neighbours where there are clusters, and not in noise."""
    rng = np.random.default_rng(0)
    clustered, _y = blobs(200, widths=(12,))
    evidence = gather_evidence(as_views({"clusters": clustered[0], "noise": rng.normal(size=(200, 12))}, unit=False))
    weights = dict(zip(evidence.views.names, evidence.weights, strict=True))
    assert not evidence.related
    assert weights["noise"] < 0.2 * weights["clusters"]


def test_samples_with_few_views_are_not_near_to_all_others():
    """A mean of few distances is often small: then these samples link clusters that have nothing in common."""
    views, y = tm.datasets.load_digits_views(600)
    views = [views[0], views[1], np.hstack(views)[:, ::3], np.hstack(views)[:, 1::3]]
    missing = np.random.default_rng(0).random((600, 4)) < 0.35
    missing[missing.all(axis=1), 0] = False
    for view, lacking in zip(views, missing.T, strict=True):
        view[lacking] = np.nan
    for look in gather_looks(as_views(views, unit=False, canonical=False, lenient=True)):
        graph, few = look.graph("joint").tocoo(), look.views.missing.sum(axis=1) > 1
        row, column = graph.coords
        degrees = np.bincount(row, graph.data)
        assert degrees[few].mean() < degrees.mean()
        assert graph.data[y[row] == y[column]].sum() > 0.78 * graph.data.sum()


def test_sample_weights_leave_out_what_is_missing():
    views, _y = blobs()
    views = as_views([with_gaps(views)[0], views[1]], unit=False, lenient=True)
    evidence = gather_evidence(views)
    weights = evidence.sample_weights
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-12)
    assert (weights[views.missing] == 0).all()
    assert (weights[~views.missing] > 0).all()


def test_a_view_counts_less_where_no_other_view_confirms_it():
    views, _y = blobs(200, widths=(5, 6, 7))
    rng = np.random.default_rng(0)
    bad = rng.random(200) < 0.3
    views[0][bad] = 3 * rng.normal(size=(bad.sum(), 5))
    taken = as_views(views, unit=False)
    weights = taken.to_given_order(gather_evidence(taken).sample_weights)[:, np.argsort(taken.view_order)]
    assert weights[bad, 0].mean() < 0.95 * weights[~bad, 0].mean()


def test_weights_are_asked_for_by_name_or_in_order():
    views = as_views({"b": np.ones((4, 2)), "a": np.eye(4), "c": np.arange(8.0).reshape(4, 2)}, unit=False)
    by_name = dict(zip(views.names, asked_weights({"a": 2, "c": 0}, views), strict=True))
    assert by_name == {"a": 2, "b": None, "c": 0}
    in_order = dict(zip(views.names, asked_weights([1, "auto", np.float32(3)], views), strict=True))
    assert in_order == {"b": 1, "a": None, "c": 3}
    assert asked_weights("auto", views) == [None] * 3


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"a": -1}, "view_weights has -1: a weight is 'auto' or a finite number"),
        ({"a": np.inf}, "view_weights has inf"),
        ({"a": np.nan}, "view_weights has nan"),
        ({"a": "much"}, "view_weights has 'much'"),
        ([0, 0], "all 0: at least one view must count"),
        ({"x": 1}, "view_weights has no view named 'x'; the views are"),
        ([1], "one for each of the 2 views"),
    ],
)
def test_wrong_weights_are_named(asked, message):
    with pytest.raises(ValueError, match=message):
        asked_weights(asked, as_views({"a": np.eye(4), "b": np.ones((4, 1))}, unit=False))


def test_asked_weights_are_used():
    views, _y = blobs(60, widths=(4, 5, 6))
    taken = as_views(dict(zip("abc", views, strict=True)), unit=False)
    for look in gather_looks(taken, view_weights={"a": 3, "b": 1, "c": 0}):
        weights = dict(zip(look.views.names, look.weights, strict=True))
        assert weights["a"] == pytest.approx(3 * weights["b"])
        assert weights["c"] == 0
        np.testing.assert_array_equal(look.sample_weights[:, look.views.names.index("c")], 0)
