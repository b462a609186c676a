"""BKHK by passes over blocks of rows, for samples that are not all in memory: a level of the tree at a time.

The same splits as those of `_anchors.py`, to rounding. A round of 2-means looks at the samples twice: once for how much
nearer each is to the second centre of its group than to the first, once for the sums of the first sides. Between the
two, what separates the halves is found by counting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..backend import in_double, is_sparse
from ..rows import Part, gathered, row_work

_ROUNDS = 10
# Share of the largest value up to which two values tie: above what rounding the samples to single precision does.
TIE = 1e-6
# Bins, of all groups together, into which values are counted.
_BINS = 2**12
# Values that are looked at one by one.
_FEW = 2**16
_REFINEMENTS = 8
# Groups up to which products with the vectors of all of them are faster than with that of each sample's own.
_TOGETHER = 16


@dataclass(frozen=True)
class _Border:
    """What is on the first side: values below the threshold of their group, and single samples of those that tie."""

    threshold: NDArray[np.float64]
    marked: NDArray[np.intp]
    unmarked: NDArray[np.intp]


def bkhk_of_rows(rows: Any, which: list[int], depth: int) -> list[NDArray[np.float64]]:
    """Return 2^depth anchors of the samples as `bkhk` does.

    Memory: 25 bytes a sample. Where many samples tie, as duplicates do, up to 32 more for each of those.

    Parameters
    ----------
    rows : executor
        Of the samples; it holds "views", and "ties", which decide between samples that are as near to one centre as to
        the other.
    which : list of int
        The views to look at.
    depth : int
        At least 1; every last split needs two samples.
    """
    rows.full("group", dtype="int64")
    rows.full("side", dtype="bool")
    rows.full("nearness")
    sizes = np.array([rows.n_rows])
    for level in range(depth):
        _, centres = _split(rows, which, sizes, balanced=level < depth - 1)
        if level < depth - 1:
            rows.each(_descend)
            sizes = np.column_stack([sizes // 2, sizes - sizes // 2]).ravel()
    rows.drop("group", "side", "nearness")
    return [np.stack(pair, axis=1).reshape(2**depth, -1) for pair in zip(*centres, strict=True)]


def _split(
    rows: Any, which: list[int], sizes: NDArray[np.intp], *, balanced: bool
) -> tuple[NDArray[np.intp], list[list[NDArray[np.float64]]]]:
    """Split every group in two; return the sizes of the first sides, and the centres that decided it."""
    width = max(1, rows.total_width // 8)
    sums = rows.sum(_sums, which, len(sizes), width=width)
    centres = [[total / sizes[:, None] for total in sums], [np.zeros_like(total) for total in sums]]
    for round_ in range(_ROUNDS):
        used = centres
        difference = [b - a for a, b in zip(*centres, strict=True)]
        constant = np.sum([np.sum(a * a - b * b, axis=1) for a, b in zip(*centres, strict=True)], axis=0)
        extent = rows.reduce(_measure, _wider, which, difference, constant, width=width)
        border = _middle(rows, extent, sizes // 2) if balanced else _zero(rows, extent, sizes)
        changed, count, *inside = rows.sum(_take_sides, which, border, len(sizes), width=width)
        if round_ and not changed:
            break
        size = count[:, None]
        centres = [
            [total / size for total in inside],
            [(total - part) / (sizes[:, None] - size) for total, part in zip(sums, inside, strict=True)],
        ]
    return count, used


@row_work(reads="views group")
def _sums(rows: Part, which: list[int], n_groups: int) -> list[Any]:
    return _group_sums(rows, which, np.arange(len(rows)), n_groups)


def _group_sums(rows: Part, which: list[int], chosen: NDArray[np.intp], n_groups: int) -> list[Any]:
    """Return the sums of the chosen rows of every group."""
    views, group = rows.views, rows.group[chosen]
    starts = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=n_groups))])
    members = sp.csr_array(
        (np.ones(len(chosen)), chosen[np.argsort(group, kind="stable")], starts), shape=(n_groups, len(rows))
    )
    products = [members @ in_double(views[v]) for v in which]
    return [product.toarray() if is_sparse(product) else product for product in products]


@row_work(reads="views group", sets="nearness", exact=True)
def _measure(rows: Part, which: list[int], difference: list[Any], constant: Any) -> tuple[Any, Any]:
    """Set how much nearer each sample is to the second centre of its group; return the extent in every group."""
    views, group, nearness = rows.views, rows.group, rows.nearness
    nearness[...] = 0
    for v, towards in zip(which, difference, strict=True):
        view = in_double(views[v])
        if len(towards) <= _TOGETHER or is_sparse(view):
            nearness += (view @ towards.T)[np.arange(len(rows)), group]
        else:
            nearness += np.einsum("ij,ij->i", view, towards[group])
    nearness *= 2
    nearness += constant[group]
    low, high = np.full(len(constant), np.inf), np.full(len(constant), -np.inf)
    np.minimum.at(low, group, nearness)
    np.maximum.at(high, group, nearness)
    return low, high


def _wider(one: Any, other: Any) -> Any:
    return other if one is None else (np.minimum(one[0], other[0]), np.maximum(one[1], other[1]))


@row_work(reads="views group nearness", writes="side")
def _take_sides(rows: Part, which: list[int], border: _Border, n_groups: int) -> list[Any]:
    """Decide who is on the first side; return how many changed, and sizes and sums of the first sides."""
    group = rows.group
    side = rows.nearness < border.threshold[group]
    for places, mark in ((border.marked, True), (border.unmarked, False)):
        side[places[(places >= rows.first) & (places < rows.first + len(rows))] - rows.first] = mark
    changed = int(np.count_nonzero(side != rows.side))
    rows.side[...] = side
    count = np.bincount(group[side], minlength=n_groups)
    return [changed, count, *_group_sums(rows, which, np.flatnonzero(side), n_groups)]


@row_work(reads="side", writes="group")
def _descend(rows: Part) -> None:
    group = rows.group
    group *= 2
    group += ~rows.side


def _margin(extent: Any) -> NDArray[np.float64]:
    return np.asarray(TIE * np.maximum(np.abs(extent[0]), np.abs(extent[1])))


def _middle(rows: Any, extent: Any, half: NDArray[np.intp]) -> _Border:
    """Find what separates the `half` smallest values of every group from the others."""
    margin = _margin(extent)
    n_groups = len(half)
    low, high = extent[0].copy(), np.nextafter(extent[1], np.inf)
    below = np.zeros(n_groups, dtype=np.intp)
    n_bins = max(16, _BINS // n_groups)
    every = np.arange(n_groups)
    for _ in range(_REFINEMENTS if rows.n_rows > _FEW else 0):
        cuts = np.linspace(low, high, n_bins + 1, axis=1)
        cuts[:, 0], cuts[:, -1] = low, high
        counts = rows.sum(_histogram, cuts)
        upto = np.cumsum(counts, axis=1)
        bin_ = np.argmax(upto >= (half - below)[:, None], axis=1)
        below = below + upto[every, bin_] - counts[every, bin_]
        low, high = cuts[every, bin_], cuts[every, bin_ + 1]
        if counts[every, bin_].sum() <= _FEW or (high - low <= margin).all():
            break
    group, values, ties, places = rows.reduce(_window, gathered, low - margin, high + margin)
    order = np.lexsort((values, group))
    group, values, ties, places = group[order], values[order], ties[order], places[order]
    starts = np.searchsorted(group, every)
    # Those of the window that were counted as below it already.
    early = np.bincount(group[values < low[group]], minlength=n_groups)
    edge = values[starts + half - (below - early) - 1]
    under = values < (edge - margin)[group]
    missing = half - (below - early) - np.bincount(group[under], minlength=n_groups)
    tied = np.abs(values - edge[group]) <= margin[group]
    return _Border(edge - margin, _first_of(group[tied], ties[tied], places[tied], missing), np.empty(0, np.intp))


def _zero(rows: Any, extent: Any, sizes: NDArray[np.intp]) -> _Border:
    """Separate the values below zero: at least one of every group, and not all of them."""
    low, high = extent
    margin = _margin(extent)
    count = rows.sum(_count_below, -margin)
    none, all_ = count == 0, count == sizes
    marks = []
    for few, lower, upper in ((none, low, low + margin), (all_, high - margin, high)):
        if few.any():
            lower, upper = np.where(few, lower, np.inf), np.where(few, upper, -np.inf)
            group, _, ties, places = rows.reduce(_window, gathered, lower, upper)
            marks.append(_first_of(group, ties, places, few.astype(np.intp)))
        else:
            marks.append(np.empty(0, np.intp))
    return _Border(-margin, *marks)


def _first_of(
    group: NDArray[np.intp], ties: NDArray[np.float64], places: NDArray[np.intp], count: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return the places of so many samples of every group, in the order of the tie values."""
    order = np.lexsort((places, ties, group))
    group, places = group[order], places[order]
    rank = np.arange(len(group)) - np.searchsorted(group, group)
    return places[rank < count[group]]


