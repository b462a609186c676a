"""Views on disk, read twice in blocks of rows."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backend.scratch import scratch_array
from ._check import Checked, Wrong, check_kind, floating, look_at, refuse_wrong
from ._order import unit_rows

# Elements of a view on disk that are read at a time.
_DISK_BLOCK = 1 << 20


def check_on_disk(part: Any, name: str, *, gaps: bool = False) -> Checked:
    """Check and hash a view on disk, block by block, as `check_view` and `row_hashes` do in memory."""
    check_kind(part, name)
    n = part.shape[0]
    missing, hashes, sizes = np.zeros(n, dtype=bool), np.zeros(n, dtype=np.int64), np.zeros(n)
    wrong: list[Wrong] = []
    n_gaps = 0
    for rows, block in _blocks_on_disk(part):
        look = look_at(block, rows.start, gaps=gaps)
        missing[rows], hashes[rows], sizes[rows] = look.missing, look.hashes, look.sizes
        wrong += look.wrong
        n_gaps += look.n_gaps
    refuse_wrong(wrong, name)
    return Checked(part, missing, n_gaps, hashes, sizes)


def _blocks_on_disk(part: Any) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield blocks of rows of a view on disk, as new floating-point arrays."""
    n, d = part.shape
    step = max(1, _DISK_BLOCK // d)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        yield rows, floating(part[rows])


def rows_on_disk(view: Checked, order: NDArray[np.intp], *, unit: bool) -> NDArray[Any]:
    """Return the rows of a view on disk in another order, in a temporary file; with `unit`, at unit length.

    Reads and writes in large pieces: rows go to the block they belong to first, and then to their place in it.
    """
    n, d = view.values.shape
    made = scratch_array((n, d), view.dtype)
    rank = np.empty(n, dtype=np.intp)
    rank[order] = np.arange(n)
    step = max(1, _DISK_BLOCK // d)
    starts = np.arange(0, n, step)
    filled, arrived = starts.copy(), np.empty(n, dtype=np.intp)
    for rows, block in _blocks_on_disk(view.values):
        block[view.missing[rows]] = 0
        by_rank = np.argsort(rank[rows])
        ranks = rank[rows][by_rank]
        block = unit_rows(block, by_rank) if unit else block[by_rank]
        cuts = [0, *np.searchsorted(ranks, starts[1:]), len(ranks)]
        for b, (first, last) in enumerate(itertools.pairwise(cuts)):
            room = slice(filled[b], filled[b] + last - first)
            made[room], arrived[room] = block[first:last], ranks[first:last]
            filled[b] = room.stop
    for start in starts:
        rows = slice(start, min(start + step, n))
        made[arrived[rows]] = made[rows].copy()
    return made
