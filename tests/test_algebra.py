import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensormvc as tm
from tensormvc import algebra
from tensormvc.bases import make_basis

from . import textbook
from .names import FIXED as BASES

shapes = {"n": st.integers(1, 8), "p": st.integers(1, 6), "q": st.integers(1, 6), "seed": st.integers(0, 99)}


def tensor_and_basis(name, n, p, q, seed, rank=None):
    """A tensor with p × q slices under the basis, and the basis, fitted."""
    rng = np.random.default_rng(seed)
    view_mode = name == "fft-view"
    shape = (p, q, n) if view_mode else (n, p, q)
    basis = make_basis(name).fit(np.empty(shape), random_state=seed)
    if rank is None:
        return rng.normal(size=shape), basis
    left = rng.normal(size=(p, rank, n) if view_mode else (n, p, rank))
    right = rng.normal(size=(rank, q, n) if view_mode else (n, rank, q))
    return algebra.t_product(left, right, basis), basis


def orthogonal(name, n, size, seed, basis):
    square, _ = tensor_and_basis(name, n, size, size, seed)
    u, _, _ = algebra.gt_svd(square, basis)
    return u


@pytest.mark.parametrize("name", BASES)
@given(**shapes)
def test_gt_svd_reconstructs_with_orthogonal_factors(name, n, p, q, seed):
    a, basis = tensor_and_basis(name, n, p, q, seed)
    for full in (True, False):
        u, s, v = algebra.gt_svd(a, basis, full_matrices=full)
        back = algebra.t_product(algebra.t_product(u, s, basis), algebra.t_transpose(v, basis), basis)
        np.testing.assert_allclose(back, a, rtol=0, atol=1e-12)
        assert algebra.is_f_diagonal(s, basis, tol=1e-12)
        if full:
            assert algebra.is_orthogonal(u, basis, tol=1e-12)
            assert algebra.is_orthogonal(v, basis, tol=1e-12)


@pytest.mark.parametrize("name", BASES)
@given(**shapes, rank=st.integers(1, 6))
def test_rank_and_norm_are_unchanged_by_orthogonal_factors(name, n, p, q, seed, rank):
    rank = min(rank, p, q)
    a, basis = tensor_and_basis(name, n, p, q, seed, rank)
    # Rounding of the products is above the default tolerance of a rank.
    assert algebra.tensor_rank(a, basis, tol=1e-10) == pytest.approx(rank)
    left, right = orthogonal(name, n, p, seed + 1, basis), orthogonal(name, n, q, seed + 2, basis)
    turned = algebra.t_product(algebra.t_product(left, a, basis), right, basis)
    assert algebra.tensor_rank(turned, basis, tol=1e-10) == pytest.approx(rank)
    norms = [algebra.surrogate_norm(t, basis, "log") for t in (a, turned)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-10)


@pytest.mark.parametrize("name", BASES)
@given(**shapes)
def test_laws_of_the_product(name, n, p, q, seed):
    a, basis = tensor_and_basis(name, n, p, q, seed)
    b, _ = tensor_and_basis(name, n, q, 3, seed + 1)
    c, _ = tensor_and_basis(name, n, 3, 2, seed + 2)

    def times(x, y):
        return algebra.t_product(x, y, basis)

    def transposed(x):
        return algebra.t_transpose(x, basis)

    np.testing.assert_allclose(times(times(a, b), c), times(a, times(b, c)), atol=1e-10 * n**2)
    np.testing.assert_allclose(transposed(times(a, b)), times(transposed(b), transposed(a)), atol=1e-11 * n)
    np.testing.assert_allclose(transposed(transposed(a)), a, atol=1e-12)
    np.testing.assert_allclose(times(a, algebra.t_identity(q, basis)), a, atol=1e-12)
    np.testing.assert_allclose(times(algebra.t_identity(p, basis), a), a, atol=1e-12)
    assert algebra.is_orthogonal(algebra.t_identity(p, basis), basis)


@pytest.mark.parametrize(
    ("name", "matrix"),
    [("fft", textbook.dft_matrix), ("dct", textbook.dct_matrix), ("haar", textbook.haar_matrix)],
)
@given(**shapes)
def test_against_the_full_matrix(name, matrix, n, p, q, seed):
    """Half spectra with their weights give what the full transform gives."""
    a, basis = tensor_and_basis(name, n, p, q, seed)
    b, _ = tensor_and_basis(name, n, q, 2, seed + 1)
    full = matrix(n)
    a_hat, b_hat = textbook.along_samples(full, a), textbook.along_samples(full, b)
    product = textbook.along_samples(np.linalg.inv(full), np.array([x @ y for x, y in zip(a_hat, b_hat, strict=True)]))
    np.testing.assert_allclose(algebra.t_product(a, b, basis), product.real, atol=1e-11 * n)
    np.testing.assert_allclose(algebra.mode3_product(a, full), a_hat, atol=1e-12 * n)
    s = np.linalg.svd(a_hat, compute_uv=False)
    assert algebra.surrogate_norm(a, basis) == pytest.approx(s.sum() / n, rel=1e-11)
    assert algebra.surrogate_norm(a, basis, "geman") == pytest.approx((s / (s + 0.1)).sum() / n, rel=1e-11)
    assert algebra.tensor_rank(a, basis) == pytest.approx(np.linalg.matrix_rank(a_hat).sum() / n)


