"""The samples in the coordinates of a transform along them, in which the transform itself costs nothing.

The Fourier, cosine, Haar, random and graph transforms are orthogonal but for a factor. A loop that is otherwise made of
products along the samples, and of work that no rotation of them changes, can run on the coefficients: it transforms
what it begins with and what it ends with, and nothing in between.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import device

from ..backend import Array, in_double, is_tensor, namespace, placed, run_ranges, vectors_beside
from ..bases._base import SampleModeBasis
from ..shrinkage import shrink_stacked

# Of the slices that are worked on together: they and what is made of them stay in the cache.
_BLOCK_BYTES = 2**19
# A GPU wants many.
_DEVICE_BLOCK_BYTES = 512 * 2**20
# How far from orthogonal the rounding of a transform may be.
ORTHOGONAL = 1e-11


class CoefficientRows:
    """The coefficients of an orthogonal transform, one a row; of a complex slice, its real and its imaginary part.

    Parameters
    ----------
    basis : fitted basis
        The transform.
    factor : float
        How much longer its coefficients are than the samples, with those counted that are not returned.
    like : array
        Of the kind, and where, the coefficients shall be.
    is_complex : bool
        Whether the slices are.
    in_turn : bool
        Whether the real and the imaginary part of a slice follow each other; else all real parts come first.
    """

    def __init__(self, basis: Any, factor: float, like: Array, *, is_complex: bool, in_turn: bool) -> None:
        weights = np.asarray(basis.slice_weights_, dtype=np.float64)
        self.basis, self.n_parts, self.in_turn = basis, 2 if is_complex else 1, in_turn
        self.n_rows = self.n_parts * len(weights)
        self.scales = placed(factor / np.sqrt(weights), like)
        self._real = placed(np.flatnonzero(weights == 1), like)

    def into(self, columns: Array) -> Array:
        """Return columns (n, …) in these coordinates, (rows, …)."""
        xp = namespace(columns)
        slices = self.basis.forward(xp.reshape(in_double(columns), (columns.shape[0], -1, 1)))[:, :, 0]
        rows = xp.empty((self.n_rows, slices.shape[1]), dtype=xp.float64, device=device(slices))
        numbers = (xp.real(slices), xp.imag(slices)) if self.n_parts == 2 else (slices,)
        for part, given in zip(self._parts(rows), numbers, strict=True):
            xp.divide(given, self.scales[:, None], out=part)
        for imaginary in self._parts(rows)[1:]:
            imaginary[self._real] = 0
        return xp.reshape(rows, (self.n_rows, *columns.shape[1:]))

    def _parts(self, rows: Array) -> list[Array]:
        """View the real parts of rows, and the imaginary parts if there are any."""
        if self.in_turn:
            return [rows[i :: self.n_parts] for i in range(self.n_parts)]
        n_slices = self.scales.shape[0]
        return [rows[i * n_slices : (i + 1) * n_slices] for i in range(self.n_parts)]

    def back(self, rows: Array) -> Array:
        """Return what has these coordinates."""
        xp = namespace(rows)
        parts = [part * self.scales[:, None] for part in self._parts(xp.reshape(rows, (self.n_rows, -1)))]
        slices = parts[0] + 1j * parts[1] if self.n_parts == 2 else parts[0]
        columns = self.basis.inverse(slices[:, :, None])
        return xp.reshape(columns, (columns.shape[0], *rows.shape[1:]))

    def shrink(self, tensor: Array, penalty: Any, threshold: float, *, out: Array) -> None:
        """Shrink the singular values of the slices of a tensor (rows, m, d), whose parts are in turn, into another."""
        n_slices, (_, m, d) = self.scales.shape[0], tensor.shape
        parts = (slice(0, m), slice(m, None)) if self.n_parts == 2 else None
        given, result = (array.reshape(n_slices, self.n_parts * m, d) for array in (tensor, out))
        block = slices_at_once(tensor, self.n_parts * m * d)

        def work(start: int, stop: int) -> None:
            for lo in range(start, stop, block):
                here = slice(lo, min(lo + block, stop))
                shrink_stacked(given[here], penalty, threshold, scales=self.scales[here], parts=parts, out=result[here])

        run_ranges(work, self.scales, block)


class CompletedRows:
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
        self.n_rows = matrix.shape[0]

    def into(self, columns: Array) -> Array:
        """Return columns (n, p) in these coordinates, (rows, p)."""
        return self._matrix @ columns

    def back(self, rows: Array) -> Array:
        """Return what has these coordinates."""
        return self._matrix.T @ rows


def coefficient_rows(basis: Any, like: Array, m: int, *, in_turn: bool) -> CoefficientRows | None:
    """Return coordinates in which a transform of tensors (n, d, m) costs nothing, or None if there are none.

    A basis of a stranger's may do anything to tensors of other shapes, and has none. Of ours, a square one that keeps
    the length of random samples is orthogonal.

    Parameters
    ----------
    basis : fitted basis
        The transform.
    like : array of n rows
        The coordinates are of its kind, and where it is.
    m : int
        Number of views.
    in_turn : bool
        Whether the real and the imaginary part of a slice follow each other.
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
    is_complex = xp.isdtype(slices.dtype, "complex floating")
    rows = CoefficientRows(basis, factor, like, is_complex=is_complex, in_turn=in_turn)
    orthogonal = _close(factors / factor, xp.ones_like(factors)) and _close(rows.back(rows.into(probe)), probe)
    return rows if orthogonal else None


def completed_rows(basis: Any, like: Array, m: int) -> CompletedRows | None:
    """Return coordinates in which a transform with orthogonal real slices costs nothing, or None if it has none.

    This forms the matrix of the transform. The parameters are those of `coefficient_rows`.
    """
    probe, slices = _probed(basis, like, m)
    xp, n = namespace(probe), len(probe)
    if slices is None or len(slices) > n or xp.isdtype(slices.dtype, "complex floating"):
        return None
    identity = xp.eye(n, dtype=xp.float64, device=device(probe))
    own = basis.forward(identity[:, :, None])[:, :, 0]
    scales = xp.linalg.vector_norm(own, axis=1)
    if not bool(xp.all(scales > 0)):
        return None
    own = own / scales[:, None]
    rotated = xp.tensordot(own, probe, axes=1)
    if not (
        _close(own @ own.T, identity[: len(own), : len(own)])
        and _close(slices / scales[:, None, None], rotated)
        and _close(basis.inverse(slices), xp.tensordot(own.T, rotated, axes=1))
    ):
        return None
    return CompletedRows(xp.concat([own, vectors_beside(own.T).T]) if len(own) < n else own, scales)


def slices_at_once(tensor: Array, size: int) -> int:
    """Return how many slices of so many numbers are worked on together."""
    return max(1, (_DEVICE_BLOCK_BYTES if is_tensor(tensor) else _BLOCK_BYTES) // (8 * size))


def _probed(basis: Any, like: Array, m: int) -> tuple[Array, Array | None]:
    """Return a random tensor and its slices; None if the transform is not known to treat all columns alike."""
    probe = placed(np.random.default_rng(0).standard_normal((like.shape[0], m, m)), like)
    return probe, basis.forward(probe) if isinstance(basis, SampleModeBasis) else None


def _close(array: Array, other: Array) -> bool:
    return bool(namespace(array).max(abs(array - other)) < ORTHOGONAL)
