"""Write the report on a results file: an HTML page, CSV and LaTeX."""

import csv
import io
from collections.abc import Iterable, Sequence
from functools import partial
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from .._files import check_target, writing
from ._comparisons import Compared, comparisons, grouped
from ._figures import FORMATS, Figure, Panel, can_draw, draw_ranks, paper_figures, save_figure
from ._page import results_page
from ._store import METRICS, Store, StoreError
from ._tables import DEFAULT, ORACLE, PlanResults, Selected, read_results
from ._words import NEAR

_TEX = str.maketrans({letter: f"\\{letter}" for letter in "&%_#${}"} | {"−": "$-$"})
_OWN_FEATURES = "features are our own, not the paper's"


def write_bench_report(
    results: str | Path, folder: str | Path, *, force: bool = False, data: str | Path | None = None
) -> list[Path]:
    """Write an HTML page, CSV files, LaTeX tables and figures for a results file.

    Parameters
    ----------
    results : str or path-like
        The SQLite file that `run_plan` wrote. A run that is not finished can be reported, too.
    folder : str or path-like
        Folder for ``index.html``, ``settings.csv``, ``deviations.csv``, ``grid_edges.csv``, ``comparisons.csv``,
        ``comparisons.tex``, and ``PLAN.csv`` and ``PLAN.tex`` of every plan; with matplotlib also ``figures``, PDF and
        PNG files. It is created if it does not exist.
    force : bool, default=False
        Whether to overwrite existing files.
    data : str or path-like, optional
        Folder of the data sets, for the figures of the paper that need them.

    Returns
    -------
    list of Path
        The files written.

    Examples
    --------
    >>> import tempfile, tensormvc as tm
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = Path(name)
    ...     _ = (folder / "tiny.toml").write_text('''
    ... title = "k-means on a few digits"
    ... datasets = [{name = "digits", n_samples = 60}]
    ... baselines = ["kmeans-l2"]
    ... trials = 2
    ... ''')
    ...     _ = tm.bench.run_plan(folder / "tiny.toml", folder / "tiny.sqlite")
    ...     written = tm.bench.write_bench_report(folder / "tiny.sqlite", folder / "report")
    >>> [path.name for path in written]  # doctest: +NORMALIZE_WHITESPACE
    ['tiny.csv', 'tiny.tex', 'settings.csv', 'deviations.csv', 'grid_edges.csv', 'comparisons.csv', 'comparisons.tex',
    'index.html']
    """
    folder = Path(folder)
    with Store(results, must_exist=True) as store:
        outcomes = store.outcomes()
        stored = [read_results(plan, outcomes) for plan in store.plans()]
    plans = [results for group in grouped(stored) for results in group]
    if not plans:
        raise StoreError(f"{results} holds no results: run a plan first")
    compared, figures = comparisons(plans), paper_figures(plans, data)
    texts = {f"{one.plan.name}{extension}": make(one) for one in plans for extension, make in _OF_A_PLAN.items()}
    texts |= {
        "settings.csv": settings_csv(plans),
        "deviations.csv": deviations_csv(plans),
        "grid_edges.csv": grid_edges_csv(plans),
        "comparisons.csv": comparisons_csv(compared),
        "comparisons.tex": comparisons_latex(compared),
        "index.html": results_page(Path(results).name, plans, figures),
    }
    drawn = _drawn(figures, compared) if can_draw() else {}
    written = [folder / name for name in (*texts, *(key + extension for key in drawn for extension in FORMATS))]
    for path in written:
        check_target(path, overwrite=force, make_folder=True)
    for path in written:
        path.parent.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        with writing(folder / name, overwrite=force) as place:
            place.write_text(text, encoding="utf-8")
    for key, panels in drawn.items():
        save_figure(panels, folder / key, force=force)
    return written


def _drawn(figures: Sequence[Figure], compared: Sequence[Compared]) -> dict[str, Sequence[Panel]]:
    """Return the panels of all figures by the path of the file, without its ending."""
    ranks = {
        f"figures/ranks-{number}-{one.selection}": [Panel(one.heading, partial(draw_ranks, one.comparison))]
        for number, one in enumerate(compared)
        if one.what.startswith("transforms")
    }
    return {f"figures/{one.key}": one.panels for one in figures if one.panels} | ranks


