"""The low frequencies of a graph, as accurate as a clustering needs them."""

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse.csgraph import connected_components

from ..graphs import normalised_adjacency
from ..graphs._laplacian import lowest_eigenpairs

# Up to this number of samples, and from this share of all frequencies on, all of them take less time than some.
_DENSE_UP_TO = 300
_DENSE_FROM_SHARE = 0.1
_TOLERANCE = 1e-6


def low_frequencies(graph: sp.csr_array, count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lowest frequencies of a graph and their eigenvectors, up to signs and rotations.

    Distances between the rows of the eigenvectors, which a clustering compares, depend on neither. Use `GFT` where they
    matter.

    Parameters
    ----------
    graph : csr_array of shape (n, n)
        Symmetric weights that are not negative.
    count : int
        Number of frequencies; all n if it is larger.

    Returns
    -------
    values, vectors : ndarrays of shape (count,) and (n, count)
    """
    n = graph.shape[0]
    count = min(n, count)
    adjacency = normalised_adjacency(graph)
    if n > _DENSE_UP_TO and count < _DENSE_FROM_SHARE * n:
        null = _null_vectors(graph, count)
        if null.shape[1] == count:
            return np.zeros(count), null
        pairs = lowest_eigenpairs(
            lambda x: x - adjacency @ x, null, count, ceiling=2.0, start=np.cos(np.arange(n)), tol=_TOLERANCE
        )
        if pairs is not None:
            return pairs
    values, vectors = eigh(np.eye(n) - adjacency.toarray(), subset_by_index=(0, count - 1), check_finite=False)
    return values, vectors


def _null_vectors(graph: sp.csr_array, most: int) -> NDArray[np.float64]:
    """Return orthonormal vectors of frequency 0, one for each of the largest components of the graph."""
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    linked = np.flatnonzero(degrees)
    _, component = np.unique(connected_components(graph, directed=False)[1][linked], return_inverse=True)
    volumes = np.bincount(component, degrees[linked])
    rank = np.argsort(np.argsort(-volumes, kind="stable"))[component]
    kept = rank < most
    vectors = np.zeros((len(degrees), min(most, len(volumes))))
    vectors[linked[kept], rank[kept]] = np.sqrt(degrees[linked] / volumes[component])[kept]
    return vectors
