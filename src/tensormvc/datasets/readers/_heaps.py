"""Checks of text of variable length in HDF5 files, before the HDF5 library reads it.

The library never returns from a heap whose free space has no length, and allocates whatever length is declared for a
text (`test_damaged_heap_of_texts`, `test_false_length_of_a_text`).
"""

import mmap
import re
import struct
import zlib
from typing import Any

import numpy as np

from .._errors import DataError, refuse_if

_SIGNATURE = b"GCOL\x01\0\0\0"
_SCANNED_BYTES = 2**30
_REFERENCE = np.dtype([("length", "<u4"), ("heap", "<u8"), ("object", "<u4")])
_DEFLATE, _SHUFFLE = 1, 2


def check_heaps(path: str) -> None:
    """Raise a `DataError` if a heap of the file is damaged; files of more than 1 GiB are not searched."""
    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if len(content) <= _SCANNED_BYTES:
            for match in re.finditer(_SIGNATURE, content):
                refuse_if(not _is_sound(content, match.start()), "a heap of texts is damaged")


def _is_sound(content: mmap.mmap, position: int) -> bool:
    """Whether the lengths of the objects in the heap at this position fit the size of the heap."""
    n_bytes = int.from_bytes(content[position + 8 : position + 16], "little")
    if not 16 <= n_bytes <= len(content) - position:
        return False
    end = position + n_bytes
    position += 16
    while position + 16 <= end:
        index, length = struct.unpack_from("<H6xQ", content, position)
        # Object 0 is the free space, whose length includes its own header.
        step = length if index == 0 else 16 + length
        if not 16 <= step <= end - position:
            return False
        position += step + -step % 8
    return True


def check_lengths(path: str, dataset: Any, file_size: int) -> None:
    """Raise a `DataError` if a text of the dataset is declared longer than the whole file."""
    if dataset.chunks is None:
        start, n_bytes = dataset.id.get_offset(), dataset.id.get_storage_size()
        if start is None and n_bytes:
            raise DataError(f"{dataset.name} is text in the compact storage of HDF5, which is not supported")
        with open(path, "rb") as stream:
            stream.seek(start or 0)
            raw = stream.read(min(n_bytes, file_size))
    else:
        raw = b"".join(_chunk(dataset, start) for start in range(0, len(dataset), dataset.chunks[0]))
    if np.any(np.frombuffer(raw, _REFERENCE)["length"] > file_size):
        raise DataError(f"{dataset.name} declares a text that is longer than the file")


def _chunk(dataset: Any, start: int) -> bytes:
    """Return the references to the texts in one chunk, as they are in memory."""
    settings = dataset.id.get_create_plist()
    skipped, content = dataset.id.read_direct_chunk((start,))
    for place in reversed(range(settings.get_nfilters())):
        kind = settings.get_filter(place)[0]
        if skipped >> place & 1:
            continue
        if kind == _DEFLATE:
            content = zlib.decompressobj().decompress(content, dataset.chunks[0] * _REFERENCE.itemsize)
        elif kind == _SHUFFLE:
            content = np.frombuffer(content, np.uint8).reshape(_REFERENCE.itemsize, -1).T.tobytes()
        else:
            raise DataError(f"{dataset.name} is text with the HDF5 filter {kind}, which is not supported")
    return bytes(content)
