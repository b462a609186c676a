"""The report about one clustering."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _auto_sections as auto_sections
from . import _cluster_sections as sections
from ._page import Html, facts, join, page, write_page
from ._view_agreement import agreement

if TYPE_CHECKING:
    from ..audit import OrderAudit
    from ..datasets._describe import Description

_AUDITED = {True: "matters", False: "does not matter"}


@dataclass(frozen=True)
class ClusterRun:
    """A clustering, with everything that its report shows.

    Parameters
    ----------
    command : str
        The command line that runs it again.
    file_name : str
        Name of the input, as the user wrote it.
    description : Description
        Summary of the views, from `datasets.describe`.
    views : list or dict of arrays (n_samples, n_features_v)
        The views, in the order of `description`, with their rows in the order of `labels`.
    estimator : estimator
        The fitted estimator.
    labels : ndarray of shape (n_samples,)
        The clusters.
    seconds : float
        Duration of the fit.
    sample_ids : sequence, optional
        Names of the samples; row numbers by default.
    y : array of shape (n_samples,), optional
        Known classes, to compare the clusters with; the report says that they are used for nothing else.
    audit : OrderAudit, optional
        Result of an audit of the row order.
    notes : sequence of (what, why), optional
        Choices that were made, with reasons.
    versions : mapping of str to str, optional
        Versions of the packages used.
    reading : sequence of str, optional
        Options of the command line that say how to read the input.

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
    reading: Sequence[str] = ()


def write_cluster_report(directory: str | Path, run: ClusterRun, *, force: bool = False) -> Path:
    """Write an HTML report about a clustering, as one file that needs neither other files nor a network.

    Neighbours, silhouettes and the affinity are computed on at most 2 000 samples, drawn by a hash of their values, so
    that the order of the rows changes no number and no figure.

    Parameters
    ----------
    directory : str or path-like
        Folder for ``index.html``; created if it does not exist.
    run : ClusterRun
        The clustering.
    force : bool, default=False
        Whether to replace an existing report; otherwise that is an error.

    Returns
    -------
    Path
        Path of the report.

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
    auto = sections.auto_report(run)
    parts = [sections.how(run), sections.data(run, views), sections.clusters(run, found), sections.pictures(run, found)]
    if auto is not None:
        parts += [auto_sections.features(run), auto_sections.granularity(run)]
    parts += [sections.view_agreement(run, found), sections.convergence(run), sections.order(run)]
    if run.y is not None:
        parts.append(sections.measures(run))
    head = {
        "Samples": f"{run.description.n_samples:,}",
        "Views": f"{len(views):,}",
        "Clusters": f"{len(np.unique(run.labels)):,}",
        # A long name may break between its words.
        "Method": Html(re.sub(r"(?<=[a-z])(?=[A-Z])", "<wbr />", type(run.estimator).__name__)),
        "Time": _duration(run.seconds),
        "Row order": "not audited" if run.audit is None else _AUDITED[run.audit.order_dependent],
    }
    title = f"Clusters of {PurePath(run.file_name).name}"
    lead = "The clusters, how they were found, and how far to trust them."
    foot = f"Written by tensormvc {run.versions.get('tensormvc', '')}".strip()
    top = [facts(head.items())] if auto is None else [auto_sections.certainty(auto), facts(head.items())]
    return page(title, lead, join(top), parts, foot)


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
