"""GMC: a consensus graph learnt from all views together with its own number of components.

Wang, Yang and Liu, "GMC: Graph-Based Multi-View Clustering", TKDE 2020. Each sample has a fixed neighbourhood in
each view, so that every matrix here is sparse with at most (neighbours × views) entries a row; the rows are
held as padded arrays (n, width) over the union of the neighbourhoods.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse.csgraph import connected_components

from ..backend.arrays import on_host
from ..backend.checks import check_memory
from ..backend.threads import parallel_ranges
from ..views import Views
from ._knn import DistanceBlocks, SampleGraph, check_n_neighbors, refuse_missing, tie_margin
from ._laplacian import lowest_eigenpairs

_EPS = np.finfo(np.float64).eps
_ZERO_EIGENVALUES = 1e-10
# Up to here a dense eigensolver is as fast as a sparse one.
_DENSE_UP_TO = 300


@dataclass(frozen=True)
class GMCResult:
    """What GMC ends with.

    Attributes
    ----------
    affinity : csr_array of shape (n, n)
        U, row-wise: row i holds the neighbours of i. The graph is its symmetric part.
    view_affinities : list of csr_array
        S_v of each view.
    weights : ndarray of shape (rounds, n_views)
        w_v after each round.
    lams : ndarray of shape (rounds,)
        λ that each round used.
    eigenvalues : ndarray of shape (rounds + 1, c + 1)
        The smallest eigenvalues of the Laplacian, before the first round and after each.
    n_iter : int
        Rounds.
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
        """The symmetric part of the affinity."""
        return sp.csr_array((self.affinity + self.affinity.T) / 2)

    @property
    def labels(self) -> NDArray[np.intp]:
        """The connected components, GMC's own clustering, numbered in the order of their first samples."""
        return np.asarray(connected_components(self.affinity, directed=True, connection="weak")[1], dtype=np.intp)


@dataclass
class _Neighbourhood:
    """The nearest samples of every sample in one view.

    A boundary that several samples share is split by no rule: only those nearer than it are neighbours, and
    what the formulas read at the boundary is the mean over the samples on it. Where nobody is nearer (a
    sample with that many exact duplicates, say) all samples on the boundary are neighbours with equal gaps.
    """

    nearer: sp.csr_array  # boundary distance minus distance, of the neighbours
    boundary: sp.csr_array  # rows of weights that average over the samples on the boundary


def _neighbourhood(part: Any, k: int) -> _Neighbourhood:
    distances = DistanceBlocks([part])
    n = len(distances.squares)
    found: dict[int, tuple[NDArray[Any], ...]] = {}

    def work(start: int, stop: int) -> None:
        for lo in range(start, stop, distances.rows_at_once):
            hi = min(lo + distances.rows_at_once, stop)
            block = distances.block(lo, hi)
            block[np.arange(hi - lo), np.arange(lo, hi)] = np.inf
            edge = np.partition(block, k, axis=1)[:, k, None]
            margin = tie_margin(edge, distances.scale)
            nearer, on_edge = block < edge - margin, np.abs(block - edge) <= margin
            alone = ~nearer.any(axis=1)
            equal_gaps = 1 / np.maximum(on_edge.sum(axis=1), 1)
            gaps = np.where(alone[:, None], equal_gaps[:, None], edge - block)
            rows, columns = np.nonzero(np.where(alone[:, None], on_edge, nearer))
            edge_rows, edge_columns = np.nonzero(on_edge)
            found[lo] = rows + lo, columns, gaps[rows, columns], edge_rows + lo, edge_columns

    parallel_ranges(work, n, distances.rows_at_once)
    rows, columns, gaps, edge_rows, edge_columns = (
        np.concatenate(pieces) for pieces in zip(*(found[lo] for lo in sorted(found)), strict=True)
    )
    share = 1 / np.bincount(edge_rows, minlength=n)
    return _Neighbourhood(
        nearer=sp.csr_array((gaps, (rows, columns)), shape=(n, n)),
        boundary=sp.csr_array((share[edge_rows], (edge_rows, edge_columns)), shape=(n, n)),
    )


