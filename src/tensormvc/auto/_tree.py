"""Nested clusterings: which clusters merge into coarser ones, and how they split into finer ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.cluster.hierarchy import average, ward
from scipy.spatial.distance import squareform
from sklearn.preprocessing import normalize

from ..backend.arrays import is_sparse
from ..backend.linalg import one_hot
from ..graphs._distances import DistanceBlocks
from ._consensus import merged
from ._evidence import FUSIONS, Evidence
from ._spectrum import low_frequencies

# Clusters are split into up to this many more, or twice as many if that is less.
_MORE_CLUSTERS = 30
_FEWEST_MORE = 10
_LEAST_CLUSTER_SIZE = 5
# Samples of a cluster whose Ward tree splits it; the others join the nearest part.
_TREE_SAMPLES = 1500
# Steps of the random walk that says how deep inside its side of a split a sample is.
_DIFFUSION_STEPS = 10
# Weight of the distances between centres beside the shares of common samples when clusters merge.
_WEIGHT_OF_CENTRES = 0.01


@dataclass(frozen=True)
class ClusterTree:
    """Nested clusterings around the final one: clusters merge above it, and split below it.

    Attributes
    ----------
    n_clusters : int
        Number of clusters of the final level.
    most : int
        Number of clusters of the finest level, whose clusters are the leaves.
    merges : ndarray of int of shape (most − 1, 2)
        Nodes that merge, finest first. Leaves are numbered from 0, and merge j makes node ``most + j``, so that the
        first ``most − k`` merges give k clusters.
    stability : ndarray of shape (most − 1,)
        For each merge, how distinct its two nodes are: max(0, 1 − across/inside), the smaller one of two graphs. Across
        is the weight of the links between the two nodes. Inside is the weight of the widest cut through one node,
        parallel to the split, in the node where it is smaller: samples are ordered by where a random walk that starts
        at them is after ten lazy steps, and cut at any position. The stability is 1 if no link runs between the nodes,
        and 0 if the gap between them is no sparser than the nodes, as in a cluster without parts.
    leaf_labels : ndarray of int of shape (most,)
        The final cluster of each leaf.
    leaves : ndarray of int of shape (n_landmarks,)
        The leaf of each landmark.
    """

    n_clusters: int
    most: int
    merges: NDArray[np.intp]
    stability: NDArray[np.float64]
    leaf_labels: NDArray[np.intp]
    leaves: NDArray[np.intp]

    def groups_at(self, k: int) -> NDArray[np.intp]:
        """Return the cluster of each leaf at the level of k clusters."""
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= self.most:
            raise ValueError(f"k={k!r}: this fit has levels from 1 to {self.most} clusters")
        if k == self.n_clusters:
            return self.leaf_labels
        return merged(self.merges[: self.most - k], self.most)

    def to_frame(self) -> Any:
        """Return one row per level: the number of clusters, and the stability of the split that leads to it."""
        from ..backend.frames import data_frame

        levels = np.arange(2, self.most + 1)
        return data_frame({"n_clusters": levels, "stability": self.stability[::-1]})

    def plot(self, ax: Any = None) -> Any:
        """Draw the tree, see `tensormvc.plotting.plot_tree`."""
        from ..plotting import plot_tree

        return plot_tree(self, ax=ax)


def build_tree(evidence: Evidence, shares: NDArray[np.float64], same: NDArray[np.intp]) -> ClusterTree:
    """Return the nested clusterings of the landmarks, given by how much they belong to each final cluster.

    Clusters split along the low frequencies of the graph of all views, where the split separates most (Ward), and merge
    by how many samples belong to both (average linkage of the shares), clear ones by how close their centres are. Exact
    duplicates, of which `same` tells the first, are never split.
    """
    labels = np.argmax(shares, axis=1)
    n, k = shares.shape
    most = max(k, min(k + max(_FEWEST_MORE, min(k, _MORE_CLUSTERS)), n // _LEAST_CLUSTER_SIZE))
    graphs = [evidence.graph(kind) for kind in FUSIONS]
    points = normalize(low_frequencies(graphs[0], most, evidence.device)[1])[same]
    leaves, leaf_labels, below = _split(points, labels, k, most)
    most = len(leaf_labels)
    merges = np.concatenate([below, _merge(shares, _centre_distances(evidence, labels, k), leaf_labels, below)])
    return ClusterTree(k, most, merges, _stability(graphs, leaves, merges, most), leaf_labels, leaves)


def _split(
    points: NDArray[np.float64], labels: NDArray[np.intp], k: int, most: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return the leaf of each sample, the cluster of each leaf, and the merges of leaves into the clusters."""
    members = [np.flatnonzero(labels == cluster) for cluster in range(k)]
    trees = [ward(points[rows[:_TREE_SAMPLES]]) if len(rows) > 1 else np.zeros((0, 4)) for rows in members]
    heights = np.concatenate([tree[:, 2] for tree in trees])
    cluster_of = np.repeat(np.arange(k), [len(tree) for tree in trees])
    highest = np.argsort(-heights, kind="stable")[: min(most - k, np.count_nonzero(heights))]
    n_parts = 1 + np.bincount(cluster_of[highest], minlength=k)
    leaves = np.zeros(len(labels), dtype=np.intp)
    merges: list[tuple[float, int, int]] = []
    first = 0
    for rows, tree, count in zip(members, trees, n_parts.tolist(), strict=True):
        if len(rows):
            leaves[rows] = first + _parts(points[rows], tree, count)
            merges += _upper_merges(tree, points[rows[:_TREE_SAMPLES]], count, first)
        first += count
    leaf_labels = np.repeat(np.arange(k), n_parts)
    return leaves, leaf_labels, _numbered(merges, len(leaf_labels))


