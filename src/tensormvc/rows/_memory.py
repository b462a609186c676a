"""Rows in this process: NumPy arrays, worked on by all threads, or PyTorch tensors; views may be on disk.

Blocks of rows and the pieces that they are cut into depend on sizes alone, so sums round the same whatever the threads.
"""

from __future__ import annotations

import itertools
import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Generic

import numpy as np
from numpy.typing import NDArray

from ..backend.arrays import Array, is_sparse, is_tensor, namespace, placed
from ..backend.scratch import scratch_array
from ..backend.threads import parallel_ranges, thread_count
from ._protocol import Declaration, Join, P, R, Rows, S, Shape

# Up to _ROW_BLOCK rows are one block; up to _GROWING_BLOCKS blocks are added before they grow, to _MOST_ROWS at most.
_ROW_BLOCK = 8192
_GROWING_BLOCKS = 8
_MOST_ROWS = 2**14
# Numbers of an array worked on together: few enough for the cache, enough for threads not to wait for the interpreter.
_CACHED = 2**17
# Rows of a product of thousands of columns that are worked on together.
_PRODUCT_ROWS = 2**9
# Numbers below which threads would spend more time waiting for the interpreter than they save.
_FEW = 2**19
# A device wants large pieces.
_DEVICE_PIECE = 2**27
# Whether arrays that work declares to set are first filled with garbage, so that tests see when they are read.
POISON = False

Fields = Mapping[str, Any]


class RowArrays:
    """Base class of the dataclasses that name the row arrays of a method, or some consecutive rows of them.

    In work on rows only the declared arrays are there, and those that are only read cannot be written to. Built by hand
    from whole arrays, the same functions run on them as they are.

    Attributes
    ----------
    first : int
        Number of the first row among all samples.
    """

    first: int = 0

    def __len__(self) -> int:
        if "_length" in vars(self):
            return int(vars(self)["_length"])
        array = next(iter(vars(self).values()))
        return int((array[0] if isinstance(array, list) else array).shape[0])

    if not TYPE_CHECKING:  # type checkers know the arrays of every dataclass

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"{type(self).__name__} has no {name!r} here: does the work declare that it uses it?")

    def __setattr__(self, name: str, value: Any) -> None:
        # An array bound to the name here would be lost; `rows.z += …` binds the array itself.
        if "_length" in vars(self) and vars(self).get(name) is not value:
            raise AttributeError(f"{name} would be bound to values that are lost: write {name}[...] = instead")
        super().__setattr__(name, value)

    def room(self, name: Hashable, shape: Shape, like: Array) -> Array:
        """Return an uninitialised array for temporaries, of the type and on the device of `like`.

        Pieces worked on one after the other share it under its name, because fresh memory costs more than the work done
        in it. It must not be returned.
        """
        if is_tensor(like):
            return like.new_empty(shape)
        rooms: dict[Hashable, NDArray[Any]] = vars(self).setdefault("_rooms", {})
        size, room = math.prod(shape), rooms.get(name)
        if room is None or room.size < size or room.dtype != like.dtype:
            room = rooms[name] = np.empty(size, like.dtype)
        return room[:size].reshape(shape)


def declaration_of(work: Callable[..., Any]) -> Declaration:
    """Return what `row_work` has declared."""
    declared = getattr(work, "__row_work__", None)
    if not isinstance(declared, Declaration):
        raise TypeError(f"{work!r} is not marked by row_work: declare the arrays that it reads and writes")
    return declared


