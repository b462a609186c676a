"""What the authors' programs compute, where it differs from ours: for comparison, not for use."""

from __future__ import annotations

from array_api_compat import device

from ._ops import Array, namespace
from .penalties import ETR

__all__ = ["ReweightedETR"]


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
