"""Linear algebra and selection that the array API lacks, one NumPy and one PyTorch version each."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from array_api_compat import is_numpy_namespace

from .arrays import Array, namespace, placed

# Chunks into which a device cuts a long sum of products.
DEVICE_CHUNKS = 128


def sum_of_squares(rows: Array) -> Array:
    """Squared length of every row of a matrix."""
    if is_numpy_namespace(namespace(rows)):
        return np.einsum("ij,ij->i", rows, rows)
    return (rows * rows).sum(dim=1)


def inner(left: Array, right: Array) -> Array:
    """Product of the transpose of a tall matrix (n, p) with another (n, q)."""
    if is_numpy_namespace(namespace(left)):
        return left.T @ right
    # A device needs many products at once: chunks of rows, then their sum, in an order of its own that never changes.
    size = left.shape[0] // DEVICE_CHUNKS
    if size < DEVICE_CHUNKS:
        return left.T @ right
    cut = size * DEVICE_CHUNKS
    chunks = [array[:cut].unflatten(0, (DEVICE_CHUNKS, size)) for array in (left, right)]
    return (chunks[0].mT @ chunks[1]).sum(0) + left[cut:].T @ right[cut:]


def raise_to_zero(array: Array) -> Array:
    """Replace negative numbers by zero, in place."""
    if is_numpy_namespace(namespace(array)):
        return np.maximum(array, 0, out=array)
    return array.clamp_(min=0)


def smallest(rows: Array, count: int) -> tuple[Array, Array]:
    """Return the `count` smallest values of every row, ascending, and where they are."""
    if not is_numpy_namespace(namespace(rows)):
        return tuple(rows.topk(count, dim=1, largest=False, sorted=True))
    where = np.argpartition(rows, count - 1, axis=1)[:, :count] if count < rows.shape[1] else None
    values = rows if where is None else np.take_along_axis(rows, where, axis=1)
    ranks = np.argsort(values, axis=1, kind="stable")
    where = ranks if where is None else np.take_along_axis(where, ranks, axis=1)
    return np.take_along_axis(values, ranks, axis=1), where


def two_smallest(columns: Array) -> tuple[Array, Array, Array]:
    """Return the smallest number of every column, which it is, and the next smallest.

    No number is negative, and all are spoilt. Of those that agree to some 13 digits the first counts as the smallest.
    """
    if not is_numpy_namespace(namespace(columns)):
        values, where = columns.min(dim=0)
        columns[where, placed(np.arange(columns.shape[1]), columns)] = np.inf
        return values, where, columns.amin(dim=0)
    # Positive numbers are in the order of their bits, of which the last ones say which it is: one pass along the rows,
    # where looking for the place of the smallest would take several down the columns.
    bits = columns.view(np.int64)
    low = (1 << (len(columns) - 1).bit_length()) - 1
    bits &= ~low
    bits |= np.arange(len(columns))[:, None]
    values = columns.min(axis=0)
    where = values.view(np.int64) & low
    columns[where, np.arange(columns.shape[1])] = np.inf
    return values, where, columns.min(axis=0)


def kth_smallest(rows: Array, k: Array) -> Array:
    """Return the value of rank k[i], from 0 on, of every row i, as a column."""
    if is_numpy_namespace(namespace(rows)):
        return np.take_along_axis(np.partition(rows, np.unique(k), axis=1), k[:, None], axis=1)
    return rows.sort(dim=1).values.gather(1, k[:, None])


def leading_eigenpairs(symmetric: Array, count: int) -> tuple[Array, Array]:
    """Return the largest eigenvalues of a symmetric matrix and their vectors, descending; overwrites the matrix."""
    if is_numpy_namespace(namespace(symmetric)):
        size = len(symmetric)
        values, vectors = scipy.linalg.eigh(
            symmetric, subset_by_index=[size - count, size - 1], overwrite_a=True, check_finite=False
        )
        return values[::-1], np.ascontiguousarray(vectors[:, ::-1])
    values, vectors = namespace(symmetric).linalg.eigh(symmetric)
    return values[-count:].flip(0), vectors[:, -count:].flip(1)


def cholesky(matrix: Array) -> Array | None:
    """Return the lower triangular L with L Lᵀ = A, or None if A is not positive definite."""
    if is_numpy_namespace(namespace(matrix)):
        try:
            return np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            return None
    lower, info = namespace(matrix).linalg.cholesky_ex(matrix)
    return None if int(info) else lower


def solve_lower(lower: Array, right: Array, *, transposed: bool = False) -> Array:
    """Solve L X = B, or Lᵀ X = B, for a lower triangular L."""
    triangle = lower.T if transposed else lower
    if is_numpy_namespace(namespace(lower)):
        return scipy.linalg.solve_triangular(triangle, right, lower=not transposed, check_finite=False)
    return namespace(lower).linalg.solve_triangular(triangle, right, upper=transposed)


def vectors_beside(columns: Array) -> Array:
    """Return orthonormal vectors (n, n − k) that are orthogonal to k independent columns (n, k)."""
    n_columns = columns.shape[1]
    if is_numpy_namespace(namespace(columns)):
        return scipy.linalg.qr(columns, check_finite=False)[0][:, n_columns:]
    return namespace(columns).linalg.qr(columns, mode="complete")[0][:, n_columns:]


def thin_qr(tall: Array) -> tuple[Array, Array]:
    """Return orthonormal columns Q (K, p, q) and the R (K, q, q) of a stack of tall tensors of PyTorch, q being small.

    A device factors long matrices one after the other; this is Gram and Schmidt on all of them at once, done twice,
    which is enough. A column that depends on those before it may have a zero one in Q.
    """
    # The largest entry first: squares of huge or tiny numbers do not exist.
    largest = tall.abs().amax(dim=(1, 2), keepdim=True)
    tall = tall / largest.where(largest > 0, 1.0)
    basis = tall.new_zeros(tall.shape)
    for j in range(tall.shape[2]):
        before, column = basis[:, :, :j], tall[:, :, j : j + 1]
        once = column - before @ (before.mH @ column)
        twice = once - before @ (before.mH @ once)
        length = twice.norm(dim=1, keepdim=True)
        # What the second pass takes most of was rounding, in the span of the columns before.
        independent = length > once.norm(dim=1, keepdim=True) / 2
        basis[:, :, j : j + 1] = (twice / length.where(independent, 1.0)).where(independent, 0.0)
    return basis, (basis.mH @ tall) * largest


def matmul_into(left: Array, right: Array, out: Array) -> Array:
    """Matrix product written to `out`, which must not overlap the factors."""
    if is_numpy_namespace(namespace(left)):
        return np.matmul(left, right, out=out)
    import torch

    return torch.matmul(left, right, out=out)
