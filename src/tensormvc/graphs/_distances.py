"""Squared distances between samples in blocks of rows, and what every neighbour search here agrees on.

Position never decides who is a neighbour: distances that differ by less than `tie_margin` count as equal.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backend.arrays import Array, in_double, is_sparse, is_tensor, namespace, placed
from ..backend.linalg import raise_to_zero, sum_of_squares
from ..backend.threads import one_blas_thread, parallel_ranges, run_ranges
from ..rows import piece_size, pieces

# Two squared distances tie if they differ by less than this fraction of themselves, or of the squared length of the
# longest sample: more than rounding the samples to single precision changes them, less than any structure in the data.
TIE_RELATIVE = 2e-6
TIE_ABSOLUTE = 1e-14
# Memory for one block of distances, per thread and on a device.
_BLOCK_BYTES = 32 * 2**20
DEVICE_BLOCK_BYTES = 512 * 2**20
# Distances between dense samples that are computed at a time: what the cache holds.
_CACHED = 2**18
_LEAST_ROWS = 128
# Up to so many samples all products among them are computed at once, from so many features on, where half of them take
# less time than all.
_WHOLE_UP_TO = 2500
_WIDE = 64
# Differences between values that are computed at a time: what the cache holds.
_PAIRS_AT_ONCE = 2**16


def tie_margin(squared_distance: Any, scale: float) -> Any:
    """Return how much larger another squared distance may be and still count as equal."""
    return TIE_RELATIVE * squared_distance + TIE_ABSOLUTE * scale


class DistanceBlocks:
    """Squared Euclidean distances ‖xᵢ − yⱼ‖² in blocks of rows, in float64, on the device of the samples.

    Parameters
    ----------
    parts : list of arrays (n, d_v), dense or CSR
        The samples; a sample is the concatenation of its rows in all parts.
    others : list of arrays (k, d_v), optional
        The points yⱼ, in float64; by default the samples themselves.
    scale : float, optional
        Squared length that ties are judged by; by default that of the longest sample or point.
    missing : ndarray of bool of shape (n, n_parts), optional
        Which samples lack which part, where they are compared with each other; rows that are missing are zero. In a
        part that one of them lacks, two samples are at the mean squared distance of the part; without any in common,
        they are infinitely far apart. A mean over the parts that both have would make samples with few of them near to
        all others: it varies more, the fewer they are, and is small if distances in these parts are.
    """

    def __init__(
        self,
        parts: list[Any],
        others: list[Any] | None = None,
        scale: float | None = None,
        missing: NDArray[np.bool_] | None = None,
    ) -> None:
        # Samples that are compared with other points may be on disk, and are converted block by block.
        self.parts = [in_double(part) for part in parts] if others is None else parts
        self.others = self.parts if others is None else others
        self.squares = _squared_lengths(self.parts)
        self.other_squares = self.squares if others is None else _squared_lengths(self.others)
        largest = max(float(self.squares.max()), float(self.other_squares.max()), np.finfo(np.float64).tiny)
        self.scale = largest if scale is None else scale
        self.missing = missing
        if missing is not None:
            self.squares_of_parts = np.column_stack([_squared_lengths([part]) for part in self.parts])
            counts = np.maximum((~missing).sum(axis=0), 1)
            centres = [part.sum(axis=0) / count for part, count in zip(self.parts, counts, strict=True)]
            self.usual = 2 * (self.squares_of_parts.sum(axis=0) / counts - [centre @ centre for centre in centres])
        room = DEVICE_BLOCK_BYTES if is_tensor(self.squares) else _BLOCK_BYTES
        widest = max(len(self.other_squares), *(part.shape[1] for part in parts))
        self.rows_at_once = max(1, room // (8 * widest))

    def block(self, start: int, stop: int) -> Array:
        """Return the squared distances of samples start to stop, (stop − start, k), never negative."""
        distances = _product(in_double(self.parts[0][start:stop]), self.others[0])
        for mine, other in zip(self.parts[1:], self.others[1:], strict=True):
            distances += _product(in_double(mine[start:stop]), other)
        distances *= -2
        if self.missing is not None:
            present = (~self.missing).astype(np.float64)
            own = present[start:stop]
            distances += (self.squares_of_parts[start:stop] - self.usual * own) @ present.T + self.usual.sum()
            distances += own @ self.squares_of_parts.T
            distances[own @ present.T == 0] = np.inf
        else:
            distances += self.squares[start:stop, None]
            distances += self.other_squares
        return raise_to_zero(distances)

    def blocks(self, start: int, stop: int) -> Iterator[tuple[int, Array]]:
        """Yield the squared distances of samples start to stop in blocks, each with the number of its first sample."""
        for lo in range(start, stop, self.rows_at_once):
            yield lo, self.block(lo, min(lo + self.rows_at_once, stop))

    def collect(self, select: Callable[[Array, int], tuple[NDArray[Any], ...]]) -> list[NDArray[Any]]:
        """Concatenate what `select` returns for each block of distances and its first row.

        The distance of a sample to itself is infinite. Blocks of NumPy arrays are shared out among the threads.
        """
        selected: dict[int, tuple[NDArray[Any], ...]] = {}

        def work(start: int, stop: int) -> None:
            for lo, block in self.blocks(start, stop):
                if self.others is self.parts:
                    own = placed(np.arange(lo, lo + len(block)), block)
                    block[own - lo, own] = np.inf
                selected[lo] = select(block, lo)

        run_ranges(work, self.squares, self.rows_at_once)
        return [np.concatenate(arrays) for arrays in zip(*(selected[lo] for lo in sorted(selected)), strict=True)]


class DenseBlocks:
    """Squared Euclidean distances ‖xᵢ − yⱼ‖² between dense samples on the host, in blocks of rows that the cache holds.

    Parameters
    ----------
    samples : ndarray of shape (n, d)
        The samples.
    points : ndarray of shape (k, d)
        The points yⱼ, which may be the samples: then half of the products are enough.
    """

    def __init__(self, samples: NDArray[np.float64], points: NDArray[np.float64]) -> None:
        self.samples, self.points = samples, points
        self.squares, self.other_squares = sum_of_squares(samples), sum_of_squares(points)
        self.rows_at_once = max(_LEAST_ROWS, _CACHED // len(points))
        self._left = None
        if samples is points and len(samples) <= _WHOLE_UP_TO and samples.shape[1] >= _WIDE:
            with one_blas_thread():  # or rounding would depend on the threads
                self._products = samples @ samples.T
        else:
            # All terms of a distance in one product.
            self._left = np.column_stack([samples, self.squares, np.ones(len(samples))])
            self._products = np.column_stack([-2 * points, np.ones(len(points)), self.other_squares]).T

    def blocks(self, start: int, stop: int) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """Yield the squared distances of samples start to stop, once, in blocks that are overwritten by the next one.

        Each comes with the number of its first sample. They may be negative by rounding.
        """
        room = np.empty((0 if self._left is None else self.rows_at_once, len(self.points)))
        for lo in range(start, stop, self.rows_at_once):
            hi = min(lo + self.rows_at_once, stop)
            if self._left is None:
                distances = self._products[lo:hi]
                distances *= -2
                distances += self.other_squares
                distances += self.squares[lo:hi, None]
            else:
                distances = np.matmul(self._left[lo:hi], self._products, out=room[: hi - lo])
            yield lo, distances

    def pairs(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the squared distances of some pairs, each as if it were the only one."""
        return pair_squares(self.samples, self.points, rows, columns)


