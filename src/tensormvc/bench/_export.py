"""The figures as CSV and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from ._tables import DEFAULT, METRICS, ORACLE, PlanResults, Selected

# Cells so many points below the paper's are listed with what was tried.
FAR_BELOW = 2.0
_COLUMNS = ("dataset", "method", "transform", "metric", "selection", "mean", "std")
_TEX = {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "$": r"\$", "{": r"\{", "}": r"\}", "−": "$-$"}


def number(value: float | None) -> str:
    """Return a figure as the paper prints it."""
    return "" if value is None else f"{value:.2f}"


def _csv(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue()


def figures_csv(results: PlanResults) -> str:
    """Return mean and standard deviation of every metric, with a column more where there are several shuffle rates.

    A plan about seconds has them among its metrics: of the whole fit, and of building its transform.
    """
    several = len(results.plan.shuffle_rates) > 1
    rows = [
        (
            *(one.cell.dataset, one.cell.method, one.cell.transform, metric, one.selection, number(mean), number(std)),
            *([f"{one.cell.rate:g}"] if several else []),
        )
        for one in results.selected
        for metric, mean, std in [
            *((metric, one.mean(metric), one.std(metric)) for metric in METRICS),
            *(_seconds(one) if results.plan.paper == "runtime" else []),
        ]
    ]
    return _csv([*_COLUMNS, *(["shuffle_rate"] if several else [])], rows)


def _seconds(one: Selected) -> list[tuple[str, float, None]]:
    found: list[tuple[str, float, None]] = [("seconds", one.seconds, None)]
    if one.transform_seconds is not None:
        found.append(("seconds of the transform", one.transform_seconds, None))
    return found


def settings_csv(plans: Sequence[PlanResults]) -> str:
    """Return the parameters behind every cell, and its times."""
    rows = [
        (
            *(results.plan.name, one.cell.dataset, one.cell.method, one.cell.transform, f"{one.cell.rate:g}"),
            *(one.selection, "yes" if one.uses_labels else "no", one.setting.label, one.n_settings, len(one.rows)),
            *(f"{one.seconds:.3f}", "" if one.transform_seconds is None else f"{one.transform_seconds:.3f}"),
        )
        for results in plans
        for one in results.selected
    ]
    columns = [
        *("plan", "dataset", "method", "transform", "shuffle_rate", "selection", "uses_labels", "setting"),
        *("settings_tried", "trials", "seconds", "transform_seconds"),
    ]
    return _csv(columns, rows)


def deviations_csv(plans: Sequence[PlanResults]) -> str:
    """Return the cells that are far below the paper's, under the paper's own way to choose settings."""
    columns = [
        *("plan", "dataset", "method", "transform", "metric", "selection", "paper", "ours", "difference"),
        *("grid", "best_setting", "tried"),
    ]
    rows = [
        (
            *(results.plan.name, one.cell.dataset, one.cell.method, one.cell.transform, metric, one.selection),
            *(number(paper.mean), number(one.mean(metric)), number(one.difference(metric))),
            *(grid_in_words(one), one.setting.label, tried_in_words(results, one)),
        )
        for results in plans
        for one in results.tensors
        if one.selection == ORACLE or not one.cell.grid
        for metric in METRICS
        if (paper := one.paper(metric)) is not None and (one.difference(metric) or 0.0) < -FAR_BELOW
    ]
    return _csv(columns, rows)


def grid_in_words(one: Selected) -> str:
    """Return the values that were tried of each parameter."""
    values: dict[str, list[str]] = {}
    for setting in one.cell.grid:
        for name, value in setting.written.items():
            if str(value) not in values.setdefault(name, []):
                values[name].append(str(value))
    return "; ".join(f"{name}: {', '.join(listed)}" for name, listed in values.items()) or "defaults only"


def tried_in_words(results: PlanResults, one: Selected) -> str:
    """Return how much was tried for a cell, and the remarks of the plan on it."""
    plan = results.plan
    words = f"{one.n_settings} settings, {plan.trials} trials each"
    if plan.screen_trials is not None and one.cell.grid:
        words = (
            f"{one.n_settings} settings in {plan.screen_trials} trial(s), the best {plan.screen_keep} in {plan.trials}"
        )
    default = results.find(one.cell.dataset, one.cell.method, one.cell.transform, DEFAULT, one.cell.rate)
    if default is not None:
        words += f"; the defaults reach ACC {number(default.mean('ACC'))}"
    if one.own_features:
        words += "; features are our own, not the paper's"
    return "; ".join([words, *remarks(results, one)])


def remarks(results: PlanResults, one: Selected) -> list[str]:
    """Return the remarks of the plan on a cell; a remark that leaves something out is on all of it."""
    cell = one.cell
    return [
        note.text
        for note in results.plan.notes
        if note.dataset in ("", cell.dataset)
        and note.method in ("", cell.method)
        and note.transform in ("", cell.transform)
    ]


def _tex(text: str) -> str:
    return "".join(_TEX.get(letter, letter) for letter in text)


def latex(results: PlanResults) -> str:
    """Return a table for each data set and selection: ours, and the paper's in brackets where it has a figure."""
    parts = [
        f"% {results.plan.title}. Made by: {results.command}".rstrip(": "),
        "% Needs booktabs. An arrow marks a mean more than 2 points above or below the paper's.",
    ]
    for data in results.plan.datasets:
        for rate in results.plan.shuffle_rates:
            for selection in (ORACLE, DEFAULT):
                rows = [
                    one
                    for one in results.selected
                    if (one.cell.dataset, one.cell.rate, one.selection) == (data.name, rate, selection)
                ]
                if rows:
                    parts.append(_latex_table(results, data.name, rate, selection, rows))
    return "\n\n".join(parts) + "\n"


def _latex_table(results: PlanResults, dataset: str, rate: float, selection: str, rows: Sequence[Selected]) -> str:
    chosen = "settings with the best mean ACC: uses labels" if selection == ORACLE else "default settings: no labels"
    title = f"{dataset}: mean(std) over {results.plan.trials} trials, {chosen}"
    if rate != 1:
        title += f"; {rate:.0%} of the samples shuffled"
    if rows[0].own_features:
        title += "; features are our own, not the paper's"
    lines = [
        r"\begin{table}",
        rf"\caption{{{_tex(title)}. The paper's in brackets.}}",
        rf"\begin{{tabular}}{{ll{'r' * len(METRICS)}}}",
        r"\toprule",
        " & ".join(["Method", "Transform", *METRICS]) + r" \\",
        r"\midrule",
    ]
    for one in rows:
        mark = r"\textsuperscript{*}" if one.cell.uses_labels else ""
        cells = [_latex_cell(one, metric) for metric in METRICS]
        lines.append(" & ".join([_tex(one.cell.method), _tex(one.cell.transform) + mark, *cells]) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    if any(one.cell.uses_labels for one in rows):
        lines.append(r"\par\footnotesize\textsuperscript{*} The graph is made of the labels.")
    return "\n".join([*lines, r"\end{table}"])


def _latex_cell(one: Selected, metric: str) -> str:
    std = one.std(metric)
    text = number(one.mean(metric)) + ("" if std is None else f"({number(std)})")
    paper, gap = one.paper(metric), one.difference(metric)
    if paper is None or gap is None:
        return text
    arrow = r"$\uparrow$" if gap > FAR_BELOW else r"$\downarrow$" if gap < -FAR_BELOW else ""
    theirs = number(paper.mean) + ("" if paper.std is None else f"({number(paper.std)})")
    return f"{text}{arrow} [{theirs}]"
