"""The named values of a file, whatever its format: what they can be, and how an error message lists them.

A value is an array, a sparse array, a `RowSource`, text, a list (a cell or a struct array), a dict (a struct) or
`Opaque`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from ...backend.arrays import is_sparse
from .._errors import Budget, refuse_if
from ._rows import RowSource

# Characters of an outline, and parts of a cell or struct in it.
_LISTED = 2000
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
    text = "; ".join(f"{name}: {_summary(value)}" for name, value in variables.items()) or "no variables"
    return f"it holds {text if len(text) <= _LISTED else text[:_LISTED] + ' …'}"


def _summary(value: Any) -> str:
    if isinstance(value, list):
        return f"cell of {len(value)} [{', '.join(_summary(part) for part in value[:_LISTED_PARTS])}]"
    if isinstance(value, dict):
        fields = list(value.items())[:_LISTED_PARTS]
        return f"struct {{{', '.join(f'{name}: {_summary(part)}' for name, part in fields)}}}"
    if isinstance(value, str | Opaque):
        return "text" if isinstance(value, str) else value.kind
    return f"{value.shape} {'sparse' if is_sparse(value) else value.dtype}"


def checked_sparse(array: Any, budget: Budget) -> scipy.sparse.csr_array:
    """Return a sparse array as CSR, after checking that every index lies inside its shape.

    SciPy checks this when it makes a COO array; the conversions of CSR and CSC arrays write out of bounds otherwise.
    """
    if array.format != "coo":
        # The full check skips arrays whose last start is 0, and overflows on differences (`test_fuzz_long`).
        refuse_if(np.any(array.indptr[1:] < array.indptr[:-1]), "a sparse array has damaged row or column starts")
        array.check_format(full_check=True)
    budget.take(24 * array.nnz + 8 * sum(array.shape), "a sparse array")
    result = scipy.sparse.csr_array(array)
    result.sum_duplicates()
    return result


def sparse_from_vectors(vectors: list[np.ndarray], shape: Any, kind: str, budget: Budget) -> scipy.sparse.csr_array:
    """Return the CSR array with these data, indices and starts in the given format, ``"csr"`` or ``"csc"``."""
    make = {"csr": scipy.sparse.csr_array, "csc": scipy.sparse.csc_array}[kind]
    n_rows, n_columns = (int(length) for length in np.ravel(shape))
    data, indices, indptr = map(np.ravel, vectors)
    return checked_sparse(make((data, indices, indptr), shape=(n_rows, n_columns), copy=True), budget)
