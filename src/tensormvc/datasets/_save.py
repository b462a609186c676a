"""Views written to files, for `load_views` and for other programs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse

from .._files import StrPath, writing
from ..backend import is_sparse
from ._errors import DataError, require
from ._inputs import as_matrix, as_named_views, common_length

# Some readers take the size of a variable for a signed 32-bit integer.
_MAT_BYTES = 2**31 - 2**20
_ROW_GROUP_BYTES = 8 * 2**20


def save_views(path: StrPath, views: Any, y: Any = None, *, overwrite: bool = False) -> None:
    """Save views, and labels if there are any, in a form that `load_views` reads.

    The ending of the path is the format: ``.npz`` (arrays ``X0``, ``X1``, …, ``y``), ``.mat`` (a cell ``X`` with
    samples in rows, and ``Y``), none or ``.parquet`` (a folder with ``view_0.parquet``, …, ``labels.parquet``). The
    file appears complete or not at all.

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
    matrices = {name: as_matrix(view) for name, view in as_named_views(views).items()}
    for view in matrices.values():
        if len(view.shape) != 2 or view.dtype.kind not in "biuf" or 0 in view.shape:
            raise ValueError(f"a view must be a matrix of real numbers, got {view.dtype} of shape {view.shape}")
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
        if is_sparse(view):
            cell[0, number] = scipy.sparse.csc_array(view).astype(np.float64)
        else:
            array = np.asarray(view)
            is_odd = array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8)
            cell[0, number] = array.astype(np.promote_types(np.float32, array.dtype)) if is_odd else array
    variables: dict[str, Any] = {"X": cell, "samples": "rows"}
    if y is not None:
        variables["Y"] = np.array(y, dtype=object)[:, None] if y.dtype.kind == "U" else y[:, None]
    scipy.io.savemat(place, variables, do_compression=True)


def _write_parquet(place: Path, views: list[Any], y: np.ndarray | None) -> None:
    arrow = require("pyarrow", "writing Parquet files")
    parquet = require("pyarrow.parquet", "writing Parquet files")
    for number, view in enumerate(views):
        names = [f"f{i}" for i in range(view.shape[1])]
        schema = arrow.schema([(name, arrow.from_numpy_dtype(view.dtype.newbyteorder("="))) for name in names])
        step = max(1, _ROW_GROUP_BYTES // max(1, view.shape[1] * view.dtype.itemsize))
        with parquet.ParquetWriter(place / f"view_{number}.parquet", schema, use_dictionary=False) as writer:
            for start in range(0, view.shape[0], step):
                block = view[start : start + step]
                columns = (block.toarray() if is_sparse(block) else np.asarray(block)).T
                columns = np.ascontiguousarray(columns, dtype=columns.dtype.newbyteorder("="))
                writer.write_table(arrow.table([arrow.array(column) for column in columns], schema=schema))
    if y is not None:
        parquet.write_table(arrow.table({"label": arrow.array(y.tolist())}), place / "labels.parquet")
