"""Views whose samples have ids, brought into one order."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...backend.arrays import is_sparse
from .._dataset import Join
from .._errors import DataError, LayoutError, refuse_if
from ._rows import RowSource


def align(
    names: Sequence[str], ids: Sequence[np.ndarray], join: Join | None
) -> tuple[np.ndarray, list[np.ndarray | None]]:
    """Return the common ids and, for each part, the rows that bring it into their order.

    A row number of -1 marks a missing sample; None stands for rows that are in order already. The order is that of the
    first part; with an outer join, the samples that it lacks follow.
    """
    if join not in (None, "inner", "outer"):
        raise ValueError(f"join must be 'inner' or 'outer', got {join!r}")
    # Ids are compared as integers if all parts have integers, else as text.
    kind = np.int64 if all(part.dtype.kind in "iu" for part in ids) else str
    ids = [part.astype(kind) for part in ids]
    for name, part in zip(names, ids, strict=True):
        values, counts = np.unique(part, return_counts=True)
        if np.any(counts > 1):
            raise DataError(f"{name} has the sample id {str(values[counts > 1][0])!r} more than once")
    common = ids[0]
    for name, part in zip(names[1:], ids[1:], strict=True):
        missing, extra = common[~np.isin(common, part)], part[~np.isin(part, common)]
        if join is None and (len(missing) or len(extra)):
            difference = f"{len(missing)} are only in the first and {len(extra)} only in the second"
            remedy = "pass join='inner' to keep the common ones, or join='outer' to keep all, with NaN for missing ones"
            raise LayoutError(f"{names[0]} and {name} do not have the same samples: {difference}; {remedy}")
        common = np.concatenate([common, extra]) if join == "outer" else common[np.isin(common, part)]
    refuse_if(not len(common), f"{' and '.join(names)} have no sample in common")
    rows = []
    for part in ids:
        order = np.argsort(part)
        places = np.minimum(np.searchsorted(part, common, sorter=order), len(part) - 1)
        numbers = np.where(part[order[places]] == common, order[places], -1)
        rows.append(None if np.array_equal(numbers, np.arange(len(part))) else numbers)
    return common, rows


def take_rows(view: Any, rows: np.ndarray | None) -> Any:
    """Return these rows of a view; -1 stands for a row of NaN."""
    if rows is None:
        return view
    missing = rows < 0
    if not missing.any():
        return view.take(rows) if isinstance(view, RowSource) else view[rows]
    view = view.toarray() if is_sparse(view) else np.asarray(view)
    result = view[rows].astype(np.result_type(view.dtype, np.float32), copy=False)
    result[missing] = np.nan
    return result
