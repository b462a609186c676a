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
from array_api_compat import device

from .._executors import InMemory
from .._ops import (
    Array,
    contiguous,
    in_double,
    inner,
    is_sparse,
    is_tensor,
    leading_eigenpairs,
    matmul_into,
    namespace,
    on_host,
    sum_of_squares,
)
from .._views import Views
from ..bases._base import SampleModeBasis
from ..bases._spectrum import settle
from ._admm import Step
from ._frame import shrink

# Singular values of the representation below this share of the largest are residual, not representation: the penalty
# keeps a direction whole or removes it, and single precision leaves about 1e-4.
_NEGLIGIBLE = 1e-3


class AnchorRepresentation:
    """The state of the loop, and one round of it; the arrays are NumPy's, or PyTorch's on the device of the views.

    E and Y are multiples of one matrix, row by row, so that only this one (n × d_v) is kept: E = `error_share`·R and
    Y = `multiplier_share`·R. The tensors are kept as (n, m, l), in which a sample's row of a view lies in one piece.

    Parameters
    ----------
    parts : list of arrays (n, d_v)
        Views at unit length, dense or CSR. If all are of single precision, so is the state.
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
    """

    def __init__(
        self, parts: list[Any], basis: Any, penalty: Any, *, alpha: float, ridge: float, anchors: list[Array]
    ) -> None:
        self.parts, self.basis, self.penalty = parts, basis, penalty
        self.alpha, self.ridge = alpha, ridge
        xp = namespace(*anchors)
        # A type of PyTorch has no equal of NumPy's.
        self.single_precision = all(str(part.dtype).endswith("float32") for part in parts)
        self._kind = {"dtype": xp.float32 if self.single_precision else xp.float64, "device": device(anchors[0])}
        n, latent, m = parts[0].shape[0], anchors[0].shape[0], len(parts)
        self.anchors = [xp.astype(anchor, self._kind["dtype"]) for anchor in anchors]
        self.tensor_z = xp.zeros((n, m, latent), **self._kind)
        self.tensor_j = xp.zeros((n, m, latent), **self._kind)
        self.tensor_w = xp.zeros((n, m, latent), **self._kind)
        self.residual = [xp.zeros(part.shape, **self._kind) for part in parts]  # R = X − ZA + Y/μ
        self.error_share = xp.zeros((n, 1), **self._kind)
        self.multiplier_share = xp.zeros((n, 1), **self._kind)
        self.rows = InMemory(self.tensor_z, max(m * latent, *(part.shape[1] for part in parts)))
        self._turned: list[Array] = []
        self._work: Any = None

    @property
    def representation(self) -> Array:
        """Z, (n, l, m)."""
        return namespace(self.tensor_z).permute_dims(self.tensor_z, (0, 2, 1))

    @property
    def low_rank(self) -> Array:
        """J, (n, l, m)."""
        return namespace(self.tensor_j).permute_dims(self.tensor_j, (0, 2, 1))

    def step(self, penalties: dict[str, float]) -> Step:
        """Do one round."""
        mu, rho = penalties["mu"], penalties["rho"]
        # Aᵀ row by row: what products of a few columns are fastest with.
        self._turned = [contiguous(anchor.T) for anchor in self.anchors]
        products = self.rows.sum(lambda rows: self._update_rows(rows, mu, rho))
        self.anchors = [namespace(p).astype(polar_factor(p), self._kind["dtype"]) for p in products]
        self._shrink(1 / rho)
        worst, gap = self.rows.max(lambda rows: self._finish_rows(rows, rho))
        misfit, gap = math.sqrt(worst), float(gap)
        return Step({"reconstruction": misfit, "consensus": gap}, stop=max(misfit, gap))

    def _rows_of(self, v: int, rows: slice) -> Array:
        part = self.parts[v][rows]
        return part.toarray() if is_sparse(part) else part

    def _update_rows(self, rows: slice, mu: float, rho: float) -> list[Array]:
        """Update Z, then E and Y, of some rows; turn W into Z + W/ρ; return their share of Zᵀ(Y + μ(X − E))."""
        xp = namespace(self.tensor_z)
        z, w = self.tensor_z[rows], self.tensor_w[rows]
        views = [(self._rows_of(v, rows), residual[rows]) for v, residual in enumerate(self.residual)]
        rooms = [xp.empty_like(residual) for _, residual in views]
        total = self.ridge + mu + rho
        multiplier = self.multiplier_share[rows] / mu
        pull = multiplier - self.error_share[rows]
        for v, ((x, residual), room) in enumerate(zip(views, rooms, strict=True)):
            xp.multiply(residual, pull, out=room)
            room += x
            matmul_into(room, self._turned[v], z[:, v])
        z *= mu / total
        z += self.tensor_j[rows] * (rho / total)
        z -= w * (1 / total)
        w *= 1 / rho
        w += z
        squares = 0.0
        for v, ((x, residual), room) in enumerate(zip(views, rooms, strict=True)):
            residual *= multiplier
            residual += x
            residual -= matmul_into(z[:, v], self.anchors[v], room)
            squares = squares + sum_of_squares(residual)
        length = xp.sqrt(squares)[:, None]
        # What is not error; without cancellation.
        kept = xp.clip(self.alpha / mu / xp.where(length > 0, length, xp.ones_like(length)), max=1.0)
        self.multiplier_share[rows] = mu * kept
        self.error_share[rows] = 1 - kept
        products = []
        for v, ((x, residual), room) in enumerate(zip(views, rooms, strict=True)):
            xp.multiply(residual, 2 * kept - 1, out=room)
            room += x
            products.append(mu * in_double(inner(z[:, v], room)))
        return products

    def _shrink(self, threshold: float) -> None:
        """Update J from Z + W/ρ."""
        if isinstance(self.basis, SampleModeBasis):
            # The other modes are alike to it.
            _, self._work = shrink(self.tensor_w, self.basis, self.penalty, threshold, self.tensor_j, self._work)
            return
        xp = namespace(self.tensor_w)
        shifted = contiguous(xp.permute_dims(self.tensor_w, (0, 2, 1)))
        result, self._work = shrink(shifted, self.basis, self.penalty, threshold, None, self._work)
        self.tensor_j[...] = xp.permute_dims(result, (0, 2, 1))

    def _finish_rows(self, rows: slice, rho: float) -> list[Array]:
        """Update W from Z + W/ρ; return the largest squared row length of X − ZA − E and row sum of |Z − J|.

        No rotation of the features changes the length.
        """
        xp = namespace(self.tensor_z)
        z, j, w = self.tensor_z[rows], self.tensor_j[rows], self.tensor_w[rows]
        w -= j
        w *= rho
        gap = xp.max(xp.abs(xp.reshape(z - j, (-1, z.shape[2]))) @ xp.ones_like(z[0, 0]))
        lengths = []
        for v, anchor in enumerate(self.anchors):
            misfit = self.residual[v][rows] * self.error_share[rows]
            misfit -= self._rows_of(v, rows)
            misfit += z[:, v] @ anchor
            lengths.append(xp.max(sum_of_squares(misfit)))
        return [xp.max(xp.stack(lengths)), gap]

    def embedding(self, n_components: int) -> Array:
        """Return the leading left singular vectors of [Z_1 … Z_m]/√m.

        Where the rank of the representation is less than `n_components`, its further directions hold nothing but what
        the stop rule left over. The strongest of those that the penalty took away, which the multiplier holds, stand
        in for them.
        """
        xp = namespace(self.tensor_z)
        n = self.tensor_z.shape[0]
        kept, removed = xp.reshape(self.tensor_z, (n, -1)), xp.reshape(self.tensor_w, (n, -1))
        vectors = self._left_vectors(lambda rows: in_double(kept[rows]), n_components)
        missing = n_components - vectors.shape[1]
        if missing:
            common = self.rows.sum(lambda rows: inner(vectors[rows], in_double(removed[rows])))
            beside = self._left_vectors(lambda rows: in_double(removed[rows]) - vectors[rows] @ common, missing)
            none = xp.zeros((n, missing - beside.shape[1]), dtype=xp.float64, device=device(kept))
            vectors = xp.concat([vectors, beside, none], axis=1)
        return vectors

    def _left_vectors(self, rows_of: Callable[[slice], Array], count: int) -> Array:
        """Return the leading left singular vectors of a matrix, at most its rank, through the small Gram matrix."""

        def gram(rows: slice) -> Array:
            part = rows_of(rows)
            return inner(part, part)

        total = self.rows.sum(gram)
        xp = namespace(total)
        values, vectors = leading_eigenpairs(total, min(count, total.shape[0]))
        squares = on_host(values)
        present = int(np.sum(squares > max(_NEGLIGIBLE**2 * squares[0], np.finfo(np.float64).tiny)))
        scaled = vectors[:, :present] / xp.sqrt(values[:present])
        left = xp.empty((self.tensor_z.shape[0], present), dtype=xp.float64, device=device(total))

        def work(rows: slice) -> None:
            left[rows] = rows_of(rows) @ scaled

        self.rows.each(work)
        return left


