"""Which samples become landmarks: a random sample of the rows, in which no row is repeated too often."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..views._order import mix

# Beyond this share of the landmarks, equal samples stand for several.
_MOST_EQUAL = 0.01


@dataclass(frozen=True)
class KeyCounts:
    """The lowest different keys of some samples, and how many samples have each; those of parts can be joined.

    Attributes
    ----------
    keys : ndarray of uint64
        In ascending order.
    counts : ndarray of int
        Numbers of samples.
    """

    keys: NDArray[np.uint64]
    counts: NDArray[np.intp]

    @staticmethod
    def of(keys: NDArray[np.uint64], most: int) -> KeyCounts:
        """Return the counts of at most so many keys."""
        found, counts = np.unique(keys, return_counts=True)
        return KeyCounts(found[:most], counts[:most])

    @staticmethod
    def joined(parts: list[KeyCounts], most: int) -> KeyCounts:
        """Return the counts of the samples of all parts."""
        keys, number = np.unique(np.concatenate([part.keys for part in parts]), return_inverse=True)
        counts = np.bincount(number, np.concatenate([part.counts for part in parts])).astype(np.intp)
        return KeyCounts(keys[:most], counts[:most])

    def thinned(self, most: int) -> KeyCounts:
        """Return how many of the samples with each key become landmarks, at most so many in all.

        If equal samples were more than a hundredth of the landmarks, every landmark stands for several equal samples:
        otherwise a frequent row could take the place of all others.
        """
        each = max(1.0, self.counts.max() / (_MOST_EQUAL * most))
        counts = np.ceil(self.counts / each).astype(np.intp)
        kept = np.cumsum(counts) <= most
        return KeyCounts(self.keys[kept], counts[kept])

    def first_rows(self, keys: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Return the first rows with each of these keys, as many as are counted or there are, by key."""
        order = np.argsort(keys, kind="stable")
        start, stop = (np.searchsorted(keys, self.keys, side, order) for side in ("left", "right"))
        lengths = np.minimum(self.counts, stop - start)
        ends = np.cumsum(lengths)
        return np.asarray(order[np.arange(lengths.sum()) + np.repeat(start - ends + lengths, lengths)])


def spread(keys: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Return samples in the order of their keys, but equal samples, whose keys are equal, far from each other.

    So the first samples in this order are a random sample of all.
    """
    order = np.argsort(keys, kind="stable")
    ordered = keys[order].view(np.int64)
    new = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    copy = np.arange(len(keys)) - np.repeat(new, np.diff(np.append(new, len(keys))))
    again = copy > 0
    ordered[again] = mix(ordered[again] + copy[again])
    return np.asarray(order[np.argsort(ordered.view(np.uint64), kind="stable")])
