"""GMC: a consensus graph of all views with as many connected components as clusters.

Row i of every matrix here is non-zero only on the nearest neighbours of sample i in some view, so that all of them are
sparse with few entries per row, and share one sparsity pattern: the k nearest neighbours and the (k+1)-th in all views.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from ..backend.arrays import on_host
from ..backend.checks import check_memory
from ..views import Views
from ._distances import DistanceBlocks, check_n_neighbors, tie_margin
from ._knn import SampleGraph
from ._laplacian import dense_eigenpairs, lowest_eigenpairs

_EPS = np.finfo(np.float64).eps
_ZERO_EIGENVALUES = 1e-10
# Up to this number of samples a dense eigensolver is as fast as a sparse one.
_DENSE_UP_TO = 300


@dataclass(frozen=True)
class GMCResult:
    """The graph that GMC has learnt, and how it got there.

    Attributes
    ----------
    affinity : csr_array of shape (n, n)
        U; row i holds the weights of the neighbours of sample i.
    view_affinities : list of csr_array
        S_v of each view.
    weights : ndarray of shape (n_iter, n_views)
        w_v after each iteration.
    lams : ndarray of shape (n_iter,)
        λ used in each iteration.
    eigenvalues : ndarray of shape (n_iter + 1, c + 1)
        The smallest eigenvalues of the Laplacian, before the first iteration and after each.
    n_iter : int
        Number of iterations.
    converged : bool
        Whether the graph has as many components as clusters.
    """

    affinity: sp.csr_array
    view_affinities: list[sp.csr_array]
    weights: NDArray[np.float64]
    lams: NDArray[np.float64]
    eigenvalues: NDArray[np.float64]
    n_iter: int
    converged: bool

    @property
    def graph(self) -> sp.csr_array:
        """The symmetric graph (U + Uᵀ)/2."""
        return sp.csr_array((self.affinity + self.affinity.T) / 2)

    @property
    def labels(self) -> NDArray[np.intp]:
        """The connected components of the graph, numbered in the order of their first samples."""
        return np.asarray(connected_components(self.affinity, directed=True, connection="weak")[1], dtype=np.intp)


@dataclass
class _Neighbourhood:
    """The k nearest neighbours of every sample in one view, and the (k+1)-th, at whose distance weights are zero.

    Ties are not broken. Where several samples tie with the (k+1)-th, only those nearer than all of them are neighbours,
    and a value at the (k+1)-th is the mean over the tied samples. Where no sample is nearer (more than k exact
    duplicates, say), all tied samples are neighbours with the same weight.
    """

    gaps: sp.csr_array  # d_{i,k+1} − d_ij at the neighbours j of i
    mean_at_boundary: sp.csr_array  # row i averages over the samples that tie with the (k+1)-th

    @classmethod
    def of_view(cls, part: Any, k: int) -> _Neighbourhood:
        """Find the neighbours in one view."""
        distances = DistanceBlocks([part])
        n = len(distances.squares)

        def nearest(block: NDArray[np.float64], start: int) -> tuple[NDArray[Any], ...]:
            boundary = np.partition(block, k, axis=1)[:, k, None]
            margin = tie_margin(boundary, distances.scale)
            nearer, tied = block < boundary - margin, np.abs(block - boundary) <= margin
            only_ties = ~nearer.any(axis=1)[:, None]
            equal_gaps = 1 / np.maximum(tied.sum(axis=1, keepdims=True), 1)
            gaps = np.where(only_ties, equal_gaps, boundary - block)
            rows, columns = np.nonzero(np.where(only_ties, tied, nearer))
            tied_rows, tied_columns = np.nonzero(tied)
            return rows + start, columns, gaps[rows, columns], tied_rows + start, tied_columns

        rows, columns, gaps, tied_rows, tied_columns = distances.collect(nearest)
        shares = (1 / np.bincount(tied_rows, minlength=n))[tied_rows]
        return cls(
            gaps=sp.csr_array((gaps, (rows, columns)), shape=(n, n)),
            mean_at_boundary=sp.csr_array((shares, (tied_rows, tied_columns)), shape=(n, n)),
        )

    def locate_in(self, pattern: sp.csr_array) -> None:
        """Find neighbours and boundary among the entries of a sparsity pattern that contains them."""
        n, entries = pattern.shape[0], _row_of_entries(pattern) * pattern.shape[0] + pattern.indices
        self.rows, self.boundary_rows = _row_of_entries(self.gaps), _row_of_entries(self.mean_at_boundary)
        self.gap_sums = _row_sums(self.rows, self.gaps.data)
        # The entries of all matrices are sorted by row and column.
        self.slots = np.searchsorted(entries, self.rows * n + self.gaps.indices)
        self.boundary_slots = np.searchsorted(entries, self.boundary_rows * n + self.mean_at_boundary.indices)

    def affinity(self, u: NDArray[np.float64], weight: float) -> NDArray[np.float64]:
        """Return the entries of S_v on the common pattern, from those of the consensus U.

        s_ij = max(0, (d_{i,k+1} − d_ij + 2w(u_ij − u_{i,k+1})) / Σ_j (d_{i,k+1} − d_ij + 2w(u_ij − u_{i,k+1}))).
        """
        at_boundary = _row_sums(self.boundary_rows, self.mean_at_boundary.data * u[self.boundary_slots])
        lift = u[self.slots] - at_boundary[self.rows]
        totals = self.gap_sums + 2 * weight * _row_sums(self.rows, lift)
        affinity = np.zeros(len(u))
        affinity[self.slots] = np.maximum((self.gaps.data + 2 * weight * lift) / (totals[self.rows] + _EPS), 0)
        return affinity


def _row_of_entries(matrix: sp.csr_array) -> NDArray[np.intp]:
    """Return the row of every entry."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _row_sums(rows: NDArray[np.intp], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums of the entries of all rows, none of which is empty."""
    return np.asarray(np.bincount(rows, weights=values), dtype=np.float64)


