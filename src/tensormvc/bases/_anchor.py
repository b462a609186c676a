"""The anchor graph Fourier transform: a spectrum of n samples through a few hundred anchors."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from array_api_compat import device
from numpy.typing import NDArray

from ..backend.arrays import Array, in_double, namespace, on_host
from ..backend.linalg import SparseFactor, sum_of_squares
from ..graphs import anchor_graph, bkhk, bkhk_of_rows
from ..rows import InMemory, RowArrays, Rows, row_blocks, row_work
from ..views import Views, as_views, probes_of
from ..views._views import ProbeDraws
from ._base import ConvertedMatrix, DataBasis, settle

# Squared singular values below this are rounding: their left vectors would be noise.
_ZERO = 1e-10


def view_anchors(views: Views, which: list[int], depth: int) -> list[Array]:
    """Return 2^depth BKHK anchors of some of the views side by side, wherever their rows are."""
    views.hold_ties()
    if isinstance(views.rows, InMemory) and not views.on_disk:
        return bkhk([views.arrays[v] for v in which], depth, views.rows["ties"])
    return list(bkhk_of_rows(views.rows, which, depth))


class AGFT(DataBasis):
    """Anchor graph Fourier transform: the low frequencies of a graph from samples to anchors.

    With S (n × k_a) the sparse graph from samples to their k nearest anchors and Ŝ = D^{-1/2} S Δ^{-1/2} = U Σ Vᵀ, the
    transform is Uᵀ. The basis has k_a columns instead of n; the part of a tensor outside their span is lost. U is never
    formed: with U = Ŝ V Σ^{-1}, a transform of p columns takes O(n k p + k_a² p) time and O(n k) memory. Use it for
    more than a few thousand samples.

    Parameters
    ----------
    n_anchors : "auto", "paper" or int, default="auto"
        Number of anchors, a power of 2. "auto": the smallest that is at least min(256, n/4) and twice the number of
        clusters, if the samples allow. "paper": 2^min(c, 10) for c clusters, if the samples allow.
    n_neighbors : int, default=10
        Number of anchors that each sample is linked to, less than `n_anchors`.

    Attributes
    ----------
    n_anchors_ : int
        Number of anchors.
    anchors_ : list of arrays of shape (n_anchors, n_features_v)
        The anchors, one array per view.
    anchor_graph_ : csr_array of shape (n_samples, n_anchors)
        Weights from samples to anchors, in the order of the samples that `forward` takes.
    singular_values_ : ndarray of shape (K,)
        Singular values of the normalised anchor graph, descending: 1 is the lowest frequency.
    slice_weights_ : ndarray of shape (K,)
        All 1: the slices are real.
    mode_length_ : int
        Number of samples.

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(300)
    >>> agft = tm.AGFT(n_anchors=32).fit(views)
    >>> tensor = np.random.default_rng(0).normal(size=(300, 5, 4))
    >>> agft.forward(tensor).shape
    (32, 5, 4)
    """

    def __init__(self, n_anchors: int | str = "auto", n_neighbors: int = 10) -> None:
        self.n_anchors = n_anchors
        self.n_neighbors = n_neighbors

    def fit(
        self, views: Any, *, n_clusters: int | None = None, random_state: Any = None, sample_graph: Any = None
    ) -> Self:
        """Find the anchors, build the graph to them and compute its spectrum.

        Parameters
        ----------
        views : list of arrays (n_samples, n_features_v), or any other input the estimators take
            The samples.
        n_clusters : int, optional
            Number of clusters; needed by ``n_anchors="paper"``.
        random_state : ignored
            Nothing here is random.
        sample_graph : None
            Not supported; passing a graph raises an error.

        Returns
        -------
        self
        """
        if sample_graph is not None:
            raise ValueError("AGFT builds its own graph and cannot use sample_graph: leave it out, or use basis='gft'")
        working_views = as_views(views, keep_on_disk=True)
        depth = self._depth(working_views.n_samples, n_clusters)
        if isinstance(self.n_neighbors, bool) or not isinstance(self.n_neighbors, int | np.integer):
            raise ValueError(f"n_neighbors must be a whole number >= 1, got {self.n_neighbors!r}")
        if n_clusters is not None and (isinstance(n_clusters, bool) or not n_clusters >= 1):
            raise ValueError(f"n_clusters must be a whole number >= 1, got {n_clusters!r}")
        working_views.refuse_missing("AGFT", 'SumGraph (basis="gft-sum")')
        k = min(self.n_neighbors, 2**depth - 1)
        anchors = view_anchors(working_views, list(range(working_views.n_views)), depth)
        working_views.rows.drop("ties")
        self.n_anchors_: int = len(anchors[0])
        self.anchors_: list[NDArray[np.float64]] = [
            on_host(anchors[working_views.view_order.index(v)]) for v in range(working_views.n_views)
        ]
        self.mode_length_ = working_views.n_samples
        if not isinstance(working_views.rows, InMemory):
            self._fit_rows(working_views, anchors, k)
            return self
        graph = anchor_graph(list(working_views.arrays), anchors, k)
        self._normalised = SparseFactor(_normalised(graph, _degrees(graph)), list(row_blocks(self.mode_length_)))
        self._settle_spectrum(
            on_host(self._normalised.gram(working_views.place(np.zeros(1)))),
            lambda count: on_host(self._normalised.transpose_times(working_views.probes(count))),
        )
        self._order = None if working_views is views else working_views.order
        given_order = slice(None) if working_views is views else np.argsort(working_views.order)
        self.anchor_graph_: sp.csr_array = graph[given_order]
        return self

    def _depth(self, n: int, n_clusters: int | None) -> int:
        """Return the depth of the tree of splits, whose leaves are pairs of anchors."""
        most = int(math.log2(n)) if n > 1 else 0
        if most < 1:
            raise ValueError(f"AGFT needs at least 2 samples, there are {n}")
        if self.n_anchors == "auto":
            return max(1, min(most, math.ceil(math.log2(max(2, min(256, n / 4), 2 * (n_clusters or 1))))))
        if self.n_anchors == "paper":
            if n_clusters is None:
                raise ValueError('n_anchors="paper" needs the number of clusters: fit(views, n_clusters=...)')
            return max(1, min(most, n_clusters, 10))
        if isinstance(self.n_anchors, bool) or not isinstance(self.n_anchors, int | np.integer) or self.n_anchors < 2:
            raise ValueError(f'n_anchors must be "auto", "paper" or a power of 2, got {self.n_anchors!r}')
        depth = int(self.n_anchors).bit_length() - 1
        if 2**depth != self.n_anchors:
            raise ValueError(
                f"n_anchors={self.n_anchors} is not a power of 2: use {2**depth} or {2 ** (depth + 1)}, "
                "as the anchors come from halving the samples"
            )
        if self.n_anchors > n:
            raise ValueError(f"n_anchors={self.n_anchors} is more than the {n} samples: use at most {2**most}")
        return depth

    def _fit_rows(self, views: Views, anchors: list[Array], n_neighbors: int) -> None:
        """Fit to samples that are elsewhere; the graph to the anchors stays with them."""
        rows = views.rows
        longest = max(rows.max(_longest), float(sum(map(sum_of_squares, anchors)).max()), np.finfo(np.float64).tiny)
        rows.make("graph", _links, anchors, n_neighbors, longest)
        rows.make("normalised", _normalise, rows.sum(_sum_degrees))
        rows.drop("graph")
        self._settle_spectrum(rows.sum(_gram), lambda count: rows.sum(_probes_at_anchors, views.probe_draws(count)))

    def _settle_spectrum(self, gram: NDArray[np.float64], probes_at_anchors: Callable[[int], Array]) -> None:
        squares, vectors = np.linalg.eigh(gram)
        kept = squares > _ZERO
        squares, vectors = squares[kept][::-1], vectors[:, kept][:, ::-1]
        factor = vectors / np.sqrt(squares)

        def project(count: int) -> Array:
            return factor.T @ probes_at_anchors(count)

        settle(-squares, factor, project)
        self.singular_values_: NDArray[np.float64] = np.sqrt(squares)
        self.slice_weights_ = np.ones(len(squares))
        self._converted = ConvertedMatrix(factor)

    def hold_vectors(self, rows: Rows) -> Array | None:
        """Add the rows of Ŝ as "vectors"; return V Σ^{-1}, with which U = Ŝ V Σ^{-1}. A device gets U itself."""
        if not isinstance(rows, InMemory):
            rows.alias("vectors", "normalised")
        elif rows.tensors:
            return super().hold_vectors(rows)
        else:
            rows.hold(vectors=self._normalised.matrix)
        return self._converted.matrix

    def forward_rows(self, rows: Rows, name: str) -> Array:
        """Return the slices of a tensor that rows on a cluster hold."""
        rows.alias("tensor", name)
        at_anchors = rows.sum(_at_anchors)
        shape = at_anchors.shape[1:]
        return (self._converted.like(at_anchors).T @ at_anchors.reshape(len(at_anchors), -1)).reshape(-1, *shape)

    def inverse_rows(self, slices: Array, rows: Rows, name: str) -> None:
        """Turn slices into a tensor that rows on a cluster hold."""
        rows.alias("tensor", name)
        rows.each(_from_anchors, self._converted.like(slices) @ slices.reshape(len(slices), -1))

    def _forward(self, tensor: Array, out: Array | None) -> Array:
        if not hasattr(self, "_normalised"):
            raise ValueError("this AGFT was fitted to samples on a cluster, where its graph stayed: fit one in memory")
        xp = namespace(tensor)
        columns = xp.reshape(tensor, (tensor.shape[0], -1))
        at_anchors = self._normalised.transpose_times(columns)
        slices = xp.reshape(self._converted.like(tensor).T @ at_anchors, (-1, *tensor.shape[1:]))
        if out is None:
            return slices
        out[...] = slices
        return out

    def _inverse(self, slices: Array, out: Array | None) -> Array:
        if not hasattr(self, "_normalised"):
            raise ValueError("this AGFT was fitted to samples on a cluster, where its graph stayed: fit one in memory")
        xp = namespace(slices)
        shape = (self.mode_length_, *slices.shape[1:])
        if out is None:
            out = xp.empty(shape, dtype=slices.dtype, device=device(slices))
        at_anchors = self._converted.like(slices) @ xp.reshape(slices, (slices.shape[0], -1))
        self._normalised.times(at_anchors, xp.reshape(out, (shape[0], -1)))
        return out


def _degrees(graph: sp.csr_array) -> NDArray[np.float64]:
    """Return the degrees of the anchors."""
    degrees: Any = np.bincount(graph.indices, weights=graph.data, minlength=graph.shape[1])
    return np.asarray(degrees, dtype=np.float64)


def _normalised(graph: sp.csr_array, degrees: NDArray[np.float64]) -> sp.csr_array:
    """Return D^{-1/2} S Δ^{-1/2} of some rows of a graph to anchors, with the degrees Δ of the anchors in all of it."""
    scale_rows = np.repeat(1 / np.sqrt(graph.sum(axis=1)), np.diff(graph.indptr))
    scale_columns = np.divide(1, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
    weights = graph.data * scale_rows * scale_columns[graph.indices]
    return sp.csr_array((weights, graph.indices, graph.indptr), shape=graph.shape)


# Work on rows that are elsewhere.


@dataclass
class AnchorGraphRows(RowArrays):
    """The views, sparse rows (n, k_a) of the graph to the anchors and of Ŝ, and a tensor (n, …) to be transformed."""

    views: list[Array]
    graph: sp.csr_array
    normalised: sp.csr_array
    tensor: Array


@row_work(reads="views")
def _longest(rows: AnchorGraphRows) -> float:
    return float(sum(sum_of_squares(in_double(view)) for view in rows.views).max())


@row_work(reads="views")
def _links(rows: AnchorGraphRows, anchors: list[Array], n_neighbors: int, scale: float) -> sp.csr_array:
    return anchor_graph(rows.views, anchors, n_neighbors, scale)


@row_work(reads="graph")
def _sum_degrees(rows: AnchorGraphRows) -> NDArray[np.float64]:
    return _degrees(rows.graph)


@row_work(reads="graph")
def _normalise(rows: AnchorGraphRows, degrees: NDArray[np.float64]) -> sp.csr_array:
    return _normalised(rows.graph, degrees)


@row_work(reads="normalised")
def _gram(rows: AnchorGraphRows) -> NDArray[np.float64]:
    transposed = rows.normalised.T
    return np.asarray((transposed @ transposed.T).toarray())


@row_work(reads="normalised views")
def _probes_at_anchors(rows: AnchorGraphRows, draws: ProbeDraws) -> Array:
    return rows.normalised.T @ probes_of(rows.views, draws)


@row_work(reads="normalised tensor")
def _at_anchors(rows: AnchorGraphRows) -> Array:
    tensor = rows.tensor
    columns = tensor.reshape(len(tensor), -1)
    return (rows.normalised.astype(tensor.dtype, copy=False).T @ columns).reshape(-1, *tensor.shape[1:])


@row_work(reads="normalised", sets="tensor")
def _from_anchors(rows: AnchorGraphRows, at_anchors: Array) -> None:
    tensor = rows.tensor
    tensor[...] = (rows.normalised.astype(tensor.dtype, copy=False) @ at_anchors).reshape(tensor.shape)
