"""Views that a caller passes in memory: a list, a dict or one array."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse

from ..backend import is_sparse
from .readers._rows import RowSource


def is_several(views: Any) -> bool:
    """Whether the object is a list, tuple or dict of views, rather than one array written as lists."""
    if isinstance(views, Mapping):
        return True
    return isinstance(views, list | tuple) and all(_ndim(view) == 2 for view in views)


def _ndim(view: Any) -> int:
    return len(view.shape) if hasattr(view, "shape") else np.ndim(view)


def as_named_views(views: Any) -> dict[Any, Any]:
    """Return the views by name or number; anything that is not an array goes through `numpy.asarray`."""
    if not is_several(views):
        views = [views]
    pairs = dict(views) if isinstance(views, Mapping) else dict(enumerate(views))
    if not pairs:
        raise ValueError("there are no views: pass at least one")
    return {name: view if hasattr(view, "shape") else np.asarray(view) for name, view in pairs.items()}


def common_length(views: dict[Any, Any], y: Any = None) -> int:
    """Return the number of samples, which all views and the labels must have."""
    lengths = {int(view.shape[0]) for view in views.values()} | (set() if y is None else {len(y)})
    if len(lengths) != 1:
        raise ValueError(f"views and labels must have the same number of samples, got {sorted(lengths)}")
    return lengths.pop()


def as_matrix(view: Any) -> Any:
    """Return a view as a NumPy array, a CSR array or, if it is on disk, as it is."""
    if isinstance(view, RowSource):
        return view
    if is_sparse(view):
        return scipy.sparse.csr_array(view)
    return view.to_numpy() if hasattr(view, "to_numpy") else np.asarray(view)
