"""Running any clusterer, an estimator or a function, with another order of the rows or another seed."""

import copy
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import joblib
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags

from ..backend.arrays import is_sparse
from ..datasets._inputs import is_several
from ..datasets._shuffle import take_samples
from ..methods._base import MultiViewClusterer
from ..metrics import as_labels, label_codes
from ..views import collect, view_sizes_of

_Result = TypeVar("_Result")


class Clusterer:
    """A clusterer and its data, to be run in any order and with any seed.

    Parameters
    ----------
    estimator : object with fit_predict, or function of views
        Only copies of it are fitted.
    views : what the estimator takes
        Concatenated into one matrix for an estimator of another package.
    sample_graph : array or sparse matrix of shape (n_samples, n_samples), optional
        Permuted with the samples.
    seed : int
        For an estimator that has no seed of its own.

    Attributes
    ----------
    name : str
        Name of the class or function.
    n_samples : int
        Number of samples.
    seed : int or None
        Default seed of the runs; None for a clusterer without a seed.
    seed_was_set : bool
        Whether the estimator had ``random_state=None``.
    """

    def __init__(self, estimator: Any, views: Any, sample_graph: Any, seed: int) -> None:
        self.is_function = not callable(getattr(estimator, "fit_predict", None))
        if isinstance(estimator, type) or (self.is_function and not callable(estimator)):
            raise TypeError(
                f"{estimator!r} is not a clusterer: pass an instance with fit_predict, such as KMeans(10), or a "
                "function that takes the views and returns labels"
            )
        self.estimator, self.views, self.sample_graph = estimator, views, sample_graph
        self.n_samples, _ = view_sizes_of(views, lenient=True)
        parts = views.values() if isinstance(views, Mapping) else views if is_several(views) else ()
        if any(getattr(part, "shape", (self.n_samples,))[0] != self.n_samples for part in parts):
            raise ValueError(
                "the tables list different samples, whose rows cannot be permuted together: reindex all of them on the "
                "same samples first"
            )
        self.name = getattr(estimator, "__name__", None) or type(estimator).__name__
        if not self.is_function and not is_ours(estimator):
            self.views = _concatenated(views)
        expected = (self.n_samples, self.n_samples)
        if sample_graph is not None and tuple(np.shape(sample_graph)) != expected:
            raise ValueError(f"sample_graph has shape {tuple(np.shape(sample_graph))}; expected {expected}")
        self._seeds = self._seed_parameters()
        self._pairwise = self._is_pairwise()
        own = next((s for s in self._seeds.values() if isinstance(s, int | np.integer)), None)
        self.seed = None if not self._seeds else seed if own is None else int(own)
        self.seed_was_set = None in self._seeds.values()

    def _seed_parameters(self) -> dict[str, Any]:
        """Return the values of all parameters that are seeds, those of nested estimators included."""
        if self.is_function:
            parameter = inspect.signature(self.estimator).parameters.get("random_state")
            return {} if parameter is None else {"random_state": parameter.default}
        if not hasattr(self.estimator, "get_params"):
            return {}
        parameters = self.estimator.get_params(deep=True)
        return {p: parameters[p] for p in sorted(parameters, key=len) if p.split("__")[-1] == "random_state"}

    def _is_pairwise(self) -> bool:
        """Whether the input is a matrix of distances or similarities, whose columns are samples too."""
        if not isinstance(self.estimator, BaseEstimator):
            return False
        # Some of scikit-learn's own clusterers lack the tag.
        parameters = self.estimator.get_params(deep=False)
        precomputed = any(str(parameters.get(name)).startswith("precomputed") for name in ("metric", "affinity"))
        return precomputed or bool(get_tags(self.estimator).input_tags.pairwise)

    def run(self, order: NDArray[np.intp], seed: int | None = None) -> tuple[NDArray[np.int64], float, Any]:
        """Cluster the samples in an order, with the default seed or another one.

        Returns the labels, with the samples in the order given, the duration, and the fitted estimator (None for a
        function).
        """
        moved = not np.array_equal(order, np.arange(self.n_samples))
        views = take_samples(self.views, order) if moved else self.views
        if moved and self._pairwise:
            views = views.iloc[:, order] if hasattr(views, "iloc") else views[:, order]
        keywords = {}
        if self.sample_graph is not None:
            keywords["sample_graph"] = _permuted(self.sample_graph, order) if moved else self.sample_graph
        start = time.perf_counter()
        function = self._seeded(seed)
        returned = function(views, **keywords)
        seconds = time.perf_counter() - start
        labels = np.empty(self.n_samples, dtype=np.int64)
        labels[order] = _whole_numbers(returned, self.n_samples, self.name)
        return labels, seconds, getattr(function, "__self__", None)

    def _seeded(self, seed: int | None) -> Callable[..., Any]:
        """Return the function of the views that clusters them with a seed."""
        if self.is_function:
            if not self._seeds:
                return self.estimator  # type: ignore[no-any-return]
            number = self.seed if seed is None else seed
            return lambda views, **keywords: self.estimator(views, random_state=number, **keywords)
        estimator = clone(self.estimator) if hasattr(self.estimator, "get_params") else copy.deepcopy(self.estimator)
        if seed is not None:
            estimator.set_params(**dict.fromkeys(self._seeds, seed))
        elif self.seed_was_set:
            estimator.set_params(**{name: self.seed for name, value in self._seeds.items() if value is None})
        return estimator.fit_predict  # type: ignore[no-any-return]


def run_all(
    work: Callable[..., _Result],
    tasks: Sequence[tuple[Any, ...]],
    n_jobs: int | None,
    progress: Callable[[int, int], Any] | None,
) -> list[_Result]:
    """Return ``work(*task)`` for every task, in their order."""
    parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator")
    done: list[_Result] = []
    for result in parallel(joblib.delayed(work)(*task) for task in tasks):
        done.append(result)
        if progress is not None:
            progress(len(done), len(tasks))
    return done


def is_ours(estimator: Any) -> bool:
    """Whether the estimator takes several views, as those of this package do."""
    return isinstance(estimator, MultiViewClusterer)


def _concatenated(views: Any) -> Any:
    """Return the views side by side in one matrix; a single one as it is."""
    if not is_several(views) and not (hasattr(views, "mod") and hasattr(views, "obs_names")):
        return views
    parts = collect(views, None).parts
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
    """Return labels as integers; whole numbers keep their values, so that -1 remains noise."""
    array = as_labels(labels, f"the result of {name}")
    if len(array) != n_samples:
        raise ValueError(f"{name} returned {len(array)} labels for {n_samples} samples")
    whole = array.dtype.kind in "biu" or (
        array.dtype.kind == "f" and bool(np.all(np.isfinite(array) & (array == np.trunc(array))))
    )
    return array.astype(np.int64) if whole else label_codes(array, f"the result of {name}")
