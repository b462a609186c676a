"""The sections of the report that only a clustering by `MultiViewClustering` has."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .. import plotting
from ..explain import Explanation, FeatureEffect
from . import _page as html
from . import _words as words
from ._page import Html, Section
from ._view_agreement import Agreement

if TYPE_CHECKING:
    from ._cluster import ClusterRun

_KINDS: dict[str, Literal["good", "info", "warning"]] = {"clear": "good", "moderate": "info", "weak": "warning"}
# Features per cluster in the pictures and in the table, and clusters that get a picture.
_N_DRAWN, _N_LISTED, _MOST_DRAWN = 6, 5, 12
_N_BORDERLINE = 3
# A legend of more views would leave no room for the features.
_MOST_NAMED = 6


def certainty(auto: Any) -> Html:
    """Return how far to trust the clusters, for the top of the page."""
    level, _, why = auto.certainty.partition(": ")
    verdict = html.paragraph(why[0].upper() + why[1:] + ".")
    callouts = [html.callout(_KINDS[level], words.sentence("certainty", level=level), verdict)]
    if warnings := [text for text in auto.warnings if auto.certainty not in text]:
        callouts.append(words.callout("warnings", html.bullets(warnings)))
    return html.join(callouts)


def map_picture(run: ClusterRun, found: Agreement, shown: str) -> Html:
    """Draw the map of the samples."""
    model, rows = run.estimator, found.rows
    part = SimpleNamespace(map_=model.map_[rows], labels_=model.labels_[rows], confidence_=model.confidence_[rows])
    return words.figure("map", partial(plotting.plot_map, part), shown=shown)


def granularity(run: ClusterRun) -> Section:
    """Draw how clusters merge and split, and how their number was estimated."""
    tree, number = run.estimator.tree_, run.estimator.report_.cluster_number
    figures = [words.figure("tree", partial(plotting.plot_tree, tree), k=tree.n_clusters, most=tree.most)]
    if number is not None:
        why = number.statement
        figures.append(
            words.figure("number", partial(plotting.plot_cluster_number, number), k=tree.n_clusters, why=why)
        )
    return words.section("granularity", words.paragraph("levels", most=tree.most), html.side_by_side(*figures))


def features(run: ClusterRun) -> Section:
    """Show the features that set each cluster apart, and the views that support it."""
    found = run.estimator.explain()
    leading: dict[int, list[FeatureEffect]] = {summary.cluster: [] for summary in found.clusters}
    for row in found.top(_N_LISTED):
        leading[row.cluster].append(row)
    names, counts = np.unique(found.features, return_counts=True)
    ambiguous = set(names[counts > 1].tolist())
    rows = []
    for summary in found.clusters:
        support = "; ".join(f"{name} {share:.0%}" for name, share in summary.support.items())
        borderline = html.Html(", ".join(map(html.name, summary.borderline[:_N_BORDERLINE])))
        listed = html.Html(", ".join(_effect(row, ambiguous) for row in leading[summary.cluster]))
        rows.append((html.name(summary.cluster), listed, support, borderline))
    largest = sorted(found.clusters, key=lambda summary: -summary.size)[:_MOST_DRAWN]
    figures = [
        words.figure(
            "features",
            partial(_draw_features, found, summary.cluster),
            number=summary.cluster,
            cluster=summary.cluster,
            names=", ".join(row.feature for row in leading[summary.cluster]),
        )
        for summary in sorted(largest, key=lambda summary: summary.cluster)
    ]
    note = html.paragraph(words.sentence("effects"), class_="note")
    return words.section("features", words.table("features", rows), note, html.side_by_side(*figures, small=True))


def _draw_features(found: Explanation, cluster: int, ax: Any) -> None:
    plotting.plot_cluster_features(found, cluster, n_features=_N_DRAWN, ax=ax)
    if len(found.view_names) > _MOST_NAMED:
        ax.get_legend().remove()


def _effect(row: FeatureEffect, ambiguous: set[str]) -> Html:
    """Return a feature with its effect, and with its view if other views have one of the same name."""
    arrow = "↑" if row.effect > 0.5 else "↓"
    view = [" (", html.name(row.view), ")"] if row.feature in ambiguous else []
    return html.join([html.name(row.feature), *view, f"\u00a0{arrow}\u00a0{row.effect:.2f}"])
