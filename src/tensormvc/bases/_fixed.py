"""The transforms that do not look at the data: their order of the samples is the order they are given."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .. import backend
from ..backend.arrays import Array
from ..backend.checks import as_real_array, as_slices, check_memory, check_out, random_seed
from ..views import Views, view_sizes_of
from ._base import Basis, ConvertedMatrix, SampleModeBasis, apply_matrix, written


def _sizes(views: Any) -> tuple[int, int]:
    """Return (n_samples, n_views) of a tensor ``(n, d, m)``, or of what `Views` are made of."""
    if isinstance(views, Views):
        return views.n_samples, views.n_views
    if len(getattr(views, "shape", ())) == 3 and 0 not in views.shape:
        return views.shape[0], views.shape[2]
    return view_sizes_of(views)


def _half_spectrum_weights(length: int) -> NDArray[np.float64]:
    """Weights of the ⌊n/2⌋+1 slices of a real DFT: 2 for each that stands for its conjugate too."""
    weights = np.full(length // 2 + 1, 2.0)
    weights[0] = 1.0
    if length % 2 == 0:
        weights[-1] = 1.0
    return weights


class _FixedBasis(SampleModeBasis):
    """A transform along the samples that needs to know nothing but how many there are."""

    def fit(
        self, views: Any, *, n_clusters: int | None = None, random_state: Any = None, sample_graph: Any = None
    ) -> Self:
        """Read the number of samples; nothing else of the data matters.

        Parameters
        ----------
        views : list of arrays (n_samples, n_features), or one tensor (n_samples, d, m)
            Only the sizes are used.
        n_clusters, random_state, sample_graph : ignored
            Present for the common signature of all bases.

        Returns
        -------
        self
        """
        n_samples, _ = _sizes(views)
        self.slice_weights_ = np.ones(n_samples)
        self.mode_length_ = n_samples
        return self


class FFT(_FixedBasis):
    """Discrete Fourier transform along the samples, as the published tensor methods use it.

    It treats the samples as one period of a signal, so its result depends on their order. The forward
    transform is not normalised, the inverse carries 1/n; of a real tensor only ⌊n/2⌋+1 slices are kept.

    Attributes
    ----------
    slice_weights_ : ndarray of shape (n_samples // 2 + 1,)
        2 for a slice that stands for its conjugate too, else 1.
    mode_length_ : int
        Number of samples.

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> tensor = np.arange(12.0).reshape(4, 3, 1)
    >>> fft = tm.FFT().fit(tensor)
    >>> slices = fft.forward(tensor)
    >>> slices.shape, fft.slice_weights_.tolist()
    ((3, 3, 1), [1.0, 2.0, 1.0])
    >>> bool(np.allclose(fft.inverse(slices), tensor))
    True
    """

    _complex_slices = True

    def fit(
        self, views: Any, *, n_clusters: int | None = None, random_state: Any = None, sample_graph: Any = None
    ) -> Self:
        """Read the number of samples; see the base class."""
        super().fit(views)
        self.slice_weights_ = _half_spectrum_weights(self.mode_length_)
        return self

    def _forward(self, tensor: Array, out: Array | None) -> Array:
        return backend.rfft(tensor, out)

    def _inverse(self, slices: Array, out: Array | None) -> Array:
        return backend.irfft(slices, self.mode_length_, out)


class ViewFFT(Basis):
    """Discrete Fourier transform along the views: a few large slices, each samples × features.

    It does not depend on the order of the samples, but on that of the views.

    Attributes
    ----------
    slice_weights_ : ndarray of shape (n_views // 2 + 1,)
        2 for a slice that stands for its conjugate too, else 1.
    mode_length_ : int
        Number of views.

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> tensor = np.random.default_rng(0).normal(size=(5, 4, 3))
    >>> basis = tm.ViewFFT().fit(tensor)
    >>> basis.forward(tensor).shape
    (2, 5, 4)
    """

    def fit(
        self, views: Any, *, n_clusters: int | None = None, random_state: Any = None, sample_graph: Any = None
    ) -> Self:
        """Read the number of views; nothing else of the data matters.

        Parameters
        ----------
        views : list of arrays (n_samples, n_features), or one tensor (n_samples, d, m)
            Only the sizes are used.
        n_clusters, random_state, sample_graph : ignored
            Present for the common signature of all bases.

        Returns
        -------
        self
        """
        _, self.mode_length_ = _sizes(views)
        self.slice_weights_ = _half_spectrum_weights(self.mode_length_)
        return self

    def forward(self, tensor: Array, *, out: Array | None = None) -> Array:
        """Transform a real tensor (n, d, m) into its slices (m // 2 + 1, n, d)."""
        check_is_fitted(self, "mode_length_")
        tensor = as_real_array(tensor, "tensor", 3)
        self._check_mode(tensor, self.mode_length_, 2, "tensor")
        views_first = backend.namespace(tensor).permute_dims(tensor, (2, 0, 1))
        shape = (len(self.slice_weights_), *tensor.shape[:2])
        return written(lambda room: backend.rfft(views_first, room), out, shape, backend.complex_dtype(tensor))

    def inverse(self, slices: Array, *, out: Array | None = None) -> Array:
        """Transform slices (m // 2 + 1, n, d) back into a real tensor (n, d, m)."""
        check_is_fitted(self, "mode_length_")
        slices = as_slices(slices, complex_allowed=True)
        self._check_mode(slices, len(self.slice_weights_), 0, "slices")
        xp = backend.namespace(slices)
        tensor = xp.permute_dims(backend.irfft(slices, self.mode_length_), (1, 2, 0))
        if out is None:
            return backend.contiguous(tensor)
        check_out(out, tuple(tensor.shape), tensor.dtype)
        out[...] = tensor
        return out


class DCT(_FixedBasis):
    """Orthonormal cosine transform (DCT-II) along the samples.

    Attributes
    ----------
    slice_weights_ : ndarray of shape (n_samples,)
        All 1: the slices are real.
    mode_length_ : int
        Number of samples.

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> tensor = np.ones((4, 1, 1))
    >>> tm.DCT().fit(tensor).forward(tensor).ravel().round(12)
    array([2., 0., 0., 0.])
    """

    def _forward(self, tensor: Array, out: Array | None) -> Array:
        return backend.dct(tensor, out)

    def _inverse(self, slices: Array, out: Array | None) -> Array:
        return backend.idct(slices, out)


class Haar(_FixedBasis):
    """Orthonormal Haar wavelets along the samples, for every length.

    A level turns neighbours into their scaled sum and difference; the sums go on to the next level, and so
    does, unchanged, the last coefficient of an odd length. The slices hold the last sum, then the
    differences from the coarsest level to the finest.

    Attributes
    ----------
    slice_weights_ : ndarray of shape (n_samples,)
        All 1: the slices are real.
    mode_length_ : int
        Number of samples.

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> tensor = np.array([1.0, 1, 1, 5]).reshape(4, 1, 1)
    >>> tm.Haar().fit(tensor).forward(tensor).ravel().round(3)
    array([ 4.   , -2.   ,  0.   , -2.828])
    """

    def _forward(self, tensor: Array, out: Array | None) -> Array:
        xp = backend.namespace(tensor)
        if out is None:
            out = xp.empty_like(tensor)
        level, length = tensor, tensor.shape[0]
        while length > 1:
            pairs, odd = length // 2, length % 2
            first, second = level[0 : 2 * pairs : 2], level[1 : 2 * pairs : 2]
            sums = (first + second) * math.sqrt(0.5)
            if odd:
                sums = xp.concat([sums, level[-1:]])
            out[length - pairs : length] = (first - second) * math.sqrt(0.5)
            level, length = sums, pairs + odd
        out[0:1] = level
        return out

    def _inverse(self, slices: Array, out: Array | None) -> Array:
        xp = backend.namespace(slices)
        lengths = [slices.shape[0]]
        while lengths[-1] > 1:
            lengths.append((lengths[-1] + 1) // 2)
        level = slices[0:1]
        for length in reversed(lengths[:-1]):
            pairs = length // 2
            sums, differences = level[:pairs], slices[length - pairs : length]
            finer = xp.empty((length, *slices.shape[1:]), dtype=slices.dtype, device=device(slices))
            finer[0 : 2 * pairs : 2] = (sums + differences) * math.sqrt(0.5)
            finer[1 : 2 * pairs : 2] = (sums - differences) * math.sqrt(0.5)
            if length % 2:
                finer[-1:] = level[-1:]
            level = finer
        if out is None:
            return xp.asarray(level, copy=True)
        out[...] = level
        return out


class RandomOrthogonal(_FixedBasis):
    """A random orthogonal transform along the samples: the control that every basis must beat.

    The orthogonal factor of a Gaussian matrix, with the signs that make it uniformly distributed. It holds
    one n × n matrix of float64 (8 n² bytes).

    Parameters
    ----------
    random_state : int, RandomState instance or None, default=None
        Seed of the matrix; the one given to `fit` is used if this is None.

    Attributes
    ----------
    matrix_ : ndarray of shape (n_samples, n_samples)
        The orthogonal matrix that `forward` multiplies with.
    slice_weights_ : ndarray of shape (n_samples,)
        All 1: the slices are real.
    mode_length_ : int
        Number of samples.

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> basis = tm.RandomOrthogonal(random_state=0).fit(np.ones((3, 1, 1)))
    >>> bool(np.allclose(basis.matrix_ @ basis.matrix_.T, np.eye(3)))
    True
    """

    def __init__(self, random_state: Any = None) -> None:
        self.random_state = random_state

    def fit(
        self, views: Any, *, n_clusters: int | None = None, random_state: Any = None, sample_graph: Any = None
    ) -> Self:
        """Draw the matrix for as many samples as there are; see the base class."""
        super().fit(views)
        n = self.mode_length_
        check_memory(3 * 8 * n * n, f"a random orthogonal transform of {n} samples", 'use basis="agft"')
        seed = random_state if self.random_state is None else self.random_state
        rng = np.random.RandomState(random_seed(seed))
        q, r = np.linalg.qr(rng.standard_normal((n, n)))
        self.matrix_: NDArray[np.float64] = (q * np.where(np.diag(r) < 0, -1.0, 1.0)).T
        self._converted = ConvertedMatrix(self.matrix_)
        return self

    def _forward(self, tensor: Array, out: Array | None) -> Array:
        return apply_matrix(self._converted.like(tensor), tensor, out)

    def _inverse(self, slices: Array, out: Array | None) -> Array:
        return apply_matrix(self._converted.like(slices).T, slices, out)
