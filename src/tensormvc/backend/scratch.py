"""Arrays in temporary files, for data that do not fit in memory."""

import math
import os
import shutil
import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Views on disk stay there if they take more than this together.
LAZY_BYTES = 8 * 2**20


def scratch_array(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Return an array of zeros in an unnamed temporary file, whose space is freed with the array.

    The file is in the folder for temporary files, which the environment variable ``TMPDIR`` names.
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
            # Space is reserved now: running out of it while the array is written to would kill the process.
            os.posix_fallocate(file.fileno(), 0, needed)
        return np.memmap(file, dtype=dtype, mode="w+", shape=shape).view(np.ndarray)
