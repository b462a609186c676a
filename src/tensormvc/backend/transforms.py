"""Fourier and cosine transforms along the first axis."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.fft

from .arrays import Array, complex_dtype, contiguous, is_tensor, namespace, real_dtype
from .threads import parallel_ranges

# Columns that are transformed together along the first axis: wide enough to read whole cache lines,
# narrow enough for a block of a few thousand rows to stay in the second-level cache.
FFT_COLUMNS = 64
# Numbers in such a block where columns are short: few enough for the cache, enough to outweigh the calls.
FFT_NUMBERS = 2**17


def _by_columns(transform: Callable[[Array], Array], array: Array, out: Array | None, length: int, dtype: Any) -> Array:
    """Apply a transform along axis 0 of a NumPy array in narrow column blocks, on all threads.

    A transform along the first axis of a wide array walks memory with a long stride; blocks of columns that fit the
    cache make it several times faster.
    """
    out = np.empty((length, *array.shape[1:]), dtype=dtype) if out is None else out
    columns, result = array.reshape(array.shape[0], -1), out.reshape(length, -1)
    n_rows, n_columns = columns.shape
    # An even number of blocks, for two or four threads; it depends on the shape alone, as rounding might, too.
    n_blocks = -(-n_columns // max(FFT_COLUMNS, FFT_NUMBERS // n_rows))
    if n_columns > FFT_COLUMNS // 2:
        n_blocks = 2 * -(-n_blocks // 2)
    width = -(-n_columns // n_blocks)

    def work(start: int, stop: int) -> None:
        for lo in range(start, stop, width):
            at = slice(lo, min(lo + width, stop))
            result[:, at] = transform(columns[:, at])

    parallel_ranges(work, n_columns, width)
    return out


def _into(result: Array, out: Array | None) -> Array:
    """Return a PyTorch tensor, in `out` if there is one."""
    return contiguous(result) if out is None else out.copy_(result)


def rfft(array: Array, out: Array | None = None) -> Array:
    """Unnormalised half-spectrum DFT of a real array along axis 0."""
    n = array.shape[0]
    if is_tensor(array):
        return _into(namespace(array).fft.rfft(array, axis=0), out)
    return _by_columns(lambda block: scipy.fft.rfft(block, axis=0), array, out, n // 2 + 1, complex_dtype(array))


def irfft(array: Array, n: int, out: Array | None = None) -> Array:
    """Inverse of `rfft` to `n` samples along axis 0."""
    if is_tensor(array):
        return _into(namespace(array).fft.irfft(array, n=n, axis=0), out)
    return _by_columns(lambda block: scipy.fft.irfft(block, n=n, axis=0), array, out, n, real_dtype(array))


def dct(array: Array, out: Array | None = None) -> Array:
    """Orthonormal DCT-II along axis 0."""
    if is_tensor(array):
        return _into(_torch_dct(array), out)
    transform = scipy.fft.dct
    return _by_columns(lambda b: transform(b, axis=0, norm="ortho"), array, out, array.shape[0], array.dtype)


def idct(array: Array, out: Array | None = None) -> Array:
    """Inverse (transpose) of `dct` along axis 0."""
    if is_tensor(array):
        return _into(_torch_idct(array), out)
    transform = scipy.fft.idct
    return _by_columns(lambda b: transform(b, axis=0, norm="ortho"), array, out, array.shape[0], array.dtype)


def _dct_twiddles(tensor: Array) -> tuple[Array, Array]:
    """Cosines and sines of πk/2n with the orthonormal scale, shaped to broadcast over axis 0."""
    n = tensor.shape[0]
    angle = np.arange(n) * (np.pi / (2 * n))
    scale = np.where(np.arange(n) > 0, (2 / n) ** 0.5, (1 / n) ** 0.5)
    shape = (n,) + (1,) * (tensor.ndim - 1)
    cos, sin = (tensor.new_tensor(scale * wave(angle)).reshape(shape) for wave in (np.cos, np.sin))
    return cos, sin


def _torch_dct(tensor: Array) -> Array:
    """DCT-II as the FFT of the even samples followed by the odd ones in reverse."""
    xp = namespace(tensor)
    cos, sin = _dct_twiddles(tensor)
    spectrum = xp.fft.fft(xp.concat([tensor[::2], tensor[1::2].flip(0)]), axis=0)
    return spectrum.real * cos + spectrum.imag * sin


def _torch_idct(tensor: Array) -> Array:
    """DCT-III, the transpose of `_torch_dct`, step by step."""
    cos, sin = _dct_twiddles(tensor)
    folded = namespace(tensor).fft.fft(tensor * cos - 1j * (tensor * sin), axis=0).real
    n_even = (tensor.shape[0] + 1) // 2
    out = tensor.new_empty(tensor.shape)
    out[::2], out[1::2] = folded[:n_even], folded[n_even:].flip(0)
    return out
