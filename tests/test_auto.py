"""`MultiViewClustering`: its choices, its report, independence of the order of samples and views, the time budget."""

import time

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import cut_tree, ward

import tensormvc as tm
from tensormvc.auto import _estimator, _scaling
from tensormvc.auto._consensus import consensus_embedding, ward_labels
from tensormvc.auto._evidence import gather_evidence
from tensormvc.graphs._fuzzy import find_neighbours
from tensormvc.views import as_views

acc = tm.metrics.clustering_accuracy


@pytest.fixture(scope="module")
def digits():
    return tm.datasets.load_digits_views(300)


def fit(views, n_clusters=10, **options):
    return tm.MultiViewClustering(n_clusters, random_state=0, **options).fit(views)


def test_it_beats_k_means_on_the_digits(digits):
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import normalize

    views, y = digits
    simple = KMeans(10, n_init=10, random_state=0).fit_predict(np.hstack([normalize(view) for view in views]))
    assert acc(y, fit(views).labels_) > acc(y, simple)


@pytest.mark.parametrize("data", ["digits", "MSRCv1"])
def test_order_of_samples_and_views_changes_nothing(request, digits, data):
    views, y = digits
    if data != "digits":
        views, y = tm.datasets.load_views(request.getfixturevalue("shared") / "data" / f"{data}.mat")
    c, n = len(np.unique(y)), len(y)
    model = fit(views, c)
    rng = np.random.default_rng(0)
    order, view_order = rng.permutation(n), rng.permutation(len(views))
    again = fit([views[v][order] for v in view_order], c)
    np.testing.assert_array_equal(again.labels_, model.labels_[order])
    np.testing.assert_array_equal(again.embedding_, model.embedding_[order])


@pytest.mark.slow
@pytest.mark.parametrize("data", ["all digits", "MSRCv1", "NGs", "BBCSport", "100leaves"])
def test_order_changes_nothing_in_full(request, data):
    if data == "all digits":
        views, y = tm.datasets.load_digits_views()
    else:
        views, y = tm.datasets.load_views(request.getfixturevalue("shared") / "data" / f"{data}.mat")
    model = fit(views, "auto")
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(len(y))
        np.testing.assert_array_equal(fit([view[order] for view in views], "auto").labels_, model.labels_[order])


def test_landmarks_stand_for_the_others(digits, monkeypatch):
    views, y = digits
    monkeypatch.setattr(_estimator, "_MOST_LANDMARKS", 200)
    monkeypatch.setattr(_estimator, "_LEAST_LANDMARKS", 200)
    model = fit(views)
    assert model.report_.n_landmarks == 200
    assert len(model.landmarks_) == 200
    assert model.labels_.shape == (300,)
    assert model.embedding_.shape[0] == 300
    rest = np.setdiff1d(np.arange(300), model.landmarks_)
    assert acc(y[rest], model.labels_[rest]) > 0.8
    order = np.random.default_rng(1).permutation(300)
    again = fit([view[order] for view in views])
    np.testing.assert_array_equal(again.labels_, model.labels_[order])
    assert "200 of 300 samples" in str(model.report_)


def test_the_budget_decides_the_landmarks_and_ends_the_fit(digits):
    views, _y = digits
    start = time.perf_counter()
    with pytest.warns(RuntimeWarning, match="too short for . pipelines: raise it"):
        model = fit(views, time_budget=1e-3)
    assert model.report_.left_out
    assert len(model.report_.members) == 2
    assert "Left out" in str(model.report_)
    assert time.perf_counter() - start < 15
    evidence = gather_evidence(as_views([np.random.default_rng(0).normal(size=(20_000, 5))], unit=False))
    assert _estimator._landmark_count(evidence, 300) == 10_000
    assert _estimator._landmark_count(evidence, 4) < _estimator._landmark_count(evidence, 6) < 10_000
    assert _estimator._landmark_count(evidence, 1e-6) == 1000


