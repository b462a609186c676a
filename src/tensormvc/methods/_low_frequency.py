"""Codes that the kernel features of each view explain, of low rank and low frequency, and their consensus.

The solver of TLRLF4MVC. B_v are the codes of view v, B̂ the consensus; the tensor of all B_v is drawn to a low-rank copy
C under a basis and to a low-frequency copy Y in the span of an orthonormal F. All work is local to the rows, but for
products of the size of the features, of F and of the transform.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from .._ops import is_sparse, parallel_ranges
from .._sample_random import SampleRandom
from .._views import as_float64, row_blocks
from ..graphs._anchors import bkhk
from ..graphs._knn import TIE_ABSOLUTE, DistanceBlocks
from ._admm import Step
from ._frame import shrink

# Length of the multiplier steps.
_STEP = 1.5
_GROWTH = 1.5
# A residual that keeps more than this share of its last value is slow.
_SLOW = 0.95
_LABEL_ROUNDS = 10
_CACHED_ROWS = 512
_CENTRE_ROUNDS = 3
_CENTRE_STEP = 100.0


def kernel_features(part: Any, depth: int, tie_values: NDArray[np.float64]) -> NDArray[Any]:
    """Return Gaussian similarities of the samples of one view to its anchors, centred over the samples.

    With squared distances D to the anchors, the width of the kernel is twice the mean distance of a sample to
    its nearest anchor. The memory is that of the result and a few megabytes.

    Parameters
    ----------
    part : array (n, d)
        The samples, dense or CSR.
    depth : int
        There are 2^depth anchors.
    tie_values : ndarray of shape (n,)
        What decides between samples that are as near to one centre as to the other; a function of the samples.

    Returns
    -------
    ndarray of shape (n, 2^depth)
        In the type of the samples.
    """
    distances = DistanceBlocks([part], bkhk([part], depth, tie_values))
    n, a = len(distances.squares), len(distances.other_squares)
    features = np.empty((n, a), dtype=part.dtype)
    nearest = np.empty(n)

    def measure(start: int, stop: int) -> None:
        for lo in range(start, stop, distances.rows_at_once):
            hi = min(lo + distances.rows_at_once, stop)
            block = distances.block(lo, hi)
            # A sample that is an anchor: the root of the rounding would count in the width.
            block[block <= TIE_ABSOLUTE * distances.scale] = 0
            features[lo:hi] = block
            nearest[lo:hi] = np.sqrt(block.min(axis=1))

    parallel_ranges(measure, n, distances.rows_at_once)
    sigma = 2 * float(np.mean(nearest))
    # Every sample is an anchor: the limit of the kernel is 1 at distance 0 and 0 elsewhere.
    exponent = -0.5 / sigma**2 if sigma > 0 else -1 / float(np.finfo(features.dtype).smallest_normal)

    def exponential(start: int, stop: int) -> None:
        for lo in range(start, stop, distances.rows_at_once):
            block = features[lo : min(lo + distances.rows_at_once, stop)]
            with np.errstate(over="ignore", under="ignore"):
                block *= exponent
                np.exp(block, out=block)

    parallel_ranges(exponential, n, distances.rows_at_once)
    total = np.zeros(a)
    for rows in row_blocks(n):
        total += features[rows].sum(axis=0, dtype=np.float64)
    features -= (total / n).astype(features.dtype)
    return features


def one_hot(labels: NDArray[Any], n_clusters: int) -> sp.csr_array:
    """Return the indicators of the clusters, (n, n_clusters), from labels that count from 0."""
    n = len(labels)
    return sp.csr_array((np.ones(n), np.asarray(labels), np.arange(n + 1)), shape=(n, n_clusters))


def cluster_indicators(labels: NDArray[Any], n_clusters: int) -> sp.csr_array:
    """Return the indicators of the clusters at unit length: F Fᵀ B replaces rows of B by the means of their clusters.

    Parameters
    ----------
    labels : ndarray of int of shape (n,)
        0 to ``n_clusters − 1``; a cluster may be empty.
    n_clusters : int
        Number of columns.

    Returns
    -------
    csr_array of shape (n, n_clusters)
        n entries.
    """
    indicators = one_hot(labels, n_clusters)
    sizes = np.bincount(labels, minlength=n_clusters)
    indicators.data /= np.sqrt(sizes[labels])
    return indicators


@dataclass
class BetaSchedule:
    """Penalty parameters of which each grows when its own residual falls too slowly.

    From the second round on, a parameter is multiplied by 1.5, up to its cap, if the residual of the same name
    exceeds 0.95 of what it was a round before.

    Parameters
    ----------
    mu_max : float
        Cap of the parameter of the low-frequency copy.
    """

    mu_max: float
    values: dict[str, float] = field(init=False)
    caps: dict[str, float] = field(init=False)
    _last: dict[str, float] = field(init=False, default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.caps = {"consensus": 1e5, "low_rank": 1e5, "low_frequency": self.mu_max}
        self.values = {"consensus": 1e-3, "low_rank": 1e-3, "low_frequency": min(1e-4, self.mu_max)}

    def advance(self, residuals: Mapping[str, float]) -> None:
        """Go to the parameters of the next round."""
        for name, value in self.values.items():
            if name in self._last and residuals[name] > _SLOW * self._last[name]:
                self.values[name] = min(value * _GROWTH, self.caps[name])
            self._last[name] = residuals[name]


class LowFrequencyCodes:
    """The state of the loop, and one round of it.

    Memory: seven tensors (n, d, m), the slices of one, a matrix as large as the features of each view, and a few
    blocks of rows.

    Parameters
    ----------
    features : iterable of arrays (n, a_v)
        Kernel features of the views, float32 or float64. One at a time is looked at, so a generator saves memory. All
        else is in double precision: how the penalties grow is decided by residuals far below single precision.
    frequencies : array or sparse array (n, c)
        F, with orthonormal columns: `cluster_indicators`, or any other.
    basis : fitted basis
        Transform of the tensor (n, d, m).
    penalty : penalty
        On the singular values of its slices.
    lam : float
        Ridge parameter of the projection onto the features, positive.
    gamma : float
        Weight of the penalty.
    start : tuple of three arrays (n, d) or (n, d, m)
        B, C and Y to begin with; of two dimensions if they are the same in every view.

    Attributes
    ----------
    codes, low_rank, low_frequency : ndarray of shape (n, d, m)
        B, C, Y.
    consensus : ndarray of shape (n, d)
        B̂.
    """

    def __init__(
        self,
        features: Iterable[NDArray[Any]],
        frequencies: Any,
        basis: Any,
        penalty: Any,
        *,
        lam: float,
        gamma: float,
        start: tuple[Any, Any, Any],
    ) -> None:
        self.basis, self.penalty, self.gamma = basis, penalty, gamma
        self.frequencies = as_float64(frequencies.tocsr() if is_sparse(frequencies) else frequencies)
        self.projections = [ridge_factor(part, lam) for part in features]
        n, m = self.projections[0].shape[0], len(self.projections)

        def tensor(given: Any) -> NDArray[Any]:
            full = np.empty((n, given.shape[1], m))
            full[...] = given if given.ndim == 3 else given[:, :, None]
            return full

        self.codes, self.low_rank, self.low_frequency = map(tensor, start)
        self.consensus = self.codes.mean(axis=2)
        # Of the consensus, the low-rank and the low-frequency copy: Q1, Q2, Q3.
        self.multipliers = [np.zeros_like(self.codes) for _ in range(3)]
        self._shifted = np.empty_like(self.codes)
        # Of each view, BᵀA: what multiplies its factor in the ridge projection of its codes. The long side last, which
        # matrix products like better.
        self._coefficients = [
            np.add.reduce([self.codes[rows, :, v].T @ as_float64(part[rows]) for rows in row_blocks(n)])
            for v, part in enumerate(self.projections)
        ]
        self._work: Any = None

    def step(self, penalties: dict[str, float]) -> Step:
        """Do one round."""
        n, d, m = self.codes.shape
        beta1, beta2, beta3 = (penalties[name] for name in ("consensus", "low_rank", "low_frequency"))
        q1, q2, q3 = self.multipliers
        coefficients, self._coefficients = self._coefficients, [np.zeros_like(part) for part in self._coefficients]
        spectrum = np.zeros((self.frequencies.shape[1], d * m))
        squares = np.zeros((4, m))
        for rows in _feature_blocks(n):
            codes = self._new_codes(rows, beta1, beta2, beta3, coefficients)
            squares[0] += _squares(codes - self.codes[rows])
            self.codes[rows] = codes
            mean = (codes + q1[rows] / beta1).reshape(-1, m) @ np.full(m, 1 / m)
            self.consensus[rows] = mean.reshape(-1, d)
            squares[1] += _ascend(q1[rows], codes - self.consensus[rows, :, None], beta1)
            shifted = self._shifted[rows]
            np.divide(q2[rows], beta2, out=shifted)
            shifted += codes
            spectrum += self.frequencies[rows].T @ (codes + q3[rows] / beta3).reshape(-1, d * m)
        self.low_rank, self._work = shrink(
            self._shifted, self.basis, self.penalty, self.gamma / beta2, self.low_rank, self._work
        )
        for rows in row_blocks(n):
            codes = self.codes[rows]
            self.low_frequency[rows] = (self.frequencies[rows] @ spectrum).reshape(-1, d, m)
            squares[2] += _ascend(q2[rows], codes - self.low_rank[rows], beta2)
            squares[3] += _ascend(q3[rows], codes - self.low_frequency[rows], beta3)
        change, *gaps = (float(value) for value in np.sqrt(squares.max(axis=1)))
        residuals = dict(zip(("consensus", "low_rank", "low_frequency"), gaps, strict=True))
        return Step(residuals | {"change": change}, stop=change)

    def _new_codes(
        self, rows: slice, beta1: float, beta2: float, beta3: float, coefficients: list[NDArray[Any]]
    ) -> NDArray[Any]:
        codes = beta2 * self.low_rank[rows]
        codes += beta3 * self.low_frequency[rows]
        codes += beta1 * self.consensus[rows, :, None]
        for multiplier in self.multipliers:
            codes -= multiplier[rows]
        for v, factor in enumerate(self.projections):
            features = as_float64(factor[rows])
            codes[:, :, v] += (coefficients[v] @ features.T).T
            codes[:, :, v] /= beta1 + beta2 + beta3 + 1
            # What the next round needs, while the features are in the cache.
            self._coefficients[v] += np.ascontiguousarray(codes[:, :, v].T) @ features
        return codes


def _feature_blocks(n: int) -> Iterator[slice]:
    """Yield blocks of rows whose features stay in the cache."""
    for start in range(0, n, _CACHED_ROWS):
        yield slice(start, min(start + _CACHED_ROWS, n))


def ridge_factor(features: NDArray[Any], lam: float) -> NDArray[Any]:
    """Return A (n, a) with A Aᵀ = P (PᵀP + λI)^{-1} Pᵀ, computed in double precision, in the type of P.

    No singular value of A exceeds 1, so that products with it are accurate in single precision, where a
    product with P would be magnified by the inverse.
    """
    a = features.shape[1]
    gram = np.zeros((a, a))
    for rows in row_blocks(len(features)):
        block = as_float64(features[rows])
        gram += block.T @ block
    gram[np.diag_indices(a)] += lam
    try:
        lower = cholesky(gram, lower=True, overwrite_a=True)
    except np.linalg.LinAlgError:
        raise ValueError(f"lam={lam} is too small for the kernel features, which are dependent: raise it") from None
    factor = np.empty_like(features)
    for rows in row_blocks(len(features)):
        block = as_float64(features[rows])
        factor[rows] = solve_triangular(lower, block.T, lower=True).T
    return factor


def _ascend(multiplier: NDArray[Any], gap: NDArray[Any], beta: float) -> NDArray[np.float64]:
    """Move a multiplier along its gap, which is spoilt; return the gap's sum of squares of each view."""
    squares = _squares(gap)
    gap *= _STEP * beta
    multiplier += gap
    return squares


