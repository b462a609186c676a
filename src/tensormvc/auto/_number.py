"""The number of clusters, estimated without labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_mutual_info_score
from sklearn.preprocessing import normalize

from ..plotting import plot_cluster_number
from ..views import as_views
from ._consensus import ward_labels
from ._evidence import FUSIONS, Evidence, modularity
from ._looks import gather_evidence
from ._samples import Samples
from ._spectrum import low_frequencies

_COMPARED_SAMPLES = 1500
_MOST_CLUSTERS = 130
_LEAST_CLUSTER_SIZE = 5
# Every number of clusters up to the first is tried, then so many up to the largest, ever further apart.
_EVERY_NUMBER_UP_TO = 25
_FURTHER_NUMBERS = 12
# Nearly any data can be split in two in a stable way: two clusters must lead by this much to be chosen.
_LEAD_OF_TWO = 0.1
# The largest number with a score within this share of the best is chosen: few clusters agree too easily.
_NEARLY_BEST = 0.01


# Levels that are proposed.
_LEVELS = 3


@dataclass(frozen=True)
class CandidateLevel:
    """A number of clusters that is proposed, and how much speaks for it.

    Attributes
    ----------
    n_clusters : int
        The number of clusters.
    stability : float
        Mean adjusted mutual information between the clusterings of different graphs.
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
        For each candidate, the mean adjusted mutual information between the clusterings of different graphs.
    modularity : ndarray
        For each candidate, the mean modularity of the clusterings on their graphs.
    eigengaps : ndarray
        For each candidate k, the mean gap between eigenvalues k and k + 1.
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
    """Estimate the number of clusters on which different neighbourhood graphs agree.

    The views are fused into six graphs: in three ways, each with 10 and with 20 neighbours. For every candidate k, the
    k lowest frequencies of each graph are clustered. With the right number, these clusterings agree, links run within
    clusters, and the spectrum has a gap; the product of agreement (adjusted mutual information), modularity and
    1 + eigengap is the score. Of the candidates within 1 % of the best score, the largest is chosen, and two clusters
    only if the graphs agree on them far better than on any other number.

    Parameters
    ----------
    views : list, tuple or dict of arrays (n_samples, n_features_v), MuData, or one array
        The views. At most 1 500 of the samples are used.
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
    samples = Samples.of(unscaled.arrays, unscaled.missing)
    return cluster_number(gather_evidence(samples.completed(unscaled, samples.described), normalisation))


def cluster_number(evidence: Evidence) -> ClusterNumber:
    """Estimate the number of clusters of scaled and weighted views; see `estimate_n_clusters`."""
    if evidence.views.n_samples > _COMPARED_SAMPLES:
        evidence = evidence.first(_COMPARED_SAMPLES)
    n = evidence.views.n_samples
    most = min(_MOST_CLUSTERS, n // _LEAST_CLUSTER_SIZE)
    if most < 2:
        raise ValueError(f"n_samples={n} is too few to estimate the number of clusters: set n_clusters")
    numbers = _candidates(most)
    gaps, within, labelings = [], [], []
    for graph in [*(evidence.graph(kind) for kind in FUSIONS), evidence.graph("joint", evidence.sizes[0])]:
        values, vectors = low_frequencies(graph, most + 1, evidence.device)
        clusterings = [ward_labels(normalize(vectors[:, :number]), number) for number in numbers.tolist()]
        gaps.append(np.diff(values)[numbers - 1])
        within.append([modularity(graph, labels) for labels in clusterings])
        labelings.append(clusterings)
    stability = np.array([_mean_agreement(clusterings) for clusterings in zip(*labelings, strict=True)])
    mean_within, eigengaps = np.mean(within, axis=0), np.mean(gaps, axis=0)
    scores = stability * mean_within * (1 + eigengaps)
    chosen = _best_number(numbers, stability, scores)
    levels = _levels(chosen, numbers, stability, scores)
    statement = _statement(chosen, numbers, stability, eigengaps)
    if others := ", ".join(f"{level.n_clusters} ({level.share:.0%})" for level in levels[1:]):
        statement += f"; other levels: {others}, beside {levels[0].share:.0%}"
    return ClusterNumber(chosen, numbers, stability, mean_within, eigengaps, statement, levels)


def _candidates(most: int) -> NDArray[np.intp]:
    further = np.geomspace(_EVERY_NUMBER_UP_TO + 1, max(most, _EVERY_NUMBER_UP_TO + 1), _FURTHER_NUMBERS)
    numbers = np.concatenate([np.arange(2, _EVERY_NUMBER_UP_TO + 1), np.rint(further).astype(np.intp)])
    return np.unique(numbers[numbers <= most])


def _mean_agreement(labelings: Sequence[NDArray[np.intp]]) -> float:
    return float(np.mean([adjusted_mutual_info_score(one, other) for one, other in combinations(labelings, 2)]))


def _best_number(numbers: NDArray[np.intp], stability: NDArray[np.float64], scores: NDArray[np.float64]) -> int:
    more = numbers > 2
    if not more.any() or stability[~more].max() > stability[more].max() + _LEAD_OF_TWO:
        return 2
    best = scores[more].max()
    return int(numbers[more][scores[more] >= best - _NEARLY_BEST * abs(best)][-1])


def _levels(chosen: int, numbers: NDArray[np.intp], stability: Any, scores: Any) -> list[CandidateLevel]:
    """Return the chosen number and the best others, of which none is close to a better one."""
    order = [int(np.argmax(numbers == chosen)), *np.argsort(-scores, kind="stable").tolist()]
    kept: list[int] = []
    for i in order:
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
    runner_up = f"the runner-up is {numbers[best]} with {rivals[best]:.2f}, " if rivals[best] > 0 else ""
    return (
        f"{certainty}: clusterings from different graphs agree by {agreement:.2f} (adjusted mutual information); "
        f"{runner_up}and the largest eigengap follows eigenvalue {gap}"
    )
