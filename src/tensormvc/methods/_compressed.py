"""The problem of TLRLF4MVC in a few thousand coordinates instead of n, with the same iterates.

Under a transform with few frequencies, such as AGFT, every iterate stays in the span of a few columns: the transform's,
the low-frequency basis, the starts, and the kernel features of all views. In an orthonormal basis of that span nothing
else changes: products, norms and slices are the same numbers. So the samples are looked at a few times, by blocks
of rows, to compute the Gram matrix of those columns, and a round costs the same for any number of samples.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, eigh, solve_triangular

from .._ops import Array, is_sparse
from ..bases import AGFT, GFT
from ..bases._base import SampleModeBasis, apply_matrix

# Rows that are looked at together. Sums over them, and so their rounding, depend on the number of samples alone.
_ROWS = 4096
# Squared distance of a column of unit length from those before it, below which a Cholesky factor is not trusted.
_WELL_CONDITIONED = 1e-10
# Directions in which columns of unit length have less than this together, as a share of the most, are rounding.
_ZERO = 1e-14


class Compression:
    """Coordinates of the span of some columns that are known by blocks of rows.

    Parameters
    ----------
    columns : list of arrays (n, k_i), or of what has their shape and rows
        The columns.
    """

    def __init__(self, columns: list[Any]) -> None:
        self._columns = columns
        stops = np.cumsum([part.shape[1] for part in columns])
        self._n = columns[0].shape[0]
        gram = np.zeros((stops[-1], stops[-1]))
        for lo in range(0, self._n, _ROWS):
            block = self._rows(lo)
            gram += block.T @ block
        self._upper, self._inverse = _root(gram)
        #: Of each part, its coordinates, (r, k_i).
        self.parts = [self._upper[:, stop - part.shape[1] : stop] for part, stop in zip(columns, stops, strict=True)]

    def _rows(self, lo: int) -> NDArray[np.float64]:
        rows = slice(lo, min(lo + _ROWS, self._n))
        parts = [part[rows] for part in self._columns]
        return np.concatenate([part.toarray() if is_sparse(part) else part for part in parts], axis=1)

    def expand(self, coordinates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rows (n, …) of what has the coordinates (r, …)."""
        weights = self._inverse(coordinates.reshape(len(coordinates), -1))
        full = np.empty((self._n, weights.shape[1]))
        for lo in range(0, self._n, _ROWS):
            np.matmul(self._rows(lo), weights, out=full[lo : lo + _ROWS])
        return full.reshape(self._n, *coordinates.shape[1:])


def _root(gram: NDArray[np.float64]) -> tuple[NDArray[np.float64], Any]:
    """Return R with RᵀR = G, of full row rank, and a function that multiplies by its (pseudo-)inverse.

    R is triangular unless the columns are dependent.
    """
    lengths = np.sqrt(gram.diagonal())
    lengths[lengths == 0] = 1
    gram /= lengths
    gram /= lengths[:, None]
    try:
        upper = cholesky(gram, check_finite=False)
        well_conditioned = float(upper.diagonal().min()) ** 2 > _WELL_CONDITIONED
    except np.linalg.LinAlgError:
        well_conditioned = False
    if well_conditioned:
        upper *= lengths
        return upper, lambda rows: solve_triangular(upper, rows, check_finite=False)
    values, vectors = eigh(gram, overwrite_a=True, check_finite=False)
    kept = values > _ZERO * values[-1]
    roots, vectors = np.sqrt(values[kept]), vectors[:, kept]
    return roots[:, None] * vectors.T * lengths, lambda rows: (vectors @ (rows / roots[:, None])) / lengths[:, None]


def trimmed(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the matrix without the rows of zeros at its end."""
    used = np.flatnonzero(matrix.any(axis=1))
    return np.ascontiguousarray(matrix[: used[-1] + 1 if len(used) else 1])


class CoordinateBasis(SampleModeBasis):
    """A transform with few frequencies, in coordinates.

    Parameters
    ----------
    vectors : ndarray of shape (r, K)
        Its columns.
    """

    def __init__(self, vectors: NDArray[np.float64]) -> None:
        self.vectors = vectors
        self.mode_length_, n_slices = vectors.shape
        self.slice_weights_ = np.ones(n_slices)
        self._used = trimmed(vectors)

    def fit(
        self, views: Any, *, n_clusters: int | None = None, random_state: Any = None, sample_graph: Any = None
    ) -> Self:
        """Do nothing: the vectors are given."""
        return self

    def _forward(self, tensor: Array, out: Array | None) -> Array:
        return apply_matrix(self._used.T, tensor[: len(self._used)], out)

    def _inverse(self, slices: Array, out: Array | None) -> Array:
        if out is None:
            out = np.empty((self.mode_length_, *slices.shape[1:]))
        apply_matrix(self._used, slices, out[: len(self._used)])
        out[len(self._used) :] = 0
        return out


def is_compressible(basis: Any, n_columns: int) -> bool:
    """Whether a fitted transform has so few frequencies that coordinates are worth it, beside so many other columns."""
    if not isinstance(basis, AGFT | GFT):
        return False
    return len(basis.slice_weights_) + n_columns <= basis.mode_length_ // 2


def basis_vectors(basis: Any) -> NDArray[np.float64]:
    """Return the columns of a transform, (n, K), from its inverse."""
    return np.ascontiguousarray(basis.inverse(np.eye(len(basis.slice_weights_))[:, :, None])[:, :, 0])
