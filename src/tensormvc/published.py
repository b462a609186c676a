"""The algorithms as the authors' published programs run them, where they differ from ours.

They are here to reproduce and compare. To cluster data, use the estimators `TSVDMVC`, `TLSpNM` and `ASRETR`.
"""

import math
import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from .algebra import singular_values
from .backend.arrays import Array, is_sparse, namespace
from .backend.checks import check_memory
from .backend.linalg import thin_svd
from .bases import FFT
from .methods._admm import Record, Run, Schedule, Step, run_admm
from .penalties import ETR, Log, Nuclear, Penalty
from .shrinkage import _shrink_by_svd, l21_shrink, low_rank_shrink
from .views import as_float64, as_views

__all__ = ["PublishedResult", "ReweightedETR", "asr_etr", "tlspnm", "tsvd_mvc"]

Matrix = NDArray[np.float64]

_TOL = 1e-7


class ReweightedETR(ETR):
    """The ETR penalty with the published proximal step, an iterative reweighting that stops early.

    It repeats ``x ← max(0, s − τψ'(x))`` from ``x = s``, for each slice until the sum of squared changes is below 1e-4,
    at most 100 times. The result is close to a stationary point, but not always the minimiser.

    Parameters
    ----------
    delta : float, default=0.01
        As in `tensormvc.penalties.ETR`.

    Examples
    --------
    >>> from tensormvc.published import ReweightedETR
    >>> ReweightedETR(delta=1.0).prox([[0.5, 3.0]], threshold=1.0).round(4)
    array([[0.    , 2.8132]])
    """

    def _prox(self, s: Array, threshold: float) -> Array:
        """Iterate on a stack of slices (..., h), each of which stops on its own."""
        xp = namespace(s)
        x = xp.asarray(s, copy=True)
        active = xp.ones(s.shape[:-1], dtype=xp.bool, device=device(s))
        for _ in range(100):
            new = xp.clip(s - threshold * self._derivative(x), min=0.0)
            change = xp.sum((new - x) ** 2, axis=-1)
            x = xp.where(active[..., None], new, x)
            active = active & (change >= 1e-4)
            if not bool(xp.any(active)):
                break
        return x


class _UnclippedLog(Log):
    """The logarithm with the published thresholding, which is not a proximal map; see `tlspnm`."""

    def _prox(self, s: Array, threshold: float) -> Array:
        xp = namespace(s)
        discriminant = (1 + s) ** 2 - 4 * threshold
        x = (s - 1 + xp.sqrt(xp.clip(discriminant, min=0.0))) / 2  # at least −1/2
        better = (x - s) ** 2 / 2 + threshold * xp.log1p(x) <= s**2 / 2
        return xp.where((discriminant > 0) & better, x, xp.zeros_like(x))


@dataclass(frozen=True, kw_only=True)
class PublishedResult:
    """The result of a published algorithm.

    Parameters
    ----------
    representation : ndarray of shape (n_samples, d, n_views)
        Z, with d = n_samples for the self-representations and d = n_latent for ASR-ETR.
    low_rank : ndarray of shape (n_samples, d, n_views)
        The low-rank copy of Z: G of the self-representations, J of ASR-ETR.
    affinity : ndarray of shape (n_samples, n_samples) or None
        ``Σ_v |Z_v| + |Z_v|ᵀ``; None for ASR-ETR.
    anchors : list of ndarrays of shape (n_latent, n_features_v), or None
        The anchors A_v of ASR-ETR.
    embedding : ndarray of shape (n_samples, n_clusters) or None
        The embedding of ASR-ETR if `n_clusters` was passed. The signs of its columns are arbitrary.
    n_iter : int
        Number of iterations.
    converged : bool
        Whether the stopping criterion was met within `max_iter` iterations.
    history : list of Record
        One record per iteration. ``residuals`` holds the ‖·‖_inf of every view ("reconstruction_0", "consensus_0", ...)
        and their maxima ("reconstruction", "consensus"); ``objective`` is set by `tsvd_mvc`.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(30)
    >>> result = tm.published.tlspnm(views, lam=0.2, max_iter=3)
    >>> result.n_iter, result.converged, sorted(result.history[-1].penalties)
    (3, False, ['mu'])
    """

    representation: Matrix
    low_rank: Matrix
    affinity: Matrix | None = None
    anchors: list[Matrix] | None = None
    embedding: Matrix | None = None
    n_iter: int
    converged: bool
    history: list[Record]


