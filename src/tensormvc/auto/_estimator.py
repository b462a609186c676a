"""`MultiViewClustering`: from views to clusters without labels, and the report on what was chosen."""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils._param_validation import StrOptions

from ..backend.linalg import one_hot
from ..graphs._fuzzy import find_neighbours
from ..methods._base import COUNT, POSITIVE, MultiViewClusterer
from ..rows import SampleRandom, row_blocks
from ..views import Views, as_views
from ._consensus import cluster_embedding, consensus_embedding
from ._evidence import ChosenNormalisation, Evidence, gather_evidence
from ._members import Member, run_pipelines
from ._number import ClusterNumber, cluster_number

_MOST_LANDMARKS = 10_000
_LEAST_LANDMARKS = 1000
# Shares of the time budget for the neighbour search, and for everything up to the consensus.
_NEIGHBOUR_SHARE = 0.35
_MEMBER_SHARE = 0.85
# Estimated seconds of the neighbour search per pair of samples, and per pair and feature.
_SECONDS_PER_PAIR = 8e-9
_SECONDS_PER_PRODUCT = 5e-11
# Landmarks that vote on the label of another sample.
_VOTES = 10


@dataclass(frozen=True)
class AutoReport:
    """What `MultiViewClustering` chose, and why; ``print`` shows it as text.

    Attributes
    ----------
    normalisations : list of ChosenNormalisation
        The scaling of each view.
    view_weights : dict of str to float
        Weights of the views, with mean 1.
    n_clusters : int
        Number of clusters.
    cluster_number : ClusterNumber or None
        How the number of clusters was estimated; None if it was set.
    members : list of Member
        The clusterings that were combined, best score first.
    n_samples : int
        Number of samples.
    n_landmarks : int
        Number of samples that were clustered; the others got the labels of their nearest landmarks.
    left_out : list of str
        Pipelines that the time budget was too short for.
    seconds : float
        Duration of the fit.
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
        """Return the report as plain values, without the labels of the members."""
        members = [{"name": m.name, "score": m.score, "weight": m.weight} for m in self.members]
        number = None if self.cluster_number is None else self.cluster_number.statement
        return {**asdict(replace(self, members=[], cluster_number=None)), "members": members, "cluster_number": number}

    def __str__(self) -> str:
        why = "set by n_clusters" if self.cluster_number is None else self.cluster_number.statement
        lines = ["Views"]
        lines += [f"  {c.view}: weight {self.view_weights[c.view]:.2f}; {c.reason}" for c in self.normalisations]
        lines.append(f"Clusters: {self.n_clusters} ({why})")
        if self.n_landmarks < self.n_samples:
            share = f"{self.n_landmarks:,} of {self.n_samples:,} samples"
            lines.append(f"Landmarks: {share} were clustered; the others got the labels of their nearest landmarks")
        lines.append(f"Consensus of {len(self.members)} clusterings (neighbour information in nats; weight)")
        lines += [f"  {member.name}: {member.score:.3f}; {100 * member.weight:.0f} %" for member in self.members]
        if self.left_out:
            lines.append(f"Left out for lack of time: {', '.join(self.left_out)}")
        return "\n".join(lines)


@dataclass(repr=False, eq=False)
class MultiViewClustering(MultiViewClusterer):
    """Cluster samples described by several views, without labels and without parameters to tune.

    No single pipeline is best on all data, and without labels nobody can tell which one is. This estimator therefore
    runs several and combines them:

    1. For each view it picks the scaling whose nearest neighbours agree best with those of the other views; that
       agreement is also the weight of the view.
    2. It fuses the views into k-nearest-neighbour graphs in three ways, each with 10 and with 20 neighbours, and
       clusters the low frequencies of each graph; up to 1 000 samples it also runs `TSVDMVC`.
    3. It combines these clusterings into one by consensus clustering, weighted by how well each fits the neighbourhood
       graphs of the views (`tensormvc.selection.neighbour_information`).

    ``report_`` tells what was chosen, and why. Permuting the samples or the views permutes the labels and changes
    nothing else.

    Use it when there are no labels to choose a method or its parameters by. Use one of the methods, such as `ESTMC`, to
    compare with published results, on a GPU, or on views that do not fit in memory.

    With n samples, d features in all, m views, k clusters and L = min(n, 10 000) landmarks, the neighbour search takes
    O(n·L·d) time, the choice of scalings O(min(n, 2500)²·d), the spectral clusterings O(L·k²), and t-SVD-MVC O(n³·m).
    Memory is O(n·d + L·(m + k)). Samples beyond the landmarks get the labels of their nearest landmarks.

    Parameters
    ----------
    n_clusters : int or "auto", default="auto"
        Number of clusters. "auto" estimates it, between 2 and 130, with `estimate_n_clusters`; treat the result as a
        suggestion.
    normalisation : str, sequence or mapping, default="auto"
        How to scale the views: "auto", "none", "unit", "centred", "z-score", "z-score-unit", "range", "root" or
        "tf-idf"; one for all views, a sequence with one per view, or a mapping from names of views.
    time_budget : float, default=300
        Seconds that the fit may take. A shorter budget means fewer landmarks (at least 1 000), by a fixed rule, so that
        fits are reproducible. Only if the time runs out nevertheless are pipelines left out, with a warning.
    view_sizes : sequence of int, optional
        Number of columns of each view, if `fit` gets one array.
    random_state : int, RandomState instance or None, default=None
        Seed of the k-means starts.
    verbose : int, default=0
        1 prints a line after each stage.
    progress : function of (done, total, stage), optional
        Called after each stage.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample; clusters are numbered by size.
    n_clusters_ : int
        Number of clusters.
    embedding_ : ndarray of shape (n_samples, n_components)
        Leading eigenvectors of the co-association matrix of the clusterings; for other samples than landmarks, the mean
        over their nearest landmarks.
    landmarks_ : ndarray of shape (n_landmarks,)
        Indices of the samples that were clustered.
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

    n_clusters: int | str = "auto"
    normalisation: Any = "auto"
    time_budget: float = 300
    view_sizes: Sequence[int] | None = None
    random_state: Any = None
    verbose: int = 0
    progress: Callable[[int, int, str], Any] | None = None

    def _views_of(self, views: Any) -> Views:
        return as_views(views, view_sizes=self.view_sizes, unit=False).on_host()

    def _solve(self, views: Views, seed: int, sample_graph: Any) -> None:
        start = time.perf_counter()
        views.refuse_missing("MultiViewClustering")
        evidence = gather_evidence(views, self.normalisation)
        n_landmarks = _landmark_count(evidence, self.time_budget)
        landmarks = evidence.first(n_landmarks)
        if sample_graph is not None:
            sample_graph = sp.csr_array(sample_graph[:n_landmarks, :n_landmarks])
        estimate = None
        if self.n_clusters == "auto":
            estimate = cluster_number(landmarks)
            self._notify(0, 1, "number of clusters")
        self.n_clusters_ = int(self.n_clusters) if estimate is None else estimate.n_clusters
        deadline = start + _MEMBER_SHARE * self.time_budget
        members, left_out = run_pipelines(landmarks, self.n_clusters_, sample_graph, seed, deadline, self._notify)
        if left_out:
            message = f"time_budget={self.time_budget:g} is too short for {len(left_out)} pipelines: raise it"
            warnings.warn(f"{message}, or results will depend on the machine's speed", RuntimeWarning, stacklevel=4)
        embedding = consensus_embedding([m.labels for m in members], [m.weight for m in members], self.n_clusters_)
        labels = cluster_embedding(embedding, self.n_clusters_, SampleRandom(landmarks.views, seed))
        if n_landmarks < views.n_samples:
            labels, embedding = _extended(evidence, labels, embedding)
        self.embedding_ = views.to_given_order(embedding)
        self.landmarks_ = views.order[:n_landmarks]
        self.report_ = AutoReport(
            normalisations=evidence.normalisations,
            view_weights=dict(zip(views.names, evidence.weights.tolist(), strict=True)),
            n_clusters=self.n_clusters_,
            cluster_number=estimate,
            members=members,
            n_samples=views.n_samples,
            n_landmarks=n_landmarks,
            left_out=left_out,
            seconds=time.perf_counter() - start,
        )
        views.local_rows.hold(labels=labels)

    def _notify(self, done: int, total: int, stage: str) -> None:
        if self.verbose:
            print(f"MultiViewClustering: {stage} ({done} of {total})")  # noqa: T201
        if self.progress is not None:
            self.progress(done, total, stage)


