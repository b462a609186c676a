"""Tables: DataFrames and AnnData objects, whose rows and columns have names."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Table:
    """A matrix with the ids of its rows and the names of its columns."""

    values: Any
    index: NDArray[Any]
    columns: NDArray[np.str_] | None


def is_table(obj: Any) -> bool:
    """Whether the object is a DataFrame or an AnnData object."""
    return is_frame(obj) or (hasattr(obj, "obs_names") and hasattr(obj, "var_names"))


def is_frame(obj: Any) -> bool:
    """Whether the object is a DataFrame."""
    return hasattr(obj, "index") and hasattr(obj, "iloc") and hasattr(obj, "columns")


def as_table(part: Any, name: str) -> Table:
    """Return the values of a DataFrame, or the X of an AnnData object, with the names of rows and columns."""
    if is_frame(part):
        return Table(_frame_values(part), np.asarray(part.index), _column_names(part.columns))
    if part.isbacked:
        part = part.to_memory()
    if part.X is None:
        raise ValueError(f"{name} is an AnnData object without X: pass its blocks, such as obsm['X_pca'], as views")
    return Table(part.X, np.asarray(part.obs_names), _column_names(part.var_names))


def _column_names(columns: Any) -> NDArray[np.str_] | None:
    """Return the names of columns as text; a numbering has no names."""
    if all(isinstance(column, int | np.integer) for column in columns):
        return None
    return np.array([str(column) for column in columns])


def _frame_values(frame: Any) -> Any:
    """Return the values of a DataFrame, its own kind of missing value as NaN."""
    values = frame.values
    if isinstance(values, np.ndarray) and values.dtype.kind == "O":
        try:
            return frame.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            return values
    return values
