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
    matmul_into,
    namespace,
    on_host,
    placed,
    raise_to_zero,
    sum_of_squares,
)
from ._sample_random import Draw, SampleRandom, uniform

_MAX_ITER = 300
# Distances that are computed at a time: what the cache holds, and what a device may.
_CACHED = 2**16
_DEVICE_DISTANCES = 2**27
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

    All starts go through their rounds together: the points are looked at once a round. Memory: 24 bytes a point and
    start. The other parameters, and what is returned, are those of `kmeans`.
    """
    tries = 2 + int(math.log(n_clusters))
    # One start after the other, so that the first ones do not depend on how many there are.
    drawn = [[random.draw(count) for count in [1] + [tries] * (n_clusters - 1)] for _ in range(n_init)]
    rows.full("squares")
    longest = rows.max(_measure)
    starts = _plus_plus(rows, drawn)
    if centres is not None:
        starts = namespace(starts).concat([in_double(centres)[None], starts])
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


def _width(centres: Array) -> int:
    """Return what makes pieces of at most 32 MB: distances inside them are computed by smaller ones."""
    return max(1, int(centres.shape[2]) // 32)


def _squared_distances(points: Array, squares: Array, centres: Array) -> Array:
    distances = points @ (-2 * centres.T)
    distances += sum_of_squares(centres)
    distances += squares[:, None]
    return raise_to_zero(distances)


def _plus_plus(rows: Any, drawn: list[list[Draw]]) -> Array:
    """Draw starts far from each other: of a few candidates each, the one that leaves the least distance.

    Returns the centres, (starts, k, d).
    """
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
    return xp.stack(centres, axis=1)


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


def _lloyd(rows: Any, centres: Array, slack: float) -> Array:
    """Run Lloyd's rounds from every start to their end; return the last centres. "own" has the labels of all starts.

    After the first round, distances are computed only for points that bounds on them (Hamerly's) leave in doubt.
    Distances that are read off inner products are uncertain by `slack`.
    """
    xp = namespace(centres)
    n_starts = centres.shape[0]
    for name, dtype in (("own", "int64"), ("upper", "float64"), ("lower", "float64")):
        rows.full(name, n_starts, dtype=dtype)
    active = list(range(n_starts))
    _, counts, sums = rows.sum(_reassign, centres, None, active, slack, width=_width(centres))
    for _ in range(_MAX_ITER):
        # A copy: where workers are threads of this process, they have the last ones still.
        centres, spare = xp.asarray(centres, copy=True), set()
        for r, empty in np.argwhere(on_host(counts) == 0).tolist():
            if r in active and _refill(rows, r, empty, counts, sums, centres, slack):
                spare.add(r)
        before = xp.asarray(centres, copy=True)
        for r in active:
            centres[r] = sums[r] / counts[r][:, None]
        active = [r for r in active if r not in spare]
        if not active:
            break
        moves = xp.sqrt(xp.sum((centres - before) ** 2, axis=2))
        changed, joined, gained = rows.sum(_reassign, centres, moves, active, slack, width=_width(centres))
        where = placed(np.array(active), counts)
        counts[where] += joined
        sums[where] += gained
        active = [r for r, count in zip(active, on_host(changed).tolist(), strict=True) if count]
    return centres


def _refill(rows: Any, r: int, empty: int, counts: Array, sums: Array, centres: Array, slack: float) -> bool:
    """Restart an empty cluster at the point that is farthest from its centre; return whether that is at its centre.

    With fewer places than clusters, some stay at the place of others.
    """
    distance, old, where, point = rows.reduce(_farthest, _farther, r, centres[r], counts[r], width=_width(centres))
    counts[r, old], counts[r, empty] = counts[r, old] - 1, 1
    sums[r, old], sums[r, empty] = sums[r, old] - point, point
    centres[r, empty] = point
    rows.each(_move, r, where, empty)
    return bool(distance <= slack**2)


@row_work(reads="points own")
def _farthest(rows: Part, r: int, centres: Array, counts: Array) -> tuple[float, int, int, Array]:
    """Return the point, not alone in its cluster, that is farthest from its centre: how far, whose, which, itself."""
    own = rows.own[:, r]
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
        rows.own[where - rows.first, r] = cluster
        rows.upper[where - rows.first, r] = rows.lower[where - rows.first, r] = 0


@row_work(reads="points squares", writes="own upper lower")
def _reassign(rows: Part, centres: Array, moves: Array | None, active: list[int], slack: float) -> list[Array]:
    """Assign anew the points that are in doubt, in an active start, after the moves of the centres; first, all points.

    Returns, for every active start, how many changed, and how sizes and sums of the clusters did.
    """
    points, squares, own, upper, lower = rows.points, rows.squares, rows.own, rows.upper, rows.lower
    xp = namespace(points)
    n_starts, k = centres.shape[:2]
    if moves is None:
        doubtful = placed(np.arange(len(rows)), points)
    else:
        upper += xp.reshape(moves, (-1,))[own + placed(k * np.arange(n_starts), points)]
        lower -= xp.max(moves, axis=1)
        # Starts that are at their end are never in doubt.
        margin = np.full(n_starts, -math.inf)
        margin[active] = slack
        doubtful = xp.nonzero(xp.any(upper + placed(margin, points) >= lower, axis=1))[0]
    where = placed(np.array(active), points)
    chosen, n_centres = centres[where], len(active) * k
    changed = placed(np.zeros(len(active), dtype=np.int64), points)
    sizes, sums = xp.zeros_like(chosen[:, :, 0]), xp.zeros_like(chosen)
    step = max(1, (_DEVICE_DISTANCES if is_tensor(points) else _CACHED) // n_centres)
    for lo in range(0, doubtful.shape[0], step):
        some = doubtful[lo : lo + step]
        count = some.shape[0]
        here, room = points[some], rows.room("distances", (count, n_centres), points)
        new, nearest, next_nearest = _two_nearest(here, squares[some], chosen, room)
        entries = some[:, None], where
        old, own[entries] = own[entries], new
        upper[entries], lower[entries] = nearest, next_nearest
        # 1 where a point joins a cluster, −1 where it leaves one.
        members = xp.reshape(room, (-1,))
        members[...] = 0
        columns = placed(np.arange(0, count * n_centres, k), points).reshape(count, -1)
        members[columns + new] = 1
        if moves is not None:
            members[columns + old] -= 1
            changed += xp.sum(new != old, axis=0)
        members = xp.reshape(room, (count, n_centres))
        sizes += xp.reshape(xp.sum(members, axis=0), sizes.shape)
        sums += xp.reshape(inner(members, here), sums.shape)
    return [changed, sizes, sums]


@row_work(reads="points own")
def _inertia(rows: Part, centres: Array) -> Array:
    xp = namespace(rows.points)
    own = rows.own
    return xp.stack([xp.sum(sum_of_squares(rows.points - start[own[:, r]])) for r, start in enumerate(centres)])


@row_work(reads="own", sets="labels")
def _keep(rows: Part, best: int) -> None:
    rows.labels[...] = rows.own[:, best]


def _two_nearest(points: Array, squares: Array, centres: Array, room: Array) -> tuple[Array, Array, Array]:
    """Return, for every start, the nearest centre of every point, the distance to it, and that to the next.

    The `room` for the distances is spoilt.
    """
    xp = namespace(points)
    n_starts, k, d = centres.shape
    centres = xp.reshape(centres, (-1, d))
    # But for the points' own squares, which do not change what is nearest.
    distances = matmul_into(points, -2 * centres.T, room)
    distances += sum_of_squares(centres)
    distances = xp.reshape(distances, (-1, k))
    labels = xp.argmin(distances, axis=1)
    own = placed(np.arange(labels.shape[0]), points), labels
    nearest = distances[own]
    distances[own] = math.inf
    next_nearest = xp.min(distances, axis=1)
    shape = points.shape[0], n_starts
    lengths = [xp.sqrt(raise_to_zero(xp.reshape(found, shape) + squares[:, None])) for found in (nearest, next_nearest)]
    return xp.reshape(labels, shape), lengths[0], lengths[1]
