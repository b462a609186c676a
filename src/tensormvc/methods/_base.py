"""What the estimators share: from views to a fitted basis, from an embedding to labels."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions, validate_parameter_constraints
from sklearn.utils.validation import validate_data

from ..backend import random_seed
from ..bases import AGFT, ViewFFT, make_basis
from ..graphs import check_sample_graph, permuted_graph
from ..rows import InMemory, Part, row_work
from ..views import Views, any_dask, as_views, distributed_views
from ._admm import Step, run_admm

# Up to this many samples the default basis is a full spectrum.
_FULL_SPECTRUM_UP_TO = 4000

POSITIVE = [Interval(Real, 0, None, closed="neither")]
NOT_NEGATIVE = [Interval(Real, 0, None, closed="left")]
COUNT = [Interval(Integral, 1, None, closed="left")]


class MultiViewClusterer(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Base class of the methods: views in, labels out, in an order that nothing depends on.

    A subclass has the parameters named in `_parameter_constraints`, and says in `_solve` how views become labels.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_clusters": COUNT,
        "view_sizes": ["array-like", None],
        "max_iter": COUNT,
        "tol": NOT_NEGATIVE,
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "callback": [callable, None],
        "keep": [StrOptions({"all"}), None],
    }

    labels_: NDArray[np.intp]

    def fit(self, views: Any, y: Any = None, *, sample_graph: Any = None) -> Self:
        """Cluster the samples.

        Parameters
        ----------
        views : list, tuple or dict of arrays (n_samples, n_features_v), MuData, or one array
            The views; `view_sizes` tells several in one array apart. Each sample is scaled to unit length in each.
            ESTMC, ASRETR and TLRLF4MVC with the basis AGFT take arrays and dataframes of Dask, too.
        y : ignored
            Present for scikit-learn's convention.
        sample_graph : array or sparse matrix of shape (n_samples, n_samples), optional
            A graph over the samples to use instead of one that is built from the views.

        Returns
        -------
        self
        """
        validate_parameter_constraints(
            self._parameter_constraints, self.get_params(deep=False), caller_name=type(self).__name__
        )
        made = self._as_views(views)
        try:
            self._fit_views(made, views, sample_graph)
        except BaseException:
            made.close(failed=True)
            raise
        made.close()
        return self

    def _fit_views(self, made: Views, views: Any, sample_graph: Any) -> None:
        n = made.n_samples
        if n == 1:
            raise ValueError(f"{type(self).__name__} needs more than 1 sample: n_samples=1")
        if self.n_clusters != "auto" and self.n_clusters > n:
            raise ValueError(f"n_clusters={self.n_clusters} is more than n_samples={n}: ask for at most {n}")
        if hasattr(views, "shape"):
            validate_data(self, views, skip_check_array=True)
        if sample_graph is not None:
            sample_graph = permuted_graph(check_sample_graph(sample_graph, n, made.sample_ids), made.order)
        labels = self._solve(made, random_seed(self.random_state), sample_graph)
        if labels is None:
            tidy_rows(made.rows)
            self.labels_ = made.given("labels")
        else:
            self.labels_ = made.to_given_order(tidy_labels(labels, made))

    @abstractmethod
    def _solve(self, views: Views, seed: int, sample_graph: Any) -> NDArray[np.intp] | None:
        """Return labels in working order, or None if the rows of the views hold them, and set what else is fitted."""

    def _as_views(self, views: Any) -> Views:
        return as_views(views, view_sizes=self.view_sizes).on_host()

    def _run(self, step: Callable[[dict[str, float]], Step], schedule: Any, *, single_precision: bool = False) -> None:
        """Run a solver to its end and keep how it went."""
        run = run_admm(
            step,
            schedule,
            max_iter=self.max_iter,
            tol=self.tol,
            single_precision=single_precision,
            callback=self.callback,
            verbose=self.verbose,
            name=type(self).__name__,
        )
        self.n_iter_: int = run.n_iter
        self.converged_: bool = run.converged
        self.history_ = run.history
        if not run.converged and run.n_iter == self.max_iter:
            warnings.warn(
                f"{type(self).__name__} did not converge in {self.max_iter} rounds (residuals "
                f"{run.history[-1].residuals}): raise max_iter, or tol={self.tol}",
                ConvergenceWarning,
                stacklevel=4,
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class TensorClusterer(MultiViewClusterer):
    """Base class of the methods that make a tensor low-rank under a basis."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiViewClusterer._parameter_constraints,
        "basis": [str, HasMethods(["fit", "forward", "inverse"])],
    }

    def _as_views(self, views: Any) -> Views:
        # A method that computes where the views are says so.
        return self._working_views(views).on_host()

    def _working_views(
        self, views: Any, *, device: Any = None, by_blocks: bool = False, on_cluster: bool = False
    ) -> Views:
        """Return the views as the basis needs them; a method that works by blocks leaves them on disk or a cluster."""
        basis = make_basis("agft" if isinstance(self.basis, str) and self.basis == "auto" else self.basis)
        if on_cluster and any_dask(views):
            if not isinstance(basis, AGFT) or device is not None:
                raise ValueError('views of Dask are worked on with basis="agft", and on the processors of its workers')
            return distributed_views(views, self.view_sizes)
        return as_views(
            views,
            view_sizes=self.view_sizes,
            # A transform that looks at the order of the samples, or of the views, gets it as it is.
            canonical=getattr(basis, "adapts_to_data", False) or isinstance(basis, ViewFFT),
            keep_view_order=isinstance(basis, ViewFFT),
            device=device,
            keep_on_disk=by_blocks and isinstance(basis, AGFT),
        )

    def _fit_basis(self, views: Views, seed: int, sample_graph: Any) -> Any:
        """Fit the basis to the views, in their working order."""
        basis = self.basis
        if isinstance(basis, str):
            if basis == "auto":
                few = views.n_samples <= _FULL_SPECTRUM_UP_TO and not views.rows.distributed
                basis = "gft-sum" if few else "agft"
            basis = make_basis(basis, n_samples=views.n_samples)
        elif hasattr(basis, "get_params"):
            basis = clone(basis)
        self.basis_ = basis.fit(views, n_clusters=self.n_clusters, random_state=seed, sample_graph=sample_graph)
        return self.basis_


