"""What a caller asks of a file, and what comes out: named views, labels and sample ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Samples = Literal["rows", "columns"]
Join = Literal["inner", "outer"]


@dataclass(frozen=True)
class Request:
    """The parameters of `load_views` of the same names."""

    views: Sequence[str] | None
    labels: str | Literal[False] | None
    samples: Samples | None
    on: str | None
    join: Join | None


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

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return int(next(iter(self.views.values())).shape[0])


def by_name(views: Sequence[Any], names: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the views by these names, or by their numbers from 0 if the names are not one per view."""
    if names is None or len(set(names)) != len(views):
        names = [f"view {number}" for number in range(len(views))]
    return dict(zip(names, views, strict=True))
