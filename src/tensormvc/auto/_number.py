"""The number of clusters, estimated without labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.cluster.hierarchy import ward
from scipy.spatial.distance import squareform

from ..backend.linalg import one_hot
from ..backend.threads import parallel_map
from ..graphs import normalised_adjacency
from ..plotting import plot_cluster_number
from ..views import as_views
from ._consensus import merged
from ._evidence import Evidence, modularity
from ._landmarks import shuffled
from ._looks import gather_looks
from ._members import AGREEMENT_TEMPERATURE, pairwise_agreement
from ._samples import Samples
from ._scaling import refuse_sizes
from ._spectrum import low_frequencies

_COMPARED_SAMPLES = 1000
_MOST_CLUSTERS = 130
_LEAST_CLUSTER_SIZE = 5
# Every number of clusters up to the first is tried, then so many up to the largest, ever further apart.
_EVERY_NUMBER_UP_TO = 25
_FURTHER_NUMBERS = 24
# Samples are compared by random walks of one step, doubled so many times.
_DOUBLINGS = 2
# Levels that are proposed.
_LEVELS = 3


@dataclass(frozen=True)
class CandidateLevel:
    """A candidate number of clusters, and the evidence for it.

    Attributes
    ----------
    n_clusters : int
        The number of clusters.
    stability : float
        Mean adjusted Rand index between the clusterings of different graphs.
    share : float
        Share of its score in the scores of all proposed levels.
    """

    n_clusters: int
    stability: float
    share: float


@dataclass(frozen=True)
class ClusterNumber:
    """An estimated number of clusters, and the evidence for it.

    Attributes
    ----------
    n_clusters : int
        The number of clusters.
    candidates : ndarray of int
        The numbers that were tried.
    stability : ndarray
        For each candidate, the mean adjusted Rand index between the clusterings of different graphs.
    modularity : ndarray
        For each candidate, the mean modularity of the clusterings on their graphs.
    eigengaps : ndarray
        For each candidate k, the gap between eigenvalues k and k + 1 of the graph of all views in the first scaling.
    statement : str
        How certain the number is, as text.
    levels : list of CandidateLevel
        Up to three numbers of clusters that the data suggest, the chosen one first.
    """

    n_clusters: int
    candidates: NDArray[np.intp]
    stability: NDArray[np.float64]
    modularity: NDArray[np.float64]
    eigengaps: NDArray[np.float64]
    statement: str
    levels: list[CandidateLevel]

    def plot(self, ax: Any = None) -> Any:
        """Plot stability and eigengaps against the number of clusters; returns the axes."""
        return plot_cluster_number(self, ax=ax)


def estimate_n_clusters(
    views: Any, *, normalisation: Any = "auto", view_sizes: Sequence[int] | None = None
) -> ClusterNumber:
    """Estimate the number of clusters, as the one for which differently scaled views lead to the same clusters.

    For each way to scale the views (see `MultiViewClustering`), a graph is built from the neighbours in all views
    together; the sum of the graphs of the views is one more. In each graph, samples are compared by the random walks of
    four steps that start at them, and Ward's method builds a tree from these distances, which contains a clustering for
    every number of clusters. With the right number, the clusterings of different graphs agree, and most links run
    within clusters. The estimate is the number with the largest product of agreement (adjusted Rand index; graphs that
    agree with others count more) and modularity.

    Parameters
    ----------
    views : list, tuple or dict of arrays (n_samples, n_features_v), MuData, or one array
        The views. At most 1 000 of the samples are used.
    normalisation : str, sequence or mapping, default="auto"
        How to scale the views, as in `MultiViewClustering`.
    view_sizes : sequence of int, optional
        Number of columns of each view, if `views` is one array.

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
    unscaled = as_views(views, view_sizes=view_sizes, unit=False, lenient=True).on_host()
    refuse_sizes(unscaled.sizes.max(axis=0), unscaled.names)
    samples = Samples.of(unscaled.arrays, unscaled.missing)
    described = samples.described[shuffled(unscaled.row_keys[samples.described])][:_COMPARED_SAMPLES]
    return cluster_number(gather_looks(samples.completed(unscaled, described), normalisation))


