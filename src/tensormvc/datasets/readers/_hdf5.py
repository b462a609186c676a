"""HDF5 files: MATLAB's version 7.3, and any file with one dataset per view."""

import math
import os
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from .._errors import MAX_DEFLATE_RATIO, MAX_DEPTH, Budget, DataError, refuse_if, require
from ._heaps import check_heaps, check_lengths
from ._rows import HDF5Rows
from ._values import Opaque, sparse_from_vectors

# Smaller datasets may be read whatever the size of the file: one that holds only its fill value takes no space there.
_SMALL_BYTES = 64 * 2**20
_MAX_CELLS = 100_000
_INTERNAL = ("#refs#", "#subsystem#")


class HDF5Reader(AbstractContextManager["HDF5Reader"]):
    """An open HDF5 file; its two-dimensional datasets are returned as row sources that have read nothing yet.

    Only what is stored in the file itself is read: links to other files and external storage are refused.

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

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def variables(self) -> dict[str, Any]:
        """Return the values at the top level by name."""
        return {name: self._value(part, 0) for name, part in self.children(self.file).items()}

    def children(self, group: Any) -> dict[str, Any]:
        """Return the datasets and groups in a group by name; links and MATLAB's internal groups are left out."""
        return {
            str(name): group[name]
            for name in group
            if name not in _INTERNAL and isinstance(group.get(name, getlink=True), self.h5py.HardLink)
        }

    def is_dataset(self, value: Any) -> bool:
        """Whether the value is a dataset and not a group."""
        return isinstance(value, self.h5py.Dataset)

    def check(self, dataset: Any) -> int:
        """Return the bytes that a dataset takes in memory; refuse a size that the file cannot hold."""
        if dataset.external or dataset.is_virtual:
            raise DataError(f"{dataset.name} is stored in other files, which are not followed")
        n_bytes = math.prod(dataset.shape or ()) * dataset.dtype.itemsize
        if n_bytes > max(_SMALL_BYTES, MAX_DEFLATE_RATIO * self.file_size):
            size = f"{self.file_size:,} bytes"
            raise DataError(f"{dataset.name} declares the shape {dataset.shape}, impossible for a file of {size}")
        return int(n_bytes)

    def read(self, dataset: Any) -> np.ndarray:
        """Return a whole dataset as an array."""
        self.budget.take(self.check(dataset), dataset.name)
        return np.asarray(dataset[()])

    def text(self, dataset: Any) -> np.ndarray:
        """Return a dataset of strings, or of numbers, as a one-dimensional array."""
        if self.h5py.check_string_dtype(dataset.dtype) is None:
            refuse_if(dataset.dtype.kind not in "biuf", f"{dataset.name} holds neither numbers nor text")
            return self.read(dataset).ravel()
        self.budget.take(max(64 * math.prod(dataset.shape), self.check(dataset)), dataset.name)
        if dataset.dtype.kind == "O":
            self._check_heaps(dataset.dtype)
            check_lengths(self.path, dataset, self.file_size)
        return np.array(dataset.asstr("utf-8", "replace")[()], dtype=str).ravel()

    def attribute(self, part: Any, name: str) -> Any:
        """Return an attribute of a dataset or group, text as str, or None."""
        if name not in part.attrs:
            return None
        self._check_heaps(part.attrs.get_id(name).dtype)
        value = part.attrs[name]
        return value.decode("latin1") if isinstance(value, bytes) else value

    def _check_heaps(self, dtype: Any) -> None:
        if dtype.kind == "O" and not self.heaps_checked:
            check_heaps(self.path)
            self.heaps_checked = True

    def rows(self, dataset: Any, transposed: bool = False) -> Any:
        """Return a two-dimensional dataset as a source of its rows, or of its columns if `transposed`."""
        self.check(dataset)
        shape = dataset.shape[::-1] if transposed else dataset.shape
        return HDF5Rows(self.path, dataset.name, shape, dataset.dtype, transposed)

    def _value(self, part: Any, depth: int) -> Any:
        refuse_if(depth > MAX_DEPTH, f"cells or groups are nested more than {MAX_DEPTH} deep")
        kind = self.attribute(part, "MATLAB_class")
        if not self.is_dataset(part):
            return self._group(part, depth)
        if part.shape is None or "MATLAB_empty" in part.attrs:
            return np.empty((0, 0))
        if part.dtype == self.h5py.ref_dtype:
            return self._cells(part, depth)
        if kind == "char" and part.dtype.kind in "iu":
            # MATLAB stores arrays with the axes reversed: a column of the dataset is a line of the text.
            codes = np.atleast_2d(self.read(part)).T
            lines = ["".join(map(chr, line.tolist())) for line in codes.reshape(-1, codes.shape[-1])]
            return [line.rstrip() for line in lines] if len(lines) > 1 else "".join(lines)
        if self.h5py.check_string_dtype(part.dtype) is not None:
            values = self.text(part)
            return str(values[0]) if part.shape == () else values
        if part.dtype.kind not in "biuf" or part.ndim > 2:
            return Opaque(f"{part.shape[::-1] if kind else part.shape} {part.dtype}")
        return self.rows(part, transposed=kind is not None) if part.ndim == 2 else self.read(part)

    def _group(self, group: Any, depth: int) -> Any:
        parts = self.children(group)
        if "MATLAB_sparse" in group.attrs:
            n_rows = int(self.attribute(group, "MATLAB_sparse"))
            indptr = self.read(parts["jc"])
            rows, values = (self.read(parts[name]) if name in parts else np.empty(0, int) for name in ("ir", "data"))
            shape = (n_rows, indptr.size - 1)
            return sparse_from_vectors([values.astype(np.float64), rows, indptr], shape, "csc", self.budget)
        fields = {name: self._value(part, depth + 1) for name, part in parts.items()}
        is_array = parts and all(
            isinstance(fields[name], list) and part.dtype == self.h5py.ref_dtype and "MATLAB_class" not in part.attrs
            for name, part in parts.items()
        )
        if is_array:  # a struct array is stored as one list of references per field
            return [dict(zip(fields, record, strict=True)) for record in zip(*fields.values(), strict=True)]
        return fields

    def _cells(self, dataset: Any, depth: int) -> list[Any]:
        self.n_cells += math.prod(dataset.shape)
        refuse_if(self.n_cells > _MAX_CELLS, f"the file has more than {_MAX_CELLS:,} cells")
        # With the axes reversed, the order in the file is MATLAB's own order of the cells.
        refs = self.read(dataset).ravel()
        return [self._value(self.file[ref], depth + 1) if ref else np.empty((0, 0)) for ref in refs]
