"""``tensormvc cluster``: labels for the samples of a file."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ._fit import choices, fit_summary, fit_with_progress
from ._labels import FURTHER, check_labels, further_columns, write_labels
from ._on_cluster import cluster_on_scheduler
from ._options import Choice, Force, Json, Source, option
from ._outcome import check_output, usage_error, working_on_data, writing_output
from ._report import ORDERS, UNASKED_UP_TO, check_report, command_line, write_report
from ._screen import collected_warnings, progress, show, table

if TYPE_CHECKING:
    from ..datasets import Dataset

_METRICS_NOTE = "measured against the known classes in the file, which were used for nothing else"


def cluster(
    source: Source,
    choice: Choice,
    output: Annotated[str | None, option("cluster", "--output", "-o", metavar="PATH")] = None,
    save: Annotated[Path | None, option("cluster", "--save", metavar="MODEL")] = None,
    report: Annotated[Path | None, option("cluster", "--report", metavar="DIR")] = None,
    orders: Annotated[int | None, option("cluster", "--orders", min=0, metavar="N")] = None,
    column: Annotated[str, option("cluster", "--column", metavar="NAME")] = "cluster",
    scheduler: Annotated[str | None, option("cluster", "--scheduler", metavar="ADDRESS")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Cluster the samples of FILE and write one label per sample.

    Without --method, --basis and --param nothing needs to be chosen, and the command prints what it chose and why. It
    then also writes how confident it is of each label, and the runner-up: the cluster that would be next. Known classes
    in the file only serve to evaluate the result.

    Example: tensormvc cluster data.mat -k 7 -o labels.csv --save model.tmvc
    """
    if scheduler is not None:
        reading = source.labels or source.samples or source.on or source.join
        if report is not None or orders is not None or save is not None or reading:
            raise usage_error("--scheduler excludes --save, --report, --orders, --labels, --samples, --on and --join")
        cluster_on_scheduler(scheduler, source, choice, output, column, force, as_json)
        return
    from .. import MultiViewClustering

    estimator = choice.estimator()
    auto = isinstance(estimator, MultiViewClustering)
    target = check_labels(source, output, column, FURTHER if auto else (), as_json, force)
    _check_report(report, orders, force)
    if save is not None:
        source.refuse_as_output(save)
        check_output(save, force)
    data = source.load("auto" if auto else None)
    start = time.perf_counter()
    with collected_warnings() as warnings:
        fit_with_progress(estimator, data.tables if auto else data.views)
    seconds = time.perf_counter() - start
    further = further_columns(estimator.membership_) if auto else {}
    write_labels(target, source.file, data, estimator.labels_, column, further, force)
    if save is not None:
        _save(estimator, save)
    chosen = choices(estimator, data, choice)
    result = _result(source.file, data, estimator, chosen)
    result |= {"warnings": warnings, "seconds": round(seconds, 3), "output": target, "column": column}
    result |= {"seed": choice.seed, "model": save, "report": None}
    result |= {"samples": data.sample_ids, "labels": estimator.labels_, **further}
    if report is not None:
        if orders is None:
            orders = ORDERS if data.n_samples <= UNASKED_UP_TO else 0
        result["report"] = write_report(
            report,
            source.file,
            data,
            estimator,
            chosen=chosen,
            seconds=seconds,
            orders=orders,
            force=force,
            reading=source.reading,
        )
    show(result, as_json, _lines(result), to_stderr=target is None)


def _check_report(report: Path | None, orders: int | None, force: bool) -> None:
    if report is None and orders is not None:
        raise usage_error("--orders requires --report; to audit the row order without a report, use tensormvc audit")
    if orders == 1:
        raise usage_error("--orders 1: an audit compares at least 2 orders; 0 skips it")
    if report is not None:
        check_report(report, force)


def _save(estimator: Any, path: Path) -> None:
    from .. import save

    with working_on_data(), writing_output(path), progress(f"saving {path.name}"):
        save(estimator, path)


def _result(file: Path, data: Dataset, estimator: Any, chosen: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    from .. import MultiViewClustering, __version__, metrics
    from ..methods import SILENT_PARAMETERS
    from ..report._cluster_sections import features_note

    auto = estimator.report_ if isinstance(estimator, MultiViewClustering) else None
    return {
        "command": command_line(),
        "file": file,
        "n_samples": data.n_samples,
        "views": [{"name": name, "n_features": int(view.shape[1])} for name, view in data.views.items()],
        "n_clusters": getattr(estimator, "n_clusters_", estimator.n_clusters),
        "chosen": chosen,
        "parameters": {k: v for k, v in estimator.get_params().items() if k not in SILENT_PARAMETERS},
        "n_iter": getattr(estimator, "n_iter_", None),
        "converged": getattr(estimator, "converged_", None),
        "auto": None if auto is None else auto.to_dict(),
        "certainty": None if auto is None else auto.certainty,
        "cluster_sizes": np.bincount(estimator.labels_),
        "metrics": None if data.y is None else metrics.clustering_report(data.y, estimator.labels_),
        "metrics_note": None if data.y is None else _METRICS_NOTE,
        "features_note": features_note(file),
        "version": __version__,
    }


def _lines(result: dict[str, Any]) -> Iterable[Any]:
    features = ", ".join(f"{view['name']}: {view['n_features']:,}" for view in result["views"])
    yield f"{result['file']}: {result['n_samples']:,} samples; features per view: {features}"
    rows = [(name, choice["value"], choice["reason"]) for name, choice in result["chosen"].items()]
    yield table(["", "chosen", "why"], rows, left=3)
    yield from fit_summary(result)
    if result["auto"] is not None:
        yield f"Certainty: {result['certainty']}"
        if result["auto"]["n_single"] and len(result["views"]) > 1:
            yield f"{result['auto']['n_single']:,} samples have only one view"
    if result["metrics"] is not None:
        figures = ", ".join(f"{name} {value:.3f}" for name, value in result["metrics"].items())
        yield f"{figures} ({result['metrics_note']})"
    yield result["features_note"]
    for title, name in (("Labels", "output"), ("Model", "model"), ("Report", "report")):
        if result[name] is not None:
            yield f"{title}: {result[name]}"
