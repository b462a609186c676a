"""The figures of the paper, from the results and from the data, and critical-difference diagrams.

A figure consists of panels, which the page shows one by one and the files side by side.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import tensormvc as tm

from .._files import writing
from ._cells import NO_TRANSFORM
from ._data import Data, load
from ._methods import BASELINES
from ._plan import PlannedData
from ._statistics import Comparison
from ._tables import DEFAULT, ORACLE, PlanResults, Selected

# Rates at which the paper shows spectra.
_RATES = (0.0, 0.5, 1.0)
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000")
_TEXT = 8
FORMATS = (".pdf", ".png")
_PANEL_INCHES = (3.4, 2.7)
_N_COLUMNS = 4


class Panel(NamedTuple):
    """A part of a figure: its title, and a function that draws it into matplotlib axes."""

    title: str
    draw: Callable[[Any], Any]


@dataclass(frozen=True)
class Figure:
    """A figure: the name of its files and of its texts, its panels, and the numbers that its text states."""

    key: str
    panels: Sequence[Panel]
    numbers: Mapping[str, float]


def can_draw() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def save_figure(panels: Sequence[Panel], stem: Path, *, force: bool) -> None:
    """Write the panels side by side in all `FORMATS`."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    columns = min(_N_COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    with mpl.rc_context():
        mpl.rcdefaults()
        canvas = Canvas(figsize=(_PANEL_INCHES[0] * columns, _PANEL_INCHES[1] * rows), layout="constrained")
        axes = canvas.subplots(rows, columns, squeeze=False).ravel()
        for ax, panel in zip(axes, panels, strict=False):
            panel.draw(ax)
            ax.set_title(panel.title, fontsize=_TEXT + 1)
        for ax in axes[len(panels) :]:
            ax.remove()
        share_legend(canvas, list(axes[: len(panels)]))
        for extension in FORMATS:
            with writing(stem.with_name(stem.name + extension), overwrite=force) as place:
                # A date would make files of the same results differ.
                canvas.savefig(place, dpi=150, metadata={"CreationDate": None} if extension == ".pdf" else None)


def share_legend(canvas: Any, axes: Sequence[Any]) -> None:
    """Replace the legends of all panels by one above them, if they are the same."""
    entries = [ax.get_legend_handles_labels() for ax in axes]
    if len(axes) > 1 and all(ax.get_legend() for ax in axes) and all(names == entries[0][1] for _, names in entries):
        for ax in axes:
            ax.get_legend().remove()
        canvas.legend(*entries[0], loc="outside upper center", ncols=2 * _N_COLUMNS, fontsize=_TEXT + 1, frameon=False)


def paper_figures(plans: Sequence[PlanResults], folder: str | Path | None) -> list[Figure]:
    """Return the figures of the plans with several shuffle rates; those that need the data if their folder is given."""
    sets = [
        (results, data)
        for results in plans
        if len(results.plan.shuffle_rates) > 1 and results.tensors
        for data in results.plan.datasets
    ]
    if not sets:
        return []
    accuracy = _accuracy_figure([(results, data.name) for results, data in sets])
    return [accuracy] * bool(accuracy.panels) + (_data_figures(sets, folder) if folder is not None else [])


def _curve(results: PlanResults, dataset: str, method: str, transform: str) -> list[Selected]:
    """Return the cells at all shuffle rates, with the best setting where there is a grid; [] if some are missing."""
    rates = sorted(results.plan.shuffle_rates)
    for selection in (ORACLE, DEFAULT):
        cells = [results.find(dataset, method, transform, selection, rate) for rate in rates]
        if all(cells):
            return [one for one in cells if one is not None]
    return []


