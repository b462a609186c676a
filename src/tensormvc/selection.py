"""Judging clusterings, and their number of clusters, without labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.cluster.hierarchy import cut_tree, ward
from sklearn.base import clone
from sklearn.metrics import adjusted_mutual_info_score, silhouette_score

from .auto._evidence import NeighbourGraphs, gather_evidence
from .backend import one_hot, random_seed
from .bases import GFT
from .metrics import ari
from .views import Views, as_views

__all__ = ["estimate_n_clusters", "modularity", "neighbour_information", "select_model"]

_FUSIONS = ("sum", "joint", "agreement")
# Samples that a number of clusters is looked for with, and the most clusters.
_NUMBER_SAMPLES = 1500
_MOST_CLUSTERS = 130
_LEAST_CLUSTER_SIZE = 5
# Every number up to here is tried, and then ever fewer.
_EVERY_NUMBER_UP_TO = 25
_FURTHER_NUMBERS = 12
# Any data can be cut in two in nearly the same way: two clusters must lead by this much to be chosen.
_LEAD_OF_TWO = 0.1
# The largest number whose score is within this share of the best: with fewer clusters, agreement comes by itself.
_NEARLY_BEST = 0.01
_SILHOUETTE_SAMPLES = 2000
_SUBSAMPLES = 3
_SUBSAMPLE_SHARE = 0.8


def neighbour_information(graph: Any, labels: Any) -> float:
    """Return how much the cluster at one end of a link tells about the cluster at the other, in nats.

    The mutual information of the labels at the two ends of a link. Unlike modularity it does not punish clusters that a
    graph cannot tell apart: where links within and between two of them are equally frequent, it is the same whether
    they are joined or not. So a view that sees only some of the differences does not vote against the others.

    Parameters
    ----------
    graph : sparse matrix of shape (n_samples, n_samples)
        Symmetric weights.
    labels : array of shape (n_samples,)
        Clusters.

    Returns
    -------
    float
        From 0 to the entropy of the labels.

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
    """Return the share of links inside the clusters, beyond what the degrees alone would give.

    Parameters
    ----------
    graph : sparse matrix of shape (n_samples, n_samples)
        Symmetric weights.
    labels : array of shape (n_samples,)
        Clusters.

    Returns
    -------
    float
        Below 1.

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
    """Return the share of the links between any two clusters."""
    matrix = sp.csr_array(graph)
    _, codes = np.unique(np.asarray(labels), return_inverse=True)
    n = len(codes)
    if matrix.shape != (n, n):
        raise ValueError(f"the graph has shape {matrix.shape}, and there are {n} labels")
    members = one_hot(codes)
    total = (members.T @ (matrix @ members)).toarray()
    weight = total.sum()
    if weight <= 0:
        raise ValueError("the graph has no links")
    return np.asarray(total / weight)


@dataclass(frozen=True)
class Selection:
    """Scores of several clusterings, higher is better.

    Attributes
    ----------
    names : list of str
        Names of the candidates.
    scores : ndarray
        One a candidate.
    criterion : str
        What was measured.
    best : object
        The candidate with the highest score, as it was given.
    best_index : int
        Its place.
    """

    names: list[str]
    scores: NDArray[np.float64]
    criterion: str
    best: Any
    best_index: int

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, best first."""
        import pandas as pd

        frame = pd.DataFrame({"candidate": self.names, self.criterion: self.scores})
        return frame.sort_values(self.criterion, ascending=False, ignore_index=True)


def select_model(
    candidates: Any,
    views: Any,
    *,
    criterion: str = "neighbour-information",
    view_sizes: Sequence[int] | None = None,
    random_state: Any = None,
) -> Selection:
    """Score clusterings of the same samples without labels, and choose the best.

    Parameters
    ----------
    candidates : sequence or mapping of fitted estimators or arrays of labels
        What to choose from; "stability" and "silhouette" need estimators.
    views : list, tuple or dict of arrays (n_samples, n_features_v), MuData, or one array
        The views that they were fitted to.
    criterion : str, default="neighbour-information"
        "neighbour-information": what a neighbour's cluster tells about a sample's, over all views; the default, for
        the reasons in docs/without_labels.md. "modularity": links inside clusters beyond chance, over all views.
        "held-out-view": how well each view alone, by the votes of its neighbours, predicts the labels.
        "stability": agreement with fits to 80 % of the samples. "silhouette": in the estimator's ``embedding_``.
    view_sizes : sequence of int, optional
        How many columns of a single array belong to each view.
    random_state : int, RandomState instance or None, default=None
        Seed of the subsamples.

    Returns
    -------
    Selection

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(200)
    >>> models = {a: tm.ESTMC(10, alpha=a, random_state=0).fit(views) for a in (0.01, 2.0)}
    >>> tm.select_model(models, views).best.alpha
    2.0
    """
    if criterion not in _CRITERIA:
        raise ValueError(f"unknown criterion {criterion!r}; there are {', '.join(_CRITERIA)}")
    named = dict(candidates) if isinstance(candidates, Mapping) else dict(enumerate(candidates))
    if not named:
        raise ValueError("no candidates to choose from")
    made = as_views(views, view_sizes=view_sizes, unit=False).on_host()
    judge = _CRITERIA[criterion](made, views, random_seed(random_state))
    scores = np.array([judge(str(name), candidate) for name, candidate in named.items()])
    place = int(np.argmax(scores))
    return Selection([str(name) for name in named], scores, criterion, list(named.values())[place], place)