def row_blocks(n_rows: int) -> Iterator[slice]:
    """Yield the blocks over which sums over samples run; they depend on the number of rows alone."""
    # Groups of four, which two or four threads share evenly.
    count = min(_GROWING_BLOCKS, 4 * -(-n_rows // (4 * _ROW_BLOCK))) if n_rows > _ROW_BLOCK else 1
    size = min(_MOST_ROWS, -(-n_rows // count))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def pieces(block: slice, size: int) -> Iterator[slice]:
    """Cut a block into pieces of nearly equal size, of at most `size` rows."""
    length = block.stop - block.start
    step = -(-length // -(-length // size))
    for start in range(block.start, block.stop, step):
        yield slice(start, min(start + step, block.stop))


def piece_size(width: int, tensors: bool = False) -> int:
    """Return how many rows of `width` numbers are worked on together."""
    return max(1, (_DEVICE_PIECE if tensors else _CACHED) // max(1, width))


def rows_at_once(declared: Declaration, fields: Fields, width: int) -> int:
    """Return how many rows some work takes at a time, from the width of its arrays and of its temporaries."""
    widths, tensors = [width], False
    for name in declared.names:
        for array in fields[name] if isinstance(fields[name], list) else [fields[name]]:
            n = max(1, array.shape[0])
            widths.append(array.nnz // n if is_sparse(array) else math.prod(array.shape[1:]))
            tensors = tensors or is_tensor(array)
    if declared.products and not tensors:
        return _PRODUCT_ROWS
    return piece_size(max(widths), tensors)


def some_rows(
    declared: Declaration, fields: Fields, rows: slice, first: int = 0, rooms: dict[Hashable, Any] | None = None
) -> Any:
    """Return consecutive rows of the declared arrays as the dataclass of the work; what is only read is read-only."""
    block: Any = object.__new__(declared.schema)
    held = vars(block)
    held.update(first=first + rows.start, _length=rows.stop - rows.start, _rooms={} if rooms is None else rooms)
    for name in declared.names:
        array = fields[name]
        held[name] = [part[rows] for part in array] if isinstance(array, list) else array[rows]
    for name in declared.reads:
        array = held[name]
        held[name] = [_read_only(part) for part in array] if isinstance(array, list) else _read_only(array)
    return block


def _read_only(array: Any) -> Any:
    if isinstance(array, np.ndarray):
        # Arrays from another process may be unaligned, where NumPy multiplies without BLAS: other rounding.
        array = array if array.flags.aligned else array.copy()
        array.flags.writeable = False
    return array


def added(total: Any, more: Any) -> Any:
    """Add a result to a total, which is overwritten; lists entry by entry."""
    if isinstance(more, list):
        return [added(a, b) for a, b in zip(total, more, strict=True)]
    total += more
    return total


def larger(one: Any, other: Any) -> Any:
    """Return the larger of two results, entry by entry if they are lists; NaN wins."""
    if isinstance(other, list):
        return [larger(a, b) for a, b in zip(one, other, strict=True)]
    return one if bool(one >= other) or bool(one != one) else other


def nothing(one: None, other: None) -> None:
    """Join results of work that returns nothing."""


class Reductions(ABC):
    """The usual reductions, for every place that can join results in the order of the rows."""

    @abstractmethod
    def reduce(self, work: Callable[Concatenate[S, P], R], join: Join[R], *small: P.args, **named: P.kwargs) -> R:
        """Join the results of work, in the order of the rows."""

    def each(self, work: Callable[Concatenate[S, P], None], *small: P.args, **named: P.kwargs) -> None:
        """Run row-local work."""
        self.reduce(work, nothing, *small, **named)

    def sum(self, work: Callable[Concatenate[S, P], R], *small: P.args, **named: P.kwargs) -> R:
        """Add up the results of work; lists are added entry by entry."""
        return self.reduce(work, added, *small, **named)

    def sum_later(self, work: Callable[Concatenate[S, P], R], *small: P.args, **named: P.kwargs) -> Callable[[], R]:
        """Return a function that returns the sum."""
        total = self.sum(work, *small, **named)
        return lambda: total

    def max(self, work: Callable[Concatenate[S, P], R], *small: P.args, **named: P.kwargs) -> R:
        """Return the largest result, entry by entry if results are lists; NaN wins."""
        return self.reduce(work, larger, *small, **named)


class InMemory(Reductions):
    """Rows of NumPy arrays, or of PyTorch tensors on one device; implements `Rows`.

    Parameters
    ----------
    like : array of shape (n, ...)
        Its length is the number of rows, its namespace and device are theirs.
    """

    def __init__(self, like: Array) -> None:
        self.tensors = is_tensor(like)
        self.n_rows = int(like.shape[0])
        self._like = like if self.tensors else np.empty(0)
        self._blocks = [slice(0, self.n_rows)] if self.tensors else list(row_blocks(self.n_rows))
        self._fields: dict[str, Any] = {}
        self._width = 1

    def __getitem__(self, name: str) -> Any:
        """Return all rows of an array."""
        return self._fields[name]

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def hold(self, **arrays: Any) -> None:
        """Add arrays of all rows, or lists of them."""
        self._fields.update(arrays)

    def create(
        self, dtype: str = "float64", *, value: float = 0, wide: bool = False, **shapes: Shape | list[Shape]
    ) -> None:
        """Create arrays filled with a value, from their shapes per row; a list of shapes makes a list of arrays."""
        for name, shape in shapes.items():
            if isinstance(shape, list):
                self._fields[name] = [self._filled(part, value, dtype, wide) for part in shape]
            else:
                self._fields[name] = self._filled(shape, value, dtype, wide)

    def _filled(self, shape: Shape, value: float, dtype: str, wide: bool) -> Array:
        shape = self.n_rows, *shape
        if not self.tensors:
            return np.full(shape, value, dtype) if value else np.zeros(shape, dtype)
        xp = namespace(self._like)
        return xp.full(shape, value, dtype=getattr(xp, dtype), device=self._like.device)

    def alias(self, name: str, other: str) -> None:
        """Give an array a second name."""
        self._fields[name] = self._fields[other]

    def drop(self, *names: str) -> None:
        """Free arrays."""
        for name in names:
            self._fields.pop(name, None)

    def place(self, values: NDArray[Any]) -> Array:
        """Put a small NumPy array where the rows are."""
        return placed(values, self._like)

    def wide(self, width: int) -> InMemory:
        """Return the same rows for work with temporaries of `width` numbers per row."""
        other = object.__new__(type(self))
        vars(other).update(vars(self), _width=width)
        return other

    def make(self, name: str, work: Callable[Concatenate[S, P], Any], *small: P.args, **named: P.kwargs) -> None:
        """Create an array from what work returns for all rows."""
        everything: S = some_rows(declaration_of(work), self._fields, slice(0, self.n_rows))
        self._fields[name] = work(everything, *small, **named)

    def reduce(self, work: Callable[Concatenate[S, P], R], join: Join[R], *small: P.args, **named: P.kwargs) -> R:
        """Join the results of work, in the order of the rows."""
        declared = declaration_of(work)
        fields = {name: self._fields[name] for name in declared.names}
        size = rows_at_once(declared, fields, self._width)
        parts = [list(pieces(block, size)) for block in self._blocks]
        reduction = _Reduction(join, [len(of_block) for of_block in parts])
        left = enumerate(itertools.chain.from_iterable(parts))
        if POISON:
            _poison(declared, fields)

        def take_pieces(start: int, stop: int) -> None:
            rooms: dict[Hashable, Any] = {}
            # Every thread takes the next piece, so that few results wait for an earlier one.
            while (task := reduction.next_of(left)) is not None:
                i, piece = task
                block: S = some_rows(declared, fields, piece, rooms=rooms)
                reduction.add(i, work(block, *small, **named))

        if self.tensors:
            versions = _versions(declared, fields)
            take_pieces(0, 1)
            if versions != _versions(declared, fields):
                raise ValueError(f"{work!r} changes an array that it declares only to read")
        elif self.n_rows * _CACHED < _FEW * size:
            take_pieces(0, 1)
        else:
            parallel_ranges(take_pieces, thread_count())
        return reduction.total


def in_memory(rows: Rows) -> InMemory:
    """Return rows of this process as such; refuse rows on a cluster."""
    if not isinstance(rows, InMemory):
        raise TypeError("this needs all rows in memory: bring the views here with .compute() first")
    return rows


class OnDisk(InMemory):
    """Rows of views on disk: whatever else is as wide as the views is in temporary files, too."""

    def _filled(self, shape: Shape, value: float, dtype: str, wide: bool) -> Array:
        if not wide:
            return super()._filled(shape, value, dtype, wide)
        array = scratch_array((self.n_rows, *shape), dtype)
        if value:
            array[...] = value
        return array


def _arrays(declared: Declaration, kind: str, fields: Fields) -> Iterator[Any]:
    for name in getattr(declared, kind):
        yield from fields[name] if isinstance(fields[name], list) else [fields[name]]


def _versions(declared: Declaration, fields: Fields) -> list[int]:
    """Return how often the tensors that are only read were changed in place, as PyTorch counts it."""
    return [array._version for array in _arrays(declared, "reads", fields) if is_tensor(array)]


def _poison(declared: Declaration, fields: Fields) -> None:
    for array in _arrays(declared, "sets", fields):
        array[...] = math.nan if "float" in str(array.dtype) else -1


class _Reduction(Generic[R]):
    """Joins the results of pieces in their order, whenever they come: those of a block first, then those of blocks."""

    def __init__(self, join: Join[R], counts: list[int]) -> None:
        self._join = join
        self._waiting: dict[int, R] = {}
        self._totals: list[R] = []
        self._of_block: list[R] = []
        self._done = 0
        self._ends = set(itertools.accumulate(counts))
        self._lock = threading.Lock()

    @property
    def total(self) -> R:
        """The joined result."""
        return self._totals[0]

    def next_of(self, left: Iterator[tuple[int, slice]]) -> tuple[int, slice] | None:
        with self._lock:
            return next(left, None)

    def add(self, i: int, result: R) -> None:
        with self._lock:
            self._waiting[i] = result
            while self._done in self._waiting:
                self._append(self._of_block, self._waiting.pop(self._done))
                self._done += 1
                if self._done in self._ends:
                    self._append(self._totals, self._of_block.pop())

    def _append(self, total: list[R], more: R) -> None:
        total[:] = [self._join(total[0], more) if total else more]
