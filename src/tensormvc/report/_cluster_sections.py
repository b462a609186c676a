"""The sections of the report about one clustering."""

from __future__ import annotations

import math
import shlex
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import methods, metrics, plotting
from ..auto import MultiViewClustering, suggest_scaling
from ..bases import ViewFFT
from . import _page as html
from ._figures import picture
from ._page import Html, Section
from ._view_agreement import Agreement

if TYPE_CHECKING:
    from ._cluster import ClusterRun

# Parameters that control how a fit runs, not its result.
SILENT_PARAMETERS = frozenset({"callback", "keep", "progress", "verbose", "view_sizes"})
_N_TYPICAL = 3
_MOST_CLUSTERS = 200
# A larger table of classes against clusters would not be readable.
_MOST_CLASSES = 20


def how(run: ClusterRun) -> Section:
    """Show how to run it again: command, choices, parameters, versions."""
    parameters = {k: str(v) for k, v in run.estimator.get_params(deep=False).items() if k not in SILENT_PARAMETERS}
    if "basis" in parameters:
        parameters["basis"] += f", fitted as {run.estimator.basis_}"
    body = [html.paragraph("To run it again:"), html.code(run.command)]
    if run.notes:
        notes = [html.join([html.element("strong", what), ": ", why]) for what, why in run.notes]
        body += [html.paragraph("What was chosen, and why:"), html.bullets(notes)]
    rows = [(html.element("code", key), html.name(value)) for key, value in parameters.items()]
    tables = [html.table(f"Parameters of {_kind(run)}", ["Parameter", "Value"], rows, "ll")]
    if run.versions:
        rows = [(html.name(package), html.name(version)) for package, version in run.versions.items()]
        tables.append(html.table("Versions", ["Package", "Version"], rows, "ll"))
    return Section("run", "What was run", [*body, html.side_by_side(*tables)])


def data(run: ClusterRun, views: list[Any]) -> Section:
    """Describe the views."""
    description, auto = run.description, _auto_report(run)
    if auto is None:
        scalings = [suggest_scaling(view) for view in views]
    else:
        by_view = {scaling.view: (scaling.name, scaling.reason) for scaling in auto.normalisations}
        scalings = [by_view[view.name] for view in description.views]
    rows = []
    for view, (scaling, why) in zip(description.views, scalings, strict=True):
        kind = (f"{view.n_features:,}", f"{view.dtype}, {view.storage}", f"{view.density:.1%}")
        counts = [f"{count:,}" for count in (view.n_missing, view.n_constant, view.n_duplicates)]
        values = f"{_number(view.minimum, '.4g')} to {_number(view.maximum, '.4g')}"
        scaled = html.join([html.element("strong", scaling), ": ", why])
        rows.append((html.name(view.name), *kind, *counts, values, scaled))
    columns = ["View", "Features", "Type", "Non-zero", "Missing samples", "Constant features", "Repeated rows"]
    columns += ["Values", "Usual scaling" if auto is None else "Scaling"]
    body = [html.table("The views", columns, rows, "lrlrrrrlp")]
    if auto is None:
        note = "The tensor methods and GMC scale every sample of every view to unit length, whatever is usual."
        body.append(html.paragraph(note, class_="note"))
    texts = [features_note(run.file_name)]
    if description.class_counts is not None:
        sizes = description.class_counts.values()
        span = " to ".join(f"{size:,}" for size in sorted({min(sizes), max(sizes)}))
        text = f"The file has {len(sizes):,} classes of {span} samples"
        if description.class_sorted:
            text += ", and its rows are sorted by class, which favours methods that depend on the row order"
        texts.append(f"{text}.")
    if description.n_duplicates:
        texts.append(f"{description.n_duplicates:,} samples repeat an earlier sample exactly in all views.")
    return Section("data", "The data", [*body, *(html.paragraph(text) for text in texts if text)])


def features_note(file: Any) -> str | None:
    """Return a warning for data sets whose features differ from the published ones, marked by the file name."""
    if not PurePath(file).stem.endswith("_recomputed"):
        return None
    return "The features in this file were recomputed: results are not those of the published data set."


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
    columns = ["Cluster", "Samples", "Share", "Links inside", "Typical samples"]
    more = f"There are {len(sizes) - len(listed):,} more clusters, none larger. " if len(listed) < len(sizes) else ""
    note = (
        f"{more}Links inside: each sample is linked to its {found.n_neighbors} nearest neighbours in each view; this "
        "is the share of the links of a cluster's samples that stay inside the cluster. Typical samples "
        f"({'row numbers, from 0' if run.sample_ids is None else 'ids'}) have the most such links. "
    )
    body = [html.table("The clusters", columns, rows, "lrlrp"), _note(note, found, len(labels))]
    return Section("clusters", "Cluster sizes", body)


