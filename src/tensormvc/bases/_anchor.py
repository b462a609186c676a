"""The anchor graph Fourier transform: a spectrum of n samples through a few hundred anchors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from array_api_compat import device
from numpy.typing import NDArray

from .. import backend
from ..backend import Array, is_on_disk
from ..graphs import anchor_graph, bkhk, inverse_root_degrees, refuse_missing
from ..graphs._anchors import anchors_of_rows
from ..rows import Part, row_blocks, row_work
from ..views import Views, as_views, probes_of
from ._base import ConvertedMatrix, DataBasis
from ._spectrum import settle

# Squared singular values below this are rounding: their left vectors would be noise.
_ZERO = 1e-10


class AGFT(DataBasis):
    """Anchor graph Fourier transform: the low frequencies of a graph from samples to anchors.

    The basis has k_a columns instead of n; what a tensor has outside their span comes back as zero. It is never
    formed: with a sparse n × k_a graph of k entries a row, a transform costs O(n·k) instead of O(n·k_a) for
    each column of the tensor.

    Memory: 12 n·k bytes for the graph and 16 k_a² for the spectrum; a transform of n rows of p numbers adds
    32 blocks of k_a × p, or one for each 16 384 rows.

    Parameters
    ----------
    n_anchors : "auto", "paper" or int, default="auto"
        Number of anchors, a power of 2. "auto": the first that is at least min(256, n/4) and twice the number of
        clusters, if the samples allow. "paper": 2^min(c, 10) for c clusters, if the samples allow.
    n_neighbors : int, default=10
        Anchors that each sample is linked to, at most one less than there are.

    Attributes
    ----------
    n_anchors_ : int
        Number of anchors.
    anchors_ : list of arrays of shape (n_anchors_, n_features_v)
        The anchors, one array a view.
    anchor_graph_ : csr_array of shape (n_samples, n_anchors_)
        Weights from samples to anchors, in the order of the samples that `forward` takes.
    singular_values_ : ndarray of shape (K,)
        Of the normalised anchor graph, descending: 1 is the lowest frequency.
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
        views : list of arrays (n_samples, n_features_v), or what else `Views` are made of
            The samples.
        n_clusters : int, optional
            Number of clusters; needed by ``n_anchors="paper"``.
        random_state : ignored
            Nothing here is random.
        sample_graph : None
            A graph between samples has no use here; giving one is an error.

        Returns
        -------
        self
        """
        if sample_graph is not None:
            raise ValueError("AGFT builds its own graph to anchors: use GFT with a sample_graph of your own")
        made = as_views(views, keep_on_disk=True)
        depth = self._depth(made.n_samples, n_clusters)
        if isinstance(self.n_neighbors, bool) or not isinstance(self.n_neighbors, int | np.integer):
            raise ValueError(f"n_neighbors must be a whole number >= 1, got {self.n_neighbors!r}")
        if n_clusters is not None and (isinstance(n_clusters, bool) or not n_clusters >= 1):
            raise ValueError(f"n_clusters must be a whole number >= 1, got {n_clusters!r}")
        refuse_missing(made, "AGFT")
        k = min(self.n_neighbors, 2**depth - 1)
        if made.rows.distributed:
            self._fit_rows(made, depth, k)
            return self
        # In single precision rounding would decide who is in which half.
        parts = [array if is_on_disk(array) else backend.in_double(array) for array in made.arrays]
        anchors = bkhk(parts, depth, made.probes(1)[:, 0])
        graph = anchor_graph(parts, anchors, k)
        self._set_anchors(anchors, made)
        self._set_spectrum(graph, made)
        self.mode_length_ = made.n_samples
        self._order = None if made is views else made.order
        self.anchor_graph_: sp.csr_array = graph if made is views else graph[np.argsort(made.order)]
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

    def _set_spectrum(self, graph: sp.csr_array, views: Views) -> None:
        """Compute Ŝ = D^{-1/2} S Δ^{-1/2} and V Σ^{-1}, with which U = Ŝ V Σ^{-1}."""
        degrees = _anchor_degrees(graph)
        self._normalised = backend.SparseFactor(_normalised(graph, degrees), list(row_blocks(views.n_samples)))
        self._settle_spectrum(
            backend.on_host(self._normalised.gram(views.place(np.zeros(1)))),
            lambda count: backend.on_host(self._normalised.transpose_times(views.probes(count))),
        )

    def _fit_rows(self, views: Views, depth: int, n_neighbors: int) -> None:
        """Do the same with samples that are elsewhere; the graph to the anchors stays with them."""
        rows = views.rows
        views.hold_ties()
        anchors = anchors_of_rows(rows, list(range(views.n_views)), depth)
        rows.drop("ties")
        self._set_anchors(anchors, views)
        longest = float(rows.max(_longest, width=rows.total_width))
        longest = max(longest, float(sum(map(backend.sum_of_squares, anchors)).max()))
        rows.make("graph", _links, anchors, n_neighbors, max(longest, np.finfo(np.float64).tiny))
        rows.make("normalised", _normalise, rows.sum(_degrees))
        rows.drop("graph")
        self._settle_spectrum(rows.sum(_gram), lambda count: rows.sum(_probes_at_anchors, views.probe_draws(count)))
        self.mode_length_ = views.n_samples

    def _set_anchors(self, anchors: list[Array], views: Views) -> None:
        self.n_anchors_: int = len(anchors[0])
        self.anchors_: list[NDArray[np.float64]] = [
            backend.on_host(anchors[views.view_order.index(v)]) for v in range(views.n_views)
        ]

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

    def hold_rows(self, rows: Any) -> NDArray[np.float64]:
        """Let the rows of Ŝ join an executor as "vectors"; return V Σ^{-1}, with which U = Ŝ V Σ^{-1}."""
        if rows.distributed:
            rows.alias("vectors", "normalised")
        else:
            rows.hold(vectors=self._normalised.matrix)
        return self._converted.matrix

    def forward_rows(self, rows: Any, name: str, *, out: Array | None = None) -> Array:
        """Return the slices of a tensor that an executor holds."""
        if not rows.distributed:
            return super().forward_rows(rows, name, out=out)
        rows.alias("tensor", name)
        at_anchors = rows.sum(_at_anchors)
        shape = at_anchors.shape[1:]
        return (self._converted.like(at_anchors).T @ at_anchors.reshape(len(at_anchors), -1)).reshape(-1, *shape)

    def inverse_rows(self, slices: Array, rows: Any, name: str) -> None:
        """Turn slices into a tensor that an executor holds."""
        if not rows.distributed:
            super().inverse_rows(slices, rows, name)
            return
        rows.alias("tensor", name)
        rows.each(_from_anchors, self._converted.like(slices) @ slices.reshape(len(slices), -1))

    def _forward(self, tensor: Array, out: Array | None) -> Array:
        if not hasattr(self, "_normalised"):
            raise ValueError("this AGFT was fitted to samples on a cluster, where its graph is gone: fit one in memory")
        xp = backend.namespace(tensor)
        columns = xp.reshape(tensor, (tensor.shape[0], -1))
        at_anchors = self._normalised.transpose_times(columns)
        slices = xp.reshape(self._converted.like(tensor).T @ at_anchors, (-1, *tensor.shape[1:]))
        if out is None:
            return slices
        out[...] = slices
        return out

    def _inverse(self, slices: Array, out: Array | None) -> Array:
        if not hasattr(self, "_normalised"):
            raise ValueError("this AGFT was fitted to samples on a cluster, where its graph is gone: fit one in memory")
        xp = backend.namespace(slices)
        shape = (self.mode_length_, *slices.shape[1:])
        if out is None:
            out = xp.empty(shape, dtype=slices.dtype, device=device(slices))
        at_anchors = self._converted.like(slices) @ xp.reshape(slices, (slices.shape[0], -1))
        self._normalised.times(at_anchors, xp.reshape(out, (shape[0], -1)))
        return out


def _anchor_degrees(graph: sp.csr_array) -> NDArray[np.float64]:
    degrees: Any = np.bincount(graph.indices, weights=graph.data, minlength=graph.shape[1])
    return np.asarray(degrees, dtype=np.float64)


def _normalised(graph: sp.csr_array, degrees: NDArray[np.float64]) -> sp.csr_array:
    """Return D^{-1/2} S Δ^{-1/2} of some rows of a graph to anchors, with the degrees Δ of these in all of it."""
    scale_rows = np.repeat(inverse_root_degrees(graph), np.diff(graph.indptr))
    scale_columns = np.divide(1, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
    weights = graph.data * scale_rows * scale_columns[graph.indices]
    return sp.csr_array((weights, graph.indices, graph.indptr), shape=graph.shape)


# Work on rows that are elsewhere.


@row_work(reads="views")
def _longest(rows: Part) -> float:
    return float(sum(backend.sum_of_squares(backend.in_double(view)) for view in rows.views).max())


@row_work(reads="views")
def _links(rows: Part, anchors: list[Array], n_neighbors: int, scale: float) -> sp.csr_array:
    return anchor_graph(rows.views, anchors, n_neighbors, scale)


@row_work(reads="graph")
def _degrees(rows: Part) -> NDArray[np.float64]:
    return _anchor_degrees(rows.graph)


@row_work(reads="graph")
def _normalise(rows: Part, degrees: NDArray[np.float64]) -> sp.csr_array:
    return _normalised(rows.graph, degrees)


@row_work(reads="normalised")
def _gram(rows: Part) -> NDArray[np.float64]:
    transposed = rows.normalised.T
    return np.asarray((transposed @ transposed.T).toarray())


@row_work(reads="normalised views")
def _probes_at_anchors(rows: Part, draws: list[Any]) -> Array:
    return rows.normalised.T @ probes_of(rows.views, draws)


@row_work(reads="normalised tensor")
def _at_anchors(rows: Part) -> Array:
    tensor = rows.tensor
    columns = tensor.reshape(len(tensor), -1)
    return (rows.normalised.astype(tensor.dtype, copy=False).T @ columns).reshape(-1, *tensor.shape[1:])


@row_work(reads="normalised", sets="tensor")
def _from_anchors(rows: Part, at_anchors: Array) -> None:
    tensor = rows.tensor
    tensor[...] = (rows.normalised.astype(tensor.dtype, copy=False) @ at_anchors).reshape(tensor.shape)
