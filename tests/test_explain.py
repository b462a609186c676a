"""Explanations: effect sizes against brute force, intervals against their equation and coverage, order and form."""

import json
import sys
import time

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

import tensormvc as tm
from tensormvc.explain import SampleExplanation, explain_clusters

from .auto.data import limit_landmarks, quiet_fit

ARRAYS = ("effect", "low", "high", "difference", "log_ratio", "n", "order")


def same(one, other):
    """Whether two explanations are equal to the last bit."""
    arrays = all(np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True) for name in ARRAYS)
    return arrays and one.clusters == other.clusters and np.array_equal(one.features, other.features)


def mixed_data(seed=0, n=60):
    """A real view, a view of counts with many ties, and three clusters of unequal sizes; some values are missing."""
    rng = np.random.default_rng(seed)
    labels = np.searchsorted([0.5, 0.8], rng.random(n))
    labels[:3] = [0, 1, 2]
    real = rng.normal(size=(n, 5)) + labels[:, None] * [0, 0.5, 2, -1, 0.1]
    real[rng.random(real.shape) < 0.1] = np.nan
    return [real, rng.poisson(0.5 + (labels == 1)[:, None] * [0, 1, 3])], labels


def planted(n=300, seed=0):
    """Two views of noise in which each of three clusters has two shifted features in each view."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n) % 3)
    views = [rng.normal(size=(n, 200)), rng.poisson(3.0, size=(n, 150)).astype(float)]
    for cluster in range(3):
        views[0][np.ix_(labels == cluster, [10 * cluster, 10 * cluster + 1])] += 1.5
        views[1][np.ix_(labels == cluster, [7 * cluster, 7 * cluster + 1])] += 4
    return views, labels


@pytest.mark.parametrize("seed", range(5))
def test_effect_is_the_area_under_the_curve(seed):
    views, labels = mixed_data(seed)
    explanation = explain_clusters(views, labels)
    columns = np.hstack(views).T
    for row, summary in enumerate(explanation.clusters):
        for column, values in enumerate(columns):
            has = ~np.isnan(values)
            expected = roc_auc_score(labels[has] == summary.cluster, values[has])
            assert explanation.effect[row, column] == pytest.approx(expected, abs=1e-12)  # sums in another order
            assert explanation.n[row, column] == np.sum(has & (labels == summary.cluster))


@pytest.mark.parametrize("seed", range(5))
def test_difference_and_log_ratio_are_those_of_the_means(seed):
    views, labels = mixed_data(seed)
    explanation = explain_clusters(views, labels)
    for row in range(3):
        for column, values in enumerate(np.hstack(views).T):
            inside, outside = values[labels == row], values[labels != row]
            inside, outside = inside[~np.isnan(inside)], outside[~np.isnan(outside)]
            squares = sum(np.sum((group - group.mean()) ** 2) for group in (inside, outside))
            pooled = np.sqrt(squares / (len(inside) + len(outside) - 2))
            expected = (inside.mean() - outside.mean()) / pooled
            assert explanation.difference[row, column] == pytest.approx(expected, rel=1e-9)
            ratio = np.log2((inside.sum() + 1) / (len(inside) * outside.mean() + 1)) if column >= 5 else np.nan
            assert explanation.log_ratio[row, column] == pytest.approx(ratio, rel=1e-9, nan_ok=True)


def standard_error(theta, n1, n0):
    """Hanley and McNeil's standard error, with the larger variance in the smaller group."""
    q1, q2 = theta / (2 - theta) - theta**2, 2 * theta**2 / (1 + theta) - theta**2
    either = [(n1 - 1) * one + (n0 - 1) * other for one, other in ((q1, q2), (q2, q1))]
    return np.sqrt((theta * (1 - theta) + np.maximum(*either)) / (n1 * n0))


