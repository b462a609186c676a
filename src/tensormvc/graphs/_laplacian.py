"""The normalised Laplacian of a graph over the samples, its lowest eigenpairs, and checks of graphs from users."""

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from ..backend.arrays import is_sparse
from ..backend.threads import one_blas_thread


def check_sample_graph(graph: Any, n_samples: int, sample_ids: NDArray[Any] | None = None) -> sp.csr_array:
    """Check a graph passed by the user, and return it as a sparse symmetric float64 matrix.

    Parameters
    ----------
    graph : array, sparse matrix or DataFrame of shape (n_samples, n_samples)
        Weights, symmetric and not negative.
    n_samples : int
        Number of samples.
    sample_ids : ndarray, optional
        Index of the samples, on which a DataFrame is aligned.

    Returns
    -------
    csr_array of shape (n_samples, n_samples)
    """
    if hasattr(graph, "loc") and sample_ids is not None:
        try:
            graph = graph.loc[sample_ids, sample_ids].to_numpy()
        except KeyError as error:
            raise ValueError(
                f"the index of sample_graph does not fit that of the views ({error}): use the same sample ids in both"
            ) from None
    matrix: Any = sp.csr_array(graph) if is_sparse(graph) else np.asarray(graph)
    if matrix.dtype.kind not in "biuf":
        raise TypeError(f"sample_graph has dtype {matrix.dtype}: pass real numbers")
    if matrix.shape != (n_samples, n_samples):
        shape = tuple(matrix.shape)
        raise ValueError(f"sample_graph has shape {shape}; for {n_samples} samples it must be {(n_samples, n_samples)}")
    matrix = sp.csr_array(matrix).astype(np.float64)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if not np.isfinite(matrix.data).all():
        raise ValueError("sample_graph contains NaN or infinity: set the weight of missing links to 0")
    if (matrix.data < 0).any():
        raise ValueError("sample_graph has negative weights: pass similarities, which are at least 0")
    asymmetry = abs(matrix - matrix.T)
    largest = matrix.data.max(initial=0.0)
    if asymmetry.nnz and asymmetry.data.max() > 1e-10 * largest:
        raise ValueError("sample_graph is not symmetric: pass (W + W.T) / 2 to link i and j in both directions")
    return sp.csr_array((matrix + matrix.T) / 2)


def inverse_root_degrees(graph: sp.csr_array) -> NDArray[np.float64]:
    """Return the diagonal of D^{−1/2}, with 0 for a sample without links."""
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    return np.divide(1, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)


def normalised_adjacency(graph: sp.csr_array) -> sp.csr_array:
    """Return D^{−1/2} W D^{−1/2}; the normalised Laplacian is L = I − D^{−1/2} W D^{−1/2}.

    A sample i without links has a row of zeros, so that L_ii = 1.
    """
    return scaled_graph(graph, inverse_root_degrees(graph))


def scaled_graph(graph: sp.csr_array, factors: NDArray[np.float64]) -> sp.csr_array:
    """Return a graph with the weight of each link multiplied by the factors of its two samples."""
    weights = graph.data * np.repeat(factors, np.diff(graph.indptr)) * factors[graph.indices]
    return sp.csr_array((weights, graph.indices, graph.indptr), shape=graph.shape)


def permuted_graph(graph: sp.csr_array, order: NDArray[np.intp]) -> sp.csr_array:
    """Return the graph with its samples in another order; entries are sorted, so that sums over rows follow it."""
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
    tol: float = 0.0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return the lowest eigenpairs of a Laplacian L whose null vectors N are known, by Lanczos.

    These are the largest eigenpairs of c(I − NNᵀ) − L, where c is the ceiling: the null space is taken out because the
    eigenvalue 0 is often repeated, which Lanczos converges slowly on.

    Parameters
    ----------
    product : function of a vector
        x → Lx.
    null_vectors : ndarray of shape (n, r)
        N, an orthonormal basis of the null space.
    count : int
        Number of eigenpairs, including the r of the null space; more than r.
    ceiling : float
        c, an upper bound of the spectrum.
    start : ndarray of shape (n,)
        Starting vector, a function of the samples' values.
    tol : float, default=0
        Relative accuracy of the eigenvalues; 0 is that of the machine.

    Returns
    -------
    values, vectors : ndarrays of shape (count,) and (n, count), or None if Lanczos does not converge
    """
    n, r = null_vectors.shape

    def shifted(x: NDArray[np.float64]) -> NDArray[np.float64]:
        x = np.ravel(x)
        return np.asarray(ceiling * (x - null_vectors @ (null_vectors.T @ x)) - product(x))

    k = count - r
    options: dict[str, Any] = {"rng": 0} if "rng" in signature(eigsh).parameters else {}
    try:
        with one_blas_thread():
            operator = LinearOperator((n, n), matvec=shifted, dtype=np.float64)
            # More vectors mean fewer restarts, which a high accuracy takes many of.
            ncv = min(n, 2 * k + (10 if tol else 60))
            upper, vectors = eigsh(operator, k=k, which="LA", v0=start, ncv=ncv, tol=tol, **options)
    except ArpackNoConvergence:
        return None
    order = np.argsort(-upper)
    values = np.concatenate([np.zeros(r), ceiling - upper[order]])
    return values, np.column_stack([null_vectors, vectors[:, order]])


def dense_eigenpairs(symmetric: NDArray[Any], count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the lowest eigenpairs of a dense symmetric matrix, which is overwritten.

    All of them are computed: LAPACK's routines for some (evr, evx) miss eigenvectors of repeated eigenvalues now and
    then, by 1e-2, and 0 is repeated in the Laplacian of every graph of several components.
    """
    values, vectors = eigh(symmetric, driver="evd", overwrite_a=True, check_finite=False)
    return values[:count], vectors[:, :count]
