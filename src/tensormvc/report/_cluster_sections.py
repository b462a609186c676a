"""The sections of the page about one clustering."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import metrics, plotting
from ..auto._scaling import MEANINGS, lean, usual_normalisation
from ..bases import ViewFFT
from ._figures import picture
from ._page import (
    Html,
    Section,
    bar,
    bullets,
    callout,
    code,
    element,
    figure,
    join,
    name,
    paragraph,
    side_by_side,
    table,
)
from ._view_agreement import Agreement

if TYPE_CHECKING:
    from ._cluster import ClusterRun

_TYPICAL = 3
# Rows from which a scaling is suggested.
_SCALED_ROWS = 10_000
_MOST_CLUSTERS = 200
# A table of classes against clusters that is larger than this helps nobody.
_MOST_CLASSES = 20
# Parameters that do not change the result.
_SILENT = {"callback", "keep", "progress", "verbose", "view_sizes"}


def how(run: ClusterRun) -> Section:
    """Say how to do it again: command, choices, parameters, versions."""
    parameters = {k: str(v) for k, v in run.estimator.get_params(deep=False).items() if k not in _SILENT}
    if hasattr(run.estimator, "basis_"):
        parameters["basis"] += f", fitted as {run.estimator.basis_}"
    body = [paragraph("This command does it again:"), code(run.command)]
    if run.notes:
        body += [
            paragraph("What was chosen, and why:"),
            bullets(join([element("strong", what), ": ", why]) for what, why in run.notes),
        ]
    caption, rows = f"Parameters of {_kind(run)}", [(element("code", key), name(v)) for key, v in parameters.items()]
    tables = [table(caption, ["Parameter", "Value"], rows, "ll")]
    if run.versions:
        rows = [(name(program), name(version)) for program, version in run.versions.items()]
        tables.append(table("Versions", ["Program", "Version"], rows, "ll"))
    body.append(side_by_side(*tables))
    return Section("run", "What was run", body)


def data(run: ClusterRun) -> Section:
    """Show what the views look like."""
    described = run.description
    rows = [
        (
            name(view.name),
            f"{view.n_features:,}",
            f"{view.dtype}, {view.storage}",
            f"{view.density:.1%}",
            f"{view.n_missing:,}",
            f"{view.n_constant:,}",
            f"{view.n_duplicates:,}",
            f"{_number(view.minimum, '.4g')} to {_number(view.maximum, '.4g')}",
            join([element("strong", scaling), ": ", why]),
        )
        for view, (scaling, why) in zip(described.views, _scalings(run), strict=True)
    ]
    chosen = hasattr(run.estimator, "report_")
    columns = ["View", "Features", "Type", "Not zero", "Missing samples", "Constant features", "Repeated rows"]
    body = [
        table("The views", [*columns, "Values", "Scaling" if chosen else "Scaling that would fit"], rows, "lrlrrrrlp"),
    ]
    if not chosen:
        body.append(paragraph("Methods of tensormvc scale every sample of every view to unit length.", class_="note"))
    if PurePath(run.file_name).stem.endswith("_recomputed"):
        body.append(paragraph("The features were computed anew: they are not those of the published data set."))
    if described.class_counts is not None:
        sizes = sorted(set(described.class_counts.values()))
        span = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
        text = f"The file has {len(described.class_counts):,} classes of {span} samples"
        if described.class_sorted:
            text += ", and its rows are sorted by them: a method that depends on the order profits from that"
        body.append(paragraph(f"{text}."))
    if described.n_duplicates:
        body.append(paragraph(f"{described.n_duplicates:,} samples repeat an earlier one exactly in all views."))
    return Section("data", "The data at a glance", body)


def _scalings(run: ClusterRun) -> list[tuple[str, str]]:
    """Return how each view was scaled and why, or, where a method does not choose, what would suit its values."""
    if not hasattr(run.estimator, "report_"):
        views = run.views.values() if isinstance(run.views, Mapping) else run.views
        step = max(1, run.description.n_samples // _SCALED_ROWS)
        names = [usual_normalisation(lean(view[::step])) for view in views]
        return [(name, MEANINGS[name]) for name in names]
    chosen = {choice.view: (choice.name, choice.reason) for choice in run.estimator.report_.normalisations}
    return [chosen[view.name] for view in run.description.views]


def clusters(run: ClusterRun, found: Agreement) -> Section:
    """Show sizes, how tight the clusters are, and typical samples."""
    labels = np.asarray(run.labels)
    clusters, sizes = np.unique(labels, return_counts=True)
    of_rows = labels[found.rows]
    links = found.graph.tocoo()
    inside = of_rows[links.row] == of_rows[links.col]
    inner = np.bincount(links.row, links.data * inside, minlength=len(found.rows))
    degree = np.bincount(links.row, links.data, minlength=len(found.rows))
    listed = np.sort(np.argsort(-sizes, kind="stable")[:_MOST_CLUSTERS])
    rows = []
    for cluster, size in zip(clusters[listed], sizes[listed], strict=True):
        members = np.flatnonzero(of_rows == cluster)
        share = inner[members].sum() / degree[members].sum() if degree[members].any() else math.nan
        typical = found.rows[members[np.argsort(-inner[members], kind="stable")[:_TYPICAL]]]
        rows.append(
            (
                name(cluster),
                f"{size:,}",
                bar(f"{size / len(labels):.1%}", size / sizes.max()),
                _number(share, ".1%"),
                Html(", ".join(_sample(run, row) for row in typical)),
            )
        )
    what = "ids" if run.sample_ids is not None else "row numbers, from 0"
    more = f"There are {len(sizes) - len(listed):,} more clusters, none larger. " if len(listed) < len(sizes) else ""
    return Section(
        "clusters",
        "Cluster sizes",
        [
            table("The clusters", ["Cluster", "Samples", "Share", "Links inside", "Typical samples"], rows, "lrlrp"),
            paragraph(
                more,
                f"Links inside: of the links of the cluster's samples to their {found.n_neighbors} nearest in each "
                f"view, the share that stays in the cluster. Typical samples ({what}) have the most such links. ",
                _looked_at(found, len(labels)),
                class_="note",
            ),
        ],
    )


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
            f"Scatter plot of {shown} in two directions of the embedding, one colour and marker a cluster. "
            "The table of clusters has their sizes.",
        )
        figures.append(figure(drawn, f"The embedding that the clusters were read from; {shown}."))
    affinity, source = _affinity(run, found)
    drawn = picture(
        lambda ax: plotting.plot_affinity(affinity, labels[rows], ax=ax),
        "affinity",
        f"Image of {source} between {shown}, sorted by cluster: blocks along the diagonal are clusters, "
        "and what is bright outside of them are ties between clusters.",
    )
    caption = f"{source[0].upper()}{source[1:]}; {shown}. Bright blocks along the diagonal are tight clusters."
    figures.append(figure(drawn, caption))
    return Section("pictures", "Embedding and affinity", [side_by_side(*figures)])


def _affinity(run: ClusterRun, found: Agreement) -> tuple[Any, str]:
    """Return similarities between the samples that were looked at, the method's own where it has them."""
    for attribute, source in (("affinity_", "the method's affinity"), ("graph_", "the method's graph")):
        whole = getattr(run.estimator, attribute, None)
        if whole is not None:
            return whole[found.rows][:, found.rows], source
    return found.graph, f"links to the {found.n_neighbors} nearest in each view"


