"""The clusterings that a consensus is made of: several ways to look at the views, several graphs, and their weights."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.metrics import adjusted_mutual_info_score

from ..backend.linalg import one_hot
from ..backend.threads import parallel_map, thread_count
from ..rows import SampleRandom
from ._consensus import cluster_embedding
from ._evidence import FUSIONS, Evidence
from ._spectrum import low_frequencies

# A clustering whose score is this share below the best of its look counts e times less.
TEMPERATURE = 0.05
# A clustering that agrees with the others by this much less (adjusted Rand index) than the best counts e times less.
AGREEMENT_TEMPERATURE = 0.1
# Eigenvectors per cluster: small clusters may appear only in later ones.
MORE_FREQUENCIES = 1.3
# Unless a clear gap precedes the next eigenvalue: then later ones only split large clusters. It is so many times what
# samples along a line have, and the eigenvalue after it is larger than the next number.
_CLEAR_GAP = 2.5
_CLEARLY_POSITIVE = 1e-3
# A cluster with less than this share of the mean size is a few outliers.
_OUTLIERS = 0.05

# Random starts of k-means beside the one from a Ward tree, which they hardly ever beat with many clusters.
_RESTARTS = 3
_MANY = 30

# Clusters that tell more than this about which views samples have (adjusted mutual information) are an artefact of it.
FOLLOWS_PRESENCE = 0.1
# Fewer samples than the first may be each other's nearest neighbours by chance, and most of fewer than the second.
_FEWEST_SHOWN, _FEW_SHOWN = 5, 10

Progress = Callable[[int, int, str], None]


_Job = tuple[Evidence, str, SampleRandom]


@dataclass(frozen=True)
class Member:
    """One of the clusterings that a consensus combines.

    Attributes
    ----------
    name : str
        The graph, and the number of frequencies.
    look : str
        The way the views are scaled.
    score : float
        Weighted mean over the views of `neighbour_information`, in nats.
    weight : float
        Its weight in the consensus; the weights of all members sum to 1.
    labels : ndarray of shape (n_landmarks,)
        Clusters of the landmarks, in the order of ``landmarks_``.
    """

    name: str
    look: str
    score: float
    weight: float
    labels: NDArray[np.intp] = field(repr=False, compare=False)


@dataclass(frozen=True)
class Look:
    """One way to look at the views, and the clusterings that it led to.

    Attributes
    ----------
    evidence : Evidence
        The scaled and weighted views.
    members : list of Member
        The clusterings, with their weights in the consensus.
    agreement : float
        Mean adjusted Rand index of its clusterings with those of all looks, by weight.
    """

    evidence: Evidence
    members: list[Member]
    agreement: float = 1.0

    @property
    def weight(self) -> float:
        """Share of this look in the consensus."""
        return sum(member.weight for member in self.members)


def run_looks(
    looks: list[Evidence], n_clusters: int, sample_graph: Any, seed: int, deadline: float, progress: Progress
) -> tuple[list[Look], list[str]]:
    """Cluster the samples in several ways for each way to look at them.

    Parameters
    ----------
    looks : list of Evidence
        The scaled and weighted views, in several ways.
    n_clusters : int
        Number of clusters.
    sample_graph : csr_array of shape (n, n) or None
        The user's graph.
    seed : int
        Seed of the k-means starts.
    deadline : float
        Value of `time.perf_counter` by which the last clustering should end; the first look is always tried.
    progress : function of (done, total, name)
        Called for each look.

    Returns
    -------
    looks : list of Look
        Most weight first.
    left_out : list of str
        What there was no time for.
    """
    tried: list[Look] = []
    fusions = [*FUSIONS, *["sample_graph"] * (sample_graph is not None)]
    start = time.perf_counter()
    while rest := looks[len(tried) :]:
        now = time.perf_counter()
        each = (now - start) / max(len(tried), 1)
        if tried and now + each > deadline:
            break
        # All others if there is time, else as many looks at a time as keep all threads busy.
        some = rest if tried and now + len(rest) * each <= deadline else rest[: thread_count()]
        # One stream of random numbers per clustering: threads take them in any order.
        jobs = [(evidence, fusion, SampleRandom(evidence.views, seed)) for fusion in fusions for evidence in some]
        labelings = parallel_map(partial(_clustering, n_clusters, sample_graph), jobs)
        clustered = [(evidence, dict(labelings[i :: len(some)])) for i, evidence in enumerate(some)]
        for look in parallel_map(lambda item: _scored(*item), clustered):
            tried.append(look)
            progress(len(tried), len(looks), look.evidence.name)
    left_out = [evidence.name for evidence in looks[len(tried) :]]
    return sorted(_weighted(tried), key=lambda look: -look.weight), left_out


def _clustering(n_clusters: int, sample_graph: Any, job: _Job) -> tuple[str, NDArray[np.intp]]:
    """Cluster the low frequencies of a graph, which count less the higher they are.

    If the clusters follow which views samples have, only frequencies that do not depend on that are used.
    """
    evidence, fusion, random = job
    graph = sample_graph if fusion == "sample_graph" else evidence.graph(fusion)
    name = fusion if graph is sample_graph else f"{fusion} graph"
    missing = evidence.views.missing
    count = int(MORE_FREQUENCIES * n_clusters) + 1
    labels, used = np.zeros(len(missing), dtype=np.intp), 0
    for apart in (None, missing):
        values, points = low_frequencies(graph, count, evidence.device, apart)
        labels, used = _spectral_clusters(values, points * np.maximum(1 - values, 0) ** 2, n_clusters, random)
        if follows_presence(missing, labels) <= FOLLOWS_PRESENCE:
            break
    return f"{name}, {used} frequencies", labels


def _spectral_clusters(
    values: NDArray[np.float64], points: NDArray[np.float64], k: int, random: SampleRandom
) -> tuple[NDArray[np.intp], int]:
    """Cluster samples by frequencies, in ascending order, and return how many were used: if a clear gap follows, k."""
    n_init = _RESTARTS if k < _MANY else 0
    # Along a line, frequencies grow with the squares of their numbers, from 0.
    if 1 < k < len(values) and values[k] > max(_CLEAR_GAP * (k / (k - 1)) ** 2 * values[k - 1], _CLEARLY_POSITIVE):
        labels = cluster_embedding(points[:, :k], k, random, n_init)
        if np.bincount(labels, minlength=k).min() >= _OUTLIERS * len(labels) / k:
            return labels, k
    return cluster_embedding(points, k, random, n_init), len(values)


def follows_presence(missing: NDArray[np.bool_], labels: NDArray[np.intp]) -> float:
    """Return the adjusted mutual information between clusters and which views samples have; 0 if they have all."""
    if not missing.any():
        return 0.0
    _, pattern = np.unique(missing, axis=0, return_inverse=True)
    return float(adjusted_mutual_info_score(pattern.ravel(), labels))


def made_by_absence(evidence: Evidence, labels: NDArray[np.intp], n_clusters: int) -> NDArray[np.bool_]:
    """Return which clusters are no more than the samples that have, or lack, certain views, (n_clusters,).

    These are the clusters whose samples have views that no sample of another cluster has in the same combination, and
    are not each other's nearest neighbours in any of these views.
    """
    missing = evidence.views.missing
    _, pattern = np.unique(missing, axis=0, return_inverse=True)
    counts = (one_hot(pattern.ravel()).T @ one_hot(labels, n_clusters)).toarray()
    of_several = np.count_nonzero(counts, axis=1) > 1
    found = ~counts[of_several].any(axis=0) & (counts.sum(axis=0) < len(labels))
    for cluster in np.flatnonzero(found):
        found[cluster] = not _shown_by_values(evidence, labels == cluster)
    return np.asarray(found)


def _shown_by_values(evidence: Evidence, cluster: NDArray[np.bool_]) -> bool:
    """Return whether the nearest neighbours of a cluster's samples are in it, in a view that half of these have.

    More of them must be in the cluster than half-way between chance and all; of a small cluster, all of them. A few
    samples show nothing.
    """
    for lists, lacking in zip(evidence.neighbours, evidence.views.missing.T, strict=True):
        inside = cluster[~lacking]
        size = int(np.count_nonzero(inside))
        if max(_FEWEST_SHOWN, int(np.count_nonzero(cluster[lacking]))) <= size < len(inside):
            others = size - 1
            neighbours = lists.nearest(others).graph()[inside].indices
            chance = others / (len(inside) - 1)
            least = (chance + 1) / 2 if size >= _FEW_SHOWN else 1
            if np.mean(inside[neighbours]) >= least:
                return True
    return False


def _scored(evidence: Evidence, labelings: dict[str, NDArray[np.intp]]) -> Look:
    """Return the clusterings of a look, weighted by how well they fit its graphs; the weights sum to 1."""
    scores = np.array([evidence.score(labels) for labels in labelings.values()])
    weights = np.exp((scores / max(float(scores.max()), np.finfo(np.float64).tiny) - 1) / TEMPERATURE)
    weights /= weights.sum()
    names, looks = list(labelings), [evidence.name] * len(labelings)
    return Look(evidence, list(map(Member, names, looks, scores.tolist(), weights.tolist(), labelings.values())))


def _weighted(looks: list[Look]) -> list[Look]:
    """Multiply the weights of the clusterings by how well they agree with those of all looks; they sum to 1 then."""
    members = [member for look in looks for member in look.members]
    fits = np.array([member.weight / look.weight for look in looks for member in look.members]) / len(looks)
    index = pairwise_agreement([member.labels for member in members])
    rest = np.maximum(1 - fits, np.finfo(np.float64).tiny)
    agreement = (index @ fits - fits) / rest if len(members) > 1 else np.ones(1)
    weights = fits * np.exp((agreement - agreement.max()) / AGREEMENT_TEMPERATURE)
    weights /= weights.sum()
    np.fill_diagonal(index, 0)
    # Weighted as in the consensus: what a clustering without weight says does not make the result less certain.
    agreement = index @ weights / np.maximum(1 - weights, np.finfo(np.float64).tiny) if len(members) > 1 else np.ones(1)
    result, first = [], 0
    for look in looks:
        own = slice(first, first := first + len(look.members))
        weighted = [replace(m, weight=float(w)) for m, w in zip(look.members, weights[own], strict=True)]
        mean = float(weights[own] @ agreement[own] / max(weights[own].sum(), np.finfo(np.float64).tiny))
        result.append(Look(look.evidence, weighted, mean))
    return result


def pairwise_agreement(labelings: list[NDArray[np.intp]]) -> NDArray[np.float64]:
    """Return the adjusted Rand index between each two clusterings of the same samples."""
    n = len(labelings[0])
    indicators = sp.hstack([one_hot(labels) for labels in labelings], format="csr")
    counts = (indicators.T @ indicators).toarray()
    starts = np.cumsum([0, *(labels.max() + 1 for labels in labelings[:-1])])
    pairs = counts * (counts - 1) / 2
    together = np.add.reduceat(np.add.reduceat(pairs, starts, axis=0), starts, axis=1)
    own = np.diag(together)
    expected = np.outer(own, own) / max(n * (n - 1) / 2, 1)
    largest = (own[:, None] + own) / 2
    spread = largest - expected
    return np.asarray(np.divide(together - expected, spread, out=np.ones_like(spread), where=spread > 0))
