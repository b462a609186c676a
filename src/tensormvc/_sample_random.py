"""Random numbers that belong to the samples, not to their positions.

A number is a fixed random function of a sample's values: of the same seed, permuted samples have permuted numbers,
exact duplicates the same, and a sample that moves by 1e-10, or is rounded to single precision, nearly the same ones. So
a random start of a method is as independent of the order as the rest of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ._ops import Array, in_double, namespace
from ._views import Views, row_blocks

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
        self._place = views.place
        self._phases = views.place(np.zeros((views.n_samples, _DIRECTIONS)))
        for array in views.arrays:
            d = array.shape[1]
            # Views of the same width have the same directions, so that the order of the views does not matter.
            directions = np.random.default_rng([20260102, d]).standard_normal((d, _DIRECTIONS))
            directions = views.place(_FREQUENCY * directions)
            for rows in row_blocks(views.n_samples):
                self._phases[rows] += in_double(array[rows]) @ directions

    def _periods(self, count: int) -> Callable[[], Array]:
        mixing, shift = self._generator.standard_normal((_DIRECTIONS, count)), self._generator.uniform(size=count)

        def compute() -> Array:
            periods = self._phases @ self._place(mixing)
            periods += self._place(shift)
            return periods

        return compute

    def uniform_later(self, count: int) -> Callable[[], Array]:
        """Return a function that returns numbers in [0, 1), (n_samples, count): drawn now, computed in any thread."""
        periods = self._periods(count)

        def compute() -> Array:
            numbers = periods()
            numbers -= namespace(numbers).floor(numbers)
            return numbers

        return compute

    def uniform(self, count: int) -> Array:
        """Return numbers in [0, 1), (n_samples, count), where the views are."""
        return self.uniform_later(count)()

    def waves(self, count: int) -> Array:
        """Return numbers of mean 0 and variance 1, (n_samples, count), smooth in the values of the samples."""
        periods = self._periods(count)()
        periods *= 2 * math.pi
        return math.sqrt(2) * namespace(periods).cos(periods)
