"""How well each view supports a clustering, without labels."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.metrics import silhouette_score
from sklearn.preprocessing import normalize

from ..auto._impute import complete_gaps
from ..auto._samples import zeros_are_values
from ..auto._scaling import lean
from ..backend.arrays import is_sparse
from ..graphs import SumGraph
from ..views import as_views

N_NEIGHBORS = 10
# All pairwise distances are computed, so at most this many samples are used.
MOST_SAMPLES = 2000


@dataclass(frozen=True)
class Agreement:
    """Agreement between the neighbourhoods in the views and a clustering.

    Attributes
    ----------
    rows : ndarray of int
        The samples that were used, in an order that depends on their values only.
    graph : csr_array
        Sum of the views' k-nearest-neighbour graphs over these samples.
    n_neighbors : int
        Number of neighbours in each graph.
    within : list of float
        For each view, the share of the links that join samples of the same cluster.
    silhouette : list of float
        For each view, the mean silhouette of the samples scaled to unit length; NaN if it is undefined.
    chance : float
        Expected share for links between random samples.
    """

    rows: NDArray[np.intp]
    graph: sp.csr_array
    n_neighbors: int
    within: list[float]
    silhouette: list[float]
    chance: float


def agreement(views: list[Any], labels: NDArray[Any]) -> Agreement:
    """Compare the neighbourhoods in each view with the clusters, on samples drawn by their values, not positions.

    Parameters
    ----------
    views : list of arrays (n_samples, n_features_v)
        The views: dense, sparse, DataFrames or on disk.
    labels : ndarray of shape (n_samples,)
        The clusters.
    """
    # The canonical order is that of a hash of the values: its beginning is a random sample that no permutation changes.
    taken = as_views(views, keep_view_order=True, unit=False, lenient=True).on_host()
    rows = taken.order[:MOST_SAMPLES]
    labels = labels[rows]
    arrays = [array[: len(rows)] for array in taken.arrays]
    positions = [_present(array, lacking) for array, lacking in zip(arrays, taken.missing[: len(rows)].T, strict=True)]
    if any(taken.n_gaps):
        arrays = complete_gaps([lean(array) for array in arrays], taken.missing[: len(rows)])
    parts = [(array[present], present) for array, present in zip(arrays, positions, strict=True)]
    n_neighbors = min([N_NEIGHBORS, *(len(present) - 1 for _, present in parts if len(present) > 1)])
    total = sp.csr_array((len(rows), len(rows)))
    within, silhouettes = [math.nan] * len(views), [math.nan] * len(views)
    for v, (part, present) in enumerate(parts):
        if len(present) < 2:
            continue
        links = SumGraph(n_neighbors).fit([part]).graph_.tocoo()
        first, second = present[links.row], present[links.col]
        total = total + sp.csr_array((links.data, (first, second)), shape=total.shape)
        within[v] = float(np.mean(labels[first] == labels[second]))
        if 2 <= len(np.unique(labels[present])) < len(present):
            silhouettes[v] = float(silhouette_score(normalize(part), labels[present]))
    sizes = np.unique(labels, return_counts=True)[1]
    chance = float(np.sum(sizes * (sizes - 1)) / max(1, len(rows) * (len(rows) - 1)))
    return Agreement(rows, sp.csr_array(total), n_neighbors, within, silhouettes, chance)


def _present(part: Any, absent: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return which rows have a value; empty ones all look alike."""
    sizes = np.asarray(abs(part).max(axis=1).toarray() if is_sparse(part) else np.abs(part).max(axis=1)).ravel()
    sizes = np.nan_to_num(sizes, nan=1)  # a row with gaps has values, too
    return np.flatnonzero(~absent if zeros_are_values(part.shape[1], sizes.max()) else ~absent & (sizes > 0))
