"""Synthetic views of clusters, with the difficulties under control."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..backend import random_seed

# Centres of clusters are on average this far apart, in any number of dimensions.
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
    """Make several views of the same clusters: Gaussian clouds around random centres.

    The centres are on average 4 apart in every view, whatever its dimension.

    Parameters
    ----------
    n_samples : int, default=300
        How many samples; a million take seconds.
    n_clusters : int, default=3
        How many clusters; each has at least one sample.
    n_features : int or sequence of ints, default=(10, 20, 30)
        Dimension of each view; one number with `n_views` makes them equal.
    n_views : int, optional
        How many views, if `n_features` is one number (three by default).
    noise : float, default=0.5
        Standard deviation within a cluster, in every feature. At 1 neighbouring clusters touch, at 2 they overlap.
    disagreement : float, default=0.0
        Share of the samples that a view shows in a wrong cluster, drawn anew for each view.
    imbalance : float, default=1.0
        How many times larger the largest cluster is than the smallest; the others lie between geometrically.
    shuffle : bool, default=True
        Whether the samples are in random order; otherwise cluster after cluster, as benchmark files are.
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
        raise ValueError(f"n_views is {n_views} and n_features has {len(sizes)} dimensions: give one of the two")
    if not sizes or min(sizes) < 1:
        raise ValueError(f"n_features must be positive for at least one view, got {n_features!r}")
    if not 1 <= n_clusters <= n_samples:
        raise ValueError(f"n_clusters must be between 1 and n_samples={n_samples}, got {n_clusters!r}")
    if not 0 <= disagreement <= 1:
        raise ValueError(f"disagreement must be between 0 and 1, got {disagreement!r}")
    if not (np.isfinite(noise) and noise >= 0):
        raise ValueError(f"noise must be a finite number >= 0, got {noise!r}")
    if not (np.isfinite(imbalance) and imbalance >= 1):
        raise ValueError(f"imbalance must be a finite number >= 1, got {imbalance!r}")
    kind = np.dtype(dtype)
    if kind not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype must be float32 or float64, got {kind}")

    seed = np.random.RandomState(random_seed(random_state)).randint(2**31 - 1, size=4)
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(n_clusters, dtype=np.intp), _cluster_sizes(n_samples, n_clusters, imbalance))
    if shuffle:
        rng.shuffle(y)
    views = [_make_view(rng, y, n_clusters, size, noise, disagreement, kind) for size in sizes]
    return views, y


def _cluster_sizes(n_samples: int, n_clusters: int, imbalance: float) -> NDArray[np.intp]:
    """Return geometric sizes, largest first, that sum to the number of samples and are at least 1."""
    weights = imbalance ** -np.linspace(0, 1, n_clusters)
    bounds = np.round(np.cumsum(weights) / weights.sum() * (n_samples - n_clusters))
    return np.asarray(np.diff(bounds, prepend=0) + 1, dtype=np.intp)


def _make_view(
    rng: np.random.Generator,
    y: NDArray[np.intp],
    n_clusters: int,
    n_features: int,
    noise: float,
    disagreement: float,
    dtype: np.dtype[Any],
) -> NDArray[Any]:
    centres = (rng.standard_normal((n_clusters, n_features)) * (_DISTANCE / np.sqrt(2 * n_features))).astype(dtype)
    shown = y
    if disagreement and n_clusters > 1:
        wrong = rng.random(len(y)) < disagreement
        shift = rng.integers(1, n_clusters, size=len(y))
        shown = np.where(wrong, (y + shift) % n_clusters, y)
    view = rng.standard_normal((len(y), n_features), dtype=dtype)
    for start in range(0, len(y), _BLOCK):
        block = view[start : start + _BLOCK]
        block *= noise
        block += centres[shown[start : start + _BLOCK]]
    return view
