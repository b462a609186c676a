"""What the order of the samples does to a spectrum, in numbers: the quantities of the paper's propositions.

Tensors are sample-first, (n, d, m), and may be NumPy arrays or PyTorch tensors; what is returned is NumPy. Slices are
counted from 0 here and from 1 in the paper: slice 0, the paper's k = 1, is the mean over the samples under the FFT.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .backend import Array, as_real_array, check_memory, check_threshold, namespace, on_host, rfft
from .bases import fitted_basis
from .bases._spectrum import REPEATED, eigenvalue_groups
from .penalties import _NAMES, make_penalty
from .shrinkage import shrink_slices
from .views import Views, as_float64, as_views

__all__ = [
    "EquivarianceError",
    "FrequencyBound",
    "Multiplicities",
    "circular_total_variation",
    "cumulative_energy_ratio",
    "equivariance_error",
    "frequency_bound",
    "lipschitz_constants",
    "low_frequency_share",
    "similarity_tensor",
    "slice_energies",
    "spectrum_multiplicities",
]

_Floats = NDArray[np.float64]

# How far the second basis of `equivariance_error` may be from a rotation of the first inside its eigenspaces. (An
# eigensolver's vectors are right to its rounding over the gap to the next eigenvalue, which is at least `REPEATED`.)
_ROTATION_TOLERANCE = 1e-6


def similarity_tensor(views: Any) -> _Floats:
    """Return the similarities of all samples in every view, of which the spectra of the paper's figures are.

    Memory: 8 n² bytes a view.

    Parameters
    ----------
    views : list, tuple or dict of arrays (n_samples, n_features_v), or what else the methods take
        The views; every sample is scaled to unit length in each.

    Returns
    -------
    ndarray of shape (n_samples, n_samples, n_views)
        ``[:, :, v]`` is X_v X_vᵀ; samples and views in the order given.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(60)
    >>> tensor = tm.diagnostics.similarity_tensor(views)
    >>> tensor.shape, round(float(tensor[7, 7, 0]), 12)
    ((60, 60, 4), 1.0)
    """
    made = as_views(views, canonical=False, keep_view_order=True)
    n, m = made.n_samples, made.n_views
    check_memory(8 * n * n * (m + 1), f"the similarity tensor of {n} samples in {m} views", "look at fewer samples")
    tensor = np.empty((n, n, m))
    for v, array in enumerate(made):
        tensor[:, :, v] = _dense(as_float64(array) @ as_float64(array).T)
    return tensor


def compact_similarities(views: Views) -> _Floats:
    """Return a narrow tensor (n, D, 1) in which samples differ as they do in the similarity tensor.

    Z = XXᵀ has ZZᵀ = X(XᵀX)Xᵀ. So X(XᵀX)^{1/2} has rows with the same inner products, and every linear transform along
    the samples gives both the same slice energies; n × d instead of n × n.
    """
    parts = []
    for array in views:
        x = as_float64(array)
        if x.shape[1] >= x.shape[0]:
            parts.append(_dense(x @ x.T))
            continue
        squares, vectors = np.linalg.eigh(_dense(x.T @ x))
        parts.append((x @ vectors) * np.sqrt(np.clip(squares, 0, None)))
    return np.concatenate(parts, axis=1)[:, :, None]


def circular_total_variation(tensor: Any) -> float:
    """Return how much a tensor changes from sample to sample, once around: Σ_t ‖Z[t+1] − Z[t]‖_F.

    After the last sample comes the first. Rows that are sorted by class change little, shuffled ones much.

    Parameters
    ----------
    tensor : array of shape (n, d, m)
        Sample-first.

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
    # A block at a time, so that the differences take no room.
    step = max(1, 2**20 // (tensor.shape[1] * tensor.shape[2]))
    for start in range(0, tensor.shape[0] - 1, step):
        change = xp.diff(tensor[start : start + step + 1], axis=0)
        total += float(xp.sum(xp.linalg.vector_norm(change, axis=(1, 2))))
    return total + float(xp.linalg.vector_norm(tensor[0] - tensor[-1]))


@dataclass(frozen=True)
class FrequencyBound:
    """The frequency bound of a tensor: what its circular total variation allows each frequency to have.

    Parameters
    ----------
    k : ndarray of shape (n - 1,)
        2, …, n: the paper's number of each frequency; k = 1, the mean over the samples, has no bound.
    bound : ndarray of shape (n - 1,)
        CTV / (2 |sin(π(k − 1)/n)|).
    magnitude : ndarray of shape (n - 1,)
        ‖Z̄[k]‖_F under the unnormalised discrete Fourier transform.
    total_variation : float
        CTV.

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
        """What the bound leaves open, ``bound - magnitude``: not negative, but for rounding."""
        return self.bound - self.magnitude


def frequency_bound(tensor: Any) -> FrequencyBound:
    """Return the bound ‖Z̄[k]‖_F ≤ CTV / (2 |sin(π(k−1)/n)|) of all frequencies but the mean, and what they have.

    A tensor that changes little from sample to sample has little in its high frequencies, those about k = n/2 + 1.

    Parameters
    ----------
    tensor : array of shape (n, d, m)
        Sample-first, with at least 2 samples.

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
        raise ValueError(f"a tensor of shape {tuple(tensor.shape)} has no frequency but the mean: 2 samples are needed")
    variation = circular_total_variation(tensor)
    k = np.arange(2, n + 1)
    magnitude = _all_frequencies(np.sqrt(_energies(rfft(tensor))), n)[1:]
    return FrequencyBound(k, variation / (2 * np.abs(np.sin(np.pi * (k - 1) / n))), magnitude, variation)


def slice_energies(tensor: Any, basis: Any) -> _Floats:
    """Return the energies E_k = ‖Z̄[k]‖_F² of a tensor's slices under a basis, conjugates and all.

    The FFT keeps one slice of each conjugate pair; here both are counted, at their own places.

    Parameters
    ----------
    tensor : array of shape (n, d, m)
        Sample-first, in the order that the basis takes.
    basis : str or basis
        A name or a fixed basis is fitted to the size of the tensor; any other basis must be fitted.

    Returns
    -------
    ndarray of shape (number of frequencies,)
        For the FFT all n of them, in the order of the transform: the low ones are at both ends. For an orthonormal
        transform one a slice, low ones first. Entry i is the paper's k = i + 1.

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
        raise ValueError(
            f"{basis!r} returns {len(energies)} slices with weights that sum to {n}: expected all of them, or the "
            f"first {n // 2 + 1} of {n} with weight 2 where a slice stands for its conjugate too"
        )
    return _all_frequencies(energies, n)


def cumulative_energy_ratio(tensor: Any, basis: Any) -> _Floats:
    """Return which share of the energy beyond the first slice lies in the first K slices after it.

    CER(K) = (E_2 + … + E_{K+1}) / (E_2 + … + E_n), in the paper's numbers.

    Parameters
    ----------
    tensor : array of shape (n, d, m)
        Sample-first, in the order that the basis takes.
    basis : str or basis
        A name or a fixed basis is fitted to the size of the tensor; any other basis must be fitted.

    Returns
    -------
    ndarray of shape (number of frequencies - 1,)
        Entry i is CER(i + 1); the last is 1. Without any energy beyond the first slice all are NaN. The frequencies
        are those of `slice_energies`: under the FFT the second half mirrors the first.

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> tensor = np.random.default_rng(0).normal(size=(5, 4, 3))
    >>> tm.diagnostics.cumulative_energy_ratio(tensor, "fft").round(3)
    array([0.178, 0.5  , 0.822, 1.   ])
    """
    sums = np.cumsum(slice_energies(tensor, basis)[1:])
    if len(sums) == 0:
        raise ValueError("there is no frequency beyond the first: the ratio needs at least 2")
    return sums / sums[-1] if sums[-1] > 0 else np.full_like(sums, np.nan)


def low_frequency_share(tensor: Any, basis: Any, share: float = 0.05) -> float:
    """Return which share of the energy beyond the first slice lies in the lowest frequencies.

    Unlike `cumulative_energy_ratio` it knows that the low frequencies of the FFT are at both ends of the spectrum.

    Parameters
    ----------
    tensor : array of shape (n, d, m)
        Sample-first, in the order that the basis takes.
    basis : str or basis
        A name or a fixed basis is fitted to the size of the tensor; any other basis must be fitted.
    share : float, default=0.05
        How many of the slices beyond the first count as low; at least one does.

    Returns
    -------
    float in [0, 1]
        NaN without any energy beyond the first slice.

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
    """The distinct eigenvalues of a spectrum, how often each occurs, and how far they are apart.

    Parameters
    ----------
    eigenvalues : ndarray of shape (s,)
        The mean of each group, in the order given.
    counts : ndarray of shape (s,)
        How many eigenvalues are in each group.
    gaps : ndarray of shape (s - 1,)
        Distance between the last of a group and the first of the next.
    groups : tuple of slice
        Places of each group among the eigenvalues.

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
    """Return which eigenvalues of a spectrum are repeated.

    Inside a repeated eigenvalue the eigenvectors are a choice; an eigensolver makes it by accident, and an accident
    does not follow the samples. (`GFT` and `AGFT` make it from the data.)

    Parameters
    ----------
    spectrum : fitted GFT or AGFT, or sorted array of shape (K,)
        The basis, or its eigenvalues. (Of an anchor graph the squares of the singular values are taken, which are
        eigenvalues as those of the graph Laplacian are, from 1 downward.)
    tol : float, default=1e-6
        Neighbours nearer than this count as one.

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
    """How far shrinking permuted samples is from permuting shrunk ones, and what the theorem allows.

    Parameters
    ----------
    error : float
        ‖F^{U'}(PZ) − P F^U(Z)‖_F.
    tight_bound : float
        2 L_ψ [Σ_ℓ ‖Z̄_ℓ‖² min(1, ‖Q_ℓ − I‖²)]^{1/2} over the repeated eigenvalues ℓ.
    loose_bound : float
        2 L_ψ √E_R, E_R being the energy in repeated eigenvalues; it needs no knowledge of the second basis.
    repeated_energy : float
        E_R.
    lipschitz : float
        L_ψ; where it is infinite, so are the bounds, unless the spectrum is simple.

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
    """Compare shrinking permuted samples with permuting shrunk ones: the paper's last theorem.

    Parameters
    ----------
    tensor : array of shape (n, d, m)
        Z, sample-first.
    permutation : array of int of shape (n,)
        P: the permuted tensor is ``tensor[permutation]``.
    basis : fitted GFT or AGFT, or array of shape (n, K)
        U, orthonormal eigenvectors in columns, rows in the order of the samples of `tensor`.
    permuted_basis : fitted GFT or AGFT, or array of shape (n, K)
        U', eigenvectors of the same graph, rows in the order of ``tensor[permutation]``. It must span the same
        eigenspaces, U' = PUQ with Q a rotation inside each of them; else it is an error.
    penalty : str or penalty, default="nuclear"
        ψ. (The theorem is about any map of singular values with a Lipschitz constant: an object with ``value``,
        ``prox`` and ``lipschitz``; without the last the bounds are infinite.)
    threshold : float, default=1.0
        τ ≥ 0.
    eigenvalues : array of shape (K,), optional
        Sorted. Those of the basis by default; needed with arrays.
    tol : float, default=1e-6
        Neighbouring eigenvalues nearer than this count as one.

    Returns
    -------
    EquivarianceError
        The error and its two bounds. With a simple spectrum both bounds are exactly 0, and the error is rounding.

    Notes
    -----
    The factor 2 is needed for a general Lipschitz map that is odd and 0 at 0. A proximal map is more: the gradient of
    a convex function, so that D/L is firmly non-expansive (Baillon and Haddad), which is to say D/L = (I + N)/2 with a
    non-expansive N. The identity I commutes with every rotation and drops out of the error, the theorem holds for N,
    and so the error of a penalty is at most **half** of either bound. It comes near to that where a rotation gathers r
    slices, each just at the threshold, in one: the share 1 − 1/√r of the half.

    Examples
    --------
    A repeated eigenvalue, whose vectors the second eigensolver turned by 90°:

    >>> import numpy as np, tensormvc as tm
    >>> tensor = np.random.default_rng(0).normal(size=(3, 4, 2))
    >>> turned = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    >>> result = tm.diagnostics.equivariance_error(tensor, [0, 1, 2], np.eye(3), turned, eigenvalues=[0, 0, 1])
    >>> result.error < 1e-12 < result.tight_bound  # slices changed places: nothing happened to them
    True
    >>> half = np.sqrt(0.5)
    >>> turned = np.array([[half, -half, 0.0], [half, half, 0.0], [0.0, 0.0, 1.0]])
    >>> result = tm.diagnostics.equivariance_error(tensor, [0, 1, 2], np.eye(3), turned, eigenvalues=[0, 0, 1])
    >>> 0 < result.error < result.tight_bound < result.loose_bound
    True
    """
    tensor = np.asarray(on_host(as_real_array(tensor, "tensor", 3)), dtype=np.float64)
    n = len(tensor)
    order = np.asarray(permutation)
    if order.shape != (n,) or not np.array_equal(np.sort(order), np.arange(n)):
        raise ValueError(f"permutation must hold every number from 0 to {n - 1} once")
    if eigenvalues is None and not hasattr(basis, "forward"):
        raise ValueError("eigenvalues are needed with a basis that is an array")
    u, v = (_orthonormal(b, n, name) for b, name in ((basis, "basis"), (permuted_basis, "permuted_basis")))
    groups = spectrum_multiplicities(basis if eigenvalues is None else eigenvalues, tol).groups
    if u.shape != v.shape or not groups or groups[-1].stop != u.shape[1]:
        raise ValueError(
            f"basis of shape {u.shape}, permuted_basis of shape {v.shape} and {groups[-1].stop if groups else 0} "
            "eigenvalues do not belong together"
        )
    rotations = [u[order][:, group].T @ v[:, group] for group in groups]
    for group, rotation in zip(groups, rotations, strict=True):
        if np.linalg.norm(u[order][:, group] @ rotation - v[:, group]) > _ROTATION_TOLERANCE:
            raise ValueError(
                f"permuted_basis does not span the same eigenspace as the basis at eigenvalues {group.start} to "
                f"{group.stop - 1}: is it that of the permuted graph, with rows in the order tensor[permutation]?"
            )
    penalty = make_penalty(penalty)
    threshold = check_threshold(threshold)
    lipschitz = float(penalty.lipschitz(threshold)) if hasattr(penalty, "lipschitz") else math.inf
    energies = _energies(np.tensordot(u.T, tensor, axes=1))
    tight = repeated = 0.0
    for group, rotation in zip(groups, rotations, strict=True):
        if len(rotation) > 1:
            energy = float(energies[group].sum())
            repeated += energy
            tight += energy * min(1.0, float(np.linalg.norm(rotation - np.eye(len(rotation)), 2)) ** 2)
    difference = _shrunk(tensor[order], v, penalty, threshold) - _shrunk(tensor, u, penalty, threshold)[order]
    return EquivarianceError(
        error=float(np.linalg.norm(difference)),
        tight_bound=_times(2 * lipschitz, tight**0.5),
        loose_bound=_times(2 * lipschitz, repeated**0.5),
        repeated_energy=repeated,
        lipschitz=lipschitz,
    )


def lipschitz_constants(threshold: float) -> dict[str, float]:
    """Return the Lipschitz constant of every penalty's shrinkage at a threshold; infinity where there is none.

    Only a penalty whose proximal map does not jump has one. The nuclear norm always has, the constant 1. A penalty
    whose second derivative is nowhere below −κ has one below the threshold 1/κ, namely 1/(1 − κτ). Schatten-p has none.

    Parameters
    ----------
    threshold : float
        τ ≥ 0.

    Returns
    -------
    dict of str to float
        By the name of the penalty, each with its default parameters.

    Examples
    --------
    >>> import tensormvc as tm
    >>> constants = tm.diagnostics.lipschitz_constants(0.5)
    >>> constants["nuclear"], constants["log"], constants["schatten-p"]
    (1.0, 2.0, inf)
    """
    return {name: float(penalty().lipschitz(threshold)) for name, penalty in _NAMES.items()}


def _times(factor: float, amount: float) -> float:
    """Return the product, where nothing times infinity is nothing."""
    return factor * amount if amount > 0 else 0.0


def _dense(matrix: Any) -> Any:
    return matrix.toarray() if hasattr(matrix, "toarray") else matrix


def _energies(slices: Array) -> _Floats:
    """Return the squared Frobenius norm of each slice, as float64 on the host."""
    norms = namespace(slices).linalg.vector_norm(slices, axis=(1, 2))
    return np.asarray(on_host(norms), dtype=np.float64) ** 2


def _all_frequencies(half: _Floats, n: int) -> _Floats:
    """Return what belongs to the first ⌊n/2⌋ + 1 frequencies for all n, each conjugate at its place."""
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
        raise ValueError(f"eigenvalues of shape {values.shape} must be one sorted list")
    return values


def _orthonormal(basis: Any, n: int, name: str) -> _Floats:
    """Return the vectors of a basis in columns, and refuse those that are not orthonormal."""
    if hasattr(basis, "inverse"):
        basis = basis.inverse(np.eye(len(basis.slice_weights_))[:, :, None])[:, :, 0]
    vectors = np.asarray(basis, dtype=np.float64)
    if vectors.ndim != 2 or vectors.shape[0] != n:
        raise ValueError(f"{name} has shape {vectors.shape}; expected a row for each of the {n} samples")
    if np.max(np.abs(vectors.T @ vectors - np.eye(vectors.shape[1]))) > _ROTATION_TOLERANCE:
        raise ValueError(f"the columns of {name} are not orthonormal")
    return vectors


def _shrunk(tensor: _Floats, vectors: _Floats, penalty: Any, threshold: float) -> Array:
    return np.tensordot(vectors, shrink_slices(np.tensordot(vectors.T, tensor, axes=1), penalty, threshold), axes=1)