def test_it_tells_what_it_chose(digits):
    views, _y = digits
    stages = []
    model = fit(dict(zip("abcd", views, strict=True)), progress=lambda *stage: stages.append(stage))
    report = model.report_
    assert {choice.view for choice in report.normalisations} == set("abcd") == set(report.view_weights)
    assert np.mean(list(report.view_weights.values())) == pytest.approx(1)
    assert sum(member.weight for member in report.members) == pytest.approx(1)
    scores = [member.score for member in report.members]
    assert scores == sorted(scores, reverse=True)
    assert report.members[0].weight == max(member.weight for member in report.members)
    assert report.cluster_number is None
    assert report.n_clusters == 10
    assert [done for done, _, _ in stages] == list(range(1, len(stages) + 1))
    assert stages[-1][1] == len(stages)
    assert report.to_dict()["members"][0]["name"] == report.members[0].name


def test_the_number_of_clusters_is_found():
    views, y = tm.datasets.make_multiview(300, n_clusters=6, random_state=0)
    model = fit(views, "auto")
    assert model.n_clusters_ == 6
    assert acc(y, model.labels_) > 0.95
    assert model.report_.cluster_number.statement in str(model.report_)


def test_a_graph_of_the_user_is_one_of_the_graphs(digits):
    views, y = digits
    model = tm.MultiViewClustering(10, random_state=0).fit(views, sample_graph=tm.ideal_graph(y))
    given = [member for member in model.report_.members if member.name.startswith("sample_graph")]
    order = model.landmarks_
    assert acc(y[order], given[0].labels) == 1
    permutation = np.random.default_rng(0).permutation(300)
    again = tm.MultiViewClustering(10, random_state=0).fit(
        [view[permutation] for view in views], sample_graph=tm.ideal_graph(y[permutation])
    )
    np.testing.assert_array_equal(again.labels_, model.labels_[permutation])


def test_views_confirm_the_right_scaling():
    """One feature of a view drowns the others unless it is scaled; the other view knows better."""
    views, _y = tm.datasets.make_multiview(300, n_clusters=4, n_features=(12, 15), random_state=0)
    rng = np.random.default_rng(0)
    drowned = np.column_stack([views[0], 1000 * rng.normal(size=300)])
    evidence = gather_evidence(as_views({"drowned": drowned, "good": views[1]}, unit=False))
    chosen = {choice.view: choice for choice in evidence.normalisations}
    assert chosen["drowned"].name in ("z-score", "z-score-unit", "range")
    assert "agrees best with the other views" in chosen["drowned"].reason


def test_a_view_of_noise_gets_little_weight():
    views, y = tm.datasets.make_multiview(300, n_clusters=4, random_state=0)
    noise = np.random.default_rng(0).normal(size=(300, 20))
    evidence = gather_evidence(as_views({"a": views[0], "b": views[1], "noise": noise}, unit=False))
    weights = dict(zip(evidence.views.names, evidence.weights, strict=True))
    assert weights["noise"] < 0.2 * min(weights["a"], weights["b"])
    assert acc(y, fit([*views, noise], 4).labels_) > 0.95


def test_counts_are_weighed_by_rarity_and_text_is_kept_sparse():
    rng = np.random.default_rng(0)
    counts = sp.random_array((80, 400), density=0.03, rng=rng, data_sampler=lambda size: rng.integers(1, 9, size))
    dense = counts.toarray()
    assert _scaling.usual_normalisation(_scaling.lean(dense)) == "tf-idf"
    for form in (counts, dense):
        scaled = _scaling.normalised(_scaling.lean(form), "tf-idf")
        assert sp.issparse(scaled)
        occurs = np.count_nonzero(dense, axis=0)
        expected = np.where(dense > 0, 1 + np.log(np.maximum(dense, 1)), 0) * (np.log(81 / (1 + occurs)) + 1)
        expected /= np.linalg.norm(expected, axis=1, keepdims=True) + (expected.sum(axis=1, keepdims=True) == 0)
        expected /= np.sqrt((expected**2).sum() / 80)
        # A few logarithms and a norm over 400 features.
        np.testing.assert_allclose(scaled.toarray(), expected, rtol=1e-12, atol=1e-14)
    assert "root" not in _scaling.suitable_normalisations(rng.normal(size=(5, 3)))
    assert _scaling.usual_normalisation(rng.normal(size=(5, 3))) == "z-score"
    assert _scaling.usual_normalisation(rng.normal(size=(5, 30))) == "z-score-unit"


