"""A summary of views before they are clustered."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backend.arrays import is_sparse
from ..views import mix, row_hashes
from ._inputs import as_matrices, common_length
from .readers._rows import RowSource

_BLOCK_VALUES = 2**20


@dataclass(frozen=True)
class ViewDescription:
    """The summary of one view.

    Attributes
    ----------
    name : str
        Its key in a dict of views, or its number in a list.
    n_features : int
        Number of columns.
    dtype : str
        Type of the values.
    storage : str
        ``"dense"``, ``"sparse"`` or ``"on disk"``.
    density : float
        Share of non-zero values.
    minimum, maximum : float
        Smallest and largest finite value; NaN if there is none.
    n_duplicates : int
        Number of rows that repeat an earlier row exactly.
    n_constant : int
        Number of columns with a single value.
    n_missing : int
        Number of rows that are entirely NaN: samples without this view.
    n_empty : int
        Number of rows that are all zero, in a view whose other rows are not.
    n_nonfinite : int
        Number of other values that are NaN or infinite.
    """

    name: str
    n_features: int
    dtype: str
    storage: str
    density: float
    minimum: float
    maximum: float
    n_duplicates: int
    n_constant: int
    n_missing: int
    n_empty: int
    n_nonfinite: int

    def __str__(self) -> str:
        parts = [f"{self.n_features:,} features", f"{self.dtype} {self.storage}", f"{self.density:.0%} non-zero"]
        parts.append(f"{self.minimum:.4g} to {self.maximum:.4g}")
        counts = (self.n_duplicates, self.n_constant, self.n_missing, self.n_empty, self.n_nonfinite)
        things = ("repeated row", "constant column", "missing row", "empty row", "NaN or infinite value")
        for count, thing in zip(counts, things, strict=True):
            if count:
                parts.append(f"{count:,} {thing}{'s' if count > 1 else ''}")
        return f"{self.name}: {', '.join(parts)}"


@dataclass(frozen=True)
class Description:
    """The summary of a data set that `describe` returns.

    Attributes
    ----------
    n_samples : int
        Number of rows of every view.
    views : tuple of ViewDescription
        One summary per view.
    n_duplicates : int
        Number of samples that repeat an earlier one exactly in all views.
    class_counts : dict or None
        Number of samples of each label.
    class_sorted : bool or None
        Whether the samples are sorted by label; a method that depends on the order then benefits from the labels.
    """

    n_samples: int
    views: tuple[ViewDescription, ...]
    n_duplicates: int
    class_counts: dict[Any, int] | None
    class_sorted: bool | None

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the summaries of the views as columns, as ``pandas.DataFrame`` takes them."""
        records = [asdict(view) for view in self.views]
        return {key: [record[key] for record in records] for key in records[0]}

    def __str__(self) -> str:
        head = f"{self.n_samples:,} samples, {len(self.views)} view{'s' if len(self.views) > 1 else ''}"
        if self.class_counts is not None:
            sizes = sorted({min(self.class_counts.values()), max(self.class_counts.values())})
            head += f", {len(self.class_counts)} classes of {' to '.join(f'{size:,}' for size in sizes)}"
            head += ", sorted by class: shuffle first" if self.class_sorted else ", not sorted by class"
        duplicates = [f"{self.n_duplicates:,} samples repeat an earlier one in all views"] if self.n_duplicates else []
        return "\n".join([head, *duplicates, *map(str, self.views)])

    __repr__ = __str__


def describe(views: Any, y: Any = None) -> Description:
    """Summarise a data set: sizes, types, sparsity, duplicates, constant columns, missing values, and class order.

    Views on disk are read in blocks.

    Parameters
    ----------
    views : list, tuple or dict of (n_samples, n_features_v), or one array
        The views: arrays, sparse arrays, DataFrames or views on disk.
    y : array of shape (n_samples,), optional
        Labels.

    Returns
    -------
    Description
        Prints as text; ``to_dict()`` returns the columns of a table.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(class_sorted=True)
    >>> tm.datasets.describe(views[:1], y)
    1,797 samples, 1 view, 10 classes of 174 to 183, sorted by class: shuffle first
    view 0: 64 features, float64 dense, 51% non-zero, 0 to 16, 3 constant columns
    """
    named = as_matrices(views)
    n_samples = common_length(named, y)
    summaries, hashes = [], np.zeros(n_samples, np.int64)
    for number, (name, view) in enumerate(named.items()):
        summary, view_hashes = _describe_view(str(name) if isinstance(views, Mapping) else f"view {name}", view)
        summaries.append(summary)
        hashes += mix(view_hashes + (number + 1))
    counts, in_order = None, None
    if y is not None:
        labels, codes, sizes = np.unique(np.asarray(y), return_inverse=True, return_counts=True)
        counts = dict(zip(labels.tolist(), sizes.tolist(), strict=True))
        in_order = bool(np.sum(codes[1:] != codes[:-1]) == len(labels) - 1)
    return Description(n_samples, tuple(summaries), _n_repeated(hashes), counts, in_order)


def _describe_view(name: str, view: Any) -> tuple[ViewDescription, NDArray[np.int64]]:
    """Return the summary of a view and the hashes of its rows."""
    n_samples, n_features = view.shape
    minima, maxima = np.full(n_features, np.inf), np.full(n_features, -np.inf)
    n_nonzero = n_empty = n_nonfinite = 0
    hashes, missing = np.empty(n_samples, np.int64), np.empty(n_samples, np.bool_)
    step = max(1, _BLOCK_VALUES // n_features)
    for start in range(0, n_samples, step):
        rows = slice(start, start + step)
        block = view[rows]
        block = np.asarray(block.toarray() if is_sparse(block) else block, dtype=np.float64)
        hashes[rows] = row_hashes(block)
        finite = np.isfinite(block)
        missing[rows] = np.isnan(block).all(axis=1)
        n_empty += int((~block.any(axis=1)).sum())
        n_nonfinite += int((~finite[~missing[rows]]).sum())
        n_nonzero += int(np.count_nonzero(block))
        minima = np.minimum(minima, block.min(axis=0, initial=np.inf, where=finite))
        maxima = np.maximum(maxima, block.max(axis=0, initial=-np.inf, where=finite))
    any_finite = bool(minima.min() <= maxima.max())
    n_missing = int(missing.sum())
    summary = ViewDescription(
        name=name,
        n_features=n_features,
        dtype=str(view.dtype),
        storage="on disk" if isinstance(view, RowSource) else "sparse" if is_sparse(view) else "dense",
        density=n_nonzero / (n_samples * n_features),
        minimum=float(minima.min()) if any_finite else float("nan"),
        maximum=float(maxima.max()) if any_finite else float("nan"),
        n_duplicates=_n_repeated(hashes[~missing]),
        n_constant=int((minima == maxima).sum()),
        n_missing=n_missing,
        n_empty=n_empty if n_empty + n_missing < n_samples else 0,
        n_nonfinite=n_nonfinite,
    )
    return summary, hashes


def _n_repeated(hashes: NDArray[np.int64]) -> int:
    return len(hashes) - len(np.unique(hashes))
