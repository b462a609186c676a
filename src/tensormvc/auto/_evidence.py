"""What the neighbourhoods of the views say, without labels: how to scale and weight the views, which clusterings fit.

Views describe the same samples: neighbours in one view that are neighbours in another one are hardly an accident.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.preprocessing import normalize

from ..backend.linalg import one_hot
from ..graphs._fuzzy import Neighbours, find_neighbours
from ..views import Views
from ._scaling import MEANINGS, NORMALISATIONS, lean, normalised, suitable_normalisations, usual_normalisation

Measure = Callable[[Any, Any], float]
# Sizes of the neighbourhoods: data sets differ in which of them suits.
NEIGHBOURS = (10, 20)
FUSIONS = ("sum", "joint", "agreement")
# Number of samples that scalings are compared on.
_COMPARED_SAMPLES = 2500
# A view that agrees with no other one keeps this share of the largest weight.
_LEAST_WEIGHT = 0.05


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
    clusters = one_hot(codes)
    total = (clusters.T @ (matrix @ clusters)).toarray()
    if (weight := total.sum()) <= 0:
        raise ValueError("the graph has no links: all of its weights are zero")
    return np.asarray(total / weight)


@dataclass(frozen=True)
class ChosenNormalisation:
    """How one view is scaled, and why.

    Attributes
    ----------
    view : str
        Name of the view.
    name : str
        Name of the scaling.
    confirmed : float or None
        Share of its nearest neighbours that are neighbours in the other views, too, beyond chance; None if there was
        nothing to compare with.
    reason : str
        The scaling and the reason for it, as text.
    """

    view: str
    name: str
    confirmed: float | None
    reason: str


@dataclass(frozen=True)
class Evidence:
    """Scaled and weighted views, and their nearest-neighbour graphs, each computed when it is first needed.

    Attributes
    ----------
    views : Views
        The scaled views with samples at unit length, in working order, which counts as the order given.
    parts : list of arrays (n, d_v)
        The scaled views, each with a mean squared sample length of 1.
    weights : ndarray of shape (m,)
        Weights of the views, with mean 1.
    normalisations : list of ChosenNormalisation
        The scaling of each view.
    """

    views: Views
    parts: list[Any]
    weights: NDArray[np.float64]
    normalisations: list[ChosenNormalisation]

    def first(self, n_samples: int) -> Evidence:
        """Return the evidence on the first samples alone."""
        views = replace(
            self.views,
            arrays=tuple(array[:n_samples] for array in self.views.arrays),
            order=self.views.order[:n_samples],
            row_keys=self.views.row_keys[:n_samples],
            missing=self.views.missing[:n_samples],
        )
        return replace(self, views=views, parts=[part[:n_samples] for part in self.parts])

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of neighbours of the graphs."""
        return tuple(dict.fromkeys(min(k, self.views.n_samples - 1) for k in NEIGHBOURS))

    @property
    def joint_parts(self) -> list[Any]:
        """The views multiplied by the roots of their weights, to be concatenated."""
        return [part * np.sqrt(weight) for part, weight in zip(self.parts, self.weights, strict=True)]

    @cached_property
    def _neighbours(self) -> list[Neighbours]:
        return [find_neighbours([part], self.sizes[-1]) for part in self.parts]

    @cached_property
    def _joint_neighbours(self) -> Neighbours:
        return find_neighbours(self.joint_parts, self.sizes[-1])

    @cached_property
    def _judges(self) -> list[sp.csr_array]:
        return [lists.nearest(self.sizes[0]).link_graph() for lists in self._neighbours]

    def graph(self, kind: str, n_neighbors: int) -> sp.csr_array:
        """Return one graph of all views.

        Parameters
        ----------
        kind : {"sum", "joint", "agreement"}
            The weighted sum of the views' fuzzy graphs, in which one view is enough for a link; the fuzzy graph of the
            weighted, concatenated views; or the squared weighted number of views that have a link.
        n_neighbors : int
            One of ``sizes``.

        Returns
        -------
        csr_array of shape (n, n)
        """
        if kind == "joint":
            return self._joint_neighbours.nearest(n_neighbors).fuzzy_graph()
        lists = [neighbours.nearest(n_neighbors) for neighbours in self._neighbours]
        if kind == "agreement":
            links = [each.link_graph() for each in lists]
            return sp.csr_array(sum(w * graph for w, graph in zip(self.weights, links, strict=True)).power(2))
        fuzzy = [each.fuzzy_graph() for each in lists]
        return sp.csr_array(sum(w / graph.sum() * graph for w, graph in zip(self.weights, fuzzy, strict=True)))

    def score(self, labels: Any, measure: Measure = neighbour_information, weighted: bool = True) -> float:
        """Return how well a clustering, in working order, fits the graphs of the views: the mean of a measure."""
        weights = self.weights if weighted else np.ones(len(self.parts))
        pairs = zip(weights / len(weights), self._judges, strict=True)
        return float(sum(weight * measure(graph, labels) for weight, graph in pairs))


