"""Arrays that are worked on in a file, for what does not fit in memory."""

from __future__ import annotations

import math
import mmap
import os
import shutil
import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Views that together take more than this stay on disk where they are there already.
LAZY_BYTES = 8 * 2**20


def scratch_array(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return an array of zeros in a nameless temporary file, whose space is free again once the array is gone.

    The file is in the folder for temporary files, which the environment variable ``TMPDIR`` names. What is not worked
    on at the moment needs no memory but what the system has to spare.
    """
    dtype = np.dtype(dtype)
    needed, folder = math.prod(shape) * dtype.itemsize, tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(
            f"views on disk need {needed / 2**30:.1f} GiB for a working copy in {folder}, where {free / 2**30:.1f} GiB "
            "are free: set TMPDIR to a folder with room"
        )
    with tempfile.TemporaryFile(dir=folder) as file:
        if needed and hasattr(os, "posix_fallocate"):
            # Room that is promised now cannot run out while the array is written to, which would end the process.
            os.posix_fallocate(file.fileno(), 0, needed)
        return np.memmap(file, dtype=dtype, mode="w+", shape=shape).view(np.ndarray)


def is_on_disk(array: Any) -> bool:
    """Whether an array of NumPy's is a part of a file."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)