def view_agreement(run: ClusterRun, found: Agreement) -> Section:
    """Show how far each view supports the clusters."""
    rows = [
        (name(view.name), bar(_number(within, ".1%"), within), _number(silhouette, ".3f"))
        for view, within, silhouette in zip(run.description.views, found.within, found.silhouette, strict=True)
    ]
    return Section(
        "agreement",
        "Agreement of the views",
        [
            paragraph("How far each view by itself supports the clusters. No label is used."),
            table("Agreement of each view with the clusters", ["View", "Links inside", "Silhouette"], rows, "llr"),
            paragraph(
                f"Links inside: of the links to the {found.n_neighbors} nearest in that view, the share that joins "
                f"samples of one cluster; random links would have {found.chance:.1%}. Silhouette: from −1 to 1, above "
                "0 if samples are nearer to their own cluster than to the next, in Euclidean distance at unit length. "
                "A view far below the others sees other groups than the clusters, or none. ",
                _looked_at(found, len(run.labels)),
                class_="note",
            ),
        ],
    )


def convergence(run: ClusterRun) -> Section:
    """Say whether the method came to an end, or what was joined."""
    estimator, kind = run.estimator, _kind(run)
    if hasattr(estimator, "report_"):
        return _joined(estimator.report_)
    converged, rounds = getattr(estimator, "converged_", None), getattr(estimator, "n_iter_", None)
    history = getattr(estimator, "history_", None)
    body = []
    if converged:
        body.append(callout("good", f"{kind} converged after {rounds} rounds."))
    elif converged is not None:
        body.append(
            callout(
                "warning",
                f"{kind} did not converge in {rounds} rounds.",
                paragraph("The labels may still change: raise the number of rounds, or see whether they are stable."),
            )
        )
    if history:
        first, last = history[0].residuals, history[-1].residuals
        drawn = picture(
            lambda ax: plotting.plot_convergence(estimator, ax=ax),
            "convergence",
            f"Line plot of the residuals over {len(history)} rounds. "
            + "; ".join(f"{key} from {first[key]:.2g} to {last[key]:.2g}" for key in last)
            + ".",
        )
        rows = [(element("code", key), f"{first[key]:.2e}", f"{last[key]:.2e}") for key in last]
        tolerance = getattr(estimator, "tol", None)
        says = "What the stop rule looks at, by round" + (f"; it stops below {tolerance:g}." if tolerance else ".")
        body.append(
            side_by_side(
                figure(drawn, says), table("Residuals", ["Residual", "First round", "Last round"], rows, "lrr")
            )
        )
    elif converged is None:
        body.append(paragraph(f"{kind} keeps no record of its rounds."))
    return Section("convergence", "Convergence", body)