def _squares(tensor: NDArray[Any]) -> NDArray[np.float64]:
    """Return the sum of squares of each view."""
    flat = tensor.reshape(len(tensor), -1)
    columns = np.einsum("ij,ij->j", flat, flat, dtype=np.float64)
    return np.asarray(columns.reshape(tensor.shape[1:]).sum(axis=0))


def labels_start(b_hat: NDArray[Any], rows: Any) -> sp.csr_array:
    """Assign every sample to the one of the given samples with which its code has the largest inner product.

    Parameters
    ----------
    b_hat : ndarray of shape (n, d)
        Codes of the samples.
    rows : sequence of int, of length c
        Positions of the given samples.

    Returns
    -------
    csr_array of shape (n, c)
        One-hot: the start of `discrete_labels`.
    """
    return one_hot(_largest_product(b_hat, b_hat[np.asarray(rows)].T)[0], len(rows))


def discrete_labels(b_hat: NDArray[Any], start: Any) -> tuple[NDArray[np.intp], float]:
    """Turn codes into labels by alternating between standardised centres and the samples nearest to them.

    Parameters
    ----------
    b_hat : ndarray of shape (n, d)
        Codes of the samples, d at least 2.
    start : array or sparse array (n, c)
        One-hot memberships to begin with; `labels_start` makes them.

    Returns
    -------
    labels : ndarray of int of shape (n,)
        From 0 to c − 1; a cluster may be empty.
    agreement : float
        Sum of the samples' inner products with the centres of their clusters.
    """
    n_clusters = start.shape[1]
    members = sp.csr_array(start)
    labels, agreement = np.empty(0, dtype=np.intp), 0.0
    for _ in range(_LABEL_ROUNDS):
        sums = np.zeros((b_hat.shape[1], n_clusters))
        for rows in row_blocks(len(b_hat)):
            sums += (members[rows].T @ b_hat[rows]).T
        centres = _standardise(sums)
        for _ in range(_CENTRE_ROUNDS):
            centres = _standardise(centres + _CENTRE_STEP * sums)
        new, agreement = _largest_product(b_hat, centres)
        if np.array_equal(new, labels):
            break
        labels, members = new, one_hot(new, n_clusters)
    return labels, agreement


