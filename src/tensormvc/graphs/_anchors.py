"""Anchors by balanced hierarchical 2-means (BKHK), and the graph from samples to anchors.

Nothing here is random, and no choice is made by position: the anchors are the same for every order of the samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..backend import (
    Array,
    in_double,
    is_on_disk,
    is_sparse,
    is_tensor,
    kth_smallest,
    namespace,
    on_host,
    parallel_ranges,
    placed,
    run_ranges,
    smallest,
)
from ..rows import InMemory, row_blocks
from ._distances import DistanceBlocks, tie_margin
from ._halving import TIE, bkhk_of_rows

_ROUNDS = 10
_EPS = np.finfo(np.float64).eps
# Numbers of a group of samples up to which its parts are split together: what the cache holds.
_TOGETHER = 2**16
# Rows of a group that one thread takes at least.
_ROWS = 4096
# Branches that the threads share.
_BRANCHES = 8
_Branch = tuple[Array, NDArray[np.intp], int]


def bkhk(parts: list[Any], depth: int, tie_values: Array) -> list[Array]:
    """Return 2^depth anchors of the samples.

    The samples are split into two balanced halves by 2-means, recursively; the last split of each branch is
    plain 2-means, and its two centres are anchors.

    Parameters
    ----------
    parts : list of arrays (n, d_v)
        The samples, in parts that are thought of as concatenated; dense or CSR. If one is on disk, blocks of rows are
        looked at, one after the other.
    depth : int
        At least 1; every last split needs two samples.
    tie_values : array of shape (n,)
        What decides between samples that are as near to one centre as to the other; a function of the samples.

    Returns
    -------
    list of arrays (2^depth, d_v)
        One for each part, where it is, in an order that the data decide.
    """
    n = parts[0].shape[0]
    if depth < 1 or 2**depth > n:
        raise ValueError(f"{2**depth} anchors need at least as many samples, and 2 at least; there are {n}")
    if any(map(is_on_disk, parts)):
        rows = InMemory(tie_values)
        rows.hold(views=parts, ties=tie_values)
        return bkhk_of_rows(rows, list(range(len(parts))), depth)
    tree = _Tree([in_double(part) for part in parts], tie_values)
    branches = [(placed(np.arange(n)[None], tie_values), np.array([n]), depth)]
    # The first levels one after the other; then branches by all threads, unless they are a device's.
    while not tree.whole_levels and len(branches) < _BRANCHES and branches[0][2] > 1:
        branches = [half for branch in branches for half in tree.halves(branch)]
    found: list[Any] = [None] * len(branches)

    def work(start: int, stop: int) -> None:
        for i in range(start, stop):
            found[i] = tree.anchors(branches[i])

    if tree.whole_levels:
        work(0, 1)
    else:
        parallel_ranges(work, len(branches))
    return [namespace(tie_values).concat(list(pieces)) for pieces in zip(*found, strict=True)]


def anchors_of_rows(rows: Any, which: list[int], depth: int) -> list[Array]:
    """Return 2^depth anchors of some of the "views" that an executor holds, with its "ties", wherever they are."""
    if rows.distributed:
        return list(bkhk_of_rows(rows, which, depth))
    return bkhk([rows["views"][v] for v in which], depth, rows["ties"])


class _Tree:
    """Splits of the samples, and of the halves, and so on.

    A branch is a number of groups of samples that are split together, of the same size or one less: the numbers of
    their members (groups, members), their sizes, and the levels of splits that they have before them.
    """

    def __init__(self, parts: list[Any], tie_values: Array) -> None:
        self.parts, self.tie_values = parts, tie_values
        self.width = sum(part.shape[1] for part in parts)
        self.sparse = any(map(is_sparse, parts))
        # A device takes a level at once.
        self.whole_levels = is_tensor(tie_values)

    def split(self, branch: _Branch) -> tuple[Array, list[list[Array]]]:
        """Return who of the groups is on the first side, and the centres."""
        members, sizes, levels = branch
        rows = [_members(part, members) for part in self.parts]
        return _split(rows, self.tie_values[members], sizes, balanced=levels > 1)

    def halves(self, branch: _Branch) -> list[_Branch]:
        """Return the branches that a branch splits into: one, while its groups fit the cache."""
        members, sizes, levels = branch
        members, sizes = _halves(members, sizes, self.split(branch)[0])
        small = members.shape[0] * members.shape[1] * self.width <= _TOGETHER and not self.sparse
        if self.whole_levels or small:
            return [(members, sizes, levels - 1)]
        return [(members[b : b + 1, : sizes[b]], sizes[b : b + 1], levels - 1) for b in range(len(sizes))]

    def anchors(self, branch: _Branch) -> list[Array]:
        """Return the anchors of a branch, one array a part."""
        xp = namespace(self.tie_values)
        if branch[2] == 1:
            pairs = zip(*self.split(branch)[1], strict=True)
            return [xp.reshape(xp.stack(pair, axis=1), (-1, pair[0].shape[1])) for pair in pairs]
        # Depth first, so that no more than a branch of each thread is held beside the samples.
        pieces = [self.anchors(half) for half in self.halves(branch)]
        return [xp.concat(list(found)) for found in zip(*pieces, strict=True)]


def _members(part: Any, members: Array) -> Any:
    """Return the rows of groups of samples, (groups, members, d); of one group if the part is sparse."""
    if is_sparse(part):
        return part[members[0]]
    return part[None] if members.shape[1] == part.shape[0] else part[members]


def _halves(members: Array, sizes: NDArray[np.intp], first: Array) -> tuple[Array, NDArray[np.intp]]:
    """Return the groups of the first sides and of the others, one next to the other, in the order of the samples."""
    xp = namespace(members)
    b, s = members.shape
    # Behind the samples of a group that is one short stands one that does not count.
    last = xp.astype(~_present(sizes, first), xp.int8)
    ordered = xp.take_along_axis(
        members, xp.argsort(last * 2 + xp.astype(~first, xp.int8), axis=1, stable=True), axis=1
    )
    halves = np.column_stack([sizes // 2, sizes - sizes // 2])
    starts = np.column_stack([np.zeros(b, dtype=np.intp), halves[:, 0]])
    places = np.minimum(starts[:, :, None] + np.arange(halves.max()), s - 1).reshape(b, -1)
    return xp.reshape(xp.take_along_axis(ordered, placed(places, members), axis=1), (2 * b, -1)), halves.ravel()


def _present(sizes: NDArray[np.intp], like: Array) -> Array:
    """Mark the members of groups of these sizes, (groups, members)."""
    return placed(np.arange(like.shape[1]) < sizes[:, None], like)


def two_means(
    parts: list[Any], tie_values: Array, *, balanced: bool, start: list[list[Array]] | None = None
) -> tuple[Array, list[list[Array]]]:
    """Split samples in two; return who is on the first side, and the centres that decided it.

    The centres start at the mean and at the origin, unless others are given; ten rounds, or fewer once
    nothing moves.
    """
    rows = [part if is_sparse(part) else part[None] for part in parts]
    given = None if start is None else [[centre[None] for centre in side] for side in start]
    first, centres = _split(rows, tie_values[None], np.array([len(tie_values)]), balanced=balanced, start=given)
    return first[0], [[centre[0] for centre in side] for side in centres]


def _split(
    rows: list[Any],
    ties: Array,
    sizes: NDArray[np.intp],
    *,
    balanced: bool,
    start: list[list[Array]] | None = None,
) -> tuple[Array, list[list[Array]]]:
    """Split groups of samples in two each, as `two_means` does with one."""
    xp = namespace(ties)
    present = _present(sizes, ties)
    total_size = placed(sizes[:, None].astype(np.float64), ties)
    everyone = xp.astype(present, xp.float64)
    sums = [_weighted_sum(everyone, part) for part in rows]
    centres = start or [[total / total_size for total in sums], [xp.zeros_like(total) for total in sums]]
    first = None
    for _ in range(_ROUNDS):
        used = centres
        nearness = xp.zeros_like(ties)
        for part, a, b in zip(rows, *centres, strict=True):
            nearness += 2 * _times(part, b - a) + xp.sum(a * a - b * b, axis=1, keepdims=True)
        side = _smallest_half(nearness, ties, sizes) if balanced else _negative(nearness, ties, sizes)
        if first is not None and bool(xp.all(side == first)):
            break
        first = side
        weights = xp.astype(side, xp.float64)
        inside = [_weighted_sum(weights, part) for part in rows]
        size = xp.sum(weights, axis=1, keepdims=True)
        centres = [
            [total / size for total in inside],
            [(total - part) / (total_size - size) for total, part in zip(sums, inside, strict=True)],
        ]
    assert first is not None
    return first, used


def _times(part: Any, vectors: Array) -> Array:
    """Return the products of the rows of every group with its vector."""
    if is_sparse(part):
        return (part @ vectors[0])[None]
    if is_tensor(part) or len(part) > 1:
        return (part @ vectors[:, :, None])[:, :, 0]
    products = np.empty(part.shape[:2])

    def work(start: int, stop: int) -> None:
        np.matmul(part[0, start:stop], vectors[0], out=products[0, start:stop])

    parallel_ranges(work, part.shape[1], _ROWS)
    return products


def _weighted_sum(weights: Array, part: Any) -> Array:
    """Return the sums of the rows of every group with their weights."""
    if is_sparse(part):
        return np.asarray(weights[0] @ part)[None]
    if is_tensor(part):
        return (part * weights[:, :, None]).sum(1)  # a product with one row would keep a device's other cores idle
    if len(part) > 1:
        return (weights[:, None, :] @ part)[:, 0, :]
    blocks = list(row_blocks(part.shape[1]))
    sums = np.empty((len(blocks), part.shape[2]))

    def work(start: int, stop: int) -> None:
        for b in range(start, stop):
            np.matmul(weights[0, blocks[b]], part[0, blocks[b]], out=sums[b])

    parallel_ranges(work, len(blocks))
    return sums.sum(axis=0, keepdims=True)


def _smallest_half(values: Array, ties: Array, sizes: NDArray[np.intp]) -> Array:
    """Mark the ⌊size/2⌋ smallest values of every group."""
    half = sizes // 2
    values, margin = _comparable(values, sizes)
    edge = kth_smallest(values, placed(half - 1, values))
    side = values < edge - margin
    missing = half - on_host(namespace(side).sum(side, axis=1))
    return _mark(side, abs(values - edge) <= margin, ties, missing, True)


def _negative(values: Array, ties: Array, sizes: NDArray[np.intp]) -> Array:
    """Mark the values below zero; at least one of every group and not all of them."""
    xp = namespace(values)
    values, margin = _comparable(values, sizes)
    lowest = xp.min(values, axis=1, keepdims=True)
    side = values < -margin
    count = on_host(xp.sum(side, axis=1))
    if not count.all():
        side = _mark(side, values <= lowest + margin, ties, (count == 0).astype(np.intp), True)
    if (count == sizes).any():
        finite = xp.where(xp.isfinite(values), values, lowest)
        tied = xp.isfinite(values) & (values >= xp.max(finite, axis=1, keepdims=True) - margin)
        side = _mark(side, tied, ties, (count == sizes).astype(np.intp), False)
    return side


def _comparable(values: Array, sizes: NDArray[np.intp]) -> tuple[Array, Array]:
    """Return the values, infinite where a group has no sample, and the difference below which two count as equal."""
    xp = namespace(values)
    size = abs(values)
    if (sizes < values.shape[1]).any():
        present = _present(sizes, values)
        size = size * present
        values = xp.where(present, values, xp.full_like(values, np.inf))
    return values, TIE * xp.max(size, axis=1, keepdims=True)


def _mark(side: Array, tied: Array, ties: Array, count: NDArray[np.intp], mark: bool) -> Array:
    """Mark so many of the tied samples of every group, in the order of the tie values."""
    where = namespace(tied).nonzero(tied)
    values, (group, place) = on_host(ties[where]), map(on_host, where)
    order = np.lexsort((values, group))
    group, place = group[order], place[order]
    rank = np.arange(len(group)) - np.searchsorted(group, group)
    kept = rank < count[group]
    side[placed(group[kept], side), placed(place[kept], side)] = mark
    return side


def anchor_graph(parts: list[Any], anchors: list[Array], n_neighbors: int, scale: float | None = None) -> sp.csr_array:
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
    scale : float, optional
        Largest squared length of all samples and anchors, where these are not all of them.

    Returns
    -------
    csr_array of shape (n, k_a)
        n·k entries: 12 n·k bytes.
    """
    distances = DistanceBlocks(parts, [in_double(anchor) for anchor in anchors], scale)
    n, k_a = len(distances.squares), len(distances.other_squares)
    if not 1 <= n_neighbors < k_a:
        raise ValueError(f"n_neighbors={n_neighbors} must be at least 1 and less than the {k_a} anchors")
    columns = np.empty((n, n_neighbors), dtype=np.int32)
    weights = np.empty((n, n_neighbors))
    tied: dict[int, NDArray[np.intp]] = {}

    def work(start: int, stop: int) -> None:
        for lo in range(start, stop, distances.rows_at_once):
            hi = min(lo + distances.rows_at_once, stop)
            block = distances.block(lo, hi)
            near, which = smallest(block, n_neighbors + 1)
            edge = near[:, -1:]
            gaps = edge - near[:, :-1]
            weights[lo:hi] = on_host(gaps / (gaps.sum(1)[:, None] + _EPS))
            columns[lo:hi] = on_host(which[:, :-1])
            margin = tie_margin(edge[:, 0], distances.scale)
            for row in np.flatnonzero(on_host(gaps[:, 0] <= margin)).tolist():
                tied[lo + row] = np.flatnonzero(on_host(block[row] <= edge[row] + margin[row]))

    run_ranges(work, distances.squares, distances.rows_at_once)
    lengths = np.full(n, n_neighbors)
    values, where = weights.ravel(), columns.ravel()
    if tied:
        lengths[list(tied)] = [len(at) for at in tied.values()]
        kept = np.ones(n, dtype=bool)
        kept[list(tied)] = False
        entries = np.repeat(kept, lengths)
        given, given_at = weights[kept].ravel(), columns[kept].ravel()
        values, where = np.empty(len(entries)), np.empty(len(entries), dtype=np.int32)
        values[entries], where[entries] = given, given_at
        in_order = [tied[row] for row in sorted(tied)]
        values[~entries] = np.concatenate([np.full(len(at), 1 / len(at)) for at in in_order])
        where[~entries] = np.concatenate(in_order)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    graph = sp.csr_array((values, where, starts), shape=(n, k_a))
    graph.eliminate_zeros()
    graph.sort_indices()
    return graph
