"""The low frequencies of a graph, as accurate as a clustering needs them."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from ..backend.checks import check_memory
from ..backend.linalg import thin_svd
from ..backend.threads import device_lock
from ..graphs import normalised_adjacency
from ..graphs._laplacian import dense_eigenpairs, lowest_eigenpairs

# Up to this number of samples, and from this share of all frequencies on, all of them take less time than some.
_DENSE_UP_TO = 300
_DENSE_FROM_SHARE = 0.1
_TOLERANCE = 1e-6
# Of eigenvalues relative to their size: clusterings do not change beyond.
_LANCZOS_TOLERANCE = 1e-4
# Filtered subspace iteration: vectors beside those asked for, degree of the polynomial, and rounds at most.
_SPARE = 32
_SPARE_SHARE = 0.25
_DEGREE = 20
_MOST_ROUNDS = 40

Pairs = tuple[NDArray[np.float64], NDArray[np.float64]]


def low_frequencies(
    graph: sp.csr_array, count: int, device: Any = None, missing: NDArray[np.bool_] | None = None
) -> Pairs:
    """Return the lowest frequencies of a graph and their eigenvectors, up to signs and rotations.

    Distances between the rows of the eigenvectors, which a clustering compares, depend on neither. Use `GFT` where they
    matter.

    Samples with the same views are linked more closely than others, and with many missing views this may be all that
    the low frequencies see. With `missing`, the eigenvectors are those of the Laplacian on the vectors that do not
    depend on which views a sample has.

    Parameters
    ----------
    graph : csr_array of shape (n, n)
        Symmetric weights that are not negative.
    count : int
        Number of frequencies; all n if it is larger.
    device : torch.device, optional
        Where they are computed; by default on the host.
    missing : ndarray of bool of shape (n, n_views), optional
        Which samples lack which view, if frequencies are not to depend on that.

    Returns
    -------
    values, vectors : ndarrays of shape (count,) and (n, count)
        Fewer, if there are not as many that do not depend on the views.
    """
    if missing is not None and missing.any():
        return _whatever_is_missing(graph, count, missing)
    n = graph.shape[0]
    count = min(n, count)
    adjacency = normalised_adjacency(graph)
    if n > _DENSE_UP_TO and count < _DENSE_FROM_SHARE * n:
        null = _null_vectors(graph, count)
        if null.shape[1] == count:
            return np.zeros(count), null
        pairs = None
        if device is not None and device.type != "cpu":
            with device_lock:
                pairs = _filtered(adjacency, null, count, device)
        if pairs is None:
            pairs = lowest_eigenpairs(
                lambda x: x - adjacency @ x,
                null,
                count,
                ceiling=2.0,
                start=np.cos(np.arange(n)),
                tol=_LANCZOS_TOLERANCE,
            )
        if pairs is not None:
            return pairs
    check_memory(4 * 8 * n * n, f"the spectrum of {n:,} landmarks", "lower effort or n_clusters")
    return dense_eigenpairs(np.eye(n) - adjacency.toarray(), count)


def _whatever_is_missing(graph: sp.csr_array, count: int, missing: NDArray[np.bool_]) -> Pairs:
    """Return the lowest frequencies on the vectors orthogonal to which views samples lack, after the constant one."""
    n = graph.shape[0]
    adjacency = normalised_adjacency(graph)
    roots = np.sqrt(np.asarray(graph.sum(axis=1)).ravel())
    left, sizes, _ = thin_svd(np.column_stack([roots, roots[:, None] * missing]))
    known = left[:, sizes > _TOLERANCE * sizes[0]]
    r = known.shape[1]
    k = min(count - 1, n - r)
    constant = (roots / np.linalg.norm(roots))[:, None]

    def product(x: NDArray[np.float64]) -> NDArray[np.float64]:
        x = x - known @ (known.T @ x)
        x = x - adjacency @ x
        return np.asarray(x - known @ (known.T @ x))

    pairs = None
    if n > _DENSE_UP_TO and count < _DENSE_FROM_SHARE * n:
        start = np.cos(np.arange(n))
        pairs = lowest_eigenpairs(product, known, k + r, ceiling=2.0, start=start, tol=_LANCZOS_TOLERANCE)
    if pairs is None and k > 0:
        # Beyond all frequencies, which are at most 2.
        pairs = dense_eigenpairs(product(np.eye(n)) + 3 * known @ known.T, k)
        r = 0
    if pairs is None:
        return np.zeros(1), constant
    values, vectors = pairs
    return np.concatenate([[0.0], values[r:]]), np.hstack([constant, vectors[:, r:]])


def _filtered(adjacency: sp.csr_array, null: NDArray[np.float64], count: int, device: Any) -> Pairs | None:
    """Return the largest eigenpairs of a normalised adjacency A as the lowest ones of I − A, on a device.

    Subspace iteration, in which a Chebyshev polynomial damps all eigenvalues below the smallest one of the subspace
    (Zhou, Saad, Tiago and Chelikowsky, 2006): products with many vectors at once, which a device is made for. None if
    it does not converge.
    """
    import torch

    n = adjacency.shape[0]
    width = min(n, count + max(_SPARE, int(_SPARE_SHARE * count)))
    # Dense, because the sums of sparse products round differently every time on a device.
    matrix = torch.zeros((n, n), dtype=torch.float64, device=device)
    entries = adjacency.tocoo()
    rows, columns = (torch.as_tensor(index, device=device) for index in entries.coords)
    matrix[rows, columns] = torch.as_tensor(entries.data, device=device)
    start = np.cos(np.outer(np.arange(n), np.arange(1, width - null.shape[1] + 1)))
    vectors = torch.as_tensor(np.hstack([null, start]), device=device)
    for _ in range(_MOST_ROUNDS):
        vectors = torch.linalg.qr(vectors)[0]
        products = matrix @ vectors
        values, rotation = torch.linalg.eigh(vectors.T @ products)
        values, rotation = values.flip(0), rotation.flip(1)
        vectors, products = vectors @ rotation, products @ rotation
        residuals = (products - values * vectors)[:, :count].norm(dim=0)
        if float(residuals.max()) <= _TOLERANCE:
            return 1 - values[:count].cpu().numpy(), vectors[:, :count].cpu().numpy()
        # The polynomial is at most 1 in size on the interval from −1 to the smallest value.
        middle, half = (float(values[-1]) - 1) / 2, (float(values[-1]) + 1) / 2
        before, vectors = vectors, (products - middle * vectors) / half
        for _ in range(_DEGREE - 1):
            rest = before + (2 * middle / half) * vectors
            before, vectors = vectors, torch.addmm(rest, matrix, vectors, beta=-1, alpha=2 / half)
    return None


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
