"""NumPy archives, read without unpickling anything."""

from __future__ import annotations

import zipfile
from typing import Any

import numpy as np
import scipy.sparse

from ._errors import MAX_DEFLATE_RATIO, Budget, DataError
from ._variables import Opaque

_MAX_HEADER = 10_000
_SPARSE_PARTS = ("data", "indices", "indptr", "shape", "format")


def read_npz(path: str) -> dict[str, Any]:
    """Return the arrays of an .npz file by name; sparse ones as scipy's and our own writers keep them."""
    budget = Budget()
    arrays: dict[str, Any] = {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.filename.endswith(".npy"):
                arrays[info.filename.removesuffix(".npy")] = _read_array(archive, info, budget)
    if not arrays:
        raise DataError("this is a zip archive without .npy arrays in it")
    return _join_sparse(arrays, budget)


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, budget: Budget) -> Any:
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DataError(f"{info.filename} is compressed in a way that NumPy does not use")
    ratio = 1 if info.compress_type == zipfile.ZIP_STORED else MAX_DEFLATE_RATIO
    if info.file_size > ratio * max(info.compress_size, 1):
        raise DataError(f"{info.filename} declares {info.file_size:,} bytes, impossible for {info.compress_size:,}")
    with archive.open(info) as stream:
        shape, fortran, dtype = _read_header(stream, info.filename)
        if dtype.hasobject:
            return Opaque(f"{shape} pickled objects, which are never loaded: save plain arrays, one a view")
        if dtype.kind not in "biufUS":
            return Opaque(f"{shape} {dtype}")
        n_bytes = dtype.itemsize
        for length in shape:
            n_bytes *= length
        if n_bytes > info.file_size:
            raise DataError(f"{info.filename} declares the shape {shape}, more than its {info.file_size:,} bytes")
        budget.take(n_bytes, info.filename)
        content = stream.read(n_bytes)
        if len(content) < n_bytes:
            raise DataError(f"{info.filename} is cut off")
        if stream.read(1):  # to the end, which compares the checksum
            raise DataError(f"{info.filename} is longer than its shape {shape} says")
    values = np.frombuffer(content, dtype) if dtype.itemsize else np.zeros(0, "U1")
    if values.size != n_bytes // max(dtype.itemsize, 1):
        raise DataError(f"{info.filename} is damaged")
    values = values.reshape(shape, order="F" if fortran else "C")
    return str(values) if values.ndim == 0 and dtype.kind == "U" else values


def _read_header(stream: Any, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise DataError(f"{name} has a header of version {version}")
    try:
        shape, fortran, dtype = readers[version](stream, max_header_size=_MAX_HEADER)
    except MemoryError as error:  # what Python's parser raises for brackets nested too deep
        raise DataError(f"{name} has a damaged header") from error
    if any(length < 0 for length in shape):
        raise DataError(f"{name} declares the shape {shape}")
    return shape, fortran, dtype


def _join_sparse(arrays: dict[str, Any], budget: Budget) -> dict[str, Any]:
    """Replace data, indices, indptr, shape and format, each with a common beginning, by the sparse array."""
    joined: dict[str, Any] = {}
    for name, value in arrays.items():
        start = name.removesuffix("indptr")
        if name.endswith("indptr") and all(start + part in arrays for part in _SPARSE_PARTS):
            joined[start.rstrip("_") or "X"] = _sparse({part: arrays[start + part] for part in _SPARSE_PARTS}, budget)
        elif not any(name.endswith(part) and name.removesuffix(part) + "indptr" in arrays for part in _SPARSE_PARTS):
            joined[name] = value
    return joined


def _sparse(parts: dict[str, Any], budget: Budget) -> Any:
    kind = str(np.asarray(parts["format"]).astype(str))
    if kind not in ("csr", "csc"):
        return Opaque(f"sparse in the format {kind!r}: save it as CSR")
    return compressed_sparse(parts["data"], parts["indices"], parts["indptr"], parts["shape"], kind, budget)


def compressed_sparse(data: Any, indices: Any, starts: Any, shape: Any, kind: str, budget: Budget) -> Any:
    """Return a CSR array from the vectors of a CSR or CSC one, after checking each against the others."""
    vectors = [np.asarray(part).ravel() for part in (data, indices, starts, shape)]
    data, indices, starts, shape = vectors
    if data.dtype.kind not in "biuf" or any(part.dtype.kind not in "iu" for part in vectors[1:]) or len(shape) != 2:
        raise DataError("a sparse array is damaged")
    n_rows, n_columns = int(shape[0]), int(shape[1])
    n_major, n_minor = (n_rows, n_columns) if kind == "csr" else (n_columns, n_rows)
    if n_rows < 0 or n_columns < 0 or len(starts) != n_major + 1 or starts[0] != 0 or bool(np.any(np.diff(starts) < 0)):
        raise DataError(f"a sparse array of shape {n_rows, n_columns} has damaged row or column starts")
    if int(starts[-1]) != len(data) or len(data) != len(indices):
        raise DataError(f"a sparse array declares {int(starts[-1]):,} entries and holds {len(data):,}")
    if len(indices) and (int(indices.min()) < 0 or int(indices.max()) >= n_minor):
        raise DataError(f"a sparse array of shape {n_rows, n_columns} has an entry outside its shape")
    budget.take(24 * len(data) + 8 * (n_rows + n_columns), "a sparse array")
    make = scipy.sparse.csr_array if kind == "csr" else scipy.sparse.csc_array
    result = scipy.sparse.csr_array(make((data.copy(), indices.copy(), starts.copy()), shape=(n_rows, n_columns)))
    result.sum_duplicates()
    return result
