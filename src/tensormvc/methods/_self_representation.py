"""Self-representation: each view explains its samples by each other, X_vᵀ = X_vᵀ Z_v + E_v.

Shared by t-SVD-MVC and TLSpNM. The n × n tensor of all Z_v is made low-rank under a basis.

Everything of view v that has d_v rows lives in the span of its samples, so it is kept in the coordinates of the
r = min(d_v, n) singular vectors of X_v: with K_v = X_v X_vᵀ = V diag(λ) Vᵀ the samples are Λ^{1/2} Vᵀ, r × n, and
(I + (μ/ρ) K_v)^{-1} is diagonal on the span and the identity beside it. A round costs two n × r × n products a view and
the transform.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from .._ops import is_sparse
from .._views import as_float64
from ..shrinkage import low_rank_shrink
from ._admm import Step


class SelfRepresentation:
    """The state of the loop, and one round of it.

    Parameters
    ----------
    parts : list of arrays (n, d_v)
        Views at unit length.
    basis : fitted basis
        Transform of the tensor (n, n, m).
    penalty : penalty
        On the singular values of its slices.
    lam : float
        Weight of the error E.
    stacked : bool
        Whether a sample's error has one length over all views (t-SVD-MVC), or one in each (TLSpNM).
    """

    def __init__(self, parts: list[Any], basis: Any, penalty: Any, lam: float, *, stacked: bool) -> None:
        self.basis, self.penalty, self.lam, self.stacked = basis, penalty, lam, stacked
        self.roots: list[NDArray[np.float64]] = []
        self.vectors: list[NDArray[np.float64]] = []  # Vᵀ
        for part in parts:
            root, vectors = _singular_coordinates(part)
            self.roots.append(root)
            self.vectors.append(vectors)
        n, m = parts[0].shape[0], len(parts)
        self.representation = np.zeros((n, n, m))
        self.low_rank = np.zeros((n, n, m))  # G
        self.multiplier = np.zeros((n, n, m))  # W
        # F = residual + Y/μ holds both: E = share · F and Y = μ (1 − share) F, column by column.
        self.error_multiplier = [np.zeros((len(root), n)) for root in self.roots]  # Y
        self.error = [np.zeros((len(root), n)) for root in self.roots]  # E
        self._work: Any = None
        # Fresh memory costs more than what is done with it.
        self._room = np.empty((n, n)), np.empty((n, n))
        widest = max(map(len, self.roots))
        self._coordinates = np.empty((widest, n)), np.empty((widest, n))

    def step(self, penalties: dict[str, float]) -> Step:
        """Do one round."""
        mu = penalties["mu"]
        rho = penalties.get("rho", mu)
        m = len(self.roots)
        for v in range(m):
            self._update_representation(v, mu, rho)
        misfit = self._update_error(mu)
        shifted = self.multiplier
        shifted /= rho
        shifted += self.representation
        self.low_rank, self._work = shrink(shifted, self.basis, self.penalty, 1 / rho, self.low_rank, self._work)
        # W ← W + ρ(Z − G), and W/ρ + Z is at hand.
        shifted -= self.low_rank
        shifted *= rho
        gap = max(self._largest_gap(v) for v in range(m))
        return Step({"reconstruction": misfit, "consensus": gap}, stop=max(misfit, gap))

    def _update_representation(self, v: int, mu: float, rho: float) -> None:
        """Update Z of a view; its error becomes the residual, until the errors are split off."""
        root, vectors, error = self.roots[v][:, None], self.vectors[v], self.error[v]
        target, moved = self._room
        np.divide(self.multiplier[:, :, v], -rho, out=target)
        target += self.low_rank[:, :, v]
        old, new = self._coordinates[0][: len(root)], self._coordinates[1][: len(root)]
        np.matmul(vectors, target, out=old)
        error *= -mu
        error += self.error_multiplier[v]
        error *= root / rho
        np.multiply(vectors, mu / rho * root**2, out=new)
        new += error
        new += old
        new /= 1 + mu / rho * root**2
        np.subtract(new, old, out=old)
        target += np.matmul(vectors.T, old, out=moved)
        self.representation[:, :, v] = target
        np.subtract(vectors, new, out=error)
        error *= root

    def _update_error(self, mu: float) -> float:
        """Split residual + Y/μ into the error and the multiplier; return the largest column of what is left over."""
        lengths = []
        for v, residual in enumerate(self.error):
            self.error_multiplier[v] /= mu
            self.error_multiplier[v] += residual
            lengths.append(np.einsum("ij,ij->j", self.error_multiplier[v], self.error_multiplier[v]))
        if self.stacked:
            lengths = [np.sum(lengths, axis=0)] * len(lengths)
        worst = 0.0
        for v, residual in enumerate(self.error):
            length = np.sqrt(lengths[v])
            share = np.maximum(0, 1 - self.lam / mu / np.where(length > 0, length, 1))
            error = np.multiply(self.error_multiplier[v], share, out=self._room[0][: len(residual)])
            residual -= error
            worst = max(worst, float(np.einsum("ij,ij->j", residual, residual).max()))
            self.error_multiplier[v] *= mu * (1 - share)
            residual[...] = error
        return math.sqrt(worst)

    def _largest_gap(self, v: int) -> float:
        """Return the largest row sum of |Z − G| of a view."""
        gap = np.subtract(self.representation[:, :, v], self.low_rank[:, :, v], out=self._room[0])
        return float(np.abs(gap, out=gap).sum(axis=1).max())

    def affinity(self) -> NDArray[np.float64]:
        """Return Σ_v |Z_v| + |Z_v|ᵀ."""
        total = np.abs(self.representation).sum(axis=2)
        return np.asarray(total + total.T)


def shrink(tensor: Any, basis: Any, penalty: Any, threshold: float, out: Any, work: Any) -> tuple[Any, Any]:
    """Shrink into `out`; return it and the room for the slices, to be handed back next time."""
    if work is None:
        work = basis.forward(tensor)
    return low_rank_shrink(tensor, basis, penalty, threshold, out=out, work=work), work


def _singular_coordinates(part: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the singular values of a view, min(d, n) of them, and the left singular vectors as rows."""
    part = as_float64(part)
    gram = part @ part.T
    n, r = part.shape[0], min(part.shape)
    dense = gram.toarray() if is_sparse(gram) else gram
    values, vectors = eigh(dense, subset_by_index=[n - r, n - 1], overwrite_a=True, check_finite=False)
    return np.sqrt(np.maximum(values[::-1], 0)), np.ascontiguousarray(vectors[:, ::-1].T)
