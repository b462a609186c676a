"""The sections of the report about one clustering."""

from __future__ import annotations

import math
import shlex
import tomllib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib.resources import files
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import methods, metrics, plotting
from ..auto import MultiViewClustering, suggest_scaling
from ..bases import ViewFFT
from ..methods import SILENT_PARAMETERS
from . import _page as html
from ._figures import picture
from ._page import Html, Section
from ._view_agreement import Agreement

if TYPE_CHECKING:
    from ._cluster import ClusterRun

_WORDS = tomllib.loads(files(__package__).joinpath("texts.toml").read_text(encoding="utf-8"))
_N_TYPICAL = 3
_MOST_CLUSTERS = 200
# A larger table of classes against clusters would not be readable.
_MOST_CLASSES = 20


def how(run: ClusterRun) -> Section:
    """Show how to run it again: command, choices, parameters, versions."""
    parameters = {k: str(v) for k, v in run.estimator.get_params(deep=False).items() if k not in SILENT_PARAMETERS}
    if "basis" in parameters:
        parameters["basis"] += f", fitted as {run.estimator.basis_}"
    body = [_paragraph("again"), html.code(run.command)]
    if run.notes:
        notes = [html.join([html.element("strong", what), ": ", why]) for what, why in run.notes]
        body += [_paragraph("chosen"), html.bullets(notes)]
    rows = [(html.element("code", key), html.name(value)) for key, value in parameters.items()]
    tables = [_table("parameters", rows, kind=_kind(run))]
    if run.versions:
        rows = [(html.name(package), html.name(version)) for package, version in run.versions.items()]
        tables.append(_table("versions", rows))
    return _section("run", *body, html.side_by_side(*tables))


def data(run: ClusterRun, views: list[Any]) -> Section:
    """Describe the views."""
    description, auto = run.description, _auto_report(run)
    if auto is None:
        scalings = [suggest_scaling(view) for view in views]
    else:
        by_view = {scaling.view: (scaling.name, auto.about_view(scaling)) for scaling in auto.normalisations}
        scalings = [by_view[view.name] for view in description.views]
    rows = []
    for view, (scaling, why) in zip(description.views, scalings, strict=True):
        kind = (f"{view.n_features:,}", f"{view.dtype}, {view.storage}", f"{view.density:.1%}")
        counts = [f"{count:,}" for count in (view.n_missing, view.n_constant, view.n_duplicates)]
        values = f"{_number(view.minimum, '.4g')} to {_number(view.maximum, '.4g')}"
        scaled = html.join([html.element("strong", scaling), ": ", why])
        rows.append((html.name(view.name), *kind, *counts, values, scaled))
    body = [_table("views", rows, scaling="Usual scaling" if auto is None else "Scaling")]
    if auto is None:
        body.append(html.paragraph(_sentence("unit_length"), class_="note"))
    if (warning := features_note(run.file_name)) is not None:
        body.append(html.paragraph(warning))
    if description.class_counts is not None:
        sizes = description.class_counts.values()
        span = " to ".join(f"{size:,}" for size in sorted({min(sizes), max(sizes)}))
        order = _sentence("class_sorted") if description.class_sorted else ""
        body.append(_paragraph("classes", n=len(sizes), span=span, order=order))
    if description.n_duplicates:
        body.append(_paragraph("duplicates", n=description.n_duplicates))
    return _section("data", *body)


def features_note(file: Any) -> str | None:
    """Return a warning for data sets whose features differ from the published ones, marked by the file name."""
    return _sentence("recomputed") if PurePath(file).stem.endswith("_recomputed") else None


def clusters(run: ClusterRun, found: Agreement) -> Section:
    """Show sizes, cohesion and typical samples of the clusters."""
    labels = np.asarray(run.labels)
    names, sizes = np.unique(labels, return_counts=True)
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
        rows.append((html.name(cluster), f"{size:,}", sized, _number(share, ".1%"), _samples(run, typical)))
    more = _sentence("more_clusters", n=len(sizes) - len(listed)) if len(listed) < len(sizes) else ""
    named_by = "row numbers, from 0" if run.sample_ids is None else "ids"
    note = _sentence("clusters", more=more, k=found.n_neighbors, names=named_by)
    return _section("clusters", _table("clusters", rows), _note(note, found, len(labels)))


