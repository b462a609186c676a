"""Consensus clustering: combines several weighted clusterings into one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.cluster.hierarchy import ward
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.preprocessing import normalize

from ..backend.linalg import one_hot, sum_of_squares
from ..backend.threads import one_blas_thread
from ..rows import SampleRandom, kmeans

# Number of samples whose Ward tree gives k-means a start.
_TREE_SAMPLES = 600
_TREE_SAMPLES_PER_CLUSTER = 60
# With so many times more samples, a rare cluster may have none of those. Then this share of them joins that are far
# from the clusters of the tree, and a second tree gives another start.
_FEW = 8
_BADLY_PLACED = 1 / 3
_RESTARTS = 10
# Up to this number of clusters of all clusterings, all eigenpairs of the co-association take less time than some.
_DENSE_UP_TO = 1000
# Strengthens the label of a sample among shares that are equal but for rounding.
_DECISION = 1e-9


def consensus_embedding(labelings: Sequence[Any], weights: Sequence[float], n_components: int) -> NDArray[np.float64]:
    """Return the leading eigenvectors of the normalised co-association matrix of several clusterings.

    Two samples are associated by the total weight of the clusterings in which they share a cluster. This n × n matrix
    is H Hᵀ, where H has one scaled indicator column per cluster; its eigenvectors come from the small HᵀH.

    Parameters
    ----------
    labelings : sequence of arrays of int of shape (n,)
        Labels of each clustering, starting from 0.
    weights : sequence of float
        Non-negative weights of the clusterings, not all zero.
    n_components : int
        Number of eigenvectors.

    Returns
    -------
    ndarray of shape (n, n_components)
        With fewer columns if the matrix has a lower rank.
    """
    columns = [np.sqrt(weight) * one_hot(labels) for labels, weight in zip(labelings, weights, strict=True)]
    indicators = sp.hstack(columns, format="csr")
    degrees = indicators @ (indicators.T @ np.ones(len(labelings[0])))
    scaled = sp.csr_array(indicators.multiply(1 / np.sqrt(degrees)[:, None]))
    width = scaled.shape[1]
    with one_blas_thread():
        if width <= _DENSE_UP_TO or n_components >= width - 1:
            values, vectors = np.linalg.eigh((scaled.T @ scaled).toarray())
        else:
            product = LinearOperator((width, width), matvec=lambda x: scaled.T @ (scaled @ x), dtype=np.float64)
            # A start that depends on the clusters alone, and is no eigenvector.
            values, vectors = eigsh(
                product, n_components, v0=np.cos(np.arange(width)), ncv=min(width, 2 * n_components + 60)
            )
    values, vectors = values[::-1][:n_components], vectors[:, ::-1][:, :n_components]
    present = values > 1e-9
    return np.asarray(scaled @ (vectors[:, present] / np.sqrt(values[present])))


def cluster_embedding(
    embedding: NDArray[Any], n_clusters: int, random: SampleRandom, n_init: int = _RESTARTS
) -> NDArray[np.intp]:
    """Cluster the rows of an embedding by their directions, with k-means.

    One of its starts comes from the Ward tree of the first rows: with many clusters, random starts nearly always miss
    some of them. With many rows, another one comes from the tree of these and of the rows that are farthest from its
    clusters: a rare cluster may have none of the first rows.

    Parameters
    ----------
    embedding : ndarray of shape (n, d)
        In working order, of which the first rows are a random sample.
    n_clusters : int
        Number of clusters.
    random : SampleRandom
        Draws the other starts.
    n_init : int
        Number of the other starts.

    Returns
    -------
    ndarray of int of shape (n,)
    """
    if n_clusters == 1:
        return np.zeros(len(embedding), dtype=np.intp)
    directions = normalize(embedding)
    starts = []
    n_first = max(_TREE_SAMPLES, _TREE_SAMPLES_PER_CLUSTER * n_clusters)
    if n_clusters < len(first := directions[:n_first]):
        starts.append(_tree_centres(first, n_clusters))
        if len(directions) > _FEW * n_first:
            with one_blas_thread():
                nearness = np.max(directions @ starts[0].T - sum_of_squares(starts[0]) / 2, axis=1)
            far = np.argsort(nearness, kind="stable")[: int(_BADLY_PLACED * n_first)]
            starts.append(_tree_centres(np.vstack([first, directions[far]]), n_clusters))
    n_init = n_init if starts else max(n_init, 1)
    return kmeans(directions, n_clusters, n_init=n_init, random=random, centres=np.array(starts) if starts else None)[0]


def _tree_centres(points: NDArray[Any], n_clusters: int) -> NDArray[np.float64]:
    """Return the means of the clusters of the Ward tree of some points."""
    groups = ward_labels(points, n_clusters)
    return np.asarray((one_hot(groups).T @ points) / np.bincount(groups)[:, None])


def consensus_shares(
    labelings: Sequence[Any], weights: Sequence[float], labels: NDArray[np.intp], n_clusters: int
) -> NDArray[np.float64]:
    """Return by how much of the weight each sample belongs to each cluster of a consensus, (n, k); rows sum to 1.

    A clustering votes for the clusters of the consensus in proportion to how the samples of its own cluster are spread
    over them. The largest share of a sample may be that of another cluster than its own: the one that most clusterings
    put it into.

    Parameters
    ----------
    labelings : sequence of arrays of int of shape (n,)
        Labels of each clustering, starting from 0.
    weights : sequence of float
        Weights of the clusterings, which sum to 1.
    labels : ndarray of int of shape (n,)
        The consensus.
    n_clusters : int
        k, of which some clusters may be empty.
    """
    clusters = one_hot(labels, n_clusters)
    shares = np.zeros(clusters.shape)
    for other, weight in zip(labelings, weights, strict=True):
        groups = one_hot(other)
        spread = (groups.T @ clusters).toarray()
        shares += weight * (groups @ (spread / np.maximum(spread.sum(axis=1, keepdims=True), 1)))
    return shares


def smoothed(shares: NDArray[np.float64], graph: sp.csr_array) -> NDArray[np.float64]:
    """Return the mean of the shares of each sample and of those of its neighbours, (n, k); rows sum to 1.

    Near the border between two clusters, the combined clusterings disagree by chance; the mean over neighbours removes
    part of this noise.

    Parameters
    ----------
    shares : ndarray of shape (n, k)
        By how much each sample belongs to each cluster; rows sum to 1.
    graph : csr_array of shape (n, n)
        Non-negative weights of the links to the neighbours. A sample without links keeps its shares.
    """
    degrees = np.asarray(graph.sum(axis=1))[:, None]
    around = np.divide(graph @ shares, degrees, out=shares.copy(), where=degrees > 0)
    return np.asarray((shares + around) / 2)


def decided(shares: NDArray[np.float64], priority: NDArray[np.intp]) -> NDArray[np.float64]:
    """Return the shares with the largest of each row slightly raised, so that it is the largest beyond rounding.

    Ties go to the cluster that comes first in the priority, whatever the clusters are numbered.
    """
    rows = np.arange(len(shares))
    winner = priority[np.argmax(shares[:, priority], axis=1)]
    raised = shares / (1 + _DECISION)
    raised[rows, winner] += _DECISION / (1 + _DECISION)
    return raised


def ward_labels(points: NDArray[Any], n_clusters: int) -> NDArray[np.intp]:
    """Cut the Ward tree of the points into exactly `n_clusters` clusters, numbered by their first point."""
    return merged(ward(points)[: len(points) - n_clusters, :2].astype(np.intp), len(points))


def merged(merges: NDArray[np.intp], n_leaves: int) -> NDArray[np.intp]:
    """Return the clusters of the leaves of a tree after some merges, numbered by their first leaf.

    The first n − k merges form a forest of k trees. SciPy's `fcluster` gives fewer clusters where merges tie, and its
    `cut_tree` takes several times as long as the tree itself.

    Parameters
    ----------
    merges : ndarray of int of shape (n_merges, 2)
        The nodes that merge; merge j makes node ``n_leaves + j``.
    n_leaves : int
        Number of leaves.

    Returns
    -------
    ndarray of int of shape (n_leaves,)
    """
    n_nodes = n_leaves + len(merges)
    parents = np.repeat(np.arange(n_leaves, n_nodes), 2)
    forest = sp.coo_array((np.ones(2 * len(merges)), (merges.ravel(), parents)), shape=(n_nodes, n_nodes))
    return np.asarray(connected_components(forest, directed=False)[1][:n_leaves], dtype=np.intp)