def _joined(report: Any) -> Section:
    """Show the clusterings that the result is the consensus of."""
    best = max(member.weight for member in report.members)
    rows = [
        (name(member.name), f"{member.score:.3f}", bar(f"{member.weight:.1%}", member.weight / best))
        for member in report.members
    ]
    body = [
        table("The clusterings that were joined", ["Pipeline", "Information", "Share"], rows, "lrl"),
        paragraph(
            "Information: how much the cluster of a neighbour tells about that of a sample, over the weighted views, "
            "in nats. It decides the share in the result. No label is used.",
            class_="note",
        ),
    ]
    if report.left_out:
        body.append(callout("warning", "The time was too short for all of them.", bullets(map(name, report.left_out))))
    return Section("joined", "Clusterings that were joined", body)


def order(run: ClusterRun) -> Section:
    """Say whether the order of the rows matters."""
    if run.audit is None:
        body = [] if (known := _known_of_order(run)) is None else [known]
        body += [
            paragraph("Whether the clusters depend on the order of the rows was not tried in this run. To try it:"),
            code(_audit_command(run)),
        ]
        return Section("order", "Order of the rows", body)
    audit = run.audit
    if audit.order_dependent:
        verdict = callout(
            "warning",
            "The clusters depend on the order of the rows.",
            paragraph(audit.verdict),
            paragraph(
                "The order of the rows means nothing: try a basis that comes from the data, such as gft or agft."
            ),
        )
    else:
        verdict = callout("good", "Other orders of the rows gave the same clusters.", paragraph(audit.verdict))
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
    beside = [table(caption, columns, rows, "lrr")]
    if len(audit.unstable_samples):
        moved = Html(", ".join(_sample(run, row) for row in audit.unstable_samples))
        beside.append(paragraph("Samples that move most: ", moved, "."))
    says = "How much clusterings of the same samples agree. 1 is perfect agreement."
    body = [verdict, side_by_side(figure(drawn, says), element("div", *beside))]
    return Section("order", "Order of the rows", body)


