"""Where samples belong among the landmarks: one rule for all samples that are none, fitted or new."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..backend.threads import cached_property
from ..graphs._distances import tie_margin
from ..graphs._fuzzy import Neighbours
from ..views._order import keys_of
from ._consensus import decided
from ._evidence import shares_of_views
from ._impute import Completion, has_gaps
from ._looks import scaled_rows
from ._samples import Samples
from ._scaling import Scaling, in_form_of
from ._search import LandmarkView, nearest_landmarks

# The least and the most landmarks that vote on the label of another sample, in each view and in all views together.
_FEWEST_VOTES, _MOST_VOTES = 5, 10
# Nearest landmarks that are kept of every sample, for maps, graphs and finer clusters.
KEPT_LINKS = 5
# Samples that are placed at a time.
_BLOCK = 4096


@dataclass(frozen=True)
class Placement:
    """The landmarks, as far as other samples are compared with them.

    Attributes
    ----------
    values : list of arrays (n_landmarks, d_v)
        The landmarks, unscaled and without gaps.
    missing : ndarray of bool of shape (n_landmarks, m)
        Which landmarks lack which view.
    hashes : ndarray of int64 of shape (n_landmarks, m)
        Of the landmarks' rows as they were given.
    scalings : list of Scaling
        The scaling of each view.
    weights : ndarray of shape (m,)
        Weights of the views.
    parts : list of arrays (n_landmarks, q_v)
        The landmarks, scaled.
    reach : ndarray of shape (n_landmarks, m)
        Distance from each landmark to the last of its nearest landmarks in each view.
    scores : ndarray of shape (n_landmarks,)
        Outlier scores of the landmarks.
    view_shares : ndarray of shape (n_landmarks, m)
        How much each view counts for each landmark.
    shares : ndarray of shape (n_landmarks, k)
        By how much each landmark belongs to each cluster.
    priority : ndarray of int of shape (k,)
        The order in which clusters win ties.
    embedding : ndarray of shape (n_landmarks, q)
        Coordinates of the landmarks.
    """

    values: list[Any]
    missing: NDArray[np.bool_]
    hashes: NDArray[np.int64]
    scalings: list[Scaling]
    weights: NDArray[np.float64]
    parts: list[Any]
    reach: NDArray[np.float64]
    scores: NDArray[np.float64]
    view_shares: NDArray[np.float64]
    shares: NDArray[np.float64]
    priority: NDArray[np.intp]
    embedding: NDArray[np.float64]

    @cached_property
    def completion(self) -> Completion:
        """Completes single gaps of new samples from the landmarks."""
        return Completion.of(self.values, self.missing)

    @cached_property
    def _searched(self) -> list[LandmarkView]:
        """The landmarks in each view, as searches need them."""
        return [LandmarkView(part, lacking) for part, lacking in zip(self.parts, self.missing.T, strict=True)]

    @cached_property
    def _sorted_keys(self) -> tuple[NDArray[np.uint64], NDArray[np.intp]]:
        """The keys of the landmarks in ascending order, and the landmarks in this order."""
        keys = _keys(self.hashes)
        order = np.argsort(keys, kind="stable")
        return keys[order], order

    def landmarks_among(self, samples: Samples) -> NDArray[np.intp]:
        """Return which landmark each sample is, the first one of exact duplicates, or -1."""
        keys, order = self._sorted_keys
        nearest = order[np.minimum(np.searchsorted(keys, _keys(samples.hashes)), len(keys) - 1)]
        return np.where((self.hashes[nearest] == samples.hashes).all(axis=1), nearest, -1)

    def everything_about(self, samples: Samples) -> dict[str, Any]:
        """Return what a fit states about samples, by the name of the attribute without its underscore."""
        links, scores = self.place(samples)
        membership = self.memberships(links)
        weights = shares_of_views(self.weights, samples.missing)
        known = self.landmarks_among(samples)
        weights[known >= 0] = self.view_shares[known[known >= 0]]
        return {
            "labels": np.argmax(membership, axis=1),
            "confidence": confidence(membership),
            "outlier_score": scores,
            "membership": membership,
            "embedding": np.asarray(links @ self.embedding),
            "sample_view_weights": weights,
            "links": strongest(links),
        }

    def place(self, samples: Samples) -> tuple[sp.csr_array, NDArray[np.float64]]:
        """Return how much each landmark counts for each sample, (n, n_landmarks), and the outlier scores, (n,).

        Rows sum to 1. A landmark counts for itself alone, and a sample without any value for nothing.
        """
        known = self.landmarks_among(samples)
        found = np.flatnonzero(known >= 0)
        others = np.flatnonzero((known < 0) & ~samples.missing.all(axis=1))
        shape = len(samples), len(self.missing)
        links = sp.csr_array((np.ones(len(found)), (found, known[found])), shape=shape)
        scores = np.zeros(len(samples))
        scores[found] = self.scores[known[found]]
        blocks = [self._placed(samples[others[rows]]) for rows in self._blocks(len(others))]
        if blocks:
            entries = sp.vstack([placed for placed, _ in blocks]).tocoo()
            row, column = entries.coords
            links = sp.csr_array(links + sp.csr_array((entries.data, (others[row], column)), shape=shape))
            scores[others] = np.concatenate([block_scores for _, block_scores in blocks])
        return links, scores

    @staticmethod
    def _blocks(n_rows: int) -> list[slice]:
        return [slice(start, start + _BLOCK) for start in range(0, n_rows, _BLOCK)]

    def _placed(self, samples: Samples) -> tuple[sp.csr_array, NDArray[np.float64]]:
        """Place samples that are no landmarks: half of the links are by view, half in all their views together."""
        samples = samples.on_host()
        arrays = samples.arrays
        if any(map(has_gaps, arrays)):
            arrays = self.completion.completed(arrays, samples.missing)
        arrays = [in_form_of(values, array) for values, array in zip(self.values, arrays, strict=True)]
        rows = [np.flatnonzero(~missing) for missing in samples.missing.T]
        parts = [
            scaled_rows(scaling, array, own, one_by_one=True)
            for scaling, array, own in zip(self.scalings, arrays, rows, strict=True)
        ]
        shares, count = shares_of_views(self.weights, samples.missing), n_votes(*self.shares.shape)
        links, scores = [], np.zeros(len(samples))
        patterns, pattern_of = np.unique(samples.missing, axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            own, views = np.flatnonzero(pattern_of.ravel() == number), np.flatnonzero(~pattern)
            lists = nearest_landmarks(
                [parts[v][own] for v in views], [self._searched[v] for v in views], self.weights[views], count
            )
            together = len(views) > 1 and len(lists[-1].indices) > 0
            for v, neighbours in zip(views, lists, strict=False):
                votes = _votes(neighbours, self.reach[:, v])
                links.append(_links(neighbours, votes * _spread(shares[own, v] / (1 + together), neighbours), own))
                scores[own] += shares[own, v] * _ratios(neighbours, votes, self.reach[:, v])
            if together:
                links.append(_links(lists[-1], _votes(lists[-1], self.reach_in(views)) / 2, own))
        row, column, values = (np.concatenate(entries) for entries in zip(*links, strict=True))
        return sp.csr_array((values, (row, column)), shape=(len(samples), len(self.missing))), scores

    def reach_in(self, views: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the reach of the landmarks in several views together: the root of the weighted sum of squares."""
        return np.asarray(np.sqrt(np.sum(self.weights[views] * np.square(self.reach[:, views]), axis=1)))

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


