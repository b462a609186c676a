"""Completing views: what is missing comes from the nearest neighbours in all views, or from the other features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..backend.arrays import is_sparse
from ..views import as_views
from ._low_rank import low_rank_values
from ._scaling import lean, refuse_sizes

# Neighbours whose values are averaged.
_NEIGHBOURS = 10
# At least this share of values counts as known where the number of neighbours is chosen.
_LEAST_KNOWN = 0.1
# Share of the known values that are held out to choose between ways to complete a view, and the ranks that are tried.
_HELD_OUT = 0.05
_RANKS = (3, 10, 30)
# Memory for one block of distances.
_BLOCK_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Completion:
    """Completes samples from other samples, which have no single gaps.

    Attributes
    ----------
    arrays : list of arrays (n, d_v)
        The other samples, unscaled.
    missing : ndarray of bool of shape (n, m)
        Which of them lack which view.
    centres, factors : lists of arrays (d_v,)
        Means of the features, and reciprocals of their standard deviations times the root of their number, so that
        every view has the same say.
    """

    arrays: list[Any]
    missing: NDArray[np.bool_]
    centres: list[NDArray[np.float64]]
    factors: list[NDArray[np.float64]]

    @staticmethod
    def of(arrays: list[Any], missing: NDArray[np.bool_]) -> Completion:
        """Return the completion from these samples; their own gaps, if any, count as mean values."""
        statistics = [_statistics(array, ~lacking) for array, lacking in zip(arrays, missing.T, strict=True)]
        return Completion(arrays, missing, [centre for centre, _ in statistics], [factor for _, factor in statistics])

    def scaled(self, arrays: list[Any], missing: NDArray[np.bool_]) -> list[NDArray[np.float64]]:
        """Return samples standardised, with 0 for what is missing."""
        parts = []
        for array, lacking, centre, factor in zip(arrays, missing.T, self.centres, self.factors, strict=True):
            part = (_dense(array) - centre) * factor
            part[lacking] = 0
            parts.append(np.nan_to_num(part, copy=False))
        return parts

    def features(self, arrays: list[Any], missing: NDArray[np.bool_]) -> _Features:
        """Return samples standardised, and how much each of their features counts: not at all where it is missing."""
        pairs = zip(arrays, missing.T, strict=True)
        known = [~np.isnan(_dense(array)) & ~lacking[:, None] for array, lacking in pairs]
        counts = [
            np.where(own, factor > 0, 0) / max(int((factor > 0).sum()), 1)
            for own, factor in zip(known, self.factors, strict=True)
        ]
        return _Features(np.hstack(self.scaled(arrays, missing)), np.hstack(counts))

    def completed(self, arrays: list[Any], missing: NDArray[np.bool_]) -> list[Any]:
        """Return samples with single gaps filled by the mean of their nearest neighbours among the other samples."""
        gaps = [gaps_of(array) for array in arrays]
        rows = np.unique(np.concatenate([gap.nonzero()[0] for gap in gaps if gap is not None] or [np.zeros(0, int)]))
        if not len(rows):
            return arrays
        own = self.features([array[rows] for array in arrays], missing[rows])
        links = _nearest([(own, self.features(self.arrays, self.missing))], min(_NEIGHBOURS, len(self.missing)))
        filled = []
        for array, gap, centre, other, lacking in zip(
            arrays, gaps, self.centres, self.arrays, self.missing.T, strict=True
        ):
            if gap is None:
                filled.append(array)
                continue
            means = neighbour_means(links, _dense(other), ~lacking[:, None], centre)
            whole = _dense(array).copy()
            whole[rows] = np.where(gap[rows], means, whole[rows])
            filled.append(whole)
        return filled


def neighbour_means(
    links: sp.csr_array, values: NDArray[np.float64], known: Any, otherwise: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the mean over the neighbours of every sample whose value is known; `otherwise` without any."""
    known = np.broadcast_to(known, values.shape).astype(np.float64)
    total = links @ np.where(known > 0, values, 0)
    counts = links @ known
    return np.asarray(np.divide(total, counts, out=np.broadcast_to(otherwise, total.shape).copy(), where=counts > 0))


