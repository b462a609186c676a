"""Products of sparse and dense matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from array_api_compat import device, is_numpy_namespace

from .arrays import Array, in_double, namespace
from .linalg import matmul_into
from .threads import parallel_ranges

# Rows of a sparse product that are computed together: a block of the result that the cache can hold.
SPARSE_ROWS = 1024
# Bytes of a sparse matrix that are unpacked at a time.
UNPACKED_BYTES = 128 * 2**20


def one_hot(labels: Any) -> scipy.sparse.csr_array:
    """Return the indicators of clusters, (n, k), from labels that count from 0."""
    labels = np.asarray(labels)
    n = len(labels)
    return scipy.sparse.csr_array((np.ones(n), labels, np.arange(n + 1)), shape=(n, int(labels.max()) + 1))


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
