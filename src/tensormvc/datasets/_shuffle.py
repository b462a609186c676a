"""Shuffling samples at a rate, the same way in all views and labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backend import is_sparse, random_seed
from .readers._rows import RowSource


def shuffle_samples(
    views: Any, y: Any = None, rate: float = 1.0, random_state: Any = None
) -> tuple[Any, Any, NDArray[np.intp]]:
    """Permute a random share of the samples among themselves, the same way in all views and labels.

    Parameters
    ----------
    views : list, tuple or dict of (n_samples, n_features_v), or one array
        The views: arrays, sparse arrays, DataFrames or views on disk; they are not modified.
    y : array of shape (n_samples,), optional
        Labels.
    rate : float, default=1.0
        Share r of the samples that take part: ⌊r n⌋ random positions; 0 changes nothing.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffle.

    Returns
    -------
    views : as given
        ``[view[permutation] for view in views]``, in a list, dict or array as they came.
    y : array or None
        ``y[permutation]``.
    permutation : ndarray of int
        Where each sample came from.

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> views, y, permutation = tm.datasets.shuffle_samples([np.arange(4.0)[:, None]], np.arange(4), random_state=0)
    >>> y
    array([2, 3, 1, 0])
    >>> bool(np.array_equal(y, permutation))
    True
    """
    named = as_named_views(views)
    lengths = {int(view.shape[0]) for view in named.values()}
    if y is not None:
        lengths.add(len(y))
    if len(lengths) != 1:
        raise ValueError(f"views and labels must have the same number of samples, got {sorted(lengths)}")
    (n,) = lengths
    permutation = shuffled_positions(n, rate, random_state)
    if y is not None:
        y = _take(y if hasattr(y, "iloc") else np.asarray(y), permutation)
    return take_samples(views, permutation), y, permutation


def shuffled_positions(n: int, rate: float, random_state: Any) -> NDArray[np.intp]:
    """Return a permutation in which a random ⌊rate · n⌋ of the positions are permuted among themselves."""
    if not 0 <= rate <= 1:
        raise ValueError(f"rate must be between 0 and 1, got {rate!r}")
    rng = np.random.RandomState(random_seed(random_state))
    permutation = np.arange(n)
    # 0.29 · 100 is a little less than 29 in floating point.
    chosen = rng.permutation(n)[: int(np.floor(round(rate * n, 6)))]
    permutation[np.sort(chosen)] = chosen
    return permutation


def take_samples(views: Any, rows: NDArray[np.intp]) -> Any:
    """Return these samples of all views, in a list, dict or array as they came."""
    taken = {name: _take(view, rows) for name, view in as_named_views(views).items()}
    if isinstance(views, Mapping):
        return taken
    return list(taken.values()) if is_several(views) else taken[0]


def is_several(views: Any) -> bool:
    """Whether the object is a list, tuple or dict of views, and not one array written as lists."""
    if isinstance(views, Mapping):
        return True
    return isinstance(views, list | tuple) and all(_ndim(view) == 2 for view in views)


def as_named_views(views: Any) -> dict[Any, Any]:
    """Return the views by name or number; what is no array of any kind goes through `numpy.asarray`."""
    if not is_several(views):
        views = [views]
    pairs = dict(views) if isinstance(views, Mapping) else dict(enumerate(views))
    if not pairs:
        raise ValueError("there are no views")
    return {name: view if hasattr(view, "shape") else np.asarray(view) for name, view in pairs.items()}


def _ndim(view: Any) -> int:
    return len(view.shape) if hasattr(view, "shape") else np.ndim(view)


def _take(view: Any, rows: NDArray[np.intp]) -> Any:
    if hasattr(view, "iloc"):
        return view.iloc[rows]
    if isinstance(view, RowSource):
        return view.take(rows)
    if is_sparse(view) and view.format not in ("csr", "csc", "lil"):
        view = view.tocsr()
    return view[rows]
