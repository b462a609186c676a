"""NumPy archives, read by `numpy.load` without unpickling anything."""

import math
import zipfile
from typing import Any

import numpy as np

from .._errors import MAX_DEFLATE_RATIO, Budget, DataError, refuse_if
from ._values import Opaque, sparse_from_vectors

_SPARSE_PARTS = ("data", "indices", "indptr", "shape", "format")


def read_npz(path: str) -> dict[str, Any]:
    """Return the arrays of an .npz file by name, with sparse arrays put together from their parts."""
    budget = Budget()
    arrays: dict[str, Any] = {}
    with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
        for info in archive.zip.infolist():
            if info.filename.endswith(".npy"):
                name = info.filename.removesuffix(".npy")
                array: Any = _unusable(archive.zip, info, budget) or archive[info.filename]
                is_text = isinstance(array, np.ndarray) and array.ndim == 0 and array.dtype.kind in "US"
                arrays[name] = str(array.astype(str)) if is_text else array
    refuse_if(not arrays, "this is a zip archive without .npy arrays")
    return _join_sparse(arrays, budget)


def _unusable(archive: zipfile.ZipFile, info: zipfile.ZipInfo, budget: Budget) -> Opaque | None:
    """Return what an array holds instead of numbers or text, and refuse a size that its bytes do not have.

    `numpy.load` allocates what the header declares before it reads (`test_false_sizes_in_npz`).
    """
    if info.file_size > MAX_DEFLATE_RATIO * max(info.compress_size, 1):
        raise DataError(f"{info.filename} declares {info.file_size:,} bytes, impossible for {info.compress_size:,}")
    with archive.open(info) as stream:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        try:
            shape, _, dtype = read(stream)
        except MemoryError as error:  # Python's parser on brackets that are nested too deeply
            raise DataError(f"{info.filename} has a damaged header") from error
        n_bytes = info.file_size - stream.tell()
    if dtype.hasobject:
        return Opaque(f"{shape} pickled objects, which are never loaded: save one plain array per view")
    if dtype.kind not in "biufUS":
        return Opaque(f"{shape} {dtype}")
    if min(shape, default=0) < 0 or math.prod(shape) * max(dtype.itemsize, 1) != n_bytes:
        raise DataError(f"{info.filename} declares the shape {shape} of {dtype}, but holds {n_bytes:,} bytes")
    budget.take(n_bytes, info.filename)
    return None


def _join_sparse(arrays: dict[str, Any], budget: Budget) -> dict[str, Any]:
    """Replace the parts of each sparse array, as SciPy and `save_views` name them, by the array itself."""
    prefixes = {name.removesuffix("indptr") for name in arrays if name.endswith("indptr")}
    owner = {prefix + part: prefix for prefix in prefixes for part in _SPARSE_PARTS}
    joined: dict[str, Any] = {}
    for name, value in arrays.items():
        if name not in owner:
            joined[name] = value
        elif name.endswith("indptr"):
            prefix = owner[name]
            *vectors, shape, kind = (arrays[prefix + part] for part in _SPARSE_PARTS)
            whole: Any = Opaque(f"sparse in the format {str(kind)!r}: save it as CSR")
            if str(kind) in ("csr", "csc"):
                whole = sparse_from_vectors(vectors, shape, str(kind), budget)
            joined[prefix.rstrip("_") or "X"] = whole
    return joined
