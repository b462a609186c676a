"""Where samples belong among the landmarks: one rule for all samples that are none, fitted or new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..graphs._fuzzy import Neighbours, find_neighbours
from ..methods._prediction import matching_columns
from ..views import Views, as_views
from ..views._order import unit_rows
from ._consensus import decided
from ._evidence import Evidence, neighbours_in, shares_of_views
from ._impute import Completion
from ._looks import scaled_rows
from ._map import layout, principal_plane
from ._samples import Samples, first_of_duplicates, zeros_are_values
from ._scaling import Scaling, in_form_of, refuse_extremes
from ._tree import ClusterTree, build_tree

# Landmarks that vote on the label of another sample, in each view and in all of its views together.
_VOTES = 10
# Samples that are placed at a time.
_BLOCK = 4096


@dataclass(frozen=True)
class FittedView:
    """What a model knows of a view: its name, features, scaling, weight, and the landmarks' values in it."""

    name: str
    feature_names: NDArray[np.str_] | None
    categories: Mapping[str, Sequence[str]]
    scaling: Scaling
    weight: float
    values: Any


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

    @property
    def parts(self) -> list[Any]:
        """The scaled landmarks."""
        return self.evidence.parts

    @cached_property
    def tree(self) -> ClusterTree:
        """Coarser and finer clusterings of the landmarks."""
        return build_tree(self.evidence, self.shares, self.first_of_duplicates)

    @cached_property
    def graph(self) -> sp.csr_array:
        """The graph of all views over the landmarks, with weights up to 1."""
        return self.evidence.graph("sum", self.evidence.sizes[-1])

    @cached_property
    def map(self) -> NDArray[np.float64]:
        """The landmarks on a map."""
        graph = self.evidence.graph("joint", self.evidence.sizes[-1])
        return layout(graph, principal_plane(self.evidence.joint_parts))

    @cached_property
    def completion(self) -> Completion:
        """Completes single gaps of new samples from the landmarks."""
        return Completion.of([view.values for view in self.views], self.missing)

    @cached_property
    def first_of_duplicates(self) -> NDArray[np.intp]:
        """For each landmark, the first one with the same values."""
        return first_of_duplicates(self.hashes)

    @cached_property
    def _known(self) -> dict[bytes, int]:
        """The landmarks by the hashes of their rows; exact duplicates are the same landmark."""
        keys = [row.tobytes() for row in self.hashes]
        return dict(zip(reversed(keys), range(len(keys) - 1, -1, -1), strict=True))

    @cached_property
    def _reach(self) -> NDArray[np.float64]:
        """Distance from each landmark to the last of its nearest landmarks in each view, (n_landmarks, m)."""
        reach = np.zeros(self.missing.shape)
        for v, lists in enumerate(self.evidence.neighbours):
            rows = np.flatnonzero(~self.missing[:, v])
            reach[rows, v] = _reach(lists.nearest(min(_VOTES, lists.n_candidates - 1)))
        return reach

    @cached_property
    def outlier_scores(self) -> NDArray[np.float64]:
        """How much farther the nearest landmarks of each landmark are than theirs, (n_landmarks,)."""
        scores = np.zeros(len(self.missing))
        for v, lists in enumerate(self.evidence.neighbours):
            rows = np.flatnonzero(~self.missing[:, v])
            nearest = lists.nearest(min(_VOTES, lists.n_candidates - 1)).graph()
            scores[rows] += self.evidence.sample_weights[rows, v] * _ratio(
                self._reach[rows, v], nearest, self._reach[rows, v]
            )
        return scores

    def place(self, samples: Samples) -> tuple[sp.csr_array, NDArray[np.float64]]:
        """Return how much each landmark counts for each sample, (n, n_landmarks), and the outlier scores, (n,).

        Rows sum to 1. A landmark counts for itself alone, and a sample without any value for nothing.
        """
        known = np.array([self._known.get(row.tobytes(), -1) for row in samples.hashes], dtype=np.intp)
        found = np.flatnonzero(known >= 0)
        others = np.flatnonzero((known < 0) & ~samples.missing.all(axis=1))
        shape = len(samples), len(self.missing)
        links = sp.csr_array((np.ones(len(found)), (found, known[found])), shape=shape)
        scores = np.zeros(len(samples))
        scores[found] = self.outlier_scores[known[found]]
        blocks = [self._placed(samples[others[rows]]) for rows in _blocks(len(others))]
        if blocks:
            entries = sp.vstack([placed for placed, _ in blocks]).tocoo()
            row, column = entries.coords
            links = sp.csr_array(links + sp.csr_array((entries.data, (others[row], column)), shape=shape))
            scores[others] = np.concatenate([block_scores for _, block_scores in blocks])
        return links, scores

    def _placed(self, samples: Samples) -> tuple[sp.csr_array, NDArray[np.float64]]:
        """Place samples that are no landmarks: half of the links are by view, half in all their views together."""
        completed = self.completion.completed(samples.arrays, samples.missing)
        arrays = [in_form_of(view.values, array) for view, array in zip(self.views, completed, strict=True)]
        rows = [np.flatnonzero(~missing) for missing in samples.missing.T]
        parts = [
            scaled_rows(view.scaling, array, own, one_by_one=True)
            for view, array, own in zip(self.views, arrays, rows, strict=True)
        ]
        shares = shares_of_views(self.evidence.weights, samples.missing)
        total = sp.csr_array((len(samples), len(self.missing)))
        scores = np.zeros(len(samples))
        for v, (part, own) in enumerate(zip(parts, rows, strict=True)):
            links, reach = self._nearest([part], [v], own)
            total = total + links.multiply(shares[:, v, None])
            scores += shares[:, v] * _ratio(reach, links, self._reach[:, v])
        patterns, pattern_of = np.unique(samples.missing, axis=0, return_inverse=True)
        joint = sp.csr_array(total.shape)
        for number, pattern in enumerate(patterns):
            views = np.flatnonzero(~pattern)
            if len(views) > 1:
                joint = joint + self._nearest(parts, views, np.flatnonzero(pattern_of.ravel() == number))[0]
        several = np.asarray(joint.sum(axis=1)).ravel() > 0
        return sp.csr_array(total.multiply(np.where(several, 0.5, 1.0)[:, None]) + 0.5 * joint), scores

    def _nearest(
        self, parts: list[Any], views: Any, rows: NDArray[np.intp]
    ) -> tuple[sp.csr_array, NDArray[np.float64]]:
        """Return the nearest landmarks of some samples in the given views, and the distances to the last of them.

        All landmarks of a sample together count 1, a nearer one more than a farther one.
        """
        n = parts[0].shape[0]
        reach = np.zeros(n)
        candidates = np.flatnonzero(~self.missing[:, views].any(axis=1))
        if not len(rows) or not len(candidates):
            return sp.csr_array((n, len(self.missing))), reach
        own, landmarks = [parts[0]], [self.parts[views[0]]]
        if len(views) > 1:
            roots = np.sqrt(self.evidence.weights)
            own, landmarks = [parts[v] * roots[v] for v in views], [self.evidence.joint_parts[v] for v in views]
        every = len(candidates) == len(self.missing)
        others = landmarks if every else [part[candidates] for part in landmarks]
        lists = find_neighbours([part[rows] for part in own], min(_VOTES, len(candidates)), others, exact=True)
        counts = np.diff(lists.starts)
        entries = _votes(lists), (np.repeat(rows, counts), candidates[lists.indices])
        reach[rows] = _reach(lists)
        return sp.csr_array(entries, shape=(n, len(self.missing))), reach

    def memberships(self, links: sp.csr_array) -> NDArray[np.float64]:
        """Return by how much samples with these links belong to each cluster; rows sum to 1."""
        shares = np.asarray(links @ self.shares)
        empty = np.diff(links.indptr) == 0
        shares[empty] = 1 / shares.shape[1]
        own = links.max(axis=1).toarray().ravel() == 1  # a landmark, whose shares are decided
        raised = decided(shares, self.priority)
        raised[own] = shares[own]
        raised[empty] = shares[empty]
        return raised

    def votes(
        self, links: sp.csr_array, labels: NDArray[np.intp]
    ) -> tuple[dict[str, dict[int, float]], list[tuple[int, float]]]:
        """Return the clusters of the nearest landmarks of a sample, by view, and these landmarks with their distances.

        A landmark is not counted among its own neighbours. Of another sample only the links in all its views are known.
        """
        if links.nnz != 1:
            order = np.lexsort((links.indices, -links.data))
            shares = np.bincount(labels[links.indices], links.data) if links.nnz else np.zeros(0)
            pairs = [(int(links.indices[j]), float("nan")) for j in order]
            total = {cluster: float(share) / shares.sum() for cluster, share in enumerate(shares) if share}
            return {"all views": total}, pairs
        landmark, found, nearest = int(links.indices[0]), {}, []
        for v, lists in enumerate(self.evidence.neighbours):
            if not self.missing[landmark, v]:
                rows = np.flatnonzero(~self.missing[:, v])
                own = lists.nearest(min(_VOTES, lists.n_candidates - 1))
                at = slice(*own.starts[np.searchsorted(rows, landmark) :][:2])
                counts = np.bincount(labels[rows[own.indices[at]]])
                found[self.views[v].name] = {c: float(x / counts.sum()) for c, x in enumerate(counts) if x}
        joint = self.evidence.joint_neighbours.nearest(min(_VOTES, len(self.missing) - 1))
        at = slice(*joint.starts[landmark : landmark + 2])
        nearest = list(zip(joint.indices[at].tolist(), np.sqrt(joint.squares[at]).tolist(), strict=True))
        return found, nearest

    def samples_of(self, views: Any, view_sizes: Sequence[int] | None) -> tuple[Samples, NDArray[Any] | None]:
        """Return new samples of any form in the order of the fitted views, and their ids where they have some."""
        names = [view.name for view in self.views]
        given = [names[self.view_order.index(v)] for v in range(len(names))]
        if isinstance(views, Sequence) and not isinstance(views, str) and any(part is None for part in views):
            if len(views) != len(given):
                raise ValueError(
                    f"{len(views)} views were passed to a model of {len(given)} views: pass None for the "
                    "views that the samples lack"
                )
            views = {name: part for name, part in zip(given, views, strict=True) if part is not None}
        elif isinstance(views, list | tuple) and len(views) == len(given) and hasattr(views[0], "shape"):
            views = dict(zip(given, views, strict=True))
        categories = {view.name: view.categories for view in self.views if view.categories}
        taken = as_views(
            views,
            view_sizes=view_sizes,
            canonical=False,
            keep_view_order=True,
            unit=False,
            lenient=True,
            categories=categories,
        ).on_host()
        refuse_extremes(taken.arrays, taken.names, tiny=False)
        if unknown := [name for name in taken.names if name not in names]:
            raise ValueError(f"the model has no view {unknown[0]!r}; its views are {', '.join(given)}")
        arrays, missing = [], np.ones((taken.n_samples, len(names)), dtype=bool)
        for v, view in enumerate(self.views):
            width = view.values.shape[1]
            if view.name not in taken.names:
                arrays.append(np.zeros((taken.n_samples, width)))
                continue
            position = taken.names.index(view.name)
            columns = matching_columns(
                taken.feature_names[position], view.feature_names, taken.widths[position], width, view.name
            )
            arrays.append(taken.arrays[position][:, columns])
            missing[:, v] = taken.missing[:, position]
        return Samples.of(arrays, missing, [zeros_are_values(view.values) for view in self.views]), taken.sample_ids


