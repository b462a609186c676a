"""One clustering of many: samples that most of them put together stay together."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.cluster.hierarchy import cut_tree, ward

from ..backend import one_hot
from ..rows import SampleRandom, kmeans

# Samples whose hierarchy gives k-means a start.
_TREE_SAMPLES = 2500
_RESTARTS = 10


def consensus_embedding(
    labelings: list[NDArray[np.intp]], weights: NDArray[np.float64], n_components: int
) -> NDArray[np.float64]:
    """Return the leading eigenvectors of the normalised co-association of several labelings.

    Two samples are associated by the total weight of the labelings that put them together. That n × n matrix is never
    formed: it is H Hᵀ with one column of H a cluster, so its eigenvectors come from the small matrix of the clusters.

    Parameters
    ----------
    labelings : list of ndarray of int of shape (n,)
        Labels from 0.
    weights : ndarray, one a labeling
        Not negative, and not all zero.
    n_components : int
        How many.

    Returns
    -------
    ndarray of shape (n, n_components), or of fewer columns where the co-association has a lower rank
    """
    n = len(labelings[0])
    members = sp.hstack(
        [np.sqrt(weight) * one_hot(labels) for labels, weight in zip(labelings, weights, strict=True)],
        format="csr",
    )
    degrees = members @ (members.T @ np.ones(n))
    scaled = sp.csr_array(members.multiply(1 / np.sqrt(degrees)[:, None]))
    values, vectors = np.linalg.eigh((scaled.T @ scaled).toarray())
    values, vectors = values[::-1][:n_components], vectors[:, ::-1][:, :n_components]
    present = values > 1e-9
    return np.asarray(scaled @ (vectors[:, present] / np.sqrt(values[present])))


def cluster_embedding(embedding: NDArray[Any], n_clusters: int, random: SampleRandom) -> NDArray[np.intp]:
    """Cluster the rows of an embedding by their directions.

    k-means, of which one start is cut from Ward's hierarchy of some of the rows: with many clusters, random starts miss
    some of them nearly always.

    Parameters
    ----------
    embedding : ndarray of shape (n, d)
        In working order: the first rows are as good a sample as any.
    n_clusters : int
        How many.
    random : SampleRandom
        What draws the other starts.

    Returns
    -------
    ndarray of int of shape (n,)
    """
    lengths = np.linalg.norm(embedding, axis=1, keepdims=True)
    directions = embedding / np.where(lengths > 0, lengths, 1)
    if n_clusters == 1:
        return np.zeros(len(embedding), dtype=np.intp)
    few = directions[:_TREE_SAMPLES]
    centres = None
    if n_clusters < len(few):
        groups = cut_tree(ward(few), [n_clusters]).ravel()
        centres = (one_hot(groups).T @ few) / np.bincount(groups)[:, None]
    return kmeans(directions, n_clusters, n_init=_RESTARTS, random=random, centres=centres)[0]
