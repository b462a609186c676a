"""Views from the files that people have."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .._files import StrPath
from ..backend import LAZY_BYTES
from ._align import Join
from ._anndata import read_h5ad, read_h5mu
from ._dataset import Dataset, by_name
from ._errors import Budget, DataError, LayoutError, MissingDataError, reading
from ._hdf5 import HDF5Reader
from ._layout import Samples, choose
from ._lazy import RowSource
from ._mat import read_mat
from ._npz import read_npz
from ._tables import TABLES, read_tables
from ._variables import outline

_HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
_ENDINGS = ".mat, .npz, .h5mu, .h5ad, .h5, .csv, .parquet, or a folder of CSV or Parquet files"


def load_views(
    path: StrPath,
    *,
    views: Sequence[str] | None = None,
    labels: str | Literal[False] | None = None,
    samples: Samples | None = None,
    on: str | None = None,
    join: Join | None = None,
    lazy: bool | None = None,
) -> tuple[list[Any], NDArray[np.intp] | None]:
    """Load the views, and the labels if there are any, from a file or a folder.

    * MATLAB files of every version: views in a cell or struct ``data``, ``X``, ``fea``, …, or numbered ``X1``,
      ``X2``, …; labels ``truelabel``, ``truth``, ``Y``, ``gt``, ``gnd``, ``label``, …. Samples may be in rows or in
      columns: the number of labels decides or, without labels, the one length that all views share.
    * NumPy archives (``.npz``) with the same names; samples in rows where nothing else decides.
    * A folder of CSV or Parquet files, one a view in the order of their names, joined on an id column where there is
      one (``id``, ``sample``, ``index``, …, or a first column of unique texts), else by their order. Labels are a
      file or a column called ``label``, ``class``, ``y``, ….
    * ``.h5mu``: the X of each modality, samples matched by name. ``.h5ad``: the blocks in ``obsm``; X only where there
      are none or `views` names it. Labels are a column of ``obs``.
    * Other HDF5 files with one dataset a view.

    Nothing is ever unpickled, links to other files are not followed, and sizes are checked before memory is used: the
    contents may take half of the available memory.

    Parameters
    ----------
    path : str or path-like
        The file or folder.
    views : list of str, optional
        Names of the variables, files, modalities or blocks that are the views, where the names do not tell.
    labels : str or False, optional
        Name of the labels, where the names do not tell; False loads none.
    samples : {"rows", "columns"}, optional
        Where the samples are in the matrices of a MATLAB, NumPy or HDF5 file, where the lengths do not tell.
    on : str, optional
        Name of the id column of CSV and Parquet files, where it has an unusual one.
    join : {"inner", "outer"}, optional
        What to do when views name different samples, which is an error by default: keep those in all views, or keep
        all, with rows of NaN where a sample is missing.
    lazy : bool, optional
        Whether dense views of HDF5 and Parquet files stay on disk as `RowSource`. By default they do if they would
        together take more than 8 MiB.

    Returns
    -------
    views : list of (n_samples, n_features_v) arrays
        NumPy arrays of the type that the file has, CSR arrays where it is sparse, or `RowSource`.
    y : ndarray of int of shape (n_samples,), or None
        The labels as codes 0, 1, … in the order of their sorted values, numbers or texts.

    Raises
    ------
    DataError
        The file is damaged, or does not say what is a view, a label or a sample. The message names the file, what
        was found in it, and the remedy.

    Examples
    --------
    >>> import tempfile, numpy as np, tensormvc as tm
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "two_views.npz"
    ...     np.savez(path, X1=np.ones((4, 3)), X2=np.ones((4, 2)), y=[1, 1, 2, 2])
    ...     views, y = tm.datasets.load_views(path)
    >>> [view.shape for view in views], y
    ([(4, 3), (4, 2)], array([0, 0, 1, 1]))
    """
    data = load_dataset(path, views=views, labels=labels, samples=samples, on=on, join=join, lazy=lazy)
    return list(data.views.values()), data.y


def load_dataset(
    path: StrPath,
    *,
    views: Sequence[str] | None = None,
    labels: str | Literal[False] | None = None,
    samples: Samples | None = None,
    on: str | None = None,
    join: Join | None = None,
    lazy: bool | None = None,
) -> Dataset:
    r"""Load what `load_views` does, with the names of the views and of the samples.

    Parameters
    ----------
    path : str or path-like
        The file or folder.
    views : list of str, optional
        Names of the views, where they do not tell.
    labels : str or False, optional
        Name of the labels, where it does not tell; False loads none.
    samples : {"rows", "columns"}, optional
        Where the samples are, where the lengths do not tell.
    on : str, optional
        Name of the id column of CSV and Parquet files, where it has an unusual one.
    join : {"inner", "outer"}, optional
        What to do when views name different samples; an error by default.
    lazy : bool, optional
        Whether dense views of HDF5 and Parquet files stay on disk.

    Returns
    -------
    Dataset
        Its ids are the id column of tables, the names in ``obs`` of ``.h5mu`` and ``.h5ad``; other files have none.

    Examples
    --------
    >>> import tempfile, tensormvc as tm
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "text.csv").write_text("id,a,b\nx1,0,1\nx2,1,0\n")
    ...     _ = (Path(folder) / "image.csv").write_text("id,c\nx2,0\nx1,5\n")
    ...     data = tm.datasets.load_dataset(folder)
    >>> list(data.views), data.sample_ids.tolist(), data.views["text"].tolist()
    (['image', 'text'], ['x2', 'x1'], [[1, 0], [0, 1]])
    """
    path = os.fspath(path)
    if isinstance(views, str):
        views = [views]
    with reading(path):
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            raise MissingDataError(f"{path}: there is no such file or folder") from None
        ending = os.path.splitext(path)[1].lower()
        if os.path.isdir(path) or ending in TABLES:
            return read_tables(path, views=views, labels=labels, on=on, join=join, lazy=lazy)
        if not os.path.isfile(path):
            raise DataError("it is neither a file nor a folder")
        kind = _kind(path, ending)
        if kind == "npz":
            return _choose(read_npz(path), views, labels, samples, "rows")
        if kind == "mat":
            return _choose(_read_mat_file(path), views, labels, samples, None)
        with HDF5Reader(path) as reader:
            if ending == ".h5mu":
                data = read_h5mu(reader, views, labels, join)
            elif ending == ".h5ad":
                data = read_h5ad(reader, views, labels)
            else:
                data = _choose(reader.variables(), views, labels, samples, None if ending == ".mat" else "rows")
            return replace(data, views=_settle(data.views, lazy, reader.budget))


def _kind(path: str, ending: str) -> str:
    """Return the format, by the contents first: names are often wrong."""
    with open(path, "rb") as stream:
        head = stream.read(2048)
    if any(head[at : at + 8] == _HDF5_MAGIC for at in (0, 512, 1024)):
        return "hdf5"
    if not head:
        raise DataError("it is empty")
    if ending in (".h5mu", ".h5ad", ".h5", ".hdf5", ".hdf"):
        raise DataError("this is not an HDF5 file, or it is damaged: its signature is missing")
    if head[:2] == b"PK":
        return "npz"
    if ending == ".npz":
        raise DataError("this is not an .npz archive, or it is damaged: its signature is missing")
    if ending != ".mat":
        raise DataError(f"files with the ending {ending!r} are not known; known are {_ENDINGS}")
    return "mat"


def _read_mat_file(path: str) -> dict[str, Any]:
    Budget().take(os.path.getsize(path), "the file")
    with open(path, "rb") as stream:
        return read_mat(stream.read())


def _choose(
    variables: dict[str, Any],
    views: Sequence[str] | None,
    labels: str | Literal[False] | None,
    samples: Samples | None,
    default: Samples | None,
) -> Dataset:
    try:
        found, y = choose(variables, views=views, labels=labels, samples=samples, default_samples=default)
    except DataError as error:
        raise LayoutError(f"{error}; {outline(variables)}") from error.__cause__
    return Dataset(by_name(found, views), y, None)


def _settle(views: dict[str, Any], lazy: bool | None, budget: Budget) -> dict[str, Any]:
    """Read the views that are on disk unless they are large together or shall stay there."""
    on_disk = [view for view in views.values() if isinstance(view, RowSource)]
    if lazy or (lazy is None and sum(view.nbytes for view in on_disk) > LAZY_BYTES):
        return views
    budget.take(sum(view.nbytes for view in on_disk), "the views")
    return {name: np.asarray(view) if isinstance(view, RowSource) else view for name, view in views.items()}
