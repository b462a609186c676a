"""Write the report on a results file: an HTML page, CSV and LaTeX."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from .._files import check_target, writing
from ._export import deviations_csv, figures_csv, latex, settings_csv
from ._page import results_page
from ._store import Store, StoreError
from ._tables import read_results


def write_bench_report(results: str | Path, folder: str | Path, *, force: bool = False) -> list[Path]:
    """Write an HTML page, CSV files and LaTeX tables for a results file.

    Parameters
    ----------
    results : str or path-like
        The SQLite file that `run_plan` wrote. A run that is not finished can be reported, too.
    folder : str or path-like
        Folder for ``index.html``, ``settings.csv``, ``deviations.csv``, and ``PLAN.csv`` and ``PLAN.tex`` of every
        plan. It is created if it does not exist.
    force : bool, default=False
        Whether to overwrite existing files.

    Returns
    -------
    list of Path
        The files written.

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
        raise StoreError(f"{results} holds no results: run a plan first")
    files: dict[str, Callable[[], str]] = {}
    for one in plans:
        files |= {f"{one.plan.name}.csv": partial(figures_csv, one), f"{one.plan.name}.tex": partial(latex, one)}
    files["settings.csv"], files["deviations.csv"] = partial(settings_csv, plans), partial(deviations_csv, plans)
    files["index.html"] = partial(results_page, Path(results).name, plans)
    for name in files:
        check_target(folder / name, overwrite=force, make_folder=True)
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in files.items():
        with writing(folder / name, overwrite=force) as place:
            place.write_text(make(), encoding="utf-8")
    return [folder / name for name in files]
