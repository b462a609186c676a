"""Samples as they are measured: which of them lack which view, and which values are missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backend.arrays import is_sparse, is_tensor, on_host
from ..views import Views
from ..views._check import floating, row_sizes
from ..views._collect import is_lazy
from ..views._order import MISSING_HASH, row_hashes
from ._impute import complete_gaps
from ._scaling import lean

# A view of fewer features has no empty rows.
_WIDE = 3
# Samples, and values, that each thread reads and places at a time.
_MOST_ROWS = 4096
_ROWS_ON_DEVICE = 16384
_BLOCK = 1 << 18
# Some scalings make sparse samples dense.
_DENSE_BLOCK = 1 << 23


@dataclass(frozen=True)
class Samples:
    """Unscaled samples, in the order of the fitted views; a row without values is missing, and zero.

    Attributes
    ----------
    arrays : list of arrays (n, d_v)
        Dense, on a device if the samples are, or CSR if nearly all values are zero; single gaps are NaN.
    missing : ndarray of bool of shape (n, m)
        Which samples lack which view.
    hashes : ndarray of int64 of shape (n, m)
        Of the rows as they were given.
    """

    arrays: list[Any]
    missing: NDArray[np.bool_]
    hashes: NDArray[np.int64]

    @staticmethod
    def of(
        arrays: Sequence[Any],
        missing: NDArray[np.bool_],
        zeros_count: Any = None,
        hashes: Any = None,
        sizes: Any = None,
    ) -> Samples:
        """Return samples whose empty rows, which are all zero in a view, count as missing.

        In a view of one or two features, zero is a value like any other, and so it is in a view of zeros alone, which
        is one of constants. `zeros_count` says which views these are. Hashes and sizes of rows are computed if they
        are not known.
        """
        views = [lean(array) for array in arrays]
        if sizes is None:
            sizes = np.column_stack([row_sizes(view) for view in views])
        empty = (sizes == 0) & ~missing
        if zeros_count is None:
            zeros_count = [zeros_are_values(view.shape[1], own.max()) for view, own in zip(views, sizes.T, strict=True)]
        absent = missing | (empty & ~np.asarray(zeros_count))
        hashes = np.column_stack([row_hashes(view) for view in views]) if hashes is None else hashes.copy()
        hashes[absent] = MISSING_HASH
        return Samples(views, absent, hashes)

    def __getitem__(self, rows: Any) -> Samples:
        return Samples([view[rows] for view in self.arrays], self.missing[rows], self.hashes[rows])

    def __len__(self) -> int:
        return len(self.missing)

    def on_host(self) -> Samples:
        """Return the same samples as NumPy or CSR arrays."""
        if not any(map(is_tensor, self.arrays)):
            return self
        return Samples([lean(on_host(view)) for view in self.arrays], self.missing, self.hashes)

    @property
    def described(self) -> NDArray[np.intp]:
        """The samples that have a value in some view."""
        return np.flatnonzero(~self.missing.all(axis=1))

    def completed(self, views: Views, rows: NDArray[np.intp]) -> Views:
        """Return some of the samples of the views that these samples are, with their single gaps completed."""
        return self[rows].as_views(views, views.order[rows], views.row_keys[rows])

    def as_views(self, views: Views, rows: NDArray[np.intp], keys: NDArray[np.uint64]) -> Views:
        """Return these samples, which are some rows of views, with their single gaps completed."""
        arrays, n_gaps = self.arrays, (0,) * len(self.arrays)
        if any(views.n_gaps):
            n_gaps = tuple(map(_gaps_among_counts, arrays))
            arrays = complete_gaps(arrays, self.missing)
        return Views(
            arrays=tuple(map(lean, arrays)),
            order=rows,
            view_order=views.view_order,
            row_keys=keys,
            missing=self.missing,
            sample_ids=None,
            names=views.names,
            as_given=(None,) * len(self.arrays),
            feature_names=views.feature_names,
            categories=views.categories,
            n_gaps=n_gaps,
        )


@dataclass(frozen=True)
class SampleRows:
    """Samples in the order of the input, of which only some are read at a time.

    Attributes
    ----------
    arrays : list
        For each of the fitted views an array, what has rows on disk, or None where the input lacks the view.
    widths : list of int
        Numbers of features.
    missing : ndarray of bool of shape (n, m)
        Which rows are missing.
    zeros_count : list of bool
        In which views a row of zeros is a sample like any other.
    hashes, sizes : ndarrays of shape (n, m), optional
        Hashes of the rows, and their largest absolute values, where they are known.
    """

    arrays: list[Any]
    widths: list[int]
    missing: NDArray[np.bool_]
    zeros_count: list[bool]
    hashes: NDArray[np.int64] | None = None
    sizes: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.missing)

    def __getitem__(self, rows: Any) -> Samples:
        """Read some samples."""
        missing = self.missing[rows]
        arrays = []
        for array, width, lacking in zip(self.arrays, self.widths, missing.T, strict=True):
            if array is None:
                arrays.append(np.zeros((len(missing), width)))
            elif is_lazy(array):
                block = floating(array[rows])
                block[lacking] = 0
                block[np.isnan(block)] = np.nan  # all NaN are one, for the hashes
                arrays.append(block)
            else:
                arrays.append(array[rows])
        known = (None if rows_of is None else rows_of[rows] for rows_of in (self.hashes, self.sizes))
        return Samples.of(arrays, missing, self.zeros_count, *known)

    def blocks(self) -> list[slice]:
        """Return blocks of consecutive rows that take little memory."""
        on_device = any(map(is_tensor, self.arrays))
        entries = [
            array.nnz // max(1, len(self)) if is_sparse(array) else width
            for array, width in zip(self.arrays, self.widths, strict=True)
        ]
        rows = min(_MOST_ROWS, _BLOCK // max(1, sum(entries)), _DENSE_BLOCK // sum(self.widths))
        step = _ROWS_ON_DEVICE if on_device else max(1, rows)
        return [slice(start, min(start + step, len(self))) for start in range(0, len(self), step)]


@dataclass(frozen=True)
class Presence:
    """How many samples there are, how many lack each view, have one view only, and have no value at all."""

    n_samples: int
    n_missing: NDArray[np.intp]
    n_single: int
    n_empty: int

    @staticmethod
    def of(absent: NDArray[np.bool_]) -> Presence:
        """Return the counts for some samples, from which of them lack which view, (n, m)."""
        present = (~absent).sum(axis=1)
        return Presence(len(absent), absent.sum(axis=0), int(np.sum(present == 1)), int(np.sum(present == 0)))

    def __add__(self, other: Presence) -> Presence:
        return Presence(
            self.n_samples + other.n_samples,
            self.n_missing + other.n_missing,
            self.n_single + other.n_single,
            self.n_empty + other.n_empty,
        )


def _gaps_among_counts(array: Any) -> int:
    """Return how many values of a view are missing if all others are whole numbers, else 0."""
    values = array.data if is_sparse(array) else array
    known = values[~np.isnan(values)]
    return int(values.size - known.size) if np.array_equal(known, np.rint(known)) else 0


def first_of_duplicates(hashes: NDArray[np.int64], missing: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return for each sample the first one that equals it; to have or to lack a view of constants is no difference."""
    constant = [len(np.unique(own[~lacking])) < 2 for own, lacking in zip(hashes.T, missing.T, strict=True)]
    _, first, group = np.unique(np.where(constant, 0, hashes), axis=0, return_index=True, return_inverse=True)
    return np.asarray(first[group.ravel()])


def zeros_are_values(width: int, largest: float) -> bool:
    """Return whether a row of zeros in a view of this width and largest value is a sample like any other."""
    return width < _WIDE or largest == 0
