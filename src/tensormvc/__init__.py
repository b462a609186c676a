"""Tensor multi-view clustering that does not care how the rows are ordered."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import (
        algebra,
        bench,
        datasets,
        diagnostics,
        metrics,
        penalties,
        plotting,
        published,
        report,
        selection,
        shrinkage,
        testing,
    )
    from .audit import audit_order, shuffle_sweep
    from .auto import MultiViewClustering
    from .bases import AGFT, DCT, FFT, GFT, Haar, RandomOrthogonal, ViewFFT
    from .graphs import GMCGraph, SimGraph, SumGraph, ideal_graph
    from .methods import ASRETR, ESTMC, GMC, TLRLF4MVC, TSVDMVC, TLSpNM
    from .selection import estimate_n_clusters, select_model

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
    "MultiViewClustering",
    "RandomOrthogonal",
    "SimGraph",
    "SumGraph",
    "TLSpNM",
    "ViewFFT",
    "algebra",
    "audit_order",
    "bench",
    "datasets",
    "diagnostics",
    "estimate_n_clusters",
    "ideal_graph",
    "metrics",
    "penalties",
    "plotting",
    "published",
    "report",
    "select_model",
    "selection",
    "shrinkage",
    "shuffle_sweep",
    "testing",
]

# Imported when first asked for: SciPy and scikit-learn take seconds, which the help of the command line does not need.
_HOMES = {
    "audit": ("audit_order", "shuffle_sweep"),
    "auto": ("MultiViewClustering",),
    "bases": ("AGFT", "DCT", "FFT", "GFT", "Haar", "RandomOrthogonal", "ViewFFT"),
    "graphs": ("GMCGraph", "SimGraph", "SumGraph", "ideal_graph"),
    "methods": ("ASRETR", "ESTMC", "GMC", "TLRLF4MVC", "TSVDMVC", "TLSpNM"),
    "selection": ("estimate_n_clusters", "select_model"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    elif name in __all__:
        value = import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
