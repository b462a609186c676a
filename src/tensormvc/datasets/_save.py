"""Views written to files, for `load_views` and for other programs, and the labels of a clustering."""

import csv
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import scipy.io
import scipy.sparse

from .._files import StrPath, is_special, writing
from ..backend.arrays import is_sparse
from ._errors import DataError, reading, require
from ._inputs import as_matrices, common_length
from .readers._anndata import index_column, words
from .readers._hdf5 import HDF5Reader
from .readers._tables import PARQUET

# Some readers take the size of a variable for a signed 32-bit integer.
_MAT_BYTES = 2**31 - 2**20
_ROW_GROUP_BYTES = 8 * 2**20
_TEXT = {".csv": ",", ".tsv": "\t"}
_ANNOTATED = (".h5mu", ".h5ad")
_IDS = "sample"
_Obs = tuple[list[str], list[str]]


def save_views(path: StrPath, views: Any, y: Any = None, *, overwrite: bool = False) -> None:
    """Save views, and labels if there are any, in a form that `load_views` reads.

    The suffix of the path sets the format: ``.npz`` (arrays ``X0``, ``X1``, …, ``y``), ``.mat`` (a cell ``X`` with
    samples in rows, and ``Y``), none or ``.parquet`` (a folder with ``view_0.parquet``, …, ``labels.parquet``). The
    file is written completely or not at all.

    Parameters
    ----------
    path : str or path-like
        The file or folder to write.
    views : list, tuple or dict of (n_samples, n_features_v), or one array
        The views: arrays, sparse arrays, DataFrames or views on disk. Sparse views are stored in float64 in MATLAB
        files, and as dense views in Parquet files.
    y : array of shape (n_samples,), optional
        Labels, integers or text.
    overwrite : bool, default=False
        Whether to replace an existing file or folder, which is an error otherwise.

    Examples
    --------
    >>> import tempfile, tensormvc as tm
    >>> from pathlib import Path
    >>> views, y = tm.datasets.load_digits_views(50)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tm.datasets.save_views(Path(folder) / "digits.mat", views, y)
    ...     again, labels = tm.datasets.load_views(Path(folder) / "digits.mat")
    >>> [view.shape for view in again], bool((labels == y).all())
    ([(50, 64), (50, 32), (50, 40), (50, 46)], True)
    """
    target = Path(path)
    matrices = as_matrices(views)
    labels = None if y is None else np.asarray(y)
    if labels is not None and (labels.ndim != 1 or labels.dtype.kind not in "biufUSO"):
        raise ValueError(f"y must be a vector of integers or text, got {labels.dtype} of shape {labels.shape}")
    common_length(matrices, labels)
    if labels is not None and labels.dtype.kind in "SO":
        labels = labels.astype(str)
    ending = target.suffix.lower()
    writers = {".npz": _write_npz, ".mat": _write_mat, "": _write_parquet, ".parquet": _write_parquet}
    if ending not in writers:
        raise ValueError(f"the ending must be .npz, .mat, or none or .parquet for a folder of Parquet files: {target}")
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} exists already: pass overwrite=True to replace it")
    is_folder = ending in ("", ".parquet")
    for file in target.iterdir() if is_folder and target.is_dir() else ():
        if not re.fullmatch(r"(labels|view_\d+)\.parquet", file.name):
            raise FileExistsError(f"{target} also holds {file.name}, which save_views did not write: remove it first")
    with writing(target, overwrite=overwrite, folder=is_folder) as place:
        writers[ending](place, list(matrices.values()), labels)


def _write_npz(place: Path, views: list[Any], y: np.ndarray | None) -> None:
    arrays: dict[str, Any] = {"samples": np.array("rows")}
    for number, view in enumerate(views):
        if is_sparse(view):
            arrays |= {f"X{number}_{part}": getattr(view, part) for part in ("data", "indices", "indptr")}
            arrays |= {f"X{number}_shape": np.array(view.shape), f"X{number}_format": np.array("csr")}
        else:
            arrays[f"X{number}"] = np.asarray(view)
    if y is not None:
        arrays["y"] = y
    np.savez_compressed(place, **arrays)


