"""The graph from samples to their nearest anchors."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..backend.arrays import Array, in_double, on_host
from ..backend.linalg import smallest
from ..backend.threads import run_ranges
from ..rows import InMemory
from ..views import Views
from ._bkhk import bkhk
from ._bkhk_rows import bkhk_of_rows
from ._knn import DistanceBlocks, tie_margin

_EPS = np.finfo(np.float64).eps


def view_anchors(views: Views, which: list[int], depth: int) -> list[Array]:
    """Return 2^depth BKHK anchors of some of the views side by side, wherever their rows are."""
    views.hold_ties()
    if isinstance(views.rows, InMemory) and not views.on_disk:
        return bkhk([views.arrays[v] for v in which], depth, views.rows["ties"])
    return list(bkhk_of_rows(views.rows, which, depth))


def anchor_graph(parts: list[Any], anchors: list[Array], n_neighbors: int, scale: float | None = None) -> sp.csr_array:
    """Return the graph from samples to their nearest anchors; every row sums to 1.

    With the squared distances d of a sample to the anchors in ascending order, the weight of each of the k
    nearest is ``(d_{k+1} − d) / (k d_{k+1} − d_1 − … − d_k)``. A sample that is equally far from all k + 1 has
    equal weights on all anchors at that distance.

    Parameters
    ----------
    parts : list of arrays (n, d_v)
        The samples, in parts that are thought of as concatenated; dense or CSR.
    anchors : list of arrays (k_a, d_v)
        The anchors in the same parts.
    n_neighbors : int
        k, at least 1 and less than k_a.
    scale : float, optional
        Largest squared length of all samples and anchors, where these are not all of them.

    Returns
    -------
    csr_array of shape (n, k_a)
        n·k entries: 12 n·k bytes.
    """
    distances = DistanceBlocks(parts, [in_double(anchor) for anchor in anchors], scale)
    n, k_a = len(distances.squares), len(distances.other_squares)
    if not 1 <= n_neighbors < k_a:
        raise ValueError(f"n_neighbors={n_neighbors} must be at least 1 and less than the {k_a} anchors")
    columns = np.empty((n, n_neighbors), dtype=np.int32)
    weights = np.empty((n, n_neighbors))
    tied: dict[int, NDArray[np.intp]] = {}

    def work(start: int, stop: int) -> None:
        for lo in range(start, stop, distances.rows_at_once):
            hi = min(lo + distances.rows_at_once, stop)
            block = distances.block(lo, hi)
            near, which = smallest(block, n_neighbors + 1)
            edge = near[:, -1:]
            gaps = edge - near[:, :-1]
            weights[lo:hi] = on_host(gaps / (gaps.sum(1)[:, None] + _EPS))
            columns[lo:hi] = on_host(which[:, :-1])
            margin = tie_margin(edge[:, 0], distances.scale)
            for row in np.flatnonzero(on_host(gaps[:, 0] <= margin)).tolist():
                tied[lo + row] = np.flatnonzero(on_host(block[row] <= edge[row] + margin[row]))

    run_ranges(work, distances.squares, distances.rows_at_once)
    lengths = np.full(n, n_neighbors)
    values, where = weights.ravel(), columns.ravel()
    if tied:
        lengths[list(tied)] = [len(at) for at in tied.values()]
        kept = np.ones(n, dtype=bool)
        kept[list(tied)] = False
        entries = np.repeat(kept, lengths)
        given, given_at = weights[kept].ravel(), columns[kept].ravel()
        values, where = np.empty(len(entries)), np.empty(len(entries), dtype=np.int32)
        values[entries], where[entries] = given, given_at
        in_order = [tied[row] for row in sorted(tied)]
        values[~entries] = np.concatenate([np.full(len(at), 1 / len(at)) for at in in_order])
        where[~entries] = np.concatenate(in_order)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    graph = sp.csr_array((values, where, starts), shape=(n, k_a))
    graph.eliminate_zeros()
    graph.sort_indices()
    return graph
