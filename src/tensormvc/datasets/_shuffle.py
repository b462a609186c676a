"""A random permutation of some or all samples, the same in all views and labels."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backend.arrays import is_sparse
from ..backend.checks import random_seed
from ._inputs import as_named_views, common_length, is_several
from .readers._rows import RowSource


def shuffle_samples(
    views: Any, y: Any = None, rate: float = 1.0, random_state: Any = None
) -> tuple[Any, Any, NDArray[np.intp]]:
    """Permute the samples, or a random share of them, in the same way in all views and labels.

    Parameters
    ----------
    views : list, tuple or dict of (n_samples, n_features_v), or one array
        The views: arrays, sparse arrays, DataFrames or views on disk; they are not modified.
    y : array of shape (n_samples,), optional
        Labels.
    rate : float, default=1.0
        Share r of the samples that are permuted: ⌊r n⌋ random positions; 0 changes nothing.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffle.

    Returns
    -------
    views : list, dict or array
        ``[view[permutation] for view in views]``, in the same kind of container as `views`.
    y : array or None
        ``y[permutation]``.
    permutation : ndarray of int
        For each position, the original index of the sample that is now there.

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> views, y, permutation = tm.datasets.shuffle_samples([np.arange(4.0)[:, None]], np.arange(4), random_state=0)
    >>> y
    array([2, 3, 1, 0])
    >>> bool(np.array_equal(y, permutation))
    True
    """
    permutation = shuffled_positions(common_length(as_named_views(views), y), rate, random_state)
    if y is not None:
        y = _take(y if hasattr(y, "iloc") else np.asarray(y), permutation)
    return take_samples(views, permutation), y, permutation


def shuffled_positions(n: int, rate: float, random_state: Any) -> NDArray[np.intp]:
    """Return a permutation that moves only a random ⌊rate · n⌋ of the positions."""
    if not 0 <= rate <= 1:
        raise ValueError(f"rate must be between 0 and 1, got {rate!r}")
    rng = np.random.RandomState(random_seed(random_state))
    permutation = np.arange(n)
    # In floating point, 0.29 · 100 is slightly less than 29.
    chosen = rng.permutation(n)[: int(np.floor(round(rate * n, 6)))]
    permutation[np.sort(chosen)] = chosen
    return permutation


def take_samples(views: Any, rows: NDArray[np.intp]) -> Any:
    """Return these samples of all views, in the same kind of container as `views`."""
    taken = {name: _take(view, rows) for name, view in as_named_views(views).items()}
    if isinstance(views, Mapping):
        return taken
    return list(taken.values()) if is_several(views) else taken[0]


def _take(view: Any, rows: NDArray[np.intp]) -> Any:
    if hasattr(view, "iloc"):
        return view.iloc[rows]
    if isinstance(view, RowSource):
        return view.take(rows)
    if is_sparse(view) and view.format not in ("csr", "csc", "lil"):
        view = view.tocsr()
    return view[rows]