def _landmark_count(evidence: Evidence, time_budget: float) -> int:
    """Return how many samples can be compared with all others in time, by a rule that does not look at the clock."""
    n = evidence.views.n_samples
    widths = [part.shape[1] for part in evidence.parts]
    seconds = n * ((len(widths) + 1) * _SECONDS_PER_PAIR + 2 * sum(widths) * _SECONDS_PER_PRODUCT)
    affordable = int(_NEIGHBOUR_SHARE * time_budget / seconds)
    return min(n, max(_LEAST_LANDMARKS, min(_MOST_LANDMARKS, affordable)))


def _extended(evidence: Evidence, labels: Any, embedding: Any) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return labels and embedding of all samples, given those of the landmarks, which come first.

    The nearest landmarks vote on the label, in each view and in the concatenated views; the latter also give the mean
    of the embedding.
    """
    n, n_landmarks = evidence.views.n_samples, len(labels)
    clusters = one_hot(labels).toarray()
    votes = np.zeros((n - n_landmarks, clusters.shape[1]))
    means = np.empty((n - n_landmarks, embedding.shape[1]))
    searches = [([part], weight) for part, weight in zip(evidence.parts, evidence.weights, strict=True)]
    searches.append((evidence.joint_parts, float(len(evidence.parts))))
    for parts, weight in searches:
        landmarks = [part[:n_landmarks] for part in parts]
        for rows in row_blocks(n - n_landmarks):
            block = [part[n_landmarks + rows.start : n_landmarks + rows.stop] for part in parts]
            links = find_neighbours(block, min(_VOTES, n_landmarks), landmarks).graph()
            counts = np.diff(links.indptr)[:, None]
            votes[rows] += weight * (links @ clusters) / counts
            # The concatenated views come last, and overwrite the others.
            means[rows] = links @ embedding / counts
    return np.concatenate([labels, np.argmax(votes, axis=1)]), np.concatenate([embedding, means])