def test_ends_of_the_interval_solve_their_equation():
    views, labels = mixed_data()
    explanation = explain_clusters(views, labels)
    present = np.hstack([~np.isnan(view) for view in views])
    n1 = explanation.n
    n0 = present.sum(axis=0) - n1
    for end, sign in ((explanation.low, 1), (explanation.high, -1)):
        inner = (end > 1e-6) & (end < 1 - 1e-6)
        assert inner.any()
        reached = end + sign * norm.ppf(0.975) * standard_error(end, n1, n0)
        # Forty bisections, and a slope below 100.
        np.testing.assert_allclose(reached[inner], explanation.effect[inner], atol=1e-9)
    grid = np.linspace(0, 1, 2001)[:, None, None]
    covered = np.abs(explanation.effect - grid) <= norm.ppf(0.975) * standard_error(grid, n1, n0)
    # Nothing between the ends is left out, and nothing beyond them is covered.
    np.testing.assert_array_equal(covered, (explanation.low <= grid) & (grid <= explanation.high))
    assert np.all((explanation.low >= 0) & (explanation.low <= explanation.effect))
    assert np.all((explanation.high <= 1) & (explanation.high >= explanation.effect))


def test_interval_without_an_effect_has_the_variance_of_the_rank_sum():
    assert standard_error(0.5, 7, 30) ** 2 == pytest.approx((7 + 30 + 1) / (12 * 7 * 30))


def test_interval_of_a_separated_cluster_has_a_width_that_shrinks_with_its_size():
    """AUC ± 1.96 standard errors would have none at 1."""
    lows = []
    for size in (2, 10, 50):
        explanation = explain_clusters([np.arange(100)[:, None]], (np.arange(100) >= 100 - size).astype(int))
        assert explanation.effect[1, 0] == explanation.high[1, 0] == 1
        assert explanation.low[1, 0] == 1 - explanation.high[0, 0]
        lows.append(explanation.low[1, 0])
    assert 0.5 < lows[0] < lows[1] < lows[2] < 1


@pytest.mark.parametrize("auc", [0.5, 0.7, 0.9, 0.97])
@pytest.mark.parametrize("n_inside", [6, 25])
@pytest.mark.parametrize("distribution", ["normal", "exponential"])
def test_intervals_cover_the_true_area(auc, n_inside, distribution):
    """4000 independent features, so that the coverage has a standard error of 0.004; 6 samples with an AUC of 0.97 are
    covered least, by 93 %."""
    rng = np.random.default_rng(0)
    shape = (n_inside + 60, 4000)
    labels = (np.arange(shape[0]) < n_inside).astype(int)
    if distribution == "normal":
        values = rng.normal(size=shape) + np.sqrt(2) * norm.ppf(auc) * labels[:, None]
    else:
        values = rng.exponential(size=shape) * np.where(labels, auc / (1 - auc), 1)[:, None]
    explanation = explain_clusters([values], labels)
    coverage = np.mean((explanation.low[1] <= auc) & (auc <= explanation.high[1]))
    assert 0.925 < coverage < 0.995


def test_planted_features_lead():
    views, labels = planted()
    explanation = explain_clusters(views, labels)
    for cluster, order in enumerate(explanation.order):
        expected = {10 * cluster, 10 * cluster + 1, 200 + 7 * cluster, 200 + 7 * cluster + 1}
        assert set(order[:4].tolist()) == expected
        assert np.all(explanation.low[cluster, order[:4]] > 0.5)


def test_few_lucky_values_do_not_lead():
    """A feature that three samples of the cluster have, all above the others, comes after one of nearly all samples."""
    rng = np.random.default_rng(0)
    labels = np.arange(100) % 2
    solid = labels * 3 + rng.normal(size=100)
    lucky = np.where(labels == 1, 5.0, rng.normal(size=100))
    lucky[np.flatnonzero(labels == 1)[3:]] = np.nan
    explanation = explain_clusters([np.column_stack([lucky, solid])], labels)
    assert explanation.effect[1, 0] == 1 > explanation.effect[1, 1]
    assert explanation.order[1].tolist() == [1, 0]


def test_equal_effects_are_ordered_by_difference_and_then_by_position():
    labels = np.repeat([0, 1], 5)
    narrow = np.arange(10) / 10 + labels
    wide = np.arange(10) / 10 + 9 * labels
    explanation = explain_clusters([np.column_stack([narrow, narrow]), wide[:, None]], labels)
    assert explanation.order.tolist() == [[2, 0, 1]] * 2