def tsvd_mvc(views: Any, *, lam: float, max_iter: int = 200) -> PublishedResult:
    """Run t-SVD-MVC as in its authors' program, with the FFT along the samples in their given order.

    After each update of one view's representation, the program updates the errors of all views and the multiplier of
    that view. A view thus sees errors that earlier views have changed, and the result depends on the order of the
    views. `tensormvc.TSVDMVC` updates every block once per iteration, which does not depend on that order and
    reproduces the figures of the paper.

    Parameters
    ----------
    views : list of arrays of shape (n_samples, n_features_v), or any other form of views
        The views. Samples are scaled to unit length; samples and views keep their order.
    lam : float
        Weight of the error, greater than 0.
    max_iter : int, default=200
        Maximum number of iterations. The iterates after k iterations are those of ``max_iter=k``.

    Returns
    -------
    PublishedResult
        The objective in the history is the sum of the singular values of all slices of G.

    Notes
    -----
    The stopping criterion is the largest absolute row sum of the n_features_v × n_samples residual, which changes if
    the features are rotated; that of `tensormvc.TSVDMVC` does not.

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(30)
    >>> result = tm.published.tsvd_mvc(views, lam=0.2)
    >>> result.representation.shape, result.affinity.shape, result.converged
    ((30, 30, 4), (30, 30), True)
    >>> reverse = tm.published.tsvd_mvc(views[::-1], lam=0.2)
    >>> bool(np.allclose(result.affinity, reverse.affinity, rtol=0.01))
    False
    """
    lam, max_iter = _positive(lam, "lam"), _count(max_iter, "max_iter")
    state = _SelfRepresentation(_unit_views(views, square=True), Nuclear(), lam)
    schedule = Schedule({"mu": 1e-4, "rho": 1e-4}, {"mu": 1e11, "rho": 1e13})
    run = run_admm(state.tsvd_mvc_round, schedule, max_iter=max_iter, tol=_TOL, name="t-SVD-MVC")
    return state.result(run, affinity=state.affinity())


def tlspnm(views: Any, *, lam: float, max_iter: int = 200) -> PublishedResult:
    """Run TLSpNM as in its authors' program, with the FFT along the samples in their given order.

    Two things differ from `tensormvc.TLSpNM`: the stopping criterion, as in `tsvd_mvc`, and the map of singular values.
    The program uses x = ½(σ − 1 + √((1 + σ)² − 4τ)) whatever its sign. For τ < 1 and 2√τ − 1 < σ < τ this is negative:
    small singular values change their sign instead of becoming 0. Ours is the minimiser over x ≥ 0. The iterates are
    the same until τ = 1/μ falls below 1, in iteration 18.

    Parameters
    ----------
    views : list of arrays of shape (n_samples, n_features_v), or any other form of views
        The views. Samples are scaled to unit length; samples and views keep their order.
    lam : float
        Weight of the error, greater than 0.
    max_iter : int, default=200
        Maximum number of iterations. The iterates after k iterations are those of ``max_iter=k``.

    Returns
    -------
    PublishedResult

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(30)
    >>> result = tm.published.tlspnm(views, lam=0.2)
    >>> result.representation.shape, result.affinity.shape, result.converged
    ((30, 30, 4), (30, 30), True)
    """
    lam, max_iter = _positive(lam, "lam"), _count(max_iter, "max_iter")
    state = _SelfRepresentation(_unit_views(views, square=True), _UnclippedLog(), lam)
    schedule = Schedule({"mu": 1e-5}, {"mu": 1e10})
    run = run_admm(state.tlspnm_round, schedule, max_iter=max_iter, tol=_TOL, name="TLSpNM")
    return state.result(run, affinity=state.affinity())