def test_view_mode_product_is_the_t_product_along_the_last_axis():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(4, 3, 5)), rng.normal(size=(3, 2, 5))
    expected = np.zeros((4, 2, 5))
    for k in range(5):
        for j in range(5):
            expected[:, :, k] += a[:, :, j] @ b[:, :, (k - j) % 5]
    np.testing.assert_allclose(algebra.t_product(a, b, "fft-view"), expected, atol=1e-13)


@pytest.mark.parametrize("name", BASES)
def test_backends_agree(name, backend):
    for n in (5, 6):
        a, basis = tensor_and_basis(name, n, 4, 3, 0)
        b, _ = tensor_and_basis(name, n, 3, 2, 1)
        given_a, given_b = backend.array(a), backend.array(b)

        def same(result, expected):
            np.testing.assert_allclose(backend.numpy(result), expected, atol=1e-12)

        same(algebra.transform(given_a, basis), algebra.transform(a, basis))
        same(algebra.inverse_transform(algebra.transform(given_a, basis), basis), a)
        same(algebra.t_product(given_a, given_b, basis), algebra.t_product(a, b, basis))
        same(algebra.t_transpose(given_a, basis), algebra.t_transpose(a, basis))
        same(algebra.t_identity(3, basis, like=given_a), algebra.t_identity(3, basis))
        same(algebra.singular_values(given_a, basis), algebra.singular_values(a, basis))
        u, s, v = algebra.gt_svd(given_a, basis)
        same(
            algebra.t_product(algebra.t_product(u, s, basis), algebra.t_transpose(v, basis), basis),
            algebra.inverse_transform(algebra.transform(a, basis), basis),
        )
        assert algebra.is_orthogonal(u, basis)
        assert algebra.is_f_diagonal(s, basis)
        assert not algebra.is_f_diagonal(given_a, basis)
        assert not algebra.is_orthogonal(given_a, basis)
        assert algebra.tensor_rank(given_a, basis) == algebra.tensor_rank(a, basis)
        assert algebra.surrogate_norm(given_a, basis, "mcp") == pytest.approx(algebra.surrogate_norm(a, basis, "mcp"))


def test_single_precision_stays_single():
    a = np.random.default_rng(0).normal(size=(6, 4, 3)).astype(np.float32)
    for result in (
        *algebra.gt_svd(a, "fft"),
        algebra.t_transpose(a, "fft"),
        algebra.t_product(a, algebra.t_transpose(a, "fft"), "fft"),
    ):
        assert result.dtype == np.float32


def test_rank_of_a_zero_tensor_is_zero():
    assert algebra.tensor_rank(np.zeros((4, 3, 2)), "fft") == 0
    assert algebra.surrogate_norm(np.zeros((4, 3, 2)), "fft") == 0
    assert algebra.is_f_diagonal(np.zeros((4, 3, 2)), "fft")


@pytest.mark.parametrize(
    "function",
    [
        lambda t: algebra.transform(t, "fft"),
        lambda t: algebra.t_product(t, np.ones((4, 2, 2)), "fft"),
        lambda t: algebra.t_transpose(t, "dct"),
        lambda t: algebra.gt_svd(t, "haar"),
        lambda t: algebra.singular_values(t, "fft"),
        lambda t: algebra.tensor_rank(t, "fft"),
        lambda t: algebra.surrogate_norm(t, "fft"),
        lambda t: algebra.is_orthogonal(t, "fft"),
        lambda t: algebra.is_f_diagonal(t, "fft"),
        lambda t: algebra.mode3_product(t, np.eye(4)),
    ],
)
@pytest.mark.parametrize(
    ("tensor", "error", "message"),
    [
        (np.ones((4, 3)), ValueError, "dimensions"),
        (np.ones((4, 0, 2)), ValueError, "empty"),
        (np.full((4, 3, 2), np.nan), ValueError, "NaN"),
        (np.ones((4, 3, 2), complex), TypeError, "complex"),
        ([["a"]], TypeError, "not numeric"),
    ],
)
def test_wrong_tensors(function, tensor, error, message):
    with pytest.raises(error, match=message):
        function(tensor)


def test_wrong_sizes():
    a = np.ones((4, 3, 2))
    with pytest.raises(ValueError, match="cannot multiply slices"):
        algebra.t_product(a, a, "fft")
    with pytest.raises(ValueError, match="fitted for"):
        algebra.t_product(a, np.ones((5, 2, 2)), "fft")
    with pytest.raises(ValueError, match="cannot multiply a tensor of 4 samples"):
        algebra.mode3_product(a, np.eye(3))
    with pytest.raises(ValueError, match="is not fitted"):
        algebra.t_identity(3, "fft")
    with pytest.raises(ValueError, match="is not fitted"):
        algebra.inverse_transform(a, tm.FFT())
