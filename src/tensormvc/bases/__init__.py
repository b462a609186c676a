"""Transforms along the samples, and along the views for comparison."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from .._registry import BASIS_NAMES, TRANSFORMS, load
from ._anchor import AGFT
from ._base import Basis, FixedBasis
from ._fixed import DCT, FFT, Haar, RandomOrthogonal, ViewFFT
from ._graph import GFT

__all__ = [
    "AGFT",
    "DCT",
    "FFT",
    "GFT",
    "Basis",
    "Haar",
    "RandomOrthogonal",
    "ViewFFT",
    "basis_class",
    "fitted_basis",
    "make_basis",
]

_PROTOCOL = ("fit", "forward", "inverse")


def make_basis(basis: Any, *, n_samples: int | None = None) -> Any:
    """Return the basis with a given name; a basis object is returned as it is.

    Parameters
    ----------
    basis : str or basis
        One of the names in the registry, or an object with `fit`, `forward`, `inverse` and `slice_weights_`.
    n_samples : int, optional
        Number of samples, to which the number of neighbours of a named graph is limited.

    Examples
    --------
    >>> make_basis("dct"), make_basis("gft-sum")
    (DCT(), GFT(graph='sum'))
    """
    if isinstance(basis, str):
        if basis not in BASIS_NAMES:
            raise ValueError(f"unknown basis {basis!r}; the names are {', '.join(map(repr, BASIS_NAMES))}")
        named = load(TRANSFORMS[basis])() if basis in TRANSFORMS else GFT(graph=basis.removeprefix("gft-"))
        if n_samples is not None and isinstance(named, GFT):
            named.limit_neighbors(n_samples)
        return named
    missing = [member for member in _PROTOCOL if not callable(getattr(basis, member, None))]
    if isinstance(basis, type) or missing:
        raise TypeError(
            f"{basis!r} is not a basis: expected a name or an instance with {', '.join(_PROTOCOL)} and slice_weights_"
        )
    return basis


def basis_class(basis: Any) -> type:
    """Return the class of a basis that is given by its name or as an object."""
    return type(make_basis(basis))


def fitted_basis(basis: Any, tensor: Any) -> Any:
    """Return a basis that can transform the tensor.

    A fitted basis is returned as it is. A name, or a fixed basis that is not fitted, is fitted (as a copy) to the size
    of the tensor, with seed 0 if it is random and has none. A basis that depends on the data must have been fitted to
    the views before.
    """
    basis = make_basis(basis)
    if hasattr(basis, "slice_weights_"):
        return basis
    if not isinstance(basis, FixedBasis):
        raise ValueError(f"{basis!r} depends on the data: fit it to the views first")
    return clone(basis).fit(tensor, random_state=0)