def test_constant_empty_and_perfect_features():
    labels = np.array([0, 0, 0, 1, 1, 1])
    empty = [np.nan] * 3 + [1.0, 2.0, 3.0]
    columns = [np.full(6, 0.1), np.full(6, np.nan), empty, 0.1 + 0.2 * labels]
    explanation = explain_clusters([np.column_stack(columns)], labels)
    np.testing.assert_array_equal(explanation.effect, [[0.5, np.nan, np.nan, 0], [0.5, np.nan, np.nan, 1]])
    np.testing.assert_array_equal(explanation.difference, [[0, np.nan, np.nan, -np.inf], [0, np.nan, np.nan, np.inf]])
    assert np.isnan(explanation.low[:, 1:3]).all()
    assert explanation.order[:, :2].tolist() == [[3, 0]] * 2
    assert explanation.n.tolist() == [[3, 0, 0, 3], [3, 0, 3, 3]]


def test_huge_values_keep_their_ranks():
    explanation = explain_clusters([np.array([[1e300], [-1e300], [2e300], [3e300]])], [0, 0, 1, 1])
    assert explanation.effect[:, 0].tolist() == [0, 1]


def test_truth_values_and_unsigned_labels():
    values = np.array([[True], [True], [False], [False]])
    assert explain_clusters([values], np.array([0, 0, 1, 1], dtype=np.uint8)).effect[:, 0].tolist() == [1, 0]


def test_one_cluster_has_nothing_to_be_compared_with():
    explanation = explain_clusters([np.arange(6.0).reshape(3, 2)], [0, 0, 0])
    assert np.isnan(explanation.effect).all()
    assert "Cluster 0: 3 of 3 samples" in str(explanation)


def test_one_hot_features_have_the_area_of_their_shares():
    labels = np.repeat([0, 1], [4, 6])
    column = np.array([1, 1, 1, 0, 1, 0, 0, 0, 0, 0])
    explanation = explain_clusters([column[:, None]], labels)
    assert explanation.effect[0, 0] == pytest.approx(0.5 + (3 / 4 - 1 / 6) / 2)
    assert explanation.log_ratio[0, 0] == pytest.approx(np.log2((3 + 1) / (4 / 6 + 1)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16, np.uint8])
def test_sparse_equals_dense(dtype):
    (_, counts), labels = mixed_data()
    counts = counts.astype(dtype)
    dense = explain_clusters([counts], labels, relative=[True])
    for form in (sp.csr_array, sp.csc_matrix, sp.coo_array):
        assert same(dense, explain_clusters([form(counts)], labels, relative=[True]))


def test_sparse_gaps_equal_dense_gaps():
    views, labels = mixed_data()
    assert same(explain_clusters(views, labels), explain_clusters([sp.csr_array(views[0]), views[1]], labels))


def test_blocks_change_nothing(monkeypatch):
    views, labels = mixed_data()
    views[1] = sp.csr_array(views[1])
    whole = explain_clusters(views, labels)
    monkeypatch.setattr("tensormvc.explain._BLOCK_VALUES", 1)
    blocks = explain_clusters(views, labels)
    for name in ARRAYS:
        # NumPy adds the values of a single feature in another order.
        tolerance = 1e-13 if name in ("difference", "log_ratio") else 0
        np.testing.assert_allclose(getattr(blocks, name), getattr(whole, name), rtol=tolerance)


def test_layout_changes_nothing():
    views, labels = mixed_data()
    assert same(explain_clusters(views, labels), explain_clusters([np.asfortranarray(view) for view in views], labels))


@given(st.integers(0, 10_000), st.booleans())
def test_order_of_the_samples_changes_nothing(seed, sparse):
    rng = np.random.default_rng(seed)
    views, labels = mixed_data(seed, n=int(rng.integers(6, 50)))
    n = len(labels)
    views[0][1], labels[1] = views[0][0], labels[0]  # a duplicate, in one view
    options = {
        "missing": rng.random((n, 2)) < 0.1,
        "confidence": rng.integers(0, 3, size=n) / 2,
        "sample_ids": np.array([f"s{i}" for i in range(n)]),
    }
    order = rng.permutation(n)
    permuted = {name: values[order] for name, values in options.items()}
    form = sp.csr_array if sparse else np.asarray
    relative = [False, True]
    one = explain_clusters([views[0], form(views[1])], labels, relative=relative, **options)
    other = explain_clusters([views[0][order], form(views[1][order])], labels[order], relative=relative, **permuted)
    assert same(one, other)