def _csv(columns: str, rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([columns.split(), *rows])
    return text.getvalue()


def _decimals(value: float | None, count: int = 2) -> str:
    return "" if value is None else f"{value:.{count}f}"


def figures_csv(results: PlanResults) -> str:
    """Return the mean and the standard deviation of every metric.

    There is a column for the shuffle rate if the plan has several, and a plan about runtime has rows for the seconds of
    the whole fit and of building the transform.
    """
    several = len(results.plan.shuffle_rates) > 1
    rows = []
    for one in results.selected:
        figures: list[tuple[Any, ...]] = [(metric, *one.figure(metric)) for metric in METRICS]
        if results.plan.is_timed:
            figures.append(("seconds", one.seconds, None))
            if one.transform_seconds is not None:
                figures.append(("seconds of the transform", one.transform_seconds, None))
        rate = [f"{one.cell.rate:g}"] * several
        for metric, mean, std in figures:
            rows.append((*one.cell.group, metric, one.selection, _decimals(mean), _decimals(std), *rate))
    return _csv("dataset method transform metric selection mean std" + " shuffle_rate" * several, rows)


def settings_csv(plans: Sequence[PlanResults]) -> str:
    """Return the parameters behind every cell, and its timings."""
    rows = [
        (
            *(results.plan.name, *one.cell.group, f"{one.cell.rate:g}", one.selection),
            *("yes" if one.uses_labels else "no", one.setting.label, len(one.tried), len(one.trials)),
            *(_decimals(one.seconds, 3), _decimals(one.transform_seconds, 3)),
        )
        for results in plans
        for one in results.selected
    ]
    columns = "plan dataset method transform shuffle_rate selection uses_labels setting settings_tried trials seconds"
    return _csv(f"{columns} transform_seconds", rows)


def deviations_csv(plans: Sequence[PlanResults]) -> str:
    """Return the cells more than 2 points below the paper, with settings selected as in the paper."""
    rows = [
        (
            *(results.plan.name, *one.cell.group, metric, one.selection),
            *(_decimals(paper.mean), _decimals(one.figure(metric).mean), _decimals(one.difference(metric))),
            *(one.grid_label, one.setting.label, _tried_in_words(results, one)),
        )
        for results in plans
        for one in results.tensors
        if one.selection == ORACLE or not one.cell.grid
        for metric in METRICS
        if (paper := one.paper(metric)) is not None and (one.difference(metric) or 0.0) < -NEAR
    ]
    columns = "plan dataset method transform metric selection paper ours difference grid best_setting tried"
    return _csv(columns, rows)


def grid_edges_csv(plans: Sequence[PlanResults]) -> str:
    """Return the parameters whose best value is the last that may be tried, with the ACC there and a step inside."""
    rows = [
        (
            *(results.plan.name, *edge.one.cell.group, f"{edge.one.cell.rate:g}", edge.parameter),
            *(edge.value, edge.lowest, edge.highest, _decimals(edge.accuracy), _decimals(edge.inside)),
        )
        for results in plans
        for edge in results.edges
    ]
    columns = "plan dataset method transform shuffle_rate parameter value lowest highest screened_ACC ACC_inside"
    return _csv(columns, rows)


def comparisons_csv(compared: Sequence[Compared]) -> str:
    """Return the average ranks of all pairs of candidates, and the Wilcoxon tests between them."""
    rows = []
    for one in compared:
        ranks = dict(zip(one.comparison.names, one.comparison.ranks, strict=True))
        for pair in one.comparison.pairs:
            names = pair.first, f"{ranks[pair.first]:.3f}", pair.second, f"{ranks[pair.second]:.3f}"
            tests = f"{pair.difference:.2f}", f"{pair.p_value:.3g}", f"{pair.corrected:.3g}"
            cases = len(one.comparison.scores)
            rows.append((one.heading, one.what, one.selection, cases, *names, pair.wins, pair.losses, *tests))
    columns = "benchmark what selection cases first first_rank second second_rank wins losses mean_difference p p_holm"
    return _csv(columns, rows)


def comparisons_latex(compared: Sequence[Compared]) -> str:
    """Return a table of the transforms per benchmark and selection: ranks, and p-values against the first."""
    parts = ["% Needs booktabs."]
    for one in compared:
        if not one.what.startswith("transforms"):
            continue
        found = one.comparison
        against = {pair.second: pair for pair in found.pairs if pair.first == found.names[0]}
        rows = []
        for name, average in zip(found.names, found.ranks, strict=True):
            pair = against.get(name)
            tests = (
                ["--"] * 3
                if pair is None
                else [f"{pair.wins}/{pair.losses}", f"{pair.difference:.1f}", f"{pair.corrected:.2g}"]
            )
            rows.append(" & ".join([name.translate(_TEX), f"{average:.2f}", *tests]))
        title = f"{one.heading}: {one.what}, {one.selection} settings, {len(found.scores)} cases"
        head = [
            "Transform",
            "Average rank",
            "Wins/losses of the first",
            "Points below the first",
            "$p$ (Wilcoxon, Holm)",
        ]
        parts.append(_latex_frame(f"{title}. Friedman test: p = {found.p_value:.2g}", "lrrrr", head, rows))
    return "\n\n".join(parts) + "\n"


def _latex_frame(title: str, align: str, head: Sequence[str], rows: Sequence[str], foot: str = "") -> str:
    return files(__package__).joinpath("table.tex").read_text(encoding="utf-8").rstrip() % {
        "title": title.translate(_TEX),
        "align": align,
        "head": " & ".join(head),
        "rows": " \\\\\n".join(rows),
        "foot": foot,
    }


def _tried_in_words(results: PlanResults, one: Selected) -> str:
    """Return how many settings and trials a cell had, and the notes of the plan on it."""
    plan = results.plan
    words = [f"{len(one.tried)} settings, {plan.trials} trials each"]
    if plan.screen_trials is not None and one.cell.grid:
        screening = f"{len(one.tried)} settings in {plan.screen_trials} trial(s)"
        words = [f"{screening}, the best {plan.screen_keep} in {plan.trials}"]
    if (default := results.counterpart(one, selection=DEFAULT)) is not None:
        words.append(f"the defaults reach ACC {default.accuracy:.2f}")
    ends = [edge.parameter for edge in results.edges if edge.one is one]
    words += [f"the best {', '.join(ends)} is at the end of its grid"] if ends else []
    return "; ".join([*words, *[_OWN_FEATURES] * one.own_features, *results.remarks(one)])


def latex(results: PlanResults) -> str:
    """Return a table per data set, shuffle rate and selection: our figures, and the paper's where it has one."""
    parts = [
        f"% {results.plan.title}. Made by: {results.command}".rstrip(": "),
        f"% Needs booktabs. An arrow marks a mean more than {NEAR:.0f} points above or below the paper.",
    ]
    for data, rate, selection in product(results.plan.datasets, results.plan.shuffle_rates, (ORACLE, DEFAULT)):
        place = data.name, rate, selection
        rows = [one for one in results.selected if (one.cell.dataset, one.cell.rate, one.selection) == place]
        parts += [_latex_table(rows, results.plan.trials)] if rows else []
    return "\n\n".join(parts) + "\n"


def _latex_table(cells: Sequence[Selected], n_trials: int) -> str:
    first = cells[0]
    chosen = {ORACLE: "settings with the best mean ACC: uses labels", DEFAULT: "default settings: no labels"}
    title = f"{first.cell.dataset}: mean(std) over {n_trials} trials, {chosen[first.selection]}"
    title += "" if first.cell.rate == 1 else f"; {first.cell.rate:.0%} of the samples shuffled"
    title += f"; {_OWN_FEATURES}" * first.own_features
    mark, rows = r"\textsuperscript{*}", []
    for one in cells:
        names = [one.cell.method.translate(_TEX), one.cell.transform.translate(_TEX) + mark * one.cell.uses_labels]
        rows.append(" & ".join([*names, *(_latex_cell(one, metric) for metric in METRICS)]))
    foot = f"\n\\par\\footnotesize{mark} The graph is built from the labels."
    title += ". The paper's figures are in square brackets" if any(one.paper("ACC") for one in cells) else ""
    align, head = "ll" + "r" * len(METRICS), ["Method", "Transform", *METRICS]
    return _latex_frame(title, align, head, rows, foot if any(one.cell.uses_labels for one in cells) else "")


def _latex_cell(one: Selected, metric: str) -> str:
    ours, paper, gap = one.figure(metric).text(), one.paper(metric), one.difference(metric)
    if paper is None or gap is None:
        return ours
    arrow = r"$\uparrow$" if gap > NEAR else r"$\downarrow$" if gap < -NEAR else ""
    return f"{ours}{arrow} [{paper.text()}]"


_OF_A_PLAN = {".csv": figures_csv, ".tex": latex}
