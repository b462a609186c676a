"""The page about a file of results."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from ..report._page import Html, Section, bullets, callout, code, element, facts, join, page, paragraph, table
from ._export import FAR_BELOW, grid_in_words, number, remarks
from ._methods import BASELINES
from ._statistics import Ranking, rank
from ._tables import DEFAULT, METRICS, ORACLE, PlanResults, Selected
from ._words import FROM_THE_DATA, Finding, findings

_MARKS = {"Held": "good", "Held in part": "info", "Did not hold": "warning", "Seen": "info"}
_SELECTIONS = {ORACLE: "oracle (uses labels)", DEFAULT: "default"}
_NO_FIGURE = "–"
# From this difference on, in points, a cell is called above or below the paper's.
_NEAR = 1.0


def results_page(name: str, plans: Sequence[PlanResults]) -> str:
    """Return the document about the plans in a file."""
    sections = [Section("held", "What held and what did not", _held(plans))]
    for results in plans:
        key = f"plan-{results.plan.name}"
        sections.append(Section(key, f"{results.plan.name}: {results.plan.title}", _plan_body(results)))
    sections += [
        Section("ranks", "Ranks", _ranks(plans)),
        Section("times", "Times", _times(plans)),
        Section("settings", "Settings and grids", _settings(plans)),
        Section("protocol", "Protocol, environment and plans", _protocol(plans)),
    ]
    script = files(__package__).joinpath("table.js").read_text(encoding="utf-8")
    lead = "Ours beside the paper's, and beside methods that have no tensor."
    foot = f"Made from {name} by tensormvc bench report."
    return page("Benchmark of tensor multi-view clustering", lead, _head(plans), sections, foot, script=script)


def _head(plans: Sequence[PlanResults]) -> Html:
    missing = sum(results.n_missing for results in plans)
    shown: list[tuple[str, str]] = [("plans", ", ".join(results.plan.name for results in plans))]
    shown.append(("fits", f"{sum(results.n_fits for results in plans) - missing:,}"))
    for results in plans:
        near, total = results.n_below(FAR_BELOW, ORACLE)
        if total:
            shown.append((f"{results.plan.name}: ACC within 2 points or above", f"{near} of {total}"))
    notes = []
    if missing:
        notes.append(
            callout("warning", f"Not finished: {missing} fits are missing; cells without all trials are left out.")
        )
    failed = [(results, failure) for results in plans for failure in results.failures]
    if failed:
        listed = [
            f"{results.plan.name}: {cell.dataset}, {cell.method}, {cell.transform}: {count} × {error}"
            for results, (cell, error, count) in failed
        ]
        notes.append(callout("warning", f"{sum(f[1][2] for f in failed)} fits failed", bullets(listed)))
    return join([facts(shown), *notes])


def _held(plans: Sequence[PlanResults]) -> list[Html]:
    body = []
    for results in plans:
        found = findings(results)
        if not found:
            continue
        body.append(element("h3", results.plan.name))
        body += [_finding(one) for one in found]
        if results.plan.notes:
            body.append(bullets(_note(note) for note in results.plan.notes))
    return body or [paragraph("There are no complete cells yet.")]


def _finding(one: Finding) -> Html:
    kind: Any = _MARKS[one.verdict]
    return callout(kind, f"{one.verdict}.", paragraph(one.text))


def _note(note: Any) -> str:
    where = ", ".join(part for part in (note.dataset, note.method, note.transform) if part)
    return f"{where}: {note.text}" if where else note.text


def _plan_body(results: PlanResults) -> list[Html]:
    body = [paragraph(_what_selections_mean(results))]
    own = [data.name for data in results.plan.datasets if data.name.endswith("_recomputed")]
    if own:
        body.append(
            callout(
                "info",
                f"Own features: {', '.join(own)}",
                paragraph(
                    "These have the paper's samples and features "
                    "recomputed by us; the paper's figures beside them are of other features, and are not "
                    "counted as met or missed."
                ),
            )
        )
    for data in results.plan.datasets:
        for rate in results.plan.shuffle_rates:
            for selection in (ORACLE, DEFAULT):
                body += _matrix(results, data.name, rate, selection)
    body += _closeness(results)
    body += _everything(results)
    return body


def _what_selections_mean(results: PlanResults) -> str:
    text = (
        f"Means over {results.plan.trials} trials, each with its own permutation of the samples and its own seed, "
        "in percent; "
        "standard deviations (with n − 1) in brackets. Oracle: the setting of the grid with the best mean ACC, "
        "which looks "
        "at the labels, as papers do. Default: our defaults, which do not. GFT(Ideal) has its graph from the labels. "
        "Baselines are not tuned; the best single view is chosen by the labels."
    )
    if results.plan.screen_trials is not None:
        text += (
            f" The grid is thinned: all settings run in {results.plan.screen_trials} trial(s), the best "
            f"{results.plan.screen_keep} of a cell in all."
        )
    return text


def _mean_std(mean: float, std: float | None) -> str:
    return number(mean) + ("" if std is None else f" ({number(std)})")


def _gap(gap: float | None) -> Html | str:
    """Return a difference to the paper with a sign and a mark, which say what the colour says."""
    if gap is None:
        return _NO_FIGURE
    kind, mark = ("above", "▲") if gap >= _NEAR else ("below", "▼") if gap <= -_NEAR else ("near", "≈")
    return element("span", f"{gap:+.1f} {mark}".replace("-", "−"), class_=f"gap {kind}")


def _label(transform: str, uses_labels: bool) -> str:
    return f"{transform} (labels)" if uses_labels else transform


def _matrix(results: PlanResults, dataset: str, rate: float, selection: str) -> list[Html]:
    """Return ACC of methods by transforms, as the paper lays it out."""
    names = [transform.name for transform in results.plan.transforms]
    rows, labelled = [], set()
    for method in results.plan.methods:
        found = [results.find(dataset, method.name, name, selection, rate) for name in names]
        labelled |= {one.cell.transform for one in found if one is not None and one.cell.uses_labels}
        if any(found):
            rows.append([method.name, *(_matrix_cell(one) for one in found)])
    if not rows:
        return []
    columns = ["Method", *(_label(name, name in labelled) for name in names)]
    shuffled = "" if rate == 1 else f", {rate:.0%} shuffled"
    caption = f"{dataset}{shuffled}: ACC, {_SELECTIONS[selection]}; the paper's and the difference below"
    return [table(caption, columns, rows, "l" * len(columns))]


def _matrix_cell(one: Selected | None) -> Any:
    if one is None:
        return _NO_FIGURE
    ours = _mean_std(one.mean("ACC"), one.std("ACC"))
    paper = one.paper("ACC")
    if paper is None:
        return ours
    return join(
        [ours, element("br"), element("span", number(paper.mean), class_="note"), " ", _gap(one.difference("ACC"))]
    )


def _closeness(results: PlanResults) -> list[Html]:
    """Return how many cells are close to the paper's."""
    rows = []
    for selection in (ORACLE, DEFAULT):
        for metric in METRICS:
            pairs = [
                (one.cell.transform, gap)
                for one in results.tensors
                if one.selection == selection and not one.own_features and (gap := one.difference(metric)) is not None
            ]
            for name, gaps in (
                ("all", [gap for _, gap in pairs]),
                ("GFT(SimG), GFT(GMC), AGFT", [gap for transform, gap in pairs if transform in FROM_THE_DATA]),
            ):
                if gaps:
                    within = [sum(abs(gap) <= points for gap in gaps) for points in (1, 2, 5)]
                    reached = sum(gap >= -FAR_BELOW for gap in gaps)
                    mean = f"{np.mean(gaps):+.1f}".replace("-", "−")
                    rows.append([_SELECTIONS[selection], name, metric, len(gaps), *within, reached, mean])
    if not rows:
        return []
    columns = [
        *("Selection", "Transforms", "Metric", "Cells", "within 1", "within 2", "within 5"),
        *("within 2 or above", "mean difference"),
    ]
    caption = "Cells within 1, 2 and 5 points of the paper's"
    return [_explorer(table(caption, columns, rows, "lllrrrrrr"), (0, 1, 2), "Metric=ACC")]


