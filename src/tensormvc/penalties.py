"""Penalties on singular values: ψ, its derivative and its proximal map.

Every penalty is 0 at 0, increasing and concave. Its proximal map returns, for each entry, the global minimiser over
x ≥ 0 of ½(x − s)² + τψ(x). The map of a non-convex penalty may jump from 0 to a positive value; at the jump both are
minimisers, and the positive one is returned.
"""

import math
import re
from abc import ABC, abstractmethod
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .backend.arrays import Array, namespace
from .backend.checks import as_real_array, check_finite, check_threshold

__all__ = ["ETP", "ETR", "MCP", "SCAD", "GammaNorm", "Geman", "Laplace", "Log", "Nuclear", "SchattenP"]
__all__ += ["Penalty", "make_penalty"]

# Newton's method converges quadratically, except where the two stationary points nearly coincide, where its steps
# halve. (Without a second derivative it converges linearly.)
_MAX_NEWTON_STEPS = 1000


def _as_singular_values(s: Any) -> Array:
    """Return singular values as a floating-point array of any shape; an error unless finite and non-negative."""
    s = as_real_array(s, "singular values", None)
    check_finite(s, "singular values")
    if bool(namespace(s).any(s < 0)):
        raise ValueError(f"singular values must not be negative, got {float(namespace(s).min(s))}")
    return s


class Penalty(BaseEstimator, ABC):  # type: ignore[misc]
    """Base class of the penalties.

    A subclass implements ψ as `_value`, ψ' as `_derivative` and the minimum of ψ'' as `_curvature_at_zero`. If ψ' is
    convex, it inherits an exact proximal map, which is faster if `_second_derivative` implements ψ''. A subclass with a
    closed form overrides `_prox`.

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> class Saturating(tm.penalties.Penalty):  # ψ(s) = 1 − exp(−s)
    ...     def _value(self, s):
    ...         return 1 - np.exp(-s)
    ...     def _derivative(self, s):
    ...         return np.exp(-s)
    ...     def _curvature_at_zero(self):
    ...         return -1.0
    >>> tm.testing.check_penalty(Saturating())
    """

    def value(self, s: Any) -> Array:
        """Return ψ(s) for each entry."""
        return self._value(_as_singular_values(s))

    def derivative(self, s: Any) -> Array:
        """Return ψ'(s) for each entry: the right derivative, which may be infinite at 0."""
        return self._derivative(_as_singular_values(s))

    def prox(self, s: Any, threshold: float) -> Array:
        """Return the global minimiser over x ≥ 0 of ½(x − s)² + threshold·ψ(x) for each entry.

        Parameters
        ----------
        s : array of any shape
            Non-negative singular values.
        threshold : float
            τ ≥ 0.

        Returns
        -------
        array of the same shape and type
        """
        s = _as_singular_values(s)
        threshold = check_threshold(threshold)
        return self._prox(s, threshold) if threshold > 0 else namespace(s).asarray(s, copy=True)

    def lipschitz(self, threshold: float) -> float:
        """Return the Lipschitz constant of ``prox(·, threshold)``, which is infinite if the map jumps.

        It is also that of the shrinkage of a matrix in the Frobenius norm.
        """
        threshold = check_threshold(threshold)
        slope = 1.0 + threshold * self._curvature_at_zero() if threshold > 0 else 1.0
        return 1.0 / slope if slope > 0 else math.inf

    @abstractmethod
    def _value(self, s: Array) -> Array: ...

    @abstractmethod
    def _derivative(self, s: Array) -> Array: ...

    @abstractmethod
    def _curvature_at_zero(self) -> float:
        """Return the minimum of ψ'', which a concave ψ with convex ψ' attains at 0."""

    def _prox(self, s: Array, threshold: float) -> Array:
        """Find the largest stationary point by Newton's method, and keep it if it is better than 0.

        g(x) = x − s + τψ'(x) is convex and non-negative at x = s, so Newton's method started there decreases to the
        largest root and never beyond it. Leaving the interval means that there is no root. Without ψ'' this is the
        reweighting x ← max(0, s − τψ'(x)), which takes more steps to the same point.
        """
        xp = namespace(s)
        x = xp.asarray(s, copy=True)
        tolerance = 4 * xp.finfo(s.dtype).eps
        for _ in range(_MAX_NEWTON_STEPS):
            with np.errstate(over="ignore"):  # infinite derivatives near 0 lead to 0
                gap = x - s + threshold * self._derivative(x)
                slope = 1 + threshold * self._second_derivative(x)
            step = xp.where(slope > 0, gap / xp.where(slope > 0, slope, xp.ones_like(slope)), x)
            new = xp.clip(x - step, min=0.0)
            done = bool(xp.all(x - new <= tolerance * x))
            x = new
            if done:
                break
        return self._keep_if_better(x, s, threshold)

    def _second_derivative(self, s: Array) -> Array:
        return namespace(s).zeros_like(s)

    def _keep_if_better(self, x: Array, s: Array, threshold: float) -> Array:
        """Return x where its objective is at most that of 0, else 0.

        The difference of the objectives, divided by x, is x/2 − s + τψ(x)/x.
        """
        xp = namespace(s)
        positive = x > 0
        safe = xp.where(positive, x, xp.ones_like(x))
        better = positive & (safe / 2 + threshold * self._value(safe) / safe <= s)
        return xp.where(better, x, xp.zeros_like(x))


