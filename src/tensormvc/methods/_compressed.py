"""The problem of TLRLF4MVC in a few thousand coordinates instead of n, with the same iterates.

Under a transform with few frequencies, such as AGFT, every iterate stays in the span of a few columns: the transform's,
the low-frequency basis, the starts, and the kernel features of all views. In an orthonormal basis of that span nothing
else changes: products, norms and slices are the same numbers. So the samples are looked at a few times, by blocks
of rows, to compute the Gram matrix of those columns, and a round costs the same for any number of samples.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from array_api_compat import device

from ..backend import Array, cholesky, contiguous, inner, namespace, on_host, solve_lower
from ..bases import AGFT, GFT
from ..bases._base import SampleModeBasis, apply_matrix
from ..rows import Part, row_work

# Squared distance of a column of unit length from those before it, below which it counts as dependent on them.
_WELL_CONDITIONED = 1e-10
# Directions in which columns of unit length have less than this together, as a share of the most, are rounding.
_ZERO = 1e-14


class Compression:
    """Coordinates of the span of some columns that are known by blocks of rows.

    Parameters
    ----------
    rows : executor
        Of the samples.
    columns : function of a Part
        Returns the columns of some rows, (rows, k), from "views", "vectors", "labels" and "phases".
    widths : list of int
        Of the parts that the columns consist of.
    n_few : int
        How many parts come first whose columns may depend on others, a few hundred in all; the others are dependent
        only by chance.
    """

    def __init__(self, rows: Any, columns: Callable[[Part], Array], widths: list[int], n_few: int) -> None:
        self._rows, self._columns, self._width = rows, columns, sum(widths)
        gram = rows.sum_of_products(_gram, columns, width=self._width)
        self._root = _BlockRoot(gram, sum(widths[:n_few]))
        stops = itertools.accumulate(widths)
        #: Of each part, its coordinates, (r, k_i).
        self.parts = [self._root.matrix[:, stop - width : stop] for width, stop in zip(widths, stops, strict=True)]

    def expand(self, name: str, coordinates: Array) -> None:
        """Let the rows (n, …) of what has the coordinates (r, …) join the rows under a name."""
        xp, shape = namespace(coordinates), coordinates.shape[1:]
        weights = self._root.solve(xp.reshape(coordinates, (coordinates.shape[0], -1)))
        self._rows.full(name, *shape)
        self._rows.alias("expanded", name)
        self._rows.each(_expand, self._columns, weights, width=self._rows.product_width(self._width))
        self._rows.drop("expanded")


@row_work(reads="views vectors labels phases")
def _gram(rows: Part, columns: Callable[[Part], Array]) -> Array:
    some = columns(rows)
    return inner(some, some)


@row_work(reads="views vectors labels phases", sets="expanded")
def _expand(rows: Part, columns: Callable[[Part], Array], weights: Array) -> None:
    out = rows.expanded
    out[...] = namespace(weights).reshape(columns(rows) @ weights, out.shape)


class _BlockRoot:
    """R with RᵀR = G, of full row rank: of the first columns by eigenvalues, of what the others add by Cholesky.

    Parameters
    ----------
    gram : ndarray of shape (k, k)
        G.
    n_first : int
        How many columns come first. All, if the others turn out to be dependent.
    """

    def __init__(self, gram: Array, n_first: int) -> None:
        xp = namespace(gram)
        lengths = xp.sqrt(xp.linalg.diagonal(gram))
        lengths = xp.where(lengths > 0, lengths, xp.ones_like(lengths))
        gram = gram / lengths
        gram /= lengths[:, None]
        self._lengths = lengths[:, None]
        self._begin(gram[:n_first, :n_first])
        self._across = (self._vectors / self._roots).T @ gram[:n_first, n_first:]
        added = gram[n_first:, n_first:] - self._across.T @ self._across
        lower = cholesky(added)
        if lower is None or float(xp.min(xp.linalg.diagonal(lower))) ** 2 <= _WELL_CONDITIONED:
            self._begin(gram)
            n_first = gram.shape[0]
            self._across, lower = gram[: self._roots.shape[0], n_first:], gram[n_first:, n_first:]
        self._lower = lower
        rank, n_added = self._roots.shape[0], self._lower.shape[0]
        self.matrix = xp.zeros_like(gram[: rank + n_added])
        self.matrix[:rank, :n_first] = self._roots[:, None] * self._vectors.T
        self.matrix[:rank, n_first:] = self._across
        self.matrix[rank:, n_first:] = self._lower.T
        self.matrix *= lengths

    def _begin(self, gram: Array) -> None:
        xp = namespace(gram)
        values, vectors = xp.linalg.eigh(gram)
        kept = values > _ZERO * values[-1]
        self._roots, self._vectors = xp.sqrt(values[kept]), vectors[:, kept]

    def solve(self, rows: Array) -> Array:
        """Multiply by the (pseudo-)inverse of R."""
        rank = self._roots.shape[0]
        last = solve_lower(self._lower, rows[rank:], transposed=True) if self._lower.shape[0] else rows[rank:]
        first = self._vectors @ ((rows[:rank] - self._across @ last) / self._roots[:, None])
        return namespace(rows).concat([first, last]) / self._lengths


def trimmed(matrix: Array) -> Array:
    """Return the matrix without the rows of zeros at its end."""
    used = np.flatnonzero(on_host(namespace(matrix).any(matrix != 0, axis=1)))
    return contiguous(matrix[: used[-1] + 1 if len(used) else 1])


class CoordinateBasis(SampleModeBasis):
    """A transform with few frequencies, in coordinates.

    Parameters
    ----------
    vectors : array of shape (r, K)
        Its columns.
    """

    def __init__(self, vectors: Array) -> None:
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
            xp = namespace(slices)
            out = xp.empty((self.mode_length_, *slices.shape[1:]), dtype=slices.dtype, device=device(slices))
        apply_matrix(self._used, slices, out[: len(self._used)])
        out[len(self._used) :] = 0
        return out


def is_compressible(basis: Any, n_columns: int) -> bool:
    """Whether a fitted transform has so few frequencies that coordinates are worth it, beside so many other columns."""
    if not isinstance(basis, AGFT | GFT):
        return False
    return len(basis.slice_weights_) + n_columns <= basis.mode_length_ // 2


def hold_vectors(basis: Any, rows: Any) -> Array | None:
    """Let rows join an executor as "vectors" that are those of the transform's columns but for a factor.

    Returns the factor, or None if there is none.
    """
    if isinstance(basis, AGFT) and (rows.distributed or not rows.tensors):
        return basis.hold_rows(rows)
    rows.hold(vectors=basis_vectors(basis, rows.place(np.eye(len(basis.slice_weights_)))))
    return None


def basis_vectors(basis: Any, one: Array) -> Array:
    """Return the columns of a transform, (n, K), from its inverse and the identity matrix (K, K)."""
    return contiguous(basis.inverse(one[:, :, None])[:, :, 0])
