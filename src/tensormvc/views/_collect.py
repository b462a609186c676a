"""Turn every form of input into a list of matrices, aligned on their samples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backend.arrays import is_array, is_sparse
from ..backend.checks import plain_array, warn_caller
from ._join import join_ids, take_rows
from ._tables import Categories, Table, as_table


@dataclass(frozen=True)
class Collected:
    """The matrices of the input, one per view, with the same samples in the same order.

    Attributes
    ----------
    parts : list
        The matrices, as given.
    names : list of str
        Names of the views.
    absent : list of arrays of bool, or None
        Which samples a table lacks, where tables were joined: they are zero rows of its matrix.
    feature_names : list of arrays of str, or None
        Names of the columns, where the input has some.
    categories : list of mappings
        Categories of the columns of each table that were encoded.
    sample_ids : ndarray or None
        Index of the samples, where the input has one.
    """

    parts: list[Any]
    names: list[str]
    absent: list[NDArray[np.bool_] | None]
    feature_names: list[NDArray[np.str_] | None]
    categories: list[Categories]
    sample_ids: NDArray[Any] | None = None


def collect(
    views: Any,
    view_sizes: Sequence[int] | None,
    *,
    lenient: bool = False,
    categories: Mapping[str, Categories] | None = None,
) -> Collected:
    """Return the parts of the input, aligned; `lenient` and `categories` are those of `as_views`."""
    order = None
    if hasattr(views, "mod") and hasattr(views, "obs_names"):  # a MuData object
        order, views = np.asarray(views.obs_names), dict(views.mod)
    if _is_matrix(views):  # before mappings, one of which is SciPy's sparse dictionary of keys
        parts = _split_columns(views, view_sizes)
        names = [f"view {v}" for v in range(len(parts))]
    elif isinstance(views, Mapping):
        names, parts = [str(name) for name in views], list(views.values())
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"two views are called {twice[0]}: rename one of them")
    elif isinstance(views, Sequence) and not isinstance(views, str | bytes):
        if len(views) == 0:
            raise ValueError("no views: expected at least one array of shape (n_samples, n_features)")
        first = next((part for part in views if part is not None), None)
        if not _is_matrix(first):
            # [[1, 2], [3, 4]] is one array.
            depth = plain_matrix(first, "view 0").ndim
            if depth < 2:
                return collect(plain_matrix(views, "the array"), view_sizes)
        names, parts = [f"view {v}" for v in range(len(views))], list(views)
    else:
        raise TypeError(f"views are a {type(views).__name__}: expected a list or dict of 2-D arrays, or one 2-D array")
    if view_sizes is not None and not _is_matrix(views):
        raise ValueError("view_sizes splits one 2-D array, but these are separate views already: leave it out")
    if not parts:
        raise ValueError("no views: expected at least one array of shape (n_samples, n_features)")
    for v, (part, name) in enumerate(zip(parts, names, strict=True)):
        if part is None:
            raise ValueError(f"{name} is None: leave this view out")
        if _is_table(part):
            known = None if categories is None else categories.get(name, {})
            parts[v] = as_table(part, name, encode=lenient, categories=known)
    return _align(parts, names, order, lenient)


def is_lazy(part: Any) -> bool:
    """Whether a view is on disk, to be read in blocks of rows."""
    return isinstance(part, np.memmap) or getattr(part, "on_disk", False) is True


def is_dask(part: Any) -> bool:
    """Whether the object is a Dask collection."""
    return hasattr(part, "__dask_graph__")


def any_dask(views: Any) -> bool:
    """Whether views of any form are Dask collections, or some of them are."""
    parts = views.values() if isinstance(views, dict) else views if isinstance(views, list | tuple) else [views]
    return any(map(is_dask, parts))


def _is_matrix(obj: Any) -> bool:
    return is_array(obj) or is_sparse(obj) or _is_table(obj) or (hasattr(obj, "shape") and hasattr(obj, "dtype"))


def _is_table(obj: Any) -> bool:
    """Whether the object is a DataFrame or an AnnData object."""
    return _is_frame(obj) or (hasattr(obj, "obs_names") and hasattr(obj, "var_names"))


def _is_frame(obj: Any) -> bool:
    return hasattr(obj, "index") and hasattr(obj, "iloc") and hasattr(obj, "columns")


def _split_columns(matrix: Any, view_sizes: Sequence[int] | None) -> list[Any]:
    if view_sizes is None:
        return [matrix]
    if min(view_sizes) < 1:
        raise ValueError(f"view_sizes={list(view_sizes)}: every view needs at least one feature")
    if len(matrix.shape) != 2 or sum(view_sizes) != matrix.shape[1]:
        raise ValueError(
            f"view_sizes={list(view_sizes)} add up to {sum(view_sizes)} features, but the array has the shape "
            f"{tuple(matrix.shape)}: they must add up to its number of columns"
        )
    stops = np.cumsum(view_sizes)
    starts = [0, *stops[:-1]]
    if _is_frame(matrix):
        return [matrix.iloc[:, a:b] for a, b in zip(starts, stops, strict=True)]
    return [matrix[:, a:b] for a, b in zip(starts, stops, strict=True)]


def _align(parts: list[Any], names: list[str], order: NDArray[Any] | None, join: bool) -> Collected:
    """Put the rows of all tables into one order: `order` if it has the same ids, else that of the first table."""
    tables = [part for part in parts if isinstance(part, Table)]
    matrices = [part.values if isinstance(part, Table) else part for part in parts]
    feature_names = [part.columns if isinstance(part, Table) else None for part in parts]
    categories = [part.categories if isinstance(part, Table) else {} for part in parts]
    if not tables:
        return Collected(matrices, names, [None] * len(parts), feature_names, categories)
    ids = tables[0].index
    rows: list[Any] = [None] * len(parts)
    if any(not np.array_equal(table.index, ids) for table in tables):
        if len(tables) < len(parts):
            without = next(name for name, part in zip(names, parts, strict=True) if not isinstance(part, Table))
            raise ValueError(
                f"the tables list their samples in different orders, and {without} has no index to match them "
                "by: pass it as a DataFrame with the sample ids as its index"
            )
        ids, rows = _joined(tables, names, join)
    if order is not None and not np.array_equal(order, ids) and set(order.tolist()) == set(ids.tolist()):
        ids, (_, into_order) = join_ids(["obs_names", "the views"], [order, ids], "inner", "")
        rows = [into_order if picked is None else picked[into_order] for picked in rows]
    absent = [None if picked is None or picked.min() >= 0 else picked < 0 for picked in rows]
    matrices = [take_rows(matrix, picked, 0) for matrix, picked in zip(matrices, rows, strict=True)]
    return Collected(matrices, names, absent, feature_names, categories, ids)


def _joined(tables: list[Table], names: list[str], join: bool) -> tuple[NDArray[Any], list[Any]]:
    if not join:
        remedy = "keep the common ones, or use MultiViewClustering, which compares samples in the views that they have"
        return join_ids(names, [table.index for table in tables], None, remedy)
    numbered = all([*map(str, table.index)] == [*map(str, range(len(table.index)))] for table in tables)
    if numbered and len({len(table.index) for table in tables}) > 1:
        lengths = ", ".join(f"{name}: {len(table.index)}" for name, table in zip(names, tables, strict=True))
        warn_caller(
            f"the tables have different numbers of rows ({lengths}), and their index only numbers them: rows with "
            "the same number are treated as the same sample; if they are not, set the sample ids as the index",
        )
    remedy = "the index is probably the wrong column: set the sample ids as the index of each table"
    return join_ids(names, [table.index for table in tables], "auto", remedy)


def plain_matrix(part: Any, name: str) -> Any:
    """Return a plain NumPy array or PyTorch tensor."""
    if str(getattr(part, "layout", "torch.strided")) != "torch.strided":
        raise TypeError(f"{name} is a sparse PyTorch tensor: pass a SciPy sparse matrix, or a dense tensor")
    if isinstance(part, list | tuple) or (isinstance(part, np.ndarray) and part.dtype == object and part.ndim == 1):
        part = _filled_rows(part)
    try:
        return plain_array(part, name)
    except ValueError as error:
        raise ValueError(f"{name} is not a matrix: {error}") from None


def _filled_rows(part: Any) -> Any:
    """Return rows of which some are None with rows of NaN in their place."""
    if not any(row is None for row in part):
        return part
    length = next((len(row) for row in part if np.ndim(row) == 1), 0)
    return [np.full(length, np.nan) if row is None else row for row in part] if length else part


def check_lengths(lengths: list[int], names: list[str]) -> None:
    if len(set(lengths)) > 1:
        sizes = ", ".join(f"{name}: {length}" for name, length in zip(names, lengths, strict=True))
        raise ValueError(f"the views have different numbers of samples ({sizes}): every view needs a row for each")


def view_sizes_of(views: Any, *, lenient: bool = False) -> tuple[int, int]:
    """Return (n_samples, n_views) of any input, without a look at its values; `lenient` is that of `as_views`."""
    collected = collect(views, None, lenient=lenient)
    parts, names = collected.parts, collected.names
    for part, name in zip(parts, names, strict=True):
        if len(shape := getattr(part, "shape", (0, 0))) != 2:
            raise ValueError(f"{name} has shape {tuple(shape)}; expected (n_samples, n_features)")
    lengths = [part.shape[0] if hasattr(part, "shape") else len(part) for part in parts]
    check_lengths(lengths, names)
    if lengths[0] == 0:
        raise ValueError("the views have no samples")
    return lengths[0], len(parts)
