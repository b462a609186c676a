"""Nearest-neighbour lists with distances, and the graphs built from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..backend.arrays import Array, is_sparse, is_tensor, namespace, on_host
from ..backend.linalg import smallest, sum_of_squares
from ..backend.threads import device_lock, parallel_ranges
from ..views._order import mix
from ._distances import DEVICE_BLOCK_BYTES, DenseBlocks, DistanceBlocks, tie_margin

_BANDWIDTH_STEPS = 12
_ROUNDING = 1e-12
# A bandwidth is at least this share of the mean distance to the neighbours: duplicates would make it 0.
_LEAST_BANDWIDTH = 1e-3
# The smallest distances of so many groups of candidates bound those to the neighbours.
_GROUPS_PER_NEIGHBOUR = 8
_HUGE = np.finfo(np.float64).max / 2
# So many of the samples tied with the nearest are neighbours at most, or more if there are no more links than that: in
# a view with few values, half of all may tie.
_MOST_TIED, _MOST_LINKS = 256, 5_000_000

# Samples, their neighbours, and the squared distances between them.
_Links = tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]


@dataclass(frozen=True)
class Neighbours:
    """The nearest neighbours of every sample, nearest first.

    Samples tied with the k-th neighbour are all neighbours, unless they would make the list more than twice as long:
    texts without a common word, for example, are all equally far apart, and none of them is a neighbour. If no sample
    is nearer, as in a view with two values, they are neighbours, too; of many, some that are drawn at random.

    Attributes
    ----------
    starts : ndarray of shape (n + 1,)
        The list of sample i is ``indices[starts[i]:starts[i + 1]]``.
    indices : ndarray
        The neighbours.
    squares : ndarray
        Squared distances to them.
    n_candidates : int
        Number of samples that the neighbours were chosen from.
    scale : float
        Squared length of the longest sample, which rounding errors are relative to.
    """

    starts: NDArray[np.intp]
    indices: NDArray[np.intp]
    squares: NDArray[np.float64]
    n_candidates: int
    scale: float

    def nearest(self, n_neighbors: int) -> Neighbours:
        """Return the lists of fewer neighbours."""
        if not len(self.indices):
            return self
        first, counts = self.starts[:-1], np.diff(self.starts)
        kth = self.squares[np.minimum(first + n_neighbors, self.starts[1:]) - 1]
        margin = tie_margin(kth, self.scale)
        tied = self.squares <= np.repeat(kth + margin, counts)
        nearer = self.squares < np.repeat(kth - margin, counts)
        with_ties = _ties_are_kept(self._sums(tied), self._sums(nearer), n_neighbors)
        kept = np.where(np.repeat(with_ties, counts), tied, nearer)
        starts = np.concatenate([[0], np.cumsum(self._sums(kept))]).astype(np.intp)
        return replace(self, starts=starts, indices=self.indices[kept], squares=self.squares[kept])

    def _sums(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the sum over the neighbours of every sample, 0 for one without neighbours."""
        some = np.diff(self.starts) > 0
        sums = np.zeros(len(some), dtype=np.result_type(values, np.intp))
        if len(values):
            sums[some] = np.add.reduceat(values, self.starts[:-1][some], dtype=sums.dtype)
        return sums

    def graph(self, weights: NDArray[np.float64] | None = None) -> sp.csr_array:
        """Return the directed graph from each sample to its neighbours, with weight 1 by default."""
        values = np.ones(len(self.indices)) if weights is None else weights
        shape = len(self.starts) - 1, self.n_candidates
        # Sorted, which SciPy adds and multiplies several times as fast.
        return sp.csr_array((values, self.indices, self.starts), shape=shape).sorted_indices()

    def link_graph(self) -> sp.csr_array:
        """Return the symmetric 0/1 graph in which two samples are linked if one is a neighbour of the other."""
        directed = self.graph()
        return sp.csr_array(directed.maximum(directed.T))

    def fuzzy_graph(self) -> sp.csr_array:
        """Return the fuzzy neighbourhood graph of UMAP (McInnes, Healy and Melville, 2018).

        The weight of a neighbour decays with its distance beyond the nearest one. The bandwidth of a sample is such
        that the weights of its k neighbours sum to log₂ k, so that dense and sparse regions are treated alike. Weights
        p and q of the two directions combine to p + q − pq.
        """
        if not len(self.indices):
            return self.graph()
        first, counts = self.starts[:-1], np.diff(self.starts)
        distances = np.sqrt(self.squares)
        nearest = distances[np.minimum(first, len(distances) - 1)]
        beyond = distances - np.repeat(nearest, counts)
        mean = self._sums(distances) / np.maximum(counts, 1)
        most = 1 / np.maximum(_LEAST_BANDWIDTH * mean, np.finfo(np.float64).tiny)
        target = np.log2(np.maximum(counts, 2))
        # Newton's method: the logarithm of the sum is convex in the inverse bandwidth, so that it comes from one side.
        rate = np.zeros(len(counts))
        for _ in range(_BANDWIDTH_STEPS):
            weights = np.exp(-beyond * np.repeat(rate, counts))
            total, slope = self._sums(weights), self._sums(beyond * weights)
            steep = (slope > 0) & (rate < most) & (total > (1 + _ROUNDING) * target)
            if not steep.any():
                break
            with np.errstate(over="ignore"):  # a step of any length ends at the largest rate
                step = total[steep] / slope[steep] * np.log(total[steep] / target[steep])
            rate[steep] = np.minimum(rate[steep] + step, most[steep])
        directed = self.graph(np.exp(-beyond * np.repeat(rate, counts)))
        back = sp.csr_array(directed.T)
        return sp.csr_array(directed + back - directed.multiply(back))


