"""Views, labels and sample ids from files of many formats."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._files import StrPath
from ..backend.scratch import LAZY_BYTES
from ..views import Join
from ._dataset import Dataset, Encoding, Labels, Request, Samples, by_name
from ._errors import Budget, DataError, LayoutError, MissingDataError, reading, refuse_if
from ._layout import choose
from .readers._anndata import read_h5ad, read_h5mu
from .readers._hdf5 import HDF5Reader
from .readers._mat import read_mat
from .readers._npz import read_npz
from .readers._rows import RowSource
from .readers._tables import TABLES, read_tables
from .readers._values import outline

_HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
_ENDINGS = ".mat, .npz, .h5mu, .h5ad, .h5, .csv, .parquet, or a folder of CSV or Parquet files"


def load_views(
    path: StrPath,
    *,
    views: Sequence[str] | None = None,
    labels: Labels = None,
    samples: Samples | None = None,
    on: str | None = None,
    join: Join | None = None,
    lazy: bool | None = None,
) -> tuple[list[Any], NDArray[np.intp] | None]:
    """Load the views, and the labels if there are any, from a file or a folder.

    * MATLAB files of every version: views in a cell or struct ``data``, ``X``, ``fea``, …, or numbered ``X1``,
      ``X2``, …; labels ``truelabel``, ``truth``, ``Y``, ``gt``, ``gnd``, ``label``, …. Samples may be in rows or in
      columns: the number of labels decides or, without labels, the only length that all views share.
    * NumPy archives (``.npz``) with the same names; samples are in rows if the lengths allow it. An array ``ids`` holds
      one id per sample.
    * A folder of CSV or Parquet files, one per view in the order of their names, joined on an id column (``id``,
      ``sample``, ``index``, …, or a first column of unique texts or called ``patient_id``, ``subject``, …) or, without
      one, by position. Ids in CSV are read as text, unless all are integers without leading zeros. Labels are a file or
      a column called ``label``, ``class``, ``y``, …. Other columns of text are an error; `load_dataset` encodes them.
    * ``.h5mu``: the X of each modality, samples matched by name. ``.h5ad``: the blocks in ``obsm``, or X if there are
      none or `views` names it. Labels are a column of ``obs``.
    * Other HDF5 files with one dataset per view.

    Nothing is ever unpickled, links to other files are not followed, and declared sizes are checked before memory is
    allocated: the contents may use half of the available memory.

    Parameters
    ----------
    path : str or path-like
        The file or folder.
    views : list of str, optional
        Names of the variables, files, modalities or blocks that are the views, if they have unusual names.
    labels : str or False, optional
        Name of the labels, if it is unusual; False loads no labels.
    samples : {"rows", "columns"}, optional
        Where the samples are in the matrices of a MATLAB, NumPy or HDF5 file, if their lengths leave it open.
    on : str, optional
        Name of the id column of CSV and Parquet files, if it is unusual.
    join : {"inner", "outer", "auto"}, optional
        What to do if the views have different samples, which is an error by default: "inner" keeps the samples that
        all views have, "outer" keeps all samples, with rows of NaN where one is missing. "auto" is "outer", except
        that a view that shares fewer than a tenth of its ids with every other view is an error.
    lazy : bool, optional
        Whether dense views of HDF5 and Parquet files stay on disk as `RowSource`. By default they do if they would
        together take more than 8 MiB of memory.

    Returns
    -------
    views : list of (n_samples, n_features_v) arrays
        NumPy arrays of the type that the file has, CSR arrays if it is sparse, or `RowSource`.
    y : ndarray of int of shape (n_samples,), or None
        The labels as codes 0, 1, … in the order of their sorted values, numbers or text.

    Raises
    ------
    DataError
        The file is damaged, or it is unclear which of its contents are the views, the labels or the samples. The
        message names the file, what it holds, and the remedy.

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
    labels: Labels = None,
    samples: Samples | None = None,
    on: str | None = None,
    join: Join | None = None,
    lazy: bool | None = None,
    categories: Encoding = None,
) -> Dataset:
    r"""Load what `load_views` loads, together with the names of the views and the sample ids.

    Parameters
    ----------
    path : str or path-like
        The file or folder.
    views : list of str, optional
        Names of the views, if they are unusual.
    labels : str or False, optional
        Name of the labels, if it is unusual; False loads no labels.
    samples : {"rows", "columns"}, optional
        Where the samples are, if the lengths of the matrices leave it open.
    on : str, optional
        Name of the id column of CSV and Parquet files, if it is unusual.
    join : {"inner", "outer", "auto"}, optional
        What to do if the views have different samples, which is an error by default.
    lazy : bool, optional
        Whether dense views of HDF5 and Parquet files stay on disk.
    categories : "auto" or dict of str to mapping, optional
        How to treat categorical columns of CSV and Parquet files, which are an error by default. "auto" creates one
        column of zeros and ones per category, as `MultiViewClustering` does with DataFrames; columns that look like ids
        or free text are still an error. To encode other samples in the same way, pass the ``categories`` of the first
        data set: values that are not among them become zeros.

    Returns
    -------
    Dataset
        Sample ids come from the id column of tables, from the names in ``obs`` of ``.h5mu`` and ``.h5ad``, and from
        an array ``ids`` in ``.npz``; other files have none.

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
    request = Request([views] if isinstance(views, str) else views, labels, samples, on, join, categories)
    with reading(path):
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            raise MissingDataError(f"{path}: no such file or folder") from None
        ending = os.path.splitext(path)[1].lower()
        if os.path.isdir(path) or ending in TABLES:
            data = read_tables(path, request)
        elif (kind := _kind(path, ending)) == "npz":
            data = _load_npz(path, request)
        elif kind == "mat":
            data = _choose(read_mat(path), request)
        else:
            with HDF5Reader(path) as reader:
                if ending == ".h5mu":
                    data = read_h5mu(reader, request)
                elif ending == ".h5ad":
                    data = read_h5ad(reader, request)
                else:
                    data = _choose(reader.variables(), request, None if ending == ".mat" else "rows")
        return replace(data, views=_read_small(data.views, lazy))


def _kind(path: str, ending: str) -> str:
    """Return the format; the contents decide before the ending, which is often wrong."""
    refuse_if(not os.path.isfile(path), "it is neither a file nor a folder")
    with open(path, "rb") as stream:
        head = stream.read(2048)
    if any(head[at : at + 8] == _HDF5_MAGIC for at in (0, 512, 1024)):
        return "hdf5"
    refuse_if(not head, "it is empty")
    if head[:2] == b"PK":
        return "npz"
    if ending in (".npz", ".h5mu", ".h5ad", ".h5", ".hdf5", ".hdf"):
        raise DataError(f"this is not a {ending} file, or it is damaged: its signature is missing")
    refuse_if(ending != ".mat", f"files ending in {ending!r} cannot be read; readable are {_ENDINGS}")
    return "mat"


def _load_npz(path: str, request: Request) -> Dataset:
    arrays = read_npz(path)
    data = _choose(arrays, request, "rows")
    ids = arrays.get("ids")
    if not isinstance(ids, np.ndarray) or ids.ndim != 1 or "ids" in (request.views or ()):
        return data
    if len(ids) != data.n_samples:
        raise DataError(f"the array 'ids' has {len(ids)} values for {data.n_samples} samples: it needs one per sample")
    return replace(data, sample_ids=ids.astype(str) if ids.dtype.kind == "S" else ids)


def _choose(variables: dict[str, Any], request: Request, default: Samples | None = None) -> Dataset:
    try:
        matrices, y = choose(variables, request, default)
    except DataError as error:
        raise LayoutError(f"{error}; {outline(variables)}") from error.__cause__
    return Dataset(by_name(matrices, request.views), y, None)


def _read_small(views: dict[str, Any], lazy: bool | None) -> dict[str, Any]:
    """Read the views that are on disk, unless they are large together or `lazy` says to leave them there."""
    n_bytes = sum(view.nbytes for view in views.values() if isinstance(view, RowSource))
    if lazy or (lazy is None and n_bytes > LAZY_BYTES):
        return views
    Budget().take(n_bytes, "the views")
    return {name: np.asarray(view) if isinstance(view, RowSource) else view for name, view in views.items()}
