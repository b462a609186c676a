"""Tensor multi-view clustering that does not care how the rows are ordered."""

from . import algebra, datasets, penalties, published, shrinkage, testing
from .bases import DCT, FFT, Haar, RandomOrthogonal, ViewFFT

__version__ = "0.1.0.dev0"

__all__ = [
    "DCT",
    "FFT",
    "Haar",
    "RandomOrthogonal",
    "ViewFFT",
    "algebra",
    "datasets",
    "penalties",
    "published",
    "shrinkage",
    "testing",
]