def _explorer(made: Html, columns: Sequence[int], start: str) -> Html:
    """Return a table that the script lets be sorted, and filtered by these columns."""
    return element("div", made, data_filters=" ".join(map(str, columns)), data_start=start)


def _everything(results: PlanResults) -> list[Html]:
    several = len(results.plan.shuffle_rates) > 1
    rows = []
    for one in results.selected:
        for metric in METRICS:
            paper = one.paper(metric)
            rows.append(
                [
                    one.cell.dataset + (" (own features)" if one.own_features else ""),
                    one.cell.method,
                    _label(one.cell.transform, one.cell.uses_labels),
                    *([f"{one.cell.rate:g}"] if several else []),
                    metric,
                    _SELECTIONS[one.selection],
                    _mean_std(one.mean(metric), one.std(metric)),
                    _NO_FIGURE if paper is None else _mean_std(paper.mean, paper.std),
                    _gap(one.difference(metric)),
                ]
            )
    if not rows:
        return []
    columns = ["Data set", "Method", "Transform", *(["Shuffle rate"] if several else []), "Metric", "Selection"]
    filters = range(len(columns))
    caption = f"Every figure of {results.plan.name}"
    made = table(caption, [*columns, "Ours", "Paper", "Difference"], rows, "l" * len(columns) + "rrr")
    return [_explorer(made, tuple(filters), "Metric=ACC")]


