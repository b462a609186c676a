"""Representation by orthonormal anchors, X_v = Z_v A_v + E_v: what ASR-ETR and ESTMC share.

Z_v is n × l, A_v is l × d_v with orthonormal rows (for l > d_v: orthonormal columns, the surplus rows zero). The
n × l × m tensor of all Z_v is made low-rank under a basis. Rows meet only in the transform and in the l × d_v products
that update the anchors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from .._executors import InMemory
from .._ops import is_sparse
from .._views import Views, as_float64
from ..bases._spectrum import settle
from ._admm import Step
from ._self_representation import shrink

# Singular values of the representation below this share of the largest are residual, not representation: the penalty
# keeps a direction whole or removes it, and single precision leaves about 1e-4.
_NEGLIGIBLE = 1e-3


class AnchorRepresentation:
    """The state of the loop, and one round of it.

    E and Y are multiples of one matrix, row by row, so that only Y (n × d_v) is kept, with E = `error_factor`·Y.

    Parameters
    ----------
    parts : list of arrays (n, d_v)
        Views at unit length, dense or CSR.
    basis : fitted basis
        Transform of the tensor (n, l, m).
    penalty : penalty
        On the singular values of its slices.
    alpha : float
        Weight of the error E.
    ridge : float
        Weight 2γ of ‖Z‖²/2: the anchor regulariser on orthonormal anchors is nothing else.
    anchors : list of arrays (l, d_v)
        Where the anchors start.
    dtype : dtype
        Type of the state.
    """

    def __init__(
        self,
        parts: list[Any],
        basis: Any,
        penalty: Any,
        *,
        alpha: float,
        ridge: float,
        anchors: list[NDArray[np.float64]],
        dtype: Any = np.float64,
    ) -> None:
        self.parts, self.basis, self.penalty = parts, basis, penalty
        self.alpha, self.ridge = alpha, ridge
        n, latent, m = parts[0].shape[0], anchors[0].shape[0], len(parts)
        self.rows = InMemory(n)
        self.anchors = [anchor.astype(dtype) for anchor in anchors]
        self.representation = np.zeros((n, latent, m), dtype)  # Z
        self.low_rank = np.zeros((n, latent, m), dtype)  # J
        self.multiplier = np.zeros((n, latent, m), dtype)  # W
        self.error_multiplier = [np.zeros(part.shape, dtype) for part in parts]  # Y
        self.error_factor = np.zeros((n, 1), dtype)
        self._work: Any = None

    def step(self, penalties: dict[str, float]) -> Step:
        """Do one round."""
        mu, rho = penalties["mu"], penalties["rho"]
        self.rows.each(lambda block: self._update_rows(block, mu, rho))
        shifted = self.multiplier
        shifted /= rho
        shifted += self.representation
        self.low_rank, self._work = shrink(shifted, self.basis, self.penalty, 1 / rho, self.low_rank, self._work)
        # W ← W + ρ(Z − J), and W/ρ + Z is at hand.
        shifted -= self.low_rank
        shifted *= rho
        for v in range(len(self.parts)):
            self.anchors[v] = polar_factor(self.rows.sum(lambda block, v=v: self._anchor_product(block, v, mu)))  # type: ignore[misc]
        misfit, gap = self.rows.max(self._largest_misfit), self.rows.max(self._largest_gap)
        return Step({"reconstruction": misfit, "consensus": gap}, stop=max(misfit, gap))

    def _rows_of(self, v: int, block: slice) -> Any:
        part = self.parts[v][block]
        return part if isinstance(part, np.ndarray) else part.toarray()

    def _update_rows(self, block: slice, mu: float, rho: float) -> None:
        """Update Z, then E and Y, of some rows."""
        factor = self.error_factor[block]
        residuals, squares = [], 0.0
        for v, anchor in enumerate(self.anchors):
            x, y = self._rows_of(v, block), self.error_multiplier[v][block]
            pull = y * (1 - mu * factor)
            pull += mu * x
            z = pull @ anchor.T
            z += rho * self.low_rank[block, :, v] - self.multiplier[block, :, v]
            z /= self.ridge + mu + rho
            self.representation[block, :, v] = z
            y /= mu
            y += x
            y -= z @ anchor
            residuals.append(y)
            squares = squares + np.einsum("ij,ij->i", y, y)
        length = np.sqrt(squares)[:, None]
        threshold = self.alpha / mu
        kept = np.minimum(1, threshold / np.where(length > 0, length, 1))  # 1 − share, without cancellation
        for y in residuals:
            y *= mu * kept
        self.error_factor[block] = np.maximum(0, 1 - kept) / (mu * np.where(kept > 0, kept, 1))

    def _target(self, block: slice, v: int, mu: float) -> NDArray[Any]:
        """Return Y + μ(X − E) of some rows."""
        target = self.error_multiplier[v][block] * (1 - mu * self.error_factor[block])
        target += mu * self._rows_of(v, block)
        return target

    def _anchor_product(self, block: slice, v: int, mu: float) -> NDArray[Any]:
        return np.asarray(self.representation[block, :, v].T @ self._target(block, v, mu), dtype=np.float64)

    def _largest_misfit(self, block: slice) -> float:
        """Return the largest length of a row of X − ZA − E, which no rotation of the features changes."""
        worst = 0.0
        for v, anchor in enumerate(self.anchors):
            residual = self._rows_of(v, block) - self.representation[block, :, v] @ anchor
            residual -= self.error_factor[block] * self.error_multiplier[v][block]
            worst = max(worst, float(np.einsum("ij,ij->i", residual, residual).max()))
        return math.sqrt(worst)

    def _largest_gap(self, block: slice) -> float:
        return float(np.abs(self.representation[block] - self.low_rank[block]).sum(axis=1).max())

    def embedding(self, n_components: int) -> NDArray[np.float64]:
        """Return the leading left singular vectors of [Z_1 … Z_m]/√m.

        Where the rank of the representation is less than `n_components`, its further directions hold nothing but what
        the stop rule left over. The strongest of those that the penalty took away, which the multiplier holds, stand
        in for them.
        """
        n, latent, m = self.representation.shape
        kept, removed = (array.reshape(n, latent * m) for array in (self.representation, self.multiplier))
        vectors = self._left_vectors(lambda block: as_float64(kept[block]), n_components)
        missing = n_components - vectors.shape[1]
        if missing:
            inner = self.rows.sum(lambda block: vectors[block].T @ as_float64(removed[block]))
            beside = self._left_vectors(lambda block: as_float64(removed[block]) - vectors[block] @ inner, missing)
            vectors = np.concatenate([vectors, beside], axis=1)
        embedding = np.zeros((n, n_components))
        embedding[:, : vectors.shape[1]] = vectors
        return embedding

    def _left_vectors(self, rows_of: Callable[[slice], NDArray[np.float64]], count: int) -> NDArray[np.float64]:
        """Return the leading left singular vectors of a matrix, at most its rank, through the small Gram matrix."""

        def gram(block: slice) -> NDArray[np.float64]:
            rows = rows_of(block)
            return np.asarray(rows.T @ rows)

        values, vectors = np.linalg.eigh(self.rows.sum(gram))
        values, vectors = values[::-1][:count], vectors[:, ::-1][:, :count]
        present = values > max(_NEGLIGIBLE**2 * values[0], np.finfo(np.float64).tiny)
        scaled = vectors[:, present] / np.sqrt(values[present])
        return np.concatenate([rows_of(block) @ scaled for block in self.rows.blocks])


def narrowed(part: Any) -> Any:
    """Return a view with more features than samples in n features, with the same inner products.

    Every row of E and Y, and the anchors, stay in the span of the samples, so that a rotation into that span loses
    nothing.
    """
    n, d = part.shape
    if d <= n:
        return part
    rows = as_float64(part)
    values, vectors = np.linalg.eigh(_dense(rows @ rows.T))
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0)), dtype=part.dtype)


def polar_factor(matrix: NDArray[Any]) -> NDArray[np.float64]:
    """Return P Qᵀ of the thin SVD P Σ Qᵀ; that of zero is the identity."""
    if not matrix.any():
        return np.eye(*matrix.shape)
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    return np.asarray(left @ right)


def principal_anchors(part: Any, n_latent: int, views: Views) -> NDArray[np.float64]:
    """Return the leading right singular vectors of a (narrowed) view as the rows of its first anchors.

    Unlike "the first l features" they do not depend on the order of the features. Their signs are those under which
    the samples' coordinates agree with a function of the samples that is the same in all views.
    """
    part = as_float64(part)
    n, d = part.shape
    kept = min(n_latent, n, d)
    squares, vectors = _leading(InMemory(n).sum(lambda block: _dense(part[block].T @ part[block])), kept)
    scale = max(float(squares[0]), np.finfo(np.float64).tiny)
    settle(-squares / scale, vectors, lambda count: _dense(part @ vectors).T @ views.probes(count))
    anchors = np.zeros((n_latent, d))
    anchors[:kept] = vectors.T
    return anchors


def _dense(matrix: Any) -> NDArray[np.float64]:
    return np.asarray(matrix.toarray() if is_sparse(matrix) else matrix)


def _leading(gram: NDArray[np.float64], count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the largest eigenvalues of a Gram matrix and their vectors, descending."""
    size = len(gram)
    values, vectors = eigh(gram, subset_by_index=[size - count, size - 1], overwrite_a=True, check_finite=False)
    return values[::-1], np.ascontiguousarray(vectors[:, ::-1])
