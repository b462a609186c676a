"""``tensormvc info`` and ``tensormvc convert``: a look at a file, and the same data in another format."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ._options import (
    File,
    Force,
    JoinOption,
    Json,
    LabelName,
    NoLabels,
    On,
    SamplesOption,
    Seed,
    ViewNames,
    load,
    refuse_same_file,
)
from ._outcome import usage_error, with_outcome, working_on_data, writing_output
from ._screen import console, print_json, progress, table

# Rows from which a scaling is suggested.
_SCALED_ROWS = 10_000


@with_outcome
def info(
    file: File,
    seed: Annotated[int, typer.Option("--seed", help="Taken, like by every command; nothing here is random.")] = 0,
    as_json: Json = False,
    views: ViewNames = None,
    labels: LabelName = None,
    no_labels: NoLabels = False,
    samples: SamplesOption = None,
    on: On = None,
    join: JoinOption = None,
) -> None:
    """Show what FILE holds: views, types, gaps, duplicates, known classes, and how it could be normalised.

    Example: tensormvc info data.mat
    """
    from .. import datasets
    from ..auto._scaling import MEANINGS, lean, usual_normalisation

    data = load(file, views, labels, no_labels, samples, on, join)
    with working_on_data(), progress(f"looking at {file.name}"):
        found = datasets.describe(data.views, data.y)
        step = max(1, data.n_samples // _SCALED_ROWS)
        scalings = [usual_normalisation(lean(view[::step])) for view in data.views.values()]
    if as_json:
        shown = [asdict(view) | {"scaling": name} for view, name in zip(found.views, scalings, strict=True)]
        print_json({"file": file, "sample_ids": data.sample_ids is not None, **vars(found), "views": shown})
        return
    _show(file, found, data.sample_ids)
    for view, name in zip(found.views, scalings, strict=True):
        console().print(f"{view.name}: suggested normalisation {name} ({MEANINGS[name]})")


def _show(file: Path, found: Any, ids: Any) -> None:
    screen = console()
    known = "" if ids is None else f", with ids such as {ids[0]}"
    screen.print(f"{file}: {found.n_samples:,} samples{known}; {len(found.views)} views")
    if found.class_counts is not None:
        sizes = found.class_counts.values()
        order = "sorted by class: what depends on the order profits from it" if found.class_sorted else "not in order"
        span = " to ".join(f"{size:,}" for size in sorted({min(sizes), max(sizes)}))
        screen.print(f"{len(sizes)} known classes of {span} samples, {order}")
    if found.n_duplicates:
        screen.print(f"{found.n_duplicates:,} samples repeat an earlier one in all views")
    rows = [
        (
            *(view.name, f"{view.dtype} {view.storage}", f"{view.n_features:,}", f"{view.density:.0%}"),
            *(f"{view.minimum:.3g}", f"{view.maximum:.3g}"),
        )
        for view in found.views
    ]
    screen.print(table(["view", "values", "features", "non-zero", "least", "most"], rows, left=2))
    for view in found.views:
        for count, text in (
            (view.n_duplicates, "rows repeat an earlier one"),
            (view.n_constant, "columns have a single value"),
            (view.n_missing, "rows are NaN throughout: samples without this view"),
            (view.n_nonfinite, "other values are NaN or infinite, which no method takes"),
        ):
            if count:
                screen.print(f"{view.name}: {count:,} {text}")


@with_outcome
def convert(
    file: File,
    output: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            show_default=False,
            help="A .npz or .mat file, or a folder (no ending, or .parquet) for a Parquet file a view.",
        ),
    ],
    shuffle: Annotated[
        float, typer.Option("--shuffle", min=0.0, max=1.0, metavar="RATE", help="Share of the samples to shuffle.")
    ] = 0.0,
    seed: Seed = 0,
    force: Force = False,
    as_json: Json = False,
    views: ViewNames = None,
    labels: LabelName = None,
    no_labels: NoLabels = False,
    samples: SamplesOption = None,
    on: On = None,
    join: JoinOption = None,
) -> None:
    """Write the views and labels of FILE to OUT, in the format that the ending of OUT says.

    Names of views and samples are not kept. Most benchmark files are sorted by class: --shuffle 1 puts an end to it.

    Example: tensormvc convert data.mat shuffled.npz --shuffle 1
    """
    from .. import datasets
    from .._files import check_target

    if output.suffix.lower() not in ("", ".npz", ".mat", ".parquet"):
        raise usage_error(f"{output}: the ending must be .npz, .mat, or none or .parquet for a folder of Parquet files")
    refuse_same_file(file, output)
    with writing_output(output):
        check_target(output, overwrite=force)
    data = load(file, views, labels, no_labels, samples, on, join)
    kept, y = data.views, data.y
    if shuffle:
        kept, y, _ = datasets.shuffle_samples(kept, y, shuffle, random_state=seed)
    with working_on_data(), writing_output(output), progress(f"writing {output.name}"):
        datasets.save_views(output, kept, y, overwrite=force)
    sizes = [int(view.shape[1]) for view in kept.values()]
    result = {
        "file": file,
        "output": output,
        "n_samples": data.n_samples,
        "n_features": sizes,
        "labels": y is not None,
        "shuffled": shuffle,
        "seed": seed,
        "dropped_sample_ids": data.sample_ids is not None,
    }
    if as_json:
        print_json(result)
        return
    screen = console()
    shuffled = f", {shuffle:.0%} of them shuffled" if shuffle else ""
    screen.print(f"{output}: {data.n_samples:,} samples{shuffled}; {len(sizes)} views with {_listed(sizes)} features")
    screen.print("with labels" if y is not None else "without labels")
    if data.sample_ids is not None:
        screen.print("The ids of the samples are not kept in this format.")


def _listed(numbers: list[int]) -> str:
    return ", ".join(f"{number:,}" for number in numbers)
