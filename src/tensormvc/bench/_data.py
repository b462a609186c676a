"""The data sets of a plan: found, loaded, sorted by class, and known by their contents."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import datasets
from ..datasets._shuffle import take_samples
from ._plan import PlannedData

_ENDINGS = (".mat", ".npz", ".h5mu", ".h5ad", ".h5", ".csv", ".parquet", "")
# Data sets that end so have the samples of the paper's, and features of our own.
OWN_FEATURES = "_recomputed"


@dataclass(frozen=True)
class Facts:
    """What the report tells of a data set."""

    digest: str
    n_samples: int
    n_clusters: int
    n_features: tuple[int, ...]

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> Facts:
        """Return the facts of a record."""
        return cls(read["digest"], read["n_samples"], read["n_clusters"], tuple(read["n_features"]))


@dataclass(frozen=True)
class Data:
    """A data set in memory, sorted by class: a shuffle rate of 0 means that."""

    views: list[Any]
    y: Any
    facts: Facts


def default_folder() -> Path:
    """Return the folder that the environment names, or the one beside the project."""
    shared = os.environ.get("TENSORMVC_SHARED")
    return (Path(shared) if shared else Path("..") / "shared") / "data"


def load(planned: PlannedData, folder: Path | None) -> Data:
    """Load a data set; the digits are embedded, the others in the folder under their names."""
    if planned.name == "digits":
        views, y = datasets.load_digits_views(planned.n_samples)
    else:
        loaded = datasets.load_dataset(_find(planned.name, default_folder() if folder is None else folder), lazy=False)
        if loaded.y is None:
            raise datasets.DataError(f"{planned.name} has no classes to measure results with")
        views, y = list(loaded.views.values()), loaded.y
    order = np.argsort(y, kind="stable")
    views, y = take_samples(views, order), np.asarray(y)[order]
    facts = Facts(_digest(views, y), len(y), len(np.unique(y)), tuple(int(view.shape[1]) for view in views))
    return Data(views, y, facts)


def _find(name: str, folder: Path) -> Path:
    for ending in _ENDINGS:
        if (path := folder / f"{name}{ending}").exists():
            return path
    raise datasets.DataError(
        f"there is no data set {name} in {folder}: name the folder with --data, or one with a folder data in it in "
        "TENSORMVC_SHARED"
    )


def _digest(views: list[Any], y: Any) -> str:
    """Return a hash of all values, their types and shapes."""
    digest = hashlib.sha256()
    for part in [*views, np.unique(y, return_inverse=True)[1]]:
        arrays = [part]
        if hasattr(part, "toarray"):
            rows = sp.csr_array(part)
            rows.sum_duplicates()
            arrays = [rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)]
        digest.update(f"{part.shape} {part.dtype} {len(arrays)};".encode())
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:32]
