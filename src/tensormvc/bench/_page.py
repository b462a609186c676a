"""The HTML report on a results file: the main table and what follows from it first, the tables of each plan after."""

from collections.abc import Sequence
from functools import partial
from importlib.resources import files
from typing import Any

import numpy as np

from ..report._figures import picture
from ..report._page import Html, Section, bullets, callout, element, facts, figure, join, page, paragraph, side_by_side
from ..report._page import table as html_table
from ._comparisons import Compared, comparisons, grouped
from ._data import OWN_FEATURES
from ._figures import Figure, Panel, can_draw, draw_ranks
from ._methods import BASELINES
from ._page_tables import (
    NO_FIGURE,
    SELECTIONS,
    anchor,
    explorer,
    folded,
    gap_mark,
    plan_body,
    protocol,
    settings,
    times,
)
from ._plan import Note
from ._statistics import Comparison
from ._tables import DEFAULT, ORACLE, PlanResults, Selected
from ._words import NEAR, TEXTS, Claim, claims, observations, verdict


def results_page(name: str, plans: Sequence[PlanResults], figures: Sequence[Figure] = ()) -> str:
    """Return the HTML report on the plans in a results file of this name."""
    compared = comparisons(plans)
    sections = [
        Section("results", "Accuracy by transform", _main(plans, compared)),
        Section("claims", "Which claims hold", _claims(plans)),
        *([Section("figures", "Figures of the paper", _figures(figures))] if figures else []),
        *(Section(f"plan-{one.plan.name}", one.plan.label, plan_body(one)) for one in plans),
        Section("ranks", "Statistical comparison", _statistics(compared)),
        Section("times", "Timings", times(plans)),
        Section("settings", "Settings and grids", settings(plans)),
        Section("protocol", "Protocol, environment and plans", protocol(plans)),
    ]
    script = files(__package__).joinpath("table.js").read_text(encoding="utf-8")
    title, foot = "Benchmark of tensor multi-view clustering", TEXTS["foot"].format(name=name)
    return page(title, TEXTS["lead"], _head(plans), sections, foot, script=script)


def _head(plans: Sequence[PlanResults]) -> Html:
    # Plans share fits.
    keys = set[str]().union(*(results.keys for results in plans))
    missing = len(keys - plans[0].outcomes.keys())
    shown: list[tuple[str, Any]] = [("fits", f"{len(keys) - missing:,}")]
    gaps = [gap for results in grouped(plans)[0] for _, gap in results.compared(ORACLE)]
    if gaps:
        near = sum(gap >= -NEAR for gap in gaps)
        shown.append(("ACC at most 2 points below the paper", f"{near} of {len(gaps)}"))
    shown.append(("best values at the end of a grid", sum(len(results.edges) for results in plans)))
    notes = []
    if missing:
        notes.append(callout("warning", TEXTS["unfinished"].format(missing=missing)))
    if failed := {key for key in keys & plans[0].outcomes.keys() if plans[0].outcomes[key].error is not None}:
        failures = [(results.plan.label, *failure) for results in plans for failure in results.failures]
        listed = [f"{plan}: {', '.join(cell.group)}: {count} × {error}" for plan, cell, error, count in failures]
        notes.append(callout("warning", f"{len(failed)} fits failed", bullets(listed)))
    return join([facts(shown), *notes])


def _main(plans: Sequence[PlanResults], compared: Sequence[Compared]) -> list[Html]:
    """Return the mean ACC under each transform, with all baselines, and the diagram of the same comparison."""
    group = grouped(plans)[0]
    places = [(results, data.name) for results in group for data in results.plan.datasets]
    rows = []
    for transform in group[0].plan.transforms:
        cells = [_mean_cell(results, dataset, transform.name) for results, dataset in places]
        if any(cell != NO_FIGURE for cell in cells):
            label = transform.name + (" (labels)" if transform.basis == "gft-ideal" else "")
            means = [_overall(places, transform.name, selection) for selection in (ORACLE, DEFAULT)]
            rows.append([label, *cells, *means])
    for key in group[0].plan.baselines:
        title = BASELINES[key].title
        found = [results.untuned(dataset, title) for results, dataset in places]
        if any(found):
            mean = f"{np.mean([one.accuracy for one in found if one]):.1f}" if all(found) else NO_FIGURE
            cells = [NO_FIGURE if one is None else one.figure("ACC").text(" ") for one in found]
            by_labels = BASELINES[key].every_view
            means = [mean, NO_FIGURE] if by_labels else [NO_FIGURE, mean]
            rows.append([title + " (labels)" * by_labels, *cells, *means])
    if not rows:
        return [paragraph(TEXTS["no_cells"])]
    names = [dataset + " (own features)" * dataset.endswith(OWN_FEATURES) for _, dataset in places]
    columns = ["Transform or baseline", *names, "All, oracle", "All, no labels"]
    body = [
        paragraph(TEXTS["main"]),
        html_table("Mean ACC over the methods", columns, rows, "l" + "r" * (len(columns) - 1)),
    ]
    headed = [one for one in compared if one.heading == group[0].plan.label and one.what.startswith("transforms")]
    diagram = next(iter(headed), None)  # that of the best settings, where there are grids
    return body + ([_diagram(diagram, "main")] if diagram is not None and can_draw() else [])


def _cells_of(results: PlanResults, dataset: str, transform: str, selection: str) -> list[Selected]:
    """Return the cells of all methods, or [] if one is missing."""
    cells = [results.find(dataset, method.name, transform, selection) for method in results.plan.methods]
    return [one for one in cells if one is not None] if all(cells) else []


