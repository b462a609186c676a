"""Transforms along the samples, and along the views for comparison."""

from ._anchor import AGFT
from ._base import Basis, basis_class, fitted_basis, make_basis
from ._fixed import DCT, FFT, Haar, RandomOrthogonal, ViewFFT
from ._graph import GFT

__all__ = ["AGFT", "DCT", "FFT", "GFT", "Basis", "Haar", "RandomOrthogonal", "ViewFFT"]
__all__ += ["basis_class", "fitted_basis", "make_basis"]
