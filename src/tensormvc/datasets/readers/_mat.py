"""MATLAB files up to version 7.2, read by `scipy.io.loadmat`."""

import math
import os
import struct
import zlib
from inspect import signature
from io import BytesIO
from typing import Any

import numpy as np
import scipy.io

from ...backend.arrays import is_sparse
from .._errors import MAX_DEFLATE_RATIO, MAX_DEPTH, Budget, DataError, refuse_if
from ._values import Opaque, checked_sparse

_HEADER_BYTES = 128
_MATRIX, _COMPRESSED = 14, 15
# The element types for which loadmat has a NumPy type; any other crashes the interpreter.
_ELEMENT_TYPES = {1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 16, 17, 18}
_CELL, _STRUCT, _OBJECT, _CHAR, _SPARSE, _FUNCTION, _OPAQUE = 1, 2, 3, 4, 5, 16, 17
# Bytes per value of the numeric classes, from double to uint64.
_NUMERIC = {6: 8, 7: 4, 8: 1, 9: 1, 10: 2, 11: 2, 12: 4, 13: 4, 14: 8, 15: 8}
_IS_COMPLEX = 0x0800
# Older versions of SciPy return sparse matrices only, newer ones warn unless they are told which to return.
_SPARSE_ARRAYS = {"spmatrix": False} if "spmatrix" in signature(scipy.io.loadmat).parameters else {}


def read_mat(path: str) -> dict[str, Any]:
    """Return the variables of a MATLAB file of version 4 to 7.2 by name.

    Cells and struct arrays become lists, structs dicts, and text str.
    """
    budget = Budget()
    size = os.path.getsize(path)
    budget.take(size, "the file")
    with open(path, "rb") as stream:
        header = stream.read(_HEADER_BYTES)
        refuse_if(len(header) < 20, f"the file is truncated after {len(header)} bytes")
        if 0 in header[:4]:
            return _load(header + stream.read(), budget)
        order = {b"IM": "<", b"MI": ">"}.get(header[126:])
        if order is None or struct.unpack(order + "H", header[124:126])[0] >> 8 != 1:
            raise DataError("this is not a MATLAB file: its header is missing or of an unknown version")
        variables: dict[str, Any] = {}
        while stream.tell() < size:
            tag = stream.read(8)
            kind, n_bytes = struct.unpack(order + "II", tag) if len(tag) == 8 else (0, 0)
            if n_bytes > size - stream.tell():
                raise DataError(f"a variable declares {n_bytes:,} bytes, but only {size - stream.tell():,} are left")
            element = tag + stream.read(n_bytes)
            if kind == _COMPRESSED:
                element = _inflate(element[8:], order, budget)
            walk = _Walk(element, order, budget)
            walk.matrix()
            # With mat_dtype, loadmat would drop the imaginary parts.
            options = {"mat_dtype": not walk.is_complex, "uint16_codec": "utf-16-le" if order == "<" else "utf-16-be"}
            variables |= _load(header + element, budget, **options)
    return variables


def _load(content: bytes, budget: Budget, **options: Any) -> dict[str, Any]:
    with np.errstate(invalid="ignore"):  # a damaged file may hold numbers that their type cannot
        values = scipy.io.loadmat(BytesIO(content), **options, **_SPARSE_ARRAYS)  # type: ignore[arg-type]
    return {name: _plain(value, budget) for name, value in values.items() if not name.startswith("__")}


def _inflate(content: bytes, order: str, budget: Budget) -> bytes:
    """Return a decompressed element, at most as long as its own tag declares and as deflate can have compressed."""
    stream = zlib.decompressobj()
    tag = stream.decompress(content, 8)
    (size,) = struct.unpack(order + "I", tag[4:])
    if size > MAX_DEFLATE_RATIO * len(content):
        raise DataError(f"a compressed variable declares {size:,} bytes, impossible for {len(content):,} compressed")
    budget.take(size, "a compressed variable")
    body = stream.decompress(stream.unconsumed_tail, size) if size else b""
    stream.decompress(stream.unconsumed_tail, 64)  # to the end, where the checksum is compared
    if len(body) < size or not stream.eof:
        raise DataError("a compressed variable is damaged, or shorter or longer than it declares")
    return tag + body