def _known_of_order(run: ClusterRun) -> Html | None:
    """Return what the basis alone tells about the order of the rows."""
    basis = getattr(run.estimator, "basis_", None)
    if hasattr(run.estimator, "report_"):
        return callout("good", f"By design the order of the rows does not matter to {_kind(run)}.")
    if basis is None:
        return None
    if getattr(basis, "adapts_to_data", False) or isinstance(basis, ViewFFT):
        return callout("good", f"By design the order of the rows does not matter to {_kind(run)} with this basis.")
    return callout(
        "warning",
        "The basis runs along the rows as the file has them.",
        paragraph("Other orders of the same samples may give other clusters."),
    )


def _audit_command(run: ClusterRun) -> str:
    """Return the command that tries other orders of the rows with the same method."""
    estimator = run.estimator
    words = ["tensormvc", "audit", run.file_name]
    words += ["--clusters", str(getattr(estimator, "n_clusters_", len(np.unique(run.labels))))]
    if isinstance(basis := getattr(estimator, "basis", None), str):
        words += ["--basis", basis]
    if type(estimator).__module__.startswith("tensormvc."):
        words += ["--method", "auto" if hasattr(estimator, "report_") else _kind(run).lower()]
        defaults = type(estimator)().get_params(deep=False)
        for key, value in estimator.get_params(deep=False).items():
            if key == "random_state" and value is not None:
                words += ["--seed", str(value)]
            elif key not in _SILENT | {"n_clusters", "basis"} and value != defaults[key]:
                words += ["--param", f"{key}={value}"]
    return shlex.join(words)


def measures(run: ClusterRun) -> Section:
    """Measure the agreement with the known classes."""
    y, labels = np.asarray(run.y), np.asarray(run.labels)
    measured = metrics.clustering_report(y, labels)
    body = [
        callout("info", "The known classes were used to measure, and for nothing else."),
        table(
            "Agreement with the known classes",
            ["Measure", "Value"],
            [(key, bar(f"{value:.4f}", value)) for key, value in measured.items()],
            "ll",
        ),
    ]
    classes, of_class = np.unique(y, return_inverse=True)
    clusters, of_cluster = np.unique(labels, return_inverse=True)
    if max(len(classes), len(clusters)) <= _MOST_CLASSES:
        counts = np.zeros((len(classes), len(clusters)), dtype=int)
        np.add.at(counts, (of_class, of_cluster), 1)
        body.append(
            table(
                "Samples of each class in each cluster",
                ["Class", *(name(cluster) for cluster in clusters)],
                [
                    (name(label), *(f"{count:,}" for count in row))
                    for label, row in zip(classes, counts.tolist(), strict=True)
                ],
                "l" + "r" * len(clusters),
            )
        )
    return Section("measures", "Against the known classes", body)


def _kind(run: ClusterRun) -> str:
    return type(run.estimator).__name__


def _sample(run: ClusterRun, row: int) -> Html:
    return name(row if run.sample_ids is None else run.sample_ids[row])


def _number(value: float, form: str) -> str:
    return "—" if math.isnan(value) else format(value, form).replace("-", "−")


def _ari(mean: float, interval: tuple[float, float]) -> tuple[str, str]:
    return _number(mean, ".3f"), " to ".join(_number(end, ".3f") for end in interval)


def _looked_at(found: Agreement, n_samples: int) -> str:
    if len(found.rows) == n_samples:
        return ""
    return f"Taken among {len(found.rows):,} of the {n_samples:,} samples, drawn by a hash of their values."