def asr_etr(
    views: Any,
    *,
    n_latent: int,
    alpha: float,
    gamma: float,
    delta: float,
    n_clusters: int | None = None,
    max_iter: int = 51,
) -> PublishedResult:
    """Run ASR-ETR as in its authors' program, with the FFT along the samples in their given order.

    Three things differ from `tensormvc.ASRETR`. The anchors start at zero, so the first ones are the first `n_latent`
    features. The proximal step of the penalty is a reweighting that stops early (`ReweightedETR`), where ours is the
    minimiser. The stopping criterion combines the new anchors with the errors of the old ones.

    Parameters
    ----------
    views : list of arrays of shape (n_samples, n_features_v), or any other form of views
        The views. Samples are scaled to unit length; samples and views keep their order.
    n_latent : int
        Number of anchors per view.
    alpha : float
        Weight of the error, greater than 0.
    gamma : float
        Weight of the anchor regulariser, at least 0.
    delta : float
        Parameter of the ETR penalty, greater than 0.
    n_clusters : int, optional
        Number of columns of the embedding; by default none is computed.
    max_iter : int, default=51
        Maximum number of iterations. The iterates after k iterations are those of ``max_iter=k``.

    Returns
    -------
    PublishedResult

    Notes
    -----
    One thing differs from the program. Its regulariser uses a neighbour graph of the anchors. These are orthonormal, so
    all distances are equal and rounding errors decide the graph. Here equal distances are ties: the Laplacian is the
    identity and the regulariser a ridge of 2γ. The iterates are those of the program if γ = 0, or if every view has at
    least four features fewer than anchors, because the surplus anchors then remain zero.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(60)
    >>> result = tm.published.asr_etr(views, n_latent=10, alpha=0.1, gamma=0.0, delta=0.01, n_clusters=10)
    >>> result.representation.shape, result.embedding.shape, result.anchors[0].shape
    ((60, 10, 4), (60, 10), (10, 64))
    """
    n_latent, max_iter = _count(n_latent, "n_latent"), _count(max_iter, "max_iter")
    alpha, gamma, delta = _positive(alpha, "alpha"), _positive(gamma, "gamma", zero=True), _positive(delta, "delta")
    parts = _unit_views(views)
    if n_clusters is not None:
        n_clusters, most = _count(n_clusters, "n_clusters"), min(len(parts[0]), n_latent * len(parts))
        if n_clusters > most:
            limit = "the number of samples, or n_latent times the views"
            raise ValueError(f"n_clusters = {n_clusters} must be at most {most}: {limit}")
    state = _AnchorRepresentation(parts, n_latent, alpha, gamma, delta)
    schedule = Schedule({"mu": 1e-4, "rho": 1e-4}, {"mu": 1e11, "rho": 1e13})
    run = run_admm(state.round, schedule, max_iter=max_iter, tol=_TOL, name="ASR-ETR")
    embedding = None if n_clusters is None else state.embedding(n_clusters)
    return state.result(run, anchors=state.anchors, embedding=embedding)


