"""Lists of nearest neighbours and fuzzy graphs, against brute force."""

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from tensormvc.backend.threads import one_thread
from tensormvc.graphs import _fuzzy
from tensormvc.graphs._distances import DistanceBlocks
from tensormvc.graphs._fuzzy import _LEAST_BANDWIDTH, Neighbours, find_neighbours


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


def rule_for_ties(distances, k):
    """The neighbours by the rule for ties, literally, from exact distances (a dict, infinite ones left out)."""
    finite = {j: distance for j, distance in distances.items() if distance < np.inf}
    kth = sorted(finite.values())[k - 1] if len(finite) >= k else np.inf
    tied = [j for j, distance in finite.items() if distance <= kth]
    nearer = [j for j, distance in finite.items() if distance < kth]
    return sorted(tied if len(tied) <= 2 * k or not nearer else nearer, key=lambda j: (finite[j], j))


def textbook_neighbours(samples, candidates, k, skip_self):
    return [
        rule_for_ties(
            {j: ((sample - other) ** 2).sum() for j, other in enumerate(candidates) if not (skip_self and i == j)}, k
        )
        for i, sample in enumerate(samples)
    ]


def lists_of(found):
    return [piece.tolist() for piece in np.split(found.indices, found.starts[1:-1])]


@given(st.integers(0, 10**6), st.integers(3, 40), st.integers(1, 4), st.integers(1, 3), st.booleans(), st.data())
def test_the_rule_for_ties_holds_for_parts_of_every_kind(backend, seed, n, width, spread, exact, data):
    """Whole coordinates in a small range: full of ties and duplicates."""
    points = np.random.default_rng(seed).integers(0, spread + 1, size=(n, width)).astype(float)
    among_themselves = data.draw(st.booleans())
    candidates = points if among_themselves else points[: max(2, n // 2)]
    k = data.draw(st.integers(1, len(candidates) - 1))
    expected = textbook_neighbours(points, candidates, k, among_themselves)
    half = width // 2
    forms = [
        lambda a: [backend.array(a)],
        lambda a: [sp.csr_array(a)],
        lambda a: [backend.array(a[:, :half]), sp.csr_array(a[:, half:])] if half else [a],
    ]
    for form in forms:
        found = find_neighbours(form(points), k, None if among_themselves else form(candidates), exact=exact)
        assert lists_of(found) == expected


@st.composite
def samples_with_missing_parts(draw):
    """Points with whole coordinates in several parts, and which samples lack which part."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, n_parts = draw(st.integers(3, 25)), draw(st.integers(1, 3))
    parts = [rng.integers(0, 4, size=(n, draw(st.integers(1, 4)))).astype(float) for _ in range(n_parts)]
    missing = rng.random((n, n_parts)) < draw(st.sampled_from([0.0, 0.2, 0.6]))
    for part, lacking in zip(parts, missing.T, strict=True):
        part[lacking] = 0
    return parts, missing


def masked_distances(parts, missing):
    """The exact distances over the parts that both have, plus the mean ones in the others; infinite without any."""
    n = len(missing)
    total = [[Fraction(0)] * n for _ in range(n)]
    for part, lacking in zip(parts, missing.T, strict=True):
        squares = ((part[:, None] - part) ** 2).sum(axis=2).astype(int)
        present = ~lacking
        mean = Fraction(int(squares[np.ix_(present, present)].sum()), max(int(present.sum()) ** 2, 1))
        for i in range(n):
            for j in range(n):
                total[i][j] += int(squares[i, j]) if present[i] and present[j] else mean
    common = (~missing).astype(int) @ (~missing).T
    return [[total[i][j] if common[i, j] else np.inf for j in range(n)] for i in range(n)]


@given(samples_with_missing_parts(), st.booleans())
def test_masked_distances_are_those_of_brute_force(samples, sparse):
    parts, missing = samples
    n = len(missing)
    form = sp.csr_array if sparse else np.asarray
    blocks = DistanceBlocks([form(part) for part in parts], missing=missing)
    expected = np.array(masked_distances(parts, missing), dtype=float)
    np.testing.assert_allclose(blocks.block(0, n), expected, rtol=1e-13, atol=1e-12)
    np.testing.assert_allclose(blocks.block(1, n - 1), expected[1 : n - 1], rtol=1e-13, atol=1e-12)


@pytest.mark.filterwarnings("error")
@given(samples_with_missing_parts(), st.data())
def test_neighbours_with_missing_parts_are_those_of_brute_force(samples, data):
    parts, missing = samples
    n = len(missing)
    k = data.draw(st.integers(1, n - 1))
    distances = masked_distances(parts, missing)
    expected = [rule_for_ties({j: distances[i][j] for j in range(n) if j != i}, k) for i in range(n)]
    found = find_neighbours(parts, k, missing=missing)
    assert list(map(set, lists_of(found))) == list(map(set, expected))
    fuzzy = found.fuzzy_graph()
    assert np.isfinite(fuzzy.data).all()
    assert fuzzy.data.max(initial=0) <= 1 + 1e-12
    alone = [i for i in range(n) if not expected[i]]
    assert np.diff(found.starts)[alone].sum() == 0


def test_complete_samples_need_no_mask():
    points = np.random.default_rng(0).normal(size=(30, 6))
    parts = [points[:, :2], points[:, 2:]]
    whole, masked = find_neighbours(parts, 5), find_neighbours(parts, 5, missing=np.zeros((30, 2), dtype=bool))
    np.testing.assert_array_equal(masked.indices, whole.indices)
    np.testing.assert_allclose(masked.squares, whole.squares, rtol=1e-10)


@pytest.mark.parametrize("width", [1, 3, 30])
def test_exact_distances_do_not_depend_on_the_batch(backend, width):
    rng = np.random.default_rng(0)
    points, others = rng.normal(size=(60, width)), rng.normal(size=(90, width))
    candidates = backend.array(others)
    batch = find_neighbours([points], 5, [candidates], exact=True)
    with one_thread():
        again = find_neighbours([points], 5, [candidates], exact=True)
    np.testing.assert_array_equal(batch.squares, again.squares)
    for i, point in enumerate(points):
        alone = find_neighbours([point[None]], 5, [candidates], exact=True)
        here = slice(batch.starts[i], batch.starts[i + 1])
        np.testing.assert_array_equal(batch.indices[here], alone.indices)
        np.testing.assert_array_equal(batch.squares[here], alone.squares)
    nearest = np.sort(((points[:, None] - others) ** 2).sum(axis=2), axis=1)[:, :5]
    np.testing.assert_allclose(batch.squares.reshape(60, 5), nearest, rtol=1e-13)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "starts",
    [[0, 0, 0, 0, 0], [0, 0, 2, 2, 3], [0, 1, 2, 3, 3]],
    ids=["all empty", "first and third empty", "last empty"],
)
def test_samples_without_neighbours_have_no_links(starts):
    starts = np.array(starts)
    rows = np.repeat(np.arange(4), np.diff(starts))
    indices = np.array([(row + 1 + i) % 4 for i, row in enumerate(rows)], dtype=np.intp)
    lists = Neighbours(starts, indices, np.arange(1.0, len(rows) + 1), 4, 1.0)
    assert lists.nearest(1).starts[-1] <= len(rows)
    graph = lists.fuzzy_graph().toarray()
    linked = lists.link_graph().toarray() > 0
    assert np.isfinite(graph).all()
    np.testing.assert_array_equal(graph > 0, linked)
    np.testing.assert_array_equal(linked, linked.T)
    assert not linked[np.setdiff1d(np.arange(4), [*rows, *indices])].any()


@given(st.integers(0, 10**6), st.integers(4, 30), st.integers(3, 6))
def test_weights_of_a_fuzzy_list_sum_to_the_logarithm_of_its_length(seed, n, k):
    """Without links back, weights are those of the lists themselves."""
    points = np.random.default_rng(seed).normal(size=(n, 3))
    k = min(k, n - 1)
    found = find_neighbours([points], k)
    there = found.graph().toarray() > 0
    graph = found.fuzzy_graph().toarray()
    # The nearest neighbour has weight 1, whatever the other side says.
    nearest = found.indices[found.starts[:-1]]
    np.testing.assert_allclose(graph[np.arange(n), nearest], 1)
    one_way = there & ~there.T
    only = [i for i in range(n) if (one_way[i] == there[i]).all() and not there[:, i].any()]
    # Bandwidths have a limit: neighbours that are nearly as near as the nearest one keep their weight.
    distances = np.sqrt(found.squares.reshape(n, k))
    beyond = distances - distances[:, :1]
    least = np.exp(-beyond / (_LEAST_BANDWIDTH * distances.mean(axis=1, keepdims=True))).sum(axis=1)
    np.testing.assert_allclose(graph[only].sum(axis=1), np.maximum(np.log2(k), least[only]), rtol=1e-6)


def test_distances_of_any_proportion_have_weights():
    """Among ties, bandwidths shrink until the weights of all others vanish: nothing overflows on the way."""
    rng = np.random.default_rng(0)
    n, k = 2000, 10
    distances = np.where(rng.random((n, k)) < rng.random((n, 1)), 0, 10.0 ** rng.uniform(-3, 3, size=(n, k)))
    indices = np.tile(np.arange(1, k + 1), n)
    squares = np.sort(distances, axis=1).ravel() ** 2
    graph = Neighbours(k * np.arange(n + 1), indices, squares, n, 1.0).fuzzy_graph()
    assert np.isfinite(graph.data).all()
    assert graph.data.min() >= 0
    assert graph.data.max() <= 1


@pytest.mark.parametrize("n_values", [1, 2])
def test_of_many_that_tie_with_the_nearest_some_are_linked(n_values, monkeypatch):
    """Otherwise a view of two values would have half of all pairs as links."""
    monkeypatch.setattr(_fuzzy, "_MOST_LINKS", 256 * 1500)
    values = np.arange(1500) % n_values
    found = find_neighbours([values[:, None].astype(float)], 10)
    assert (np.diff(found.starts) == 256).all()
    graph = found.link_graph()
    assert graph.diagonal().sum() == 0
    assert connected_components(graph)[0] == n_values
    # Random lists: a sample is in those of about as many others; six standard deviations.
    listed = np.bincount(found.indices, minlength=1500)
    assert np.abs(listed - 256).max() < 6 * np.sqrt(256)
    new = find_neighbours([np.zeros((3, 1))], 10, [values[:, None].astype(float)])
    np.testing.assert_array_equal(new.indices.reshape(3, 256), new.indices[None, :256].repeat(3, axis=0))