def tidy_labels(labels: NDArray[Any], views: Views) -> NDArray[np.intp]:
    """Give exact duplicates one label, and number the clusters by size, equal ones by their first sample."""
    rows = InMemory(labels)
    # A copy, since numbers are changed in place.
    rows.hold(labels=np.array(labels, dtype=np.intp), keys=views.row_keys)
    tidy_rows(rows)
    return np.asarray(rows["labels"])


def tidy_rows(rows: Any) -> None:
    """Tidy the "labels" of rows in the order of their "keys"."""
    # Duplicates that go on from one stretch of rows to the next have the label of the first of them.
    corrections: dict[int, int] = {}
    last_key, last_label = -1, -1
    for first, first_key, key, label, one in rows.reduce(_ends, _listed):
        if first_key == last_key:
            corrections[first] = last_label
            label = last_label if one else label
        last_key, last_label = key, label
    rows.each(_same_label, corrections)
    count = 1 + int(rows.max(_largest_label))
    sizes, first = rows.reduce(_sizes, _add_sizes, count)
    number = np.empty(count, dtype=np.intp)
    number[np.lexsort((first, -sizes))] = np.arange(count)
    rows.each(_renumber, number)


@row_work(reads="labels keys")
def _ends(rows: Part) -> list[Any]:
    """Return number and key of the first row, key of the last, label of the first row with it, and if all have it."""
    keys = rows.keys
    start = int(np.argmax(keys == keys[-1]))
    return [(rows.first, int(keys[0]), int(keys[-1]), int(rows.labels[start]), start == 0)]


def _listed(found: Any, more: list[Any]) -> list[Any]:
    return more if found is None else [*found, *more]


@row_work(reads="keys", writes="labels")
def _same_label(rows: Part, corrections: dict[int, int]) -> None:
    keys, labels = rows.keys, rows.labels
    heads = np.concatenate([[True], keys[1:] != keys[:-1]])
    values = labels[heads]
    values[0] = corrections.get(rows.first, values[0])
    labels[...] = values[np.cumsum(heads) - 1]


@row_work(reads="labels")
def _largest_label(rows: Part) -> int:
    return int(rows.labels.max())


@row_work(reads="labels")
def _sizes(rows: Part, count: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the sizes of the clusters, and their first samples."""
    labels = rows.labels
    first = np.full(count, np.iinfo(np.intp).max)
    values, where = np.unique(labels, return_index=True)
    first[values] = where + rows.first
    return np.bincount(labels, minlength=count), first


def _add_sizes(one: Any, other: Any) -> Any:
    return other if one is None else (one[0] + other[0], np.minimum(one[1], other[1]))


@row_work(writes="labels")
def _renumber(rows: Part, number: NDArray[np.intp]) -> None:
    rows.labels[...] = number[rows.labels]
