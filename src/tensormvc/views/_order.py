"""The canonical order of the samples: exact hashes of their values, and rows at unit length in that order."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backend.arrays import contiguous, in_double, is_sparse, is_tensor, namespace, on_host, placed
from ..backend.linalg import sum_of_squares
from ..backend.threads import run_ranges

# Hashes are computed in signed integers, whose products wrap around in every array library.
_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
MISSING_HASH = 0xD1B54A32D192ED03 - 2**64
_MIX = ((30, 0xBF58476D1CE4E5B9 - 2**64), (27, 0x94D049BB133111EB - 2**64))
# Elements that are hashed, or scaled, at a time: what the cache holds; a device wants many.
_BLOCK = 1 << 16
_DEVICE_BLOCK = 1 << 25


def mix(x: Any) -> Any:
    """Scramble 64-bit integers in place (the finaliser of SplitMix64): a bijection in which every bit matters."""
    for shift, factor in _MIX:
        x ^= (x >> shift) & (2 ** (64 - shift) - 1)
        x *= factor
    x ^= (x >> 31) & (2**33 - 1)
    return x


def row_hashes(view: Any) -> NDArray[np.int64]:
    """Hash every row of a dense or sparse matrix; zeros add nothing, so both forms agree."""
    n, d = view.shape
    column_keys = mix(np.arange(1, d + 1) * _GOLDEN)
    hashes = np.zeros(n, dtype=np.int64)
    if is_sparse(view):
        rows = np.repeat(np.arange(n), np.diff(view.indptr))
        np.add.at(hashes, rows, _terms(view.data, column_keys[view.indices]))
        return hashes
    keys = placed(column_keys, view)
    step = max(1, (_DEVICE_BLOCK if is_tensor(view) else _BLOCK) // d)

    def work(start: int, stop: int) -> None:
        for lo in range(start, stop, step):
            hi = min(lo + step, stop)
            hashes[lo:hi] = on_host(_terms(view[lo:hi], keys).sum(1))

    run_ranges(work, view, step)
    return hashes


def _terms(values: Any, column_keys: Any) -> Any:
    """Return the hashes of finite values with the keys of their columns, 0 for zero."""
    bits = contiguous(in_double(values)).view(namespace(values).int64)
    terms = mix(bits + column_keys)
    terms *= values != 0
    return terms


def content_of(hashes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a hash of some rows of a view that does not depend on their order.

    Hashes of parts add up; `mixed` finishes the sum. They tell views apart without their position.
    """
    return np.asarray(mix(hashes.copy()).sum(keepdims=True))


def mixed(contents: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the content of a whole view from the sum of those of its rows."""
    return np.asarray(mix(contents.copy()))


def order_of_views(contents: list[NDArray[np.int64]], forms: list[Any]) -> list[int]:
    """Return the order of the views that their contents decide; equal ones are told apart by their form."""
    return sorted(range(len(contents)), key=lambda v: (int(contents[v].view(np.uint64)[0]), forms[v]))


def told_apart(contents: list[NDArray[np.int64]], order: list[int]) -> list[NDArray[np.int64]]:
    """Return the contents with equal ones made different by the order of the views.

    Two views may have the same rows for different samples; samples with exchanged rows must not have the same key.
    """
    values = [int(contents[v][0]) for v in order]
    earlier = {v: values[:i].count(values[i]) for i, v in enumerate(order)}
    return [content + earlier[v] for v, content in enumerate(contents)]


def keys_of(hashes: list[NDArray[np.int64]], contents: list[NDArray[np.int64]]) -> NDArray[np.uint64]:
    """Return the keys of samples from the hashes of their rows and the contents of the views."""
    return np.asarray(sum(mix(h ^ content) for h, content in zip(hashes, contents, strict=True))).view(np.uint64)


def ordered_rows(part: Any, order: NDArray[np.intp] | None) -> Any:
    return part if order is None else part[placed(order, part) if is_tensor(part) else order]


def unit_rows(part: Any, order: NDArray[np.intp] | None, *, double: bool = False) -> Any:
    """Return the rows in an order, each scaled to unit length, in their own type or in float64; zero rows stay zero."""
    if is_sparse(part):
        part = part[order] if order is not None else part.copy()
        entries = np.diff(part.indptr)
        # The largest entry first: squares of huge or tiny numbers do not exist.
        largest = abs(part).max(axis=1).toarray().ravel().astype(np.float64)
        scaled = part.data / np.repeat(np.where(largest > 0, largest, 1), entries)
        rows = np.repeat(np.arange(part.shape[0]), entries)
        lengths = np.sqrt(np.bincount(rows, weights=scaled**2, minlength=part.shape[0]))
        part.data = (scaled / np.repeat(np.where(lengths > 0, lengths, 1), entries)).astype(
            np.float64 if double else part.dtype
        )
        return part
    xp = namespace(part)
    unit = xp.empty_like(part, dtype=xp.float64 if double else part.dtype)
    order = None if order is None else placed(order, part)

    def work(start: int, stop: int) -> None:
        for lo in range(start, stop, step):
            rows = slice(lo, min(lo + step, stop))
            # In double precision: what is single is rounded once, so that near neighbours stay in their order.
            block = in_double(part[rows] if order is None else part[order[rows]])
            largest = xp.max(xp.abs(block), axis=1, keepdims=True)
            block = block / xp.where(largest > 0, largest, xp.ones_like(largest))
            lengths = xp.sqrt(sum_of_squares(block))[:, None]
            unit[rows] = xp.astype(
                block / xp.where(lengths > 0, lengths, xp.ones_like(lengths)), unit.dtype, copy=False
            )

    step = max(1, (_DEVICE_BLOCK if is_tensor(part) else _BLOCK) // part.shape[1])
    run_ranges(work, part, step)
    return unit
