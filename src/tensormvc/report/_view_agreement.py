"""How well each view supports a clustering, without labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.metrics import silhouette_score
from sklearn.preprocessing import normalize

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
    rows = as_views(views).order[:MOST_SAMPLES]
    labels = labels[rows]
    parts = [_present(view, rows) for view in views]
    n_neighbors = min([N_NEIGHBORS, *(len(present) - 1 for _, present in parts if len(present) > 1)])
    total = sp.csr_array((len(rows), len(rows)))
    within, silhouettes = [], []
    for part, present in parts:
        if len(present) < 2:
            within.append(float("nan"))
            silhouettes.append(float("nan"))
            continue
        links = SumGraph(n_neighbors).fit([part]).graph_.tocoo()
        first, second = present[links.row], present[links.col]
        total = total + sp.csr_array((links.data, (first, second)), shape=total.shape)
        within.append(float(np.mean(labels[first] == labels[second])))
        n_found = len(np.unique(labels[present]))
        defined = 2 <= n_found < len(present)
        silhouettes.append(float(silhouette_score(normalize(part), labels[present])) if defined else float("nan"))
    sizes = np.unique(labels, return_counts=True)[1]
    chance = float(np.sum(sizes * (sizes - 1)) / max(1, len(rows) * (len(rows) - 1)))
    return Agreement(rows, sp.csr_array(total), n_neighbors, within, silhouettes, chance)


def take_rows(view: Any, rows: NDArray[np.intp]) -> Any:
    """Return rows of a view as an array, dense or CSR."""
    if hasattr(view, "iloc"):
        return view.iloc[rows].to_numpy()
    return view.tocsr()[rows] if hasattr(view, "tocsr") else np.asarray(view[rows])


def _present(view: Any, rows: NDArray[np.intp]) -> tuple[Any, NDArray[np.intp]]:
    """Return the rows that are not missing in the view, and their positions in `rows`."""
    part = take_rows(view, rows)
    if hasattr(part, "tocsr"):
        absent = np.asarray((part != part).sum(axis=1)).ravel() == part.shape[1]  # only NaN differs from itself
    else:
        absent = np.isnan(part).all(axis=1)
    present = np.flatnonzero(~absent)
    return part[present], present
