"""What a file holds: views by name, labels, and the names of the samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Dataset:
    """What `load_dataset` found in a file or folder.

    Parameters
    ----------
    views : dict of str to (n_samples, n_features_v) arrays
        The views by their names in the file: modality, block, table; ``"view 1"``, … where they have none.
    y : ndarray of int of shape (n_samples,), or None
        Labels as codes.
    sample_ids : ndarray of shape (n_samples,), or None
        Names of the samples, numbers or texts, where the file has them.

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
    """Return the views by these names if they tell them apart, else by their numbers."""
    if names is None or len(set(names)) != len(views):
        names = [f"view {number}" for number in range(1, len(views) + 1)]
    return dict(zip(names, views, strict=True))
