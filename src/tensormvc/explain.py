"""Explain a clustering: the features that set each cluster apart, the views that support it, and single samples.

`explain_clusters` needs only the views and the labels, so it explains the clusters of any method.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from . import plotting
from .backend.arrays import is_sparse
from .backend.frames import data_frame
from .backend.linalg import one_hot
from .views._order import MISSING_HASH, content_of, keys_of, mixed, row_hashes

__all__ = ["ClusterSummary", "Explanation", "FeatureEffect", "SampleExplanation", "explain_clusters"]

# The 97.5 % quantile of the normal distribution.
_Z = 1.959963984540054
_BISECTIONS = 40
# Values that are ranked at a time: what the cache holds.
_BLOCK_VALUES = 1 << 18
# Leading features that stand for a view where its support is not given.
_N_LEADING = 10
_N_TYPICAL = 5
_NOISE = -1
# Letters of a name in the printed text.
_LONGEST = 32

_Floats = NDArray[np.float64]


class FeatureEffect(NamedTuple):
    """How much one feature sets one cluster apart: a row of `Explanation.to_frame`.

    Parameters
    ----------
    cluster : int
        The cluster.
    view : str
        Name of the view.
    feature : str
        Name of the feature.
    effect : float
        Area under the ROC curve (AUC): the probability that the value of a sample of the cluster is above that of
        another sample, where equal values count one half. 1 means always above, 0 always below, 0.5 no difference.
    low : float
        Lower end of the 95 % confidence interval of the AUC.
    high : float
        Its upper end.
    difference : float
        Difference between the means of the cluster and of the other samples, divided by their pooled standard deviation
        (Cohen's d). It is infinite if the feature varies in neither.
    log_ratio : float
        For views of counts, the base 2 logarithm of the ratio of the means; NaN for other views.
    n : int
        Number of samples of the cluster that have a value.
    rank : int
        Position among the features of all views, from 1.

    Examples
    --------
    >>> import tensormvc as tm
    >>> explanation = tm.explain.explain_clusters([[[0.0, 5], [1, 4], [2, 5], [3, 4]]], [0, 0, 1, 1])
    >>> explanation.top(1)[0].feature, explanation.top(1)[0].effect
    ('feature 0', 0.0)
    """

    cluster: int
    view: str
    feature: str
    effect: float
    low: float
    high: float
    difference: float
    log_ratio: float
    n: int
    rank: int


@dataclass(frozen=True)
class ClusterSummary:
    """A cluster in one line of a table.

    Parameters
    ----------
    cluster : int
        The cluster.
    size : int
        Number of samples.
    support : dict of str to float
        How much each view supports the cluster.
    typical : tuple
        Samples with the highest confidence, highest first; empty if the confidence is not known.
    borderline : tuple
        Samples with the lowest confidence, lowest first.

    Examples
    --------
    >>> import tensormvc as tm
    >>> tm.explain.explain_clusters([[[0.0], [1], [2]]], [0, 0, 1], confidence=[0.9, 0.6, 1]).clusters[0].borderline
    (1,)
    """

    cluster: int
    size: int
    support: dict[str, float]
    typical: tuple[Any, ...]
    borderline: tuple[Any, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Result of `explain_clusters`; printing it gives the leading features of each cluster.

    Arrays have one row per cluster and one column per feature, view after view.

    Parameters
    ----------
    clusters : tuple of ClusterSummary
        The clusters: their sizes, views and samples.
    n_samples : int
        Number of samples.
    view_names : tuple of str
        Names of the views.
    features : ndarray of str of shape (n_features,)
        Names of the features.
    feature_views : ndarray of int of shape (n_features,)
        View of each feature, as an index into `view_names`.
    effect : ndarray of shape (n_clusters, n_features)
        Area under the ROC curve (AUC), see `FeatureEffect` for this and the following ones.
    low : ndarray of shape (n_clusters, n_features)
        Lower end of the 95 % confidence interval of the AUC.
    high : ndarray of shape (n_clusters, n_features)
        Its upper end.
    difference : ndarray of shape (n_clusters, n_features)
        Standardised difference of the means.
    log_ratio : ndarray of shape (n_clusters, n_features)
        Base 2 logarithm of the ratio of the means of counts.
    n : ndarray of int of shape (n_clusters, n_features)
        Number of samples of the cluster that have a value.
    order : ndarray of int of shape (n_clusters, n_features)
        The features of each cluster, leading ones first.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.make_multiview(60, n_clusters=3, random_state=0)
    >>> explanation = tm.explain.explain_clusters(views, y)
    >>> explanation.effect.shape == (3, sum(view.shape[1] for view in views))
    True
    """

    clusters: tuple[ClusterSummary, ...]
    n_samples: int
    view_names: tuple[str, ...]
    features: NDArray[np.str_]
    feature_views: NDArray[np.intp]
    effect: _Floats
    low: _Floats
    high: _Floats
    difference: _Floats
    log_ratio: _Floats
    n: NDArray[np.intp]
    order: NDArray[np.intp]

    def top(self, n: int = 10) -> list[FeatureEffect]:
        """Return the `n` leading features of each cluster, cluster after cluster: the rows of a table."""
        columns = [values.tolist() for values in self._columns(n).values()]
        return [FeatureEffect(*row) for row in zip(*columns, strict=True)]

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per cluster and feature, leading features first.

        Columns: cluster, view, feature, effect (AUC), low, high, difference, log_ratio, n, rank, see `FeatureEffect`.
        """
        return data_frame(self._columns(len(self.features)))

    def plot(self, n_features: int = 6) -> Any:
        """Draw the leading features of each cluster, see `tensormvc.plotting.plot_cluster_features`.

        Returns an array of matplotlib Axes, one per cluster.
        """
        axes = plotting.grid_of_axes(len(self.clusters), n_features)
        for ax, summary in zip(axes, self.clusters, strict=True):
            plotting.plot_cluster_features(self, summary.cluster, n_features=n_features, ax=ax)
        for ax in axes[1:]:
            ax.get_legend().remove()
        return axes

    def to_text(self, n_features: int = 5, n_clusters: int = 20) -> str:
        """Return the leading features of the first clusters as text; ``print`` shows it."""
        leading = self.top(n_features)
        name_width = max(7, *(len(plotting.shortened(row.feature, _LONGEST)) for row in leading))
        view_width = max(4, *map(len, self.view_names))
        head = f"  {'feature':<{name_width}}  {'view':<{view_width}}   AUC  95 % interval  difference  log2 ratio"
        blocks = []
        for summary in self.clusters[:n_clusters]:
            support = ", ".join(f"{name} {value:.2f}" for name, value in summary.support.items())
            lines = [f"Cluster {summary.cluster}: {summary.size} of {self.n_samples} samples; views: {support}", head]
            for row in (row for row in leading if row.cluster == summary.cluster):
                name = plotting.shortened(row.feature, _LONGEST)
                numbers = f"{row.effect:4.2f}   {row.low:4.2f} to {row.high:4.2f}{row.difference:>+12.2f}"
                ratio = "" if np.isnan(row.log_ratio) else f"{row.log_ratio:>+12.2f}"
                lines.append(f"  {name:<{name_width}}  {row.view:<{view_width}}  {numbers}{ratio}")
            for kind in ("typical", "borderline"):
                if samples := getattr(summary, kind):
                    lines.append(f"  {kind} samples: {', '.join(map(str, samples))}")
            blocks.append("\n".join(lines))
        if len(self.clusters) > n_clusters:
            blocks.append(f"{len(self.clusters) - n_clusters} more clusters: see to_frame()")
        return "\n\n".join(blocks)

    def __str__(self) -> str:
        return self.to_text()

    def _columns(self, n: int) -> dict[str, NDArray[Any]]:
        """Return the columns of the table of the `n` leading features of each cluster."""
        order = self.order[:, :n]
        cluster, position = np.indices(order.shape)
        columns: dict[str, NDArray[Any]] = {
            "cluster": np.array([summary.cluster for summary in self.clusters])[cluster],
            "view": np.array(self.view_names, dtype=object)[self.feature_views[order]],
            "feature": self.features.astype(object)[order],
        }
        for name in ("effect", "low", "high", "difference", "log_ratio", "n"):
            columns[name] = getattr(self, name)[cluster, order]
        columns["rank"] = np.add(position, 1)
        return {name: values.ravel() for name, values in columns.items()}


@dataclass(frozen=True)
class SampleExplanation:
    """Why a sample is in its cluster; ``print`` shows it as text.

    Parameters
    ----------
    sample : int or str
        The sample, by its id or its position.
    cluster : int
        Its cluster.
    confidence : float
        Confidence of the sample in its cluster.
    membership : dict of int to float
        Share of each cluster; the shares add up to 1.
    view_weights : dict of str to float
        Weight of each view for the sample; 0 for a view that it lacks.
    votes : dict of str to dict of int to float
        For each view that the sample has, the shares of the clusters among its nearest landmarks; for a sample that is
        no landmark, "all views" together.
    neighbours : tuple of (landmark, cluster, distance)
        The nearest landmarks, nearest first, with their clusters and distances, which are None for a sample that is no
        landmark.

    Examples
    --------
    >>> import tensormvc as tm
    >>> votes = {"text": {0: 0.9, 1: 0.1}, "image": {0: 0.4, 1: 0.6}}
    >>> why = tm.explain.SampleExplanation("s7", 0, 0.3, {0: 0.65, 1: 0.35}, {"text": 1.2, "image": 0.8}, votes,
    ...                                    neighbours=(("s3", 0, 0.12), ("s9", 1, 0.31)))
    >>> print(why)
    Sample s7 is in cluster 0 (share 0.65, confidence 0.30); runner-up: cluster 1 (share 0.35)
      view   weight  votes
      text     1.20  cluster 0: 90 %, cluster 1: 10 %
      image    0.80  cluster 1: 60 %, cluster 0: 40 %
      nearest landmarks: s3 (cluster 0, distance 0.12), s9 (cluster 1, distance 0.31)
    """

    sample: Any
    cluster: int
    confidence: float
    membership: dict[int, float]
    view_weights: dict[str, float]
    votes: dict[str, dict[int, float]]
    neighbours: tuple[tuple[Any, int, float | None], ...]

    @property
    def runner_up(self) -> int | None:
        """The other cluster with the largest share, the first of several equal ones; None if no other has any."""
        others = {cluster: share for cluster, share in self.membership.items() if cluster != self.cluster and share > 0}
        return max(sorted(others), key=lambda cluster: others[cluster], default=None)

    @property
    def runner_up_share(self) -> float:
        """Share of the runner-up, 0 if there is none."""
        return 0.0 if self.runner_up is None else self.membership[self.runner_up]

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain values."""
        return {**asdict(self), "runner_up": self.runner_up, "runner_up_share": self.runner_up_share}

    def plot(self, ax: Any = None) -> Any:
        """Draw the votes of the views, see `tensormvc.plotting.plot_sample_votes`."""
        return plotting.plot_sample_votes(self, ax=ax)

    def __str__(self) -> str:
        share = self.membership[self.cluster]
        line = (
            f"Sample {self.sample} is in cluster {self.cluster} (share {share:.2f}, confidence {self.confidence:.2f})"
        )
        if self.runner_up is not None:
            line += f"; runner-up: cluster {self.runner_up} (share {self.runner_up_share:.2f})"
        names = dict.fromkeys([*self.view_weights, *self.votes])
        width = max(len("view"), *map(len, names))
        lines = [line, f"  {'view':<{width}}  weight  votes"]
        for name in names:
            weight = f"{self.view_weights[name]:.2f}" if name in self.view_weights else ""
            ranked = sorted(self.votes.get(name, {}).items(), key=lambda item: (-item[1], item[0]))
            votes = ", ".join(f"cluster {cluster}: {100 * share:.0f} %" for cluster, share in ranked if share > 0)
            votes = "missing" if self.view_weights.get(name) == 0 else votes
            lines.append(f"  {name:<{width}}  {weight:>6}  {votes}".rstrip())
        if self.neighbours:
            texts = [
                f"{name} (cluster {cluster}{'' if far is None else f', distance {far:.2g}'})"
                for name, cluster, far in self.neighbours
            ]
            lines.append("  nearest landmarks: " + ", ".join(texts))
        return "\n".join(lines)


def explain_clusters(
    views: Sequence[Any],
    labels: ArrayLike,
    *,
    missing: ArrayLike | None = None,
    confidence: ArrayLike | None = None,
    view_support: ArrayLike | None = None,
    relative: Sequence[bool] | None = None,
    feature_names: Sequence[Sequence[str] | None] | Mapping[str, Sequence[str]] | None = None,
    view_names: Sequence[str] | None = None,
    sample_ids: ArrayLike | None = None,
) -> Explanation:
    r"""Find the features that set each cluster apart from all other samples.

    The effect size of a feature is the area under the ROC curve (AUC) for separating the cluster from all other
    samples, among those that have a value, with a 95 % confidence interval. It depends only on the ranks of the values,
    so neither the scale of a feature nor outliers matter. The features of a cluster are sorted by the end of the
    interval that is closer to 0.5, so that a chance effect over few values does not come first; ties are broken by the
    standardised difference.

    Parameters
    ----------
    views : sequence of arrays or sparse matrices of shape (n_samples, n_features_v)
        The values to compare, NaN where there is none.
    labels : array of int of shape (n_samples,)
        Cluster of each sample. Samples with label -1 belong to no cluster; every cluster is compared with them, too.
    missing : array of bool of shape (n_samples, n_views), optional
        Rows to leave out of a view, whatever their values.
    confidence : array of shape (n_samples,), optional
        Confidence of each sample, from which typical and borderline samples of each cluster are chosen.
    view_support : array of shape (n_samples, n_views), optional
        How much each view supports the cluster of each sample; its mean over the samples of a cluster is the support of
        the view. By default, the support comes from the ten leading features of the view: the mean of
        ``2·|AUC - 0.5|`` at the end of the interval that is nearer to 0.5 (0 if the interval contains 0.5).
    relative : sequence of bool, optional
        Views whose values are first divided by the total of the sample in that view, and multiplied by the mean total.
        Use it for counts whose totals carry no information, such as the sequencing depth of a cell or the length of a
        text.
    feature_names : sequence or mapping of sequences of str, optional
        Names of the features: for each view a sequence or None, or a mapping from names of views.
    view_names : sequence of str, optional
        Names of the views, "view 0", "view 1", … by default.
    sample_ids : array of shape (n_samples,), optional
        Ids to name samples by, instead of their positions.

    Returns
    -------
    Explanation

    Notes
    -----
    The interval consists of all θ with ``|AUC - θ| ≤ 1.96·SE(θ)``, as Newcombe proposed, with Hanley and McNeil's
    variance ::

        SE(θ)² = (θ(1 − θ) + (n_max − 1)·max(Q₁, Q₂) + (n_min − 1)·min(Q₁, Q₂)) / (n_min·n_max),
        Q₁ = θ/(2 − θ) − θ²,  Q₂ = 2θ²/(1 + θ) − θ²,

    where n_min and n_max are the numbers of samples with a value in the cluster and outside it, in either order.
    Unlike AUC ± 1.96·SE(AUC), the interval stays between 0 and 1, and has a positive width for a cluster that is
    separated completely. In simulations, 93 % or more of the intervals contain the true area if the values are normal
    or exponential. They are wider than necessary for features with many equal values, and too narrow (80 to 90 %) for
    features that vary several times as much in a small cluster as elsewhere. Because the clusters were found in the
    same data, the intervals describe them; they do not test whether there are clusters.

    The log ratio of a view of counts (non-negative integers) is log2((n₁·a + 1) / (n₁·b + 1)), with the mean a over the
    cluster and b over the other samples: observed against expected counts, each plus one. It is finite, and always has
    the right sign.

    Time is O(n·d·log n) for d features in all, memory O(k·d) in addition to copies of the views in another order.

    References
    ----------
    J. A. Hanley, B. J. McNeil: The meaning and use of the area under a receiver operating characteristic (ROC) curve.
    Radiology 143 (1982) 29-36.

    R. G. Newcombe: Confidence intervals for an effect size measure based on the Mann-Whitney statistic. Part 2:
    asymptotic methods and evaluation. Statistics in Medicine 25 (2006) 559-573.

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> rng = np.random.default_rng(0)
    >>> text, labels = rng.poisson(2, size=(90, 4)), np.arange(90) % 3
    >>> text[labels == 1, 2] += 6
    >>> explanation = tm.explain.explain_clusters([text], labels, feature_names=[["a", "be", "see", "do"]])
    >>> leading = explanation.top(1)[1]
    >>> leading.cluster, leading.feature, round(leading.effect, 2), round(leading.low, 2), round(leading.log_ratio, 1)
    (1, 'see', 0.98, 0.91, 1.9)
    """
    data: list[Any] = [sp.csr_array(view) if is_sparse(view) else np.asarray(view) for view in views]
    labels = np.asarray(labels)
    n, m = len(labels), len(data)
    names = tuple(f"view {v}" for v in range(m)) if view_names is None else tuple(map(str, view_names))
    _check(data, names, labels)
    features = _feature_names(data, names, feature_names)
    absent = np.zeros((n, m), dtype=bool) if missing is None else _aligned(missing, "missing", (n, m)).astype(bool)
    by_total = np.zeros(m, dtype=bool) if relative is None else _aligned(relative, "relative", (m,))
    ids = np.arange(n) if sample_ids is None else _aligned(sample_ids, "sample_ids", (n,))
    found, codes = np.unique(labels, return_inverse=True)
    order = _canonical_order(data, absent, codes, ids)
    members = one_hot(codes[order]).T.tocsr()[found != _NOISE]
    parts = []
    for v, view in enumerate(data):
        blocks = _blocks(view, order, absent[order, v], names[v], by_total[v])
        parts.append(_view_effects(blocks, members, _are_counts(view)))
    effects = {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}
    strength = np.maximum(effects["low"] - 0.5, 0.5 - effects["high"])
    feature_views = np.repeat(np.arange(m), [view.shape[1] for view in data])
    if view_support is None:
        support = np.stack([_separation(strength[:, feature_views == v]) for v in range(m)], axis=1)
    else:
        support = members @ _aligned(view_support, "view_support", (n, m))[order] / members.sum(axis=1)[:, None]
    sure = None if confidence is None else _aligned(confidence, "confidence", (n,))
    summaries = []
    for row, cluster in enumerate(found[found != _NOISE].tolist()):
        own = order[members.indices[slice(*members.indptr[row : row + 2])]]
        typical, borderline = _extremes(own, sure, ids)
        by_view = dict(zip(names, support[row].tolist(), strict=True))
        summaries.append(ClusterSummary(cluster, len(own), by_view, typical, borderline))
    # Features without any value in the cluster, or without any elsewhere, come last.
    keys = (-np.nan_to_num(np.abs(effects["difference"])), -np.nan_to_num(strength, nan=-1))
    return Explanation(
        clusters=tuple(summaries),
        n_samples=n,
        view_names=names,
        features=features,
        feature_views=feature_views,
        order=np.lexsort(keys),
        **effects,
    )


def _check(views: list[Any], names: tuple[str, ...], labels: NDArray[Any]) -> None:
    if not views or len(names) != len(views):
        raise ValueError(
            f"view_names has {len(names)} names for {len(views)} views: pass one per view, and at least one view"
        )
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or not np.any(labels != _NOISE):
        raise ValueError(f"labels must be integers of shape (n_samples,), not all -1; got {labels!r}")
    for view, name in zip(views, names, strict=True):
        if view.ndim != 2 or view.shape[0] != len(labels) or not view.shape[1]:
            raise ValueError(
                f"{name} has shape {view.shape} for {len(labels)} labels: it needs one row per sample, and a feature"
            )


def _aligned(values: Any, name: str, shape: tuple[int, ...]) -> NDArray[Any]:
    array = np.asarray(values)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; expected {shape}")
    return array


def _feature_names(views: list[Any], names: tuple[str, ...], given: Any) -> NDArray[np.str_]:
    """Return the names of the features of all views, with numbers for those of views without names."""
    if isinstance(given, Mapping):
        if unknown := [name for name in given if name not in names]:
            raise ValueError(
                f"feature_names names {unknown[0]!r}, which is not a view; the views are {', '.join(names)}"
            )
        given = [given.get(name) for name in names]
    if given is not None and len(given) != len(views):
        raise ValueError(
            f"feature_names has {len(given)} entries for {len(views)} views: pass a sequence or None for each"
        )
    features: list[str] = []
    for v, view in enumerate(views):
        width = view.shape[1]
        own = None if given is None else given[v]
        if own is not None and len(own) != width:
            raise ValueError(f"feature_names has {len(own)} names for the {width} features of {names[v]}")
        features += [f"feature {i}" for i in range(width)] if own is None else map(str, own)
    return np.array(features, dtype=str)


def _canonical_order(views: list[Any], absent: Any, codes: Any, ids: NDArray[Any]) -> NDArray[np.intp]:
    """Return an order of the samples that depends on their values, labels and ids alone."""
    hashes = [row_hashes(view) for view in views]
    for v, own in enumerate(hashes):
        own[absent[:, v]] = MISSING_HASH
    names = np.array([str(label) for label in ids.tolist()])  # some are pairs, of a pandas MultiIndex
    return np.lexsort((names, codes, keys_of(hashes, [mixed(content_of(own)) for own in hashes])))


def _are_counts(view: Any) -> bool:
    """Return whether all values are non-negative integers, apart from those that are NaN."""
    values = view.data[:, None] if is_sparse(view) else view
    if values.dtype.kind in "bu":
        return True
    step = max(1, _BLOCK_VALUES // max(1, values.shape[1]))
    rows = (values[start : start + step] for start in range(0, len(values), step))
    return all(np.all((block >= 0) & (block == np.floor(block)) | np.isnan(block)) for block in rows)


def _blocks(
    view: Any, order: NDArray[np.intp], absent: NDArray[np.bool_], name: str, by_total: bool
) -> Iterator[_Floats]:
    """Yield some features of a view at a time, (n_samples, few), in an order, with NaN where there is no value."""
    n, width = view.shape
    step = max(1, _BLOCK_VALUES // n)
    factors = _factors(view, order, absent, name) if by_total else None
    columns = view[order].tocsc() if is_sparse(view) else None
    for start in range(0, width, step):
        part = slice(start, start + step)
        values = view[order, part] if columns is None else columns[:, part].toarray()
        block = np.array(values, dtype=np.float64, order="C")
        if np.isinf(block).any():
            raise ValueError(f"{name} contains infinity: replace it by a number, or by NaN for a missing value")
        if factors is not None:
            block *= factors[:, None]
        block[absent] = np.nan
        yield block


def _factors(view: Any, order: NDArray[np.intp], absent: NDArray[np.bool_], name: str) -> _Floats:
    """Return the factors that make the totals of all samples equal to their mean; 1 where the total is 0."""
    filled = view.astype(np.float64)
    values = filled.data if is_sparse(view) else filled
    np.nan_to_num(values, copy=False)
    if (values < 0).any():
        raise ValueError(f"{name} has negative values, which are no shares of a total: set relative to False for it")
    totals = filled.sum(axis=1)[order]
    used = ~absent & (totals > 0)
    factors = np.ones(len(totals))
    if used.any():
        factors[used] = totals[used].mean() / totals[used]
    return factors


def _view_effects(blocks: Iterator[_Floats], members: sp.csr_array, are_counts: bool) -> dict[str, NDArray[Any]]:
    """Return the effect sizes of all features of a view for all clusters, (n_clusters, n_features)."""
    parts = [_block_effects(block, members, are_counts) for block in blocks]
    return {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}


def _block_effects(values: _Floats, members: sp.csr_array, are_counts: bool) -> dict[str, NDArray[Any]]:
    absent = np.isnan(values)
    # Infinity ranks above every value, so that gaps do not change the ranks of the values.
    ranks = rankdata(np.where(absent, np.inf, values), axis=0)
    ranks[absent] = 0
    inside = members @ (~absent).astype(np.float64)
    total = len(values) - absent.sum(axis=0)
    outside = total - inside
    varies = 2 * ranks.max(axis=0) > total + 1
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # Ranks are multiples of one half, so their sums are exact.
        auc = (members @ ranks - inside * (inside + 1) / 2) / (inside * outside)
        values[absent] = 0
        centre = values.sum(axis=0) / total
        values -= centre
        values[absent] = 0
        sums = members @ values
        mean, other = sums / inside, (values.sum(axis=0) - sums) / outside
        squares = np.einsum("ij,ij->j", values, values)
        within = squares - inside * mean**2 - outside * other**2
        within[within <= len(values) * np.finfo(np.float64).eps * squares] = 0
        difference = np.where(varies, (mean - other) / np.sqrt(within / np.maximum(total - 2, 1)), 0 * mean)
        log_ratio = np.full_like(auc, np.nan)
        if are_counts:
            log_ratio = np.log2((inside * (mean + centre) + 1) / (inside * (other + centre) + 1))
    low, high = _lower_end(auc, inside, outside), 1 - _lower_end(1 - auc, inside, outside)
    effects = {"effect": auc, "low": low, "high": high, "difference": difference, "log_ratio": log_ratio}
    return {**effects, "n": inside.astype(np.intp)}


def _lower_end(auc: _Floats, inside: _Floats, outside: _Floats) -> _Floats:
    """Return the lower end of the 95 % confidence interval of the AUC, see `explain_clusters`; NaN for NaN."""
    low, high = np.zeros_like(auc), auc.copy()
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = _Z**2 / (inside * outside)
        fewer, more = np.minimum(inside, outside) - 1, np.maximum(inside, outside) - 1
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            spread = middle * (1 - middle)
            q1, q2 = spread * (1 - middle) / (2 - middle), spread * middle / (1 + middle)
            variance = spread + more * np.maximum(q1, q2) + fewer * np.minimum(q1, q2)
            covered = (auc - middle) ** 2 <= scale * variance
            low, high = np.where(covered, low, middle), np.where(covered, middle, high)
    return high


def _separation(strength: _Floats) -> _Floats:
    """Return how well the leading features of a view separate each cluster, between 0 and 1."""
    leading = -np.sort(-np.nan_to_num(strength, nan=-1), axis=1)[:, :_N_LEADING]
    return np.asarray(2 * np.maximum(leading, 0).mean(axis=1))


def _extremes(
    own: NDArray[np.intp], confidence: NDArray[Any] | None, ids: NDArray[Any]
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the ids of the samples of a cluster with the highest and with the lowest confidence, none in both."""
    if confidence is None:
        return (), ()
    ranked = ids[own[np.argsort(-confidence[own], kind="stable")]].tolist()
    n_typical = min(_N_TYPICAL, -(-len(ranked) // 2))
    return tuple(ranked[:n_typical]), tuple(ranked[: n_typical - 1 : -1][:_N_TYPICAL])
