"""The methods, transforms and baselines that a plan can name.

Every entry has a revision, which is part of the key of its results. Raise it when a change to the code changes the
labels: results of the old revision are then no longer used, and the next run computes new ones.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.neighbors import kneighbors_graph
from sklearn.preprocessing import StandardScaler, normalize

import tensormvc as tm

from ..backend.arrays import is_sparse
from ..bases import make_basis
from ..methods import SILENT_PARAMETERS
from ..penalties import make_penalty
from ._ladders import number

# Parameters that the protocol sets, or that do not change the labels.
_NOT_IN_PLANS = SILENT_PARAMETERS | {"n_clusters", "basis", "random_state", "device"}


@dataclass(frozen=True)
class Method:
    """A method of the paper, by the name of its estimator."""

    estimator: str
    revision: int = 1

    def defaults(self) -> dict[str, Any]:
        """Return the parameters that a plan may set, with their default values."""
        parameters = getattr(tm, self.estimator)().get_params(deep=False)
        return {name: value for name, value in parameters.items() if name not in _NOT_IN_PLANS}

    def make(self, n_clusters: int, basis: Any, seed: int, parameters: Mapping[str, Any]) -> Any:
        """Return the estimator; a penalty may be a table of its name and parameters."""
        parameters = dict(parameters)
        if isinstance(penalty := parameters.get("penalty"), Mapping):
            values = {name: value for name, value in penalty.items() if name != "name"}
            parameters["penalty"] = type(make_penalty(penalty.get("name", "")))(**values)
        return getattr(tm, self.estimator)(n_clusters, basis=basis, random_state=seed, **parameters)

    def check(self, parameters: Mapping[str, Any]) -> None:
        """Raise a ValueError or TypeError if the estimator would reject the values."""
        estimator = self.make(2, "fft", 0, resolved(parameters, n_clusters=1))
        estimator._validate_params()
        if hasattr(estimator, "penalty"):
            make_penalty(estimator.penalty)


def resolved(parameters: Mapping[str, Any], n_clusters: int) -> dict[str, Any]:
    """Return the parameters with multiples of the number of clusters ("4c") as numbers.

    Examples
    --------
    >>> resolved({"n_latent": "4c", "alpha": 0.1}, n_clusters=7)
    {'n_latent': 28, 'alpha': 0.1}
    """
    latent = parameters.get("n_latent")
    if not isinstance(latent, str):
        return dict(parameters)
    if (multiple := number(latent)) is None:
        raise ValueError(f'{latent!r} is neither an integer nor a multiple of the number of clusters such as "4c"')
    return {**parameters, "n_latent": max(1, round(multiple * n_clusters))}


METHODS = {
    "t-SVD-MVC": Method("TSVDMVC"),
    "TLSpNM": Method("TLSpNM"),
    "ASR-ETR": Method("ASRETR"),
    "ESTMC": Method("ESTMC"),
    "TLRLF4MVC": Method("TLRLF4MVC", 2),
}


@dataclass(frozen=True)
class Transform:
    """A basis: its name in the tables, how to make it, and the parameters that a plan may set."""

    title: str
    make: Callable[..., Any]
    defaults: Mapping[str, Any]
    uses_labels: bool = False
    revision: int = 1


def _gft(title: str, graph: Callable[..., Any]) -> Transform:
    default = {"n_neighbors": graph().n_neighbors}
    return Transform(title, lambda n_neighbors: tm.GFT(graph(n_neighbors=n_neighbors)), default)


# The names of the paper's tables; Random and GFT(SumG) are ours.
TRANSFORMS = {
    "fft": Transform("FFT", tm.FFT, {}),
    "fft-view": Transform("FFT(view mode)", tm.ViewFFT, {}),
    "dct": Transform("DCT", tm.DCT, {}),
    "haar": Transform("Wavelet", tm.Haar, {}),
    "random": Transform("Random", tm.RandomOrthogonal, {}),
    "gft-sim": _gft("GFT(SimG)", tm.SimGraph),
    "gft-sum": _gft("GFT(SumG)", tm.SumGraph),
    "gft-gmc": _gft("GFT(GMC)", tm.GMCGraph),
    "gft-ideal": Transform("GFT(Ideal)", tm.GFT, {}, uses_labels=True),
    "agft": Transform("AGFT", tm.AGFT, tm.AGFT().get_params()),
}
TRANSFORM_NAMES = {transform.title: basis for basis, transform in TRANSFORMS.items()}


def find_transform(basis: str) -> Transform:
    """Return a transform by the name of its basis; a registered basis needs no entry above unless it has parameters."""
    if basis not in TRANSFORMS:
        make_basis(basis)
    return TRANSFORMS.get(basis, Transform(basis, partial(make_basis, basis), {}))


def timed(basis: Any) -> Any:
    """Return a copy of the basis that records in ``fit_seconds_`` how long its fit took."""
    kind = type(basis)

    class Timed(kind):  # type: ignore[misc, valid-type]
        def fit(self, *args: Any, **keywords: Any) -> Any:
            start = time.perf_counter()
            try:
                return super().fit(*args, **keywords)
            finally:
                self.fit_seconds_ = time.perf_counter() - start

    # scikit-learn reads the parameters from the signature of the class's own constructor.
    Timed.__init__ = kind.__init__  # type: ignore[method-assign]
    Timed.__name__ = kind.__name__
    return Timed(**clone(basis).get_params(deep=False))


def _dense(view: Any) -> Any:
    return np.asarray(view.toarray() if is_sparse(view) else view, dtype=np.float64)


def _z_scored(view: Any) -> Any:
    return StandardScaler().fit_transform(_dense(view))


def _kmeans(views: list[Any], n_clusters: int, seed: int, *, scale: Callable[[Any], Any] = normalize) -> Any:
    """Cluster the concatenated views, each scaled on its own."""
    points = np.hstack([_dense(scale(view)) for view in views])
    return KMeans(n_clusters, n_init=10, random_state=seed).fit_predict(points)


def _spectral(views: list[Any], n_clusters: int, seed: int, *, graph: Any) -> Any:
    """Cluster the graph of the views, without a tensor."""
    return _cut(clone(graph).fit(views, n_clusters=n_clusters).graph_, n_clusters, seed)


def _spectral_z(views: list[Any], n_clusters: int, seed: int, *, summed: bool) -> Any:
    """Cluster the kNN graph of the z-scored views side by side, or the sum of the graphs of each."""
    scaled = [_z_scored(view) for view in views]
    graph = sum(kneighbors_graph(points, 10) for points in (scaled if summed else [np.hstack(scaled)]))
    return _cut(graph + graph.T, n_clusters, seed)


def _cut(graph: Any, n_clusters: int, seed: int) -> Any:
    affinity = sp.csr_matrix(graph)
    return SpectralClustering(n_clusters, affinity="precomputed", random_state=seed).fit_predict(affinity)


def _front_door(views: list[Any], n_clusters: int, seed: int) -> Any:
    return tm.MultiViewClustering(n_clusters, random_state=seed).fit_predict(views)


def _single_view(views: list[Any], n_clusters: int, seed: int, *, view: int, by: str) -> Any:
    cluster = _kmeans if by == "k-means" else partial(_spectral, graph=tm.SimGraph())
    return cluster([views[view]], n_clusters, seed)


@dataclass(frozen=True)
class Baseline:
    """A clustering method without a tensor: a function of the views, the number of clusters and the seed."""

    title: str
    cluster: Callable[..., Any]
    # Whether it runs on each view, and the labels decide which view is reported.
    every_view: bool = False
    revision: int = 1


BASELINES = {
    "front-door": Baseline("MultiViewClustering", _front_door, revision=3),
    "kmeans-l2": Baseline("k-means, unit-length views side by side", _kmeans),
    "kmeans-z": Baseline("k-means, z-scored views side by side", partial(_kmeans, scale=_z_scored)),
    "spectral-sim": Baseline("spectral clustering, SimG alone", partial(_spectral, graph=tm.SimGraph())),
    "spectral-sum": Baseline("spectral clustering, SumG alone", partial(_spectral, graph=tm.SumGraph())),
    "spectral-gmc": Baseline("spectral clustering, GMC graph alone", partial(_spectral, graph=tm.GMCGraph())),
    "spectral-sim-z": Baseline("spectral clustering, z-scored views side by side", partial(_spectral_z, summed=False)),
    "spectral-sum-z": Baseline(
        "spectral clustering, summed graphs of z-scored views", partial(_spectral_z, summed=True)
    ),
    "best-view": Baseline("best single view", _single_view, every_view=True),
}