@given(st.integers(0, 10_000))
def test_increasing_functions_change_no_effect_and_decreasing_ones_mirror_it(seed):
    (view, _), labels = mixed_data(seed, n=30)
    plain = explain_clusters([view], labels)
    up, down = (explain_clusters([values], labels) for values in (np.exp(view), -view))
    for name in ("effect", "low", "high"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(up, name))
    # Rounding of 1 - AUC.
    np.testing.assert_allclose(plain.effect, 1 - down.effect, atol=1e-15)
    np.testing.assert_allclose(plain.low, 1 - down.high, atol=1e-11)


def test_missing_rows_count_as_nan():
    (view, counts), labels = mixed_data()
    missing = np.zeros((len(labels), 2), dtype=bool)
    missing[5:15, 1] = True
    gaps = counts.astype(float)
    gaps[5:15] = np.nan
    masked = explain_clusters([view, counts], labels, missing=missing, relative=[False, True])
    assert same(masked, explain_clusters([view, gaps], labels, missing=missing, relative=[False, True]))
    np.testing.assert_array_equal(masked.effect, explain_clusters([view, gaps], labels, relative=[False, True]).effect)


def test_relative_values_have_equal_totals():
    rng = np.random.default_rng(0)
    labels = np.arange(80) % 2
    depth = np.where(labels, 4, 1) * rng.integers(50, 60, size=80)
    counts = rng.poisson(depth[:, None] * [0.1, 0.3, 0.6])
    raw, relative = (explain_clusters([counts], labels, relative=[value]) for value in (False, True))
    assert np.all(raw.effect[1] > 0.95)
    assert np.all(np.abs(relative.effect - 0.5) < 0.25)
    totals = counts.sum(axis=1, keepdims=True)
    scaled = explain_clusters([counts * (totals.mean() / totals)], labels)
    np.testing.assert_array_equal(relative.effect, scaled.effect)
    assert not np.isnan(relative.log_ratio).any()
    assert np.isnan(scaled.log_ratio).all()


def test_noise_is_no_cluster_but_belongs_to_the_others():
    (_, counts), labels = mixed_data()
    noisy = np.where(labels == 2, -1, labels)
    explanation = explain_clusters([counts], noisy)
    assert [summary.cluster for summary in explanation.clusters] == [0, 1]
    np.testing.assert_array_equal(explanation.effect, explain_clusters([counts], labels).effect[:2])


def test_support_of_views():
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    clear = rng.normal(size=(90, 4)) + 3 * (labels == 1)[:, None]
    explanation = explain_clusters([clear, rng.normal(size=(90, 4))], labels, view_names=["clear", "noise"])
    support = explanation.clusters[1].support
    assert 0 <= support["noise"] < 0.1 < 0.8 < support["clear"] <= 1
    own = rng.random((90, 2))
    for summary in explain_clusters([clear, clear], labels, view_support=own).clusters:
        np.testing.assert_allclose(list(summary.support.values()), own[labels == summary.cluster].mean(axis=0))


def test_typical_and_borderline_samples():
    labels = np.array([0] * 12 + [1] * 3 + [2])
    confidence = np.concatenate([np.linspace(0, 1, 12), [0.5, 0.1, 0.9], [1]])
    ids = np.array([f"s{i}" for i in range(16)])
    values = np.arange(16.0)[:, None]
    large, small, single = explain_clusters([values], labels, confidence=confidence, sample_ids=ids).clusters
    assert large.typical == ("s11", "s10", "s9", "s8", "s7")
    assert large.borderline == ("s0", "s1", "s2", "s3", "s4")
    assert (small.typical, small.borderline) == (("s14", "s12"), ("s13",))
    assert (single.typical, single.borderline) == (("s15",), ())
    assert explain_clusters([values], labels).clusters[0].typical == ()


