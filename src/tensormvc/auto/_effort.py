"""How much work a fit takes on: a few levels, chosen by the size of the data and the time budget."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache

import numpy as np

from ..backend.threads import parallel_ranges
from ._evidence import FUSIONS

# Costs in units of `_unit_of_work`, as measured: of comparing two samples in a view, of each of its features, and of a
# landmark in one clustering, which grows with the square of the number of clusters.
_PER_PAIR = 4e-8
_PER_PRODUCT = 7e-10
_PER_MEMBER = 1.2e-6
# How many times faster a device is assumed to compare samples than the processors beside it.
_DEVICE_SPEED = 10
# Ways to look at the views.
_LOOKS = 7
# Size of the matrices that a unit of work multiplies.
_UNIT = 512


@dataclass(frozen=True)
class Effort:
    """A level of effort.

    Attributes
    ----------
    name : str
        Its name.
    most_landmarks : int
        Number of samples that are clustered at most.
    """

    name: str
    most_landmarks: int

    def work(self, n_samples: int, widths: list[int], n_clusters: int, *, on_device: bool = False) -> float:
        """Return the estimated cost of a fit, in units of `_unit_of_work`."""
        n = min(n_samples, self.most_landmarks)
        # Samples are compared in every view, and in all views together.
        pair = (len(widths) + 1) * _PER_PAIR + 2 * sum(widths) * _PER_PRODUCT
        if on_device:
            pair /= _DEVICE_SPEED
        member = n * (n_clusters + 5) * (n_clusters + 25) * _PER_MEMBER
        return n * (_LOOKS * n + n_samples - n) * pair + _LOOKS * len(FUSIONS) * member


EFFORTS = {
    effort.name: effort
    for effort in (Effort("low", 2_000), Effort("medium", 5_000), Effort("high", 10_000), Effort("full", 20_000))
}
# "full" is for those who ask for it.
_BY_BUDGET = ("high", "medium", "low")


def choose_effort(
    name: str, n_samples: int, widths: list[int], n_clusters: int, time_budget: float, on_device: bool = False
) -> Effort:
    """Return the level of this name; for "auto", the highest one up to "high" that the time budget is enough for.

    There must be landmarks for all clusters.
    """
    enough = [level for level, effort in EFFORTS.items() if n_clusters <= effort.most_landmarks]
    if not enough or name not in ("auto", *enough):
        listed = ", ".join(f"{level} has {effort.most_landmarks}" for level, effort in EFFORTS.items())
        remedy = "raise effort, or lower n_clusters" if enough else "lower n_clusters"
        raise ValueError(f"n_clusters={n_clusters} is more than the landmarks of effort={name!r} ({listed}): {remedy}")
    if name != "auto":
        return EFFORTS[name]
    affordable = time_budget / _unit_of_work()
    levels = [level for level in _BY_BUDGET if level in enough] or enough
    costs = {level: EFFORTS[level].work(n_samples, widths, n_clusters, on_device=on_device) for level in levels}
    return EFFORTS[next((level for level, cost in costs.items() if cost <= affordable), levels[-1])]


@cache
def _unit_of_work() -> float:
    """Return the seconds that some typical work takes, on all threads, measured once per process."""
    matrices = np.random.default_rng(0).standard_normal((8, _UNIT, _UNIT))

    def work(start: int, stop: int) -> None:
        for matrix in matrices[start:stop]:
            np.partition(matrix @ matrix, 10, axis=1)

    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        parallel_ranges(work, len(matrices))
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])
