"""GMC: the consensus graph as a clusterer of its own."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..graphs import gmc, permuted_graph
from ..views import Views
from ._base import COUNT, MultiViewClusterer


class GMC(MultiViewClusterer):
    """GMC: a graph learnt from all views until it has as many components as clusters.

    Wang, Yang and Liu, "GMC: graph-based multi-view clustering", TKDE 2020. It uses no tensor and no basis.

    Memory: at most `n_neighbors` × views entries a sample, and blocks of 32 MB while distances are taken.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_neighbors : int, default=15
        Neighbours of each sample in each view; lowered where there are too few samples. More neighbours join what
        fewer would leave apart.
    view_sizes : sequence of int, optional
        How many columns of a single array belong to each view.
    max_iter : int, default=20
        Most rounds.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Components of the graph, numbered by size; with a ConvergenceWarning where they are not `n_clusters`.
    graph_ : csr_array of shape (n_samples, n_samples)
        The consensus graph.
    n_iter_ : int
        Rounds.
    converged_ : bool
        Whether the graph has `n_clusters` components.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(300)
    >>> model = tm.GMC(n_clusters=10).fit(views)
    >>> model.labels_.max() + 1
    np.int64(10)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_clusters": COUNT,
        "n_neighbors": COUNT,
        "view_sizes": ["array-like", None],
        "max_iter": COUNT,
    }

    def __init__(
        self, n_clusters: int = 8, n_neighbors: int = 15, view_sizes: Sequence[int] | None = None, max_iter: int = 20
    ) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.view_sizes = view_sizes
        self.max_iter = max_iter

    def _solve(self, views: Views, seed: int, sample_graph: Any) -> None:
        if sample_graph is not None:
            raise ValueError("GMC learns its own graph: it has no use for a sample_graph")
        views.refuse_missing("GMC")
        n = views.n_samples
        result = gmc(
            [views.in_double(v) for v in range(views.n_views)],
            min(self.n_clusters, n - 1),
            n_neighbors=max(1, min(self.n_neighbors, n - 2)),
            max_iter=self.max_iter,
        )
        self.n_iter_: int = result.n_iter
        self.converged_: bool = result.converged
        self.graph_ = permuted_graph(result.graph, np.argsort(views.order))
        labels = result.labels
        found = int(labels.max()) + 1
        if found != self.n_clusters:
            warnings.warn(
                f"GMC ended with {found} components, not {self.n_clusters} clusters, after {result.n_iter} rounds: "
                "try another n_neighbors, or spectral clustering of graph_",
                ConvergenceWarning,
                stacklevel=3,
            )
        views.local_rows.hold(labels=labels)