def strongest(links: sp.csr_array, count: int) -> sp.csr_array:
    """Return the strongest links of each sample, the first of equal ones."""
    rows = np.repeat(np.arange(links.shape[0]), np.diff(links.indptr))
    order = np.lexsort((links.indices, -links.data, rows))
    place = np.arange(len(rows)) - np.repeat(links.indptr[:-1], np.diff(links.indptr))
    kept = np.sort(order[place < count])
    entries = links.data[kept], (rows[kept], links.indices[kept])
    return sp.csr_array(entries, shape=links.shape)


def _votes(lists: Neighbours) -> NDArray[np.float64]:
    """Return how much each neighbour counts: less, the farther beyond the nearest it is; each list sums to 1."""
    counts = np.diff(lists.starts)
    samples = np.repeat(np.arange(len(counts)), counts)
    distances = np.sqrt(lists.squares)
    beyond = distances - distances[lists.starts[:-1]][samples]
    mean = np.bincount(samples, beyond) / counts
    votes = np.exp(-np.divide(beyond, mean[samples], out=np.zeros_like(beyond), where=mean[samples] > 0))
    return np.asarray(votes / np.bincount(samples, votes)[samples])


def _blocks(n_rows: int) -> list[slice]:
    return [slice(start, start + _BLOCK) for start in range(0, n_rows, _BLOCK)]


def _reach(lists: Neighbours) -> NDArray[np.float64]:
    """Return the distance from each sample to the last of its neighbours, 0 without any."""
    last = np.maximum(lists.starts[1:] - 1, 0)
    return np.asarray(np.where(np.diff(lists.starts) > 0, np.sqrt(lists.squares[last]), 0))


def _ratio(reach: NDArray[np.float64], links: sp.csr_array, others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the reach of samples relative to the mean reach of the landmarks they are linked to; 1 if both are 0."""
    totals = np.maximum(np.asarray(links.sum(axis=1)).ravel(), np.finfo(np.float64).tiny)
    mean = links @ others / totals
    return np.asarray(np.divide(reach, mean, out=np.where(reach > 0, 2.0, 1.0), where=mean > 0))