def _parts(points: NDArray[Any], tree: NDArray[Any], count: int) -> NDArray[np.intp]:
    """Return the parts that a tree of the first points is cut into; the others join the nearest one."""
    n_tree = len(tree) + 1
    parts = merged(tree[: n_tree - count, :2].astype(np.intp), n_tree)
    if n_tree < len(points):
        centres = (one_hot(parts, count).T @ points[:n_tree]) / np.bincount(parts, minlength=count)[:, None]
        others = points[n_tree:]
        distances = np.square(centres).sum(axis=1) - 2 * others @ centres.T
        parts = np.concatenate([parts, np.argmin(distances, axis=1)])
    return parts


def _upper_merges(tree: Any, points: Any, count: int, first: int) -> list[tuple[float, int, int]]:
    """Return the merges above a cut as (height, leaf, leaf): each names one leaf of both sides."""
    n = len(points)
    parts = merged(tree[: n - count, :2].astype(np.intp), n)
    representative = list(range(n))
    for left, _right, *_ in tree[:, :4]:
        representative.append(representative[int(left)])
    upper = tree[n - count :]
    leaf_of = [first + int(parts[point]) for point in representative]
    return [(float(height), leaf_of[int(left)], leaf_of[int(right)]) for left, right, height, _ in upper]


def _numbered(merges: list[tuple[float, int, int]], most: int) -> NDArray[np.intp]:
    """Return merges of the nodes that hold the named leaves, lowest first."""
    node = list(range(most))
    rows = []
    for made, (_, one, other) in enumerate(sorted(merges), start=most):
        left, right = node[one], node[other]
        rows.append((left, right))
        node = [made if owner in (left, right) else owner for owner in node]
    return np.array(rows, dtype=np.intp).reshape(-1, 2)


