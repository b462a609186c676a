"""Tables with sample ids: which rows belong to one sample, and which samples a table lacks."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..backend.arrays import is_sparse

Join = Literal["inner", "outer", "auto"]
Rows = NDArray[np.intp] | None

# A table that shares a smaller part of its ids with every other table is joined on the wrong column.
_LEAST_SHARED = 0.1


def join_ids(
    names: Sequence[str], ids: Sequence[NDArray[Any]], how: Join | None, remedy: str
) -> tuple[NDArray[Any], list[Rows]]:
    """Return the ids of the joined samples and, for each table, the rows that bring it into their order.

    Parameters
    ----------
    names : sequence of str
        Names of the tables.
    ids : sequence of arrays
        Ids of their samples.
    how : {"inner", "outer", "auto"} or None
        Keep the samples that all tables have, in the order of the first, or all samples, in the order in which they
        appear first; "auto" is "outer" unless the tables are unrelated, which is an error; None refuses tables that do
        not have the same samples.
    remedy : str
        What to do against the error that `how` allows.

    Returns
    -------
    ids : ndarray
        Ids of the joined samples.
    rows : list of arrays or None
        Row numbers, -1 for a sample that the table lacks; None for rows that are in order already.
    """
    rows_of = [_rows_by_id(name, part) for name, part in zip(names, ids, strict=True)]
    for name, own in zip(names, rows_of, strict=True):
        if how is None and own.keys() != rows_of[0].keys():
            raise ValueError(
                f"{names[0]} and {name} do not have the same samples: {_only_in(rows_of[0], own)} only in the first, "
                f"{_only_in(own, rows_of[0])} only in the second; {remedy}"
            )
    if how == "auto":
        _refuse_unrelated(names, rows_of, remedy)
    kept = dict.fromkeys(chain.from_iterable(rows_of))
    if how == "inner":
        kept = dict.fromkeys(label for label in kept if all(label in own for own in rows_of))
        if not kept:
            raise ValueError(f"{' and '.join(names)} have no sample in common: {remedy}")
    common = np.fromiter(kept, dtype=object)
    if len({part.dtype.kind for part in ids}) == 1:
        common = common.astype(np.result_type(*ids))
    rows = [np.fromiter((own.get(label, -1) for label in kept), dtype=np.intp) for own in rows_of]
    return common, [
        None if np.array_equal(picked, np.arange(len(own))) else picked
        for picked, own in zip(rows, rows_of, strict=True)
    ]


def _rows_by_id(name: str, ids: NDArray[Any]) -> dict[Any, int]:
    labels = ids.tolist()
    rows = {label: row for row, label in enumerate(labels)}
    if any(label is None or label != label for label in rows):
        raise ValueError(f"{name} has samples without an id: fill in the empty ids, or drop these samples")
    if len(rows) < len(labels):
        twice = next(label for row, label in enumerate(labels) if rows[label] != row)
        raise ValueError(f"{name} has the sample id {twice!r} more than once: ids must be unique to match the samples")
    return rows


def _only_in(own: dict[Any, int], other: dict[Any, int]) -> str:
    labels = [label for label in own if label not in other]
    return f"{len(labels)} (such as {labels[0]!r}) are" if labels else "none is"


def _refuse_unrelated(names: Sequence[str], rows_of: list[dict[Any, int]], remedy: str) -> None:
    for name, own in zip(names, rows_of, strict=True):
        others = [other for other in rows_of if other is not own and other and own]
        # Of the smaller table: a few samples may have an assay that most of the others lack.
        shared = [len(own.keys() & other.keys()) / min(len(own), len(other)) for other in others]
        if shared and max(shared) < _LEAST_SHARED:
            raise ValueError(
                f"{name} shares fewer than a tenth of its sample ids with any other view: its ids are such as "
                f"{next(iter(own))!r}, those of other views such as {next(iter(others[0]))!r}; {remedy}"
            )


def take_rows(view: Any, rows: Rows, fill: float) -> Any:
    """Return these rows of a dense or sparse matrix; -1 stands for a row of `fill`."""
    if rows is None or rows.min() >= 0:
        return view if rows is None else view[rows]
    filler = np.full((1, view.shape[1]), fill, dtype=np.result_type(view.dtype, np.float32))
    # Index -1 is the last row.
    if is_sparse(view):
        return sp.vstack([sp.csr_array(view), sp.csr_array(filler)], format="csr")[rows]
    return np.vstack([view, filler])[rows]
