"""Ways to scale the values of a view before samples are compared: fitted to some samples, applied to any."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, eigh
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import row_norms

from ..backend.arrays import in_double, is_sparse, is_tensor, namespace, on_device, on_host
from ..backend.linalg import leading_eigenpairs
from ..backend.threads import device_lock, one_blas_thread, parallel_ranges

# Views with at most this share of non-zero values are stored as sparse matrices, where zero means "absent".
_SPARSE_UP_TO = 0.1
# With few features, the length of a sample says as much as its direction.
_FEW_FEATURES = 10
# Up to so many features, counts may be a panel, such as surface proteins.
_PANEL = 500
_MOST_ROWS_FROM_DISK = 10_000
# Principal components are those of so many samples at most, and whitening keeps so many of them.
_COMPONENT_SAMPLES = 2500
_MOST_COMPONENTS = 300
_PROJECTED_AT_ONCE = 256
# Features that vary by less count as constant, and larger values are refused: their squares could not be computed. This
# is beyond the range of single precision.
_LEAST_SPREAD, _MOST_SIZE = 1e-50, 1e50
# Deviations that are smaller than this share of the values are rounding errors.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Recipe:
    """The steps of a scaling, in this order.

    Attributes
    ----------
    meaning : str
        The scaling as text, for reports.
    values : {"", "root", "log-library", "log-ratio", "log-tf"}
        Function of the values of one sample.
    shift : {"", "mean", "minimum"}
        What is subtracted from each feature.
    divide : {"", "deviation", "range", "document frequency"}
        What each feature is divided by.
    components : {"", "whitened", "leading"}
        Whether principal components replace the features: each divided by the root of its variance plus the mean
        variance ("whitened"), or as they are ("leading").
    unit : bool
        Whether samples are scaled to unit length in the end. With a single feature they are not: its sign alone would
        be left.
    """

    meaning: str
    values: str = ""
    shift: str = ""
    divide: str = ""
    components: str = ""
    unit: bool = True

    @property
    def relative(self) -> bool:
        """Whether a factor of a whole sample, such as its sequencing depth, does not matter."""
        return self.values in ("log-library", "log-tf") or (self.unit and not self.shift)

    @property
    def fills(self) -> bool:
        """Whether a sparse view would not stay sparse."""
        return bool(self.shift) and not self.components


RECIPES = {
    "none": Recipe("values unchanged", unit=False),
    "unit": Recipe("samples scaled to unit length"),
    "centred": Recipe("features centred, then samples scaled to unit length", shift="mean"),
    "z-score": Recipe(
        "features standardised to mean 0 and standard deviation 1", shift="mean", divide="deviation", unit=False
    ),
    "z-score-unit": Recipe(
        "features standardised to mean 0 and standard deviation 1, then samples scaled to unit length",
        shift="mean",
        divide="deviation",
    ),
    "range": Recipe("features scaled to [0, 1], then samples scaled to unit length", shift="minimum", divide="range"),
    "root": Recipe("square roots of the values, then samples scaled to unit length (as for histograms)", "root"),
    "tf-idf": Recipe(
        "tf-idf with logarithmic term frequencies, samples scaled to unit length",
        "log-tf",
        divide="document frequency",
    ),
    "lsi": Recipe(
        "tf-idf with logarithmic term frequencies, leading components (LSI), samples scaled to unit length",
        "log-tf",
        divide="document frequency",
        components="leading",
    ),
    "log-counts": Recipe(
        "counts divided by their sum per sample, logarithms, leading principal components (as for transcripts)",
        "log-library",
        shift="mean",
        components="leading",
        unit=False,
    ),
    "log-ratio": Recipe(
        "centred log-ratio of the counts (as for surface proteins)", "log-ratio", shift="mean", unit=False
    ),
    "whitened": Recipe(
        "whitened principal components, samples scaled to unit length", shift="mean", components="whitened"
    ),
    "z-score-whitened": Recipe(
        "whitened principal components of standardised features, samples scaled to unit length",
        shift="mean",
        divide="deviation",
        components="whitened",
    ),
    "root-whitened": Recipe(
        "whitened principal components of square roots, samples scaled to unit length",
        "root",
        shift="mean",
        components="whitened",
    ),
}


# Scalings of non-negative values are defined for all: a new sample may be below zero once a background is subtracted.
def _signed_root(xp: Any, x: Any) -> Any:
    return xp.sign(x) * xp.sqrt(xp.abs(x))


def _log_of_one_more(xp: Any, x: Any) -> Any:
    return xp.log1p(xp.maximum(x, xp.zeros_like(x)))


def _log_library(view: Any) -> Any:
    """Return log(1 + x / mean of the sample's x): a factor of a sample, such as its sequencing depth, is removed."""
    return _on_values(_log_of_one_more, _unit(view, norm="l1") * view.shape[1])


def _log_ratio(view: Any) -> Any:
    dense = view.toarray() if is_sparse(view) else view
    xp = namespace(dense)
    logs = _log_of_one_more(xp, dense)
    return logs - xp.mean(logs, axis=1, keepdims=True)


def _log_term(xp: Any, x: Any) -> Any:
    return xp.where(x > 0, 1 + xp.log(xp.maximum(x, xp.ones_like(x))), xp.zeros_like(x))


def _on_values(function: Callable[[Any, Any], Any], view: Any) -> Any:
    """Apply a function of a namespace and an array, with f(0) = 0, to the values of a dense or sparse view."""
    if not is_sparse(view):
        return function(namespace(view), view)
    return sp.csr_array((function(np, view.data), view.indices, view.indptr), shape=view.shape)


VALUES: dict[str, Callable[[Any], Any]] = {
    "": lambda view: view,
    "root": lambda view: _on_values(_signed_root, view),
    "log-tf": lambda view: _on_values(_log_term, view),
    "log-library": _log_library,
    "log-ratio": _log_ratio,
}


@dataclass(frozen=True)
class Scaling:
    """A scaling that was fitted to some samples of a view.

    Attributes
    ----------
    name : str
        Name of its recipe.
    factor : ndarray of shape (d,) or None
        Multiplies the features.
    components : ndarray of shape (d, q) or None
        Directions that the features are projected on.
    offset : ndarray of shape (d,) or (q,) or None
        Subtracted then.
    size : float
        All values are divided by it in the end, so that the mean squared length of the fitted samples is 1.
    """

    name: str
    factor: NDArray[np.float64] | None
    components: NDArray[np.float64] | None
    offset: NDArray[np.float64] | None
    size: float = 1.0

    def on(self, device: Any) -> Scaling:
        """Return the scaling of tensors on a device."""
        arrays = self.factor, self.components, self.offset
        factor, components, offset = (None if array is None else on_device(array, device) for array in arrays)
        return Scaling(self.name, factor, components, offset, self.size)

    def apply(self, view: Any, *, one_by_one: bool = False) -> Any:
        """Scale samples, (n, d), dense or sparse, or tensors with a scaling `on` their device.

        `one_by_one` takes longer, and gives a sample to the last bit what it gets alone.
        """
        recipe = RECIPES[self.name]
        scaled = VALUES[recipe.values](view)
        if self.factor is not None:
            scaled = _times(scaled, self.factor)
        rounding: Any = 0.0
        if self.offset is not None:
            rounding = 10 * np.finfo(np.float64).eps * _lengths(scaled)
        if self.components is not None:
            rounding = rounding * float((self.components**2).sum()) ** 0.5
            scaled = _projected(scaled, self.components) if one_by_one else scaled @ self.components
        if self.offset is not None:
            scaled = (scaled.toarray() if is_sparse(scaled) else scaled) - self.offset
        return (_unit(scaled, least=rounding) if recipe.unit and scaled.shape[1] > 1 else scaled) / self.size


def fit_and_scale(view: Any, name: str, device: Any = None) -> tuple[Scaling, Any]:
    """Fit a scaling to the samples of a (lean) view.

    Parameters
    ----------
    view : ndarray or csr_array of shape (n, d)
        The samples that have this view, without gaps.
    name : str
        One of `RECIPES`.
    device : torch.device, optional
        Where principal components are computed; by default on the host.

    Returns
    -------
    scaling : Scaling
        The fitted scaling.
    scaled : ndarray or csr_array of shape (n, d')
        The samples, scaled.
    """
    recipe = RECIPES[name]
    values = VALUES[recipe.values](view)
    factor = _factor(values, recipe)
    if factor is not None:
        values = _times(values, factor)
    offset = _offset(values, recipe)
    components = None
    if recipe.components:
        components = _components(values, offset, device, whitened=recipe.components == "whitened")
        offset = None if offset is None else offset @ components
    scaling = Scaling(name, factor, components, offset)
    scaled = scaling.apply(view)
    size = float(np.sqrt(_mean_square(scaled))) or 1.0
    return replace(scaling, size=size), scaled / size


def _unit(view: Any, norm: str = "l2", least: Any = 0.0) -> Any:
    """Return the samples divided by their length, or by the sum of their sizes for the norm "l1".

    Those up to the length `least` become zero. (scikit-learn's `normalize` leaves all below 2e-15 as they are.)
    """
    if is_sparse(view):
        return normalize(view, norm=norm)
    lengths = _lengths(view, norm)
    lengths = lengths * 1.0
    lengths[lengths <= least] = np.inf
    return view / lengths[:, None]


def _lengths(view: Any, norm: str = "l2") -> Any:
    """Return the lengths of samples, which are dense for the norm "l1"."""
    if is_tensor(view):
        return view.norm(p=int(norm[1]), dim=1)
    return row_norms(view) if norm == "l2" else np.abs(view).sum(axis=1)


def _mean_square(view: Any) -> float:
    """Return the mean squared length of the samples."""
    return float(np.square(view.data if is_sparse(view) else view).sum() / view.shape[0])


def _times(view: Any, factor: NDArray[np.float64]) -> Any:
    return sp.csr_array(view.multiply(factor)) if is_sparse(view) else view * factor


def _projected(values: Any, components: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values @ components row by row: products of blocks round differently for every batch of samples."""
    if is_sparse(values):
        return np.asarray(values @ components)
    projected = np.empty((values.shape[0], 1, components.shape[1]))

    def work(start: int, stop: int) -> None:
        np.matmul(values[start:stop, None], components, out=projected[start:stop])

    with one_blas_thread():
        parallel_ranges(work, len(values), _PROJECTED_AT_ONCE)
    return projected[:, 0]


def _factor(values: Any, recipe: Recipe) -> NDArray[np.float64] | None:
    """Return what each feature is multiplied by; constant features, whose deviation is 0, stay as they are."""
    if recipe.divide == "document frequency":
        present = np.asarray((values != 0).sum(axis=0)).ravel()
        return np.asarray(1 + np.log((1 + values.shape[0]) / (1 + present)))
    if recipe.divide == "range":
        spread = np.asarray(_dense(values.max(axis=0)) - _dense(values.min(axis=0)))
    elif recipe.divide == "deviation":
        mean = np.asarray(values.mean(axis=0)).ravel()
        squares = np.asarray((values.multiply(values) if is_sparse(values) else np.square(values - mean)).mean(axis=0))
        spread = np.sqrt(np.maximum(squares - mean**2 if is_sparse(values) else squares, 0))
    else:
        return None
    largest = np.asarray(_dense(abs(values).max(axis=0)))
    # Rounding alone makes the deviation of a constant differ from 0.
    return np.asarray(1 / np.where(spread > np.maximum(_ROUNDING * largest, _LEAST_SPREAD), spread, 1))


def _offset(values: Any, recipe: Recipe) -> NDArray[np.float64] | None:
    if recipe.shift == "mean":
        return np.asarray(values.mean(axis=0)).ravel()
    return _dense(values.min(axis=0)) if recipe.shift == "minimum" else None


def _dense(row: Any) -> NDArray[np.float64]:
    return np.asarray(row.toarray() if is_sparse(row) else row).ravel()


def _components(values: Any, offset: Any, device: Any, *, whitened: bool) -> NDArray[np.float64]:
    """Return the leading principal directions of the first samples, (d, q), divided as `whitened` says.

    They come from the smaller one of the two Gram matrices. If all samples are equal, the only direction is zero.
    """
    values = values[:_COMPONENT_SAMPLES]
    n, d = values.shape
    rank = min(n, d)
    count = min(rank, _MOST_COMPONENTS)
    mean = np.zeros(d) if offset is None else offset
    # A sparse view stays sparse, at the cost of some accuracy.
    noise = _ROUNDING if is_sparse(values) else _ROUNDING**2
    least = noise * _mean_square(values)
    if not is_sparse(values):
        values, mean = values - mean, np.zeros(d)
    if d <= n:
        gram = _dense_product(values.T, values) - n * np.outer(mean, mean)
    else:
        product = np.asarray(values @ mean)
        gram = _dense_product(values, values.T) - product[:, None] - product + mean @ mean
    variances, vectors = _largest_eigenpairs(gram / n, count, device)
    average = max(float(np.trace(gram)) / n / rank, np.finfo(np.float64).tiny)
    kept = variances > max(1e-10 * float(variances[-1]), least, _LEAST_SPREAD**2)
    if not kept.any():
        return np.zeros((d, 1))
    variances, vectors = variances[kept][::-1], vectors[:, kept][:, ::-1]
    if d > n:
        vectors = np.asarray(values.T @ vectors - np.outer(mean, vectors.sum(axis=0))) / np.sqrt(n * variances)
    return np.ascontiguousarray(vectors / np.sqrt(variances + average) if whitened else vectors)


def _largest_eigenpairs(matrix: NDArray[np.float64], count: int, device: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the largest eigenvalues, ascending, and their eigenvectors."""
    if device is not None:
        with device_lock:
            values, vectors = map(on_host, leading_eigenpairs(on_device(matrix, device), count))
        return values[::-1], vectors[:, ::-1]
    try:
        return eigh(matrix, subset_by_index=(len(matrix) - count, len(matrix) - 1), check_finite=False)
    except LinAlgError:  # LAPACK's solver for some eigenpairs gives up on some matrices of low rank
        values, vectors = np.linalg.eigh(matrix)
        return values[-count:], vectors[:, -count:]


def _dense_product(left: Any, right: Any) -> NDArray[np.float64]:
    product = left @ right
    return np.asarray(product.toarray() if is_sparse(product) else product)


def lean(view: Any) -> Any:
    """Return a view in float64, as a sparse matrix if nearly all of its values are zero; a tensor stays one."""
    if is_tensor(view):
        return in_double(view)
    if is_sparse(view):
        return sp.csr_array(view, dtype=np.float64)
    view = np.asarray(view, dtype=np.float64, order="C")  # sums along rows depend on the order in memory
    return sp.csr_array(view) if np.count_nonzero(view) < _SPARSE_UP_TO * view.size else view


def in_form_of(pattern: Any, view: Any) -> Any:
    """Return a view as a sparse matrix if the pattern is one, and as an array else."""
    if is_sparse(pattern):
        return sp.csr_array(view)
    return view.toarray() if is_sparse(view) else view


def refuse_sizes(largest: Iterable[float], names: Iterable[str], *, tiny: bool = True) -> None:
    """Refuse views whose largest value has no square, or, with `tiny`, is not zero and tiny."""
    for size, name in zip(largest, names, strict=True):
        if size > _MOST_SIZE or (tiny and 0 < size < _LEAST_SPREAD):
            raise ValueError(f"{name} has values of size {size:.3g}: multiply it by a factor that brings them near 1")


def refuse_negative(view: Any, scaling: str, name: str) -> None:
    """Refuse a scaling that was asked for if it needs non-negative values and a (lean) view has others."""
    if RECIPES[scaling].values and view.min() < 0:
        raise ValueError(
            f"{name} has negative values, but normalisation={scaling!r} is for values from 0 on, such as counts: "
            "use 'z-score', or 'auto'"
        )


def suitable_scalings(view: Any, n_gaps: int = 0) -> list[str]:
    """Return the names of the scalings that make sense for the values of a (lean) view.

    Sparse views are not centred, square roots need non-negative values, tf-idf and logarithms need counts, and
    log-ratios a panel of features that are mostly present. As many values as there were gaps need not be whole.
    """
    values = view.data if is_sparse(view) else view
    names = [name for name, recipe in RECIPES.items() if not recipe.values and not (is_sparse(view) and recipe.fills)]
    if values.size and values.min() >= 0:
        names += ["root", "root-whitened"]
        if np.count_nonzero(values != np.rint(values)) <= n_gaps:
            # Of a single feature, nothing is left by them.
            if view.shape[1] > 1:
                names += ["log-counts"] + ["log-ratio"] * (view.shape[1] <= _PANEL)
            if is_sparse(view):
                names += ["tf-idf", "lsi"]
    return names


def usual_scaling(view: Any, n_gaps: int = 0) -> str:
    """Return the scaling that is usual for the values of a (lean) view, where no other view can be compared."""
    if "tf-idf" in suitable_scalings(view, n_gaps):
        return "tf-idf"
    if is_sparse(view):
        return "unit"
    return "z-score" if view.shape[1] < _FEW_FEATURES else "z-score-unit"


def suggest_scaling(view: Any) -> tuple[str, str]:
    """Return the usual scaling for the values of a view, as a value of `normalisation`, and its meaning.

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
    name = usual_scaling(lean(view))
    return name, RECIPES[name].meaning
