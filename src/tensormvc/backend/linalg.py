"""Linear algebra, sparse products and selection that the array API lacks, for NumPy and for PyTorch."""

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from array_api_compat import device, is_numpy_namespace

from .arrays import Array, in_double, namespace, placed
from .threads import parallel_ranges

# Chunks into which a device cuts a long sum of products.
DEVICE_CHUNKS = 128
# Rows of a sparse product that are computed together: a block of the result that the cache can hold.
SPARSE_ROWS = 1024
# Bytes of a sparse matrix that are unpacked at a time.
UNPACKED_BYTES = 128 * 2**20


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


def thin_svd(matrices: Array) -> tuple[Array, Array, Array]:
    """Return left singular vectors, singular values and right singular vectors of matrices, (…, p, q)."""
    try:
        left, s, right = namespace(matrices).linalg.svd(matrices, full_matrices=False)
    except np.linalg.LinAlgError:
        # NumPy divides and conquers, which fails on a few matrices that LAPACK's slower QR iteration decomposes.
        listed = matrices.reshape(-1, *matrices.shape[-2:])
        parts = [scipy.linalg.svd(matrix, full_matrices=False, lapack_driver="gesvd") for matrix in listed]
        stacked = map(np.stack, zip(*parts, strict=True))
        left, s, right = (part.reshape(*matrices.shape[:-2], *part.shape[1:]) for part in stacked)
    return left, s, right


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

    No number may be negative, and all are overwritten. Among numbers that agree to 13 digits the first is the smallest.
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
    """Return orthonormal columns Q (K, p, q) and R (K, q, q) of a stack of tall PyTorch tensors with small q.

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


def one_hot(labels: Any, n_clusters: int | None = None) -> scipy.sparse.csr_array:
    """Return the indicators of clusters, (n, k), from labels that count from 0."""
    labels = np.asarray(labels)
    shape = len(labels), int(labels.max()) + 1 if n_clusters is None else n_clusters
    return scipy.sparse.csr_array((np.ones(len(labels)), labels, np.arange(len(labels) + 1)), shape=shape)


class SparseFactor:
    """A sparse matrix (n, k) that multiplies dense arrays of any namespace, precision and device.

    The form for the last array is kept, so that a loop converts once. NumPy: rows are worked on by all threads.
    PyTorch: blocks of rows are unpacked and multiplied as dense matrices, since k is a few hundred, which is what a
    device is made for; it gives the same result every time, and needs no more than a block beside the entries.

    Parameters
    ----------
    matrix : csr_array of shape (n, k)
        float64.
    row_blocks : list of slice
        Blocks over which sums over rows run, so that their rounding does not depend on the threads.
    """

    def __init__(self, matrix: Any, row_blocks: list[slice]) -> None:
        self.matrix = matrix
        self.row_blocks = row_blocks
        self._key: Any = None
        self._forms: Any = None

    def times(self, dense: Array, out: Array) -> Array:
        """Multiply the matrix into a dense array (k, p), into `out` (n, p)."""
        forms = self._forms_like(dense)
        if isinstance(forms, _TorchRows):
            for rows in forms.blocks:
                matmul_into(forms.unpacked(rows), dense, out[rows])
            return out
        pieces, _ = forms

        def work(start: int, stop: int) -> None:
            for i in range(start, stop):
                out[i * SPARSE_ROWS : (i + 1) * SPARSE_ROWS] = pieces[i] @ dense

        parallel_ranges(work, len(pieces))
        return out

    def transpose_times(self, dense: Array) -> Array:
        """Multiply the transpose into a dense array (n, p); returns (k, p)."""
        forms = self._forms_like(dense)
        if isinstance(forms, _TorchRows):
            return sum(forms.unpacked(rows).T @ dense[rows] for rows in forms.blocks)
        _, transposed_blocks = forms
        partial = np.empty((len(self.row_blocks), self.matrix.shape[1], dense.shape[1]), dtype=dense.dtype)

        def work(start: int, stop: int) -> None:
            for b in range(start, stop):
                partial[b] = transposed_blocks[b] @ dense[self.row_blocks[b]]

        parallel_ranges(work, len(self.row_blocks))
        return partial.sum(axis=0)

    def gram(self, like: Array) -> Array:
        """Return the product of the transpose and the matrix, (k, k), in float64 and where `like` is."""
        forms = self._forms_like(in_double(like))
        if isinstance(forms, _TorchRows):
            return sum(block.T @ block for block in map(forms.unpacked, forms.blocks))
        _, transposed_blocks = forms
        partial = [np.empty(0)] * len(self.row_blocks)

        def work(start: int, stop: int) -> None:
            for b in range(start, stop):
                partial[b] = (transposed_blocks[b] @ transposed_blocks[b].T).toarray()

        parallel_ranges(work, len(self.row_blocks))
        return np.add.reduce(partial)

    def _forms_like(self, array: Array) -> Any:
        """Return the matrix in pieces, and its transpose by row blocks, as `array` is; for PyTorch, what unpacks it."""
        key = (array.dtype, device(array))
        if key != self._key:
            if is_numpy_namespace(namespace(array)):
                matrix = self.matrix.astype(array.dtype, copy=False)
                starts = range(0, matrix.shape[0], SPARSE_ROWS)
                pieces = [matrix[start : start + SPARSE_ROWS] for start in starts]
                self._forms = pieces, [matrix[block].T for block in self.row_blocks]
            else:
                self._forms = _TorchRows(self.matrix, array)
            self._key = key
        return self._forms

    def __getstate__(self) -> dict[str, Any]:
        return {"matrix": self.matrix, "row_blocks": self.row_blocks, "_key": None, "_forms": None}


class _TorchRows:
    """The entries of a CSR matrix on a device, from which blocks of its rows are unpacked."""

    def __init__(self, matrix: Any, like: Array) -> None:
        import torch

        n, self.width = matrix.shape
        step = max(1, UNPACKED_BYTES // (8 * self.width))
        self.blocks = [slice(start, min(start + step, n)) for start in range(0, n, step)]
        self.indptr = matrix.indptr
        self.columns = torch.as_tensor(matrix.indices, device=like.device)
        self.lengths = torch.as_tensor(np.diff(matrix.indptr), device=like.device)
        self.values = torch.as_tensor(matrix.data, dtype=like.dtype, device=like.device)

    def unpacked(self, rows: slice) -> Array:
        """Return a block of rows as a dense matrix."""
        import torch

        first, last = int(self.indptr[rows.start]), int(self.indptr[rows.stop])
        count = rows.stop - rows.start
        places = torch.arange(0, count * self.width, self.width, device=self.values.device)
        places = places.repeat_interleave(self.lengths[rows], output_size=last - first)
        places += self.columns[first:last]
        dense = self.values.new_zeros(count * self.width)
        dense[places] = self.values[first:last]
        return dense.reshape(count, self.width)
