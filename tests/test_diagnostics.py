"""The paper's propositions on random tensors, and the diagnostics against literal loops."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import tensormvc as tm
from tensormvc.diagnostics import (
    circular_total_variation,
    compact_similarities,
    cumulative_energy_ratio,
    equivariance_error,
    frequency_bound,
    lipschitz_constants,
    low_frequency_share,
    similarity_tensor,
    slice_energies,
    spectrum_multiplicities,
)
from tensormvc.views import as_views

from . import textbook

seeds = st.integers(0, 2**32 - 1)
shapes = st.tuples(st.integers(2, 24), st.integers(1, 5), st.integers(1, 4))


def random_tensor(shape, seed):
    rng = np.random.default_rng(seed)
    # Steps, spikes and noise of any size: shrinkage and bounds see more than white noise.
    tensor = rng.normal(size=shape) * rng.lognormal(sigma=2) + rng.integers(0, 3, (shape[0], 1, 1))
    return tensor if seed % 2 else np.sort(tensor, axis=0)


def random_orthogonal(n, rng):
    return np.linalg.qr(rng.normal(size=(n, n)))[0]


# Spectra


@given(shapes, seeds)
def test_total_variation_is_the_definition(shape, seed):
    tensor = random_tensor(shape, seed)
    assert_allclose(circular_total_variation(tensor), textbook.circular_total_variation(tensor), rtol=1e-12)


def test_total_variation_in_blocks():
    tensor = np.random.default_rng(0).normal(size=(7, 600, 700))
    expected = np.linalg.norm(np.roll(tensor, -1, axis=0) - tensor, axis=(1, 2)).sum()
    assert_allclose(circular_total_variation(tensor), expected, rtol=1e-13)


@given(shapes, seeds)
def test_no_frequency_exceeds_its_bound(shape, seed):
    tensor = random_tensor(shape, seed)
    found = frequency_bound(tensor)
    assert_array_equal(found.k, np.arange(2, shape[0] + 1))
    assert np.all(found.slack >= -1e-12 * found.bound)
    magnitude = np.sqrt(textbook.slice_energies(tensor, textbook.dft_matrix(shape[0])))[1:]
    assert_allclose(found.magnitude, magnitude, rtol=1e-9, atol=1e-11 * np.linalg.norm(tensor))
    variation = textbook.circular_total_variation(tensor)
    expected = [variation / (2 * abs(np.sin(np.pi * (k - 1) / shape[0]))) for k in range(2, shape[0] + 1)]
    assert_allclose(found.bound, expected, rtol=1e-12)


@pytest.mark.parametrize("n", [2, 8, 30])
def test_a_tensor_that_alternates_reaches_the_bound(n):
    tensor = np.tile([[1.0, 2.0], [-1.0, -2.0]], (n // 2, 1))[:, :, None]
    found = frequency_bound(tensor)
    assert_allclose(found.slack[n // 2 - 1] / found.bound[n // 2 - 1], 0, atol=1e-14)


def test_a_single_sample_has_no_frequency():
    with pytest.raises(ValueError, match="2 samples"):
        frequency_bound(np.ones((1, 2, 2)))
    with pytest.raises(ValueError, match="at least 2"):
        cumulative_energy_ratio(np.ones((1, 2, 2)), "dct")


@given(shapes, seeds, st.integers(0, 30))
def test_energies_do_not_see_a_circular_shift(shape, seed, shift):
    tensor = random_tensor(shape, seed)
    energies, shifted = slice_energies(tensor, "fft"), slice_energies(np.roll(tensor, shift, axis=0), "fft")
    assert_allclose(shifted, energies, atol=1e-12 * energies.sum())


@given(st.integers(5, 24), seeds)
def test_energies_see_a_generic_permutation(n, seed):
    rng = np.random.default_rng(seed)
    tensor, order = rng.normal(size=(n, 3, 2)), rng.permutation(n)
    # A shift, or a shift of the reversed order, is what the energies do not see.
    assume(len({int(step) for step in np.diff(order, append=order[0]) % n}) > 1)
    before, after = slice_energies(tensor, "fft")[1:], slice_energies(tensor[order], "fft")[1:]
    assert np.max(np.abs(after - before)) > 1e-6 * before.sum()
    assert_allclose(after.sum(), before.sum(), rtol=1e-12)


@pytest.mark.parametrize(("name", "matrix"), [("fft", textbook.dft_matrix), ("dct", textbook.dct_matrix)])
@given(shapes, seeds)
def test_energies_and_their_ratio_are_the_definitions(name, matrix, shape, seed):
    tensor = random_tensor(shape, seed)
    expected = textbook.slice_energies(tensor, matrix(shape[0]))
    assert_allclose(slice_energies(tensor, name), expected, rtol=1e-9, atol=1e-12 * expected.sum())
    ratio = [sum(expected[1 : k + 1]) / sum(expected[1:]) for k in range(1, shape[0])]
    # What a nearly constant tensor has beyond its mean is rounding of the mean.
    tolerance = 1e-9 + 1e-12 * expected.sum() / expected[1:].sum()
    assert_allclose(cumulative_energy_ratio(tensor, name), ratio, atol=tolerance)


def test_constant_tensors_have_no_ratio():
    assert np.isnan(cumulative_energy_ratio(np.ones((4, 2, 2)), "fft")).all()
    assert np.isnan(low_frequency_share(np.ones((4, 2, 2)), "fft"))


def test_low_frequencies_of_a_sine():
    """One period is the lowest frequency, eight are among the highest of 16 samples; a constant is none."""
    t = np.arange(16)[:, None, None] * 2 * np.pi / 16
    assert_allclose(low_frequency_share(3 + np.sin(t), "fft"), 1)
    assert_allclose(low_frequency_share(3 + np.cos(8 * t), "fft"), 0, atol=1e-20)
    assert_allclose(low_frequency_share(2 * np.sin(t) + np.sin(5 * t), "fft", share=1 / 8), 0.8)
    with pytest.raises(ValueError, match="share"):
        low_frequency_share(np.sin(t), "fft", share=0)


def test_weights_that_are_no_half_spectrum_are_refused():
    class Odd:
        slice_weights_ = np.array([1.0, 3.0])

        def fit(self, views, **_):
            return self

        def forward(self, tensor):
            return tensor[:2]

        def inverse(self, slices):
            return slices

    with pytest.raises(ValueError, match="weights that sum to 4"):
        slice_energies(np.ones((4, 1, 1)), Odd())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_backend(backend, dtype):
    tensor = np.random.default_rng(0).normal(size=(9, 4, 3)).astype(dtype)
    rtol = 1e-5 if dtype == "float32" else 1e-12
    given_ = backend.array(tensor)
    assert_allclose(circular_total_variation(given_), circular_total_variation(tensor.astype(float)), rtol=rtol)
    for name in ("fft", "dct"):
        assert_allclose(slice_energies(given_, name), slice_energies(tensor.astype(float), name), rtol=10 * rtol)
    assert_allclose(frequency_bound(given_).bound, frequency_bound(tensor.astype(float)).bound, rtol=rtol)


# Similarities


def test_similarities_are_inner_products_of_unit_samples():
    rng = np.random.default_rng(0)
    views = [rng.normal(size=(7, 3)), rng.normal(size=(7, 9))]
    views[1][4] = 0
    expected = np.stack([textbook.unit_rows(v) @ textbook.unit_rows(v).T for v in views], axis=2)
    assert_allclose(similarity_tensor(views), expected, atol=1e-14)
    assert_allclose(similarity_tensor([sp.csr_array(views[0]), views[1]]), expected, atol=1e-14)


@given(st.integers(3, 15), seeds)
def test_compact_similarities_differ_as_the_tensor_does(n, seed):
    rng = np.random.default_rng(seed)
    views = [rng.normal(size=(n, d)) for d in (1, 4, 30)]
    full = similarity_tensor(views)
    rows = compact_similarities(as_views(views, canonical=False))
    assert rows.shape == (n, sum(min(n, d) for d in (1, 4, 30)), 1)
    assert_allclose(circular_total_variation(rows), circular_total_variation(full), rtol=1e-9)
    for basis in ("fft", "haar"):
        assert_allclose(slice_energies(rows, basis), slice_energies(full, basis), rtol=1e-7, atol=1e-10)


def test_memory_is_refused_before_it_is_taken(monkeypatch):
    monkeypatch.setattr("tensormvc.backend.checks.available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match="similarity tensor of 20 samples"):
        similarity_tensor([np.ones((20, 2))])


# Spectra of graphs


def test_multiplicities():
    found = spectrum_multiplicities([0, 1e-9, 0.5, 0.7, 0.7, 0.7, 1.0])
    assert_array_equal(found.counts, [2, 1, 3, 1])
    assert_allclose(found.eigenvalues, [5e-10, 0.5, 0.7, 1])
    assert_allclose(found.gaps, [0.5 - 1e-9, 0.2, 0.3])
    assert not found.is_simple
    assert spectrum_multiplicities([3.0, 2.0, 1.0]).is_simple
    with pytest.raises(ValueError, match="sorted"):
        spectrum_multiplicities([1.0, 0.0, 2.0])


def test_multiplicities_of_fitted_bases():
    views, y = tm.datasets.load_digits_views(60)
    found = spectrum_multiplicities(tm.GFT().fit(views, sample_graph=tm.ideal_graph(y)))
    # Ten cliques of about six: the eigenvalue 0 once for each, and k/(k-1), or 1 with loops, for the rest.
    assert found.counts[0] == 10
    assert found.counts.sum() == 60
    anchors = tm.AGFT(n_anchors=8).fit(views)
    assert_allclose(spectrum_multiplicities(anchors).eigenvalues, anchors.singular_values_**2, rtol=1e-5)


# The theorem about repeated eigenvalues


class Tent:
    """Up to 1 the identity, from there on down again: odd, 1-Lipschitz, and no proximal map."""

    def value(self, s):
        return 0 * s  # no penalty has this map; its sum is not used here

    def prox(self, s, threshold):
        return np.where(s <= 1, s, 2 - s)

    def lipschitz(self, threshold):
        return 1.0


def spectrum_case(groups, seed, angle=None):
    """Return U, U' = PUQ, P and eigenvalues, with random rotations Q inside groups of equal eigenvalues."""
    rng = np.random.default_rng(seed)
    n = sum(groups)
    u, order = random_orthogonal(n, rng), rng.permutation(n)
    q = np.zeros((n, n))
    start = 0
    for size in groups:
        block = random_orthogonal(size, rng)
        if angle is not None:  # a rotation by little
            skew = np.tril(block, -1)
            block = np.linalg.solve(np.eye(size) + angle * (skew - skew.T), np.eye(size) - angle * (skew - skew.T))
        q[start : start + size, start : start + size] = block
        start += size
    eigenvalues = np.repeat(np.arange(len(groups)) / len(groups), groups)
    return u, u[order] @ q, order, eigenvalues


