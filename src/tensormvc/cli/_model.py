"""``tensormvc predict`` and ``tensormvc explain``: what a saved model says of new samples, and of its clusters."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ._labels import FURTHER, check_labels, further_columns, write_labels
from ._options import Force, Json, Source, argument, option
from ._outcome import BAD_DATA, Failure, check_output, usage_error, working_on_data, writing_output
from ._screen import collected_warnings, progress, show

if TYPE_CHECKING:
    from ..datasets import Dataset

_TOP = 5
Model = Annotated[Path, argument("model", "MODEL")]


def predict(
    model: Model,
    source: Source,
    output: Annotated[str | None, option("predict", "--output", "-o", metavar="PATH")] = None,
    min_confidence: Annotated[float, option("predict", "--min-confidence", min=0.0, max=1.0)] = 0.0,
    column: Annotated[str, option("cluster", "--column", metavar="NAME")] = "cluster",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Assign the samples of FILE to the clusters of MODEL, a file written by cluster --save.

    Views are matched by name, and so are features that have names. Samples may lack views, and FILE may lack whole
    views. Samples that the model was fitted to get the label of the fit.

    Example: tensormvc predict model.tmvc new.h5mu -o labels.csv
    """
    import numpy as np

    fitted = _load(model, "predict_proba", "places no new samples on the command line: cluster with --method auto")
    target = check_labels(source, output, column, FURTHER, as_json, force)
    data = source.load({view.name: view.categories for view in fitted.fitted_.views})
    start = time.perf_counter()
    with collected_warnings() as warnings, working_on_data(), progress(f"placing {data.n_samples:,} samples"):
        membership = fitted.predict_proba(_by_fitted_names(data, fitted.view_names_))
    further = further_columns(membership)
    certain = np.array(further["confidence"]) >= min_confidence
    labels = np.where(certain, membership.argmax(axis=1), -1)
    write_labels(target, source.file, data, labels, column, further, force)
    result = {
        **{"model": model, "file": source.file, "n_samples": data.n_samples, "views": list(data.views)},
        **{"cluster_sizes": np.bincount(labels[certain], minlength=membership.shape[1])},
        **{"n_unassigned": int(np.sum(~certain)), "min_confidence": min_confidence},
        **{"samples": data.sample_ids, "labels": labels, **further, "output": target, "column": column},
        **{"warnings": warnings, "seconds": round(time.perf_counter() - start, 3)},
    }
    show(result, as_json, _predict_lines(result), to_stderr=target is None)


def _predict_lines(result: dict[str, Any]) -> Iterable[Any]:
    mean = sum(result["confidence"]) / result["n_samples"]
    yield f"{result['file']}: {result['n_samples']:,} samples in {', '.join(result['views'])}"
    yield f"{', '.join(f'{size:,}' for size in result['cluster_sizes'])} samples in clusters 0, 1, …"
    if result["min_confidence"]:
        below = f"{result['n_unassigned']:,} samples with a confidence below {result['min_confidence']:g}"
        yield f"{below} have the label −1"
    yield f"mean confidence {mean:.2f}; {result['seconds']:.1f} s"
    if result["output"] is not None:
        yield f"Labels: {result['output']}"


def _by_fitted_names(data: Dataset, names: list[str]) -> dict[str, Any]:
    """Return the views as tables. A single view is that of the model, whatever its file is called."""
    tables = data.tables
    return dict(zip(names, tables.values(), strict=True)) if len(tables) == len(names) == 1 else tables


def explain(
    model: Model,
    output: Annotated[Path | None, option("explain", "--output", "-o", metavar="PATH")] = None,
    top: Annotated[int | None, option("explain", "--top", min=1, metavar="N")] = None,
    sample: Annotated[str | None, option("explain", "--sample", metavar="ID")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Show the features that set each cluster of MODEL apart, a file written by cluster --save.

    AUC: the probability that the value of a sample of the cluster is above that of another sample; 1 means always
    above, 0 always below, 0.5 no difference. The difference of the means is in standard deviations.

    Example: tensormvc explain model.tmvc --top 3
    """
    fitted = _load(model, "explain", "has no explanation; only models of --method auto have")
    if sample is not None:
        if output is not None or top is not None:
            raise usage_error("--sample excludes -o and --top, which are about features")
        with working_on_data():
            why = fitted.explain_sample(_position(fitted, sample, model))
        show({"model": model, **why.to_dict()}, as_json, [str(why)])
        return
    if output is not None:
        _check_table(output, force)
    with working_on_data(), progress("comparing the clusters"):
        found = fitted.explain()
    if output is not None:
        from ..datasets._save import save_table

        rows = found.top(len(found.features) if top is None else top)
        columns = dict(zip(rows[0]._fields, map(list, zip(*rows, strict=True)), strict=True))
        with writing_output(output):
            save_table(output, columns, overwrite=force)
    leading = [row._asdict() for row in found.top(top or _TOP)]
    clusters = [
        {**vars(summary), "features": [row for row in leading if row["cluster"] == summary.cluster]}
        for summary in found.clusters
    ]
    written = None if output is None else f"\nFeatures: {output}"
    result = {"model": model, "n_samples": found.n_samples, "clusters": clusters, "output": output}
    show(result, as_json, [found.to_text(top or _TOP), written])


def _check_table(output: Path, force: bool) -> None:
    from ..datasets._save import check_table_target

    try:
        check_table_target(output)
    except ValueError as error:
        raise usage_error(str(error)) from error
    check_output(output, force)


def _load(path: Path, ability: str, refusal: str) -> Any:
    """Return the model in a file, which must have a method."""
    from .. import load

    try:
        with working_on_data():
            model = load(path)
    except OSError as error:
        raise Failure(BAD_DATA, f"{path} cannot be read: {error.strerror}") from error
    if not hasattr(model, ability) or not hasattr(model, "labels_"):
        raise Failure(BAD_DATA, f"{path} is a model of {type(model).__name__}, which {refusal}")
    return model


def _position(model: Any, sample: str, path: Path) -> int:
    """Return where a sample is in the data of the fit."""
    ids = [str(name) for name in (range(len(model.labels_)) if model.sample_ids_ is None else model.sample_ids_)]
    if sample not in ids:
        raise usage_error(f"--sample {sample}: {path} has no such sample; it has {len(ids):,}, such as {ids[0]}")
    return ids.index(sample)
