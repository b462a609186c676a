"""Running anybody's clusterer, ours, scikit-learn's or a function, in another order or with another seed."""

from __future__ import annotations

import copy
import inspect
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags

from ..backend import is_sparse
from ..datasets._inputs import is_several
from ..datasets._shuffle import take_samples
from ..metrics import _as_labels, _codes
from ..views import collect, view_sizes_of

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Run:
    """One clustering of the samples in some order: its labels are in the order as given."""

    labels: NDArray[np.int64]
    seconds: float
    fitted: Any
    views: Any


class Clusterer:
    """A clusterer and its data, to be run in any order and with any seed.

    Parameters
    ----------
    estimator : object with fit_predict, or function of views
        It is never fitted itself: copies are.
    views : what the estimator takes
        Views are joined to one array for an estimator that is not of this package.
    sample_graph : array or sparse matrix of shape (n_samples, n_samples), optional
        Permuted with the samples.
    seed : int
        For an estimator that has no seed of its own.

    Attributes
    ----------
    name : str
        Of the class or function.
    n_samples : int
        Number of samples.
    seed : int or None
        The one that runs have if no other is asked for; None for a clusterer that takes none.
    seed_was_set : bool
        Whether the estimator came without one.
    """

    def __init__(self, estimator: Any, views: Any, sample_graph: Any, seed: int) -> None:
        self.is_function = not callable(getattr(estimator, "fit_predict", None))
        if isinstance(estimator, type) or (self.is_function and not callable(estimator)):
            raise TypeError(
                f"{estimator!r} is not a clusterer: expected an instance with fit_predict, such as "
                "KMeans(10), or a function that takes the views and returns labels"
            )
        self.estimator, self.views, self.sample_graph = estimator, views, sample_graph
        self.n_samples, _ = view_sizes_of(views)
        self.name = getattr(estimator, "__name__", None) or type(estimator).__name__
        if not self.is_function and not _is_ours(estimator):
            self.views = _joined(views)
        if sample_graph is not None and tuple(np.shape(sample_graph)) != (self.n_samples, self.n_samples):
            raise ValueError(
                f"sample_graph has shape {tuple(np.shape(sample_graph))}; "
                f"expected {(self.n_samples, self.n_samples)}, for {self.n_samples} samples"
            )
        self._given = self._given_seeds()
        self._pairwise = self._is_pairwise()
        own = next((s for s in self._given.values() if isinstance(s, int | np.integer)), None)
        self.seed = None if not self._given else seed if own is None else int(own)
        self.seed_was_set = None in self._given.values()

    def _given_seeds(self) -> dict[str, Any]:
        """Return every parameter of the clusterer that is a seed."""
        if self.is_function:
            parameter = inspect.signature(self.estimator).parameters.get("random_state")
            return {} if parameter is None else {"random_state": parameter.default}
        if not hasattr(self.estimator, "get_params"):
            return {}
        parameters = self.estimator.get_params(deep=True)
        return {p: parameters[p] for p in sorted(parameters, key=len) if p.split("__")[-1] == "random_state"}

    def run(self, order: NDArray[np.intp], seed: int | None = None) -> Run:
        """Cluster the samples in an order; with another seed if one is given."""
        moved = not np.array_equal(order, np.arange(self.n_samples))
        views = take_samples(self.views, order) if moved else self.views
        if moved and self._pairwise:
            views = views.iloc[:, order] if hasattr(views, "iloc") else views[:, order]
        keywords = {}
        if self.sample_graph is not None:
            keywords["sample_graph"] = _permuted(self.sample_graph, order) if moved else self.sample_graph
        start = time.perf_counter()
        function = self._seeded(seed)
        found = function(views, **keywords)
        seconds = time.perf_counter() - start
        labels = np.empty(self.n_samples, dtype=np.int64)
        labels[order] = _whole_numbers(found, self.n_samples, self.name)
        return Run(labels, seconds, getattr(function, "__self__", None), views)

    def _is_pairwise(self) -> bool:
        """Whether the input is a matrix of distances or similarities, whose columns are samples too."""
        if not isinstance(self.estimator, BaseEstimator):
            return False
        # Not all of scikit-learn's own clusterers have the tag.
        parameters = self.estimator.get_params(deep=False)
        precomputed = any(str(parameters.get(name)).startswith("precomputed") for name in ("metric", "affinity"))
        return precomputed or bool(get_tags(self.estimator).input_tags.pairwise)

    def _seeded(self, seed: int | None) -> Callable[..., Any]:
        """Return what is to be called with the views."""
        if self.is_function:
            if not self._given:
                return self.estimator  # type: ignore[no-any-return]
            number = self.seed if seed is None else seed
            return lambda views, **keywords: self.estimator(views, random_state=number, **keywords)
        estimator = clone(self.estimator) if hasattr(self.estimator, "get_params") else copy.deepcopy(self.estimator)
        if seed is not None:
            estimator.set_params(**dict.fromkeys(self._given, seed))
        elif self.seed_was_set:
            estimator.set_params(**{name: self.seed for name, value in self._given.items() if value is None})
        return estimator.fit_predict  # type: ignore[no-any-return]


def run_all(
    work: Callable[..., _Result],
    tasks: Sequence[tuple[Any, ...]],
    n_jobs: int | None,
    progress: Callable[[int, int], Any] | None,
) -> list[_Result]:
    """Return ``work(*task)`` of every task, in their order."""
    results: Iterator[_Result]
    if n_jobs in (None, 1):
        results = (work(*task) for task in tasks)
    else:
        parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator")
        results = parallel(joblib.delayed(work)(*task) for task in tasks)
    done = []
    for result in results:
        done.append(result)
        if progress is not None:
            progress(len(done), len(tasks))
    return done


def _is_ours(estimator: Any) -> bool:
    return any(cls.__module__.partition(".")[0] == __package__ for cls in type(estimator).__mro__)


def _joined(views: Any) -> Any:
    """Return the views side by side in one matrix; a single one stays what it is."""
    if not is_several(views) and not hasattr(views, "mod"):
        return views
    parts, _, _ = collect(views, None)
    if len(parts) == 1:
        return parts[0]
    if any(is_sparse(part) for part in parts):
        return sp.hstack([sp.csr_array(part) for part in parts], format="csr")
    return np.hstack([np.asarray(part.detach().cpu() if hasattr(part, "detach") else part) for part in parts])


def _permuted(graph: Any, order: NDArray[np.intp]) -> Any:
    """Return a graph with its samples in another order."""
    if hasattr(graph, "iloc"):
        return graph.iloc[order, order]
    graph = graph.tocsr() if is_sparse(graph) else graph if hasattr(graph, "shape") else np.asarray(graph)
    return graph[order][:, order]


def _whole_numbers(labels: Any, n_samples: int, name: str) -> NDArray[np.int64]:
    """Return labels as integers; whole numbers stay what they are, with -1 for noise."""
    array = _as_labels(labels, f"what {name} returned")
    if len(array) != n_samples:
        raise ValueError(f"{name} returned {len(array)} labels for {n_samples} samples")
    whole = array.dtype.kind in "biu" or (
        array.dtype.kind == "f" and bool(np.all(np.isfinite(array) & (array == np.trunc(array))))
    )
    return array.astype(np.int64) if whole else _codes(array, f"what {name} returned")