def complete_gaps(arrays: list[Any], missing: NDArray[np.bool_]) -> list[Any]:
    """Return views with single gaps (NaN) filled, from the nearest neighbours in all views or by a matrix of low rank.

    Which of them, and which rank, is decided view by view: by how well some known values are found that are held out.

    Parameters
    ----------
    arrays : list of arrays (n, d_v)
        Unscaled views, dense or CSR.
    missing : ndarray of bool of shape (n, m)
        Which samples lack which view: these are not completed.

    Returns
    -------
    list of arrays (n, d_v)
    """
    gaps = [gaps_of(array) for array in arrays]
    if all(gap is None for gap in gaps):
        return arrays
    filled = _from_neighbours(arrays, gaps, missing)
    rng = np.random.default_rng(20260103)
    without = list(arrays)
    for v, gap in enumerate(gaps):
        if gap is not None:
            held_out = ~missing[:, v, None] & (rng.random(gap.shape) < _HELD_OUT)
            without[v] = np.where(held_out, np.nan, _dense(arrays[v]))
    found = _from_neighbours(without, [gaps_of(array) for array in without], missing)
    for v, gap in enumerate(gaps):
        if gap is not None:
            rows = ~missing[:, v]
            values = _dense(arrays[v])[rows]
            if rank := _best_rank(values, _dense(without[v])[rows], _dense(found[v])[rows]):
                filled[v][rows] = low_rank_values(values, gap[rows], filled[v][rows], rank)
    return filled


def _best_rank(values: NDArray[Any], without: NDArray[Any], found: NDArray[Any]) -> int:
    """Return the rank of the matrix that finds the values that are held out best; 0 if neighbours find them better."""
    gaps = np.isnan(without)
    held_out = gaps & ~np.isnan(values)
    guesses = {rank: low_rank_values(values, gaps, found, rank) for rank in _RANKS if rank < min(values.shape)}
    factor = _statistics(values, np.ones(len(values), dtype=bool))[1]
    errors = {
        rank: np.square(((guess - values) * factor)[held_out]).sum() for rank, guess in [(0, found), *guesses.items()]
    }
    return min(errors, key=errors.__getitem__)


def _from_neighbours(arrays: list[Any], gaps: list[Any], missing: NDArray[np.bool_]) -> list[Any]:
    """Return views whose gaps are filled by the mean of the nearest neighbours in all views.

    Distances are those of standardised views over the features that both samples have, in a second round averaged with
    those over the completed features.
    """
    n = len(missing)
    observed = Completion.of(arrays, missing)
    known = observed.features(arrays, missing)
    compared, filled = [(known, known)], list(arrays)
    for _ in range(2):
        for v, (array, gap) in enumerate(zip(arrays, gaps, strict=True)):
            if gap is None:
                continue
            values, lacking = _dense(array), missing[:, v, None]
            # More neighbours where many of them lack the value.
            count = _NEIGHBOURS / max(1 - gap[~missing[:, v]].mean(), _LEAST_KNOWN)
            links = _nearest(compared, min(round(count), n - 1))
            means = neighbour_means(links, values, ~(gap | lacking), observed.centres[v])
            filled[v] = np.where(gap, means, values)
        completed = Completion.of(filled, missing).features(filled, missing)
        compared = [(known, known), (completed, completed)]
    return filled


@dataclass(frozen=True)
class _Features:
    """Standardised samples (n, d), 0 where a value is missing, and how much each value counts, (n, d)."""

    values: NDArray[np.float64]
    counts: NDArray[np.float64]


