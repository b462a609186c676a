"""Criteria without labels: closed forms, brute force, and choices that are known to be right."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator

import tensormvc as tm
from tensormvc.selection import modularity, neighbour_information


def random_graph(seed, n):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.4), 1)
    upper[0, 1] = 1.0
    return upper + upper.T


@given(st.integers(0, 10**6), st.integers(4, 20), st.integers(1, 5))
def test_both_measures_are_their_definitions(seed, n, k):
    graph = random_graph(seed, n)
    labels = np.random.default_rng(seed + 1).integers(k, size=n)
    total = graph.sum()
    information, inside = 0.0, 0.0
    for a in range(k):
        for b in range(k):
            joint = graph[np.ix_(labels == a, labels == b)].sum() / total
            expected = graph[labels == a].sum() / total * graph[labels == b].sum() / total
            if joint > 0:
                information += joint * np.log(joint / expected)
            if a == b:
                inside += joint - expected
    # Sums of at most 400 terms below 1.
    assert neighbour_information(graph, labels) == pytest.approx(max(0, information), abs=1e-12)
    assert modularity(sp.csr_array(graph), labels) == pytest.approx(inside, abs=1e-12)


@given(st.integers(0, 10**6), st.permutations(range(12)))
def test_names_and_order_of_the_clusters_mean_nothing(seed, order):
    graph, labels = random_graph(seed, 12), np.random.default_rng(seed).integers(3, size=12)
    order = np.array(order)
    permuted = neighbour_information(graph[np.ix_(order, order)], np.array(["x", "b", "m"])[labels[order]])
    assert permuted == pytest.approx(neighbour_information(graph, labels), abs=1e-12)


def test_a_graph_that_cannot_tell_two_clusters_apart_does_not_vote_against_them():
    graph = np.kron(np.eye(2), np.ones((6, 6)))
    apart, joined = np.repeat([0, 1, 2, 3], 3), np.repeat([0, 0, 1, 1], 3)
    assert neighbour_information(graph, apart) == pytest.approx(neighbour_information(graph, joined), abs=1e-12)
    assert modularity(graph, apart) < modularity(graph, joined) - 0.2


@pytest.mark.parametrize("measure", [neighbour_information, modularity])
def test_bad_input_is_refused(measure):
    with pytest.raises(ValueError, match="3 labels"):
        measure(np.ones((4, 4)), [0, 1, 2])
    with pytest.raises(ValueError, match="no links"):
        measure(np.zeros((3, 3)), [0, 1, 2])


@pytest.mark.parametrize("criterion", ["neighbour-information", "modularity", "held-out-view"])
def test_true_labels_score_above_spoilt_ones(criterion):
    views, y = tm.datasets.make_multiview(240, n_clusters=4, random_state=0)
    rng = np.random.default_rng(0)
    spoilt = [np.where(rng.random(240) < share, rng.integers(4, size=240), y) for share in (0.0, 0.2, 0.5, 1.0)]
    found = tm.select_model(spoilt, views, criterion=criterion)
    assert (np.diff(found.scores) < 0).all()
    assert found.best_index == 0
    assert found.to_frame()["candidate"].tolist() == ["0", "1", "2", "3"]


@pytest.mark.parametrize("criterion", ["stability", "silhouette"])
def test_estimators_are_scored(criterion):
    views, y = tm.datasets.make_multiview(160, n_clusters=4, random_state=0)
    models = {c: tm.ESTMC(c, random_state=0).fit(views) for c in (4, 9)}
    assert tm.select_model(models, views, criterion=criterion, random_state=0).best.n_clusters == 4
    with pytest.raises(ValueError, match="candidate 0"):
        tm.select_model([y], views, criterion=criterion)


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("order", [["rna", "counts", "number"], ["number", "counts", "rna"]])
def test_estimators_are_fitted_again_to_samples_and_views_as_they_were_given(order, named):
    rng = np.random.default_rng(0)
    rna, counts = rng.normal(size=(40, 3)), rng.poisson(1.0, size=(40, 5)).astype(float)
    rna[4:6], rna[7, 1], counts[20:23], counts[30, 0] = np.nan, np.nan, np.nan, np.nan
    views = {"rna": rna, "counts": sp.csr_array(counts), "number": np.arange(40.0)[:, None]}
    views = {name: views[name] for name in order}
    fitted_to = []

    class Recorder(BaseEstimator):
        labels_ = np.zeros(40)

        def fit_predict(self, views):
            fitted_to.append(views)
            return np.zeros(32)

    tm.select_model([Recorder()], views if named else list(views.values()), criterion="stability", random_state=0)
    assert len(fitted_to) == 3
    for parts in fitted_to:
        assert isinstance(parts, dict if named else list)
        parts = parts if named else dict(zip(views, parts, strict=True))
        assert list(parts) == order
        rows = parts["number"][:, 0].astype(int)
        assert (np.diff(rows) > 0).all()
        np.testing.assert_array_equal(parts["rna"], rna[rows])
        np.testing.assert_array_equal(parts["counts"].toarray(), counts[rows])


@pytest.mark.filterwarnings("ignore:no view confirms another")
def test_weights_of_views_mean_the_same_views_in_every_fit():
    views, _ = tm.datasets.make_multiview(80, n_clusters=3, random_state=0)
    views = {"rna": views[0], "noise": np.random.default_rng(0).normal(size=(80, 5))}
    scores = []
    for order in (["rna", "noise"], ["noise", "rna"]):
        parts = {name: views[name] for name in order}
        weights = {"rna": 1, "noise": 0}
        models = [
            tm.MultiViewClustering(3, view_weights=asked, effort="low", random_state=0).fit(parts)
            for asked in (weights, [weights[name] for name in order])
        ]
        scores += tm.select_model(models, parts, criterion="stability", random_state=0).scores.tolist()
    assert len(set(scores)) == 1
    assert scores[0] > 0.9


@pytest.mark.parametrize(
    "criterion", ["neighbour-information", "modularity", "held-out-view", "stability", "silhouette"]
)
def test_incomplete_tables_are_scored(criterion):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed (extra 'mudata')")
    views, _ = tm.datasets.make_multiview(120, n_clusters=3, random_state=0)
    a, b, c = (pandas.DataFrame(view, index=[f"cell {i}" for i in range(120)]) for view in views)
    with_gaps = a.mask(np.random.default_rng(0).random(a.shape) < 0.02)
    scores = []
    for tables in ({"a": a, "b": b, "c": c}, {"a": with_gaps[::-1], "b": b[12:], "c": c}):
        model = tm.MultiViewClustering(3, effort="low", random_state=0).fit(tables)
        scores.append(tm.select_model([model], tables, criterion=criterion, random_state=0).scores[0])
    assert scores[1] == pytest.approx(scores[0], abs=0.1)


@pytest.mark.parametrize("criterion", ["neighbour-information", "modularity", "held-out-view"])
def test_empty_rows_are_missing(criterion):
    """Thirty equal samples in a view would be each other's nearest neighbours."""
    views, y = tm.datasets.make_multiview(120, n_clusters=3, random_state=0)
    scores = []
    for nothing in (0, np.nan):
        views[1][::4] = nothing
        scores.append(tm.select_model([y], views, criterion=criterion).scores[0])
    assert scores[0] == scores[1]


