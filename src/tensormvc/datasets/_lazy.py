"""Views that stay on disk until their rows are asked for."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any

import numpy as np

from ..backend import check_memory
from ._errors import DataError, reading, require

# Rows are read in blocks of about this many bytes.
_BLOCK_BYTES = 4 * 2**20
# So much of a Parquet file is decoded at a time.
_WINDOW_BYTES = 32 * 2**20


class RowSource(ABC):
    """A view on disk that is indexed like a two-dimensional array and reads only the rows asked for.

    `load_views` returns these for large HDF5 and Parquet files. ``source[10:20]``, ``source[[3, 1]]``,
    ``source[mask]`` and ``source[rows, columns]`` give NumPy arrays; ``numpy.asarray(source)`` reads everything.
    Sources can be pickled and used from several threads.

    Attributes
    ----------
    shape : tuple of two ints
        Samples and features.
    dtype : numpy.dtype
        Type of the values.
    ndim : int
        Always 2.
    nbytes : int
        Memory that all the rows would take.
    on_disk : bool
        Always true: what tells the methods that work on blocks of rows to leave it there.
    """

    ndim = 2
    on_disk = True

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
        """Memory that all the rows would take."""
        return int(self.shape[0] * self.shape[1] * self.dtype.itemsize)

    def take(self, rows: np.ndarray) -> RowSource:
        """Return a source of these rows in this order, which reads nothing yet."""
        other: RowSource = self.__reduce__()[0](*self.__reduce__()[1])
        other._rows = np.asarray(rows if self._rows is None else self._rows[rows], dtype=np.intp)
        other.shape = (len(other._rows), self.shape[1])
        return other

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
        rows, columns = (key[0], key[1:]) if isinstance(key, tuple) else (key, ())
        if len(columns) > 1:
            raise IndexError(f"too many indices for a view: {key!r}")
        if rows is Ellipsis:
            rows = slice(None)
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step == 1 and self._rows is None:
                values = self._checked_read(start, max(start, stop))
            else:
                values = self._gather(np.arange(start, stop, step))
        elif np.ndim(rows) == 0:
            row = operator.index(rows)
            if not -len(self) <= row < len(self):
                raise IndexError(f"row {row} is out of bounds for a view of {len(self)} rows")
            one = self._gather(np.array([row % len(self)]))[0]
            return one[columns[0]] if columns else one
        else:
            values = self._gather(self._row_numbers(np.asarray(rows)))
        return values[:, columns[0]] if columns else values

    @property
    def _block(self) -> int:
        return int(max(1, _BLOCK_BYTES // max(1, self.shape[1] * self.dtype.itemsize)))

    def _row_numbers(self, rows: np.ndarray) -> np.ndarray:
        if rows.dtype == bool:
            if rows.shape != (len(self),):
                raise IndexError(f"a mask of shape {rows.shape} does not fit a view of {len(self)} rows")
            return np.flatnonzero(rows)
        if rows.ndim != 1 or (rows.dtype.kind not in "iu" and rows.size):
            raise IndexError(f"rows must be whole numbers or a mask, got {rows.dtype} of shape {rows.shape}")
        rows = rows.astype(np.intp)
        if rows.size and (rows.min() < -len(self) or rows.max() >= len(self)):
            raise IndexError(f"a row is out of bounds for a view of {len(self)} rows")
        return np.where(rows < 0, rows + len(self), rows)

    def _gather(self, rows: np.ndarray) -> np.ndarray:
        """Read scattered rows: the file is walked once, in blocks, from the first wanted row to the last."""
        if self._rows is not None:
            rows = self._rows[rows]
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
                raise DataError(f"rows {start} to {stop} have the shape {values.shape}; the file has changed")
        return values.astype(self.dtype, copy=False)

    @abstractmethod
    def _arguments(self) -> tuple[Any, ...]:
        """Return what the constructor was called with."""

    def __reduce__(self) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        return type(self), self._arguments(), {"_rows": self._rows, "shape": self.shape}


class HDF5Rows(RowSource):
    """Rows of a dataset in an HDF5 file, or its columns where samples are in columns."""

    def __init__(self, path: str, name: str, shape: tuple[int, int], dtype: Any, transposed: bool = False) -> None:
        super().__init__(path, shape, dtype)
        self.name, self.transposed = name, transposed
        self._full_shape = self.shape
        self._dataset: Any = None

    @property
    def T(self) -> HDF5Rows:
        """The same dataset with rows and columns exchanged."""
        if self._rows is not None:
            raise ValueError("a selection of rows cannot be transposed on disk")
        return HDF5Rows(self.path, self.name, self.shape[::-1], self.dtype, not self.transposed)

    def _read(self, start: int, stop: int) -> np.ndarray:
        if self._dataset is None:
            h5py = require("h5py", "reading HDF5 files")
            self._dataset = h5py.File(self.path, "r")[self.name]
        values = self._dataset[:, start:stop].T if self.transposed else self._dataset[start:stop]
        return np.ascontiguousarray(values)

    def _arguments(self) -> tuple[Any, ...]:
        return self.path, self.name, self._full_shape, self.dtype, self.transposed


class ParquetRows(RowSource):
    """Rows of the numeric columns of a Parquet file.

    Parquet is read from the start of a row group on, and many files are one row group; so a window of rows is decoded
    at a time, a few columns after the other, and kept for the next blocks.
    """

    def __init__(self, path: str, columns: tuple[str, ...], widths: tuple[int, ...], n_rows: int, dtype: Any) -> None:
        super().__init__(path, (n_rows, sum(widths)), dtype)
        self.columns, self.widths = columns, widths
        self._arguments_given = (path, columns, widths, n_rows, dtype)
        self._file: Any = None
        self._start = 0
        self._window = np.empty((0, self.shape[1]), self.dtype)

    def _read(self, start: int, stop: int) -> np.ndarray:
        parts = []
        while start < stop:
            if not 0 <= start - self._start < len(self._window):
                self._decode(start)
            part = self._window[start - self._start : stop - self._start]
            parts.append(part)
            start += len(part)
        return parts[0].copy() if len(parts) == 1 else np.concatenate(parts)

    def _decode(self, row: int) -> None:
        """Decode the window that holds the row: all of its row group, or a part of a large one."""
        if self._file is None:
            parquet = require("pyarrow.parquet", "reading Parquet files")
            self._file = parquet.ParquetFile(self.path, buffer_size=2**16)
        metadata = self._file.metadata
        first, group = 0, 0
        while group < metadata.num_row_groups and first + metadata.row_group(group).num_rows <= row:
            first += metadata.row_group(group).num_rows
            group += 1
        if group == metadata.num_row_groups:
            raise DataError(f"row {row} is not in the file, which has changed or is damaged")
        n_rows = metadata.row_group(group).num_rows
        length = int(max(1, _WINDOW_BYTES // (self.shape[1] * self.dtype.itemsize)))
        start = (row - first) // length * length
        stop = min(start + length, n_rows)
        self._window = self._window[:0]
        window = np.empty((stop - start, self.shape[1]), self.dtype)
        left = 0
        for names, width in self._column_chunks(n_rows):
            self._decode_columns(group, names, start, window[:, left : left + width])
            left += width
        self._start, self._window = first + start, window

    def _column_chunks(self, n_rows: int) -> Iterator[tuple[list[str], int]]:
        """Yield columns that together take about a block, with their number of features."""
        limit = max(1, _BLOCK_BYTES // max(1, n_rows * self.dtype.itemsize))
        names: list[str] = []
        width = 0
        for name, more in zip(self.columns, self.widths, strict=True):
            if names and width + more > limit:
                yield names, width
                names, width = [], 0
            names.append(name)
            width += more
        yield names, width

    def _decode_columns(self, group: int, names: list[str], start: int, out: np.ndarray) -> None:
        batch_size = int(max(1, _BLOCK_BYTES // (out.shape[1] * self.dtype.itemsize)))
        position = 0
        for batch in self._file.iter_batches(batch_size, row_groups=[group], columns=names, use_threads=False):
            low, high = max(start - position, 0), min(start + len(out) - position, len(batch))
            if low < high:
                place = position + low - start
                out[place : place + high - low] = table_values(batch.slice(low, high - low), names, self.dtype)
            position += len(batch)
            if position >= start + len(out):
                return
        raise DataError("a row group has fewer rows than it declares")

    def _arguments(self) -> tuple[Any, ...]:
        return self._arguments_given


def table_values(table: Any, columns: Sequence[str], dtype: Any) -> np.ndarray:
    """Return columns of an Arrow table or batch as one array; a column of lists is as many features."""
    parts = []
    for name in columns:
        column = table.column(name)
        column = column.combine_chunks() if hasattr(column, "combine_chunks") else column
        chunks = column.chunks if hasattr(column, "chunks") else [column]
        parts.append(np.concatenate([_column_values(chunk) for chunk in chunks]) if chunks else np.empty((0, 1)))
    result = np.empty((len(table), sum(part.shape[1] for part in parts)), dtype)
    start = 0
    for part in parts:
        result[:, start : start + part.shape[1]] = part
        start += part.shape[1]
    return result


def _column_values(chunk: Any) -> np.ndarray:
    if not hasattr(chunk.type, "value_type") or not hasattr(chunk, "flatten"):
        return np.asarray(chunk.to_numpy(zero_copy_only=False)).reshape(len(chunk), 1)
    flat = chunk.flatten().to_numpy(zero_copy_only=False)
    if chunk.null_count or (len(chunk) and len(flat) % len(chunk)):
        raise DataError("a column of lists has lists of different lengths")
    if hasattr(chunk, "offsets") and len(np.unique(np.diff(chunk.offsets.to_numpy()))) > 1:
        raise DataError("a column of lists has lists of different lengths")
    return np.asarray(flat).reshape(len(chunk), -1)
