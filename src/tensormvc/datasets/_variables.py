"""The named values that a file holds, whatever its format, and how an error lists them.

A value is a NumPy array, a sparse array, a `RowSource`, text, a list (a cell or a struct array), a dict (a struct) or
`Opaque`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backend import is_sparse
from ._lazy import RowSource

_LISTED = 30


@dataclass(frozen=True)
class Opaque:
    """A value that is there and cannot be used: a complex array, a function, an object."""

    kind: str


def is_matrix(value: Any) -> bool:
    """Whether the value can be a view: two dimensions, real numbers, more than one of them."""
    if isinstance(value, np.ndarray):
        return value.ndim == 2 and value.size > 1 and value.dtype.kind in "biuf"
    if isinstance(value, RowSource):
        return value.shape[0] * value.shape[1] > 1
    return is_sparse(value) and len(value.shape) == 2 and value.shape[0] * value.shape[1] > 1


def text_lines(characters: str, shape: tuple[int, ...]) -> str | list[str]:
    """Return a MATLAB text matrix, given column by column, as its lines."""
    n_rows, n_columns = shape
    if n_rows <= 1:
        return characters
    return ["".join(characters[row + n_rows * column] for column in range(n_columns)).rstrip() for row in range(n_rows)]


def outline(variables: dict[str, Any]) -> str:
    """Return one line that names the variables with their shapes and types."""
    if not variables:
        return "it holds no variables"
    shown = [f"{name}: {_summary(value)}" for name, value in list(variables.items())[:_LISTED]]
    if len(variables) > _LISTED:
        shown.append(f"and {len(variables) - _LISTED} more")
    return "it holds " + "; ".join(shown)


def _summary(value: Any, depth: int = 0) -> str:
    if isinstance(value, np.ndarray | RowSource):
        return f"{value.shape} {value.dtype}"
    if is_sparse(value):
        return f"{value.shape} sparse"
    if isinstance(value, str):
        return "text"
    if isinstance(value, Opaque):
        return value.kind
    if isinstance(value, list):
        parts = [_summary(part, depth + 1) for part in value[:8]] if depth < 2 else []
        return f"cell of {len(value)} [{', '.join(parts)}{', …' if len(value) > len(parts) else ''}]"
    if isinstance(value, dict):
        parts = [f"{name}: {_summary(part, depth + 1)}" for name, part in list(value.items())[:8]] if depth < 2 else []
        return f"struct {{{', '.join(parts)}{', …' if len(value) > len(parts) else ''}}}"
    return type(value).__name__
