"""Normalised spectral clustering of an affinity between all samples."""

from __future__ import annotations

from scipy.linalg import eigh

from ..backend import Array, is_tensor, namespace


def spectral_embedding(affinity: Array, n_components: int) -> Array:
    """Return the leading eigenvectors of D^{-1/2} S D^{-1/2}, rows at unit length.

    Parameters
    ----------
    affinity : array of shape (n, n)
        S, symmetric, NumPy's or PyTorch's on any device; it is overwritten.
    n_components : int
        How many.

    Returns
    -------
    array of shape (n, n_components)
    """
    xp = namespace(affinity)
    n = affinity.shape[0]
    degrees = xp.sum(affinity, axis=1)
    linked = degrees > 0
    scale = xp.where(linked, 1 / xp.sqrt(xp.where(linked, degrees, xp.ones_like(degrees))), xp.zeros_like(degrees))
    affinity *= scale[:, None]
    affinity *= scale
    if is_tensor(affinity):
        vectors = xp.linalg.eigh(affinity)[1][:, n - n_components :]
    else:
        _, vectors = eigh(affinity, subset_by_index=[n - n_components, n - 1], overwrite_a=True, check_finite=False)
    lengths = xp.linalg.vector_norm(vectors, axis=1, keepdims=True)
    return xp.flip(vectors, axis=1) / xp.where(lengths > 0, lengths, xp.ones_like(lengths))
