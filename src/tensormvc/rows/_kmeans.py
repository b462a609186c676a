"""k-means whose result depends on the points and the seed alone: not on the order of the points, nor on threads.

scikit-learn's `KMeans` cannot replace it: its seeding draws by position, it has no starts shared with rows on disk,
devices and clusters, and `benchmarks/kmeans.py` shows what the distance bounds save.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..backend.arrays import Array, contiguous, in_double, is_tensor, namespace, on_host, placed
from ..backend.linalg import matmul_into, sum_of_squares, two_smallest
from ._memory import InMemory, RowArrays
from ._protocol import Rows, row_work
from ._random import Draw, SampleRandom, uniform

_MAX_ITER = 300
# Distances that are computed at a time: what the cache holds, and what a device may.
_CACHED = 2**17
_DEVICE_DISTANCES = 2**27
# Rounding of a distance, as a share of the longest point.
_UNCERTAIN = 1e-7


@dataclass
class KMeansRows(RowArrays):
    """Row arrays of k-means from r starts.

    Attributes
    ----------
    points : array of shape (n, d)
        The points.
    phases : array of shape (n, 8)
        Of which the random numbers of the points are made.
    squares : array of shape (n,)
        Squared lengths of the points.
    nearest : array of shape (n, r)
        While centres are drawn, squared distances to the nearest one so far.
    own : array of int of shape (n, r)
        Nearest centre of each start, counted through all starts.
    gap : array of shape (n, r)
        How much farther away the next nearest centre is, at least.
    labels : array of int of shape (n,)
        The result.
    """

    points: Array
    phases: Array
    squares: Array
    nearest: Array
    own: Array
    gap: Array
    labels: Array


def kmeans(
    points: Array, n_clusters: int, *, n_init: int, random: SampleRandom, centres: Array | None = None
) -> tuple[NDArray[np.intp], float]:
    """Cluster points by Lloyd's algorithm from several k-means++ starts; return the best labels and their inertia.

    Sums over points run in their order, so that the same points in the same order give the same labels whatever the
    number of threads. An emptied cluster restarts at the point that is farthest from its centre.

    Parameters
    ----------
    points : array of shape (n, d)
        The points, a NumPy array or a PyTorch tensor.
    n_clusters : int
        k, at most n.
    n_init : int
        Number of starts.
    random : SampleRandom
        Random numbers of the samples that the points stand for.
    centres : array of shape (n_starts, n_clusters, d), optional
        More starts, tried first.

    Returns
    -------
    labels : ndarray of shape (n,)
    inertia : float
        Sum of squared distances to the centres.
    """
    rows = InMemory(points)
    phases = random.rows
    assert isinstance(phases, InMemory)
    rows.hold(points=contiguous(in_double(points)), phases=phases["phases"])
    inertia = kmeans_of_rows(rows, n_clusters, n_init=n_init, random=random, centres=centres)
    return on_host(rows["labels"]).astype(np.intp, copy=False), inertia


def kmeans_of_rows(
    rows: Rows, n_clusters: int, *, n_init: int, random: SampleRandom, centres: Array | None = None
) -> float:
    """Cluster the "points" of rows that hold the "phases" of `random`, and add their "labels".

    All starts go through their rounds together. The other parameters, and the inertia returned, are those of `kmeans`.
    """
    tries = 2 + int(math.log(n_clusters))
    # One start after the other, so that the first ones do not depend on how many there are.
    drawn = [[random.draw(count) for count in [1] + [tries] * (n_clusters - 1)] for _ in range(n_init)]
    longest, d = rows.max(_measure)
    rows.create(squares=())
    rows.each(_square, 4 * (d + 2) * np.finfo(np.float64).eps * float(longest))
    starts = [] if centres is None else [in_double(centres)]
    if n_init:
        starts.append(_plus_plus(rows, drawn))
    starts = namespace(*starts).concat(starts)
    ends = _lloyd(rows, starts, _UNCERTAIN * math.sqrt(float(longest)))
    inertias = [float(value) for value in on_host(rows.sum(_inertia, ends))]
    best = 0
    for i, inertia in enumerate(inertias):
        # Starts that end in the same place differ by rounding: the first of them stays.
        if inertia < inertias[best] * (1 - 1e-10):
            best = i
    rows.create("int64", labels=())
    rows.each(_keep, best, n_clusters)
    rows.drop("squares", "own", "gap")
    return inertias[best]


@row_work(reads="points")
def _measure(rows: KMeansRows) -> list[Array]:
    """Return the largest squared length of a point, and how many coordinates points have."""
    squares = sum_of_squares(rows.points)
    return [namespace(squares).max(squares), rows.points.shape[1]]


@row_work(reads="points", sets="squares")
def _square(rows: KMeansRows, rounding: float) -> None:
    # No squared distance is negative, whatever the rounding.
    rows.squares[...] = sum_of_squares(rows.points) + rounding


def _squared_distances(rows: KMeansRows, centres: Array) -> Array:
    distances = rows.points @ (-2 * centres.T)
    distances += sum_of_squares(centres)
    distances += rows.squares[:, None]
    return distances


def _plus_plus(rows: Rows, drawn: list[list[Draw]]) -> Array:
    """Draw starts far from each other: of a few candidates each, the one that leaves the least distance.

    Returns the centres, (starts, k, d).
    """
    _, chosen = rows.reduce(_first, _earlier, Draw.together([draws[0] for draws in drawn]))
    xp = namespace(chosen)
    centres = [chosen]
    rows.create(nearest=(len(drawn),), value=math.inf)
    for step in range(1, len(drawn[0])):
        draw = Draw.together([draws[step] for draws in drawn])
        _, candidates = rows.wide(draw.shift.shape[0]).reduce(_candidates, _earlier, chosen, draw)
        left = rows.wide(draw.shift.shape[0]).sum(_left, candidates)
        candidates = xp.reshape(candidates, (*left.shape, -1))
        picks = xp.argmin(left, axis=1)
        chosen = xp.stack([candidates[r, int(pick)] for r, pick in enumerate(picks)])
        centres.append(chosen)
    rows.drop("nearest")
    return xp.stack(centres, axis=1)


def _earlier(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
    """Join arrival times and points: the earlier of each, the first of equal ones."""
    xp = namespace(one[0])
    sooner = other[0] < one[0]
    return xp.where(sooner, other[0], one[0]), xp.where(sooner[:, None], other[1], one[1])


@row_work(reads="points phases")
def _first(rows: KMeansRows, draw: Draw) -> tuple[Array, Array]:
    """Return the points with the smallest of their own numbers."""
    return _soonest(uniform(rows.phases, draw), rows.points)


@row_work(reads="points squares phases", writes="nearest")
def _candidates(rows: KMeansRows, chosen: Array, draw: Draw) -> tuple[Array, Array]:
    """Measure the distance to the centres last chosen of every start; draw candidates for the next."""
    nearest, numbers = rows.nearest, uniform(rows.phases, draw)
    xp = namespace(nearest)
    nearest[...] = xp.minimum(nearest, _squared_distances(rows, chosen))
    tries = numbers.shape[1] // nearest.shape[1]
    times = _arrivals(nearest[:, :, None], xp.reshape(numbers, (*nearest.shape, tries)))
    return _soonest(xp.reshape(times, numbers.shape), rows.points)


def _soonest(times: Array, points: Array) -> tuple[Array, Array]:
    xp = namespace(times)
    return xp.min(times, axis=0), points[xp.argmin(times, axis=0)]


def _arrivals(weights: Array, numbers: Array) -> Array:
    """Return times of which the earliest in each column is a draw with probability proportional to the weights.

    Exponential times, one per point (the Gumbel trick): the order of the points does not matter. Overwrites the
    numbers.
    """
    xp = namespace(weights)
    numbers *= -1
    numbers += 1
    times = xp.log(numbers)
    times *= -1 / xp.where(weights > 0, weights, xp.ones_like(weights))
    return xp.where(weights > 0, times, xp.full_like(times, math.inf))


@row_work(reads="points squares nearest")
def _left(rows: KMeansRows, candidates: Array) -> Array:
    """Return the sum of squared distances that every candidate would leave, (starts, tries)."""
    nearest = rows.nearest
    xp = namespace(nearest)
    distances = xp.reshape(_squared_distances(rows, candidates), (*nearest.shape, -1))
    return xp.sum(xp.minimum(distances, nearest[:, :, None]), axis=0)


def _lloyd(rows: Rows, centres: Array, slack: float) -> Array:
    """Run Lloyd's algorithm from every start; return the last centres, (starts, k, d).

    After the first round, distances are computed only where the moves of the centres could have used up the "gap" to
    the next nearest one (Hamerly's bound). Distances read off inner products are uncertain by `slack`.
    """
    xp = namespace(centres)
    n_starts, _, d = centres.shape
    rows.create("int64", own=(n_starts,))
    rows.create(gap=(n_starts,))
    active = list(range(n_starts))
    _, totals = rows.sum(_reassign, centres, None, slack)
    for _ in range(_MAX_ITER):
        # A copy: workers that are threads of this process still have the last ones.
        centres, spare = xp.asarray(centres, copy=True), set()
        for r, empty in np.argwhere(on_host(totals[:, :, d]) == 0).tolist():
            if r in active and _refill(rows, r, empty, totals[r], centres, slack):
                spare.add(r)
        before = xp.asarray(centres, copy=True)
        for r in active:
            centres[r] = totals[r, :, :d] / totals[r, :, d:]
        active = [r for r in active if r not in spare]
        if not active:
            break
        moves = xp.sqrt(xp.sum((centres - before) ** 2, axis=2))
        moves += xp.max(moves, axis=1)[:, None]
        # Finished starts are never in doubt.
        moves[[r for r in range(n_starts) if r not in active]] = -math.inf
        changed, more = rows.sum(_reassign, centres, xp.reshape(moves, (-1,)), slack)
        totals += more
        active = [r for r in active if changed[r]]
    return centres


def _refill(rows: Rows, r: int, empty: int, totals: Array, centres: Array, slack: float) -> bool:
    """Restart an empty cluster at the point farthest from its centre; return whether even that is at its centre.

    With fewer distinct points than clusters, some centres coincide.
    """
    _, k, d = centres.shape
    distance, old, where, point = rows.reduce(_farthest, _farther, r, centres[r], totals[:, d])
    totals[old, :d] -= point
    totals[empty, :d] = centres[r, empty] = point
    totals[old, d], totals[empty, d] = totals[old, d] - 1, 1
    rows.each(_move, r, where, r * k + empty)
    return bool(distance <= slack**2)


@row_work(reads="points own")
def _farthest(rows: KMeansRows, r: int, centres: Array, counts: Array) -> tuple[float, int, int, Array]:
    """Return the point, not alone in its cluster, farthest from its centre: distance, cluster, number, point."""
    own = rows.own[:, r] - r * centres.shape[0]
    xp = namespace(own)
    distances = sum_of_squares(rows.points - centres[own])
    distances = xp.where(counts[own] > 1, distances, -xp.ones_like(distances))
    where = int(xp.argmax(distances))
    return float(distances[where]), int(own[where]), rows.first + where, rows.points[where]


def _farther(one: tuple[float, int, int, Array], other: tuple[float, int, int, Array]) -> tuple[float, int, int, Array]:
    return other if other[0] > one[0] else one


@row_work(writes="own gap")
def _move(rows: KMeansRows, r: int, where: int, centre: int) -> None:
    if 0 <= where - rows.first < len(rows):
        rows.own[where - rows.first, r] = centre
        rows.gap[where - rows.first, r] = 0


@row_work(reads="points squares", writes="own gap")
def _reassign(rows: KMeansRows, centres: Array, moves: Array | None, slack: float) -> list[Array]:
    """Reassign the points that are in doubt after the moves of the centres; first, all points.

    Returns, for every start, how many points changed, and the changes of the sums and sizes of its clusters, (k, d +
    1).
    """
    points, squares, own, gap = rows.points, rows.squares, rows.own, rows.gap
    xp = namespace(points)
    n_starts, k, d = centres.shape
    if moves is None:
        doubtful = xp.ones_like(gap, dtype=xp.bool)
    else:
        gap -= moves[own]
        doubtful = gap <= slack
    # One start after the other.
    starts, samples = xp.nonzero(contiguous(doubtful.T))
    changed = np.zeros(n_starts, dtype=np.int64)
    factors, lengths = -2 * centres, xp.sum(centres**2, axis=2)
    totals = xp.concat([xp.zeros_like(centres), xp.zeros_like(lengths)[:, :, None]], axis=2)
    step = max(1, (_DEVICE_DISTANCES if is_tensor(points) else _CACHED) // k)
    for lo in range(0, samples.shape[0], step):
        which, sample = starts[lo : lo + step], samples[lo : lo + step]
        some = points[sample]
        distances = rows.room("distances", (k, some.shape[0]), some)
        for r, part in _stretches(which, n_starts):
            matmul_into(factors[r], some[part].T, distances[:, part])
            distances[:, part] += lengths[r][:, None]
        distances += squares[sample]
        nearest, label, next_nearest = two_smallest(distances)
        new, old = label + k * which, own[sample, which]
        own[sample, which] = new
        gap[sample, which] = xp.sqrt(next_nearest) - xp.sqrt(nearest)
        if moves is not None:
            moved = xp.nonzero(new != old)[0]
            some, which, label, old = some[moved], which[moved], label[moved], old[moved]
        # 1 where a point joins a cluster, −1 where it leaves one.
        members = rows.room("distances", (k, some.shape[0]), some)
        members[...] = 0
        order = placed(np.arange(some.shape[0]), some)
        members[label, order] = 1
        if moves is not None:
            members[old - k * which, order] = -1
        for r, part in _stretches(which, n_starts):
            totals[r, :, :d] += members[:, part] @ some[part]
            totals[r, :, d] += xp.sum(members[:, part], axis=1)
            changed[r] += part.stop - part.start
    return [changed, totals]


def _stretches(starts: Array, n_starts: int) -> Iterator[tuple[int, slice]]:
    """Yield the starts that occur in an ascending list of them, and where they do."""
    ends = namespace(starts).searchsorted(starts, placed(np.arange(n_starts + 1), starts))
    for r, (first, last) in enumerate(pairwise(on_host(ends).tolist())):
        if first < last:
            yield r, slice(first, last)


@row_work(reads="points own")
def _inertia(rows: KMeansRows, centres: Array) -> Array:
    xp = namespace(centres)
    flat = xp.reshape(centres, (-1, centres.shape[2]))
    return xp.stack([xp.sum(sum_of_squares(rows.points - flat[own])) for own in rows.own.T])


@row_work(reads="own", sets="labels")
def _keep(rows: KMeansRows, best: int, n_clusters: int) -> None:
    rows.labels[...] = rows.own[:, best] - best * n_clusters