# Thresholds at which each of them has a Lipschitz constant.
LIPSCHITZ = {
    "nuclear": 1.0,
    "log": 0.7,
    "mcp": 1.5,
    "scad": 2.0,
    "etp": 0.5,
    "laplace": 0.006,
    "geman": 0.003,
    "gamma-norm": 0.003,
    "etr": 4e-5,
}


@pytest.mark.parametrize("angle", [None, 0.02])
@pytest.mark.parametrize("penalty", LIPSCHITZ)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), seeds)
def test_both_bounds_hold(penalty, angle, groups, seed):
    u, v, order, eigenvalues = spectrum_case(groups, seed, angle)
    threshold = LIPSCHITZ[penalty]
    tensor = np.random.default_rng(seed + 1).normal(size=(len(u), 3, 2)) * threshold * 2
    found = equivariance_error(tensor, order, u, v, penalty, threshold, eigenvalues=eigenvalues)
    assert np.isfinite(found.lipschitz)
    prox = tm.penalties.make_penalty(penalty).prox

    def shrink(rows, basis):
        return textbook.shrink_with(
            rows,
            lambda t: textbook.along_samples(basis.T, t),
            lambda t: textbook.along_samples(basis, t),
            lambda s: prox(s, threshold),
        )

    rounding = 1e-9 * np.linalg.norm(tensor)
    expected = np.linalg.norm(shrink(tensor[order], v) - shrink(tensor, u)[order])
    assert_allclose(found.error, expected, atol=rounding)
    # A proximal map stays below half of the paper's bound, see the notes of `equivariance_error`.
    assert found.error <= found.tight_bound / 2 + rounding
    assert found.tight_bound <= found.loose_bound
    if max(groups) == 1:
        assert found.tight_bound == found.loose_bound == found.repeated_energy == 0


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), seeds)
def test_both_bounds_hold_for_a_map_that_is_no_proximal_map(groups, seed):
    u, v, order, eigenvalues = spectrum_case(groups, seed)
    tensor = np.random.default_rng(seed + 1).normal(size=(len(u), 3, 2))
    found = equivariance_error(tensor, order, u, v, Tent(), 1.0, eigenvalues=eigenvalues)
    assert found.error <= found.tight_bound * (1 + 1e-9) + 1e-9
    assert found.tight_bound <= found.loose_bound


