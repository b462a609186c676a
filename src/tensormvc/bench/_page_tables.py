"""The tables of the HTML report, plan by plan."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from ..report._page import Html, callout, code, element, join, paragraph, table
from ._cells import NO_TRANSFORM
from ._store import METRICS
from ._tables import DEFAULT, ORACLE, PlanResults, Selected
from ._words import DATA_ADAPTIVE, NEAR, TEXTS

SELECTIONS = {ORACLE: "oracle (uses labels)", DEFAULT: "default"}
NO_FIGURE = "–"
# Points within which a figure is marked as equal to that of the paper.
_EQUAL = 1.0


def folded(summary: str, *body: Html) -> Html:
    """Return contents that open when their summary is clicked, or a link leads into them."""
    return element("details", element("summary", summary), *body)


def plan_body(results: PlanResults) -> list[Html]:
    """Return the tables of a plan, folded."""
    plan = results.plan
    texts = [f"{plan.title}.", TEXTS["selection"].format(trials=plan.trials)]
    if plan.screen_trials is not None:
        texts.append(TEXTS["screen"].format(trials=plan.screen_trials, keep=plan.screen_keep))
    body = [paragraph(" ".join(texts))]
    if own := sorted({one.cell.dataset for one in results.selected if one.own_features}):
        body.append(callout("info", f"Own features: {', '.join(own)}", paragraph(TEXTS["own_features"])))
    for data in plan.datasets:
        pairs = product(plan.shuffle_rates, (ORACLE, DEFAULT))
        tables = [html for rate, selection in pairs for html in _matrix(results, data.name, rate, selection)]
        if tables:
            whole = element("div", *tables, id=anchor(results, data.name))
            what = "Seconds" if plan.is_timed else "ACC"
            body.append(folded(f"{data.name}: {what} of every method under every transform", whole))
    if several := [*_closeness(results), *_all_figures(results)]:
        body.append(folded("All metrics, and how close they are to the paper", *several))
    return body


def anchor(results: PlanResults, dataset: str) -> str:
    """Return the id of the tables of a data set."""
    number = [data.name for data in results.plan.datasets].index(dataset)
    return f"plan-{results.plan.name}-{number}"


def gap_mark(gap: float | None) -> Html | str:
    """Return a difference to the paper, with a sign and a mark for readers who do not see its colour."""
    if gap is None:
        return NO_FIGURE
    kind, mark = ("above", "▲") if gap >= _EQUAL else ("below", "▼") if gap <= -_EQUAL else ("near", "≈")
    return element("span", f"{gap:+.1f} {mark}".replace("-", "−"), class_=f"gap {kind}")


def _names(one: Selected) -> list[str]:
    """Return the first columns of a table with one row per cell."""
    dataset = one.cell.dataset + (" (own features)" if one.own_features else "")
    transform = one.cell.transform + (" (labels)" if one.cell.uses_labels else "")
    return [dataset, one.cell.method, transform, SELECTIONS[one.selection]]


def explorer(caption: str, columns: str, rows: Sequence[Any], start: str = "") -> list[Html]:
    """Return a table that the script makes sortable, with filters for the columns of names; nothing without rows.

    `columns` are separated by bars: names, and after a colon their alignment, which is "l" by default.
    """
    names, _, align = zip(*(column.partition(":") for column in columns.split("|")), strict=True)
    letters = "".join(letter or "l" for letter in align)
    filters = " ".join(str(i) for i, letter in enumerate(letters) if letter == "l")
    whole = element("div", table(caption, names, rows, letters), data_filters=filters, data_start=start)
    return [whole] if rows else []


def _matrix(results: PlanResults, dataset: str, rate: float, selection: str) -> list[Html]:
    """Return the ACC or seconds of all methods under all transforms, as in the paper, and of the baselines."""
    shown = _seconds_cell if results.plan.is_timed else _accuracy_cell
    rows, names = [], {transform.name: transform.name for transform in results.plan.transforms}
    for method in results.plan.methods:
        cells = [results.find(dataset, method.name, transform, selection, rate) for transform in names]
        names |= {one.cell.transform: _names(one)[2] for one in cells if one is not None}
        rows += [[method.name, NO_FIGURE, *map(shown, cells)]] if any(cells) else []
    if not rows:
        return []
    for one in results.selected:
        if (one.cell.dataset, one.cell.rate, one.cell.transform) == (dataset, rate, NO_TRANSFORM):
            marked = one.cell.method + (" (labels)" if one.uses_labels else "")
            rows.append([marked, shown(one), *[NO_FIGURE] * len(names)])
    shuffled = "" if rate == 1 else f", {rate:.0%} shuffled"
    what = f"ACC, {SELECTIONS[selection]}; below it the paper's and the difference"
    if results.plan.is_timed:
        what = "seconds per fit, transform included; below them the paper's, on its own machine"
    caption = f"{dataset}{shuffled}: {what}"
    return [table(caption, ["Method", "No transform", *names.values()], rows, "l" * (len(names) + 2))]


def _accuracy_cell(one: Selected | None) -> Any:
    if one is None:
        return NO_FIGURE
    ours, paper = one.figure("ACC").text(" "), one.paper("ACC")
    if paper is None:
        return ours
    theirs = element("span", f"{paper.mean:.2f}", class_="note")
    return join([ours, element("br"), theirs, " ", gap_mark(one.difference("ACC"))])


def _seconds_cell(one: Selected | None) -> Any:
    if one is None:
        return NO_FIGURE
    parts = [part.mean for name in ("seconds", "transform seconds") if (part := one.paper(name)) is not None]
    theirs = [element("br"), element("span", f"{sum(parts):.1f}", class_="note")] if parts else []
    return join([f"{one.seconds:.1f}", *theirs])


def _closeness(results: PlanResults) -> list[Html]:
    """Return how many cells are close to the paper."""
    rows = []
    for selection, metric in product((ORACLE, DEFAULT), METRICS):
        compared = results.compared(selection, metric)
        adaptive = [(one, gap) for one, gap in compared if one.cell.transform in DATA_ADAPTIVE]
        for name, pairs in (("all", compared), (", ".join(DATA_ADAPTIVE), adaptive)):
            if pairs:
                gaps = np.array([gap for _, gap in pairs])
                within = [np.count_nonzero(abs(gaps) <= points) for points in (1, 2, 5)]
                reached, mean = np.count_nonzero(gaps >= -NEAR), f"{gaps.mean():+.1f}".replace("-", "−")
                rows.append([SELECTIONS[selection], name, metric, len(gaps), *within, reached, mean])
    counts = "Cells:r|within 1:r|within 2:r|within 5:r|within 2 or above:r"
    columns = f"Selection|Transforms|Metric|{counts}|mean difference:r"
    return explorer("Cells within 1, 2 and 5 points of the paper", columns, rows, start="Metric=ACC")


def _all_figures(results: PlanResults) -> list[Html]:
    several = len(results.plan.shuffle_rates) > 1
    rows = []
    # With several shuffle rates, the page has room for one metric; the CSV file has all.
    for one, metric in product(results.selected, METRICS[:1] if several else METRICS):
        *place, selection = _names(one)
        rate, paper = [f"{one.cell.rate:g}"] * several, one.paper(metric)
        figures = [NO_FIGURE if figure is None else figure.text(" ") for figure in (one.figure(metric), paper)]
        rows.append([*place, *rate, metric, selection, *figures, gap_mark(one.difference(metric))])
    names = "Data set|Method|Transform|" + "Shuffle rate|" * several + "Metric|Selection"
    columns = f"{names}|Ours:r|Paper:r|Difference:r"
    return explorer(f"Every figure of {results.plan.label}", columns, rows, start="Metric=ACC")


def _cell_table(plans: Sequence[PlanResults], caption: str, columns: str, values: Callable[..., list[str]]) -> Html:
    """Return a table with a row for every complete cell, which ends with the `values` of the results and the cell.

    Of several shuffle rates it has the highest; settings.csv has all.
    """
    rows = [
        [results.plan.label, *_names(one), *values(results, one)]
        for results in plans
        for one in results.selected
        if one.cell.rate == max(results.plan.shuffle_rates)
    ]
    tables = explorer(caption, f"Benchmark|Data set|Method|Transform|Selection|{columns}", rows)
    return tables[0] if tables else paragraph(TEXTS["no_cells"])


def times(plans: Sequence[PlanResults]) -> list[Html]:
    """Return the table of timings."""

    def values(results: PlanResults, one: Selected) -> list[str]:
        transform = one.transform_seconds
        paper = [getattr(one.paper(name), "mean", None) for name in ("seconds", "transform seconds")]
        seconds = [one.seconds - (transform or 0.0), transform, *paper]
        return [NO_FIGURE if value is None else f"{value:.2f}" for value in seconds]

    columns = "Seconds without transform:r|Seconds of transform:r|Paper, without:r|Paper, transform:r"
    return [paragraph(TEXTS["times"], class_="note"), _cell_table(plans, "Seconds per fit", columns, values)]


def settings(plans: Sequence[PlanResults]) -> list[Html]:
    """Return the selected settings, and those at the end of their grids."""

    def values(results: PlanResults, one: Selected) -> list[str]:
        grid = one.grid_label if one.selection == ORACLE else NO_FIGURE
        return [one.setting.label, grid, "; ".join(results.remarks(one)) or NO_FIGURE]

    edges = [
        [
            results.plan.label,
            *_names(edge.one)[:3],
            f"{edge.parameter} = {edge.value}",
            f"{edge.accuracy:.1f}",
            f"{edge.inside:.1f}",
        ]
        for results in plans
        for edge in results.edges
    ]
    columns = "Benchmark|Data set|Method|Transform|Value:r|ACC:r|ACC a step inside:r"
    return [
        paragraph(TEXTS["edges"].format(count=len(edges))),
        *explorer("Best values at the end of their grids", columns, edges),
        _cell_table(plans, "Selected settings", "Setting:p|Grid:p|Remarks:p", values),
    ]


def protocol(plans: Sequence[PlanResults]) -> list[Html]:
    """Return the data sets, the environments and the plans."""
    data = {(name, fact.digest): fact for results in plans for name, fact in results.facts.items()}
    listed = [
        [name, fact.n_samples, fact.n_clusters, ", ".join(map(str, fact.n_features)), digest]
        for (name, digest), fact in data.items()
    ]
    columns = ["Data set", "Samples", "Classes", "Features per view", "Hash of the contents"]
    body = [table("Data sets", columns, listed, "lrrll")]
    outcomes = {key: one for results in plans for key, one in results.outcomes.items() if key in results.keys}
    environments = Counter(json.dumps(one.environment, sort_keys=True) for one in outcomes.values())
    for text, count in environments.most_common():
        values = [[name, _plain(value)] for name, value in json.loads(text).items()]
        body.append(table(f"Environment of {count} fits", ["What", "Value"], values, "ll"))
    for results in plans:
        body.append(element("h3", results.plan.label))
        body += [code(results.command)] if results.command else []
        body.append(folded(f"The plan {results.plan.name}", code(results.plan.text)))
    return body


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={part}" for name, part in value.items()) or "chosen by the libraries"
    return str(value)
