"""The front door: from views to clusters with nothing to choose.

No single pipeline is best on all data, and without labels nobody can tell which one is. So several are run, each is
scored by what the views' own neighbourhoods say of its labels, and the clusterings are joined to one by those scores.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils._param_validation import StrOptions

from ..backend import one_hot
from ..bases import GFT
from ..graphs._fuzzy import find_neighbours
from ..methods import TSVDMVC
from ..methods._base import COUNT, POSITIVE, MultiViewClusterer
from ..rows import SampleRandom, row_blocks
from ..selection import ClusterNumber, cluster_number, neighbour_information
from ..views import Views, as_views
from ._consensus import cluster_embedding, consensus_embedding
from ._evidence import ChosenNormalisation, Evidence, NeighbourGraphs, gather_evidence

__all__ = ["MultiViewClustering"]

# The score of a clustering that counts e times less than the best one, as a share of its score.
_TEMPERATURE = 0.05
# Frequencies beyond the number of clusters: a small group may need one that a large group has no use for.
_MORE_FREQUENCIES = 1.3
# Samples up to which the tensor method, whose work grows with their cube, is one of the pipelines.
_TENSOR_UP_TO = 1000
_MOST_LANDMARKS = 10_000
_LEAST_LANDMARKS = 1000
# Share of the budget that finding neighbours may take, and that everything but the consensus may.
_NEIGHBOUR_SHARE = 0.35
_MEMBER_SHARE = 0.85
# Seconds to find the neighbours of a sample among another, and for each of its features: what a laptop takes.
_SECONDS_A_PAIR = 8e-9
_SECONDS_A_PRODUCT = 5e-11
_VOTES = 10


@dataclass(frozen=True)
class Member:
    """One of the clusterings that were joined.

    Attributes
    ----------
    name : str
        The pipeline.
    score : float
        `neighbour_information` of its labels, in nats, over the weighted views.
    weight : float
        Share of the consensus.
    labels : ndarray of shape (n_landmarks,)
        In the order that the contents of the samples decide.
    """

    name: str
    score: float
    weight: float
    labels: NDArray[np.intp] = field(repr=False, compare=False)


@dataclass(frozen=True)
class AutoReport:
    """What `MultiViewClustering` chose, and why. Printing it tells all of it.

    Attributes
    ----------
    normalisations : list of ChosenNormalisation
        One a view.
    view_weights : dict of str to float
        Weights of the views, with mean 1.
    n_clusters : int
        Number of clusters.
    cluster_number : ClusterNumber or None
        How it was found; None if it was given.
    members : list of Member
        The clusterings that were joined, best score first.
    n_samples : int
        Samples in all.
    n_landmarks : int
        Samples that were clustered; the others follow their neighbours among them.
    left_out : list of str
        Pipelines for which the time budget was too short.
    seconds : float
        Time of the fit.
    """

    normalisations: list[ChosenNormalisation]
    view_weights: dict[str, float]
    n_clusters: int
    cluster_number: ClusterNumber | None
    members: list[Member]
    n_samples: int
    n_landmarks: int
    left_out: list[str]
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the same as plain values, without the labels of the members."""
        members = [{"name": m.name, "score": m.score, "weight": m.weight} for m in self.members]
        return {
            "normalisations": [asdict(choice) for choice in self.normalisations],
            "view_weights": self.view_weights,
            "n_clusters": self.n_clusters,
            "cluster_number": None if self.cluster_number is None else self.cluster_number.statement,
            "members": members,
            "n_landmarks": self.n_landmarks,
            "left_out": self.left_out,
            "seconds": self.seconds,
        }

    def __str__(self) -> str:
        lines = ["Views"]
        for choice in self.normalisations:
            lines.append(f"  {choice.view}: weight {self.view_weights[choice.view]:.2f}; {choice.reason}")
        why = "given" if self.cluster_number is None else self.cluster_number.statement
        lines += [f"Clusters: {self.n_clusters}, {why}"]
        if self.n_landmarks < self.n_samples:
            lines.append(
                f"Landmarks: {self.n_landmarks:,} of {self.n_samples:,} samples; the others follow their neighbours"
            )
        lines.append(
            "Clusterings joined (what a neighbour's cluster tells of a sample's, in nats; share of the result)"
        )
        lines += [f"  {member.name}: {member.score:.3f}; {100 * member.weight:.0f} %" for member in self.members]
        if self.left_out:
            lines.append(f"Left out, for lack of time: {', '.join(self.left_out)}")
        return "\n".join(lines)


