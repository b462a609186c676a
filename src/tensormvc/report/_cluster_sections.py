"""The sections of the report about one clustering."""

from __future__ import annotations

import math
import shlex
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import methods, metrics, plotting
from ..auto import MultiViewClustering, suggest_scaling
from ..bases import ViewFFT
from ..methods import SILENT_PARAMETERS
from . import _page as html
from . import _words as words
from ._auto_sections import map_picture
from ._page import Html, Section
from ._view_agreement import Agreement

if TYPE_CHECKING:
    from ._cluster import ClusterRun

_N_TYPICAL = 3
_MOST_CLUSTERS = 200
# A larger table of classes against clusters would not be readable.
_MOST_CLASSES = 20


def how(run: ClusterRun) -> Section:
    """Show how to run it again: command, choices, parameters, versions."""
    parameters = {k: str(v) for k, v in run.estimator.get_params(deep=False).items() if k not in SILENT_PARAMETERS}
    if "basis" in parameters:
        parameters["basis"] += f", fitted as {run.estimator.basis_}"
    body = [words.paragraph("again"), html.code(run.command)]
    if run.notes:
        notes = [html.join([html.element("strong", what), ": ", why]) for what, why in run.notes]
        body += [words.paragraph("chosen"), html.bullets(notes)]
    rows = [(html.element("code", key), html.name(value)) for key, value in parameters.items()]
    tables = [words.table("parameters", rows, kind=_kind(run))]
    if run.versions:
        rows = [(html.name(package), html.name(version)) for package, version in run.versions.items()]
        tables.append(words.table("versions", rows))
    return words.section("run", *body, html.side_by_side(*tables))


def data(run: ClusterRun, views: list[Any]) -> Section:
    """Describe the views."""
    description, auto = run.description, auto_report(run)
    if auto is None:
        scalings = [suggest_scaling(view) for view in views]
        missing = [view.n_missing for view in description.views]
    else:
        by_view = {choice.view: choice for choice in auto.normalisations}
        chosen = [by_view[view.name] for view in description.views]
        scalings = [(choice.name, auto.about_view(choice)) for choice in chosen]
        missing = [choice.n_missing for choice in chosen]
    rows = []
    for view, (scaling, why), n_missing in zip(description.views, scalings, missing, strict=True):
        kind = (f"{view.n_features:,}", f"{view.dtype}, {view.storage}", f"{view.density:.1%}")
        counts = [f"{count:,}" for count in (n_missing, view.n_constant, view.n_duplicates)]
        values = f"{_number(view.minimum, '.4g')} to {_number(view.maximum, '.4g')}"
        scaled = html.join([html.element("strong", scaling), ": ", why])
        rows.append((html.name(view.name), *kind, *counts, values, scaled))
    body = [words.table("views", rows, scaling="Usual scaling" if auto is None else "Scaling")]
    if auto is None:
        body.append(html.paragraph(words.sentence("unit_length"), class_="note"))
    elif auto.n_single and len(views) > 1:
        body.append(words.paragraph("one_view", n=auto.n_single))
    if (warning := features_note(run.file_name)) is not None:
        body.append(html.paragraph(warning))
    if description.class_counts is not None:
        sizes = description.class_counts.values()
        span = " to ".join(f"{size:,}" for size in sorted({min(sizes), max(sizes)}))
        order = words.sentence("class_sorted") if description.class_sorted else ""
        body.append(words.paragraph("classes", n=len(sizes), span=span, order=order))
    if description.n_duplicates:
        body.append(words.paragraph("duplicates", n=description.n_duplicates))
    return words.section("data", *body)


def features_note(file: Any) -> str | None:
    """Return a warning for data sets whose features differ from the published ones, marked by the file name."""
    return words.sentence("recomputed") if PurePath(file).stem.endswith("_recomputed") else None


def clusters(run: ClusterRun, found: Agreement) -> Section:
    """Show sizes, cohesion and typical samples of the clusters."""
    labels = np.asarray(run.labels)
    names, sizes = np.unique(labels, return_counts=True)
    confidence = None if auto_report(run) is None else run.estimator.confidence_
    of_rows = labels[found.rows]
    links = found.graph.tocoo()
    inside = of_rows[links.row] == of_rows[links.col]
    inner = np.bincount(links.row, links.data * inside, minlength=len(found.rows))
    degree = np.bincount(links.row, links.data, minlength=len(found.rows))
    listed = np.sort(np.argsort(-sizes, kind="stable")[:_MOST_CLUSTERS])
    rows = []
    for cluster, size in zip(names[listed], sizes[listed], strict=True):
        members = np.flatnonzero(of_rows == cluster)
        share = inner[members].sum() / degree[members].sum() if degree[members].any() else math.nan
        typical = found.rows[members[np.argsort(-inner[members], kind="stable")[:_N_TYPICAL]]]
        sized = html.bar(f"{size / len(labels):.1%}", size / sizes.max())
        confident = [] if confidence is None else [f"{confidence[labels == cluster].mean():.2f}"]
        rows.append((html.name(cluster), f"{size:,}", sized, _number(share, ".1%"), *confident, _samples(run, typical)))
    more = words.sentence("more_clusters", n=len(sizes) - len(listed)) if len(listed) < len(sizes) else ""
    named_by = "row numbers, from 0" if run.sample_ids is None else "ids"
    note = words.sentence("clusters", more=more, k=found.n_neighbors, names=named_by)
    key = "clusters" if confidence is None else "confident_clusters"
    return words.section("clusters", words.table(key, rows), _note(note, found, len(labels)))


