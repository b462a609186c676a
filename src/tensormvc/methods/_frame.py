"""Low-rank shrinkage inside a loop: of rows that an executor holds, and of n × n tensors in a frame.

A frame is the coordinates in which the samples, the first index of such a tensor, are kept. The tensor is views-first,
(m, rows, n): row by row in memory, and a product with one view is one matrix product.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import device

from ..backend import Array, contiguous, namespace, run_ranges, sum_of_squares
from ..bases._base import SampleModeBasis
from ..shrinkage import IN_TURN, low_rank_shrink, shrink_slices, shrink_stacked
from ._coefficient_rows import (
    ORTHOGONAL,
    CoefficientRows,
    CompletedRows,
    coefficient_rows,
    completed_rows,
    slices_at_once,
)


def shrink(tensor: Any, basis: Any, penalty: Any, threshold: float, out: Any, work: Any) -> tuple[Any, Any]:
    """Shrink into `out`; return it and the room for the slices, to be handed back next time."""
    if work is None:
        work = basis.forward(tensor)
    return low_rank_shrink(tensor, basis, penalty, threshold, out=out, work=work), work


class RowShrinkage:
    """Low-rank shrinkage of a tensor whose rows an executor holds, (n, m, d): views before columns.

    Parameters
    ----------
    rows : executor
        What holds the tensors.
    basis : fitted basis, or CoefficientRows
        Transform of a tensor (n, d, m), or that whose coefficients the rows are.
    penalty : penalty
        On the singular values of its slices.
    """

    def __init__(self, rows: Any, basis: Any, penalty: Any) -> None:
        self.rows, self.basis, self.penalty = rows, basis, penalty
        self._work: Any = None

    def __call__(self, source: str, target: str, threshold: float) -> None:
        """Shrink the tensor `source` into the tensor `target`, by their names, with a threshold on singular values."""
        if isinstance(self.basis, CoefficientRows):
            self.basis.shrink(self.rows[source], self.penalty, threshold, out=self.rows[target])
            return
        if isinstance(self.basis, SampleModeBasis):
            # The transposes of its slices have the same singular values.
            slices = self.basis.forward_rows(self.rows, source, out=self._work)
            self._work = shrink_slices(slices, self.penalty, threshold, overwrite=True)
            self.basis.inverse_rows(self._work, self.rows, target)
            return
        given, out = self.rows[source], self.rows[target]
        xp = namespace(given)
        turned = contiguous(xp.permute_dims(given, (0, 2, 1)))
        result, self._work = shrink(turned, self.basis, self.penalty, threshold, None, self._work)
        out[...] = xp.permute_dims(result, (0, 2, 1))


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

    def into(self, columns: Array) -> Array:
        """Return columns (n, p) in these coordinates, (rows, p)."""
        return columns

    def back(self, rows: Array) -> Array:
        """Return what has these coordinates."""
        return rows

    def shrinks_to_zero(self, energies: Array, penalty: Any, threshold: float) -> bool:
        """Whether nothing can be left of a tensor, from the sums of squares of its rows over the views."""
        return False

    def shrink(
        self,
        representation: Array,
        multiplier: Array,
        low_rank: Array,
        penalty: Any,
        threshold: float,
        *,
        decay: float,
    ) -> Array:
        """Multiply W by `decay`, shrink Z + W into G, add Z − G to W, and return ‖Z − G‖ of each view (Frobenius)."""
        multiplier *= decay
        multiplier += representation
        xp = namespace(multiplier)
        given, out = (xp.permute_dims(tensor, (1, 2, 0)) for tensor in (multiplier, low_rank))
        _, self._work = shrink(given, self.basis, penalty, threshold, out, self._work)
        multiplier -= low_rank
        return xp.stack([xp.linalg.norm(z - g) for z, g in zip(representation, low_rank, strict=True)])


class SpectralFrame:
    """The coefficients of an orthogonal transform along the samples, and, beside its span, any others.

    Coefficients come first: row k is that of slice k; real parts before imaginary parts if the slices are complex. The
    rest, if there is any, is what the transform drops: it comes back as zero.

    Parameters
    ----------
    coordinates : CoefficientRows or CompletedRows
        The coordinates.
    """

    def __init__(self, coordinates: CoefficientRows | CompletedRows) -> None:
        self.into, self.back = coordinates.into, coordinates.back
        self.n_rows, self.n_parts, self.scales = coordinates.n_rows, coordinates.n_parts, coordinates.scales

    def shrinks_to_zero(self, energies: Array, penalty: Any, threshold: float) -> bool:
        """Whether nothing can be left of a tensor, from the sums of squares of its rows over the views."""
        xp = namespace(energies)
        n_slices = self.scales.shape[0]
        squares = xp.sum(energies[: self.n_parts * n_slices].reshape(self.n_parts, n_slices), axis=0)
        # No singular value is larger than the Frobenius norm.
        return not bool(xp.any(penalty.prox(self.scales * xp.sqrt(squares) * (1 + ORTHOGONAL), threshold) > 0))

    def shrink(
        self,
        representation: Array,
        multiplier: Array,
        low_rank: Array,
        penalty: Any,
        threshold: float,
        *,
        decay: float,
    ) -> Array:
        """Multiply W by `decay`, shrink Z + W into G, add Z − G to W, and return ‖Z − G‖ of each view (Frobenius)."""
        xp = namespace(representation)
        m, _, n = representation.shape
        n_slices = self.scales.shape[0]
        block = slices_at_once(representation, m * self.n_parts * n)
        squares = xp.zeros((-(-n_slices // block) + 1, m), dtype=xp.float64, device=device(representation))
        representations, multipliers, low_ranks = map(self._slices, (representation, multiplier, low_rank))
        # Of one view after the other, real and imaginary parts in turn.
        parts = IN_TURN if self.n_parts == 2 else None

        def work(start: int, stop: int) -> None:
            for lo in range(start, stop, block):
                here = slice(lo, min(lo + block, stop))
                z, w, g = representations[:, here], multipliers[:, here], low_ranks[:, here]
                w *= decay
                w += z
                stacked, room = (xp.permute_dims(some, (1, 0, 2)) for some in (w, g))
                shrink_stacked(stacked, penalty, threshold, scales=self.scales[here], parts=parts, out=room)
                w -= g
                squares[lo // block] = _squares((z - g).reshape(m, -1))

        run_ranges(work, self.scales, block)
        rest = np.s_[:, self.n_parts * n_slices :]
        multiplier[rest] *= decay
        multiplier[rest] += representation[rest]
        low_rank[rest] = 0
        squares[-1] = _squares(representation[rest])
        return xp.sqrt(xp.sum(squares, axis=0))

    def _slices(self, tensor: Array) -> Array:
        """View the coefficients of a tensor as (m · parts, slices, n)."""
        m, _, n = tensor.shape
        n_slices = self.scales.shape[0]
        return tensor[:, : self.n_parts * n_slices].reshape(m * self.n_parts, n_slices, n)


def frame_of(basis: Any, like: Array, m: int) -> GivenFrame | SpectralFrame:
    """Return coordinates for tensors (n, n, m): those in which the transform costs nothing, if it has any.

    The parameters are those of `coefficient_rows`.
    """
    found = coefficient_rows(basis, like, m, in_turn=False) or completed_rows(basis, like, m)
    return GivenFrame(basis, like.shape[0]) if found is None else SpectralFrame(found)


def _squares(tensor: Array) -> Array:
    """Return the sum of squares of each view."""
    return sum_of_squares(tensor.reshape(tensor.shape[0], -1))
