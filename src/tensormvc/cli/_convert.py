"""``tensormvc info`` and ``tensormvc convert``: summarise a file, and write its data in another format."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from ._options import Force, Json, Seed, Source, argument, option
from ._outcome import check_output, usage_error, working_on_data, writing_output
from ._screen import progress, show, table

_REMARKS = {
    "n_duplicates": "rows repeat an earlier row",
    "n_constant": "columns are constant",
    "n_missing": "rows are entirely NaN: this view is missing for these samples",
    "n_empty": "rows are empty (all zero): in views of three or more features, --method auto treats them as missing",
    "n_nonfinite": "other values are NaN or infinite",
}


def info(source: Source, as_json: Json = False) -> None:
    """Summarise FILE: its views, data types, missing values, duplicates and known classes, and how to scale it.

    Example: tensormvc info data.mat
    """
    from .. import datasets
    from ..auto import suggest_scaling

    data = source.load()
    with working_on_data(), progress(f"reading {source.file.name}"):
        found = datasets.describe(data.views, data.y)
        scalings = [suggest_scaling(view) for view in data.views.values()]
    views = [asdict(view) | {"scaling": name} for view, (name, _) in zip(found.views, scalings, strict=True)]
    result = {"file": source.file, "sample_ids": data.sample_ids is not None, **vars(found), "views": views}
    show(result, as_json, _info_lines(result, data.sample_ids, [meaning for _, meaning in scalings]))


def _info_lines(result: dict[str, Any], ids: Any, meanings: list[str]) -> Iterable[Any]:
    views, counts = result["views"], result["class_counts"]
    known = "" if ids is None else f" with ids such as {ids[0]}"
    yield f"{result['file']}: {result['n_samples']:,} samples{known}; {len(views)} views"
    if counts is not None:
        order = "not sorted by class"
        if result["class_sorted"]:
            order = "sorted by class, which favours methods that depend on the row order (convert --shuffle 1)"
        span = " to ".join(f"{size:,}" for size in sorted({min(counts.values()), max(counts.values())}))
        yield f"{len(counts)} known classes of {span} samples, {order}"
    if result["n_duplicates"]:
        yield f"{result['n_duplicates']:,} samples repeat an earlier sample in all views"
    rows = [
        (
            *(view["name"], f"{view['dtype']} {view['storage']}", f"{view['n_features']:,}", f"{view['density']:.0%}"),
            *(f"{view['minimum']:.3g}", f"{view['maximum']:.3g}", view["scaling"]),
        )
        for view in views
    ]
    yield table(["view", "values", "features", "non-zero", "minimum", "maximum", "usual scaling"], rows, left=2)
    for view in views:
        for name, remark in _REMARKS.items():
            if view[name]:
                yield f"{view['name']}: {view[name]:,} {remark}"
    for name, meaning in dict(zip((view["scaling"] for view in views), meanings, strict=True)).items():
        yield f"{name}: {meaning}"
    yield "cluster compares the scalings that suit each view; --param normalisation=NAME sets one for all views."


def convert(
    source: Source,
    output: Annotated[Path, argument("convert", "OUT")],
    shuffle: Annotated[float, option("convert", "--shuffle", min=0.0, max=1.0, metavar="RATE")] = 0.0,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write the views and labels of FILE to OUT, in the format given by the ending of OUT.

    The names of views and samples are not kept. Most benchmark files are sorted by class; --shuffle 1 undoes that.

    Example: tensormvc convert data.mat shuffled.npz --shuffle 1
    """
    from .. import datasets

    if output.suffix.lower() not in ("", ".npz", ".mat", ".parquet"):
        raise usage_error(f"{output}: the ending must be .npz, .mat, or none or .parquet for a folder of Parquet files")
    source.refuse_as_output(output)
    check_output(output, force)
    data = source.load()
    views, y = data.views, data.y
    if shuffle:
        views, y, _ = datasets.shuffle_samples(views, y, shuffle, random_state=seed)
    with working_on_data(), writing_output(output), progress(f"writing {output.name}"):
        datasets.save_views(output, views, y, overwrite=force)
    n, sizes, dropped = data.n_samples, [int(view.shape[1]) for view in views.values()], data.sample_ids is not None
    result = {
        **{"file": source.file, "output": output, "n_samples": n, "n_features": sizes, "labels": y is not None},
        **{"shuffled": shuffle, "seed": seed, "dropped_sample_ids": dropped},
    }
    shuffled = f", {shuffle:.0%} of them shuffled" if shuffle else ""
    features = ", ".join(f"{size:,}" for size in sizes)
    lines = [
        f"{output}: {n:,} samples{shuffled}; {len(sizes)} views with {features} features",
        "with labels" if y is not None else "without labels",
        "This format does not store sample ids." if dropped else None,
    ]
    show(result, as_json, lines)
