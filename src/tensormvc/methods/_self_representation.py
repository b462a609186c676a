"""Self-representation: each view explains its samples by each other, X_vᵀ = X_vᵀ Z_v + E_v.

Shared by t-SVD-MVC and TLSpNM. The n × n tensor of all Z_v is made low-rank under a basis.

Three changes of coordinates leave two n × r × n products a view and round, and nothing else of that order:

* The first index of the tensor is kept in the coordinates of the basis (`_frame.py`): no round transforms anything.
* Everything of view v that has d_v rows lives in the span of its samples, so it is kept in the coordinates of the
  r = min(d_v, n) singular vectors of X_v: with K_v = X_v X_vᵀ = V diag(λ) Vᵀ the samples are V Λ^{1/2}, n × r, and
  (I + (μ/ρ) K_v)^{-1} is diagonal on the span and the identity beside it. One row a sample, here and in the errors.
* F = residual + Y/μ holds both the error and its multiplier: E = share · F and Y = μ (1 − share) F, row by row.

All but the shrinkage is local to the columns: a block of them goes through a round while it is in the cache. And as
long as the thresholds are so high that G and E must be zero, all iterates are functions of K_v: the first rounds need
no matrices at all (`_Prelude`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from .._ops import is_sparse, parallel_ranges
from .._views import as_float64
from ._admm import Step
from ._frame import frame_of

# Columns that go through a round together, at most.
_MOST_COLUMNS = 256


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
        self.penalty, self.lam, self.stacked = penalty, lam, stacked
        n, m = parts[0].shape[0], len(parts)
        self.frame = frame_of(basis, n, m)
        coordinates: list[Any] = [None] * m

        def work(start: int, stop: int) -> None:
            for v in range(start, stop):
                coordinates[v] = _singular_coordinates(parts[v])

        parallel_ranges(work, m)
        self.roots = [root for root, _ in coordinates]
        self.samples = [vectors * root for root, vectors in coordinates]  # V Λ^{1/2}
        self.vectors = [self.frame.into(vectors) for _, vectors in coordinates]  # V, its samples in the frame
        shape = m, self.frame.n_rows, n
        self._representation = np.zeros(shape)  # Z
        self._low_rank = np.zeros(shape)  # G
        self._multiplier = np.zeros(shape)  # W/ρ
        self._error = [np.zeros_like(samples) for samples in self.samples]  # F
        self._shares = np.zeros((m, n, 1))
        self._last: tuple[float, float] | None = None
        zeros = [np.zeros_like(root) for root in self.roots]
        self._prelude: _Prelude | None = _Prelude(self.roots, zeros, zeros, zeros)
        # Even in number, for two threads; of a width that depends on n alone, as then does the rounding.
        n_blocks = 2 * -(-n // (2 * _MOST_COLUMNS))
        self._width = 8 * -(-n // (8 * n_blocks))
        self._rooms: dict[int, _Room] = {}

    def step(self, penalties: dict[str, float]) -> Step:
        """Do one round."""
        mu = penalties["mu"]
        rho = penalties.get("rho", mu)
        last_mu, last_rho = self._last or (mu, rho)
        mu_growth, rho_growth = mu / last_mu, rho / last_rho
        self._last = mu, rho
        if self._prelude is not None:
            if (done := self._begin(self._prelude, mu, rho, mu_growth, rho_growth)) is not None:
                return done
            self._end_prelude()
        n = self._representation.shape[2]
        worst = np.zeros(-(-n // self._width))

        def work(start: int, stop: int) -> None:
            # Fresh memory costs more than what is done with it.
            room = self._rooms.setdefault(start, _Room(self, self._width))
            for lo in range(start, stop, self._width):
                columns = slice(lo, min(lo + self._width, stop))
                worst[lo // self._width] = self._update_columns(columns, mu, rho, mu_growth, rho_growth, room)

        parallel_ranges(work, n, self._width)
        gaps = self.frame.shrink(
            self._representation, self._multiplier, self._low_rank, self.penalty, 1 / rho, decay=1 / rho_growth
        )
        misfit, gap = math.sqrt(worst.max()), float(gaps.max())
        return Step({"reconstruction": misfit, "consensus": gap}, stop=max(misfit, gap))

    def _begin(self, prelude: _Prelude, mu: float, rho: float, mu_growth: float, rho_growth: float) -> Step | None:
        """Do a round in which everything is a function of K_v; None if G or E may not be zero after it."""
        following = prelude.after(mu / rho, mu_growth, rho_growth)
        energies, lengths, misfits = np.zeros(self.frame.n_rows), [], []
        for v, (vectors, samples) in enumerate(zip(self.vectors, self.samples, strict=True)):
            energies += np.square(vectors) @ following.multipliers[v] ** 2
            squares = np.square(samples)
            lengths.append(squares @ following.errors[v] ** 2)
            misfits.append(squares @ (1 - following.representations[v]) ** 2)
        longest = np.max(np.sum(lengths, axis=0) if self.stacked else lengths)
        if longest > (self.lam / mu) ** 2 or not self.frame.shrinks_to_zero(energies, self.penalty, 1 / rho):
            return None
        self._prelude = following
        misfit = math.sqrt(np.max(misfits))
        gap = max(float(np.linalg.norm(kept)) for kept in following.representations)
        return Step({"reconstruction": misfit, "consensus": gap}, stop=max(misfit, gap))

    def _end_prelude(self) -> None:
        """Write the functions of K_v as the matrices that they are."""
        if (prelude := self._prelude) is None:
            return
        self._prelude = None
        for v, vectors in enumerate(self.vectors):
            # Where a singular value is 0, so are the functions.
            inverse = 1 / np.where(self.roots[v] > 0, self.roots[v], 1)
            right = self.samples[v].T
            np.matmul(vectors * (prelude.representations[v] * inverse), right, out=self._representation[v])
            np.matmul(vectors * (prelude.multipliers[v] * inverse), right, out=self._multiplier[v])
            np.multiply(self.samples[v], prelude.errors[v], out=self._error[v])

    def _update_columns(
        self, columns: slice, mu: float, rho: float, mu_growth: float, rho_growth: float, room: _Room
    ) -> float:
        """Update some columns of Z, and the errors of their samples; return the largest square of what is left over."""
        width = columns.stop - columns.start
        for v, (root, vectors) in enumerate(zip(self.roots, self.vectors, strict=True)):
            target, moved = room.target[:, :width], room.moved[:, :width]
            old, new, term = (buffer[:width] for buffer in (room.old[v], room.residual[v], room.term[v]))
            samples, error, share = self.samples[v][columns], self._error[v][columns], self._shares[v, columns]
            multiplier, representation = self._multiplier[v, :, columns], self._representation[v, :, columns]
            np.multiply(multiplier, -1 / rho_growth, out=target)
            target += self._low_rank[v, :, columns]
            np.matmul(target.T, vectors, out=old)
            weights = 1 / (1 + mu / rho * root**2)
            # K_v (Y/μ − E + X), in singular coordinates.
            np.multiply(error, (1 - share) / mu_growth - share, out=new)
            new += samples
            new *= mu / rho * root * weights
            new += np.multiply(old, weights, out=term)
            if len(root) == len(self.samples[v]):
                np.matmul(vectors, new.T, out=representation)
            else:
                # Beside the span of the samples nothing changes.
                np.subtract(new, old, out=old)
                np.add(target, np.matmul(vectors, old.T, out=moved), out=representation)
            # The residual takes the place of the coordinates.
            new *= root
            np.subtract(samples, new, out=new)
            error *= (1 - share) / mu_growth
            error += new
            room.lengths[v, :width] = np.einsum("ij,ij->i", error, error)
        lengths = room.lengths[:, :width]
        if self.stacked:
            lengths[:] = lengths.sum(axis=0)
        lengths[lengths == 0] = 1
        self._shares[:, columns, 0] = np.maximum(0, 1 - self.lam / mu / np.sqrt(lengths))
        worst = 0.0
        for v, share in enumerate(self._shares[:, columns]):
            residual = room.residual[v][:width]
            residual -= np.multiply(self._error[v][columns], share, out=room.term[v][:width])
            worst = max(worst, float(np.einsum("ij,ij->i", residual, residual).max()))
        return worst

    @property
    def representation(self) -> NDArray[np.float64]:
        """Z, (n, n, m)."""
        self._end_prelude()
        return self._tensor(self._representation)

    @property
    def low_rank(self) -> NDArray[np.float64]:
        """G, (n, n, m)."""
        self._end_prelude()
        return self._tensor(self._low_rank)

    def _tensor(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.stack([self.frame.back(part) for part in rows]).transpose(1, 2, 0)

    def affinity(self) -> NDArray[np.float64]:
        """Return Σ_v |Z_v| + |Z_v|ᵀ."""
        self._end_prelude()
        total = np.sum([np.abs(self.frame.back(part)) for part in self._representation], axis=0)
        return np.asarray(total + total.T)


@dataclass(frozen=True)
class _Prelude:
    """The state of the loop while G = E = 0, where Z_v, W_v and F_v are functions of K_v: values at its eigenvalues.

    Z_v = V diag(representations) Vᵀ, W_v/ρ = V diag(multipliers) Vᵀ, F_v = diag(errors) on the singular coordinates.
    """

    roots: list[NDArray[np.float64]]
    representations: list[NDArray[np.float64]]
    multipliers: list[NDArray[np.float64]]
    errors: list[NDArray[np.float64]]

    def after(self, ratio: float, mu_growth: float, rho_growth: float) -> _Prelude:
        """Return the state after one more round, with μ/ρ and how much μ and ρ have grown."""
        state = _Prelude(self.roots, [], [], [])
        for root, multiplier, error in zip(self.roots, self.multipliers, self.errors, strict=True):
            push = ratio * root**2
            kept = (push * (error / mu_growth + 1) - multiplier / rho_growth) / (1 + push)
            state.representations.append(kept)
            state.multipliers.append(multiplier / rho_growth + kept)
            state.errors.append(error / mu_growth + 1 - kept)
        return state


class _Room:
    """Memory for the update of some columns: most of it for one view after the other, and the residual of each."""

    def __init__(self, problem: SelfRepresentation, width: int) -> None:
        rows, ranks = problem.frame.n_rows, [len(root) for root in problem.roots]
        self.target, self.moved = np.empty((rows, width)), np.empty((rows, width))
        self.old, self.term = _shared(width, ranks), _shared(width, ranks)
        self.residual = [np.empty((width, rank)) for rank in ranks]
        self.lengths = np.empty((len(ranks), width))


def _shared(width: int, ranks: list[int]) -> list[NDArray[np.float64]]:
    """Return arrays (width, rank) that lie in the same place."""
    room = np.empty(width * max(ranks))
    return [room[: width * rank].reshape(width, rank) for rank in ranks]


def _singular_coordinates(part: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the singular values of a view, r = min(d, n) of them, and the left singular vectors (n, r)."""
    part = as_float64(part)
    gram = part @ part.T
    n, r = part.shape[0], min(part.shape)
    dense = gram.toarray() if is_sparse(gram) else gram
    options: dict[str, Any] = {"driver": "evd"} if r == n else {"subset_by_index": [n - r, n - 1]}
    values, vectors = eigh(dense, overwrite_a=True, check_finite=False, **options)
    return np.sqrt(np.maximum(values[::-1], 0)), np.ascontiguousarray(vectors[:, ::-1])
