"""Anchors by balanced hierarchical 2-means (BKHK), and the graph from samples to anchors.

Nothing here is random, and no choice is made by position: the anchors are the same for every order of the samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._ops import parallel_ranges
from .._views import as_float64
from ._knn import DistanceBlocks, tie_margin

_ROUNDS = 10
# Share of the largest value up to which two values tie: above what rounding the samples to single precision does.
_TIE = 1e-6
_EPS = np.finfo(np.float64).eps


def bkhk(parts: list[Any], depth: int, tie_values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Return 2^depth anchors of the samples.

    The samples are split into two balanced halves by 2-means, recursively; the last split of each branch is
    plain 2-means, and its two centres are anchors.

    Parameters
    ----------
    parts : list of arrays (n, d_v)
        The samples, in parts that are thought of as concatenated; dense or CSR.
    depth : int
        At least 1; every last split needs two samples.
    tie_values : ndarray of shape (n,)
        What decides between samples that are as near to one centre as to the other; a function of the samples.

    Returns
    -------
    list of arrays (2^depth, d_v)
        One for each part, in an order that the data decide.
    """
    n = parts[0].shape[0]
    if depth < 1 or 2**depth > n:
        raise ValueError(f"{2**depth} anchors need at least as many samples, and 2 at least; there are {n}")
    anchors: list[list[NDArray[np.float64]]] = []
    # Depth first, so that at most one copy of the samples is held beside them.
    branches: list[tuple[list[Any], NDArray[np.float64], int]] = [(parts, tie_values, depth)]
    while branches:
        rows, ties, levels = branches.pop()
        first, centres = two_means(rows, ties, balanced=levels > 1)
        if levels == 1:
            anchors.extend(centres)
            continue
        for side in (~first, first):
            chosen = np.flatnonzero(side)
            branches.append(([part[chosen] for part in rows], ties[chosen], levels - 1))
    return [np.stack([anchor[v] for anchor in anchors]) for v in range(len(parts))]


def two_means(
    parts: list[Any],
    tie_values: NDArray[np.float64],
    *,
    balanced: bool,
    start: list[list[NDArray[np.float64]]] | None = None,
) -> tuple[NDArray[np.bool_], list[list[NDArray[np.float64]]]]:
    """Split samples in two; return who is on the first side, and the centres that decided it.

    The centres start at the mean and at the origin, unless others are given; ten rounds, or fewer once
    nothing moves.
    """
    n = parts[0].shape[0]
    sums = [_weighted_sum(np.ones(n, dtype=part.dtype), part) for part in parts]
    centres = start or [[total / n for total in sums], [np.zeros_like(total) for total in sums]]
    first = None
    for _ in range(_ROUNDS):
        used = centres
        difference = [b - a for a, b in zip(*centres, strict=True)]
        offset = sum(float(a @ a - b @ b) for a, b in zip(*centres, strict=True))
        nearness = np.full(n, offset)
        for part, delta in zip(parts, difference, strict=True):
            nearness += 2 * _times(part, delta)
        side = _smallest_half(nearness, tie_values) if balanced else _negative(nearness, tie_values)
        if first is not None and np.array_equal(side, first):
            break
        first = side
        inside = [_weighted_sum(side.astype(part.dtype), part) for part in parts]
        size = int(side.sum())
        centres = [
            [total / size for total in inside],
            [(total - part) / (n - size) for total, part in zip(sums, inside, strict=True)],
        ]
    assert first is not None
    return first, used


