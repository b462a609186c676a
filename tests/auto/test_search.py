"""The shared search for nearest landmarks: what one search per view finds, to the last bit, with ties and gaps."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from tensormvc.auto import _search
from tensormvc.auto._search import LandmarkView
from tensormvc.graphs._fuzzy import find_neighbours
from tensormvc.views._check import look_at, row_sizes


def nearest_landmarks(samples, landmarks, missing, weights, count):
    prepared = [LandmarkView(*view) for view in zip(landmarks, missing.T, strict=True)]
    return _search.nearest_landmarks(samples, prepared, weights, count)


def one_by_one(samples, landmarks, missing, weights, count):
    """One search per view, and one of the concatenated views."""
    pairs = [([x], [y], missing[:, v]) for v, (x, y) in enumerate(zip(samples, landmarks, strict=True))]
    if len(samples) > 1:
        roots = np.sqrt(weights)
        joint = ([part * root for part, root in zip(parts, roots, strict=True)] for parts in (samples, landmarks))
        pairs.append((*joint, missing.any(axis=1)))
    lists = []
    for own, others, lacking in pairs:
        able = np.flatnonzero(~lacking)
        if not len(able):
            lists.append((np.zeros(len(samples[0]) + 1), [], []))
            continue
        found = find_neighbours(own, min(count, len(able)), [part[able] for part in others], exact=True)
        lists.append((found.starts, able[found.indices], found.squares))
    if len(samples) > 1 and len(lists[-1][1]):
        # Far from the origin, weighted values are rounded more than their differences are.
        starts, indices, _ = lists[-1]
        rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        squares = [
            weight * np.square(x[rows] - y[indices]).sum(axis=1)
            for weight, x, y in zip(weights, samples, landmarks, strict=True)
        ]
        lists[-1] = starts, indices, sum(squares)
    return lists


def assert_same(found, expected):
    assert len(found) == len(expected)
    for ours, (starts, indices, squares) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours.starts, starts)
        rows = np.repeat(np.arange(len(starts) - 1), np.diff(ours.starts))
        mine, theirs = np.lexsort((ours.indices, rows)), np.lexsort((indices, rows))
        np.testing.assert_array_equal(ours.indices[mine], np.asarray(indices, dtype=int)[theirs])
        # Long lists of ties come from products of blocks, which round; ours are exact.
        np.testing.assert_allclose(ours.squares[mine], np.asarray(squares)[theirs], rtol=1e-12, atol=1e-14)


@given(st.integers(0, 10**6), st.booleans(), st.integers(1, 3))
def test_it_finds_what_single_searches_find(seed, ties, n_views):
    rng = np.random.default_rng(seed)
    n, n_landmarks = int(rng.integers(1, 40)), int(rng.integers(1, 900))
    draw = (lambda *shape: rng.integers(0, 3, size=shape).astype(float)) if ties else (lambda *s: rng.normal(size=s))
    widths = rng.integers(1, 6, size=n_views)
    samples, landmarks = ([draw(k, d) for d in widths] for k in (n, n_landmarks))
    missing = rng.random((n_landmarks, n_views)) < rng.choice([0, 0.3, 0.99])
    weights = np.where(rng.random(n_views) < 0.2, 0, rng.random(n_views))
    weights[0] = 1
    arguments = samples, landmarks, missing, weights, 10
    # Margins of ties differ by the lengths of the samples, 1e-14 of their squares.
    assert_same(nearest_landmarks(*arguments), one_by_one(*arguments))


@pytest.mark.parametrize("offset", [1e3, 1e6])
def test_clusters_far_from_the_origin(offset):
    """Single precision cannot tell these samples apart; the bound says so."""
    rng = np.random.default_rng(0)
    far = offset * np.repeat([[1.0], [-1.0]], 500, axis=0)
    landmarks = [rng.normal(size=(1000, 4)) + far, rng.normal(size=(1000, 3)) + far]
    samples = [landmark[::50] + 1e-3 for landmark in landmarks]
    arguments = samples, landmarks, np.zeros((1000, 2), dtype=bool), np.array([1.5, 0.5]), 10
    assert_same(nearest_landmarks(*arguments), one_by_one(*arguments))


def test_samples_beyond_single_precision():
    rng = np.random.default_rng(0)
    samples, landmarks = [rng.normal(size=(5, 4))], [rng.normal(size=(500, 4))]
    samples[0][2] *= 1e30
    others = landmarks, np.zeros((500, 1), dtype=bool), np.ones(1), 10
    (found,) = nearest_landmarks(samples, *others)
    assert found.starts[2:].tolist() == [20, 520, 530, 540]  # the second sample is equally far from everything
    for i in range(5):
        ((_, indices, squares),) = one_by_one([samples[0][[i]]], *others)
        np.testing.assert_array_equal(found.indices[found.starts[i] : found.starts[i + 1]], indices)
        np.testing.assert_array_equal(found.squares[found.starts[i] : found.starts[i + 1]], squares)


def test_sparse_views():
    rng = np.random.default_rng(0)
    dense = [rng.poisson(0.3, size=(n, 30)).astype(float) for n in (20, 300)]
    missing, weights = np.zeros((300, 2), dtype=bool), np.ones(2)
    other = [rng.normal(size=(n, 3)) for n in (20, 300)]
    samples, landmarks = ([sp.csr_array(x), y] for x, y in zip(dense, other, strict=True))
    expected = one_by_one(*zip(dense, other, strict=True), missing, weights, 10)
    assert_same(nearest_landmarks(samples, landmarks, missing, weights, 10), expected)


@given(st.integers(0, 10**6), st.integers(1, 22))
def test_the_smallest_values(seed, count):
    rng = np.random.default_rng(seed)
    width = int(rng.integers(count, 1000))
    values = rng.integers(0, rng.choice([2, 50, 10**6]), size=(7, width)).astype(np.float32)
    values[:, rng.random(width) < 0.2] = np.inf
    found = np.take_along_axis(values, _search._smallest(values, count), axis=1)
    np.testing.assert_array_equal(np.sort(found, axis=1), np.sort(values, axis=1)[:, :count])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_sizes_of_rows(form):
    rows = [[0, -2.0], [np.nan, 1], [0, 0], [np.nan, np.nan]]
    np.testing.assert_array_equal(row_sizes(form(rows)), [2, 1, 0, 0])


def test_a_look_at_rows_with_gaps():
    block = np.array([[1.0, np.nan], [np.nan, np.nan], [0, 0], [3, np.inf]])
    look = look_at(block, 10, gaps=True)
    np.testing.assert_array_equal(look.missing, [False, True, False, False])
    assert (look.n_gaps, look.wrong) == (1, [(13, 1, np.inf, 1)])
    assert look_at(np.array([[1.0, np.nan]])).wrong[0][:2] == (0, 1)
