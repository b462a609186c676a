"""Ladders: the values of a parameter in order, continued geometrically from its list to its bounds."""

import re
from collections.abc import Sequence
from typing import Any

# Beyond its list, a parameter at least doubles or halves.
_LEAST_RATIO = 2.0


def number(value: Any) -> float | None:
    """Return a positive number, or the N of a multiple "Nc" of the number of clusters; None for anything else.

    Examples
    --------
    >>> number(0.5), number("4c"), number("0.5c"), number("auto"), number(0.0)
    (0.5, 4.0, 0.5, None, None)
    """
    if isinstance(value, str):
        value = float(value[:-1]) if re.fullmatch(r"[0-9]+(\.[0-9]+)?c", value) else None
    return float(value) if type(value) in (int, float) and value > 0 else None


def ladder(values: Sequence[Any], bounds: Sequence[Any] = ()) -> tuple[Any, ...]:
    """Return the values in order, continued down to the first bound and up to the second.

    A step beyond the list has the ratio of the two values at that end, at least 2, and the last step ends at the bound.
    There is no ladder of values that are not all positive numbers, or of a single value.

    Examples
    --------
    >>> ladder([0.1, 0.5, 1.0], [0.01, 5.0])
    (0.01, 0.02, 0.1, 0.5, 1.0, 2.0, 4.0, 5.0)
    >>> ladder(["4c", "2c"], ["0.5c", "6c"])
    ('0.5c', '1c', '2c', '4c', '6c')
    >>> ladder([64, 128], [32, 512])
    (32, 64, 128, 256, 512)
    >>> ladder(["paper", "auto"])
    ()
    """
    numbers = [number(value) for value in values]
    if len(values) < 2 or None in numbers:
        return ()
    rungs = sorted(values, key=lambda value: number(value) or 0.0)
    if not bounds:
        return tuple(rungs)
    low, high = (number(bound) or 0.0 for bound in bounds)
    down, up = _continued(rungs[1::-1], low), _continued(rungs[-2:], high)
    return (*reversed(down), *rungs, *up)


def _continued(pair: Sequence[Any], end: float) -> list[Any]:
    """Return the values after the second of a pair, up or down to the end."""
    before, last = (number(value) or 0.0 for value in pair)
    ratio = max(_LEAST_RATIO, last / before) if last > before else min(1 / _LEAST_RATIO, last / before)
    rungs: list[Any] = []
    while (last < end) if ratio > 1 else (last > end):
        new = last * ratio
        if not (isinstance(pair[0], int) and new.is_integer()):
            new = float(f"{new:.2g}")  # two digits are enough, and they keep its name short
        last = (min if ratio > 1 else max)(new, end)
        rungs.append(_like(pair[0], last))
    return rungs


def _like(value: Any, new: float) -> Any:
    """Return a number in the form of a value: a multiple of the number of clusters, an integer, or a float."""
    if isinstance(value, str):
        return f"{new:g}c"
    return round(new) if isinstance(value, int) else new