def _mean_cell(results: PlanResults, dataset: str, transform: str) -> Any:
    cells = _cells_of(results, dataset, transform, ORACLE) or _cells_of(results, dataset, transform, DEFAULT)
    if not cells:
        return NO_FIGURE
    ours, papers = np.mean([one.accuracy for one in cells]), [one.paper("ACC") for one in cells]
    printed = [paper.mean for paper in papers if paper is not None]
    if len(printed) < len(cells):
        return f"{ours:.1f}"
    theirs = element("span", f"{np.mean(printed):.1f}", class_="note")
    return join([f"{ours:.1f}", element("br"), theirs, " ", gap_mark(float(ours - np.mean(printed)))])


def _overall(places: Sequence[tuple[PlanResults, str]], transform: str, selection: str) -> str:
    cells = [_cells_of(results, dataset, transform, selection) for results, dataset in places]
    return f"{np.mean([one.accuracy for part in cells for one in part]):.1f}" if all(cells) else NO_FIGURE


def _diagram(one: Compared, key: str) -> Html:
    names = ", ".join(
        f"{name} {rank:.2f}" for name, rank in zip(one.comparison.names, one.comparison.ranks, strict=True)
    )
    drawn = picture(partial(draw_ranks, one.comparison), f"ranks-{key}", f"Average ranks: {names}")
    return figure(
        drawn, TEXTS["diagram"].format(what=one.what, n=len(one.comparison.scores), chosen=SELECTIONS[one.selection])
    )


def _claims(plans: Sequence[PlanResults]) -> list[Html]:
    """Return a table with a row per claim and a column per selection, and below it what else was seen."""
    found: dict[str, dict[str, list[tuple[PlanResults, Claim]]]] = {}
    for results in plans:
        for one in claims(results):
            found.setdefault(one.text, {ORACLE: [], DEFAULT: []})[one.selection].append((results, one))
    rows = [[text, *map(_verdict_cell, by_selection.values())] for text, by_selection in found.items()]
    columns = ["Claim", "With the best settings (uses labels)", "With default settings (no labels)"]
    seen, notes = [], []
    for results in plans:
        label = results.plan.label
        seen += [f"{label}: {text}" for text in observations(results)]
        notes += [f"{label}: {_note(note)}" for note in (*results.plan.notes, *results.plan.skip)]
    table = [paragraph(TEXTS["claims"]["lead"]), html_table("Claims", columns, rows, "ppp")]
    return [
        *(table if rows else [paragraph(TEXTS["no_claims"])]),
        *([folded("What else was seen", bullets(seen))] if seen else []),
        *([folded("Remarks on single cells", bullets(notes))] if notes else []),
    ]


def _verdict_cell(found: Sequence[tuple[PlanResults, Claim]]) -> Any:
    if not found:
        return NO_FIGURE
    lines: list[Any] = [element("strong", verdict([one for _, one in found]))]
    for results, one in found:
        mean = "" if one.mean is None else f", {one.mean:+.1f}".replace("-", "−")
        link = element("a", results.plan.label, href=f"#{anchor(results, results.tensors[0].cell.dataset)}")
        lines += [element("br"), link, f" {one.held} of {one.cases}{mean}"]
    return join(lines)


def _note(note: Note) -> str:
    where = ", ".join(filter(None, (note.dataset, note.method, note.transform)))
    return f"{where}: {note.text}" if where else note.text


def _figures(figures: Sequence[Figure]) -> list[Html]:
    """Return each figure with what the paper says about it, and what ours shows; without matplotlib only the words."""
    body = []
    for one in figures:
        texts = TEXTS["figures"][one.key]
        body += [element("h3", texts["title"]), paragraph(element("strong", "The paper: "), texts["paper"])]
        if one.numbers:
            body.append(paragraph(element("strong", "Ours: "), texts["ours"].format(**one.numbers)))
        if can_draw():
            drawn = [_panel(panel, f"{one.key}-{number}", texts["title"]) for number, panel in enumerate(one.panels)]
            body.append(folded(f"{len(drawn)} panels", side_by_side(*drawn, small=True)))
    return body


def _panel(panel: Panel, key: str, title: str) -> Html:
    return figure(picture(panel.draw, f"figure-{key}", f"{title}: {panel.title}"), panel.title)


def _statistics(compared: Sequence[Compared]) -> list[Html]:
    if not compared:
        return [paragraph(TEXTS["no_ranks"])]
    body = [paragraph(TEXTS["ranks"])]
    for number, one in enumerate(compared):
        found = one.comparison
        title = f"{one.heading}: {one.what}, {SELECTIONS[one.selection]}"
        rows = [[name, f"{average:.2f}"] for name, average in zip(found.names, found.ranks, strict=True)]
        test = f"critical difference {found.critical_difference:.2f}, p = {found.p_value:.2g}"
        caption = f"{title}: {len(found.scores)} cases, {test}"
        parts = [html_table(caption, ["Candidate", "Average rank"], rows, "lr")]
        if one.what.startswith("transforms"):
            parts += [_diagram(one, str(number))] if can_draw() else []
            parts += explorer(f"{title}: pairs, Wilcoxon signed-rank tests", *_pairs(found))
        body.append(folded(title, *parts))
    return body


def _pairs(found: Comparison) -> tuple[str, list[list[Any]]]:
    columns = "Better|Worse|Wins:r|Losses:r|Mean difference:r|p:r|p, corrected:r"
    rows = [
        [
            pair.first,
            pair.second,
            pair.wins,
            pair.losses,
            f"{pair.difference:+.1f}",
            f"{pair.p_value:.2g}",
            f"{pair.corrected:.2g}",
        ]
        for pair in found.pairs
    ]
    return columns, rows
