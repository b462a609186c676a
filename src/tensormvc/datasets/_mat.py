"""MATLAB files up to version 7.2, read from their bytes with every declared size checked against the file.

`scipy.io.loadmat` allocates what a header declares and can be crashed by a damaged file, so the format is read
here. What comes out are plain values: arrays, sparse arrays, text, lists (cells and struct arrays), dicts (structs).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from ._errors import MAX_DEFLATE_RATIO, MAX_DEPTH, Budget, DataError
from ._variables import Opaque, text_lines

_HEADER = 128
_COMPRESSED, _MATRIX = 15, 14
_STORAGE = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_ENCODING = {1: "latin1", 2: "latin1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
_CELL, _STRUCT, _OBJECT, _CHAR, _SPARSE, _FUNCTION, _STRING_OBJECT = 1, 2, 3, 4, 5, 16, 17
_NUMERIC = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_IS_COMPLEX, _IS_LOGICAL = 0x0800, 0x0200

_V4_TYPES = ("f8", "f4", "i4", "i2", "u2", "u1")


def read_mat(raw: bytes) -> dict[str, Any]:
    """Return the variables of a MATLAB file of version 4 to 7.2 by name."""
    if len(raw) < 20:
        raise DataError(f"the file is cut off or empty ({len(raw)} bytes)")
    if 0 in raw[:4]:
        return _read_version_4(raw)
    order = {b"IM": "<", b"MI": ">"}.get(raw[126:128])
    if order is None:
        raise DataError("this is not a MATLAB file: its header is missing")
    (version,) = struct.unpack(order + "H", raw[124:126])
    if version >> 8 != 1:
        raise DataError(f"this is not a MATLAB file of a known version (header says {version:#06x})")
    return _read_version_5(raw, order)


# ---------------------------------------------------------------------------------------------------------------------
# Version 5 to 7.2


@dataclass
class _Cursor:
    """A place in a buffer, and the end of the element it may not leave."""

    buffer: memoryview
    order: str
    position: int
    end: int

    def element(self) -> tuple[int, memoryview]:
        """Return the type and the bytes of the next element and move behind it."""
        tag = bytes(self.buffer[self.position : min(self.position + 8, self.end)])
        if len(tag) < 8:
            raise DataError("an element is cut off")
        kind, size = struct.unpack(self.order + "II", tag)
        if kind >> 16:  # up to four bytes, packed into the tag
            kind, size = kind & 0xFFFF, kind >> 16
            if size > 4:
                raise DataError(f"a packed element declares {size} bytes, more than 4")
            start, after = self.position + 4, self.position + 8
        else:
            start = self.position + 8
            after = start + size + (0 if kind == _COMPRESSED else -size % 8)
        if size > self.end - start:
            raise DataError(f"an element declares {size:,} bytes where {max(self.end - start, 0):,} are left")
        self.position = min(after, self.end)
        return kind, self.buffer[start : start + size]

    def inside(self, content: memoryview) -> _Cursor:
        return _Cursor(content, self.order, 0, len(content))

    def numbers(self) -> np.ndarray:
        """Return the next element as an array that looks into the buffer."""
        kind, content = self.element()
        if kind not in _STORAGE:
            raise DataError(f"an element has the unknown type {kind}")
        dtype = np.dtype(_STORAGE[kind]).newbyteorder(self.order)  # type: ignore[arg-type]
        if len(content) % dtype.itemsize:
            raise DataError(f"an element has {len(content)} bytes, no multiple of {dtype.itemsize}")
        return np.frombuffer(content, dtype)

    def integers(self, count: int | None = None) -> list[int]:
        values = self.numbers()
        if values.dtype.kind not in "iu" or (count is not None and len(values) != count):
            raise DataError("an element of sizes is damaged")
        return [int(value) for value in values]


def _read_version_5(raw: bytes, order: str) -> dict[str, Any]:
    budget = Budget()
    cursor = _Cursor(memoryview(raw), order, _HEADER, len(raw))
    variables: dict[str, Any] = {}
    while cursor.position < cursor.end:
        kind, content = cursor.element()
        if kind == _COMPRESSED:
            inflated = memoryview(_inflate(content, order, budget))
            kind, content = cursor.inside(inflated).element()
        if kind != _MATRIX:
            raise DataError(f"a variable was expected, and an element of type {kind} found")
        name, value = _read_matrix(cursor.inside(content), budget, 0)
        if name:  # the nameless one is where MATLAB keeps the insides of its objects
            variables[name] = value
    return variables


def _inflate(content: memoryview, order: str, budget: Budget) -> bytes:
    """Return the decompressed element, no longer than its own tag says and than deflate can have packed."""
    stream = zlib.decompressobj()
    tag = stream.decompress(content, 8)
    if len(tag) < 8:
        raise DataError("a compressed variable is cut off")
    (size,) = struct.unpack(order + "I", tag[4:])
    if size > MAX_DEFLATE_RATIO * len(content):
        raise DataError(f"a compressed variable declares {size:,} bytes, impossible for {len(content):,} compressed")
    budget.take(size, "a compressed variable")
    body = stream.decompress(stream.unconsumed_tail, size) if size else b""
    if len(body) < size:
        raise DataError(f"a compressed variable declares {size:,} bytes and holds {len(body):,}")
    # Reading on to the end compares the checksum.
    stream.decompress(stream.unconsumed_tail, 64)
    if not stream.eof:
        raise DataError("a compressed variable is damaged or longer than it declares")
    return tag + body


def _read_matrix(cursor: _Cursor, budget: Budget, depth: int) -> tuple[str, Any]:
    """Return the name and the value of one array of any class."""
    if depth > MAX_DEPTH:
        raise DataError(f"cells or structs are nested more than {MAX_DEPTH} deep")
    if cursor.end == 0:
        return "", np.empty((0, 0))
    flags = cursor.integers(2)[0]
    kind = flags & 0xFF
    if kind == _STRING_OBJECT:
        name = _ascii(cursor.element()[1])
        cursor.element()
        return name, Opaque(f"{_ascii(cursor.element()[1])} object")
    shape = tuple(cursor.integers())
    name = _ascii(cursor.element()[1])
    if len(shape) < 2 or min(shape) < 0:
        raise DataError(f"variable {name!r} declares the shape {shape}")
    size = 1
    for length in shape:
        size *= length
    if kind in _NUMERIC:
        dtype = np.dtype(_NUMERIC[kind])
        if flags & _IS_COMPLEX:
            return name, Opaque(f"{shape} complex")
        value: Any = _shaped(cursor.numbers(), shape, size, bool if flags & _IS_LOGICAL else dtype, name, budget)
    elif kind == _SPARSE:
        if flags & _IS_COMPLEX:
            return name, Opaque(f"{shape} complex sparse")
        value = _read_sparse(cursor, shape, name, budget)
        if flags & _IS_LOGICAL:
            value = value.astype(bool)
    elif kind == _CHAR:
        value = _read_text(cursor, shape, size)
    elif kind == _CELL:
        _check_count(cursor, size, name)
        value = [_read_element(cursor, budget, depth) for _ in range(size)]
    elif kind in (_STRUCT, _OBJECT):
        value = _read_struct(cursor, size, name, budget, depth, kind == _OBJECT)
    elif kind == _FUNCTION:
        value = Opaque("function handle")
    else:
        raise DataError(f"variable {name!r} has the unknown class {kind}")
    return name, value


def _read_element(cursor: _Cursor, budget: Budget, depth: int) -> Any:
    kind, content = cursor.element()
    if kind != _MATRIX:
        raise DataError(f"an array was expected in a cell or struct, and an element of type {kind} found")
    return _read_matrix(cursor.inside(content), budget, depth + 1)[1]


def _check_count(cursor: _Cursor, count: int, name: str) -> None:
    """Refuse more elements than the bytes left can hold, eight for each tag."""
    if count * 8 > cursor.end - cursor.position:
        raise DataError(f"variable {name!r} declares {count:,} elements where there is no room for them")


def _shaped(values: np.ndarray, shape: tuple[int, ...], size: int, dtype: Any, name: str, budget: Budget) -> np.ndarray:
    """Return the numbers in their shape and in the class that MATLAB gave them."""
    if len(values) != size:
        raise DataError(f"variable {name!r} declares the shape {shape} and holds {len(values):,} numbers")
    if values.dtype != dtype:
        budget.take(size * np.dtype(dtype).itemsize, f"variable {name!r}")
        with np.errstate(invalid="ignore"):  # a damaged file may hold numbers that the class cannot
            values = values.astype(dtype)
    return values.reshape(shape, order="F")


def _read_sparse(cursor: _Cursor, shape: tuple[int, ...], name: str, budget: Budget) -> scipy.sparse.csc_array:
    rows, starts = cursor.numbers(), cursor.numbers()
    values = cursor.numbers()
    return sparse_columns(values, rows, starts, shape, name, budget)


def sparse_columns(
    values: np.ndarray, rows: np.ndarray, starts: np.ndarray, shape: tuple[int, ...], name: str, budget: Budget
) -> scipy.sparse.csc_array:
    """Return a sparse array from the three vectors of MATLAB, after checking each against the others."""
    if rows.dtype.kind not in "iu" or starts.dtype.kind not in "iu" or len(shape) != 2:
        raise DataError(f"sparse variable {name!r} is damaged")
    n_rows, n_columns = shape
    if len(starts) != n_columns + 1 or starts[0] != 0 or bool(np.any(starts[1:] < starts[:-1])):
        raise DataError(f"sparse variable {name!r} ({shape}) has damaged column starts")
    n_values = int(starts[-1])
    if n_values > min(len(rows), len(values)):
        raise DataError(f"sparse variable {name!r} declares {n_values:,} entries and holds {len(values):,}")
    rows, values = rows[:n_values], values[:n_values]
    if n_values and (int(rows.min()) < 0 or int(rows.max()) >= n_rows):
        raise DataError(f"sparse variable {name!r} ({shape}) has an entry outside its shape")
    budget.take(24 * n_values + 8 * (n_rows + n_columns), f"sparse variable {name!r}")
    result = scipy.sparse.csc_array(
        (values.astype(np.float64), rows.astype(np.int64), starts.astype(np.int64)), shape=(n_rows, n_columns)
    )
    result.sum_duplicates()
    return result


def _read_text(cursor: _Cursor, shape: tuple[int, ...], size: int) -> Any:
    kind, content = cursor.element()
    encoding = _ENCODING.get(kind)
    if encoding is None:
        raise DataError(f"text has the unknown type {kind}")
    if encoding in ("utf-16", "utf-32"):
        encoding += "-le" if cursor.order == "<" else "-be"
    characters = bytes(content).decode(encoding, errors="replace")
    return text_lines(characters, shape) if len(characters) == size and len(shape) == 2 else characters


def _read_struct(cursor: _Cursor, size: int, name: str, budget: Budget, depth: int, is_object: bool) -> Any:
    if is_object:
        cursor.element()
    (width,) = cursor.integers(1)
    names = bytes(cursor.element()[1])
    if width <= 0 or len(names) % width:
        raise DataError(f"struct {name!r} has damaged field names")
    fields = [_ascii(names[start : start + width]) for start in range(0, len(names), width)]
    _check_count(cursor, size * len(fields), name)
    if size > 1 and not fields:
        raise DataError(f"struct {name!r} declares {size:,} elements without fields")
    records = [{field: _read_element(cursor, budget, depth) for field in fields} for _ in range(size)]
    return records[0] if len(records) == 1 else records


def _ascii(content: memoryview | bytes) -> str:
    return bytes(content).split(b"\0")[0].decode("latin1")


# ---------------------------------------------------------------------------------------------------------------------
# Version 4


def _read_version_4(raw: bytes) -> dict[str, Any]:
    budget = Budget()
    (mark,) = struct.unpack("<i", raw[:4])
    order = "<" if 0 <= mark < 5000 else ">"
    variables: dict[str, Any] = {}
    position = 0
    while position < len(raw):
        if len(raw) - position < 20:
            raise DataError("a variable is cut off")
        mark, n_rows, n_columns, is_complex, name_length = struct.unpack(order + "5i", raw[position : position + 20])
        position += 20
        machine, reserved, storage, kind = mark // 1000, mark // 100 % 10, mark // 10 % 10, mark % 10
        if not (0 <= mark < 5000 and machine in (0, 1) and reserved == 0 and storage < len(_V4_TYPES) and kind <= 2):
            raise DataError("this is not a MATLAB file: its header is missing or damaged")
        if n_rows < 0 or n_columns < 0 or is_complex not in (0, 1) or not 0 < name_length <= len(raw) - position:
            raise DataError("a variable has a damaged header")
        name = _ascii(raw[position : position + name_length])
        position += name_length
        dtype = np.dtype(_V4_TYPES[storage]).newbyteorder(order)  # type: ignore[arg-type]
        size = n_rows * n_columns
        n_bytes = size * dtype.itemsize * (1 + is_complex)
        if n_bytes > len(raw) - position:
            raise DataError(f"variable {name!r} declares {n_bytes:,} bytes where {len(raw) - position:,} are left")
        values = np.frombuffer(raw, dtype, size, position).reshape((n_rows, n_columns), order="F")
        position += n_bytes
        reader: Callable[[np.ndarray, str, Budget], Any] = (_full_4, _text_4, _sparse_4)[kind]
        variables[name] = Opaque(f"{n_rows, n_columns} complex") if is_complex else reader(values, name, budget)
    return variables


def _full_4(values: np.ndarray, name: str, budget: Budget) -> np.ndarray:
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def _text_4(values: np.ndarray, name: str, budget: Budget) -> Any:
    with np.errstate(invalid="ignore"):
        characters = values.astype(np.uint8).tobytes(order="F").decode("latin1")
    return text_lines(characters, values.shape)


def _sparse_4(values: np.ndarray, name: str, budget: Budget) -> scipy.sparse.csc_array:
    """Return a sparse array from rows of (row, column, value), the last of which is the shape."""
    if values.shape[1] != 3 or not len(values) or not bool(np.all(np.isfinite(values[:, :2]))):
        raise DataError(f"sparse variable {name!r} is damaged")
    n_rows, n_columns = (int(length) for length in values[-1, :2])
    places = values[:-1, :2]
    if places.size and not bool(np.all((places >= 1) & (places <= [n_rows, n_columns]))):
        raise DataError(f"sparse variable {name!r} ({n_rows, n_columns}) has an entry outside its shape")
    budget.take(24 * len(values) + 8 * (max(n_rows, 0) + max(n_columns, 0)), f"sparse variable {name!r}")
    rows, columns = places.astype(np.int64).T - 1
    return scipy.sparse.coo_array((values[:-1, 2].astype(float), (rows, columns)), shape=(n_rows, n_columns)).tocsc()
