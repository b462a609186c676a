"""Transforms along the sample mode (and, for comparison, along the views)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.base import clone

from ._anchor import AGFT
from ._base import Basis, DataBasis
from ._fixed import DCT, FFT, Haar, RandomOrthogonal, ViewFFT
from ._graph import GFT, graph_for

__all__ = [
    "AGFT",
    "DCT",
    "FFT",
    "GFT",
    "Basis",
    "DataBasis",
    "Haar",
    "RandomOrthogonal",
    "ViewFFT",
    "fitted_basis",
    "make_basis",
]

_FIXED = (FFT, ViewFFT, DCT, Haar, RandomOrthogonal)
_NAMES: dict[str, Callable[[], Basis]] = {
    "fft": FFT,
    "fft-view": ViewFFT,
    "dct": DCT,
    "haar": Haar,
    "random": RandomOrthogonal,
    "gft-sim": lambda: GFT("sim"),
    "gft": lambda: GFT("sim"),
    "gft-sum": lambda: GFT("sum"),
    "gft-gmc": lambda: GFT("gmc"),
    "agft": AGFT,
}
_PROTOCOL = ("fit", "forward", "inverse")


def make_basis(basis: Any, *, n_samples: int | None = None) -> Any:
    """Return a basis object for a name, or the object itself if it follows the protocol.

    Given the number of samples, a named basis looks at no more neighbours than there are.

    Examples
    --------
    >>> make_basis("dct"), make_basis("gft-sum")
    (DCT(), GFT(graph='sum'))
    """
    if isinstance(basis, str):
        if basis not in _NAMES:
            raise ValueError(f"unknown basis {basis!r}; the names are {', '.join(map(repr, _NAMES))}")
        made = _NAMES[basis]()
        if n_samples is not None and isinstance(made, GFT):
            made.graph = graph_for(made.graph, n_samples)
        return made
    missing = [member for member in _PROTOCOL if not callable(getattr(basis, member, None))]
    if isinstance(basis, type) or missing:
        raise TypeError(
            f"{basis!r} is not a basis: expected a name or an instance with {', '.join(_PROTOCOL)} and slice_weights_"
        )
    return basis


def fitted_basis(basis: Any, tensor: Any) -> Any:
    """Return a basis that can transform the tensor.

    A basis that is fitted is returned as it is. A name, or one of the fixed bases before its `fit`, is fitted (as a
    copy) to the size of the tensor, with seed 0 if it is random and has none. A basis that comes from data cannot be,
    and must have been fitted to its views before.
    """
    made = make_basis(basis)
    if hasattr(made, "slice_weights_"):
        return made
    if not isinstance(made, _FIXED):
        raise ValueError(f"{made!r} comes from the data: fit it to the views first")
    return clone(made).fit(tensor, random_state=0)
