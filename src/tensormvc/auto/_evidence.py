"""What the neighbourhoods of scaled views say, without labels: their graphs, and how well a clustering fits them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..backend.arrays import on_device
from ..backend.threads import cached_property, parallel_map
from ..graphs._fuzzy import Neighbours, find_neighbours
from ..graphs._laplacian import scaled_graph
from ..views import Views
from ._scaling import Scaling

Measure = Callable[[Any, Any], float]
# Sizes of the neighbourhoods in a view, and in all views together.
NEIGHBOURS = (10, 20)
FUSIONS = ("sum", "joint")


def neighbour_information(graph: Any, labels: Any) -> float:
    """Return how much the cluster of a sample tells about the cluster of its neighbour, in nats.

    This is the mutual information of the labels at the two ends of a link. Unlike modularity, it does not penalise
    clusters that the graph cannot tell apart: if links within and between two clusters are equally frequent, merging
    them leaves it unchanged. A view that sees only some of the differences therefore does not count against the others.

    Parameters
    ----------
    graph : array or sparse matrix of shape (n_samples, n_samples)
        Symmetric, non-negative weights.
    labels : array of shape (n_samples,)
        Clusters.

    Returns
    -------
    float
        Between 0 and the entropy of the labels; higher is better.

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> graph = np.kron(np.eye(4), np.ones((3, 3)))
    >>> float(np.exp(tm.selection.neighbour_information(graph, np.repeat([0, 1, 2, 3], 3))).round(6))
    4.0
    """
    between = _links_between(graph, labels)
    expected = np.outer(between.sum(axis=1), between.sum(axis=0))
    present = between > 0
    return max(0.0, float(np.sum(between[present] * np.log(between[present] / expected[present]))))


def modularity(graph: Any, labels: Any) -> float:
    """Return the share of links within clusters, minus the share expected from the degrees alone.

    Parameters
    ----------
    graph : array or sparse matrix of shape (n_samples, n_samples)
        Symmetric, non-negative weights.
    labels : array of shape (n_samples,)
        Clusters.

    Returns
    -------
    float
        Below 1; higher is better.

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> graph = np.kron(np.eye(4), np.ones((3, 3)))
    >>> tm.selection.modularity(graph, np.repeat([0, 1, 2, 3], 3))
    0.75
    """
    between = _links_between(graph, labels)
    return float(np.trace(between) - np.sum(between.sum(axis=1) * between.sum(axis=0)))


def _links_between(graph: Any, labels: Any) -> NDArray[np.float64]:
    """Return the share of all links that runs between each pair of clusters."""
    matrix = sp.csr_array(graph)
    _, codes = np.unique(np.asarray(labels), return_inverse=True)
    if matrix.shape != (len(codes), len(codes)):
        raise ValueError(f"the graph has shape {matrix.shape}, but there are {len(codes)} labels: they must match")
    k = int(codes.max(initial=0)) + 1
    ends = k * np.repeat(codes, np.diff(matrix.indptr)) + codes[matrix.indices]
    total = np.bincount(ends, matrix.data, k * k).reshape(k, k)
    if (weight := total.sum()) <= 0:
        raise ValueError("the graph has no links: all of its weights are zero")
    return np.asarray(total / weight)


@dataclass(frozen=True)
class Evidence:
    """Scaled and weighted views, and their nearest-neighbour graphs, each computed when it is first needed.

    A sample that is missing in a view has no neighbours there, and is nobody's neighbour.

    Attributes
    ----------
    name : str
        Name of this way to scale the views.
    views : Views
        The samples in working order, which counts as the order given; they decide ties and signs.
    scalings : list of Scaling
        The scaling of each view.
    parts : list of arrays (n, d_v)
        The scaled views; rows of missing samples are zero.
    neighbours : list of Neighbours
        The nearest neighbours in each view, of the samples that have it, counted among these.
    weights : ndarray of shape (m,)
        Weights of the views, with mean 1.
    choices : list
        How each view is scaled, and why.
    related : bool
        Whether views agree on neighbours beyond chance.
    device : torch.device or None
        Where neighbours and frequencies are computed; None for the host, which everything else is on.
    """

    name: str
    views: Views
    scalings: list[Scaling]
    parts: list[Any]
    neighbours: list[Neighbours]
    weights: NDArray[np.float64]
    choices: list[Any]
    related: bool
    device: Any = None

    def __getstate__(self) -> dict[str, Any]:
        # A model may be loaded where there is no such device.
        return {**vars(self), "device": None}

    def first(self, n_samples: int, *, by_view: bool = True) -> Evidence:
        """Return the evidence on the first samples alone; with `by_view=False`, it has a joint graph only."""
        views, parts = first_samples(self.views, n_samples), [part[:n_samples] for part in self.parts]
        neighbours = neighbours_in(parts, views.missing, self.device) if by_view else []
        return replace(self, views=views, parts=parts, neighbours=neighbours)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of neighbours in a view, and in all views together."""
        return sizes(self.views.n_samples)

    @cached_property
    def joint_parts(self) -> list[Any]:
        """The views multiplied by the roots of their weights, to be concatenated."""
        return [part * np.sqrt(weight) for part, weight in zip(self.parts, self.weights, strict=True)]

    @cached_property
    def sample_weights(self) -> NDArray[np.float64]:
        """How much each view counts for each sample, (n, m); rows sum to 1.

        The weight of a view is multiplied by how well the neighbours around the sample are confirmed by other views,
        relative to the whole view, and is 0 where the sample is missing.
        """
        return shares_of_views(self.weights * self._local_support, self.views.missing)

    @cached_property
    def directed(self) -> list[sp.csr_array]:
        """The graph of every view from each sample to its neighbours."""
        return directed_graphs(self.neighbours, self.views.missing)

    @cached_property
    def _local_support(self) -> NDArray[np.float64]:
        """The share of neighbours around each sample that other views confirm, relative to the mean of the view."""
        n, m = self.views.missing.shape
        support = np.ones((n, m))
        if m == 1 or not self.related:
            return support
        graphs = self.directed
        total = sp.csr_array(sum(graphs[1:], graphs[0]))
        for v, graph in enumerate(graphs):
            if self.views.missing[:, v].all():
                continue
            confirmed = graph.multiply(total) > 1
            degrees = np.maximum(np.diff(graph.indptr), 1)
            share = np.asarray(confirmed.sum(axis=1)).ravel() / degrees
            around = (share + graph @ share) / (1 + degrees)
            mean = max(float(around[~self.views.missing[:, v]].mean()), np.finfo(np.float64).tiny)
            support[:, v] = (around + mean) / (2 * mean)
        return support

    @cached_property
    def joint_neighbours(self) -> Neighbours:
        """The nearest neighbours in the weighted, concatenated views."""
        missing, parts = self.views.missing, [on_device(part, self.device) for part in self.joint_parts]
        return find_neighbours(parts, self.sizes[-1], missing=missing if missing.any() else None)

    def _view_graphs(self, make: Callable[[Neighbours], sp.csr_array]) -> list[sp.csr_array]:
        """Return a graph of every view over all samples."""
        graphs = parallel_map(make, self.neighbours)
        return [spread(graph, ~lacking) for graph, lacking in zip(graphs, self.views.missing.T, strict=True)]

    @cached_property
    def _links(self) -> list[sp.csr_array]:
        """The links of every view."""
        return self._view_graphs(Neighbours.link_graph)

    def graph(self, kind: str, n_neighbors: int | None = None) -> sp.csr_array:
        """Return one graph of all views.

        Parameters
        ----------
        kind : {"sum", "joint"}
            The weighted sum of the views' fuzzy graphs, in which one view is enough for a link; or the fuzzy graph of
            the weighted, concatenated views.
        n_neighbors : int, optional
            Number of neighbours in the concatenated views, by default the larger one of ``sizes``.

        Returns
        -------
        csr_array of shape (n, n)
        """
        if kind == "joint":
            lists = self.joint_neighbours
            return (lists if n_neighbors is None else lists.nearest(n_neighbors)).fuzzy_graph()
        roots = np.sqrt(self.sample_weights)
        graphs = self._view_graphs(Neighbours.fuzzy_graph)
        weighted = [scaled_graph(graph, root) for graph, root in zip(graphs, roots.T, strict=True)]
        return sp.csr_array(sum(weighted[1:], weighted[0]))

    def score(self, labels: Any, measure: Measure = neighbour_information, weighted: bool = True) -> float:
        """Return how well a clustering, in working order, fits the graphs of the views: the mean of a measure."""
        weights = self.weights if weighted else np.ones(len(self.parts))
        pairs = zip(weights / len(weights), self._links, strict=True)
        return float(sum(weight * measure(graph, labels) for weight, graph in pairs))


