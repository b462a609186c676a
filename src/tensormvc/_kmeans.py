"""k-means whose result depends on the points and the seed alone: not on their order, nor on threads."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._executors import InMemory, Part, row_work
from ._ops import (
    Array,
    contiguous,
    in_double,
    inner,
    is_tensor,
    namespace,
    on_host,
    placed,
    raise_to_zero,
    sum_of_squares,
)
from ._sample_random import Draw, SampleRandom, uniform

_MAX_ITER = 300
# Distances that are computed at a time: what the cache holds.
_CACHED = 2**15
# Rounding of a distance, as a share of the longest point.
_UNCERTAIN = 1e-7


def kmeans(
    points: Any, n_clusters: int, *, n_init: int, random: SampleRandom, centres: Any = None
) -> tuple[NDArray[np.intp], float]:
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
    centres : array of shape (n_clusters, d), optional
        One more start, tried first.

    Returns
    -------
    labels : ndarray of shape (n,)
    inertia : float
        Sum of squared distances to the centres.
    """
    rows = InMemory(points)
    rows.hold(points=contiguous(in_double(points)), phases=random.rows["phases"])
    inertia = kmeans_of_rows(rows, n_clusters, n_init=n_init, random=random, centres=centres)
    return on_host(rows["labels"]).astype(np.intp, copy=False), inertia


def kmeans_of_rows(rows: Any, n_clusters: int, *, n_init: int, random: SampleRandom, centres: Any = None) -> float:
    """Cluster the rows of "points" as `kmeans` does, with the "phases" of `random`; their "labels" join them.

    All starts go through their rounds together: the points are looked at once a round.
    """
    tries = 2 + int(math.log(n_clusters))
    # One start after the other, so that the first ones do not depend on how many there are.
    drawn = [[random.draw(count) for count in [1] + [tries] * (n_clusters - 1)] for _ in range(n_init)]
    rows.full("squares")
    longest = rows.max(_measure)
    starts = _plus_plus(rows, drawn)
    if centres is not None:
        starts.insert(0, in_double(centres))
    ends = _lloyd(rows, starts, _UNCERTAIN * math.sqrt(float(longest)))
    inertias = [float(value) for value in on_host(rows.sum(_inertia, ends, width=_width(ends)))]
    best = 0
    for i, inertia in enumerate(inertias):
        # Starts that end in the same place differ by rounding: the first of them stays.
        if inertia < inertias[best] * (1 - 1e-10):
            best = i
    rows.full("labels", dtype="int64")
    rows.each(_keep, best)
    rows.drop("squares", "own", "upper", "lower")
    return inertias[best]


@row_work(reads="points", sets="squares")
def _measure(rows: Part) -> Array:
    rows.squares[...] = sum_of_squares(rows.points)
    return namespace(rows.squares).max(rows.squares)