def _write_mat(place: Path, views: list[Any], y: np.ndarray | None) -> None:
    size = sum(12 * view.nnz if is_sparse(view) else view.nbytes for view in views)
    if size > _MAT_BYTES:
        raise DataError(f"{place.name}: {size:,} bytes do not fit into a .mat file: save a folder of Parquet files")
    cell = np.empty((1, len(views)), dtype=object)
    for number, view in enumerate(views):
        array = scipy.sparse.csc_array(view).astype(np.float64) if is_sparse(view) else np.asarray(view)
        is_half = array.dtype == np.float16  # a type that MATLAB does not have
        cell[0, number] = array.astype(np.float32) if is_half else array
    variables: dict[str, Any] = {"X": cell, "samples": "rows"}
    if y is not None:
        variables["Y"] = np.array(y, dtype=object)[:, None] if y.dtype.kind == "U" else y[:, None]
    scipy.io.savemat(place, variables, do_compression=True)


def _write_parquet(place: Path, views: list[Any], y: np.ndarray | None) -> None:
    arrow, parquet = _parquet_writer()
    for number, view in enumerate(views):
        kind = view.dtype.newbyteorder("=")
        schema = arrow.schema([(f"f{i}", arrow.from_numpy_dtype(kind)) for i in range(view.shape[1])])
        step = max(1, _ROW_GROUP_BYTES // max(1, view.shape[1] * view.dtype.itemsize))
        with parquet.ParquetWriter(place / f"view_{number}.parquet", schema, use_dictionary=False) as writer:
            for start in range(0, view.shape[0], step):
                block = view[start : start + step]
                columns = np.array((block.toarray() if is_sparse(block) else np.asarray(block)).T, kind, order="C")
                writer.write_table(arrow.table(list(columns), schema=schema))
    if y is not None:
        parquet.write_table(arrow.table({"label": arrow.array(y.tolist())}), place / "labels.parquet")


def save_labels(
    path: StrPath,
    labels: Any,
    sample_ids: Any = None,
    *,
    column: str = "cluster",
    further: Mapping[str, Sequence[Any]] | None = None,
    source: StrPath | None = None,
    overwrite: bool = False,
) -> None:
    """Save the labels of a clustering together with the sample ids.

    The suffix of the path sets the format: ``.csv``, ``.tsv`` or ``.parquet`` (columns ``sample`` and `column`), or
    ``.h5mu`` or ``.h5ad``: a copy of `source` with a categorical column in its ``obs``, in which samples that were not
    clustered, or have the label −1, have no value. The file is written completely or not at all.

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
    further : mapping of str to sequence, optional
        Further columns, such as the confidence: numbers, or clusters with None for no cluster. In ``obs`` their names
        begin with `column` and an underscore.
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
    further = further or {}
    _, obs = check_labels_target(target, source, column, further, overwrite=overwrite)
    values = np.asarray(labels)
    if values.ndim != 1 or values.dtype.kind not in "iu":
        raise ValueError(f"labels must be a vector of integers, got {values.dtype} of shape {values.shape}")
    ids = np.arange(len(values)) if sample_ids is None else np.asarray(sample_ids)
    if ids.shape != values.shape:
        raise ValueError(f"there are {len(values)} labels for {len(ids)} sample ids: pass one id per label")
    if obs is None or source is None:
        save_table(target, label_table(ids, values, column, further), overwrite=overwrite)
        return
    with writing(target, overwrite=overwrite) as place:
        shutil.copyfile(source, place)
        columns = {column: values.tolist()} | {f"{column}_{name}": list(own) for name, own in further.items()}
        _put_columns(place, obs, ids.astype(str).tolist(), columns)


def label_table(ids: Any, labels: Any, column: str, further: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Return the columns of a table of labels."""
    columns = {_IDS: ids, column: labels, **further}
    return {name: np.asarray(own, dtype=object).tolist() for name, own in columns.items()}


def save_table(path: StrPath, columns: Mapping[str, Sequence[Any]], *, overwrite: bool = False) -> None:
    """Write columns to a .csv, .tsv or .parquet file, complete or not at all."""
    ending = check_table_target(path)
    with writing(Path(path), overwrite=overwrite) as place:
        if ending in PARQUET:
            arrow, parquet = _parquet_writer()
            parquet.write_table(arrow.table({name: arrow.array(values) for name, values in columns.items()}), place)
        else:
            with open(place, "w", encoding="utf-8", newline="") as stream:
                write_text(stream, columns, _TEXT[ending])


def check_table_target(path: StrPath) -> str:
    """Return the ending of a path that a table can be written to; a device takes text."""
    ending = ".csv" if is_special(path) else os.path.splitext(path)[1].lower()
    if ending in PARQUET:
        _parquet_writer()
    elif ending not in _TEXT:
        raise ValueError(f"{path}: the ending must be .csv, .tsv or .parquet")
    return ending


def check_labels_target(
    path: StrPath, source: StrPath | None, column: str, further: Iterable[str] = (), *, overwrite: bool
) -> tuple[str, _Obs | None]:
    """Refuse a path or column that cannot be written; return the ending, and samples and columns of an ``obs``."""
    ending = ".csv" if is_special(path) else os.path.splitext(path)[1].lower()
    if ending in _ANNOTATED:
        if source is None or os.path.splitext(source)[1].lower() != ending:
            raise ValueError(f"{path}: a {ending} output is a copy of the input, which is no {ending} file: use .csv")
        return ending, _obs_of(source, [column, *(f"{column}_{name}" for name in further)], overwrite)
    if ending not in _TEXT and ending not in PARQUET:
        raise ValueError(f"{path}: labels can be written to .csv, .tsv, .parquet, .h5mu or .h5ad")
    if column == _IDS:
        raise ValueError(f"the column {_IDS!r} holds the sample ids: choose another name for the labels")
    if column in further:
        raise ValueError(f"{column!r} is another column of the output: choose another name for the labels")
    if ending in PARQUET:
        _parquet_writer()
    return ending, None


def write_text(stream: TextIO, columns: Mapping[str, Sequence[Any]], delimiter: str = ",") -> None:
    """Write columns as text; None is an empty field."""
    table = csv.writer(stream, delimiter=delimiter, lineterminator="\n")
    table.writerow(columns)
    table.writerows(zip(*columns.values(), strict=True))


def _parquet_writer() -> tuple[Any, Any]:
    return require("pyarrow", "writing Parquet files"), require("pyarrow.parquet", "writing Parquet files")


def _obs_of(source: StrPath, wanted: list[str], overwrite: bool) -> _Obs:
    """Return the names of the samples and of the columns in the table ``obs`` of an AnnData or MuData file."""
    with reading(source), HDF5Reader(os.fspath(source)) as reader:
        obs: Any = reader.children(reader.file).get("obs")
        index = index_column(reader, obs, "the file")
        names = reader.text(index).astype(str).tolist()
        columns = words(reader.attribute(obs, "column-order"))
        key, taken = index.name.rpartition("/")[2], set(obs)
    for column in wanted:
        if "/" in column or column in ("", key):
            raise ValueError(f"{column!r} cannot be the name of a column of obs: choose another")
        if column in taken and not overwrite:
            raise FileExistsError(
                f"{source} already has a column {column!r} in obs: choose another name, or overwrite it"
            )
    return names, columns


def _put_columns(place: Path, obs: _Obs, ids: list[str], columns: Mapping[str, list[Any]]) -> None:
    """Add columns to the table ``obs``, encoded as AnnData does: categories for clusters, else numbers."""
    h5py = require("h5py", "writing .h5mu and .h5ad files")
    names, order = obs
    text = h5py.string_dtype()
    encoding = {"encoding-version": "0.2.0", "encoding-type": "array"}
    row_of = {name: row for row, name in enumerate(ids)}
    rows = [row_of.get(name) for name in names]
    with h5py.File(place, "r+") as file:
        table = file["obs"]
        for column, own in columns.items():
            if column in table:
                del table[column]
            values = [None if row is None else own[row] for row in rows]
            if any(isinstance(value, float) for value in values):
                numbers = np.array([np.nan if value is None else value for value in values])
                table.create_dataset(column, data=numbers).attrs.update(encoding)
                continue
            codes = np.array([-1 if value is None else value for value in values], dtype=np.int32)
            categories = np.arange(codes.max(initial=-1) + 1).astype(str).astype(object)
            group = table.create_group(column)
            group.attrs.update(encoding | {"encoding-type": "categorical", "ordered": False})
            group.create_dataset("codes", data=codes).attrs.update(encoding)
            stored = group.create_dataset("categories", data=categories, dtype=text)
            stored.attrs.update(encoding | {"encoding-type": "string-array"})
        kept = [name for name in order if name not in columns]
        table.attrs["column-order"] = np.array([*kept, *columns], dtype=text)