def cluster_number(looks: list[Evidence]) -> ClusterNumber:
    """Estimate the number of clusters from views in several scalings; see `estimate_n_clusters`."""
    n = min(looks[0].views.n_samples, _COMPARED_SAMPLES)
    most = min(_MOST_CLUSTERS, n // _LEAST_CLUSTER_SIZE)
    if most < 2:
        raise ValueError(f"n_samples={n} is too few to estimate the number of clusters: set n_clusters")
    numbers = _candidates(most)
    if n < looks[0].views.n_samples:
        looks = [evidence.first(n, by_view=evidence is looks[0]) for evidence in looks]
    missing = looks[0].views.missing
    # In the graph of all views together, samples are close in all of them; in the sum, one view is enough for a link.
    kinds = [(looks[0], "sum"), *((evidence, "joint") for evidence in looks)]
    graphs = parallel_map(lambda kind: kind[0].graph(kind[1]), kinds)
    clusterings = parallel_map(partial(_clusterings, numbers=numbers, missing=missing), graphs)
    labels, within = (list(column) for column in zip(*clusterings, strict=True))
    stability = np.array(parallel_map(_agreement, list(zip(*labels, strict=True))))
    mean_within = np.mean(within, axis=0)
    frequencies, _ = low_frequencies(graphs[1], most + 1, missing=missing)
    gaps = np.zeros(most)
    gaps[: len(frequencies) - 1] = np.diff(frequencies)
    eigengaps = gaps[numbers - 1]
    scores = np.maximum(stability, 0) * np.maximum(mean_within, 0)
    chosen = int(numbers[np.argmax(scores)])
    levels = _levels(numbers, stability, scores)
    statement = _statement(chosen, numbers, stability, eigengaps)
    if others := ", ".join(f"{level.n_clusters} ({level.share:.0%})" for level in levels[1:]):
        statement += f"; other levels: {others}, against {levels[0].share:.0%} for {chosen}"
    return ClusterNumber(chosen, numbers, stability, mean_within, eigengaps, statement, levels)


def _clusterings(
    graph: sp.csr_array, numbers: NDArray[np.intp], missing: NDArray[np.bool_]
) -> tuple[list[NDArray[np.intp]], list[float]]:
    """Return the clusters of a graph for each number, and their modularities."""
    n = graph.shape[0]
    similarities = _walk_similarities(graph, int(numbers[-1]), missing)
    distances = squareform(np.sqrt(np.maximum(2 - 2 * similarities, 0)), checks=False)
    merges = ward(distances)[:, :2].astype(np.intp)
    labels = [merged(merges[: n - number], n) for number in numbers.tolist()]
    # The links between the finest clusters tell how many there are between all others.
    finest = one_hot(labels[-1])
    links = finest.T @ (graph @ finest)
    _, first = np.unique(labels[-1], return_index=True)
    return labels, [modularity(links, own[first]) for own in labels]


def _walk_similarities(graph: sp.csr_array, most: int, missing: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Return how similar the random walks from any two samples are, as cosines, (n, n).

    With A = D^{−1/2} W D^{−1/2}, these are the cosines between the rows of A^t, whose products are in A^{2t}. In it, a
    frequency λ counts (1 − λ)^t, so that small differences vanish.
    """
    if missing.any():
        values, vectors = low_frequencies(graph, most + 1, missing=missing)
        points = vectors * (1 - values) ** 2**_DOUBLINGS
        products = (points @ points.T).astype(np.float32)
    else:
        adjacency = normalised_adjacency(graph).astype(np.float32)
        products = (adjacency @ adjacency).toarray()
        for _ in range(_DOUBLINGS):
            products = products @ products.T  # symmetric, which BLAS makes use of here
    lengths = np.sqrt(np.maximum(np.diag(products), np.finfo(np.float32).tiny))
    return np.asarray(products / lengths / lengths[:, None])


def _agreement(labelings: Sequence[NDArray[np.intp]]) -> float:
    """Return the mean adjusted Rand index between clusterings; those that agree with others count more."""
    index = pairwise_agreement(list(labelings))
    np.fill_diagonal(index, 0)
    mean = index.sum(axis=1)
    weights = np.exp((mean - mean.max()) / max(len(index) - 1, 1) / AGREEMENT_TEMPERATURE)
    weights /= weights.sum()
    return float(weights @ index @ weights / max(1 - weights @ weights, np.finfo(np.float64).tiny))


def _candidates(most: int) -> NDArray[np.intp]:
    further = np.geomspace(_EVERY_NUMBER_UP_TO + 1, max(most, _EVERY_NUMBER_UP_TO + 1), _FURTHER_NUMBERS)
    numbers = np.concatenate([np.arange(2, _EVERY_NUMBER_UP_TO + 1), np.rint(further).astype(np.intp)])
    return np.unique(numbers[numbers <= most])


def _levels(numbers: NDArray[np.intp], stability: Any, scores: Any) -> list[CandidateLevel]:
    """Return the numbers with the best scores, local maxima first, of which none is close to a better one."""
    kept: list[int] = []
    beside = np.pad(scores, 1, constant_values=-1)
    peaks = (scores >= beside[:-2]) & (scores >= beside[2:])
    for i in np.lexsort((-scores, ~peaks)).tolist():
        if all(abs(int(numbers[i] - numbers[j])) > max(1, 0.1 * numbers[j]) for j in kept):
            kept.append(i)
    kept = kept[:_LEVELS]
    total = max(float(np.maximum(scores[kept], 0).sum()), np.finfo(np.float64).tiny)
    return [CandidateLevel(int(numbers[i]), float(stability[i]), float(max(scores[i], 0)) / total) for i in kept]


def _statement(chosen: int, numbers: NDArray[np.intp], stability: NDArray[np.float64], eigengaps: Any) -> str:
    agreement = float(stability[numbers == chosen][0])
    # Numbers close to the chosen one agree nearly as well, and are no rivals.
    rivals = np.where(np.abs(numbers - chosen) > max(1, 0.1 * chosen), stability, 0)
    best, gap = int(np.argmax(rivals)), int(numbers[np.argmax(eigengaps)])
    clear = agreement > 0.9 and agreement - rivals[best] > 0.02 and gap == chosen
    certainty = "clear" if clear else "likely" if agreement > 0.75 else "uncertain"
    runner_up = f"the best other agreement is {rivals[best]:.2f}, for {numbers[best]}, " if rivals[best] > 0 else ""
    return (
        f"{certainty}: clusterings from different graphs agree with a mean adjusted Rand index of {agreement:.2f}; "
        f"{runner_up}and the largest eigengap follows eigenvalue {gap}"
    )