def pictures(run: ClusterRun, found: Agreement) -> Section:
    """Draw the embedding and the affinity."""
    rows, labels = found.rows, np.asarray(run.labels)
    shown = "all samples" if len(rows) == len(labels) else f"{len(rows):,} of {len(labels):,} samples"
    figures = []
    embedding = getattr(run.estimator, "embedding_", None)
    if embedding is not None and embedding.shape[1] > 1:
        drawn = picture(
            lambda ax: plotting.plot_embedding(embedding[rows], labels[rows], ax=ax),
            "embedding",
            f"Scatter plot of {shown} in two directions of the embedding, with one colour and marker per cluster. "
            "The table of clusters lists their sizes.",
        )
        figures.append(html.figure(drawn, f"The embedding that was clustered; {shown}."))
    affinity, source = _affinity(run, found)
    drawn = picture(
        lambda ax: plotting.plot_affinity(affinity, labels[rows], ax=ax),
        "affinity",
        f"Image of {source} between {shown}, sorted by cluster: blocks along the diagonal are clusters, bright areas "
        "off the diagonal connect different clusters.",
    )
    caption = f"{source[0].upper()}{source[1:]}; {shown}. Bright blocks along the diagonal are cohesive clusters."
    figures.append(html.figure(drawn, caption))
    return Section("pictures", "Embedding and affinity", [html.side_by_side(*figures)])


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
    caption, columns = "Agreement of each view with the clusters", ["View", "Links inside", "Silhouette"]
    note = (
        f"Links inside: the share of the links to the {found.n_neighbors} nearest neighbours in that view that join "
        f"samples of the same cluster; random links would have {found.chance:.1%}. Silhouette: between −1 and 1, "
        "positive if samples are closer to their own cluster than to the next one, in Euclidean distance after scaling "
        "to unit length. A view far below the others groups the samples differently, or has no groups. "
    )
    intro = html.paragraph("How well each view on its own supports the clusters, without using any labels.")
    body = [intro, html.table(caption, columns, rows, "llr"), _note(note, found, len(run.labels))]
    return Section("agreement", "Agreement of the views", body)


def convergence(run: ClusterRun) -> Section:
    """Show whether the method converged, or which clusterings were combined."""
    estimator, kind = run.estimator, _kind(run)
    if (auto := _auto_report(run)) is not None:
        return _members(auto)
    converged, n_iter = getattr(estimator, "converged_", None), getattr(estimator, "n_iter_", None)
    history = getattr(estimator, "history_", None)
    body = []
    if converged:
        body.append(html.callout("good", f"{kind} converged after {n_iter} iterations."))
    elif converged is not None:
        advice = html.paragraph("The labels may still change: raise max_iter, or check that they are stable.")
        body.append(html.callout("warning", f"{kind} did not converge in {n_iter} iterations.", advice))
    if history:
        first, last = history[0].residuals, history[-1].residuals
        spans = "; ".join(f"{key} from {first[key]:.2g} to {last[key]:.2g}" for key in last)
        drawn = picture(
            lambda ax: plotting.plot_convergence(estimator, ax=ax),
            "convergence",
            f"Line plot of the residuals over {len(history)} iterations. {spans}.",
        )
        tolerance = getattr(estimator, "tol", None)
        caption = "Residuals by iteration" + (f"; the method stops below {tolerance:g}." if tolerance else ".")
        rows = [(html.element("code", key), f"{first[key]:.2e}", f"{last[key]:.2e}") for key in last]
        residuals = html.table("Residuals", ["Residual", "First iteration", "Last iteration"], rows, "lrr")
        body.append(html.side_by_side(html.figure(drawn, caption), residuals))
    elif converged is None:
        body.append(html.paragraph(f"{kind} does not record its iterations."))
    return Section("convergence", "Convergence", body)


