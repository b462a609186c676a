"""The HTML page that ``cluster`` and ``demo`` write about a clustering."""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._outcome import working_on_data, writing_output
from ._screen import progress

if TYPE_CHECKING:
    from ..datasets import Dataset

# Orders of the rows that are tried for a page, and up to how many samples without being asked for.
ORDERS = 3
MOST_AUDITED = 2000
_PROGRAMS = ("tensormvc", "numpy", "scipy", "scikit-learn")


def command_line() -> str:
    """Return what to type to run the same again."""
    return shlex.join(["tensormvc", *sys.argv[1:]])


def check_report(folder: Path, force: bool) -> None:
    """Refuse, before anything is computed, a page that could not be written."""
    from .._files import check_target

    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError("the page needs matplotlib: pip install 'tensormvc[plot]'") from error
    with writing_output(folder):
        check_target(folder / "index.html", overwrite=force, make_folder=True)


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
) -> Path:
    """Write the page about a fitted estimator, after trying some orders of the rows, and return its path."""
    from .. import audit_order, datasets
    from ..report import ClusterRun, write_cluster_report

    audit = None
    with working_on_data():
        if orders > 1:
            with progress("trying orders", 2 * orders) as advance:
                audit = audit_order(
                    estimator,
                    data.views,
                    n_permutations=orders,
                    y=data.y,
                    progress=lambda done, total: advance(done, f"{done} of {total} fits"),
                )
        run = ClusterRun(
            command=command_line(),
            file_name=str(file),
            description=datasets.describe(data.views, data.y),
            views=data.views,
            estimator=estimator,
            labels=estimator.labels_,
            seconds=seconds,
            sample_ids=None if data.sample_ids is None else data.sample_ids.tolist(),
            y=data.y,
            audit=audit,
            notes=[(f"{name} {choice['value']}", choice["reason"]) for name, choice in chosen.items()],
            versions={"Python": platform.python_version(), **{name: version(name) for name in _PROGRAMS}},
        )
    with writing_output(folder), progress("drawing the page"):
        return write_cluster_report(folder, run, force=force)
