"""Shuffling samples at a rate, the same way in all views and labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state


def shuffle_samples(
    views: list[Any], y: Any = None, rate: float = 1.0, random_state: Any = None
) -> tuple[list[Any], Any, NDArray[np.intp]]:
    """Permute a random share of the samples among themselves, the same way in all views and labels.

    Parameters
    ----------
    views : list of arrays of shape (n_samples, n_features_v)
        The views; they are not modified.
    y : array of shape (n_samples,), optional
        Labels.
    rate : float, default=1.0
        Share r of the samples that take part: ⌊r n⌋ random positions; 0 changes nothing.
    random_state : int, RandomState instance or None, default=None
        Seed of the shuffle.

    Returns
    -------
    views : list of arrays
        ``[view[permutation] for view in views]``.
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
    if not 0 <= rate <= 1:
        raise ValueError(f"rate must be between 0 and 1, got {rate!r}")
    lengths = {len(part) if not hasattr(part, "shape") else part.shape[0] for part in views}
    if y is not None:
        lengths.add(len(y))
    if len(lengths) != 1:
        raise ValueError(f"views and labels must have the same number of samples, got {sorted(lengths)}")
    (n,) = lengths
    rng = check_random_state(random_state)
    permutation = np.arange(n)
    chosen = rng.permutation(n)[: int(np.floor(rate * n))]
    permutation[np.sort(chosen)] = chosen
    return (
        [view[permutation] for view in views],
        None if y is None else np.asarray(y)[permutation],
        permutation,
    )