def _rows_of(matrix: sp.csr_array) -> NDArray[np.intp]:
    """Return the row of every entry."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _row_sums(rows: NDArray[np.intp], values: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    return np.asarray(np.bincount(rows, weights=values, minlength=n), dtype=np.float64)


def probabilistic_graph(part: Any, n_neighbors: int) -> sp.csr_array:
    """Return the symmetrised graph in which the weight of a neighbour falls with its squared distance to zero.

    Row i of S holds ``(d_{k+1} − d_j) / (k d_{k+1} − d_1 − … − d_k)`` for the k nearest others of i; the graph is
    (S + Sᵀ)/2.

    Parameters
    ----------
    part : array of shape (n, d)
        The points.
    n_neighbors : int
        k.

    Returns
    -------
    csr_array of shape (n, n)
    """
    check_n_neighbors(n_neighbors, part.shape[0], beyond=1)
    nearer = _neighbourhood(part, n_neighbors).nearer
    totals = np.asarray(nearer.sum(axis=1)).ravel() + _EPS
    weights = sp.csr_array(nearer.multiply(1 / totals[:, None]))
    return sp.csr_array((weights + weights.T) / 2)


def gmc(parts: list[Any], n_clusters: int, *, n_neighbors: int = 15, max_iter: int = 20, lam: float = 1.0) -> GMCResult:
    """Learn the consensus graph.

    Parameters
    ----------
    parts : list of arrays (n, d_v)
        The views, as they are to be compared: nothing is normalised here.
    n_clusters : int
        c, the number of components that the graph is driven to have.
    n_neighbors : int, default=15
        Neighbours of each sample in each view.
    max_iter : int, default=20
        Most rounds.
    lam : float, default=1.0
        λ at the start; it is doubled and halved on the way.

    Returns
    -------
    GMCResult
    """
    n, m = parts[0].shape[0], len(parts)
    check_n_neighbors(n_neighbors, n, beyond=1)
    if isinstance(n_clusters, bool) or not isinstance(n_clusters, int | np.integer) or not 1 <= n_clusters < n:
        raise ValueError(f"n_clusters must be between 1 and {n - 1}, one less than the samples, got {n_clusters!r}")
    hoods = [_neighbourhood(part, n_neighbors) for part in parts]

    # Every matrix of the loop has this pattern; `slot_v` says where the neighbours of view v are in it.
    pattern = sum((hood.nearer for hood in hoods), sp.csr_array((n, n)))
    pattern.sort_indices()
    rows, columns = _rows_of(pattern), pattern.indices
    slots, gaps, view_rows, edges = [], [], [], []
    for hood in hoods:
        hood.nearer.sort_indices()
        own_rows = _rows_of(hood.nearer)
        # Entries in row order are sorted by (row, column) in both, so that a search finds them.
        slots.append(np.searchsorted(rows * n + columns, own_rows * n + hood.nearer.indices))
        gaps.append(hood.nearer.data)
        view_rows.append(own_rows)
        edges.append(hood.boundary)

    gap_sums = [_row_sums(r, g, n) for r, g in zip(view_rows, gaps, strict=True)]
    affinities = [g / (s[r] + _EPS) for g, s, r in zip(gaps, gap_sums, view_rows, strict=True)]

    def spread(values: NDArray[np.float64], v: int) -> NDArray[np.float64]:
        """Entries of view v laid out over the common pattern."""
        out = np.zeros(len(rows))
        out[slots[v]] = values
        return out

    def as_matrix(values: NDArray[np.float64]) -> sp.csr_array:
        return sp.csr_array((values, columns.copy(), pattern.indptr.copy()), shape=(n, n))

    consensus = np.sum([spread(a, v) for v, a in enumerate(affinities)], axis=0) / m
    consensus = consensus / np.maximum(_row_sums(rows, consensus, n), _EPS)[rows]
    values, squared_distances = _smallest_eigenvalues(as_matrix(consensus), n_clusters)
    weights = np.full(m, 1 / m)
    history: list[tuple[NDArray[np.float64], float]] = []
    eigenvalues = [values]
    converged = False

    for _ in range(max_iter):
        current = as_matrix(consensus)
        for v in range(m):
            at_edge = np.asarray(edges[v].multiply(current).sum(axis=1)).ravel()
            lift = consensus[slots[v]] - at_edge[view_rows[v]]
            total = gap_sums[v] + 2 * weights[v] * _row_sums(view_rows[v], lift, n)
            raised = (gaps[v] + 2 * weights[v] * lift) / (total[view_rows[v]] + _EPS)
            affinities[v] = np.maximum(raised, 0)
        laid_out = [spread(a, v) for v, a in enumerate(affinities)]
        weights = np.array([0.5 / max(np.linalg.norm(consensus - a), _EPS) for a in laid_out])

        distances = squared_distances(rows, columns)
        target = sum(a - lam / (2 * m * w) * distances for a, w in zip(laid_out, weights, strict=True)) / m
        supported = np.any([a > 0 for a in laid_out], axis=0)
        consensus = _project_rows(target, supported, pattern.indptr)

        used = lam
        values, new_distances = _smallest_eigenvalues(as_matrix(consensus), n_clusters)
        eigenvalues.append(values)
        history.append((weights, used))
        if values[:n_clusters].sum() > _ZERO_EIGENVALUES:
            lam *= 2
            squared_distances = new_distances
        elif values.sum() < _ZERO_EIGENVALUES:
            lam /= 2
        else:
            converged = True
            break

    return GMCResult(
        affinity=_without_zeros(as_matrix(consensus)),
        view_affinities=[_without_zeros(as_matrix(spread(a, v))) for v, a in enumerate(affinities)],
        weights=np.array([w for w, _ in history]).reshape(-1, m),
        lams=np.array([used for _, used in history]),
        eigenvalues=np.array(eigenvalues),
        n_iter=len(history),
        converged=converged,
    )


def _without_zeros(matrix: sp.csr_array) -> sp.csr_array:
    matrix.eliminate_zeros()
    return matrix


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


def _smallest_eigenvalues(
    affinity: sp.csr_array, n_clusters: int
) -> tuple[NDArray[np.float64], Callable[[NDArray[Any], NDArray[Any]], NDArray[np.float64]]]:
    """Return the c + 1 smallest eigenvalues of D − (U+Uᵀ)/2, and ‖f_i − f_j‖² as a function of i and j.

    F are the eigenvectors of the c smallest. Where the graph has more components than that, any choice of c
    null vectors would be arbitrary, and F are the indicators of all of them.
    """
    graph = sp.csr_array((affinity + affinity.T) / 2)
    n, count = graph.shape[0], n_clusters + 1
    n_components, members = connected_components(graph, directed=False)
    if n_components >= count:
        shares = 1 / np.bincount(members)
        return np.zeros(count), lambda i, j: np.where(
            members[i] == members[j], 0, shares[members[i]] + shares[members[j]]
        )
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    laplacian = sp.csr_array(sp.diags_array(degrees) - graph)
    pairs = None
    if n > _DENSE_UP_TO and count < n - 1:
        indicators = (members[:, None] == np.arange(n_components)) / np.sqrt(np.bincount(members))
        pairs = lowest_eigenpairs(
            lambda x: np.asarray(laplacian @ x),
            indicators,
            count,
            ceiling=2 * degrees.max(),
            start=degrees + 1 / (1 + degrees),
        )
    if pairs is None:
        check_memory(3 * 8 * n * n, f"the spectrum of a GMC graph of {n} samples", "try another number of neighbours")
        pairs = eigh(laplacian.toarray(), subset_by_index=[0, count - 1], check_finite=False)
    values, vectors = pairs
    smallest = vectors[:, :n_clusters]
    return values, lambda i, j: np.sum((smallest[i] - smallest[j]) ** 2, axis=1)


class GMCGraph(SampleGraph):
    """The consensus graph of GMC, the paper's best.

    Memory: at most ``n_neighbors`` × views entries a sample, and blocks of 32 MB while distances are taken.

    Parameters
    ----------
    n_neighbors : int, default=15
        Neighbours of each sample in each view.
    max_iter : int, default=20
        Most rounds.

    Attributes
    ----------
    graph_ : csr_array of shape (n_samples, n_samples)
        Symmetric. With a little luck it has as many components as there are clusters.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(200)
    >>> tm.GMCGraph().fit(views, n_clusters=10).graph_.shape
    (200, 200)
    """

    def __init__(self, n_neighbors: int = 15, max_iter: int = 20) -> None:
        self.n_neighbors = n_neighbors
        self.max_iter = max_iter

    def _build(self, views: Views, n_clusters: int | None) -> sp.csr_array:
        if n_clusters is None:
            raise ValueError("the GMC graph needs the number of clusters: fit(views, n_clusters=...)")
        refuse_missing(views, "the GMC graph")
        parts = [on_host(views.in_double(v)) for v in range(views.n_views)]
        return gmc(parts, n_clusters, n_neighbors=self.n_neighbors, max_iter=self.max_iter).graph