def _ties_are_kept(tied: NDArray[Any], nearer: NDArray[Any], n_neighbors: int) -> NDArray[np.bool_]:
    """Return for which samples those tied with the k-th neighbour are neighbours, too."""
    return np.asarray((tied <= 2 * n_neighbors) | (nearer == 0))


def find_neighbours(
    parts: list[Any],
    n_neighbors: int,
    others: list[Any] | None = None,
    missing: NDArray[np.bool_] | None = None,
    exact: bool = False,
) -> Neighbours:
    """Return the nearest neighbours of every sample.

    Samples that are PyTorch tensors are compared on their device. It finds the 2k + 1 nearest, enough to tell whether
    those tied with the k-th are neighbours, unless no sample is nearer; then all distances are compared on the host.

    Parameters
    ----------
    parts : list of arrays (n, d_v)
        The samples, as parts to be concatenated; dense or CSR, in float64.
    n_neighbors : int
        k, at most the number of candidates.
    others : list of arrays (n_candidates, d_v), optional
        The candidates; by default the samples themselves, of which none is its own neighbour.
    missing : ndarray of bool of shape (n, n_parts), optional
        As in `DistanceBlocks`, for samples that lack some of the parts.
    exact : bool, default=False
        Whether distances to the nearest candidates are computed pair by pair, so that they do not depend on which
        samples are searched for together.

    Returns
    -------
    Neighbours
    """
    on_device = missing is None and all(map(is_tensor, parts))
    if not on_device:
        parts, others = [on_host(part) for part in parts], others and [on_host(part) for part in others]
    candidates = parts if others is None else others
    n, n_candidates = parts[0].shape[0], candidates[0].shape[0]
    scale = DistanceBlocks(candidates).scale  # not that of the samples, which are searched for in any batch
    links = partial(_links, n_neighbors=n_neighbors, scale=scale, skip_self=others is None)
    undecided, found = np.arange(n), []
    dense = not any(map(is_sparse, parts))
    if on_device:
        samples, points = (namespace(*arrays).hstack(arrays) for arrays in (parts, candidates))
        squares, indices = _device_search(samples, points, min(2 * n_neighbors + 2, n_candidates))
        order = np.argsort(indices, axis=1)
        squares, indices = np.take_along_axis(squares, order, axis=1), np.take_along_axis(indices, order, axis=1)
        rows, indices, squares = links(undecided, squares, indices)
        # A longer list holds ties without a nearer neighbour, of which there may be more.
        longer = np.bincount(rows, minlength=n) > 2 * n_neighbors
        complete = ~longer[rows]
        found.append((rows[complete], indices[complete], squares[complete]))
        undecided = np.flatnonzero(longer)
    elif missing is None and dense:
        samples = np.hstack(parts)
        blocks = DenseBlocks(samples, samples if others is None else np.hstack(others))
        found = _search_rows(blocks, undecided, partial(links, refine=blocks.pairs if exact else None))
        undecided = undecided[:0]
    if missing is not None:
        found += _search_rows(DistanceBlocks(parts, scale=scale, missing=missing), undecided, links)
    elif len(undecided):
        found += _search_rows(DistanceBlocks([part[undecided] for part in parts], candidates, scale), undecided, links)
    rows, indices, squares = (np.concatenate(pieces) for pieces in zip(*found, strict=True))
    if on_device and len(undecided):
        order = np.argsort(rows, kind="stable")
        rows, indices, squares = rows[order], indices[order], squares[order]
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))])
    return Neighbours(starts, indices, squares, n_candidates, scale)


