"""Representation by orthonormal anchors, X_v = Z_v A_v + E_v: what ASR-ETR and ESTMC share.

Z_v is n × l, A_v is l × d_v with orthonormal rows (for l > d_v: orthonormal columns, the surplus rows zero). The
n × l × m tensor of all Z_v is made low-rank under a basis. Rows meet only in the transform and in the l × d_v products
that update the anchors.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..backend import (
    Array,
    contiguous,
    in_double,
    inner,
    is_sparse,
    leading_eigenpairs,
    matmul_into,
    namespace,
    on_host,
    sum_of_squares,
)
from ..bases._spectrum import settle
from ..rows import Part, row_work
from ..views import Views, probes_of
from ._admm import Step
from ._frame import RowShrinkage

# Singular values of the representation below this share of the largest are residual, not representation: the penalty
# keeps a direction whole or removes it, and single precision leaves about 1e-4.
_NEGLIGIBLE = 1e-3


class AnchorRepresentation:
    """The state of the loop, and one round of it; the arrays are NumPy's, or PyTorch's on the device of the views.

    E and Y are multiples of one matrix, row by row, so that only this one (n × d_v) is kept: E = `error_share`·R and
    Y = `multiplier_share`·R. The tensors are kept as (n, m, l), in which a sample's row of a view lies in one piece.

    Parameters
    ----------
    rows : executor
        Of the samples. It holds them as "x": views at unit length, dense or CSR; the state joins them.
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
    single_precision : bool
        Whether the state is float32, as it should be if all views are.
    """

    def __init__(
        self,
        rows: Any,
        basis: Any,
        penalty: Any,
        *,
        alpha: float,
        ridge: float,
        anchors: list[Array],
        single_precision: bool = False,
    ) -> None:
        self.rows, self.alpha, self.ridge = rows, alpha, ridge
        kind = "float32" if single_precision else "float64"
        self._dtype = getattr(namespace(*anchors), kind)
        self.anchors = self._typed(anchors)
        latent, widths, m = anchors[0].shape[0], [anchor.shape[1] for anchor in anchors], len(anchors)
        for name in ("z", "j", "w"):
            rows.full(name, m, latent, dtype=kind)
        # R = X − ZA + Y/μ of the views side by side: that of a view on disk is there, too.
        rows.full_like("residual", "x", dtype=kind)
        for name in ("error_share", "multiplier_share"):
            rows.full(name, 1, dtype=kind)
        self._width = max(m * latent, *widths)
        self._shrinkage = RowShrinkage(rows, basis, penalty)

    def _typed(self, anchors: list[Array]) -> list[Array]:
        return [namespace(anchor).astype(anchor, self._dtype) for anchor in anchors]

    @property
    def representation(self) -> Array:
        """Z, (n, l, m)."""
        return namespace(self.rows["z"]).permute_dims(self.rows["z"], (0, 2, 1))

    @property
    def low_rank(self) -> Array:
        """J, (n, l, m)."""
        return namespace(self.rows["j"]).permute_dims(self.rows["j"], (0, 2, 1))

    def step(self, penalties: dict[str, float]) -> Step:
        """Do one round."""
        mu, rho = penalties["mu"], penalties["rho"]
        # Aᵀ row by row: what products of a few columns are fastest with.
        turned = [contiguous(anchor.T) for anchor in self.anchors]
        weights = self.alpha, self.ridge, mu, rho
        products = self.rows.sum_later(_update_rows, self.anchors, turned, weights, width=self._width)
        self._shrinkage("w", "j", 1 / rho)
        self.anchors = self._typed([polar_factor(product) for product in products()])
        worst, gap = self.rows.max(_finish_rows, self.anchors, rho, width=self._width)
        misfit, gap = math.sqrt(worst), float(gap)
        return Step({"reconstruction": misfit, "consensus": gap}, stop=max(misfit, gap))

    def embed(self, n_components: int) -> None:
        """Let the leading left singular vectors of [Z_1 … Z_m]/√m join the rows as their "embedding".

        Where the rank of the representation is less than `n_components`, its further directions hold nothing but what
        the stop rule left over. The strongest of those that the penalty took away, which the multiplier holds, stand
        in for them.
        """
        self.rows.full("embedding", n_components)
        found = self._left_vectors("z", None, 0, n_components)
        if found < n_components:
            common = self.rows.sum(_common, found, width=self._width)
            self._left_vectors("w", common, found, n_components - found)

    def _left_vectors(self, name: str, common: Array | None, found: int, count: int) -> int:
        """Add leading left singular vectors of a matrix, at most its rank, through the small Gram matrix.

        Returns how many.
        """
        total = self.rows.sum(_gram, name, common, width=self._width)
        xp = namespace(total)
        values, vectors = leading_eigenpairs(total, min(count, total.shape[0]))
        squares = on_host(values)
        present = int(np.sum(squares > max(_NEGLIGIBLE**2 * squares[0], np.finfo(np.float64).tiny)))
        scaled = vectors[:, :present] / xp.sqrt(values[:present])
        self.rows.each(_embed, name, common, found, scaled, width=self._width)
        return present

    def close(self) -> None:
        """Let go of all but the embedding."""
        self.rows.drop("z", "j", "w", "residual", "error_share", "multiplier_share")


def _dense(matrix: Any) -> Array:
    return matrix.toarray() if is_sparse(matrix) else matrix


@row_work(reads="x j", writes="w residual error_share multiplier_share", sets="z")
def _update_rows(
    rows: Part, anchors: list[Array], turned: list[Array], weights: tuple[float, float, float, float]
) -> list[Array]:
    """Update Z, then E and Y, of some rows; turn W into Z + W/ρ; return their share of Zᵀ(Y + μ(X − E))."""
    alpha, ridge, mu, rho = weights
    z, w = rows.z, rows.w
    xp = namespace(z)
    views = [(_dense(x), residual) for x, residual in zip(rows.x, rows.residual, strict=True)]
    rooms = [rows.room(v, residual.shape, residual) for v, (_, residual) in enumerate(views)]
    share = rows.room("share", z.shape, z)
    total = ridge + mu + rho
    multiplier = rows.multiplier_share / mu
    pull = multiplier - rows.error_share
    for v, ((x, residual), room) in enumerate(zip(views, rooms, strict=True)):
        xp.multiply(residual, pull, out=room)
        room += x
        matmul_into(room, turned[v], z[:, v])
    z *= mu / total
    z += xp.multiply(rows.j, rho / total, out=share)
    z -= xp.multiply(w, 1 / total, out=share)
    w *= 1 / rho
    w += z
    squares = 0.0
    for v, ((x, residual), room) in enumerate(zip(views, rooms, strict=True)):
        residual *= multiplier
        residual += x
        residual -= matmul_into(z[:, v], anchors[v], room)
        squares = squares + sum_of_squares(residual)
    length = xp.sqrt(squares)[:, None]
    # What is not error; without cancellation.
    kept = xp.clip(alpha / mu / xp.where(length > 0, length, xp.ones_like(length)), max=1.0)
    rows.multiplier_share[...] = mu * kept
    rows.error_share[...] = 1 - kept
    products = []
    for v, ((x, residual), room) in enumerate(zip(views, rooms, strict=True)):
        xp.multiply(residual, 2 * kept - 1, out=room)
        room += x
        products.append(mu * in_double(inner(z[:, v], room)))
    return products


@row_work(reads="x z j residual error_share", writes="w")
def _finish_rows(rows: Part, anchors: list[Array], rho: float) -> list[Array]:
    """Update W from Z + W/ρ; return the largest squared row length of X − ZA − E and row sum of |Z − J|.

    No rotation of the features changes the length.
    """
    z, j, w = rows.z, rows.j, rows.w
    xp = namespace(z)
    w -= j
    w *= rho
    difference = xp.subtract(z, j, out=rows.room("gap", z.shape, z))
    gap = xp.max(xp.reshape(xp.abs(difference, out=difference), (-1, z.shape[2])) @ xp.ones_like(z[0, 0]))
    lengths = []
    for v, (x, residual, anchor) in enumerate(zip(rows.x, rows.residual, anchors, strict=True)):
        misfit = xp.multiply(residual, rows.error_share, out=rows.room("misfit", residual.shape, residual))
        misfit -= _dense(x)
        misfit += matmul_into(z[:, v], anchor, rows.room("product", residual.shape, residual))
        lengths.append(xp.max(sum_of_squares(misfit)))
    return [xp.max(xp.stack(lengths)), gap]


def _matrix(rows: Part, name: str, common: Array | None) -> Array:
    """Return [Z_1 … Z_m], or what [W_1 … W_m] has beside the embedding, with which it has inner products `common`."""
    tensor = rows.z if name == "z" else rows.w
    matrix = in_double(namespace(tensor).reshape(tensor, (tensor.shape[0], -1)))
    return matrix if common is None else matrix - rows.embedding[:, : common.shape[0]] @ common


@row_work(reads="w embedding")
def _common(rows: Part, found: int) -> Array:
    return inner(rows.embedding[:, :found], _matrix(rows, "w", None))


@row_work(reads="z w embedding")
def _gram(rows: Part, name: str, common: Array | None) -> Array:
    part = _matrix(rows, name, common)
    return inner(part, part)


@row_work(reads="z w embedding", writes="embedding")
def _embed(rows: Part, name: str, common: Array | None, found: int, scaled: Array) -> None:
    rows.embedding[:, found : found + scaled.shape[1]] = _matrix(rows, name, common) @ scaled


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


def principal_anchors(views: Views, v: int, n_latent: int, width: int) -> Array:
    """Return the leading right singular vectors of a view as the rows of its first anchors.

    Unlike "the first l features" they do not depend on the order of the features. Their signs are those under which
    the samples' coordinates agree with a function of the samples that is the same in all views.

    Parameters
    ----------
    views : Views
        Their rows hold the views, narrowed, as "x".
    v : int
        Which view.
    n_latent : int
        Number of anchors.
    width : int
        Number of features of the narrowed view.
    """
    kept = min(n_latent, views.n_samples, width)
    anchors = views.rows.place(np.zeros((n_latent, width)))
    values, vectors = leading_eigenpairs(views.rows.sum(_view_gram, v, width=width), kept)
    squares = on_host(values)
    scale = max(float(squares[0]), np.finfo(np.float64).tiny)
    settle(
        -squares / scale,
        vectors,
        lambda count: views.rows.sum(_agreement, v, vectors, views.probe_draws(count), width=width),
    )
    anchors[:kept] = vectors.T
    return anchors


@row_work(reads="x")
def _view_gram(rows: Part, v: int) -> Array:
    some = in_double(rows.x[v])
    return _dense(some.T @ some) if is_sparse(some) else inner(some, some)


@row_work(reads="x views")
def _agreement(rows: Part, v: int, vectors: Array, draws: list[Any]) -> Array:
    """Return the inner products of the coordinates along some vectors with the probes."""
    return inner(in_double(rows.x[v]) @ vectors, probes_of(rows.views, draws))
