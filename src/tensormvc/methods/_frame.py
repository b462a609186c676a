"""The samples in the coordinates of a transform along them, in which the transform itself costs nothing.

The Fourier, cosine, Haar, random and graph transforms are orthogonal but for a factor. A loop whose other steps act on
the second index of the tensor can therefore run on the coefficients, and never transform at all.

A tensor is views-first here, (m, rows, n): row by row in memory, and a product with one view is one matrix product.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from .._ops import parallel_ranges
from ..shrinkage import low_rank_shrink, shrink_views_first

# Of the slices that are worked on together: they and what is made of them stay in the cache.
_BLOCK_BYTES = 2**19
# How far from orthogonal the rounding of a transform may be.
_ORTHOGONAL = 1e-11


def shrink(tensor: Any, basis: Any, penalty: Any, threshold: float, out: Any, work: Any) -> tuple[Any, Any]:
    """Shrink into `out`; return it and the room for the slices, to be handed back next time."""
    if work is None:
        work = basis.forward(tensor)
    return low_rank_shrink(tensor, basis, penalty, threshold, out=out, work=work), work


class GivenFrame:
    """The samples as they are, for transforms of any kind.

    Parameters
    ----------
    basis : fitted basis
        Transform of the tensor (n, n, m).
    n : int
        Number of samples.
    """

    def __init__(self, basis: Any, n: int) -> None:
        self.basis, self.n_rows = basis, n
        self._work: Any = None

    def into(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return columns (n, p) in these coordinates, (rows, p)."""
        return columns

    def back(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what has these coordinates."""
        return rows

    def shrinks_to_zero(self, energies: NDArray[np.float64], penalty: Any, threshold: float) -> bool:
        """Whether nothing can be left of a tensor, from the sums of squares of its rows over the views."""
        return False

    def shrink(
        self,
        representation: NDArray[np.float64],
        multiplier: NDArray[np.float64],
        low_rank: NDArray[np.float64],
        penalty: Any,
        threshold: float,
        *,
        decay: float,
    ) -> NDArray[np.float64]:
        """Multiply W by `decay`, shrink Z + W into G, add Z − G to W, and return ‖Z − G‖ of each view (Frobenius)."""
        multiplier *= decay
        multiplier += representation
        given, out = multiplier.transpose(1, 2, 0), low_rank.transpose(1, 2, 0)
        _, self._work = shrink(given, self.basis, penalty, threshold, out, self._work)
        multiplier -= low_rank
        return np.array([np.linalg.norm(z - g) for z, g in zip(representation, low_rank, strict=True)])


class SpectralFrame:
    """The coefficients of an orthogonal transform along the samples, and, beside its span, any others.

    Coefficients come first: row k is that of slice k; real parts before imaginary parts if the slices are complex. The
    rest, if there is any, is what the transform drops: it comes back as zero.

    Parameters
    ----------
    matrix : ndarray of shape (rows, n)
        With orthonormal rows, but for such as are zero.
    n_parts : int
        1 for real slices, 2 for complex ones.
    scales : ndarray of shape (n_slices,)
        How much longer the transform's own coefficients are.
    """

    def __init__(self, matrix: NDArray[np.float64], n_parts: int, scales: NDArray[np.float64]) -> None:
        self.matrix, self.n_parts, self.scales = matrix, n_parts, scales
        self.n_rows = len(matrix)

    def into(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return columns (n, p) in these coordinates, (rows, p)."""
        return self.matrix @ columns

    def back(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what has these coordinates."""
        return self.matrix.T @ rows

    def shrinks_to_zero(self, energies: NDArray[np.float64], penalty: Any, threshold: float) -> bool:
        """Whether nothing can be left of a tensor, from the sums of squares of its rows over the views."""
        n_slices = len(self.scales)
        squares = energies[: self.n_parts * n_slices].reshape(self.n_parts, n_slices).sum(axis=0)
        # No singular value is larger than the Frobenius norm.
        return not penalty.prox(self.scales * np.sqrt(squares) * (1 + _ORTHOGONAL), threshold).any()

    def shrink(
        self,
        representation: NDArray[np.float64],
        multiplier: NDArray[np.float64],
        low_rank: NDArray[np.float64],
        penalty: Any,
        threshold: float,
        *,
        decay: float,
    ) -> NDArray[np.float64]:
        """Multiply W by `decay`, shrink Z + W into G, add Z − G to W, and return ‖Z − G‖ of each view (Frobenius)."""
        m, _, n = representation.shape
        n_slices = len(self.scales)
        block = max(1, _BLOCK_BYTES // (8 * m * self.n_parts * n))
        squares = np.zeros((-(-n_slices // block) + 1, m))
        representations, multipliers, low_ranks = map(self._slices, (representation, multiplier, low_rank))

        def work(start: int, stop: int) -> None:
            for lo in range(start, stop, block):
                here = slice(lo, min(lo + block, stop))
                z, w, g = representations[:, :, here], multipliers[:, :, here], low_ranks[:, :, here]
                w *= decay
                w += z
                shrink_views_first(w, penalty, threshold, scales=self.scales[here], out=g)
                w -= g
                squares[lo // block] = _squares(z - g)

        parallel_ranges(work, n_slices, block)
        rest = np.s_[:, self.n_parts * n_slices :]
        multiplier[rest] *= decay
        multiplier[rest] += representation[rest]
        low_rank[rest] = 0
        squares[-1] = _squares(representation[rest])
        return np.asarray(np.sqrt(squares.sum(axis=0)))

    def _slices(self, tensor: NDArray[np.float64]) -> NDArray[np.float64]:
        """View the coefficients of a tensor as (m, parts, slices, n)."""
        m, _, n = tensor.shape
        n_slices = len(self.scales)
        return tensor[:, : self.n_parts * n_slices].reshape(m, self.n_parts, n_slices, n)


def frame_of(basis: Any, n: int, m: int) -> GivenFrame | SpectralFrame:
    """Return coordinates in which a transform of tensors (n, n, m) costs nothing, if there are any."""
    given = GivenFrame(basis, n)
    # Any tensor will do, but for one whose transforms along the samples and along the views have equal shapes.
    probe = np.random.default_rng(0).standard_normal((n, m + 1, m))
    slices = np.asarray(basis.forward(probe))
    if slices.shape[1:] != probe.shape[1:]:
        return given
    own = np.asarray(basis.forward(np.eye(n)[:, :, None]))[:, :, 0]
    lengths = np.linalg.norm(own, axis=1)
    if not lengths.all():
        return given
    scales = lengths / np.sqrt(np.asarray(basis.slice_weights_, dtype=np.float64))
    own /= scales[:, None]
    parts = [own.real, own.imag] if np.iscomplexobj(own) else [own]
    matrix = np.concatenate(parts)
    # Imaginary parts of slices that are real.
    matrix[np.einsum("ij,ij->i", matrix, matrix) < 0.5] = 0
    kept = matrix.any(axis=1)
    rotated = np.tensordot(matrix, probe, 1)
    coefficients = np.concatenate([slices.real, slices.imag] if len(parts) == 2 else [slices])
    coefficients /= np.tile(scales, len(parts))[:, None, None]
    if not (
        _close(matrix @ matrix.T, np.diag(kept.astype(np.float64)))
        and _close(coefficients, rotated)
        and _close(np.asarray(basis.inverse(slices)), np.tensordot(matrix.T, rotated, 1))
    ):
        return given
    if (missing := n - int(kept.sum())) > 0:
        if len(parts) == 2:
            return given
        beside = qr(matrix.T, check_finite=False)[0][:, -missing:]
        matrix = np.concatenate([matrix, beside.T])
    return SpectralFrame(matrix, len(parts), scales)


def _close(array: NDArray[np.float64], other: NDArray[np.float64]) -> bool:
    return bool(np.max(np.abs(array - other)) < _ORTHOGONAL)


def _squares(tensor: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of squares of each view."""
    flat = tensor.reshape(len(tensor), -1)
    return np.asarray(np.einsum("ij,ij->i", flat, flat))
