"""The clusterings that a consensus is made of: several pipelines, and the weight of each result."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..bases import GFT
from ..methods import TSVDMVC
from ..rows import SampleRandom
from ..views import Views
from ._consensus import cluster_embedding
from ._evidence import FUSIONS, Evidence

# A clustering whose score is this share below the best counts e times less.
TEMPERATURE = 0.05
# Eigenvectors per cluster of the larger embeddings: small clusters may appear only in later ones.
MORE_FREQUENCIES = 1.3
# Up to here t-SVD-MVC, with time in O(n³), is one of the pipelines.
_TENSOR_UP_TO = 1000

Progress = Callable[[int, int, str], None]
_Clusterings = Iterator[tuple[str, NDArray[np.intp]]]
_Pipeline = tuple[str, Callable[[], sp.csr_array], Callable[[sp.csr_array, Views, int, int], _Clusterings]]


@dataclass(frozen=True)
class Member:
    """One of the clusterings that a consensus combines.

    Attributes
    ----------
    name : str
        The pipeline.
    score : float
        Weighted mean over the views of `neighbour_information`, in nats.
    weight : float
        Its weight in the consensus; the weights of all members sum to 1.
    labels : ndarray of shape (n_landmarks,)
        Clusters of the landmarks, in the order of ``landmarks_``.
    """

    name: str
    score: float
    weight: float
    labels: NDArray[np.intp] = field(repr=False, compare=False)


def run_pipelines(
    evidence: Evidence, n_clusters: int, sample_graph: Any, seed: int, deadline: float, progress: Progress
) -> tuple[list[Member], list[str]]:
    """Cluster the samples in several ways, and weight the results by how well they fit the neighbourhood graphs.

    Parameters
    ----------
    evidence : Evidence
        The scaled and weighted views.
    n_clusters : int
        Number of clusters.
    sample_graph : csr_array of shape (n, n) or None
        The user's graph.
    seed : int
        Seed of the k-means starts.
    deadline : float
        Value of `time.perf_counter` by which the last pipeline should end; at least one is run.
    progress : function of (done, total, name)
        Called after each pipeline.

    Returns
    -------
    members : list of Member
        Best score first.
    left_out : list of str
        Pipelines that there was no time for.
    """
    plan = _pipelines(evidence, sample_graph)
    names: list[str] = []
    labelings: list[NDArray[np.intp]] = []
    left_out: list[str] = []
    longest = 0.0
    for done, (name, build_graph, cluster) in enumerate(plan, start=1):
        start = time.perf_counter()
        if labelings and start + longest > deadline:
            left_out.append(name)
            continue
        for variant, labels in cluster(build_graph(), evidence.views, n_clusters, seed):
            names.append(name + variant)
            labelings.append(labels)
        longest = max(longest, time.perf_counter() - start)
        progress(done, len(plan), name)
    scores = np.array([evidence.score(labels) for labels in labelings])
    weights = np.exp((scores / max(float(scores.max()), np.finfo(np.float64).tiny) - 1) / TEMPERATURE)
    weights /= weights.sum()
    members = map(Member, names, scores.tolist(), weights.tolist(), labelings)
    return sorted(members, key=lambda member: -member.score), left_out


def _pipelines(evidence: Evidence, sample_graph: Any) -> list[_Pipeline]:
    """Return names of pipelines, what builds their graphs, and what clusters them; the most useful first."""
    graphs: list[tuple[str, Callable[[], sp.csr_array]]] = [
        (f"{kind} graph, {k} neighbours", partial(evidence.graph, kind, k)) for k in evidence.sizes for kind in FUSIONS
    ]
    if sample_graph is not None:
        graphs.insert(0, ("sample_graph", lambda: sample_graph))
    plan: list[_Pipeline] = [(name, build_graph, _spectral) for name, build_graph in graphs]
    if evidence.views.n_samples <= _TENSOR_UP_TO:
        plan.append((f"TSVDMVC, {graphs[0][0]}", graphs[0][1], _tensor))
    return plan


def _spectral(graph: sp.csr_array, views: Views, n_clusters: int, seed: int) -> _Clusterings:
    """Cluster the low frequencies of a graph: one per cluster, and a few more that count less the higher they are."""
    random = SampleRandom(views, seed)
    more = min(views.n_samples, int(MORE_FREQUENCIES * n_clusters) + 1)
    basis = GFT(n_components=more).fit(views, sample_graph=graph)
    vectors = basis.eigenvectors_[:, :more]
    damped = vectors * np.maximum(1 - basis.eigenvalues_[:more], 0) ** 2
    yield f", {n_clusters} frequencies", cluster_embedding(vectors[:, :n_clusters], n_clusters, random)
    yield f", {more} frequencies", cluster_embedding(damped, n_clusters, random)


def _tensor(graph: sp.csr_array, views: Views, n_clusters: int, seed: int) -> _Clusterings:
    model = TSVDMVC(n_clusters, basis=GFT(), random_state=seed)
    yield "", model.fit(views, sample_graph=graph).labels_