def _device_search(samples: Array, candidates: Array, count: int) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Return squared distances to the nearest candidates, and their indices, both (n, count).

    The distances are those between two samples alone.
    """
    squares, indices = np.empty((len(samples), count)), np.empty((len(samples), count), dtype=np.intp)
    step = max(1, DEVICE_BLOCK_BYTES // (8 * len(candidates)))
    for lo in range(0, len(samples), step):
        rows = slice(lo, lo + step)
        with device_lock:
            squares[rows], indices[rows] = map(on_host, nearest_on_device(samples[rows], candidates, count))
    return squares, indices


def nearest_on_device(samples: Array, candidates: Array, count: int) -> tuple[Array, Array]:
    """Return squared distances of tensors to the nearest candidates, and their indices, both (n, count).

    Candidates at distances that are equal in single precision may be missed for one another. The distances between two
    samples do not depend on the others.
    """
    xp = namespace(samples)
    ones = [xp.ones_like(array[:, :1]) for array in (samples, candidates)]
    # All terms of the distances in one product.
    left = xp.hstack([samples, sum_of_squares(samples)[:, None], ones[0]])
    right = xp.hstack([-2 * candidates, ones[1], sum_of_squares(candidates)[:, None]])
    # Rounded after the sums of double precision, because a device selects them in half the time.
    nearest = smallest((left @ right.T).float(), count)[1]
    squares = samples.new_empty(nearest.shape)
    step = max(1, DEVICE_BLOCK_BYTES // (8 * count * samples.shape[1]))
    for lo in range(0, len(samples), step):
        rows = slice(lo, lo + step)
        terms = (candidates[nearest[rows]] - samples[rows, None]) ** 2
        # Added by halves: a device adds along rows in an order that depends on how many there are.
        while (width := terms.shape[2]) > 1:
            half = width // 2
            terms[:, :, :half] += terms[:, :, width - half :]
            terms = terms[:, :, : width - half]
        squares[rows] = terms[:, :, 0]
    return squares, nearest


def _search_rows(
    blocks: DistanceBlocks | DenseBlocks, samples: NDArray[np.intp], links: Callable[..., _Links]
) -> list[_Links]:
    """Return the neighbours of some samples from their distances to all candidates, in the order of the samples."""
    found: dict[int, _Links] = {}

    def search(start: int, stop: int) -> None:
        for lo, squares in blocks.blocks(start, stop):
            found[lo] = links(samples[lo : lo + len(squares)], on_host(squares))

    parallel_ranges(search, len(samples), blocks.rows_at_once)
    return [found[lo] for lo in sorted(found)]


def _links(
    samples: NDArray[np.intp],
    squares: NDArray[np.float64],
    candidates: NDArray[np.intp] | None = None,
    *,
    n_neighbors: int,
    scale: float,
    skip_self: bool,
    refine: Callable[..., NDArray[np.float64]] | None = None,
) -> _Links:
    """Return which candidates, at these squared distances (rows, columns), are neighbours of the samples.

    By default the candidates are the columns; `refine` computes the distances of the few that matter once more.
    """
    n, width = squares.shape
    if skip_self:
        own = (np.arange(n), samples) if candidates is None else candidates == samples[:, None]
        squares[own] = np.inf
    # Infinite where fewer candidates have anything in common with the sample.
    bound = np.minimum(_upper_bound(squares, n_neighbors), _HUGE)
    rows, columns = np.divmod(np.flatnonzero(squares <= (bound + 2 * tie_margin(bound, scale))[:, None]), width)
    indices = columns if candidates is None else candidates[rows, columns]
    counts = np.bincount(rows, minlength=n)
    place = np.arange(max(n_neighbors, counts.max())) < counts[:, None]
    near, nearest = np.full(place.shape, np.inf), np.zeros(place.shape, dtype=np.intp)
    near[place] = np.maximum(squares[rows, columns], 0) if refine is None else refine(samples[rows], indices)
    nearest[place] = indices
    order = np.argsort(near, axis=1, kind="stable")
    near, nearest = np.take_along_axis(near, order, axis=1), np.take_along_axis(nearest, order, axis=1)
    kth = np.minimum(near[:, n_neighbors - 1, None], _HUGE)
    margin = tie_margin(kth, scale)
    tied, nearer = near <= kth + margin, near < kth - margin
    with_ties = _ties_are_kept(tied.sum(axis=1), nearer.sum(axis=1), n_neighbors)
    kept = np.where(with_ties[:, None], tied, nearer)
    most = max(_MOST_TIED, _MOST_LINKS // width, 2 * n_neighbors)
    many = np.flatnonzero(kept.sum(axis=1) > most)
    if len(many):
        # By a hash with the sum of all that tie, which differs from sample to sample, and from view to view.
        sums = np.sum(nearest[many], axis=1, where=kept[many], keepdims=True)
        chance = mix(nearest[many] + mix(sums)).view(np.uint64)
        chance[~kept[many]] = np.iinfo(np.uint64).max
        kept[many] &= chance <= np.partition(chance, most - 1, axis=1)[:, most - 1, None]
    return np.repeat(samples, kept.sum(axis=1)), nearest[kept], near[kept]


def _upper_bound(values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return an upper bound of the `count` smallest values of each row: few others are below it.

    It is that of the smallest values of some groups, a fraction of all.
    """
    n, width = values.shape
    n_groups = _GROUPS_PER_NEIGHBOUR * count
    if (size := width // n_groups) > 1:
        values = values[:, : size * n_groups].reshape(n, size, n_groups).min(axis=1)
    return np.partition(values, count - 1, axis=1)[:, count - 1]
