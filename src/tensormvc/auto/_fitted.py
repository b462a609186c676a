"""What a fit found: the landmarks with their values, scalings and shares of the clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..backend.arrays import is_sparse
from ..graphs._fuzzy import Neighbours
from ..methods._prediction import matching_columns
from ..views import Views, as_views
from ..views._check import row_sizes
from ..views._order import unit_rows
from ._evidence import Evidence, neighbours_in
from ._looks import scaled_rows
from ._map import layout, principal_plane
from ._on_device import placement_on
from ._placement import Placement, n_votes, reach_of, relative
from ._samples import SampleRows, first_of_duplicates, zeros_are_values
from ._scaling import Scaling, refuse_sizes
from ._tree import ClusterTree, build_tree


@dataclass(frozen=True)
class FittedView:
    """What a model knows of a view: its name, features, scaling, weight, and the landmarks' values in it.

    `gaps` says which of the values were missing, and completed; None if there are none.
    """

    name: str
    feature_names: NDArray[np.str_] | None
    categories: Mapping[str, Sequence[str]]
    scaling: Scaling
    weight: float
    values: Any
    gaps: sp.csr_array | None = None

    @property
    def known_values(self) -> Any:
        """The landmarks' values, NaN where they were completed."""
        if self.gaps is None:
            return self.values
        entries = np.full(self.gaps.nnz, np.nan)
        return self.values + sp.csr_array((entries, self.gaps.indices, self.gaps.indptr), shape=self.gaps.shape)

    @property
    def columns(self) -> list[str] | None:
        """Names of the columns of a table that the features come from, where these have names."""
        if self.feature_names is None:
            return None
        n_encoded = sum(len(values) for values in self.categories.values())
        return [*self.feature_names[: len(self.feature_names) - n_encoded].tolist(), *self.categories]