def pictures(run: ClusterRun, found: Agreement) -> Section:
    """Draw the embedding and the affinity."""
    rows, labels = found.rows, np.asarray(run.labels)
    shown = "all samples" if len(rows) == len(labels) else f"{len(rows):,} of {len(labels):,} samples"
    figures = []
    embedding = getattr(run.estimator, "embedding_", None)
    if embedding is not None and embedding.shape[1] > 1:
        scatter = partial(plotting.plot_embedding, embedding[rows], labels[rows])
        figures.append(_figure("embedding", scatter, shown=shown))
    affinity, source = _affinity(run, found)
    image = partial(plotting.plot_affinity, affinity, labels[rows])
    heading = source[0].upper() + source[1:]
    figures.append(_figure("affinity", image, source=source, heading=heading, shown=shown))
    return _section("pictures", html.side_by_side(*figures))


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
    note = _sentence("links_and_silhouette", k=found.n_neighbors, chance=found.chance)
    body = [_paragraph("agreement"), _table("agreement", rows), _note(note, found, len(run.labels))]
    return _section("agreement", *body)


def convergence(run: ClusterRun) -> Section:
    """Show whether the method converged, or which clusterings were combined."""
    estimator, kind = run.estimator, _kind(run)
    if (auto := _auto_report(run)) is not None:
        return _members(auto)
    converged, history = getattr(estimator, "converged_", None), getattr(estimator, "history_", None)
    body = []
    if converged:
        body.append(_callout("converged", kind=kind, n_iter=estimator.n_iter_))
    elif converged is not None:
        advice = _paragraph("raise_max_iter")
        body.append(_callout("not_converged", advice, kind=kind, n_iter=estimator.n_iter_))
    if history:
        first, last = history[0].residuals, history[-1].residuals
        spans = "; ".join(f"{key} from {first[key]:.2g} to {last[key]:.2g}" for key in last)
        tolerance = getattr(estimator, "tol", None)
        stop = f"; the method stops below {tolerance:g}" if tolerance else ""
        lines = partial(plotting.plot_convergence, estimator)
        drawn = _figure("convergence", lines, n_iter=len(history), spans=spans, stop=stop)
        rows = [(html.element("code", key), f"{first[key]:.2e}", f"{last[key]:.2e}") for key in last]
        body.append(html.side_by_side(drawn, _table("residuals", rows)))
    elif converged is None:
        body.append(_paragraph("no_history", kind=kind))
    return _section("convergence", *body)


def _members(auto: Any) -> Section:
    """Show the clusterings that were combined into the consensus."""
    best = max(member.weight for member in auto.members)
    rows = [
        (html.name(member.name), f"{member.score:.3f}", html.bar(f"{member.weight:.1%}", member.weight / best))
        for member in auto.members
    ]
    body = [_table("members", rows), html.paragraph(_sentence("information"), class_="note")]
    if auto.left_out:
        body.append(_callout("left_out", html.bullets(map(html.name, auto.left_out))))
    return _section("joined", *body)


def order(run: ClusterRun) -> Section:
    """Show whether the order of the rows matters."""
    if (audit := run.audit) is None:
        return _section("order", *_known_of_order(run), _paragraph("not_audited"), html.code(_audit_command(run)))
    verdict = _callout("same_clusters", html.paragraph(audit.verdict))
    if audit.order_dependent:
        verdict = _callout("other_clusters", html.paragraph(audit.verdict), _paragraph("adaptive_basis"))
    rows = [("Another order, same seed", *_ari(audit.order_ari, audit.order_ari_interval))]
    if audit.seed is not None:
        rows.append(("Another seed, same order", *_ari(audit.seed_ari, audit.seed_ari_interval)))
    means = " ".join(f"{what}: mean ARI {mean}." for what, mean, _ in rows)
    drawn = _figure("audit", partial(plotting.plot_audit, audit), means=means)
    beside = [_table("audit", rows)]
    if len(audit.unstable_samples):
        beside.append(html.paragraph("Least stable samples: ", _samples(run, audit.unstable_samples), "."))
    return _section("order", verdict, html.side_by_side(drawn, html.element("div", *beside)))


