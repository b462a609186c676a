"""Labels written with the sample ids, as a table or into a copy of the file that was clustered."""

from __future__ import annotations

import csv
import os
import shutil
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from .._files import StrPath, is_special, writing
from ._errors import reading, require
from .readers._anndata import index_column, words
from .readers._hdf5 import HDF5Reader
from .readers._tables import PARQUET

_TEXT = {".csv": ",", ".tsv": "\t"}
_ANNOTATED = (".h5mu", ".h5ad")
_IDS = "sample"
_WRITING_PARQUET = "writing Parquet files"


def save_labels(
    path: StrPath,
    labels: Any,
    sample_ids: Any = None,
    *,
    column: str = "cluster",
    source: StrPath | None = None,
    overwrite: bool = False,
) -> None:
    """Save the labels of a clustering together with the sample ids.

    The ending of the path is the format: ``.csv``, ``.tsv`` or ``.parquet`` (columns ``sample`` and `column`), or
    ``.h5mu`` or ``.h5ad``: a copy of `source` with a categorical column in its ``obs``, in which samples that were not
    clustered have no value. The file appears complete or not at all.

    Parameters
    ----------
    path : str or path-like
        The file to write; for ``.h5mu`` and ``.h5ad`` it may be `source` itself.
    labels : array of int of shape (n_samples,)
        The clusters.
    sample_ids : array of shape (n_samples,), optional
        Ids of the samples; by default the row numbers, from 0.
    column : str, default="cluster"
        Name of the column.
    source : str or path-like, optional
        The ``.h5mu`` or ``.h5ad`` file that the samples come from.
    overwrite : bool, default=False
        Whether to replace an existing file or column, which is an error otherwise.

    Examples
    --------
    >>> import tempfile, tensormvc as tm
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tm.datasets.save_labels(Path(folder) / "labels.csv", [1, 0], ["anna", "ben"])
    ...     print((Path(folder) / "labels.csv").read_text())
    sample,cluster
    anna,1
    ben,0
    <BLANKLINE>
    """
    target = Path(path)
    ending, obs = check_labels_target(target, source, column, overwrite=overwrite)
    values = np.asarray(labels)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise ValueError(f"labels must be a vector of integers, got {values.dtype} of shape {values.shape}")
    ids = np.arange(len(values)) if sample_ids is None else np.asarray(sample_ids)
    if ids.shape != values.shape:
        raise ValueError(f"there are {len(values)} labels for {len(ids)} sample ids: pass one id per label")
    with writing(target, overwrite=overwrite) as place:
        if ending in _TEXT:
            with open(place, "w", encoding="utf-8", newline="") as stream:
                write_text(stream, ids, values, column, _TEXT[ending])
        elif ending in PARQUET:
            _write_parquet(place, ids, values, column)
        elif obs is not None and source is not None:
            shutil.copyfile(source, place)
            _put_column(place, obs, ids.astype(str), values, column)


def check_labels_target(
    path: StrPath, source: StrPath | None, column: str, *, overwrite: bool
) -> tuple[str, tuple[list[str], list[str]] | None]:
    """Refuse a path or column that cannot be written; return the ending, and samples and columns of an ``obs``."""
    ending = ".csv" if is_special(path) else os.path.splitext(path)[1].lower()
    if ending in _ANNOTATED:
        if source is None or os.path.splitext(source)[1].lower() != ending:
            raise ValueError(
                f"{path} would be a copy of a {ending} file with the labels in its obs, but the samples do not come "
                f"from one: choose .csv or .parquet"
            )
        return ending, _obs_of(source, column, overwrite)
    if ending not in _TEXT and ending not in PARQUET:
        raise ValueError(f"{path}: labels can be written to .csv, .tsv, .parquet, .h5mu or .h5ad")
    if column == _IDS:
        raise ValueError(f"the column {_IDS!r} holds the sample ids: choose another name for the labels")
    if ending in PARQUET:
        require("pyarrow", _WRITING_PARQUET)
    return ending, None


def write_text(stream: TextIO, ids: NDArray[Any], labels: NDArray[Any], column: str, delimiter: str = ",") -> None:
    """Write the table of labels as text."""
    table = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    table.writerow([_IDS, column])
    table.writerows(zip(ids.tolist(), labels.tolist(), strict=True))


def _write_parquet(place: Path, ids: NDArray[Any], labels: NDArray[Any], column: str) -> None:
    arrow, parquet = require("pyarrow", _WRITING_PARQUET), require("pyarrow.parquet", _WRITING_PARQUET)
    columns = [arrow.array(ids.tolist()), arrow.array(labels.tolist(), type=arrow.int64())]
    parquet.write_table(arrow.table(columns, names=[_IDS, column]), place)


def _obs_of(source: StrPath, column: str, overwrite: bool) -> tuple[list[str], list[str]]:
    """Return the names of the samples and of the columns in the table ``obs`` of an AnnData or MuData file."""
    with reading(source), HDF5Reader(os.fspath(source)) as reader:
        obs: Any = reader.children(reader.file).get("obs")
        index = index_column(reader, obs, "the file")
        names = reader.text(index).astype(str).tolist()
        columns = words(reader.attribute(obs, "column-order"))
        key, taken = index.name.rpartition("/")[2], set(obs)
    if "/" in column or column in ("", key):
        raise ValueError(f"{column!r} cannot be the name of a column of obs: choose another")
    if column in taken and not overwrite:
        raise FileExistsError(f"{source} already has a column {column!r} in obs: choose another name, or overwrite it")
    return names, columns


def _put_column(
    place: Path, obs: tuple[list[str], list[str]], ids: NDArray[Any], labels: NDArray[Any], column: str
) -> None:
    """Add a categorical column to the table ``obs``, encoded as AnnData does."""
    h5py = require("h5py", "writing .h5mu and .h5ad files")
    names, columns = obs
    label_of = dict(zip(ids.tolist(), labels.tolist(), strict=True))
    codes = np.array([label_of.get(name, -1) for name in names], dtype=np.int32)
    categories = np.arange(int(labels.max()) + 1).astype(str).astype(object)
    text = h5py.string_dtype()
    with h5py.File(place, "r+") as file:
        table = file["obs"]
        if column in table:
            del table[column]
        group = table.create_group(column)
        group.attrs.update({"encoding-type": "categorical", "encoding-version": "0.2.0", "ordered": False})
        group.create_dataset("codes", data=codes).attrs.update(_encoding("array"))
        group.create_dataset("categories", data=categories, dtype=text).attrs.update(_encoding("string-array"))
        columns = [name for name in columns if name != column] + [column]
        table.attrs["column-order"] = np.array(columns, dtype=text)


def _encoding(kind: str) -> dict[str, str]:
    return {"encoding-type": kind, "encoding-version": "0.2.0"}
