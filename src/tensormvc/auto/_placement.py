"""Where samples belong among the landmarks: one rule for all samples that are none, fitted or new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..backend.arrays import is_sparse
from ..graphs._fuzzy import find_neighbours
from ..views import as_views
from ..views._order import MISSING_HASH, row_hashes
from ._consensus import decided
from ._impute import Completion
from ._looks import scaled_rows
from ._scaling import Scaling, lean

# Landmarks that vote on the label of another sample, in each view and in all of its views together.
_VOTES = 10
# Samples that are placed at a time.
_BLOCK = 4096


@dataclass(frozen=True)
class Samples:
    """Unscaled samples, in the order of the fitted views; a row without values is missing, and zero.

    Attributes
    ----------
    arrays : list of arrays (n, d_v)
        Dense, or CSR if nearly all values are zero; single gaps are NaN.
    missing : ndarray of bool of shape (n, m)
        Which samples lack which view.
    hashes : ndarray of int64 of shape (n, m)
        Of the rows as they were given.
    """

    arrays: list[Any]
    missing: NDArray[np.bool_]
    hashes: NDArray[np.int64]

    @staticmethod
    def of(arrays: Sequence[Any], missing: NDArray[np.bool_], zeros_count: Sequence[bool] | None = None) -> Samples:
        """Return samples whose empty rows, which are all zero in a view, count as missing.

        Only in a view of zeros alone they do not: it is one of constants. `zeros_count` says which views are.
        """
        views = [lean(array) for array in arrays]
        empty = np.column_stack([_row_sizes(view) == 0 for view in views]) & ~missing
        if zeros_count is None:
            zeros_count = (empty | missing).all(axis=0)
        absent = missing | (empty & ~np.asarray(zeros_count))
        hashes = np.column_stack([row_hashes(view) for view in views])
        hashes[absent] = MISSING_HASH
        return Samples(views, absent, hashes)

    def __getitem__(self, rows: Any) -> Samples:
        return Samples([view[rows] for view in self.arrays], self.missing[rows], self.hashes[rows])

    def __len__(self) -> int:
        return len(self.missing)


def _blocks(n_rows: int) -> list[slice]:
    return [slice(start, start + _BLOCK) for start in range(0, n_rows, _BLOCK)]


def _row_sizes(view: Any) -> NDArray[np.float64]:
    return np.asarray(abs(view).max(axis=1).toarray() if is_sparse(view) else np.abs(view).max(axis=1)).ravel()


@dataclass(frozen=True)
class FittedView:
    """What a model knows of a view: its name, features, scaling, weight, and the landmarks' values in it."""

    name: str
    feature_names: NDArray[np.str_] | None
    categories: Mapping[str, Sequence[str]]
    scaling: Scaling
    weight: float
    values: Any