def test_frame_and_leading_features():
    views, labels = mixed_data()
    names = {"counts": ["x", "y", "z"]}
    explanation = explain_clusters(views, labels, view_names=["real", "counts"], feature_names=names)
    frame = explanation.to_frame()
    columns = ["cluster", "view", "feature", "effect", "low", "high", "difference", "log_ratio", "n", "rank"]
    assert list(frame.columns) == columns
    assert len(frame) == 3 * 8
    assert set(frame[frame["view"] == "counts"]["feature"]) == {"x", "y", "z"}
    assert set(frame[frame["view"] == "real"]["feature"]) == {f"feature {i}" for i in range(5)}
    for cluster, rows in frame.groupby("cluster"):
        assert rows["rank"].tolist() == list(range(1, 9))
        strength = np.maximum(rows["low"] - 0.5, 0.5 - rows["high"])
        assert np.all(np.diff(strength) <= 0)
        leading = [row for row in explanation.top(2) if row.cluster == cluster]
        assert [row.feature for row in leading] == rows["feature"].tolist()[:2]
        assert [row.effect for row in leading] == rows["effect"].tolist()[:2]
    assert len(explanation.top(100)) == len(frame)


def test_frame_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        explain_clusters([np.arange(4.0)[:, None]], [0, 0, 1, 1]).to_frame()


