"""The graph Fourier transform: frequencies from a graph over the samples."""

from pkgutil import resolve_name
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from array_api_compat import device
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse.csgraph import connected_components
from sklearn.utils.validation import check_is_fitted

from .._registry import GRAPHS
from ..backend.arrays import Array, contiguous, is_tensor, namespace, on_host, placed
from ..backend.checks import check_memory
from ..backend.linalg import thin_svd
from ..graphs import SampleGraph, check_sample_graph, normalised_adjacency, permuted_graph
from ..graphs._laplacian import lowest_eigenpairs
from ..views import Views, as_views
from ._base import REPEATED, ConvertedMatrix, DataBasis, apply_matrix, end_of_group, settle, successive_projections

# Eigenpairs computed beyond those asked for, to see whether the last of them is repeated.
_LOOK_AHEAD = 8
# Up to this number of samples, all eigenpairs take less time than some.
_DENSE_UP_TO = 500


class GFT(DataBasis):
    """Graph Fourier transform: the eigenvectors of the normalised Laplacian of a graph over the samples.

    Z̄ = Uᵀ Z with L = I − D^{−1/2} W D^{−1/2} = U Λ Uᵀ, where W holds the weights of the graph, D is diagonal with the
    row sums of W, and the eigenvalues 0 ≤ λ_1 ≤ … ≤ λ_n ≤ 2 are the frequencies. xᵀLx is small if linked samples
    have similar values, so the low frequencies vary slowly along the links, whatever the order of the rows:
    permuting the samples permutes the rows of U and does not change Z̄. Eigenvectors of repeated eigenvalues are
    determined from the data (the components of the graph, or successive projections), not by the eigensolver.

    All n components take O(n³) time and O(n²) memory to compute, K components about O(n·K²) time and O(n·K) memory, and
    a transform O(n · K · d · m) time. Use it for up to a few thousand samples; for more, use `AGFT`, which needs no
    n × n matrix.

    Parameters
    ----------
    graph : {"sim", "sum", "gmc"} or graph, default="sim"
        The graph: a name, or an object such as ``SimGraph(n_neighbors=5)`` whose `fit` sets ``graph_``. A matrix of
        weights is passed to `fit` instead.
    n_components : int, optional
        Number K of lowest frequencies to keep (a few more if the last one is repeated); `inverse` treats the others
        as zero. All by default.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (K,)
        Frequencies in ascending order, between 0 and 2.
    eigenvectors_ : ndarray of shape (n_samples, K)
        U, with its rows in the order of the samples that `forward` takes.
    graph_ : csr_array of shape (n_samples, n_samples)
        W, in the same order.
    slice_weights_ : ndarray of shape (K,)
        All 1: the slices are real.
    mode_length_ : int
        Number of samples.

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(60)
    >>> tensor = np.random.default_rng(0).normal(size=(60, 5, 4))
    >>> gft = tm.GFT(graph="sum").fit(views)
    >>> coefficients = gft.forward(tensor)
    >>> order = np.random.default_rng(1).permutation(60)
    >>> shuffled = tm.GFT(graph="sum").fit([view[order] for view in views])
    >>> bool(np.array_equal(shuffled.forward(tensor[order]), coefficients))
    True
    """

    def __init__(self, graph: Any = "sim", n_components: int | None = None) -> None:
        self.graph = graph
        self.n_components = n_components

    def fit(
        self, views: Any, *, n_clusters: int | None = None, random_state: Any = None, sample_graph: Any = None
    ) -> Self:
        """Build the graph and compute its spectrum.

        Parameters
        ----------
        views : list of arrays (n_samples, n_features_v), or any other input the estimators take
            The samples.
        n_clusters : int, optional
            Number of clusters, needed by the GMC graph.
        random_state : ignored
            Nothing here is random.
        sample_graph : array or sparse matrix of shape (n_samples, n_samples), optional
            Weights to use in place of `graph`, symmetric and not negative.

        Returns
        -------
        self
        """
        working_views = as_views(views)
        reordered = working_views is not views
        n = working_views.n_samples
        k = self._check_size(n, working_views)
        if sample_graph is None:
            graph = self._build_graph(working_views, n_clusters)
        else:
            graph = check_sample_graph(sample_graph, n, working_views.sample_ids if reordered else None)
            graph = permuted_graph(graph, working_views.order) if reordered else graph
        component_vectors = _component_vectors(graph, working_views)
        values, vectors = _spectrum(normalised_adjacency(graph), component_vectors, k, working_views)
        _set_component_vectors(values, vectors, component_vectors, working_views)
        zero = int(np.sum(values < REPEATED))
        settle(values[zero:], vectors[:, zero:], lambda count: vectors[:, zero:].T @ working_views.probes(count))
        self.mode_length_ = n
        self.slice_weights_ = np.ones(len(values))
        self.eigenvalues_: NDArray[np.float64] = values
        self._order = working_views.order if reordered else None
        self.graph_: sp.csr_array = permuted_graph(graph, np.argsort(working_views.order)) if reordered else graph
        self._converted = ConvertedMatrix(vectors)
        return self

    def _build_graph(self, views: Views, n_clusters: int | None) -> sp.csr_array:
        """Return the graph that the parameter `graph` describes, in working order."""
        graph = self.graph
        if isinstance(graph, str):
            if graph not in GRAPHS:
                raise ValueError(f"unknown graph {graph!r}; the names are {', '.join(map(repr, GRAPHS))}")
            graph = resolve_name(GRAPHS[graph])()
        if isinstance(graph, type) or not hasattr(graph, "fit"):
            raise TypeError(
                f"graph={graph!r} is not a graph: expected a name or an instance such as SimGraph(); "
                "a matrix goes to fit(views, sample_graph=...), because whatever permutes the samples permutes it too"
            )
        if isinstance(graph, SampleGraph):
            return graph._build(views, n_clusters)
        # A class of the user's own gets plain arrays, and its matrix is checked.
        return check_sample_graph(graph.fit(list(views.arrays), n_clusters=n_clusters).graph_, views.n_samples)

    def limit_neighbors(self, n_samples: int) -> None:
        """Replace the name of a graph by the graph, with fewer neighbours where there are too few samples."""
        self.graph = resolve_name(GRAPHS[self.graph])()
        self.graph.limit_neighbors(n_samples)

    @property
    def eigenvectors_(self) -> NDArray[np.float64]:
        """The basis, (n_samples, K), in the order of the samples that `forward` takes."""
        check_is_fitted(self, "eigenvalues_")
        vectors = self._converted.matrix
        return vectors if self._order is None else vectors[np.argsort(self._order)]

    def _check_size(self, n: int, views: Views) -> int:
        k = n if self.n_components is None else self.n_components
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= n:
            raise ValueError(f"n_components must be an integer from 1 to {n}, the number of samples, got {k!r}")
        needed = 4 * 8 * n * n if _dense_is_better(k, n) else 8 * n * (4 * k + 100)
        check_memory(
            needed,
            f"a graph Fourier transform of {n} samples with {k} components",
            'use basis="agft", whose memory grows with n, or GFT(n_components=...)',
            views.arrays[0],
        )
        return int(k)

    def _forward(self, tensor: Array, out: Array | None) -> Array:
        return apply_matrix(self._converted.like(tensor).T, tensor, out)

    def _inverse(self, slices: Array, out: Array | None) -> Array:
        return apply_matrix(self._converted.like(slices), slices, out)