def _positive(penalty: Penalty, name: str, *, above: float = 0.0, most: float = math.inf) -> float:
    """Return a parameter of a penalty; an error unless it is finite, greater than `above` and at most `most`."""
    value: Any = getattr(penalty, name)
    if isinstance(value, bool) or not isinstance(value, Real) or not above < float(value) < math.inf:
        raise ValueError(f"{type(penalty).__name__}: {name} must be a finite number > {above:g}, got {value!r}")
    if float(value) > most:
        raise ValueError(f"{type(penalty).__name__}: {name} must be at most {most:g}, got {value!r}")
    return float(value)


class Nuclear(Penalty):
    """The nuclear norm, ψ(σ) = σ: the only convex penalty here.

    Examples
    --------
    >>> from tensormvc.penalties import Nuclear
    >>> Nuclear().prox([0.5, 3.0], threshold=1.0)
    array([0., 2.])
    """

    def _value(self, s: Array) -> Array:
        return namespace(s).asarray(s, copy=True)

    def _derivative(self, s: Array) -> Array:
        return namespace(s).ones_like(s)

    def _curvature_at_zero(self) -> float:
        return 0.0

    def _prox(self, s: Array, threshold: float) -> Array:
        return namespace(s).clip(s - threshold, min=0.0)


class Log(Penalty):
    """The logarithm, ψ(σ) = log(1 + σ): the penalty of TLSpNM.

    Examples
    --------
    >>> from tensormvc.penalties import Log
    >>> Log().prox([0.5, 3.0], threshold=1.0).round(4)
    array([0.    , 2.7321])
    """

    def _value(self, s: Array) -> Array:
        return namespace(s).log1p(s)

    def _derivative(self, s: Array) -> Array:
        return 1 / (1 + s)

    def _curvature_at_zero(self) -> float:
        return -1.0

    def _prox(self, s: Array, threshold: float) -> Array:
        xp = namespace(s)
        # The larger root of x² + (1 − s)x + τ − s, written as s minus a shrinkage, without cancellation or overflow.
        edge = 2 * math.sqrt(threshold)
        exists = 1 + s > edge
        root = xp.sqrt(xp.clip(1 + s - edge, min=0.0)) * xp.sqrt(1 + s + edge)
        x = xp.clip(s - 2 * threshold / (1 + s + root), min=0.0)
        return self._keep_if_better(xp.where(exists, x, xp.zeros_like(x)), s, threshold)