def test_text():
    views, labels = mixed_data()
    names = [[f"a very long name of a feature, with the number {i}" for i in range(5)], None]
    options = {"view_names": ["real", "counts"], "feature_names": names}
    text = str(explain_clusters(views, labels, confidence=np.linspace(0, 1, len(labels)), **options))
    assert text.count("Cluster ") == text.count("typical samples: ") == text.count("borderline samples: ") == 3
    assert max(map(len, text.splitlines())) < 120
    many = str(explain_clusters(views, np.arange(60) // 2))
    assert many.count("Cluster ") == 20
    assert many.endswith("10 more clusters: see to_frame()")


def test_plot_has_axes_for_each_cluster():
    plt.switch_backend("Agg")
    views, labels = mixed_data()
    explanation = explain_clusters(views, labels, view_names=["real", "counts"])
    axes = explanation.plot(n_features=4)
    assert len(axes) == 3
    for ax, summary in zip(axes, explanation.clusters, strict=True):
        leading = [row for row in explanation.top(4) if row.cluster == summary.cluster]
        assert [label.get_text() for label in ax.get_yticklabels()] == [row.feature for row in leading]
        ends = {-round(bar.get_y() + bar.get_height() / 2): bar.get_x() + bar.get_width() for bar in ax.patches}
        for row in leading:
            assert ends[row.rank] == pytest.approx(row.effect)
        np.testing.assert_allclose(
            [segment[:, 0] for segment in ax.collections[0].get_segments()], [(row.low, row.high) for row in leading]
        )
    assert [ax.get_legend() is not None for ax in axes] == [True, False, False]
    with pytest.raises(ValueError, match="no cluster 7; the clusters are 0, 1, 2"):
        tm.plotting.plot_cluster_features(explanation, 7, ax=axes[0])
    plt.close("all")


def test_sample_explanation():
    plt.switch_backend("Agg")
    votes = {"a": {0: 0.2, 1: 0.5, 2: 0.3}, "b": {1: 1.0}}
    membership = {0: 0.1, 1: 0.75, 2: 0.15}
    why = SampleExplanation("s1", 1, 0.6, membership, {"a": 1.5, "b": 1.0, "c": 0.0}, votes, (("s4", 1, 0.25),))
    assert (why.runner_up, why.runner_up_share) == (2, 0.15)
    text = str(why)
    assert "runner-up: cluster 2 (share 0.15)" in text
    assert "cluster 1: 50 %, cluster 2: 30 %, cluster 0: 20 %" in text
    assert "missing" in text.splitlines()[4]
    assert "s4 (cluster 1, distance 0.25)" in text
    plain = json.loads(json.dumps(why.to_dict()))
    assert (plain["runner_up"], plain["cluster"], plain["votes"]["b"]) == (2, 1, {"1": 1.0})
    ax = why.plot()
    own, runner_up, others = ax.containers
    assert [bar.get_width() for bar in own] == [0.5, 1, 0]
    np.testing.assert_allclose([bar.get_width() for bar in runner_up], [0.3, 0, 0])
    np.testing.assert_allclose([bar.get_width() for bar in others], [0.2, 0, 0], atol=1e-15)
    plt.close("all")


@pytest.fixture(scope="module")
def beyond_landmarks():
    """A model of 90 of 300 samples, among them copies of some, and a sample that lacks a view."""
    views, _y = tm.datasets.make_multiview(300, n_clusters=3, random_state=0)
    views = [view.copy() for view in views]
    for view in views:
        view[200:260] = view[:60]
    views[1][290:] = np.nan
    with pytest.MonkeyPatch.context() as patch:
        limit_landmarks(patch, 90)
        return quiet_fit(views, 3)


def test_samples_beyond_the_landmarks_are_explained(beyond_landmarks):
    model = beyond_landmarks
    sample = next(i for i in range(290, 300) if i not in model.landmarks_)
    why = model.explain_sample(sample)
    assert list(why.votes) == ["all views"]
    assert sum(why.votes["all views"].values()) == pytest.approx(1)
    lines = str(why).splitlines()
    assert [line.split()[-1] == "missing" for line in lines[2:5]] == [False, True, False]
    assert "all views" in lines[5]
    assert "cluster" in lines[5]
    assert "nan" not in str(why)
    assert "NaN" not in json.dumps(why.to_dict())
    plt.switch_backend("Agg")
    assert [label.get_text() for label in why.plot().get_yticklabels()] == ["all views"]
    plt.close("all")


@pytest.mark.parametrize("kind", ["numbers", "text", "dates"])
def test_samples_have_their_names(kind):
    pd = pytest.importorskip("pandas", reason="pandas is not installed (extra 'mudata')")
    views, _ = tm.datasets.make_multiview(60, n_clusters=3, random_state=0)
    names = {"numbers": range(100, 160), "text": [f"s{i}" for i in range(60)]}
    index = pd.date_range("2020-01-01", periods=60) if kind == "dates" else pd.Index(names[kind])
    why = quiet_fit([pd.DataFrame(views[0], index=index)], 3).explain_sample(3)
    assert str(why).startswith({"numbers": "Sample 103 ", "text": "Sample s3 ", "dates": "Sample 2020-01-04"}[kind])
    assert kind == "dates" or json.dumps(why.to_dict())


def test_copies_of_landmarks_are_linked_in_the_graph(beyond_landmarks):
    model = beyond_landmarks
    copies = [i for i in range(60) if (i in model.landmarks_) != (i + 200 in model.landmarks_)]
    assert copies
    for i in copies:
        assert model.graph_[[i]].nnz
        assert model.graph_[[i + 200]].nnz
    assert model.graph_.diagonal().max() == 0


def test_completed_values_are_no_measurements():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    view = rng.normal(size=(120, 6)) + 4 * y[:, None]
    view[rng.random(120) < 0.9, 0] = np.nan
    for other in (view.copy(), np.round(np.exp(view))):
        model = quiet_fit([view, other], 3)
        frame = model.explain().to_frame()
        for v, values in enumerate((view, other)):
            own = frame[(frame["view"] == f"view {v}") & (frame["feature"] == "feature 0")]
            known = [np.count_nonzero(~np.isnan(values[model.labels_ == cluster, 0])) for cluster in own["cluster"]]
            assert own["n"].tolist() == known


def test_a_single_feature_has_its_effect():
    rng = np.random.default_rng(0)
    y = np.arange(150) % 3
    age = 20 + 20.0 * y[:, None] + rng.normal(size=(150, 1))
    model = quiet_fit([age, rng.normal(size=(150, 5)) + 6 * y[:, None]], 3, normalisation="unit")
    frame = model.explain().to_frame()
    effects = frame[frame["view"] == "view 0"]["effect"]
    assert sorted(effects) == pytest.approx([0, 0.5, 1], abs=0.02)


def test_sample_explanation_without_a_runner_up():
    why = SampleExplanation(3, 0, 1.0, {0: 1.0, 1: 0.0}, {"a": 1.0}, {"a": {0: 1.0}}, ())
    assert why.runner_up is None
    assert why.runner_up_share == 0
    assert "runner-up" not in str(why)
    assert len(why.plot().containers) == 2
    plt.close("all")


def test_equal_runners_up_are_decided_by_number():
    assert SampleExplanation(3, 0, 0.2, {2: 0.3, 1: 0.3, 0: 0.4}, {}, {}, ()).runner_up == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": [0, 1]}, "view 0 has shape .* for 2 labels"),
        ({"views": [np.empty((4, 0))]}, "and a feature"),
        ({"labels": [0.5] * 4}, "labels must be integers"),
        ({"labels": [-1] * 4}, "labels must be integers of shape .*, not all -1"),
        ({"views": []}, "at least one view"),
        ({"view_names": ["a", "b"]}, "view_names has 2 names for 1 views"),
        ({"missing": [True]}, "missing has shape"),
        ({"confidence": [1, 2]}, "confidence has shape"),
        ({"view_support": [1, 2]}, "view_support has shape"),
        ({"sample_ids": [1, 2]}, "sample_ids has shape"),
        ({"relative": [True, False]}, "relative has shape"),
        ({"feature_names": [["a"], ["b"]]}, "feature_names has 2 entries for 1 views"),
        ({"feature_names": [["a", "b"]]}, "2 names for the 1 features of view 0"),
        ({"feature_names": {"x": ["a"]}}, "'x', which is not a view"),
        ({"views": [[[np.inf], [1], [2], [3]]]}, "view 0 contains infinity"),
        ({"views": [[[-1.0], [1], [2], [3]]], "relative": [True]}, "view 0 has negative values"),
    ],
)
def test_errors(change, message):
    arguments = {"views": [np.arange(4.0)[:, None]], "labels": [0, 0, 1, 1]} | change
    with pytest.raises(ValueError, match=message):
        explain_clusters(**arguments)


