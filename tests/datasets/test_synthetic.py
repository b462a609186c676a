import time

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from tensormvc.datasets import load_digits_views, make_multiview


def test_shapes_types_and_seeds():
    views, y = make_multiview(50, n_clusters=4, n_features=6, n_views=2, dtype="float32", random_state=0)
    assert [(view.shape, view.dtype) for view in views] == [((50, 6), np.float32)] * 2
    assert len(np.unique(y)) == 4
    again, _ = make_multiview(50, n_clusters=4, n_features=6, n_views=2, dtype="float32", random_state=0)
    np.testing.assert_array_equal(views, again)
    other, _ = make_multiview(50, n_clusters=4, n_features=6, n_views=2, dtype="float32", random_state=1)
    assert not np.array_equal(views, other)


def test_global_generator_is_not_touched():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    make_multiview(20, random_state=0)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def score(view, y):
    return adjusted_rand_score(y, KMeans(y.max() + 1, n_init=3, random_state=0).fit_predict(view))


def test_noise_and_disagreement_make_it_harder():
    easy, y = make_multiview(400, n_features=20, noise=0.3, random_state=0)
    assert all(score(view, y) > 0.99 for view in easy)
    noisy, y = make_multiview(400, n_features=20, noise=4, random_state=0)
    assert all(score(view, y) < 0.5 for view in noisy)
    wrong, y = make_multiview(400, n_features=20, noise=0.1, disagreement=0.3, random_state=0)
    labels = [KMeans(3, n_init=3, random_state=0).fit_predict(view) for view in wrong]
    assert all(0.2 < adjusted_rand_score(y, part) < 0.6 for part in labels)
    assert adjusted_rand_score(*labels[:2]) < 0.5, "the views err independently"


def test_order_and_imbalance():
    _, y = make_multiview(1000, n_clusters=5, imbalance=8, shuffle=False, random_state=0)
    assert np.all(np.diff(y) >= 0)
    sizes = np.bincount(y)
    assert sizes.sum() == 1000
    assert sizes.max() / sizes.min() == pytest.approx(8, rel=0.1)
    _, y = make_multiview(1000, n_clusters=5, random_state=0)
    assert np.any(np.diff(y) < 0)
    assert np.bincount(make_multiview(7, n_clusters=7, imbalance=1e6)[1]).min() == 1


def test_a_million_samples_in_seconds():
    start = time.perf_counter()
    views, y = make_multiview(10**6, n_clusters=10, disagreement=0.1, imbalance=3, dtype=np.float32, random_state=0)
    assert time.perf_counter() - start < 15
    assert [len(view) for view in views] == [10**6] * 3 == [len(y)] * 3


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"n_clusters": 0}, "n_clusters"),
        ({"n_clusters": 301}, "n_clusters"),
        ({"n_features": ()}, "n_features"),
        ({"n_features": (3, 0)}, "n_features"),
        ({"n_features": (3, 4), "n_views": 3}, "n_views"),
        ({"noise": -1}, "noise"),
        ({"noise": np.nan}, "noise"),
        ({"disagreement": 1.5}, "disagreement"),
        ({"imbalance": 0.5}, "imbalance"),
        ({"dtype": "int32"}, "dtype"),
    ],
)
def test_wrong_arguments(arguments, name):
    with pytest.raises(ValueError, match=name):
        make_multiview(300, **arguments)


def test_digits_are_different_views_of_the_same_images():
    views, y = load_digits_views()
    assert len(views) >= 3
    assert {len(view) for view in views} == {1797} == {len(y)}
    assert np.any(np.diff(y) < 0)
    for i, view in enumerate(views):
        assert np.isfinite(view).all()
        for other in views[i + 1 :]:
            centred, target = view - view.mean(0), other - other.mean(0)
            fit = centred @ np.linalg.lstsq(centred, target, rcond=None)[0]
            unexplained = np.sum((target - fit) ** 2) / np.sum(target**2)
            assert unexplained > 0.05 or i == 0, "one view is no linear image of another, but for the pixels"
    sorted_views, sorted_y = load_digits_views(200, class_sorted=True)
    assert np.all(np.diff(sorted_y) >= 0)
    order = np.argsort(y[:200], kind="stable")
    np.testing.assert_array_equal(sorted_views[1], views[1][:200][order])


@pytest.mark.parametrize("n_samples", [0, -3, 1798])
def test_digits_number(n_samples):
    with pytest.raises(ValueError, match="n_samples"):
        load_digits_views(n_samples)
