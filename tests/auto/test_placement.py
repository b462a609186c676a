"""New samples: the samples of the fit get what they got, one alone what it gets in a batch, in any subset of views."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from threadpoolctl import threadpool_limits

import tensormvc as tm
from tensormvc.auto._estimator import confidence
from tensormvc.auto._placement import n_votes
from tensormvc.auto._scaling import RECIPES

from .data import acc, blobs, fit, limit_landmarks, quiet_fit, with_gaps

METHODS = ("predict_proba", "transform", "outlier_score")


@pytest.fixture(scope="module")
def gappy():
    """A model of data with gaps, its views, and other samples with gaps."""
    (views, _y), (others, _) = blobs(), blobs(seed=0)
    rng = np.random.default_rng(1)
    others = with_gaps([view + rng.normal(size=view.shape) for view in others], seed=2)
    views = with_gaps(views)
    return fit(views, 3), views, others


@pytest.fixture(scope="module")
def few_landmarks():
    views, y = blobs(150, widths=(4, 12))
    views = with_gaps(views)
    for view in views:
        view[7] = 0
    with pytest.MonkeyPatch.context() as patch:
        limit_landmarks(patch, 60)
        return quiet_fit(views, 3), views, y


def assert_samples_of_the_fit_are_recognised(model, views):
    np.testing.assert_array_equal(model.predict(views), model.labels_)
    np.testing.assert_array_equal(model.predict_proba(views), model.membership_)
    np.testing.assert_array_equal(model.transform(views), model.embedding_)
    np.testing.assert_array_equal(model.outlier_score(views), model.outlier_score_)


def test_samples_of_the_fit_get_what_they_got(gappy):
    model, views, _others = gappy
    assert_samples_of_the_fit_are_recognised(model, views)
    rows = np.random.default_rng(0).permutation(len(views[0]))[:20]
    np.testing.assert_array_equal(model.predict([view[rows] for view in views]), model.labels_[rows])


def test_new_samples_may_be_lists_of_numbers():
    views, _ = blobs(40, widths=(3,))
    model = quiet_fit(views, 3)
    rows = views[0][:2]
    for form in (rows.tolist(), [rows.tolist()], [rows], rows):
        np.testing.assert_array_equal(model.predict(form), model.labels_[:2])
    model = quiet_fit(views[0].tolist(), 3, view_sizes=[2, 1])
    np.testing.assert_array_equal(model.predict(rows.tolist()), model.labels_[:2])


def test_rows_may_be_none():
    views, _ = blobs(40)
    rows = views[0].tolist()
    rows[4] = None
    model = quiet_fit([rows, views[1]], 3)
    np.testing.assert_array_equal(model.predict([rows, views[1]]), model.labels_)


def test_samples_beyond_the_landmarks_get_what_they_got(few_landmarks):
    model, views, y = few_landmarks
    assert len(model.landmarks_) == 60
    assert_samples_of_the_fit_are_recognised(model, views)
    rest = np.setdiff1d(np.arange(150), [*model.landmarks_, 7])
    assert acc(y[rest], model.labels_[rest]) > 0.9
    assert "60 of 150 samples" in str(model.report_)


@pytest.mark.parametrize("of", ["gappy", "few_landmarks"])
def test_sample_views_weights_are_zero_where_missing(request, of):
    model, views, _ = request.getfixturevalue(of)
    lacking = np.column_stack([~np.nan_to_num(view).any(axis=1) for view in views])
    assert (model.sample_view_weights_[lacking] == 0).all()
    assert (model.sample_view_weights_[~lacking] > 0).all()
    some = ~lacking.all(axis=1)
    np.testing.assert_allclose(model.sample_view_weights_[some].sum(axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("of", ["gappy", "few_landmarks"])
def test_one_sample_alone_gets_what_it_gets_in_a_batch(request, monkeypatch, of, threads):
    model, views, others = request.getfixturevalue(of)
    others = others if of == "gappy" else [view[:40] + 0.3 for view in views]
    monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
    with threadpool_limits(threads):
        for method in METHODS:
            batch = getattr(model, method)(others)
            alone = [getattr(model, method)([view[[i]] for view in others]) for i in range(0, len(batch), 5)]
            np.testing.assert_array_equal(np.concatenate(alone), batch[::5])


@pytest.mark.parametrize("name", RECIPES)
def test_one_sample_alone_in_every_scaling_dense_and_sparse(name):
    """Counts with ties, of which one view is dense and the other one nearly empty."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=90)
    dense = rng.poisson(1 + 8 * rng.random((3, 6))[y]).astype(float)
    words = rng.poisson(1.5 * (rng.random((3, 60)) < 0.1)[y]).astype(float)
    model = quiet_fit([dense[:60], words[:60]], 3, normalisation=name)
    new = [dense[60:], words[60:]]
    scores = model.outlier_score(new)
    np.testing.assert_array_equal(model.outlier_score([sp.csr_array(view) for view in new]), scores)
    for i in range(0, 30, 2):
        assert model.outlier_score([view[[i]] for view in new])[0] == scores[i]


