"""What all estimators share: from any input to `Views`, from labels in working order to `labels_`."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions, validate_parameter_constraints
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from ..backend.arrays import Array, on_host
from ..backend.checks import random_seed, warn_caller
from ..bases import AGFT, ViewFFT, basis_class, make_basis
from ..graphs import check_sample_graph, permuted_graph
from ..rows import InMemory, RowArrays, Rows, SampleRandom, kmeans_of_rows, row_work
from ..views import Views, any_dask, as_views, distributed_views
from ._admm import Schedule, Step, run_admm
from ._prediction import AnchorPlacement

# Up to this many samples the default basis is a full spectrum.
_FULL_SPECTRUM_UP_TO = 4000
# Parameters that control how a fit runs, not its result.
SILENT_PARAMETERS = frozenset({"callback", "keep", "progress", "verbose", "view_sizes"})
# Starts of k-means on the embedding.
_RESTARTS = 10

POSITIVE = [Interval(Real, 0, None, closed="neither")]
NOT_NEGATIVE = [Interval(Real, 0, None, closed="left")]
COUNT = [Interval(Integral, 1, None, closed="left")]


def _can_predict(clusterer: Any) -> bool:
    """Return True for a clusterer that places new samples; otherwise raise an error that names one."""
    if clusterer._has_anchors():
        return True
    basis = f" with basis={clusterer.basis!r}" if hasattr(clusterer, "basis") else ""
    raise AttributeError(
        f"{type(clusterer).__name__}{basis} places no new samples: use MultiViewClustering, or ESTMC, ASRETR or "
        'TLRLF4MVC with basis="agft"'
    )


class MultiViewClusterer(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Base class of all estimators: views in, labels out, whatever the order of the rows.

    A subclass declares its parameters in `_parameter_constraints` and computes labels in `_solve`.
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

    # Defaults for parameters that a subclass may omit.
    view_sizes: Sequence[int] | None = None
    random_state: Any = None
    verbose: int = 0
    callback: Callable[..., Any] | None = None
    keep: str | None = None
    # Whether `max_iter` is a parameter of the model, so that reaching it is no reason to warn.
    stops_early: ClassVar[bool] = False

    labels_: NDArray[np.intp]
    _placement: AnchorPlacement | None = None

    def fit(self, views: Any, y: Any = None, *, sample_graph: Any = None) -> Self:
        """Cluster the samples.

        Parameters
        ----------
        views : list, tuple or dict of arrays (n_samples, n_features_v), MuData, or one array
            The views; `view_sizes` splits one array into several views. Each sample is scaled to unit length in each
            view. ESTMC, ASRETR and TLRLF4MVC with the basis AGFT accept Dask arrays and dataframes, too.
        y : ignored
            Present for scikit-learn's convention.
        sample_graph : array or sparse matrix of shape (n_samples, n_samples), optional
            A graph over the samples to use instead of one built from the views.

        Returns
        -------
        self
        """
        validate_parameter_constraints(
            self._parameter_constraints, self.get_params(deep=False), caller_name=type(self).__name__
        )
        working_views = self._views_of(views)
        try:
            self._fit_views(working_views, views, sample_graph)
        except BaseException:
            if working_views is not views:
                working_views.close(failed=True)
            raise
        if working_views is not views:
            working_views.close()
        return self

    def _fit_views(self, views: Views, views_as_given: Any, sample_graph: Any) -> None:
        n = views.n_samples
        if n == 1:
            raise ValueError(f"{type(self).__name__} needs more than 1 sample: n_samples=1")
        if self.n_clusters != "auto" and self.n_clusters > n:
            raise ValueError(f"n_clusters={self.n_clusters} is more than n_samples={n}: ask for at most {n}")
        if hasattr(views_as_given, "shape"):
            validate_data(self, views_as_given, skip_check_array=True)
        else:
            for name in ("n_features_in_", "feature_names_in_"):
                self.__dict__.pop(name, None)  # of an earlier fit
        if sample_graph is not None:
            sample_graph = permuted_graph(check_sample_graph(sample_graph, n, views.sample_ids), views.order)
        self._solve(views, random_seed(self.random_state), sample_graph)
        self._set_labels(views)

    def _set_labels(self, views: Views) -> None:
        """Set the labels that the rows hold, in the order of the input and numbered by size."""
        rows = views.rows
        if isinstance(rows, InMemory):
            rows.hold(labels=np.array(on_host(rows["labels"]), dtype=np.intp))
        tidy_labels(rows)
        self.labels_ = views.rows_as_given("labels")
        rows.drop("labels")

    @available_if(_can_predict)  # type: ignore[untyped-decorator]
    def predict(self, views: Any) -> NDArray[np.intp]:
        """Return the clusters of new samples, by the clusters of the anchors near to them.

        Available for ESTMC, ASRETR and TLRLF4MVC with the basis AGFT. Samples that the model was fitted to are
        recognised and keep their label. For any other sample, the nearest anchors vote with the weights of the anchor
        graph, each for the clusters of the fitted samples that are linked to it. The result for a sample depends on its
        values alone, not on the other samples.

        Parameters
        ----------
        views : list, tuple or dict of arrays (n_samples, n_features_v), MuData, or one array
            The samples, with the views of the fit: in the same order, or by name. Features are matched by name where
            they have names. A sample that is NaN in the whole row of a view is compared with the anchors in its other
            views.

        Returns
        -------
        ndarray of int of shape (n_samples,)
            Clusters, numbered as in ``labels_``.
        """
        check_is_fitted(self, "labels_")
        if self._placement is None:
            raise ValueError(
                "a model fitted to Dask arrays places no new samples, because its labels stay on the cluster: fit it "
                "to samples in memory or on disk"
            )
        self._check_width(views)
        return self._placement.predict(views, self.view_sizes)

    def _check_width(self, views: Any) -> None:
        """Refuse a single array of new samples with another number of features, in scikit-learn's words."""
        if getattr(views, "ndim", 0) == 2 and not hasattr(views, "columns"):
            validate_data(self, views, reset=False, skip_check_array=True)

    def _has_anchors(self) -> bool:
        """Whether new samples can be placed among anchors."""
        return False

    @abstractmethod
    def _solve(self, views: Views, seed: int, sample_graph: Any) -> None:
        """Add "labels" to the rows of the views, in working order, and set the other fitted attributes."""

    def _views_of(self, views: Any) -> Views:
        """Return the views in working order, in the memory or on the device where they are processed."""
        return as_views(views, view_sizes=self.view_sizes).on_host()

    def _run(
        self, step: Callable[[dict[str, float]], Step], schedule: Schedule, *, single_precision: bool = False
    ) -> None:
        """Run iterations until convergence and keep their history."""
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
        if not run.converged and run.n_iter == self.max_iter and not self.stops_early:
            warn_caller(
                f"{type(self).__name__} did not converge in {self.max_iter} iterations (residuals "
                f"{run.history[-1].residuals}): raise max_iter, or tol={self.tol}",
                ConvergenceWarning,
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class TensorClusterer(MultiViewClusterer):
    """Base class of the methods that make a tensor low-rank under a basis.

    Attributes
    ----------
    works_on_rows : bool
        Whether the method sees the samples only through `Rows`, so that with anchors (AGFT) they may stay on disk or on
        a cluster.
    """

    works_on_rows: ClassVar[bool] = False
    device: Any = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **MultiViewClusterer._parameter_constraints,
        "basis": [str, HasMethods(["fit", "forward", "inverse"])],
        "device": "no_validation",
    }

    def _views_of(self, views: Any) -> Views:
        basis = AGFT if isinstance(self.basis, str) and self.basis == "auto" else basis_class(self.basis)
        by_anchors = self.works_on_rows and issubclass(basis, AGFT)
        if self.works_on_rows and any_dask(views):
            if not by_anchors or self.device is not None:
                raise ValueError('Dask views are processed by the Dask workers: set basis="agft" and device=None')
            return distributed_views(views, self.view_sizes)
        along_views = issubclass(basis, ViewFFT)
        return as_views(
            views,
            view_sizes=self.view_sizes,
            # A transform that depends on the order of the samples, or of the views, gets the order given.
            canonical=getattr(basis, "adapts_to_data", False) or along_views,
            keep_view_order=along_views,
            device=self.device,
            keep_on_disk=by_anchors,
        )

    def _has_anchors(self) -> bool:
        basis = getattr(self, "basis_", self.basis)
        return self.works_on_rows and (isinstance(basis, AGFT) or (isinstance(basis, str) and basis == "agft"))

    def _fit_views(self, views: Views, views_as_given: Any, sample_graph: Any) -> None:
        super()._fit_views(views, views_as_given, sample_graph)
        self._placement = None
        if self._has_anchors() and isinstance(views.rows, InMemory):
            self._placement = AnchorPlacement.of(views, self.basis_, views.to_working_order(self.labels_))

    def _fit_basis(self, views: Views, seed: int, sample_graph: Any) -> Any:
        """Fit the basis to the views, in their working order."""
        basis = self.basis
        if isinstance(basis, str):
            if basis == "auto":
                small = views.n_samples <= _FULL_SPECTRUM_UP_TO and isinstance(views.rows, InMemory)
                basis = "gft-sum" if small else "agft"
            basis = make_basis(basis, n_samples=views.n_samples)
        elif hasattr(basis, "get_params"):
            basis = clone(basis)
        self.basis_ = basis.fit(views, n_clusters=self.n_clusters, random_state=seed, sample_graph=sample_graph)
        return self.basis_

    def _cluster_points(self, views: Views, seed: int) -> None:
        """Cluster the "points" of the rows by k-means, and keep them as the embedding."""
        self.embedding_ = views.rows_as_given("points")
        kmeans_of_rows(views.rows, self.n_clusters, n_init=_RESTARTS, random=SampleRandom(views, seed))