@pytest.mark.parametrize(("penalty", "reached"), [(Tent(), 1), ("nuclear", 1 / 2)])
def test_a_rotation_that_gathers_all_slices_nearly_reaches_the_loose_bound(penalty, reached):
    """Slices with the singular value 1 each become one with √r: closed form 1 − 1/√r."""
    r = 144
    normal = np.full(r, -1 / np.sqrt(r))
    normal[0] += 1
    reflection = np.eye(r) - 2 * np.outer(normal, normal) / (normal @ normal)
    tensor = np.zeros((r, 2, 2))
    tensor[:, 0, 0] = 1
    found = equivariance_error(tensor, np.arange(r), np.eye(r), reflection, penalty, 1.0, eigenvalues=np.zeros(r))
    assert_allclose(found.error / found.loose_bound, reached * (1 - 1 / np.sqrt(r)), rtol=1e-9)
    assert found.error / found.loose_bound > 0.9 * reached
    assert_allclose(found.tight_bound, found.loose_bound)


@pytest.mark.parametrize(("penalty", "reached"), [(Tent(), 1), ("nuclear", 1 / 2)])
def test_a_small_rotation_nearly_reaches_the_tight_bound(penalty, reached):
    """One slice of N + 1, each with the singular value 1, is turned towards the others: about √(N/(N+1))."""
    n_others, angle = 20, 1e-3
    r = n_others + 1
    plane = np.zeros((r, 2))
    plane[0, 0] = 1
    plane[1:, 1] = 1 / np.sqrt(n_others)
    c, s = np.cos(angle), np.sin(angle)
    rotation = np.eye(r) + plane @ (np.array([[c, -s], [s, c]]) - np.eye(2)) @ plane.T
    tensor = np.zeros((r, 2, 2))
    tensor[:, 0, 0] = 1
    found = equivariance_error(tensor, np.arange(r), np.eye(r), rotation, penalty, 1.0, eigenvalues=np.zeros(r))
    assert 0.95 * reached < found.error / found.tight_bound <= reached
    assert found.tight_bound < 0.01 * found.loose_bound