def _ranks(plans: Sequence[PlanResults]) -> list[Html]:
    body = [
        paragraph(
            "Rank 1 is the best ACC; equal values share ranks. Two average ranks that differ by less than the critical "
            "difference (Nemenyi, 5 %) are not told apart; p is that of Friedman's test that all are alike. "
            "Cases that share "
            "a data set are not independent, so that both are too sure of themselves. With few cases little can "
            "be told."
        )
    ]
    for results in plans:
        for selection in (ORACLE, DEFAULT):
            body += _ranked_transforms(results, selection)
            body += _ranked_methods(results, selection)
    return body if len(body) > 1 else [paragraph("There are not enough complete cells to rank.")]


def _ranked_transforms(results: PlanResults, selection: str) -> list[Html]:
    names = [transform.name for transform in results.plan.transforms if transform.basis != "gft-ideal"]
    cases = sorted({(one.cell.dataset, one.cell.method, one.cell.rate) for one in results.tensors})
    scores = [
        [one.mean("ACC") if (one := results.find(d, m, name, selection, rate)) else np.nan for name in names]
        for d, m, rate in cases
    ]
    title = f"{results.plan.name}: transforms over pairs of data set and method, {_SELECTIONS[selection]}"
    return _rank_table(title, names, scores)


def _ranked_methods(results: PlanResults, selection: str) -> list[Html]:
    """Rank every method with every transform that needs no labels, and the baselines, over the data sets."""
    names = [(baseline, "none") for baseline in (BASELINES[key].title for key in results.plan.baselines)]
    names += [
        (method.name, transform.name)
        for method in results.plan.methods
        for transform in results.plan.transforms
        if transform.basis != "gft-ideal"
    ]
    cases = [(data.name, rate) for data in results.plan.datasets for rate in results.plan.shuffle_rates]
    scores = []
    for dataset, rate in cases:
        row = []
        for method, transform in names:
            one = results.find(dataset, method, transform, selection, rate)
            if one is None and transform == "none" and selection == ORACLE:
                one = results.find(dataset, method, transform, DEFAULT, rate)  # untuned either way
            row.append(np.nan if one is None else one.mean("ACC"))
        scores.append(row)
    array = np.array(scores, dtype=np.float64).reshape(len(cases), len(names))
    there = ~np.isnan(array).any(axis=0)
    title = f"{results.plan.name}: methods and baselines over data sets, {_SELECTIONS[selection]}"
    labels = [method if transform == "none" else f"{method}, {transform}" for method, transform in names]
    return _rank_table(title, [labels[i] for i in np.flatnonzero(there)], array[:, there].tolist())


