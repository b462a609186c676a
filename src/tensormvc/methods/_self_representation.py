"""Self-representation: each view explains its samples by each other, X_vᵀ = X_vᵀ Z_v + E_v.

Shared by t-SVD-MVC and TLSpNM. The n × n tensor of all Z_v is made low-rank under a basis.

Three changes of coordinates leave two n × r × n products a view and round, and nothing else of that order:

* The first index of the tensor is kept in the coordinates of the basis (`_frame.py`): no round transforms anything.
* Everything of view v that has d_v rows lives in the span of its samples, so it is kept in the coordinates of the
  r = min(d_v, n) singular vectors of X_v: with K_v = X_v X_vᵀ = V diag(λ) Vᵀ the samples are V Λ^{1/2}, n × r, and
  (I + (μ/ρ) K_v)^{-1} is diagonal on the span and the identity beside it. One row a sample, here and in the errors.
* F = residual + Y/μ holds both the error and its multiplier: E = share · F and Y = μ (1 − share) F, row by row.

All but the shrinkage is local to the columns: a block of them goes through a round while it is in the cache; a device
takes all of them, or as many as it has room for. And as long as the thresholds are so high that G and E must be zero,
all iterates are functions of K_v: the first rounds need no matrices at all (`_Prelude`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import device
from scipy.linalg import eigh

from ..backend import (
    Array,
    contiguous,
    in_double,
    is_sparse,
    is_tensor,
    leading_eigenpairs,
    matmul_into,
    namespace,
    parallel_ranges,
    raise_to_zero,
    run_ranges,
    sum_of_squares,
)
from ._admm import Step
from ._frame import frame_of

# Columns that go through a round together, at most.
_MOST_COLUMNS = 256
# On a device, as many as fit beside the tensors in this.
_DEVICE_ROOM_BYTES = 2 * 2**30


class SelfRepresentation:
    """The state of the loop, and one round of it; float64, in NumPy's arrays or in PyTorch's where the views are.

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
        coordinates: list[Any] = [None] * m

        def work(start: int, stop: int) -> None:
            for v in range(start, stop):
                coordinates[v] = _singular_coordinates(parts[v])

        if is_tensor(parts[0]):
            work(0, m)
        else:
            parallel_ranges(work, m)
        self.roots = [root for root, _ in coordinates]
        self.frame = frame_of(basis, coordinates[0][1], m)
        xp = namespace(*self.roots)
        self._kind = {"dtype": xp.float64, "device": device(self.roots[0])}
        self.samples = [vectors * root for root, vectors in coordinates]  # V Λ^{1/2}
        self.vectors = [self.frame.into(vectors) for _, vectors in coordinates]  # V, its samples in the frame
        shape = m, self.frame.n_rows, n
        self._representation = xp.zeros(shape, **self._kind)  # Z
        self._low_rank = xp.zeros(shape, **self._kind)  # G
        self._multiplier = xp.zeros(shape, **self._kind)  # W/ρ
        self._error = [xp.zeros_like(samples) for samples in self.samples]  # F
        self._shares = xp.zeros((m, n, 1), **self._kind)
        self._last: tuple[float, float] | None = None
        zeros = [xp.zeros_like(root) for root in self.roots]
        self._prelude: _Prelude | None = _Prelude(self.roots, zeros, zeros, zeros)
        if is_tensor(self._representation):
            n_blocks = -(-n * _Room.bytes_of_a_column(self) // _DEVICE_ROOM_BYTES)
        else:
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
        xp = namespace(self._representation)
        worst = xp.zeros((-(-n // self._width), len(self.roots)), **self._kind)

        def work(start: int, stop: int) -> None:
            # Fresh memory costs more than what is done with it.
            if start not in self._rooms:
                self._rooms[start] = _Room(self, self._width)
            for lo in range(start, stop, self._width):
                columns = slice(lo, min(lo + self._width, stop))
                left_over = worst[lo // self._width]
                self._update_columns(columns, mu, rho, mu_growth, rho_growth, self._rooms[start], left_over)

        run_ranges(work, self.samples[0], self._width)
        gaps = self.frame.shrink(
            self._representation, self._multiplier, self._low_rank, self.penalty, 1 / rho, decay=1 / rho_growth
        )
        misfit, gap = math.sqrt(worst.max()), float(gaps.max())
        return Step({"reconstruction": misfit, "consensus": gap}, stop=max(misfit, gap))

    def _begin(self, prelude: _Prelude, mu: float, rho: float, mu_growth: float, rho_growth: float) -> Step | None:
        """Do a round in which everything is a function of K_v; None if G or E may not be zero after it."""
        following = prelude.after(mu / rho, mu_growth, rho_growth)
        xp = namespace(*self.roots)
        energies, lengths, misfits = xp.zeros_like(self.vectors[0][:, 0]), [], []
        for v, (vectors, samples) in enumerate(zip(self.vectors, self.samples, strict=True)):
            energies += xp.square(vectors) @ following.multipliers[v] ** 2
            squares = xp.square(samples)
            lengths.append(squares @ following.errors[v] ** 2)
            misfits.append(squares @ (1 - following.representations[v]) ** 2)
        errors = xp.stack(lengths)
        longest = float(xp.max(xp.sum(errors, axis=0) if self.stacked else errors))
        if longest > (self.lam / mu) ** 2 or not self.frame.shrinks_to_zero(energies, self.penalty, 1 / rho):
            return None
        self._prelude = following
        misfit = math.sqrt(xp.max(xp.stack(misfits)))
        gap = max(float(xp.linalg.norm(kept)) for kept in following.representations)
        return Step({"reconstruction": misfit, "consensus": gap}, stop=max(misfit, gap))

    def _end_prelude(self) -> None:
        """Write the functions of K_v as the matrices that they are."""
        if (prelude := self._prelude) is None:
            return
        self._prelude = None
        xp = namespace(*self.roots)
        for v, (root, vectors) in enumerate(zip(self.roots, self.vectors, strict=True)):
            # Where a singular value is 0, so are the functions.
            inverse = 1 / xp.where(root > 0, root, xp.ones_like(root))
            right = self.samples[v].T
            matmul_into(vectors * (prelude.representations[v] * inverse), right, self._representation[v])
            matmul_into(vectors * (prelude.multipliers[v] * inverse), right, self._multiplier[v])
            xp.multiply(self.samples[v], prelude.errors[v], out=self._error[v])

    def _update_columns(
        self, columns: slice, mu: float, rho: float, mu_growth: float, rho_growth: float, room: _Room, left_over: Array
    ) -> None:
        """Update some columns of Z, and the errors of their samples; write the largest square left over in each view.

        That stays where it is: a device need not wait.
        """
        xp = namespace(left_over)
        width, n = columns.stop - columns.start, self._representation.shape[2]
        for v, (root, vectors) in enumerate(zip(self.roots, self.vectors, strict=True)):
            target, moved = room.target[:, :width], room.moved[:, :width]
            old, new, term = (buffer[:width] for buffer in (room.old[v], room.residual[v], room.term[v]))
            samples, error, share = self.samples[v][columns], self._error[v][columns], self._shares[v, columns]
            multiplier, representation = self._multiplier[v, :, columns], self._representation[v, :, columns]
            xp.multiply(multiplier, -1 / rho_growth, out=target)
            target += self._low_rank[v, :, columns]
            matmul_into(target.T, vectors, old)
            weights = 1 / (1 + mu / rho * root**2)
            # K_v (Y/μ − E + X), in singular coordinates.
            xp.multiply(error, (1 - share) / mu_growth - share, out=new)
            new += samples
            new *= mu / rho * root * weights
            new += xp.multiply(old, weights, out=term)
            if root.shape[0] == n:
                matmul_into(vectors, new.T, representation)
            else:
                # Beside the span of the samples nothing changes.
                xp.subtract(new, old, out=old)
                xp.add(target, matmul_into(vectors, old.T, moved), out=representation)
            # The residual takes the place of the coordinates.
            new *= root
            xp.subtract(samples, new, out=new)
            error *= (1 - share) / mu_growth
            error += new
            room.lengths[v, :width] = sum_of_squares(error)
        lengths = room.lengths[:, :width]
        if self.stacked:
            lengths[...] = xp.sum(lengths, axis=0)
        lengths[lengths == 0] = 1
        self._shares[:, columns, 0] = raise_to_zero(1 - self.lam / mu / xp.sqrt(lengths))
        for v, share in enumerate(self._shares[:, columns]):
            residual = room.residual[v][:width]
            residual -= xp.multiply(self._error[v][columns], share, out=room.term[v][:width])
            left_over[v] = xp.max(sum_of_squares(residual))

    @property
    def representation(self) -> Array:
        """Z, (n, n, m)."""
        self._end_prelude()
        return self._tensor(self._representation)

    @property
    def low_rank(self) -> Array:
        """G, (n, n, m)."""
        self._end_prelude()
        return self._tensor(self._low_rank)

    def _tensor(self, rows: Array) -> Array:
        xp = namespace(rows)
        return xp.permute_dims(xp.stack([self.frame.back(part) for part in rows]), (1, 2, 0))

    def affinity(self) -> Array:
        """Return Σ_v |Z_v| + |Z_v|ᵀ."""
        self._end_prelude()
        total: Any = 0.0
        for part in self._representation:
            total = total + abs(self.frame.back(part))
        return total + total.T


@dataclass(frozen=True)
class _Prelude:
    """The state of the loop while G = E = 0, where Z_v, W_v and F_v are functions of K_v: values at its eigenvalues.

    Z_v = V diag(representations) Vᵀ, W_v/ρ = V diag(multipliers) Vᵀ, F_v = diag(errors) on the singular coordinates.
    """

    roots: list[Array]
    representations: list[Array]
    multipliers: list[Array]
    errors: list[Array]

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
        rows, ranks = problem.frame.n_rows, [root.shape[0] for root in problem.roots]
        xp = namespace(*problem.roots)

        def empty(*shape: int) -> Array:
            return xp.empty(shape, **problem._kind)

        self.target, self.moved = empty(rows, width), empty(rows, width)
        # Of one view at a time: they lie in the same place.
        shared = [empty(width * max(ranks)) for _ in range(2)]
        self.old, self.term = ([room[: width * r].reshape(width, r) for r in ranks] for room in shared)
        self.residual = [empty(width, rank) for rank in ranks]
        self.lengths = empty(len(ranks), width)

    @staticmethod
    def bytes_of_a_column(problem: SelfRepresentation) -> int:
        """Return what a column takes, with one more for the squares of which a device makes sums."""
        ranks = [root.shape[0] for root in problem.roots]
        return 8 * int(2 * problem.frame.n_rows + 3 * max(ranks) + sum(ranks) + len(ranks))


def _singular_coordinates(part: Any) -> tuple[Array, Array]:
    """Return the singular values of a view, r = min(d, n) of them, and the left singular vectors (n, r)."""
    part = in_double(part)
    if is_tensor(part):
        return _singular_coordinates_of_tensor(part)
    gram = part @ part.T
    n, r = part.shape[0], min(part.shape)
    dense = gram.toarray() if is_sparse(gram) else gram
    options: dict[str, Any] = {"driver": "evd"} if r == n else {"subset_by_index": [n - r, n - 1]}
    values, vectors = eigh(dense, overwrite_a=True, check_finite=False, **options)
    return np.sqrt(np.maximum(values[::-1], 0)), np.ascontiguousarray(vectors[:, ::-1])


def _singular_coordinates_of_tensor(part: Array) -> tuple[Array, Array]:
    """Do the same on a device, which finds all eigenvectors or none: of a tall view, those of its triangle."""
    xp = namespace(part)
    if part.shape[1] < part.shape[0]:
        columns, triangle = xp.linalg.qr(part)
        roots, vectors = _singular_coordinates_of_tensor(triangle)
        return roots, columns @ vectors
    values, vectors = leading_eigenpairs(part @ part.T, part.shape[0])
    return xp.sqrt(raise_to_zero(values)), contiguous(vectors)
