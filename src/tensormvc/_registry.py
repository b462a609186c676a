"""Everything that can be chosen by name, and where its class is.

A new transform, graph or method needs its file and a line here. The rest is derived: its public name in `tensormvc`,
the names that ``basis=`` and ``GFT(graph=)`` accept, ``--basis`` on the command line, the benchmark's transforms and
the tests that run over all of them. Nothing is imported before it is used, so that ``--help`` lists the names without
loading NumPy.
"""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

# GFT(graph="sum"), basis="gft-sum"
GRAPHS = {
    "sum": "graphs._knn:SumGraph",
    "sim": "graphs._knn:SimGraph",
    "gmc": "graphs._gmc:GMCGraph",
}
# basis="agft"
TRANSFORMS = {
    "gft": "bases._graph:GFT",
    "agft": "bases._anchor:AGFT",
    "fft": "bases._fixed:FFT",
    "fft-view": "bases._fixed:ViewFFT",
    "dct": "bases._fixed:DCT",
    "haar": "bases._fixed:Haar",
    "random": "bases._fixed:RandomOrthogonal",
}
METHODS = {
    "estmc": "methods:ESTMC",
    "asretr": "methods:ASRETR",
    "tsvdmvc": "methods:TSVDMVC",
    "tlspnm": "methods:TLSpNM",
    "tlrlf4mvc": "methods:TLRLF4MVC",
    "gmc": "methods:GMC",
}
BASIS_NAMES = (*(f"gft-{graph}" for graph in GRAPHS), *TRANSFORMS)


def load(path: str) -> Any:
    """Import and return the object at a path such as ``"bases._fixed:FFT"``."""
    return resolve_name(f"{__package__}.{path}")