def best_discrete_labels(
    b_hat: NDArray[Any], n_clusters: int, *, n_init: int, random: SampleRandom
) -> NDArray[np.intp]:
    """Return the labels of several random starts that leave the fewest clusters empty, then those that agree best."""
    best: tuple[tuple[int, float], NDArray[np.intp]] | None = None
    for _ in range(n_init):
        rows = np.argsort(random.uniform(1)[:, 0], kind="stable")[:n_clusters]
        labels, agreement = discrete_labels(b_hat, labels_start(b_hat, rows))
        score = len(np.unique(labels)), agreement
        if best is None or score > best[0]:
            best = score, labels
    assert best is not None
    return best[1]


def _largest_product(b_hat: NDArray[Any], centres: NDArray[Any]) -> tuple[NDArray[np.intp], float]:
    """Return, for every row, which column of the centres has the largest inner product with it, and their sum."""
    labels, total = np.empty(len(b_hat), dtype=np.intp), 0.0
    for rows in row_blocks(len(b_hat)):
        products = b_hat[rows] @ centres
        labels[rows] = np.argmax(products, axis=1)
        total += float(np.max(products, axis=1).sum())
    return labels, total


def _standardise(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the columns with mean 0 and standard deviation 1; a constant column, of an empty cluster, becomes 1."""
    spread = columns.std(axis=0, ddof=1)
    constant = np.ptp(columns, axis=0) == 0
    centred = (columns - columns.mean(axis=0)) / np.where(constant, 1, spread)
    return np.where(constant, 1.0, centred)
