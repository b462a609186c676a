"""GMC: the consensus graph as a clusterer of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..backend.checks import warn_caller
from ..graphs import gmc, permuted_graph
from ..views import Views
from ._base import COUNT, MultiViewClusterer


@dataclass(repr=False, eq=False)
class GMC(MultiViewClusterer):
    """GMC: learns a graph from all views that has as many components as clusters.

    Minimises, over the graphs S_v of the views, their weights w_v, the consensus graph U and a spectral embedding F,

        Σ_v Σ_ij ‖x_i⁽ᵛ⁾ − x_j⁽ᵛ⁾‖² s_ij⁽ᵛ⁾ + Σ_v Σ_i α_i⁽ᵛ⁾ ‖s_i⁽ᵛ⁾‖² + Σ_v w_v ‖U − S_v‖² + 2λ tr(Fᵀ L_U F)

    with the rows of U and of the S_v on the simplex and FᵀF = I, where L_U is the Laplacian of (U + Uᵀ)/2 and α_i⁽ᵛ⁾ is
    such that sample i has `n_neighbors` neighbours in view v. λ is doubled while U has too few components, and halved
    while it has too many, until it has `n_clusters`, which are the clusters. GMC uses no tensor and no basis.
    Time O(n² Σ_v d_v) for the distances, memory O(n m k) for k neighbours.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    n_neighbors : int, default=15
        Number of neighbours k of each sample in each view; reduced if there are too few samples. With more
        neighbours, clusters merge more easily.
    view_sizes : sequence of int, optional
        Number of columns of each view, if `fit` gets one array.
    max_iter : int, default=20
        Maximum number of iterations.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Components of the graph, numbered by size; a ConvergenceWarning is given if there are not `n_clusters`.
    graph_ : csr_array of shape (n_samples, n_samples)
        The consensus graph.
    n_iter_ : int
        Number of iterations.
    converged_ : bool
        Whether the graph has `n_clusters` components.

    References
    ----------
    H. Wang, Y. Yang, B. Liu, "GMC: Graph-Based Multi-View Clustering", IEEE Transactions on Knowledge and Data
    Engineering 32, 2020.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(300)
    >>> model = tm.GMC(n_clusters=10).fit(views)
    >>> model.labels_.max() + 1
    np.int64(10)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiViewClusterer._parameter_constraints,
        "n_neighbors": COUNT,
    }

    n_clusters: int = 8
    n_neighbors: int = 15
    view_sizes: Sequence[int] | None = None
    max_iter: int = 20

    def _solve(self, views: Views, seed: int, sample_graph: Any) -> None:
        if sample_graph is not None:
            raise ValueError("GMC learns its own graph and cannot use sample_graph: leave it out")
        views.refuse_missing("GMC", "MultiViewClustering")
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
            warn_caller(
                f"GMC ended with {found} components, not {self.n_clusters} clusters, after {result.n_iter} iterations: "
                "try another n_neighbors, or spectral clustering of graph_",
                ConvergenceWarning,
            )
        views.local_rows.hold(labels=labels)
