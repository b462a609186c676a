"""Which claims of the paper hold: sentences that follow from the figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ._cells import NO_TRANSFORM
from ._methods import BASELINES
from ._tables import DEFAULT, ORACLE, PlanResults, Selected

Verdict = Literal["Held", "Held in part", "Did not hold", "Observed"]
# The data-adaptive transforms of the paper, which its claims are about.
DATA_ADAPTIVE = ("GFT(SimG)", "GFT(GMC)", "AGFT")
# Points of ACC within which a cell counts as reproduced, and above which it is listed as better.
NEAR, FAR = 2.0, 5.0
_GRAPHS = {"GFT(SimG)": "spectral-sim", "GFT(SumG)": "spectral-sum", "GFT(GMC)": "spectral-gmc"}
_CHOSEN = {ORACLE: "settings chosen by the labels", DEFAULT: "default settings, no labels"}
_MOST_NAMED = 12


@dataclass(frozen=True)
class Finding:
    """A sentence, and whether the claim it states held."""

    verdict: Verdict
    text: str


def findings(results: PlanResults) -> list[Finding]:
    """Return what the results of a plan show, the most interesting first."""
    kinds = (
        *(_reproduced, _far_above, _better_than_fft, _ideal_is_an_upper_bound, _better_than_its_graph),
        *(_better_than_baselines, _cost_of_defaults, _loss_by_shuffling, _best_value),
    )
    return [finding for kind in kinds for finding in kind(results)]


def _judged(held: Sequence[bool] | NDArray[np.bool_], text: str) -> Finding:
    """Return a finding whose verdict follows from the share of the cases in which the claim holds."""
    share = np.mean(held)
    return Finding("Held" if share >= 0.9 else "Held in part" if share >= 0.5 else "Did not hold", text)


def _listed(gaps: Iterable[tuple[float, str]]) -> str:
    names = [f"{place} ({gap:+.1f})" for gap, place in gaps]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return "; ".join(names[:_MOST_NAMED]) + more


def _gains(results: PlanResults, chosen: Iterable[Selected], **changes: Any) -> NDArray[np.float64]:
    """Return by how many points of ACC cells exceed their counterparts, whose places differ in `changes`."""
    pairs = [(one, results.counterpart(one, **changes)) for one in chosen]
    return np.array([one.mean("ACC") - other.mean("ACC") for one, other in pairs if other is not None])


def _summary(gains: NDArray[np.float64]) -> str:
    pairs = f"{np.count_nonzero(gains > 0)} of {len(gains)} pairs of data set and method"
    return f"in {pairs}; the mean difference in ACC is {gains.mean():+.1f} points"


def _cells(results: PlanResults, transform: str, selection: str, rate: float | None = None) -> list[Selected]:
    return [
        one
        for one in results.tensors
        if (one.cell.transform, one.selection) == (transform, selection) and rate in (None, one.cell.rate)
    ]


def _reproduced(results: PlanResults) -> Iterator[Finding]:
    for kind, adaptive in (("a data-adaptive", True), ("another", False)):
        gaps = [
            (gap, str(one.place))
            for one, gap in results.compared(ORACLE)
            if (one.cell.transform in DATA_ADAPTIVE) == adaptive
        ]
        if gaps:
            below = sorted(pair for pair in gaps if pair[0] < -NEAR)
            text = (
                f"Of {len(gaps)} cells with {kind} transform, {len(gaps) - len(below)} reach the ACC of the paper or "
                f"are at most {NEAR:.0f} points below it ({_CHOSEN[ORACLE]}, as in the paper)."
            )
            text += f" Below: {_listed(below)}." if below else ""
            yield _judged([gap >= -NEAR for gap, _ in gaps], text)


def _far_above(results: PlanResults) -> Iterator[Finding]:
    if above := sorted(((gap, str(one.place)) for one, gap in results.compared(ORACLE) if gap > FAR), reverse=True):
        text = f"{len(above)} cells are more than {FAR:.0f} points above the paper: {_listed(above)}."
        yield Finding("Observed", text)


def _better_than_fft(results: PlanResults) -> Iterator[Finding]:
    for other in ("FFT", "FFT(view mode)"):
        for selection in (ORACLE, DEFAULT):
            for transform in DATA_ADAPTIVE:
                gains = _gains(results, _cells(results, transform, selection, 1.0), transform=other)
                if len(gains):
                    text = f"{transform} beats {other} on shuffled samples {_summary(gains)} ({_CHOSEN[selection]})."
                    yield _judged(gains > 0, text)


def _ideal_is_an_upper_bound(results: PlanResults) -> Iterator[Finding]:
    ideal = _cells(results, "GFT(Ideal)", ORACLE)
    gains = np.concatenate([_gains(results, ideal, transform=transform) for transform in DATA_ADAPTIVE])
    if len(gains):
        held = gains >= -1e-9
        count = f"{np.count_nonzero(held)} of {len(held)} comparisons"
        yield _judged(held, f"GFT(Ideal), whose graph is built from the labels, is an upper bound in {count}.")


def _better_than_its_graph(results: PlanResults) -> Iterator[Finding]:
    for transform, baseline in _GRAPHS.items():
        alone = {"method": BASELINES[baseline].title, "transform": NO_TRANSFORM, "selection": DEFAULT}
        for selection in (DEFAULT, ORACLE):
            gains = _gains(results, _cells(results, transform, selection), **alone)
            if len(gains):
                text = (
                    f"The tensor improves on its graph: {transform} beats spectral clustering of the same graph "
                    f"{_summary(gains)} ({_CHOSEN[selection]}; spectral clustering is not tuned)."
                )
                yield _judged(gains > 0, text)


def _better_than_baselines(results: PlanResults) -> Iterator[Finding]:
    lines, better = [], []
    for data in results.plan.datasets:
        unlabelled = [
            one
            for one in results.selected
            if not one.uses_labels and (one.cell.dataset, one.cell.rate) == (data.name, 1.0)
        ]
        tensors = [one for one in unlabelled if one.cell.transform != NO_TRANSFORM]
        plain = [one for one in unlabelled if one.cell.transform == NO_TRANSFORM]
        if tensors and plain:
            ours, theirs = (max(group, key=lambda one: one.mean("ACC")) for group in (tensors, plain))
            better.append(ours.mean("ACC") > theirs.mean("ACC"))
            lines.append(
                f"{data.name}: {ours.cell.method} with {ours.cell.transform} {ours.mean('ACC'):.1f}, "
                f"{theirs.cell.method} {theirs.mean('ACC'):.1f}"
            )
    if lines:
        text = (
            f"With default settings, the best tensor method beats the best baseline on {sum(better)} of {len(lines)} "
            f"data sets; neither uses labels, labels only decide which one is reported as best. {'; '.join(lines)}."
        )
        yield _judged(better, text)


def _cost_of_defaults(results: PlanResults) -> Iterator[Finding]:
    defaults = [one for one in results.tensors if not one.uses_labels]
    losses = 0.0 - _gains(results, defaults, selection=ORACLE)  # not -0.0
    if len(losses):
        yield Finding(
            "Observed",
            f"The defaults are {losses.mean():.1f} points of ACC below the best setting of the grid, which only the "
            f"labels can tell, on average over {len(losses)} cells ({losses.max():.1f} at most).",
        )


def _loss_by_shuffling(results: PlanResults) -> Iterator[Finding]:
    first, last = min(results.plan.shuffle_rates), max(results.plan.shuffle_rates)
    for transform in results.plan.transforms if first < last else ():
        for selection in (ORACLE, DEFAULT):
            losses = _gains(results, _cells(results, transform.name, selection, first), rate=last)
            if len(losses):
                yield Finding(
                    "Observed",
                    f"From shuffle rate {first:g} to {last:g}, {transform.name} loses {losses.mean():.1f} points of "
                    f"ACC on average over {len(losses)} cells, {losses.max():.1f} at most ({_CHOSEN[selection]}).",
                )


def _best_value(results: PlanResults) -> Iterator[Finding]:
    """Compare which value is best in a table that varies one thing with which is best in the paper."""
    for data in results.plan.datasets if results.plan.paper in ("transform", "k_n", "k_a") else ():
        pairs = [(one, gap) for one, gap in results.compared(ORACLE) if one.cell.dataset == data.name]
        if len(pairs) > 1:
            accuracies = [one.mean("ACC") for one, _ in pairs]
            ours = pairs[int(np.argmax(accuracies))][0]
            theirs = max((one for one, _ in pairs), key=lambda one: getattr(one.paper("ACC"), "mean", 0.0))
            text = (
                f"{data.name}: {ours.cell.transform} is best with an ACC of {max(accuracies):.1f}, in the paper "
                f"{theirs.cell.transform} is; the best and the worst differ by "
                f"{max(accuracies) - min(accuracies):.1f} points ({_CHOSEN[ORACLE]})."
            )
            yield Finding("Held" if theirs.mean("ACC") >= ours.mean("ACC") - 1 else "Did not hold", text)
