"""Which claims of the paper hold: sentences that follow from the figures."""

import tomllib
from collections.abc import Iterable, Iterator, Sequence
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
_CHOSEN = {ORACLE: "settings chosen by the labels", DEFAULT: "default settings, no labels"}
_MOST_NAMED = 12


class Finding(NamedTuple):
    """A sentence, and whether the claim it states held: "Held", "Held in part", "Did not hold" or "Observed"."""

    verdict: str
    text: str


def findings(results: PlanResults) -> list[Finding]:
    """Return what the results of a plan show, the most interesting first."""
    kinds = (
        *(_reproduced, _far_above, _better_than_fft, _ideal_is_an_upper_bound, _better_than_its_graph),
        *(_better_than_baselines, _cost_of_defaults, _loss_by_shuffling, _best_value),
    )
    return [finding for kind in kinds for finding in kind(results)]


def _finding(key: str, verdict: str = "Observed", **values: Any) -> Finding:
    return Finding(verdict, TEXTS["findings"][key].format(**values))


def _judged(key: str, held: Sequence[bool] | NDArray[np.bool_], **values: Any) -> Finding:
    """Return a finding whose verdict follows from the share of the cases in which the claim holds."""
    share = np.mean(held)
    verdict = "Held" if share >= 0.9 else "Held in part" if share >= 0.5 else "Did not hold"
    return _finding(key, verdict, held=np.count_nonzero(held), cases=len(held), **values)


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


def _reproduced(results: PlanResults) -> Iterator[Finding]:
    compared = [(gap, one) for one, gap in results.compared(ORACLE)]
    for kind, adaptive in (("a data-adaptive", True), ("another", False)):
        gaps = [(gap, str(one.place)) for gap, one in compared if (one.cell.transform in DATA_ADAPTIVE) == adaptive]
        if gaps:
            below = sorted(pair for pair in gaps if pair[0] < -NEAR)
            named = f" Below: {_listed(below)}." if below else ""
            yield _judged("reproduced", [gap >= -NEAR for gap, _ in gaps], kind=kind, near=NEAR, below=named)


def _far_above(results: PlanResults) -> Iterator[Finding]:
    if above := sorted(((gap, str(one.place)) for one, gap in results.compared(ORACLE) if gap > FAR), reverse=True):
        yield _finding("far_above", n=len(above), far=FAR, listed=_listed(above))


def _better_than_fft(results: PlanResults) -> Iterator[Finding]:
    for other, selection, transform in product(("FFT", "FFT(view mode)"), (ORACLE, DEFAULT), DATA_ADAPTIVE):
        gains = _gains(results, _cells(results, transform, selection, 1.0), transform=other)
        if len(gains):
            values = {"transform": transform, "other": other, "mean": gains.mean(), "chosen": _CHOSEN[selection]}
            yield _judged("better_than_fft", gains > 0, **values)


def _ideal_is_an_upper_bound(results: PlanResults) -> Iterator[Finding]:
    ideal = _cells(results, "GFT(Ideal)", ORACLE)
    gains = np.concatenate([_gains(results, ideal, transform=transform) for transform in DATA_ADAPTIVE])
    if len(gains):
        yield _judged("upper_bound", gains >= -1e-9)


def _better_than_its_graph(results: PlanResults) -> Iterator[Finding]:
    for (transform, baseline), selection in product(_GRAPHS.items(), (DEFAULT, ORACLE)):
        alone = {"method": BASELINES[baseline].title, "transform": NO_TRANSFORM, "selection": DEFAULT}
        gains = _gains(results, _cells(results, transform, selection), **alone)
        if len(gains):
            values = {"transform": transform, "mean": gains.mean(), "chosen": _CHOSEN[selection]}
            yield _judged("better_than_its_graph", gains > 0, **values)


def _better_than_baselines(results: PlanResults) -> Iterator[Finding]:
    lines, better = [], []
    for data in results.plan.datasets:
        place = data.name, 1.0
        cells = [one for one in results.selected if (one.cell.dataset, one.cell.rate) == place and not one.uses_labels]
        tensors = [one for one in cells if one.cell.transform != NO_TRANSFORM]
        plain = [one for one in cells if one.cell.transform == NO_TRANSFORM]
        if tensors and plain:
            ours, theirs = (max(group, key=attrgetter("accuracy")) for group in (tensors, plain))
            better.append(ours.accuracy > theirs.accuracy)
            lines.append(TEXTS["findings"]["best_of_both"].format(ours=ours, theirs=theirs))
    if lines:
        yield _judged("better_than_baselines", better, listed="; ".join(lines))


def _cost_of_defaults(results: PlanResults) -> Iterator[Finding]:
    defaults = [one for one in results.tensors if not one.uses_labels]
    losses = 0.0 - _gains(results, defaults, selection=ORACLE)  # not -0.0
    if len(losses):
        yield _finding("cost_of_defaults", mean=losses.mean(), most=losses.max(), n=len(losses))


def _loss_by_shuffling(results: PlanResults) -> Iterator[Finding]:
    first, last = min(results.plan.shuffle_rates), max(results.plan.shuffle_rates)
    for transform, selection in product(results.plan.transforms if first < last else (), (ORACLE, DEFAULT)):
        losses = _gains(results, _cells(results, transform.name, selection, first), rate=last)
        if len(losses):
            values = {"mean": losses.mean(), "most": losses.max(), "n": len(losses), "chosen": _CHOSEN[selection]}
            yield _finding("loss_by_shuffling", first=first, last=last, transform=transform.name, **values)


def _best_value(results: PlanResults) -> Iterator[Finding]:
    """Compare which value is best in a table that varies one thing with which is best in the paper."""
    for data in results.plan.datasets if results.plan.paper in ("transform", "k_n", "k_a") else ():
        cells = [one for one, _ in results.compared(ORACLE) if one.cell.dataset == data.name]
        if len(cells) > 1:
            ours = max(cells, key=attrgetter("accuracy"))
            theirs = max(cells, key=lambda one: getattr(one.paper("ACC"), "mean", 0.0))
            spread = ours.accuracy - min(one.accuracy for one in cells)
            names = {"dataset": data.name, "ours": ours.cell.transform, "theirs": theirs.cell.transform}
            verdict = "Held" if theirs.accuracy >= ours.accuracy - 1 else "Did not hold"
            yield _finding("best_value", verdict, best=ours.accuracy, spread=spread, **names)