def test_blocks_of_samples_change_nothing(gappy, monkeypatch):
    model, _views, others = gappy
    whole = [getattr(model, method)(others) for method in METHODS]
    monkeypatch.setattr("tensormvc.auto._placement._BLOCK", 7)
    for method, expected in zip(METHODS, whole, strict=True):
        np.testing.assert_array_equal(getattr(model, method)(others), expected)


def test_memberships_say_the_label_and_how_sure_it_is(gappy):
    model, _views, others = gappy
    shares, labels = model.predict_proba(others), model.predict(others)
    # Shares of ten neighbours, and their mean.
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(labels, np.argmax(shares, axis=1))
    ordered = np.sort(shares, axis=1)
    np.testing.assert_array_equal(confidence(shares), np.minimum(ordered[:, -1] - ordered[:, -2], 1))
    strict = model.predict(others, min_confidence=0.9)
    np.testing.assert_array_equal(strict, np.where(confidence(shares) < 0.9, -1, labels))
    np.testing.assert_array_equal(confidence(np.ones((4, 1))), 1)


def brute_force_votes(distances, reach, count):
    """Votes of the nearest landmarks of one sample, by their distances and their reach; no two are equally far."""
    nearest = np.argsort(distances)[:count]
    relative = distances[nearest] / (distances[nearest].max() + reach[nearest])
    beyond = relative - relative.min()
    votes = np.zeros(len(distances))
    votes[nearest] = np.exp(-beyond / beyond.mean())
    return votes / votes.sum()


@pytest.mark.parametrize(("n_clusters", "count"), [(2, 10), (3, 8), (9, 5)])
def test_votes_by_brute_force(n_clusters, count):
    """Half of the votes are those of the views by their weights, half those in all views together."""
    rng = np.random.default_rng(0)
    views = [view + 4 * rng.normal(size=view.shape) for view in blobs(60, n_clusters)[0]]
    model = quiet_fit([view[:50] for view in views], n_clusters)
    fitted, weights = model.fitted_, model.fitted_.placement.weights
    assert n_votes(50, n_clusters) == count
    for new in range(50, 60):
        squares, reach = [], []
        for view, part in zip(fitted.views, fitted.placement.parts, strict=True):
            sample = view.scaling.apply(views[model.view_names_.index(view.name)][[new]])
            squares.append(((part - sample) ** 2).sum(axis=1))
            among = np.linalg.norm(part[:, None] - part, axis=2)
            reach.append(np.sort(among, axis=1)[:, count])
        joint = np.sqrt(weights @ squares), np.sqrt(weights @ np.square(reach))
        votes = sum(
            weight / weights.sum() * brute_force_votes(np.sqrt(square), own, count)
            for weight, square, own in zip(weights, squares, reach, strict=True)
        )
        expected = (votes + brute_force_votes(*joint, count)) / 2 @ fitted.shares
        # The largest share is raised by 1e-9, to be the largest beyond rounding.
        np.testing.assert_allclose(model.predict_proba([view[[new]] for view in views])[0], expected, atol=2e-9)


def test_landmarks_without_any_reach_still_vote():
    """Each cluster is a heap of equal samples: there, distances are relative to the reach of the new sample."""
    views = [np.repeat(view, 20, axis=0) for view in blobs(6, 3, seed=3)[0]]
    model = quiet_fit(views, 3)
    assert (model.fitted_.placement.reach == 0).all()
    shares = model.predict_proba([view + 0.1 for view in views])
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(shares.argmax(axis=1), model.labels_)


