"""The samples of a fit, wherever they are: which of them become landmarks, and what becomes of the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..backend.scratch import scratch_array
from ..backend.threads import parallel_map, thread_count
from ..views import Views
from ._fitted import FittedClustering
from ._landmarks import KeyCounts
from ._placement import KEPT_LINKS
from ._samples import Presence, SampleRows, Samples, zeros_are_values

# Reports of progress while samples are placed.
_REPORTS = 20

Notify = Callable[[int, int, str], None]


class Source(Protocol):
    """All samples of a fit.

    Attributes
    ----------
    views : Views
        The views that they come from, as given.
    largest : ndarray of shape (m,)
        The largest absolute value of each view.
    presence : Presence
        How many samples there are, and what they lack.
    """

    views: Views
    largest: NDArray[np.float64]
    presence: Presence

    def landmarks(self, most: int) -> tuple[NDArray[np.intp], NDArray[np.uint64], Samples]:
        """Return a random sample of those with any value: their numbers, their keys, and their values."""

    def results(self, fitted: FittedClustering, notify: Notify) -> tuple[FittedClustering, dict[str, Any]]:
        """Return the clustering with clusters numbered by size, and what it states about each sample, by name."""


class LocalSource:
    """Samples in memory, or on disk; implements `Source`. What is wide is on disk if the views are.

    Parameters
    ----------
    views : Views
        The views, with rows and missing values as given, and sizes.
    device : torch.device, optional
        Where the nearest landmarks are searched for.
    """

    def __init__(self, views: Views, device: Any = None) -> None:
        self.device = device
        self.views, self.largest = views, views.sizes.max(axis=0)
        zeros_count = [zeros_are_values(*view) for view in zip(views.widths, self.largest.tolist(), strict=True)]
        absent = views.missing | ((views.sizes == 0) & ~np.array(zeros_count))
        self.presence, self.described = Presence.of(absent), ~absent.all(axis=1)
        self.samples = SampleRows(
            list(views.arrays), views.widths, views.missing, zeros_count, views.hashes, views.sizes
        )

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        """The samples by their keys."""
        return np.argsort(self.views.row_keys, kind="stable")

    def landmarks(self, most: int) -> tuple[NDArray[np.intp], NDArray[np.uint64], Samples]:
        """Return a random sample of those with any value, all of them if there are no more."""
        rows = np.flatnonzero(self.described)
        keys = self.views.row_keys[rows]
        chosen = KeyCounts.of(keys).sampled(most)
        rows = rows[chosen.first_rows(keys)]
        rows = rows[chosen.shuffled(self.views.row_keys[rows])]
        return rows, self.views.row_keys[rows], self.samples[rows].on_host()

    def results(self, fitted: FittedClustering, notify: Notify) -> tuple[FittedClustering, dict[str, Any]]:
        """Place all samples, block by block; return the renumbered clustering and what it states about them."""
        n, keys = len(self.samples), self.views.row_keys
        found: dict[str, Any] = {}
        index_type = sp.get_index_dtype(maxval=n * KEPT_LINKS)
        links = [self._room((n, KEPT_LINKS), dtype).ravel() for dtype in (np.float64, index_type)]
        starts = np.zeros(n + 1, dtype=index_type)
        placement, reported, at_once = fitted.placement_on(self.device), 0, thread_count()
        blocks = self.samples.blocks()
        for first in range(0, len(blocks), at_once):
            some = blocks[first : first + at_once]
            placed = parallel_map(lambda rows: placement.everything_about(self.samples[rows]), some)
            for rows, block in zip(some, placed, strict=True):
                own = block.pop("links")
                starts[rows.start + 1 : rows.stop + 1] = starts[rows.start] + own.indptr[1:]
                for room, values in zip(links, (own.data, own.indices), strict=True):
                    room[starts[rows.start] : starts[rows.stop]] = values
                for name, values in block.items():
                    if name not in found:
                        found[name] = self._room((n, *values.shape[1:]), values.dtype)
                    found[name][rows] = values
            if n > len(fitted.missing) and some[-1].stop * _REPORTS // n > reported:
                reported = some[-1].stop * _REPORTS // n
                notify(some[-1].stop, n, "samples placed")
        number = ClusterSizes.of(found["labels"][self.described], keys[self.described], fitted.shares.shape[1]).order
        found["labels"] = np.argsort(number)[found["labels"]]
        # Without any value, all clusters are equally likely, and the first one is as good as any.
        found["labels"][~self.described] = 0
        given = np.argsort(self.views.view_order)
        for rows in self.samples.blocks():
            found["membership"][rows] = found["membership"][rows][:, number]
            found["sample_view_weights"][rows] = found["sample_view_weights"][rows][:, given]
        entries = (room[: starts[-1]] for room in links)
        found["links"] = sp.csr_array((*entries, starts), shape=(n, len(fitted.missing)))
        found["ranks"] = np.empty(n, dtype=np.intp)
        found["ranks"][self._order] = np.arange(n)
        return fitted.renumbered(number), found

    def _room(self, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        return scratch_array(shape, dtype) if self.views.on_disk and len(shape) > 1 else np.empty(shape, dtype)


@dataclass(frozen=True)
class ClusterSizes:
    """The sizes of the clusters, and the lowest key of the samples in each; those of parts of the samples add up."""

    sizes: NDArray[np.intp]
    first: NDArray[Any]

    @staticmethod
    def of(labels: NDArray[np.intp], keys: NDArray[Any], n_clusters: int) -> ClusterSizes:
        """Return the sizes for some samples."""
        first = np.full(n_clusters, np.iinfo(keys.dtype).max, dtype=keys.dtype)
        np.minimum.at(first, labels, keys)
        return ClusterSizes(np.bincount(labels, minlength=n_clusters), first)

    def __add__(self, other: ClusterSizes) -> ClusterSizes:
        return ClusterSizes(self.sizes + other.sizes, np.minimum(self.first, other.first))

    @property
    def order(self) -> NDArray[np.intp]:
        """The clusters by size, equal ones by their lowest key."""
        return np.lexsort((self.first, -self.sizes))