def narrowed(part: Any) -> Any:
    """Return a view with more features than samples in n features, with the same inner products.

    Every row of E and Y, and the anchors, stay in the span of the samples, so that a rotation into that span loses
    nothing.
    """
    n, d = part.shape
    if d <= n:
        return part
    rows = in_double(part)
    products = _dense(rows @ rows.T)
    xp = namespace(products)
    values, vectors = xp.linalg.eigh(products)
    coordinates = vectors * xp.sqrt(xp.clip(values, min=0.0))
    return coordinates.astype(part.dtype) if isinstance(coordinates, np.ndarray) else coordinates.to(part.dtype)


def polar_factor(matrix: Array) -> Array:
    """Return P Qᵀ of the thin SVD P Σ Qᵀ; that of zero is the identity."""
    xp = namespace(matrix)
    if matrix.shape[0] < matrix.shape[1]:
        return xp.matrix_transpose(polar_factor(xp.matrix_transpose(matrix)))
    # Of a tall matrix only the triangle goes through an SVD.
    orthonormal, triangle = xp.linalg.qr(matrix)
    left, _, right = xp.linalg.svd(triangle, full_matrices=False)
    return orthonormal @ (left @ right)


def principal_anchors(part: Any, n_latent: int, views: Views) -> Array:
    """Return the leading right singular vectors of a (narrowed) view as the rows of its first anchors.

    Unlike "the first l features" they do not depend on the order of the features. Their signs are those under which
    the samples' coordinates agree with a function of the samples that is the same in all views.
    """
    n, d = part.shape
    kept = min(n_latent, n, d)
    anchors = views.place(np.zeros((n_latent, d)))
    like = part if is_tensor(part) else np.empty((n, 0))

    def gram(rows: slice) -> Array:
        some = in_double(part[rows])
        return _dense(some.T @ some) if is_sparse(some) else inner(some, some)

    values, vectors = leading_eigenpairs(InMemory(like, d).sum(gram), kept)
    squares = on_host(values)
    scale = max(float(squares[0]), np.finfo(np.float64).tiny)
    settle(-squares / scale, vectors, lambda count: inner(in_double(part) @ vectors, views.probes(count)))
    anchors[:kept] = vectors.T
    return anchors


def _dense(matrix: Any) -> Array:
    return matrix.toarray() if is_sparse(matrix) else matrix
