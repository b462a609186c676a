"""The figures of a benchmark as CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from ._paper import Printed
from ._store import METRICS
from ._tables import DEFAULT, ORACLE, PlanResults, Selected
from ._words import NEAR

_TEX = str.maketrans({letter: f"\\{letter}" for letter in "&%_#${}"} | {"−": "$-$"})
_TEX_TABLE = r"""\begin{table}
\caption{%s. The paper's figures are in square brackets.}
\begin{tabular}{ll%s}
\toprule
%s \\
\midrule
%s \\
\bottomrule
\end{tabular}%s
\end{table}"""


def number(value: float | None) -> str:
    """Return a figure with two decimals, as in the paper; nothing for None."""
    return "" if value is None else f"{value:.2f}"


def _csv(columns: str, rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns.split())
    writer.writerows(rows)
    return text.getvalue()


def figures_csv(results: PlanResults) -> str:
    """Return the mean and the standard deviation of every metric.

    There is a column for the shuffle rate if the plan has several, and a plan about runtime has rows for the seconds of
    the whole fit and of building the transform.
    """
    several = len(results.plan.shuffle_rates) > 1
    rows = []
    for one in results.selected:
        figures = [(metric, one.mean(metric), one.std(metric)) for metric in METRICS]
        if results.plan.paper == "runtime":
            figures.append(("seconds", one.seconds, None))
            if one.transform_seconds is not None:
                figures.append(("seconds of the transform", one.transform_seconds, None))
        rate = [f"{one.cell.rate:g}"] if several else []
        rows += [
            (*one.cell.group, metric, one.selection, number(mean), number(std), *rate) for metric, mean, std in figures
        ]
    return _csv("dataset method transform metric selection mean std" + " shuffle_rate" * several, rows)


def settings_csv(plans: Sequence[PlanResults]) -> str:
    """Return the parameters behind every cell, and its timings."""
    rows = [
        (
            *(results.plan.name, *one.cell.group, f"{one.cell.rate:g}", one.selection),
            *("yes" if one.uses_labels else "no", one.setting.label, one.n_settings, len(one.rows)),
            *(f"{one.seconds:.3f}", "" if one.transform_seconds is None else f"{one.transform_seconds:.3f}"),
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
            *(number(paper.mean), number(one.mean(metric)), number(one.difference(metric))),
            *(grid_in_words(one), one.setting.label, _tried_in_words(results, one)),
        )
        for results in plans
        for one in results.tensors
        if one.selection == ORACLE or not one.cell.grid
        for metric in METRICS
        if (paper := one.paper(metric)) is not None and (one.difference(metric) or 0.0) < -NEAR
    ]
    columns = "plan dataset method transform metric selection paper ours difference grid best_setting tried"
    return _csv(columns, rows)


def grid_in_words(one: Selected) -> str:
    """Return the values that were tried for each parameter."""
    values: dict[str, dict[str, None]] = {}
    for setting in one.cell.grid:
        for name, value in setting.written.items():
            values.setdefault(name, {})[str(value)] = None
    return "; ".join(f"{name}: {', '.join(listed)}" for name, listed in values.items()) or "defaults only"


def _tried_in_words(results: PlanResults, one: Selected) -> str:
    """Return how many settings and trials a cell had, and the notes of the plan on it."""
    plan = results.plan
    words = [f"{one.n_settings} settings, {plan.trials} trials each"]
    if plan.screen_trials is not None and one.cell.grid:
        screening = f"{one.n_settings} settings in {plan.screen_trials} trial(s)"
        words = [f"{screening}, the best {plan.screen_keep} in {plan.trials}"]
    if (default := results.counterpart(one, selection=DEFAULT)) is not None:
        words.append(f"the defaults reach ACC {number(default.mean('ACC'))}")
    if one.own_features:
        words.append("features are our own, not the paper's")
    return "; ".join([*words, *remarks(results, one)])


def remarks(results: PlanResults, one: Selected) -> list[str]:
    """Return the notes of the plan on a cell."""
    return [
        note.text
        for note in results.plan.notes
        if all(
            noted in ("", name)
            for noted, name in zip((note.dataset, note.method, note.transform), one.cell.group, strict=True)
        )
    ]


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


def _latex_table(rows: Sequence[Selected], n_trials: int) -> str:
    first = rows[0]
    chosen = {ORACLE: "settings with the best mean ACC: uses labels", DEFAULT: "default settings: no labels"}
    title = f"{first.cell.dataset}: mean(std) over {n_trials} trials, {chosen[first.selection]}"
    if first.cell.rate != 1:
        title += f"; {first.cell.rate:.0%} of the samples shuffled"
    if first.own_features:
        title += "; features are our own, not the paper's"
    lines, foot = [], ""
    for one in rows:
        mark = ""
        if one.cell.uses_labels:
            mark = r"\textsuperscript{*}"
            foot = "\n" + r"\par\footnotesize\textsuperscript{*} The graph is built from the labels."
        names = [one.cell.method.translate(_TEX), one.cell.transform.translate(_TEX) + mark]
        lines.append(" & ".join([*names, *(_latex_cell(one, metric) for metric in METRICS)]))
    head = " & ".join(["Method", "Transform", *METRICS])
    return _TEX_TABLE % (title.translate(_TEX), "r" * len(METRICS), head, " \\\\\n".join(lines), foot)


def _latex_cell(one: Selected, metric: str) -> str:
    ours = _mean_std(Printed(one.mean(metric), one.std(metric)))
    paper, gap = one.paper(metric), one.difference(metric)
    if paper is None or gap is None:
        return ours
    arrow = r"$\uparrow$" if gap > NEAR else r"$\downarrow$" if gap < -NEAR else ""
    return f"{ours}{arrow} [{_mean_std(paper)}]"


def _mean_std(figure: Printed) -> str:
    return number(figure.mean) + ("" if figure.std is None else f"({number(figure.std)})")