class _Rational(Penalty):
    """ψ(σ) = h σ/(σ + b): the family of ETR, the Geman penalty and the γ-norm."""

    @abstractmethod
    def _height_and_knee(self) -> tuple[float, float]:
        """Return (h, b): the limit at infinity, and the σ at which half of it is reached."""

    def _value(self, s: Array) -> Array:
        height, knee = self._height_and_knee()
        return height * s / (s + knee)

    def _derivative(self, s: Array) -> Array:
        height, knee = self._height_and_knee()
        return height * knee / (s + knee) ** 2

    def _curvature_at_zero(self) -> float:
        height, knee = self._height_and_knee()
        return -2 * height / knee**2

    def _prox(self, s: Array, threshold: float) -> Array:
        # With y = x + b and p = s + b, a stationary point is a root of y³ − p y² + τhb = 0. The largest root is
        # (p/3)(1 + 2 cos(θ/3)) with sin²(θ/2) = (27/4) τhb/p³, if that is at most 1.
        xp = namespace(s)
        height, knee = self._height_and_knee()
        p = s + knee
        ratio = 6.75 * threshold * height * knee / p / p / p
        third = 2 * xp.asin(xp.sqrt(xp.clip(ratio, max=1.0))) / 3
        # x = y − b = s − (4p/3) sin²(θ/6), without the cancellation of p − b.
        x = s - 4 * p / 3 * xp.sin(third / 2) ** 2
        return self._keep_if_better(xp.where(ratio <= 1, x, xp.zeros_like(x)), s, threshold)


class ETR(_Rational):
    """The enhanced tensor rank, ψ(σ) = e^{δ²} σ/(δ + σ): the penalty of ASR-ETR and the default of ESTMC.

    Parameters
    ----------
    delta : float, default=0.01
        The smaller, the closer ψ is to the rank.

    Examples
    --------
    >>> from tensormvc.penalties import ETR
    >>> ETR().prox([0.5, 3.0], threshold=1.0).round(4)
    array([0.    , 2.9989])
    """

    def __init__(self, delta: float = 0.01) -> None:
        self.delta = delta

    def _height_and_knee(self) -> tuple[float, float]:
        delta = _positive(self, "delta", most=10)  # e^{δ²} is astronomical beyond
        return math.exp(delta**2), delta


class Geman(_Rational):
    """The Geman penalty, ψ(σ) = σ/(σ + γ).

    Parameters
    ----------
    gamma : float, default=0.1
        The σ at which ψ reaches half of its limit.

    Examples
    --------
    >>> from tensormvc.penalties import Geman
    >>> Geman().value([0.1, 0.9])
    array([0.5, 0.9])
    """

    def __init__(self, gamma: float = 0.1) -> None:
        self.gamma = gamma

    def _height_and_knee(self) -> tuple[float, float]:
        return 1.0, _positive(self, "gamma")


class GammaNorm(_Rational):
    """The γ-norm, ψ(σ) = (1 + γ)σ/(γ + σ).

    Parameters
    ----------
    gamma : float, default=0.1
        The smaller, the closer ψ is to the rank.

    Examples
    --------
    >>> from tensormvc.penalties import GammaNorm
    >>> GammaNorm().value([1.0])
    array([1.])
    """

    def __init__(self, gamma: float = 0.1) -> None:
        self.gamma = gamma

    def _height_and_knee(self) -> tuple[float, float]:
        gamma = _positive(self, "gamma")
        return 1 + gamma, gamma


class _Exponential(Penalty):
    """ψ(σ) = h (1 − e^{−rσ}): the family of the Laplace and the exponential-type penalty."""

    @abstractmethod
    def _height_and_rate(self) -> tuple[float, float]:
        """Return (h, r)."""

    def _value(self, s: Array) -> Array:
        height, rate = self._height_and_rate()
        return -height * namespace(s).expm1(-rate * s)

    def _derivative(self, s: Array) -> Array:
        height, rate = self._height_and_rate()
        return height * rate * namespace(s).exp(-rate * s)

    def _second_derivative(self, s: Array) -> Array:
        return -self._height_and_rate()[1] * self._derivative(s)

    def _curvature_at_zero(self) -> float:
        height, rate = self._height_and_rate()
        return -height * rate**2


