"""Random numbers that belong to the samples, not to their positions.

A number is a fixed random function of a sample's values: of the same seed, permuted samples have permuted numbers,
exact duplicates the same, and a sample that moves by 1e-10, or is rounded to single precision, nearly the same ones. So
a random start of a method is as independent of the order as the rest of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backend import Array, in_double, namespace
from ._memory import Part, row_work

if TYPE_CHECKING:
    from ..views import Views

_DIRECTIONS = 8
# Periods that a sample passes when it moves by its own length: neighbours have unrelated numbers, and rounding
# to single precision moves a number by about 1e-6.
_FREQUENCY = 4.0


@dataclass(frozen=True)
class Draw:
    """Some random functions of the samples: what mixes their phases, (directions, count), and shifts, (count,)."""

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


class SampleRandom:
    """A stream of random numbers for every sample; each call goes on where the last one ended.

    Parameters
    ----------
    views : Views
        The samples, at unit length in every view.
    seed : int
        Which random functions.

    Attributes
    ----------
    rows : executor
        That of the views; it holds the "phases" of the samples.
    """

    def __init__(self, views: Views, seed: int) -> None:
        self._generator = np.random.default_rng(seed)
        self.rows = views.rows
        if "phases" not in self.rows:
            # Views of the same width have the same directions, so that the order of the views does not matter.
            generators = [np.random.default_rng([20260102, d]) for d in views.widths]
            shapes = [(d, _DIRECTIONS) for d in views.widths]
            directions = [_FREQUENCY * g.standard_normal(shape) for g, shape in zip(generators, shapes, strict=True)]
            self.rows.full("phases", _DIRECTIONS)
            placed = [self.rows.place(part) for part in directions]
            self.rows.each(_set_phases, placed, width=self.rows.total_width)

    def draw(self, count: int) -> Draw:
        """Return the next `count` random functions."""
        mixing, shift = self._generator.standard_normal((_DIRECTIONS, count)), self._generator.uniform(size=count)
        return Draw(self.rows.place(mixing), self.rows.place(shift))


@row_work(reads="views", writes="phases")
def _set_phases(rows: Part, directions: list[Any]) -> None:
    phases = rows.phases
    for view, part in zip(rows.views, directions, strict=True):
        phases += in_double(view) @ part
