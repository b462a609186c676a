"""What a plan can name: methods, transforms and baselines, each with the number that its results are filed under.

Raise a revision when a change of the code changes what comes out: results of the old one are then computed anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.preprocessing import StandardScaler, normalize

import tensormvc as tm

from .. import _registry
from .._registry import load
from ..penalties import make_penalty

# Parameters of the estimators that the protocol sets, or that change no result.
_NOT_IN_PLANS = {"n_clusters", "basis", "view_sizes", "random_state", "verbose", "callback", "keep", "device"}


@dataclass(frozen=True)
class Method:
    """A method of the paper: the name of its estimator, and its revision."""

    estimator: str
    revision: int

    def defaults(self) -> dict[str, Any]:
        """Return all parameters that a plan may set, with their defaults."""
        parameters = getattr(tm, self.estimator)().get_params(deep=False)
        return {name: value for name, value in parameters.items() if name not in _NOT_IN_PLANS}

    def make(self, n_clusters: int, basis: Any, seed: int, parameters: Mapping[str, Any]) -> Any:
        """Return the estimator."""
        made = dict(parameters)
        if isinstance(made.get("penalty"), Mapping):
            made["penalty"] = _penalty(made["penalty"])
        return getattr(tm, self.estimator)(n_clusters, basis=basis, random_state=seed, **made)

    def check(self, parameters: Mapping[str, Any]) -> None:
        """Raise a ValueError or TypeError for values that the estimator would refuse."""
        made = self.make(2, "fft", 0, {k: 1 if k == "n_latent" else v for k, v in parameters.items()})
        made._validate_params()
        if hasattr(made, "penalty"):
            make_penalty(made.penalty)


def _penalty(described: Mapping[str, Any]) -> Any:
    parameters = {name: value for name, value in described.items() if name != "name"}
    return type(make_penalty(described.get("name", "")))(**parameters)


METHODS = {
    "t-SVD-MVC": Method("TSVDMVC", 1),
    "TLSpNM": Method("TLSpNM", 1),
    "ASR-ETR": Method("ASRETR", 1),
    "ESTMC": Method("ESTMC", 1),
    "TLRLF4MVC": Method("TLRLF4MVC", 2),
}


@dataclass(frozen=True)
class Transform:
    """A basis: how it is made of its parameters, their defaults, and its revision."""

    make: Callable[..., Any]
    defaults: Mapping[str, Any]
    revision: int
    uses_labels: bool = False


def _transform(name: str) -> Transform:
    kind = load(_registry.TRANSFORMS[name])
    return Transform(kind, {k: v for k, v in kind().get_params().items() if k != "random_state"}, 1)


def _graph_transform(graph: str) -> Transform:
    kind = load(_registry.GRAPHS[graph])
    return Transform(lambda n_neighbors: tm.GFT(kind(n_neighbors=n_neighbors)), {"n_neighbors": kind().n_neighbors}, 1)


TRANSFORMS = {
    **{name: _transform(name) for name in _registry.TRANSFORMS if name != "gft"},
    **{f"gft-{graph}": _graph_transform(graph) for graph in _registry.GRAPHS},
    "gft-ideal": Transform(tm.GFT, {}, 1, uses_labels=True),
}
# The paper's names; any other transform has its own in capitals.
_LABELS = {
    "fft-view": "FFT(view mode)",
    "haar": "Wavelet",
    "random": "Random",
    "gft-sim": "GFT(SimG)",
    "gft-sum": "GFT(SumG)",
    "gft-gmc": "GFT(GMC)",
    "gft-ideal": "GFT(Ideal)",
}
TRANSFORM_NAMES = {_LABELS.get(name, name.upper()): name for name in TRANSFORMS}


def timed(basis: Any) -> Any:
    """Return the same basis, which notes in ``fit_seconds_`` how long its fit took."""
    kind = type(basis)

    class Timed(kind):  # type: ignore[misc, valid-type]
        def fit(self, *args: Any, **keywords: Any) -> Any:
            start = time.perf_counter()
            try:
                return super().fit(*args, **keywords)
            finally:
                self.fit_seconds_ = time.perf_counter() - start

    parameters = clone(basis).get_params(deep=False)
    # Parameters belong to the class that declares them.
    Timed.__init__ = kind.__init__  # type: ignore[method-assign]
    Timed.__name__ = kind.__name__
    return Timed(**parameters)


def _concatenated_l2(views: list[Any]) -> Any:
    return _side_by_side([normalize(view) for view in views])


def _concatenated_z(views: list[Any]) -> Any:
    return _side_by_side([StandardScaler().fit_transform(_dense(view)) for view in views])


def _side_by_side(views: list[Any]) -> Any:
    return np.hstack([_dense(view) for view in views])


def _dense(view: Any) -> Any:
    return np.asarray(view.toarray() if hasattr(view, "toarray") else view, dtype=np.float64)


def _kmeans(points: Any, n_clusters: int, seed: int) -> Any:
    return KMeans(n_clusters, n_init=10, random_state=seed).fit_predict(points)


def _spectral(graph: Any, n_clusters: int, seed: int) -> Any:
    spectral = SpectralClustering(n_clusters, affinity="precomputed", random_state=seed)
    return spectral.fit_predict(sp.csr_matrix(graph))


def _graph_alone(graph: Any) -> Callable[[list[Any], int, int], Any]:
    def cluster(views: list[Any], n_clusters: int, seed: int) -> Any:
        return _spectral(clone(graph).fit(views, n_clusters=n_clusters).graph_, n_clusters, seed)

    return cluster


def _single_view(views: list[Any], n_clusters: int, seed: int, *, view: int, by: str) -> Any:
    chosen = views[view]
    if by == "k-means":
        return _kmeans(_concatenated_l2([chosen]), n_clusters, seed)
    return _spectral(tm.SimGraph().fit([chosen]).graph_, n_clusters, seed)


@dataclass(frozen=True)
class Baseline:
    """A clusterer without a tensor: a function of views, number of clusters and seed."""

    title: str
    cluster: Callable[..., Any]
    revision: int
    # The best view is known to those who know the classes.
    every_view: bool = False


BASELINES = {
    "kmeans-l2": Baseline(
        "k-means, unit-length views side by side", lambda v, c, seed: _kmeans(_concatenated_l2(v), c, seed), 1
    ),
    "kmeans-z": Baseline(
        "k-means, z-scored views side by side", lambda v, c, seed: _kmeans(_concatenated_z(v), c, seed), 1
    ),
    "spectral-sim": Baseline("spectral clustering, SimG alone", _graph_alone(tm.SimGraph()), 1),
    "spectral-sum": Baseline("spectral clustering, SumG alone", _graph_alone(tm.SumGraph()), 1),
    "spectral-gmc": Baseline("spectral clustering, GMC graph alone", _graph_alone(tm.GMCGraph()), 1),
    "best-view": Baseline("best single view", _single_view, 1, every_view=True),
}