def _rank_table(title: str, names: list[str], scores: list[list[float]]) -> list[Html]:
    array = np.array(scores, dtype=np.float64).reshape(len(scores), len(names))
    array = array[~np.isnan(array).any(axis=1)]
    if len(array) < 2 or len(names) < 2:
        return []
    found: Ranking = rank(names, array)
    order = np.argsort(found.ranks, kind="stable")
    best = found.ranks[order[0]]
    rows = [
        [names[i], f"{found.ranks[i]:.2f}", "no" if found.ranks[i] - best < found.critical_difference else "yes"]
        for i in order
    ]
    caption = (
        f"{title}: {found.n_cases} cases, critical difference {found.critical_difference:.2f}, p = {found.p_value:.2g}"
    )
    return [table(caption, ["Candidate", "Average rank", "Told apart from the first"], rows, "lrr")]


def _times(plans: Sequence[PlanResults]) -> list[Html]:
    rows = []
    for results in plans:
        for one in results.selected:
            of_transform = one.transform_seconds
            main = one.seconds - (of_transform or 0.0)
            paper = [one.paper("seconds"), one.paper("transform seconds")]
            rows.append(
                [
                    results.plan.name,
                    one.cell.dataset + (" (own features)" if one.own_features else ""),
                    one.cell.method,
                    one.cell.transform,
                    _SELECTIONS[one.selection],
                    f"{main:.2f}",
                    _NO_FIGURE if of_transform is None else f"{of_transform:.2f}",
                    *(_NO_FIGURE if figure is None else number(figure.mean) for figure in paper),
                ]
            )
    if not rows:
        return [paragraph("Nothing has been timed yet.")]
    columns = [
        *("Plan", "Data set", "Method", "Transform", "Selection"),
        *("Seconds without transform", "Seconds of transform", "Paper, without", "Paper, transform"),
    ]
    note = paragraph(
        "Mean seconds of a fit on the machine that ran it, alone or beside other fits: see the environment. The "
        "paper's are "
        "of its own machine and programs.",
        class_="note",
    )
    return [note, _explorer(table("Seconds of a fit", columns, rows, "lllllrrrr"), (0, 1, 2, 3, 4), "")]


def _settings(plans: Sequence[PlanResults]) -> list[Html]:
    rows = [
        [
            one.cell.dataset,
            one.cell.method,
            one.cell.transform,
            _SELECTIONS[one.selection],
            one.setting.label,
            grid_in_words(one) if one.selection == ORACLE else _NO_FIGURE,
            "; ".join(remarks(results, one)) or _NO_FIGURE,
        ]
        for results in plans
        for one in results.selected
    ]
    if not rows:
        return [paragraph("There are no complete cells yet.")]
    columns = ["Data set", "Method", "Transform", "Selection", "Setting", "Grid", "Remarks"]
    return [_explorer(table("Chosen settings", columns, rows, "llllppp"), (0, 1, 2, 3), "")]


def _protocol(plans: Sequence[PlanResults]) -> list[Html]:
    body = [
        table(
            "Data sets",
            ["Data set", "Samples", "Classes", "Features of the views", "Hash of the contents"],
            [
                [name, fact.n_samples, fact.n_clusters, ", ".join(map(str, fact.n_features)), fact.digest]
                for name, fact in {name: fact for results in plans for name, fact in results.facts.items()}.items()
            ],
            "lrrll",
        )
    ]
    rows = {key: results.rows[key] for results in plans for key in results.keys & results.rows.keys()}
    environments = Counter(json.dumps(row.environment, sort_keys=True) for row in rows.values())
    body += [
        table(
            f"Environment of {count} fits",
            ["What", "Value"],
            [[name, _plain(value)] for name, value in json.loads(text).items()],
            "ll",
        )
        for text, count in environments.most_common()
    ]
    for results in plans:
        body.append(element("h3", results.plan.name))
        if results.command:
            body.append(code(results.command))
        body.append(element("details", element("summary", f"The plan {results.plan.name}"), code(results.plan.text)))
    return body


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={part}" for name, part in value.items()) or "as the libraries choose"
    return str(value)
