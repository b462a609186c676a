"""Anchors by balanced hierarchical k-means (BKHK): the samples are halved by 2-means, recursively.

Nothing here is random, and no choice is made by position: the anchors are the same for every order of the samples. The
algorithm, `two_means`, is written once for groups of samples wherever these are; here they are in memory or on a
device.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..backend.arrays import Array, in_double, is_sparse, is_tensor, namespace, on_host, placed
from ..backend.linalg import kth_smallest, smallest
from ..backend.threads import parallel_ranges, run_ranges
from ..rows import row_blocks
from ._distances import DistanceBlocks, tie_margin

_EPS = np.finfo(np.float64).eps
_ROUNDS = 10
# Share of the largest value up to which two values tie: above what rounding the samples to single precision does.
TIE = 1e-6
# Numbers of a group of samples up to which its parts are split together: what the cache holds.
_TOGETHER = 2**16
# Rows of a group that one thread takes at least.
_ROWS = 4096
# Branches that the threads share.
_BRANCHES = 8

# Centres of the first and of the second sides, of every part of the samples: (groups, d) each.
Centres = tuple[list[Array], list[Array]]
_Branch = tuple[Array, NDArray[np.intp], int]


class Groups(Protocol):
    """Groups of samples that are split in two at the same time."""

    @property
    def sizes(self) -> Array:
        """Numbers of samples, (groups, 1)."""

    def sums(self) -> list[Array]:
        """Return the sums of the samples of every group, (groups, d) for every part."""

    def take_sides(self, centres: Centres, *, balanced: bool) -> tuple[bool, Array, list[Array]]:
        """Assign every sample to one of the two centres of its group: the nearer one, or to halves of equal size.

        Returns whether any sample changed sides, and the sizes (groups, 1) and sums of the first sides.
        """


def two_means(groups: Groups, *, balanced: bool, start: Centres | None = None) -> Centres:
    """Split every group in two by k-means; return the centres that decided the last assignment.

    Centres start at the mean and at the origin. At most ten rounds.
    """
    total, size = groups.sums(), groups.sizes
    centres = start or ([part / size for part in total], [0 * part for part in total])
    for _ in range(_ROUNDS):
        used = centres
        changed, count, inside = groups.take_sides(centres, balanced=balanced)
        if not changed:
            break
        outside = [(everyone - part) / (size - count) for everyone, part in zip(total, inside, strict=True)]
        centres = [part / count for part in inside], outside
    return used


def pairs_of(centres: Centres) -> list[Array]:
    """Return the two centres of every group, one below the other, as anchors."""
    xp = namespace(centres[0][0])
    return [xp.reshape(xp.stack(pair, axis=1), (-1, pair[0].shape[1])) for pair in zip(*centres, strict=True)]


def bkhk(parts: list[Any], depth: int, tie_values: Array) -> list[Array]:
    """Return 2^depth anchors of samples in memory or on a device.

    The samples are split into two balanced halves by 2-means, recursively; the last split of each branch is plain
    2-means, and its two centres are anchors.

    Parameters
    ----------
    parts : list of arrays (n, d_v)
        The samples, in parts that are thought of as concatenated; dense or CSR.
    depth : int
        At least 1; every last split needs two samples.
    tie_values : array of shape (n,)
        A function of the samples that decides between those as near to one centre as to the other.

    Returns
    -------
    list of arrays (2^depth, d_v)
        The anchors in the same parts, in an order that the data decide.
    """
    n = parts[0].shape[0]
    if depth < 1 or 2**depth > n:
        raise ValueError(f"{2**depth} anchors need at least as many samples, and 2 at least; there are {n}")
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


class _Tree:
    """Splits of the samples, and of their halves, and so on.

    A branch is a number of groups that are split together, of the same size or one less: the numbers of their members
    (groups, members), their sizes, and the levels of splits before them.
    """

    def __init__(self, parts: list[Any], tie_values: Array) -> None:
        self.parts, self.tie_values = parts, tie_values
        self.width = sum(part.shape[1] for part in parts)
        self.sparse = any(map(is_sparse, parts))
        # A device takes a level at once.
        self.whole_levels = is_tensor(tie_values)

    def groups(self, branch: _Branch) -> ArrayGroups:
        members, sizes, _ = branch
        return ArrayGroups([_members(part, members) for part in self.parts], self.tie_values[members], sizes)

    def halves(self, branch: _Branch) -> list[_Branch]:
        """Return the branches that a branch splits into: one, while its groups fit the cache."""
        groups = self.groups(branch)
        two_means(groups, balanced=True)
        members, sizes = _halves(branch[0], branch[1], groups.side)
        small = members.shape[0] * members.shape[1] * self.width <= _TOGETHER and not self.sparse
        if self.whole_levels or small:
            return [(members, sizes, branch[2] - 1)]
        return [(members[b : b + 1, : sizes[b]], sizes[b : b + 1], branch[2] - 1) for b in range(len(sizes))]

    def anchors(self, branch: _Branch) -> list[Array]:
        """Return the anchors of a branch."""
        if branch[2] == 1:
            return pairs_of(two_means(self.groups(branch), balanced=False))
        # Depth first, so that no more than one branch per thread is held beside the samples.
        pieces = [self.anchors(half) for half in self.halves(branch)]
        return [namespace(self.tie_values).concat(list(found)) for found in zip(*pieces, strict=True)]


class ArrayGroups:
    """Groups of samples as arrays, padded to the same number of members; implements `Groups`.

    Parameters
    ----------
    rows : list of arrays (groups, members, d_v), or CSR (members, d_v) of a single group
        The samples.
    ties : array of shape (groups, members)
        A function of the samples that breaks ties.
    sizes : ndarray of shape (groups,)
        How many of the members count.
    """

    def __init__(self, rows: list[Any], ties: Array, sizes: NDArray[np.intp]) -> None:
        self.rows, self.ties, self.counts = rows, ties, sizes
        self.sizes = placed(sizes[:, None].astype(np.float64), ties)
        self.side: Array = None

    def sums(self) -> list[Array]:
        """Return the sums of the samples of every group."""
        everyone = namespace(self.ties).astype(_present(self.counts, self.ties), namespace(self.ties).float64)
        return [_weighted_sum(everyone, part) for part in self.rows]

    def take_sides(self, centres: Centres, *, balanced: bool) -> tuple[bool, Array, list[Array]]:
        """Assign every sample to one of the two centres of its group."""
        xp = namespace(self.ties)
        nearness = xp.zeros_like(self.ties)
        for part, a, b in zip(self.rows, *centres, strict=True):
            nearness += 2 * _times(part, b - a) + xp.sum(a * a - b * b, axis=1, keepdims=True)
        side = (_smallest_half if balanced else _negative)(nearness, self.ties, self.counts)
        changed = self.side is None or not bool(xp.all(side == self.side))
        self.side = side
        if not changed:
            return False, self.sizes, []
        weights = xp.astype(side, xp.float64)
        return True, xp.sum(weights, axis=1, keepdims=True), [_weighted_sum(weights, part) for part in self.rows]


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
