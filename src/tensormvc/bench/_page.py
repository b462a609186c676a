"""The HTML report on a results file."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.resources import files
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..report._page import Html, Section, bullets, callout, code, element, facts, join, page, paragraph, table
from ._cells import NO_TRANSFORM
from ._methods import BASELINES
from ._plan import Note
from ._statistics import rank
from ._store import METRICS
from ._tables import DEFAULT, ORACLE, PlanResults, Selected
from ._words import DATA_ADAPTIVE, NEAR, TEXTS, findings

_MARKS: dict[str, Any] = {"Held": "good", "Held in part": "info", "Did not hold": "warning", "Observed": "info"}
_SELECTIONS = {ORACLE: "oracle (uses labels)", DEFAULT: "default"}
_NO_FIGURE = "–"
# Points within which a figure is marked as equal to that of the paper.
_EQUAL = 1.0


def results_page(name: str, plans: Sequence[PlanResults]) -> str:
    """Return the HTML report on the plans in a results file of this name."""
    sections = [
        Section("held", "Which claims hold", _held(plans)),
        *(Section(f"plan-{one.plan.name}", f"{one.plan.name}: {one.plan.title}", _plan_body(one)) for one in plans),
        Section("ranks", "Ranks", _ranks(plans)),
        Section("times", "Timings", _times(plans)),
        Section("settings", "Settings and grids", _settings(plans)),
        Section("protocol", "Protocol, environment and plans", _protocol(plans)),
    ]
    script = files(__package__).joinpath("table.js").read_text(encoding="utf-8")
    title, foot = "Benchmark of tensor multi-view clustering", TEXTS["foot"].format(name=name)
    return page(title, TEXTS["lead"], _head(plans), sections, foot, script=script)


def _head(plans: Sequence[PlanResults]) -> Html:
    missing = sum(results.n_missing for results in plans)
    shown = [("plans", ", ".join(results.plan.name for results in plans))]
    shown.append(("fits", f"{sum(results.n_fits for results in plans) - missing:,}"))
    for results in plans:
        if gaps := [gap for _, gap in results.compared(ORACLE)]:
            near = sum(gap >= -NEAR for gap in gaps)
            shown.append((f"{results.plan.name}: ACC at most 2 points below the paper", f"{near} of {len(gaps)}"))
    notes = []
    if missing:
        notes.append(callout("warning", TEXTS["unfinished"].format(missing=missing)))
    if failures := [(results.plan.name, *failure) for results in plans for failure in results.failures]:
        listed = [f"{plan}: {', '.join(cell.group)}: {count} × {error}" for plan, cell, error, count in failures]
        notes.append(callout("warning", f"{sum(count for *_, count in failures)} fits failed", bullets(listed)))
    return join([facts(shown), *notes])


def _held(plans: Sequence[PlanResults]) -> list[Html]:
    body = []
    for results in plans:
        if found := findings(results):
            body.append(element("h3", results.plan.name))
            body += [callout(_MARKS[one.verdict], f"{one.verdict}.", paragraph(one.text)) for one in found]
            body += [bullets(map(_note, results.plan.notes))] if results.plan.notes else []
    return body or [paragraph(TEXTS["no_cells"])]


def _note(note: Note) -> str:
    where = ", ".join(filter(None, (note.dataset, note.method, note.transform)))
    return f"{where}: {note.text}" if where else note.text


def _plan_body(results: PlanResults) -> list[Html]:
    plan = results.plan
    texts = [TEXTS["selection"].format(trials=plan.trials)]
    if plan.screen_trials is not None:
        texts.append(TEXTS["screen"].format(trials=plan.screen_trials, keep=plan.screen_keep))
    body = [paragraph(" ".join(texts))]
    if own := sorted({one.cell.dataset for one in results.selected if one.own_features}):
        body.append(callout("info", f"Own features: {', '.join(own)}", paragraph(TEXTS["own_features"])))
    for data, rate, selection in product(plan.datasets, plan.shuffle_rates, (ORACLE, DEFAULT)):
        body += _matrix(results, data.name, rate, selection)
    return [*body, *_closeness(results), *_all_figures(results)]


def _gap(gap: float | None) -> Html | str:
    """Return a difference to the paper, with a sign and a mark for readers who do not see its colour."""
    if gap is None:
        return _NO_FIGURE
    kind, mark = ("above", "▲") if gap >= _EQUAL else ("below", "▼") if gap <= -_EQUAL else ("near", "≈")
    return element("span", f"{gap:+.1f} {mark}".replace("-", "−"), class_=f"gap {kind}")


def _names(one: Selected) -> list[str]:
    """Return the first columns of a table with one row per cell."""
    dataset = one.cell.dataset + (" (own features)" if one.own_features else "")
    transform = one.cell.transform + (" (labels)" if one.cell.uses_labels else "")
    return [dataset, one.cell.method, transform, _SELECTIONS[one.selection]]


def _explorer(caption: str, columns: str, rows: Sequence[Any], start: str = "") -> list[Html]:
    """Return a table that the script makes sortable, with filters for the columns of names; nothing without rows.

    `columns` are separated by bars: names, and after a colon their alignment, which is "l" by default.
    """
    names, _, align = zip(*(column.partition(":") for column in columns.split("|")), strict=True)
    letters = "".join(letter or "l" for letter in align)
    filters = " ".join(str(i) for i, letter in enumerate(letters) if letter == "l")
    whole = element("div", table(caption, names, rows, letters), data_filters=filters, data_start=start)
    return [whole] if rows else []


def _matrix(results: PlanResults, dataset: str, rate: float, selection: str) -> list[Html]:
    """Return the ACC of all methods under all transforms, in the layout of the paper."""
    rows, names = [], {transform.name: transform.name for transform in results.plan.transforms}
    for method in results.plan.methods:
        cells = [results.find(dataset, method.name, transform, selection, rate) for transform in names]
        names |= {one.cell.transform: _names(one)[2] for one in cells if one is not None}
        rows += [[method.name, *map(_matrix_cell, cells)]] if any(cells) else []
    if not rows:
        return []
    shuffled = "" if rate == 1 else f", {rate:.0%} shuffled"
    caption = f"{dataset}{shuffled}: ACC, {_SELECTIONS[selection]}; below it the paper's and the difference"
    return [table(caption, ["Method", *names.values()], rows, "l" * (len(names) + 1))]


def _matrix_cell(one: Selected | None) -> Any:
    if one is None:
        return _NO_FIGURE
    ours, paper = one.figure("ACC").text(" "), one.paper("ACC")
    if paper is None:
        return ours
    theirs = element("span", f"{paper.mean:.2f}", class_="note")
    return join([ours, element("br"), theirs, " ", _gap(one.difference("ACC"))])


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
                rows.append([_SELECTIONS[selection], name, metric, len(gaps), *within, reached, mean])
    counts = "Cells:r|within 1:r|within 2:r|within 5:r|within 2 or above:r"
    columns = f"Selection|Transforms|Metric|{counts}|mean difference:r"
    return _explorer("Cells within 1, 2 and 5 points of the paper", columns, rows, start="Metric=ACC")


def _all_figures(results: PlanResults) -> list[Html]:
    several = len(results.plan.shuffle_rates) > 1
    rows = []
    for one, metric in product(results.selected, METRICS):
        *place, selection = _names(one)
        rate, paper = [f"{one.cell.rate:g}"] * several, one.paper(metric)
        figures = [_NO_FIGURE if figure is None else figure.text(" ") for figure in (one.figure(metric), paper)]
        rows.append([*place, *rate, metric, selection, *figures, _gap(one.difference(metric))])
    names = "Data set|Method|Transform|" + "Shuffle rate|" * several + "Metric|Selection"
    columns = f"{names}|Ours:r|Paper:r|Difference:r"
    return _explorer(f"Every figure of {results.plan.name}", columns, rows, start="Metric=ACC")


def _ranks(plans: Sequence[PlanResults]) -> list[Html]:
    ranked = [html for results in plans for selection in (ORACLE, DEFAULT) for html in _rank_tables(results, selection)]
    return [paragraph(TEXTS["ranks"]), *ranked] if ranked else [paragraph(TEXTS["no_ranks"])]


def _rank_tables(results: PlanResults, selection: str) -> list[Html]:
    """Rank the transforms that need no labels, then the baselines and the methods under these transforms."""
    plan = results.plan
    transforms = [transform.name for transform in plan.transforms if transform.basis != "gft-ideal"]
    cases = sorted({(one.cell.dataset, one.cell.method, one.cell.rate) for one in results.tensors})
    places = [[(dataset, method, name, selection, rate) for name in transforms] for dataset, method, rate in cases]
    scores = _accuracies(results, places)
    title = f"{plan.name}: transforms over pairs of data set and method, {_SELECTIONS[selection]}"
    tables = _rank_table(title, transforms, scores[~np.isnan(scores).any(axis=1)])

    candidates = [(BASELINES[key].title, NO_TRANSFORM) for key in plan.baselines]
    candidates += product([method.name for method in plan.methods], transforms)
    rows = product([data.name for data in plan.datasets], plan.shuffle_rates)
    places = [[(dataset, *candidate, selection, rate) for candidate in candidates] for dataset, rate in rows]
    scores = _accuracies(results, places)
    complete = np.flatnonzero(~np.isnan(scores).any(axis=0))
    names = [", ".join(candidate).removesuffix(f", {NO_TRANSFORM}") for candidate in candidates]
    title = f"{plan.name}: methods and baselines over data sets, {_SELECTIONS[selection]}"
    return tables + _rank_table(title, [names[i] for i in complete], scores[:, complete])


def _accuracies(results: PlanResults, places: list[list[tuple[Any, ...]]]) -> NDArray[np.float64]:
    """Return the mean ACC at each place, or NaN; a baseline that is not tuned has the same under both selections."""

    def accuracy(dataset: str, method: str, transform: str, selection: str, rate: float) -> float:
        one = results.find(dataset, method, transform, selection, rate)
        if one is None and transform == NO_TRANSFORM and selection == ORACLE:
            one = results.find(dataset, method, transform, DEFAULT, rate)
        return np.nan if one is None else one.accuracy

    return np.array([[accuracy(*place) for place in row] for row in places], ndmin=2)


def _rank_table(title: str, names: list[str], scores: Any) -> list[Html]:
    if min(scores.shape) < 2:
        return []
    ranks, p_value, difference = rank(scores)
    rows = [
        [name, f"{average:.2f}", "no" if average - min(ranks) < difference else "yes"]
        for average, name in sorted(zip(ranks, names, strict=True), key=lambda pair: pair[0])
    ]
    caption = f"{title}: {len(scores)} cases, critical difference {difference:.2f}, p = {p_value:.2g}"
    return [table(caption, ["Candidate", "Average rank", "Significantly worse than the first"], rows, "lrr")]


def _cell_table(plans: Sequence[PlanResults], caption: str, columns: str, values: Callable[..., list[str]]) -> Html:
    """Return a table with a row for every complete cell, which ends with the `values` of the results and the cell."""
    rows = [[results.plan.name, *_names(one), *values(results, one)] for results in plans for one in results.selected]
    tables = _explorer(caption, f"Plan|Data set|Method|Transform|Selection|{columns}", rows)
    return tables[0] if tables else paragraph(TEXTS["no_cells"])


def _times(plans: Sequence[PlanResults]) -> list[Html]:
    def values(results: PlanResults, one: Selected) -> list[str]:
        transform = one.transform_seconds
        paper = [getattr(one.paper(name), "mean", None) for name in ("seconds", "transform seconds")]
        seconds = [one.seconds - (transform or 0.0), transform, *paper]
        return [_NO_FIGURE if value is None else f"{value:.2f}" for value in seconds]

    columns = "Seconds without transform:r|Seconds of transform:r|Paper, without:r|Paper, transform:r"
    return [paragraph(TEXTS["times"], class_="note"), _cell_table(plans, "Seconds per fit", columns, values)]


def _settings(plans: Sequence[PlanResults]) -> list[Html]:
    def values(results: PlanResults, one: Selected) -> list[str]:
        grid = one.grid_label if one.selection == ORACLE else _NO_FIGURE
        return [one.setting.label, grid, "; ".join(results.remarks(one)) or _NO_FIGURE]

    return [_cell_table(plans, "Selected settings", "Setting:p|Grid:p|Remarks:p", values)]


def _protocol(plans: Sequence[PlanResults]) -> list[Html]:
    data = {name: fact for results in plans for name, fact in results.facts.items()}
    listed = [
        [name, fact.n_samples, fact.n_clusters, ", ".join(map(str, fact.n_features)), fact.digest]
        for name, fact in data.items()
    ]
    columns = ["Data set", "Samples", "Classes", "Features per view", "Hash of the contents"]
    body = [table("Data sets", columns, listed, "lrrll")]
    outcomes = {key: one for results in plans for key, one in results.outcomes.items() if key in results.keys}
    environments = Counter(json.dumps(one.environment, sort_keys=True) for one in outcomes.values())
    for text, count in environments.most_common():
        values = [[name, _plain(value)] for name, value in json.loads(text).items()]
        body.append(table(f"Environment of {count} fits", ["What", "Value"], values, "ll"))
    for results in plans:
        body.append(element("h3", results.plan.name))
        body += [code(results.command)] if results.command else []
        body.append(element("details", element("summary", f"The plan {results.plan.name}"), code(results.plan.text)))
    return body


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={part}" for name, part in value.items()) or "chosen by the libraries"
    return str(value)
