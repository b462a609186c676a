"""What a caller asks of a file, and what comes out: named views, labels as integer codes, and sample ids."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..views import Categories, Join, Table
from ._errors import DataError

Samples = Literal["rows", "columns"]
Labels = str | Literal[False] | None
Codes = NDArray[np.intp]
Encoding = Literal["auto"] | Mapping[str, Categories] | None

# In order of preference; compared by `plain`.
LABEL_NAMES = (
    "truelabel", "truelabels", "truth", "groundtruth", "gt", "gts", "gnd", "label", "labels", "y", "ytrue", "ys",
    "class", "classes", "classlabel", "classlabels", "classid", "cls", "target", "targets", "gtlabel", "labeltrue",
    "truey", "trueclass", "category", "categories", "lab", "lbl", "lbls", "gtlabels",
)  # fmt: skip


@dataclass(frozen=True)
class Request:
    """The parameters of `load_dataset` of the same names."""

    views: Sequence[str] | None
    labels: Labels
    samples: Samples | None
    on: str | None
    join: Join | None
    categories: Encoding = None


@dataclass(frozen=True)
class Dataset:
    """The views of a file or folder, with their names, the labels and the sample ids.

    Parameters
    ----------
    views : dict of str to (n_samples, n_features_v) arrays
        The views by name: the modality, block or table, or ``"view 0"``, ``"view 1"``, … if they have no names.
    y : ndarray of int of shape (n_samples,), or None
        The labels as codes 0, 1, ….
    sample_ids : ndarray of shape (n_samples,), or None
        The ids of the samples, numbers or text, if the file has any.
    absent : dict of str to int
        How many samples a view lacks, for views that lack some of those that others have; their rows are NaN.
    feature_names : dict of str to ndarray of str
        Names of the features, for views that have some: columns of tables, and ``var_names``.
    categories : dict of str to mapping
        For each view with categorical columns, the categories by column.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(50)
    >>> tm.datasets.Dataset({"pixels": views[0]}, y, None).n_samples
    50
    """

    views: dict[str, Any]
    y: NDArray[np.intp] | None
    sample_ids: NDArray[Any] | None
    absent: dict[str, int] = field(default_factory=dict)
    feature_names: dict[str, NDArray[np.str_]] = field(default_factory=dict)
    categories: dict[str, Categories] = field(default_factory=dict)

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return int(next(iter(self.views.values())).shape[0])

    @property
    def tables(self) -> dict[str, Table]:
        """The views with the ids of samples and the names of features, as `MultiViewClustering` accepts them."""
        index = np.arange(self.n_samples) if self.sample_ids is None else self.sample_ids
        return {
            name: Table(view, index, self.feature_names.get(name), self.categories.get(name, {}))
            for name, view in self.views.items()
        }


def by_name(views: Sequence[Any], names: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the views by these names, or by their numbers from 0 if the names are not one per view."""
    if names is None or len(set(names)) != len(views):
        names = [f"view {number}" for number in range(len(views))]
    return dict(zip(names, views, strict=True))


def plain(name: str) -> str:
    """Return a name as names are compared: without case, underscores, dots, spaces and hyphens."""
    return re.sub(r"[\W_]+", "", name).lower()


def encode(values: Any, what: str = "the labels") -> NDArray[np.intp]:
    """Return labels, integers or text, as codes 0, 1, … in the order of their sorted values."""
    values = np.asarray(values)
    if values.dtype.kind == "f":
        if not np.all(np.isfinite(values)):
            raise DataError(f"{what} contain NaN or infinity: remove those samples, or pass labels=False")
        if np.any(values != np.round(values)):
            raise DataError(f"{what} are not integers: pass labels=NAME to choose others, or labels=False")
    elif values.dtype.kind not in "biuUS":
        raise DataError(f"{what} have the type {values.dtype}: expected integers or text")
    return np.unique(values, return_inverse=True)[1].astype(np.intp).reshape(-1)
