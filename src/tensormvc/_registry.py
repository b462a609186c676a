"""Everything that can be chosen by name, and where its class is.

A new transform, graph or method needs its file and a line here. The rest is derived: its public name in `tensormvc`,
the names that ``basis=`` and ``GFT(graph=)`` accept, ``--basis`` on the command line, the benchmark's transforms and
the tests that run over all of them. Nothing is imported before it is used, so that ``--help`` lists the names without
loading NumPy.
"""

from __future__ import annotations

# Paths as `pkgutil.resolve_name` takes them.
# GFT(graph="sum"), basis="gft-sum"
GRAPHS = {
    "sum": "tensormvc.graphs._knn:SumGraph",
    "sim": "tensormvc.graphs._knn:SimGraph",
    "gmc": "tensormvc.graphs._gmc:GMCGraph",
}
# basis="agft"
TRANSFORMS = {
    "gft": "tensormvc.bases._graph:GFT",
    "agft": "tensormvc.bases._anchor:AGFT",
    "fft": "tensormvc.bases._fixed:FFT",
    "fft-view": "tensormvc.bases._fixed:ViewFFT",
    "dct": "tensormvc.bases._fixed:DCT",
    "haar": "tensormvc.bases._fixed:Haar",
    "random": "tensormvc.bases._fixed:RandomOrthogonal",
}
METHODS = {
    "estmc": "tensormvc.methods:ESTMC",
    "asretr": "tensormvc.methods:ASRETR",
    "tsvdmvc": "tensormvc.methods:TSVDMVC",
    "tlspnm": "tensormvc.methods:TLSpNM",
    "tlrlf4mvc": "tensormvc.methods:TLRLF4MVC",
    "gmc": "tensormvc.methods:GMC",
}
BASIS_NAMES = (*(f"gft-{graph}" for graph in GRAPHS), *TRANSFORMS)
