"""The graph Fourier transform: the samples' own frequencies."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from array_api_compat import device
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse.csgraph import connected_components
from sklearn.utils.validation import check_is_fitted

from ..backend.arrays import Array, contiguous, is_tensor, namespace, on_host, placed
from ..backend.checks import as_real_array, check_memory, check_out
from ..graphs import (
    GMCGraph,
    SampleGraph,
    SimGraph,
    SumGraph,
    check_sample_graph,
    lowest_eigenpairs,
    normalised_adjacency,
    permuted_graph,
)
from ..views import Views, as_views
from ._base import ConvertedMatrix, SampleModeBasis, apply_matrix
from ._spectrum import REPEATED, settle, successive_projections

_GRAPHS: dict[str, type[SampleGraph]] = {"sim": SimGraph, "sum": SumGraph, "gmc": GMCGraph}
# Eigenpairs computed beyond those asked for, to see whether the last of them is repeated.
_LOOK_AHEAD = 8
# Up to here all eigenpairs are found faster than some.
_DENSE_UP_TO = 500


def working_graph(basis_graph: Any, views: Views, given: Any, sample_graph: Any, n_clusters: int | None) -> Any:
    """Return the sample graph in working order: the user's if there is one, else that of the basis."""
    if sample_graph is not None:
        graph = check_sample_graph(sample_graph, views.n_samples, None if given is views else views.sample_ids)
        return graph if given is views else permuted_graph(graph, views.order)
    if isinstance(basis_graph, str):
        if basis_graph not in _GRAPHS:
            raise ValueError(f"unknown graph {basis_graph!r}; the names are {', '.join(map(repr, _GRAPHS))}")
        basis_graph = _GRAPHS[basis_graph]()
    if isinstance(basis_graph, type) or not hasattr(basis_graph, "fit"):
        raise TypeError(
            f"graph={basis_graph!r} is not a graph: expected a name or an instance such as SimGraph(); "
            "a matrix goes to fit(views, sample_graph=...), because whatever permutes the samples permutes it too"
        )
    if isinstance(basis_graph, SampleGraph):
        return basis_graph._build(views, n_clusters)
    # A stranger's graph: fitted to plain arrays, checked as a user's matrix is.
    built = basis_graph.fit(list(views.arrays), n_clusters=n_clusters).graph_
    return check_sample_graph(built, views.n_samples)


def graph_for(name: str, n_samples: int) -> SampleGraph:
    """Return the graph of a name, with fewer neighbours than its default where there are too few samples."""
    graph = _GRAPHS[name]()
    most = n_samples - (2 if isinstance(graph, GMCGraph) else 1)
    graph.set_params(n_neighbors=max(1, min(graph.n_neighbors, most)))
    return graph


class DataBasis(SampleModeBasis):
    """A sample-mode basis that comes from the data, computed in the canonical order of the samples.

    Fitted to `Views`, it takes tensors in their working order, as the methods do. Fitted to anything else, it
    takes tensors in the order of the samples as given, and reorders them by itself.
    """

    adapts_to_data = True
    _order: NDArray[np.intp] | None = None

    def forward(self, tensor: Array, *, out: Array | None = None) -> Array:
        """Transform a real tensor (n, d, m) into its slices (K, d, m)."""
        if self._order is not None:
            tensor = as_real_array(tensor, "tensor", 3)
            self._check_mode(tensor, self.mode_length_, 0, "tensor")
            tensor = tensor[self._order]
        return super().forward(tensor, out=out)

    def inverse(self, slices: Array, *, out: Array | None = None) -> Array:
        """Transform slices (K, d, m) back into a real tensor (n, d, m)."""
        if self._order is None:
            return super().inverse(slices, out=out)
        tensor = super().inverse(slices)
        if out is None:
            return tensor[np.argsort(self._order)]
        check_out(out, tuple(tensor.shape), tensor.dtype)
        out[self._order] = tensor
        return out


