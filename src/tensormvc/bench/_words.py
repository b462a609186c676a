"""What held and what did not: sentences that the numbers decide."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ._methods import BASELINES
from ._tables import DEFAULT, ORACLE, PlanResults, Selected

Verdict = Literal["Held", "Held in part", "Did not hold", "Seen"]
# The paper's claim is about these.
FROM_THE_DATA = ("GFT(SimG)", "GFT(GMC)", "AGFT")
_GRAPHS = {"GFT(SimG)": "spectral-sim", "GFT(SumG)": "spectral-sum", "GFT(GMC)": "spectral-gmc"}
_FAR = 5.0
_MOST_NAMED = 12


@dataclass(frozen=True)
class Finding:
    """A sentence and how it came out."""

    verdict: Verdict
    text: str


def findings(results: PlanResults) -> list[Finding]:
    """Return what the results of a plan say, in the order of interest."""
    found: list[Finding] = []
    for make in (
        *(_reproduced, _far_above, _better_than_fft, _oracle_is_an_upper_bound, _graph_alone, _best_without_tensor),
        *(_defaults, _shuffled, _one_parameter),
    ):
        found += make(results)
    return found


def _verdict(count: int, total: int) -> Verdict:
    if count >= 0.9 * total:
        return "Held"
    return "Held in part" if count >= 0.5 * total else "Did not hold"


def _named(cells: Iterable[str]) -> str:
    listed = list(cells)
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return "; ".join(listed[:_MOST_NAMED]) + more


def _compared(results: PlanResults, selection: str) -> list[tuple[Selected, float]]:
    return [
        (one, gap)
        for one in results.tensors
        if one.selection == selection and not one.own_features and (gap := one.difference("ACC")) is not None
    ]


def _where(one: Selected) -> str:
    rate = "" if one.cell.rate == 1 else f", {one.cell.rate:.0%} shuffled"
    return f"{one.cell.dataset}, {one.cell.method}, {one.cell.transform}{rate}"


def _reproduced(results: PlanResults) -> list[Finding]:
    found = []
    pairs = _compared(results, ORACLE)
    for name, chosen in (
        ("with a transform that comes from the data", [p for p in pairs if p[0].cell.transform in FROM_THE_DATA]),
        ("with another transform", [p for p in pairs if p[0].cell.transform not in FROM_THE_DATA]),
    ):
        if not chosen:
            continue
        near = sum(gap >= -2 for _, gap in chosen)
        below = sorted((gap, _where(one)) for one, gap in chosen if gap < -2)
        text = (
            f"Of {len(chosen)} cells {name}, {near} have an ACC within 2 points of the paper's or above it, with "
            "settings "
            "chosen by the labels as in the paper."
        )
        if below:
            text += f" Below: {_named(f'{where} ({gap:+.1f})' for gap, where in below)}."
        found.append(Finding(_verdict(near, len(chosen)), text))
    return found


def _far_above(results: PlanResults) -> list[Finding]:
    above = sorted(((gap, _where(one)) for one, gap in _compared(results, ORACLE) if gap > _FAR), reverse=True)
    if not above:
        return []
    listed = _named(f"{where} ({gap:+.1f})" for gap, where in above)
    return [Finding("Seen", f"{len(above)} cells are more than {_FAR:.0f} points above the paper's: {listed}.")]


def _pairs(results: PlanResults, first: str, second: str, selection: str) -> list[tuple[Selected, Selected]]:
    """Return the cells of two transforms that agree in everything else."""
    found = []
    for one in results.tensors:
        if one.cell.transform == first and one.selection == selection:
            other = results.find(one.cell.dataset, one.cell.method, second, selection, one.cell.rate)
            if other is not None:
                found.append((one, other))
    return found


def _better_than_fft(results: PlanResults) -> list[Finding]:
    found = []
    for other in ("FFT", "FFT(view mode)"):
        for selection in (ORACLE, DEFAULT):
            for transform in FROM_THE_DATA:
                pairs = [p for p in _pairs(results, transform, other, selection) if p[0].cell.rate == 1]
                if not pairs:
                    continue
                gaps = np.array([a.mean("ACC") - b.mean("ACC") for a, b in pairs])
                text = (
                    f"{transform} beats {other} on shuffled samples: in {int(np.sum(gaps > 0))} of {len(gaps)} "
                    "pairs of data "
                    f"set and method, by {gaps.mean():+.1f} points of ACC on average ({_selected(selection)})."
                )
                found.append(Finding(_verdict(int(np.sum(gaps > 0)), len(gaps)), text))
    return found


def _selected(selection: str) -> str:
    return "settings chosen by the labels" if selection == ORACLE else "default settings, no labels"


def _oracle_is_an_upper_bound(results: PlanResults) -> list[Finding]:
    held, total = 0, 0
    for transform in FROM_THE_DATA:
        for ideal, other in _pairs(results, "GFT(Ideal)", transform, ORACLE):
            total += 1
            held += ideal.mean("ACC") >= other.mean("ACC") - 1e-9
    if not total:
        return []
    text = f"The graph that knows the labels, GFT(Ideal), is an upper bound: in {held} of {total} comparisons."
    return [Finding(_verdict(held, total), text)]


def _graph_alone(results: PlanResults) -> list[Finding]:
    found = []
    for transform, baseline in _GRAPHS.items():
        for selection in (DEFAULT, ORACLE):
            gaps = []
            for one in results.tensors:
                if one.cell.transform != transform or one.selection != selection:
                    continue
                alone = _alone(results, one, baseline)
                if alone is not None:
                    gaps.append(one.mean("ACC") - alone.mean("ACC"))
            if not gaps:
                continue
            better = int(np.sum(np.array(gaps) > 0))
            text = (
                f"The tensor adds to its graph: {transform} is above spectral clustering of the same graph alone "
                f"in {better} "
                f"of {len(gaps)} pairs of data set and method, by {np.mean(gaps):+.1f} points of ACC on average "
                f"({_selected(selection)}; the graph alone is not tuned)."
            )
            found.append(Finding(_verdict(better, len(gaps)), text))
    return found


def _alone(results: PlanResults, one: Selected, baseline: str) -> Selected | None:
    return results.find(one.cell.dataset, BASELINES[baseline].title, "none", DEFAULT, one.cell.rate)


def _best_without_tensor(results: PlanResults) -> list[Finding]:
    lines, better, total = [], 0, 0
    for data in results.plan.datasets:
        here = [
            one
            for one in results.selected
            if (one.cell.dataset, one.cell.rate, one.uses_labels) == (data.name, 1.0, False)
        ]
        tensors = [one for one in here if one in results.tensors]
        plain = [one for one in here if one not in results.tensors]
        if not tensors or not plain:
            continue
        a, b = (max(group, key=lambda one: one.mean("ACC")) for group in (tensors, plain))
        total += 1
        better += a.mean("ACC") > b.mean("ACC")
        lines.append(
            f"{data.name}: {a.cell.method} with {a.cell.transform} {a.mean('ACC'):.1f}, {b.cell.method} "
            f"{b.mean('ACC'):.1f}"
        )
    if not total:
        return []
    text = (
        f"The best tensor method with its defaults beats the best baseline, both without labels (except that they are "
        f"called best by them): on {better} of {total} data sets. {'; '.join(lines)}."
    )
    return [Finding(_verdict(better, total), text)]


def _defaults(results: PlanResults) -> list[Finding]:
    losses = []
    for one in results.tensors:
        if one.selection == DEFAULT and not one.cell.uses_labels:
            best = results.find(one.cell.dataset, one.cell.method, one.cell.transform, ORACLE, one.cell.rate)
            if best is not None:
                losses.append(best.mean("ACC") - one.mean("ACC"))
    if not losses:
        return []
    return [
        Finding(
            "Seen",
            f"Not looking at the labels costs {np.mean(losses):.1f} points of ACC on average: that is how far the "
            "defaults are "
            f"below the best setting of the grid, over {len(losses)} cells; at most {np.max(losses):.1f}.",
        )
    ]


def _shuffled(results: PlanResults) -> list[Finding]:
    rates = sorted(results.plan.shuffle_rates)
    if len(rates) < 2:
        return []
    found = []
    for transform in results.plan.transforms:
        for selection in (ORACLE, DEFAULT):
            drops = []
            for one in results.tensors:
                if (one.cell.transform, one.selection, one.cell.rate) == (transform.name, selection, rates[0]):
                    last = results.find(one.cell.dataset, one.cell.method, transform.name, selection, rates[-1])
                    if last is not None:
                        drops.append(one.mean("ACC") - last.mean("ACC"))
            if drops:
                text = (
                    f"From a shuffle rate of {rates[0]:g} to {rates[-1]:g}, {transform.name} loses "
                    f"{np.mean(drops):.1f} points "
                    f"of ACC on average over {len(drops)} cells, at most {np.max(drops):.1f} ({_selected(selection)})."
                )
                found.append(Finding("Seen", text))
    return found


def _one_parameter(results: PlanResults) -> list[Finding]:
    """Tell how far a table that varies one thing agrees with the paper's about which value is best."""
    if results.plan.paper not in ("transform", "k_n", "k_a"):
        return []
    found = []
    for data in results.plan.datasets:
        here = [one for one in results.tensors if one.cell.dataset == data.name and one.selection == ORACLE]
        here = [one for one in here if one.paper("ACC") is not None]
        if len(here) < 2:
            continue
        ours = max(here, key=lambda one: one.mean("ACC"))
        theirs = max(here, key=lambda one: getattr(one.paper("ACC"), "mean", 0.0))
        spread = [one.mean("ACC") for one in here]
        text = (
            f"{data.name}: best is {ours.cell.transform} with {ours.mean('ACC'):.1f}, in the paper "
            f"{theirs.cell.transform}; "
            f"from worst to best there are {max(spread) - min(spread):.1f} points of ACC (settings chosen by the "
            "labels)."
        )
        best_of_theirs = theirs.mean("ACC") >= ours.mean("ACC") - 1
        found.append(Finding("Held" if best_of_theirs else "Did not hold", text))
    return found