def _times(part: Any, vector: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(part @ vector.astype(part.dtype), dtype=np.float64)


def _weighted_sum(weights: NDArray[Any], part: Any) -> NDArray[np.float64]:
    return np.asarray(weights @ part, dtype=np.float64)


def _smallest_half(values: NDArray[np.float64], tie_values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mark the ⌊n/2⌋ smallest values."""
    half = len(values) // 2
    edge = float(np.partition(values, half - 1)[half - 1])
    chosen: NDArray[np.bool_] = values < edge - _margin(values)
    chosen[_tied(values, edge, tie_values)[: half - int(chosen.sum())]] = True
    return chosen


def _negative(values: NDArray[np.float64], tie_values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mark the values below zero; at least one and not all of them."""
    side: NDArray[np.bool_] = values < -_margin(values)
    if not side.any():
        side[_tied(values, float(values.min()), tie_values)[0]] = True
    elif side.all():
        side[_tied(values, float(values.max()), tie_values)[0]] = False
    return side


def _margin(values: NDArray[np.float64]) -> float:
    """Return the difference below which two values count as equal."""
    return _TIE * float(np.max(np.abs(values)))


def _tied(values: NDArray[np.float64], edge: float, tie_values: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return where the values tie with `edge`, in the order of the tie values."""
    tied = np.flatnonzero(np.abs(values - edge) <= _margin(values))
    return tied[np.argsort(tie_values[tied], kind="stable")]


def anchor_graph(parts: list[Any], anchors: list[NDArray[np.float64]], n_neighbors: int) -> sp.csr_array:
    """Return the graph from samples to their nearest anchors; every row sums to 1.

    With the squared distances d of a sample to the anchors in ascending order, the weight of each of the k
    nearest is ``(d_{k+1} − d) / (k d_{k+1} − d_1 − … − d_k)``. A sample that is equally far from all k + 1 has
    equal weights on all anchors at that distance.

    Parameters
    ----------
    parts : list of arrays (n, d_v)
        The samples, in parts that are thought of as concatenated; dense or CSR.
    anchors : list of arrays (k_a, d_v)
        The anchors in the same parts.
    n_neighbors : int
        k, at least 1 and less than k_a.

    Returns
    -------
    csr_array of shape (n, k_a)
        n·k entries: 12 n·k bytes.
    """
    distances = DistanceBlocks(parts, [as_float64(anchor) for anchor in anchors])
    n, k_a = len(distances.squares), len(distances.other_squares)
    if not 1 <= n_neighbors < k_a:
        raise ValueError(f"n_neighbors={n_neighbors} must be at least 1 and less than the {k_a} anchors")
    nearest = np.empty((n, n_neighbors), dtype=np.int32)
    weights = np.empty((n, n_neighbors))
    tied: dict[int, NDArray[np.intp]] = {}

    def work(start: int, stop: int) -> None:
        for lo in range(start, stop, distances.rows_at_once):
            hi = min(lo + distances.rows_at_once, stop)
            block = distances.block(lo, hi)
            order = np.argpartition(block, n_neighbors, axis=1)[:, : n_neighbors + 1]
            near = np.take_along_axis(block, order, axis=1)
            ranks = np.argsort(near, axis=1, kind="stable")
            near = np.take_along_axis(near, ranks, axis=1)
            edge = near[:, -1:]
            gaps = edge - near[:, :-1]
            weights[lo:hi] = gaps / (gaps.sum(axis=1, keepdims=True) + _EPS)
            nearest[lo:hi] = np.take_along_axis(order, ranks[:, :-1], axis=1)
            margin = tie_margin(edge[:, 0], distances.scale)
            for row in np.flatnonzero(gaps[:, 0] <= margin):
                tied[lo + int(row)] = np.flatnonzero(block[row] <= edge[row] + margin[row])

    parallel_ranges(work, n, distances.rows_at_once)
    rows = np.repeat(np.arange(n), n_neighbors)
    columns, values = nearest.ravel().astype(np.intp), weights.ravel()
    if tied:
        kept = ~np.isin(rows, list(tied))
        lengths = [len(at) for at in tied.values()]
        rows = np.concatenate([rows[kept], np.repeat(list(tied), lengths)])
        columns = np.concatenate([columns[kept], *tied.values()])
        values = np.concatenate([values[kept], np.repeat([1 / length for length in lengths], lengths)])
    graph = sp.csr_array((values, (rows, columns)), shape=(n, k_a))
    graph.eliminate_zeros()
    graph.sort_indices()
    return graph
