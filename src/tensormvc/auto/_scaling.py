"""Ways to scale the values of a view before samples are compared, and which of them suit its values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import StandardScaler, minmax_scale, normalize

from ..backend.arrays import is_sparse

# Views with at most this share of non-zero values are stored as sparse matrices, where zero means "absent".
_SPARSE_UP_TO = 0.1
# With few features, the length of a sample says as much as its direction.
_FEW_FEATURES = 10
_MOST_ROWS_FROM_DISK = 10_000


NORMALISATIONS: dict[str, Callable[[Any], Any]] = {
    "none": lambda view: view,
    "unit": normalize,
    "centred": lambda view: normalize(view - view.mean(axis=0)),
    "z-score": lambda view: StandardScaler().fit_transform(view),
    "z-score-unit": lambda view: normalize(StandardScaler().fit_transform(view)),
    "range": lambda view: normalize(minmax_scale(view)),
    "root": lambda view: normalize(np.sqrt(view)),
    "tf-idf": lambda view: TfidfTransformer(sublinear_tf=True).fit_transform(sp.csr_array(view)),
}
MEANINGS = {
    "none": "values unchanged",
    "unit": "samples scaled to unit length",
    "centred": "features centred, then samples scaled to unit length",
    "z-score": "features standardised to mean 0 and standard deviation 1",
    "z-score-unit": "features standardised to mean 0 and standard deviation 1, then samples scaled to unit length",
    "range": "features scaled to [0, 1], then samples scaled to unit length",
    "root": "square roots of the values, then samples scaled to unit length (as for histograms)",
    "tf-idf": "tf-idf with logarithmic term frequencies, samples scaled to unit length",
}
# These shift the features, which would fill a sparse view: it is made dense first.
_SHIFTING = ("centred", "z-score", "z-score-unit", "range")


def lean(view: Any) -> Any:
    """Return a view in float64, as a sparse matrix if nearly all of its values are zero."""
    if is_sparse(view):
        return sp.csr_array(view, dtype=np.float64)
    view = np.asarray(view, dtype=np.float64)
    return sp.csr_array(view) if np.count_nonzero(view) < _SPARSE_UP_TO * view.size else view


def suitable_normalisations(view: Any) -> list[str]:
    """Return the names of the scalings that make sense for the values of a (lean) view.

    Sparse views are not centred, square roots need non-negative values, and tf-idf needs sparse counts.
    """
    values = view.data if is_sparse(view) else view
    names = ["none", "unit"] if is_sparse(view) else ["none", "unit", *_SHIFTING]
    if values.size and values.min() >= 0:
        names.append("root")
        if is_sparse(view) and np.array_equal(values, np.rint(values)):
            names.append("tf-idf")
    return names


def usual_normalisation(view: Any) -> str:
    """Return the scaling that is usual for the values of a (lean) view, where no other view can be compared."""
    if "tf-idf" in suitable_normalisations(view):
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
    """Return a (lean) view scaled as named, then as a whole to a mean squared sample length of 1."""
    if name in _SHIFTING and is_sparse(view):
        view = view.toarray()
    scaled = NORMALISATIONS[name](view)
    values = scaled.data if is_sparse(scaled) else scaled
    size = float(np.sqrt(np.square(values).sum() / scaled.shape[0]))
    return scaled / size if size > 0 else scaled
