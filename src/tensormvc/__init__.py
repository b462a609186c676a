"""Tensor multi-view clustering that does not depend on the order of the rows."""

from importlib import import_module
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from ._registry import GRAPHS, METHODS, TRANSFORMS

if TYPE_CHECKING:
    from . import algebra as algebra
    from . import bench as bench
    from . import datasets as datasets
    from . import diagnostics as diagnostics
    from . import explain as explain
    from . import metrics as metrics
    from . import penalties as penalties
    from . import plotting as plotting
    from . import published as published
    from . import report as report
    from . import selection as selection
    from . import shrinkage as shrinkage
    from . import testing as testing
    from . import tl as tl
    from .audit import audit_order as audit_order
    from .audit import shuffle_sweep as shuffle_sweep
    from .auto import MultiViewClustering as MultiViewClustering
    from .auto import impute_views as impute_views
    from .bases._anchor import *
    from .bases._fixed import *
    from .bases._graph import *
    from .graphs import ideal_graph as ideal_graph
    from .graphs._gmc import GMCGraph as GMCGraph
    from .graphs._knn import SimGraph as SimGraph
    from .graphs._knn import SumGraph as SumGraph
    from .methods import *
    from .persistence import load as load
    from .persistence import save as save
    from .selection import estimate_n_clusters as estimate_n_clusters
    from .selection import select_model as select_model

__version__ = "0.1.0"

_MODULES = "algebra bench datasets diagnostics explain metrics penalties plotting published report selection shrinkage "
_MODULES += "testing tl"
_FUNCTIONS = [
    *("tensormvc.audit:audit_order", "tensormvc.audit:shuffle_sweep", "tensormvc.auto:MultiViewClustering"),
    "tensormvc.auto:impute_views",
    *("tensormvc.graphs:ideal_graph", "tensormvc.selection:estimate_n_clusters", "tensormvc.selection:select_model"),
    *("tensormvc.persistence:load", "tensormvc.persistence:save"),
]
_PATHS = {path.partition(":")[2]: path for table in (TRANSFORMS, GRAPHS, METHODS) for path in table.values()}
_PATHS |= {path.partition(":")[2]: path for path in _FUNCTIONS}

if not TYPE_CHECKING:  # type checkers read the imports above
    __all__ = sorted([*_MODULES.split(), *_PATHS])


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `--help` need not wait for SciPy and scikit-learn."""
    if name in _PATHS:
        value = resolve_name(_PATHS[name])
    elif name in _MODULES.split():
        value = import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES.split(), *_PATHS})
