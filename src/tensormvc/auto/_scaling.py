"""Ways to scale the values of a view before samples are compared, and which of them suit its values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import StandardScaler, minmax_scale, normalize

from ..backend import is_sparse

# Up to this share of values that are not zero a view is worked on as a sparse matrix, and zero means "absent".
_SPARSE_UP_TO = 0.1
# Of few features, the length of a sample is as much of what it is as its direction.
_FEW_FEATURES = 10
_MOST_ROWS_FROM_DISK = 10_000


def _dense(scale: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda view: scale(view.toarray() if is_sparse(view) else view)


def _root(view: Any) -> Any:
    return normalize(view.sqrt() if is_sparse(view) else np.sqrt(view))


NORMALISATIONS: dict[str, Callable[[Any], Any]] = {
    "none": lambda view: view,
    "unit": normalize,
    "centred": _dense(lambda view: normalize(view - view.mean(axis=0))),
    "z-score": _dense(lambda view: StandardScaler().fit_transform(view)),
    "z-score-unit": _dense(lambda view: normalize(StandardScaler().fit_transform(view))),
    "range": _dense(lambda view: normalize(minmax_scale(view))),
    "root": _root,
    "tf-idf": lambda view: TfidfTransformer(sublinear_tf=True).fit_transform(sp.csr_array(view)),
}
MEANINGS = {
    "none": "values as they are",
    "unit": "samples at unit length",
    "centred": "features centred, then samples at unit length",
    "z-score": "features at mean 0 and deviation 1",
    "z-score-unit": "features at mean 0 and deviation 1, then samples at unit length",
    "range": "features scaled to [0, 1], then samples at unit length",
    "root": "square roots, then samples at unit length, as histograms are compared",
    "tf-idf": "logarithms of counts times the rarity of the term, samples at unit length",
}


def lean(view: Any) -> Any:
    """Return a view in float64, sparse if nearly all of it is zero."""
    if is_sparse(view):
        return sp.csr_array(view, dtype=np.float64)
    view = np.asarray(view, dtype=np.float64)
    return sp.csr_array(view) if np.count_nonzero(view) < _SPARSE_UP_TO * view.size else view


def suitable_normalisations(view: Any) -> list[str]:
    """Return the names of the normalisations that make sense for the values of a (lean) view.

    Centring a sparse view would fill it; roots need values that are not negative, and tf-idf whole numbers besides.
    """
    values = view.data if is_sparse(view) else view
    names = ["none", "unit"] if is_sparse(view) else ["none", "unit", "centred", "z-score", "z-score-unit", "range"]
    if values.size and values.min() >= 0:
        names.append("root")
        if is_sparse(view) and np.array_equal(values, np.rint(values)):
            names.append("tf-idf")
    return names


def usual_normalisation(view: Any) -> str:
    """Return what suits a (lean) view by the look of its values alone."""
    suitable = suitable_normalisations(view)
    if "tf-idf" in suitable:
        return "tf-idf"
    if is_sparse(view):
        return "unit"
    return "z-score" if view.shape[1] < _FEW_FEATURES else "z-score-unit"


def suggest_scaling(view: Any) -> tuple[str, str]:
    """Return the scaling that is usual for the values of a view, as a value of `normalisation`, and its meaning.

    Parameters
    ----------
    view : array or sparse matrix of shape (n_samples, n_features)
        The view. Of a view on disk, at most 10 000 rows are read.

    Returns
    -------
    name, meaning : str

    Examples
    --------
    >>> import numpy as np
    >>> from tensormvc.auto import suggest_scaling
    >>> suggest_scaling(np.arange(8.0).reshape(4, 2))[0], suggest_scaling(np.eye(20))[0]
    ('z-score', 'tf-idf')
    """
    if getattr(view, "on_disk", False):
        view = view[np.unique(np.linspace(0, view.shape[0] - 1, _MOST_ROWS_FROM_DISK).astype(int))]
    name = usual_normalisation(lean(view))
    return name, MEANINGS[name]


def normalised(view: Any, name: str) -> Any:
    """Return a (lean) view scaled as named, and as a whole so that the mean squared length of its samples is 1."""
    scaled = NORMALISATIONS[name](view)
    values = scaled.data if is_sparse(scaled) else scaled
    size = float(np.sqrt(np.square(values).sum() / scaled.shape[0]))
    return scaled / size if size > 0 else scaled
