"""How row blocks are run. A round of an anchor method is row-local work plus small reductions, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ._ops import is_tensor, parallel_ranges
from ._views import row_blocks

# Numbers of a matrix that are worked on together: what the second-level cache holds several times over.
_CACHED = 2**16
# A device wants large pieces.
_DEVICE_PIECE = 2**27


class InMemory:
    """Row blocks in this process: NumPy's by all threads, PyTorch's one after the other.

    A block is worked on in pieces that the cache can hold. Blocks and pieces, and with them the rounding of sums,
    depend on the sizes alone, not on the threads.

    Parameters
    ----------
    like : array of shape (n, ...)
        Where the rows are.
    width : int
        Numbers of a row that are worked on together.
    """

    def __init__(self, like: Any, width: int) -> None:
        self.tensors = is_tensor(like)
        n = like.shape[0]
        self.blocks = [slice(0, n)] if self.tensors else list(row_blocks(n))
        self.piece = max(1, (_DEVICE_PIECE if self.tensors else _CACHED) // width)

    def pieces(self, block: slice) -> Iterator[slice]:
        """Yield the pieces of a block."""
        for start in range(block.start, block.stop, self.piece):
            yield slice(start, min(start + self.piece, block.stop))

    def _run(self, work: Callable[[int], None]) -> None:
        def some(first: int, last: int) -> None:
            for b in range(first, last):
                work(b)

        if self.tensors:
            some(0, len(self.blocks))
        else:
            parallel_ranges(some, len(self.blocks))

    def each(self, work: Callable[[slice], None]) -> None:
        """Do row-local work on every piece."""

        def on_block(b: int) -> None:
            for piece in self.pieces(self.blocks[b]):
                work(piece)

        self._run(on_block)

    def sum(self, work: Callable[[slice], Any]) -> Any:
        """Add up what `work` returns for every piece, in their order; lists are added entry by entry."""
        return self._reduce(work, _add)

    def max(self, work: Callable[[slice], Any]) -> Any:
        """Return the largest of what `work` returns for the pieces, entry by entry if these are lists."""
        return self._reduce(work, _larger)

    def _reduce(self, work: Callable[[slice], Any], join: Callable[[Any, Any], Any]) -> Any:
        totals: list[Any] = [None] * len(self.blocks)

        def on_block(b: int) -> None:
            for piece in self.pieces(self.blocks[b]):
                totals[b] = join(totals[b], work(piece))

        self._run(on_block)
        result = totals[0]
        for total in totals[1:]:
            result = join(result, total)
        return result


def _add(total: Any, more: Any) -> Any:
    if total is None:
        return more
    if isinstance(more, list):
        return [_add(a, b) for a, b in zip(total, more, strict=True)]
    total += more
    return total


def _larger(most: Any, other: Any) -> Any:
    if most is None:
        return other
    if isinstance(other, list):
        return [_larger(a, b) for a, b in zip(most, other, strict=True)]
    # What is not a number stays, wherever it comes from.
    return most if bool(most >= other) or bool(most != most) else other
