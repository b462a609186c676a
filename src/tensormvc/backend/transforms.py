"""Fourier and cosine transforms along the first axis."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.fft

from .arrays import Array, complex_dtype, contiguous, is_tensor, namespace, real_dtype
from .threads import parallel_ranges

# Columns that are transformed together along the first axis: wide enough to read whole cache lines,
# narrow enough for a block of a few thousand rows to stay in the second-level cache.
FFT_COLUMNS = 32
# Numbers in such a block where columns are short: few enough for the cache, enough to outweigh the calls.
FFT_NUMBERS = 2**17


def _by_columns(transform: Callable[..., None], array: Array, out: Array | None, length: int, dtype: Any) -> Array:
    """Apply a transform along axis 0 of a NumPy array to narrow column blocks and their place, on all threads.

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
            transform(columns[:, at], result[:, at])

    parallel_ranges(work, n_columns, width)
    return out


def _into(result: Array, out: Array | None) -> Array:
    """Return a PyTorch tensor, in `out` if there is one."""
    return contiguous(result) if out is None else out.copy_(result)


def rfft(array: Array, out: Array | None = None) -> Array:
    """Unnormalised half-spectrum DFT of a real array along axis 0."""
    if is_tensor(array):
        return _into(namespace(array).fft.rfft(array, axis=0), out)
    return _by_columns(_rfft, array, out, array.shape[0] // 2 + 1, complex_dtype(array))


def _rfft(columns: Array, out: Array) -> None:
    """Transform two real columns as one of complex numbers, z = (x + iy)/2: x̂ₖ = ẑₖ + z̄̂ₙ₋ₖ and ŷₖ = (ẑₖ − z̄̂ₙ₋ₖ)/i.

    Where the length has a large prime factor, which most numbers of samples have, an FFT of one real column takes as
    long as that of a complex one.
    """
    half = -(-columns.shape[1] // 2)
    z = np.empty((len(columns), half), out.dtype)
    np.multiply(columns[:, :half], 0.5, out=z.real)
    np.multiply(columns[:, -half:], 0.5, out=z.imag)
    z = scipy.fft.fft(z, axis=0, overwrite_x=True)
    mirrored = np.empty((len(out), half), out.dtype)
    np.conj(z[:1], out=mirrored[:1])
    np.conj(z[: -len(out) : -1], out=mirrored[1:])
    np.add(z[: len(out)], mirrored, out=out[:, :half])
    mirrored -= z[: len(out)]
    np.multiply(mirrored, 1j, out=out[:, -half:])


def irfft(array: Array, n: int, out: Array | None = None) -> Array:
    """Inverse of `rfft` to `n` samples along axis 0."""
    if is_tensor(array):
        return _into(namespace(array).fft.irfft(array, n=n, axis=0), out)
    return _by_columns(_irfft, array, out, n, real_dtype(array))


def _irfft(spectra: Array, out: Array) -> None:
    """Transform two half spectra to real columns as one of complex numbers."""
    n, half = len(out), -(-spectra.shape[1] // 2)
    x, iy = spectra[:, :half], 1j * spectra[:, -half:]
    z = np.empty((n, half), complex_dtype(out))
    np.add(x, iy, out=z[: len(x)])
    np.subtract(x[(n - 1) // 2 : 0 : -1], iy[(n - 1) // 2 : 0 : -1], out=z[len(x) :])
    np.conj(z[len(x) :], out=z[len(x) :])
    # Frequencies that are their own conjugates are real.
    own = [0] if n % 2 else [0, n // 2]
    z[own] = x[own].real + 1j * iy[own].imag
    z = scipy.fft.ifft(z, axis=0, overwrite_x=True)
    out[:, :half], out[:, -half:] = z.real, z.imag


def dct(array: Array, out: Array | None = None) -> Array:
    """Orthonormal DCT-II along axis 0."""
    if is_tensor(array):
        return _into(_torch_dct(array), out)
    return _by_columns(partial(_copied, scipy.fft.dct), array, out, array.shape[0], array.dtype)


def idct(array: Array, out: Array | None = None) -> Array:
    """Inverse (transpose) of `dct` along axis 0."""
    if is_tensor(array):
        return _into(_torch_idct(array), out)
    return _by_columns(partial(_copied, scipy.fft.idct), array, out, array.shape[0], array.dtype)


def _copied(transform: Callable[..., Array], columns: Array, out: Array) -> None:
    out[...] = transform(columns, axis=0, norm="ortho")


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
