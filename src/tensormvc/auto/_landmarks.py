"""Which samples become landmarks: a random sample of the rows, in which no row is repeated too often.

Equal rows have equal keys, which are uniformly distributed integers. A row with c copies is chosen with a probability
in proportion to c, because its rank is its key divided by c, and the lowest ranks are chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..views._order import mix

# The largest share of the landmarks that equal rows take.
_MOST_EQUAL = 0.01
_N_KEYS = 2.0**64


@dataclass(frozen=True)
class KeyCounts:
    """How many samples have the keys that may become landmarks; the counts of parts can be joined.

    Attributes
    ----------
    keys : ndarray of uint64
        In ascending order.
    counts : ndarray of int
        Numbers of samples.
    n_samples : int
        Number of samples with any key.
    """

    keys: NDArray[np.uint64]
    counts: NDArray[np.intp]
    n_samples: int

    @staticmethod
    def of(keys: NDArray[np.uint64]) -> KeyCounts:
        """Return the counts of all keys."""
        found, counts = np.unique(keys, return_counts=True)
        return KeyCounts(found, counts, len(keys))

    def candidates(self, count: int, unseen: NDArray[np.float64] | int = 0) -> KeyCounts:
        """Keep about so many keys, those with low ranks; `unseen` is how many more samples may have each key.

        A candidate among all samples is a candidate in some part of them: k·n ≥ a·c follows from k·nᵢ ≥ a·cᵢ for all
        parts.
        """
        kept = self.keys / _N_KEYS * self.n_samples < count * (self.counts + unseen)
        return KeyCounts(self.keys[kept], self.counts[kept], self.n_samples)

    @staticmethod
    def joined(parts: list[KeyCounts], count: int) -> KeyCounts:
        """Return the candidates among the samples of all parts, with their counts in the parts that they come from."""
        keys, number = np.unique(np.concatenate([part.keys for part in parts]), return_inverse=True)
        counts = np.bincount(number, np.concatenate([part.counts for part in parts])).astype(np.intp)
        # With more samples than this in another part, a key would be a candidate there.
        largest = max(part.n_samples for part in parts)
        unseen = len(parts) * np.floor(keys / _N_KEYS * largest / count)
        return KeyCounts(keys, counts, sum(part.n_samples for part in parts)).candidates(count, unseen)

    def recounted(self, keys: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Return how many of some samples, given by their keys, have each of the keys here."""
        ordered = np.sort(keys)
        return np.searchsorted(ordered, self.keys, "right") - np.searchsorted(ordered, self.keys, "left")

    def sampled(self, most: int) -> LandmarkCounts:
        """Return a random sample of at most so many landmarks, all samples if there are no more."""
        if self.n_samples <= most:
            return LandmarkCounts(self.keys, self.counts, np.ones(len(self.keys)))
        # As many equal samples for each landmark as the most frequent row needs: then no row takes too many of them.
        each = max(self.n_samples / most, self.counts.max() / (_MOST_EQUAL * most))
        counts = np.ceil(self.counts / each).astype(np.intp)
        order = np.argsort(self.keys / self.counts, kind="stable")
        kept = np.sort(order[np.cumsum(counts[order]) <= most])
        return LandmarkCounts(self.keys[kept], counts[kept], (self.counts / counts)[kept])


@dataclass(frozen=True)
class LandmarkCounts:
    """How many landmarks have which keys.

    Attributes
    ----------
    keys : ndarray of uint64
        In ascending order.
    counts : ndarray of int
        Numbers of landmarks.
    weights : ndarray of float
        How many of the samples with this key each landmark stands for.
    """

    keys: NDArray[np.uint64]
    counts: NDArray[np.intp]
    weights: NDArray[np.float64]

    def first_rows(self, keys: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Return the first rows with each of these keys, as many as are counted or there are, by key."""
        order = np.argsort(keys, kind="stable")
        start, stop = (np.searchsorted(keys, self.keys, side, order) for side in ("left", "right"))
        lengths = np.minimum(self.counts, stop - start)
        ends = np.cumsum(lengths)
        return np.asarray(order[np.arange(lengths.sum()) + np.repeat(start - ends + lengths, lengths)])

    def shuffled(self, keys: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Return landmarks in a random order that their keys determine; the first ones are a sample of all samples."""
        return shuffled(keys, self.weights[np.searchsorted(self.keys, keys)])


def shuffled(keys: NDArray[np.uint64], weights: NDArray[np.float64] | float = 1.0) -> NDArray[np.intp]:
    """Return samples in the order of their keys divided by their weights, and equal samples far from each other."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order].view(np.int64)
    new = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    copy = np.arange(len(keys)) - np.repeat(new, np.diff(np.append(new, len(keys))))
    again = copy > 0
    ordered[again] = mix(ordered[again] + copy[again])
    ranks = ordered.view(np.uint64) / np.broadcast_to(weights, len(keys))[order]
    return np.asarray(order[np.argsort(ranks, kind="stable")])
