"""`MultiViewClustering`: its choices, its report, independence of the order of samples and views, the time budget."""

import time
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import tensormvc as tm
from tensormvc.auto import _effort
from tensormvc.backend.linalg import one_hot

from .data import acc, blobs, fit, limit_landmarks, quiet_fit


@pytest.fixture(scope="module")
def digits():
    return tm.datasets.load_digits_views(300)


@pytest.fixture(scope="module")
def digits_model(digits):
    return fit(dict(zip("abcd", digits[0], strict=True)))


def assert_same_results(again, model, order, view_order=None):
    """Every result of a fit to the permuted samples and views is the permuted result, to the last bit."""
    for name in ("labels_", "membership_", "confidence_", "outlier_score_", "embedding_", "map_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name)[order], err_msg=name)
    weights = model.sample_view_weights_[order]
    np.testing.assert_array_equal(again.sample_view_weights_, weights if view_order is None else weights[:, view_order])
    assert again.tree_.most == model.tree_.most
    for k in range(1, model.tree_.most + 1):
        np.testing.assert_array_equal(again.labels_at(k), model.labels_at(k)[order])
    np.testing.assert_array_equal(
        merged_graph(again, order).toarray(), merged_graph(model, np.arange(len(order))).toarray()
    )


def merged_graph(model, original):
    """The graph of a model whose samples have these numbers; any one of equal samples may be their landmark."""
    links = model.links_
    copies = np.flatnonzero((np.diff(links.indptr) == 1) & (links.max(axis=1).toarray().ravel() == 1))
    landmark = links.indices[links.indptr[copies]]
    first = np.full(links.shape[1], len(original))
    np.minimum.at(first, landmark, original[copies])
    number = original.copy()
    number[copies] = first[landmark]
    groups = one_hot(number, len(original))
    return groups.T @ model.graph_ @ groups


def test_it_beats_k_means_on_the_digits(digits, digits_model):
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import normalize

    views, y = digits
    simple = KMeans(10, n_init=10, random_state=0).fit_predict(np.hstack([normalize(view) for view in views]))
    assert acc(y, digits_model.labels_) > acc(y, simple)


@pytest.mark.parametrize("data", ["digits", "MSRCv1"])
def test_order_of_samples_and_views_changes_nothing(request, digits, data):
    views, y = ([view[:120] for view in digits[0][:3]], digits[1][:120])
    if data != "digits":
        views, y = tm.datasets.load_views(request.getfixturevalue("shared") / "data" / f"{data}.mat")
    c, n = len(np.unique(y)), len(y)
    model = fit(views, c)
    rng = np.random.default_rng(0)
    order, view_order = rng.permutation(n), rng.permutation(len(views))
    assert_same_results(fit([views[v][order] for v in view_order], c), model, order, view_order)


@pytest.mark.slow
@pytest.mark.parametrize("data", ["all digits", "MSRCv1", "NGs", "BBCSport", "100leaves", "BDGP"])
def test_order_changes_nothing_in_full(request, data):
    if data == "all digits":
        views, y = tm.datasets.load_digits_views()
    else:
        views, y = tm.datasets.load_views(request.getfixturevalue("shared") / "data" / f"{data}.mat")
    model = quiet_fit(views, "auto")
    for seed in range(2):
        order = np.random.default_rng(seed).permutation(len(y))
        assert_same_results(quiet_fit([view[order] for view in views], "auto"), model, order)


def test_order_changes_nothing_beyond_the_landmarks(monkeypatch):
    views, _y = blobs(150)
    limit_landmarks(monkeypatch, 60)
    model = fit(views, 3)
    order = np.random.default_rng(1).permutation(150)
    assert_same_results(fit([view[order] for view in views[::-1]], 3), model, order, [1, 0])


@pytest.mark.parametrize("n_clusters", [1, 3])
def test_labels_are_the_largest_shares(digits_model, n_clusters):
    small, _y = blobs()
    for model in (digits_model, fit(small, n_clusters)):
        # Sums of about sixty weights.
        np.testing.assert_allclose(model.membership_.sum(axis=1), 1, rtol=1e-12)
        assert model.membership_.min() >= 0
        assert model.membership_.shape == (len(model.labels_), model.n_clusters_)
        np.testing.assert_array_equal(model.labels_, np.argmax(model.membership_, axis=1))
        if model.n_clusters_ > 1:
            ordered = np.sort(model.membership_, axis=1)
            np.testing.assert_array_equal(model.confidence_, np.minimum(ordered[:, -1] - ordered[:, -2], 1))
            assert model.confidence_.max() <= 1
        sizes = np.bincount(model.labels_, minlength=model.n_clusters_)
        assert sizes.min() > 0
        assert (np.diff(sizes) <= 0).all()


def test_unsure_samples_are_the_wrong_ones(digits, digits_model):
    from scipy.optimize import linear_sum_assignment
    from sklearn.metrics import confusion_matrix, roc_auc_score

    table = confusion_matrix(digits[1], digits_model.labels_)
    classes, clusters = linear_sum_assignment(-table)
    wrong = digits[1] != classes[np.argsort(clusters)][digits_model.labels_]
    assert roc_auc_score(wrong, 1 - digits_model.confidence_) > 0.75


def test_the_budget_decides_the_effort_and_ends_the_fit(digits):
    views, _y = digits
    start = time.perf_counter()
    with pytest.warns(RuntimeWarning, match="too short for . parts of the fit: raise it"):
        model = fit(views, time_budget=1e-3)
    assert model.report_.left_out
    assert len(model.report_.members) == 2
    assert "Left out" in str(model.report_)
    assert "Effort: low" in str(model.report_)
    assert time.perf_counter() - start < 15


def test_the_highest_affordable_effort_is_chosen(monkeypatch):
    monkeypatch.setattr(_effort, "_unit_of_work", lambda: 0.02)
    costs = {name: level.work(70_000, [300, 400], 10) * 0.02 for name, level in _effort.EFFORTS.items()}
    assert costs["low"] < costs["medium"] < costs["high"] < costs["full"]
    for name in ("low", "medium", "high"):
        assert _effort.choose_effort("auto", 70_000, [300, 400], 10, 1.01 * costs[name]).name == name
    assert _effort.choose_effort("auto", 70_000, [300, 400], 10, 1e-9).name == "low"
    assert _effort.choose_effort("auto", 70_000, [300, 400], 10, 1e9).name == "high"
    assert _effort.choose_effort("full", 70_000, [300, 400], 10, 1e-9).name == "full"


@pytest.mark.parametrize("n_jobs", [1, 3, -1])
def test_the_number_of_threads_changes_nothing(n_jobs):
    views, _y = blobs(700, widths=(4, 6, 5))
    model = fit(views, 3)
    assert_same_results(fit(views, 3, n_jobs=n_jobs), model, np.arange(700))


def test_it_tells_what_it_chose(digits_model):
    report = digits_model.report_
    assert {choice.view for choice in report.normalisations} == set("abcd") == set(report.view_weights)
    assert np.mean(list(report.view_weights.values())) == pytest.approx(1)
    assert sum(member.weight for member in report.members) == pytest.approx(1)
    assert sum(look.weight for look in report.looks) == pytest.approx(1)
    weights = [member.weight for member in report.members]
    assert weights == sorted(weights, reverse=True)
    for look in report.looks:
        assert look.weight == pytest.approx(sum(m.weight for m in report.members if m.look == look.name))
    assert report.cluster_number is None
    assert report.n_clusters == 10
    plain = report.to_dict()
    assert plain["members"][0]["name"] == report.members[0].name
    assert plain["certainty"] in str(report)
    assert report.warnings == []


def test_it_tells_how_far_it_is():
    views, _y = blobs(60)
    stages = []
    fit(views, 3, progress=lambda *stage: stages.append(stage))
    done = [number for number, _, _ in stages]
    assert done == list(range(1, len(stages) + 1))
    assert stages[-1][1] == len(stages)


def test_the_number_of_clusters_is_found():
    views, y = tm.datasets.make_multiview(300, n_clusters=6, random_state=0)
    model = fit(views, "auto")
    assert model.n_clusters_ == 6
    assert acc(y, model.labels_) > 0.95
    assert model.report_.cluster_number.statement in str(model.report_)


def test_a_graph_of_the_user_is_one_of_the_graphs():
    views, y = blobs(60)
    rng = np.random.default_rng(0)
    wrong, permutation = rng.permutation(y), rng.permutation(60)
    model = fit(views, 3)
    guided = tm.MultiViewClustering(3, random_state=0).fit(views, sample_graph=tm.ideal_graph(wrong))
    given = [member for member in guided.report_.members if member.name.startswith("sample_graph")]
    assert acc(wrong[guided.landmarks_], given[0].labels) == 1
    assert not any(member.name.startswith("sample_graph") for member in model.report_.members)
    again = tm.MultiViewClustering(3, random_state=0).fit(
        [view[permutation] for view in views], sample_graph=tm.ideal_graph(wrong[permutation])
    )
    np.testing.assert_array_equal(again.labels_, guided.labels_[permutation])


def test_weights_of_views_are_set_and_shown():
    views, y = blobs(90, widths=(4, 5))
    rng = np.random.default_rng(0)
    named = {"a": views[0], "b": views[1], "other": 6 * np.eye(3)[rng.permutation(y)] + rng.normal(size=(90, 3))}
    model = quiet_fit(named, 3, view_weights={"a": 2, "other": 0})
    text = str(model.report_)
    assert "(set to 2 by view_weights)" in text
    assert "other: weight 0.00 (set to 0 by view_weights)" in text
    assert model.report_.asked_weights == {"a": 2.0, "other": 0.0}
    assert model.report_.view_weights["other"] == 0
    np.testing.assert_array_equal(model.sample_view_weights_[:, 2], 0)
    assert acc(y, model.labels_) > 0.95
    misled = quiet_fit(named, 3, view_weights=[0, 0, 1])
    assert acc(y, misled.labels_) < 0.6
    assert (misled.sample_view_weights_ == [0, 0, 1]).all()
    with pytest.raises(ValueError, match="view_weights has -1"):
        fit(named, 3, view_weights={"a": -1})


def test_a_view_of_weight_zero_counts_where_a_sample_has_no_other():
    views, _y = blobs(60)
    views[0][5] = np.nan
    model = quiet_fit(views, 3, view_weights=[1, 0])
    np.testing.assert_array_equal(model.sample_view_weights_, np.where(np.arange(60)[:, None] == 5, [0, 1], [1, 0]))
    assert np.isfinite(model.membership_).all()
    np.testing.assert_array_equal(model.predict(views), model.labels_)


def test_unrelated_views_and_weak_clusters_are_told():
    rng = np.random.default_rng(3)
    noise = [rng.normal(size=(100, 8)), rng.normal(size=(100, 9))]
    with pytest.warns(UserWarning, match="no view confirms another|the clusters are weak") as caught:
        model = fit(noise, 4)
    messages = [str(warning.message) for warning in caught]
    assert any(message.startswith("no view confirms another") for message in messages)
    assert any(message.startswith("the clusters are weak") for message in messages)
    assert all(message in str(model.report_) for message in messages)
    assert not model.report_.related


@pytest.mark.filterwarnings("ignore:no view confirms another:UserWarning")
def test_fewer_distinct_samples_than_clusters():
    with pytest.warns(ConvergenceWarning, match="only 1 distinct clusters were found, fewer than n_clusters=2"):
        model = fit([np.ones((12, 3)), np.zeros((12, 2))], 2)
    assert model.n_clusters_ == 1
    np.testing.assert_array_equal(model.labels_, 0)
    np.testing.assert_allclose(model.membership_, 1, rtol=1e-15)


def test_small_inputs():
    rng = np.random.default_rng(0)
    assert quiet_fit([rng.normal(size=(3, 2))], 2).labels_.shape == (3,)
    assert quiet_fit(rng.normal(size=(40, 6)), 1).labels_.max() == 0
    with pytest.raises(ValueError, match="more than n_samples"):
        fit([rng.normal(size=(3, 2))], 4)


def test_inputs_are_not_changed():
    views, _y = blobs(60)
    views[0][3] = np.nan
    views[1][5, 2] = np.nan
    before = [view.copy() for view in views]
    model = fit(views, 3)
    model.predict(views)
    for view, old in zip(views, before, strict=True):
        np.testing.assert_array_equal(view, old)


@pytest.mark.parametrize(
    "model", [tm.MultiViewClustering(3, random_state=0), tm.TSVDMVC(3, max_iter=1), tm.GMC(7)], ids=repr
)
def test_warnings_point_at_the_call_of_fit(model):
    views = [view[[0] * 12] for view in blobs(12)[0]]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit_predict(views)
    assert ConvergenceWarning in {warning.category for warning in caught}
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("shares", [(90, 5, 5), (80, 10, 5, 3, 2)])
def test_clusters_of_very_different_sizes(shares):
    rng = np.random.default_rng(1)
    y = np.repeat(np.arange(len(shares)), np.array(shares) * 10)
    views = [5 * rng.normal(size=(len(shares), d))[y] + rng.normal(size=(len(y), d)) for d in (10, 8)]
    assert tm.metrics.ari(y, quiet_fit(views, len(shares)).labels_) > 0.95


def test_there_are_landmarks_for_all_clusters(digits):
    for n_clusters, level in ((2001, "medium"), (5001, "high"), (10_001, "full")):
        assert _effort.choose_effort("auto", 70_000, [3], n_clusters, 1e-9).name == level
    with pytest.raises(ValueError, match="n_clusters=2500 is more than the landmarks of effort='low' \\(low has 2000"):
        _effort.choose_effort("low", 70_000, [3], 2500, 300)


def test_transform_has_named_columns(digits):
    model = fit(digits[0]).set_output(transform="pandas")
    columns = model.transform(digits[0]).columns
    assert list(columns) == [f"multiviewclustering{i}" for i in range(model.embedding_.shape[1])]


def test_a_graph_of_more_samples_than_landmarks_is_not_used_in_silence(monkeypatch):
    views, y = blobs(300)
    graph = (y[:, None] == y).astype(float)
    limit_landmarks(monkeypatch, 100)
    with pytest.warns(UserWarning, match="sample_graph: only the 3,.* of its 30,.* links that join two landmarks"):
        tm.MultiViewClustering(3, random_state=0).fit(views, sample_graph=graph)


@pytest.mark.parametrize("beside", ["age", "sex", "a normal variable"])
def test_a_single_feature_does_not_outweigh_a_view_with_structure(beside):
    """No other view confirms either of them."""
    rng = np.random.default_rng(0)
    values = {"age": rng.poisson(5, size=1000), "sex": rng.integers(2, size=1000)}.get(beside, rng.normal(size=1000))
    (view,), y = blobs(1000, 4, widths=(20,))
    assert tm.metrics.ari(y, quiet_fit([view, values[:, None].astype(float)], 4).labels_) == 1
    assert tm.metrics.ari(y, quiet_fit([rng.normal(size=(1000, 20)), y[:, None].astype(float)], 4).labels_) == 1