# Sizes of clusters, and their first samples.
_Sizes = tuple[NDArray[np.intp], NDArray[np.intp]]


@dataclass
class LabelRows(RowArrays):
    """Labels, and the keys of the samples in working order, which are equal for exact duplicates."""

    labels: Array
    keys: Array


@dataclass(frozen=True)
class _Stretch:
    """What a stretch of rows tells its neighbours: its first row, first and last key, and a label."""

    first: int
    first_key: int
    last_key: int
    label: int  # of the first row with the last key
    one_key: bool


def tidy_labels(rows: Rows) -> None:
    """Give exact duplicates one label, and number the clusters by size, equal ones by their first sample."""
    # Duplicates that continue from one stretch of rows to the next have the label of the first of them.
    corrections: dict[int, int] = {}
    last_key, last_label = -1, -1
    for stretch in rows.reduce(_stretches, list.__add__):
        label = stretch.label
        if stretch.first_key == last_key:
            corrections[stretch.first] = last_label
            label = last_label if stretch.one_key else label
        last_key, last_label = stretch.last_key, label
    rows.each(_share_label, corrections)
    count = 1 + rows.max(_largest_label)
    sizes, first = rows.reduce(_sizes, _add_sizes, count)
    number = np.empty(count, dtype=np.intp)
    number[np.lexsort((first, -sizes))] = np.arange(count)
    rows.each(_renumber, number)