class Laplace(_Exponential):
    """The Laplace penalty, ψ(σ) = 1 − e^{−σ/γ}.

    Parameters
    ----------
    gamma : float, default=0.1
        Scale below which singular values count as small.

    Examples
    --------
    >>> from tensormvc.penalties import Laplace
    >>> Laplace().prox([0.5, 3.0], threshold=1.0).round(4)
    array([0., 3.])
    """

    def __init__(self, gamma: float = 0.1) -> None:
        self.gamma = gamma

    def _height_and_rate(self) -> tuple[float, float]:
        return 1.0, 1 / _positive(self, "gamma")


class ETP(_Exponential):
    """The exponential-type penalty, ψ(σ) = (1 − e^{−γσ})/(1 − e^{−γ}).

    Parameters
    ----------
    gamma : float, default=1.0
        The larger, the closer ψ is to the rank.

    Examples
    --------
    >>> from tensormvc.penalties import ETP
    >>> ETP().value([1.0])
    array([1.])
    """

    def __init__(self, gamma: float = 1.0) -> None:
        self.gamma = gamma

    def _height_and_rate(self) -> tuple[float, float]:
        gamma = _positive(self, "gamma")
        return -1 / math.expm1(-gamma), gamma


class SchattenP(Penalty):
    """The Schatten-p quasi-norm, ψ(σ) = σ^p.

    Parameters
    ----------
    p : float, default=0.5
        Exponent, 0 < p ≤ 1; p = 1 is the nuclear norm.

    Examples
    --------
    >>> from tensormvc.penalties import SchattenP
    >>> SchattenP().prox([1.0, 3.0], threshold=1.0).round(4)
    array([0.    , 2.6955])
    """

    def __init__(self, p: float = 0.5) -> None:
        self.p = p

    def _exponent(self) -> float:
        return _positive(self, "p", most=1)

    def _value(self, s: Array) -> Array:
        return s ** self._exponent()

    def _power(self, s: Array, exponent: float, factor: float) -> Array:
        """Return factor·s^exponent, and its limit at s = 0."""
        if exponent == 0 or factor == 0:
            return factor * namespace(s).ones_like(s)
        xp = namespace(s)
        with np.errstate(over="ignore"):
            powers = xp.where(s > 0, s, xp.ones_like(s)) ** exponent
        return factor * xp.where(s > 0, powers, xp.full_like(s, math.inf))

    def _derivative(self, s: Array) -> Array:
        p = self._exponent()
        return self._power(s, p - 1, p)

    def _second_derivative(self, s: Array) -> Array:
        p = self._exponent()
        return self._power(s, p - 2, p * (p - 1))

    def _curvature_at_zero(self) -> float:
        return 0.0 if self._exponent() == 1 else -math.inf


class MCP(Penalty):
    """The minimax concave penalty, ψ(σ) = σ − σ²/(2γ) up to σ = γ, then γ/2.

    Parameters
    ----------
    gamma : float, default=2.0
        The σ from which ψ is constant.

    Examples
    --------
    >>> from tensormvc.penalties import MCP
    >>> MCP().prox([0.5, 1.5, 3.0], threshold=1.0)
    array([0., 1., 3.])
    """

    def __init__(self, gamma: float = 2.0) -> None:
        self.gamma = gamma

    def _value(self, s: Array) -> Array:
        gamma = _positive(self, "gamma")
        capped = namespace(s).clip(s, max=gamma)
        return capped - capped**2 / (2 * gamma)

    def _derivative(self, s: Array) -> Array:
        return namespace(s).clip(1 - s / _positive(self, "gamma"), min=0.0)

    def _curvature_at_zero(self) -> float:
        return -1 / _positive(self, "gamma")

    def _prox(self, s: Array, threshold: float) -> Array:
        xp = namespace(s)
        gamma = _positive(self, "gamma")
        if threshold >= gamma:
            return xp.where(s >= math.sqrt(threshold * gamma), s, xp.zeros_like(s))
        firm = xp.clip((s - threshold) / (1 - threshold / gamma), min=0.0)
        return xp.where(s < gamma, firm, s)


