"""How row blocks are run. A round of an anchor method is row-local work plus small reductions, nothing else.

An executor holds arrays over the samples by name. Work on them is a function of a `Part`, some consecutive rows of
all of them, and of small arguments; it may change rows in place, and returns something small. Its decorator says which
arrays it looks at and which it changes, so that it runs as well where a block of rows is another process's.
"""

from __future__ import annotations

import itertools
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..backend import is_on_disk, is_tensor, namespace, parallel_ranges, placed, scratch_array, thread_count

# A block has so many rows before there are more; there are so many before blocks grow; and so large they grow.
_ROW_BLOCK = 8192
_GROWING_BLOCKS = 8
_MOST_ROWS = 2**14
# Numbers of a matrix that are worked on together: few enough for the cache, and enough for threads not to wait for the
# interpreter between operations.
_CACHED = 2**17
# Rows of products of columns are worked on together as if they had so many numbers.
_PRODUCT_WIDTH = 64
# Numbers below which threads would spend more time waiting for the interpreter than they save.
_FEW = 2**19
# A device wants large pieces.
_DEVICE_PIECE = 2**27

Work = Callable[..., Any]
Join = Callable[[Any, Any], Any]
_AnyWork = TypeVar("_AnyWork", bound=Work)


def row_blocks(n_rows: int) -> Iterator[slice]:
    """Yield the row blocks over which sums over samples run; they depend on the number of rows alone."""
    # Groups of four, which two or four threads share evenly.
    count = min(_GROWING_BLOCKS, 4 * -(-n_rows // (4 * _ROW_BLOCK))) if n_rows > _ROW_BLOCK else 1
    size = min(_MOST_ROWS, -(-n_rows // count))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def row_work(
    reads: str = "", writes: str = "", *, sets: str = "", exact: bool = False
) -> Callable[[_AnyWork], _AnyWork]:
    """Say which arrays, by their names, some work looks at, which it changes, and which it sets without a look.

    Results that are `exact`, such as counts, may be joined in any grouping: nothing of them is rounded.
    """

    def mark(work: _AnyWork) -> _AnyWork:
        for name, value in (("reads", reads), ("writes", writes), ("sets", sets)):
            setattr(work, name, value.split())
        work.exact = exact  # type: ignore[attr-defined]
        return work

    return mark


class Part:
    """Some consecutive rows of all arrays, which are its attributes; lists of arrays are lists of their rows.

    Attributes
    ----------
    first : int
        Number of the first of the rows among all samples.
    """

    __slots__ = ("_fields", "_rooms", "_rows", "first")

    def __init__(self, fields: Mapping[str, Any], rows: slice, offset: int, rooms: dict[Any, Any]) -> None:
        self._fields, self._rows, self._rooms = fields, rows, rooms
        self.first = offset + rows.start

    def __getattr__(self, name: str) -> Any:
        field = self._fields[name]
        return [array[self._rows] for array in field] if isinstance(field, list) else field[self._rows]

    def __len__(self) -> int:
        return int(self._rows.stop - self._rows.start)

    def room(self, name: Any, shape: tuple[int, ...], like: Any) -> Any:
        """Return an array of some shape, with anything in it, for what is needed while a piece is worked on.

        Pieces that are worked on one after the other share it, since fresh memory costs more than what is done in it.
        So it must not be returned, and the same name is the same memory.

        Parameters
        ----------
        name : hashable
            Which room.
        shape : tuple of int
            The shape.
        like : array
            Of the type, and where, the room shall be.
        """
        if is_tensor(like):
            return like.new_empty(shape)
        size, room = math.prod(shape), self._rooms.get(name)
        if room is None or room.size < size or room.dtype != like.dtype:
            room = self._rooms[name] = np.empty(size, like.dtype)
        return room[:size].reshape(shape)


def pieces(block: slice, size: int) -> Iterator[slice]:
    """Yield the pieces of a block, as equal as can be, of at most so many rows."""
    length = block.stop - block.start
    step = -(-length // -(-length // size))
    for start in range(block.start, block.stop, step):
        yield slice(start, min(start + step, block.stop))


def on_block(
    work: Work,
    small: Sequence[Any],
    fields: Mapping[str, Any],
    block: slice,
    size: int,
    join: Join,
    rooms: dict[Any, Any],
    offset: int = 0,
) -> Any:
    """Do work on the pieces of a block, one after the other; return what they return, joined."""
    total = None
    for piece in pieces(block, size):
        total = join(total, work(Part(fields, piece, offset, rooms), *small))
    return total


class Executor(ABC):
    """What runs work on the rows of named arrays.

    Attributes
    ----------
    distributed : bool
        Whether the rows are those of other processes, so that nothing of their number may be asked for.
    n_rows : int
        Number of samples.
    """

    distributed = False
    n_rows: int

    @abstractmethod
    def reduce(self, work: Work, join: Join, *small: Any, width: int = 1) -> Any:
        """Join what `work` returns for the pieces, in their order; nothing is None, to which `join` adds the first."""

    def each(self, work: Work, *small: Any, width: int = 1) -> None:
        """Do row-local work on every piece.

        Parameters
        ----------
        work : function of a `Part` and of small arguments
            What is done, marked by `row_work`.
        *small : objects
            The arguments.
        width : int
            Numbers of a row that are worked on together.
        """
        self.reduce(work, _nothing, *small, width=width)

    def sum(self, work: Work, *small: Any, width: int = 1) -> Any:
        """Add up what `work` returns for every piece, in their order; lists are added entry by entry."""
        return self.reduce(work, added, *small, width=width)

    def sum_later(self, work: Work, *small: Any, width: int = 1) -> Callable[[], Any]:
        """Return a function that returns the sum, for work that need not be done before the next is known, too."""
        total = self.sum(work, *small, width=width)
        return lambda: total

    def sum_of_products(self, work: Work, *small: Any, width: int) -> Any:
        """Return the sum of products of so many columns with each other, of large pieces: they are not so small."""
        return self.sum(work, *small, width=self.product_width(width))

    def product_width(self, width: int) -> int:
        """Return the width that makes pieces of a few thousand rows, for products of many columns."""
        return _PRODUCT_WIDTH

    def max(self, work: Work, *small: Any, width: int = 1) -> Any:
        """Return the largest of what `work` returns for the pieces, entry by entry if these are lists."""
        return self.reduce(work, larger, *small, width=width)


class InMemory(Executor):
    """Row blocks in this process: NumPy's by all threads, PyTorch's one after the other.

    A block is worked on in pieces that the cache can hold. Blocks and pieces, and with them the rounding of sums,
    depend on the sizes alone, not on the threads.

    Parameters
    ----------
    like : array of shape (n, ...)
        Where the rows are.
    """

    def __init__(self, like: Any) -> None:
        self.tensors = is_tensor(like)
        self.n_rows = like.shape[0]
        self._like = like if self.tensors else np.empty(0)
        self.blocks = [slice(0, self.n_rows)] if self.tensors else list(row_blocks(self.n_rows))
        self._fields: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """Return all rows of an array."""
        return self._fields[name]

    @property
    def total_width(self) -> int:
        """Numbers of a row of all "views"."""
        return sum(view.shape[1] for view in self._fields["views"])

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def hold(self, **fields: Any) -> None:
        """Keep arrays of all rows, or lists of them, under their names."""
        self._fields.update(fields)

    def alias(self, name: str, other: str) -> None:
        """Give an array a second name."""
        self._fields[name] = self._fields[other]

    def full(self, name: str, *shape: int, value: float = 0, dtype: str = "float64") -> None:
        """Make an array of all rows, of some shape beyond them, filled with a value."""
        self._fields[name] = self._filled(shape, value, dtype)

    def product_width(self, width: int) -> int:
        """Return the width that makes pieces of a few thousand rows; on a device pieces are large anyway."""
        return width if self.tensors else _PRODUCT_WIDTH

    def full_list(self, name: str, widths: list[int], *, dtype: str) -> None:
        """Make a list of arrays of zeros of all rows, of such widths."""
        self._fields[name] = [self._filled((width,), 0, dtype) for width in widths]

    def full_beside(self, name: str, other: str) -> None:
        """Make an array of zeros as wide as all those of a list together; on disk if one of them is."""
        arrays = self._fields[other]
        width = sum(array.shape[1] for array in arrays)
        on_disk = any(map(is_on_disk, arrays))
        shape = self.n_rows, width
        self._fields[name] = scratch_array(shape, "float64") if on_disk else self._filled((width,), 0, "float64")

    def full_like(self, name: str, other: str, *, dtype: str) -> None:
        """Make a list of zeros of the shapes of another list; where an array there is on disk, on disk."""
        self._fields[name] = [
            scratch_array(array.shape, dtype) if is_on_disk(array) else self._filled(array.shape[1:], 0, dtype)
            for array in self._fields[other]
        ]

    def _filled(self, shape: tuple[int, ...], value: float, dtype: str) -> Any:
        if not self.tensors:
            return np.full((self.n_rows, *shape), value, dtype) if value else np.zeros((self.n_rows, *shape), dtype)
        xp = namespace(self._like)
        return xp.full((self.n_rows, *shape), value, dtype=getattr(xp, dtype), device=self._like.device)

    def drop(self, *names: str) -> None:
        """Let go of arrays."""
        for name in names:
            self._fields.pop(name, None)

    def make(self, name: str, work: Work, *small: Any) -> None:
        """Let what `work` returns for many rows at once, something with as many rows, join the arrays."""
        self._fields[name] = work(Part(self._fields, slice(0, self.n_rows), 0, {}), *small)

    def place(self, values: NDArray[Any]) -> Any:
        """Put a small array of NumPy's where the rows are."""
        return placed(values, self._like)

    def reduce(self, work: Work, join: Join, *small: Any, width: int = 1) -> Any:
        """Join what `work` returns for the pieces, in their order; nothing is None, to which `join` adds the first."""
        size = piece_size(width, self.tensors)
        of_blocks = [list(pieces(block, size)) for block in self.blocks]
        reduction = _Reduction(join, [len(some) for some in of_blocks])
        left = enumerate(itertools.chain.from_iterable(of_blocks))

        def some(first: int, last: int) -> None:
            rooms: dict[Any, Any] = {}
            # Every thread takes the next piece, so that few results wait for that of an earlier one.
            while (task := reduction.next_of(left)) is not None:
                i, piece = task
                reduction.add(i, work(Part(self._fields, piece, 0, rooms), *small))

        if self.tensors or self.n_rows * width < _FEW:
            some(0, 1)
        else:
            parallel_ranges(some, thread_count())
        return reduction.total


class _Reduction:
    """Joins the results of pieces in their order, whenever they come: those of a block first, then those of blocks."""

    def __init__(self, join: Join, counts: list[int]) -> None:
        self.total: Any = None
        self._join, self._waiting, self._done, self._of_block = join, dict[int, Any](), 0, None
        self._ends = set(itertools.accumulate(counts))
        self._lock = threading.Lock()

    def next_of(self, left: Iterator[Any]) -> Any:
        with self._lock:
            return next(left, None)

    def add(self, i: int, result: Any) -> None:
        with self._lock:
            self._waiting[i] = result
            while self._done in self._waiting:
                self._of_block = self._join(self._of_block, self._waiting.pop(self._done))
                self._done += 1
                if self._done in self._ends:
                    self.total, self._of_block = self._join(self.total, self._of_block), None


def piece_size(width: int, tensors: bool = False) -> int:
    """Return how many rows of so many numbers are worked on together."""
    return max(1, (_DEVICE_PIECE if tensors else _CACHED) // width)


def _nothing(total: Any, more: Any) -> None:
    return None


def added(total: Any, more: Any) -> Any:
    """Add a result to a total, which may be None, or be overwritten."""
    if total is None:
        return more
    if isinstance(more, list):
        return [added(a, b) for a, b in zip(total, more, strict=True)]
    total += more
    return total


def larger(most: Any, other: Any) -> Any:
    """Return the larger of two results, entry by entry; `most` may be None."""
    if most is None:
        return other
    if isinstance(other, list):
        return [larger(a, b) for a, b in zip(most, other, strict=True)]
    # What is not a number stays, wherever it comes from.
    return most if bool(most >= other) or bool(most != most) else other


def gathered(found: Any, more: Any) -> Any:
    """Collect lists of arrays, one after the other."""
    if found is None:
        return more
    return [np.concatenate(pair) for pair in zip(found, more, strict=True)]
