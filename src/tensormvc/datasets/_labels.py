"""Which names mean labels, and labels as integer codes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._errors import DataError

# In order of preference; compared by `plain`.
LABEL_NAMES = (
    "truelabel", "truelabels", "truth", "groundtruth", "gt", "gts", "gnd", "label", "labels", "y", "ytrue", "ys",
    "class", "classes", "classlabel", "classlabels", "classid", "cls", "target", "targets", "gtlabel", "labeltrue",
    "truey", "trueclass", "category", "categories", "lab", "lbl", "lbls", "gtlabels",
)  # fmt: skip


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