@row_work(reads="labels keys")
def _stretches(rows: LabelRows) -> list[_Stretch]:
    keys = rows.keys
    start = int(np.argmax(keys == keys[-1]))
    return [_Stretch(rows.first, int(keys[0]), int(keys[-1]), int(rows.labels[start]), start == 0)]


@row_work(reads="keys", writes="labels")
def _share_label(rows: LabelRows, corrections: dict[int, int]) -> None:
    keys, labels = rows.keys, rows.labels
    heads = np.concatenate([[True], keys[1:] != keys[:-1]])
    values = labels[heads]
    values[0] = corrections.get(rows.first, values[0])
    labels[...] = values[np.cumsum(heads) - 1]


@row_work(reads="labels")
def _largest_label(rows: LabelRows) -> int:
    return int(rows.labels.max())


@row_work(reads="labels")
def _sizes(rows: LabelRows, count: int) -> _Sizes:
    """Return the sizes of the clusters, and their first samples."""
    first = np.full(count, np.iinfo(np.intp).max)
    values, where = np.unique(rows.labels, return_index=True)
    first[values] = where + rows.first
    return np.bincount(rows.labels, minlength=count), first


def _add_sizes(one: _Sizes, other: _Sizes) -> _Sizes:
    return one[0] + other[0], np.minimum(one[1], other[1])


@row_work(writes="labels")
def _renumber(rows: LabelRows, number: NDArray[np.intp]) -> None:
    rows.labels[...] = number[rows.labels]