def pair_squares(
    samples: NDArray[np.float64], points: NDArray[np.float64], rows: NDArray[np.intp], columns: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return the squared distances of pairs of samples and points, each as if it were the only one."""
    squares = np.empty(len(rows))
    step = max(1, _PAIRS_AT_ONCE // samples.shape[1])

    def work(start: int, stop: int) -> None:
        for lo in range(start, stop, step):
            some = slice(lo, min(lo + step, stop))
            differences = points[columns[some]]
            differences -= samples[rows[some]]
            squares[some] = np.einsum("ij,ij->i", differences, differences)

    parallel_ranges(work, len(rows), step)
    return squares


def _squared_lengths(parts: list[Any]) -> Array:
    size = piece_size(max(part.shape[1] for part in parts), is_tensor(parts[0]))
    all_rows = slice(0, parts[0].shape[0])
    squares = [sum(row_squares(part[rows]) for part in parts) for rows in pieces(all_rows, size)]
    return squares[0] if len(squares) == 1 else namespace(squares[0]).concat(squares)


def row_squares(rows: Any) -> Array:
    """Return the squared lengths of samples, dense or CSR."""
    rows = in_double(rows)
    return np.asarray(rows.multiply(rows).sum(axis=1)).ravel() if is_sparse(rows) else sum_of_squares(rows)


def _product(rows: Any, others: Any) -> Array:
    product = rows @ others.T
    return product.toarray() if is_sparse(product) else product


def check_n_neighbors(n_neighbors: Any, n_samples: int, beyond: int = 0) -> None:
    """Refuse a number of neighbours that is not a positive integer or leaves too few samples.

    `beyond` is the number of samples that a graph looks at in addition to the neighbours.
    """
    if isinstance(n_neighbors, bool) or not isinstance(n_neighbors, int | np.integer) or n_neighbors < 1:
        raise ValueError(f"n_neighbors must be an integer >= 1, got {n_neighbors!r}")
    most = n_samples - 1 - beyond
    if n_neighbors > most:
        raise ValueError(
            f"n_neighbors={n_neighbors} needs more than {n_neighbors + beyond} samples, there are {n_samples}: "
            + (f"set n_neighbors to at most {most}" if most > 0 else "add samples")
        )
