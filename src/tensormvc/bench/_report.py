"""Writing what a file of results says: a page, CSV and LaTeX."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from .._files import check_target, writing
from ._export import deviations_csv, figures_csv, latex, settings_csv
from ._page import results_page
from ._store import Store, StoreError
from ._tables import PlanResults, read_results


def write_bench_report(results: str | Path, folder: str | Path, *, force: bool = False) -> list[Path]:
    """Write a page, tables and lists about a file of results.

    Parameters
    ----------
    results : str or path-like
        The SQLite file that `run_plan` made; it may be unfinished, and is not changed.
    folder : str or path-like
        Where to: ``index.html``, and for each plan ``PLAN.csv`` and ``PLAN.tex``; ``settings.csv`` and
        ``deviations.csv`` for all. It is made if it is not there.
    force : bool, default=False
        Whether to replace files that are there.

    Returns
    -------
    list of Path
        The files.

    Examples
    --------
    >>> import tempfile, tensormvc as tm
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as name:
    ...     folder = Path(name)
    ...     _ = (folder / "tiny.toml").write_text('''
    ... title = "k-means on a few digits"
    ... datasets = [{name = "digits", n_samples = 60}]
    ... baselines = ["kmeans-l2"]
    ... trials = 2
    ... ''')
    ...     _ = tm.bench.run_plan(folder / "tiny.toml", folder / "tiny.sqlite")
    ...     written = tm.bench.write_bench_report(folder / "tiny.sqlite", folder / "report")
    >>> [path.name for path in written]
    ['tiny.csv', 'tiny.tex', 'settings.csv', 'deviations.csv', 'index.html']
    """
    folder = Path(folder)
    with Store(results, must_exist=True) as store:
        rows = store.rows()
        plans = [read_results(stored, rows) for stored in store.plans()]
    if not plans:
        raise StoreError(f"{results} holds no plan yet")
    files = report_files(Path(results).name, plans)
    for name in files:
        check_target(folder / name, overwrite=force, make_folder=True)
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in files.items():
        with writing(folder / name, overwrite=force) as place:
            place.write_text(make(), encoding="utf-8")
    return [folder / name for name in files]


def report_files(source: str, plans: list[PlanResults]) -> dict[str, Callable[[], str]]:
    """Return the name of every file of a report, and what makes its contents."""
    made: dict[str, Callable[[], str]] = {}
    for one in plans:
        made[f"{one.plan.name}.csv"] = partial(figures_csv, one)
        made[f"{one.plan.name}.tex"] = partial(latex, one)
    made["settings.csv"] = lambda: settings_csv(plans)
    made["deviations.csv"] = lambda: deviations_csv(plans)
    made["index.html"] = lambda: results_page(source, plans)
    return made
