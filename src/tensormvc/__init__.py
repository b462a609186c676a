"""Tensor multi-view clustering that does not care how the rows are ordered."""

from . import algebra, datasets, diagnostics, metrics, penalties, plotting, published, report, shrinkage, testing
from .audit import audit_order, shuffle_sweep
from .bases import AGFT, DCT, FFT, GFT, Haar, RandomOrthogonal, ViewFFT
from .graphs import GMCGraph, SimGraph, SumGraph, ideal_graph
from .methods import ASRETR, ESTMC, GMC, TLRLF4MVC, TSVDMVC, TLSpNM

__version__ = "0.1.0.dev0"

__all__ = [
    "AGFT",
    "ASRETR",
    "DCT",
    "ESTMC",
    "FFT",
    "GFT",
    "GMC",
    "TLRLF4MVC",
    "TSVDMVC",
    "GMCGraph",
    "Haar",
    "RandomOrthogonal",
    "SimGraph",
    "SumGraph",
    "TLSpNM",
    "ViewFFT",
    "algebra",
    "audit_order",
    "datasets",
    "diagnostics",
    "ideal_graph",
    "metrics",
    "penalties",
    "plotting",
    "published",
    "report",
    "shrinkage",
    "shuffle_sweep",
    "testing",
]