@dataclass(frozen=True)
class FittedClustering:
    """Everything that a fit found, as a function of the landmarks alone.

    Attributes
    ----------
    views : list of FittedView
        The views in working order.
    view_order : tuple of int
        View v in working order is view ``view_order[v]`` as given.
    missing : ndarray of bool of shape (n_landmarks, m)
        Which landmarks lack which view.
    hashes : ndarray of int64 of shape (n_landmarks, m)
        Of the landmarks' rows as they were given.
    shares : ndarray of shape (n_landmarks, k)
        By how much each landmark belongs to each cluster.
    priority : ndarray of int of shape (k,)
        The order in which clusters win ties.
    embedding : ndarray of shape (n_landmarks, q)
        Coordinates of the landmarks.
    related : bool
        Whether views agree on neighbours beyond chance.
    """

    views: list[FittedView]
    view_order: tuple[int, ...]
    missing: NDArray[np.bool_]
    hashes: NDArray[np.int64]
    shares: NDArray[np.float64]
    priority: NDArray[np.intp]
    embedding: NDArray[np.float64]
    related: bool

    @cached_property
    def evidence(self) -> Evidence:
        """The scaled landmarks and their graphs."""
        values, scalings = [view.values for view in self.views], [view.scaling for view in self.views]
        views = Views(
            arrays=tuple(unit_rows(array, None) for array in values),
            order=np.arange(len(self.missing)),
            view_order=tuple(range(len(values))),
            row_keys=np.zeros(len(self.missing), dtype=np.uint64),
            missing=self.missing,
            sample_ids=None,
            names=tuple(view.name for view in self.views),
            as_given=(None,) * len(values),
        )
        rows = [np.flatnonzero(~missing) for missing in self.missing.T]
        parts = [scaled_rows(scaling, array, own) for scaling, array, own in zip(scalings, values, rows, strict=True)]
        weights = np.array([view.weight for view in self.views])
        return Evidence("", views, scalings, parts, neighbours_in(parts, self.missing), weights, [], self.related)

    def remember(self, evidence: Evidence) -> None:
        """Keep the evidence that the fit has computed already."""
        vars(self)["evidence"] = evidence

    @cached_property
    def tree(self) -> ClusterTree:
        """Coarser and finer clusterings of the landmarks."""
        return build_tree(self.evidence, self.shares, self.first_of_duplicates)

    @cached_property
    def graph(self) -> sp.csr_array:
        """The graph of all views over the landmarks, with weights up to 1."""
        return self.evidence.graph("sum")

    @cached_property
    def map(self) -> NDArray[np.float64]:
        """The landmarks on a map."""
        graph = self.evidence.graph("joint")
        return layout(graph, principal_plane(self.evidence.joint_parts))

    @cached_property
    def first_of_duplicates(self) -> NDArray[np.intp]:
        """For each landmark, the first one with the same values."""
        return first_of_duplicates(self.hashes, self.missing)

    @cached_property
    def placement(self) -> Placement:
        """Places other samples among the landmarks."""
        evidence, lists = self.evidence, [self._voters(lists) for lists in self.evidence.neighbours]
        reach, scores = np.zeros(self.missing.shape), np.zeros(len(self.missing))
        for v, nearest in enumerate(lists):
            rows = np.flatnonzero(~self.missing[:, v])
            reach[rows, v] = reach_of(nearest)
            mean = nearest.graph() @ reach[rows, v] / np.maximum(np.diff(nearest.starts), 1)
            scores[rows] += evidence.sample_weights[rows, v] * relative(reach[rows, v], mean)
        return Placement(
            values=[view.values for view in self.views],
            missing=self.missing,
            hashes=self.hashes,
            scalings=evidence.scalings,
            weights=evidence.weights,
            parts=evidence.parts,
            reach=reach,
            scores=scores,
            view_shares=evidence.sample_weights,
            shares=self.shares,
            priority=self.priority,
            embedding=self.embedding,
        )

    def placement_on(self, device: Any) -> Placement:
        """Return what places samples on a device; on the host if that is None, or if landmarks are sparse."""
        on_host = device is None or any(map(is_sparse, self.placement.parts))
        return self.placement if on_host else placement_on(self.placement, device)

    def renumbered(self, number: NDArray[np.intp]) -> FittedClustering:
        """Return the same clustering with cluster ``number[i]`` as cluster i."""
        other = replace(self, shares=self.shares[:, number], priority=np.argsort(number)[self.priority])
        other.remember(self.evidence)
        return other

    def votes(
        self, links: sp.csr_array, labels: NDArray[np.intp]
    ) -> tuple[dict[str, dict[int, float]], list[tuple[int, float | None]]]:
        """Return the clusters of the nearest landmarks of a sample, by view, and these landmarks with their distances.

        A landmark, or a sample that equals one, is not counted among its own neighbours. Of another sample only the
        links in all its views are known, without distances.
        """
        if links.nnz != 1 or links.data[0] < 1:
            order = np.lexsort((links.indices, -links.data))
            shares = np.bincount(labels[links.indices], links.data) if links.nnz else np.zeros(0)
            pairs: list[tuple[int, float | None]] = [(int(links.indices[j]), None) for j in order]
            total = {cluster: float(share) / shares.sum() for cluster, share in enumerate(shares) if share}
            return {"all views": total}, pairs
        landmark, found, nearest = int(links.indices[0]), {}, []
        for v, lists in enumerate(self.evidence.neighbours):
            if not self.missing[landmark, v]:
                rows = np.flatnonzero(~self.missing[:, v])
                own = self._voters(lists)
                at = slice(*own.starts[np.searchsorted(rows, landmark) :][:2])
                counts = np.bincount(labels[rows[own.indices[at]]])
                found[self.views[v].name] = {c: float(x / counts.sum()) for c, x in enumerate(counts) if x}
        joint = self._voters(self.evidence.joint_neighbours)
        at = slice(*joint.starts[landmark : landmark + 2])
        nearest = list(zip(joint.indices[at].tolist(), np.sqrt(joint.squares[at]).tolist(), strict=True))
        return found, nearest

    def _voters(self, lists: Neighbours) -> Neighbours:
        """Return as many of the nearest neighbours as vote on the label of a new sample."""
        return lists.nearest(min(n_votes(*self.shares.shape), lists.n_candidates - 1))

    def samples_of(self, views: Any, view_sizes: Sequence[int] | None) -> tuple[SampleRows, Any]:
        """Return new samples of any form in the order of the fitted views, and the device they come from, or None."""
        taken = as_views(
            self.by_name(views),
            view_sizes=view_sizes if _is_array(views) else None,
            canonical=False,
            keep_view_order=True,
            unit=False,
            keep_on_disk=True,
            lenient=True,
            categories={view.name: view.categories for view in self.views if view.categories},
        )
        refuse_sizes(taken.sizes.max(axis=0), taken.names, tiny=False)
        positions = self.positions_of(taken.names)
        missing = np.ones((taken.n_samples, len(self.views)), dtype=bool)
        arrays: list[Any] = [None] * len(self.views)
        for v, position in positions.items():
            array = taken.arrays[position]
            columns = same_features(array.shape[1], taken.feature_names[position], self.views[v])
            arrays[v] = array if columns is None else array[:, columns]
            missing[:, v] = taken.missing[:, position]
        widths = [view.values.shape[1] for view in self.views]
        return SampleRows(arrays, widths, missing, self.zeros_count), taken.device

    @cached_property
    def zeros_count(self) -> list[bool]:
        """In which views a row of zeros is a sample like any other."""
        return [zeros_are_values(view.values.shape[1], row_sizes(view.values).max()) for view in self.views]

    def by_name(self, views: Any) -> Any:
        """Return views by name where their positions tell which of the fitted views they are."""
        given = self.names_as_given
        listed = isinstance(views, list | tuple) and not _is_array(views)
        lacking = listed and any(part is None for part in views)
        if listed and len(views) != len(given):
            raise ValueError(
                f"{len(views)} views were passed to a model of {len(given)} views: pass None for the "
                "views that the samples lack"
            )
        if lacking or (listed and hasattr(views[0], "shape")):
            views = dict(zip(given, views, strict=True))
        if not isinstance(views, dict):
            return views
        fitted = {view.name: view for view in self.views}
        return {
            name: part if name not in fitted else fitted_columns(part, fitted[name])
            for name, part in views.items()
            if part is not None
        }

    @property
    def names_as_given(self) -> list[str]:
        """The names of the views in the order in which the fit got them."""
        return [self.views[self.view_order.index(v)].name for v in range(len(self.views))]

    def positions_of(self, names: Sequence[str]) -> dict[int, int]:
        """Return the position of each fitted view among the views with these names."""
        known = [view.name for view in self.views]
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"the model has no view {unknown[0]!r}; its views are {', '.join(self.names_as_given)}")
        return {known.index(name): position for position, name in enumerate(names)}


def _is_array(views: Any) -> bool:
    """Whether this is one array, perhaps as a list of rows, and no list of views."""
    return hasattr(views, "shape") or (isinstance(views, list | tuple) and _is_row(next(iter(views), None)))


def _is_row(part: Any) -> bool:
    """Whether this is a row of one array, such as the first of [[1, 2], [3, 4]], and no view."""
    return isinstance(part, list | tuple) and all(np.ndim(value) == 0 for value in part if value is not None)


def fitted_columns(part: Any, view: FittedView) -> Any:
    """Return the columns of a DataFrame that the view was fitted to; any other view, or one that lacks some, as is."""
    if view.columns is None or not (hasattr(part, "iloc") and hasattr(part, "columns")):
        return part
    columns = [str(column) for column in part.columns]
    known = all(columns.count(column) == 1 for column in view.columns)
    return part.iloc[:, [columns.index(column) for column in view.columns]] if known else part


def same_features(width: int, names: NDArray[np.str_] | None, view: FittedView) -> NDArray[np.intp] | None:
    """Return which columns are the fitted features, matched by name where names exist; None if all are, in order."""
    columns = matching_columns(names, view.feature_names, width, view.values.shape[1], view.name)
    return None if isinstance(columns, slice) else np.array(columns)
