"""The table of labels that ``cluster`` and ``predict`` write."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._options import Source
from ._outcome import check_output, usage_error, working_on_data, writing_output

if TYPE_CHECKING:
    from ..datasets import Dataset

# Columns beside the labels, where the model tells how much samples belong to each cluster.
FURTHER = ("confidence", "runner_up")


def check_labels(
    source: Source, output: str | None, column: str, further: tuple[str, ...], as_json: bool, force: bool
) -> Path | None:
    """Return where the labels go (None: standard output), or refuse it before anything is computed."""
    from ..datasets import DataError
    from ..datasets._save import check_labels_target

    if output is None:
        raise usage_error("pass -o labels.csv, the file for the labels, or -o - for standard output")
    if output == "-" and as_json:
        raise usage_error("--json and -o - would both write to standard output: pass a file for the labels")
    with working_on_data(), writing_output(output):
        try:
            # Standard output takes what a device takes.
            path = os.devnull if output == "-" else output
            ending, _ = check_labels_target(path, source.file, column, further, overwrite=force)
        except ValueError as error:
            raise error if isinstance(error, DataError) else usage_error(str(error)) from error
    if output == "-":
        return None
    if ending not in (".h5mu", ".h5ad"):
        source.refuse_as_output(output)
    check_output(output, force)
    return Path(output)


def further_columns(membership: Any) -> dict[str, list[Any]]:
    """Return the confidence, and the cluster with the second largest share (None if no other has any)."""
    import numpy as np

    from ..auto._placement import confidence

    others = np.array(membership)
    np.put_along_axis(others, others.argmax(axis=1)[:, None], 0, axis=1)
    shares, clusters = others.max(axis=1).tolist(), others.argmax(axis=1).tolist()
    runner_up = [cluster if share > 0 else None for share, cluster in zip(shares, clusters, strict=True)]
    return dict(zip(FURTHER, (confidence(membership).tolist(), runner_up), strict=True))


def write_labels(
    target: Path | None, file: Path, data: Dataset, labels: Any, column: str, further: dict[str, list[Any]], force: bool
) -> None:
    """Write one row per sample to a file, or to standard output."""
    import numpy as np

    from ..datasets import _save as saving

    with writing_output(target or "standard output"):
        if target is None:
            ids = np.arange(len(labels)) if data.sample_ids is None else data.sample_ids
            saving.write_text(sys.stdout, saving.label_table(ids, labels, column, further))
        else:
            options: dict[str, Any] = {"column": column, "further": further, "source": file, "overwrite": force}
            saving.save_labels(target, labels, data.sample_ids, **options)