def test_new_samples_join_their_clusters():
    views, y = blobs(200, n_clusters=4, widths=(5, 6, 7))
    model = fit([view[:100] for view in views], 4)
    new, truth = [view[100:] for view in views], y[100:]
    best = acc(truth, model.predict(new))
    assert best > 0.97
    for subset in ([0], [1], [2], [0, 2]):
        some = [view if v in subset else None for v, view in enumerate(new)]
        assert acc(truth, model.predict(some)) > 0.9
        by_name = {f"view {v}": new[v] for v in reversed(subset)}
        np.testing.assert_array_equal(model.predict_proba(by_name), model.predict_proba(some))
        absent = [view if v in subset else np.full_like(view, np.nan) for v, view in enumerate(new)]
        np.testing.assert_array_equal(model.predict_proba(absent), model.predict_proba(some))


@pytest.mark.parametrize("kind", ["root", "log-counts", "log-ratio", "lsi"])
def test_new_samples_may_be_a_little_below_zero(kind):
    """Such as measurements minus a background: to a scaling of non-negative values this is hardly different from 0."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    views = [rng.poisson(20 * np.eye(3, 8)[y] + 1).astype(float) for _ in range(2)]
    model = fit(views, 3, normalisation=kind)
    near = [np.where(view == 0, -1e-9, view) for view in views]
    shares = model.predict_proba(near)
    np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(np.argmax(shares, axis=1), model.labels_)
    below = model.predict_proba([view - 30 for view in views])
    np.testing.assert_allclose(below.sum(axis=1), 1, rtol=1e-12)


def test_samples_far_away_are_outliers():
    views, _y = blobs(120)
    model = fit(views, 3)
    assert np.median(model.outlier_score_) == pytest.approx(1, abs=0.15)
    far = [np.vstack([view[:1] + 0.01, 50 * np.ones((1, view.shape[1]))]) for view in views]
    near_score, far_score = model.outlier_score(far)
    assert far_score > max(2, 2 * near_score)


def test_empty_new_samples_belong_to_all_clusters_alike(gappy):
    model, _views, others = gappy
    empty = [np.zeros_like(view[:2]) for view in others]
    np.testing.assert_array_equal(model.predict_proba(empty), np.full((2, 3), 1 / 3))
    np.testing.assert_array_equal(model.predict(empty), 0)
    np.testing.assert_array_equal(model.predict(empty, min_confidence=0.1), -1)
    np.testing.assert_array_equal(model.outlier_score(empty), 0)


@pytest.fixture(scope="module")
def tables():
    pd = pytest.importorskip("pandas")
    (a, b), _y = blobs(60)
    index = [f"s{i}" for i in range(60)]
    frames = {
        "a": pd.DataFrame(a, index=index, columns=list("wxyz")),
        "b": pd.DataFrame(b, index=index, columns=[f"g{j}" for j in range(6)]),
    }
    return fit(frames, 3), frames


def test_features_of_tables_are_matched_by_name(tables):
    model, frames = tables
    rng = np.random.default_rng(0)
    shuffled = {name: frame[rng.permutation(frame.columns)] for name, frame in frames.items()}
    more = {name: frame.assign(extra=1.0) for name, frame in shuffled.items()}
    for given in (frames, shuffled, more):
        np.testing.assert_array_equal(model.predict_proba(given), model.membership_)
    new = {name: frame.iloc[:9].add(0.1).rename(index=lambda i: f"new {i}") for name, frame in shuffled.items()}
    plain = [frames[name].to_numpy()[:9] + 0.1 for name in frames]
    for method in METHODS:
        np.testing.assert_array_equal(getattr(model, method)(new), getattr(model, method)(plain))


@pytest.mark.parametrize("extra", ["text", np.inf, np.datetime64("2024-01-01")])
def test_other_columns_of_tables_do_not_matter_whatever_they_hold(tables, extra):
    model, frames = tables
    np.testing.assert_array_equal(
        model.predict({k: frame.assign(extra=extra) for k, frame in frames.items()}), model.labels_
    )


def test_a_sample_with_values_in_other_columns_only_has_no_view(tables):
    model, frames = tables
    with pytest.raises(ValueError, match="sample s1 is NaN in every view"):
        model.predict({"a": frames["a"].drop(index="s1").reindex(frames["a"].index).assign(extra=1.0)})


def test_none_in_a_dict_is_a_view_that_the_samples_lack(tables):
    model, frames = tables
    np.testing.assert_array_equal(model.predict({"a": frames["a"], "b": None}), model.predict({"a": frames["a"]}))


def test_a_model_of_one_array_places_separate_views():
    views, _y = blobs()
    model = fit(np.hstack(views), 3, view_sizes=[4, 6])
    for given in (np.hstack(views), views, dict(zip(model.view_names_, views, strict=True))):
        np.testing.assert_array_equal(model.predict(given), model.labels_)
    np.testing.assert_array_equal(model.predict([views[0], None]), model.predict({"view 0": views[0]}))


def test_tables_of_other_samples_are_joined(tables):
    model, frames = tables
    parts = {"a": frames["a"].iloc[:6], "b": frames["b"].iloc[3:9]}
    together = model.predict_proba(parts)
    assert len(together) == 9
    np.testing.assert_array_equal(together[3:6], model.membership_[3:6])
    np.testing.assert_array_equal(together[:3], model.predict_proba({"a": frames["a"].iloc[:3]}))
    np.testing.assert_array_equal(together[6:], model.predict_proba({"b": frames["b"].iloc[6:9]}))


def test_wrong_new_samples_are_named(tables, gappy):
    model, frames = tables
    with pytest.raises(ValueError, match="the model has no view 'c'; its views are a, b"):
        model.predict({"c": frames["a"]})
    with pytest.raises(ValueError, match=r"^b lacks 1 of the fitted features, such as 'g3'"):
        model.predict({"b": frames["b"].drop(columns="g3")})
    repeated = frames["b"][["g1", *frames["b"].columns]]
    with pytest.raises(ValueError, match=r"^b has several features called 'g1', .* pass them in the order of the fit"):
        model.predict({"b": repeated})
    with pytest.raises(ValueError, match=r"^a has 3 features; the model was fitted with 4"):
        model.predict({"a": np.ones((2, 3))})
    with pytest.raises(ValueError, match=r"^b has 4 features; the model was fitted with 6"):
        model.predict([np.ones((2, 4)), np.ones((2, 4))])
    with pytest.raises(ValueError, match="1 views were passed to a model of 2 views: pass None"):
        model.predict([None])
    with pytest.raises(ValueError, match="infinity"):
        model.predict({"a": np.full((2, 4), np.inf)})
    with pytest.raises(ValueError, match=r"^a has values of size 1e\+200"):
        model.predict({"a": np.full((2, 4), 1e200)})
    with pytest.raises(ValueError, match="min_confidence=20: expected a number from 0 to 1"):
        model.predict(frames, min_confidence=20)
    with pytest.raises(ValueError, match="a has 1 dimensions"):
        model.predict([frames["a"].iloc[0], None])
    with pytest.raises(NotFittedError):
        tm.MultiViewClustering(3).predict(gappy[1])


@pytest.mark.parametrize("wrong", ["s3", 2.5, None, [3], 60, -61])
def test_a_sample_is_explained_by_its_position(tables, wrong):
    model, _frames = tables
    assert str(model.explain_sample(np.int64(3))) == str(model.explain_sample(3)) == str(model.explain_sample(-57))
    with pytest.raises(ValueError, match="the model was fitted to 60 samples, numbered from 0"):
        model.explain_sample(wrong)


def test_views_that_only_lists_tell_apart(gappy):
    model, views, _others = gappy
    with pytest.raises(ValueError, match="features"):
        model.predict(views[::-1])
    with pytest.raises(ValueError, match="view"):
        model.predict([*views, views[0]])


def test_the_map_of_fitted_samples_is_theirs():
    views, _y = blobs()
    model = fit(views, 3)
    np.testing.assert_array_equal(model.map_of(views), model.map_)
    moved = model.map_of([view + 1e-6 for view in views])
    # Close to its nearest landmarks, among which is the sample itself.
    assert np.median(np.linalg.norm(moved - model.map_, axis=1)) < 0.2 * np.ptp(model.map_)
