"""The normalised Laplacian of a sample graph, and graphs that come from the user."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from ..backend.arrays import is_sparse
from ..backend.threads import one_blas_thread


def check_sample_graph(graph: Any, n_samples: int, sample_ids: NDArray[Any] | None = None) -> sp.csr_array:
    """Return a graph over the samples that a user gives as a sparse, symmetric, non-negative float64 matrix.

    Parameters
    ----------
    graph : array or sparse matrix of shape (n_samples, n_samples)
        Affinities.
    n_samples : int
        How many samples there are.
    sample_ids : ndarray, optional
        Index of the samples; a DataFrame is put into its order.

    Returns
    -------
    csr_array of shape (n_samples, n_samples)
    """
    if hasattr(graph, "loc") and sample_ids is not None:
        try:
            graph = graph.loc[sample_ids, sample_ids].to_numpy()
        except KeyError as error:
            raise ValueError(f"the index of sample_graph does not fit that of the views: {error}") from None
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


def permuted_graph(graph: sp.csr_array, order: NDArray[np.intp]) -> sp.csr_array:
    """Return the graph with its samples in another order, entries sorted: sums over rows run in that order."""
    permuted = sp.csr_array(graph[order][:, order])
    permuted.sort_indices()
    return permuted


def lowest_eigenpairs(
    product: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    null_vectors: NDArray[np.float64],
    count: int,
    *,
    ceiling: float,
    start: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the lowest eigenpairs of a Laplacian whose null vectors are known, by Lanczos.

    With the null vectors taken out and the spectrum turned over, the others come first; Lanczos has trouble with a
    repeated eigenvalue, and 0 often is one.

    Parameters
    ----------
    product : function of a vector
        The Laplacian times it.
    null_vectors : ndarray of shape (n, r)
        Orthonormal basis of the null space.
    count : int
        How many eigenpairs, those of the null space counted; more than r.
    ceiling : float
        An upper bound of the spectrum.
    start : ndarray of shape (n,)
        Where Lanczos starts: a function of the samples.

    Returns
    -------
    values, vectors : ndarrays of shape (count,) and (n, count), or None where Lanczos does not converge
    """
    n, r = null_vectors.shape

    def turned(x: NDArray[np.float64]) -> NDArray[np.float64]:
        x = np.ravel(x)
        return np.asarray(ceiling * (x - null_vectors @ (null_vectors.T @ x)) - product(x))

    k = count - r
    options: dict[str, Any] = {"rng": 0} if "rng" in signature(eigsh).parameters else {}
    try:
        with one_blas_thread():
            upper, vectors = eigsh(
                LinearOperator((n, n), matvec=turned, dtype=np.float64),
                k=k,
                which="LA",
                v0=start,
                ncv=min(n, 2 * k + 60),
                **options,
            )
    except ArpackNoConvergence:
        return None
    order = np.argsort(-upper)
    values = np.concatenate([np.zeros(r), ceiling - upper[order]])
    return values, np.column_stack([null_vectors, vectors[:, order]])
