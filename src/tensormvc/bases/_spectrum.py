"""Signs of eigenvectors, and rotations where eigenvalues are repeated, determined from the data.

An eigenvector is unique up to its sign, and up to a rotation within the eigenspace where its eigenvalue is repeated;
which one an eigensolver returns is an accident of rounding. Here the first vector of an eigenspace is the projection of
the first probe onto it, the second that of the second probe onto the complement of the first vector, and so on. The
probes are smooth functions of the samples' values (`Views.probes`), so that the result depends on the eigenspace and
the data alone.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..backend.arrays import Array, on_host, placed

# Eigenvalues (of matrices of norm about 1) nearer than this count as repeated: the error of an eigenvector is rounding
# divided by the gap to the next eigenvalue.
REPEATED = 1e-6
# The sign of a simple eigenvector is decided by the first of these probes that is not nearly orthogonal to it.
N_SIGN_PROBES = 8
_NOT_ORTHOGONAL = 1e-3


def eigenvalue_groups(values: NDArray[np.float64], tol: float = REPEATED) -> list[slice]:
    """Return the runs of sorted eigenvalues whose neighbours differ by less than `tol`."""
    edges = np.flatnonzero(np.abs(np.diff(values)) >= tol) + 1
    return [slice(int(a), int(b)) for a, b in pairwise([0, *edges, len(values)]) if a < b]


def end_of_group(values: NDArray[np.float64], k: int) -> int:
    """Return the smallest number of eigenvalues, at least k, that does not split a repeated one."""
    return int(next(group.stop for group in eigenvalue_groups(values) if group.stop >= k))


def settle(values: NDArray[np.float64], vectors: Array, project: Callable[[int], Array]) -> None:
    """Determine the signs and rotations of eigenvectors, in place.

    Parameters
    ----------
    values : ndarray of shape (r,)
        Eigenvalues, sorted.
    vectors : array of shape (p, r), on any device
        The eigenvectors, or coefficients that represent them.
    project : function of an int
        Returns the inner products of the eigenvectors with the first `count` probes, (r, count).
    """
    if len(values) == 0:
        return
    repeated = [group for group in eigenvalue_groups(values) if group.stop - group.start > 1]
    inner = on_host(project(max([N_SIGN_PROBES, *(group.stop - group.start for group in repeated)])))
    candidates = inner[:, :N_SIGN_PROBES]
    sizes = np.abs(candidates)
    deciding = np.argmax(sizes >= _NOT_ORTHOGONAL * np.max(sizes, axis=1, keepdims=True), axis=1)
    signs = np.where(candidates[np.arange(len(values)), deciding] < 0, -1.0, 1.0)
    for group in repeated:
        vectors[:, group] = vectors[:, group] @ placed(successive_projections(inner[group]), vectors)
        signs[group] = 1
    vectors *= placed(signs, vectors)


def successive_projections(inner: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rotation of an eigenspace after which probe i is orthogonal to all vectors beyond the i-th.

    Parameters
    ----------
    inner : ndarray of shape (r, at least r)
        Inner products of the r vectors with the probes.
    """
    rotation, triangle = np.linalg.qr(inner[:, : len(inner)])
    return np.asarray(rotation * np.where(np.diag(triangle) < 0, -1.0, 1.0))
