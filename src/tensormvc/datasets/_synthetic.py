"""Synthetic views of the same clusters, of controlled difficulty."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..backend.checks import random_seed

# Average distance between cluster centres, in any number of dimensions.
_DISTANCE = 4.0
_BLOCK = 2**16


def make_multiview(
    n_samples: int = 300,
    *,
    n_clusters: int = 3,
    n_features: int | Sequence[int] = (10, 20, 30),
    n_views: int | None = None,
    noise: float = 0.5,
    disagreement: float = 0.0,
    imbalance: float = 1.0,
    shuffle: bool = True,
    dtype: DTypeLike = np.float64,
    random_state: Any = None,
) -> tuple[list[NDArray[Any]], NDArray[np.intp]]:
    """Generate several views of the same clusters: Gaussian clouds around random centres.

    The centres are on average 4 apart in every view, whatever its dimension.

    Parameters
    ----------
    n_samples : int, default=300
        Number of samples; a million take seconds.
    n_clusters : int, default=3
        Number of clusters; each has at least one sample.
    n_features : int or sequence of ints, default=(10, 20, 30)
        Dimension of each view; with a single number, all `n_views` views have this dimension.
    n_views : int, optional
        Number of views if `n_features` is a single number; 3 by default.
    noise : float, default=0.5
        Standard deviation of every feature within a cluster. At 1 neighbouring clusters touch, at 2 they overlap.
    disagreement : float, default=0.0
        Share of the samples that a view shows in a wrong cluster, drawn independently for each view.
    imbalance : float, default=1.0
        Size of the largest cluster divided by that of the smallest; the other sizes are spaced geometrically.
    shuffle : bool, default=True
        Whether the samples are in random order; otherwise they are sorted by cluster, as benchmark files are.
    dtype : {float64, float32}, default=float64
        Type of the views.
    random_state : int, RandomState instance or None, default=None
        Seed.

    Returns
    -------
    views : list of arrays of shape (n_samples, n_features_v)
        The views.
    y : ndarray of int of shape (n_samples,)
        The cluster of each sample.

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> views, y = tm.datasets.make_multiview(100, n_features=(5, 8), imbalance=4, random_state=0)
    >>> [view.shape for view in views], np.bincount(y)
    ([(100, 5), (100, 8)], array([56, 29, 15]))
    """
    if isinstance(n_features, Sequence):
        sizes = [int(size) for size in n_features]
    else:
        sizes = [int(n_features)] * (3 if n_views is None else n_views)
    if n_views is not None and len(sizes) != n_views:
        raise ValueError(f"n_views={n_views}, but n_features lists {len(sizes)} views: pass only one of the two")
    kind = np.dtype(dtype)
    for name, value, is_valid, rule in (
        ("n_features", n_features, bool(sizes) and min(sizes) >= 1, "positive for at least one view"),
        ("n_clusters", n_clusters, 1 <= n_clusters <= n_samples, f"between 1 and n_samples={n_samples}"),
        ("disagreement", disagreement, 0 <= disagreement <= 1, "between 0 and 1"),
        ("noise", noise, np.isfinite(noise) and noise >= 0, "a finite number >= 0"),
        ("imbalance", imbalance, np.isfinite(imbalance) and imbalance >= 1, "a finite number >= 1"),
        ("dtype", kind, kind in (np.dtype(np.float32), np.dtype(np.float64)), "float32 or float64"),
    ):
        if not is_valid:
            raise ValueError(f"{name} must be {rule}, got {value!r}")

    seed = np.random.RandomState(random_seed(random_state)).randint(2**31 - 1, size=4)
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_clusters, dtype=np.intp), _cluster_sizes(n_samples, n_clusters, imbalance))
    if shuffle:
        rng.shuffle(y)
    views = []
    for size in sizes:
        centres = (rng.standard_normal((n_clusters, size)) * (_DISTANCE / np.sqrt(2 * size))).astype(kind)
        shown = y
        if disagreement and n_clusters > 1:
            is_wrong = rng.random(n_samples) < disagreement
            shown = np.where(is_wrong, (y + rng.integers(1, n_clusters, size=n_samples)) % n_clusters, y)
        view: NDArray[Any] = rng.standard_normal((n_samples, size), dtype=kind)  # type: ignore[arg-type]
        for start in range(0, n_samples, _BLOCK):
            block = view[start : start + _BLOCK]
            block *= noise
            block += centres[shown[start : start + _BLOCK]]
        views.append(view)
    return views, y


def _cluster_sizes(n_samples: int, n_clusters: int, imbalance: float) -> NDArray[np.intp]:
    """Return geometrically spaced sizes of at least 1, largest first, that sum to the number of samples."""
    weights = imbalance ** -np.linspace(0, 1, n_clusters)
    bounds = np.round(np.cumsum(weights) / weights.sum() * (n_samples - n_clusters))
    return np.asarray(np.diff(bounds, prepend=0) + 1, dtype=np.intp)
