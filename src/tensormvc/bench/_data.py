"""The data sets of a plan: found by name, loaded, sorted by class, and identified by a hash of their contents."""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .. import datasets
from ..backend.arrays import is_sparse
from ..datasets._shuffle import take_samples
from ._plan import PlannedData

_EXTENSIONS = (".mat", ".npz", ".h5mu", ".h5ad", ".h5", ".csv", ".parquet", "")
# Data sets with the samples of the paper, but with features that we recomputed.
OWN_FEATURES = "_recomputed"
# Generated data sets with the numbers of samples, classes and features of two that we do not have; only for timings.
SYNTHETIC = "synthetic-"
_SIZES = {
    "Caltech101-all": (9144, 102, (48, 40, 254, 1984, 512, 928)),
    "Animal": (11673, 20, (2689, 2000, 2001, 2000)),
}


@dataclass(frozen=True)
class Facts:
    """What the report states about a data set."""

    digest: str
    n_samples: int
    n_clusters: int
    n_features: Sequence[int]


@dataclass(frozen=True)
class Data:
    """A data set, sorted by class, which is the order at shuffle rate 0; generated data are made when they are used."""

    facts: Facts
    make: Callable[[], tuple[list[Any], Any]]

    @cached_property
    def _samples(self) -> tuple[list[Any], Any]:
        return self.make()

    @property
    def views(self) -> list[Any]:
        """The views."""
        return self._samples[0]

    @property
    def y(self) -> Any:
        """The classes."""
        return self._samples[1]


def default_folder() -> Path:
    """Return ``data`` in the folder that TENSORMVC_SHARED names, or in ``../shared``."""
    return Path(os.environ.get("TENSORMVC_SHARED") or "../shared") / "data"


def load(planned: PlannedData, folder: str | Path | None) -> Data:
    """Load the embedded digits, generated data, or a file of the name of the data set from the folder."""
    if planned.name.startswith(SYNTHETIC):
        return _synthetic(planned.name)
    if planned.name == "digits":
        views, y = datasets.load_digits_views(planned.n_samples)
    else:
        path = _find(planned.name, default_folder() if folder is None else Path(folder))
        dataset = datasets.load_dataset(path, lazy=False)
        if dataset.y is None:
            raise datasets.DataError(f"{planned.name} has no classes, which the benchmark compares the clusters with")
        views, y = list(dataset.views.values()), dataset.y
    order = np.argsort(y, kind="stable")
    views, y = take_samples(views, order), np.asarray(y)[order]
    facts = Facts(_digest(views, y), len(y), len(np.unique(y)), tuple(int(view.shape[1]) for view in views))
    return Data(facts, lambda: (views, y))


def _synthetic(name: str) -> Data:
    if (size := _SIZES.get(name.removeprefix(SYNTHETIC))) is None:
        known = ", ".join(f"{SYNTHETIC}{one}" for one in _SIZES)
        raise datasets.DataError(f"there is no generated data set {name}: there are {known}")
    n, n_clusters, widths = size
    make = partial(datasets.make_multiview, n, n_clusters=n_clusters, n_features=widths, shuffle=False, random_state=0)
    return Data(Facts(f"{name}-0", n, n_clusters, widths), make)


def _find(name: str, folder: Path) -> Path:
    for extension in _EXTENSIONS:
        if (path := folder / f"{name}{extension}").exists():
            return path
    raise datasets.DataError(
        f"there is no data set {name} in {folder}: pass the folder that holds it as --data, or set TENSORMVC_SHARED to "
        "the parent of a folder named data"
    )


def _digest(views: list[Any], y: Any) -> str:
    """Return a hash of all values, their types and shapes."""
    digest = hashlib.sha256()
    for part in [*views, np.unique(y, return_inverse=True)[1]]:
        arrays = [part]
        if is_sparse(part):
            rows = sp.csr_array(part)
            rows.sum_duplicates()
            arrays = [rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64)]
        digest.update(f"{part.shape} {part.dtype} {len(arrays)};".encode())
        for array in arrays:
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:32]