class MultiViewClustering(MultiViewClusterer):
    """Clusters of samples that come in several views, with nothing to choose and no labels.

    Normalisations are those whose neighbours the other views confirm most; so are the weights of the views. Graphs over
    the samples are fused in three ways, each with few and with many neighbours; the low frequencies of each graph are
    clustered, and up to 1 000 samples the tensor method t-SVD-MVC as well. The clusterings are joined, weighted by how
    much a neighbour's cluster tells of a sample's own. ``report_`` says what was chosen, and why.

    Beyond 10 000 samples (fewer where the budget is short) landmarks are clustered, and the others follow their
    nearest landmarks in all views. Memory: 8 bytes a sample and feature for the normalised views, and for n landmarks
    some 100 bytes each, neighbour and view, and 8 each and frequency; the time grows with their square.

    Parameters
    ----------
    n_clusters : int or "auto", default="auto"
        Number of clusters. "auto" looks for one between 2 and 130; check it against what you know.
    normalisation : "auto", str, or one for each view, default="auto"
        How to scale the views: one of "none", "unit", "centred", "z-score", "z-score-unit", "range", "root", "tf-idf",
        for all views, as a sequence, or as a mapping from names of views.
    time_budget : float, default=300
        Seconds that the fit may take. It decides how many landmarks there are, by a rule that does not look at the
        clock, so that a fit can be repeated; the clock only ends it early.
    view_sizes : sequence of int, optional
        How many columns of a single array belong to each view.
    random_state : int, RandomState instance or None, default=None
        Seed of the k-means starts.
    verbose : int, default=0
        1 prints a line a stage.
    progress : function of (done, total, stage), optional
        Called after every stage.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Clusters, numbered by size.
    n_clusters_ : int
        Number of clusters.
    embedding_ : ndarray of shape (n_samples, n_components)
        Leading eigenvectors of the co-association; of samples that are no landmarks, the mean of their nearest ones'.
    landmarks_ : ndarray of shape (n_landmarks,)
        Positions of the samples that were clustered.
    report_ : AutoReport
        What was chosen, and why.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(200)
    >>> model = tm.MultiViewClustering(n_clusters=10, random_state=0).fit(views)
    >>> model.labels_.shape, len(model.report_.members) > 5
    ((200,), True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_clusters": [*COUNT, StrOptions({"auto"})],
        "normalisation": [str, list, tuple, dict],
        "time_budget": POSITIVE,
        "view_sizes": ["array-like", None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "progress": [callable, None],
    }

    def __init__(
        self,
        n_clusters: int | str = "auto",
        normalisation: Any = "auto",
        time_budget: float = 300,
        view_sizes: Sequence[int] | None = None,
        random_state: Any = None,
        verbose: int = 0,
        progress: Callable[[int, int, str], Any] | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.normalisation = normalisation
        self.time_budget = time_budget
        self.view_sizes = view_sizes
        self.random_state = random_state
        self.verbose = verbose
        self.progress = progress

    def _views_of(self, views: Any) -> Views:
        return as_views(views, view_sizes=self.view_sizes, unit=False).on_host()

    def _solve(self, views: Views, seed: int, sample_graph: Any) -> None:
        start = time.perf_counter()
        views.refuse_missing("MultiViewClustering")
        evidence = gather_evidence(views, self.normalisation)
        n_landmarks = _landmarks(evidence, self.time_budget)
        landmarks = evidence.rows(slice(0, n_landmarks))
        graphs = NeighbourGraphs(landmarks)
        given = None if sample_graph is None else sp.csr_array(sample_graph[:n_landmarks, :n_landmarks])
        found = None
        if self.n_clusters == "auto":
            found = cluster_number(graphs)
            self._tell("number of clusters", 0, 1)
        self.n_clusters_ = int(self.n_clusters) if found is None else found.n_clusters
        members, left_out = self._members(graphs, given, seed, start)
        weights = np.array([member.weight for member in members])
        embedding = consensus_embedding([member.labels for member in members], weights, self.n_clusters_)
        labels = cluster_embedding(embedding, self.n_clusters_, SampleRandom(landmarks.views, seed))
        if n_landmarks < views.n_samples:
            labels, embedding = _with_followers(evidence, labels, embedding)
        self.embedding_ = views.to_given_order(embedding)
        self.landmarks_ = views.order[:n_landmarks]
        self.report_ = AutoReport(
            normalisations=evidence.normalisations,
            view_weights=dict(zip(views.names, evidence.weights.tolist(), strict=True)),
            n_clusters=self.n_clusters_,
            cluster_number=found,
            members=members,
            n_samples=views.n_samples,
            n_landmarks=n_landmarks,
            left_out=left_out,
            seconds=time.perf_counter() - start,
        )
        views.local_rows.hold(labels=labels)

    def _members(
        self, graphs: NeighbourGraphs, given: sp.csr_array | None, seed: int, start: float
    ) -> tuple[list[Member], list[str]]:
        """Run the pipelines; return them with their scores and weights, and the names of those left out."""
        judges = graphs.view_graphs(graphs.sizes[0])
        weights = graphs.evidence.weights / len(judges)
        names: list[str] = []
        labelings: list[NDArray[np.intp]] = []
        left_out: list[str] = []
        plan = list(_pipelines(graphs, given, self.n_clusters_))
        longest = 0.0
        for done, (name, run) in enumerate(plan):
            before = time.perf_counter()
            if labelings and before - start + longest > _MEMBER_SHARE * self.time_budget:
                left_out.append(name)
                continue
            for label, labels in run(SampleRandom(graphs.evidence.views, seed), seed):
                names.append(label)
                labelings.append(labels)
            longest = max(longest, time.perf_counter() - before)
            self._tell(name, done + 1, len(plan))
        if left_out:
            warnings.warn(
                f"time_budget={self.time_budget:g} s is short: {len(left_out)} of {len(plan)} pipelines were left out, "
                "and another run may leave out others; raise it",
                RuntimeWarning,
                stacklevel=4,
            )
        scores = np.array(
            [
                sum(w * neighbour_information(graph, labels) for w, graph in zip(weights, judges, strict=True))
                for labels in labelings
            ]
        )
        best = max(float(scores.max()), np.finfo(np.float64).tiny)
        shares = np.exp((scores / best - 1) / _TEMPERATURE)
        shares /= shares.sum()
        members = [Member(*row) for row in zip(names, scores.tolist(), shares.tolist(), labelings, strict=True)]
        return sorted(members, key=lambda member: -member.score), left_out

    def _tell(self, stage: str, done: int, total: int) -> None:
        if self.verbose:
            print(f"MultiViewClustering: {stage} ({done} of {total})")  # noqa: T201
        if self.progress is not None:
            self.progress(done, total, stage)


Run = Callable[[SampleRandom, int], Iterator[tuple[str, NDArray[np.intp]]]]


def _pipelines(graphs: NeighbourGraphs, given: sp.csr_array | None, n_clusters: int) -> Iterator[tuple[str, Run]]:
    """Yield the pipelines by name, the most useful first."""
    views = graphs.evidence.views
    fused: list[tuple[str, Callable[[], sp.csr_array]]] = []
    if given is not None:
        fused.append(("given graph", lambda: given))
    for k in graphs.sizes:
        for kind in ("sum", "joint", "agreement"):
            fused.append((f"{kind} graph, {k} neighbours", partial(graphs.fused, kind, k)))
    for name, graph in fused:
        yield name, _spectral(name, graph, views, n_clusters)
    if views.n_samples <= _TENSOR_UP_TO:
        name, graph = fused[0]
        yield f"TSVDMVC, {name}", _tensor(name, graph, views, n_clusters)


def _spectral(name: str, graph: Callable[[], sp.csr_array], views: Views, n_clusters: int) -> Run:
    """Cluster the low frequencies of a graph: as many as clusters, and a few more that count by their eigenvalues."""

    def run(random: SampleRandom, seed: int) -> Iterator[tuple[str, NDArray[np.intp]]]:
        n = views.n_samples
        most = min(n, int(_MORE_FREQUENCIES * n_clusters) + 1)
        basis = GFT(n_components=most).fit(views, sample_graph=graph())
        vectors = basis.eigenvectors_[:, :most]
        yield f"{name}, {n_clusters} frequencies", cluster_embedding(vectors[:, :n_clusters], n_clusters, random)
        smooth = np.maximum(1 - basis.eigenvalues_[:most], 0)
        yield f"{name}, {most} frequencies", cluster_embedding(vectors * smooth**2, n_clusters, random)

    return run


def _tensor(name: str, graph: Callable[[], sp.csr_array], views: Views, n_clusters: int) -> Run:
    def run(random: SampleRandom, seed: int) -> Iterator[tuple[str, NDArray[np.intp]]]:
        model = TSVDMVC(n_clusters, basis=GFT(), random_state=seed)
        yield f"TSVDMVC, {name}", model.fit(views, sample_graph=graph()).labels_

    return run


def _landmarks(evidence: Evidence, time_budget: float) -> int:
    """Return how many samples can be compared with each other and with all others in the time, by a fixed rule."""
    n = evidence.views.n_samples
    widths = [part.shape[1] for part in evidence.parts]
    pair = (len(widths) + 1) * _SECONDS_A_PAIR + 2 * sum(widths) * _SECONDS_A_PRODUCT
    affordable = int(_NEIGHBOUR_SHARE * time_budget / (pair * n))
    if n <= min(_MOST_LANDMARKS, affordable):
        return n
    return min(n, max(_LEAST_LANDMARKS, min(_MOST_LANDMARKS, affordable)))


def _with_followers(
    evidence: Evidence, labels: NDArray[np.intp], embedding: NDArray[np.float64]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return labels and embedding of all samples: those after the landmarks follow their nearest landmarks.

    Labels by votes, in each view and in all together; the embedding as the mean of the nearest in all together.
    """
    n, n_landmarks = evidence.views.n_samples, len(labels)
    clusters = one_hot(labels).toarray()
    votes = np.zeros((n - n_landmarks, clusters.shape[1]))
    means = np.empty((n - n_landmarks, embedding.shape[1]))
    searches = [([part], weight) for part, weight in zip(evidence.parts, evidence.weights, strict=True)]
    searches.append((evidence.joint_parts(), float(len(evidence.parts))))
    for parts, weight in searches:
        others = [part[:n_landmarks] for part in parts]
        for rows in row_blocks(n - n_landmarks):
            block = [part[n_landmarks + rows.start : n_landmarks + rows.stop] for part in parts]
            near = find_neighbours(block, min(_VOTES, n_landmarks), others)
            sizes = np.diff(near.starts)[:, None]
            votes[rows] += weight * np.add.reduceat(clusters[near.indices], near.starts[:-1]) / sizes
            # The last search is that in all views together.
            means[rows] = np.add.reduceat(embedding[near.indices], near.starts[:-1]) / sizes
    return np.concatenate([labels, np.argmax(votes, axis=1)]), np.concatenate([embedding, means])
