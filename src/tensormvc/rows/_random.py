"""Random numbers that belong to the samples, not to their positions.

Each number is a fixed random function of a sample's values. For the same seed, permuted samples have permuted numbers,
exact duplicates have the same ones, and a sample that moves by 1e-10 has nearly the same ones: random starts are as
independent of the order of the rows as the rest of a method.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..backend.arrays import Array, in_double, namespace
from ._memory import RowArrays
from ._protocol import Rows, row_work

_DIRECTIONS = 8
# Periods that a sample passes when it moves by its own length: neighbours have unrelated numbers, and rounding to
# single precision moves a number by about 1e-6.
_FREQUENCY = 4.0


@dataclass
class RandomRows(RowArrays):
    """The views, and the phases (n, 8) from which all random numbers of a sample are made."""

    views: list[Array]
    phases: Array


@dataclass(frozen=True)
class Draw:
    """Some random functions of the samples: mixing weights of the phases (8, count), and shifts (count,)."""

    mixing: Array
    shift: Array

    @staticmethod
    def together(draws: list[Draw]) -> Draw:
        """Return the functions of several draws side by side."""
        xp = namespace(draws[0].mixing)
        return Draw(xp.concat([d.mixing for d in draws], axis=1), xp.concat([d.shift for d in draws]))


def _periods(phases: Array, draw: Draw) -> Array:
    periods = phases @ draw.mixing
    periods += draw.shift
    return periods


def uniform(phases: Array, draw: Draw) -> Array:
    """Return numbers in [0, 1) of the samples with these phases, (rows, count)."""
    numbers = _periods(phases, draw)
    numbers -= namespace(numbers).floor(numbers)
    return numbers


def waves(phases: Array, draw: Draw) -> Array:
    """Return numbers of mean 0 and variance 1 of the samples with these phases, smooth in the samples' values."""
    periods = _periods(phases, draw)
    periods *= 2 * math.pi
    return math.sqrt(2) * namespace(periods).cos(periods)


class ViewRows(Protocol):
    """What the random numbers need to know of `Views`."""

    @property
    def rows(self) -> Rows:
        """Rows that hold the "views"."""

    @property
    def widths(self) -> list[int]:
        """Numbers of features."""


class SampleRandom:
    """A stream of random numbers for every sample; each draw continues where the last one ended.

    Parameters
    ----------
    views : Views
        The samples, at unit length in every view; their rows receive the "phases" of the samples.
    seed : int
        Which random functions.
    """

    def __init__(self, views: ViewRows, seed: int) -> None:
        self._generator = np.random.default_rng(seed)
        self.rows = rows = views.rows
        if "phases" not in rows:
            # Views of the same width have the same directions, so that the order of the views does not matter.
            shapes = [(width, _DIRECTIONS) for width in views.widths]
            directions = [_FREQUENCY * np.random.default_rng([20260102, d]).standard_normal((d, k)) for d, k in shapes]
            rows.create(phases=(_DIRECTIONS,))
            rows.each(_set_phases, [rows.place(part) for part in directions])

    def draw(self, count: int) -> Draw:
        """Return the next `count` random functions."""
        mixing, shift = self._generator.standard_normal((_DIRECTIONS, count)), self._generator.uniform(size=count)
        return Draw(self.rows.place(mixing), self.rows.place(shift))


@row_work(reads="views", writes="phases")
def _set_phases(rows: RandomRows, directions: list[Array]) -> None:
    for view, part in zip(rows.views, directions, strict=True):
        rows.phases += in_double(view) @ part