def test_inputs_are_not_modified():
    views, labels = mixed_data()
    views[1] = sp.csr_array(views[1].astype(float))
    before = [views[0].copy(), views[1].copy(), labels.copy()]
    missing = np.zeros((len(labels), 2), dtype=bool)
    missing[0] = True
    explain_clusters(views, labels, missing=missing, relative=[False, True])
    np.testing.assert_array_equal(views[0], before[0])
    assert (views[1] != before[1]).nnz == 0
    np.testing.assert_array_equal(labels, before[2])


def test_a_thousand_samples_are_explained_in_a_second():
    """By the processor, not by the clock, since other tests run beside; about 0.3 s are needed."""
    rng = np.random.default_rng(0)
    views = [rng.normal(size=(1000, 2000)), sp.csr_array(rng.poisson(0.1, size=(1000, 2000)))]
    start = time.process_time()
    explain_clusters(views, rng.integers(0, 10, size=1000))
    assert time.process_time() - start < 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the clusters may be parts of a continuum")  # of T cells
def test_lineage_markers_lead_in_blood_cells(shared):
    """B cells are led by CD19, NK cells by CD7 and CD56, T cells by CD8 or CD4, monocytes by CD31, CD11c and HLA-DR."""
    path = shared / "data" / "CITEseq500.h5mu"
    if not path.exists():
        pytest.skip(f"no file {path}")
    h5py = pytest.importorskip("h5py")
    data = tm.datasets.load_dataset(path)
    with h5py.File(path) as file:
        names = {view: file[f"mod/{view}/var/_index"].asstr()[:] for view in data.views}
    labels = tm.MultiViewClustering(10, random_state=0).fit_predict(list(data.views.values()))
    options = {"feature_names": names, "view_names": list(data.views), "relative": [True, True]}
    explanation = explain_clusters(list(data.views.values()), labels, **options)
    proteins = {}
    for row in explanation.top(100):
        if row.view == "adt":
            proteins.setdefault(row.cluster, []).append((row.feature, row.effect > 0.5))
    leading = [found[0] for found in proteins.values()]
    assert {("CD19", True), ("CD8", True), ("CD4", True), ("CD7", True)} <= set(leading)
    natural_killers = proteins[leading.index(("CD7", True))]
    assert ("CD56", True) in natural_killers[:8]
    assert ("CD5", False) in natural_killers
    monocytes = proteins[leading.index(("PECAM (CD31)", True))]
    assert set(monocytes[1:3]) == {("CD11c", True), ("MHCII (HLA-DR)", True)}
