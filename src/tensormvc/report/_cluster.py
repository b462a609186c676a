"""The page about one clustering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _cluster_sections as sections
from ._page import facts, page, write_page
from ._view_agreement import agreement

if TYPE_CHECKING:
    from ..audit import OrderAudit
    from ..datasets._describe import Description

_AUDITED = {True: "matters", False: "does not matter"}


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
        What was chosen, and the reason.
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

    Distances, silhouettes and the affinity are taken among at most 2 000 samples. A hash of their values draws them, so
    that the order of the rows changes no number and no picture.

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
    parts = [
        sections.how(run),
        sections.data(run),
        sections.clusters(run, found),
        sections.pictures(run, found),
        sections.view_agreement(run, found),
        sections.convergence(run),
        sections.order(run),
    ]
    if run.y is not None:
        parts.append(sections.measures(run))
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
    title = f"Clusters of {PurePath(run.file_name).name}"
    lead = "What was found, how it was found, and how far to trust it."
    return page(title, lead, head, parts, f"Made by tensormvc {run.versions.get('tensormvc', '')}".strip())


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
