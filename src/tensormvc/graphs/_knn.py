"""Nearest-neighbour graphs over the samples in which position decides nothing."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from ..backend.arrays import Array, in_double, is_sparse, is_tensor, namespace, on_host, placed
from ..backend.linalg import raise_to_zero, smallest, sum_of_squares
from ..backend.threads import run_ranges
from ..rows import piece_size, pieces
from ..views import Views, as_views
from ._laplacian import permuted_graph

# Two squared distances tie if they differ by less than this share of themselves, or of the squared length of
# the longest sample: above what rounding the samples to single precision does to them, below any structure.
TIE_RELATIVE = 2e-6
TIE_ABSOLUTE = 1e-14
# Bytes of one block of distances.
_BLOCK_BYTES = 32 * 2**20
_DEVICE_BLOCK_BYTES = 512 * 2**20


def tie_margin(squared_distance: Any, scale: float) -> Any:
    """Return how far above a squared distance another one still ties with it."""
    return TIE_RELATIVE * squared_distance + TIE_ABSOLUTE * scale


class DistanceBlocks:
    """Squared Euclidean distances between samples, by row blocks, in float64, where the samples are.

    Parameters
    ----------
    parts : list of arrays (n, d_v)
        The samples, in parts that are thought of as concatenated; dense or CSR.
    others : list of arrays (k, d_v), optional
        The points to measure to, in float64; the samples themselves by default.
    scale : float, optional
        Squared length by which ties are judged, by default the largest there is.
    """

    def __init__(self, parts: list[Any], others: list[Any] | None = None, scale: float | None = None) -> None:
        # Where samples meet other points they are converted by blocks: they may be on disk.
        self.parts = [in_double(part) for part in parts] if others is None else parts
        self.others = self.parts if others is None else others
        self.squares = _squared_lengths(self.parts)
        self.other_squares = self.squares if others is None else _squared_lengths(self.others)
        largest = max(float(self.squares.max()), float(self.other_squares.max()), np.finfo(np.float64).tiny)
        self.scale = largest if scale is None else scale
        room = _DEVICE_BLOCK_BYTES if is_tensor(self.squares) else _BLOCK_BYTES
        widest = max(len(self.other_squares), *(part.shape[1] for part in parts))
        self.rows_at_once = max(1, room // (8 * widest))

    def block(self, start: int, stop: int) -> Array:
        """Return the squared distances of samples start to stop, (stop − start, k), never negative."""
        distances = _product(in_double(self.parts[0][start:stop]), self.others[0])
        for mine, other in zip(self.parts[1:], self.others[1:], strict=True):
            distances += _product(in_double(mine[start:stop]), other)
        distances *= -2
        distances += self.squares[start:stop, None]
        distances += self.other_squares
        return raise_to_zero(distances)


def _squared_lengths(parts: list[Any]) -> Array:
    size = piece_size(max(part.shape[1] for part in parts), is_tensor(parts[0]))
    all_rows = slice(0, parts[0].shape[0])
    squares = [sum(map(_squares_of, [part[rows] for part in parts])) for rows in pieces(all_rows, size)]
    return squares[0] if len(squares) == 1 else namespace(squares[0]).concat(squares)


def _squares_of(rows: Any) -> Array:
    rows = in_double(rows)
    return np.asarray(rows.multiply(rows).sum(axis=1)).ravel() if is_sparse(rows) else sum_of_squares(rows)


def _product(rows: Any, others: Any) -> Array:
    product = rows @ others.T
    return product.toarray() if is_sparse(product) else product


def knn_graph(parts: list[Any], n_neighbors: int) -> sp.csr_array:
    """Return the symmetric 0/1 graph in which i and j are linked if one is among the other's nearest.

    Every sample tied with the k-th distance is among the nearest; a sample is not its own neighbour.

    Parameters
    ----------
    parts : list of arrays (n, d_v)
        The samples, in parts that are thought of as concatenated.
    n_neighbors : int
        k, at least 1 and less than n.

    Returns
    -------
    csr_array of shape (n, n)
    """
    distances = DistanceBlocks(parts)
    n = len(distances.squares)
    check_n_neighbors(n_neighbors, n)
    found: dict[int, tuple[NDArray[np.intp], NDArray[np.intp]]] = {}

    def work(start: int, stop: int) -> None:
        for lo in range(start, stop, distances.rows_at_once):
            hi = min(lo + distances.rows_at_once, stop)
            block = distances.block(lo, hi)
            own = placed(np.arange(lo, hi), block)
            block[own - lo, own] = np.inf
            kth = smallest(block, n_neighbors)[0][:, -1:]
            rows, columns = namespace(block).nonzero(block <= kth + tie_margin(kth, distances.scale))
            found[lo] = on_host(rows) + lo, on_host(columns)

    run_ranges(work, distances.squares, distances.rows_at_once)
    rows, columns = (np.concatenate(pieces) for pieces in zip(*(found[lo] for lo in sorted(found)), strict=True))
    directed = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))
    return sp.csr_array(directed.maximum(directed.T))


def check_n_neighbors(n_neighbors: Any, n_samples: int, beyond: int = 0) -> None:
    """Refuse a number of neighbours that is not whole and positive, or more than there are.

    Some graphs look at `beyond` more of the nearest than they link to.
    """
    if isinstance(n_neighbors, bool) or not isinstance(n_neighbors, int | np.integer) or n_neighbors < 1:
        raise ValueError(f"n_neighbors must be a whole number >= 1, got {n_neighbors!r}")
    most = n_samples - 1 - beyond
    if n_neighbors > most:
        raise ValueError(
            f"n_neighbors={n_neighbors} needs more than {n_neighbors + beyond} samples, there are {n_samples}: "
            + (f"set n_neighbors to at most {most}" if most > 0 else "add samples")
        )


def refuse_missing(views: Views, what: str) -> None:
    """Refuse samples that are missing in a view where they would count as similar for that alone."""
    if views.missing.any():
        sample, view = np.argwhere(views.missing)[0]
        raise ValueError(
            f"{what} compares samples over all views, and sample {views.order[sample]} is missing in "
            f"{views.names[view]} ({int(views.missing.sum())} such rows in all): impute them, or use SumGraph, which "
            "compares samples in the views that they have"
        )


class SampleGraph(BaseEstimator):  # type: ignore[misc]
    """Base class of the graphs: `fit` makes `graph_`, in the order of the samples as given."""

    graph_: sp.csr_array
    n_neighbors: int

    def fit(self, views: Any, *, n_clusters: int | None = None) -> Self:
        """Build the graph of the samples.

        Parameters
        ----------
        views : list of arrays (n_samples, n_features_v), or what else `Views` are made of
            The samples; each is scaled to unit length in each view.
        n_clusters : int, optional
            Number of clusters, for the graphs that use it.

        Returns
        -------
        self
            With ``graph_``, a sparse symmetric matrix (n_samples, n_samples).
        """
        made = as_views(views)
        graph = self._build(made, n_clusters)
        if made is not views:
            graph = permuted_graph(graph, np.argsort(made.order))
        self.graph_ = graph
        return self

    def _build(self, views: Views, n_clusters: int | None) -> sp.csr_array:
        raise AssertionError("a subclass builds the graph")


class SimGraph(SampleGraph):
    """The nearest-neighbour graph over the concatenated views (the paper's SimG).

    Two samples are linked with weight 1 if one is among the other's nearest; ties with the last of the
    nearest are all included. Memory: a few blocks of 32 MB, and the graph.

    Parameters
    ----------
    n_neighbors : int, default=10
        k.

    Attributes
    ----------
    graph_ : csr_array of shape (n_samples, n_samples)
        Symmetric, 0/1.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(100)
    >>> graph = tm.SimGraph(n_neighbors=5).fit(views).graph_
    >>> graph.shape, bool((graph.sum(axis=1) >= 5).all())
    ((100, 100), True)
    """

    def __init__(self, n_neighbors: int = 10) -> None:
        self.n_neighbors = n_neighbors

    def _build(self, views: Views, n_clusters: int | None) -> sp.csr_array:
        refuse_missing(views, "SimGraph")
        return knn_graph([views.in_double(v) for v in range(views.n_views)], self.n_neighbors)


class SumGraph(SampleGraph):
    """The sum over the views of each view's own nearest-neighbour graph.

    The weight of a link is the number of views that agree on it. A sample that is missing in a view has no
    links there. Memory: a few blocks of 32 MB, and the graph.

    Parameters
    ----------
    n_neighbors : int, default=10
        k.

    Attributes
    ----------
    graph_ : csr_array of shape (n_samples, n_samples)
        Symmetric, with whole numbers from 0 to the number of views.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(100)
    >>> graph = tm.SumGraph(n_neighbors=5).fit(views).graph_
    >>> int(graph.max()) <= len(views)
    True
    """

    def __init__(self, n_neighbors: int = 10) -> None:
        self.n_neighbors = n_neighbors

    def _build(self, views: Views, n_clusters: int | None) -> sp.csr_array:
        n = views.n_samples
        total = sp.csr_array((n, n))
        for v, missing in enumerate(views.missing.T):
            array = views.in_double(v)
            present = np.flatnonzero(~missing)
            if len(present) <= self.n_neighbors and missing.any():
                raise ValueError(f"a view has only {len(present)} samples that are not missing: lower n_neighbors")
            chosen = array[views.place(present)] if missing.any() else array
            graph = knn_graph([chosen], self.n_neighbors).tocoo()
            total = total + sp.csr_array((graph.data, (present[graph.row], present[graph.col])), shape=(n, n))
        return sp.csr_array(total)
