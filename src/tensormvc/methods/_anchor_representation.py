"""Representation by orthonormal anchors, the family of ASR-ETR and ESTMC.

With the samples X_v (n × d_v) of view v at unit length, and 𝒵 (n × l × m) the tensor of their representations Z_v (n ×
l):

    min   Σ_k w_k Σ_i ψ(σ_i(𝒵̄_k)) + α ‖[E_1 … E_m]‖_{2,1} + γ Σ_v ‖Z_v‖²
    s.t.  X_v = Z_v A_v + E_v,   A_v A_vᵀ = I

where 𝒵̄_k are the slices of 𝒵 under the basis and ψ the penalty. ADMM splits 𝒵 = 𝒥, with multipliers Y_v and 𝒲 and
penalty parameters μ and ρ. `round` has the updates in order; rows meet only in the transform and in the l × d_v
products that update the anchors A_v.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..backend.arrays import Array, contiguous, in_double, is_sparse, namespace, on_host
from ..backend.checks import check_memory
from ..backend.linalg import inner, leading_eigenpairs, matmul_into, sum_of_squares, thin_svd
from ..bases._base import settle
from ..rows import InMemory, RowArrays, Rows, row_work
from ..views import Views, probes_of
from ..views._views import ProbeDraws
from ._admm import Schedule, Step
from ._base import COUNT, POSITIVE, TensorClusterer
from ._coordinates import Coordinates, SampleCoordinates

# Anchors per cluster, of the published grid {2, …, 8}.
_LATENT_PER_CLUSTER = 2
# Beyond this, rounding in float32 times the penalty parameter would drown the multipliers.
_SINGLE_CAP = 1e4
# Singular values of the representation below this share of the largest are residual, not representation: the penalty
# keeps a direction whole or removes it, and single precision leaves about 1e-4.
_NEGLIGIBLE = 1e-3


@dataclass
class AnchorRows(RowArrays):
    """Row arrays of the loop; tensors are (n, m, l), so that a sample's row of a view is contiguous.

    Attributes
    ----------
    views, x : lists of arrays (n, d_v)
        The samples, and the samples with at most n features per view, X.
    z, j, w : arrays of shape (n, m, l)
        𝒵, its low-rank copy 𝒥, and the multiplier 𝒲 of 𝒵 = 𝒥.
    residual : list of arrays (n, d_v)
        R_v = X_v − Z_v A_v + Y_v/μ. E and Y are multiples of it, row by row, so that only R is kept.
    error_share, multiplier_share : arrays of shape (n, 1)
        E = error_share · R and Y = multiplier_share · R.
    points : array of shape (n, n_clusters)
        The embedding that k-means clusters.
    """

    views: list[Array]
    x: list[Array]
    z: Array
    j: Array
    w: Array
    residual: list[Array]
    error_share: Array
    multiplier_share: Array
    points: Array


@dataclass(frozen=True)
class Weights:
    """Weights of the problem: α of the error, 2γ of ‖Z‖²/2, and the penalty ψ on singular values."""

    alpha: float
    ridge: float
    penalty: Any


def create_rows(rows: Rows, widths: list[int], latent: int, dtype: str) -> None:
    """Create the arrays of the loop, all zero."""
    m = len(widths)
    rows.create(dtype, z=(m, latent), j=(m, latent), w=(m, latent), error_share=(1,), multiplier_share=(1,))
    rows.create(dtype, residual=[(width,) for width in widths], wide=True)


def round(
    rows: Rows, coordinates: Coordinates, anchors: list[Array], weights: Weights, mu: float, rho: float
) -> tuple[list[Array], Step]:
    """Do one round: the updates of Z, E, Y, J, A and W in order; return the new anchors and the residuals."""
    # Products of few columns are fastest with Aᵀ row by row.
    turned = [contiguous(anchor.T) for anchor in anchors]
    sums = rows.sum_later(_update_z_e_y, anchors, turned, weights.alpha, weights.ridge, mu, rho)
    # J ← shrink(Z + W/ρ), with threshold 1/ρ
    penalty = coordinates.shrink_rows(rows, "w", "j", weights.penalty, 1 / rho)
    error, ridge, *products = sums()
    # A_v ← P Qᵀ of the SVD P Σ Qᵀ = Z_vᵀ (Y_v + μ (X_v − E_v))
    anchors = [_like(polar_factor(product), anchor) for product, anchor in zip(products, anchors, strict=True)]
    squared_misfit, gap = rows.max(_update_w, anchors, rho)
    residuals = {"reconstruction": math.sqrt(squared_misfit), "consensus": float(gap)}
    objective = penalty + weights.alpha * float(error) + weights.ridge / 2 * float(ridge)
    return anchors, Step(residuals, stop=max(residuals.values()), objective=objective)


def _like(array: Array, other: Array) -> Array:
    return namespace(array).astype(array, other.dtype, copy=False)


def _dense(matrix: Any) -> Array:
    return matrix.toarray() if is_sparse(matrix) else matrix


@row_work(reads="x j", writes="w residual error_share multiplier_share", sets="z")
def _update_z_e_y(
    rows: AnchorRows, anchors: list[Array], turned: list[Array], alpha: float, ridge: float, mu: float, rho: float
) -> list[Array]:
    """Update Z, E and Y, turn W into Z + W/ρ; return ‖E‖_{2,1}, ‖Z‖² and Z_vᵀ (Y_v + μ (X_v − E_v)) of these rows."""
    z, w = rows.z, rows.w
    xp = namespace(z)
    views = [(_dense(x), residual) for x, residual in zip(rows.x, rows.residual, strict=True)]
    rooms = [rows.room(v, residual.shape, residual) for v, (_, residual) in enumerate(views)]
    share = rows.room("share", z.shape, z)
    # Z_v ← [(Y_v + μ (X_v − E_v)) A_vᵀ + ρ J_v − W_v] / (2γ + μ + ρ)
    total = ridge + mu + rho
    multiplier = rows.multiplier_share / mu
    for v, ((x, residual), room) in enumerate(zip(views, rooms, strict=True)):
        xp.multiply(residual, multiplier - rows.error_share, out=room)
        room += x
        matmul_into(room, turned[v], z[:, v])
    z *= mu / total
    z += xp.multiply(rows.j, rho / total, out=share)
    z -= xp.multiply(w, 1 / total, out=share)
    w *= 1 / rho
    w += z
    # R_v ← X_v − Z_v A_v + Y_v/μ
    squares = 0.0
    for v, ((x, residual), room) in enumerate(zip(views, rooms, strict=True)):
        residual *= multiplier
        residual += x
        residual -= matmul_into(z[:, v], anchors[v], room)
        squares = squares + sum_of_squares(residual)
    # E ← max(0, 1 − α/(μ ‖r‖)) R, row by row; Y ← μ (R − E)
    length = xp.sqrt(squares)[:, None]
    kept = xp.clip(alpha / mu / xp.where(length > 0, length, xp.ones_like(length)), max=1.0)
    rows.multiplier_share[...] = mu * kept
    rows.error_share[...] = 1 - kept
    sums = [xp.sum(rows.error_share * length, dtype=xp.float64), xp.sum(xp.square(z), dtype=xp.float64)]
    for v, ((x, residual), room) in enumerate(zip(views, rooms, strict=True)):
        xp.multiply(residual, 2 * kept - 1, out=room)
        room += x
        sums.append(mu * in_double(inner(z[:, v], room)))
    return sums


@row_work(reads="x z j residual error_share", writes="w")
def _update_w(rows: AnchorRows, anchors: list[Array], rho: float) -> list[Array]:
    """Update W from Z + W/ρ; return the largest squared row length of X − Z A − E and row sum of |Z − J|."""
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


def polar_factor(matrix: Array) -> Array:
    """Return P Qᵀ of the thin SVD P Σ Qᵀ; that of zero is the identity."""
    xp = namespace(matrix)
    if matrix.shape[0] < matrix.shape[1]:
        return xp.matrix_transpose(polar_factor(xp.matrix_transpose(matrix)))
    # Of a tall matrix only the triangle goes through an SVD.
    orthonormal, triangle = xp.linalg.qr(matrix)
    left, _, right = thin_svd(triangle)
    return orthonormal @ (left @ right)


def embed(rows: Rows, n_components: int) -> None:
    """Add the leading left singular vectors of [Z_1 … Z_m]/√m to the rows, as "points".

    If Z has a rank below `n_components`, its remaining singular vectors are only the residual of the stopping rule.
    They are replaced by the leading directions of the multiplier W, the strongest ones that the penalty removed.
    """
    rows.create(points=(n_components,))
    found = _add_left_vectors(rows, "z", None, 0, n_components)
    if found < n_components:
        _add_left_vectors(rows, "w", rows.sum(_common, found), found, n_components - found)


def _add_left_vectors(rows: Rows, name: str, common: Array | None, found: int, count: int) -> int:
    """Add leading left singular vectors of a matrix, at most its rank, by the small Gram matrix; return how many."""
    total = rows.sum(_gram, name, common)
    xp = namespace(total)
    values, vectors = leading_eigenpairs(total, min(count, total.shape[0]))
    squares = on_host(values)
    present = int(np.sum(squares > max(_NEGLIGIBLE**2 * squares[0], np.finfo(np.float64).tiny)))
    rows.each(_project, name, common, found, vectors[:, :present] / xp.sqrt(values[:present]))
    return present


def _matrix(rows: AnchorRows, name: str, common: Array | None) -> Array:
    """Return [Z_1 … Z_m], or [W_1 … W_m] minus its projection on the embedding.

    `common` holds the inner products with the embedding; None if nothing is to be subtracted.
    """
    tensor = rows.z if name == "z" else rows.w
    matrix = in_double(namespace(tensor).reshape(tensor, (tensor.shape[0], -1)))
    return matrix if common is None else matrix - rows.points[:, : common.shape[0]] @ common


@row_work(reads="w points")
def _common(rows: AnchorRows, found: int) -> Array:
    return inner(rows.points[:, :found], _matrix(rows, "w", None))


@row_work(reads="z w points")
def _gram(rows: AnchorRows, name: str, common: Array | None) -> Array:
    part = _matrix(rows, name, common)
    return inner(part, part)


@row_work(reads="z w", writes="points")
def _project(rows: AnchorRows, name: str, common: Array | None, found: int, scaled: Array) -> None:
    rows.points[:, found : found + scaled.shape[1]] = _matrix(rows, name, common) @ scaled


def narrowed(view: Array) -> Array:
    """Return a view with more features than samples in n features, with the same inner products.

    Every row of E and Y, and the anchors, stay in the span of the samples, so that a rotation into it loses nothing.
    """
    n, d = view.shape
    if d <= n:
        return view
    rows = in_double(view)
    products = _dense(rows @ rows.T)
    xp = namespace(products)
    values, vectors = xp.linalg.eigh(products)
    coordinates = vectors * xp.sqrt(xp.clip(values, min=0.0))
    return coordinates.astype(view.dtype) if isinstance(coordinates, np.ndarray) else coordinates.to(view.dtype)


def initial_anchors(views: Views, n_latent: int) -> list[Array]:
    """Add the samples with at most n features per view to the rows, as "x"; return the first anchors of every view."""
    rows, n = views.rows, views.n_samples
    if isinstance(rows, InMemory):
        rows.hold(x=[narrowed(array) for array in views.arrays])
    elif max(views.widths) > n:
        raise ValueError(
            f"a view has {max(views.widths)} features but only {n} samples, which Dask views must not have: bring the "
            "views into memory with .compute()"
        )
    else:
        rows.alias("x", "views")
    return [principal_anchors(views, v, n_latent, min(n, width)) for v, width in enumerate(views.widths)]


def principal_anchors(views: Views, v: int, n_latent: int, width: int) -> Array:
    """Return the leading right singular vectors of a view as its first anchors.

    Unlike the published start they do not depend on the order of the features. Their signs are those under which the
    samples' coordinates agree with a function of the samples that is the same in all views.

    Parameters
    ----------
    views : Views
        Their rows hold "x".
    v : int
        Which view.
    n_latent : int
        Number of anchors.
    width : int
        Number of features of X_v.
    """
    rows = views.rows
    kept = min(n_latent, views.n_samples, width)
    anchors = rows.place(np.zeros((n_latent, width)))
    values, vectors = leading_eigenpairs(rows.sum(_view_gram, v), kept)
    squares = on_host(values)
    scale = max(float(squares[0]), np.finfo(np.float64).tiny)
    settle(-squares / scale, vectors, lambda count: rows.sum(_agreement, v, vectors, views.probe_draws(count)))
    anchors[:kept] = vectors.T
    return anchors


@row_work(reads="x")
def _view_gram(rows: AnchorRows, v: int) -> Array:
    some = in_double(rows.x[v])
    return _dense(some.T @ some) if is_sparse(some) else inner(some, some)


@row_work(reads="x views")
def _agreement(rows: AnchorRows, v: int, vectors: Array, draws: ProbeDraws) -> Array:
    """Return the inner products of the coordinates along some vectors with the probes."""
    return inner(in_double(rows.x[v]) @ vectors, probes_of(rows.views, draws))


class AnchorRepresentationClusterer(TensorClusterer):
    """Base class of ASR-ETR and ESTMC: k-means on the leading singular vectors of the representation by anchors."""

    works_on_rows = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **TensorClusterer._parameter_constraints,
        "alpha": POSITIVE,
        "n_latent": [*COUNT, None],
    }

    @abstractmethod
    def _weights(self) -> Weights:
        """Return the weights of the problem."""

    def _solve(self, views: Views, seed: int, sample_graph: Any) -> None:
        # More anchors than samples or features would stay zero.
        most = max(min(views.n_samples, width) for width in views.widths)
        n_latent = min(self.n_latent or _LATENT_PER_CLUSTER * self.n_clusters, most)
        self._check_memory(views, n_latent)
        basis, weights, rows = self._fit_basis(views, seed, sample_graph), self._weights(), views.rows
        single, anchors = views.single_precision, initial_anchors(views, n_latent)
        create_rows(rows, [anchor.shape[1] for anchor in anchors], n_latent, "float32" if single else "float64")
        if single:
            anchors = [namespace(anchor).astype(anchor, namespace(anchor).float32) for anchor in anchors]
        coordinates = SampleCoordinates(basis, views.n_samples)

        def step(penalties: dict[str, float]) -> Step:
            nonlocal anchors
            anchors, done = round(rows, coordinates, anchors, weights, penalties["mu"], penalties["rho"])
            return done

        caps = {"mu": _SINGLE_CAP, "rho": _SINGLE_CAP} if single else {"mu": 1e11, "rho": 1e13}
        self._run(step, Schedule({"mu": 1e-4, "rho": 1e-4}, caps), single_precision=single)
        if self.keep == "all":
            self.representation_ = views.rows_as_given("z").transpose(0, 2, 1)
        embed(rows, self.n_clusters)
        rows.drop("x", "z", "j", "w", "residual", "error_share", "multiplier_share")
        self._cluster_points(views, seed)

    def _check_memory(self, views: Views, n_latent: int) -> None:
        if not isinstance(views.rows, InMemory):
            return
        n, m = views.n_samples, views.n_views
        residuals = 0 if views.on_disk else sum(min(array.shape) for array in views.arrays)
        # Z, J, W and the slices; the residuals; the Gram matrix of the embedding.
        check_memory(
            32 * n * n_latent * m + 8 * n * residuals + 16 * (n_latent * m) ** 2,
            f"{type(self).__name__} with n_latent={n_latent} on {n} samples in {m} views",
            "choose a smaller n_latent; twice the number of clusters is the default",
            views.arrays[0],
        )