@pytest.mark.parametrize("penalty", ["nuclear", "etr", "schatten-p"])
def test_simple_spectra_have_no_error_but_rounding(penalty):
    """The bounds are exactly 0, whatever the penalty; the error is that of two products with U."""
    u, v, order, eigenvalues = spectrum_case([1] * 12, 3)
    tensor = np.random.default_rng(4).normal(size=(12, 4, 3))
    found = equivariance_error(tensor, order, u, v, penalty, 0.5, eigenvalues=eigenvalues)
    assert found.error < 1e-13 * np.linalg.norm(tensor)
    assert found.tight_bound == found.loose_bound == 0


def test_penalties_that_jump_have_no_bound():
    u, v, order, eigenvalues = spectrum_case([2, 1], 0)
    found = equivariance_error(np.ones((3, 2, 2)), order, u, v, "schatten-p", 0.5, eigenvalues=eigenvalues)
    assert found.lipschitz == found.tight_bound == found.loose_bound == np.inf


@pytest.mark.parametrize("make", [lambda: tm.GFT("sum"), lambda: tm.AGFT(n_anchors=16)])
def test_our_bases_make_no_error_even_where_eigenvalues_are_repeated(make):
    views, _ = tm.datasets.load_digits_views(80)
    views = [np.concatenate([view, view[:20]]) for view in views]  # duplicates repeat eigenvalues
    order = np.random.default_rng(0).permutation(100)
    tensor = np.random.default_rng(1).normal(size=(100, 4, 3))
    tensor[80:] = tensor[:20]
    basis, permuted = make().fit(views), make().fit([view[order] for view in views])
    found = equivariance_error(tensor, order, basis, permuted, threshold=0.3)
    assert found.error < 1e-12 * np.linalg.norm(tensor)