class GFT(DataBasis):
    """Graph Fourier transform: the eigenvectors of the normalised Laplacian of a graph over the samples.

    Samples that are linked have similar values in the low frequencies, whatever the order of the rows:
    permuting the samples permutes the basis and leaves the coefficients as they are. Repeated eigenvalues are
    settled from the data (the components of the graph, or successive projections), not by the eigensolver.

    Memory: all components take one n × n matrix of float64 (8 n² bytes) and three while it is computed;
    `n_components` of them take 8 n·K bytes.

    Parameters
    ----------
    graph : {"sim", "sum", "gmc"} or graph, default="sim"
        The graph over the samples, a name or an instance such as ``SimGraph(n_neighbors=5)``. A graph of your
        own goes to `fit`.
    n_components : int, optional
        Keep this many of the lowest frequencies (a few more if the last one is repeated); the rest of a tensor
        comes back as zero. All by default.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (K,)
        Frequencies in ascending order, between 0 and 2.
    eigenvectors_ : ndarray of shape (n_samples, K)
        In the order of the samples that `forward` takes.
    graph_ : csr_array of shape (n_samples, n_samples)
        The graph, in the same order.
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
        views : list of arrays (n_samples, n_features_v), or what else `Views` are made of
            The samples.
        n_clusters : int, optional
            Needed by the GMC graph.
        random_state : ignored
            Nothing here is random.
        sample_graph : array or sparse matrix of shape (n_samples, n_samples), optional
            A graph to use instead: symmetric, not negative.

        Returns
        -------
        self
        """
        made = as_views(views)
        n = made.n_samples
        k = self._check_size(n, made)
        graph = working_graph(self.graph, made, views, sample_graph, n_clusters)
        adjacency = normalised_adjacency(graph)
        values, vectors = _spectrum(adjacency, graph, k, made)
        _set_component_vectors(values, vectors, graph, made)
        zero = int(np.sum(values < REPEATED))
        settle(values[zero:], vectors[:, zero:], lambda count: vectors[:, zero:].T @ made.probes(count))
        self.mode_length_ = n
        self.slice_weights_ = np.ones(len(values))
        self.eigenvalues_: NDArray[np.float64] = values
        self._order = None if made is views else made.order
        self.graph_: sp.csr_array = graph if made is views else permuted_graph(graph, np.argsort(made.order))
        self._converted = ConvertedMatrix(vectors)
        return self

    @property
    def eigenvectors_(self) -> NDArray[np.float64]:
        """The basis, (n_samples, K), in the order of the samples that `forward` takes."""
        check_is_fitted(self, "eigenvalues_")
        vectors = self._converted.matrix
        return vectors if self._order is None else vectors[np.argsort(self._order)]

    def _check_size(self, n: int, views: Views) -> int:
        k = n if self.n_components is None else self.n_components
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= n:
            raise ValueError(f"n_components must be a whole number from 1 to the {n} samples, got {k!r}")
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


def _n_linked_components(graph: sp.csr_array) -> tuple[int, NDArray[np.intp]]:
    """Return how many components have links, and the component of each sample (−1 for one without links)."""
    _, members = connected_components(graph, directed=False)
    linked = np.asarray(graph.sum(axis=1)).ravel() > 0
    kept, renumbered = np.unique(members[linked], return_inverse=True)
    out = np.full(len(members), -1)
    out[linked] = renumbered
    return len(kept), out


def _component_vectors(graph: sp.csr_array, views: Views) -> NDArray[np.float64]:
    """Return D^{1/2} 1_C, normalised, of every linked component, in an order that the data decide.

    By the sum of degrees, larger first; equal ones by the first probe.
    """
    count, members = _n_linked_components(graph)
    roots = np.sqrt(np.asarray(graph.sum(axis=1)).ravel())
    vectors: NDArray[np.float64] = (members[:, None] == np.arange(count)) * roots[:, None]
    if count == 0:
        return vectors
    volumes = np.sum(vectors**2, axis=0)
    vectors /= np.sqrt(volumes)
    order = np.lexsort((vectors.T @ on_host(views.probes(1)[:, 0]), -np.round(volumes / volumes.max(), 9)))
    return np.asarray(vectors[:, order])


