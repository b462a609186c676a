"""Views whose samples have ids, brought into one order."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...views import Join, join_ids
from ...views import take_rows as take_or_fill
from .._errors import LayoutError
from ._rows import RowSource

_REMEDIES: dict[Join | None, str] = {
    None: "pass join='inner' to keep the common ones, or join='outer' to keep all, with NaN for missing ones",
    "auto": "the ids are probably in another column: pass on=NAME to name it, or join='outer' to join the views anyway",
    "inner": "pass on=NAME if another column holds the ids",
    "outer": "",
}


def align(
    names: Sequence[str], ids: Sequence[np.ndarray], join: Join | None
) -> tuple[np.ndarray, list[np.ndarray | None]]:
    """Return the common ids and, for each part, the rows that bring it into their order.

    A row number of -1 marks a missing sample; None stands for rows that are in order already. The order is that of the
    first part; with an outer join, the samples that it lacks follow.
    """
    if join not in _REMEDIES:
        raise ValueError(f"join must be 'inner', 'outer' or 'auto', got {join!r}")
    # Ids are compared as integers if all parts have integers, else as text.
    kind = np.int64 if all(part.dtype.kind in "iu" for part in ids) else str
    try:
        return join_ids(names, [part.astype(kind) for part in ids], join, _REMEDIES[join])
    except ValueError as error:
        raise LayoutError(str(error)) from None


def take_rows(view: Any, rows: np.ndarray | None) -> Any:
    """Return these rows of a view; -1 stands for a row of NaN."""
    if isinstance(view, RowSource) and rows is not None:
        if rows.min() >= 0:
            return view.take(rows)
        view = np.asarray(view)
    return take_or_fill(view, rows, np.nan)


def absent_rows(names: Sequence[str], rows: Sequence[np.ndarray | None]) -> dict[str, int]:
    """Return how many samples each view lacks, for those that lack some."""
    counts = (0 if picked is None else int(np.sum(picked < 0)) for picked in rows)
    return {name: count for name, count in zip(names, counts, strict=True) if count}