def _nearest(compared: list[tuple[_Features, _Features]], n_neighbors: int) -> sp.csr_array:
    """Return the graph from samples to the nearest others, by the sum of several distances.

    A distance is the mean squared difference over the features that both have, weighted by how much these count. Those
    without any in common do not count as neighbours.
    """
    n, n_others = len(compared[0][0].values), len(compared[0][1].values)
    step = max(1, _BLOCK_BYTES // (8 * n_others))
    nearest, weights = np.empty((n, n_neighbors), dtype=np.intp), np.empty((n, n_neighbors))
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        total = np.zeros((rows.stop - start, n_others))
        for own, others in compared:
            x, y = own.values[rows], others.values
            mine, theirs = (own.counts[rows] > 0).astype(np.float64), (others.counts > 0).astype(np.float64)
            squares = np.square(x) @ theirs.T + mine @ np.square(y).T - 2 * x @ y.T
            common = own.counts[rows] @ theirs.T
            total += np.divide(squares, common, out=np.full_like(squares, np.inf), where=common > 0)
            if own is others:
                total[np.arange(rows.stop - start), np.arange(start, rows.stop)] = np.inf
        nearest[rows] = np.sort(np.argpartition(total, n_neighbors - 1, axis=1)[:, :n_neighbors], axis=1)
        weights[rows] = np.isfinite(np.take_along_axis(total, nearest[rows], axis=1))
    indptr = np.arange(n + 1) * n_neighbors
    return sp.csr_array((weights.ravel(), nearest.ravel(), indptr), shape=(n, n_others))


def complete_samples(arrays: list[Any], missing: NDArray[np.bool_]) -> list[Any]:
    """Return views in which missing samples are the mean of their nearest neighbours in the views they have."""
    if not missing.any():
        return arrays
    features = Completion.of(arrays, missing).features(arrays, missing)
    links = _nearest([(features, features)], min(_NEIGHBOURS, len(missing) - 1))
    completed = list(arrays)
    for v, lacking in enumerate(missing.T):
        if lacking.any():
            values = _dense(arrays[v])
            means = neighbour_means(links[lacking], values, ~lacking[:, None], values[~lacking].mean(axis=0))
            completed[v] = values.copy()
            completed[v][lacking] = means
    return completed


def _statistics(array: Any, present: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    values = _dense(array)[present]
    known = ~np.isnan(values)
    counts = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, values, 0).sum(axis=0) / counts
    deviation = np.sqrt(np.where(known, np.square(values - mean), 0).sum(axis=0) / counts)
    varies = deviation > 1e-12 * np.abs(mean)
    factor = np.divide(1, deviation, out=np.zeros_like(deviation), where=varies)
    return mean, factor / np.sqrt(max(int(varies.sum()), 1))


def has_gaps(array: Any) -> bool:
    """Return whether a view has NaN."""
    # A sum is NaN if and only if a term is, and no array is needed to tell.
    return bool(np.isnan((array.data if is_sparse(array) else array).sum()))


def gaps_of(array: Any) -> NDArray[np.bool_] | None:
    """Return which values are NaN, or None if there is none."""
    return np.isnan(_dense(array)) if has_gaps(array) else None


def _dense(array: Any) -> NDArray[np.float64]:
    return np.asarray(array.toarray() if is_sparse(array) else array)


def impute_views(views: Any, *, view_sizes: Sequence[int] | None = None) -> Any:
    """Complete views from the nearest neighbours in the other views, for estimators that need complete data.

    A sample that is missing in a view (a row of NaN, or absent from a table) is replaced by the mean of the view over
    its ten nearest neighbours in the views that both have. A single missing value is replaced by the mean of the
    neighbours' values, or by low-rank matrix completion if this predicts known values better. Features are standardised
    for the search, and all views have the same weight. `MultiViewClustering` does not need this: it compares samples in
    the views that they have.

    Takes O(n² · d) time for n samples with d features in all, and O(n · d) memory.

    Parameters
    ----------
    views : list, tuple or dict of arrays (n_samples, n_features_v), MuData, or one array
        The views. Tables of different samples are joined on their index.
    view_sizes : sequence of int, optional
        Number of columns of each view, if `views` is one array.

    Returns
    -------
    list or dict of ndarrays
        The completed views; a dict if `views` has names. Rows of joined tables are in the order of their first
        appearance. Views without gaps are returned as float arrays, unchanged.

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(200)
    >>> views[0][:20] = np.nan
    >>> completed = tm.impute_views(views)
    >>> bool(np.isfinite(completed[0]).all()), bool(np.array_equal(completed[1], views[1]))
    (True, True)
    """
    taken = as_views(views, view_sizes=view_sizes, unit=False, lenient=True).on_host()
    refuse_sizes(taken.sizes.max(axis=0), taken.names)
    for name, missing in zip(taken.names, taken.missing.T, strict=True):
        if missing.all():
            raise ValueError(f"{name} has no values to complete it from: leave this view out")
    for name, array, missing in zip(taken.names, taken.arrays, taken.missing.T, strict=True):
        gaps = gaps_of(array)
        if gaps is not None and len(unknown := np.flatnonzero(gaps[~missing].all(axis=0))):
            raise ValueError(f"{name} has no known value in column {unknown[0]}: leave this column out")
    arrays = complete_samples(complete_gaps([lean(a) for a in taken.arrays], taken.missing), taken.missing)
    position = {v: i for i, v in enumerate(taken.view_order)}
    whole = [taken.to_given_order(_dense(arrays[position[v]])) for v in range(taken.n_views)]
    if isinstance(views, Mapping) or (hasattr(views, "mod") and hasattr(views, "obs_names")):
        return dict(zip([taken.names[position[v]] for v in range(taken.n_views)], whole, strict=True))
    return whole