Judge = Callable[[str, Any], float]


def _labels_of(name: str, candidate: Any, views: Views) -> NDArray[Any]:
    """Return the labels of a candidate in working order."""
    labels = np.asarray(getattr(candidate, "labels_", candidate))
    if labels.shape != (views.n_samples,):
        raise ValueError(
            f"candidate {name}: expected labels of {views.n_samples} samples, or an estimator that was fitted to them, "
            f"got {type(candidate).__name__}"
        )
    return np.asarray(views.to_working_order(labels))


def _by_graphs(measure: Callable[[Any, Any], float], weighted: bool) -> Callable[[Views, Any, int], Judge]:
    def prepare(views: Views, given: Any, seed: int) -> Judge:
        evidence = gather_evidence(views)
        graphs = NeighbourGraphs(evidence)
        judges = graphs.view_graphs(graphs.sizes[0])
        weights = evidence.weights / len(judges) if weighted else np.full(len(judges), 1 / len(judges))

        def judge(name: str, candidate: Any) -> float:
            labels = _labels_of(name, candidate, views)
            return float(sum(w * measure(graph, labels) for w, graph in zip(weights, judges, strict=True)))

        return judge

    return prepare


def _predicted(graph: Any, labels: Any) -> float:
    """Return the adjusted Rand index between the labels and the votes of each sample's neighbours."""
    _, codes = np.unique(labels, return_inverse=True)
    votes = sp.csr_array(graph) @ one_hot(codes)
    return float(ari(codes, np.argmax(votes.toarray(), axis=1)))


def _by_silhouette(views: Views, given: Any, seed: int) -> Judge:
    def judge(name: str, candidate: Any) -> float:
        labels = _labels_of(name, candidate, views)[:_SILHOUETTE_SAMPLES]
        if not hasattr(candidate, "embedding_"):
            raise ValueError(f"candidate {name} has no embedding_: the silhouette needs one")
        points = views.to_working_order(np.asarray(candidate.embedding_))[:_SILHOUETTE_SAMPLES]
        return float(silhouette_score(points, labels)) if 1 < len(np.unique(labels)) < len(labels) else -1.0

    return judge


def _by_stability(views: Views, given: Any, seed: int) -> Judge:
    def judge(name: str, candidate: Any) -> float:
        labels = _labels_of(name, candidate, views)
        if not hasattr(candidate, "fit_predict"):
            raise ValueError(f"candidate {name} is no estimator: its stability cannot be seen from labels alone")
        random = np.random.default_rng(seed)
        scores = []
        for _ in range(_SUBSAMPLES):
            chosen = np.sort(random.permutation(views.n_samples)[: round(_SUBSAMPLE_SHARE * views.n_samples)])
            parts = [part[chosen] for part in views.arrays]
            again = clone(candidate)
            if hasattr(again, "view_sizes"):
                again.set_params(view_sizes=None)
            scores.append(ari(labels[chosen], again.fit_predict(parts)))
        return float(np.mean(scores))

    return judge


_CRITERIA: dict[str, Callable[[Views, Any, int], Judge]] = {
    "neighbour-information": _by_graphs(neighbour_information, weighted=True),
    "modularity": _by_graphs(modularity, weighted=False),
    "held-out-view": _by_graphs(_predicted, weighted=False),
    "stability": _by_stability,
    "silhouette": _by_silhouette,
}


@dataclass(frozen=True)
class ClusterNumber:
    """A number of clusters, and what speaks for it.

    Attributes
    ----------
    n_clusters : int
        The number.
    candidates : ndarray of int
        Numbers that were tried.
    stability : ndarray
        Mean adjusted mutual information between the clusterings that different graphs give, for each of them.
    modularity : ndarray
        Mean modularity of the clusterings on the graphs that they come from, for each of them.
    eigengaps : ndarray
        Mean gap after so many eigenvalues, for each of them.
    statement : str
        How sure it is, in words.
    """

    n_clusters: int
    candidates: NDArray[np.intp]
    stability: NDArray[np.float64]
    modularity: NDArray[np.float64]
    eigengaps: NDArray[np.float64]
    statement: str

    def plot(self, ax: Any = None) -> Any:
        """Draw stability and eigengaps over the number of clusters; returns the axes."""
        from .plotting import plot_cluster_number

        return plot_cluster_number(self, ax=ax)


