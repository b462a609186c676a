"""Agreement between several partitions of the same samples, without a table of all pairs of samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..metrics import ari_of_pairs

_Codes = NDArray[np.int64]
_Floats = NDArray[np.float64]

_N_BOOTSTRAP = 1000
_MOST_CELLS_PER_SAMPLE = 4


def numbered_by_first(labels: NDArray[Any]) -> _Codes:
    """Renumber the clusters by their first samples, so that equal partitions become equal arrays."""
    codes = labels - labels.min()
    # Sorting the labels would take longer than all else here (benchmarks/audit.py).
    if codes.max() > _MOST_CELLS_PER_SAMPLE * len(codes):
        codes = np.unique(labels, return_inverse=True)[1]
    first = np.full(int(codes.max()) + 1, len(codes))
    # Of several values assigned to one place the last remains: from the end, that is the first sample.
    first[codes[::-1]] = np.arange(len(codes))[::-1]
    return np.asarray(np.argsort(np.argsort(first))[codes])


def pairwise_ari(partitions: Sequence[_Codes], instability: _Floats | None = None) -> _Floats:
    """Return the ARI of all pairs of partitions, and optionally how much the cluster around each sample changes.

    Parameters
    ----------
    partitions : sequence of arrays of shape (n_samples,)
        As returned by `numbered_by_first`.
    instability : ndarray of shape (n_samples,), optional
        The mean over pairs of partitions of the Jaccard distance between the two clusters a sample is in is added to
        it, in place.

    Returns
    -------
    ndarray of shape (n_partitions, n_partitions)
        1 for equal partitions, also where there is a single cluster.
    """
    if not partitions:
        return np.ones((0, 0))
    # Equal partitions are compared with the others only once.
    numbers: dict[bytes, int] = {}
    which = np.array([numbers.setdefault(partition.tobytes(), len(numbers)) for partition in partitions])
    distinct = [partitions[int(np.argmax(which == i))] for i in range(len(numbers))]
    sizes = [np.bincount(partition) for partition in distinct]
    times = np.bincount(which)
    between = np.ones((len(distinct), len(distinct)))
    n_pairs = max(len(partitions) * (len(partitions) - 1) / 2, 1)
    for a in range(len(distinct)):
        for b in range(a):
            cells, counts, union = _table(distinct[a], distinct[b], sizes[a], sizes[b])
            ari = ari_of_pairs(_n_pairs(counts), _n_pairs(sizes[a]), _n_pairs(sizes[b]), len(cells))
            between[a, b] = between[b, a] = ari
            if instability is not None:
                # All samples of a cell are in the same two clusters.
                instability += (times[a] * times[b] / n_pairs * (1 - counts / union))[cells]
    return np.asarray(between[np.ix_(which, which)])


def _table(first: _Codes, second: _Codes, first_sizes: _Codes, second_sizes: _Codes) -> tuple[_Codes, _Codes, _Codes]:
    """Return each sample's cell in the contingency table of two partitions, and |A ∩ B| and |A ∪ B| of the cells."""
    cells = first * len(second_sizes) + second
    n_cells = len(first_sizes) * len(second_sizes)
    # A dense table is several times faster than sorting (benchmarks/audit.py) unless there are many clusters.
    if n_cells <= _MOST_CELLS_PER_SAMPLE * len(cells):
        counts = np.bincount(cells, minlength=n_cells)
        return cells, counts, np.add.outer(first_sizes, second_sizes).ravel() - counts
    used, cells, counts = np.unique(cells, return_inverse=True, return_counts=True)
    rows, columns = np.divmod(used, len(second_sizes))
    return cells, counts, first_sizes[rows] + second_sizes[columns] - counts


def _n_pairs(sizes: NDArray[np.intp]) -> int:
    """Return the number of pairs of samples within groups of these sizes."""
    return (int(sizes @ sizes) - int(sizes.sum())) // 2


def mean_and_interval(values: _Floats, rng: np.random.Generator) -> tuple[float, tuple[float, float]]:
    """Return the mean over the pairs in a symmetric table, and its 95 % bootstrap interval; NaN without pairs.

    Objects are resampled rather than pairs, because pairs that share an object are not independent. An object that is
    drawn twice is not compared with itself.
    """
    size = len(values)
    if size < 2:
        return math.nan, (math.nan, math.nan)
    off_diagonal = values * (1 - np.eye(size))
    mean = float(off_diagonal.sum() / (size * (size - 1)))
    draws = rng.integers(size, size=(_N_BOOTSTRAP, size)) + size * np.arange(_N_BOOTSTRAP)[:, None]
    times = np.bincount(draws.ravel(), minlength=draws.size).reshape(draws.shape).astype(np.float64)
    n_pairs = size**2 - np.sum(times**2, axis=1)
    sums = np.sum((times @ off_diagonal) * times, axis=1)
    means = sums[n_pairs > 0] / n_pairs[n_pairs > 0]
    low, high = np.quantile(means, [0.025, 0.975])
    # With few objects the quantiles may miss the mean by rounding.
    return mean, (min(float(low), mean), max(float(high), mean))