@dataclass(frozen=True)
class FittedClustering:
    """Everything that a fit found, as a function of the landmarks alone.

    Attributes
    ----------
    views : list of FittedView
        The views in working order.
    view_order : tuple of int
        View v in working order is view ``view_order[v]`` as given.
    missing : ndarray of bool of shape (n_landmarks, m)
        Which landmarks lack which view.
    hashes : ndarray of int64 of shape (n_landmarks, m)
        Of the landmarks' rows as they were given.
    shares : ndarray of shape (n_landmarks, k)
        By how much each landmark belongs to each cluster.
    priority : ndarray of int of shape (k,)
        The order in which clusters win ties.
    embedding : ndarray of shape (n_landmarks, q)
        Coordinates of the landmarks.
    """

    views: list[FittedView]
    view_order: tuple[int, ...]
    missing: NDArray[np.bool_]
    hashes: NDArray[np.int64]
    shares: NDArray[np.float64]
    priority: NDArray[np.intp]
    embedding: NDArray[np.float64]

    @cached_property
    def parts(self) -> list[Any]:
        """The scaled landmarks."""
        pairs = zip(self.views, self.missing.T, strict=True)
        return [scaled_rows(view.scaling, view.values, np.flatnonzero(~missing)) for view, missing in pairs]

    @cached_property
    def completion(self) -> Completion:
        """Completes single gaps of new samples from the landmarks."""
        return Completion.of([view.values for view in self.views], self.missing)

    @cached_property
    def _known(self) -> dict[bytes, int]:
        """The landmarks by the hashes of their rows; exact duplicates are the same landmark."""
        keys = [row.tobytes() for row in self.hashes]
        return dict(zip(reversed(keys), range(len(keys) - 1, -1, -1), strict=True))

    def links(self, samples: Samples) -> sp.csr_array:
        """Return how much each landmark counts for each sample, (n, n_landmarks).

        Rows sum to 1. A landmark counts for itself alone, and a sample without any value for nothing.
        """
        known = np.array([self._known.get(row.tobytes(), -1) for row in samples.hashes], dtype=np.intp)
        found = np.flatnonzero(known >= 0)
        others = np.flatnonzero((known < 0) & ~samples.missing.all(axis=1))
        shape = len(samples), len(self.missing)
        own = sp.csr_array((np.ones(len(found)), (found, known[found])), shape=shape)
        if not len(others):
            return own
        placed = sp.vstack([self._placed(samples[others[rows]]) for rows in _blocks(len(others))])
        entries = placed.tocoo()
        row, column = entries.coords
        return sp.csr_array(own + sp.csr_array((entries.data, (others[row], column)), shape=shape))

    def _placed(self, samples: Samples) -> sp.csr_array:
        """Return the links of samples that are no landmarks: half by view, half in all their views together."""
        arrays = self.completion.completed(samples.arrays, samples.missing)
        rows = [np.flatnonzero(~missing) for missing in samples.missing.T]
        parts = [scaled_rows(v.scaling, array, own) for v, array, own in zip(self.views, arrays, rows, strict=True)]
        weights = np.array([view.weight for view in self.views])
        shares = np.where(samples.missing, 0, np.maximum(weights, np.finfo(np.float64).tiny))
        shares /= shares.sum(axis=1, keepdims=True)
        total = sp.csr_array((len(samples), len(self.missing)))
        for v, (part, own) in enumerate(zip(parts, rows, strict=True)):
            total += self._nearest([part], [v], own).multiply(shares[:, v, None])
        patterns, pattern_of = np.unique(samples.missing, axis=0, return_inverse=True)
        joint = sp.csr_array(total.shape)
        for number, pattern in enumerate(patterns):
            views = np.flatnonzero(~pattern)
            if len(views) > 1:
                scaled = [parts[v] * np.sqrt(weights[v]) for v in views]
                joint += self._nearest(scaled, views, np.flatnonzero(pattern_of.ravel() == number))
        several = np.asarray(joint.sum(axis=1)).ravel() > 0
        return sp.csr_array(total.multiply(np.where(several, 0.5, 1.0)[:, None]) + 0.5 * joint)

    def _nearest(self, parts: list[Any], views: Any, rows: NDArray[np.intp]) -> sp.csr_array:
        """Return the nearest landmarks of some samples in the given views; all of a sample's together count 1."""
        shape = parts[0].shape[0], len(self.missing)
        candidates = np.flatnonzero(~self.missing[:, views].any(axis=1))
        if not len(rows) or len(candidates) < 2:
            return sp.csr_array(shape)
        scale = np.ones(1) if len(parts) == 1 else np.sqrt([self.views[v].weight for v in views])
        landmarks = [self.parts[v][candidates] * factor for v, factor in zip(views, scale, strict=True)]
        lists = find_neighbours([p[rows] for p in parts], min(_VOTES, len(candidates)), landmarks, exact=True)
        counts = np.repeat(np.diff(lists.starts), np.diff(lists.starts))
        row = np.repeat(rows, np.diff(lists.starts))
        return sp.csr_array((1 / counts, (row, candidates[lists.indices])), shape=shape)

    def memberships(self, links: sp.csr_array) -> NDArray[np.float64]:
        """Return by how much samples with these links belong to each cluster; rows sum to 1."""
        shares = np.asarray(links @ self.shares)
        empty = np.diff(links.indptr) == 0
        shares[empty] = 1 / shares.shape[1]
        own = links.max(axis=1).toarray().ravel() == 1  # a landmark, whose shares are decided
        raised = decided(shares, self.priority)
        raised[own] = shares[own]
        raised[empty] = shares[empty]
        return raised

    def samples_of(self, views: Any, view_sizes: Sequence[int] | None) -> tuple[Samples, NDArray[Any] | None]:
        """Return new samples of any form in the order of the fitted views, and their ids where they have some."""
        names = [view.name for view in self.views]
        given = [names[self.view_order.index(v)] for v in range(len(names))]
        if isinstance(views, Sequence) and not isinstance(views, str) and any(part is None for part in views):
            if len(views) != len(given):
                raise ValueError(f"{len(views)} views were passed to a model of {len(given)} views: pass None for the "
                                 "views that the samples lack")
            views = {name: part for name, part in zip(given, views, strict=True) if part is not None}
        elif isinstance(views, list | tuple) and len(views) == len(given) and hasattr(views[0], "shape"):
            views = dict(zip(given, views, strict=True))
        categories = {view.name: view.categories for view in self.views if view.categories}
        taken = as_views(
            views, view_sizes=view_sizes, canonical=False, keep_view_order=True, unit=False, lenient=True,
            categories=categories,
        ).on_host()
        if unknown := [name for name in taken.names if name not in names]:
            raise ValueError(f"the model has no view {unknown[0]!r}; its views are {', '.join(given)}")
        arrays, missing = [], np.ones((taken.n_samples, len(names)), dtype=bool)
        for v, view in enumerate(self.views):
            width = view.values.shape[1]
            if view.name not in taken.names:
                arrays.append(np.zeros((taken.n_samples, width)))
                continue
            position = taken.names.index(view.name)
            arrays.append(_same_features(taken.arrays[position], taken.feature_names[position], view))
            missing[:, v] = taken.missing[:, position]
        constant = [not _row_sizes(view.values).any() for view in self.views]
        return Samples.of(arrays, missing, constant), taken.sample_ids


def _same_features(array: Any, names: NDArray[np.str_] | None, view: FittedView) -> Any:
    """Return the columns in the order of the fitted features; matched by name where names exist."""
    width = view.values.shape[1]
    if names is not None and view.feature_names is not None:
        positions = {name: position for position, name in enumerate(names.tolist())}
        if lacking := [name for name in view.feature_names.tolist() if name not in positions]:
            raise ValueError(f"{view.name} lacks {len(lacking)} of the fitted features, such as {lacking[0]!r}")
        return array[:, [positions[name] for name in view.feature_names.tolist()]]
    if array.shape[1] != width:
        raise ValueError(f"{view.name} has {array.shape[1]} features; the model was fitted with {width}")
    return array
