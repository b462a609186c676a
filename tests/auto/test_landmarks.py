"""Which samples become landmarks, with and without duplicates."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensormvc as tm
from tensormvc.auto._landmarks import KeyCounts, spread
from tensormvc.views._order import mix

from .data import limit_landmarks, quiet_fit


def keys_of(values):
    """Keys as of rows: scrambled, and equal for equal values."""
    return mix(np.array(values, dtype=np.int64) + 1).view(np.uint64)


some_keys = st.lists(st.integers(0, 30), min_size=1, max_size=200).map(keys_of)


@given(some_keys, st.integers(1, 50), st.integers(1, 5))
def test_counts_of_parts_are_those_of_all(keys, most, n_parts):
    whole = KeyCounts.of(keys, most)
    parts = KeyCounts.joined([KeyCounts.of(part, most) for part in np.array_split(keys, n_parts) if len(part)], most)
    np.testing.assert_array_equal(parts.keys, whole.keys)
    np.testing.assert_array_equal(parts.counts, whole.counts)
    np.testing.assert_array_equal(whole.counts, [np.sum(keys == key) for key in np.unique(keys)[:most]])


@given(some_keys, st.integers(1, 250))
def test_every_row_is_taken_once_and_the_first_of_equal_ones(keys, most):
    wanted = KeyCounts.of(keys, most).thinned(most)
    rows = wanted.first_rows(keys)
    assert len(rows) <= most
    expected = [np.flatnonzero(keys == key)[:count] for key, count in zip(wanted.keys, wanted.counts, strict=True)]
    np.testing.assert_array_equal(rows, np.concatenate(expected))


def test_different_rows_are_taken_by_their_keys():
    keys = keys_of(range(500))
    wanted = KeyCounts.of(keys, 100).thinned(100)
    np.testing.assert_array_equal(wanted.first_rows(keys), np.argsort(keys)[:100])
    np.testing.assert_array_equal(spread(keys), np.argsort(keys))


def test_the_first_of_spread_rows_are_a_sample_of_all():
    values = np.repeat(np.arange(10), 500)
    order = spread(keys_of(values))
    np.testing.assert_array_equal(np.sort(order), np.arange(5000))
    # Of 1 000 random rows, a tenth has each value; five standard deviations.
    assert np.abs(np.bincount(values[order[:1000]]) - 100).max() < 5 * np.sqrt(1000 * 0.1 * 0.9)


def test_frequent_rows_do_not_take_the_place_of_others(monkeypatch):
    """A fifth of all rows are one default answer; the others are in three clusters."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=4000)
    views = [8 * rng.normal(size=(3, d))[y] + rng.normal(size=(4000, d)) for d in (4, 5)]
    for view in views:
        view[:800] = view[0]
    limit_landmarks(monkeypatch, 500)
    model = quiet_fit(views, 3)
    same = np.flatnonzero(model.landmarks_ < 800)
    assert len(same) <= 5
    assert len(model.landmarks_) > 490
    assert tm.metrics.ari(y[800:], model.labels_[800:]) == 1
    assert len(np.unique(model.labels_[:800])) == 1
    order = rng.permutation(4000)
    again = quiet_fit([view[order] for view in views], 3)
    np.testing.assert_array_equal(again.membership_, model.membership_[order])


@pytest.mark.parametrize("n_clusters", [4, "auto"])
def test_many_answers_of_few_kinds(monkeypatch, n_clusters):
    """Two questionnaires of yes and no: four groups answer alike, but for one answer in twenty."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 1500)
    views = [(rng.random((4, 6)) < 0.5)[y] ^ (rng.random((6000, 6)) < 0.05) for _ in range(2)]
    limit_landmarks(monkeypatch, 2000)
    model = quiet_fit([view.astype(float) for view in views], n_clusters)
    assert 4 <= model.n_clusters_ <= 8
    assert tm.metrics.ari(y, model.labels_) > 0.7
