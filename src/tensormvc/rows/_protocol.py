"""The protocol of work on rows: mathematics on some samples at a time, without knowing where the samples live.

Whatever a method does with n samples is row-local work plus small sums. It names its arrays, one row per sample, in a
dataclass derived from `RowArrays`. Its updates are functions of some consecutive rows of them, marked by `row_work`
with the arrays that they read and write. `Rows` runs such functions over all rows: in memory, on disk, on a device, on
a cluster.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from numpy.typing import NDArray

from ..backend.arrays import Array

S = TypeVar("S")
P = ParamSpec("P")
R = TypeVar("R")
Shape = tuple[int, ...]
Join = Callable[[R, R], R]


@dataclass(frozen=True)
class Declaration:
    """What some work does with the row arrays.

    Attributes
    ----------
    schema : type
        The dataclass that names the arrays.
    reads, writes, sets : tuple of str
        Arrays that are only read, that are changed, and that are overwritten without being read.
    names : tuple of str
        All of them.
    exact : bool
        Whether results, such as counts, can be joined in any grouping without rounding.
    products : bool
        Whether the result is a product of thousands of columns: large, and fastest over hundreds of rows at a time.
    """

    schema: type
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    sets: tuple[str, ...]
    names: tuple[str, ...]
    exact: bool
    products: bool


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
        kinds = tuple(reads.split()), tuple(writes.split()), tuple(sets.split())
        declared = Declaration(schema, *kinds, sum(kinds, ()), exact, products)
        unknown = set(declared.names) - {field.name for field in fields(schema)}
        if unknown:
            raise TypeError(f"{schema.__name__} has no array {sorted(unknown)[0]!r}, which the work declares")
        work.__row_work__ = declared  # type: ignore[attr-defined]
        return work

    return declare


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
