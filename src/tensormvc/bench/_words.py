"""Which claims of the paper hold, and sentences that follow from the figures."""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.resources import files
from itertools import product
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._cells import NO_TRANSFORM
from ._methods import BASELINES
from ._tables import DEFAULT, ORACLE, PlanResults, Selected

TEXTS = tomllib.loads(files(__package__).joinpath("texts.toml").read_text(encoding="utf-8"))
# The data-adaptive transforms of the paper, which its claims are about.
DATA_ADAPTIVE = ("GFT(SimG)", "GFT(GMC)", "AGFT")
# Points of ACC within which a cell counts as reproduced, and above which it is listed as better.
NEAR, FAR = 2.0, 5.0
_GRAPHS = {"GFT(SimG)": "spectral-sim", "GFT(SumG)": "spectral-sum", "GFT(GMC)": "spectral-gmc"}
_MOST_NAMED = 12
# Tables of the paper that vary one thing.
_ABLATIONS = ("transform", "k_n", "k_a")
# Accuracies that differ by less, in points, are the same.
_SAME = 0.05


class Claim(NamedTuple):
    """In how many cases a claim holds in a plan under one selection of the settings, and by how many points of ACC."""

    text: str
    selection: str
    held: int
    cases: int
    mean: float | None = None


def verdict(found: Sequence[Claim]) -> str:
    """Return whether a claim holds, by its share of the cases in all plans."""
    share = sum(one.held for one in found) / sum(one.cases for one in found)
    return "Held" if share >= 0.9 else "Held in part" if share >= 0.5 else "Did not hold"


def claims(results: PlanResults) -> list[Claim]:
    """Return how far the claims of the paper hold in a plan, the most interesting first."""
    plan = results.plan
    # Claims that also concern the main tables are judged on the main tables only.
    if plan.is_timed:
        kinds: Sequence[Callable[[PlanResults], Iterator[Claim]]] = ()
    elif len(plan.shuffle_rates) > 1:
        kinds = (_shuffling,)
    elif plan.paper in _ABLATIONS:
        kinds = (_reproduced, _best_value)
    else:
        compared = (_better_than_fft, _ideal_is_an_upper_bound, _better_than_its_graph, _better_than_baselines)
        kinds = (_reproduced, *compared)
    return [claim for kind in kinds for claim in kind(results)]


def observations(results: PlanResults) -> list[str]:
    """Return sentences on what else the results of a plan show."""
    kinds = (_below, _far_above, _cost_of_defaults, _best_of_both, _best_values)
    return [text for kind in kinds for text in kind(results)]


def _claim(
    key: str, selection: str, held: Sequence[bool] | NDArray[np.bool_], mean: float | None = None, **values: Any
) -> Claim:
    return Claim(TEXTS["claims"][key].format(**values), selection, int(np.count_nonzero(held)), len(held), mean)


def _observation(key: str, **values: Any) -> str:
    return str(TEXTS["observations"][key].format(**values))


def _listed(gaps: Iterable[tuple[float, str]]) -> str:
    names = [f"{place} ({gap:+.1f})" for gap, place in gaps]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return "; ".join(names[:_MOST_NAMED]) + more


def _gains(results: PlanResults, chosen: Iterable[Selected], **changes: Any) -> NDArray[np.float64]:
    """Return by how many points of ACC cells exceed their counterparts, whose places differ in `changes`."""
    pairs = [(one, results.counterpart(one, **changes)) for one in chosen]
    return np.array([one.accuracy - other.accuracy for one, other in pairs if other is not None])


def _cells(results: PlanResults, transform: str, selection: str, rate: float | None = None) -> list[Selected]:
    place = transform, selection
    cells = [one for one in results.tensors if (one.cell.transform, one.selection) == place]
    return [one for one in cells if rate in (None, one.cell.rate)]


def _reproduced(results: PlanResults) -> Iterator[Claim]:
    for kind, adaptive in (("a data-adaptive", True), ("any other", False)):
        compared = results.compared(ORACLE)
        gaps = [gap for one, gap in compared if (one.cell.transform in DATA_ADAPTIVE) == adaptive]
        if gaps:
            yield _claim("reproduced", ORACLE, [gap >= -NEAR for gap in gaps], kind=kind, near=NEAR)


def _below(results: PlanResults) -> Iterator[str]:
    if below := sorted((gap, str(one.place)) for one, gap in results.compared(ORACLE) if gap < -NEAR):
        yield _observation("below", n=len(below), near=NEAR, listed=_listed(below))


def _far_above(results: PlanResults) -> Iterator[str]:
    if above := sorted(((gap, str(one.place)) for one, gap in results.compared(ORACLE) if gap > FAR), reverse=True):
        yield _observation("far_above", n=len(above), far=FAR, listed=_listed(above))


