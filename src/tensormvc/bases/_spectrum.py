"""Signs and rotations that an eigensolver leaves open, decided from the data.

Eigenvectors are unique up to sign, and up to a rotation where an eigenvalue is repeated; an eigensolver settles both
by accident. Here they are settled by successive projections: the first vector of an eigenspace is the projection of the
first probe onto it, the second that of the second probe onto what is left, and so on. The probes are functions of the
samples' values (`Views.probes`), so that the result depends on the eigenspace and the data alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..backend.arrays import Array, on_host, placed

# Eigenvalues (of matrices of norm about 1) nearer than this count as one: an eigensolver cannot separate their
# vectors to better than its rounding divided by the gap.
REPEATED = 1e-6
# Probes that decide the sign of a simple eigenvector: the first that is not orthogonal to it, for practical purposes.
N_SIGN_PROBES = 8
_NOT_ORTHOGONAL = 1e-3


def eigenvalue_groups(values: NDArray[np.float64], tol: float = REPEATED) -> list[slice]:
    """Return the runs of sorted eigenvalues whose neighbours differ by less than `tol`."""
    if len(values) == 0:
        return []
    starts = np.flatnonzero(np.concatenate([[True], np.abs(np.diff(values)) >= tol]))
    stops = np.append(starts[1:], len(values))
    return [slice(int(a), int(b)) for a, b in zip(starts, stops, strict=True)]


def settle(values: NDArray[np.float64], vectors: Array, project: Callable[[int], Array]) -> None:
    """Settle signs and rotations of eigenvectors in place.

    Parameters
    ----------
    values : ndarray of shape (r,)
        Eigenvalues, sorted.
    vectors : array of shape (p, r)
        On any device. What is rotated: the eigenvectors, or coefficients that stand for them.
    project : function of an int
        Inner products of the eigenvectors with the first `count` probes, (r, count).
    """
    if len(values) == 0:
        return
    repeated = [group for group in eigenvalue_groups(values) if group.stop - group.start > 1]
    inner = on_host(project(max([N_SIGN_PROBES, *(group.stop - group.start for group in repeated)])))
    few = inner[:, :N_SIGN_PROBES]
    first = np.argmax(np.abs(few) >= _NOT_ORTHOGONAL * np.max(np.abs(few), axis=1, keepdims=True), axis=1)
    signs = np.where(few[np.arange(len(values)), first] < 0, -1.0, 1.0)
    for group in repeated:
        vectors[:, group] = vectors[:, group] @ placed(successive_projections(inner[group]), vectors)
        signs[group] = 1
    vectors *= placed(signs, vectors)


def successive_projections(inner: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rotation of an eigenspace under which probe i has no part in vectors after the i-th.

    Parameters
    ----------
    inner : ndarray of shape (r, at least r)
        Inner products of the r vectors with the probes.
    """
    rotation, triangle = np.linalg.qr(inner[:, : len(inner)])
    return np.asarray(rotation * np.where(np.diag(triangle) < 0, -1.0, 1.0))
