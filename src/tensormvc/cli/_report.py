"""The HTML report that ``cluster`` and ``demo`` write about a clustering."""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._outcome import check_output, working_on_data, writing_output
from ._screen import progress

if TYPE_CHECKING:
    from ..audit import OrderAudit
    from ..datasets import Dataset

# Number of row orders that are audited for a report, and up to how many samples by default.
ORDERS = 3
UNASKED_UP_TO = 2000
_PACKAGES = ("tensormvc", "numpy", "scipy", "scikit-learn")


def command_line() -> str:
    """Return the command that runs the same again."""
    return shlex.join(["tensormvc", *sys.argv[1:]])


def require_matplotlib(what: str) -> None:
    """Refuse, before anything is computed, a picture that could not be drawn."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(f"{what} needs matplotlib: pip install 'tensormvc[plot]'") from error


def check_report(folder: Path, force: bool) -> None:
    """Refuse, before anything is computed, a report that could not be written."""
    require_matplotlib("the report")
    check_output(folder / "index.html", force, make_folder=True)


def audit_with_progress(estimator: Any, data: Dataset, orders: int, **options: Any) -> OrderAudit:
    """Audit the row order, with a progress bar that counts the fits."""
    from .. import audit_order

    with working_on_data(), progress("auditing the row order") as advance:
        return audit_order(
            estimator,
            data.views,
            n_permutations=orders,
            y=data.y,
            progress=lambda done, total: advance(done, total, f"{done} of {total} fits"),
            **options,
        )


def save_figure(draw: Any, path: Path, size: tuple[float, float], force: bool) -> None:
    """Save what `draw` draws into the axes it is given."""
    from matplotlib.figure import Figure

    from .._files import writing

    figure = Figure(figsize=size, layout="constrained")
    draw(figure.subplots())
    with writing_output(path), writing(path, overwrite=force) as place:
        figure.savefig(place, dpi=160)


def write_report(
    folder: Path,
    file: str | Path,
    data: Dataset,
    estimator: Any,
    *,
    chosen: Mapping[str, Mapping[str, Any]],
    seconds: float,
    orders: int,
    force: bool,
    reading: Sequence[str] = (),
) -> Path:
    """Write the report about a fitted estimator, after an audit of the row order, and return its path."""
    from .. import datasets
    from ..report import ClusterRun, write_cluster_report

    audit = audit_with_progress(estimator, data, orders) if orders > 1 else None
    with working_on_data():
        run = ClusterRun(
            command=command_line(),
            file_name=str(file),
            reading=reading,
            description=datasets.describe(data.views, data.y),
            views=data.views,
            estimator=estimator,
            labels=estimator.labels_,
            seconds=seconds,
            sample_ids=None if data.sample_ids is None else data.sample_ids.tolist(),
            y=data.y,
            audit=audit,
            # The scalings are in the page's table of views.
            notes=[(f"{k} {c['value']}", c["reason"]) for k, c in chosen.items() if not k.startswith("scaling of ")],
            versions={"Python": platform.python_version(), **{name: version(name) for name in _PACKAGES}},
        )
    with writing_output(folder), progress("drawing the report"):
        return write_cluster_report(folder, run, force=force)