class _Rounds:
    """What the rounds of all algorithms share: Z, its low-rank copy, the errors, and the multipliers."""

    def __init__(self, parts: list[Matrix], size: int) -> None:
        shape = (len(parts[0]), size, len(parts))
        self.parts, self.views, self.basis = parts, range(len(parts)), FFT().fit(parts)
        self.representation = np.zeros(shape)
        self.low_rank = np.zeros(shape)  # G or J
        self.multiplier = np.zeros(shape)  # W
        self.error = [np.zeros_like(part) for part in parts]  # E
        self.error_multiplier = [np.zeros_like(part) for part in parts]  # Y

    def result(self, run: Run, **others: Any) -> PublishedResult:
        others |= {"n_iter": run.n_iter, "converged": run.converged, "history": run.history}
        return PublishedResult(representation=self.representation, low_rank=self.low_rank, **others)

    def _shrink_errors(self, misfit: list[Matrix], mu: float, weight: float) -> None:
        shifted = [r + y / mu for r, y in zip(misfit, self.error_multiplier, strict=True)]
        self.error = list(l21_shrink(shifted, weight / mu, overwrite=True))

    def _step(self, reconstruction: list[float], objective: float | None = None) -> Step:
        """Return the residuals of an iteration for every view, and their maxima."""
        gap = self.representation - self.low_rank
        consensus = [_largest_sum(gap[:, :, v], axis=1) for v in self.views]
        residuals = {"reconstruction": max(reconstruction), "consensus": max(consensus)}
        residuals |= {f"reconstruction_{v}": value for v, value in enumerate(reconstruction)}
        residuals |= {f"consensus_{v}": value for v, value in enumerate(consensus)}
        return Step(residuals, max(residuals.values()), objective)


class _SelfRepresentation(_Rounds):
    """X_vᵀ = X_vᵀ Z_v + E_v, transposed so that rows are samples: X_v = Z_vᵀ X_v + E_v.

    In the original features, because the stopping criterion needs them, not in the reduced coordinates of `TSVDMVC`.
    """

    def __init__(self, parts: list[Matrix], penalty: Penalty, lam: float) -> None:
        super().__init__(parts, len(parts[0]))
        self.penalty, self.lam = penalty, lam
        self.kernels = [part @ part.T for part in parts]
        self.factors: list[Any] = []
        self.ratio = math.nan
        self.misfit = [part.copy() for part in parts]  # X − ZᵀX

    def tsvd_mvc_round(self, penalties: dict[str, float]) -> Step:
        mu, rho = penalties["mu"], penalties["rho"]
        for v in self.views:
            self._update_representation(v, mu, rho)
            # All views, although only this one has changed: this makes the order of the views matter.
            self._shrink_errors(self.misfit, mu, self.lam)
            self.error_multiplier[v] += mu * (self.misfit[v] - self.error[v])
        self._update_low_rank(rho)
        spectrum = singular_values(self.low_rank, self.basis)
        return self._report(float(self.basis.slice_weights_ @ spectrum.sum(axis=1)))

    def tlspnm_round(self, penalties: dict[str, float]) -> Step:
        mu = penalties["mu"]
        for v in self.views:
            self._update_representation(v, mu, mu)
            shifted = self.misfit[v] + self.error_multiplier[v] / mu
            self.error[v] = np.asarray(l21_shrink(shifted, self.lam / mu, overwrite=True))
            self.error_multiplier[v] += mu * (self.misfit[v] - self.error[v])
        self._update_low_rank(mu)
        return self._report()

    def affinity(self) -> Matrix:
        total = np.abs(self.representation).sum(axis=2)
        return np.asarray(total + total.T)

    def _update_representation(self, v: int, mu: float, rho: float) -> None:
        if mu / rho != self.ratio:
            self.ratio = mu / rho
            identity = np.eye(len(self.kernels[0]))
            self.factors = [cho_factor(identity + self.ratio * kernel) for kernel in self.kernels]
        part = self.parts[v]
        pull = part @ (self.error_multiplier[v] - mu * self.error[v]).T + mu * self.kernels[v]
        target = (pull - self.multiplier[:, :, v]) / rho + self.low_rank[:, :, v]
        self.representation[:, :, v] = cho_solve(self.factors[v], target)
        self.misfit[v] = part - self.representation[:, :, v].T @ part

    def _update_low_rank(self, rho: float) -> None:
        slices = self.basis.forward(self.representation + self.multiplier / rho)
        # The Gram matrices of `low_rank_shrink` lose half the digits of small singular values, which the program's
        # logarithm amplifies.
        self.low_rank = self.basis.inverse(_shrink_by_svd(slices, self.penalty, 1 / rho)[0])
        self.multiplier += rho * (self.representation - self.low_rank)

    def _report(self, objective: float | None = None) -> Step:
        # The program stores features in rows, which are columns here.
        return self._step([_largest_sum(self.misfit[v] - self.error[v], axis=0) for v in self.views], objective)


