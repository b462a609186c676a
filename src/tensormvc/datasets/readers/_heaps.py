"""A check of the heaps in which HDF5 files keep text of variable length."""

from __future__ import annotations

import mmap
import re
import struct

from .._errors import DataError

_SIGNATURE = b"GCOL\x01\0\0\0"
_SCANNED_BYTES = 2**30


def check_heaps(path: str) -> None:
    """Raise a `DataError` if a heap of the file is damaged; files of more than 1 GiB are not searched.

    The HDF5 library never returns from a heap whose free space has no length (`test_damaged_heap_of_texts`).
    """
    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if len(content) <= _SCANNED_BYTES:
            for match in re.finditer(_SIGNATURE, content):
                if not _is_sound(content, match.start()):
                    raise DataError("a heap of texts is damaged")


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
