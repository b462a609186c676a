"""Random numbers belong to the samples, and look random."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tensormvc.rows import SampleRandom, kmeans, uniform, waves
from tensormvc.rows._kmeans import _arrivals
from tensormvc.views import as_views


def numbers(random, kind, count):
    return kind(random.rows["phases"], random.draw(count))


def random_views(n, dims=(5, 8, 5), seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, d)) for d in dims]


@given(seed=st.integers(0, 2**32 - 1), canonical=st.booleans())
def test_numbers_belong_to_the_samples(seed, canonical):
    views = [np.concatenate([view, view[:4]]) for view in random_views(12)]
    order = np.random.default_rng(seed).permutation(16)
    first = as_views(views, canonical=canonical)
    second = as_views([view[order] for view in reversed(views)], canonical=canonical)
    a = first.to_given_order(numbers(SampleRandom(first, seed), waves, 7))
    b = second.to_given_order(numbers(SampleRandom(second, seed), waves, 7))
    # Sums of products are rounded in another order: 1e-15 times the periods that a sample passes.
    np.testing.assert_allclose(a[order], b, rtol=0, atol=1e-11)
    np.testing.assert_allclose(a[12:], a[:4], rtol=0, atol=1e-11)
    if canonical:
        np.testing.assert_array_equal(a[order], b)


@pytest.mark.parametrize(("change", "bound"), [(1e-10, 1e-6), (None, 1e-3)])
def test_numbers_hardly_move_with_the_samples(change, bound):
    """By noise of 1e-10, and by rounding to 6e-8, times at most a few thousand radians that a sample passes."""
    views = random_views(300)
    rng = np.random.default_rng(1)
    moved = [
        view.astype(np.float32).astype(np.float64) if change is None else view + change * rng.normal(size=view.shape)
        for view in views
    ]
    made = [as_views(some, canonical=False, keep_view_order=True) for some in (views, moved)]
    a, b = (numbers(SampleRandom(some, 0), waves, 50) for some in made)
    assert np.abs(a - b).max() < bound


def test_numbers_look_random():
    made = as_views(random_views(4000))
    random = SampleRandom(made, 0)
    flat, wavy = numbers(random, uniform, 8), numbers(random, waves, 8)
    assert (flat >= 0).all()
    assert (flat < 1).all()
    for column in flat.T:
        assert stats.kstest(column, "uniform").pvalue > 1e-4
    # Of a few thousand samples: five standard errors.
    assert np.abs(wavy.mean(axis=0)).max() < 5 / np.sqrt(4000)
    assert np.abs(wavy.var(axis=0) - 1).max() < 5 / np.sqrt(4000)
    together = np.column_stack([flat, wavy, numbers(SampleRandom(made, 1), waves, 8)])
    correlations = np.corrcoef(together, rowvar=False) - np.eye(24)
    assert np.abs(correlations).max() < 5 / np.sqrt(4000)


def test_points_are_drawn_in_proportion_to_their_weights():
    weights = np.array([0.0, 1.0, 3.0, 6.0])
    times = _arrivals(np.repeat(weights[:, None], 20_000, axis=1), np.random.default_rng(0).uniform(size=(4, 20_000)))
    drawn = np.argmin(times, axis=0)
    shares = np.bincount(drawn, minlength=4) / 20_000
    # Five standard errors of a share are at most 5 · 0.5/√20000.
    np.testing.assert_allclose(shares, weights / 10, atol=0.018)
    assert shares[0] == 0


def test_kmeans_does_not_depend_on_the_order():
    views = random_views(200)
    order = np.random.default_rng(3).permutation(200)
    labels = []
    for parts in (views, [view[order] for view in views]):
        made = as_views(parts, canonical=False)
        points = np.concatenate(made.arrays, axis=1)
        labels.append(kmeans(points, 9, n_init=2, random=SampleRandom(made, 0))[0])
    np.testing.assert_array_equal(labels[0][order], labels[1])
