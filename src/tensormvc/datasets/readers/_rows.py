"""Views that stay on disk until their rows are asked for."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from threading import Lock
from typing import Any, Self

import numpy as np

from ...backend.checks import check_memory
from ...views import Categories, indicators
from .._errors import DataError, reading, refuse_if, require

# Rows are read in blocks of about this many bytes.
_BLOCK_BYTES = 4 * 2**20
# This much of a Parquet file is decoded at a time.
_WINDOW_BYTES = 32 * 2**20


class RowSource(ABC):
    """A view on disk that is indexed like a two-dimensional array and reads only the requested rows.

    `load_views` returns row sources for large HDF5 and Parquet files. ``source[10:20]``, ``source[[3, 1]]``,
    ``source[mask]`` and ``source[rows, columns]`` return NumPy arrays; ``numpy.asarray(source)`` reads everything.
    Row sources can be pickled and shared by threads. A subclass implements `_read`.

    Parameters
    ----------
    path : str
        The file, for messages.
    shape : tuple of two ints
        Numbers of samples and features.
    dtype : data type
        Type of the values.

    Attributes
    ----------
    shape : tuple of two ints
        Numbers of samples and features.
    dtype : numpy.dtype
        Type of the values.
    ndim : int
        Always 2.
    nbytes : int
        Memory that all rows would take.
    on_disk : bool
        Always true; tells the methods that work on blocks of rows not to load the view.

    Examples
    --------
    >>> import numpy as np, tensormvc as tm
    >>> class Squares(tm.datasets.RowSource):
    ...     def _read(self, start, stop):
    ...         return np.arange(start, stop, dtype=float)[:, None] ** 2
    >>> Squares("squares", (1000, 1), float)[[30, 4]].ravel().tolist()
    [900.0, 16.0]
    """

    ndim = 2
    on_disk = True
    _open: Any = None

    def __init__(self, path: str, shape: tuple[int, int], dtype: Any) -> None:
        self.path = path
        self.shape = (int(shape[0]), int(shape[1]))
        self.dtype = np.dtype(dtype)
        self._rows: np.ndarray | None = None
        self._lock = Lock()

    @abstractmethod
    def _read(self, start: int, stop: int) -> np.ndarray:
        """Return the rows of the file from `start` up to `stop`."""

    @property
    def nbytes(self) -> int:
        """Memory that all rows would take."""
        return int(self.shape[0] * self.shape[1] * self.dtype.itemsize)

    def take(self, rows: np.ndarray) -> Self:
        """Return a source of these rows in this order; nothing is read yet."""
        other = copy.copy(self)
        other._rows = np.asarray(rows if self._rows is None else self._rows[rows], dtype=np.intp)
        other.shape = (len(other._rows), self.shape[1])
        return other

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_lock", "_open", "_window")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=Lock())

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of shape {self.shape}, {self.dtype}, in {self.path}>"

    def __iter__(self) -> Iterator[np.ndarray]:
        for start in range(0, len(self), self._block):
            yield from self[start : start + self._block]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("a view on disk cannot become an array without a copy")
        check_memory(self.nbytes, f"reading all of {self!r}", "read blocks of rows instead")
        result = np.empty(self.shape, self.dtype)
        for start in range(0, len(self), self._block):
            result[start : start + self._block] = self[start : start + self._block]
        return result if dtype is None else result.astype(dtype, copy=False)

    def __getitem__(self, key: Any) -> Any:
        rows, *columns = key if isinstance(key, tuple) else (key,)
        if len(columns) > 1:
            raise IndexError(f"too many indices for a view: {key!r}")
        if self._rows is None and isinstance(rows, slice) and rows.step in (None, 1):
            start, stop, _ = rows.indices(len(self))
            values = self._checked_read(start, max(start, stop))
        else:  # NumPy interprets the index, and refuses one that is out of bounds
            numbers = (np.arange(len(self)) if self._rows is None else self._rows)[rows]
            values = self._gather(numbers.ravel()).reshape(*numbers.shape, self.shape[1])
        return values[..., columns[0]][()] if columns else values  # a single value is a scalar

    @property
    def _block(self) -> int:
        return int(max(1, _BLOCK_BYTES // max(1, self.shape[1] * self.dtype.itemsize)))

    def _gather(self, rows: np.ndarray) -> np.ndarray:
        """Read scattered rows of the file block by block, walking through it once."""
        result = np.empty((len(rows), self.shape[1]), self.dtype)
        order = np.argsort(rows, kind="stable")
        blocks = rows[order] // self._block
        for places in np.split(order, np.flatnonzero(np.diff(blocks)) + 1):
            if len(places):
                wanted = rows[places]
                start = int(wanted[0])
                result[places] = self._checked_read(start, int(wanted[-1]) + 1)[wanted - start]
        return result

    def _checked_read(self, start: int, stop: int) -> np.ndarray:
        if start == stop:
            return np.empty((0, self.shape[1]), self.dtype)
        with self._lock, reading(self.path):
            values = self._read(start, stop)
            if values.shape != (stop - start, self.shape[1]):
                raise DataError(f"rows {start} to {stop} have the shape {values.shape}: the file has changed")
        return values.astype(self.dtype, copy=False)


class HDF5Rows(RowSource):
    """Rows of a dataset in an HDF5 file, or its columns if samples are in columns."""

    def __init__(self, path: str, name: str, shape: tuple[int, int], dtype: Any, transposed: bool = False) -> None:
        super().__init__(path, shape, dtype)
        self.name, self.transposed = name, transposed

    @property
    def T(self) -> "HDF5Rows":
        """The same dataset with rows and columns exchanged."""
        if self._rows is not None:
            raise ValueError("a selection of rows cannot be transposed on disk")
        return HDF5Rows(self.path, self.name, self.shape[::-1], self.dtype, not self.transposed)

    def _read(self, start: int, stop: int) -> np.ndarray:
        if self._open is None:
            self._open = require("h5py", "reading HDF5 files").File(self.path, "r")[self.name]
        return np.ascontiguousarray(self._open[:, start:stop].T if self.transposed else self._open[start:stop])


class ParquetRows(RowSource):
    """Rows of the numeric and categorical columns of a Parquet file.

    Parquet can only be decoded from the start of a row group, and many files are a single row group; so a window of
    rows is decoded at a time, a few columns after the other, and kept for the next blocks.
    """

    _window: tuple[int, np.ndarray] = (0, np.empty((0, 0)))

    def __init__(self, path: str, widths: Mapping[str, int], n_rows: int, dtype: Any, categories: Categories) -> None:
        super().__init__(path, (n_rows, sum(widths.values())), dtype)
        self.columns, self.widths, self.categories = tuple(widths), tuple(widths.values()), categories

    def _read(self, start: int, stop: int) -> np.ndarray:
        parts = []
        while start < stop:
            if not 0 <= start - self._window[0] < len(self._window[1]):
                self._window = ParquetRows._window  # frees the memory first
                self._window = self._decode(start)
            first, window = self._window
            parts.append(window[start - first : stop - first])
            start += len(parts[-1])
        return np.concatenate(parts)

    def _decode(self, row: int) -> tuple[int, np.ndarray]:
        """Decode the window that holds the row, all of its row group or a part of a large one; return its first row."""
        if self._open is None:
            self._open = require("pyarrow.parquet", "reading Parquet files").ParquetFile(self.path, buffer_size=2**16)
        metadata = self._open.metadata
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        ends = np.cumsum(sizes)
        group = int(np.searchsorted(ends, row, side="right"))
        refuse_if(group == len(sizes), f"row {row} is not in the file: the file has changed or is damaged")
        first, row_bytes = int(ends[group]) - sizes[group], self.shape[1] * self.dtype.itemsize
        length = max(1, _WINDOW_BYTES // row_bytes)
        number = (row - first) // length
        window = np.empty((min(length, sizes[group] - number * length), self.shape[1]), self.dtype)
        # So many columns that together they take about one block in the whole row group.
        step = max(1, _BLOCK_BYTES * len(self.columns) // (sizes[group] * row_bytes))
        left = 0
        for i in range(0, len(self.columns), step):
            names, width = list(self.columns[i : i + step]), sum(self.widths[i : i + step])
            batches = self._open.iter_batches(length, row_groups=[group], columns=names, use_threads=False)
            batch = next(islice(batches, number, None), ())
            refuse_if(len(batch) != len(window), "a row group has fewer rows than it declares")
            window[:, left : left + width] = batch_values(batch, names, self.dtype, self.categories)
            left += width
        return first + number * length, window


def batch_values(batch: Any, names: Any, dtype: Any, categories: Categories) -> np.ndarray:
    """Return columns of an Arrow record batch as one array.

    A column of lists becomes one feature per place, a categorical one becomes one per category.
    """
    columns = [_column_values(batch.column(name), categories.get(name)) for name in names]
    return np.hstack(columns, dtype=dtype, casting="unsafe")


def _column_values(column: Any, categories: Sequence[str] | None) -> np.ndarray:
    if categories is not None:
        return indicators(column.to_pylist(), categories)
    if hasattr(column, "flatten") and hasattr(column.type, "value_type"):
        lengths = require("pyarrow.compute", "reading Parquet files").list_value_length(column).unique()
        refuse_if(len(lengths) != 1 or lengths.null_count, "a column of lists has lists of different lengths")
        column = column.flatten()
        return np.asarray(column.to_numpy(zero_copy_only=False)).reshape(-1, lengths[0].as_py())
    return np.asarray(column.to_numpy(zero_copy_only=False)).reshape(-1, 1)
