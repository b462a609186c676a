"""Views that a caller passes in memory: a list, a dict or one array."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse

from ..backend.arrays import is_sparse
from ..views import encode_table
from .readers._rows import RowSource


def is_several(views: Any) -> bool:
    """Whether the object is a list, tuple or dict of views, rather than one array written as lists."""
    if isinstance(views, Mapping):
        return True
    return isinstance(views, list | tuple) and all(len(_as_array(view).shape) == 2 for view in views)


def _as_array(view: Any) -> Any:
    return view if hasattr(view, "shape") else np.asarray(view)


def as_named_views(views: Any) -> dict[Any, Any]:
    """Return the views by name or number; anything that is not an array goes through `numpy.asarray`."""
    if not is_several(views):
        views = [views]
    pairs = dict(views) if isinstance(views, Mapping) else dict(enumerate(views))
    if not pairs:
        raise ValueError("there are no views: pass at least one")
    return {name: _as_array(view) for name, view in pairs.items()}


def common_length(views: dict[Any, Any], y: Any = None) -> int:
    """Return the number of samples, which all views and the labels must have."""
    lengths = {int(view.shape[0]) for view in views.values()} | (set() if y is None else {len(y)})
    if len(lengths) != 1:
        raise ValueError(f"views and labels must have the same number of samples, got {sorted(lengths)}")
    return lengths.pop()


def as_matrices(views: Any) -> dict[Any, Any]:
    """Return the views by name as matrices of real numbers: NumPy arrays, CSR arrays or, on disk, as they are."""
    matrices = {name: _as_matrix(view) for name, view in as_named_views(views).items()}
    for name, view in matrices.items():
        if len(view.shape) != 2 or view.dtype.kind not in "biuf" or 0 in view.shape:
            raise ValueError(f"view {name} must be a matrix of real numbers, got {view.dtype} of shape {view.shape}")
    return matrices


def _as_matrix(view: Any) -> Any:
    if isinstance(view, RowSource):
        return view
    if is_sparse(view):
        return scipy.sparse.csr_array(view)
    if hasattr(view, "iloc"):
        view = encode_table(view)[0]
    array = np.asarray(view)
    return array.astype(np.float64) if array.dtype == object else array