def n_votes(n_landmarks: int, n_clusters: int) -> int:
    """Return how many landmarks vote: half as many as a cluster has on average, within bounds."""
    return min(max(n_landmarks // (2 * n_clusters), _FEWEST_VOTES), _MOST_VOTES)


def strongest(links: sp.csr_array, count: int = KEPT_LINKS) -> sp.csr_array:
    """Return the strongest links of each sample, the first of equal ones."""
    if not links.has_sorted_indices:
        links = links.sorted_indices()
    lengths = np.diff(links.indptr)
    place = np.arange(lengths.max(initial=0)) < lengths[:, None]
    weights = np.zeros(place.shape)
    weights[place] = -links.data
    # Row by row, in threads of ours: NumPy sorts all entries by several keys in one thread at a time.
    first = np.sort(np.argsort(weights, axis=1, kind="stable")[:, :count], axis=1)
    present = first < lengths[:, None]
    kept = (links.indptr[:-1, None] + first)[present]
    starts = np.concatenate([[0], np.cumsum(present.sum(axis=1))])
    return sp.csr_array((links.data[kept], links.indices[kept], starts), shape=links.shape)


def confidence(membership: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return by how much the largest share of each sample exceeds its second largest."""
    if membership.shape[1] == 1:
        return np.ones(len(membership))
    ordered = np.partition(membership, -2, axis=1)
    return np.minimum(ordered[:, -1] - ordered[:, -2], 1)  # the sum of a row may exceed 1 by rounding


_Entries = tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]


def _spread(values: NDArray[np.float64], lists: Neighbours) -> NDArray[np.float64]:
    """Return the value of each sample for each of its neighbours."""
    return np.repeat(values, np.diff(lists.starts))


def _links(lists: Neighbours, votes: NDArray[np.float64], rows: NDArray[np.intp]) -> _Entries:
    """Return the entries of a matrix of links from samples, which are these rows, to their neighbours."""
    return np.repeat(rows, np.diff(lists.starts)), lists.indices, votes


def _votes(lists: Neighbours, reach: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how much each neighbour counts: less, the farther beyond the nearest it is; each list sums to 1.

    Distances are relative to the reach of both ends, so that samples in dense and sparse regions are treated alike.
    """
    counts = np.diff(lists.starts)
    samples = np.repeat(np.arange(len(counts)), counts)
    distances = _quotient(np.sqrt(lists.squares), _spread(reach_of(lists), lists) + reach[lists.indices])
    beyond = distances - _spread(np.minimum.reduceat(distances, lists.starts[:-1]), lists)
    votes = np.exp(-_quotient(beyond, _spread(np.bincount(samples, beyond) / counts, lists)))
    return np.asarray(votes / np.bincount(samples, votes)[samples])


def _quotient(values: NDArray[np.float64], scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values relative to a scale; 0 where that is 0."""
    return np.divide(values, scale, out=np.zeros_like(values), where=scale > 0)


def _ratios(lists: Neighbours, votes: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the reach of samples relative to the mean reach of their neighbours, by votes."""
    samples = np.repeat(np.arange(len(lists.starts) - 1), np.diff(lists.starts))
    return relative(reach_of(lists), np.bincount(samples, votes * others[lists.indices]))


def reach_of(lists: Neighbours) -> NDArray[np.float64]:
    """Return the distance from each sample to the last of its neighbours, 0 without any."""
    squares = lists.squares[np.maximum(lists.starts[1:] - 1, 0)]
    # Equal samples have no distance, although products may round.
    apart = (np.diff(lists.starts) > 0) & (squares > tie_margin(0.0, lists.scale))
    return np.asarray(np.where(apart, np.sqrt(squares), 0))


def relative(reach: NDArray[np.float64], mean: NDArray[Any]) -> NDArray[np.float64]:
    """Return the reach of samples relative to a mean; 1 if both are 0."""
    return np.asarray(np.divide(reach, mean, out=np.where(reach > 0, 2.0, 1.0), where=mean > 0))


def _keys(hashes: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return one key per row of hashes, in which the views have different parts."""
    return keys_of(list(hashes.T), [np.array([v], dtype=np.int64) for v in range(hashes.shape[1])])