def pictures(run: ClusterRun, found: Agreement) -> Section:
    """Draw the embedding and the affinity."""
    rows, labels = found.rows, np.asarray(run.labels)
    shown = "all samples" if len(rows) == len(labels) else f"{len(rows):,} of {len(labels):,} samples"
    figures = []
    embedding = getattr(run.estimator, "embedding_", None)
    if auto_report(run) is not None:
        figures.append(map_picture(run, found, shown))
    elif embedding is not None and embedding.shape[1] > 1:
        scatter = partial(plotting.plot_embedding, embedding[rows], labels[rows])
        figures.append(words.figure("embedding", scatter, shown=shown))
    affinity, source = _affinity(run, found)
    image = partial(plotting.plot_affinity, affinity, labels[rows])
    heading = source[0].upper() + source[1:]
    figures.append(words.figure("affinity", image, source=source, heading=heading, shown=shown))
    return words.section("pictures" if auto_report(run) is None else "map", html.side_by_side(*figures))


def _affinity(run: ClusterRun, found: Agreement) -> tuple[Any, str]:
    """Return similarities between the samples that are shown, the method's own if it has them."""
    for attribute, source in (("affinity_", "the method's affinity"), ("graph_", "the method's graph")):
        if (whole := getattr(run.estimator, attribute, None)) is not None:
            return whole[found.rows][:, found.rows], source
    return found.graph, f"links to the {found.n_neighbors} nearest neighbours in each view"


def view_agreement(run: ClusterRun, found: Agreement) -> Section:
    """Show how well each view supports the clusters."""
    rows = [
        (html.name(view.name), html.bar(_number(within, ".1%"), within), _number(silhouette, ".3f"))
        for view, within, silhouette in zip(run.description.views, found.within, found.silhouette, strict=True)
    ]
    note = words.sentence("links_and_silhouette", k=found.n_neighbors, chance=found.chance)
    body = [words.paragraph("agreement"), words.table("agreement", rows), _note(note, found, len(run.labels))]
    return words.section("agreement", *body)


def convergence(run: ClusterRun) -> Section:
    """Show whether the method converged, or which clusterings were combined."""
    estimator, kind = run.estimator, _kind(run)
    if (auto := auto_report(run)) is not None:
        return _members(auto)
    converged, history = getattr(estimator, "converged_", None), getattr(estimator, "history_", None)
    body = []
    if converged:
        body.append(words.callout("converged", kind=kind, n_iter=estimator.n_iter_))
    elif converged is not None:
        advice = words.paragraph("raise_max_iter")
        body.append(words.callout("not_converged", advice, kind=kind, n_iter=estimator.n_iter_))
    if history:
        first, last = history[0].residuals, history[-1].residuals
        spans = "; ".join(f"{key} from {first[key]:.2g} to {last[key]:.2g}" for key in last)
        tolerance = getattr(estimator, "tol", None)
        stop = f"; the method stops below {tolerance:g}" if tolerance else ""
        lines = partial(plotting.plot_convergence, estimator)
        drawn = words.figure("convergence", lines, n_iter=len(history), spans=spans, stop=stop)
        rows = [(html.element("code", key), f"{first[key]:.2e}", f"{last[key]:.2e}") for key in last]
        body.append(html.side_by_side(drawn, words.table("residuals", rows)))
    elif converged is None:
        body.append(words.paragraph("no_history", kind=kind))
    return words.section("convergence", *body)


def _members(auto: Any) -> Section:
    """Show the clusterings that were combined into the consensus."""
    best = max(member.weight for member in auto.members)
    rows = [
        (
            html.name(f"{member.look}: {member.name}"),
            f"{member.score:.3f}",
            html.bar(f"{member.weight:.1%}", member.weight / best),
        )
        for member in auto.members
    ]
    looks = [
        (html.name(look.name), f"{look.agreement:.2f}", html.bar(f"{look.weight:.1%}", look.weight))
        for look in auto.looks
    ]
    body = [
        words.table("looks", looks),
        words.table("members", rows),
        html.paragraph(words.sentence("information"), class_="note"),
    ]
    if auto.left_out:
        body.append(words.callout("left_out", html.bullets(map(html.name, auto.left_out))))
    return words.section("joined", *body)


