"""The figures that the paper prints."""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from ._data import OWN_FEATURES, SYNTHETIC


class Printed(NamedTuple):
    """A figure with its standard deviation, in percent or seconds."""

    mean: float
    std: float | None

    def text(self, space: str = "") -> str:
        """Return the figures with two decimals, as in the paper, with `space` between them."""
        return f"{self.mean:.2f}" + ("" if self.std is None else f"{space}({self.std:.2f})")


@cache
def _figures() -> dict[tuple[str, ...], Printed]:
    text = files(__package__).joinpath("paper.csv").read_text(encoding="utf-8")
    figures: dict[tuple[str, ...], Printed] = {}
    for row in csv.DictReader(text.splitlines()):
        place = row["table"], row["dataset"].casefold(), row["method"], row["transform"], row["metric"]
        figures[place] = Printed(float(row["mean"]), float(row["std"]) if row["std"] else None)
    return figures


def printed(table: str | None, dataset: str, method: str, transform: str, metric: str) -> Printed | None:
    """Return the figure of a cell in a table of the paper, or None.

    Data sets with recomputed features are compared with the paper's data set of the same name, and generated ones with
    the timings of that whose size they have.

    Examples
    --------
    >>> printed("clustering", "MSRCv1", "t-SVD-MVC", "GFT(SimG)", "ACC")
    Printed(mean=88.57, std=0.0)
    """
    if table is None or (dataset.startswith(SYNTHETIC) and not metric.endswith("seconds")):
        return None
    name = dataset.removesuffix(OWN_FEATURES).removeprefix(SYNTHETIC).casefold()
    return _figures().get((table, name, method, transform, metric))
