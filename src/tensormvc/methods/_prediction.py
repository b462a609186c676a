"""Prediction for methods with anchors: new samples get the cluster of their nearest anchors.

A fitted sample is recognised by the hash of its values, and keeps its label. The anchors of any other sample vote on
its cluster, with the weights of the anchor graph: an anchor stands for the labels of the fitted samples linked to it.
Samples are placed one by one, so that the result for a sample depends on its values alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..backend.arrays import in_double, is_sparse
from ..bases import AGFT
from ..graphs._fuzzy import find_neighbours
from ..views import Views, as_views
from ..views._order import keys_of, row_hashes, unit_rows

# Number of values processed at a time.
_BLOCK = 2**22


@dataclass(frozen=True)
class AnchorPlacement:
    """What `predict` needs of a fit, 16 bytes per sample and the anchors; views are in working order.

    Attributes
    ----------
    names : tuple of str
        Names of the views.
    feature_names : tuple of arrays of str, or None
        Names of the features of each view, where the input had some.
    view_order : tuple of int
        View v is view ``view_order[v]`` as given.
    contents : list of arrays of int64 of shape (1,)
        Hashes of the views, with which the keys of samples are made.
    keys : ndarray of uint64 of shape (n_samples,)
        Hashes of the fitted samples, ascending.
    labels : ndarray of int of shape (n_samples,)
        Their labels.
    anchors : list of arrays of shape (n_anchors, n_features_v)
        The anchors that fitted samples are linked to.
    votes : ndarray of shape (n_anchors, n_clusters)
        Shares of the clusters in the links of each anchor; rows sum to 1.
    n_neighbors : int
        Anchors that a sample is linked to.
    """

    names: tuple[str, ...]
    feature_names: tuple[NDArray[np.str_] | None, ...]
    view_order: tuple[int, ...]
    contents: list[NDArray[np.int64]]
    keys: NDArray[np.uint64]
    labels: NDArray[np.intp]
    anchors: list[NDArray[np.float64]]
    votes: NDArray[np.float64]
    n_neighbors: int

    @staticmethod
    def of(views: Views, basis: AGFT, labels: NDArray[np.intp]) -> AnchorPlacement:
        """Return the placement among the anchors of a basis that was fitted to the views; labels in working order."""
        members = sp.csr_array((np.ones(len(labels)), labels, np.arange(len(labels) + 1)))
        votes = (basis.anchor_graph_.T @ members).toarray()
        linked = votes.any(axis=1)
        order = np.argsort(views.row_keys, kind="stable")
        return AnchorPlacement(
            names=views.names,
            feature_names=views.feature_names,
            view_order=views.view_order,
            contents=list(views.contents),
            keys=views.row_keys[order],
            labels=labels[order],
            anchors=[basis.anchors_[v][linked] for v in views.view_order],
            votes=votes[linked] / votes[linked].sum(axis=1, keepdims=True),
            n_neighbors=basis.n_neighbors,
        )

    def predict(self, views: Any, view_sizes: Sequence[int] | None) -> NDArray[np.intp]:
        """Return the clusters of samples of any form that `fit` takes."""
        given = [self.names[self.view_order.index(v)] for v in range(len(self.names))]
        if isinstance(views, list | tuple) and len(views) == len(given) and hasattr(views[0], "shape"):
            views = dict(zip(given, views, strict=True))
        taken = as_views(
            views, view_sizes=view_sizes, canonical=False, keep_view_order=True, unit=False, keep_on_disk=True
        ).on_host()
        if sorted(taken.names) != sorted(given):
            raise ValueError(f"the views are {', '.join(taken.names)}; the model was fitted with {', '.join(given)}")
        at = [taken.names.index(name) for name in self.names]
        columns = [
            matching_columns(taken.feature_names[v], names, taken.widths[v], part.shape[1], taken.names[v])
            for v, names, part in zip(at, self.feature_names, self.anchors, strict=True)
        ]
        labels = np.empty(taken.n_samples, dtype=np.intp)
        step = max(1, _BLOCK // sum(taken.widths))
        for start in range(0, taken.n_samples, step):
            rows = slice(start, start + step)
            parts = [taken.arrays[v][rows][:, own] for v, own in zip(at, columns, strict=True)]
            labels[rows] = self._predict(parts, taken.missing[rows][:, at])
        return labels

    def _predict(self, parts: list[Any], missing: NDArray[np.bool_]) -> NDArray[np.intp]:
        keys = keys_of([row_hashes(part) for part in parts], self.contents)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        known = (self.keys[place] == keys) & ~missing.any(axis=1)
        labels = np.where(known, self.labels[place], 0)
        patterns, pattern_of = np.unique(missing, axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            rows = np.flatnonzero((pattern_of.ravel() == number) & ~known)
            if len(rows):
                present = np.flatnonzero(~pattern)
                samples = [in_double(unit_rows(parts[v][rows], None)) for v in present]
                labels[rows] = self._voted(
                    np.hstack([part.toarray() if is_sparse(part) else part for part in samples]),
                    np.hstack([self.anchors[v] for v in present]),
                )
        return labels

    def _voted(self, samples: NDArray[np.float64], anchors: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the clusters that the anchors vote for; an anchor counts by how much nearer it is than the last."""
        lists = find_neighbours([samples], min(self.n_neighbors + 1, len(anchors)), [anchors], exact=True)
        counts = np.diff(lists.starts)
        gaps = np.repeat(lists.squares[lists.starts[1:] - 1], counts) - lists.squares
        equally_far = np.repeat(np.maximum.reduceat(gaps, lists.starts[:-1]) == 0, counts)
        return np.asarray(np.argmax(lists.graph(np.where(equally_far, 1, gaps)) @ self.votes, axis=1))


def matching_columns(
    names: NDArray[np.str_] | None, fitted: NDArray[np.str_] | None, width: int, fitted_width: int, view: str
) -> list[int] | slice:
    """Return where the fitted features are among the features of new samples: by name where both have names."""
    if names is None or fitted is None or np.array_equal(names, fitted):
        if width != fitted_width:
            raise ValueError(f"{view} has {width} features; the model was fitted with {fitted_width}")
        return slice(None)
    wanted, given = Counter(fitted.tolist()), Counter(names.tolist())
    if lacking := [name for name in wanted if name not in given]:
        raise ValueError(f"{view} lacks {len(lacking)} of the fitted features, such as {lacking[0]!r}")
    if repeated := [name for name in wanted if wanted[name] > 1 or given[name] > 1]:
        raise ValueError(
            f"{view} has several features called {repeated[0]!r}, and its features are not in the order of the fit, so "
            "that names cannot tell them apart: pass them in the order of the fit, or fit with different names"
        )
    positions = {name: position for position, name in enumerate(names.tolist())}
    return [positions[name] for name in wanted]
