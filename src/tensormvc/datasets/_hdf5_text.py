"""Text of variable length in HDF5 files, read from the heaps of the file.

The HDF5 library allocates whatever length a damaged file declares for a text, and never comes back from a damaged
heap; so the references to the texts, and the heaps, are read here.
"""

from __future__ import annotations

import re
import struct
import zlib
from typing import Any, BinaryIO

import numpy as np

from ._errors import DataError

_REFERENCE = np.dtype([("length", "<u4"), ("address", "<u8"), ("index", "<u4")])
_SIGNATURE = b"GCOL\x01\0\0\0"
_DEFLATE, _SHUFFLE, _FLETCHER32 = 1, 2, 3
_SCANNED_BYTES = 2**30


def read_texts(path: str, dataset: Any, n_texts: int, base: int) -> np.ndarray:
    """Return the texts of a dataset of variable-length strings; `base` is where the addresses count from."""
    with open(path, "rb") as stream:
        references = np.frombuffer(_raw(stream, dataset, n_texts), _REFERENCE)
        heaps = {
            int(at): _read_heap(stream, int(at) + base) for at in np.unique(references["address"]) if 0 < at < 2**62
        }
    texts = []
    for length, address, index in references.tolist():
        content = heaps.get(address, {}).get(index, b"") if length else b""
        if len(content) != length:
            raise DataError(f"{dataset.name} has a damaged text")
        texts.append(content.decode("utf-8", "replace").rstrip("\0"))
    return np.array(texts, dtype=str)


def _raw(stream: BinaryIO, dataset: Any, n_texts: int) -> bytes:
    """Return the references to the texts as they are in the file."""
    n_bytes = n_texts * _REFERENCE.itemsize
    if dataset.chunks is None:
        start = dataset.id.get_offset()
        if start is None or dataset.id.get_storage_size() != n_bytes:
            raise DataError(f"{dataset.name} holds text in a form that is not known")
        stream.seek(start)
        raw = stream.read(n_bytes)
    else:
        if len(dataset.shape) != 1:
            raise DataError(f"{dataset.name} holds text in {len(dataset.shape)} dimensions")
        length = dataset.chunks[0]
        raw = b"".join(_chunk(dataset, start, length) for start in range(0, n_texts, length))[:n_bytes]
    if len(raw) != n_bytes:
        raise DataError(f"{dataset.name} is cut off")
    return raw


def _chunk(dataset: Any, start: int, length: int) -> bytes:
    settings = dataset.id.get_create_plist()
    filters = [settings.get_filter(i)[0] for i in range(settings.get_nfilters())]
    skipped, content = dataset.id.read_direct_chunk((start,))
    n_bytes = length * _REFERENCE.itemsize
    for place in reversed(range(len(filters))):
        if skipped >> place & 1:
            continue
        if filters[place] == _DEFLATE:
            content = zlib.decompressobj().decompress(content, n_bytes + 4)
        elif filters[place] == _FLETCHER32:
            content = content[:-4]
        elif filters[place] == _SHUFFLE:
            if len(content) != n_bytes:
                raise DataError(f"{dataset.name} has a damaged chunk")
            content = np.frombuffer(content, np.uint8).reshape(_REFERENCE.itemsize, length).T.tobytes()
        else:
            raise DataError(f"{dataset.name} is compressed with the filter {filters[place]}, which is not known")
    if len(content) != n_bytes:
        raise DataError(f"{dataset.name} has a damaged chunk")
    return bytes(content)


def _read_heap(stream: BinaryIO, address: int) -> dict[int, bytes]:
    """Return the objects of a heap by number, or refuse a heap that is damaged."""
    stream.seek(address)
    head = stream.read(16)
    end = stream.seek(0, 2)
    if len(head) < 16 or head[:8] != _SIGNATURE:
        raise DataError("a heap of texts is damaged")
    (size,) = struct.unpack("<Q", head[8:])
    if not 16 <= size <= end - address:
        raise DataError(f"a heap of texts declares {size:,} bytes")
    stream.seek(address)
    heap = stream.read(size)
    objects = {}
    position = 16
    while position + 16 <= size:
        index, length = struct.unpack("<H6xQ", heap[position : position + 16])
        if index == 0:  # the free rest
            if length < 16 or position + length > size:
                raise DataError("a heap of texts is damaged")
            position += length
            continue
        if length > size - position - 16:
            raise DataError("a heap of texts is damaged")
        objects[index] = heap[position + 16 : position + 16 + length]
        position += 16 + length + -length % 8
    return objects


def check_heaps(path: str) -> None:
    """Refuse a file with a damaged heap, before the HDF5 library reads an attribute from it.

    Very large files are not searched.
    """
    with open(path, "rb") as stream:
        if stream.seek(0, 2) > _SCANNED_BYTES:
            return
        stream.seek(0)
        found, offset, rest = [], 0, b""
        while fresh := stream.read(2**20):
            block = rest + fresh
            found += [offset + match.start() for match in re.finditer(re.escape(_SIGNATURE), block)]
            rest = block[1 - len(_SIGNATURE) :]
            offset += len(block) - len(rest)
        for address in found:
            _read_heap(stream, address)