class SCAD(Penalty):
    """The smoothly clipped absolute deviation.

    ψ(σ) = σ up to σ = 1, (−σ² + 2γσ − 1)/(2(γ − 1)) up to σ = γ, then (γ + 1)/2.

    Parameters
    ----------
    gamma : float, default=3.7
        The σ from which ψ is constant, greater than 1.

    Examples
    --------
    >>> from tensormvc.penalties import SCAD
    >>> SCAD().prox([0.5, 1.5, 5.0], threshold=1.0)
    array([0. , 0.5, 5. ])
    """

    def __init__(self, gamma: float = 3.7) -> None:
        self.gamma = gamma

    def _end(self) -> float:
        return _positive(self, "gamma", above=1)

    def _value(self, s: Array) -> Array:
        xp = namespace(s)
        gamma = self._end()
        capped = xp.clip(s, max=gamma)
        return xp.where(s <= 1, s, (2 * gamma * capped - capped**2 - 1) / (2 * (gamma - 1)))

    def _derivative(self, s: Array) -> Array:
        gamma = self._end()
        return namespace(s).clip((gamma - s) / (gamma - 1), min=0.0, max=1.0)

    def _curvature_at_zero(self) -> float:
        # ψ'' is 0 at 0; its minimum is between 1 and γ.
        return -1 / (self._end() - 1)

    def _prox(self, s: Array, threshold: float) -> Array:
        # The minimisers of the three pieces are the candidates; the best of them is the minimiser.
        xp = namespace(s)
        gamma = self._end()
        pieces = [xp.clip(s - threshold, min=0.0, max=1.0), xp.clip(s, min=gamma)]
        if threshold < gamma - 1:
            stationary = (s - threshold * gamma / (gamma - 1)) / (1 - threshold / (gamma - 1))
            pieces.append(xp.clip(stationary, min=1.0, max=gamma))
        best, lowest = pieces[0], xp.full_like(s, math.inf)
        for x in pieces:
            with np.errstate(over="ignore"):
                objective = (x - s) ** 2 / 2 + threshold * self._value(x)
            better = objective <= lowest
            best, lowest = xp.where(better, x, best), xp.where(better, objective, lowest)
        return best


_PENALTIES: list[type[Penalty]] = [Nuclear, Log, ETR, Laplace, Geman, ETP, SchattenP, MCP, SCAD, GammaNorm]
# Names in lower case, with hyphens between words: SchattenP is "schatten-p".
_NAMES = {re.sub("(?<=[a-z])(?=[A-Z])", "-", kind.__name__).lower(): kind for kind in _PENALTIES}


def make_penalty(penalty: Any) -> Any:
    """Return the penalty of a name; an object with `value` and `prox` is returned as it is.

    Parameters
    ----------
    penalty : str or penalty
        One of the names "nuclear", "log", "etr", "laplace", "geman", "etp", "schatten-p", "mcp", "scad" and
        "gamma-norm", or an object with ``value(s)`` and ``prox(s, threshold)``.

    Returns
    -------
    penalty

    Examples
    --------
    >>> from tensormvc.penalties import make_penalty
    >>> make_penalty("etr")
    ETR()
    """
    if isinstance(penalty, str):
        if penalty not in _NAMES:
            raise ValueError(f"unknown penalty {penalty!r}; the names are {', '.join(map(repr, _NAMES))}")
        return _NAMES[penalty]()
    if isinstance(penalty, type) or not all(callable(getattr(penalty, name, None)) for name in ("value", "prox")):
        raise TypeError(f"{penalty!r} is not a penalty: expected a name or an instance with value and prox")
    return penalty
