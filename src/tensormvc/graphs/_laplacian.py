"""The normalised Laplacian of a sample graph, and graphs that come from the user."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._ops import is_sparse


def check_sample_graph(graph: Any, n_samples: int) -> sp.csr_array:
    """Return a graph over the samples that a user gives as a sparse, symmetric, non-negative float64 matrix.

    Parameters
    ----------
    graph : array or sparse matrix of shape (n_samples, n_samples)
        Affinities.
    n_samples : int
        How many samples there are.

    Returns
    -------
    csr_array of shape (n_samples, n_samples)
    """
    matrix: Any = sp.csr_array(graph) if is_sparse(graph) else np.asarray(graph)
    if matrix.dtype.kind not in "biuf":
        raise TypeError(f"sample_graph has the type {matrix.dtype}; expected real numbers")
    if matrix.shape != (n_samples, n_samples):
        raise ValueError(
            f"sample_graph has shape {tuple(matrix.shape)}; for {n_samples} samples it must be "
            f"({n_samples}, {n_samples})"
        )
    matrix = sp.csr_array(matrix).astype(np.float64)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if not np.isfinite(matrix.data).all():
        raise ValueError("sample_graph contains NaN or infinity")
    if (matrix.data < 0).any():
        raise ValueError("sample_graph has negative weights: affinities must not be negative")
    asymmetry = abs(matrix - matrix.T)
    largest = matrix.data.max(initial=0.0)
    if asymmetry.nnz and asymmetry.data.max() > 1e-10 * largest:
        raise ValueError("sample_graph is not symmetric: pass (W + W.T) / 2 if that is meant")
    return sp.csr_array((matrix + matrix.T) / 2)


def inverse_root_degrees(graph: sp.csr_array) -> NDArray[np.float64]:
    """Return D^{-1/2} as a vector, 0 for a sample without neighbours."""
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    return np.divide(1, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)


def normalised_adjacency(graph: sp.csr_array) -> sp.csr_array:
    """Return D^{-1/2} W D^{-1/2}; the normalised Laplacian is the identity minus this.

    A sample without neighbours has a zero row, so that the Laplacian is 1 there.
    """
    scale = inverse_root_degrees(graph)
    return sp.csr_array(graph.multiply(scale[:, None]).multiply(scale[None, :]))
