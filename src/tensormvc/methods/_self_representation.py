"""Self-representation, the family of t-SVD-MVC and TLSpNM: each view explains its samples by each other.

With X_v (n × d_v) the samples of view v at unit length and 𝒵 (n × n × m) the tensor of all Z_v:

    min   Σ_k w_k Σ_i ψ(σ_i(𝒵̄_k)) + λ ‖E‖_{2,1}     s.t.  X_vᵀ = X_vᵀ Z_v + E_v

where 𝒵̄_k are the slices of 𝒵 under the basis, transformed along the first index of Z_v. A sample's error has one
length over all views (t-SVD-MVC) or one in each (TLSpNM). ADMM splits 𝒵 = 𝒢, with multipliers Y_v and 𝒲 and penalty
parameters μ and ρ.

Three changes of coordinates leave two n × r × n products per view and round, and nothing else of that order:

* The first index of 𝒵 is kept in the coordinates of the basis (`_coordinates.py`): no round transforms anything.
* Everything of view v with d_v rows lives in the span of its samples, so it is kept in the coordinates of the
  r = min(d_v, n) singular vectors of X_v: with K_v = X_v X_vᵀ = V diag(λ) Vᵀ the samples are V Λ^{1/2}, n × r, and
  (I + (μ/ρ) K_v)^{-1} is diagonal on the span and the identity beside it. One row per sample, here and in the errors.
* F = residual + Y/μ holds both the error and its multiplier: E = share · F and Y = μ (1 − share) F, row by row.

All but the shrinkage is local to the columns: a block of them goes through a round while it is in the cache. And as
long as the thresholds are so high that G and E must be zero, all iterates are functions of K_v: the first rounds need
no matrices at all (`_Prelude`).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from array_api_compat import device
from scipy.linalg import eigh

from ..backend.arrays import Array, contiguous, in_double, is_sparse, is_tensor, namespace, on_host
from ..backend.checks import check_memory
from ..backend.linalg import leading_eigenpairs, matmul_into, raise_to_zero, sum_of_squares
from ..backend.threads import parallel_ranges, run_ranges
from ..rows import SampleRandom, kmeans, piece_size
from ..views import Views
from ._admm import Schedule, Step
from ._base import POSITIVE, TensorClusterer
from ._coordinates import coordinates_of

_RESTARTS = 20
# Columns that go through a round together, at most.
_MOST_COLUMNS = 256
# On a device, as many as fit beside the tensors in this.
_DEVICE_ROOM_BYTES = 2 * 2**30


@dataclass(frozen=True)
class _Growth:
    """Penalty parameters of a round, and how much they have grown since the last one."""

    mu: float
    rho: float
    of_mu: float
    of_rho: float


@dataclass
class SelfRepresentationRows:
    """Row arrays of the loop.

    Attributes
    ----------
    z, g, w : arrays of shape (n_rows, m, n)
        𝒵, its low-rank copy 𝒢, and 𝒲/ρ, their first index in the coordinates of the basis.
    f : list of arrays (n, r)
        F_v.
    shares : array of shape (m, n, 1)
        Shares of F that are error.
    """

    z: Array
    g: Array
    w: Array
    f: list[Array]
    shares: Array


class SelfRepresentation:
    """The problem and the state of its loop, in float64, on the device of the views.

    Parameters
    ----------
    parts : list of arrays (n, d_v)
        Views at unit length.
    basis : fitted basis
        Transform of the tensor (n, n, m).
    penalty : penalty
        ψ, on the singular values of its slices.
    lam : float
        λ, weight of the error.
    stacked : bool
        Whether a sample's error has one length over all views (t-SVD-MVC), or one in each (TLSpNM).

    Attributes
    ----------
    roots, samples, vectors : lists of arrays
        For each view Λ^{1/2} (r,), the samples V Λ^{1/2} (n, r), and V in the coordinates of the basis (n_rows, r).
    rows : SelfRepresentationRows
        The state of the loop.
    """

    def __init__(self, parts: list[Any], basis: Any, penalty: Any, lam: float, *, stacked: bool) -> None:
        self.penalty, self.lam, self.stacked = penalty, lam, stacked
        n, m = parts[0].shape[0], len(parts)
        singular: list[Any] = [None] * m

        def work(start: int, stop: int) -> None:
            for v in range(start, stop):
                singular[v] = _singular_coordinates(parts[v])

        if is_tensor(parts[0]):
            work(0, m)
        else:
            parallel_ranges(work, m)
        self.roots = [root for root, _ in singular]
        self.coordinates = coordinates_of(basis, singular[0][1], m)
        xp = namespace(*self.roots)
        self.kind = {"dtype": xp.float64, "device": device(self.roots[0])}
        self.samples = [vectors * root for root, vectors in singular]
        self.vectors = [self.coordinates.into(vectors) for _, vectors in singular]
        z, g, w = (xp.zeros((self.coordinates.n_rows, m, n), **self.kind) for _ in range(3))
        f = [xp.zeros_like(samples) for samples in self.samples]
        self.rows = SelfRepresentationRows(z, g, w, f, xp.zeros((m, n, 1), **self.kind))
        self._last: tuple[float, float] | None = None
        zeros = [xp.zeros_like(root) for root in self.roots]
        self._prelude: _Prelude | None = _Prelude(self.roots, zeros, zeros, zeros)
        if is_tensor(z):
            n_blocks = -(-n * _Room.bytes_per_column(self) // _DEVICE_ROOM_BYTES)
        else:
            # An even number of blocks, for two threads. Their width depends on n alone, and so does the rounding.
            n_blocks = 2 * -(-n // (2 * _MOST_COLUMNS))
        self.width = 8 * -(-n // (8 * n_blocks))
        self.rooms: dict[int, _Room] = {}

    def step(self, penalties: dict[str, float]) -> Step:
        """Do one round: without matrices as long as that is possible."""
        mu = penalties["mu"]
        rho = penalties.get("rho", mu)
        last_mu, last_rho = self._last or (mu, rho)
        self._last = mu, rho
        growth = _Growth(mu, rho, mu / last_mu, rho / last_rho)
        if self._prelude is not None:
            if (done := self._begin(self._prelude, growth)) is not None:
                return done
            self._end_prelude()
        return round(self, self.rows, growth)

    def _begin(self, prelude: _Prelude, growth: _Growth) -> Step | None:
        """Do a round in which everything is a function of K_v; None if G or E may not be zero after it."""
        following = prelude.after(growth)
        xp = namespace(*self.roots)
        energies, lengths, misfits = xp.zeros_like(self.vectors[0][:, 0]), [], []
        for v, (vectors, samples) in enumerate(zip(self.vectors, self.samples, strict=True)):
            energies += xp.square(vectors) @ following.multipliers[v] ** 2
            squares = xp.square(samples)
            lengths.append(squares @ following.errors[v] ** 2)
            misfits.append(squares @ (1 - following.representations[v]) ** 2)
        errors = xp.stack(lengths)
        longest = float(xp.max(xp.sum(errors, axis=0) if self.stacked else errors))
        to_zero = self.coordinates.shrinks_to_zero(energies, self.penalty, 1 / growth.rho)
        if longest > (self.lam / growth.mu) ** 2 or not to_zero:
            return None
        self._prelude = following
        misfit = math.sqrt(xp.max(xp.stack(misfits)))
        gap = max(float(xp.linalg.norm(kept)) for kept in following.representations)
        return Step({"reconstruction": misfit, "consensus": gap}, stop=max(misfit, gap), objective=0.0)

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
            matmul_into(vectors * (prelude.representations[v] * inverse), right, self.rows.z[:, v])
            matmul_into(vectors * (prelude.multipliers[v] * inverse), right, self.rows.w[:, v])
            xp.multiply(self.samples[v], prelude.errors[v], out=self.rows.f[v])

    @property
    def representation(self) -> Array:
        """Z, (n, n, m)."""
        return self._tensor(self.rows.z)

    @property
    def low_rank(self) -> Array:
        """G, (n, n, m)."""
        return self._tensor(self.rows.g)

    def _tensor(self, rows: Array) -> Array:
        self._end_prelude()
        xp = namespace(rows)
        return xp.stack([self.coordinates.back(rows[:, v]) for v in range(rows.shape[1])], axis=2)

    def affinity(self) -> Array:
        """Return Σ_v |Z_v| + |Z_v|ᵀ."""
        self._end_prelude()
        total: Any = sum(abs(self.coordinates.back(self.rows.z[:, v])) for v in range(len(self.roots)))
        return total + total.T


def round(problem: SelfRepresentation, rows: SelfRepresentationRows, growth: _Growth) -> Step:
    """Do one round: the updates of Z, E, Y, G and W in order."""
    xp, n = namespace(rows.z), rows.z.shape[2]
    # For each block of columns, the largest square left over in each view, and the sum of the lengths of E.
    left_over = xp.zeros((-(-n // problem.width), len(problem.roots) + 1), **problem.kind)

    def work(start: int, stop: int) -> None:
        # Allocating memory takes longer than the computation, so buffers are reused.
        if start not in problem.rooms:
            problem.rooms[start] = _Room(problem)
        for lo in range(start, stop, problem.width):
            columns = slice(lo, min(lo + problem.width, stop))
            left_over[lo // problem.width] = _update_columns(problem, rows, columns, growth, problem.rooms[start])

    run_ranges(work, problem.samples[0], problem.width)
    # G ← shrink(Z + W/ρ), with threshold 1/ρ; W/ρ ← Z + W/ρ − G
    penalty = problem.coordinates.shrink(rows.w, problem.penalty, 1 / growth.rho, out=rows.g)
    gaps = xp.zeros((rows.z.shape[0], len(problem.roots)), **problem.kind)
    block = piece_size(len(problem.roots) * n, is_tensor(rows.z))

    def finish(start: int, stop: int) -> None:
        for lo in range(start, stop, block):
            at = slice(lo, min(lo + block, stop))
            rows.w[at] -= rows.g[at]
            gaps[at] = _squares(rows.z[at] - rows.g[at])

    run_ranges(finish, rows.z, block)
    misfit = math.sqrt(xp.max(left_over[:, :-1]))
    gap = math.sqrt(xp.max(xp.sum(gaps, axis=0)))
    objective = penalty + problem.lam * float(xp.sum(left_over[:, -1]))
    return Step({"reconstruction": misfit, "consensus": gap}, stop=max(misfit, gap), objective=objective)


def _update_columns(
    problem: SelfRepresentation, rows: SelfRepresentationRows, columns: slice, growth: _Growth, room: _Room
) -> Array:
    """Update some columns of Z, and F and the shares of their samples; turn W/ρ into Z + W/ρ.

    Returns the largest square left over in each view, and the sum of the lengths of E, still on the device, so that it
    need not be synchronised.
    """
    xp, ratio = namespace(rows.z), growth.mu / growth.rho
    width, n = columns.stop - columns.start, rows.z.shape[2]
    for v, (root, vectors) in enumerate(zip(problem.roots, problem.vectors, strict=True)):
        target, moved = room.target[:, :width], room.moved[:, :width]
        old, new, term = (buffer[:width] for buffer in (room.old[v], room.residual[v], room.term[v]))
        samples, f, share = problem.samples[v][columns], rows.f[v][columns], rows.shares[v, columns]
        w, z = rows.w[:, v, columns], rows.z[:, v, columns]
        # Z_v ← (I + (μ/ρ) K_v)^{-1} [G_v − W_v/ρ + (μ/ρ) X_v (Y_v/μ − E_v + X_v)]
        w *= 1 / growth.of_rho
        xp.subtract(rows.g[:, v, columns], w, out=target)
        matmul_into(target.T, vectors, old)
        weights = 1 / (1 + ratio * root**2)
        xp.multiply(f, (1 - share) / growth.of_mu - share, out=new)
        new += samples
        new *= ratio * root * weights
        new += xp.multiply(old, weights, out=term)
        if root.shape[0] == n:
            matmul_into(vectors, new.T, z)
        else:
            # Beside the span of the samples nothing changes.
            xp.subtract(new, old, out=old)
            xp.add(target, matmul_into(vectors, old.T, moved), out=z)
        w += z
        # F_v ← X_v − X_v Z_v + Y_v/μ; the residual takes the place of the coordinates.
        new *= root
        xp.subtract(samples, new, out=new)
        f *= (1 - share) / growth.of_mu
        f += new
        room.lengths[v, :width] = sum_of_squares(f)
    # E ← max(0, 1 − λ/(μ ‖f‖)) F, sample by sample; Y ← μ (F − E)
    lengths = room.lengths[:, :width]
    if problem.stacked:
        lengths[...] = xp.sum(lengths, axis=0)
    lengths[lengths == 0] = 1
    lengths = xp.sqrt(lengths)
    rows.shares[:, columns, 0] = raise_to_zero(1 - problem.lam / growth.mu / lengths)
    errors = rows.shares[:, columns, 0] * lengths
    left_over = [xp.sum(errors[:1] if problem.stacked else errors)]
    for v, share in enumerate(rows.shares[:, columns]):
        residual = room.residual[v][:width]
        residual -= xp.multiply(rows.f[v][columns], share, out=room.term[v][:width])
        left_over.insert(v, xp.max(sum_of_squares(residual)))
    return xp.stack(left_over)


def _squares(tensor: Array) -> Array:
    """Return the sums of squares of the rows (…, n) of a tensor."""
    return namespace(tensor).einsum("rvn,rvn->rv", tensor, tensor)


@dataclass(frozen=True)
class _Prelude:
    """The state of the loop while G = E = 0, where Z_v, W_v and F_v are functions of K_v: values at its eigenvalues.

    Z_v = V diag(representations) Vᵀ, W_v/ρ = V diag(multipliers) Vᵀ, F_v = diag(errors) on the singular coordinates.
    """

    roots: list[Array]
    representations: list[Array]
    multipliers: list[Array]
    errors: list[Array]

    def after(self, growth: _Growth) -> _Prelude:
        """Return the state after one more round."""
        state = _Prelude(self.roots, [], [], [])
        for root, multiplier, error in zip(self.roots, self.multipliers, self.errors, strict=True):
            push = growth.mu / growth.rho * root**2
            kept = (push * (error / growth.of_mu + 1) - multiplier / growth.of_rho) / (1 + push)
            state.representations.append(kept)
            state.multipliers.append(multiplier / growth.of_rho + kept)
            state.errors.append(error / growth.of_mu + 1 - kept)
        return state


class _Room:
    """Memory for the update of some columns: most of it for one view after the other, and the residual of each."""

    def __init__(self, problem: SelfRepresentation) -> None:
        rows, ranks = problem.coordinates.n_rows, [root.shape[0] for root in problem.roots]
        width = problem.width
        xp = namespace(*problem.roots)

        def empty(*shape: int) -> Array:
            return xp.empty(shape, **problem.kind)

        self.target, self.moved = empty(rows, width), empty(rows, width)
        # One view at a time: they share memory.
        shared = [empty(width * max(ranks)) for _ in range(2)]
        self.old, self.term = ([room[: width * r].reshape(width, r) for r in ranks] for room in shared)
        self.residual = [empty(width, rank) for rank in ranks]
        self.lengths = empty(len(ranks), width)

    @staticmethod
    def bytes_per_column(problem: SelfRepresentation) -> int:
        """Return what a column takes, with one more for the squares that a device sums up."""
        ranks = [root.shape[0] for root in problem.roots]
        return 8 * int(2 * problem.coordinates.n_rows + 3 * max(ranks) + sum(ranks) + len(ranks))


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


def spectral_embedding(affinity: Array, n_components: int) -> Array:
    """Return the leading eigenvectors of D^{-1/2} S D^{-1/2} (n, n_components), rows at unit length; overwrites S."""
    xp = namespace(affinity)
    degrees = xp.sum(affinity, axis=1)
    linked = degrees > 0
    scale = xp.where(linked, 1 / xp.sqrt(xp.where(linked, degrees, xp.ones_like(degrees))), xp.zeros_like(degrees))
    affinity *= scale[:, None]
    affinity *= scale
    _, vectors = leading_eigenpairs(affinity, n_components)
    lengths = xp.linalg.vector_norm(vectors, axis=1, keepdims=True)
    return vectors / xp.where(lengths > 0, lengths, xp.ones_like(lengths))


class SelfRepresentationClusterer(TensorClusterer):
    """Base class of t-SVD-MVC and TLSpNM: spectral clustering of the magnitudes of the representation."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {**TensorClusterer._parameter_constraints, "lam": POSITIVE}

    @abstractmethod
    def _problem(self, parts: list[Any], basis: Any) -> tuple[SelfRepresentation, Schedule]:
        """Return the problem and the penalty parameters."""

    def _solve(self, views: Views, seed: int, sample_graph: Any) -> None:
        n, m = views.n_samples, views.n_views
        check_memory(
            8 * n * n * (7 * m + 5),
            f"{type(self).__name__} on {n} samples in {m} views",
            'its representations are n × n; use ESTMC(basis="agft"), whose memory grows with n',
            views.arrays[0],
        )
        basis = self._fit_basis(views, seed, sample_graph)
        problem, schedule = self._problem(list(views.arrays), basis)
        self._run(problem.step, schedule)
        affinity = problem.affinity()
        if self.keep == "all":
            representation = views.to_given_order(on_host(problem.representation))
            self.representation_ = representation[:, np.argsort(views.order)]
            self.affinity_ = views.to_given_order(views.to_given_order(on_host(affinity)).T).T
        del problem
        embedding = spectral_embedding(affinity, self.n_clusters)
        self.embedding_ = views.to_given_order(on_host(embedding))
        labels, _ = kmeans(embedding, self.n_clusters, n_init=_RESTARTS, random=SampleRandom(views, seed))
        views.local_rows.hold(labels=labels)