def _set_component_vectors(values: NDArray[np.float64], vectors: Array, graph: sp.csr_array, views: Views) -> None:
    """Replace the eigenvectors of eigenvalue 0 by those of the components, in place.

    Eigenvalues that are only nearly zero keep their space: what is left of it after the components.
    """
    exact = _component_vectors(graph, views)
    near = int(np.sum(values < REPEATED))
    r = min(exact.shape[1], len(values))
    exact = placed(exact, vectors)
    if near < r:
        raise RuntimeError("the eigensolver lost a component of the graph")  # pragma: no cover
    if near > r:
        space = vectors[:, :near] - exact @ (exact.T @ vectors[:, :near])
        left, _, _ = namespace(space).linalg.svd(space, full_matrices=False)
        rest = left[:, : near - r]
        rotation = successive_projections(on_host(rest.T @ views.probes(near - r)))
        vectors[:, r:near] = rest @ placed(rotation, rest)
    vectors[:, :r] = exact[:, :r]
    values[:r] = 0


def _dense_is_better(k: int, n: int) -> bool:
    """Whether so many of n frequencies are better found among all of them."""
    return k + _LOOK_AHEAD >= n // 4 or n <= _DENSE_UP_TO


def _spectrum(adjacency: sp.csr_array, graph: sp.csr_array, k: int, views: Views) -> tuple[NDArray[np.float64], Array]:
    """Return the k lowest eigenpairs of the Laplacian, and those that tie with the last, where the views are."""
    n = adjacency.shape[0]
    if not _dense_is_better(k, n):
        exact = _component_vectors(graph, views)
        ahead, start = _LOOK_AHEAD, on_host(views.probes(1)[:, 0])
        while exact.shape[1] < k and not _dense_is_better(k + ahead, n):
            # The spectrum of the adjacency lies in [-1, 1]; the lowest frequencies are its upper end.
            pairs = lowest_eigenpairs(
                lambda x: x - adjacency @ x, exact, min(k + ahead, n - 1), ceiling=2.0, start=start
            )
            if pairs is None:
                break
            values, vectors = pairs
            last = _end_of_group(values, k)
            if last < len(values):
                return values[:last], views.place(vectors[:, :last])
            ahead *= 4
        if exact.shape[1] >= k:
            return np.zeros(exact.shape[1]), views.place(exact)
    check_memory(4 * 8 * n * n, f"a graph Fourier transform of {n} samples", 'use basis="agft"', views.arrays[0])
    values, vectors = _all_eigenpairs(adjacency, views)
    last = _end_of_group(values, k)
    return (values, vectors) if last == n else (values[:last], contiguous(vectors[:, :last]))


def _all_eigenpairs(adjacency: sp.csr_array, views: Views) -> tuple[NDArray[np.float64], Array]:
    """Return all eigenpairs of the Laplacian, the vectors where the views are."""
    n = adjacency.shape[0]
    probe = views.place(np.zeros(1))
    if not is_tensor(probe):
        # In place: the Laplacian becomes its eigenvectors.
        laplacian = np.asfortranarray(np.eye(n) - adjacency.toarray())
        return tuple(eigh(laplacian, driver="evd", overwrite_a=True, check_finite=False))
    xp = namespace(probe)
    laplacian = xp.eye(n, dtype=xp.float64, device=device(probe))
    entries = adjacency.tocoo()
    laplacian[views.place(entries.row), views.place(entries.col)] -= views.place(entries.data)
    values, vectors = xp.linalg.eigh(laplacian)
    return on_host(values), vectors


def _end_of_group(values: NDArray[np.float64], k: int) -> int:
    """Return the first place from k on where sorted eigenvalues differ from their predecessor."""
    last = k
    while last < len(values) and values[last] - values[last - 1] < REPEATED:
        last += 1
    return last