def _better_than_fft(results: PlanResults) -> Iterator[Claim]:
    for other, selection, transform in product(("FFT", "FFT(view mode)"), (ORACLE, DEFAULT), DATA_ADAPTIVE):
        gains = _gains(results, _cells(results, transform, selection, 1.0), transform=other)
        if len(gains):
            values = {"transform": transform, "other": other}
            yield _claim("better_than_fft", selection, gains > 0, gains.mean(), **values)


def _ideal_is_an_upper_bound(results: PlanResults) -> Iterator[Claim]:
    ideal = _cells(results, "GFT(Ideal)", ORACLE)
    gains = np.concatenate([_gains(results, ideal, transform=transform) for transform in DATA_ADAPTIVE])
    if len(gains):
        yield _claim("upper_bound", ORACLE, gains >= -1e-9, gains.mean())


def _better_than_its_graph(results: PlanResults) -> Iterator[Claim]:
    for (transform, baseline), selection in product(_GRAPHS.items(), (ORACLE, DEFAULT)):
        alone = {"method": BASELINES[baseline].title, "transform": NO_TRANSFORM, "selection": DEFAULT}
        gains = _gains(results, _cells(results, transform, selection), **alone)
        if len(gains):
            yield _claim("better_than_its_graph", selection, gains > 0, gains.mean(), transform=transform)


def _best_pairs(results: PlanResults) -> list[tuple[Selected, Selected]]:
    """Return, for each data set, the best tensor method and the best baseline without labels, on shuffled samples."""
    pairs = []
    for data in results.plan.datasets:
        place = data.name, 1.0
        cells = [one for one in results.selected if (one.cell.dataset, one.cell.rate) == place and not one.uses_labels]
        tensors = [one for one in cells if one.cell.transform != NO_TRANSFORM]
        plain = [one for one in cells if one.cell.transform == NO_TRANSFORM]
        if tensors and plain:
            ours, theirs = (max(group, key=attrgetter("accuracy")) for group in (tensors, plain))
            pairs.append((ours, theirs))
    return pairs


def _better_than_baselines(results: PlanResults) -> Iterator[Claim]:
    gains = np.array([ours.accuracy - theirs.accuracy for ours, theirs in _best_pairs(results)])
    if len(gains):
        yield _claim("better_than_baselines", DEFAULT, gains > 0, gains.mean())


def _best_of_both(results: PlanResults) -> Iterator[str]:
    if pairs := _best_pairs(results):
        lines = [TEXTS["observations"]["best_pair"].format(ours=ours, theirs=theirs) for ours, theirs in pairs]
        yield _observation("best_of_both", listed="; ".join(lines))


def _cost_of_defaults(results: PlanResults) -> Iterator[str]:
    defaults = [one for one in results.tensors if not one.uses_labels]
    losses = 0.0 - _gains(results, defaults, selection=ORACLE)  # not -0.0
    if len(losses):
        yield _observation("cost_of_defaults", mean=losses.mean(), most=losses.max(), n=len(losses))


def _shuffling(results: PlanResults) -> Iterator[Claim]:
    """Compare samples sorted by class with shuffled ones."""
    first, last = min(results.plan.shuffle_rates), max(results.plan.shuffle_rates)
    for transform, selection in product(results.plan.transforms, (ORACLE, DEFAULT)):
        gains = _gains(results, _cells(results, transform.name, selection, last), rate=first)
        if len(gains):
            unordered = transform.basis.startswith(("gft", "agft", "fft-view"))
            key, held = ("unchanged", abs(gains) < _SAME) if unordered else ("loses", gains <= -_SAME)
            yield _claim(key, selection, held, gains.mean(), transform=transform.name, first=first, last=last)


def _best(results: PlanResults) -> Iterator[tuple[str, list[Selected], Selected, Selected]]:
    """Return the cells of each data set of a table that varies one thing, with the best in ours and in the paper's."""
    for data in results.plan.datasets if results.plan.paper in _ABLATIONS else ():
        cells = [one for one, _ in results.compared(ORACLE) if one.cell.dataset == data.name]
        if len(cells) > 1:
            ours = max(cells, key=attrgetter("accuracy"))
            yield data.name, cells, ours, max(cells, key=lambda one: getattr(one.paper("ACC"), "mean", 0.0))


def _best_value(results: PlanResults) -> Iterator[Claim]:
    gains = np.array([theirs.accuracy - ours.accuracy for *_, ours, theirs in _best(results)])
    if len(gains):
        yield _claim("best_value", ORACLE, gains >= -1, gains.mean())


def _best_values(results: PlanResults) -> Iterator[str]:
    for dataset, cells, ours, theirs in _best(results):
        values = {"dataset": dataset, "ours": ours.cell.transform, "theirs": theirs.cell.transform}
        spread = ours.accuracy - min(one.accuracy for one in cells)
        yield _observation("best_value", best=ours.accuracy, spread=spread, **values)