def _accuracy_figure(sets: Sequence[tuple[PlanResults, str]]) -> Figure:
    """Return the accuracy over the shuffle rate: a panel per method and data set, a line per transform.

    `MultiViewClustering`, which has no transform, is in all panels of a data set.
    """
    front_door = BASELINES["front-door"].title
    panels: list[Panel] = []
    losses: dict[str, list[float]] = {"FFT": [], "adaptive": []}
    for method in dict.fromkeys(method.name for results, _ in sets for method in results.plan.methods):
        for results, dataset in sets:
            bases = {transform.name: transform.basis for transform in results.plan.transforms}
            curves = {name: curve for name in bases if (curve := _curve(results, dataset, method, name))}
            if curves:
                alone = _curve(results, dataset, front_door, NO_TRANSFORM)
                shown = curves | ({front_door: alone} if alone else {})
                panels.append(Panel(f"{method}, {dataset}", partial(_draw_accuracy, shown)))
            for name, curve in curves.items():
                adaptive = bases[name].startswith(("gft", "agft")) and bases[name] != "gft-ideal"
                if adaptive or bases[name] == "fft":
                    losses["adaptive" if adaptive else "FFT"].append(curve[0].accuracy - curve[-1].accuracy)
    numbers = {}
    if all(losses.values()):
        numbers = {kind: float(np.mean(values)) for kind, values in losses.items()}
        numbers["most"] = max(map(abs, losses["adaptive"]))
    return Figure("shuffle-rate", panels, numbers)


def _draw_accuracy(curves: Mapping[str, Sequence[Selected]], ax: Any) -> None:
    for number, (name, curve) in enumerate(curves.items()):
        figures = [one.figure("ACC") for one in curve]
        rates, means = [one.cell.rate for one in curve], np.array([figure.mean for figure in figures])
        spread = np.array([figure.std or 0.0 for figure in figures])
        colour = _COLOURS[number % len(_COLOURS)]
        ax.plot(rates, means, marker="osD^vP"[number % 6], ms=3, lw=1.2, color=colour, label=name)
        ax.fill_between(rates, means - spread, means + spread, color=colour, alpha=0.15, lw=0)
    ax.set_ylim(0, 102)
    _finish(ax, "shuffle rate", "ACC (labels used)")


def _finish(ax: Any, xlabel: str, ylabel: str) -> None:
    ax.set_xlabel(xlabel, fontsize=_TEXT)
    ax.set_ylabel(ylabel, fontsize=_TEXT)
    ax.tick_params(labelsize=_TEXT - 1)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(fontsize=_TEXT - 2, frameon=False)


@dataclass(frozen=True)
class _Diagnosis:
    """What the figures show of a data set at each shuffle rate."""

    ctv: NDArray[np.float64]
    spectra: Mapping[float, NDArray[np.float64]]
    low_share: tuple[float, float]
    ratios: Mapping[str, Mapping[float, NDArray[np.float64]]]
    bases: Mapping[str, Any]
    y: Any


def _diagnose(data: Data, rates: Sequence[float], seed: int) -> _Diagnosis:
    bases = {
        "FFT": tm.FFT(),
        "GFT(SimG)": tm.GFT(tm.SimGraph()),
        "GFT(GMC)": tm.GFT(tm.GMCGraph()),
        "GFT(Ideal)": tm.GFT(),
    }
    tensor = tm.diagnostics.similarity_tensor(data.views)
    shuffle = partial(tm.datasets.shuffle_samples, data.views, data.y, random_state=seed)
    # The order of the columns changes neither distances between the samples nor energies.
    ctv = [tm.diagnostics.circular_total_variation(tensor[shuffle(rate)[2]]) for rate in rates]
    ratios: dict[str, dict[float, NDArray[np.float64]]] = {name: {} for name in bases}
    spectra, shares, fitted = {}, {}, {}
    for rate in _RATES:
        views, y, order = shuffle(rate)
        moved = tensor[order]
        shares[rate] = tm.diagnostics.low_frequency_share(moved, "fft")
        spectra[rate] = tm.diagnostics.slice_energies(moved, "fft")
        for name, basis in bases.items():
            graph = {"sample_graph": tm.ideal_graph(y)} if name == "GFT(Ideal)" else {}
            fitted[name] = basis.fit(views, n_clusters=data.facts.n_clusters, random_state=0, **graph)
            ratios[name][rate] = tm.diagnostics.cumulative_energy_ratio(moved, basis)
    return _Diagnosis(np.array(ctv), spectra, (shares[0.0], shares[1.0]), ratios, fitted, y)


