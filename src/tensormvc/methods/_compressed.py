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
from scipy.linalg.blas import dsyrk

from .._ops import Array, is_sparse
from ..bases import AGFT, GFT
from ..bases._base import SampleModeBasis, apply_matrix

# Rows that are looked at together. Sums over them, and so their rounding, depend on the number of samples alone.
_ROWS = 4096
# Squared distance of a column of unit length from those before it, below which it counts as dependent on them.
_WELL_CONDITIONED = 1e-10
# Directions in which columns of unit length have less than this together, as a share of the most, are rounding.
_ZERO = 1e-14


class Compression:
    """Coordinates of the span of some columns that are known by blocks of rows.

    Parameters
    ----------
    few : list of arrays (n, k_i)
        Columns of which some may depend on others, a few hundred in all.
    many : list of arrays (n, k_i), or of what has their shape and rows
        More columns, which are dependent only by chance.
    """

    def __init__(self, few: list[Any], many: list[Any]) -> None:
        self._columns = [*few, *many]
        self._n = few[0].shape[0]
        widths = [part.shape[1] for part in self._columns]
        stops = np.cumsum(widths)
        gram = np.zeros((stops[-1], stops[-1]), order="F")
        for lo in range(0, self._n, _ROWS):
            gram = dsyrk(1.0, self._rows(lo).T, beta=1.0, c=gram, overwrite_c=1)
        self._root = _BlockRoot(gram, sum(part.shape[1] for part in few))
        #: Of each part, its coordinates, (r, k_i).
        self.parts = [self._root.matrix[:, stop - width : stop] for width, stop in zip(widths, stops, strict=True)]

    def _rows(self, lo: int) -> NDArray[np.float64]:
        rows = slice(lo, min(lo + _ROWS, self._n))
        parts = [part[rows] for part in self._columns]
        return np.concatenate([part.toarray() if is_sparse(part) else part for part in parts], axis=1)

    def expand(self, coordinates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rows (n, …) of what has the coordinates (r, …)."""
        weights = self._root.solve(coordinates.reshape(len(coordinates), -1))
        full = np.empty((self._n, weights.shape[1]))
        for lo in range(0, self._n, _ROWS):
            np.matmul(self._rows(lo), weights, out=full[lo : lo + _ROWS])
        return full.reshape(self._n, *coordinates.shape[1:])


class _BlockRoot:
    """R with RᵀR = G, of full row rank: of the first columns by eigenvalues, of what the others add by Cholesky.

    Parameters
    ----------
    gram : ndarray of shape (k, k)
        G; only its upper triangle is looked at. It is overwritten.
    n_first : int
        How many columns come first. All, if the others turn out to be dependent.
    """

    def __init__(self, gram: NDArray[np.float64], n_first: int) -> None:
        lengths = np.sqrt(gram.diagonal())
        lengths[lengths == 0] = 1
        gram /= lengths
        gram /= lengths[:, None]
        self._lengths = lengths[:, None]
        self._begin(gram[:n_first, :n_first])
        self._across = (self._vectors / self._roots).T @ gram[:n_first, n_first:]
        added = gram[n_first:, n_first:] - self._across.T @ self._across
        try:
            self._upper = cholesky(added, check_finite=False)
            independent = float(self._upper.diagonal().min(initial=1)) ** 2 > _WELL_CONDITIONED
        except np.linalg.LinAlgError:
            independent = False
        if not independent:
            self._begin(gram)
            self._across, self._upper = np.zeros((len(self._roots), 0)), np.zeros((0, 0))
        rank = len(self._roots)
        n_first = len(self._vectors)
        self.matrix = np.zeros((rank + len(self._upper), len(gram)))
        self.matrix[:rank, :n_first] = self._roots[:, None] * self._vectors.T
        self.matrix[:rank, n_first:] = self._across
        self.matrix[rank:, n_first:] = self._upper
        self.matrix *= lengths

    def _begin(self, gram: NDArray[np.float64]) -> None:
        values, vectors = eigh(gram, lower=False, check_finite=False)
        kept = values > _ZERO * values[-1]
        self._roots, self._vectors = np.sqrt(values[kept]), vectors[:, kept]

    def solve(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Multiply by the (pseudo-)inverse of R."""
        rank = len(self._roots)
        last = solve_triangular(self._upper, rows[rank:], check_finite=False) if len(self._upper) else rows[rank:]
        first = self._vectors @ ((rows[:rank] - self._across @ last) / self._roots[:, None])
        return np.asarray(np.concatenate([first, last]) / self._lengths)


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