def shares_of_views(weights: NDArray[np.float64], missing: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the weights of the views, (m,) or (n, m), as shares among the views that each sample has, (n, m).

    A sample with nothing but views of weight 0 has these in equal shares; one without any view has zeros.
    """
    shares = np.where(missing, 0, weights)
    others = ~shares.any(axis=1)
    shares[others] = ~missing[others]
    return np.asarray(shares / np.maximum(shares.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny))


def sizes(n_samples: int) -> tuple[int, ...]:
    """Return the numbers of neighbours in a view, and in all views together, of so many samples."""
    return tuple(min(k, n_samples - 1) for k in NEIGHBOURS)


def neighbours_in(parts: list[Any], missing: NDArray[np.bool_], device: Any = None) -> list[Neighbours]:
    """Return the nearest neighbours in each of the scaled views, of the samples that have it."""
    present = [np.flatnonzero(~lacking) for lacking in missing.T]
    return parallel_map(lambda view: neighbours_of(view[0], view[1], device), list(zip(parts, present, strict=True)))


def neighbours_of(part: Any, rows: NDArray[np.intp], device: Any) -> Neighbours:
    """Return the nearest neighbours among the samples that have a view, the rows."""
    n = part.shape[0]
    if len(rows) < 2:
        none = np.zeros(0, dtype=np.intp)
        return Neighbours(np.zeros(len(rows) + 1, dtype=np.intp), none, np.zeros(0), len(rows), scale=1.0)
    present = on_device(part if len(rows) == n else part[rows], device)
    return find_neighbours([present], min(sizes(n)[0], len(rows) - 1))


def directed_graphs(neighbours: list[Neighbours], missing: NDArray[np.bool_]) -> list[sp.csr_array]:
    """Return the graph of every view over all samples, from each sample to its neighbours."""
    return [spread(lists.graph(), ~lacking) for lists, lacking in zip(neighbours, missing.T, strict=True)]


def spread(graph: sp.csr_array, present: NDArray[np.bool_]) -> sp.csr_array:
    """Return a graph over some of the samples as a graph over all of them."""
    if present.all():
        return graph
    entries, samples = graph.tocoo(), np.flatnonzero(present)
    row, column = (samples[index] for index in entries.coords)
    return sp.csr_array((entries.data, (row, column)), shape=(len(present), len(present)))


def first_samples(views: Views, n_samples: int) -> Views:
    """Return the first samples in working order alone."""
    return replace(
        views,
        arrays=tuple(array[:n_samples] for array in views.arrays),
        order=views.order[:n_samples],
        row_keys=views.row_keys[:n_samples],
        missing=views.missing[:n_samples],
    )
