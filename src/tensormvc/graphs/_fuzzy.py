"""Neighbour lists with distances, and the graphs that several of them give together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..backend import parallel_ranges
from ._distances import DistanceBlocks, tie_margin

_BANDWIDTH_ROUNDS = 50
# A bandwidth is at least this share of the mean distance to the neighbours, so that duplicates do not empty a list.
_LEAST_BANDWIDTH = 1e-3


@dataclass(frozen=True)
class Neighbours:
    """The nearest others of every sample, nearest first.

    All samples tied with the last one are in the list, unless that would more than double it: many samples at the same
    distance are no neighbours, but what is left when the neighbours end, as are texts without a common word.

    Attributes
    ----------
    starts : ndarray of shape (n + 1,)
        Where the list of each sample begins in the other two.
    indices : ndarray
        Neighbours.
    squares : ndarray
        Squared distances to them.
    scale : float
        Squared length of the longest sample: what rounding is measured by.
    """

    starts: NDArray[np.intp]
    indices: NDArray[np.intp]
    squares: NDArray[np.float64]
    scale: float

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.starts) - 1

    def nearest(self, n_neighbors: int) -> Neighbours:
        """Return the lists cut to fewer neighbours."""
        kth = self.squares[np.minimum(self.starts[:-1] + n_neighbors, self.starts[1:]) - 1]
        counts = np.diff(self.starts)
        margin = tie_margin(kth, self.scale)
        tied = self.squares <= np.repeat(kth + margin, counts)
        nearer = self.squares < np.repeat(kth - margin, counts)
        first = self.starts[:-1]
        kept = np.where(
            np.repeat(_ties_count(np.add.reduceat(tied, first), np.add.reduceat(nearer, first), n_neighbors), counts),
            tied,
            nearer,
        )
        ends = np.cumsum(kept)[self.starts[1:] - 1]
        return Neighbours(np.concatenate([[0], ends]), self.indices[kept], self.squares[kept], self.scale)

    def graph(self, weights: NDArray[np.float64] | None = None) -> sp.csr_array:
        """Return the directed graph of the lists, with weight 1 by default."""
        n = self.n_samples
        values = np.ones(len(self.indices)) if weights is None else weights
        return sp.csr_array((values, self.indices, self.starts), shape=(n, n))

    def link_graph(self) -> sp.csr_array:
        """Return the symmetric 0/1 graph in which two samples are linked if one is a neighbour of the other."""
        directed = self.graph()
        return sp.csr_array(directed.maximum(directed.T))

    def fuzzy_graph(self) -> sp.csr_array:
        """Return the symmetric graph whose weights fall with the distance beyond the nearest neighbour.

        Each sample has a bandwidth of its own, at which the weights of its k neighbours add up to log₂ k, so that dense
        and thin regions are treated alike; a link is as strong as either side holds, p + q − pq (McInnes and others,
        UMAP).
        """
        counts = np.diff(self.starts)
        distances = np.sqrt(self.squares)
        beyond = distances - np.repeat(distances[self.starts[:-1]], counts)
        mean = np.add.reduceat(distances, self.starts[:-1]) / counts
        target = np.log2(np.maximum(counts, 2))
        low, high = np.zeros(len(counts)), np.full(len(counts), np.inf)
        width = np.maximum(np.add.reduceat(beyond, self.starts[:-1]) / counts, np.finfo(np.float64).tiny)
        for _ in range(_BANDWIDTH_ROUNDS):
            total = np.add.reduceat(np.exp(-beyond / np.repeat(width, counts)), self.starts[:-1])
            wide = total > target
            high, low = np.where(wide, width, high), np.where(wide, low, width)
            width = np.where(np.isinf(high), 2 * width, (low + high) / 2)
            width = np.clip(width, np.finfo(np.float64).tiny, np.finfo(np.float64).max / 4)
        width = np.maximum(width, np.maximum(_LEAST_BANDWIDTH * mean, np.finfo(np.float64).tiny))
        directed = self.graph(np.exp(-beyond / np.repeat(width, counts)))
        return sp.csr_array(directed + directed.T - directed.multiply(directed.T))


def _ties_count(tied: NDArray[Any], nearer: NDArray[Any], n_neighbors: int) -> NDArray[np.bool_]:
    """Return for which samples those tied with the last neighbour are neighbours too."""
    return np.asarray((tied <= 2 * n_neighbors) | (nearer == 0))


def find_neighbours(parts: list[Any], n_neighbors: int, others: list[Any] | None = None) -> Neighbours:
    """Return the nearest others of every sample.

    Memory: blocks of 32 MB, and the lists.

    Parameters
    ----------
    parts : list of arrays (n, d_v)
        The samples, in parts that are thought of as concatenated; dense or CSR.
    n_neighbors : int
        How many, less than there are.
    others : list of arrays (k, d_v), optional
        Where to look for neighbours; among the samples themselves, each its own left out, by default.

    Returns
    -------
    Neighbours
    """
    distances = DistanceBlocks(parts, others)
    n = len(distances.squares)
    found: dict[int, tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]] = {}

    def work(start: int, stop: int) -> None:
        for lo in range(start, stop, distances.rows_at_once):
            hi = min(lo + distances.rows_at_once, stop)
            block = distances.block(lo, hi)
            if others is None:
                block[np.arange(hi - lo), np.arange(lo, hi)] = np.inf
            kth = np.partition(block, n_neighbors - 1, axis=1)[:, n_neighbors - 1, None]
            margin = tie_margin(kth, distances.scale)
            tied, nearer = block <= kth + margin, block < kth - margin
            full = _ties_count(tied.sum(axis=1), nearer.sum(axis=1), n_neighbors)
            rows, columns = np.nonzero(np.where(full[:, None], tied, nearer))
            squares = block[rows, columns]
            order = np.lexsort((columns, squares, rows))
            found[lo] = np.bincount(rows, minlength=hi - lo), columns[order], squares[order]

    parallel_ranges(work, n, distances.rows_at_once)
    counts, indices, squares = (
        np.concatenate(pieces) for pieces in zip(*(found[lo] for lo in sorted(found)), strict=True)
    )
    return Neighbours(np.concatenate([[0], np.cumsum(counts)]), indices, squares, distances.scale)