def _component_vectors(graph: sp.csr_array, views: Views) -> NDArray[np.float64]:
    """Return the null vectors D^{1/2} 1_C of the Laplacian, normalised, one for each component C that has links.

    They are sorted by the sum of the degrees in C, the largest first, and by the first probe where these are equal.
    """
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    _, members = connected_components(graph, directed=False)
    components = np.unique(members[degrees > 0])
    vectors: NDArray[np.float64] = (members[:, None] == components) * np.sqrt(degrees)[:, None]
    if len(components) == 0:
        return vectors
    volumes = np.sum(vectors**2, axis=0)
    vectors /= np.sqrt(volumes)
    order = np.lexsort((vectors.T @ on_host(views.probes(1)[:, 0]), -np.round(volumes / volumes.max(), 9)))
    return np.asarray(vectors[:, order])


def _set_component_vectors(
    values: NDArray[np.float64], vectors: Array, exact: NDArray[np.float64], views: Views
) -> None:
    """Replace the eigenvectors of eigenvalue 0 by the vectors of the components, in place.

    Eigenvalues that are only nearly zero share an eigenspace with them, and get what the components leave of it.
    """
    near = int(np.sum(values < REPEATED))
    r = min(exact.shape[1], len(values))
    exact = placed(exact, vectors)
    if near < r:
        raise RuntimeError("the eigensolver lost a component of the graph")  # pragma: no cover
    if near > r:
        space = vectors[:, :near] - exact @ (exact.T @ vectors[:, :near])
        left, _, _ = thin_svd(space)
        rest = left[:, : near - r]
        rotation = successive_projections(on_host(rest.T @ views.probes(near - r)))
        vectors[:, r:near] = rest @ placed(rotation, rest)
    vectors[:, :r] = exact[:, :r]
    values[:r] = 0


