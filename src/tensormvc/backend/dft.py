"""The real DFT of lengths with a large prime factor, as matrix products.

FFT libraries are slow where the length has a large prime factor p, and most numbers of samples have one. With n = p·q,
sample t = q·a + b and frequency k = c + p·d, the DFT is a DFT of length p over a, for which a matrix product does
well, and a small product over b for every c. Samples are real, so that half of the c are enough, and even and odd parts
in a go through products of half the size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Below the first the library is as fast, above the second the matrices are large and it is as fast again.
_SMALLEST, _LARGEST = 64, 1024


def split_dft(n: int, dtype: Any) -> SplitDFT | None:
    """Return the transform of length n, or None where an FFT is as fast."""
    prime = _largest_prime_factor(n)
    return _plan(n, prime, np.dtype(dtype)) if _SMALLEST < prime < _LARGEST else None


@lru_cache(maxsize=4)
def _plan(n: int, prime: int, dtype: np.dtype[Any]) -> SplitDFT:
    return SplitDFT(n, prime, dtype)


def _largest_prime_factor(n: int) -> int:
    largest, factor = 1, 2
    while factor * factor <= n:
        if n % factor:
            factor += 1
        else:
            largest, n = factor, n // factor
    return max(largest, n)


class SplitDFT:
    """The unnormalised DFT of length n = p·q of real columns, and its inverse.

    Parameters
    ----------
    n : int
        Length.
    p : int
        An odd prime factor of it.
    dtype : dtype
        Of the samples, float32 or float64.
    """

    def __init__(self, n: int, p: int, dtype: np.dtype[Any]) -> None:
        self.n, self.p, self.q = n, p, n // p
        self.half = (p + 1) // 2
        self._real, self._complex = dtype, np.dtype(np.complex64 if dtype == np.float32 else np.complex128)
        c = np.arange(self.half)
        angle = 2 * np.pi / p * (np.outer(c, c) % p)
        self._cos, self._sin = np.cos(angle).astype(dtype), np.sin(angle[1:, 1:]).astype(dtype)
        weight = np.where(c == 0, 1, 2) / n
        self._inverse_cos = (np.cos(angle) * weight).astype(dtype)
        self._inverse_sin = (np.sin(angle[1:, 1:]) * weight[1:]).astype(dtype)
        k = c[:, None] + p * np.arange(self.q)
        twiddles = np.exp(-2j * np.pi / n * (k[:, :, None] * np.arange(self.q) % n))
        self._twiddles = twiddles.astype(self._complex)
        self._inverse_twiddles = np.ascontiguousarray(self._twiddles.conj().transpose(0, 2, 1))
        # Which of the computed frequencies, or its conjugate, each wanted one is, and the other way round.
        computed, wanted = k.ravel(), np.arange(n // 2 + 1)
        position = np.full(n, -1)
        position[computed] = np.arange(len(computed))
        self._conjugated = position[wanted] < 0
        self._take = np.where(self._conjugated, position[-wanted % n], position[wanted])
        self._put = np.minimum(computed, n - computed)
        self._put_conjugated = computed > n // 2
        # Fresh memory costs as much as the work; a room for each thread that has been here.
        self._rooms: deque[tuple[NDArray[Any], ...]] = deque()

    def _in_room(self, work: Callable[..., Any], columns: NDArray[Any]) -> Any:
        width = self.q * columns.shape[1]
        try:
            room = self._rooms.pop()
            if room[0].shape[1] != width:
                raise IndexError
        except IndexError:
            room = (
                *(np.empty((self.half, width), self._real) for _ in range(2)),
                *(np.empty((self.half, width), self._complex) for _ in range(2)),
            )
        result = work(columns, *room)
        self._rooms.append(room)
        return result

    def forward(self, columns: NDArray[Any]) -> NDArray[Any]:
        """Return the half spectrum (n // 2 + 1, w) of real columns (n, w)."""
        return np.asarray(self._in_room(self._forward, columns))

    def _forward(
        self, columns: NDArray[Any], fold: NDArray[Any], turned: NDArray[Any], z: NDArray[Any], spectrum: NDArray[Any]
    ) -> NDArray[Any]:
        h, w = self.half, columns.shape[1]
        samples = np.ascontiguousarray(columns).reshape(self.p, self.q * w)
        mirrored = samples[: h - 1 : -1]
        fold[0] = samples[0]
        np.add(samples[1:h], mirrored, out=fold[1:])
        z.real = np.matmul(self._cos, fold, out=turned)
        np.subtract(mirrored, samples[1:h], out=fold[1:])
        z.imag[0] = 0
        z.imag[1:] = np.matmul(self._sin, fold[1:], out=turned[1:])
        np.matmul(self._twiddles, z.reshape(h, self.q, w), out=spectrum.reshape(h, self.q, w))
        result = spectrum.reshape(h * self.q, w)[self._take]
        result.imag[self._conjugated] *= -1
        return result

    def inverse(self, slices: NDArray[Any]) -> NDArray[Any]:
        """Return the real columns (n, w) of a half spectrum."""
        return np.asarray(self._in_room(self._inverse, slices))

    def _inverse(
        self, slices: NDArray[Any], even: NDArray[Any], odd: NDArray[Any], z: NDArray[Any], spectrum: NDArray[Any]
    ) -> NDArray[Any]:
        h, w = self.half, slices.shape[1]
        flat = spectrum.reshape(h * self.q, w)
        flat[...] = slices[self._put]
        flat.imag[self._put_conjugated] *= -1
        np.matmul(self._inverse_twiddles, spectrum.reshape(h, self.q, w), out=z.reshape(h, self.q, w))
        np.matmul(self._inverse_cos, np.ascontiguousarray(z.real), out=even)
        np.matmul(self._inverse_sin, np.ascontiguousarray(z.imag[1:]), out=odd[1:])
        samples = np.empty((self.p, self.q * w), self._real)
        samples[0] = even[0]
        np.subtract(even[1:], odd[1:], out=samples[1:h])
        np.add(even[1:], odd[1:], out=samples[: h - 1 : -1])
        return samples.reshape(self.n, w)
