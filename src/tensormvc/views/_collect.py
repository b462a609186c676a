"""Turn every form of input into a list of matrices, aligned on their samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backend.arrays import is_array, is_sparse
from ..backend.checks import plain_array


def collect(views: Any, view_sizes: Sequence[int] | None) -> tuple[list[Any], list[str], NDArray[Any] | None]:
    """Return the parts of the input, aligned, with their names and the index of the samples."""
    if hasattr(views, "mod") and hasattr(views, "obs_names"):
        views = {name: _MuDataPart(part) for name, part in views.mod.items()}
    if isinstance(views, Mapping):
        names, parts = [str(name) for name in views], list(views.values())
    elif _is_matrix(views):
        parts = _split_columns(views, view_sizes)
        names = [f"view {v}" for v in range(len(parts))]
    elif isinstance(views, Sequence) and not isinstance(views, str | bytes):
        if len(views) == 0:
            raise ValueError("no views: expected at least one array of shape (n_samples, n_features)")
        if not _is_matrix(views[0]):
            # [[1, 2], [3, 4]] is one array.
            depth = plain_matrix(views[0], "view 0").ndim
            if depth < 2:
                return collect(plain_matrix(views, "the array"), view_sizes)
        names, parts = [f"view {v}" for v in range(len(views))], list(views)
    else:
        raise TypeError(f"views are a {type(views).__name__}: expected a list or dict of 2-D arrays, or one 2-D array")
    if view_sizes is not None and not _is_matrix(views):
        raise ValueError("view_sizes goes with a single 2-D array; these are separate views already")
    if not parts:
        raise ValueError("no views: expected at least one array of shape (n_samples, n_features)")
    return _align(parts, names)


class _MuDataPart:
    """A modality of a MuData object: its matrix and the names of its samples."""

    def __init__(self, part: Any) -> None:
        self.values = part.X
        self.index = part.obs_names


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
    return is_array(obj) or is_sparse(obj) or _is_indexed(obj) or (hasattr(obj, "shape") and hasattr(obj, "dtype"))


def _is_indexed(obj: Any) -> bool:
    return isinstance(obj, _MuDataPart) or (hasattr(obj, "index") and hasattr(obj, "iloc") and hasattr(obj, "columns"))


def _split_columns(matrix: Any, view_sizes: Sequence[int] | None) -> list[Any]:
    if view_sizes is None:
        return [matrix]
    if min(view_sizes) < 1:
        raise ValueError(f"view_sizes={list(view_sizes)}: every view needs at least one feature")
    if len(matrix.shape) != 2 or sum(view_sizes) != matrix.shape[1]:
        raise ValueError(
            f"view_sizes={list(view_sizes)} add up to {sum(view_sizes)} features, "
            f"the array of shape {tuple(matrix.shape)} has another number"
        )
    stops = np.cumsum(view_sizes)
    starts = [0, *stops[:-1]]
    if _is_indexed(matrix):
        return [matrix.iloc[:, a:b] for a, b in zip(starts, stops, strict=True)]
    return [matrix[:, a:b] for a, b in zip(starts, stops, strict=True)]


def _align(parts: list[Any], names: list[str]) -> tuple[list[Any], list[str], NDArray[Any] | None]:
    """Put the rows of all indexed parts into the order of the first one's index."""
    indexed = [v for v, part in enumerate(parts) if _is_indexed(part)]
    if not indexed:
        return parts, names, None
    first = np.asarray(parts[indexed[0]].index)
    aligned = list(parts)
    for v in indexed:
        index = np.asarray(parts[v].index)
        values = _frame_values(parts[v])
        if not np.array_equal(index, first):
            if len(set(index.tolist())) != len(index) or len(set(first.tolist())) != len(first):
                raise ValueError(f"{names[v]}: an index has duplicates, so the views cannot be aligned")
            if len(indexed) != len(parts):
                raise ValueError(f"{names[v]} has an index of another order, and views without an index cannot follow")
            lookup = {label: position for position, label in enumerate(index.tolist())}
            lacking = [label for label in first.tolist() if label not in lookup]
            if lacking or len(index) != len(first):
                extra = sorted(set(index.tolist()) - set(first.tolist()), key=str)
                raise ValueError(
                    f"{names[v]} and {names[indexed[0]]} describe different samples: {len(lacking)} missing "
                    f"(such as {lacking[:3]}), {len(extra)} extra (such as {extra[:3]}); keep the common ones"
                )
            values = values[[lookup[label] for label in first.tolist()]]
        aligned[v] = values
    return aligned, names, first


def plain_matrix(part: Any, name: str) -> Any:
    """Return a plain NumPy array or PyTorch tensor."""
    if str(getattr(part, "layout", "torch.strided")) != "torch.strided":
        raise TypeError(f"{name} is a sparse PyTorch tensor: pass a SciPy sparse matrix, or a dense tensor")
    try:
        return plain_array(part, name)
    except ValueError as error:
        raise ValueError(f"{name} is not a matrix: {error}") from None


def _frame_values(frame: Any) -> Any:
    """Return the values of a DataFrame, its own kind of missing value as NaN."""
    values = frame.values
    if isinstance(values, np.ndarray) and values.dtype.kind == "O":
        try:
            return frame.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            return values
    return values


def check_lengths(lengths: list[int], names: list[str]) -> None:
    if len(set(lengths)) > 1:
        sizes = ", ".join(f"{name}: {length}" for name, length in zip(names, lengths, strict=True))
        raise ValueError(f"the views have different numbers of samples ({sizes}): every view needs a row for each")


def view_sizes_of(views: Any) -> tuple[int, int]:
    """Return (n_samples, n_views) of any input, without a look at its values."""
    parts, names, _ = collect(views, None)
    for part, name in zip(parts, names, strict=True):
        if len(shape := getattr(part, "shape", (0, 0))) != 2:
            raise ValueError(f"{name} has shape {tuple(shape)}; expected (n_samples, n_features)")
    lengths = [part.shape[0] if hasattr(part, "shape") else len(part) for part in parts]
    check_lengths(lengths, names)
    if lengths[0] == 0:
        raise ValueError("the views have no samples")
    return lengths[0], len(parts)