class _AnchorRepresentation(_Rounds):
    """X_v = Z_v A_v + E_v."""

    def __init__(self, parts: list[Matrix], n_latent: int, alpha: float, gamma: float, delta: float) -> None:
        super().__init__(parts, n_latent)
        self.alpha, self.gamma, self.penalty = alpha, gamma, ReweightedETR(delta)
        self.anchors = [np.zeros((n_latent, part.shape[1])) for part in parts]

    def round(self, penalties: dict[str, float]) -> Step:
        mu, rho = penalties["mu"], penalties["rho"]
        pull = rho * self.low_rank - self.multiplier
        for v in self.views:
            self.representation[:, :, v] = self._target(v, mu) @ self.anchors[v].T + pull[:, :, v]
        self.representation /= 2 * self.gamma + mu + rho
        misfit = [self._misfit(v) for v in self.views]
        self._shrink_errors(misfit, mu, self.alpha)
        for v in self.views:
            self.error_multiplier[v] += mu * (misfit[v] - self.error[v])
        shrunk = self.representation + self.multiplier / rho
        self.low_rank = low_rank_shrink(shrunk, self.basis, self.penalty, 1 / rho)
        self.multiplier += rho * (self.representation - self.low_rank)
        for v in self.views:
            self.anchors[v] = _polar_factor(self.representation[:, :, v].T @ self._target(v, mu))
        return self._step([_largest_sum(self._misfit(v) - self.error[v], axis=1) for v in self.views])

    def embedding(self, n_clusters: int) -> Matrix:
        stacked = np.concatenate(list(np.moveaxis(self.representation, 2, 0)), axis=1)
        left = thin_svd(stacked / math.sqrt(len(self.parts)))[0]
        return np.asarray(left[:, :n_clusters])

    def _misfit(self, v: int) -> Matrix:
        return np.asarray(self.parts[v] - self.representation[:, :, v] @ self.anchors[v])

    def _target(self, v: int, mu: float) -> Matrix:
        return np.asarray(self.error_multiplier[v] + mu * (self.parts[v] - self.error[v]))


def _polar_factor(matrix: Matrix) -> Matrix:
    """Return PQᵀ of the thin SVD PΣQᵀ; the identity for a zero matrix, where it is not unique."""
    if not matrix.any():
        return np.eye(*matrix.shape)
    left, _, right = thin_svd(matrix)
    return np.asarray(left @ right)


def _largest_sum(matrix: Matrix, axis: int) -> float:
    return float(np.abs(matrix).sum(axis=axis).max())


def _unit_views(views: Any, *, square: bool = False) -> list[Matrix]:
    """Return dense views in double precision with samples of unit length, without reordering anything."""
    checked = as_views(views, canonical=False, keep_view_order=True)
    if square:
        n, m = checked.n_samples, checked.n_views
        # Z, G, W, the kernels and their factors, and the temporaries of an iteration.
        check_memory(10 * 8 * m * n**2, f"a published self-representation of {n} samples", "pass fewer samples")
    parts = [as_float64(array) for array in checked.arrays]
    return [part.toarray() if is_sparse(part) else part for part in parts]


def _positive(value: Any, name: str, *, zero: bool = False) -> float:
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < 0 or (value == 0 and not zero):
        raise ValueError(f"{name} must be a finite number {'>= 0' if zero else '> 0'}, got {value!r}")
    return float(value)


def _count(value: Any, name: str) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be an integer >= 1, got {value!r}")
    return int(value)
