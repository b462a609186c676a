"""Samples as they are measured: which of them lack which view, and which values are missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backend.arrays import is_sparse
from ..views import Views
from ..views._order import MISSING_HASH, row_hashes
from ._impute import complete_gaps
from ._scaling import lean

# A view of fewer features has no empty rows.
_WIDE = 3


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
    def of(arrays: Sequence[Any], missing: NDArray[np.bool_], zeros_count: Any = None) -> Samples:
        """Return samples whose empty rows, which are all zero in a view, count as missing.

        In a view of one or two features, zero is a value like any other, and so it is in a view of zeros alone, which
        is one of constants. `zeros_count` says which views these are.
        """
        views = [lean(array) for array in arrays]
        empty = np.column_stack([row_sizes(view) == 0 for view in views]) & ~missing
        if zeros_count is None:
            zeros_count = [zeros_are_values(view) for view in views]
        absent = missing | (empty & ~np.asarray(zeros_count))
        hashes = np.column_stack([row_hashes(view) for view in views])
        hashes[absent] = MISSING_HASH
        return Samples(views, absent, hashes)

    def __getitem__(self, rows: Any) -> Samples:
        return Samples([view[rows] for view in self.arrays], self.missing[rows], self.hashes[rows])

    def __len__(self) -> int:
        return len(self.missing)

    @property
    def described(self) -> NDArray[np.intp]:
        """The samples that have a value in some view."""
        return np.flatnonzero(~self.missing.all(axis=1))

    def completed(self, views: Views, rows: NDArray[np.intp]) -> Views:
        """Return some of the samples of the views that these samples are, with their single gaps completed."""
        chosen = self[rows]
        return replace(
            views,
            arrays=tuple(lean(array) for array in complete_gaps(chosen.arrays, chosen.missing)),
            order=views.order[rows],
            row_keys=views.row_keys[rows],
            missing=chosen.missing,
        )


def first_of_duplicates(hashes: NDArray[np.int64]) -> NDArray[np.intp]:
    """Return for each row the first row that equals it."""
    _, first, group = np.unique(hashes, axis=0, return_index=True, return_inverse=True)
    return np.asarray(first[group.ravel()])


def zeros_are_values(view: Any) -> bool:
    """Return whether a row of zeros is a sample like any other, and not a missing one."""
    return bool(view.shape[1] < _WIDE or not row_sizes(view).any())


def row_sizes(view: Any) -> NDArray[np.float64]:
    """Return the size of the largest value of each sample; single gaps count as zero."""
    sizes = abs(view)
    np.nan_to_num(sizes.data if is_sparse(view) else sizes, copy=False)
    return np.asarray(sizes.max(axis=1).toarray() if is_sparse(view) else sizes.max(axis=1)).ravel()
