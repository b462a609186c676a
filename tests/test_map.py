"""The map: its forces against brute force, its neighbourhoods against t-SNE, the same for every order of the rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import block_diag
from sklearn.manifold import TSNE, trustworthiness
from threadpoolctl import threadpool_limits

import tensormvc as tm
from tensormvc.auto import _map
from tensormvc.auto._looks import gather_evidence
from tensormvc.auto._map import layout, place, principal_plane
from tensormvc.graphs._fuzzy import find_neighbours
from tensormvc.views import as_views

# Benchmark files, and how many of their samples are mapped at most.
SETS = ["MSRCv1", "Dermatology"]
SLOW_SETS = ["Handwritten", "ORL_4views", "100leaves", "Scene-15"]
MOST_SAMPLES = 2000


def mapped(views, n_samples=None):
    """Return the weighted scaled views side by side, and the map, both in working order, and the views."""
    working = as_views(views, unit=False)
    evidence = gather_evidence(working)
    if n_samples is not None:
        evidence = evidence.first(n_samples)
    parts = evidence.joint_parts
    return np.hstack(parts), layout(evidence.graph("joint", 20), principal_plane(parts)), working


@pytest.fixture(scope="module")
def digits():
    return tm.datasets.load_digits_views(600)


@pytest.fixture(scope="module")
def digit_map(digits):
    return mapped(digits[0])


def exact_potential(points):
    """Return Σ_j 1 / (1 + |y_i − y_j|²) and its gradient, by all pairs."""
    apart = points[:, :, None] - points[:, None, :]
    kernel = 1 / (1 + np.sum(apart**2, axis=0))
    return kernel.sum(axis=1), -2 * np.sum(kernel**2 * apart, axis=2)


def relative_error(found, exact):
    return np.linalg.norm(found - exact) / np.linalg.norm(exact)


@pytest.mark.parametrize("spread", [None, 5, 0.1, 1e-4])
def test_repulsion_is_that_of_all_pairs(digit_map, spread):
    """On a map, and on clouds of points, to 3 %: Barnes-Hut approximations of t-SNE have errors of the same size."""
    points = digit_map[1].T if spread is None else spread * np.random.default_rng(0).normal(size=(2, 500))
    potential, slope = _map._Grid.around(points).potential(points)
    exact, exact_slope = exact_potential(points)
    assert relative_error(slope, exact_slope) < 0.03
    assert relative_error(potential, exact) < 0.003


def test_repulsion_converges_with_the_spacing(monkeypatch):
    """Slopes of cubic splines have errors of third order: half the spacing, an eighth of the error."""
    points = 5 * np.random.default_rng(0).normal(size=(2, 500))
    errors = []
    for spacing in (0.4, 0.2, 0.1):
        monkeypatch.setattr(_map, "_SPACING", spacing)
        monkeypatch.setattr(_map, "_MOST_NODES", 10_000)
        grid = _map._Grid.around(points)
        errors.append(relative_error(grid.potential(points)[1], exact_potential(points)[1]))
    assert errors[1] < errors[0] / 6
    assert errors[2] < errors[1] / 6


def test_a_large_map_has_a_coarser_grid():
    points = np.array([[0.0, 5000.0], [0.0, 0.0]])
    grid = _map._Grid.around(points)
    assert np.prod(grid.shape) < 1000
    assert grid.holds(points)
    assert not grid.holds(2 * points)


def test_a_step_follows_the_gradient_of_the_divergence(digits, monkeypatch):
    """The first step is against the gradient of KL(p ‖ q), here by finite differences of its definition."""
    monkeypatch.setattr(_map, "_GATHERING_STEPS", 0)
    monkeypatch.setattr(_map, "_SPREADING_STEPS", 1)
    monkeypatch.setattr(_map, "_FIRST_DEVIATION", 3.0)
    monkeypatch.setattr(_map, "_SPACING", 0.1)
    monkeypatch.setattr(_map, "_MOST_NODES", 10_000)
    graph = find_neighbours([digits[0][0][:40].astype(float)], 5).fuzzy_graph()
    start = np.random.default_rng(0).normal(size=(40, 2))
    before = _map._scaled(start)
    share = graph.toarray() / graph.sum()

    def divergence(points):
        kernel = 1 / (1 + np.sum((points[:, None] - points) ** 2, axis=2))
        np.fill_diagonal(kernel, 0)
        linked = share > 0
        return np.sum(share[linked] * np.log(share[linked] * kernel.sum() / kernel[linked]))

    gradient = np.empty_like(before)
    for entry in np.ndindex(before.shape):
        nudge = np.zeros_like(before)
        nudge[entry] = 1e-5
        gradient[entry] = (divergence(before + nudge) - divergence(before - nudge)) / 2e-5
    step = layout(graph, start) - before
    # A gain of 0.8 at the first step, and n / 4 of the gradient; the grid is right to a thousandth.
    np.testing.assert_allclose(step, -0.8 * 40 / 4 * gradient, atol=2e-3 * np.abs(step).max())


def test_permuted_samples_have_the_same_map(digits, digit_map):
    views = digits[0]
    _, working_map, working = digit_map
    order = np.random.default_rng(1).permutation(len(views[0]))
    _, permuted_map, permuted = mapped([view[order] for view in views])
    np.testing.assert_array_equal(permuted.to_given_order(permuted_map), working.to_given_order(working_map)[order])


@pytest.mark.parametrize("n_threads", [1, 2])
def test_threads_change_nothing(digits, digit_map, n_threads, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", str(n_threads))
    monkeypatch.setattr("tensormvc.backend.threads._processors", lambda: n_threads)
    with threadpool_limits(n_threads):
        np.testing.assert_array_equal(mapped(digits[0])[1], digit_map[1])


def test_duplicates_fall_on_each_other(digits):
    views = [np.concatenate([view[:200], view[:20]]) for view in digits[0]]
    _, working_map, working = mapped(views)
    points = working.to_given_order(working_map)
    # They differ by rounding, and attract each other.
    np.testing.assert_allclose(points[200:], points[:20], atol=1e-6 * np.ptp(points))


def test_neighbours_on_the_map_are_neighbours_of_the_samples(digit_map):
    samples, points, _ = digit_map
    reference = TSNE(random_state=0).fit_transform(samples)
    reached = trustworthiness(samples, points, n_neighbors=15)
    assert reached >= trustworthiness(samples, reference, n_neighbors=15) - 0.02
    assert reached > 0.97


@pytest.mark.parametrize("name", [*SETS, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW_SETS)])
def test_as_trustworthy_as_tsne(shared, name):
    views, _ = tm.datasets.load_views(shared / "data" / f"{name}.mat")
    samples, points, _ = mapped(views, min(MOST_SAMPLES, len(views[0])))
    reference = TSNE(random_state=0).fit_transform(samples)
    reached, needed = (trustworthiness(samples, found, n_neighbors=15) for found in (points, reference))
    assert reached >= needed - 0.02


def test_classes_are_apart(digits, digit_map):
    """Nine of ten samples have mostly neighbours of their own class on the map."""
    y = digits[1][digit_map[2].order]
    neighbours = find_neighbours([digit_map[1]], 10).graph()
    own = neighbours.multiply(y[:, None] == y).sum(axis=1) / neighbours.sum(axis=1)
    assert np.mean(own > 0.5) > 0.9


@given(n=st.integers(1, 12), density=st.sampled_from([0.0, 0.3, 1.0]), seed=st.integers(0, 99))
def test_small_and_sparse_graphs_have_maps(n, density, seed):
    """Also samples without links, and graphs in several pieces."""
    generator = np.random.default_rng(seed)
    upper = np.triu(generator.uniform(size=(n, n)) * (generator.uniform(size=(n, n)) < density), 1)
    graph, start = sp.csr_array(upper + upper.T), principal_plane([generator.normal(size=(n, 3))])
    before = graph.copy(), start.copy()
    points = layout(graph, start)
    assert points.shape == (n, 2)
    assert np.isfinite(points).all()
    np.testing.assert_allclose(points.mean(axis=0), 0, atol=1e-9 * max(1, np.abs(points).max()))
    np.testing.assert_array_equal(graph.data, before[0].data)
    np.testing.assert_array_equal(start, before[1])


def test_samples_without_links_stay_near():
    """A few of them do not make the others a dot in the middle of a map."""
    block = np.ones((60, 60)) * np.random.default_rng(0).uniform(size=(60, 60))
    graph = sp.csr_array(block_diag(block + block.T, block + block.T, np.zeros((5, 5))))
    points = layout(graph, np.random.default_rng(1).normal(size=(125, 2)))
    assert np.abs(points).max() < 60


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_principal_plane_is_that_of_an_exact_decomposition(digits, sparse):
    parts = [view.astype(float) for view in digits[0]]
    whole = np.hstack(parts)
    centred = whole if sparse else whole - whole.mean(axis=0)
    left, lengths, _ = np.linalg.svd(centred, full_matrices=False)
    found = principal_plane([sp.csr_array(parts[0]), *parts[1:]] if sparse else parts)
    # The randomised decomposition has ten dimensions to spare, and signs are arbitrary.
    np.testing.assert_allclose(np.abs(found), np.abs(left[:, :2] * lengths[:2]), atol=1e-3 * lengths[1])


@pytest.mark.parametrize("shape", [(1, 5), (2, 5), (6, 1), (6, 4)])
def test_principal_plane_of_little_data(shape):
    """Equal samples, one sample, or one feature."""
    assert np.isfinite(principal_plane([np.ones(shape)])).all()
    plane = principal_plane([np.arange(np.prod(shape)).reshape(shape)])
    assert plane.shape == (shape[0], 2)
    np.testing.assert_allclose(plane[:, 1], 0, atol=1e-12)


def links(rows, n_landmarks):
    """Return weights of landmarks, one dictionary per sample."""
    entries = [(i, j, weight) for i, row in enumerate(rows) for j, weight in row.items()]
    i, j, weights = (np.array(column) for column in zip(*entries, strict=True))
    return sp.csr_array((weights.astype(float), (i, j)), shape=(len(rows), n_landmarks))


def test_new_samples_come_to_lie_among_most_of_their_landmarks():
    landmarks = np.array([[0.0, 0], [1, 0], [0, 1], [1, 1], [50, 50]])
    square = {0: 1, 1: 1, 2: 1, 3: 1}
    points = place(landmarks, links([{4: 1}, square, {**square, 4: 1}], 5))
    np.testing.assert_allclose(points[0], landmarks[4])
    np.testing.assert_allclose(points[1], [0.5, 0.5])
    # The mean would be (10.4, 10.4).
    assert np.abs(points[2] - 0.5).max() < 0.1


def test_attractions_balance_at_a_new_sample():
    generator = np.random.default_rng(0)
    landmarks = generator.normal(size=(30, 2))
    weights = sp.csr_array(np.triu(generator.uniform(size=(20, 30))))
    points = place(landmarks, weights)
    apart = points[:, None] - landmarks
    pulls = (weights.toarray() / (1 + np.sum(apart**2, axis=2)))[:, :, None] * apart
    # The iteration converges linearly: about half a digit per step where landmarks are few, and 30 steps.
    np.testing.assert_allclose(pulls.sum(axis=1), 0, atol=1e-4)


def test_a_sample_alone_is_placed_as_in_a_batch(digits, digit_map):
    samples, points, _ = digit_map
    n = len(samples) // 2
    neighbours = find_neighbours([samples[n:]], 5, [samples[:n]]).graph()
    batch = place(points[:n], neighbours)
    alone = [place(points[:n], neighbours[[i]]) for i in range(n)]
    np.testing.assert_array_equal(np.concatenate(alone), batch)


def test_placed_samples_are_among_their_neighbours(digit_map):
    """Half of the samples placed on a map of the other half: nearly as trustworthy as a map of all of them."""
    samples, points, _ = digit_map
    n = len(samples) // 2
    known = layout(find_neighbours([samples[:n]], 20).fuzzy_graph(), principal_plane([samples[:n]]))
    neighbours = find_neighbours([samples[n:]], 5, [samples[:n]]).graph()
    whole = np.concatenate([known, place(known, neighbours)])
    mean = np.concatenate([known, neighbours @ known / np.diff(neighbours.indptr)[:, None]])
    reached, of_means, of_all = (trustworthiness(samples, found, n_neighbors=15) for found in (whole, mean, points))
    assert reached > of_all - 0.02
    assert reached > of_means


def test_a_sample_without_landmarks_has_no_place():
    points = place(np.zeros((2, 2)), sp.csr_array((np.ones(1), [0], [0, 1, 1]), shape=(2, 2)))
    np.testing.assert_array_equal(points, [[0, 0], [np.nan, np.nan]])
