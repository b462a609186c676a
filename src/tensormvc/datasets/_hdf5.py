"""HDF5 files: MATLAB's version 7.3, and any file with one dataset a view."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ._errors import MAX_DEFLATE_RATIO, MAX_DEPTH, Budget, DataError, require
from ._hdf5_text import check_heaps, read_texts
from ._lazy import HDF5Rows
from ._mat import sparse_columns
from ._variables import Opaque, text_lines

# What is smaller may be read whatever the size of the file, such as a dataset that holds only its fill value.
_SMALL_BYTES = 64 * 2**20
_MAX_CELLS = 100_000


class HDF5Reader:
    """An open HDF5 file; large datasets come out as sources of rows that read nothing yet.

    Only what is stored in the file itself is followed: links to other files and external storage are refused.

    Parameters
    ----------
    path : str
        The file.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.h5py = require("h5py", "reading HDF5 files (.mat of version 7.3, .h5mu, .h5ad)")
        self.file = self.h5py.File(path, "r")
        self.file_size = os.path.getsize(path)
        self.budget = Budget()
        self.n_cells = 0
        self.heaps_checked = False

    def __enter__(self) -> HDF5Reader:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def variables(self) -> dict[str, Any]:
        """Return what the top level holds, by name."""
        return {name: self._value(part, 0) for name, part in self.children(self.file).items() if name[:1] != "#"}

    def children(self, group: Any) -> dict[str, Any]:
        """Return the datasets and groups in a group."""
        found = {}
        for name in group:
            if isinstance(group.get(name, getlink=True), self.h5py.HardLink):
                found[str(name)] = group[name]
        return found

    def is_dataset(self, value: Any) -> bool:
        """Whether the value is a dataset and not a group."""
        return isinstance(value, self.h5py.Dataset)

    def check(self, dataset: Any) -> int:
        """Return the bytes that a dataset takes in memory; refuse what the file cannot hold."""
        if dataset.external or dataset.is_virtual:
            raise DataError(f"{dataset.name} is stored in other files, which are not followed")
        n_bytes = dataset.dtype.itemsize
        for length in dataset.shape or ():
            n_bytes *= int(length)
        if n_bytes > max(_SMALL_BYTES, MAX_DEFLATE_RATIO * self.file_size):
            raise DataError(
                f"{dataset.name} declares the shape {dataset.shape}, {n_bytes:,} bytes, "
                f"impossible for a file of {self.file_size:,}"
            )
        return int(n_bytes)

    def read(self, dataset: Any) -> np.ndarray:
        """Return a whole dataset as an array."""
        self.budget.take(self.check(dataset), dataset.name)
        return np.asarray(dataset[()])

    def text(self, dataset: Any) -> np.ndarray:
        """Return a dataset of strings, or of numbers, as a one-dimensional array."""
        if dataset.dtype.kind == "O":
            if self.h5py.check_string_dtype(dataset.dtype) is None:
                raise DataError(f"{dataset.name} holds neither numbers nor text")
            size = self.check(dataset) // dataset.dtype.itemsize
            self.budget.take(64 * size, dataset.name)
            return read_texts(self.path, dataset, size, self.file.userblock_size)
        values = self.read(dataset)
        if values.dtype.kind == "S":
            return np.array([value.decode("utf-8", "replace") for value in values.ravel()])
        return values.ravel()

    def attribute(self, part: Any, name: str) -> Any:
        """Return an attribute of a dataset or group, text as str, or None."""
        if name not in part.attrs:
            return None
        kind = part.attrs.get_id(name).dtype
        if kind.kind == "O" and not self.heaps_checked:
            check_heaps(self.path)
            self.heaps_checked = True
        value = part.attrs[name]
        return value.decode("latin1") if isinstance(value, bytes) else value

    def rows(self, dataset: Any, transposed: bool = False) -> Any:
        """Return a two-dimensional dataset as a source of rows, or of columns if `transposed`."""
        self.check(dataset)
        shape = dataset.shape[::-1] if transposed else dataset.shape
        if dataset.name is None:
            return self.read(dataset).T if transposed else self.read(dataset)
        return HDF5Rows(self.path, dataset.name, shape, dataset.dtype, transposed)

    def _value(self, part: Any, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise DataError(f"cells or groups are nested more than {MAX_DEPTH} deep")
        kind = self.attribute(part, "MATLAB_class")
        if not self.is_dataset(part):
            return self._group(part, depth)
        if part.shape is None or "MATLAB_empty" in part.attrs:
            return np.empty((0, 0))
        if part.dtype == self.h5py.ref_dtype:
            return self._cells(part, depth)
        if kind == "char" and part.dtype.kind in "iu":
            values = self.read(part)
            shape = values.shape[::-1]
            characters = "".join(chr(int(code)) for code in values.ravel() if 0 <= int(code) < 0x110000)
            fits = len(shape) == 2 and len(characters) == values.size
            return text_lines(characters, shape) if fits else characters
        if part.dtype.kind == "S" or self.h5py.check_string_dtype(part.dtype) is not None:
            values = self.text(part)
            return str(values[0]) if part.shape == () else values
        if part.dtype.kind not in "biuf":
            return Opaque(f"{part.shape} {part.dtype}")
        if part.ndim == 2:
            # MATLAB stores arrays with the axes in reverse.
            return self.rows(part, transposed=kind is not None)
        if part.ndim < 2:
            return self.read(part)
        return Opaque(f"{part.shape[::-1] if kind else part.shape} {part.dtype}")

    def _group(self, group: Any, depth: int) -> Any:
        parts = self.children(group)
        if "MATLAB_sparse" in group.attrs or ({"ir", "jc"} <= set(parts) and self.attribute(group, "MATLAB_class")):
            n_rows = int(self.attribute(group, "MATLAB_sparse") or 0)
            starts = self.read(parts["jc"]).ravel()
            empty = np.empty(0, np.int64)
            rows, values = (self.read(parts[name]).ravel() if name in parts else empty for name in ("ir", "data"))
            return sparse_columns(values, rows, starts, (n_rows, len(starts) - 1), group.name, self.budget)
        values_by_name = {name: self._value(part, depth + 1) for name, part in parts.items() if name[:1] != "#"}
        lengths = {len(value) if isinstance(value, list) else 0 for value in values_by_name.values()}
        is_array = parts and all(
            self.is_dataset(part) and part.dtype == self.h5py.ref_dtype and "MATLAB_class" not in part.attrs
            for part in parts.values()
        )
        if is_array and len(lengths) == 1:  # a struct array keeps one list of references a field
            return [{name: value[i] for name, value in values_by_name.items()} for i in range(lengths.pop())]
        return values_by_name

    def _cells(self, dataset: Any, depth: int) -> list[Any]:
        n_bytes = self.check(dataset)
        self.n_cells += n_bytes // dataset.dtype.itemsize
        if self.n_cells > _MAX_CELLS:
            raise DataError(f"the file has more than {_MAX_CELLS:,} cells")
        # Reversed axes again: MATLAB's own order of the cells is the order in the file.
        return [
            self._value(self.file[ref], depth + 1) if ref else np.empty((0, 0)) for ref in self.read(dataset).ravel()
        ]
