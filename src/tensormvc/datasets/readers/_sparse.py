"""Sparse arrays from the vectors that a file stores."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from .._errors import Budget, DataError


def checked_sparse(array: Any, budget: Budget) -> scipy.sparse.csr_array:
    """Return a sparse array as CSR, after checking that every index lies inside its shape.

    SciPy checks this when it makes a COO array; the conversions of CSR and CSC arrays write out of bounds otherwise.
    """
    if array.format != "coo":
        # The full check skips arrays whose last start is 0, and overflows on differences (`test_fuzz_long`).
        if np.any(array.indptr[1:] < array.indptr[:-1]):
            raise DataError("a sparse array has damaged row or column starts")
        array.check_format(full_check=True)
    budget.take(24 * array.nnz + 8 * sum(array.shape), "a sparse array")
    result = scipy.sparse.csr_array(array)
    result.sum_duplicates()
    return result


def sparse_from_vectors(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: Any, kind: str, budget: Budget
) -> scipy.sparse.csr_array:
    """Return the CSR array with these vectors in the given format, ``"csr"`` or ``"csc"``."""
    make = {"csr": scipy.sparse.csr_array, "csc": scipy.sparse.csc_array}[kind]
    n_rows, n_columns = (int(length) for length in np.ravel(shape))
    vectors = (np.ravel(data), np.ravel(indices), np.ravel(indptr))
    return checked_sparse(make(vectors, shape=(n_rows, n_columns), copy=True), budget)
