"""Completing a view by a matrix of low rank, which features that depend on each other are close to."""

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 10


def low_rank_values(
    values: NDArray[np.float64], gaps: NDArray[np.bool_], start: NDArray[np.float64], rank: int
) -> NDArray[np.float64]:
    """Return values whose gaps are filled from a matrix of low rank that is close to the known ones.

    Features are standardised. Each round replaces the gaps by the leading singular triplets of the completed matrix,
    with singular values lowered by the first one that is left out (Mazumder, Hastie and Tibshirani, 2010). No value
    leaves the range of the known ones of its feature.

    Parameters
    ----------
    values : ndarray of shape (n, d)
        The values; those in gaps do not matter.
    gaps : ndarray of bool of shape (n, d)
        What is missing. A feature without any known value keeps its start.
    start : ndarray of shape (n, d)
        The values completed in another way.
    rank : int
        Rank of the matrix, less than n and d.

    Returns
    -------
    ndarray of shape (n, d)
    """
    known = np.where(gaps, np.nan, values)
    usable = ~gaps.all(axis=0)
    known = known[:, usable]
    mean, deviation = np.nanmean(known, axis=0), np.nanstd(known, axis=0)
    deviation[deviation == 0] = 1
    fixed, completed = (known - mean) / deviation, (start[:, usable] - mean) / deviation
    lowest, highest = np.nanmin(fixed, axis=0), np.nanmax(fixed, axis=0)
    for _ in range(_ROUNDS):
        completed = np.where(gaps[:, usable], np.clip(_leading(completed, rank), lowest, highest), fixed)
    result = start.copy()
    result[:, usable] = np.where(gaps[:, usable], completed * deviation + mean, known)
    return result


def _leading(matrix: NDArray[np.float64], rank: int) -> NDArray[np.float64]:
    """Return the leading part of a matrix, from the eigenvectors of the smaller one of its two Gram matrices."""
    if matrix.shape[1] > matrix.shape[0]:
        return _leading(matrix.T, rank).T
    squares, vectors = np.linalg.eigh(matrix.T @ matrix)
    singular = np.sqrt(np.maximum(squares[::-1][: rank + 1], 0))
    vectors = vectors[:, ::-1][:, :rank]
    kept = np.maximum(1 - singular[-1] / np.maximum(singular[:rank], np.finfo(np.float64).tiny), 0)
    return np.asarray((matrix @ vectors * kept) @ vectors.T)
