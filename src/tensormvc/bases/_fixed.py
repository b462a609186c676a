"""Fixed transforms, which do not depend on the data and transform the samples in the order given."""

import math
from typing import Any, Self

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ..backend.arrays import Array, complex_dtype, contiguous, namespace
from ..backend.checks import as_real_array, as_slices, check_memory, check_out, random_seed
from ..backend.transforms import dct, idct, irfft, rfft
from ._base import ConvertedMatrix, FixedBasis, SampleModeBasis, apply_matrix, written


class FFT(FixedBasis, SampleModeBasis):
    """Discrete Fourier transform along the samples, as the published tensor methods use it.

    Z̄_k = Σ_j e^{−2πi·jk/n} Z_j and Z_j = (1/n) Σ_k e^{2πi·jk/n} Z̄_k, where Z_j is the d × m slice of sample j. Of a
    real tensor only the ⌊n/2⌋ + 1 slices with k ≤ n/2 are kept; the others are their conjugates.

    The result depends on the order of the samples: the transform reads row j as the j-th point of a periodic signal, so
    that low frequencies change slowly from row to row. Rows sorted by class are a smooth signal, and the same rows
    shuffled are noise; shrinking the slices therefore keeps the clusters in the first case and loses them in the
    second. Only a cyclic shift or a reversal of the rows leaves the singular values of the slices unchanged. Use it to
    compare with published results; `GFT` and `AGFT` compute their frequencies from the data instead.

    Time O(n log n · d · m) per transform.

    Attributes
    ----------
    slice_weights_ : ndarray of shape (n_samples // 2 + 1,)
        2 for a slice that also represents its conjugate, otherwise 1.
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

    def _forward(self, tensor: Array, out: Array | None) -> Array:
        return rfft(tensor, out)

    def _inverse(self, slices: Array, out: Array | None) -> Array:
        return irfft(slices, self.mode_length_, out)


class ViewFFT(FixedBasis):
    """Discrete Fourier transform along the views.

    X̄_k = Σ_v e^{−2πi·vk/m} X_v, where X_v is the n × d slice of view v; of the m slices the ⌊m/2⌋ + 1 with k ≤ m/2 are
    kept, the others are their conjugates. Low-rank structure is thus sought in a few large matrices (samples ×
    features) instead of many small ones (features × views).

    The result does not depend on the order of the samples, but on that of the views, and each slice has up to min(n, d)
    singular values. Time O(m log m · n · d) per transform. Use it to compare with methods that transform along the
    views.

    Attributes
    ----------
    slice_weights_ : ndarray of shape (n_views // 2 + 1,)
        2 for a slice that also represents its conjugate, otherwise 1.
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

    _along_views = True
    _complex_slices = True

    def forward(self, tensor: Array, *, out: Array | None = None) -> Array:
        """Transform a real tensor (n, d, m) into its slices (m // 2 + 1, n, d)."""
        check_is_fitted(self, "mode_length_")
        tensor = as_real_array(tensor, "tensor", 3)
        self._check_mode(tensor, self.mode_length_, 2, "tensor")
        views_first = namespace(tensor).permute_dims(tensor, (2, 0, 1))
        shape = (len(self.slice_weights_), *tensor.shape[:2])
        return written(lambda room: rfft(views_first, room), out, shape, complex_dtype(tensor))

    def inverse(self, slices: Array, *, out: Array | None = None) -> Array:
        """Transform slices (m // 2 + 1, n, d) back into a real tensor (n, d, m)."""
        check_is_fitted(self, "mode_length_")
        slices = as_slices(slices, complex_allowed=True)
        self._check_mode(slices, len(self.slice_weights_), 0, "slices")
        xp = namespace(slices)
        tensor = xp.permute_dims(irfft(slices, self.mode_length_), (1, 2, 0))
        if out is None:
            return contiguous(tensor)
        check_out(out, tuple(tensor.shape), tensor.dtype)
        out[...] = tensor
        return out


class DCT(FixedBasis, SampleModeBasis):
    """Orthonormal discrete cosine transform (DCT-II) along the samples.

    Z̄_k = c_k Σ_i cos(π(2i + 1)k / 2n) Z_i with c_0 = √(1/n) and c_k = √(2/n) for k > 0, where Z_i is the d × m slice
    of sample i. Like `FFT` it depends on the order of the samples, but its slices are real and it does not treat the
    last sample as a neighbour of the first. Time O(n log n · d · m) per transform.

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
        return dct(tensor, out)

    def _inverse(self, slices: Array, out: Array | None) -> Array:
        return idct(slices, out)


class Haar(FixedBasis, SampleModeBasis):
    """Orthonormal Haar wavelet transform along the samples, for any number of them.

    Each level replaces neighbouring slices a and b by (a + b)/√2 and (a − b)/√2; the sums, and the last slice if their
    number is odd, are passed on to the next level. The result consists of the last sum and the differences from the
    coarsest level to the finest. Like `FFT`, it depends on the order of the samples, but a coefficient depends only on
    a run of neighbouring rows. Time O(n · d · m) per transform.

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
        xp = namespace(tensor)
        out = xp.empty_like(tensor) if out is None else out
        level, length = tensor, tensor.shape[0]
        while length > 1:
            pairs = length // 2
            first, second = level[0 : 2 * pairs : 2], level[1 : 2 * pairs : 2]
            out[length - pairs : length] = (first - second) * math.sqrt(0.5)
            level, length = xp.concat([(first + second) * math.sqrt(0.5), level[2 * pairs :]]), length - pairs
        out[0:1] = level
        return out

    def _inverse(self, slices: Array, out: Array | None) -> Array:
        xp = namespace(slices)
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
            finer[2 * pairs :] = level[pairs:]
            level = finer
        out = xp.empty_like(slices) if out is None else out
        out[...] = level
        return out


class RandomOrthogonal(FixedBasis, SampleModeBasis):
    """Random orthogonal transform along the samples: the control that a useful basis must beat.

    Z̄ = QZ, with Q drawn uniformly from the orthogonal n × n matrices (the orthogonal factor of a Gaussian matrix). It
    spreads every structure over all slices. Time O(n² · d · m) per transform and O(n³) to draw Q, memory O(n²).

    Parameters
    ----------
    random_state : int, RandomState instance or None, default=None
        Seed of Q; with None the seed given to `fit` is used.

    Attributes
    ----------
    matrix_ : ndarray of shape (n_samples, n_samples)
        Q.
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
        """Draw the orthogonal matrix for the number of samples; the parameters are those of the other bases."""
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
