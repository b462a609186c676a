"""How row blocks are run. A round of an anchor method is row-local work plus small reductions, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._views import row_blocks


class InMemory:
    """Row blocks one after the other, in this process; the products inside use all threads.

    Parameters
    ----------
    n_rows : int
        Number of samples. The blocks, and with them the rounding of sums, depend on it alone.
    """

    def __init__(self, n_rows: int) -> None:
        self.blocks = list(row_blocks(n_rows))

    def each(self, work: Callable[[slice], None]) -> None:
        """Do row-local work on every block."""
        for block in self.blocks:
            work(block)

    def sum(self, work: Callable[[slice], Any]) -> Any:
        """Add up what `work` returns for every block, in their order."""
        total = work(self.blocks[0])
        for block in self.blocks[1:]:
            total = total + work(block)
        return total

    def max(self, work: Callable[[slice], float]) -> float:
        """Return the largest of what `work` returns for the blocks."""
        return max(work(block) for block in self.blocks)
