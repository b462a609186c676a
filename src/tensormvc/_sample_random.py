"""Random numbers that belong to the samples, not to their positions.

A number is a fixed random function of a sample's values: of the same seed, permuted samples have permuted numbers,
exact duplicates the same, and a sample that moves by 1e-10, or is rounded to single precision, nearly the same ones. So
a random start of a method is as independent of the order as the rest of it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._views import Views, as_float64

_DIRECTIONS = 8
# Periods that a sample passes when it moves by its own length: neighbours have unrelated numbers, and rounding
# to single precision moves a number by about 1e-6.
_FREQUENCY = 4.0


class SampleRandom:
    """A stream of random numbers for every sample; each call goes on where the last one ended.

    Parameters
    ----------
    views : Views
        The samples, at unit length in every view.
    seed : int
        Which random functions.
    """

    def __init__(self, views: Views, seed: int) -> None:
        self._generator = np.random.default_rng(seed)
        self._phases = np.zeros((views.n_samples, _DIRECTIONS))
        for array in views.arrays:
            d = array.shape[1]
            # Views of the same width have the same directions, so that the order of the views does not matter.
            directions = np.random.default_rng([20260102, d]).standard_normal((d, _DIRECTIONS))
            self._phases += as_float64(array) @ (_FREQUENCY * directions)

    def _periods(self, count: int) -> NDArray[np.float64]:
        mixing = self._generator.standard_normal((_DIRECTIONS, count))
        return np.asarray(self._phases @ mixing + self._generator.uniform(size=count))

    def uniform(self, count: int) -> NDArray[np.float64]:
        """Return numbers in [0, 1), (n_samples, count)."""
        periods = self._periods(count)
        periods -= np.floor(periods)
        return periods

    def waves(self, count: int) -> NDArray[np.float64]:
        """Return numbers of mean 0 and variance 1, (n_samples, count), smooth in the values of the samples."""
        periods = self._periods(count)
        periods *= 2 * np.pi
        np.cos(periods, out=periods)
        periods *= np.sqrt(2)
        return periods