@row_work(reads="group nearness", exact=True)
def _histogram(rows: Part, cuts: NDArray[np.float64]) -> NDArray[np.intp]:
    """Count the values between the cuts of their group."""
    group, values = rows.group, rows.nearness
    n_bins = cuts.shape[1] - 1
    chosen = np.flatnonzero((values >= cuts[group, 0]) & (values < cuts[group, -1]))
    group, values = group[chosen], values[chosen]
    low, width = cuts[group, 0], cuts[group, -1] - cuts[group, 0]
    bin_ = np.minimum(((values - low) / width * n_bins).astype(np.intp), n_bins - 1)
    # Rounding may have put a value beside its bin; what counts is the comparison.
    bin_ -= values < cuts[group, bin_]
    bin_ += values >= cuts[group, bin_ + 1]
    counts = np.bincount(group * n_bins + bin_, minlength=cuts.shape[0] * n_bins)
    return counts.reshape(-1, n_bins)


@row_work(reads="group nearness", exact=True)
def _count_below(rows: Part, threshold: NDArray[np.float64]) -> NDArray[np.intp]:
    group = rows.group
    return np.bincount(group[rows.nearness < threshold[group]], minlength=len(threshold))


@row_work(reads="group nearness ties", exact=True)
def _window(rows: Part, low: NDArray[np.float64], high: NDArray[np.float64]) -> list[Any]:
    """Return group, value, tie value and place of the samples whose values are between bounds."""
    group, values = rows.group, rows.nearness
    chosen = np.flatnonzero((values >= low[group]) & (values <= high[group]))
    return [group[chosen], values[chosen], rows.ties[chosen], chosen + rows.first]
