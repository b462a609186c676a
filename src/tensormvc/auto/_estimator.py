"""`MultiViewClustering`: from views to clusters without labels."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from ..backend.arrays import torch_device
from ..backend.checks import warn_caller
from ..backend.linalg import one_hot
from ..backend.threads import limited_threads
from ..explain import Explanation, SampleExplanation, explain_clusters
from ..graphs import permuted_graph
from ..methods._base import COUNT, POSITIVE, MultiViewClusterer
from ..rows import SampleRandom
from ..views import ChunkedViews, Views, any_dask, as_views, chunked_views
from ._consensus import cluster_embedding, consensus_embedding, consensus_shares, decided, smoothed
from ._effort import EFFORTS, Effort, choose_effort
from ._evidence import Evidence
from ._fitted import FittedClustering, FittedView
from ._impute import gaps_of
from ._looks import gather_looks
from ._map import place as place_on_map
from ._members import Look, made_by_absence, run_looks
from ._number import cluster_number
from ._on_dask import DaskSource, each_on_dask
from ._placement import Placement, confidence, strongest
from ._report import report_on
from ._samples import Samples, first_of_duplicates
from ._scaling import RECIPES, refuse_sizes
from ._source import ClusterSizes, LocalSource, Source
from ._tree import ClusterTree

# Share of the time budget for everything up to the consensus.
_MEMBER_SHARE = 0.85
# Number of clusters that the effort is chosen for where it is not known yet.
_TYPICAL_NUMBER = 20
# Weight of the votes, relative to the consensus labels, if the votes alone would leave a cluster empty.
_WEAK_VOTES = 0.25
# Added to the remaining shares when a cluster is dissolved, because a sample may have had a share of that one only.
_DISSOLVED = 1e-6


@dataclass(repr=False, eq=False)
class MultiViewClustering(ClassNamePrefixFeaturesOutMixin, TransformerMixin, MultiViewClusterer):  # type: ignore[misc]
    """Cluster samples described by several views, without labels and without parameters to tune.

    No single pipeline is best on all data, and without labels there is no way to tell which one is. This estimator
    therefore runs several and combines them:

    1. The views are scaled in several ways: each with the scaling whose neighbours agree best with those of the other
       views; all at unit length; all whitened; all as counts. Each time, a view is weighted by how well its nearest
       neighbours agree with those of the other views.
    2. The views in each scaling are fused into two k-nearest-neighbour graphs, and the low frequencies of each graph
       are clustered.
    3. Consensus clustering combines all clusterings into one. A clustering gets more weight the better it fits the
       graphs of the views and the better it agrees with the other clusterings.

    Samples may be missing in views (rows of NaN, rows of zeros, absent from a table), and single values may be NaN: two
    samples are compared in the views that both have. ``report_`` says what was chosen, and why. Permuting the samples
    or the views permutes the results and changes nothing else.

    Use it when there are no labels to choose a method or its parameters by. Use one of the methods, such as `ESTMC`, to
    compare with published results.

    With n samples, d features in all, m views, k clusters and L landmarks (at most 10 000 by default), the neighbour
    searches take O(n·L·d) time and the clusterings O(L·k²). Memory is O(n·(k + m) + L·d), in addition to the views, and
    for each thread a Ward tree of 60·k landmarks, which takes O(k²) and is about 1 GB for 200 clusters. Samples beyond
    the landmarks get the labels of their nearest landmarks.

    Views on disk (`numpy.memmap`, and HDF5 and Parquet files opened by `load_views`) of more than 8 MB stay there: they
    are read twice, in blocks of rows, and results with several numbers per sample are stored in temporary files. Dask
    arrays and dataframes are processed by the workers of their cluster: ``labels_``, ``confidence_`` and
    ``outlier_score_`` are then Dask arrays, ``membership_``, ``embedding_`` and ``sample_view_weights_`` are computed
    on demand, and ``links_`` and ``ranks_`` are not available. The results are the same as in memory.

    Parameters
    ----------
    n_clusters : int or "auto", default="auto"
        Number of clusters. "auto" estimates it, between 2 and 130, with `estimate_n_clusters`; treat the result as a
        suggestion.
    normalisation : str, sequence or mapping, default="auto"
        How to scale the views: "auto" to combine several ways; or "none", "unit", "centred", "z-score", "z-score-unit",
        "range", "root", "tf-idf", "lsi", "log-counts", "log-ratio", "whitened", "z-score-whitened" or "root-whitened";
        one for all views, a sequence with one per view, or a mapping from names of views.
    view_weights : "auto", sequence or mapping, default="auto"
        Weights of the views: "auto", or numbers, one per view or a mapping from names of views, which replace the
        automatic weights. The report shows both.
    time_budget : float, default=300
        Time limit of the fit in seconds, from which ``effort="auto"`` chooses the effort. If the time still runs out,
        parts are left out, with a warning.
    effort : {"auto", "low", "medium", "high", "full"}, default="auto"
        Largest number of landmarks, the samples that are clustered and that all others are assigned to: 2 000, 5 000,
        10 000 or 20 000. "auto" takes the highest level up to "high" that fits the time budget on this machine; set
        another level for results that do not depend on its speed.
    device : str or torch.device, optional
        PyTorch device, such as "cuda", for the neighbour searches, principal components, the spectra of the graphs and
        the placement of samples beyond the landmarks; by default that of the views if they are tensors. Dense views are
        copied there as a whole; sparse views, and views on disk, stay where they are. Results are NumPy arrays, and
        labels are the same as without a device, except where rounding decides.
    view_sizes : sequence of int, optional
        Number of columns of each view, if `fit` gets one array.
    random_state : int, RandomState instance or None, default=None
        Seed of the k-means starts.
    n_jobs : int, optional
        Number of threads, −1 for all processors; by default those of ``OMP_NUM_THREADS``, or all. Results do not depend
        on it.
    verbose : int, default=0
        1 prints a line after each stage.
    progress : function of (done, total, stage), optional
        Called after each stage.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each sample, the one with its largest share in ``membership_``; clusters are numbered by size.
    n_clusters_ : int
        Number of clusters.
    membership_ : ndarray of shape (n_samples, n_clusters)
        Share of each cluster in each sample, from the weighted votes of all clusterings; rows sum to 1.
    confidence_ : ndarray of shape (n_samples,)
        Largest share of a sample minus its second largest: 1 if all clusterings agree, 0 for a tie.
    outlier_score_ : ndarray of shape (n_samples,)
        Distance to the farthest of the nearest landmarks, relative to the same distance for these, averaged over the
        views; about 1 inside a cluster, larger for outliers, 0 for samples without any value.
    sample_view_weights_ : ndarray of shape (n_samples, n_views)
        Weight of each view for each sample, 0 where it is missing; rows sum to 1.
    embedding_ : ndarray of shape (n_samples, n_components)
        Leading eigenvectors of the co-association matrix of the clusterings; for samples other than landmarks, the mean
        over their nearest landmarks.
    landmarks_ : ndarray of shape (n_landmarks,)
        Indices of the samples that were clustered.
    view_names_ : list of str
        Names of the views.
    sample_ids_ : ndarray or None
        Index of the samples, if the input had one; the union for tables of different samples.
    report_ : AutoReport
        What was chosen, and why.
    fitted_ : FittedClustering
        The landmarks with their values, which `predict` uses.
    links_ : csr_array of shape (n_samples, n_landmarks)
        The nearest landmarks of each sample.
    ranks_ : ndarray of shape (n_samples,)
        Position of each sample in the canonical order.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(200)
    >>> model = tm.MultiViewClustering(n_clusters=10, random_state=0).fit(views)
    >>> model.labels_.shape, len(model.report_.members) > 5
    ((200,), True)
    >>> bool((model.predict(views) == model.labels_).all())
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_clusters": [*COUNT, StrOptions({"auto"})],
        "normalisation": [str, list, tuple, dict],
        "view_weights": [StrOptions({"auto"}), "array-like", dict],
        "time_budget": POSITIVE,
        "effort": [StrOptions({"auto", *EFFORTS})],
        "device": "no_validation",
        "view_sizes": ["array-like", None],
        "random_state": ["random_state"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "progress": [callable, None],
    }

    n_clusters: int | str = "auto"
    normalisation: Any = "auto"
    view_weights: Any = "auto"
    time_budget: float = 300
    effort: str = "auto"
    device: Any = None
    view_sizes: Sequence[int] | None = None
    random_state: Any = None
    n_jobs: int | None = None
    verbose: int = 0
    progress: Callable[[int, int, str], Any] | None = None

    def fit(self, views: Any, y: Any = None, *, sample_graph: Any = None) -> Self:
        """Cluster the samples.

        Parameters
        ----------
        views : list, tuple or dict of arrays (n_samples, n_features_v), MuData, or one array
            The views; `view_sizes` splits one array into several views. Samples may be missing in views.
        y : ignored
            Present for scikit-learn's convention.
        sample_graph : array or sparse matrix of shape (n_samples, n_samples), optional
            A graph over the samples, which is clustered in addition to the graphs that are built from the views.

        Returns
        -------
        self
        """
        with limited_threads(self.n_jobs):
            return super().fit(views, sample_graph=sample_graph)

    def _views_of(self, views: Any) -> Views:
        if any_dask(views):
            if self.device is not None:
                raise ValueError(
                    f"device={self.device!r} cannot be used with Dask views, which the workers process: set device=None"
                )
            return chunked_views(views, self.view_sizes)
        # Rows stay where and as they are: only landmarks are brought into an order.
        return as_views(
            views,
            view_sizes=self.view_sizes,
            canonical=False,
            unit=False,
            device=self.device,
            keep_on_disk=True,
            lenient=True,
        )

    def _solve(self, views: Views, seed: int, sample_graph: Any) -> None:
        start = time.perf_counter()
        if sample_graph is not None and isinstance(views, ChunkedViews):
            raise ValueError(
                "sample_graph needs views in memory or on disk, and these are Dask collections: leave it out"
            )
        device = self._device_for(views.device)
        source: Source = DaskSource(views) if isinstance(views, ChunkedViews) else LocalSource(views, device)
        refuse_sizes(source.largest, views.names)
        effort = self._choose_effort(source, device)
        landmarks, keys, samples = source.landmarks(effort.most_landmarks)
        landmark_views = samples.as_views(views, landmarks, keys)
        looks = gather_looks(landmark_views, self.normalisation, self.view_weights, device)
        estimate = None
        if self.n_clusters == "auto":
            estimate = cluster_number(looks)
            self._notify(0, 1, "number of clusters")
        self.n_clusters_ = int(self.n_clusters) if estimate is None else estimate.n_clusters
        if sample_graph is not None:
            n_links, sample_graph = sample_graph.nnz, permuted_graph(sample_graph, landmarks)
            if len(landmarks) < source.presence.n_samples - source.presence.n_empty:
                remedy = "" if effort.name == "full" else "; set a higher effort for more landmarks"
                warn_caller(
                    f"sample_graph: only the {sample_graph.nnz:,} of its {n_links:,} links that join two landmarks are "
                    f"used{remedy}"
                )
        deadline = start + _MEMBER_SHARE * self.time_budget
        tried, left_out = run_looks(looks, self.n_clusters_, sample_graph, seed, deadline, self._notify)
        same = first_of_duplicates(samples.hashes, samples.missing)
        shares, embedding = _consensus(tried, self.n_clusters_, seed, same)
        if (found := shares.shape[1]) < self.n_clusters_:
            message = f"only {found} distinct clusters were found, fewer than n_clusters={self.n_clusters_}"
            warn_caller(f"{message}, possibly because of duplicate or missing samples", ConvergenceWarning)
            self.n_clusters_ = found
        self.landmarks_ = landmarks
        self._set_results(source, _fitted(landmark_views, samples, tried[0].evidence, shares, embedding))
        self.report_ = report_on(
            tried,
            views,
            source.presence,
            self.view_weights,
            np.argmax(shares, axis=1),
            cluster_number=estimate,
            n_clusters=self.n_clusters_,
            effort=effort.name,
            n_landmarks=len(landmarks),
            left_out=left_out,
            seconds=time.perf_counter() - start,
        )
        if left_out:
            message = f"time_budget={self.time_budget:g} is too short for {len(left_out)} parts of the fit: raise it"
            warn_caller(f"{message}, or results will depend on the machine's speed", RuntimeWarning)
        for message in self.report_.warnings:
            warn_caller(message)

    def _device_for(self, device_of_views: Any) -> Any:
        """Return where to compute: the device asked for, or that of the views, or None for the host."""
        return device_of_views if self.device is None else torch_device(self.device)

    def _choose_effort(self, source: Source, device: Any) -> Effort:
        n, k = source.presence.n_samples - source.presence.n_empty, self.n_clusters
        if n < (needed := max(2, 1 if isinstance(k, str) else k)):
            raise ValueError(
                f"n_clusters={k!r} needs at least {needed} samples with a value that is not zero, and there are {n}"
            )
        n_clusters = _TYPICAL_NUMBER if isinstance(k, str) else k
        on_device = device is not None and device.type != "cpu"
        return choose_effort(self.effort, n, source.views.widths, n_clusters, self.time_budget, on_device)

    def predict(self, views: Any, *, min_confidence: float = 0.0) -> NDArray[np.intp]:
        """Assign samples to clusters by their nearest landmarks, in the views that they have.

        Training samples get exactly their label from `fit`, and the label of a sample does not depend on the others.

        Parameters
        ----------
        views : list, tuple or dict of arrays (n_samples, n_features_v), MuData, or one array
            The samples, as in `fit`, in any subset of the fitted views: a list with None for the others, or a dict by
            name. Features of tables are matched by name. Tables of different samples are joined on their index, and the
            results are in the order in which the ids first appear, table by table.
        min_confidence : float, default=0
            Samples with a lower confidence get the label −1.

        Returns
        -------
        ndarray of int of shape (n_samples,)
        """
        if not 0 <= min_confidence <= 1:
            raise ValueError(f"min_confidence={min_confidence!r}: expected a number from 0 to 1")
        return self._each(views, partial(_labels, least=min_confidence))

    def predict_proba(self, views: Any) -> NDArray[np.float64]:
        """Return the share of each cluster in each sample, (n_samples, n_clusters); rows sum to 1.

        Parameters
        ----------
        views : list, tuple or dict of arrays (n_samples, n_features_v), MuData, or one array
            The samples, as in `predict`.
        """
        return self._each(views, _memberships)

    def transform(self, views: Any) -> NDArray[np.float64]:
        """Return the coordinates of samples in ``embedding_``: the mean over their nearest landmarks.

        Parameters
        ----------
        views : list, tuple or dict of arrays (n_samples, n_features_v), MuData, or one array
            The samples, as in `predict`.
        """
        return self._each(views, _coordinates)

    def outlier_score(self, views: Any) -> NDArray[np.float64]:
        """Return how far samples are from their nearest landmarks, relative to these landmarks, as ``outlier_score_``.

        Parameters
        ----------
        views : list, tuple or dict of arrays (n_samples, n_features_v), MuData, or one array
            The samples, as in `predict`.
        """
        return self._each(views, _scores)

    def _each(self, views: Any, work: Callable[..., NDArray[Any]]) -> NDArray[Any]:
        """Apply `work` to the links and outlier scores of samples, block by block."""
        check_is_fitted(self)
        self._check_width(views)
        if any_dask(views):
            labels: NDArray[Any] = each_on_dask(self.fitted_, views, self.view_sizes, work)
            return labels
        with limited_threads(self.n_jobs):
            samples, device = self.fitted_.samples_of(views, self.view_sizes)
            placement = self.fitted_.placement_on(self._device_for(device))
            return np.concatenate([work(placement, *placement.place(samples[rows])) for rows in samples.blocks()])

    @property
    def _n_features_out(self) -> int:
        """The number of columns of `transform`, which scikit-learn names."""
        return int(self.fitted_.embedding.shape[1])

    @property
    def tree_(self) -> ClusterTree:
        """Coarser and finer clusterings, with the stability of every split; built on first access."""
        check_is_fitted(self)
        return self.fitted_.tree

    def labels_at(self, k: int) -> NDArray[np.intp]:
        """Return the clusters at another granularity of the same fit.

        Levels are nested: coarser clusters are unions of the final ones, finer ones are parts of them. A level may
        differ from a fit with that number of clusters.

        Parameters
        ----------
        k : int
            Number of clusters, from 1 to ``tree_.most``.

        Returns
        -------
        ndarray of int of shape (n_samples,)
            Numbered by size; ``labels_`` for ``k=n_clusters_``.
        """
        groups = self.tree_.groups_at(k)
        self._refuse_cluster("labels_at")
        if k == self.n_clusters_:
            return self.labels_.copy()
        labels = groups[self._leaves]
        described = np.diff(self.links_.indptr) > 0
        # The ranks let the data decide how clusters of equal size are numbered.
        labels = np.argsort(ClusterSizes.of(labels[described], self.ranks_[described], k).order)[labels]
        labels[~described] = 0
        return np.asarray(labels)

    @property
    def _leaves(self) -> NDArray[np.intp]:
        """The leaf of each sample: the one that most of its nearest landmarks of the same cluster are in."""
        tree = self.tree_
        votes = np.asarray(self.links_ @ one_hot(tree.leaves, tree.most).toarray())
        # Where no landmark of the cluster is near, its largest leaf.
        votes += 1e-9 * np.bincount(tree.leaves, minlength=tree.most) / len(tree.leaves)
        votes[self.labels_[:, None] != tree.leaf_labels] = -1
        return np.asarray(np.argmax(votes, axis=1))

    @property
    def graph_(self) -> sp.csr_array:
        """The graph of all views, (n_samples, n_samples), symmetric, with weights up to 1.

        Landmarks are linked to their nearest neighbours, other samples to their nearest landmarks, and copies of a
        landmark to it alone.
        """
        self._refuse_cluster("graph_")
        n = len(self.labels_)
        rows = self.landmarks_
        among = self.fitted_.graph.tocoo()
        entries = sp.coo_array((among.data, (rows[among.coords[0]], rows[among.coords[1]])), shape=(n, n))
        to = self.links_.tocoo()
        kept = ~np.isin(to.coords[0], rows)
        links = sp.coo_array((to.data[kept], (to.coords[0][kept], rows[to.coords[1][kept]])), shape=(n, n))
        return sp.csr_array(entries + links + links.T)

    @property
    def map_(self) -> NDArray[np.float64]:
        """The samples on a map, (n_samples, 2), in which neighbours are close; computed on first access."""
        self._refuse_cluster("map_")
        return place_on_map(self.fitted_.map, self.links_)

    def map_of(self, views: Any) -> NDArray[np.float64]:
        """Place new samples on the map, (n_samples, 2), close to their nearest landmarks.

        Parameters
        ----------
        views : list, tuple or dict of arrays (n_samples, n_features_v), MuData, or one array
            The samples, as in `predict`.
        """
        check_is_fitted(self)
        return self._each(views, partial(_on_map, positions=self.fitted_.map))

    def explain(self, feature_names: Any = None) -> Explanation:
        """Find the features that set each cluster apart, the views that support it, and its typical samples.

        Parameters
        ----------
        feature_names : sequence or mapping of sequences of str, optional
            Names of the features, by view; by default those of the tables that the model was fitted to.

        Returns
        -------
        Explanation
            Computed on the landmarks; has `to_frame` and `plot`, and prints as text.
        """
        check_is_fitted(self)
        given = np.argsort(self.fitted_.view_order)
        views, missing = [self.fitted_.views[v] for v in given], self.fitted_.missing[:, given]
        if feature_names is None:
            feature_names = [view.feature_names for view in views]
        return explain_clusters(
            [view.known_values for view in views],
            np.argmax(self.fitted_.shares, axis=1),
            missing=missing,
            confidence=confidence(self.fitted_.shares),
            view_support=self.fitted_.evidence.sample_weights[self.fitted_.first_of_duplicates][:, given],
            relative=[
                RECIPES[view.scaling.name].relative and view.values.shape[1] > 1 and view.values.min() >= 0
                for view in views
            ],
            feature_names=feature_names,
            view_names=self.view_names_,
            sample_ids=self._names_of(self.landmarks_),
        )

    def explain_sample(self, i: int) -> SampleExplanation:
        """Explain why a sample is in its cluster: its views, its nearest landmarks, and the runner-up.

        Parameters
        ----------
        i : int
            Position of the sample in the training data.

        Returns
        -------
        SampleExplanation
        """
        self._refuse_cluster("explain_sample")
        n = len(self.labels_)
        if i not in range(-n, n):
            raise ValueError(f"i={i!r}: the model was fitted to {n} samples, numbered from 0")
        votes, neighbours = self.fitted_.votes(self.links_[[i]], self.labels_[self.landmarks_])
        shares = self.membership_[i]
        listed = tuple(
            (self._name_of(self.landmarks_[j]), int(self.labels_[self.landmarks_[j]]), distance)
            for j, distance in neighbours
        )
        return SampleExplanation(
            sample=self._name_of(i),
            cluster=int(self.labels_[i]),
            confidence=float(self.confidence_[i]),
            membership={cluster: float(share) for cluster, share in enumerate(shares)},
            view_weights=dict(zip(self.view_names_, self.sample_view_weights_[i].tolist(), strict=True)),
            votes=votes,
            neighbours=listed,
        )

    def _refuse_cluster(self, what: str) -> None:
        check_is_fitted(self)
        if not hasattr(self, "links_"):
            raise ValueError(
                f"{what} needs the nearest landmarks of all samples, which a fit to Dask views does not keep: "
                "use predict, transform and map_of on parts of them"
            )

    def _name_of(self, sample: int) -> Any:
        name = self._names_of(np.array([sample]))[0]
        return int(name) if isinstance(name, np.integer) else name

    def _names_of(self, samples: NDArray[np.intp]) -> NDArray[Any]:
        return samples if self.sample_ids_ is None else np.asarray(self.sample_ids_)[samples]

    def _set_results(self, source: Source, fitted: FittedClustering) -> None:
        """Set the attributes with one entry per sample; all but landmarks get theirs from their nearest landmarks."""
        for name in ("links_", "ranks_"):
            self.__dict__.pop(name, None)  # of an earlier fit
        self.fitted_, results = source.results(fitted, self._notify)
        for name, values in results.items():
            setattr(self, f"{name}_", values)
        self.sample_ids_ = source.views.sample_ids
        self.view_names_ = self.fitted_.names_as_given

    def _set_labels(self, views: Views) -> None:
        """Leave the labels as they are: duplicates have one label already, and clusters are numbered by size."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _notify(self, done: int, total: int, stage: str) -> None:
        if self.verbose:
            print(f"MultiViewClustering: {stage} ({done} of {total})")  # noqa: T201
        if self.progress is not None:
            self.progress(done, total, stage)


def _memberships(placement: Placement, links: sp.csr_array, scores: Any) -> NDArray[np.float64]:
    return placement.memberships(links)


def _labels(placement: Placement, links: sp.csr_array, scores: Any, least: float) -> NDArray[np.intp]:
    membership = placement.memberships(links)
    return np.where(confidence(membership) >= least, np.argmax(membership, axis=1), -1)


def _coordinates(placement: Placement, links: sp.csr_array, scores: Any) -> NDArray[np.float64]:
    return np.asarray(links @ placement.embedding)


def _scores(placement: Placement, links: sp.csr_array, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    return scores


def _on_map(placement: Placement, links: sp.csr_array, scores: Any, positions: Any) -> NDArray[np.float64]:
    return place_on_map(positions, strongest(links))


def _consensus(
    looks: list[Look], n_clusters: int, seed: int, same: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the shares of the consensus clusters in each landmark, and the embedding that was clustered.

    Exact duplicates get what the first of them gets. Clusters without samples are left out.
    """
    members = [member for look in looks for member in look.members]
    labelings, weights = [member.labels for member in members], [member.weight for member in members]
    embedding = consensus_embedding(labelings, weights, n_clusters)
    labels = cluster_embedding(embedding, n_clusters, SampleRandom(looks[0].evidence.views, seed))
    shares = consensus_shares(labelings, weights, labels, n_clusters)
    shares = smoothed(shares, looks[0].evidence.graph("joint"))
    shares, embedding, labels = shares[same], embedding[same], labels[same]
    if len(np.unique(np.argmax(shares, axis=1))) < n_clusters:
        shares = _WEAK_VOTES * shares + (1 - _WEAK_VOTES) * one_hot(labels, n_clusters).toarray()
        shares = shares[:, np.unique(labels)]
    shares = _without_artefacts(shares, looks[0].evidence)
    return decided(shares, np.arange(shares.shape[1])), embedding


def _without_artefacts(shares: NDArray[np.float64], evidence: Evidence) -> NDArray[np.float64]:
    """Dissolve clusters that only reflect which views samples have; their samples go to the next best cluster.

    If all clusters are such artefacts, a single cluster remains. Rows sum to 1.
    """
    while (artefacts := made_by_absence(evidence, np.argmax(shares, axis=1), shares.shape[1])).any():
        shares = np.ones((len(shares), 1)) if artefacts.all() else shares[:, ~artefacts] + _DISSOLVED
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def _fitted(views: Views, samples: Samples, evidence: Evidence, shares: Any, embedding: Any) -> FittedClustering:
    columns = zip(
        views.names,
        views.feature_names,
        views.categories,
        evidence.scalings,
        evidence.weights.tolist(),
        views.arrays,
        [None if (gaps := gaps_of(array)) is None else sp.csr_array(gaps) for array in samples.arrays],
        strict=True,
    )
    fitted = FittedClustering(
        views=[FittedView(*column) for column in columns],
        view_order=views.view_order,
        missing=views.missing,
        hashes=samples.hashes,
        shares=shares,
        priority=np.arange(shares.shape[1]),
        embedding=embedding,
        related=evidence.related,
    )
    fitted.remember(evidence)
    return fitted
