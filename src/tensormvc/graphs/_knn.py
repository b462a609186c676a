"""k-nearest-neighbour graphs over the samples, for all views together (SimG) and summed over the views (SumG)."""

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from ..backend.arrays import Array, namespace, on_host
from ..backend.linalg import smallest
from ..views import Views, as_views
from ._distances import DistanceBlocks, check_n_neighbors, tie_margin
from ._laplacian import permuted_graph


def knn_graph(parts: list[Any], n_neighbors: int) -> sp.csr_array:
    """Return the symmetric 0/1 k-nearest-neighbour graph, with all ties.

    W_ij = 1 if j is among the k nearest neighbours of i, or i among those of j. Samples that tie with the k-th
    neighbour are neighbours too; a sample is not its own neighbour.

    Parameters
    ----------
    parts : list of arrays (n, d_v), dense or CSR
        The samples; a sample is the concatenation of its rows in all parts.
    n_neighbors : int
        k, at least 1 and less than n.

    Returns
    -------
    csr_array of shape (n, n)
    """
    distances = DistanceBlocks(parts)
    n = len(distances.squares)
    check_n_neighbors(n_neighbors, n)

    # scikit-learn's compiled searches find exactly k neighbours, or those within one radius for all samples: they
    # cannot return every tie with the k-th (test_all_ties_are_neighbours), and they take no PyTorch tensors.
    def nearest(block: Array, start: int) -> tuple[NDArray[np.intp], ...]:
        kth = smallest(block, n_neighbors)[0][:, -1:]
        rows, columns = namespace(block).nonzero(block <= kth + tie_margin(kth, distances.scale))
        return on_host(rows) + start, on_host(columns)

    rows, columns = distances.collect(nearest)
    directed = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))
    return sp.csr_array(directed.maximum(directed.T))


class SampleGraph(BaseEstimator):  # type: ignore[misc]
    """Base class of the graphs over the samples; a subclass implements `_build`.

    Attributes
    ----------
    graph_ : csr_array of shape (n_samples, n_samples)
        Symmetric weights W ≥ 0, in the order of the samples as given to `fit`.
    """

    graph_: sp.csr_array
    _n_beyond = 0  # samples that `_build` looks at in addition to the neighbours

    def __init__(self, n_neighbors: int = 10) -> None:
        self.n_neighbors = n_neighbors

    def fit(self, views: Any, *, n_clusters: int | None = None) -> Self:
        """Build the graph of the samples.

        Parameters
        ----------
        views : list of arrays (n_samples, n_features_v), or any other input the estimators take
            The samples; each is scaled to unit length in each view.
        n_clusters : int, optional
            Number of clusters, for the graphs that depend on it.

        Returns
        -------
        self
        """
        working_views = as_views(views)
        graph = self._build(working_views, n_clusters)
        self.graph_ = graph if working_views is views else permuted_graph(graph, np.argsort(working_views.order))
        return self

    def _build(self, views: Views, n_clusters: int | None) -> sp.csr_array:
        raise AssertionError("a subclass builds the graph")

    def limit_neighbors(self, n_samples: int) -> None:
        """Lower the number of neighbours to what so many samples allow."""
        if "n_neighbors" in self.get_params():
            self.n_neighbors = max(1, min(self.n_neighbors, n_samples - 1 - self._n_beyond))


class SimGraph(SampleGraph):
    """k-nearest-neighbour graph of the concatenated views (the paper's SimG).

    W_ij = 1 if sample j is among the k nearest neighbours of i, or i among those of j, where the distance is ‖xᵢ − xⱼ‖²
    = Σ_v ‖xᵢ⁽ᵛ⁾ − xⱼ⁽ᵛ⁾‖² over the views at unit length; otherwise 0. All samples that tie with the k-th neighbour are
    neighbours, so that the graph does not depend on the order of the samples.

    Time O(n² Σ_v d_v), memory O(n·k). Use it if all views are informative; if they differ in quality, use `SumGraph`,
    in which each view votes.

    Parameters
    ----------
    n_neighbors : int, default=10
        Number k of neighbours.

    Attributes
    ----------
    graph_ : csr_array of shape (n_samples, n_samples)
        Symmetric, 0/1.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(100)
    >>> graph = tm.SimGraph(n_neighbors=5).fit(views).graph_
    >>> graph.shape, bool((graph.sum(axis=1) >= 5).all())
    ((100, 100), True)
    """

    def _build(self, views: Views, n_clusters: int | None) -> sp.csr_array:
        views.refuse_missing("SimGraph", 'SumGraph (basis="gft-sum")')
        return knn_graph([views.in_double(v) for v in range(views.n_views)], self.n_neighbors)


class SumGraph(SampleGraph):
    """Sum of the k-nearest-neighbour graphs of the views.

    W = Σ_v W⁽ᵛ⁾, where W⁽ᵛ⁾ is the symmetric 0/1 k-nearest-neighbour graph of view v alone, at unit length: the weight
    of a link is the number of views in which the two samples are neighbours. A sample that is missing in a view has no
    links there.

    Time O(n² Σ_v d_v), memory O(n·k·m) for m views. This is the default graph: it does not need the number of
    clusters, and it is the only one that accepts missing samples.

    Parameters
    ----------
    n_neighbors : int, default=10
        Number k of neighbours in each view.

    Attributes
    ----------
    graph_ : csr_array of shape (n_samples, n_samples)
        Symmetric, with integers from 0 to the number of views.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(100)
    >>> graph = tm.SumGraph(n_neighbors=5).fit(views).graph_
    >>> int(graph.max()) <= len(views)
    True
    """

    def _build(self, views: Views, n_clusters: int | None) -> sp.csr_array:
        n = views.n_samples
        total = sp.csr_array((n, n))
        for v, missing in enumerate(views.missing.T):
            samples = views.in_double(v)
            present = np.flatnonzero(~missing)
            if len(present) <= self.n_neighbors and missing.any():
                raise ValueError(
                    f"n_neighbors={self.n_neighbors} is too large for {views.names[v]}, in which only {len(present)} "
                    f"samples are not missing: set n_neighbors to less than {len(present)}"
                )
            graph = knn_graph([samples[views.place(present)] if missing.any() else samples], self.n_neighbors).tocoo()
            total = total + sp.csr_array((graph.data, (present[graph.row], present[graph.col])), shape=(n, n))
        return sp.csr_array(total)