def _members(auto: Any) -> Section:
    """Show the clusterings that were combined into the consensus."""
    best = max(member.weight for member in auto.members)
    rows = [
        (html.name(member.name), f"{member.score:.3f}", html.bar(f"{member.weight:.1%}", member.weight / best))
        for member in auto.members
    ]
    note = (
        "Information: mutual information, in nats, between the clusters of neighbouring samples, over the weighted "
        "views. It determines the weight in the consensus. No labels are used."
    )
    body = [
        html.table("The clusterings that were combined", ["Pipeline", "Information", "Weight"], rows, "lrl"),
        html.paragraph(note, class_="note"),
    ]
    if auto.left_out:
        left_out = html.bullets(map(html.name, auto.left_out))
        body.append(html.callout("warning", "The time budget was too short for these clusterings.", left_out))
    return Section("joined", "Consensus of several clusterings", body)


def order(run: ClusterRun) -> Section:
    """Show whether the order of the rows matters."""
    if run.audit is None:
        intro = html.paragraph(
            "This run did not test whether the clusters depend on the order of the rows. To test it:"
        )
        body = [*_known_of_order(run), intro, html.code(_audit_command(run))]
        return Section("order", "Order of the rows", body)
    audit = run.audit
    verdict = html.callout("good", "Other orders of the rows gave the same clusters.", html.paragraph(audit.verdict))
    if audit.order_dependent:
        advice = (
            "The order of the rows carries no information: use a basis that adapts to the data, such as gft or agft."
        )
        parts = html.paragraph(audit.verdict), html.paragraph(advice)
        verdict = html.callout("warning", "The clusters depend on the order of the rows.", *parts)
    rows = [("Another order, same seed", *_ari(audit.order_ari, audit.order_ari_interval))]
    if audit.seed is not None:
        rows.append(("Another seed, same order", *_ari(audit.seed_ari, audit.seed_ari_interval)))
    drawn = picture(
        lambda ax: plotting.plot_audit(audit, ax=ax),
        "audit",
        "Dot plot of the agreement between clusterings of the same samples, by pairs of orders, pairs of seeds, and "
        "samples. " + " ".join(f"{what}: mean ARI {mean}." for what, mean, _ in rows),
    )
    caption, columns = "Agreement of clusterings (ARI; 1 is equal)", ["What changed", "Mean", "95 % interval"]
    beside = [html.table(caption, columns, rows, "lrr")]
    if len(audit.unstable_samples):
        beside.append(html.paragraph("Least stable samples: ", _samples(run, audit.unstable_samples), "."))
    shown = html.figure(drawn, "Agreement between clusterings of the same samples. 1 is perfect agreement.")
    return Section("order", "Order of the rows", [verdict, html.side_by_side(shown, html.element("div", *beside))])


def _known_of_order(run: ClusterRun) -> list[Html]:
    """Return what the method and its basis guarantee about the order of the rows."""
    basis = getattr(run.estimator, "basis_", None)
    by_design = f"By design the order of the rows does not matter to {_kind(run)}"
    if _auto_report(run) is not None:
        return [html.callout("good", f"{by_design}.")]
    if basis is None:
        return []
    if getattr(basis, "adapts_to_data", False) or isinstance(basis, ViewFFT):
        return [html.callout("good", f"{by_design} with this basis.")]
    advice = html.paragraph("Another order of the same samples may give other clusters.")
    return [html.callout("warning", "The basis transforms the rows in the order of the file.", advice)]


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
    body = [
        html.callout("info", "The known classes were used for this comparison, and for nothing else."),
        html.table("Agreement with the known classes", ["Measure", "Value"], rows, "ll"),
    ]
    classes, of_class = np.unique(y, return_inverse=True)
    clusters, of_cluster = np.unique(labels, return_inverse=True)
    if max(len(classes), len(clusters)) <= _MOST_CLASSES:
        counts = np.zeros((len(classes), len(clusters)), dtype=int)
        np.add.at(counts, (of_class, of_cluster), 1)
        columns = ["Class", *map(html.name, clusters)]
        table = [(html.name(label), *(f"{n:,}" for n in row)) for label, row in zip(classes, counts, strict=True)]
        body.append(html.table("Samples of each class in each cluster", columns, table, "l" + "r" * len(clusters)))
    return Section("measures", "Comparison with the known classes", body)


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
        text += f"Based on {len(found.rows):,} of the {n_samples:,} samples, drawn by a hash of their values."
    return html.paragraph(text, class_="note")
