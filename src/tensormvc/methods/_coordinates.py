"""Coordinates of the samples in which a loop keeps its tensors.

A transform along the samples costs nothing in coordinates of its own. A loop that is otherwise made of products along
the samples, and of work that no rotation of them changes, can run there: it transforms what it begins with and what it
ends with, and nothing in between. One protocol, `Coordinates`, has four forms:

* `SampleCoordinates`: the samples themselves, for any transform, wherever their rows are;
* `Coefficients` of a square orthogonal transform (Fourier, cosine, Haar, random, graph Fourier);
* `CompletedCoefficients` of a transform with fewer orthogonal slices than samples;
* `SpanCoordinates`: an orthonormal basis of the span of a few thousand columns, for any number of samples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
from array_api_compat import device

from ..backend.arrays import Array, contiguous, in_double, is_tensor, namespace, on_host, placed
from ..backend.linalg import cholesky, inner, solve_lower, vectors_beside
from ..backend.threads import run_ranges
from ..bases import AGFT, GFT
from ..bases._base import SampleModeBasis
from ..rows import InMemory, RowArrays, Rows, in_memory, row_work
from ..shrinkage import shrink_in_place, shrink_stacked

# Slices that are worked on together: they and what is made of them stay in the cache; a GPU wants many.
_BLOCK_BYTES = 2**19
_DEVICE_BLOCK_BYTES = 512 * 2**20
# How far from orthogonal the rounding of a transform may be.
ORTHOGONAL = 1e-11
# Squared distance of a column of unit length from those before it, below which it counts as dependent on them.
_WELL_CONDITIONED = 1e-10
# Eigenvalues of the Gram matrix of unit columns below this share of the largest are rounding errors.
_ZERO = 1e-14


class Columns(Protocol):
    """What a loop begins with, as functions of some rows of the samples."""

    @property
    def widths(self) -> tuple[list[int], list[int]]:
        """Numbers of columns of the starts and of the factors."""

    def of(self, rows: ColumnRows) -> tuple[list[Array], list[Array]]:
        """Return the starts and the factors.

        The starts may be linearly dependent; the factors are linearly independent, also of the starts, except by
        coincidence.
        """


@dataclass
class ColumnRows(RowArrays):
    """The row arrays that `Columns` are functions of, and the columns themselves.

    Attributes
    ----------
    views, labels, phases : arrays
        Samples, their clusters, and what their random numbers are made of.
    vectors : array of shape (n, ...)
        Columns of a transform, but for a factor.
    starts, factors : lists of arrays of shape (n, ...)
        The columns.
    expanded : array of shape (n, ...)
        What has been computed in the coordinates of a span.
    """

    views: list[Array]
    labels: Array
    phases: Array
    vectors: Array
    starts: list[Array]
    factors: list[Array]
    expanded: Array


class Coordinates(ABC):
    """Coordinates of n samples, in which tensors are (n_rows, m, d).

    Attributes
    ----------
    n_rows : int
        Number of coordinates.
    """

    n_rows: int

    @abstractmethod
    def shrink(self, tensor: Array, penalty: Any, threshold: float, *, out: Array) -> float:
        """Shrink the singular values of the slices of a tensor into `out`; return the penalty of the result."""

    @abstractmethod
    def into(self, columns: Array) -> Array:
        """Return columns (n, …) of the samples in these coordinates, (n_rows, …)."""

    @abstractmethod
    def back(self, coordinates: Array) -> Array:
        """Return the columns (n, …) with these coordinates."""

    def shrinks_to_zero(self, energies: Array, penalty: Any, threshold: float) -> bool:
        """Whether nothing can be left of a tensor, from the sums of squares of its rows over the views."""
        return False

    def shrink_rows(self, rows: Rows, source: str, target: str, penalty: Any, threshold: float) -> float:
        """Shrink a tensor that rows hold into another one, by their names; return the penalty of the result."""
        local = in_memory(rows)
        return self.shrink(local[source], penalty, threshold, out=local[target])

    def enter(self, rows: Rows, columns: Columns, *, dtype: str) -> Rows:
        """Return rows that hold "starts", and "factors" of some type, in these coordinates."""
        local = in_memory(_columns_of_samples(rows, columns, dtype))
        starts = [self.into(part) for part in local["starts"]]
        inside, factors = InMemory(starts[0]), local["factors"]
        # One after the other: together they are the most that is held.
        inside.hold(starts=starts, factors=[self._typed(factors.pop(0)) for _ in range(len(factors))])
        rows.drop("starts", "factors")
        return inside

    def _typed(self, factor: Array) -> Array:
        return namespace(factor).astype(self.into(factor), factor.dtype, copy=False)

    def leave(self, inside: Rows, rows: Rows, name: str) -> None:
        """Add an array that rows in these coordinates hold to the rows of the samples."""
        in_memory(rows).hold(**{name: self.back(in_memory(inside)[name])})


def _columns_of_samples(rows: Rows, columns: Columns, dtype: str) -> Rows:
    starts, factors = columns.widths
    rows.create(starts=[(width,) for width in starts])
    rows.create(dtype, factors=[(width,) for width in factors])
    rows.each(_fill, columns)
    return rows


@row_work(reads="views labels phases", sets="starts factors", products=True)
def _fill(rows: ColumnRows, columns: Columns) -> None:
    for arrays, values in zip((rows.starts, rows.factors), columns.of(rows), strict=True):
        for array, value in zip(arrays, values, strict=True):
            array[...] = value


class SampleCoordinates(Coordinates):
    """The samples as they are, for transforms of any kind.

    Parameters
    ----------
    basis : fitted basis
        Transform of a tensor (n, d, m).
    n : int
        Number of samples.
    """

    def __init__(self, basis: Any, n: int) -> None:
        self.basis, self.n_rows = basis, n
        self._weights = np.asarray(basis.slice_weights_, dtype=np.float64)
        self._slices: Array | None = None

    def shrink(self, tensor: Array, penalty: Any, threshold: float, *, out: Array) -> float:
        """Transform, shrink every slice, transform back."""
        if isinstance(self.basis, SampleModeBasis):
            # The transposes of its slices have the same singular values.
            self._slices = self.basis.forward(tensor, out=self._slices)
            value = self._shrink_slices(self._slices, penalty, threshold)
            self.basis.inverse(self._slices, out=out)
            return value
        xp = namespace(tensor)
        slices = contiguous(self.basis.forward(contiguous(xp.permute_dims(tensor, (0, 2, 1)))))
        value = self._shrink_slices(slices, penalty, threshold)
        out[...] = xp.permute_dims(self.basis.inverse(slices), (0, 2, 1))
        return value

    def _shrink_slices(self, slices: Array, penalty: Any, threshold: float) -> float:
        values = shrink_in_place(slices, penalty, threshold)
        return float(namespace(values).sum(values * placed(self._weights, values)))

    def shrink_rows(self, rows: Rows, source: str, target: str, penalty: Any, threshold: float) -> float:
        """Shrink a tensor that rows hold, which may be on a cluster."""
        if isinstance(rows, InMemory):
            return super().shrink_rows(rows, source, target, penalty, threshold)
        slices = self.basis.forward_rows(rows, source)
        value = self._shrink_slices(slices, penalty, threshold)
        self.basis.inverse_rows(slices, rows, target)
        return value

    def into(self, columns: Array) -> Array:
        """Return the columns themselves."""
        return columns

    def back(self, coordinates: Array) -> Array:
        """Return the columns themselves."""
        return coordinates

    def enter(self, rows: Rows, columns: Columns, *, dtype: str) -> Rows:
        """Add "starts" and "factors" to the rows of the samples."""
        return _columns_of_samples(rows, columns, dtype)

    def leave(self, inside: Rows, rows: Rows, name: str) -> None:
        """Do nothing: the rows are those of the samples."""


class _SliceCoordinates(Coordinates):
    """Coordinates that begin with the coefficients of a transform; the transform drops the rest.

    Slice k is made of the `n_parts` rows from ``n_parts * k`` on: its real and its imaginary part, if slices are
    complex. Its own coefficients are `scales[k]` times as long.
    """

    n_parts: int
    scales: Array
    weights: Array

    def shrinks_to_zero(self, energies: Array, penalty: Any, threshold: float) -> bool:
        """Whether nothing can be left of a tensor, from the sums of squares of its rows over the views."""
        xp, n_slices = namespace(energies), self.scales.shape[0]
        squares = xp.sum(energies[: self.n_parts * n_slices].reshape(n_slices, self.n_parts), axis=1)
        # No singular value is larger than the Frobenius norm.
        return not bool(xp.any(penalty.prox(self.scales * xp.sqrt(squares) * (1 + ORTHOGONAL), threshold) > 0))

    def shrink(self, tensor: Array, penalty: Any, threshold: float, *, out: Array) -> float:
        """Shrink slices where they lie: nothing is transformed."""
        n_slices, (_, m, d) = self.scales.shape[0], tensor.shape
        cut, parts = self.n_parts * n_slices, (slice(0, m), slice(m, None)) if self.n_parts == 2 else None
        slices, result = (array[:cut].reshape(n_slices, self.n_parts * m, d) for array in (tensor, out))
        room = _DEVICE_BLOCK_BYTES if is_tensor(tensor) else _BLOCK_BYTES
        block = max(1, room // (8 * self.n_parts * m * d))
        xp = namespace(tensor)
        values = xp.zeros_like(self.scales)

        def work(start: int, stop: int) -> None:
            for lo in range(start, stop, block):
                at = slice(lo, min(lo + block, stop))
                values[at] = shrink_stacked(
                    slices[at], penalty, threshold, scales=self.scales[at], parts=parts, out=result[at]
                )

        run_ranges(work, self.scales, block)
        out[cut:] = 0
        return float(xp.sum(values * self.weights))


class Coefficients(_SliceCoordinates):
    """The coefficients of a square orthogonal transform.

    Parameters
    ----------
    basis : fitted basis
        The transform.
    factor : float
        Ratio of the length of the full spectrum, including conjugate coefficients that are not returned, to that of the
        samples.
    like : array
        The coefficients are of its namespace and on its device.
    is_complex : bool
        Whether the slices are.
    """

    def __init__(self, basis: Any, factor: float, like: Array, *, is_complex: bool) -> None:
        weights = np.asarray(basis.slice_weights_, dtype=np.float64)
        self.basis, self.n_parts = basis, 2 if is_complex else 1
        self.n_rows = self.n_parts * len(weights)
        self.scales, self.weights = placed(factor / np.sqrt(weights), like), placed(weights, like)
        self._real = placed(np.flatnonzero(weights == 1), like)

    def into(self, columns: Array) -> Array:
        """Transform columns (n, …)."""
        xp = namespace(columns)
        slices = self.basis.forward(xp.reshape(in_double(columns), (columns.shape[0], -1, 1)))[:, :, 0]
        rows = xp.empty((self.n_rows, slices.shape[1]), dtype=xp.float64, device=device(slices))
        parts = (xp.real(slices), xp.imag(slices)) if self.n_parts == 2 else (slices,)
        for i, part in enumerate(parts):
            xp.divide(part, self.scales[:, None], out=rows[i :: self.n_parts])
        for i in range(1, self.n_parts):
            rows[i :: self.n_parts][self._real] = 0
        return xp.reshape(rows, (self.n_rows, *columns.shape[1:]))

    def back(self, coordinates: Array) -> Array:
        """Transform coefficients back."""
        xp = namespace(coordinates)
        rows = xp.reshape(coordinates, (self.n_rows, -1))
        parts = [rows[i :: self.n_parts] * self.scales[:, None] for i in range(self.n_parts)]
        slices = parts[0] + 1j * parts[1] if self.n_parts == 2 else parts[0]
        columns = self.basis.inverse(slices[:, :, None])
        return xp.reshape(columns, (columns.shape[0], *coordinates.shape[1:]))


class CompletedCoefficients(_SliceCoordinates):
    """The coefficients of a transform with orthogonal real slices, and, beside its span, any others.

    Parameters
    ----------
    matrix : array of shape (n, n)
        Orthogonal; the first rows are the transform's.
    scales : array of shape (n_slices,)
        How much longer the transform's own coefficients are.
    """

    n_parts = 1

    def __init__(self, matrix: Array, scales: Array) -> None:
        self._matrix, self.scales = matrix, scales
        self.n_rows, self.weights = matrix.shape[0], namespace(scales).ones_like(scales)

    def into(self, columns: Array) -> Array:
        """Rotate columns (n, p)."""
        return self._matrix @ columns

    def back(self, coordinates: Array) -> Array:
        """Rotate them back."""
        return self._matrix.T @ coordinates


def coefficients_of(basis: Any, like: Array, m: int) -> Coefficients | None:
    """Return the coefficients of a transform of tensors (n, d, m) as coordinates, or None if it is not orthogonal.

    A transform along the samples (`SampleModeBasis`) counts as orthogonal if it is square and preserves the lengths of
    random columns, up to a common factor. For any other transform the result is None, because it may treat tensors of
    other shapes differently.

    Parameters
    ----------
    basis : fitted basis
        The transform.
    like : array of n rows
        The coordinates are of its namespace and on its device.
    m : int
        Number of views.
    """
    weights = np.asarray(basis.slice_weights_, dtype=np.float64)
    probe, slices = _probed(basis, like, m)
    if slices is None or weights.sum() != len(probe):
        return None
    xp = namespace(probe)
    squares = xp.sum(placed(weights, like)[:, None, None] * abs(slices) ** 2, axis=0)
    factors = xp.sqrt(squares / xp.sum(probe**2, axis=0))
    factor = float(factors[0, 0])
    if not factor > 0:
        return None
    coordinates = Coefficients(basis, factor, like, is_complex=xp.isdtype(slices.dtype, "complex floating"))
    keeps_lengths = _close(factors / factor, xp.ones_like(factors))
    return coordinates if keeps_lengths and _close(coordinates.back(coordinates.into(probe)), probe) else None


def coordinates_of(basis: Any, like: Array, m: int) -> Coordinates:
    """Return coordinates in which a transform of tensors (n, n, m) costs nothing, if there are any, else the samples.

    May form the n × n matrix of the transform. The parameters are those of `coefficients_of`.
    """
    if (coefficients := coefficients_of(basis, like, m)) is not None:
        return coefficients
    samples = SampleCoordinates(basis, like.shape[0])
    probe, slices = _probed(basis, like, m)
    xp, n = namespace(probe), len(probe)
    if slices is None or len(slices) > n or xp.isdtype(slices.dtype, "complex floating"):
        return samples
    identity = xp.eye(n, dtype=xp.float64, device=device(probe))
    own = basis.forward(identity[:, :, None])[:, :, 0]
    scales = xp.linalg.vector_norm(own, axis=1)
    if not bool(xp.all(scales > 0)):
        return samples
    own = own / scales[:, None]
    rotated = xp.tensordot(own, probe, axes=1)
    orthogonal = (
        _close(own @ own.T, identity[: len(own), : len(own)])
        and _close(slices / scales[:, None, None], rotated)
        and _close(basis.inverse(slices), xp.tensordot(own.T, rotated, axes=1))
    )
    if not orthogonal:
        return samples
    return CompletedCoefficients(xp.concat([own, vectors_beside(own.T).T]) if len(own) < n else own, scales)


def _probed(basis: Any, like: Array, m: int) -> tuple[Array, Array | None]:
    """Return a random tensor and its slices; None if the transform is not known to treat all columns alike."""
    probe = placed(np.random.default_rng(0).standard_normal((like.shape[0], m, m)), like)
    return probe, basis.forward(probe) if isinstance(basis, SampleModeBasis) else None


def _close(array: Array, other: Array) -> bool:
    return bool(namespace(array).max(abs(array - other)) < ORTHOGONAL)


class SpanCoordinates(Coordinates):
    """An orthonormal basis of the span of a transform with few frequencies and of what a loop begins with.

    If every iterate stays in that span, nothing changes in these coordinates: products, norms and slices are the same
    numbers. The samples are looked at a few times, for the Gram matrix of the columns, and a round costs the same for
    any number of samples.

    Parameters
    ----------
    rows : Rows
        The samples.
    basis : AGFT or GFT
        The fitted transform.
    columns : Columns
        What the loop begins with.
    """

    def __init__(self, rows: Rows, basis: AGFT | GFT, columns: Columns) -> None:
        self._factor, self._columns = basis.hold_vectors(rows), columns
        widths = [len(basis.slice_weights_), *columns.widths[0], *columns.widths[1]]
        gram = rows.sum(_gram, columns, self._factor)
        n_factors = len(columns.widths[1])
        # The constant, at least, is in the span of both the transform and the indicators of clusters.
        self._root = _BlockRoot(gram, sum(widths[:-n_factors]))
        ends = accumulate(widths)
        vectors, *parts = (self._root.matrix[:, end - width : end] for width, end in zip(widths, ends, strict=True))
        self._parts = parts[:-n_factors], [_trimmed(part) for part in parts[-n_factors:]]
        self._vectors, self.n_rows = _trimmed(vectors), vectors.shape[0]

    def enter(self, rows: Rows, columns: Columns, *, dtype: str) -> Rows:
        """Return rows that hold the coordinates of the columns."""
        starts, factors = self._parts
        inside = InMemory(starts[0])
        inside.hold(starts=[contiguous(part) for part in starts], factors=factors)
        return inside

    def shrink(self, tensor: Array, penalty: Any, threshold: float, *, out: Array) -> float:
        """Transform by the few vectors, shrink every slice, transform back."""
        xp, (_, m, d) = namespace(tensor), tensor.shape
        used = len(self._vectors)
        slices = xp.reshape(self._vectors.T @ xp.reshape(tensor[:used], (used, -1)), (-1, m, d))
        values = shrink_in_place(slices, penalty, threshold)
        out[:used] = xp.reshape(self._vectors @ xp.reshape(slices, (slices.shape[0], -1)), (used, m, d))
        out[used:] = 0
        return float(xp.sum(values))

    def into(self, columns: Array) -> Array:
        """Refuse: only the columns of the span have coordinates."""
        raise TypeError("only the columns that span these coordinates have any")

    def back(self, coordinates: Array) -> Array:
        """Return the weights (k, …) of the columns, whose sum has these coordinates (n_rows, …)."""
        xp = namespace(coordinates)
        weights = self._root.solve(xp.reshape(coordinates, (coordinates.shape[0], -1)))
        return xp.reshape(weights, (-1, *coordinates.shape[1:]))

    def leave(self, inside: Rows, rows: Rows, name: str) -> None:
        """Add an array that rows in these coordinates hold to the rows of the samples, as a sum of columns."""
        weights = self.back(in_memory(inside)[name])
        shapes: dict[str, Any] = {name: tuple(weights.shape[1:])}
        rows.create(**shapes)
        rows.alias("expanded", name)
        rows.each(_expand, self._columns, self._factor, weights)
        rows.drop("expanded")


def _all_columns(rows: ColumnRows, columns: Columns, factor: Array | None) -> Array:
    """Return the columns of the transform, of the starts and of the factors side by side."""
    vectors = rows.vectors if factor is None else rows.vectors @ factor
    starts, factors = columns.of(rows)
    return namespace(vectors).concat([vectors, *starts, *factors], axis=1)


@row_work(reads="views vectors labels phases", products=True)
def _gram(rows: ColumnRows, columns: Columns, factor: Array | None) -> Array:
    some = _all_columns(rows, columns, factor)
    return inner(some, some)


@row_work(reads="views vectors labels phases", sets="expanded", products=True)
def _expand(rows: ColumnRows, columns: Columns, factor: Array | None, weights: Array) -> None:
    xp = namespace(weights)
    flat = _all_columns(rows, columns, factor) @ xp.reshape(weights, (weights.shape[0], -1))
    rows.expanded[...] = xp.reshape(flat, rows.expanded.shape)


class _BlockRoot:
    """A factor R of full row rank with RᵀR = G.

    The first columns go through an eigendecomposition, what the others add through a Cholesky factorisation.

    Parameters
    ----------
    gram : array of shape (k, k)
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


def _trimmed(matrix: Array) -> Array:
    """Return the matrix without the rows of zeros at its end."""
    used = np.flatnonzero(on_host(namespace(matrix).any(matrix != 0, axis=1)))
    return contiguous(matrix[: used[-1] + 1 if len(used) else 1])


def is_compressible(basis: Any, n_columns: int) -> bool:
    """Return whether `SpanCoordinates` are worthwhile for a fitted transform and this number of other columns."""
    return isinstance(basis, AGFT | GFT) and len(basis.slice_weights_) + n_columns <= basis.mode_length_ // 2