def _known_of_order(run: ClusterRun) -> list[Html]:
    """Return what the method and its basis guarantee about the order of the rows."""
    basis = getattr(run.estimator, "basis_", None)
    if _auto_report(run) is not None:
        return [_callout("safe_method", kind=_kind(run))]
    if basis is None:
        return []
    if getattr(basis, "adapts_to_data", False) or isinstance(basis, ViewFFT):
        return [_callout("safe_basis", kind=_kind(run))]
    return [_callout("unsafe_basis", _paragraph("another_order"))]


def _audit_command(run: ClusterRun) -> str:
    """Return the command that audits the same method."""
    estimator = run.estimator
    words = ["tensormvc", "audit", run.file_name]
    words += ["--clusters", str(getattr(estimator, "n_clusters_", len(np.unique(run.labels))))]
    if isinstance(basis := getattr(estimator, "basis", None), str):
        words += ["--basis", basis]
    if _auto_report(run) is not None or _kind(run) in methods.__all__:
        words += ["--method", "auto" if _auto_report(run) is not None else _kind(run).lower()]
        defaults = type(estimator)().get_params(deep=False)
        for key, value in estimator.get_params(deep=False).items():
            if key == "random_state" and value is not None:
                words += ["--seed", str(value)]
            elif key not in SILENT_PARAMETERS | {"n_clusters", "basis"} and value != defaults[key]:
                words += ["--param", f"{key}={value}"]
    return shlex.join(words)


def measures(run: ClusterRun) -> Section:
    """Compare the clusters with the known classes."""
    y, labels = np.asarray(run.y), np.asarray(run.labels)
    rows = [(key, html.bar(f"{value:.4f}", value)) for key, value in metrics.clustering_report(y, labels).items()]
    body = [_callout("classes"), _table("measures", rows)]
    classes, of_class = np.unique(y, return_inverse=True)
    clusters, of_cluster = np.unique(labels, return_inverse=True)
    if max(len(classes), len(clusters)) <= _MOST_CLASSES:
        counts = np.zeros((len(classes), len(clusters)), dtype=int)
        np.add.at(counts, (of_class, of_cluster), 1)
        columns = ["Class", *map(html.name, clusters)]
        table = [(html.name(label), *(f"{n:,}" for n in row)) for label, row in zip(classes, counts, strict=True)]
        body.append(html.table("Samples of each class in each cluster", columns, table, "l" + "r" * len(clusters)))
    return _section("measures", *body)


def _auto_report(run: ClusterRun) -> Any:
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
        text += _sentence("sample", n=len(found.rows), n_samples=n_samples)
    return html.paragraph(text, class_="note")


def _section(key: str, *body: Html) -> Section:
    return Section(key, _WORDS["sections"][key], body)


def _sentence(key: str, **values: Any) -> str:
    return str(_WORDS["sentences"][key].format(**values))


def _paragraph(key: str, **values: Any) -> Html:
    return html.paragraph(_sentence(key, **values))


def _callout(key: str, *body: Html, **values: Any) -> Html:
    words = _WORDS["callouts"][key]
    return html.callout(words["kind"], words["title"].format(**values), *body)


def _table(key: str, rows: Iterable[Sequence[Any]], **values: Any) -> Html:
    words = _WORDS["tables"][key]
    columns = [column.format(**values) for column in words["columns"]]
    return html.table(words["caption"].format(**values), columns, rows, words["align"])


def _figure(key: str, draw: Callable[..., Any], **values: Any) -> Html:
    """Return the picture that `draw` draws into the axes that it is called with as ``ax=``."""
    words = _WORDS["pictures"][key]
    drawn = picture(lambda ax: draw(ax=ax), key, words["alternative"].format(**values))
    return html.figure(drawn, words["caption"].format(**values))
