"""Measure how the order of the samples affects a spectrum: the quantities of the paper's propositions.

Tensors have shape (n, d, m), samples first, on any array backend; results are NumPy arrays. Slices are numbered from 0
here and from 1 in the paper: slice 0, the paper's k = 1, is the mean over the samples under the FFT.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import safe_sparse_dot

from .backend.arrays import Array, namespace, on_host
from .backend.checks import as_real_array, check_memory, check_threshold
from .backend.transforms import rfft
from .bases import fitted_basis
from .bases._base import REPEATED, eigenvalue_groups
from .penalties import _NAMES, make_penalty
from .shrinkage import shrink_slices
from .views import Views, as_float64, as_views

__all__ = [
    "EquivarianceError", "FrequencyBound", "Multiplicities", "circular_total_variation", "cumulative_energy_ratio",
    "equivariance_error", "frequency_bound", "lipschitz_constants", "low_frequency_share", "similarity_tensor",
    "slice_energies", "spectrum_multiplicities",
]  # fmt: skip

_Floats = NDArray[np.float64]

# Largest distance of the second basis of `equivariance_error` from a rotation of the first within its eigenspaces.
# (The error of computed eigenvectors is rounding divided by the gap between eigenvalues, which is at least `REPEATED`.)
_ROTATION_TOLERANCE = 1e-6


def similarity_tensor(views: Any) -> _Floats:
    """Return the tensor of similarities between samples whose spectra the paper plots.

    It takes 8·n²·m bytes of memory.

    Parameters
    ----------
    views : list, tuple or dict of arrays (n_samples, n_features_v), or any other form of views
        The views; every sample is scaled to unit length in each view.

    Returns
    -------
    ndarray of shape (n_samples, n_samples, n_views)
        ``[:, :, v]`` is X_v X_vᵀ; samples and views keep their order.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(60)
    >>> tensor = tm.diagnostics.similarity_tensor(views)
    >>> tensor.shape, round(float(tensor[7, 7, 0]), 12)
    ((60, 60, 4), 1.0)
    """
    checked = as_views(views, canonical=False, keep_view_order=True)
    n, m = checked.n_samples, checked.n_views
    check_memory(8 * n * n * (m + 1), f"the similarity tensor of {n} samples in {m} views", "pass fewer samples")
    tensor = np.empty((n, n, m))
    for v, array in enumerate(checked):
        x = as_float64(array)
        tensor[:, :, v] = safe_sparse_dot(x, x.T, dense_output=True)
    return tensor


def compact_similarities(views: Views) -> _Floats:
    """Return a narrow tensor (n, D, 1) with the same slice energies and sample distances as `similarity_tensor`.

    Z = XXᵀ has ZZᵀ = X(XᵀX)Xᵀ, so the rows of X(XᵀX)^{1/2} have the same inner products as those of Z, and every linear
    transform along the samples gives both the same slice energies, with n × d instead of n × n values.
    """
    parts = []
    for array in views:
        x = as_float64(array)
        if x.shape[1] >= x.shape[0]:
            parts.append(safe_sparse_dot(x, x.T, dense_output=True))
            continue
        squares, vectors = np.linalg.eigh(safe_sparse_dot(x.T, x, dense_output=True))
        parts.append((x @ vectors) * np.sqrt(np.clip(squares, 0, None)))
    return np.concatenate(parts, axis=1)[:, :, None]


def circular_total_variation(tensor: Any) -> float:
    """Return the total change between consecutive samples of a tensor, CTV = Σ_t ‖Z[t+1] − Z[t]‖_F.

    The last sample is followed by the first. Samples sorted by class change little, shuffled samples change a lot.

    Parameters
    ----------
    tensor : array of shape (n, d, m)
        The tensor.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> tensor = np.array([0.0, 0.0, 1.0, 1.0]).reshape(4, 1, 1)
    >>> tm.diagnostics.circular_total_variation(tensor)
    2.0
    >>> tm.diagnostics.circular_total_variation(tensor[[0, 2, 1, 3]])
    4.0
    """
    tensor = as_real_array(tensor, "tensor", 3)
    xp = namespace(tensor)
    total = 0.0
    # In blocks, to save the memory of all differences.
    step = max(1, 2**20 // (tensor.shape[1] * tensor.shape[2]))
    for start in range(0, tensor.shape[0] - 1, step):
        change = xp.diff(tensor[start : start + step + 1], axis=0)
        total += float(xp.sum(xp.linalg.vector_norm(change, axis=(1, 2))))
    return total + float(xp.linalg.vector_norm(tensor[0] - tensor[-1]))


@dataclass(frozen=True)
class FrequencyBound:
    """Upper bounds on the norms of the frequencies of a tensor; see `frequency_bound`.

    Parameters
    ----------
    k : ndarray of shape (n - 1,)
        2, …, n: the number of each frequency in the paper. The mean over the samples, k = 1, has no bound.
    bound : ndarray of shape (n - 1,)
        ``CTV / (2 |sin(π(k − 1)/n)|)``.
    magnitude : ndarray of shape (n - 1,)
        ‖Z̄[k]‖_F under the unnormalised discrete Fourier transform.
    total_variation : float
        The circular total variation, CTV.

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> bound = tm.diagnostics.frequency_bound(np.eye(4)[:, :1, None])
    >>> bound.k, bound.bound.round(3), bound.slack.round(3)
    (array([2, 3, 4]), array([1.414, 1.   , 1.414]), array([0.414, 0.   , 0.414]))
    """

    k: NDArray[np.intp]
    bound: _Floats
    magnitude: _Floats
    total_variation: float

    @property
    def slack(self) -> _Floats:
        """The difference ``bound - magnitude``, which is negative only by rounding."""
        return self.bound - self.magnitude


def frequency_bound(tensor: Any) -> FrequencyBound:
    """Return the norms of the frequencies of a tensor and the bound that the variation sets on them.

    A tensor that changes little between consecutive samples has little energy in its high frequencies, around
    k = n/2 + 1. The mean over the samples, k = 1, has no bound.

    Parameters
    ----------
    tensor : array of shape (n, d, m)
        The tensor, with at least 2 samples.

    Returns
    -------
    FrequencyBound
        Arrays ``k``, ``bound``, ``magnitude`` and ``slack`` for k = 2, …, n: entry i is k = i + 2.

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> tensor = np.random.default_rng(0).normal(size=(9, 4, 3))
    >>> bool((tm.diagnostics.frequency_bound(tensor).slack > 0).all())
    True
    """
    tensor = as_real_array(tensor, "tensor", 3)
    n = tensor.shape[0]
    if n < 2:
        raise ValueError(f"tensor has shape {tuple(tensor.shape)}; at least 2 samples are needed for a bound")
    variation = circular_total_variation(tensor)
    k = np.arange(2, n + 1)
    magnitude = _all_frequencies(np.sqrt(_energies(rfft(tensor))), n)[1:]
    return FrequencyBound(k, variation / (2 * np.abs(np.sin(np.pi * (k - 1) / n))), magnitude, variation)


def slice_energies(tensor: Any, basis: Any) -> _Floats:
    """Return the energies E_k = ‖Z̄[k]‖_F² of all spectral slices of a tensor under a basis.

    The FFT keeps only one slice of each conjugate pair; here both have an entry.

    Parameters
    ----------
    tensor : array of shape (n, d, m)
        The tensor, with the samples in the order in which the basis was fitted.
    basis : str or basis
        A name or a fixed basis is fitted to the size of the tensor; any other basis must be fitted.

    Returns
    -------
    ndarray of shape (number of frequencies,)
        For the FFT all n frequencies in the order of the transform, with the low ones at both ends. For an orthonormal
        transform one entry per slice, from low to high frequency. Entry i is the paper's k = i + 1.

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> tensor = np.random.default_rng(0).normal(size=(5, 4, 3))
    >>> tm.diagnostics.slice_energies(tensor, "fft").round(2)
    array([31.6 , 37.76, 68.15, 68.15, 37.76])
    >>> bool(np.isclose(tm.diagnostics.slice_energies(tensor, "dct").sum(), (tensor**2).sum()))
    True
    """
    basis = fitted_basis(basis, tensor)
    energies, weights = _energies(basis.forward(tensor)), np.asarray(basis.slice_weights_)
    if np.all(weights == 1):
        return energies
    n = round(float(weights.sum()))
    if len(energies) != n // 2 + 1:
        expected = f"all {n} slices, or the first {n // 2 + 1} with weight 2 for those that have a conjugate"
        raise ValueError(f"{basis!r} returns {len(energies)} slices with weights that sum to {n}: expected {expected}")
    return _all_frequencies(energies, n)


def cumulative_energy_ratio(tensor: Any, basis: Any) -> _Floats:
    """Return the fraction of the energy in the first K slices, not counting the very first slice.

    CER(K) = (E_2 + … + E_{K+1}) / (E_2 + … + E_n), with slices numbered as in the paper.

    Parameters
    ----------
    tensor : array of shape (n, d, m)
        The tensor, with the samples in the order in which the basis was fitted.
    basis : str or basis
        A name or a fixed basis is fitted to the size of the tensor; any other basis must be fitted.

    Returns
    -------
    ndarray of shape (number of frequencies - 1,)
        Entry i is CER(i + 1); the last entry is 1. All entries are NaN if only the first slice has energy. The
        frequencies are those of `slice_energies`: under the FFT, the second half mirrors the first.

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> tensor = np.random.default_rng(0).normal(size=(5, 4, 3))
    >>> tm.diagnostics.cumulative_energy_ratio(tensor, "fft").round(3)
    array([0.178, 0.5  , 0.822, 1.   ])
    """
    sums = np.cumsum(slice_energies(tensor, basis)[1:])
    if len(sums) == 0:
        raise ValueError("the tensor has only one frequency under this basis; the energy ratio needs at least 2")
    return sums / sums[-1] if sums[-1] > 0 else np.full_like(sums, np.nan)


def low_frequency_share(tensor: Any, basis: Any, share: float = 0.05) -> float:
    """Return the fraction of the energy in the lowest frequencies, not counting the very first slice.

    Unlike `cumulative_energy_ratio`, it counts both members of a conjugate pair of the FFT as equally low.

    Parameters
    ----------
    tensor : array of shape (n, d, m)
        The tensor, with the samples in the order in which the basis was fitted.
    basis : str or basis
        A name or a fixed basis is fitted to the size of the tensor; any other basis must be fitted.
    share : float, default=0.05
        Fraction of the slices that count as low; at least one slice does.

    Returns
    -------
    float in [0, 1]
        NaN if only the first slice has energy.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(100, class_sorted=True)
    >>> shuffled, _, _ = tm.datasets.shuffle_samples(views, random_state=0)
    >>> for rows in (views, shuffled):
    ...     print(round(tm.diagnostics.low_frequency_share(tm.diagnostics.similarity_tensor(rows), "fft"), 2))
    0.25
    0.02
    """
    if not 0 < share <= 1:
        raise ValueError(f"share must be above 0 and at most 1, got {share!r}")
    basis = fitted_basis(basis, tensor)
    energies = (np.asarray(basis.slice_weights_) * _energies(basis.forward(tensor)))[1:]
    total = float(energies.sum())
    return float(energies[: max(1, round(share * len(energies)))].sum()) / total if total > 0 else math.nan


@dataclass(frozen=True)
class Multiplicities:
    """The distinct eigenvalues of a spectrum, their multiplicities, and the gaps between them.

    Parameters
    ----------
    eigenvalues : ndarray of shape (s,)
        Mean of each group of equal eigenvalues, in the order of the spectrum.
    counts : ndarray of shape (s,)
        Multiplicity of each eigenvalue.
    gaps : ndarray of shape (s - 1,)
        Distances between consecutive groups.
    groups : tuple of slice
        Indices of each group in the spectrum.

    Examples
    --------
    >>> import tensormvc as tm
    >>> found = tm.diagnostics.spectrum_multiplicities([0.0, 0.0, 0.5, 1.0])
    >>> found.counts, found.is_simple
    (array([2, 1, 1]), False)
    """

    eigenvalues: _Floats
    counts: NDArray[np.intp]
    gaps: _Floats
    groups: tuple[slice, ...]

    @property
    def is_simple(self) -> bool:
        """Whether no eigenvalue is repeated."""
        return bool(np.all(self.counts == 1))


def spectrum_multiplicities(spectrum: Any, tol: float = REPEATED) -> Multiplicities:
    """Group the eigenvalues of a spectrum by multiplicity.

    The eigenvectors of a repeated eigenvalue are not unique. An eigensolver returns some of them, and others for
    permuted samples; `GFT` and `AGFT` choose them by the data instead.

    Parameters
    ----------
    spectrum : fitted GFT or AGFT, or sorted array of shape (K,)
        The basis, or its eigenvalues. For AGFT these are the squared singular values of the anchor graph, in
        descending order from 1.
    tol : float, default=1e-6
        Consecutive eigenvalues closer than this count as equal.

    Returns
    -------
    Multiplicities

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(60)
    >>> gft = tm.GFT("sim").fit(views, sample_graph=tm.ideal_graph(y))
    >>> tm.diagnostics.spectrum_multiplicities(gft).counts[0]
    np.int64(10)
    """
    values = _eigenvalues(spectrum)
    groups = tuple(eigenvalue_groups(values, tol))
    means = np.array([values[group].mean() for group in groups])
    counts = np.array([group.stop - group.start for group in groups], dtype=np.intp)
    gaps = np.array([abs(values[group.start] - values[group.start - 1]) for group in groups[1:]])
    return Multiplicities(means, counts, gaps, groups)


@dataclass(frozen=True)
class EquivarianceError:
    """The equivariance error of a shrinkage and its bounds; see `equivariance_error`.

    Parameters
    ----------
    error : float
        ‖F^{U'}(PZ) − P F^U(Z)‖_F.
    tight_bound : float
        2 L_ψ [Σ_ℓ ‖Z̄_ℓ‖² min(1, ‖Q_ℓ − I‖²)]^{1/2} over the repeated eigenvalues ℓ.
    loose_bound : float
        2 L_ψ √E_R, where E_R is the energy in repeated eigenvalues; it does not depend on the second basis.
    repeated_energy : float
        E_R.
    lipschitz : float
        L_ψ. If it is infinite, so are the bounds, unless the spectrum is simple.

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> tensor, basis = np.ones((3, 2, 2)), np.eye(3)
    >>> tm.diagnostics.equivariance_error(tensor, [2, 0, 1], basis, basis[[2, 0, 1]], eigenvalues=[0, 1, 2])
    EquivarianceError(error=0.0, tight_bound=0.0, loose_bound=0.0, repeated_energy=0.0, lipschitz=1.0)
    """

    error: float
    tight_bound: float
    loose_bound: float
    repeated_energy: float
    lipschitz: float


def equivariance_error(
    tensor: Any,
    permutation: Any,
    basis: Any,
    permuted_basis: Any,
    penalty: Any = "nuclear",
    threshold: float = 1.0,
    *,
    eigenvalues: Any = None,
    tol: float = REPEATED,
) -> EquivarianceError:
    """Measure how far shrinkage is from commuting with a permutation of the samples, and its theoretical bounds.

    A shrinkage F^U under a basis U is equivariant if F^{U'}(PZ) = P F^U(Z) for every permutation P. Repeated
    eigenvalues break this, because the basis U' of the permuted samples may be rotated within their eigenspaces; the
    paper's last theorem bounds the error.

    Parameters
    ----------
    tensor : array of shape (n, d, m)
        Z.
    permutation : array of int of shape (n,)
        P: the permuted tensor is ``tensor[permutation]``.
    basis : fitted GFT or AGFT, or array of shape (n, K)
        U, orthonormal eigenvectors in columns, rows in the order of the samples of `tensor`.
    permuted_basis : fitted GFT or AGFT, or array of shape (n, K)
        U', eigenvectors of the same graph, rows in the order of ``tensor[permutation]``. It must span the same
        eigenspaces, U' = PUQ with Q a rotation inside each of them; else it is an error.
    penalty : str or penalty, default="nuclear"
        ψ. A penalty of your own needs ``lipschitz(threshold)`` besides ``value`` and ``prox``; the bounds are infinite
        without it.
    threshold : float, default=1.0
        τ ≥ 0.
    eigenvalues : array of shape (K,), optional
        Sorted eigenvalues; required if `basis` is an array, else those of the basis by default.
    tol : float, default=1e-6
        Consecutive eigenvalues closer than this count as equal.

    Returns
    -------
    EquivarianceError
        The error and its two bounds. With a simple spectrum both bounds are exactly 0 and the error is rounding.

    Notes
    -----
    The factor 2 is needed for general odd Lipschitz maps. A proximal map D is the gradient of a convex function, so D/L
    is firmly non-expansive (Baillon and Haddad): D/L = (I + N)/2 with a non-expansive N. The identity commutes with
    every rotation and drops out of the error, the theorem applies to N, and so the error of a penalty is at most
    **half** of either bound. The error is the fraction 1 − 1/√r of that half if a rotation combines r slices, each just
    at the threshold, into one.

    Examples
    --------
    A repeated eigenvalue, whose eigenvectors the second basis rotates by 90°:

    >>> import numpy as np, tensormvc as tm
    >>> tensor = np.random.default_rng(0).normal(size=(3, 4, 2))
    >>> turned = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    >>> result = tm.diagnostics.equivariance_error(tensor, [0, 1, 2], np.eye(3), turned, eigenvalues=[0, 0, 1])
    >>> result.error < 1e-12 < result.tight_bound  # this rotation only exchanges two slices
    True
    >>> half = np.sqrt(0.5)
    >>> turned = np.array([[half, -half, 0.0], [half, half, 0.0], [0.0, 0.0, 1.0]])
    >>> result = tm.diagnostics.equivariance_error(tensor, [0, 1, 2], np.eye(3), turned, eigenvalues=[0, 0, 1])
    >>> 0 < result.error < result.tight_bound < result.loose_bound
    True
    """
    tensor = np.asarray(on_host(as_real_array(tensor, "tensor", 3)), dtype=np.float64)
    n, order = len(tensor), np.asarray(permutation)
    if order.shape != (n,) or not np.array_equal(np.sort(order), np.arange(n)):
        raise ValueError(f"permutation must hold every integer from 0 to {n - 1} exactly once")
    if eigenvalues is None and not hasattr(basis, "forward"):
        raise ValueError("basis is an array: pass its eigenvalues as well")
    u, v = _orthonormal(basis, n, "basis"), _orthonormal(permuted_basis, n, "permuted_basis")
    groups = spectrum_multiplicities(basis if eigenvalues is None else eigenvalues, tol).groups
    rotations = _rotations(u[order], v, groups)
    penalty, threshold = make_penalty(penalty), check_threshold(threshold)
    lipschitz = float(penalty.lipschitz(threshold)) if hasattr(penalty, "lipschitz") else math.inf
    energies = _energies(np.tensordot(u.T, tensor, axes=1))
    tight = repeated = 0.0
    for group, rotation in zip(groups, rotations, strict=True):
        if len(rotation) > 1:
            energy = float(energies[group].sum())
            repeated += energy
            tight += energy * min(1.0, float(np.linalg.norm(rotation - np.eye(len(rotation)), 2)) ** 2)
    difference = _shrunk(tensor[order], v, penalty, threshold) - _shrunk(tensor, u, penalty, threshold)[order]
    # No repeated energy means no error, even if the constant is infinite.
    tight, loose = (2 * lipschitz * energy**0.5 if energy > 0 else 0.0 for energy in (tight, repeated))
    return EquivarianceError(float(np.linalg.norm(difference)), tight, loose, repeated, lipschitz)


def _rotations(u: _Floats, v: _Floats, groups: tuple[slice, ...]) -> list[_Floats]:
    """Return the rotation of v against u within every eigenspace; an error if v spans other spaces."""
    n_eigenvalues = groups[-1].stop if groups else 0
    if not groups or not u.shape == v.shape == (len(u), n_eigenvalues):
        raise ValueError(f"basis {u.shape}, permuted_basis {v.shape} and {n_eigenvalues} eigenvalues do not match")
    rotations = [u[:, group].T @ v[:, group] for group in groups]
    for group, rotation in zip(groups, rotations, strict=True):
        if np.linalg.norm(u[:, group] @ rotation - v[:, group]) > _ROTATION_TOLERANCE:
            numbers, remedy = f"{group.start} to {group.stop - 1}", "its rows must be in the order tensor[permutation]"
            raise ValueError(f"permuted_basis does not span the eigenspace of eigenvalues {numbers}: {remedy}")
    return rotations


def lipschitz_constants(threshold: float) -> dict[str, float]:
    """Return the Lipschitz constants of the proximal maps of all penalties at a threshold.

    The constant of the nuclear norm is 1. A penalty whose second derivative is at least −κ has the constant 1/(1 − κτ)
    for thresholds τ < 1/κ; beyond, its proximal map jumps and the constant is infinite, as it always is for Schatten-p.

    Parameters
    ----------
    threshold : float
        τ ≥ 0.

    Returns
    -------
    dict of str to float
        The constant by the name of the penalty, with default parameters.

    Examples
    --------
    >>> import tensormvc as tm
    >>> constants = tm.diagnostics.lipschitz_constants(0.5)
    >>> constants["nuclear"], constants["log"], constants["schatten-p"]
    (1.0, 2.0, inf)
    """
    return {name: float(penalty().lipschitz(threshold)) for name, penalty in _NAMES.items()}


def _energies(slices: Array) -> _Floats:
    """Return the squared Frobenius norm of each slice, as float64 on the host."""
    norms = namespace(slices).linalg.vector_norm(slices, axis=(1, 2))
    return np.asarray(on_host(norms), dtype=np.float64) ** 2


def _all_frequencies(half: _Floats, n: int) -> _Floats:
    """Return values of the first ⌊n/2⌋ + 1 frequencies for all n, repeated for the conjugates."""
    k = np.arange(n)
    return half[np.minimum(k, n - k)]


def _eigenvalues(spectrum: Any) -> _Floats:
    if hasattr(spectrum, "eigenvalues_"):
        return np.asarray(spectrum.eigenvalues_)
    if hasattr(spectrum, "singular_values_"):
        return np.asarray(spectrum.singular_values_) ** 2
    values = np.asarray(spectrum, dtype=np.float64)
    steps = np.diff(values)
    if values.ndim != 1 or not (np.all(steps >= 0) or np.all(steps <= 0)):
        raise ValueError(f"eigenvalues of shape {values.shape} must be sorted and one-dimensional")
    return values


def _orthonormal(basis: Any, n: int, name: str) -> _Floats:
    """Return the vectors of a basis as columns; an error if they are not orthonormal."""
    if hasattr(basis, "inverse"):
        basis = basis.inverse(np.eye(len(basis.slice_weights_))[:, :, None])[:, :, 0]
    vectors = np.asarray(basis, dtype=np.float64)
    if vectors.ndim != 2 or vectors.shape[0] != n:
        raise ValueError(f"{name} has shape {vectors.shape}; expected one row per sample, {n} in total")
    if np.max(np.abs(vectors.T @ vectors - np.eye(vectors.shape[1]))) > _ROTATION_TOLERANCE:
        raise ValueError(f"the columns of {name} are not orthonormal")
    return vectors


def _shrunk(tensor: _Floats, vectors: _Floats, penalty: Any, threshold: float) -> Array:
    return np.tensordot(vectors, shrink_slices(np.tensordot(vectors.T, tensor, axes=1), penalty, threshold), axes=1)