def test_the_order_of_the_samples_changes_no_score():
    views, y = tm.datasets.load_digits_views(200)
    labels = [y, tm.ESTMC(10, random_state=0).fit_predict(views)]
    order = np.random.default_rng(0).permutation(200)
    scores = tm.select_model(labels, views).scores
    permuted = tm.select_model([one[order] for one in labels], [view[order] for view in views]).scores
    np.testing.assert_array_equal(permuted, scores)


def test_wrong_candidates_and_criteria_are_named():
    views, _ = tm.datasets.load_digits_views(60)
    with pytest.raises(ValueError, match="unknown criterion 'ACC'"):
        tm.select_model([np.zeros(60)], views, criterion="ACC")
    with pytest.raises(ValueError, match="candidates is empty"):
        tm.select_model([], views)
    with pytest.raises(ValueError, match="candidate a: expected labels of 60 samples"):
        tm.select_model({"a": np.zeros(59)}, views)
    with pytest.raises(ValueError, match="candidate 0"):
        tm.select_model([tm.ESTMC()], views)


@pytest.mark.parametrize("n_clusters", [2, 5, pytest.param(12, marks=pytest.mark.slow)])
def test_a_clear_number_of_clusters_is_found(n_clusters):
    views, _ = tm.datasets.make_multiview(40 * n_clusters, n_clusters=n_clusters, random_state=1)
    found = tm.estimate_n_clusters(views)
    assert found.n_clusters == n_clusters
    assert found.stability.max() > 0.95
    assert str(n_clusters) not in found.statement.split(":")[0]


def test_the_order_of_the_samples_changes_no_number():
    views, _ = tm.datasets.make_multiview(80, n_clusters=3, random_state=1)
    order = np.random.default_rng(0).permutation(80)
    again = tm.estimate_n_clusters([view[order] for view in views])
    np.testing.assert_array_equal(again.stability, tm.estimate_n_clusters(views).stability)


def test_too_few_samples_for_a_number_are_refused():
    with pytest.raises(ValueError, match="too few to estimate the number of clusters"):
        tm.estimate_n_clusters([np.random.default_rng(0).normal(size=(8, 3))])


def test_a_view_that_is_too_rare_for_an_estimate_is_named():
    views, _ = tm.datasets.make_multiview(120, n_clusters=3, random_state=0)
    views[1][1:] = 0
    with pytest.raises(ValueError, match="view 1 has values for 1 of the 120 samples compared"):
        tm.estimate_n_clusters(views)


@pytest.mark.parametrize("scale", [1e-170, 1e200])
def test_sizes_without_squares_are_refused(scale):
    views, y = tm.datasets.make_multiview(60, n_clusters=3, random_state=0)
    views = [view * scale for view in views]
    with pytest.raises(ValueError, match=r"view \d has values of size .*: multiply it"):
        tm.estimate_n_clusters(views)
    with pytest.raises(ValueError, match=r"view \d has values of size .*: multiply it"):
        tm.select_model([y], views)