def estimate_n_clusters(
    views: Any, *, normalisation: Any = "auto", view_sizes: Sequence[int] | None = None
) -> ClusterNumber:
    """Look for the number of clusters in which graphs that see the samples differently agree.

    The views are fused to a graph in three ways, with few and with many neighbours. The low frequencies of each graph
    are computed once; for every number of clusters, as many of them are clustered. Where the number is right, the
    graphs agree, links run within the clusters, and the spectra have a gap: the product of agreement, modularity and
    1 + gap decides, and of numbers within 1 % of the best the largest is taken. Two clusters are chosen only where the
    graphs agree far more on them than on any other number.

    Parameters
    ----------
    views : list, tuple or dict of arrays (n_samples, n_features_v), MuData, or one array
        The views. Of more than 1 500 samples, 1 500 are looked at.
    normalisation : "auto", str, or one for each view, default="auto"
        As in `MultiViewClustering`.
    view_sizes : sequence of int, optional
        How many columns of a single array belong to each view.

    Returns
    -------
    ClusterNumber

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.make_multiview(300, n_clusters=4, random_state=0)
    >>> tm.estimate_n_clusters(views).n_clusters
    4
    """
    made = as_views(views, view_sizes=view_sizes, unit=False).on_host()
    return cluster_number(NeighbourGraphs(gather_evidence(made, normalisation)))


def cluster_number(graphs: NeighbourGraphs) -> ClusterNumber:
    """Find the number of clusters of the samples of some graphs; see `estimate_n_clusters`."""
    n = graphs.evidence.views.n_samples
    if n > _NUMBER_SAMPLES:
        graphs = NeighbourGraphs(graphs.evidence.rows(slice(0, _NUMBER_SAMPLES)))
        n = _NUMBER_SAMPLES
    most = min(_MOST_CLUSTERS, n // _LEAST_CLUSTER_SIZE)
    if most < 2:
        raise ValueError(f"{n} samples are too few to find a number of clusters: give n_clusters")
    tried = _numbers(most)
    gaps, inside, labelings = [], [], []
    for kind, k in product(_FUSIONS, graphs.sizes):
        graph = graphs.fused(kind, k)
        basis = GFT(n_components=min(n, most + 1)).fit(graphs.evidence.views, sample_graph=graph)
        values, vectors = basis.eigenvalues_, basis.eigenvectors_
        gaps.append(np.diff(values)[tried - 1])
        labelings.append([_tree_labels(vectors[:, :number], int(number)) for number in tried])
        inside.append([modularity(graph, labels) for labels in labelings[-1]])
    stability = np.array([_mean_agreement([labels[i] for labels in labelings]) for i in range(len(tried))])
    within, eigengaps = np.mean(inside, axis=0), np.mean(gaps, axis=0)
    chosen = _best_number(tried, stability, stability * within * (1 + eigengaps))
    statement = _statement(chosen, tried, stability, eigengaps)
    return ClusterNumber(chosen, tried, stability, within, eigengaps, statement)


def _numbers(most: int) -> NDArray[np.intp]:
    further = np.geomspace(_EVERY_NUMBER_UP_TO + 1, max(most, _EVERY_NUMBER_UP_TO + 1), _FURTHER_NUMBERS)
    numbers = np.concatenate([np.arange(2, _EVERY_NUMBER_UP_TO + 1), np.rint(further).astype(np.intp)])
    return np.unique(numbers[numbers <= most])


def _tree_labels(vectors: NDArray[np.float64], k: int) -> NDArray[np.intp]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(cut_tree(ward(vectors / np.where(lengths > 0, lengths, 1)), [k]).ravel(), dtype=np.intp)


def _mean_agreement(labelings: list[NDArray[np.intp]]) -> float:
    return float(np.mean([adjusted_mutual_info_score(one, other) for one, other in combinations(labelings, 2)]))


def _best_number(tried: NDArray[np.intp], stability: NDArray[np.float64], scores: NDArray[np.float64]) -> int:
    more = tried > 2
    if not more.any() or stability[~more].max() > stability[more].max() + _LEAD_OF_TWO:
        return 2
    best = scores[more].max()
    return int(tried[more][scores[more] >= best - _NEARLY_BEST * abs(best)][-1])


def _statement(chosen: int, tried: NDArray[np.intp], stability: NDArray[np.float64], eigengaps: Any) -> str:
    found = float(stability[tried == chosen][0])
    apart = np.abs(tried - chosen) > max(1, 0.1 * chosen)
    rival = int(tried[apart][np.argmax(stability[apart])]) if apart.any() else chosen
    lead = found - float(stability[apart].max()) if apart.any() else found
    gap = int(tried[int(np.argmax(eigengaps))])
    sure = "quite sure" if found > 0.9 and lead > 0.02 and gap == chosen else "likely" if found > 0.75 else "a guess"
    return (
        f"{sure}: graphs that see the samples differently agree by {found:.2f} (adjusted mutual information); next "
        f"comes {rival} with {found - lead:.2f}, and the largest eigengap is after {gap}"
    )