def _centre_distances(evidence: Evidence, labels: NDArray[np.intp], k: int) -> NDArray[np.float64]:
    """Return squared distances between the centres of clusters in the views that both have, relative to the largest."""
    clusters = one_hot(labels, k)
    counts = clusters.T @ (~evidence.views.missing).astype(np.float64)
    sums = [clusters.T @ part for part in evidence.joint_parts]
    centres = [
        np.asarray(total.toarray() if is_sparse(total) else total) / np.maximum(count, 1)[:, None]
        for total, count in zip(sums, counts.T, strict=True)
    ]
    squares = np.asarray(DistanceBlocks(centres, missing=counts == 0).block(0, k))
    largest = squares[np.isfinite(squares)].max()
    return np.asarray(np.minimum(squares / largest, 1) if largest > 0 else np.zeros((k, k)))


def _merge(
    shares: NDArray[np.float64], apart: NDArray[np.float64], leaf_labels: NDArray[np.intp], below: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Return the merges of the final clusters by average linkage of how much samples belong to both.

    Where hardly any do, the distances between the centres decide.
    """
    most, k = len(leaf_labels), shares.shape[1]
    if k == 1:
        return np.zeros((0, 2), dtype=np.intp)
    common = shares.T @ shares
    sizes = np.maximum(np.sqrt(np.outer(np.diag(common), np.diag(common))), np.finfo(np.float64).tiny)
    distances = 1 - common / sizes + _WEIGHT_OF_CENTRES * apart
    np.fill_diagonal(distances, 0)
    tree = average(squareform(np.maximum((distances + distances.T) / 2, 0), checks=False))
    groups = np.arange(most)
    for made, (left, right) in enumerate(below.tolist(), start=most):
        groups = np.where(np.isin(groups, (left, right)), made, groups)
    node = [int(groups[np.argmax(leaf_labels == cluster)]) for cluster in range(k)]
    node += list(range(most + len(below), most + len(below) + k - 1))
    return np.array([(node[int(left)], node[int(right)]) for left, right, *_ in tree], dtype=np.intp)


def _stability(
    graphs: list[sp.csr_array], leaves: NDArray[np.intp], merges: NDArray[np.intp], most: int
) -> NDArray[np.float64]:
    nodes = [[leaf] for leaf in range(most)]
    for left, right in merges.tolist():
        nodes.append(nodes[left] + nodes[right])
    # In the order of the tree, the samples of every node are consecutive.
    place = np.argsort(nodes[-1])
    order = np.argsort(place[leaves], kind="stable")
    ends = [0, *np.cumsum(np.bincount(place[leaves], minlength=most)).tolist()]
    spans = [(ends[place[node[0]]], ends[place[node[-1]] + 1]) for node in nodes]
    graphs = [graph[order][:, order] for graph in graphs]
    stability = np.zeros(len(merges))
    for j, (left, right) in enumerate(merges.tolist()):
        (first, middle), (_, last) = spans[left], spans[right]
        stability[j] = min(_separation(graph[first:last, first:last], middle - first) for graph in graphs)
    return stability


def _separation(links: sp.csr_array, n_left: int) -> float:
    """Return 1 − across/inside of a split of samples into the first ones and the others, see `ClusterTree`."""
    degrees = np.maximum(np.asarray(links.sum(axis=1)).ravel(), np.finfo(np.float64).tiny)
    position = (np.arange(links.shape[0]) >= n_left).astype(np.float64)
    for _ in range(_DIFFUSION_STEPS):
        position = (position + links @ position / degrees) / 2
    sides = slice(0, n_left), slice(n_left, None)
    across = links[sides].sum()
    inside = min(_widest_cut(links[side, side], position[side]) for side in sides)
    return max(0.0, 1 - across / inside) if inside > 0 else 0.0


def _widest_cut(links: sp.csr_array, position: NDArray[np.float64]) -> float:
    """Return the largest weight of the links between samples up to a position and those beyond it."""
    entries, rank = links.tocoo(), np.argsort(np.argsort(position, kind="stable"))
    one, other = (rank[ends] for ends in entries.coords)
    changes = np.bincount(one, entries.data * np.sign(other - one), minlength=len(position))
    return float(np.cumsum(changes).max(initial=0))
