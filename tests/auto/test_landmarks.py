"""Which samples become landmarks, with and without duplicates."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensormvc as tm
from tensormvc.auto._landmarks import KeyCounts, shuffled
from tensormvc.views._order import mix

from .data import limit_landmarks, quiet_fit


def keys_of(values):
    """Keys as of rows: scrambled, and equal for equal values."""
    return mix(np.array(values, dtype=np.int64) + 1).view(np.uint64)


# Of many values the first ones are frequent.
some_keys = st.lists(st.integers(0, 30) | st.integers(0, 3), min_size=1, max_size=200).map(keys_of)


@given(some_keys, st.integers(1, 50), st.integers(1, 5), st.randoms(use_true_random=False))
def test_parts_have_the_candidates_of_all(keys, most, n_parts, random):
    """No matter how the samples are distributed over the parts, which differ in size."""
    whole = KeyCounts.of(keys).candidates(most)
    owner = np.array([random.randrange(n_parts) ** 2 % n_parts for _ in keys])
    parts = [KeyCounts.of(keys[owner == part]).candidates(most) for part in range(n_parts)]
    joined = KeyCounts.joined(parts, most)
    counts = sum(joined.recounted(keys[owner == part]) for part in range(n_parts))
    found = replace(joined, counts=counts).candidates(most)
    np.testing.assert_array_equal(found.keys, whole.keys)
    np.testing.assert_array_equal(found.counts, whole.counts)
    np.testing.assert_array_equal(whole.counts, [np.sum(keys == key) for key in whole.keys])


@given(some_keys, st.integers(1, 250))
def test_every_row_is_taken_once_and_the_first_of_equal_ones(keys, most):
    wanted = KeyCounts.of(keys).sampled(most)
    rows = wanted.first_rows(keys)
    # The next row has no place for all its landmarks, of which it has at most 1 %; or there is no next one.
    assert len(rows) <= most
    assert len(rows) >= min(most - 0.01 * most, len(np.unique(keys)))
    expected = [np.flatnonzero(keys == key)[:count] for key, count in zip(wanted.keys, wanted.counts, strict=True)]
    np.testing.assert_array_equal(rows, np.concatenate([np.zeros(0, dtype=int), *expected]))
    np.testing.assert_array_equal(np.sort(wanted.shuffled(keys[rows])), np.arange(len(rows)))


def test_different_rows_are_taken_by_their_keys():
    keys = keys_of(range(500))
    wanted = KeyCounts.of(keys).sampled(100)
    rows = wanted.first_rows(keys)
    np.testing.assert_array_equal(rows, np.argsort(keys)[:100])
    np.testing.assert_array_equal(wanted.shuffled(keys[rows]), np.arange(100))
    np.testing.assert_array_equal(shuffled(keys), np.argsort(keys))


def test_landmarks_are_a_sample_of_all_rows():
    """A quarter of the rows each are unique, in pairs, in tens, and in thousands; also among the first landmarks."""
    copies = np.repeat([1, 2, 10, 1000], 10_000 // np.array([1, 2, 10, 1000]))
    keys = keys_of(np.repeat(np.arange(len(copies)), copies))
    wanted = KeyCounts.of(keys).sampled(2000)
    rows = wanted.first_rows(keys)
    rows = rows[wanted.shuffled(keys[rows])]
    assert 1900 < len(rows) <= 2000
    kinds = np.repeat(copies, copies)
    for some in (rows, rows[:500]):
        shares = [np.mean(kinds[some] == count) for count in (1, 2, 10)]
        # Five standard deviations of the share of a random sample. Of each row with 1 000 copies, no more than 1 %.
        assert np.abs(np.array(shares) / sum(shares) - 1 / 3).max() < 5 * np.sqrt(2 / 9 / len(some))
    assert np.unique(keys[rows[kinds[rows] == 1000]], return_counts=True)[1].tolist() == [20] * 10


def test_all_places_are_taken_whatever_the_share_of_frequent_rows():
    """The last percent of 100 000 rows are different, the others are equal."""
    keys = keys_of(np.maximum(np.arange(100_000), 99_000))
    wanted = KeyCounts.of(keys).sampled(500)
    assert len(wanted.first_rows(keys)) == 500
    assert wanted.counts.max() == 5


def test_the_first_of_shuffled_rows_are_a_sample_of_all():
    values = np.repeat(np.arange(10), 500)
    order = shuffled(keys_of(values))
    np.testing.assert_array_equal(np.sort(order), np.arange(5000))
    # Of 1 000 random rows, a tenth has each value; five standard deviations.
    assert np.abs(np.bincount(values[order[:1000]]) - 100).max() < 5 * np.sqrt(1000 * 0.1 * 0.9)


def test_frequent_rows_do_not_take_the_place_of_others(monkeypatch):
    """A fifth of all rows are one default answer, which is a cluster; the others are in three clusters."""
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=4000)
    centres = [8 * rng.normal(size=(4, d)) for d in (4, 5)]
    views = [centre[y] + rng.normal(size=(4000, centre.shape[1])) for centre in centres]
    y[:800] = 3
    for view, centre in zip(views, centres, strict=True):
        view[:800] = centre[3]
    limit_landmarks(monkeypatch, 500)
    model = quiet_fit(views, 3)
    assert np.count_nonzero(model.landmarks_ < 800) == 5
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
