"""Which transforms, methods and baselines are better than others: statistics over the cells of the tables."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._cells import NO_TRANSFORM
from ._methods import BASELINES
from ._statistics import Comparison, compare
from ._tables import DEFAULT, ORACLE, PlanResults

# The plans of the paper's main tables are compared together.
MAIN_TABLE = "clustering"


class Compared(NamedTuple):
    """A comparison: of what, in which plans, under which selection of settings."""

    what: str
    heading: str
    selection: str
    comparison: Comparison


def grouped(plans: Sequence[PlanResults]) -> list[list[PlanResults]]:
    """Return the plans of the main tables together, the most important, and every other plan by itself."""
    main = [results for results in plans if results.plan.paper == MAIN_TABLE]
    others = [[results] for results in plans if results.plan.paper != MAIN_TABLE]
    return [main, *others] if main else others


def comparisons(plans: Sequence[PlanResults]) -> list[Compared]:
    """Return all comparisons that have at least two candidates and two cases."""
    return [
        Compared(what, group[0].plan.label, selection, compare(names, scores))
        for group in grouped(plans)
        for selection in (ORACLE, DEFAULT)
        for what, names, scores in _scores(group, selection)
        if min(scores.shape) > 1
    ]


def _scores(group: Sequence[PlanResults], selection: str) -> Iterator[tuple[str, list[str], NDArray[np.float64]]]:
    """Yield the transforms that need no labels over data sets and methods, then all candidates over data sets."""
    plan = group[0].plan
    transforms = [transform.name for transform in plan.transforms if transform.basis != "gft-ideal"]
    rows = []
    for results in group:
        cases = sorted({one.cell.group[:2] for one in results.tensors})
        rows += [[_accuracy(results, *case, name, selection) for name in transforms] for case in cases]
    scores = np.array(rows, ndmin=2)
    yield "transforms over pairs of data set and method", transforms, scores[~np.isnan(scores).any(axis=1)]

    candidates = [(BASELINES[key].title, NO_TRANSFORM) for key in plan.baselines]
    candidates += product([method.name for method in plan.methods], transforms)
    rows = [
        [_accuracy(results, data.name, *candidate, selection) for candidate in candidates]
        for results in group
        for data in results.plan.datasets
    ]
    scores = np.array(rows, ndmin=2)
    scores = scores[~np.isnan(scores).all(axis=1)]
    complete = np.flatnonzero(~np.isnan(scores).any(axis=0))
    names = [", ".join(candidates[i]).removesuffix(f", {NO_TRANSFORM}") for i in complete]
    yield "methods and baselines over data sets", names, scores[:, complete]


def _accuracy(results: PlanResults, dataset: str, method: str, transform: str, selection: str) -> Any:
    """Return the mean ACC of a cell, or NaN; a baseline that is not tuned has the same under both selections.

    Of several shuffle rates only the highest is a case: what does not depend on the order is the same at all of them.
    """
    rate = max(results.plan.shuffle_rates)
    one = results.find(dataset, method, transform, selection, rate)
    if one is None and transform == NO_TRANSFORM and selection == ORACLE:
        one = results.find(dataset, method, transform, DEFAULT, rate)
    return np.nan if one is None else one.accuracy