def gmc(parts: list[Any], n_clusters: int, *, n_neighbors: int = 15, max_iter: int = 20, lam: float = 1.0) -> GMCResult:
    """Learn a consensus graph U of all views with `n_clusters` connected components.

    Minimises, over the graphs S_v of the views, their weights w_v, U, and a spectral embedding F in turn,

        Σ_v Σ_ij ‖x_i⁽ᵛ⁾ − x_j⁽ᵛ⁾‖² s_ij⁽ᵛ⁾ + Σ_v Σ_i α_i⁽ᵛ⁾ ‖s_i⁽ᵛ⁾‖² + Σ_v w_v ‖U − S_v‖² + 2λ tr(Fᵀ L_U F)

    with the rows of U and of the S_v on the simplex and FᵀF = I, where L_U is the Laplacian of (U + Uᵀ)/2 and α_i⁽ᵛ⁾ is
    such that sample i has `n_neighbors` neighbours in view v. λ is doubled while U has too few components, and halved
    while it has too many.

    Parameters
    ----------
    parts : list of arrays (n, d_v)
        The views, scaled as they are to be compared.
    n_clusters : int
        c, the number of components.
    n_neighbors : int, default=15
        Number of neighbours of each sample in each view.
    max_iter : int, default=20
        Maximum number of iterations.
    lam : float, default=1.0
        λ in the first iteration.

    Returns
    -------
    GMCResult

    References
    ----------
    H. Wang, Y. Yang and B. Liu, "GMC: Graph-Based Multi-View Clustering", IEEE Transactions on Knowledge and Data
    Engineering 32(6), 2020.
    """
    n, m = parts[0].shape[0], len(parts)
    check_n_neighbors(n_neighbors, n, beyond=1)
    if isinstance(n_clusters, bool) or not isinstance(n_clusters, int | np.integer) or not 1 <= n_clusters < n:
        raise ValueError(f"n_clusters must be between 1 and {n - 1}, one less than the samples, got {n_clusters!r}")
    neighbourhoods = [_Neighbourhood.of_view(part, n_neighbors) for part in parts]
    pattern = sp.csr_array(sum(neighbourhood.gaps + neighbourhood.mean_at_boundary for neighbourhood in neighbourhoods))
    for neighbourhood in neighbourhoods:
        neighbourhood.locate_in(pattern)
    rows = _row_of_entries(pattern)

    # Start: S_v from the distances alone, U their mean with rows that sum to 1, F of U.
    s = [neighbourhood.affinity(np.zeros(len(rows)), 0.0) for neighbourhood in neighbourhoods]
    mean = np.sum(s, axis=0) / m
    u = mean / np.maximum(_row_sums(rows, mean), _EPS)[rows]
    w = np.full(m, 1 / m)
    values, f_distances = _spectrum(_with_entries(pattern, u), n_clusters)
    weights, lams, eigenvalues, converged = [], [], [values], False

    for _ in range(max_iter):
        s = [neighbourhood.affinity(u, w_v) for neighbourhood, w_v in zip(neighbourhoods, w, strict=True)]
        w = np.array([1 / (2 * max(np.linalg.norm(u - s_v), _EPS)) for s_v in s])
        target = sum(s_v - lam / (2 * m * w_v) * f_distances for s_v, w_v in zip(s, w, strict=True)) / m
        u = _project_rows(target, np.any([s_v > 0 for s_v in s], axis=0), pattern.indptr)
        values, new_f_distances = _spectrum(_with_entries(pattern, u), n_clusters)
        weights.append(w)
        lams.append(lam)
        eigenvalues.append(values)
        if values[:n_clusters].sum() > _ZERO_EIGENVALUES:  # too few components
            lam *= 2
            f_distances = new_f_distances
        elif values.sum() < _ZERO_EIGENVALUES:  # too many: F is kept
            lam /= 2
        else:
            converged = True
            break

    for matrix in (graphs := [_with_entries(pattern, entries) for entries in (u, *s)]):
        matrix.eliminate_zeros()
    return GMCResult(
        affinity=graphs[0],
        view_affinities=graphs[1:],
        weights=np.array(weights).reshape(-1, m),
        lams=np.array(lams),
        eigenvalues=np.array(eigenvalues),
        n_iter=len(lams),
        converged=converged,
    )


