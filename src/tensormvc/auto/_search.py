"""The nearest landmarks of samples, in every view and in all views together, from one pass over their products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backend.arrays import is_sparse
from ..backend.threads import cached_property, parallel_ranges
from ..graphs._distances import pair_squares, row_squares, tie_margin
from ..graphs._fuzzy import Neighbours, find_neighbours

# Samples that are compared with all landmarks at a time: what the cache holds.
_TILE = 128
# The smallest of so many groups of distances bound the smallest of all.
_GROUPS = 160
# Squared lengths beyond those of the landmarks.
_FAR_OUT = 4
# Errors beyond this are not computed with.
_FAR = 1e25


@dataclass(frozen=True, eq=False)
class LandmarkView:
    """The landmarks in one view, with what every search among them needs.

    Attributes
    ----------
    values : array or CSR of shape (n_landmarks, d)
        The landmarks, scaled.
    lacking : ndarray of bool of shape (n_landmarks,)
        Which landmarks lack the view: they are no neighbours there, nor in several views together.
    """

    values: Any
    lacking: NDArray[np.bool_]

    @cached_property
    def squares(self) -> NDArray[np.float64]:
        """Squared lengths of the landmarks."""
        return np.asarray(row_squares(self.values))

    @cached_property
    def centre(self) -> NDArray[np.float64]:
        """Mean of the landmarks."""
        return np.asarray(self.values.mean(axis=0))

    @cached_property
    def factor(self) -> tuple[NDArray[np.float32], float]:
        """What centred samples, times −2, and ones are multiplied by, (d + 1, n_landmarks), and the largest length."""
        centred = self.values - self.centre
        squares = row_squares(centred)
        factor = np.empty((centred.shape[1] + 1, len(centred)), dtype=np.float32)
        factor[:-1], factor[-1] = centred.T, np.where(self.lacking, np.inf, squares)
        return factor, float(np.sqrt(squares.max()))

    def among(self, able: NDArray[np.intp], root: float) -> Any:
        """Return some of the landmarks, multiplied by a number."""
        values = self.values if len(able) == len(self.lacking) else self.values[able]
        return values if root == 1 else values * root


def nearest_landmarks(
    samples: list[Any], landmarks: list[LandmarkView], weights: NDArray[np.float64], count: int
) -> list[Neighbours]:
    """Return the nearest landmarks of samples in each view, and in all views together if there are several.

    The joint squared distance is the weighted sum of those of the views. All products of samples and landmarks are
    computed once, for both. They decide on a few candidates, whose distances are computed pair by pair, so that a
    sample gets what it gets alone.

    Parameters
    ----------
    samples : list of arrays (n, d_v)
        Samples that have all of these views, dense or CSR.
    landmarks : list of LandmarkView
        The landmarks in these views.
    weights : ndarray of shape (m,)
        Weights of the views.
    count : int
        Number of neighbours; fewer, where fewer landmarks have the views.

    Returns
    -------
    list of Neighbours
        For each view, and for all views together. Lists are empty where no landmark has all views.
    """
    pairs = [_Pairs([own], [others], np.ones(1)) for own, others in zip(samples, landmarks, strict=True)]
    if len(samples) > 1:
        pairs.append(_Pairs(samples, landmarks, weights))
    if any(map(is_sparse, samples)):
        return [_searched(pair, count) for pair in pairs]
    finds = _candidates(samples, landmarks, weights, count)
    return [_chosen(pair, find, count) for pair, find in zip(pairs, finds, strict=False)]


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Samples and landmarks in one view, or in several with weights."""

    samples: list[Any]
    landmarks: list[LandmarkView]
    weights: NDArray[np.float64]

    def __len__(self) -> int:
        return int(self.samples[0].shape[0])

    @cached_property
    def able(self) -> NDArray[np.intp]:
        """The landmarks that have all of these views."""
        return np.flatnonzero(~np.any([view.lacking for view in self.landmarks], axis=0))

    @cached_property
    def scale(self) -> float:
        """Squared length of the longest landmark, by which ties are judged."""
        squares = sum(w * view.squares for w, view in zip(self.weights, self.landmarks, strict=True))
        return float(max(np.max(squares), np.finfo(np.float64).tiny))

    def squares(self, rows: NDArray[np.intp], indices: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the squared distances of pairs of samples and landmarks, each as if it were the only one."""
        squares = np.zeros(len(rows))
        for own, others, weight in zip(self.samples, self.landmarks, self.weights, strict=True):
            squares += weight * pair_squares(own, others.values, rows, indices)
        return squares

    def lists(self, rows: NDArray[np.intp], indices: NDArray[np.intp], squares: NDArray[np.float64]) -> Neighbours:
        """Return the neighbours of each sample, nearest first."""
        order = np.lexsort((indices, squares, rows))
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(self)))]).astype(np.intp)
        return Neighbours(starts, indices[order], squares[order], len(self.landmarks[0].lacking), self.scale)


@dataclass(frozen=True, eq=False)
class _Find:
    """A search for candidates in one view, or in all.

    Attributes
    ----------
    factor, terms, errors : float, ndarrays of shape (n,)
        What the squared distances of each sample are multiplied by, what is missing from them then, and how far off
        they may be.
    complete : bool
        Whether all landmarks are candidates.
    indices : ndarray of int of shape (n, count)
        Landmarks near each sample.
    bound : ndarray of shape (n,)
        All others are at least at this squared distance.
    """

    factor: float
    terms: NDArray[np.float64]
    errors: NDArray[np.float64]
    complete: bool
    indices: NDArray[np.intp]
    bound: NDArray[np.float64]

    @staticmethod
    def among(able: NDArray[np.bool_], count: int, factor: float, terms: Any, errors: Any) -> _Find:
        """Return a search among the landmarks that are able: enough of them to tell which tie with the last."""
        width = min(2 * count + 2, int(able.sum()))
        indices = np.empty((len(terms), width), dtype=np.intp)
        return _Find(factor, terms, errors, width == able.sum(), indices, np.full(len(terms), np.inf))

    def select(self, rows: slice, distances: NDArray[np.float32]) -> None:
        """Find candidates for some samples."""
        if not self.indices.shape[1]:
            return
        self.indices[rows] = _smallest(distances, self.indices.shape[1])
        if not self.complete:
            last = np.take_along_axis(distances, self.indices[rows], axis=1).max(axis=1)
            self.bound[rows] = (last + self.terms[rows] - self.errors[rows]) / self.factor


def _candidates(
    samples: list[Any], landmarks: list[LandmarkView], weights: NDArray[np.float64], count: int
) -> list[_Find]:
    """Find candidates in each view, and in all views together, by products in single precision."""
    n, n_landmarks = len(samples[0]), len(landmarks[0].lacking)
    left, right, finds = [], [], []
    for part, view, weight in zip(samples, landmarks, weights.tolist(), strict=True):
        factor, own = weight if weight > 0 else 1.0, part - view.centre
        others, longest = view.factor
        lengths = row_squares(own)
        errors = factor * _error(own.shape[1]) * np.square(np.sqrt(lengths) + longest)
        # Beyond the range of single precision nothing is known.
        own[far := errors > _FAR] = 0
        errors[far] = np.inf
        finds.append(_Find.among(~view.lacking, count, factor, factor * lengths, errors))
        # Squared distances up to a term of the sample, as one product.
        left.append((factor * np.column_stack([-2 * own, np.ones(n)])).astype(np.float32))
        right.append(others)
    used = [find for find, weight in zip(finds, weights, strict=True) if weight > 0]
    terms, errors = (sum((getattr(find, name) for find in used), np.zeros(n)) for name in ("terms", "errors"))
    lacking = np.any([view.lacking for view in landmarks], axis=0)
    together = _Find.among(~lacking, count, 1.0, terms, errors)

    def work(start: int, stop: int) -> None:
        room, total = np.empty((2, _TILE, n_landmarks), dtype=np.float32)
        for lo in range(start, stop, _TILE):
            rows = slice(lo, min(lo + _TILE, stop))
            distances, joint = room[: rows.stop - lo], total[: rows.stop - lo]
            joint[:] = np.where(lacking, np.inf, 0)
            for find, own, other in zip(finds, left, right, strict=True):
                with np.errstate(invalid="ignore"):  # BLAS may multiply what is infinite by the zeros that it pads with
                    np.matmul(own[rows], other, out=distances)
                find.select(rows, distances)
                if find in used:
                    joint += distances
            if len(finds) > 1:
                together.select(rows, joint)

    parallel_ranges(work, n, _TILE)
    return [*finds, together]


def _error(width: int) -> float:
    """Return the rounding error of a squared distance in single precision, relative to the squared lengths."""
    return (width + 8) * 2.0**-24


def _smallest(values: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """Return where the smallest values of each row are, (n, count).

    As `numpy.argpartition` does, several times as fast: few values are at most as large as the bound.
    """
    n, width = values.shape
    size = width // _GROUPS
    if size > 1 and count < _GROUPS:
        grouped = values[:, : size * _GROUPS].reshape(n, size, _GROUPS).min(axis=1)
        bound = np.partition(grouped, count - 1, axis=1)[:, count - 1 : count]
        where = np.flatnonzero(values <= bound)
        if len(where) <= 2 * n * count:
            row, column = np.divmod(where, width)
            sizes = np.bincount(row, minlength=n)
            place = np.arange(sizes.max()) < sizes[:, None]
            small = np.full(place.shape, np.inf, dtype=np.float32)
            small[place] = values.ravel()[where]
            first = (np.cumsum(sizes) - sizes)[:, None]
            return np.asarray(column[first + np.argsort(small, axis=1)[:, :count]])
    return np.argpartition(values, count - 1, axis=1)[:, :count]


def _chosen(pairs: _Pairs, find: _Find, count: int) -> Neighbours:
    """Return the nearest of the candidates of each sample."""
    n, width = find.indices.shape
    if not width:
        return _searched(pairs, count)
    count = min(count, len(pairs.able))
    indices = np.sort(find.indices, axis=1)
    squares = pairs.squares(np.repeat(np.arange(n), width), indices.ravel()).reshape(n, width)
    # Row by row: NumPy sorts by several keys in one thread at a time.
    order = np.argsort(squares, axis=1, kind="stable")
    indices, squares = np.take_along_axis(indices, order, axis=1), np.take_along_axis(squares, order, axis=1)
    n_landmarks = len(pairs.landmarks[0].lacking)
    every = Neighbours(width * np.arange(n + 1), indices.ravel(), squares.ravel(), n_landmarks, pairs.scale)
    lists = every.nearest(count)
    kth = every.squares[every.starts[:-1] + count - 1]
    undecided = kth + 2 * tie_margin(kth, pairs.scale) >= find.bound
    if not find.complete:
        # A longer list holds ties without a nearer neighbour, of which there may be more.
        undecided |= np.diff(lists.starts) > 2 * count
    if not undecided.any():
        return lists
    more = _searched(_Pairs([part[undecided] for part in pairs.samples], pairs.landmarks, pairs.weights), count)
    rows, others = _rows_of(lists), np.flatnonzero(undecided)[_rows_of(more)]
    kept = ~undecided[rows]
    rows, indices = np.concatenate([rows[kept], others]), np.concatenate([lists.indices[kept], more.indices])
    return pairs.lists(rows, indices, np.concatenate([lists.squares[kept], pairs.squares(others, more.indices)]))


def _searched(pairs: _Pairs, count: int) -> Neighbours:
    """Return the nearest landmarks by one search for all samples."""
    able, n = pairs.able, len(pairs)
    entries = [(np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp), np.empty(0))]
    if len(able):
        roots = np.sqrt(pairs.weights)
        samples = [part * root for part, root in zip(pairs.samples, roots, strict=True)]
        others = [view.among(able, root) for view, root in zip(pairs.landmarks, roots.tolist(), strict=True)]
        lengths, longest = sum(map(row_squares, samples)), float(sum(map(row_squares, others)).max())
        # One by one where they are far out: what ties is judged by the longest sample of a search.
        far = np.flatnonzero(lengths > _FAR_OUT * longest)
        for group in [np.setdiff1d(np.arange(n), far), *far[:, None]]:
            if len(group):
                found = find_neighbours([part[group] for part in samples], min(count, len(able)), others, exact=True)
                entries.append((group[_rows_of(found)], able[found.indices], found.squares))
    rows, indices, squares = (np.concatenate(parts) for parts in zip(*entries, strict=True))
    return pairs.lists(rows, indices, squares)


def _rows_of(lists: Neighbours) -> NDArray[np.intp]:
    """Return the sample of each entry of the lists."""
    return np.repeat(np.arange(len(lists.starts) - 1), np.diff(lists.starts))
