"""k-means whose result depends on the points and the seed alone: not on their order, nor on threads."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._ops import (
    Array,
    contiguous,
    in_double,
    inner,
    is_tensor,
    namespace,
    on_host,
    parallel_ranges,
    placed,
    raise_to_zero,
    sum_of_squares,
)
from ._sample_random import SampleRandom

_MAX_ITER = 300
# Distances that are computed at a time: what the cache holds.
_CACHED = 2**15
# Rounding of a distance, as a share of the longest point.
_UNCERTAIN = 1e-7


def kmeans(points: Any, n_clusters: int, *, n_init: int, random: SampleRandom) -> tuple[NDArray[np.intp], float]:
    """Cluster points by Lloyd's rounds from several k-means++ starts; return the best labels and their inertia.

    Distances are matrix products, and sums over points run in their order, so that the same points in the same order
    give the same labels whatever the number of threads. An emptied cluster restarts at the point that is farthest
    from its centre.

    Parameters
    ----------
    points : array of shape (n, d)
        The points, NumPy's or PyTorch's on any device.
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
    points = contiguous(in_double(points))
    squares = sum_of_squares(points)
    tries = 2 + int(math.log(n_clusters))
    numbers = [[random.uniform_later(count) for count in [1] + [tries] * (n_clusters - 1)] for _ in range(n_init)]
    ends: list[tuple[Any, float]] = [(None, math.inf)] * n_init

    def run(first: int, last: int) -> None:
        for i in range(first, last):
            ends[i] = _lloyd(points, squares, _plus_plus(points, squares, numbers[i]))

    if is_tensor(points):
        run(0, n_init)
    else:
        parallel_ranges(run, n_init)
    best = ends[0]
    for end in ends[1:]:
        # Starts that end in the same place differ by rounding: the first of them stays.
        if end[1] < best[1] * (1 - 1e-10):
            best = end
    return on_host(best[0]).astype(np.intp, copy=False), best[1]


def _squared_distances(points: Array, squares: Array, centres: Array) -> Array:
    distances = points @ (-2 * centres.T)
    distances += sum_of_squares(centres)
    distances += squares[:, None]
    return raise_to_zero(distances)


def _plus_plus(points: Array, squares: Array, numbers: list[Callable[[], Array]]) -> Array:
    """Draw starts far from each other: of a few candidates each, the one that leaves the least distance."""
    xp = namespace(points)
    chosen = [int(xp.argmin(numbers[0]()[:, 0]))]
    nearest = _squared_distances(points, squares, points[chosen])[:, 0]
    for uniform in numbers[1:]:
        candidates = _draw(nearest, uniform())
        left = xp.minimum(nearest[:, None], _squared_distances(points, squares, points[candidates]))
        pick = int(xp.argmin(xp.sum(left, axis=0)))
        chosen.append(int(candidates[pick]))
        nearest = left[:, pick]
    return points[chosen]


def _draw(weights: Array, uniform: Array) -> Array:
    """Draw a point for each column of uniform numbers, with probabilities in proportion to the weights.

    The first to arrive in a race of exponential times, of which each point has its own: no order of the points enters.
    """
    xp = namespace(weights)
    times = -xp.log1p(-uniform)
    times /= xp.where(weights > 0, weights, xp.ones_like(weights))[:, None]
    times[weights == 0] = math.inf
    return xp.argmin(times, axis=0)


def _lloyd(points: Array, squares: Array, centres: Array) -> tuple[Array, float]:
    """Run Lloyd's rounds to their end; return labels and inertia.

    After the first round, distances are computed only for points that bounds on them (Hamerly's) leave in doubt.
    """
    xp = namespace(points)
    k = centres.shape[0]
    labels, upper, lower = _two_nearest(points, squares, centres)
    # Distances that are read off inner products are uncertain by this.
    slack = _UNCERTAIN * math.sqrt(float(xp.max(squares)))
    counts, sums = _members(labels, points, k)
    for _ in range(_MAX_ITER):
        spare = False
        for empty in np.flatnonzero(on_host(counts) == 0).tolist():
            own = xp.where(counts[labels] > 1, sum_of_squares(points - centres[labels]), -xp.ones_like(upper))
            farthest = int(xp.argmax(own))
            old = int(labels[farthest])
            # With fewer places than clusters, some stay at the place of others.
            spare = spare or float(own[farthest]) <= slack**2
            counts[old], counts[empty], labels[farthest] = counts[old] - 1, 1, empty
            sums[old], sums[empty] = sums[old] - points[farthest], points[farthest]
            centres[empty] = points[farthest]
            upper[farthest] = lower[farthest] = 0
        before, centres = centres, sums / counts[:, None]
        if spare:
            break
        moves = xp.sqrt(sum_of_squares(centres - before))
        upper += moves[labels]
        lower -= xp.max(moves)
        doubtful = xp.nonzero(upper + slack >= lower)[0]
        if doubtful.shape[0] == 0:
            break
        old = labels[doubtful]
        new, upper[doubtful], lower[doubtful] = _two_nearest(points[doubtful], squares[doubtful], centres)
        changed = xp.nonzero(new != old)[0]
        if changed.shape[0] == 0:
            break
        doubtful, old, new = doubtful[changed], old[changed], new[changed]
        labels[doubtful] = new
        (joined, gains), (left, losses) = (_members(which, points[doubtful], k) for which in (new, old))
        counts += joined - left
        sums += gains - losses
    return labels, float(xp.sum(sum_of_squares(points - centres[labels])))


def _two_nearest(points: Array, squares: Array, centres: Array) -> tuple[Array, Array, Array]:
    """Return the nearest centre of every point, the distance to it, and that to the next."""
    xp = namespace(points)
    n, k = points.shape[0], centres.shape[0]
    step = n if is_tensor(points) else max(1, _CACHED // k)
    labels = placed(np.zeros(n, dtype=np.intp), points)
    nearest, next_nearest = xp.empty_like(squares), xp.empty_like(squares)
    places = placed(np.arange(step), points)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        distances = _squared_distances(points[rows], squares[rows], centres)
        labels[rows] = xp.argmin(distances, axis=1)
        own = places[: distances.shape[0]], labels[rows]
        nearest[rows] = distances[own]
        distances[own] = math.inf
        next_nearest[rows] = xp.min(distances, axis=1)
    return labels, xp.sqrt(nearest), xp.sqrt(next_nearest)


def _members(labels: Array, points: Array, k: int) -> tuple[Array, Array]:
    """Return the number of points of every cluster, and their sums."""
    xp = namespace(points)
    n = points.shape[0]
    step = n if is_tensor(points) else max(1, _CACHED // k)
    numbers = placed(np.arange(k), points)
    counts, sums = placed(np.zeros(k), points), placed(np.zeros((k, points.shape[1])), points)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        members = xp.astype(labels[rows, None] == numbers, xp.float64)
        counts += xp.sum(members, axis=0)
        sums += inner(members, points[rows])
    return counts, sums