def gather_evidence(views: Views, normalisation: Any = "auto") -> Evidence:
    """Scale the views and weight them.

    Parameters
    ----------
    views : Views
        Unscaled views in NumPy or CSR arrays.
    normalisation : str, sequence or mapping, default="auto"
        As in `MultiViewClustering`.

    Returns
    -------
    Evidence
    """
    raw = [lean(array) for array in views.arrays]
    requested = _requested(normalisation, views)
    chosen, shares = _choose([part[:_COMPARED_SAMPLES] for part in raw], requested)
    parts = [normalised(part, name) for part, name in zip(raw, chosen, strict=True)]
    reasons = map(_reason, chosen, requested, shares)
    choices = list(map(ChosenNormalisation, views.names, chosen, shares, reasons))
    arrays, order = tuple(normalize(part) for part in parts), np.arange(views.n_samples)
    working = replace(views, arrays=arrays, order=order, sample_ids=None, as_given=(None,) * views.n_views)
    return Evidence(working, parts, _weights(shares), choices)


def _requested(normalisation: Any, views: Views) -> list[str]:
    """Return the scaling requested for each view, in working order."""
    if isinstance(normalisation, str):
        requested = [normalisation] * views.n_views
    elif isinstance(normalisation, Mapping):
        if unknown := sorted(set(normalisation) - set(views.names)):
            raise ValueError(f"normalisation has no view named {unknown[0]!r}; the views are {', '.join(views.names)}")
        requested = [normalisation.get(name, "auto") for name in views.names]
    elif isinstance(normalisation, Sequence) and len(normalisation) == views.n_views:
        requested = [normalisation[v] for v in views.view_order]
    else:
        raise ValueError(f"normalisation={normalisation!r}: pass a name, or one for each of the {views.n_views} views")
    if unknown := [name for name in requested if name not in ("auto", *NORMALISATIONS)]:
        raise ValueError(f"unknown normalisation {unknown[0]!r}; choose from auto, {', '.join(NORMALISATIONS)}")
    return requested


def _choose(parts: list[Any], requested: list[str]) -> tuple[list[str], list[float | None]]:
    """Return the scaling of each view whose neighbours agree best with those of the other views, and that agreement."""
    n, m = parts[0].shape[0], len(parts)
    pairs = list(zip(parts, requested, strict=True))
    if m == 1 or n <= 2:
        return [usual_normalisation(part) if name == "auto" else name for part, name in pairs], [None] * m
    options = [suitable_normalisations(part) if name == "auto" else [name] for part, name in pairs]
    names = np.array([name for view_options in options for name in view_options])
    view_of = np.repeat(np.arange(m), [len(view_options) for view_options in options])
    shared = _shared_links((normalised(parts[v], name) for v, name in zip(view_of, names, strict=True)), n)
    # First compared with all scalings of the other views, then with the chosen ones.
    compared = np.arange(len(names))
    for _ in range(2):
        by_view = np.column_stack([shared[:, compared[view_of[compared] == v]].mean(axis=1) for v in range(m)])
        agreement = np.mean(by_view, axis=1, where=view_of[:, None] != np.arange(m))
        best = [int(np.argmax(np.where(view_of == v, agreement, -np.inf))) for v in range(m)]
        compared = np.array(best)
    return names[best].tolist(), agreement[best].tolist()


def _shared_links(views: Iterable[Any], n: int) -> NDArray[np.float64]:
    """Return the share of neighbours that each two scaled views of n samples have in common, beyond chance."""
    k = min(NEIGHBOURS[0], n - 1)
    links = sp.vstack([find_neighbours([view], k).graph().reshape((1, n * n)) for view in views], format="csr")
    counts = np.diff(links.indptr).astype(float)
    sizes = np.sqrt(np.outer(counts, counts))
    return np.asarray((links @ links.T).toarray() / sizes - sizes / (n * (n - 1)))


def _weights(shares: list[float | None]) -> NDArray[np.float64]:
    scores = np.array([1.0 if share is None else share for share in shares])
    if scores.max() <= 0:
        return np.ones(len(scores))
    weights = np.maximum(scores, _LEAST_WEIGHT * scores.max())
    return np.asarray(weights / weights.mean())


def _reason(name: str, request: str, share: float | None) -> str:
    if request != "auto":
        why = "set by normalisation"
    elif share is None:
        why = "usual for such values; there is no other view to compare with"
    else:
        percent = 100 * max(share, 0)
        why = f"agrees best with the other views ({percent:.0f} % of its nearest neighbours are shared, beyond chance)"
    return f"{MEANINGS[name]}: {why}"
