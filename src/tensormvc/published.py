"""What the authors' programs compute, where it differs from ours: for comparison, not for use."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from .algebra import singular_values
from .backend import Array, check_memory, is_sparse, namespace
from .bases import FFT
from .methods._admm import Record, Schedule, Step, run_admm
from .penalties import ETR, Log, Nuclear, Penalty
from .shrinkage import _shrink_by_svd, l21_shrink, low_rank_shrink
from .views import as_float64, as_views

__all__ = ["PublishedResult", "ReweightedETR", "asr_etr", "tlspnm", "tsvd_mvc"]

Matrix = NDArray[np.float64]

_TOL = 1e-7


class ReweightedETR(ETR):
    """ETR with the published proximal step: a reweighting that stops early.

    ``x ← max(0, s − τψ'(x))`` from ``x = s``, slice by slice, until the sum of squared changes over the
    slice is below 1e-4, at most 100 times. It is near a stationary point, not always the minimiser.

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
        """Iterate on a stack of slices (..., h): each stops for itself."""
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
    """The logarithm with the published threshold, which is not a proximal map: see `tlspnm`."""

    def _prox(self, s: Array, threshold: float) -> Array:
        xp = namespace(s)
        discriminant = (1 + s) ** 2 - 4 * threshold
        x = (s - 1 + xp.sqrt(xp.clip(discriminant, min=0.0))) / 2  # at least −1/2
        better = (x - s) ** 2 / 2 + threshold * xp.log1p(x) <= s**2 / 2
        return xp.where((discriminant > 0) & better, x, xp.zeros_like(x))


@dataclass(frozen=True)
class PublishedResult:
    """What a published program ends with.

    Parameters
    ----------
    representation : ndarray of shape (n_samples, d, n_views)
        Z. d is n_samples for the self-representations, n_latent for ASR-ETR.
    low_rank : ndarray of shape (n_samples, d, n_views)
        The low-rank copy of it: G of the self-representations, J of ASR-ETR.
    affinity : ndarray of shape (n_samples, n_samples) or None
        Σ_v |Z_v| + |Z_v|ᵀ; None for ASR-ETR.
    anchors : list of ndarrays of shape (n_latent, n_features_v), or None
        A_v of ASR-ETR.
    embedding : ndarray of shape (n_samples, n_clusters) or None
        Of ASR-ETR, where `n_clusters` was given. The signs of the columns are arbitrary.
    n_iter : int
        Number of rounds.
    converged : bool
        Whether the stop rule held; if not, the rounds ran out.
    history : list of Record
        One a round. ``residuals`` has the ‖·‖_inf of every view ("reconstruction_0", "consensus_0", ...) and the
        largest of them ("reconstruction", "consensus"); ``objective`` is that of `tsvd_mvc`.

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
    affinity: Matrix | None
    anchors: list[Matrix] | None
    embedding: Matrix | None
    n_iter: int
    converged: bool
    history: list[Record]


def tsvd_mvc(views: Any, *, lam: float, max_iter: int = 200) -> PublishedResult:
    """t-SVD-MVC as its authors' program runs it, with the FFT over the samples in the order given.

    The program refreshes the errors of all views, and one view's multiplier, each time it has updated one view's
    representation. So a view sees the errors that the views before it have left, and the result depends on the order
    of the views. Ours updates every block once a round: it does not, and it gives the figures of the paper.

    Parameters
    ----------
    views : list of arrays of shape (n_samples, n_features_v), or any other form of views
        Samples are scaled to unit length; their order, and that of the views, is kept.
    lam : float
        Weight of the error, above 0.
    max_iter : int, default=200
        Most rounds. The iterates after k rounds are those of ``max_iter=k``.

    Returns
    -------
    PublishedResult
        The objective in its history is the sum of the singular values of all slices of G.

    Notes
    -----
    The stop rule takes the largest absolute row sum of the n_features_v × n_samples residual, a number that depends on
    how the features are expressed; ours takes one that does not.

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
    start, caps = {"mu": 1e-4, "rho": 1e-4}, {"mu": 1e11, "rho": 1e13}
    run = run_admm(state.tsvd_mvc_round, Schedule(start, caps), max_iter=max_iter, tol=_TOL, name="t-SVD-MVC")
    return state.result(run)


def tlspnm(views: Any, *, lam: float, max_iter: int = 200) -> PublishedResult:
    """TLSpNM as its authors' program runs it, with the FFT over the samples in the order given.

    The order of the updates is ours too. Two things differ: the stop rule, as in `tsvd_mvc`, and the map of singular
    values. The program takes x = ½(σ − 1 + √((1 + σ)² − 4τ)) without asking for its sign, and for τ < 1 it is negative
    where 2√τ − 1 < σ < τ: small singular values turn round, they do not become 0. Ours is the minimiser over x ≥ 0.
    The iterates are the same until τ = 1/μ falls below 1, which is in round 18.

    Parameters
    ----------
    views : list of arrays of shape (n_samples, n_features_v), or any other form of views
        Samples are scaled to unit length; their order, and that of the views, is kept.
    lam : float
        Weight of the error, above 0.
    max_iter : int, default=200
        Most rounds. The iterates after k rounds are those of ``max_iter=k``.

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
    return state.result(run_admm(state.tlspnm_round, schedule, max_iter=max_iter, tol=_TOL, name="TLSpNM"))


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
    """ASR-ETR as its authors' program runs it, with the FFT over the samples in the order given.

    Three things differ from ours. The anchors start at zero, so the first ones are the first `n_latent` features
    whatever those are. The proximal step of the penalty is a reweighting that stops early (`ReweightedETR`), where
    ours is the minimiser. The stop rule tests the residual with new anchors, but errors of the old ones.

    Parameters
    ----------
    views : list of arrays of shape (n_samples, n_features_v), or any other form of views
        Samples are scaled to unit length; their order, and that of the views, is kept.
    n_latent : int
        Number of anchors of a view.
    alpha : float
        Weight of the error, above 0.
    gamma : float
        Weight of the regulariser of the anchors, at least 0.
    delta : float
        Parameter of the penalty ETR, above 0.
    n_clusters : int, optional
        Columns of the embedding; without it there is none.
    max_iter : int, default=51
        Most rounds. The iterates after k rounds are those of ``max_iter=k``.

    Returns
    -------
    PublishedResult

    Notes
    -----
    In one thing this is not what the program computes. The regulariser has a graph over the anchors; these are
    orthonormal, so all their distances are equal and the program's graph is made of rounding errors. Here equal
    distances are ties: the Laplacian is the identity and the regulariser a ridge of 2γ. The iterates are the program's
    if γ = 0, or if every view has at least four features fewer than anchors, of which the surplus is zero for ever.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(60)
    >>> result = tm.published.asr_etr(views, n_latent=10, alpha=0.1, gamma=0.0, delta=0.01, n_clusters=10)
    >>> result.representation.shape, result.embedding.shape, result.anchors[0].shape
    ((60, 10, 4), (60, 10), (10, 64))
    """
    n_latent, max_iter = _count(n_latent, "n_latent"), _count(max_iter, "max_iter")
    alpha, delta = _positive(alpha, "alpha"), _positive(delta, "delta")
    gamma = _positive(gamma, "gamma", zero=True)
    parts = _unit_views(views)
    if n_clusters is not None:
        n_clusters, most = _count(n_clusters, "n_clusters"), min(len(parts[0]), n_latent * len(parts))
        if n_clusters > most:
            raise ValueError(f"n_clusters is {n_clusters}: {most} at most, the samples or n_latent times the views")
    state = _AnchorRepresentation(parts, n_latent, alpha, gamma, delta)
    schedule = Schedule({"mu": 1e-4, "rho": 1e-4}, {"mu": 1e11, "rho": 1e13})
    run = run_admm(state.round, schedule, max_iter=max_iter, tol=_TOL, name="ASR-ETR")
    embedding = None
    if n_clusters is not None:
        stacked = np.concatenate(list(np.moveaxis(state.representation, 2, 0)), axis=1)
        embedding = np.linalg.svd(stacked / math.sqrt(len(parts)), full_matrices=False)[0][:, :n_clusters]
    return PublishedResult(
        state.representation, state.low_rank, None, state.anchors, embedding, run.n_iter, run.converged, run.history
    )


class _SelfRepresentation:
    """X_vᵀ = X_vᵀ Z_v + E_v, kept with one row a sample: X_v = Z_vᵀ X_v + E_v.

    In the features as given, not in the reduced coordinates of our own solver, because the stop rule asks for them.
    """

    def __init__(self, parts: list[Matrix], penalty: Penalty, lam: float) -> None:
        self.parts, self.penalty, self.lam = parts, penalty, lam
        n, m = len(parts[0]), len(parts)
        self.basis = FFT().fit(parts)
        self.kernels = [part @ part.T for part in parts]
        self.factors: list[Any] = []
        self.ratio = math.nan
        self.representation = np.zeros((n, n, m))
        self.low_rank = np.zeros((n, n, m))  # G
        self.multiplier = np.zeros((n, n, m))  # W
        self.misfit = [part.copy() for part in parts]  # X − ZᵀX
        self.error = [np.zeros_like(part) for part in parts]  # E
        self.error_multiplier = [np.zeros_like(part) for part in parts]  # Y

    def tsvd_mvc_round(self, penalties: dict[str, float]) -> Step:
        mu, rho = penalties["mu"], penalties["rho"]
        for v in range(len(self.parts)):
            self._update_representation(v, mu, rho)
            # All views, though only this one has changed: this is where the order of the views comes in.
            shifted = [r + y / mu for r, y in zip(self.misfit, self.error_multiplier, strict=True)]
            self.error = list(l21_shrink(shifted, self.lam / mu, overwrite=True))
            self._update_error_multiplier(v, mu)
        self._update_low_rank(rho)
        spectrum = singular_values(self.low_rank, self.basis)
        return self._report(float(self.basis.slice_weights_ @ spectrum.sum(axis=1)))

    def tlspnm_round(self, penalties: dict[str, float]) -> Step:
        mu = penalties["mu"]
        for v in range(len(self.parts)):
            self._update_representation(v, mu, mu)
            shifted = self.misfit[v] + self.error_multiplier[v] / mu
            self.error[v] = np.asarray(l21_shrink(shifted, self.lam / mu, overwrite=True))
            self._update_error_multiplier(v, mu)
        self._update_low_rank(mu)
        return self._report(None)

    def result(self, run: Any) -> PublishedResult:
        total = np.abs(self.representation).sum(axis=2)
        affinity = total + total.T
        return PublishedResult(
            self.representation, self.low_rank, affinity, None, None, run.n_iter, run.converged, run.history
        )

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

    def _update_error_multiplier(self, v: int, mu: float) -> None:
        self.error_multiplier[v] += mu * (self.misfit[v] - self.error[v])

    def _update_low_rank(self, rho: float) -> None:
        shifted = self.representation + self.multiplier / rho
        # The Gram matrices of `low_rank_shrink` lose half the digits of a small singular value, and the logarithm of
        # the program gives it weight.
        self.low_rank = self.basis.inverse(_shrink_by_svd(self.basis.forward(shifted), self.penalty, 1 / rho))
        self.multiplier += rho * (self.representation - self.low_rank)

    def _report(self, objective: float | None) -> Step:
        # The program's rows are features here, the columns of ours.
        reconstruction = [_largest_sum(r - e, axis=0) for r, e in zip(self.misfit, self.error, strict=True)]
        return _step(reconstruction, self.representation - self.low_rank, objective)


class _AnchorRepresentation:
    """X_v = Z_v A_v + E_v."""

    def __init__(self, parts: list[Matrix], n_latent: int, alpha: float, gamma: float, delta: float) -> None:
        self.parts, self.alpha, self.gamma = parts, alpha, gamma
        self.penalty = ReweightedETR(delta)
        self.basis = FFT().fit(parts)
        shape = (len(parts[0]), n_latent, len(parts))
        self.representation = np.zeros(shape)
        self.low_rank = np.zeros(shape)  # J
        self.multiplier = np.zeros(shape)  # W
        self.anchors = [np.zeros((n_latent, part.shape[1])) for part in parts]
        self.error = [np.zeros_like(part) for part in parts]  # E
        self.error_multiplier = [np.zeros_like(part) for part in parts]  # Y

    def round(self, penalties: dict[str, float]) -> Step:
        mu, rho = penalties["mu"], penalties["rho"]
        views = range(len(self.parts))
        pull = rho * self.low_rank - self.multiplier
        for v in views:
            self.representation[:, :, v] = self._target(v, mu) @ self.anchors[v].T + pull[:, :, v]
        self.representation /= 2 * self.gamma + mu + rho
        misfit = [self._misfit(v) for v in views]
        shifted = [misfit[v] + self.error_multiplier[v] / mu for v in views]
        self.error = list(l21_shrink(shifted, self.alpha / mu, overwrite=True))
        for v in views:
            self.error_multiplier[v] += mu * (misfit[v] - self.error[v])
        shrunk = self.representation + self.multiplier / rho
        self.low_rank = low_rank_shrink(shrunk, self.basis, self.penalty, 1 / rho)
        self.multiplier += rho * (self.representation - self.low_rank)
        for v in views:
            self.anchors[v] = _polar_factor(self.representation[:, :, v].T @ self._target(v, mu))
        reconstruction = [_largest_sum(self._misfit(v) - self.error[v], axis=1) for v in views]
        return _step(reconstruction, self.representation - self.low_rank)

    def _misfit(self, v: int) -> Matrix:
        return np.asarray(self.parts[v] - self.representation[:, :, v] @ self.anchors[v])

    def _target(self, v: int, mu: float) -> Matrix:
        return np.asarray(self.error_multiplier[v] + mu * (self.parts[v] - self.error[v]))


def _polar_factor(matrix: Matrix) -> Matrix:
    """Return PQᵀ of the thin SVD PΣQᵀ; of a zero matrix, where any would do, the identity."""
    if not matrix.any():
        return np.eye(*matrix.shape)
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    return np.asarray(left @ right)


def _step(reconstruction: list[float], gap: Matrix, objective: float | None = None) -> Step:
    """Report the residuals of a round, view by view and the largest."""
    consensus = [_largest_sum(gap[:, :, v], axis=1) for v in range(gap.shape[2])]
    residuals = {"reconstruction": max(reconstruction), "consensus": max(consensus)}
    residuals |= {f"reconstruction_{v}": value for v, value in enumerate(reconstruction)}
    residuals |= {f"consensus_{v}": value for v, value in enumerate(consensus)}
    return Step(residuals, max(residuals.values()), objective)


def _largest_sum(matrix: Matrix, axis: int) -> float:
    return float(np.abs(matrix).sum(axis=axis).max())


def _unit_views(views: Any, *, square: bool = False) -> list[Matrix]:
    """Return the views at unit length, dense and in double precision, everything in the order given."""
    checked = as_views(views, canonical=False, keep_view_order=True)
    if square:
        n, m = checked.n_samples, checked.n_views
        # Z, G, W, the kernels and their factors, and what a round makes of them.
        check_memory(10 * 8 * m * n**2, f"a published self-representation of {n} samples", "take fewer samples")
    parts = [as_float64(array) for array in checked.arrays]
    return [part.toarray() if is_sparse(part) else part for part in parts]


def _positive(value: Any, name: str, *, zero: bool = False) -> float:
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < 0 or (value == 0 and not zero):
        raise ValueError(f"{name} must be a finite number {'>= 0' if zero else '> 0'}, got {value!r}")
    return float(value)


def _count(value: Any, name: str) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a whole number >= 1, got {value!r}")
    return int(value)
