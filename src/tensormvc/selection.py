"""Model selection without labels: score clusterings, choose between them, estimate the number of clusters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import silhouette_score

from .auto._evidence import Measure, modularity, neighbour_information
from .auto._looks import gather_evidence
from .auto._number import estimate_n_clusters
from .auto._samples import Samples
from .auto._scaling import refuse_sizes
from .backend.checks import random_seed
from .backend.linalg import one_hot
from .metrics import ari
from .views import Views, as_views, take_rows

__all__ = ["estimate_n_clusters", "modularity", "neighbour_information", "select_model"]

_SILHOUETTE_SAMPLES = 2000
_SUBSAMPLES = 3
_SUBSAMPLE_SHARE = 0.8


@dataclass(frozen=True)
class Selection:
    """Scores of several clusterings; higher is better.

    Attributes
    ----------
    names : list of str
        Names of the candidates.
    scores : ndarray of shape (n_candidates,)
        Their scores.
    criterion : str
        The criterion that was used.
    best : object
        The candidate with the highest score.
    best_index : int
        Its position among the candidates.
    """

    names: list[str]
    scores: NDArray[np.float64]
    criterion: str
    best: Any
    best_index: int

    def to_frame(self) -> Any:
        """Return the scores as a pandas DataFrame, best first."""
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
        The clusterings; "stability" and "silhouette" need estimators.
    views : list, tuple or dict of arrays (n_samples, n_features_v), MuData, or one array
        The views that the candidates were fitted to. Samples and single values may be missing, as in
        `MultiViewClustering`.
    criterion : str, default="neighbour-information"
        - "neighbour-information": how much the cluster of a sample tells about the cluster of its neighbour, as the
          weighted mean over the views. It had the lowest regret in docs/without_labels.md.
        - "modularity": share of links within clusters, beyond chance, as the mean over the views.
        - "held-out-view": agreement of the labels with the majority vote of the neighbours in each view (mean ARI).
        - "stability": agreement with fits to random 80 % of the samples (mean ARI).
        - "silhouette": silhouette coefficient in the ``embedding_`` of the estimator.
    view_sizes : sequence of int, optional
        Number of columns of each view, if `views` is one array.
    random_state : int, RandomState instance or None, default=None
        Seed of the subsamples for "stability".

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
    if criterion not in _ON_GRAPHS and criterion not in _ON_ESTIMATORS:
        raise ValueError(f"unknown criterion {criterion!r}; choose from {', '.join([*_ON_GRAPHS, *_ON_ESTIMATORS])}")
    named = dict(candidates) if isinstance(candidates, Mapping) else dict(enumerate(candidates))
    if not named:
        raise ValueError("candidates is empty: pass at least one fitted estimator or array of labels")
    unscaled = as_views(views, view_sizes=view_sizes, unit=False, lenient=True).on_host()
    labelings = [_labels_of(name, candidate, unscaled) for name, candidate in named.items()]
    if criterion in _ON_GRAPHS:
        refuse_sizes(unscaled.sizes.max(axis=0), unscaled.names)
        samples = Samples.of(unscaled.arrays, unscaled.missing)
        evidence = gather_evidence(samples.completed(unscaled, samples.described))
        scores = [evidence.score(labels[samples.described], *_ON_GRAPHS[criterion]) for labels in labelings]
    else:
        score, seed = _ON_ESTIMATORS[criterion], random_seed(random_state)
        cases = zip(named, named.values(), labelings, strict=True)
        scores = [score(name, candidate, labels, unscaled, seed) for name, candidate, labels in cases]
    best = int(np.argmax(scores))
    return Selection([str(name) for name in named], np.array(scores), criterion, list(named.values())[best], best)


def _labels_of(name: Any, candidate: Any, views: Views) -> NDArray[Any]:
    """Return the labels of a candidate in working order."""
    labels = np.asarray(getattr(candidate, "labels_", candidate))
    if labels.shape != (views.n_samples,):
        expected = f"labels of {views.n_samples} samples, or an estimator fitted to them"
        raise ValueError(f"candidate {name}: expected {expected}, got {type(candidate).__name__}")
    return np.asarray(views.to_working_order(labels))


def _predicted_by_neighbours(graph: Any, labels: NDArray[Any]) -> float:
    """Return the adjusted Rand index between the labels and the majority votes of the neighbours."""
    _, codes = np.unique(labels, return_inverse=True)
    votes = sp.csr_array(graph) @ one_hot(codes)
    return float(ari(codes, np.argmax(votes.toarray(), axis=1)))


def _stability(name: Any, candidate: Any, labels: NDArray[Any], views: Views, seed: int) -> float:
    if not hasattr(candidate, "fit_predict"):
        raise ValueError(f"candidate {name} is not an estimator: criterion='stability' needs one to fit again")
    random = np.random.default_rng(seed)
    scores = []
    for _ in range(_SUBSAMPLES):
        chosen = random.permutation(views.n_samples)[: round(_SUBSAMPLE_SHARE * views.n_samples)]
        chosen = chosen[np.argsort(views.order[chosen])]
        model = clone(candidate)
        if "view_sizes" in model.get_params():
            model.set_params(view_sizes=None)
        scores.append(ari(labels[chosen], model.fit_predict(_as_given(views, chosen))))
    return float(np.mean(scores))


def _as_given(views: Views, rows: NDArray[np.intp]) -> Any:
    """Return some samples with the views in the order given, by name if they have names, and NaN in missing rows."""
    given = np.argsort(views.view_order).tolist()
    lacking = views.missing[rows]
    parts = [take_rows(views[v], np.where(lacking[:, v], -1, rows), np.nan) for v in given]
    names = [views.names[v] for v in given]
    return parts if names == [f"view {v}" for v in range(len(names))] else dict(zip(names, parts, strict=True))


def _silhouette(name: Any, candidate: Any, labels: NDArray[Any], views: Views, seed: int) -> float:
    if not hasattr(candidate, "embedding_"):
        raise ValueError(f"candidate {name} has no embedding_: criterion='silhouette' needs one")
    points = views.to_working_order(np.asarray(candidate.embedding_))[:_SILHOUETTE_SAMPLES]
    labels = labels[:_SILHOUETTE_SAMPLES]
    return float(silhouette_score(points, labels)) if 1 < len(np.unique(labels)) < len(labels) else -1.0


# A measure of a graph and labels, and whether views count by their weights.
_ON_GRAPHS: dict[str, tuple[Measure, bool]] = {
    "neighbour-information": (neighbour_information, True),
    "modularity": (modularity, False),
    "held-out-view": (_predicted_by_neighbours, False),
}
_ON_ESTIMATORS = {"stability": _stability, "silhouette": _silhouette}
