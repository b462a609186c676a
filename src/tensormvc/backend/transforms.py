"""Fourier and cosine transforms along the first axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.fft
from array_api_compat import is_numpy_namespace

from .arrays import Array, complex_dtype, contiguous, namespace, real_dtype
from .dft import split_dft
from .threads import parallel_ranges

# Columns that are transformed together along the first axis: wide enough to read whole cache lines,
# narrow enough for a block of a few thousand rows to stay in the second-level cache.
FFT_COLUMNS = 64
# Numbers in such a block where columns are short: few enough for the cache, enough to outweigh the calls.
FFT_NUMBERS = 2**17


def _transform_columns(transform: Callable[[Array], Array], array: Array, out: Array) -> Array:
    """Apply a transform along axis 0 of a 2-D NumPy array in narrow column blocks, on all threads.

    A transform along the first axis of a wide array walks memory with a long stride; blocks of columns
    that fit the cache make it several times faster.
    """
    n_rows, n_columns = array.shape
    # As many blocks for every one of two or four threads; how many depends on the shape alone, as rounding might, too.
    n_blocks = -(-n_columns // max(FFT_COLUMNS, FFT_NUMBERS // n_rows))
    if n_columns > FFT_COLUMNS // 2:
        n_blocks = 2 * -(-n_blocks // 2)
    width = -(-n_columns // n_blocks)

    def work(start: int, stop: int) -> None:
        for lo in range(start, stop, width):
            hi = min(lo + width, stop)
            out[:, lo:hi] = transform(array[:, lo:hi])

    parallel_ranges(work, n_columns, width)
    return out


def _along_first_axis(
    numpy_transform: Callable[[Array], Array],
    torch_transform: Callable[[Array], Array],
    array: Array,
    out: Array | None,
    length: int,
    dtype: Any,
) -> Array:
    xp = namespace(array)
    if not is_numpy_namespace(xp):
        result = contiguous(torch_transform(array))
        if out is None:
            return result
        out[...] = result
        return out
    if out is None:
        out = np.empty((length, *array.shape[1:]), dtype=dtype)
    columns = array.reshape(array.shape[0], -1)
    _transform_columns(numpy_transform, columns, out.reshape(length, -1))
    return out


def rfft(array: Array, out: Array | None = None) -> Array:
    """Unnormalised half-spectrum DFT of a real array along axis 0."""
    split = split_dft(array.shape[0], real_dtype(array)) if is_numpy_namespace(namespace(array)) else None
    return _along_first_axis(
        split.forward if split else lambda block: scipy.fft.rfft(block, axis=0),
        lambda tensor: namespace(tensor).fft.rfft(tensor, axis=0),
        array,
        out,
        array.shape[0] // 2 + 1,
        complex_dtype(array),
    )


def irfft(array: Array, n: int, out: Array | None = None) -> Array:
    """Inverse of `rfft` to `n` samples along axis 0."""
    split = split_dft(n, real_dtype(array)) if is_numpy_namespace(namespace(array)) else None
    return _along_first_axis(
        split.inverse if split else lambda block: scipy.fft.irfft(block, n=n, axis=0),
        lambda tensor: namespace(tensor).fft.irfft(tensor, n=n, axis=0),
        array,
        out,
        n,
        real_dtype(array),
    )


def dct(array: Array, out: Array | None = None) -> Array:
    """Orthonormal DCT-II along axis 0."""
    return _along_first_axis(
        lambda block: scipy.fft.dct(block, axis=0, norm="ortho"),
        _torch_dct,
        array,
        out,
        array.shape[0],
        array.dtype,
    )


def idct(array: Array, out: Array | None = None) -> Array:
    """Inverse (transpose) of `dct` along axis 0."""
    return _along_first_axis(
        lambda block: scipy.fft.idct(block, axis=0, norm="ortho"),
        _torch_idct,
        array,
        out,
        array.shape[0],
        array.dtype,
    )


def _dct_twiddles(tensor: Array) -> tuple[Array, Array]:
    """Cosines and sines of πk/2n with the orthonormal scale, shaped to broadcast over axis 0."""
    import torch

    n = tensor.shape[0]
    angle = torch.arange(n, dtype=torch.float64, device=tensor.device) * (np.pi / (2 * n))
    scale = torch.full_like(angle, (2 / n) ** 0.5)
    scale[0] = (1 / n) ** 0.5
    shape = (n,) + (1,) * (tensor.ndim - 1)
    cos, sin = (scale * torch.cos(angle)).reshape(shape), (scale * torch.sin(angle)).reshape(shape)
    return cos.to(tensor.dtype), sin.to(tensor.dtype)


def _torch_dct(tensor: Array) -> Array:
    """DCT-II as the FFT of the even samples followed by the odd ones in reverse."""
    import torch

    cos, sin = _dct_twiddles(tensor)
    folded = torch.cat([tensor[::2], tensor[1::2].flip(0)])
    spectrum = torch.fft.fft(folded, dim=0)
    return spectrum.real * cos + spectrum.imag * sin


def _torch_idct(tensor: Array) -> Array:
    """DCT-III, the transpose of `_torch_dct`, step by step."""
    import torch

    n = tensor.shape[0]
    cos, sin = _dct_twiddles(tensor)
    folded = torch.fft.fft(torch.complex(tensor * cos, -tensor * sin), dim=0).real
    out = torch.empty_like(tensor)
    n_even = (n + 1) // 2
    out[::2] = folded[:n_even]
    out[1::2] = folded[n_even:].flip(0)
    return out
