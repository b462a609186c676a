"""
A method of your own
====================

Least squares on anchors, low-rank over the views: a method that is not in the library. With the samples X_v (n × d_v)
of view v at unit length, and 𝒵 (n × l × m) the tensor of their representations Z_v (n × l) by l anchors A_v (l × d_v):

    min   ½ Σ_v ‖X_v − Z_v A_v‖² + λ Σ_k w_k Σ_i ψ(σ_i(𝒵̄_k))     s.t.  A_v A_vᵀ = I

where 𝒵̄_k are the slices of 𝒵 under the basis, each of weight w_k, and ψ is a penalty on their singular values. ESTMC
has the ℓ2,1 norm of the error in place of the squares, which is robust against outliers and needs two more variables.
ADMM splits 𝒵 = 𝒥, with a multiplier 𝒲 and a penalty parameter ρ that grows.

Nothing here knows where the samples are: the same lines run on NumPy arrays, on PyTorch tensors (on a GPU, if they are
there), on views in files, and on the workers of a Dask cluster.
"""

from dataclasses import dataclass
from math import sqrt

import tensormvc as tm
from tensormvc.backend.arrays import Array, in_double
from tensormvc.methods import SampleCoordinates, Schedule, Step, TensorClusterer, embed, initial_anchors, polar_factor
from tensormvc.rows import RowArrays, row_work


@dataclass
class LeastSquaresRows(RowArrays):
    """What has one row per sample: X_v (n, d_v) in each view, and 𝒵, 𝒥, 𝒲 and 𝒮 = 𝒵 + 𝒲/ρ, which are (n, m, l)."""

    x: list[Array]
    z: Array
    j: Array
    w: Array
    s: Array


def round(rows, coordinates, anchors, lam, penalty, rho):
    """Do one round: the updates of 𝒵, 𝒥, A and 𝒲 in order; return the new anchors, and the outcome."""
    products = rows.sum(update_z, anchors, rho)
    # 𝒥 ← the tensor whose slices are those of 𝒮 = 𝒵 + 𝒲/ρ, with singular values shrunk by the threshold λ/ρ
    low_rank = coordinates.shrink_rows(rows, "s", "j", penalty, lam / rho)
    # A_v ← P Qᵀ of the SVD P Σ Qᵀ = Z_vᵀ X_v (Procrustes)
    anchors = [polar_factor(product) for product in products]
    misfit, gap = (float(square) for square in rows.sum(update_w, anchors, rho))
    return anchors, Step({"consensus": sqrt(gap)}, stop=sqrt(gap), objective=misfit / 2 + lam * low_rank)


@row_work(reads="x j w", sets="z s")
def update_z(rows: LeastSquaresRows, anchors: list[Array], rho: float) -> list[Array]:
    """Z_v ← (X_v A_vᵀ + ρ J_v − W_v) / (1 + ρ); return Z_vᵀ X_v."""
    for v, (x, a) in enumerate(zip(rows.x, anchors, strict=True)):
        rows.z[:, v] = (in_double(x) @ a.T + rho * rows.j[:, v] - rows.w[:, v]) / (1 + rho)
    rows.s[...] = rows.z + rows.w / rho
    return [rows.z[:, v].T @ in_double(x) for v, x in enumerate(rows.x)]


@row_work(reads="x z j", writes="w")
def update_w(rows: LeastSquaresRows, anchors: list[Array], rho: float) -> list[Array]:
    """W ← W + ρ (Z − J); return Σ_v ‖X_v − Z_v A_v‖² and ‖Z − J‖²."""
    gap = rows.z - rows.j
    rows.w += rho * gap
    misfits = (in_double(x) - rows.z[:, v] @ a for v, (x, a) in enumerate(zip(rows.x, anchors, strict=True)))
    return [sum((misfit**2).sum() for misfit in misfits), (gap**2).sum()]


class LeastSquares(TensorClusterer):
    """Cluster the samples by k-means on the leading left singular vectors of [Z_1 … Z_m].

    `lam` is λ: the larger, the more the views must agree. The other parameters are those of `tensormvc.ESTMC`.
    """

    works_on_rows = True

    def __init__(self, n_clusters=8, basis="auto", lam=1.0, penalty="etr", max_iter=100, tol=1e-6, random_state=None):
        self.n_clusters = n_clusters
        self.basis = basis
        self.lam = lam
        self.penalty = penalty
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _solve(self, views, seed, sample_graph):
        rows, penalty = views.rows, tm.penalties.make_penalty(self.penalty)
        coordinates = SampleCoordinates(self._fit_basis(views, seed, sample_graph), views.n_samples)
        n_latent = min(2 * self.n_clusters, views.n_samples, *views.widths)
        anchors = initial_anchors(views, n_latent)
        shape = views.n_views, n_latent
        rows.create(z=shape, j=shape, w=shape, s=shape)

        def step(penalties):
            nonlocal anchors
            anchors, done = round(rows, coordinates, anchors, self.lam, penalty, penalties["rho"])
            return done

        self._run(step, Schedule({"rho": 0.1}, {"rho": 1e8}, factor=1.5))
        embed(rows, self.n_clusters)
        self._cluster_points(views, seed)


if __name__ == "__main__":
    views, y = tm.datasets.load_digits_views(600)
    model = LeastSquares(n_clusters=10, basis="agft", random_state=0).fit(views)
    report = tm.metrics.clustering_report(y, model.labels_)
    print(f"{len(y)} digits in {len(views)} views, {model.n_iter_} iterations:")
    print("  ".join(f"{name} {value:.3f}" for name, value in report.items()))
    print(tm.audit_order(model, views, n_permutations=3))
