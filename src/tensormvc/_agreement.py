"""How much several partitions of the same samples agree, without a table of pairs of samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .metrics import ari_of_pairs

_Codes = NDArray[np.int64]
_Floats = NDArray[np.float64]

_N_BOOTSTRAP = 1000
# With so many cells to a sample, counting cells is slower than sorting samples.
_MOST_CELLS_PER_SAMPLE = 16


def numbered_by_first(labels: NDArray[Any]) -> _Codes:
    """Return the clusters numbered by their first samples: equal partitions become equal arrays."""
    _, first, codes = np.unique(labels, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[codes]


def agreement(partitions: Sequence[_Codes]) -> tuple[_Floats, _Floats]:
    """Return the ARI of all pairs of partitions, and how much the company of each sample differs among them.

    Parameters
    ----------
    partitions : sequence of arrays of shape (n_samples,)
        As `numbered_by_first` returns them.

    Returns
    -------
    aris : ndarray of shape (n_partitions, n_partitions)
        1 for equal partitions, also where there is a single cluster.
    instability : ndarray of shape (n_samples,)
        Mean over pairs of partitions of the Jaccard distance of the two clusters that a sample is in.
    """
    aris = np.ones((len(partitions), len(partitions)))
    if not partitions:
        return aris, np.zeros(0)
    # Equal partitions are compared with the others once.
    numbers: dict[bytes, int] = {}
    which = np.array([numbers.setdefault(partition.tobytes(), len(numbers)) for partition in partitions])
    distinct = [partitions[int(np.flatnonzero(which == i)[0])] for i in range(len(numbers))]
    sizes = [np.bincount(partition) for partition in distinct]
    company = [size[partition] for size, partition in zip(sizes, distinct, strict=True)]
    times = np.bincount(which)
    n = len(distinct[0])
    pairs = [(int(own.sum()) - n) // 2 for own in company]
    between = np.ones((len(distinct), len(distinct)))
    instability = np.zeros(n)
    for a in range(len(distinct)):
        for b in range(a):
            shared = _shared_company(distinct[a], distinct[b], len(sizes[a]), len(sizes[b]))
            both = (int(shared.sum()) - n) // 2
            between[a, b] = between[b, a] = ari_of_pairs(both, pairs[a], pairs[b], n)
            instability += times[a] * times[b] * (1 - shared / (company[a] + company[b] - shared))
    n_pairs = len(partitions) * (len(partitions) - 1) / 2
    return between[np.ix_(which, which)], instability / max(n_pairs, 1)


def _shared_company(first: _Codes, second: _Codes, n_first: int, n_second: int) -> NDArray[np.intp]:
    """Return for each sample how many are in its cluster in both partitions, itself among them."""
    cells = first * n_second + second
    if n_first * n_second <= _MOST_CELLS_PER_SAMPLE * len(cells):
        return np.asarray(np.bincount(cells)[cells])
    _, places, counts = np.unique(cells, return_inverse=True, return_counts=True)
    return np.asarray(counts[places])


def mean_and_interval(values: _Floats, rng: np.random.Generator) -> tuple[float, tuple[float, float]]:
    """Return the mean over pairs of a symmetric table, and its 95 % bootstrap interval; NaN without pairs.

    What is drawn anew is the objects, not the pairs: pairs that share an object are not independent. An object that is
    drawn twice is not compared with itself.
    """
    size = len(values)
    if size < 2:
        return math.nan, (math.nan, math.nan)
    off_diagonal = values * (1 - np.eye(size))
    mean = float(off_diagonal.sum() / (size * (size - 1)))
    times = rng.multinomial(size, np.full(size, 1 / size), size=_N_BOOTSTRAP).astype(np.float64)
    n_pairs = size**2 - np.sum(times**2, axis=1)
    sums = np.sum((times @ off_diagonal) * times, axis=1)
    means = sums[n_pairs > 0] / n_pairs[n_pairs > 0]
    low, high = np.quantile(means, [0.025, 0.975])
    # With few objects the quantiles may miss the mean by rounding.
    return mean, (min(float(low), mean), max(float(high), mean))