def test_an_eigensolver_makes_an_error_where_eigenvalues_are_repeated():
    _, y = tm.datasets.load_digits_views(60)
    weights = tm.ideal_graph(y).toarray()
    laplacian = np.eye(60) - weights / weights.sum(axis=1)
    order = np.random.default_rng(0).permutation(60)
    values, u = np.linalg.eigh(laplacian)
    _, v = np.linalg.eigh(laplacian[np.ix_(order, order)])
    tensor = np.random.default_rng(1).normal(size=(60, 4, 3))
    found = equivariance_error(tensor, order, u, v, threshold=1.0, eigenvalues=values)
    assert 0.01 * found.loose_bound < found.error <= found.tight_bound / 2 <= found.loose_bound / 2


def test_what_does_not_belong_together_is_refused():
    tensor = np.ones((3, 2, 2))
    rotated = random_orthogonal(3, np.random.default_rng(0))
    for arguments, match in [
        (([0, 1, 1], np.eye(3), np.eye(3), [0, 1, 2]), "permutation"),
        (([0, 1, 2], np.eye(3), rotated, [0, 1, 2]), "eigenspace"),
        (([0, 1, 2], 2 * np.eye(3), np.eye(3), [0, 1, 2]), "not orthonormal"),
        (([0, 1, 2], np.eye(4), np.eye(3), [0, 1, 2]), "3 in total"),
        (([0, 1, 2], np.eye(3), np.eye(3), [0, 1]), "do not match"),
        (([0, 1, 2], np.eye(3), np.eye(3), None), "pass its eigenvalues"),
    ]:
        *positional, eigenvalues = arguments
        with pytest.raises(ValueError, match=match):
            equivariance_error(tensor, *positional, eigenvalues=eigenvalues)


def test_which_penalties_have_a_lipschitz_constant():
    small, large = lipschitz_constants(1e-5), lipschitz_constants(10.0)
    assert set(small) == set(large)
    assert {name for name, value in small.items() if np.isinf(value)} == {"schatten-p"}
    assert {name for name, value in large.items() if np.isfinite(value)} == {"nuclear"}
    assert set(LIPSCHITZ) == set(small) - {"schatten-p"}


# The paper's finding on its data


@pytest.mark.parametrize("data", ["MSRCv1", "NGs"])
def test_shuffling_spreads_the_spectrum_of_the_fft_and_of_nothing_else(shared, data):
    views, y = tm.datasets.load_views(shared / "data" / f"{data}.mat")
    assert np.all(np.diff(y) >= 0), "the file is sorted by class"
    bases = {"fft": tm.FFT(), "gft": tm.GFT("sim"), "agft": tm.AGFT()}
    variation, low, ratios = [], {name: [] for name in bases}, {name: [] for name in bases}
    for rate in (0, 0.25, 0.5, 1):
        rows, _, _ = tm.datasets.shuffle_samples(views, rate=rate, random_state=0)
        tensor = similarity_tensor(rows)
        variation.append(circular_total_variation(tensor))
        for name, basis in bases.items():
            low[name].append(low_frequency_share(tensor, basis.fit(rows)))
            ratios[name].append(cumulative_energy_ratio(tensor, basis))
    assert np.all(np.diff(variation) > 0)
    assert np.all(np.diff(low["fft"]) < 0)
    assert np.ptp(ratios["fft"], axis=0).max() > 0.03
    for name in ("gft", "agft"):
        assert np.ptp(low[name]) < 1e-6
        assert np.ptp(ratios[name], axis=0).max() < 1e-6
