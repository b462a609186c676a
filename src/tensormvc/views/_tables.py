"""Tables: DataFrames and AnnData objects, whose rows and columns have names; categories become zeros and ones."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

# The categories of each categorical column of a table; columns that are not here are numbers.
Categories = Mapping[str, Sequence[str]]

# Text of more different values is taken for ids or free text, unless the column is declared as categorical.
_MOST_CATEGORIES = 50


@dataclass(frozen=True)
class Table:
    """A matrix with the ids of its rows, the names of its columns, and the categories that columns stand for."""

    values: Any
    index: NDArray[Any]
    columns: NDArray[np.str_] | None
    categories: Categories = field(default_factory=dict)


def as_table(part: Any, name: str, *, encode: bool = False, categories: Categories | None = None) -> Table:
    """Return the values of a DataFrame, or the X of an AnnData object, with the names of rows and columns.

    With `encode`, categorical columns of a DataFrame are encoded.
    """
    if not hasattr(part, "obs_names"):
        index = np.asarray(part.index)
        if encode:
            values, columns, categories = encode_table(part, categories, name=name)
            return Table(values, index, columns, categories)
        return Table(_numbers(part, name), index, _column_names(part.columns))
    if part.isbacked:
        part = part.to_memory()
    if part.X is None:
        raise ValueError(f"{name} is an AnnData object without X: pass its blocks, such as obsm['X_pca'], as views")
    return Table(part.X, np.asarray(part.obs_names), _column_names(part.var_names))


def encode_table(
    frame: Any, categories: Categories | None = None, *, name: str = "the table"
) -> tuple[Any, NDArray[np.str_] | None, Categories]:
    """Return a DataFrame as a matrix of numbers, with one column of zeros and ones per category.

    Categorical are columns of the type category, and columns of text with at most 50 different values; in both, at most
    half of the values may be different, since more are ids or free text, which is an error. Columns of numbers and of
    booleans come first, as they are. A missing category is NaN in all its columns.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table.
    categories : mapping of str to sequence of str, optional
        The categories of each categorical column, as a call on another table of the same columns returned them; a value
        that is none of them is zero in all columns. By default, the values in the table, in the order of their text.
    name : str
        What errors call the table.

    Returns
    -------
    values : ndarray of shape (n_samples, n_features)
        The numbers.
    names : ndarray of str of shape (n_features,), or None
        Names of the columns, ``column=category`` for a category; None if the columns are only numbered.
    categories : mapping of str to sequence of str
        The categories of each categorical column.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"colour": ["red", "blue", None, "red", "blue"], "size": [1, 2, 3, 4, 5]})
    >>> values, names, categories = encode_table(frame)
    >>> names.tolist(), dict(categories)
    (['size', 'colour=blue', 'colour=red'], {'colour': ['blue', 'red']})
    >>> values[:3].tolist()
    [[1.0, 0.0, 1.0], [2.0, 1.0, 0.0], [3.0, nan, nan]]
    """
    columns = [str(column) for column in frame.columns]
    if categories is None:
        others = [j for j, dtype in enumerate(frame.dtypes) if getattr(dtype, "kind", "O") not in "biuf"]
        found = {columns[j]: _categories(frame.iloc[:, j], f"{name}: column {columns[j]!r}") for j in others}
        categories = {column: values for column, values in found.items() if values is not None}
    if lacking := [column for column in categories if columns.count(column) != 1]:
        raise ValueError(f"{name} needs exactly one column {lacking[0]!r}; it has the columns {', '.join(columns)}")
    if not categories:
        return _numbers(frame, name), _column_names(frame.columns), {}
    numbers = frame.iloc[:, [j for j, column in enumerate(columns) if column not in categories]]
    blocks, names = [_numbers(numbers, name)], [str(column) for column in numbers.columns]
    for column, values in categories.items():
        given = frame.iloc[:, columns.index(column)].astype(object)
        blocks.append(indicators(given.where(given.notna(), None).tolist(), values))
        names += [f"{column}={value}" for value in values]
    return np.hstack(blocks), np.array(names), categories


def _categories(column: Any, name: str) -> list[str] | None:
    """Return the different values of a categorical column as text, sorted; None for numbers and booleans."""
    declared = str(column.dtype) == "category"
    values = column.dropna().tolist()
    if not declared and all(isinstance(value, Real | np.bool_) for value in values):
        return None
    if other := [type(value).__name__ for value in values if not declared and not isinstance(value, str)]:
        raise TypeError(f"{name} holds {other[0]} objects, which are neither numbers nor text: convert or drop it")
    remedy = "drop it, or set it as the index if it holds the sample ids"
    return categories_of(values, len(values), name, remedy, None if declared else "convert it with astype('category')")


def categories_of(values: Iterable[Any], n_values: int, name: str, remedy: str, declare: str | None) -> list[str]:
    """Return the different values of a categorical column as text, sorted; refuse ids and free text.

    Parameters
    ----------
    values : iterable
        All values that occur, as often as is convenient.
    n_values : int
        Number of samples that have a value.
    name : str
        What errors call the column.
    remedy : str
        What to do with ids and free text.
    declare : str or None
        How to declare the column as categorical; None if it is, and may have more than 50 different values.
    """
    found = sorted(set(map(_text, values)))
    mostly_different = 2 * len(found) > n_values
    if mostly_different or (len(found) > _MOST_CATEGORIES and declare):
        otherwise = "" if mostly_different else f"; {declare} if these are categories"
        seen = f"{name} has {len(found)} different values in {n_values} samples"
        raise ValueError(f"{seen}, like ids or free text: {remedy}{otherwise}")
    return found


def indicators(values: Sequence[Any], categories: Sequence[str]) -> NDArray[np.float64]:
    """Return a column of zeros and ones for each category, NaN where the value is None."""
    text = np.array([_text(value) for value in values])
    found: NDArray[np.float64] = (text[:, None] == np.array(categories, dtype=str)).astype(np.float64)
    found[[value is None for value in values]] = np.nan
    return found


def _text(value: Any) -> str:
    """Return a category as text; whole numbers alike, which one missing value turns into floating-point numbers."""
    return str(int(value) if isinstance(value, float) and value.is_integer() else value)


def _column_names(columns: Any) -> NDArray[np.str_] | None:
    """Return the names of columns as text; a numbering has no names."""
    if all(isinstance(column, int | np.integer) for column in columns):
        return None
    return np.array([str(column) for column in columns])


def _numbers(frame: Any, name: str) -> Any:
    """Return the values of a DataFrame of numbers, its own kind of missing value as NaN."""
    values = frame.values
    if not (isinstance(values, np.ndarray) and values.dtype.kind == "O"):
        return values
    try:
        # Their kinds of missing values may be among objects.
        return frame.astype(object).where(frame.notna(), np.nan).to_numpy(dtype=np.float64)
    except (TypeError, ValueError):
        for column, part in frame.items():
            if len(held := [value for value in part.dropna().tolist() if not isinstance(value, Real | np.bool_)]):
                kind = "text" if isinstance(held[0], str) else f"{type(held[0]).__name__} objects"
                raise TypeError(
                    f"{name}: column {str(column)!r} holds {kind}, not numbers: drop it, or encode it; "
                    "MultiViewClustering encodes the categorical columns of the tables that it is fitted to"
                ) from None
        raise
