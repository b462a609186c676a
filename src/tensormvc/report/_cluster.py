"""The page about one clustering."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import metrics, plotting
from ._figures import picture
from ._page import (
    Html,
    Section,
    bar,
    bullets,
    callout,
    code,
    element,
    facts,
    figure,
    join,
    name,
    page,
    paragraph,
    side_by_side,
    table,
    write_page,
)
from ._view_agreement import Agreement, agreement

if TYPE_CHECKING:
    from ..audit import OrderAudit
    from ..datasets._describe import Description

_AUDITED = {True: "matters", False: "does not matter"}
_TYPICAL = 3
# A table of classes against clusters that is larger than this helps nobody.
_MOST_CLASSES = 20
# Parameters that do not change the result.
_SILENT = {"callback", "keep", "verbose", "view_sizes"}


@dataclass(frozen=True)
class ClusterRun:
    """A clustering and all that its page tells of it.

    Parameters
    ----------
    command : str
        The command line that does it again.
    file_name : str
        Where the data came from, as the user wrote it.
    description : Description
        What `datasets.describe` said of the views.
    views : list or dict of arrays (n_samples, n_features_v)
        The views, in the order of the description, with their rows in the order of the labels.
    estimator : estimator
        The fitted method.
    labels : ndarray of shape (n_samples,)
        The clusters.
    seconds : float
        How long the fit took.
    sample_ids : sequence, optional
        Names of the samples; else they are called by their row.
    y : array of shape (n_samples,), optional
        Classes that are known, to measure with; the page says that they were used for nothing else.
    audit : OrderAudit, optional
        Whether the result depends on the order of the rows, if that was tried.
    notes : sequence of (what, why), optional
        What was chosen without being asked for, and the reason.
    versions : mapping of str to str, optional
        Programs that took part.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(120)
    >>> model = tm.TSVDMVC(n_clusters=10, random_state=0).fit(views)
    >>> run = tm.report.ClusterRun(
    ...     command="tensormvc cluster digits.npz -k 10 --seed 0",
    ...     file_name="digits.npz",
    ...     description=tm.datasets.describe(views),
    ...     views=views,
    ...     estimator=model,
    ...     labels=model.labels_,
    ...     seconds=0.4,
    ... )
    >>> run.y is None
    True
    """

    command: str
    file_name: str
    description: Description
    views: Any
    estimator: Any
    labels: NDArray[Any]
    seconds: float
    sample_ids: Sequence[Any] | None = None
    y: Any = None
    audit: OrderAudit | None = None
    notes: Sequence[tuple[str, str]] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


def write_cluster_report(directory: str | Path, run: ClusterRun, *, force: bool = False) -> Path:
    """Write the page about a clustering: one file, which needs nothing else and no network.

    Distances, silhouettes and the affinity are taken among at most 2 000 samples, drawn with a fixed seed.

    Parameters
    ----------
    directory : str or path-like
        Folder for ``index.html``; it is made where it is not there.
    run : ClusterRun
        What was done.
    force : bool, default=False
        Whether to replace a page that is there; otherwise that is an error.

    Returns
    -------
    Path
        The page.

    Examples
    --------
    >>> import tempfile, tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(120)
    >>> model = tm.TSVDMVC(n_clusters=10, random_state=0).fit(views)
    >>> run = tm.report.ClusterRun(
    ...     command="tensormvc cluster digits.npz -k 10 --seed 0",
    ...     file_name="digits.npz",
    ...     description=tm.datasets.describe(views),
    ...     views=views,
    ...     estimator=model,
    ...     labels=model.labels_,
    ...     seconds=0.4,
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = tm.report.write_cluster_report(folder, run)
    ...     page.name, page.stat().st_size < 1_000_000
    ('index.html', True)
    """
    return write_page(Path(directory) / "index.html", lambda: _document(run), force=force)


def _document(run: ClusterRun) -> str:
    views = list(run.views.values()) if isinstance(run.views, Mapping) else list(run.views)
    found = agreement(views, np.asarray(run.labels))
    sections = [
        _how(run),
        _data(run),
        _clusters(run, found),
        _pictures(run, found),
        _agreement(run, found),
        _convergence(run),
        _order(run),
    ]
    if run.y is not None:
        sections.append(_measures(run))
    n_clusters, n_views = len(np.unique(run.labels)), len(run.description.views)
    head = facts(
        [
            ("Samples", f"{run.description.n_samples:,}"),
            ("Views", f"{n_views:,}"),
            ("Clusters", f"{n_clusters:,}"),
            ("Method", type(run.estimator).__name__),
            ("Time", _duration(run.seconds)),
            ("Row order", "not audited" if run.audit is None else _AUDITED[run.audit.order_dependent]),
        ]
    )
    title = f"Clusters of {_file(run)}"
    lead = "What was found, how it was found, and how far to trust it."
    return page(title, lead, head, sections, f"Made by tensormvc {run.versions.get('tensormvc', '')}".strip())


def _how(run: ClusterRun) -> Section:
    parameters = {k: str(v) for k, v in run.estimator.get_params(deep=False).items() if k not in _SILENT}
    if hasattr(run.estimator, "basis_"):
        parameters["basis"] += f", fitted as {run.estimator.basis_}"
    body = [
        paragraph("This command does it again:"),
        code(run.command),
    ]
    if run.notes:
        body += [
            paragraph("Chosen without being asked for:"),
            bullets(join([element("strong", what), ": ", why]) for what, why in run.notes),
        ]
    body.append(
        side_by_side(
            table(
                f"Parameters of {type(run.estimator).__name__}",
                ["Parameter", "Value"],
                [(element("code", key), name(value)) for key, value in parameters.items()],
                "ll",
            ),
            *(
                [table("Versions", ["Program", "Version"], [(k, name(v)) for k, v in run.versions.items()], "ll")]
                if run.versions
                else []
            ),
        )
    )
    return Section("run", "What was run", body)


def _data(run: ClusterRun) -> Section:
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
            f"{view.minimum:.4g} to {view.maximum:.4g}",
            join([element("strong", view.normalisation), ": ", view.why]),
        )
        for view in described.views
    ]
    columns = ["View", "Features", "Type", "Not zero", "Missing samples", "Constant features", "Repeated rows"]
    body = [
        table("The views", [*columns, "Values", "Scaling that would fit"], rows, "lrlrrrrlp"),
        paragraph("The method itself scales every sample of every view to unit length.", class_="note"),
    ]
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
        text = f"{described.n_duplicates:,} samples repeat an earlier one exactly in all views, and share its cluster."
        body.append(paragraph(text))
    return Section("data", "The data at a glance", body)


def _clusters(run: ClusterRun, found: Agreement) -> Section:
    labels = np.asarray(run.labels)
    clusters, sizes = np.unique(labels, return_counts=True)
    of_rows = labels[found.rows]
    links = found.graph.tocoo()
    inside = of_rows[links.row] == of_rows[links.col]
    inner = np.bincount(links.row, links.data * inside, minlength=len(found.rows))
    degree = np.bincount(links.row, links.data, minlength=len(found.rows))
    rows = []
    for cluster, size in zip(clusters, sizes, strict=True):
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
    return Section(
        "clusters",
        "Cluster sizes",
        [
            table("The clusters", ["Cluster", "Samples", "Share", "Links inside", "Typical samples"], rows, "lrlrp"),
            paragraph(
                f"Links inside: of the links of the cluster's samples to their {found.n_neighbors} nearest in each "
                f"view, the share that stays in the cluster. Typical samples ({what}) have the most such links. ",
                _looked_at(found, len(labels)),
                class_="note",
            ),
        ],
    )


def _pictures(run: ClusterRun, found: Agreement) -> Section:
    rows, labels = found.rows, np.asarray(run.labels)
    shown = "all samples" if len(rows) == len(labels) else f"{len(rows):,} of {len(labels):,} samples"
    figures = []
    embedding = getattr(run.estimator, "embedding_", None)
    if embedding is not None and embedding.shape[1] > 1:
        drawn = picture(
            lambda ax: plotting.plot_embedding(embedding[rows], labels[rows], ax=ax),
            "embedding",
            f"Scatter plot of {shown} over the first two principal components of the embedding, one colour and marker "
            "a cluster. The table of clusters has their sizes.",
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


def _agreement(run: ClusterRun, found: Agreement) -> Section:
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


def _convergence(run: ClusterRun) -> Section:
    estimator, kind = run.estimator, type(run.estimator).__name__
    converged, rounds = getattr(estimator, "converged_", None), getattr(estimator, "n_iter_", None)
    history = getattr(estimator, "history_", None)
    body = []
    if converged is True:
        body.append(callout("good", f"{kind} converged after {rounds} rounds."))
    elif converged is False:
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


def _order(run: ClusterRun) -> Section:
    if run.audit is None:
        return Section(
            "order",
            "Order of the rows",
            [
                paragraph(
                    "Whether the result depends on the order of the rows was not tried in this run. This command does:"
                ),
                code(f"tensormvc audit {shlex.quote(run.file_name)} -k {len(np.unique(run.labels))}"),
            ],
        )
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
        verdict = callout("good", "The clusters do not depend on the order of the rows.", paragraph(audit.verdict))
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


def _measures(run: ClusterRun) -> Section:
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


def _file(run: ClusterRun) -> str:
    return PurePath(run.file_name).name


def _sample(run: ClusterRun, row: int) -> Html:
    return name(row if run.sample_ids is None else run.sample_ids[row])


def _number(value: float, form: str) -> str:
    return "—" if math.isnan(value) else format(value, form).replace("-", "−")


def _ari(mean: float, interval: tuple[float, float]) -> tuple[str, str]:
    return _number(mean, ".3f"), " to ".join(_number(end, ".3f") for end in interval)


def _looked_at(found: Agreement, n_samples: int) -> str:
    if len(found.rows) == n_samples:
        return ""
    return f"Taken among {len(found.rows):,} of the {n_samples:,} samples, drawn at random with a fixed seed."


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
