"""Checks for your own tests: of a clusterer, a basis or a penalty."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from . import metrics
from .audit._agreement import numbered_by_first, pairwise_ari
from .audit._clusterers import Clusterer
from .backend.checks import random_seed
from .bases import make_basis
from .penalties import make_penalty
from .views import as_views

__all__ = ["assert_order_independent", "check_basis", "check_penalty"]


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def assert_order_independent(
    estimator: Any,
    views: Any,
    *,
    n_permutations: int = 3,
    min_ari: float = 1.0,
    random_state: Any = 0,
    sample_graph: Any = None,
) -> None:
    """Check that a clusterer gives the same partition, whatever the order of the rows.

    Use it in the tests of a project that clusters data: a fixed seed does not protect against another order of the same
    table. The clusterer is run on the samples as they are, once more to check that it is repeatable, and on
    permutations of them, always with the same seed. To measure how strong a dependence is, use `audit_order`.

    Parameters
    ----------
    estimator : object with ``fit_predict``, or function
        Any clusterer, from this package or another. A function takes the views and returns labels; it is called with
        ``random_state=`` if it has a parameter of that name. Only copies of an estimator are fitted.
    views : list, tuple or dict of arrays (n_samples, n_features_v), MuData, or one array
        The data. For an estimator from another package, several views are concatenated into one matrix.
    n_permutations : int, default=3
        Number of permutations to try, at least 1. More of them find rarer differences.
    min_ari : float, default=1
        Lowest accepted adjusted Rand index with the clusters of the first order. 1 requires equal partitions; clusters
        may be numbered differently.
    random_state : int, RandomState instance or None, default=0
        Seed of the permutations, and of an estimator that has ``random_state=None``.
    sample_graph : array or sparse matrix of shape (n_samples, n_samples), optional
        Passed to the clusterer as ``sample_graph=``, permuted with the samples.

    Raises
    ------
    AssertionError
        If the clusters differ; the message says by how much, and whether the order is the cause.

    See Also
    --------
    tensormvc.audit_order : How much a clusterer depends on the order, as opposed to its seed.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(100)
    >>> tm.testing.assert_order_independent(tm.MultiViewClustering(10, random_state=0), views)
    >>> from sklearn.cluster import KMeans
    >>> tm.testing.assert_order_independent(KMeans(10, n_init=1, random_state=0), views)
    Traceback (most recent call last):
        ...
    AssertionError: KMeans depends on the order of the rows: ...
    """
    if n_permutations < 1:
        raise ValueError(f"n_permutations={n_permutations} must be at least 1")
    seed = random_seed(random_state)
    clusterer = Clusterer(estimator, views, sample_graph, seed)
    n, name, rng = clusterer.n_samples, clusterer.name, np.random.default_rng(seed)
    first, again = (numbered_by_first(clusterer.run(np.arange(n))[0]) for _ in range(2))
    if (ari := float(pairwise_ari([first, again])[0, 1])) < min_ari:
        raise AssertionError(
            f"{name} is not repeatable: two runs on the same rows with the same seed agree with an ARI of {ari:.3f} "
            "only, so the effect of the order cannot be tested; set its random_state, and remove any other randomness"
        )
    for permutation in range(n_permutations):
        found = numbered_by_first(clusterer.run(rng.permutation(n))[0])
        if (ari := float(pairwise_ari([first, found])[0, 1])) < min_ari:
            moved = round(n * (1 - metrics.clustering_accuracy(first, found)))
            raise AssertionError(
                f"{name} depends on the order of the rows: in permutation {permutation + 1} of {n_permutations}, "
                f"{moved} of {n} samples change their cluster (ARI {ari:.3f}, at least {min_ari:g} is required); "
                "tensormvc.audit_order tells the effect of the order from that of the seed"
            )


def check_basis(basis: Any, *, n_samples: tuple[int, ...] = (1, 2, 3, 13, 24, 40), random_state: int = 0) -> None:
    """Check that an object follows the protocol of a basis, so that all functions and estimators can use it.

    For even and odd numbers of samples, in single and double precision, it checks that

    * `fit` returns the object and does not change the views, and the same seed gives the same transform;
    * `forward` and `inverse` are linear, keep the precision and do not change their input;
    * ``slice_weights_`` has one weight per slice, 1 or 2;
    * energy is preserved up to a constant factor;
    * `inverse` undoes `forward` or, if the basis discards part of the spectrum, the round trip is a projection.

    Parameters
    ----------
    basis : str, or instance of a basis
        The basis to check; copies of it are fitted.
    n_samples : tuple of int
        Numbers of samples to try. A basis may reject any but the last with a ValueError.
    random_state : int, default=0
        Seed of the random views and tensors.

    Raises
    ------
    AssertionError
        If a check fails; the message says which one.

    Examples
    --------
    >>> import tensormvc as tm
    >>> tm.testing.check_basis(tm.Haar())
    """
    prototype = make_basis(basis)
    for n in n_samples:
        for dtype in (np.float64, np.float32):
            rng = np.random.default_rng(random_state)
            views = [rng.normal(size=(n, d)).astype(dtype) for d in (7, 5, 6)]
            try:
                fitted = _check_fit(prototype, views)
            except ValueError:
                _require(n != n_samples[-1], f"fit rejects {n} samples, the largest number tried")
                continue
            _check_transform(fitted, rng, (n, 4, len(views)), dtype)


def _check_fit(prototype: Any, views: list[NDArray[Any]]) -> Any:
    before = [view.copy() for view in views]
    fitted = clone(prototype, safe=False)
    returned = fitted.fit(views, n_clusters=2, random_state=0)
    _require(returned is fitted, "fit does not return self")
    _require(all(map(np.array_equal, before, views)), "fit changes the views")
    again = clone(prototype, safe=False).fit(views, n_clusters=2, random_state=0, sample_graph=None)
    # The methods pass views in this form.
    clone(prototype, safe=False).fit(as_views(views), n_clusters=2, random_state=0)
    tensor = np.random.default_rng(1).normal(size=(len(views[0]), 4, len(views))).astype(views[0].dtype)
    is_same = np.array_equal(fitted.forward(tensor), again.forward(tensor))
    _require(is_same, "two fits to the same views with the same random_state give different transforms")
    return fitted


def _check_transform(basis: Any, rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> None:
    what = f"with {shape[0]} samples in {np.dtype(dtype).name}: "
    # Rounding grows with the size, but these sizes are small.
    tol = 1000 * np.finfo(dtype).eps
    a, b = (rng.normal(size=shape).astype(dtype) for _ in range(2))
    before = a.copy()
    slices = basis.forward(a)
    _require(np.array_equal(a, before), what + "forward changes its input")
    _require(slices.ndim == 3, what + f"forward returns {slices.ndim} dimensions, not 3")

    weights = np.asarray(basis.slice_weights_)
    expected = slices.shape[:1]
    _require(weights.shape == expected, what + f"slice_weights_ has shape {weights.shape}, not {expected}")
    _require(bool(np.isin(weights, (1, 2)).all()), what + "slice_weights_ has values other than 1 and 2")

    _require(np.finfo(slices.dtype).dtype == dtype, what + f"forward returns {slices.dtype}")
    kept = slices.copy()
    back = basis.inverse(slices)
    _require(np.array_equal(slices, kept), what + "inverse changes its input")
    _require(back.shape == shape, what + f"inverse returns shape {back.shape} for a tensor of shape {shape}")
    _require(back.dtype == dtype, what + f"inverse returns {back.dtype}")

    def same(x: NDArray[Any], y: NDArray[Any]) -> bool:
        return bool(np.linalg.norm(x - y) <= tol * (1 + np.linalg.norm(x)))

    _require(same(basis.forward(2 * a - b), 2 * slices - basis.forward(b)), what + "forward is not linear")
    _require(same(basis.inverse(2 * slices), 2 * back), what + "inverse is not linear")
    _require(same(basis.forward(back), slices), what + "inverse followed by forward does not return the slices")
    _require(same(basis.inverse(basis.forward(back)), back), what + "the round trip is not a projection")
    if weights.sum() >= getattr(basis, "mode_length_", shape[0]):
        _require(same(back, a), what + "inverse does not undo forward")

    def energy_ratio(tensor: NDArray[Any]) -> float:
        slice_energy = np.sum(np.abs(basis.forward(tensor)) ** 2, axis=(1, 2), dtype=np.float64)
        return float(weights @ slice_energy / np.sum(np.square(tensor, dtype=np.float64)))

    first, second = energy_ratio(back), energy_ratio(basis.inverse(basis.forward(b)))
    constant = abs(first - second) <= tol * first
    _require(constant, what + f"energy is not kept up to a constant factor: {first} and {second} for two tensors")


def check_penalty(penalty: Any) -> None:
    """Check that an object follows the protocol of a penalty, and that its proximal map is the exact minimiser.

    It checks that

    * ψ is 0 at 0 and does not decrease, and `derivative`, if there is one, is the derivative of `value`;
    * `prox` returns values in [0, s] that grow with s, for thresholds over six decades, with an objective
      ½(x − s)² + threshold·ψ(x) within 1e-8 of the best on a fine grid;
    * a threshold of 0 changes nothing, and single precision is kept.

    Parameters
    ----------
    penalty : str, or instance of a penalty
        The penalty to check.

    Raises
    ------
    AssertionError
        If a check fails; the message says which one.

    Examples
    --------
    >>> import tensormvc as tm
    >>> tm.testing.check_penalty(tm.penalties.MCP(gamma=3.0))
    """
    penalty = make_penalty(penalty)
    s = np.concatenate([[0.0], np.geomspace(1e-3, 1e3, 61)])
    values = np.asarray(penalty.value(s))
    _require(values.shape == s.shape, "value does not keep the shape")
    _require(values[0] == 0, f"value(0) is {values[0]}, not 0")
    _require(bool(np.all(np.diff(values) >= 0)), "value decreases somewhere")
    if hasattr(penalty, "derivative"):
        middle, step = s[1:], 1e-6 * s[1:]
        slope = (np.asarray(penalty.value(middle + step)) - np.asarray(penalty.value(middle - step))) / (2 * step)
        near = [np.asarray(penalty.derivative(middle + side)) for side in (-step, step)]
        # Cancellation leaves about nine digits of the difference quotient, in units of value/step.
        slack = 1e-9 * np.asarray(penalty.value(middle)) / step + 1e-6 * np.abs(slope)
        inside = (slope >= np.minimum(*near) - slack) & (slope <= np.maximum(*near) + slack)
        _require(bool(inside.all()), f"derivative does not match value near {middle[~inside][:3]}")

    _require(np.array_equal(np.asarray(penalty.prox(s, 0.0)), s), "prox with threshold 0 changes its input")
    grid = np.concatenate([np.linspace(0, 1, 4001), np.geomspace(1e-9, 1, 1000)])
    for threshold in np.geomspace(1e-3, 1e3, 13):
        x = np.asarray(penalty.prox(s, float(threshold)))
        what = f"prox with threshold {threshold:.3g} "
        _require(x.shape == s.shape, what + "does not keep the shape")
        _require(x[0] == 0, what + "does not map 0 to 0")
        _require(bool(np.all((x >= 0) & (x <= s))), what + "leaves the interval [0, s]")
        _require(bool(np.all(np.diff(x) >= -1e-12 * s[1:])), what + "is not monotone")
        objective = (x - s) ** 2 / 2 + threshold * np.asarray(penalty.value(x))
        points = s[:, None] * grid
        brute = np.min((points - s[:, None]) ** 2 / 2 + threshold * np.asarray(penalty.value(points)), axis=1)
        worst = float(np.max((objective - brute) / np.maximum(1, s**2)))
        _require(worst <= 1e-8, what + f"is not the minimiser: a point of the grid is better by {worst:.2g}")
    for threshold in (1e-8, 0.5, 100.0):
        wide = np.geomspace(1e-6, 1e20, 53, dtype=np.float32)
        single = np.asarray(penalty.prox(wide, threshold))
        _require(single.dtype == np.float32, f"prox of float32 is {single.dtype}")
        _require(bool(np.all((single >= 0) & (single <= wide))), "prox of float32 leaves the interval [0, s]")
        _require(bool(single[-1] == wide[-1]), "prox changes a huge value")
