"""The named values of a file, whatever its format, and how an error message lists them.

A value is an array, a sparse array, a `RowSource`, text, a list (a cell or a struct array), a dict (a struct) or
`Opaque`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...backend import is_sparse
from ._rows import RowSource

_LISTED = 30
_LISTED_PARTS = 8


@dataclass(frozen=True)
class Opaque:
    """A value that cannot be used: a complex array, a function, an object."""

    kind: str


def is_matrix(value: Any) -> bool:
    """Whether the value can be a view: two dimensions, real numbers, more than one of them."""
    if isinstance(value, np.ndarray) and value.dtype.kind not in "biuf":
        return False
    is_array = isinstance(value, np.ndarray | RowSource) or is_sparse(value)
    return is_array and len(value.shape) == 2 and value.shape[0] * value.shape[1] > 1


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
    if isinstance(value, Opaque):
        return value.kind
    if not isinstance(value, list | dict):
        return "text"
    if isinstance(value, list):
        parts, begin, end = (
            [_summary(part, depth + 1) for part in value[:_LISTED_PARTS]],
            f"cell of {len(value)} [",
            "]",
        )
    else:
        items = list(value.items())[:_LISTED_PARTS]
        parts, begin, end = [f"{name}: {_summary(part, depth + 1)}" for name, part in items], "struct {", "}"
    if depth >= 2:
        parts = []
    return f"{begin}{', '.join(parts)}{', …' if len(value) > len(parts) else ''}{end}"