def _data_figures(sets: Sequence[tuple[PlanResults, PlannedData]], folder: str | Path) -> list[Figure]:
    """Return CTV beside accuracy, spectra, energy ratios and bases, with panels for every data set."""
    found, variation = {}, []
    for results, data in sets:
        one = _diagnose(load(data, folder), sorted(results.plan.shuffle_rates), results.plan.seed)
        found[data.name] = one
        for method in results.plan.methods:
            if curve := _curve(results, data.name, method.name, "FFT"):
                variation.append(Panel(f"{method.name}, {data.name}", partial(_draw_variation, curve, one.ctv)))
    spectra = [Panel(name, partial(_draw_spectra, one.spectra)) for name, one in found.items()]
    ratios = [Panel(name, partial(_call, tm.plotting.plot_energy_ratio, one.ratios)) for name, one in found.items()]
    bases = [
        # The FFT does not know the samples: its rows have no classes to be sorted by.
        Panel(f"{basis}, {name}", partial(_call, tm.plotting.plot_basis, fitted, None if basis == "FFT" else one.y))
        for name, one in found.items()
        for basis, fitted in one.bases.items()
    ]
    moves = {
        basis: max(float(np.max(np.abs(one.ratios[basis][1.0] - one.ratios[basis][0.0]))) for one in found.values())
        for basis in ("FFT", "GFT(SimG)", "GFT(GMC)", "GFT(Ideal)")
    }
    growth = [float(one.ctv[-1] / one.ctv[0]) for one in found.values()]
    low = np.mean([one.low_share for one in found.values()], axis=0)
    return [
        Figure("total-variation", variation, {"least": min(growth), "most": max(growth)}),
        Figure("spectra", spectra, {"sorted": 100 * low[0], "shuffled": 100 * low[1]}),
        Figure("energy-ratio", ratios, {"FFT": moves.pop("FFT"), "most": max(moves.values())}),
        Figure("bases", bases, {}),
    ]


def _call(plot: Callable[..., Any], *arguments: Any) -> Any:
    *values, ax = arguments
    return plot(*values, ax=ax)


def _draw_variation(curve: Sequence[Selected], ctv: NDArray[np.float64], ax: Any) -> None:
    rates = [one.cell.rate for one in curve]
    ax.plot(rates, [one.accuracy / 100 for one in curve], "o-", ms=3, lw=1.2, color=_COLOURS[0], label="ACC, FFT")
    ax.plot(rates, ctv / ctv.max(), "s--", ms=3, lw=1.2, color=_COLOURS[1], label="CTV / its maximum")
    ax.set_ylim(0, 1.02)
    _finish(ax, "shuffle rate", "ratio")


def _draw_spectra(spectra: Mapping[float, NDArray[np.float64]], ax: Any) -> None:
    tm.plotting.plot_spectrum({f"shuffle rate {rate:g}": values for rate, values in spectra.items()}, ax=ax)


def draw_ranks(comparison: Comparison, ax: Any) -> None:
    """Draw a critical-difference diagram: average ranks, and bars over candidates that do not differ significantly."""
    k = len(comparison.names)
    half, margin = (k + 1) // 2, 0.95 * (k - 1)
    ax.plot([1, k], [0, 0], color="black", lw=1)
    for tick in range(1, k + 1):
        ax.plot([tick, tick], [0, 0.15], color="black", lw=1)
        ax.text(tick, 0.25, str(tick), ha="center", va="bottom", fontsize=_TEXT - 1)
    for number, (name, average) in enumerate(zip(comparison.names, comparison.ranks, strict=True)):
        left = number < half
        depth = 1 + (number if left else k - 1 - number)
        ax.plot([average, average, 1 if left else k], [0, -depth, -depth], color="black", lw=0.8)
        side = "right" if left else "left"
        end = 1 - 0.03 * k if left else k + 0.03 * k
        text = f"{name} {average:.2f}"
        ax.text(end, -depth, text, ha=side, va="center", fontsize=_TEXT - 1).set_in_layout(False)
    for level, (first, last) in enumerate(comparison.groups()):
        ranks = comparison.ranks[first] - 0.04, comparison.ranks[last] + 0.04
        ax.plot(ranks, [-0.2 - 0.22 * level] * 2, color=_COLOURS[1], lw=3, solid_capstyle="butt")
    ax.set_xlim(1 - margin, k + margin)
    ax.set_ylim(-half - 0.5, 0.9)
    ax.set_axis_off()
