"""Checks of arrays that come from outside: a clear error or a stated conversion, nothing silent."""

import math
import os
import sys
import warnings
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .arrays import Array, is_array, is_tensor, namespace


def plain_array(array: Any, name: str) -> Array:
    """Return a base-class array: a matrix as an array, a tensor without its gradient; a mask is refused."""
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array: fill it, with NaN for a missing row")
    if isinstance(array, np.ndarray | np.generic) or not is_array(array):
        return np.asarray(array)
    array = array.detach() if array.requires_grad else array
    return array.resolve_conj()


def as_real_array(array: Any, name: str, ndim: int | None) -> Array:
    """Return a real floating array of `ndim` dimensions (None: any), integers and booleans as float64.

    float32 and float64 pass through; anything that is not an array goes through `numpy.asarray`.
    Empty arrays, complex or non-numeric ones and those of another rank are errors. Values are not looked at.
    """
    array = plain_array(array, name)
    xp = namespace(array)
    if isinstance(array, np.ndarray) and array.dtype.kind not in "biufc":
        raise TypeError(f"{name} has the type {array.dtype}, which is not numeric")
    if xp.isdtype(array.dtype, "complex floating"):
        raise TypeError(f"{name} is complex ({array.dtype}); it must be real: pass its .real part if that is meant")
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name} has {array.ndim} dimensions (shape {tuple(array.shape)}); it must have {ndim}")
    if 0 in array.shape:
        raise ValueError(f"{name} is empty: its shape is {tuple(array.shape)}")
    if array.dtype not in (xp.float32, xp.float64):
        array = xp.astype(array, xp.float64)
    return array


def as_slices(slices: Any, *, complex_allowed: bool) -> Array:
    """Return slices as a floating array of three dimensions, integers as float64."""
    if not is_array(slices):
        slices = np.asarray(slices)
    if complex_allowed and namespace(slices).isdtype(slices.dtype, "complex floating"):
        if slices.ndim != 3:
            raise ValueError(f"slices have {slices.ndim} dimensions (shape {tuple(slices.shape)}); expected 3")
        return slices
    return as_real_array(slices, "slices", 3)


def check_out(out: Array, shape: tuple[int, ...], dtype: Any) -> bool:
    """Refuse a wrong `out`; return whether it can be written to block by block, lying row by row in memory."""
    if not is_array(out) or tuple(out.shape) != shape or out.dtype != dtype:
        given = f"{tuple(out.shape)} of {out.dtype}" if hasattr(out, "shape") else type(out).__name__
        raise ValueError(f"out must be an array of shape {shape} and type {dtype}, got {given}")
    return bool(out.flags.c_contiguous) if isinstance(out, np.ndarray) else bool(out.is_contiguous())


def check_threshold(threshold: Any) -> float:
    """Return the threshold as a float; it must be a finite number that is not negative."""
    if (
        isinstance(threshold, bool | np.bool_)
        or not isinstance(threshold, Real)
        or not 0 <= float(threshold) < math.inf
    ):
        raise ValueError(f"threshold must be a finite number >= 0, got {threshold!r}")
    return float(threshold)


def check_finite(array: Array, name: str) -> None:
    """Raise if the array holds NaN or infinity."""
    xp = namespace(array)
    if not bool(xp.all(xp.isfinite(array))):
        raise ValueError(f"{name} contains NaN or infinity")


def available_memory() -> int:
    """Bytes of main memory that can be allocated now (all of it where the system does not say)."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            fields = dict(line.split(":") for line in lines)
        available = int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        available = int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")) if hasattr(os, "sysconf") else 2**62
    try:  # a container may allow less than the machine has
        limit, used = (Path(f"/sys/fs/cgroup/memory.{name}").read_text() for name in ("max", "current"))
        available = min(available, int(limit) - int(used))
    except (OSError, ValueError):
        pass
    return available


def check_memory(n_bytes: int, what: str, remedy: str, like: Array | None = None) -> None:
    """Refuse, before anything is allocated, what does not fit in memory; the message names the remedy.

    The memory is that of the device of `like`, if it is on a GPU.
    """
    on_gpu = like is not None and is_tensor(like) and like.device.type == "cuda"
    available, where = (available_device_memory(like), " on the device") if on_gpu else (available_memory(), "")
    if n_bytes > available:
        raise MemoryError(
            f"{what} needs {n_bytes / 2**30:.1f} GiB and {available / 2**30:.1f} GiB are available{where}: {remedy}"
        )


def available_device_memory(like: Array) -> int:
    """Bytes that can be allocated now on the GPU where a tensor is, those that PyTorch keeps for later included."""
    import torch

    free, _ = torch.cuda.mem_get_info(like.device)
    kept = torch.cuda.memory_reserved(like.device) - torch.cuda.memory_allocated(like.device)
    return int(free + kept)


def random_seed(random_state: Any) -> int:
    """Return a seed for `random_state`: None gives fresh entropy, without a touch of the global generator."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0]) % (2**31)
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line, outside of this package and of scikit-learn, that led here."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(("tensormvc.", "sklearn.")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
