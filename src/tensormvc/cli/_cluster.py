"""``tensormvc cluster``: labels for the samples of a file."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._fit import choices, fit_with_progress
from ._on_cluster import cluster_on_scheduler
from ._options import (
    BasisOption,
    Clusters,
    File,
    Force,
    JoinOption,
    Json,
    LabelName,
    MethodOption,
    NoLabels,
    On,
    Parameters,
    SamplesOption,
    Seed,
    ViewNames,
    default_method,
    features_note,
    load,
    make_estimator,
    n_clusters_of,
    refuse_same_file,
)
from ._outcome import usage_error, with_outcome, working_on_data, writing_output
from ._report import MOST_AUDITED, ORDERS, check_report, command_line, write_report
from ._screen import collected_warnings, console, print_json, table

if TYPE_CHECKING:
    from ..datasets import Dataset

_STDOUT = "-"
_METRICS_NOTE = "against the known classes in the file, which were used for nothing else"
# Sizes of more clusters than this are not listed.
_LISTED_SIZES = 30
# Parameters that change no result.
_SILENT = ("callback", "progress", "verbose", "keep")


@with_outcome
def cluster(
    file: File,
    clusters: Clusters = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="PATH",
            show_default=False,
            help="Where the labels go; required. .csv, .tsv, .parquet, - for standard output, or .h5mu or .h5ad for a "
            "copy of such a FILE with the labels in its obs.",
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option("--report", metavar="DIR", show_default=False, help="Write a page about it: DIR/index.html."),
    ] = None,
    orders: Annotated[
        int | None,
        typer.Option(
            "--orders",
            min=0,
            metavar="N",
            show_default=False,
            help="Orders of the rows to try for the page; 3 up to 2 000 samples, and none beyond, by default.",
        ),
    ] = None,
    method: MethodOption = None,
    basis: BasisOption = None,
    param: Parameters = None,
    column: Annotated[str, typer.Option("--column", metavar="NAME", help="Name of the column of labels.")] = "cluster",
    seed: Seed = 0,
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            metavar="ADDRESS",
            show_default=False,
            help="Compute with the workers of a Dask cluster, such as tcp://host:8786. FILE is then a folder with "
            "Parquet files or a Zarr array for each view, all rows in the same order; the labels go into a folder.",
        ),
    ] = None,
    force: Force = False,
    as_json: Json = False,
    views: ViewNames = None,
    labels: LabelName = None,
    no_labels: NoLabels = False,
    samples: SamplesOption = None,
    on: On = None,
    join: JoinOption = None,
) -> None:
    """Cluster the samples of FILE and write their labels beside their ids.

    Method and basis are chosen by sensible defaults, and the command says which and why. Known classes in the file are
    used to measure the result and for nothing else.

    Example: tensormvc cluster data.mat -k 7 -o labels.csv
    """
    from .. import metrics
    from .._files import check_target

    if scheduler is not None:
        if report is not None or orders is not None or labels is not None or samples or on or join:
            raise usage_error("--scheduler goes without --report, --orders, --labels, --samples, --on and --join")
        cluster_on_scheduler(
            scheduler,
            file,
            n_clusters=clusters,
            output=output,
            method=method,
            basis=basis,
            parameters=param,
            column=column,
            seed=seed,
            force=force,
            as_json=as_json,
            names=None if views is None else [name.strip() for name in views.split(",")],
        )
        return
    used = method or default_method(basis, param)
    n_clusters = n_clusters_of(clusters, used)
    target = _check_output(file, output, column, as_json, force)
    estimator = make_estimator(used, basis, n_clusters, seed, param)
    with writing_output(output):
        if target is not None:
            check_target(target, overwrite=force)
    if report is not None:
        check_report(report, force)
        if orders == 1:
            raise usage_error("--orders 1: it takes two orders to compare, or 0 for none")
    elif orders is not None:
        raise usage_error("--orders goes with --report; tensormvc audit tries orders without a page")
    data = load(file, views, labels, no_labels, samples, on, join)
    start = time.perf_counter()
    with collected_warnings() as warned:
        fit_with_progress(estimator, data.views)
    seconds = time.perf_counter() - start
    _write(target, file, data, estimator.labels_, column, force)
    chosen = choices(estimator, data.n_samples, method, basis)
    found = None if data.y is None else metrics.clustering_report(data.y, estimator.labels_)
    result = _result(file, data, estimator, chosen, found, warned, seconds)
    result |= {"output": target, "column": column, "seed": seed, "report": None}
    if report is not None:
        if orders is None:
            orders = ORDERS if data.n_samples <= MOST_AUDITED else 0
        result["report"] = write_report(
            report, file, data, estimator, chosen=chosen, seconds=seconds, orders=orders, force=force
        )
    if as_json:
        print_json(result)
    else:
        _show(result, to_stderr=target is None)


def _check_output(file: Path, output: str | None, column: str, as_json: bool, force: bool) -> Path | None:
    """Return where the labels go (None: standard output), or refuse it before anything is computed."""
    from ..datasets import DataError
    from ..datasets._save import check_labels_target

    if output is None:
        raise usage_error("say where the labels shall go: -o labels.csv, or -o - for standard output")
    if output == _STDOUT and as_json:
        raise usage_error("--json and -o - would both write to standard output: give a file for the labels")
    # Standard output takes what a device takes.
    path = os.devnull if output == _STDOUT else output
    with working_on_data(), writing_output(output):
        try:
            ending, _ = check_labels_target(path, file, column, overwrite=force)
        except DataError:
            raise
        except ValueError as error:
            raise usage_error(str(error)) from error
    if output == _STDOUT:
        return None
    if ending not in (".h5mu", ".h5ad"):
        refuse_same_file(file, output)
    return Path(output)


def _write(target: Path | None, file: Path, data: Dataset, labels: Any, column: str, force: bool) -> None:
    import numpy as np

    from ..datasets import _save as saving

    with writing_output(target or "standard output"):
        if target is None:
            ids = data.sample_ids
            saving.write_text(sys.stdout, np.arange(len(labels)) if ids is None else ids, labels, column)
        else:
            saving.save_labels(target, labels, data.sample_ids, column=column, source=file, overwrite=force)


def _result(
    file: Path,
    data: Dataset,
    estimator: Any,
    chosen: dict[str, Any],
    found: dict[str, float] | None,
    warned: list[str],
    seconds: float,
) -> dict[str, Any]:
    import numpy as np

    from .. import __version__

    return {
        "command": command_line(),
        "file": file,
        "n_samples": data.n_samples,
        "views": [{"name": name, "n_features": int(view.shape[1])} for name, view in data.views.items()],
        "n_clusters": getattr(estimator, "n_clusters_", estimator.n_clusters),
        "chosen": chosen,
        "parameters": {k: v for k, v in estimator.get_params().items() if k not in _SILENT},
        "n_iter": getattr(estimator, "n_iter_", None),
        "converged": getattr(estimator, "converged_", None),
        "auto": estimator.report_.to_dict() if hasattr(estimator, "report_") else None,
        "cluster_sizes": np.bincount(estimator.labels_),
        "metrics": found,
        "metrics_note": None if found is None else _METRICS_NOTE,
        "features_note": features_note(file),
        "warnings": warned,
        "seconds": round(seconds, 3),
        "version": __version__,
    }


def _show(result: dict[str, Any], to_stderr: bool) -> None:
    screen = console(to_stderr=to_stderr)
    features = ", ".join(f"{view['name']}: {view['n_features']:,}" for view in result["views"])
    screen.print(f"{result['file']}: {result['n_samples']:,} samples; features of the views: {features}")
    rows = [(name, choice["value"], choice["reason"]) for name, choice in result["chosen"].items()]
    screen.print(table(["", "chosen", "why"], rows, left=3))
    sizes = [f"{size:,}" for size in result["cluster_sizes"].tolist()]
    more = f", and {len(sizes) - _LISTED_SIZES} more, none larger" if len(sizes) > _LISTED_SIZES else ""
    screen.print(f"{len(sizes)} clusters of {', '.join(sizes[:_LISTED_SIZES])} samples{more}")
    if result["converged"] is None:
        screen.print(f"{result['seconds']:.1f} s")
    else:
        state = "converged" if result["converged"] else "not converged"
        screen.print(f"{state} after {result['n_iter']} rounds, {result['seconds']:.1f} s")
    if result["metrics"] is not None:
        figures = ", ".join(f"{name} {value:.3f}" for name, value in result["metrics"].items())
        screen.print(f"{figures} ({result['metrics_note']})")
    if result["features_note"] is not None:
        screen.print(result["features_note"])
    for name in ("output", "report"):
        if result[name] is not None:
            screen.print(f"{'Labels' if name == 'output' else 'Page'}: {result[name]}")
