"""BKHK of samples that are not in memory, by passes over their rows: one level of the tree at a time.

A round of 2-means looks at the samples twice: once for how much nearer each is to the second centre of its group than
to the first, once for the sums of the first sides. In between, what separates the halves is found by counting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..backend.arrays import Array, in_double, is_sparse
from ..rows import RowArrays, Rows, row_work
from ._anchors import TIE, Centres, pairs_of, two_means

# Bins, of all groups together, into which values are counted.
_BINS = 2**12
# Values that are looked at one by one.
_FEW = 2**16
_REFINEMENTS = 8
# Groups up to which products with the vectors of all of them are faster than with that of each sample's own.
_TOGETHER = 16

_Extent = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass
class HalvingRows(RowArrays):
    """Row arrays of BKHK.

    Attributes
    ----------
    views : list of arrays (n, d_v)
        The samples.
    ties : array of shape (n,)
        A function of the samples that decides between those as near to one centre as to the other.
    group : array of int of shape (n,)
        Group that is split next.
    side : array of bool of shape (n,)
        Whether a sample is on the first side of its group.
    nearness : array of shape (n,)
        How much nearer a sample is to the second centre than to the first, as a difference of squared distances.
    """

    views: list[Array]
    ties: Array
    group: Array
    side: Array
    nearness: Array


@dataclass(frozen=True)
class _Border:
    """The first side: values below the threshold of their group, and some of the samples that tie with it."""

    threshold: NDArray[np.float64]
    marked: NDArray[np.intp]
    unmarked: NDArray[np.intp]


def bkhk_of_rows(rows: Rows, which: list[int], depth: int) -> list[Array]:
    """Return 2^depth anchors of the "views" `which` of rows that hold "ties", as `bkhk` does, to rounding."""
    rows.create("int64", group=())
    groups = RowGroups(rows, which, np.array([rows.n_rows]))
    for _ in range(depth - 1):
        two_means(groups, balanced=True)
        rows.each(_descend)
        groups = RowGroups(
            rows, which, np.column_stack([groups.counts // 2, groups.counts - groups.counts // 2]).ravel()
        )
    anchors = pairs_of(two_means(groups, balanced=False))
    rows.drop("group", "side", "nearness")
    return anchors


class RowGroups:
    """Groups of samples that rows tell apart; implements `Groups`.

    Parameters
    ----------
    rows : Rows
        They hold "views", "ties" and "group".
    which : list of int
        The views to look at.
    sizes : ndarray of shape (groups,)
        Numbers of samples.
    """

    def __init__(self, rows: Rows, which: list[int], sizes: NDArray[np.intp]) -> None:
        self.rows, self.which, self.counts = rows, which, sizes
        self.sizes = sizes[:, None]
        self._first_round = True
        rows.create("bool", side=())
        rows.create(nearness=())

    def sums(self) -> list[Array]:
        """Return the sums of the samples of every group."""
        return self.rows.sum(_sums, self.which, len(self.counts))

    def take_sides(self, centres: Centres, *, balanced: bool) -> tuple[bool, Array, list[Array]]:
        """Assign every sample to one of the two centres of its group."""
        difference = [b - a for a, b in zip(*centres, strict=True)]
        constant = np.sum([np.sum(a * a - b * b, axis=1) for a, b in zip(*centres, strict=True)], axis=0)
        extent = self.rows.reduce(_measure, _wider, self.which, difference, constant)
        border = (_middle if balanced else _zero)(self.rows, extent, self.counts)
        changed, count, *inside = self.rows.sum(_take_sides, self.which, border, len(self.counts))
        changed, self._first_round = bool(changed) or self._first_round, False
        return changed, count[:, None], inside


@row_work(reads="views group")
def _sums(rows: HalvingRows, which: list[int], n_groups: int) -> list[Array]:
    return _group_sums(rows, which, np.arange(len(rows)), n_groups)


def _group_sums(rows: HalvingRows, which: list[int], chosen: NDArray[np.intp], n_groups: int) -> list[Any]:
    """Return the sums of the chosen rows of every group."""
    views, group = rows.views, rows.group[chosen]
    starts = np.concatenate([[0], np.cumsum(np.bincount(group, minlength=n_groups))])
    members = sp.csr_array(
        (np.ones(len(chosen)), chosen[np.argsort(group, kind="stable")], starts), shape=(n_groups, len(rows))
    )
    products = [members @ in_double(views[v]) for v in which]
    return [product.toarray() if is_sparse(product) else product for product in products]


@row_work(reads="views group", sets="nearness", exact=True)
def _measure(rows: HalvingRows, which: list[int], difference: list[Array], constant: Array) -> _Extent:
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


def _wider(one: _Extent, other: _Extent) -> _Extent:
    return np.minimum(one[0], other[0]), np.maximum(one[1], other[1])


def _gathered(found: list[Array], more: list[Array]) -> list[Array]:
    return [np.concatenate(pair) for pair in zip(found, more, strict=True)]


@row_work(reads="views group nearness", writes="side")
def _take_sides(rows: HalvingRows, which: list[int], border: _Border, n_groups: int) -> list[Any]:
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
def _descend(rows: HalvingRows) -> None:
    group = rows.group
    group *= 2
    group += ~rows.side


def _margin(extent: _Extent) -> NDArray[np.float64]:
    return np.asarray(TIE * np.maximum(np.abs(extent[0]), np.abs(extent[1])))


def _middle(rows: Rows, extent: _Extent, sizes: NDArray[np.intp]) -> _Border:
    """Find what separates the smaller half of the values of every group from the others."""
    margin, half = _margin(extent), sizes // 2
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
    group, values, ties, places = rows.reduce(_window, _gathered, low - margin, high + margin)
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


def _zero(rows: Rows, extent: _Extent, sizes: NDArray[np.intp]) -> _Border:
    """Separate the values below zero: at least one of every group, and not all of them."""
    low, high = extent
    margin = _margin(extent)
    count = rows.sum(_count_below, -margin)
    none, all_ = count == 0, count == sizes
    marks = []
    for few, lower, upper in ((none, low, low + margin), (all_, high - margin, high)):
        if few.any():
            lower, upper = np.where(few, lower, np.inf), np.where(few, upper, -np.inf)
            group, _, ties, places = rows.reduce(_window, _gathered, lower, upper)
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
def _histogram(rows: HalvingRows, cuts: NDArray[np.float64]) -> NDArray[np.intp]:
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
def _count_below(rows: HalvingRows, threshold: NDArray[np.float64]) -> NDArray[np.intp]:
    group = rows.group
    return np.bincount(group[rows.nearness < threshold[group]], minlength=len(threshold))


@row_work(reads="group nearness ties", exact=True)
def _window(rows: HalvingRows, low: NDArray[np.float64], high: NDArray[np.float64]) -> list[Any]:
    """Return group, value, tie value and place of the samples whose values are between bounds."""
    group, values = rows.group, rows.nearness
    chosen = np.flatnonzero((values >= low[group]) & (values <= high[group]))
    return [group[chosen], values[chosen], rows.ties[chosen], chosen + rows.first]