def order(run: ClusterRun) -> Section:
    """Show whether the order of the rows matters."""
    if (audit := run.audit) is None:
        return words.section(
            "order", *_known_of_order(run), words.paragraph("not_audited"), html.code(_audit_command(run))
        )
    verdict = words.callout("same_clusters", html.paragraph(audit.verdict))
    if audit.order_dependent:
        verdict = words.callout("other_clusters", html.paragraph(audit.verdict), words.paragraph("adaptive_basis"))
    rows = [("Another order, same seed", *_ari(audit.order_ari, audit.order_ari_interval))]
    if audit.seed is not None:
        rows.append(("Another seed, same order", *_ari(audit.seed_ari, audit.seed_ari_interval)))
    means = " ".join(f"{what}: mean ARI {mean}." for what, mean, _ in rows)
    drawn = words.figure("audit", partial(plotting.plot_audit, audit), means=means)
    beside = [words.table("audit", rows)]
    if len(audit.unstable_samples):
        beside.append(html.paragraph("Least stable samples: ", _samples(run, audit.unstable_samples), "."))
    return words.section("order", verdict, html.side_by_side(drawn, html.element("div", *beside)))


def _known_of_order(run: ClusterRun) -> list[Html]:
    """Return what the method and its basis guarantee about the order of the rows."""
    basis = getattr(run.estimator, "basis_", None)
    if auto_report(run) is not None:
        return [words.callout("safe_method", kind=_kind(run))]
    if basis is None:
        return []
    if getattr(basis, "adapts_to_data", False) or isinstance(basis, ViewFFT):
        return [words.callout("safe_basis", kind=_kind(run))]
    return [words.callout("unsafe_basis", words.paragraph("another_order"))]


def _audit_command(run: ClusterRun) -> str:
    """Return the command that audits the same method."""
    estimator = run.estimator
    command = ["tensormvc", "audit", run.file_name, *run.reading]
    command += ["--clusters", str(getattr(estimator, "n_clusters_", len(np.unique(run.labels))))]
    if isinstance(basis := getattr(estimator, "basis", None), str):
        command += ["--basis", basis]
    if auto_report(run) is not None or _kind(run) in methods.__all__:
        command += ["--method", "auto" if auto_report(run) is not None else _kind(run).lower()]
        defaults = type(estimator)().get_params(deep=False)
        for key, value in estimator.get_params(deep=False).items():
            if key == "random_state" and value is not None:
                command += ["--seed", str(value)]
            elif key not in SILENT_PARAMETERS | {"n_clusters", "basis"} and value != defaults[key]:
                command += ["--param", f"{key}={value}"]
    return shlex.join(command)


def measures(run: ClusterRun) -> Section:
    """Compare the clusters with the known classes."""
    y, labels = np.asarray(run.y), np.asarray(run.labels)
    rows = [(key, html.bar(f"{value:.4f}", value)) for key, value in metrics.clustering_report(y, labels).items()]
    body = [words.callout("classes"), words.table("measures", rows)]
    classes, of_class = np.unique(y, return_inverse=True)
    clusters, of_cluster = np.unique(labels, return_inverse=True)
    if max(len(classes), len(clusters)) <= _MOST_CLASSES:
        counts = np.zeros((len(classes), len(clusters)), dtype=int)
        np.add.at(counts, (of_class, of_cluster), 1)
        columns = ["Class", *map(html.name, clusters)]
        table = [(html.name(label), *(f"{n:,}" for n in row)) for label, row in zip(classes, counts, strict=True)]
        body.append(html.table("Samples of each class in each cluster", columns, table, "l" + "r" * len(clusters)))
    return words.section("measures", *body)


def auto_report(run: ClusterRun) -> Any:
    """Return what the front door reports about its choices; None for other methods."""
    return run.estimator.report_ if isinstance(run.estimator, MultiViewClustering) else None


def _kind(run: ClusterRun) -> str:
    return type(run.estimator).__name__


def _samples(run: ClusterRun, rows: Any) -> Html:
    return Html(", ".join(html.name(row if run.sample_ids is None else run.sample_ids[row]) for row in rows))


def _number(value: float, form: str) -> str:
    return "—" if math.isnan(value) else format(value, form).replace("-", "−")


def _ari(mean: float, interval: tuple[float, float]) -> tuple[str, str]:
    return _number(mean, ".3f"), " to ".join(_number(end, ".3f") for end in interval)


def _note(text: str, found: Agreement, n_samples: int) -> Html:
    """Return an explanation below a table, with the number of samples that were looked at if these are not all."""
    if len(found.rows) < n_samples:
        text += words.sentence("sample", n=len(found.rows), n_samples=n_samples)
    return html.paragraph(text, class_="note")
