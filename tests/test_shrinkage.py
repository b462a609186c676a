import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import tensormvc as tm
from tensormvc.penalties import make_penalty
from tensormvc.published import ReweightedETR
from tensormvc.shrinkage import IN_TURN, l21_shrink, low_rank_shrink, shrink_in_place, shrink_slices, shrink_stacked

from . import textbook
from .names import FIXED as BASES

PENALTIES = list(textbook.penalty_values())


def random_tensor(seed, n, d, m, spread=0.0):
    """A tensor whose slices have singular values over `spread` decades."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d, m)) * 10.0 ** (-spread * rng.uniform(size=(1, 1, m)))


def textbook_slices(slices, penalty, threshold):
    def prox(s):
        return float(penalty.prox(np.array([s]), threshold)[0])

    return np.array([textbook.shrink_matrix(matrix, prox) for matrix in slices])


def objective(slices, result, penalty, threshold):
    """What every slice of the shrinkage minimises."""
    s = np.linalg.svd(result, compute_uv=False)
    distance = np.sum(np.abs(result - slices) ** 2, axis=(1, 2)) / 2
    return distance + threshold * np.sum(penalty.value(s), axis=1)


shapes = {"n": st.integers(1, 9), "d": st.integers(1, 8), "m": st.integers(1, 8), "seed": st.integers(0, 99)}


@pytest.mark.parametrize("kind", ["real", "complex"])
@given(**shapes, threshold=st.floats(1e-9, 10), spread=st.sampled_from([0.0, 3.0, 6.0, 9.0, 14.0]))
def test_nuclear_shrinkage_is_the_textbook_svd(kind, n, d, m, seed, threshold, spread):
    slices = random_tensor(seed, n, d, m, spread)
    if kind == "complex":
        slices = slices + 1j * random_tensor(seed + 1, n, d, m, spread)
    expected = textbook_slices(slices, make_penalty("nuclear"), threshold)
    error = np.linalg.norm(shrink_slices(slices, "nuclear", threshold) - expected, axis=(1, 2))
    assert np.all(error <= 1e-10 * np.linalg.norm(slices, axis=(1, 2)))


@pytest.mark.parametrize("parts", [None, "in turn", "one after the other"])
@given(**shapes, threshold=st.floats(1e-9, 10), spread=st.sampled_from([0.0, 3.0, 6.0, 9.0, 14.0]))
def test_stacked_slices_are_the_textbook_svd(backend, parts, n, d, m, seed, threshold, spread):
    """Slices divided by their scales, as rows of real and imaginary parts, in either order."""
    rng = np.random.default_rng(seed)
    scales = rng.uniform(0.5, 2, size=n)
    slices = random_tensor(seed, n, d, m, spread)
    where = (slice(0, m), slice(m, None)) if parts == "one after the other" else IN_TURN
    if parts:
        slices = slices + 1j * random_tensor(seed + 1, n, d, m, spread)
    wide = slices.transpose(0, 2, 1) / scales[:, None, None]
    # Rows of a larger array, and another order in memory, as a block of slices may have.
    room = np.zeros((2 * m if parts else m, n + 2, d))
    stacked = room.transpose(1, 0, 2)[1:-1]
    if parts:
        stacked[:, where[0]], stacked[:, where[1]] = wide.real, wide.imag
    else:
        stacked[...] = wide
    given, out = (backend.array(some)[:, 1:-1].swapaxes(0, 1) for some in (room, np.full_like(room, np.nan)))
    penalty = make_penalty("nuclear")
    shrink_stacked(given, penalty, threshold, scales=backend.array(scales), parts=where if parts else None, out=out)
    shrunk = backend.numpy(out) * scales[:, None, None]
    if parts:
        shrunk = shrunk[:, where[0]] + 1j * shrunk[:, where[1]]
    expected = textbook_slices(slices, penalty, threshold)
    error = np.linalg.norm(shrunk.transpose(0, 2, 1) - expected, axis=(1, 2))
    assert np.all(error <= 1e-10 * np.linalg.norm(slices, axis=(1, 2)))


def test_large_slices_that_are_real_are_shrunk_as_real_ones(monkeypatch):
    monkeypatch.setattr("tensormvc.shrinkage._BLOCK_BYTES", 1)
    slices = random_tensor(0, 3, 7, 5) + 1j * random_tensor(1, 3, 7, 5)
    slices[0] = slices[0].real
    expected = textbook_slices(slices, make_penalty("nuclear"), 1.0)
    result = shrink_slices(slices, "nuclear", 1.0)
    np.testing.assert_allclose(result, expected, atol=1e-12)
    assert not result[0].imag.any()


def test_tiny_slices_survive_tiny_thresholds():
    """Their squares underflow; the norm of the slice must not be taken for zero."""
    slices = random_tensor(0, 2, 4, 3) * 1e-170
    expected = textbook_slices(slices * 1e170, make_penalty("nuclear"), 1.0) * 1e-170
    np.testing.assert_allclose(shrink_slices(slices, "nuclear", 1e-170), expected, rtol=1e-9, atol=1e-182)


@pytest.mark.parametrize("name", PENALTIES)
@given(**shapes, threshold=st.floats(1e-4, 10), spread=st.sampled_from([0.0, 4.0, 8.0]))
def test_every_shrinkage_is_as_good_as_the_textbook_svd(name, n, d, m, seed, threshold, spread):
    penalty = make_penalty(name)
    slices = random_tensor(seed, n, d, m, spread)
    ours = shrink_slices(slices, penalty, threshold)
    expected = textbook_slices(slices, penalty, threshold)
    size = np.linalg.norm(slices, axis=(1, 2))
    scale = 1e-10 * (size**2 + threshold * (1 + size))
    gap = objective(slices, ours, penalty, threshold) - objective(slices, expected, penalty, threshold)
    # The singular values of the result are read off anew; Schatten's root turns 1e-16 of rounding into 1e-8.
    slack = threshold * 1e-7 * size**0.5 * min(d, m) if name == "schatten-p" else 0
    slack = slack + threshold * 1e-12 * size / 0.01 * min(d, m)
    assert np.all(np.abs(gap) <= scale + slack)


@pytest.mark.parametrize("name", ["fft", "dct", "haar"])
@given(**shapes, threshold=st.floats(1e-3, 5))
def test_the_whole_algorithm_is_the_textbook(name, n, d, m, seed, threshold):
    tensor = random_tensor(seed, n, d, m)
    matrix = {"fft": textbook.dft_matrix, "dct": textbook.dct_matrix, "haar": textbook.haar_matrix}[name](n)
    expected = textbook.shrink_tensor(tensor, matrix, lambda s: max(0.0, s - threshold))
    result = low_rank_shrink(tensor, name, "nuclear", threshold)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-10 * np.linalg.norm(tensor) * np.sqrt(n))


@pytest.mark.parametrize("m", [1, 2, 5])
def test_view_mode_is_the_textbook(m):
    tensor = random_tensor(0, 6, 4, m)
    full = textbook.along_views(textbook.dft_matrix(m), tensor)
    shrunk = np.array([textbook.shrink_matrix(s, lambda v: max(0.0, v - 0.8)) for s in full])
    expected = np.moveaxis(np.fft.ifft(shrunk, axis=0).real, 0, 2)
    np.testing.assert_allclose(low_rank_shrink(tensor, "fft-view", "nuclear", 0.8), expected, atol=1e-12)


@pytest.mark.parametrize("basis", BASES)
@given(**shapes, threshold=st.floats(1e-3, 5))
def test_nuclear_shrinkage_is_non_expansive(basis, n, d, m, seed, threshold):
    a, b = random_tensor(seed, n, d, m), random_tensor(seed + 1, n, d, m)
    fitted = tm.bases.make_basis(basis).fit(a, random_state=0)
    gap = low_rank_shrink(a, fitted, "nuclear", threshold) - low_rank_shrink(b, fitted, "nuclear", threshold)
    assert np.linalg.norm(gap) <= np.linalg.norm(a - b) * (1 + 1e-12)


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("basis", BASES)
@given(**shapes, threshold=st.floats(1e-3, 5))
def test_shrinkage_is_odd_and_keeps_zero(basis, penalty, n, d, m, seed, threshold):
    a = random_tensor(seed, n, d, m)
    fitted = tm.bases.make_basis(basis).fit(a, random_state=0)
    shrunk = low_rank_shrink(a, fitted, penalty, threshold)
    np.testing.assert_array_equal(low_rank_shrink(-a, fitted, penalty, threshold), -shrunk)
    np.testing.assert_array_equal(low_rank_shrink(0 * a, fitted, penalty, threshold), 0 * a)


@given(seed=st.integers(0, 99), threshold=st.floats(1e-12, 1e-2))
def test_ill_conditioned_slices_go_through_the_svd(seed, threshold):
    """Slices whose Gram matrix cannot resolve what the threshold decides."""
    rng = np.random.default_rng(seed)
    q, _ = np.linalg.qr(rng.normal(size=(6, 40, 4)))
    v, _ = np.linalg.qr(rng.normal(size=(6, 4, 4)))
    s = 10.0 ** -np.sort(rng.uniform(0, 12, size=(6, 4)), axis=1)
    slices = (q * s[:, None, :]) @ v
    expected = textbook_slices(slices, make_penalty("nuclear"), threshold)
    error = np.linalg.norm(shrink_slices(slices, "nuclear", threshold) - expected, axis=(1, 2))
    assert np.all(error <= 1e-10 * s[:, 0])


def test_ill_conditioned_slices_in_single_precision(backend):
    """Their penalties are kept in double precision, whichever way the slices went."""
    slices = np.zeros((3, 6, 2), dtype=np.float32)
    slices[:, 0, 0], slices[:, 1, 1] = 1, (0.5, 1e-9, 2e-9)
    values = shrink_in_place(shrunk := backend.array(slices, "float32"), make_penalty("nuclear"), 5e-10)
    # Float32 rounds at 6e-8.
    np.testing.assert_allclose(backend.numpy(values), [1.5, 1, 1], atol=1e-7)
    np.testing.assert_allclose(backend.numpy(shrunk), slices, atol=1e-7)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-160, 1e160, 1e200, 1e300])
def test_numbers_whose_squares_do_not_exist(scale):
    slices = random_tensor(0, 3, 5, 2)
    shrunk = shrink_slices(slices * scale, "nuclear", 0.5 * scale) / scale
    np.testing.assert_allclose(shrunk, shrink_slices(slices, "nuclear", 0.5), atol=1e-12)


def test_backends_agree(backend):
    for seed, (n, d, m) in enumerate([(12, 10, 3), (11, 10, 3), (1, 4, 2), (7, 2, 5)]):
        tensor = random_tensor(seed, n, d, m)
        for basis in BASES:
            fitted = tm.bases.make_basis(basis).fit(tensor, random_state=0)
            for penalty in PENALTIES:
                expected = low_rank_shrink(tensor, fitted, penalty, 0.9)
                given = backend.array(tensor)
                result = backend.numpy(low_rank_shrink(given, fitted, penalty, 0.9))
                np.testing.assert_allclose(result, expected, atol=1e-12)
                np.testing.assert_array_equal(backend.numpy(given), tensor)


def test_single_precision(backend):
    tensor = random_tensor(0, 30, 20, 4)
    for basis in BASES:
        fitted = tm.bases.make_basis(basis).fit(tensor, random_state=0)
        single = low_rank_shrink(backend.array(tensor, "float32"), fitted, "nuclear", 3.0)
        assert str(single.dtype).endswith("float32")
        double = low_rank_shrink(tensor, fitted, "nuclear", 3.0)
        # Float32 rounds at 6e-8 of the largest coefficient; the transforms add a small factor.
        np.testing.assert_allclose(backend.numpy(single), double, atol=1e-5)


def test_given_memory(backend):
    tensor = random_tensor(0, 8, 6, 3)
    expected = low_rank_shrink(tensor, "fft", "log", 0.7)
    basis = tm.FFT().fit(tensor)
    given = backend.array(tensor)
    work = basis.forward(given)
    result = low_rank_shrink(given, basis, "log", 0.7, out=given, work=work)
    assert result is given
    np.testing.assert_allclose(backend.numpy(given), expected, atol=1e-13)
    slices = basis.forward(backend.array(tensor))
    kept = backend.numpy(slices).copy()
    shrink_slices(slices, "log", 0.7)
    np.testing.assert_array_equal(backend.numpy(slices), kept)
    assert shrink_slices(slices, "log", 0.7, overwrite=True) is slices


def test_blocks_and_threads_change_no_bit(monkeypatch):
    tensor = random_tensor(0, 60, 30, 3)
    expected = low_rank_shrink(tensor, "fft", "etr", 0.4)
    monkeypatch.setattr("tensormvc.shrinkage._BLOCK_BYTES", 16 * 30 * 3 * 7)
    monkeypatch.setattr("joblib.cpu_count", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    np.testing.assert_array_equal(low_rank_shrink(tensor, "fft", "etr", 0.4), expected)


def test_an_error_in_a_thread_arrives(monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: 4)
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    monkeypatch.setattr("tensormvc.shrinkage._BLOCK_BYTES", 1)
    tensor = random_tensor(0, 16, 4, 3)
    tensor[3, 2, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        low_rank_shrink(tensor, "fft", "nuclear", 0.1)


def load_prox(shared):
    return np.load(shared / "reference" / "prox.npz")


def relative(a, b):
    return np.linalg.norm(a - b) / max(np.linalg.norm(b), 1e-300)


@pytest.mark.parametrize("i", [1, 2, 3])
def test_reference_nuclear(shared, i):
    reference = load_prox(shared)
    result = low_rank_shrink(reference["T"], "fft", "nuclear", float(reference["tnn_tau"][i - 1]))
    assert relative(result, reference[f"tnn_even_{i}"]) < 1e-12
    odd = low_rank_shrink(reference["Todd"], "fft", "nuclear", float(reference["tnn_tau"][i - 1]))
    # The original shrinks the middle pair of an odd length twice; ours does not.
    assert relative(odd, reference[f"tnn_odd_{i}"]) > 1e-3


@pytest.mark.parametrize("i", [1, 2, 3])
@pytest.mark.parametrize(("parity", "tensor"), [("even", "T"), ("odd", "Todd")])
def test_reference_log(shared, i, parity, tensor):
    reference = load_prox(shared)
    result = low_rank_shrink(reference[tensor], "fft", "log", float(reference["lsp_beta"][i - 1]))
    assert relative(result, reference[f"lsp_{parity}_{i}"]) < 1e-12


@pytest.mark.parametrize("i", [1, 2, 3])
@pytest.mark.parametrize("j", [1, 2, 3])
@pytest.mark.parametrize(("parity", "tensor"), [("even", "T"), ("odd", "Todd")])
def test_reference_etr(shared, i, j, parity, tensor):
    reference = load_prox(shared)
    penalty = ReweightedETR(float(reference["etr_delta"][j - 1]))
    result = low_rank_shrink(reference[tensor], "fft", penalty, float(1 / reference["etr_rho"][i - 1]))
    expected = reference[f"etr_{parity}_r{i}_d{j}"]
    if not expected.any():
        assert not result.any()
    else:
        assert relative(result, expected) < 1e-12


@pytest.mark.parametrize("i", [1, 2, 3])
def test_reference_l21(shared, i):
    reference = load_prox(shared)
    result = l21_shrink(reference["l21_W"].T, float(reference["l21_tau"][i - 1]))
    expected = reference[f"l21_E{i}"].T
    assert np.linalg.norm(result - expected) <= 1e-12 * np.linalg.norm(reference["l21_W"])
    if expected.any():
        assert relative(result, expected) < 1e-12


@given(
    n=st.integers(1, 12),
    widths=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    threshold=st.floats(0, 5),
    seed=st.integers(0, 99),
)
def test_l21_rows_by_the_formula(n, widths, threshold, seed):
    rng = np.random.default_rng(seed)
    matrices = [rng.normal(size=(n, d)) for d in widths]
    shrunk = l21_shrink(matrices, threshold)
    for i in range(n):
        row = np.concatenate([matrix[i] for matrix in matrices])
        expected = max(0.0, 1 - threshold / np.linalg.norm(row)) * row
        np.testing.assert_allclose(np.concatenate([matrix[i] for matrix in shrunk]), expected, atol=1e-14)


def test_l21_in_place_and_on_backends(backend):
    values = np.random.default_rng(0).normal(size=(6, 4))
    values[2] = 0
    matrix = backend.array(values)
    result = l21_shrink([matrix, matrix * 2], 0.5)
    np.testing.assert_allclose(backend.numpy(result[1]), 2 * backend.numpy(result[0]))
    np.testing.assert_array_equal(backend.numpy(matrix), values)
    assert l21_shrink(matrix, 0.5, overwrite=True) is matrix
    np.testing.assert_array_equal(backend.numpy(matrix)[2], 0)


@pytest.mark.parametrize(
    ("tensor", "error", "message"),
    [
        (np.ones((4, 3)), ValueError, "2 dimensions"),
        (np.ones((0, 3, 2)), ValueError, "empty"),
        (np.full((4, 3, 2), np.nan), ValueError, "NaN"),
        (np.full((4, 3, 2), np.inf), ValueError, "infinity|NaN"),
        (np.ones((4, 3, 2), complex), TypeError, "complex"),
        ("abc", TypeError, "not numeric"),
    ],
)
@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("threshold", [0.0, 1.0])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_wrong_tensors(tensor, error, message, basis, threshold):
    with pytest.raises(error, match=message):
        low_rank_shrink(tensor, basis, "nuclear", threshold)


def test_wrong_arguments():
    tensor = np.ones((4, 3, 2))
    with pytest.raises(ValueError, match="threshold"):
        low_rank_shrink(tensor, "fft", "nuclear", -1)
    with pytest.raises(ValueError, match="does not fit FFT"):
        low_rank_shrink(tensor, tm.FFT().fit(np.ones((5, 1, 1))), "nuclear", 1)
    with pytest.raises(TypeError, match="floating"):
        shrink_slices(np.ones((2, 2, 2), int), "nuclear", 1)
    with pytest.raises(ValueError, match="stack"):
        shrink_slices(np.ones((2, 2)), "nuclear", 1)
    with pytest.raises(ValueError, match="different numbers of rows"):
        l21_shrink([np.ones((3, 2)), np.ones((2, 2))], 1.0)
    with pytest.raises(ValueError, match="no matrices"):
        l21_shrink([], 1.0)
    with pytest.raises(ValueError, match="NaN"):
        l21_shrink(np.array([[np.nan]]), 1.0)


def test_integers_are_converted_and_zero_threshold_changes_nothing():
    tensor = np.arange(24).reshape(4, 3, 2)
    result = low_rank_shrink(tensor, "dct", "nuclear", 0.0)
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, tensor, atol=1e-13)


@given(seed=st.integers(0, 50), threshold=st.floats(0.1, 3))
def test_a_large_threshold_leaves_nothing(seed, threshold):
    tensor = random_tensor(seed, 5, 4, 3)
    largest = float(tm.algebra.singular_values(tensor, "haar").max())
    assume(largest > 0)
    assert not low_rank_shrink(tensor, "haar", "nuclear", largest * (1 + threshold)).any()