def _with_entries(pattern: sp.csr_array, values: NDArray[np.float64]) -> sp.csr_array:
    """Return the matrix with these entries on the sparsity pattern, which it does not share memory with."""
    return sp.csr_array((values, pattern.indices.copy(), pattern.indptr.copy()), shape=pattern.shape)


def _project_rows(
    target: NDArray[np.float64], supported: NDArray[np.bool_], indptr: NDArray[Any]
) -> NDArray[np.float64]:
    """Project the supported entries of every row onto the simplex; the others become zero."""
    lengths = np.diff(indptr)
    width = int(lengths.max(initial=1))
    inside = np.arange(width) < lengths[:, None]
    padded = np.full((len(lengths), width), -np.inf)
    padded[inside] = np.where(supported, target, -np.inf)
    falling = -np.sort(-padded, axis=1)
    counts = np.arange(1, width + 1)
    with np.errstate(invalid="ignore"):
        sums = np.cumsum(np.where(np.isfinite(falling), falling, 0), axis=1) - 1
        active = np.isfinite(falling) & (falling * counts > sums)
    last = np.maximum(active.sum(axis=1), 1)
    level = sums[np.arange(len(lengths)), last - 1] / last
    return np.asarray(np.maximum(padded - level[:, None], 0)[inside])


def _spectrum(affinity: sp.csr_array, n_clusters: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the c + 1 smallest eigenvalues of the Laplacian of (U + Uᵀ)/2, and ‖f_i − f_j‖² at the entries of U.

    F holds the eigenvectors of the c smallest eigenvalues. Where the graph has more than c components, c of its null
    vectors would be an arbitrary choice, and F holds the normalised indicators of all components.
    """
    rows, columns = _row_of_entries(affinity), affinity.indices
    graph = sp.csr_array((affinity + affinity.T) / 2)
    n, count = graph.shape[0], n_clusters + 1
    n_components, members = connected_components(graph, directed=False)
    if n_components >= count:
        shares = (1 / np.bincount(members))[members]
        return np.zeros(count), np.where(members[rows] == members[columns], 0, shares[rows] + shares[columns])
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    laplacian = sp.csr_array(sp.diags_array(degrees) - graph)
    pairs = None
    if n > _DENSE_UP_TO and count < n - 1:
        indicators = (members[:, None] == np.arange(n_components)) / np.sqrt(np.bincount(members))
        start = degrees + 1 / (1 + degrees)
        pairs = lowest_eigenpairs(
            lambda x: np.asarray(laplacian @ x), indicators, count, ceiling=2 * degrees.max(), start=start
        )
    if pairs is None:
        check_memory(3 * 8 * n * n, f"the spectrum of a GMC graph of {n} samples", "try another number of neighbours")
        pairs = dense_eigenpairs(laplacian.toarray(), count)
    values, vectors = pairs
    f = vectors[:, :n_clusters]
    return values, np.sum((f[rows] - f[columns]) ** 2, axis=1)


class GMCGraph(SampleGraph):
    """Consensus graph of GMC, the best graph in the paper.

    GMC learns a graph U of all views together with a graph S_v for each view, such that U is close to the S_v (with
    weights w_v that are learned as well) and its Laplacian has the eigenvalue 0 once per cluster;
    W = (U + Uᵀ)/2. Samples in different clusters therefore tend to have no link at all. See `tensormvc.GMC` for the
    problem and reference.

    Time O(n² Σ_v d_v) for the distances and one sparse eigenproblem per iteration, memory O(n·k·m). Use it if the
    number of clusters is known; it is more sensitive to small changes of the data than `SimGraph` and `SumGraph`.

    Parameters
    ----------
    n_neighbors : int, default=15
        Number k of neighbours of each sample in each view.
    max_iter : int, default=20
        Maximum number of iterations.

    Attributes
    ----------
    graph_ : csr_array of shape (n_samples, n_samples)
        Symmetric. If GMC has converged, it has as many components as there are clusters.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(200)
    >>> tm.GMCGraph().fit(views, n_clusters=10).graph_.shape
    (200, 200)
    """

    _n_beyond = 1

    def __init__(self, n_neighbors: int = 15, max_iter: int = 20) -> None:
        super().__init__(n_neighbors)
        self.max_iter = max_iter

    def _build(self, views: Views, n_clusters: int | None) -> sp.csr_array:
        if n_clusters is None:
            raise ValueError("the GMC graph needs the number of clusters: pass fit(views, n_clusters=...)")
        views.refuse_missing("GMCGraph", 'SumGraph (basis="gft-sum")')
        parts = [on_host(views.in_double(v)) for v in range(views.n_views)]
        return gmc(parts, n_clusters, n_neighbors=self.n_neighbors, max_iter=self.max_iter).graph
