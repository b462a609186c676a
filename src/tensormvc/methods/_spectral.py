"""Normalised spectral clustering of an affinity between all samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh


def spectral_embedding(affinity: NDArray[np.float64], n_components: int) -> NDArray[np.float64]:
    """Return the leading eigenvectors of D^{-1/2} S D^{-1/2}, rows at unit length.

    Parameters
    ----------
    affinity : ndarray of shape (n, n)
        S, symmetric; it is overwritten.
    n_components : int
        How many.

    Returns
    -------
    ndarray of shape (n, n_components)
    """
    n = len(affinity)
    degrees = affinity.sum(axis=1)
    scale = np.divide(1, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
    affinity *= scale[:, None]
    affinity *= scale
    _, vectors = eigh(affinity, subset_by_index=[n - n_components, n - 1], overwrite_a=True, check_finite=False)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors[:, ::-1] / np.where(lengths > 0, lengths, 1))