@pytest.mark.parametrize("name", _scaling.NORMALISATIONS)
def test_a_normalisation_can_be_asked_for(digits, name):
    views, _y = digits
    model = fit([view[:60] for view in views], 4, normalisation=["auto", name, "auto", "unit"])
    chosen = {choice.view: choice.name for choice in model.report_.normalisations}
    assert chosen["view 1"] == name
    assert chosen["view 3"] == "unit"


def test_wrong_normalisations_are_named(digits):
    views, _y = digits
    with pytest.raises(ValueError, match="unknown normalisation 'l2'"):
        fit(views, normalisation="l2")
    with pytest.raises(ValueError, match="one for each of the 4 views"):
        fit(views, normalisation=["unit"])
    with pytest.raises(ValueError, match="no view named 'x'"):
        fit(views, normalisation={"x": "unit"})


@pytest.mark.parametrize("n_neighbors", [1, 3, 7])
def test_neighbours_are_those_of_brute_force(n_neighbors):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(40, 5))
    distances = ((points[:, None] - points) ** 2).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    found = find_neighbours([points[:, :2], points[:, 2:]], 9).nearest(n_neighbors)
    expected = np.argsort(distances, axis=1)[:, :n_neighbors]
    np.testing.assert_array_equal(found.indices.reshape(40, n_neighbors), expected)
    np.testing.assert_allclose(
        found.squares.reshape(40, n_neighbors), np.take_along_axis(distances, expected, 1), rtol=1e-12
    )
    graph = found.fuzzy_graph()
    assert abs(graph - graph.T).max() < 1e-15
    if n_neighbors > 1:
        # Each list adds up to log2 k; a link is the probabilistic sum of both sides.
        beyond = np.sqrt(found.squares.reshape(40, -1))
        assert graph.max() == pytest.approx(1)
        assert graph.nnz >= 40 * n_neighbors
        assert (np.diff(beyond, axis=1) >= 0).all()


def test_many_samples_at_one_distance_are_no_neighbours():
    """Texts without a common word are all equally far from each other."""
    words = np.kron(np.eye(20), np.ones((4, 1)))
    found = find_neighbours([sp.csr_array(words)], 10)
    assert (np.diff(found.starts) == 3).all()
    assert set(found.indices[found.starts[0] : found.starts[1]]) == {1, 2, 3}
    # A few ties are all included, whatever their position.
    line = np.arange(10.0)[:, None]
    assert np.diff(find_neighbours([line], 1).starts).tolist() == [1, 2, 2, 2, 2, 2, 2, 2, 2, 1]


def textbook_neighbours(samples, candidates, k, skip_self):
    """The rule for ties, literally, on points with whole coordinates (whose distances are exact)."""
    lists = []
    for i, sample in enumerate(samples):
        distances = {
            j: ((sample - other) ** 2).sum() for j, other in enumerate(candidates) if not (skip_self and i == j)
        }
        kth = sorted(distances.values())[k - 1]
        tied = [j for j, distance in distances.items() if distance <= kth]
        nearer = [j for j, distance in distances.items() if distance < kth]
        lists.append(sorted(tied if len(tied) <= 2 * k or not nearer else nearer, key=lambda j: (distances[j], j)))
    return lists