def _width(centres: list[Array]) -> int:
    """Return what makes pieces of a few megabytes: distances inside them are computed by smaller ones."""
    return max(1, int(centres[0].shape[1]) // 32)


def _squared_distances(points: Array, squares: Array, centres: Array) -> Array:
    distances = points @ (-2 * centres.T)
    distances += sum_of_squares(centres)
    distances += squares[:, None]
    return raise_to_zero(distances)


def _plus_plus(rows: Any, drawn: list[list[Draw]]) -> list[Array]:
    """Draw starts far from each other: of a few candidates each, the one that leaves the least distance."""
    _, chosen = rows.reduce(_first, _earlier, Draw.together([draws[0] for draws in drawn]))
    xp = namespace(chosen)
    centres = [chosen]
    rows.full("nearest", len(drawn), value=math.inf)
    for step in range(1, len(drawn[0])):
        draw = Draw.together([draws[step] for draws in drawn])
        _, candidates = rows.reduce(_candidates, _earlier, chosen, draw, width=draw.shift.shape[0])
        left = rows.sum(_left, candidates, width=draw.shift.shape[0])
        candidates = xp.reshape(candidates, (*left.shape, -1))
        picks = xp.argmin(left, axis=1)
        chosen = xp.stack([candidates[r, int(pick)] for r, pick in enumerate(picks)])
        centres.append(chosen)
    rows.drop("nearest")
    return [xp.stack([chosen[r] for chosen in centres]) for r in range(len(drawn))]


def _earlier(one: Any, other: Any) -> Any:
    """Join arrival times and who arrives: the earlier of each, the first of those that are equal."""
    if one is None:
        return other
    xp = namespace(one[0])
    sooner = other[0] < one[0]
    return xp.where(sooner, other[0], one[0]), xp.where(sooner[:, None], other[1], one[1])


@row_work(reads="points phases")
def _first(rows: Part, draw: Draw) -> tuple[Array, Array]:
    """Return the points with the smallest of their own numbers."""
    return _soonest(uniform(rows.phases, draw), rows.points)


@row_work(reads="points squares phases", writes="nearest")
def _candidates(rows: Part, chosen: Array, draw: Draw) -> tuple[Array, Array]:
    """Measure the distance to the centres last chosen of every start; draw candidates for the next."""
    nearest, numbers = rows.nearest, uniform(rows.phases, draw)
    xp = namespace(nearest)
    nearest[...] = xp.minimum(nearest, _squared_distances(rows.points, rows.squares, chosen))
    tries = numbers.shape[1] // nearest.shape[1]
    return _soonest(_arrivals(xp.repeat(nearest, tries, axis=1), numbers), rows.points)


def _soonest(times: Array, points: Array) -> tuple[Array, Array]:
    xp = namespace(times)
    return xp.min(times, axis=0), points[xp.argmin(times, axis=0)]


def _arrivals(weights: Array, numbers: Array) -> Array:
    """Return the times of a race that each column wins a point with a probability in proportion to its weight.

    Times are exponential, of which each point has its own: no order of the points enters.
    """
    xp = namespace(weights)
    times = -xp.log1p(-numbers)
    times /= xp.where(weights > 0, weights, xp.ones_like(weights))
    times[weights == 0] = math.inf
    return times


@row_work(reads="points squares nearest")
def _left(rows: Part, candidates: Array) -> Array:
    """Return the sum of squared distances that every candidate would leave, (starts, tries)."""
    nearest = rows.nearest
    xp = namespace(nearest)
    distances = _squared_distances(rows.points, rows.squares, candidates)
    distances = xp.reshape(distances, (*nearest.shape, -1))
    return xp.sum(xp.minimum(distances, nearest[:, :, None]), axis=0)


def _lloyd(rows: Any, centres: list[Array], slack: float) -> list[Array]:
    """Run Lloyd's rounds from every start to their end; return the last centres. The labels are left in "own".

    After the first round, distances are computed only for points that bounds on them (Hamerly's) leave in doubt.
    Distances that are read off inner products are uncertain by `slack`.
    """
    xp = namespace(centres[0])
    for name, dtype in (("own", "int64"), ("upper", "float64"), ("lower", "float64")):
        rows.full_list(name, len(centres), dtype=dtype)
    totals = rows.sum(_assign, centres, width=_width(centres))
    active = list(range(len(centres)))
    centres = list(centres)
    for _ in range(_MAX_ITER):
        moves: list[Array | None] = [None] * len(centres)
        for r in active:
            spare = False
            for empty in np.flatnonzero(on_host(totals[r][0]) == 0).tolist():
                spare = _refill(rows, r, empty, totals[r], centres, slack) or spare
            counts, sums = totals[r]
            before, centres[r] = centres[r], sums / counts[:, None]
            if not spare:
                moves[r] = xp.sqrt(sum_of_squares(centres[r] - before))
        active = [r for r in active if moves[r] is not None]
        if not active:
            break
        changes = rows.sum(_reassign, centres, moves, slack, width=_width(centres))
        for r in active:
            totals[r] = [totals[r][0] + changes[r][1], totals[r][1] + changes[r][2]]
        active = [r for r in active if int(changes[r][0])]
    return centres


def _refill(rows: Any, r: int, empty: int, totals: list[Array], centres: list[Array], slack: float) -> bool:
    """Restart an empty cluster at the point that is farthest from its centre; return whether that is at its centre.

    With fewer places than clusters, some stay at the place of others.
    """
    counts, sums = totals
    distance, old, where, point = rows.reduce(_farthest, _farther, r, centres[r], counts, width=_width(centres))
    counts[old], counts[empty] = counts[old] - 1, 1
    sums[old], sums[empty] = sums[old] - point, point
    centres[r] = namespace(sums).asarray(centres[r], copy=True)
    centres[r][empty] = point
    rows.each(_move, r, where, empty)
    return bool(distance <= slack**2)


@row_work(reads="points own")
def _farthest(rows: Part, r: int, centres: Array, counts: Array) -> tuple[float, int, int, Array]:
    """Return the point, not alone in its cluster, that is farthest from its centre: how far, whose, which, itself."""
    own = rows.own[r]
    xp = namespace(own)
    distances = sum_of_squares(rows.points - centres[own])
    distances = xp.where(counts[own] > 1, distances, -xp.ones_like(distances))
    where = int(xp.argmax(distances))
    return float(distances[where]), int(own[where]), rows.first + where, rows.points[where]


def _farther(one: Any, other: Any) -> Any:
    return other if one is None or other[0] > one[0] else one


@row_work(writes="own upper lower")
def _move(rows: Part, r: int, where: int, cluster: int) -> None:
    if 0 <= where - rows.first < len(rows):
        rows.own[r][where - rows.first] = cluster
        rows.upper[r][where - rows.first] = rows.lower[r][where - rows.first] = 0


@row_work(reads="points squares", sets="own upper lower")
def _assign(rows: Part, centres: list[Array]) -> list[list[Array]]:
    """Assign every point to its nearest centre; return sizes and sums of the clusters, of every start."""
    points, squares, totals = rows.points, rows.squares, []
    for start, own, upper, lower in zip(centres, rows.own, rows.upper, rows.lower, strict=True):
        own[...], upper[...], lower[...] = _two_nearest(points, squares, start)
        totals.append(_members(own, points, start.shape[0]))
    return totals


@row_work(reads="points squares", writes="own upper lower")
def _reassign(rows: Part, centres: list[Array], moves: list[Array | None], slack: float) -> list[list[Any]]:
    """Assign anew the points that are in doubt after the moves of the centres.

    Returns, for every start, how many changed, and how sizes and sums of the clusters did. Where there are no moves, a
    start is at its end.
    """
    points, squares, changes = rows.points, rows.squares, []
    xp = namespace(points)
    for start, moved, own, upper, lower in zip(centres, moves, rows.own, rows.upper, rows.lower, strict=True):
        changes.append([0, xp.zeros_like(start[:, 0]), xp.zeros_like(start)])
        if moved is None:
            continue
        upper += moved[own]
        lower -= xp.max(moved)
        doubtful = xp.nonzero(upper + slack >= lower)[0]
        if doubtful.shape[0] == 0:
            continue
        old = own[doubtful]
        new, upper[doubtful], lower[doubtful] = _two_nearest(points[doubtful], squares[doubtful], start)
        changed = xp.nonzero(new != old)[0]
        if changed.shape[0] == 0:
            continue
        doubtful, old, new = doubtful[changed], old[changed], new[changed]
        own[doubtful] = new
        (joined, gains), (left, losses) = (_members(which, points[doubtful], start.shape[0]) for which in (new, old))
        changes[-1] = [int(changed.shape[0]), joined - left, gains - losses]
    return changes


@row_work(reads="points own")
def _inertia(rows: Part, centres: list[Array]) -> Array:
    xp = namespace(rows.points)
    each = zip(centres, rows.own, strict=True)
    return xp.stack([xp.sum(sum_of_squares(rows.points - start[own])) for start, own in each])


@row_work(reads="own", sets="labels")
def _keep(rows: Part, best: int) -> None:
    rows.labels[...] = rows.own[best]


def _two_nearest(points: Array, squares: Array, centres: Array) -> tuple[Array, Array, Array]:
    """Return the nearest centre of every point, the distance to it, and that to the next."""
    xp = namespace(points)
    n, k = points.shape[0], centres.shape[0]
    step = n if is_tensor(points) else max(1, _CACHED // k)
    labels = placed(np.zeros(n, dtype=np.int64), points)
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


def _members(labels: Array, points: Array, k: int) -> list[Array]:
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
    return [counts, sums]
