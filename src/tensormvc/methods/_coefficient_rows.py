"""The samples in the coordinates of a transform along them, for loops that treat all samples alike.

The Fourier, cosine, Haar, random and graph transforms are orthogonal but for a factor. A loop that is otherwise made of
products along the samples and of work on each row can run on the coefficients: it transforms what it begins with and
what it ends with, and nothing in between. Other than a frame (`_frame.py`) this needs no matrix of the transform.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import device

from .._ops import Array, in_double, is_tensor, namespace, placed, run_ranges
from ..shrinkage import shrink_stacked

# Of the slices that are worked on together.
_BLOCK_BYTES = 2**19
_DEVICE_BLOCK_BYTES = 512 * 2**20
# How far from orthogonal the rounding of a transform may be.
_ORTHOGONAL = 1e-11


class CoefficientRows:
    """The coefficients of an orthogonal transform, one a row; of a complex slice, real and imaginary part in turn.

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
    """

    def __init__(self, basis: Any, factor: float, like: Array, *, is_complex: bool) -> None:
        weights = np.asarray(basis.slice_weights_, dtype=np.float64)
        self.basis, self.n_parts = basis, 2 if is_complex else 1
        self.n_rows = self.n_parts * len(weights)
        self.scales = placed(factor / np.sqrt(weights), like)
        self._real = placed(np.flatnonzero(weights == 1), like)

    def into(self, columns: Array) -> Array:
        """Return columns (n, …) in these coordinates, (rows, …)."""
        xp = namespace(columns)
        slices = self.basis.forward(xp.reshape(in_double(columns), (columns.shape[0], -1, 1)))[:, :, 0]
        if self.n_parts == 1:
            slices /= self.scales[:, None]
            return xp.reshape(slices, (self.n_rows, *columns.shape[1:]))
        rows = xp.empty((slices.shape[0], 2, slices.shape[1]), dtype=xp.float64, device=device(slices))
        for i, part in enumerate((xp.real(slices), xp.imag(slices))):
            xp.divide(part, self.scales[:, None], out=rows[:, i])
        rows[self._real, 1] = 0
        return xp.reshape(rows, (self.n_rows, *columns.shape[1:]))

    def back(self, rows: Array) -> Array:
        """Return what has these coordinates."""
        xp = namespace(rows)
        parts = xp.reshape(rows, (self.scales.shape[0], self.n_parts, -1))
        slices = parts[:, 0] + 1j * parts[:, 1] if self.n_parts == 2 else parts[:, 0]
        columns = self.basis.inverse((slices * self.scales[:, None])[:, :, None])
        return xp.reshape(columns, (columns.shape[0], *rows.shape[1:]))

    def shrink(self, tensor: Array, penalty: Any, threshold: float, *, out: Array) -> None:
        """Shrink the singular values of the slices of a tensor (rows, m, d) into another."""
        n_slices, (_, m, d) = self.scales.shape[0], tensor.shape
        parts = (slice(0, m), slice(m, None)) if self.n_parts == 2 else None
        given, result = (array.reshape(n_slices, self.n_parts * m, d) for array in (tensor, out))
        block = max(1, (_DEVICE_BLOCK_BYTES if is_tensor(tensor) else _BLOCK_BYTES) // (8 * self.n_parts * m * d))

        def work(start: int, stop: int) -> None:
            for lo in range(start, stop, block):
                here = slice(lo, min(lo + block, stop))
                shrink_stacked(given[here], penalty, threshold, scales=self.scales[here], parts=parts, out=result[here])

        run_ranges(work, self.scales, block)


def coefficient_rows(basis: Any, like: Array, m: int) -> CoefficientRows | None:
    """Return coordinates in which a transform of tensors (n, d, m) costs nothing, or None if there are none.

    Whether there are is told by samples: a square transform that keeps the length of random ones is orthogonal.

    Parameters
    ----------
    basis : fitted basis
        The transform.
    like : array of n rows
        The coordinates are of its kind, and where it is.
    m : int
        Number of views.
    """
    n = like.shape[0]
    if np.asarray(basis.slice_weights_).sum() != n:
        return None
    # Any tensor will do, but for one whose transforms along the samples and along the views have equal shapes.
    probe = placed(np.random.default_rng(0).standard_normal((n, m + 1, m)), like)
    xp = namespace(probe)
    slices = basis.forward(probe)
    if tuple(slices.shape[1:]) != tuple(probe.shape[1:]):
        return None
    weights = placed(np.asarray(basis.slice_weights_, dtype=np.float64), like)
    lengths = xp.sum(weights[:, None, None] * abs(slices) ** 2, axis=0) / xp.sum(probe**2, axis=0)
    factors = xp.sqrt(lengths)
    factor = float(factors[0, 0])
    if not factor > 0:
        return None
    is_complex = xp.isdtype(slices.dtype, "complex floating")
    rows = CoefficientRows(basis, factor, like, is_complex=is_complex)
    samples = xp.asarray(probe[:, :, 0], copy=True)
    again = rows.into(samples)
    expected = slices[:, :, 0] / rows.scales[:, None]
    if is_complex:
        expected = xp.reshape(xp.stack([xp.real(expected), xp.imag(expected)], axis=1), again.shape)
    pairs = ((factors / factor, xp.ones_like(factors)), (again, expected), (rows.back(again), samples))
    return rows if all(bool(xp.max(abs(a - b)) < _ORTHOGONAL) for a, b in pairs) else None
