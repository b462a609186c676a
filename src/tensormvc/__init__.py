"""Tensor multi-view clustering that does not care how the rows are ordered."""

from . import algebra, datasets, metrics, penalties, published, shrinkage, testing
from .bases import AGFT, DCT, FFT, GFT, Haar, RandomOrthogonal, ViewFFT
from .graphs import GMCGraph, SimGraph, SumGraph, ideal_graph

__version__ = "0.1.0.dev0"

__all__ = [
    "AGFT",
    "DCT",
    "FFT",
    "GFT",
    "GMCGraph",
    "Haar",
    "RandomOrthogonal",
    "SimGraph",
    "SumGraph",
    "ViewFFT",
    "algebra",
    "datasets",
    "ideal_graph",
    "metrics",
    "penalties",
    "published",
    "shrinkage",
    "testing",
]
