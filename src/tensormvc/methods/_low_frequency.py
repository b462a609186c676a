"""Codes that the kernel features of each view explain, of low rank and low frequency, and their consensus.

The solver of TLRLF4MVC. B_v are the codes of view v, B̂ the consensus; the tensor of all B_v is drawn to a low-rank copy
C under a basis and to a low-frequency copy Y in the span of an orthonormal F. All work is local to the rows, but for
products of the size of the features, of F and of the transform.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._executors import row_blocks
from .._ops import is_sparse, one_hot, parallel_ranges
from .._sample_random import SampleRandom
from .._views import as_float64
from ..bases._base import SampleModeBasis
from ._admm import Step
from ._frame import shrink
from ._kernel import ridge_factor

# Length of the multiplier steps.
_STEP = 1.5
_GROWTH = 1.5
# A residual that keeps more than this share of its last value is slow.
_SLOW = 0.95
_LABEL_ROUNDS = 10
# Rows that are worked on together: those of the tensors stay in the cache.
_CACHED_ROWS = 128
# Blocks of rows whose products with the features are made together.
_LEAST_BLOCKS, _MOST_ROWS = 8, 4096
_CENTRE_ROUNDS = 3
_CENTRE_STEP = 100.0


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
        else is in double precision: how the penalties grow is decided by residuals far below single precision. One with
        fewer rows is zero in the others.
    frequencies : array or sparse array (n, c)
        F, with orthonormal columns: `cluster_indicators`, or any other.
    basis : fitted basis
        Transform of the tensor (n, d, m).
    penalty : penalty
        On the singular values of its slices.
    lam : float or None
        Ridge parameter of the projection onto the features, positive; None if these are the factors A of the
        projections A Aᵀ already.
    gamma : float
        Weight of the penalty.
    start : three arrays (n, d) or (n, d, m)
        B, C and Y to begin with; of two dimensions if they are the same in every view.

    Attributes
    ----------
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
        lam: float | None,
        gamma: float,
        start: Sequence[Any],
    ) -> None:
        self.basis, self.penalty, self.gamma = basis, penalty, gamma
        frequencies = as_float64(frequencies.tocsr() if is_sparse(frequencies) else frequencies)
        self.projections = [part if lam is None else ridge_factor(part, lam) for part in features]
        (n, self._n_frequencies), m = frequencies.shape, len(self.projections)

        def tensor(given: Any) -> NDArray[Any]:
            full = np.empty((n, m, given.shape[1]))
            full[...] = given.transpose(0, 2, 1) if given.ndim == 3 else given[:, None, :]
            return full

        # (n, m, d): a view is a matrix for BLAS, and the slices are wide.
        self._codes, self._low_rank, self._low_frequency = map(tensor, start)
        self.consensus = self._codes.mean(axis=1)
        # Of the consensus, the low-rank and the low-frequency copy: Q1, Q2, Q3.
        self._multipliers = [np.zeros_like(self._codes) for _ in range(3)]
        self._shifted = np.empty_like(self._codes)
        self._blocks = _blocks(n)
        # Of each block, the pieces that stay in the cache, and F there: cutting a sparse matrix takes its time.
        self._pieces = [[(rows, frequencies[rows]) for rows in _pieces(block)] for block in self._blocks]
        # Of each view, BᵀA: what multiplies its factor in the ridge projection of its codes. The long side last, which
        # matrix products like better.
        self._coefficients = [
            np.add.reduce([_coefficients(self._codes[rows, v], part[rows]) for rows in self._blocks])
            for v, part in enumerate(self.projections)
        ]
        self._work: Any = None

    @property
    def codes(self) -> NDArray[np.float64]:
        """B, (n, d, m)."""
        return self._codes.transpose(0, 2, 1)

    @property
    def low_rank(self) -> NDArray[np.float64]:
        """C, (n, d, m)."""
        return self._low_rank.transpose(0, 2, 1)

    @property
    def low_frequency(self) -> NDArray[np.float64]:
        """Y, (n, d, m)."""
        return self._low_frequency.transpose(0, 2, 1)

    @property
    def multipliers(self) -> list[NDArray[np.float64]]:
        """Q1, Q2, Q3, (n, d, m) each."""
        return [multiplier.transpose(0, 2, 1) for multiplier in self._multipliers]

    def step(self, penalties: dict[str, float]) -> Step:
        """Do one round."""
        _, m, d = self._codes.shape
        betas = tuple(penalties[name] for name in ("consensus", "low_rank", "low_frequency"))
        old = self._coefficients
        # One of each for every block: the sums depend on the blocks, not on the threads.
        sums = [[np.zeros_like(part) for part in old] for _ in self._blocks]
        spectra = np.zeros((len(self._blocks), self._n_frequencies, m * d))
        squares = np.zeros((len(self._blocks), 4, m))

        def first(start: int, stop: int) -> None:
            for b in range(start, stop):
                self._update_codes(b, betas, old, sums[b], spectra[b], squares[b])

        def second(start: int, stop: int) -> None:
            for b in range(start, stop):
                for rows, frequencies in self._pieces[b]:
                    self._update_copies(rows, betas, frequencies @ spectrum, squares[b])

        parallel_ranges(first, len(self._blocks))
        self._coefficients = [np.add.reduce(list(parts)) for parts in zip(*sums, strict=True)]
        spectrum = spectra.sum(axis=0)
        self._shrink(self.gamma / betas[1])
        parallel_ranges(second, len(self._blocks))
        change, *gaps = (float(value) for value in np.sqrt(squares.sum(axis=0).max(axis=1)))
        residuals = dict(zip(("consensus", "low_rank", "low_frequency"), gaps, strict=True))
        return Step(residuals | {"change": change}, stop=change)

    def _shrink(self, threshold: float) -> None:
        tensor, out = self._shifted, self._low_rank
        if not isinstance(self.basis, SampleModeBasis):
            # Only a transform along the samples takes the transposes of slices for slices.
            tensor, out = tensor.transpose(0, 2, 1), out.transpose(0, 2, 1)
        _, self._work = shrink(tensor, self.basis, self.penalty, threshold, out, self._work)

    def _update_codes(
        self,
        b: int,
        betas: tuple[float, ...],
        coefficients: list[NDArray[np.float64]],
        sums: list[NDArray[np.float64]],
        spectrum: NDArray[np.float64],
        squares: NDArray[np.float64],
    ) -> None:
        """Update B, B̂ and Q1 of a block, and what C and Y need; add up what the next round and the residuals need."""
        block = self._blocks[b]
        beta1, beta2, beta3 = betas
        q1, q2, q3 = self._multipliers
        projected = np.zeros((block.stop - block.start, *self._codes.shape[1:]))
        factors = [as_float64(part[block]) for part in self.projections]
        for v, factor in enumerate(factors):
            projected[: len(factor), v] = (coefficients[v] @ factor.T).T
        for rows, frequencies in self._pieces[b]:
            codes = projected[rows.start - block.start : rows.stop - block.start]
            codes += beta2 * self._low_rank[rows]
            codes += beta3 * self._low_frequency[rows]
            codes += beta1 * self.consensus[rows, None]
            for multiplier in self._multipliers:
                codes -= multiplier[rows]
            codes /= beta1 + beta2 + beta3 + 1
            squares[0] += _squares(codes - self._codes[rows])
            self._codes[rows] = codes
            np.mean(codes + q1[rows] / beta1, axis=1, out=self.consensus[rows])
            squares[1] += _ascend(q1[rows], codes - self.consensus[rows, None], beta1)
            shifted = self._shifted[rows]
            np.divide(q2[rows], beta2, out=shifted)
            shifted += codes
            spectrum += frequencies.T @ (codes + q3[rows] / beta3).reshape(len(codes), -1)
        for v, factor in enumerate(factors):
            sums[v] += _coefficients(projected[:, v], factor)

    def _update_copies(
        self, rows: slice, betas: tuple[float, ...], low_frequency: NDArray[np.float64], squares: NDArray[np.float64]
    ) -> None:
        """Update Y, Q2 and Q3 of some rows, and add up the residuals."""
        codes = self._codes[rows]
        self._low_frequency[rows] = low_frequency.reshape(codes.shape)
        squares[2] += _ascend(self._multipliers[1][rows], codes - self._low_rank[rows], betas[1])
        squares[3] += _ascend(self._multipliers[2][rows], codes - self._low_frequency[rows], betas[2])


def _blocks(n: int) -> list[slice]:
    """Return blocks of rows, enough for a few threads; their number, and so the rounding, depends on n alone."""
    size = -(-n // max(_LEAST_BLOCKS, -(-n // _MOST_ROWS)))
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def _pieces(block: slice) -> Iterator[slice]:
    """Yield pieces of a block that stay in the cache."""
    for start in range(block.start, block.stop, _CACHED_ROWS):
        yield slice(start, min(start + _CACHED_ROWS, block.stop))


def _coefficients(codes: NDArray[np.float64], factor: NDArray[Any]) -> NDArray[np.float64]:
    """Return BᵀA of some rows; a factor with fewer rows is zero in the others."""
    return np.asarray(np.ascontiguousarray(codes[: len(factor)].T) @ as_float64(factor))


def _ascend(multiplier: NDArray[Any], gap: NDArray[Any], beta: float) -> NDArray[np.float64]:
    """Move a multiplier along its gap, which is spoilt; return the gap's sum of squares of each view."""
    squares = _squares(gap)
    gap *= _STEP * beta
    multiplier += gap
    return squares


def _squares(tensor: NDArray[Any]) -> NDArray[np.float64]:
    """Return the sum of squares of each view."""
    return np.asarray(np.einsum("ivj,ivj->v", tensor, tensor))


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
