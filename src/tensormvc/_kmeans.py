"""k-means whose result depends on the points and the seed alone: not on their order, nor on threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ._ops import parallel_ranges
from ._sample_random import SampleRandom

_MAX_ITER = 300


def kmeans(
    points: NDArray[Any], n_clusters: int, *, n_init: int, random: SampleRandom
) -> tuple[NDArray[np.intp], float]:
    """Cluster points by Lloyd's rounds from several k-means++ starts; return the best labels and their inertia.

    Distances are matrix products, and sums over points run in their order, so that the same points in the same order
    give the same labels whatever the number of threads. An emptied cluster restarts at the point that is farthest
    from its centre.

    Parameters
    ----------
    points : ndarray of shape (n, d)
        The points.
    n_clusters : int
        k, at most n.
    n_init : int
        Starts.
    random : SampleRandom
        What draws the starts; of the samples that the points stand for.

    Returns
    -------
    labels : ndarray of shape (n,)
    inertia : float
        Sum of squared distances to the centres.
    """
    points = np.ascontiguousarray(points, dtype=np.float64)
    squares = np.einsum("ij,ij->i", points, points)
    starts = [_plus_plus(points, squares, n_clusters, random) for _ in range(n_init)]
    ends: list[tuple[NDArray[np.intp], float]] = [(np.empty(0, dtype=np.intp), np.inf)] * n_init

    def run(first: int, last: int) -> None:
        for i in range(first, last):
            ends[i] = _lloyd(points, squares, starts[i])

    parallel_ranges(run, n_init)
    best = ends[0]
    for end in ends[1:]:
        # Starts that end in the same place differ by rounding: the first of them stays.
        if end[1] < best[1] * (1 - 1e-10):
            best = end
    return best


def _squared_distances(
    points: NDArray[np.float64], squares: NDArray[np.float64], centres: NDArray[np.float64]
) -> NDArray[np.float64]:
    distances = points @ (-2 * centres.T)
    distances += np.einsum("ij,ij->i", centres, centres)
    distances += squares[:, None]
    np.maximum(distances, 0, out=distances)
    return distances


def _plus_plus(
    points: NDArray[np.float64], squares: NDArray[np.float64], k: int, random: SampleRandom
) -> NDArray[np.float64]:
    """Draw starts far from each other: of a few candidates each, the one that leaves the least distance."""
    tries = 2 + int(np.log(k))
    chosen = [int(np.argmin(random.uniform(1)[:, 0]))]
    nearest = _squared_distances(points, squares, points[chosen])[:, 0]
    for _ in range(k - 1):
        candidates = _draw(nearest, random.uniform(tries))
        left = np.minimum(nearest[:, None], _squared_distances(points, squares, points[candidates]))
        pick = int(np.argmin(left.sum(axis=0)))
        chosen.append(int(candidates[pick]))
        nearest = left[:, pick]
    return points[chosen]


def _draw(weights: NDArray[np.float64], uniform: NDArray[np.float64]) -> NDArray[np.intp]:
    """Draw a point for each column of uniform numbers, with probabilities in proportion to the weights.

    The first to arrive in a race of exponential times, of which each point has its own: no order of the points enters.
    """
    times = -np.log1p(-uniform)
    with np.errstate(divide="ignore", invalid="ignore"):
        times /= weights[:, None]
    times[weights == 0] = np.inf
    return np.asarray(np.argmin(times, axis=0))


def _lloyd(
    points: NDArray[np.float64], squares: NDArray[np.float64], centres: NDArray[np.float64]
) -> tuple[NDArray[np.intp], float]:
    n, k = len(points), len(centres)
    labels = np.full(n, -1, dtype=np.intp)
    distances = np.empty((n, k))
    for _ in range(_MAX_ITER):
        # Up to the squared length of each point, which decides nothing about the nearest centre.
        np.matmul(points, -2 * centres.T, out=distances)
        distances += np.einsum("ij,ij->i", centres, centres)
        new = np.argmin(distances, axis=1)
        own = np.maximum(distances[np.arange(n), new] + squares, 0)
        counts = np.bincount(new, minlength=k)
        for empty in np.flatnonzero(counts == 0):
            farthest = int(np.argmax(np.where(counts[new] > 1, own, -1)))
            counts[new[farthest]] -= 1
            new[farthest], counts[empty], own[farthest] = empty, 1, 0
        if np.array_equal(new, labels):
            break
        labels = new
        members = sp.csr_array((np.ones(n), labels, np.arange(n + 1)), shape=(n, k))
        centres = np.asarray(members.T @ points) / np.maximum(counts, 1)[:, None]
    return labels, float(own.sum())