def _dense_is_better(k: int, n: int) -> bool:
    """Return whether computing all n eigenpairs is faster than computing k of them."""
    return k + _LOOK_AHEAD >= n // 4 or n <= _DENSE_UP_TO


def _spectrum(
    adjacency: sp.csr_array, exact: NDArray[np.float64], k: int, views: Views
) -> tuple[NDArray[np.float64], Array]:
    """Return the k lowest eigenpairs of the Laplacian, and those that tie with the last, on the device of the views.

    `exact` holds its null vectors.
    """
    n = adjacency.shape[0]
    if not _dense_is_better(k, n):
        ahead, start = _LOOK_AHEAD, on_host(views.probes(1)[:, 0])
        while exact.shape[1] < k and not _dense_is_better(k + ahead, n):
            count = min(k + ahead, n - 1)
            pairs = lowest_eigenpairs(lambda x: x - adjacency @ x, exact, count, ceiling=2.0, start=start)
            if pairs is None:
                break
            values, vectors = pairs
            last = end_of_group(values, k)
            if last < len(values):
                return values[:last], views.place(vectors[:, :last])
            ahead *= 4
        if exact.shape[1] >= k:
            return np.zeros(exact.shape[1]), views.place(exact)
    check_memory(4 * 8 * n * n, f"a graph Fourier transform of {n} samples", 'use basis="agft"', views.arrays[0])
    values, vectors = _all_eigenpairs(adjacency, views)
    last = end_of_group(values, k)
    return (values, vectors) if last == n else (values[:last], contiguous(vectors[:, :last]))


def _all_eigenpairs(adjacency: sp.csr_array, views: Views) -> tuple[NDArray[np.float64], Array]:
    """Return all eigenpairs of the Laplacian, the vectors on the device of the views."""
    n, like = adjacency.shape[0], views.place(np.zeros(1))
    if is_tensor(like):
        xp, entries = namespace(like), adjacency.tocoo()
        laplacian = xp.eye(n, dtype=xp.float64, device=device(like))
        laplacian[views.place(entries.row), views.place(entries.col)] -= views.place(entries.data)
        values, vectors = xp.linalg.eigh(laplacian)
        return on_host(values), vectors
    # Computed in place, to save an n × n matrix.
    laplacian = np.asfortranarray(np.eye(n) - adjacency.toarray())
    values, vectors = eigh(laplacian, driver="evd", overwrite_a=True, check_finite=False)
    return values, vectors