@given(st.integers(0, 10**6), st.integers(3, 40), st.integers(1, 4), st.integers(1, 3), st.data())
def test_the_rule_for_ties_holds_for_dense_and_sparse_parts(seed, n, width, spread, data):
    """Whole coordinates in a small range: full of ties and duplicates."""
    points = np.random.default_rng(seed).integers(0, spread + 1, size=(n, width)).astype(float)
    among_themselves = data.draw(st.booleans())
    candidates = points if among_themselves else points[: max(2, n // 2)]
    k = data.draw(st.integers(1, len(candidates) - 1))
    expected = textbook_neighbours(points, candidates, k, among_themselves)
    half = width // 2
    forms = [
        lambda a: [a],
        lambda a: [sp.csr_array(a)],
        lambda a: [a[:, :half], sp.csr_array(a[:, half:])] if half else [a],
    ]
    for form in forms:
        found = find_neighbours(form(points), k, None if among_themselves else form(candidates))
        assert [piece.tolist() for piece in np.split(found.indices, found.starts[1:-1])] == expected


@given(st.integers(0, 10**6), st.integers(2, 40), st.sampled_from(["distinct", "grid", "duplicates"]), st.data())
def test_ward_trees_are_cut_into_exactly_k_clusters(seed, n, kind, data):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n, 3))
    if kind == "grid":
        points = rng.integers(0, 3, size=(n, 3)).astype(float)
    elif kind == "duplicates":
        points = points[rng.integers(0, max(1, n // 3), size=n)]
    k = data.draw(st.integers(1, n))
    labels = ward_labels(points, k)
    assert set(labels) == set(range(k))
    heights = ward(points)[:, 2]
    cuts = [k]
    if 0 < n - k < n - 1 and heights[n - k - 1] == heights[n - k]:
        # The cut is within merges of equal height: SciPy may leave out others of them.
        cuts = [n - np.count_nonzero(heights < heights[n - k]), n - np.count_nonzero(heights <= heights[n - k])]
    finer, coarser = (cut_tree(ward(points), [cut]).ravel() for cut in (cuts[0], cuts[-1]))
    if len(cuts) == 1:
        np.testing.assert_array_equal(labels, finer)
    # Every cluster of the finer cut is within one of ours, and each of ours within one of the coarser cut.
    assert len(set(zip(finer.tolist(), labels.tolist(), strict=True))) == finer.max() + 1
    assert len(set(zip(labels.tolist(), coarser.tolist(), strict=True))) == k


def test_the_consensus_is_that_of_the_whole_co_association():
    rng = np.random.default_rng(0)
    labelings = [rng.integers(4, size=50) for _ in range(6)]
    weights = rng.random(6)
    together = sum(w * (one[:, None] == one) for w, one in zip(weights, labelings, strict=True))
    scale = 1 / np.sqrt(together.sum(axis=1))
    _values, vectors = np.linalg.eigh(scale[:, None] * together * scale)
    ours = consensus_embedding(labelings, weights, 5)
    # The same five-dimensional space.
    np.testing.assert_allclose(ours @ ours.T, vectors[:, -5:] @ vectors[:, -5:].T, atol=1e-10)


def test_small_and_odd_inputs():
    rng = np.random.default_rng(0)
    assert fit([rng.normal(size=(3, 2))], 2).labels_.shape == (3,)
    assert set(fit([np.ones((12, 3)), np.zeros((12, 2))], 2).labels_) == {0}
    assert fit(rng.normal(size=(40, 6)), 1).labels_.max() == 0
    with pytest.raises(ValueError, match="NaN"):
        fit([np.array([[1.0, np.nan], [1, 2], [3, 4]])], 2)
    missing = rng.normal(size=(30, 3))
    missing[4] = np.nan
    with pytest.raises(ValueError, match="missing"):
        fit([rng.normal(size=(30, 3)), missing], 2)
