"""Codes that the kernel features of each view explain, of low rank and low frequency, and their consensus.

The solver of TLRLF4MVC. B_v are the codes of view v, B̂ the consensus; the tensor of all B_v is drawn to a low-rank copy
C under a basis and to a low-frequency copy Y in the span of an orthonormal F. All work is local to the rows, but for
products of the size of the features, of F and of the transform.

The multiplier Q1 of the consensus has no mean over the views after any round, and Q3 of the low frequencies nothing in
the span of F: they begin at zero, and a step of length 1.5 turns such a part p of them into −p/2. So B̂ is the mean of
the B_v, Y is F Fᵀ B, and only the sum of Q1 and Q3 is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..backend import Array, contiguous, in_double, matmul_into, namespace
from ..rows import Part, row_work
from ._admm import Step
from ._frame import RowShrinkage

# Length of the multiplier steps.
_STEP = 1.5
_GROWTH = 1.5
# A residual that keeps more than this share of its last value is slow.
_SLOW = 0.95


@dataclass
class BetaSchedule:
    """Penalty parameters of which each grows when its own residual falls too slowly.

    From the second round on, a parameter is multiplied by 1.5, up to its cap, if the residual of the same name
    exceeds 0.95 of what it was a round before.

    Parameters
    ----------
    mu_max : float
        Cap of the parameter of the low-frequency copy.
    """

    mu_max: float
    values: dict[str, float] = field(init=False)
    caps: dict[str, float] = field(init=False)
    _last: dict[str, float] = field(init=False, default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self.caps = {"consensus": 1e5, "low_rank": 1e5, "low_frequency": self.mu_max}
        self.values = {"consensus": 1e-3, "low_rank": 1e-3, "low_frequency": min(1e-4, self.mu_max)}

    def advance(self, residuals: Mapping[str, float]) -> None:
        """Go to the parameters of the next round."""
        for name, value in self.values.items():
            if name in self._last and residuals[name] > _SLOW * self._last[name]:
                self.values[name] = min(value * _GROWTH, self.caps[name])
            self._last[name] = residuals[name]


class LowFrequencyCodes:
    """The state of the loop, and one round of it.

    Memory: three tensors (n, m, d) beside what is given, and the slices of one.

    Parameters
    ----------
    rows : executor
        It holds "factors", a list of the A (n, a_v) with which A Aᵀ is the ridge projection onto the features of a
        view, float32 or float64, of which one with fewer rows is zero in the others; "frequencies", F (n, c) with
        orthonormal columns; and "codes", "low_rank" and "low_frequency", where B, C and Y start, (n, m, d) each, which
        are worked on. These are in double precision: how the penalties grow is decided by residuals far below single
        precision. The consensus B̂ joins them as "consensus", (n, d).
    shape : tuple of int
        (m, d).
    basis : fitted basis, or CoefficientRows
        Transform of the tensor (n, d, m), or that whose coefficients the rows are.
    penalty : penalty
        On the singular values of its slices.
    gamma : float
        Weight of the penalty.
    """

    def __init__(self, rows: Any, shape: tuple[int, int], basis: Any, penalty: Any, *, gamma: float) -> None:
        m, d = shape
        self.rows, self.gamma = rows, gamma
        # Multipliers: Q1 + Q3, and Q2 of the low-rank copy.
        for name in ("q13", "q2", "shifted"):
            rows.full(name, m, d)
        rows.full("consensus", d)
        self._width = m * d
        self._shrinkage = RowShrinkage(rows, basis, penalty)
        # Of each view, BᵀA: what multiplies its factor in the ridge projection of its codes.
        self._coefficients = rows.sum(_begin, width=self._width)

    def step(self, penalties: dict[str, float]) -> Step:
        """Do one round."""
        betas = tuple(penalties[name] for name in ("consensus", "low_rank", "low_frequency"))
        sums = self.rows.sum_later(_update_codes, self._coefficients, betas, width=self._width)
        self._shrinkage("shifted", "low_rank", self.gamma / betas[1])
        change, consensus, spectrum, *self._coefficients = sums()
        copies = self.rows.sum(_update_copies, spectrum, betas, width=self._width)
        names = ("change", "consensus", "low_rank", "low_frequency")
        residuals = {
            name: float(squares.max()) ** 0.5 for name, squares in zip(names, (change, consensus, *copies), strict=True)
        }
        return Step(residuals, stop=residuals["change"])

    def close(self) -> None:
        """Let go of all but the codes and their consensus."""
        self.rows.drop("factors", "frequencies", "low_rank", "low_frequency", "q13", "q2", "shifted")


def _coefficients(codes: Array, factors: list[Array]) -> list[Array]:
    """Return BᵀA of every view, with the long side last, which matrix products like better."""
    return [contiguous(codes[: part.shape[0], v].T) @ in_double(part) for v, part in enumerate(factors)]


@row_work(reads="codes factors", sets="consensus")
def _begin(rows: Part) -> list[Array]:
    codes = rows.codes
    rows.consensus[...] = namespace(codes).mean(codes, axis=1)
    return _coefficients(codes, rows.factors)


@row_work(reads="factors frequencies low_rank low_frequency q2", writes="codes consensus q13", sets="shifted")
def _update_codes(rows: Part, coefficients: list[Array], betas: tuple[float, float, float]) -> list[Array]:
    """Update B, B̂ and Q1, and what C needs; return squared changes and gaps, FᵀB, and BᵀA."""
    beta1, beta2, beta3 = betas
    codes, consensus, q13, q2 = rows.codes, rows.consensus, rows.q13, rows.q2
    xp, factors = namespace(codes), rows.factors
    new, term = (rows.room(name, codes.shape, codes) for name in ("new", "term"))
    for v, part in enumerate(factors):
        new[: part.shape[0], v] = (coefficients[v] @ in_double(part).T).T
        new[part.shape[0] :, v] = 0
    new += xp.multiply(rows.low_rank, beta2, out=term)
    new += xp.multiply(rows.low_frequency, beta3, out=term)
    new += (beta1 * consensus)[:, None]
    new -= q13
    new -= q2
    new /= beta1 + beta2 + beta3 + 1
    codes -= new
    change = _squares(codes)
    codes[...] = new
    consensus[...] = xp.mean(new, axis=1)
    gap = _ascend(q13, xp.subtract(new, consensus[:, None], out=term), beta1)
    shifted = xp.multiply(q2, 1 / beta2, out=rows.shifted)
    shifted += new
    spectrum = rows.frequencies.T @ xp.reshape(new, (new.shape[0], -1))
    return [change, gap, spectrum, *_coefficients(new, factors)]


@row_work(reads="codes low_rank frequencies", writes="q13 q2", sets="low_frequency")
def _update_copies(rows: Part, spectrum: Array, betas: tuple[float, float, float]) -> list[Array]:
    """Update Y, Q2 and Q3; return the squared gaps."""
    codes, low_frequency = rows.codes, rows.low_frequency
    xp = namespace(codes)
    matmul_into(rows.frequencies, spectrum, xp.reshape(low_frequency, (low_frequency.shape[0], -1)))
    room = rows.room("gap", codes.shape, codes)
    return [
        _ascend(multiplier, xp.subtract(codes, copy, out=room), beta)
        for multiplier, copy, beta in ((rows.q2, rows.low_rank, betas[1]), (rows.q13, low_frequency, betas[2]))
    ]


def _ascend(multiplier: Array, gap: Array, beta: float) -> Array:
    """Move a multiplier along its gap, which is spoilt; return the gap's sum of squares of each view."""
    squares = _squares(gap)
    gap *= _STEP * beta
    multiplier += gap
    return squares


def _squares(tensor: Array) -> Array:
    """Return the sum of squares of each view."""
    return namespace(tensor).einsum("ivj,ivj->v", tensor, tensor)
