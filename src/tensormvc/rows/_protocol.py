"""The protocol of work on rows: mathematics on some samples at a time, without knowing where the samples live.

Whatever a method does with n samples is row-local work plus small sums. It names its arrays, one row per sample, in a
dataclass derived from `RowArrays`. Its updates are functions of some consecutive rows of them, marked by `row_work`
with the arrays that they read and write. `Rows` runs such functions over all rows: in memory, on disk, on a device, on
a cluster.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..backend import Array, is_tensor

S = TypeVar("S", bound="RowArrays")
P = ParamSpec("P")
R = TypeVar("R")
Shape = tuple[int, ...]
Join = Callable[[R, R], R]


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
            return int(self._length)
        array = next(iter(vars(self).values()))
        return int((array[0] if isinstance(array, list) else array).shape[0])

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__} has no {name!r} here: does the work declare that it uses it?")

    def __setattr__(self, name: str, value: Any) -> None:
        # An array bound to the name here would be lost; `rows.z += …` binds the array itself.
        if "_length" in vars(self) and vars(self).get(name) is not value:
            raise AttributeError(f"{name} is bound to other values, which would be lost: write {name}[...] = instead")
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


@dataclass(frozen=True)
class Declaration:
    """What some work does with the row arrays.

    Attributes
    ----------
    schema : subclass of RowArrays
        The dataclass that names the arrays.
    reads, writes, sets : tuple of str
        Arrays that are only read, that are changed, and that are overwritten without being read.
    exact : bool
        Whether results, such as counts, can be joined in any grouping without rounding.
    products : bool
        Whether the result is a product of thousands of columns: large, and fastest over thousands of rows at a time.
    """

    schema: type[RowArrays]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    sets: tuple[str, ...]
    exact: bool
    products: bool

    @property
    def names(self) -> tuple[str, ...]:
        """All arrays that the work uses."""
        return (*self.reads, *self.writes, *self.sets)

    @property
    def changes(self) -> bool:
        """Whether the work changes any array."""
        return bool(self.writes or self.sets)


_DECLARATIONS = "__row_work__"


def row_work(
    reads: str = "", writes: str = "", *, sets: str = "", exact: bool = False, products: bool = False
) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]:
    """Declare which row arrays a function uses; its first parameter is annotated with the dataclass that names them.

    The parameters are those of `Declaration`, arrays as names separated by blanks. A name that the dataclass does not
    have is an error at once; use of an array that is not declared, or a change of one that is only read, is an error
    when the work is run, in memory too.
    """

    def declare(work: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
        parameter = next(iter(inspect.signature(work).parameters.values()))
        schema = parameter.annotation
        if isinstance(schema, str):
            schema = eval(schema, getattr(work, "__globals__", {}))
        declared = Declaration(
            schema, tuple(reads.split()), tuple(writes.split()), tuple(sets.split()), exact, products
        )
        unknown = set(declared.names) - {field.name for field in fields(schema)}
        if unknown:
            raise TypeError(f"{schema.__name__} has no array {sorted(unknown)[0]!r}, which the work declares")
        setattr(work, _DECLARATIONS, declared)
        return work

    return declare


def declaration_of(work: Callable[..., Any]) -> Declaration:
    """Return what `row_work` has declared."""
    declared = getattr(work, _DECLARATIONS, None)
    if not isinstance(declared, Declaration):
        raise TypeError(f"{work!r} is not marked by row_work: declare the arrays that it reads and writes")
    return declared


class Rows(Protocol):
    """Named arrays with one row per sample, wherever they are, and work on them.

    Results are joined in the order of the rows, so that neither threads nor partitions change their rounding.
    """

    @property
    def n_rows(self) -> int:
        """Number of samples."""

    def __contains__(self, name: str) -> bool: ...

    def create(
        self, dtype: str = "float64", *, value: float = 0, wide: bool = False, **shapes: Shape | list[Shape]
    ) -> None:
        """Create arrays filled with a value, from their shapes per row; a list of shapes makes a list of arrays.

        Arrays as `wide` as the views are on disk where these are.
        """

    def alias(self, name: str, other: str) -> None:
        """Give an array a second name, until it is dropped."""

    def drop(self, *names: str) -> None:
        """Free arrays, or forget second names."""

    def place(self, values: NDArray[Any]) -> Array:
        """Put a small NumPy array where the rows are."""

    def wide(self, width: int) -> Rows:
        """Return the same rows for work with temporaries of `width` numbers per row: smaller pieces fit the cache."""

    def each(self, work: Callable[Concatenate[S, P], None], *small: P.args, **named: P.kwargs) -> None:
        """Run row-local work."""

    def sum(self, work: Callable[Concatenate[S, P], R], *small: P.args, **named: P.kwargs) -> R:
        """Add up the results of work; lists are added entry by entry."""

    def sum_later(self, work: Callable[Concatenate[S, P], R], *small: P.args, **named: P.kwargs) -> Callable[[], R]:
        """Return a function that returns the sum; on a cluster the work waits for the next one."""

    def max(self, work: Callable[Concatenate[S, P], R], *small: P.args, **named: P.kwargs) -> R:
        """Return the largest result, entry by entry if results are lists; NaN wins."""

    def reduce(self, work: Callable[Concatenate[S, P], R], join: Join[R], *small: P.args, **named: P.kwargs) -> R:
        """Join the results of work, in the order of the rows."""

    def make(self, name: str, work: Callable[Concatenate[S, P], Any], *small: P.args, **named: P.kwargs) -> None:
        """Create an array that never changes, such as a sparse matrix, from what work returns for many rows."""


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