class _Walk:
    """Follow the tags of one variable in the order in which loadmat reads them, without reading any values.

    loadmat allocates whatever a header declares, overflows the stack on deeply nested cells, and crashes on unknown
    element types (`test_false_sizes_in_matlab_files`).
    """

    def __init__(self, content: bytes, order: str, budget: Budget) -> None:
        self.content, self.order, self.budget = content, order, budget
        self.position, self.is_complex = 0, False

    def tag(self) -> tuple[int, int]:
        """Return the two numbers of the next tag."""
        refuse_if(len(self.content) - self.position < 8, "a variable is truncated")
        kind, n_bytes = struct.unpack_from(self.order + "II", self.content, self.position)
        self.position += 8
        return kind, n_bytes

    def element(self) -> bytes | memoryview:
        """Return the contents of the next element, which is not a matrix."""
        kind, n_bytes = self.tag()
        start = self.position
        if kind >> 16:  # up to four bytes, stored in the tag itself
            kind, n_bytes, start = kind & 0xFFFF, kind >> 16, start - 4
        else:
            self.position += n_bytes + -n_bytes % 8
        if kind not in _ELEMENT_TYPES or n_bytes > len(self.content) - start:
            raise DataError(f"an element of type {kind} declares {n_bytes:,} bytes: the variable is damaged")
        return memoryview(self.content)[start : start + n_bytes]

    def integers(self) -> list[int]:
        """Return the next element as 32-bit integers."""
        content = self.element()
        return list(struct.unpack_from(f"{self.order}{len(content) // 4}i", content))

    def matrix(self, depth: int = 0) -> None:
        """Move behind the next matrix, or raise a `DataError` if it declares more than there is."""
        kind, n_bytes = self.tag()
        if kind != _MATRIX or depth > MAX_DEPTH:
            raise DataError(f"an element of type {kind} at depth {depth}: the variable is damaged or nested too deeply")
        if n_bytes == 0:
            return
        self.tag()
        flags, _ = self.tag()
        kind = flags & 0xFF
        if kind == _OPAQUE:
            for _ in range(3):
                self.element()
            return self.matrix(depth + 1)
        shape = self.integers()
        name = bytes(self.element()).decode("latin1")
        count, left = math.prod(shape), len(self.content) - self.position
        if len(shape) < 2 or min(shape) < 0 or (kind != _SPARSE and count > left):
            raise DataError(f"variable {name!r} declares the shape {tuple(shape)}, but only {left:,} bytes are left")
        if kind in (_STRUCT, _OBJECT):
            if kind == _OBJECT:
                self.element()
            (width,) = self.integers()
            count *= len(self.element()) // max(width, 1)
        if kind in (_CELL, _STRUCT, _OBJECT, _FUNCTION):
            for _ in range(1 if kind == _FUNCTION else count):
                self.matrix(depth + 1)
        elif kind in _NUMERIC or kind in (_CHAR, _SPARSE):
            self.is_complex |= bool(flags & _IS_COMPLEX)
            n_elements = 1 + 2 * (kind == _SPARSE) + bool(flags & _IS_COMPLEX)
            stored = sum(len(self.element()) for _ in range(n_elements))
            # A double may be stored as a byte.
            self.budget.take(max(0, count * _NUMERIC.get(kind, 0) - stored), f"variable {name!r}")
        return None


def _plain(value: Any, budget: Budget) -> Any:
    """Return a value of loadmat as an array, a list (cell, struct array), a dict (struct), text, or `Opaque`."""
    if value is None:
        return {}
    if is_sparse(value):
        if value.dtype.kind == "c":
            return Opaque(f"{value.shape} complex sparse")
        return checked_sparse(value.astype(bool if value.dtype == bool else np.float64), budget)
    if isinstance(value, scipy.io.matlab.MatlabFunction | scipy.io.matlab.MatlabOpaque):
        return Opaque("function handle or object")
    if names := value.dtype.names:
        records = [{name: _plain(record[name], budget) for name in names} for record in value.ravel(order="F")]
        return records[0] if len(records) == 1 else records
    if value.dtype == object:
        return [_plain(part, budget) for part in value.ravel(order="F")]
    if value.dtype.kind == "U":
        lines = [str(line) for line in value.ravel()]
        return [line.rstrip() for line in lines] if len(lines) > 1 else "".join(lines)
    return value if value.dtype.kind in "biuf" else Opaque(f"{value.shape} complex")
