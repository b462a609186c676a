"""Gaussian similarities of samples to anchors, and the factor of the ridge projection onto them, by blocks of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from .._executors import row_blocks
from .._ops import parallel_ranges
from .._views import as_float64
from ..graphs._anchors import bkhk
from ..graphs._knn import TIE_ABSOLUTE, DistanceBlocks


class KernelFeatures:
    """Gaussian similarities of the samples of one view to its anchors, centred over the samples.

    With squared distances D to the anchors, the width of the kernel is twice the mean distance of a sample to its
    nearest anchor. Rows are computed when they are asked for, as ``features[start:stop]``; nothing of the size of all
    of them is kept.

    Parameters
    ----------
    part : array (n, d)
        The samples, dense or CSR.
    depth : int
        There are 2^depth anchors.
    tie_values : ndarray of shape (n,)
        What decides between samples that are as near to one centre as to the other; a function of the samples.

    Attributes
    ----------
    shape : tuple of int
        (n, 2^depth).
    dtype : dtype
        That of the samples.
    """

    def __init__(self, part: Any, depth: int, tie_values: NDArray[np.float64]) -> None:
        self._distances = DistanceBlocks([part], bkhk([part], depth, tie_values))
        self.shape = len(self._distances.squares), len(self._distances.other_squares)
        self.dtype = part.dtype
        n, a = self.shape
        nearest = np.empty(n)

        def measure(lo: int, hi: int) -> None:
            nearest[lo:hi] = np.sqrt(self._block(lo, hi).min(axis=1))

        self._each_piece(measure, 0, n)
        sigma = 2 * float(np.mean(nearest))
        # Every sample is an anchor: the limit of the kernel is 1 at distance 0 and 0 elsewhere.
        self._exponent = -0.5 / sigma**2 if sigma > 0 else -1 / float(np.finfo(self.dtype).smallest_normal)
        self._mean = np.zeros(a, dtype=self.dtype)
        total = np.zeros(a)
        for rows in row_blocks(n):
            total += self[rows].sum(axis=0, dtype=np.float64)
        self._mean = (total / n).astype(self.dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        start, stop, _ = rows.indices(len(self))
        features = np.empty((stop - start, self.shape[1]), dtype=self.dtype)

        def exponential(lo: int, hi: int) -> None:
            block = features[lo - start : hi - start]
            block[...] = self._block(lo, hi)
            with np.errstate(over="ignore", under="ignore"):
                block *= self._exponent
                np.exp(block, out=block)
            block -= self._mean

        self._each_piece(exponential, start, stop)
        return features

    def _block(self, lo: int, hi: int) -> NDArray[np.float64]:
        block = self._distances.block(lo, hi)
        # A sample that is an anchor: the root of the rounding would count in the width.
        block[block <= TIE_ABSOLUTE * self._distances.scale] = 0
        return np.asarray(block)

    def _each_piece(self, work: Any, start: int, stop: int) -> None:
        step = self._distances.rows_at_once

        def some(first: int, last: int) -> None:
            for lo in range(start + first, start + last, step):
                work(lo, min(lo + step, start + last))

        parallel_ranges(some, stop - start, step)


class RidgeFactor:
    """A (n, a) with A Aᵀ = P (PᵀP + λI)^{-1} Pᵀ, by blocks of rows, in double precision.

    No singular value of A exceeds 1, so that products with it are accurate in single precision, where a
    product with P would be magnified by the inverse.

    Parameters
    ----------
    features : array (n, a), or what has its shape and rows
        P.
    lam : float
        λ > 0.
    """

    def __init__(self, features: Any, lam: float) -> None:
        self._features = features
        self.shape = features.shape
        n, a = self.shape
        gram = np.zeros((a, a))
        for rows in row_blocks(n):
            block = as_float64(features[rows])
            gram += block.T @ block
        gram[np.diag_indices(a)] += lam
        try:
            self._lower = cholesky(gram, lower=True, overwrite_a=True)
        except np.linalg.LinAlgError:
            raise ValueError(f"lam={lam} is too small for the kernel features, which are dependent: raise it") from None

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, rows: slice) -> NDArray[np.float64]:
        return np.asarray(solve_triangular(self._lower, as_float64(self._features[rows]).T, lower=True).T)


def ridge_factor(features: Any, lam: float) -> NDArray[Any]:
    """Return all rows of `RidgeFactor`, in the type of the features."""
    rows_of = RidgeFactor(features, lam)
    factor = np.empty(features.shape, dtype=features.dtype)
    for rows in row_blocks(len(factor)):
        factor[rows] = rows_of[rows]
    return factor
