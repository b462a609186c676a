"""Views: the one place where input of every form becomes aligned, normalised, typed data in a canonical order.

The order of the rows carries no information, so nothing may depend on it. Three things make sure of that:

* a canonical order, decided by an exact integer hash of each row's values, in which everything is computed;
* random numbers keyed by (seed, row hash) instead of by position;
* sums over samples in blocks of a size that depends on the number of samples alone (`row_blocks`).

The order of the views carries none either: they are worked on in an order that their contents decide.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ._executors import InMemory, Part, row_work
from ._ops import (
    contiguous,
    in_double,
    is_array,
    is_single,
    is_sparse,
    is_tensor,
    namespace,
    on_host,
    placed,
    run_ranges,
    sum_of_squares,
    torch_device,
)
from ._scratch import LAZY_BYTES, scratch_array
from ._validation import plain_array

# Row, column and value of the first entry of a block that is not finite, and how many there are.
Wrong = tuple[int, int, float, int]
# Hashes are computed in signed integers, whose products wrap around in every array library.
_GOLDEN = 0x9E3779B97F4A7C15 - 2**64
_MISSING = 0xD1B54A32D192ED03 - 2**64
_MIX = ((30, 0xBF58476D1CE4E5B9 - 2**64), (27, 0x94D049BB133111EB - 2**64))
# Elements that are hashed, or scaled, at a time: what the cache holds; a device wants many.
_BLOCK = 1 << 16
_DEVICE_BLOCK = 1 << 25
# Elements of a view on disk that are read at a time.
_DISK_BLOCK = 1 << 20
# Width of the cosines that `Views.probes` takes of the unit-length samples.
_PROBE_FREQUENCY = 3.0


def _mix(x: Any) -> Any:
    """Scramble 64-bit integers in place (the finaliser of SplitMix64): a bijection in which every bit matters."""
    for shift, factor in _MIX:
        x ^= (x >> shift) & (2 ** (64 - shift) - 1)
        x *= factor
    x ^= (x >> 31) & (2**33 - 1)
    return x


def _row_hashes(view: Any) -> NDArray[np.int64]:
    """Hash every row of a dense or sparse matrix; zeros add nothing, so both forms agree."""
    n, d = view.shape
    column_keys = _mix(np.arange(1, d + 1) * _GOLDEN)
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
    terms = _mix(bits + column_keys)
    terms *= values != 0
    return terms


def content_of(hashes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return what some rows of a view hold, whatever their order; it adds up, and is to be mixed in the end.

    It tells the views apart without their position.
    """
    return np.asarray(_mix(hashes.copy()).sum(keepdims=True))


def mixed(contents: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the content of a whole view from the sum of those of its rows."""
    return np.asarray(_mix(contents.copy()))


def order_of_views(contents: list[NDArray[np.int64]], forms: list[Any]) -> list[int]:
    """Return the order of the views that their contents decide; equal ones are told apart by their form."""
    return sorted(range(len(contents)), key=lambda v: (int(contents[v].view(np.uint64)[0]), forms[v]))


def keys_of(hashes: list[NDArray[np.int64]], contents: list[NDArray[np.int64]]) -> NDArray[np.uint64]:
    """Return the keys of samples from the hashes of their rows and the contents of the views."""
    return np.asarray(sum(_mix(h ^ content) for h, content in zip(hashes, contents, strict=True))).view(np.uint64)


@dataclass(frozen=True)
class Views:
    """Aligned views of the same samples, each row at unit length, in the order that everything is computed in.

    Made by `as_views`. "Working order" is the canonical order, or the given one where that was asked for.

    Attributes
    ----------
    arrays : tuple of arrays of shape (n_samples, n_features_v)
        Rows at unit length (zero rows stay zero), in working order; NumPy, SciPy CSR or PyTorch.
    order : ndarray of shape (n_samples,)
        Row i in working order is row ``order[i]`` as given.
    view_order : tuple of int
        View v in working order is view ``view_order[v]`` as given.
    row_keys : ndarray of uint64 of shape (n_samples,)
        Hash of the values of each row, in working order; equal for exact duplicates.
    missing : ndarray of bool of shape (n_samples, n_views)
        Which rows were entirely NaN in a view: they are zero rows here.
    sample_ids : ndarray or None
        Index of the samples as given, where the input had one.
    names : tuple of str
        Names of the views in working order.
    as_given : tuple
        The views as they came in, of those in single precision whose rows were scaled; None of the others.
    """

    arrays: tuple[Any, ...]
    order: NDArray[np.intp]
    view_order: tuple[int, ...]
    row_keys: NDArray[np.uint64]
    missing: NDArray[np.bool_]
    sample_ids: NDArray[Any] | None
    names: tuple[str, ...]
    as_given: tuple[Any, ...]

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.order)

    @property
    def n_views(self) -> int:
        """Number of views."""
        return len(self.arrays)

    def __len__(self) -> int:
        return self.n_views

    def __getitem__(self, v: int) -> Any:
        return self.arrays[v]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.arrays)

    def place(self, values: NDArray[Any]) -> Any:
        """Put an array of NumPy's where the views are: as it is, or as a tensor on their device."""
        return values if is_sparse(self.arrays[0]) else placed(values, self.arrays[0])

    def on_host(self) -> Views:
        """Return the same views in NumPy's arrays."""
        return replace(self, arrays=tuple(on_host(array) for array in self.arrays))

    def in_double(self, v: int) -> Any:
        """Return an array in float64.

        One of single precision is scaled anew, so that no rounding of unit lengths decides which of two samples at
        nearly equal distances is the nearer one.
        """
        array, given = self.arrays[v], self.as_given[v]
        if given is None:
            return in_double(array)
        values = floating(given[:]) if _is_on_disk(given) else given
        checked = _check_view(values, self.names[v], array.device if is_tensor(array) else None)
        made = unit_rows(checked.values, self.order, double=True)
        return made if is_tensor(array) else on_host(made)

    def to_given_order(self, rows: Any) -> Any:
        """Put rows that are in working order back into the order of the input."""
        inverse = np.empty_like(self.order)
        inverse[self.order] = np.arange(len(self.order))
        return rows[inverse]

    def to_working_order(self, rows: Any) -> Any:
        """Put rows that are in the order of the input into working order."""
        return rows[self.order]

    @cached_property
    def rows(self) -> Any:
        """The executor that works on blocks of samples; it holds the "views"."""
        first = self.arrays[0]
        rows = InMemory(first if is_tensor(first) else np.empty((self.n_samples, 0)))
        rows.hold(views=list(self.arrays))
        return rows

    @property
    def single_precision(self) -> bool:
        """Whether all views are."""
        return all(map(is_single, self.arrays))

    def given(self, name: str) -> Any:
        """Return an array that the rows hold, in the order of the input and with NumPy."""
        return self.to_given_order(np.ascontiguousarray(on_host(self.rows[name])))

    def close(self, *, failed: bool = False) -> None:
        """Let go of what the executor holds beside the views."""
        self.__dict__.pop("rows", None)

    @property
    def widths(self) -> list[int]:
        """Numbers of features."""
        return [array.shape[1] for array in self.arrays]

    def probe_draws(self, count: int) -> list[tuple[Any, Any]]:
        """Return the random directions and shifts of `probes_of`, of every view; the first ones are always the same."""
        draws = []
        for d in self.widths:
            rng = np.random.default_rng([20260101, d])
            # One probe after the other, so that the first ones do not depend on how many there are.
            drawn = _PROBE_FREQUENCY * rng.standard_normal((count, d + 1))
            directions, shifts = np.ascontiguousarray(drawn[:, :d].T), drawn[:, d]
            draws.append((self.rows.place(directions), self.rows.place(shifts)))
        return draws

    def hold_ties(self) -> None:
        """Let a function of the samples that decides between equals join the rows as their "ties"."""
        if "ties" not in self.rows:
            self.rows.full("ties")
            self.rows.each(_set_ties, self.probe_draws(1), width=self.rows.total_width)

    def probes(self, count: int) -> Any:
        """Return `count` smooth generic functions of the samples, (n_samples, count), the same for every order.

        Sums over views of random cosines; the random directions belong to the features, not to the samples,
        so that a tiny change of the data changes them by little. They decide signs and rotations that
        mathematics leaves open. In float64, where the views are.
        """
        self.rows.full("probes", count)
        self.rows.each(_set_probes, self.probe_draws(count), width=self.rows.total_width)
        found = self.rows["probes"]
        self.rows.drop("probes")
        return found


def probes_of(views: list[Any], draws: list[tuple[Any, Any]]) -> Any:
    """Return the probes of some rows of the views, (rows, count)."""
    total: Any = 0
    for view, (directions, shifts) in zip(views, draws, strict=True):
        angles = in_double(view) @ directions
        angles += shifts
        total = total + namespace(angles).cos(angles)
    return total


@row_work(reads="views", sets="ties")
def _set_ties(rows: Part, draws: list[Any]) -> None:
    rows.ties[...] = probes_of(rows.views, draws)[:, 0]


@row_work(reads="views", sets="probes")
def _set_probes(rows: Part, draws: list[tuple[Any, Any]]) -> None:
    rows.probes[...] = probes_of(rows.views, draws)


def as_float64(array: Any) -> Any:
    """Return a view as float64 on the host: a NumPy array, or CSR if it is sparse."""
    return in_double(on_host(array))


def view_sizes_of(views: Any) -> tuple[int, int]:
    """Return (n_samples, n_views) of any input, without a look at its values."""
    parts, names, _ = collect(views, None)
    for part, name in zip(parts, names, strict=True):
        if len(shape := getattr(part, "shape", (0, 0))) != 2:
            raise ValueError(f"{name} has shape {tuple(shape)}; expected (n_samples, n_features)")
    lengths = [part.shape[0] if hasattr(part, "shape") else len(part) for part in parts]
    check_lengths(lengths, names)
    if lengths[0] == 0:
        raise ValueError("the views have no samples")
    return lengths[0], len(parts)


def check_lengths(lengths: list[int], names: list[str]) -> None:
    if len(set(lengths)) > 1:
        sizes = ", ".join(f"{name}: {length}" for name, length in zip(names, lengths, strict=True))
        raise ValueError(f"the views have different numbers of samples ({sizes}): every view needs a row for each")


def as_views(
    views: Any,
    *,
    view_sizes: Sequence[int] | None = None,
    canonical: bool = True,
    keep_view_order: bool = False,
    unit: bool = True,
    device: Any = None,
    keep_on_disk: bool = False,
) -> Views:
    """Make `Views` of any form of input.

    Parameters
    ----------
    views : list, tuple or dict of 2-D arrays, a MuData object, one 2-D array, or Views
        Arrays may be NumPy, SciPy sparse, PyTorch or pandas DataFrames; the latter, and MuData, are aligned
        on their index. Integers become float64; float32 stays.
    view_sizes : sequence of int, optional
        How many columns of a single 2-D array belong to each view; all to one by default.
    canonical : bool, default=True
        Whether the samples are put into the canonical order. The bases that keep the order they are given,
        and tests of the mathematics, switch it off.
    keep_view_order : bool, default=False
        Whether the views stay in the order given, for a transform along the views.
    unit : bool, default=True
        Whether each sample is scaled to unit length in each view.
    device : str or torch.device, optional
        Where the views go, as tensors of PyTorch; by default they go where the first tensor among them is, and stay
        with NumPy if there is none. Sparse views become dense there.
    keep_on_disk : bool, default=False
        Whether views on disk (`numpy.memmap`, or what `load_views` leaves there) that take more than 8 MB stay there:
        they are read in blocks, twice, and what is made of them is in a temporary file as large as they are.

    Returns
    -------
    Views
        The object itself if it is one already.
    """
    if isinstance(views, Views):
        return views
    parts, names, ids = collect(views, view_sizes)
    if device is not None:
        device = torch_device(device)
    else:
        device = next((part.device for part in parts if is_tensor(part)), None)
    lazy = [keep_on_disk and device is None and _is_on_disk(part) for part in parts]
    if sum(part.nbytes for part, stays in zip(parts, lazy, strict=True) if stays) <= LAZY_BYTES:
        lazy = [False] * len(parts)
    checked = [
        _check_on_disk(part, name) if stays else _check_view(part, name, device)
        for part, name, stays in zip(parts, names, lazy, strict=True)
    ]
    lengths = [view.values.shape[0] for view in checked]
    check_lengths(lengths, names)
    missing = np.column_stack([view.missing for view in checked])
    if missing.all(axis=1).any():
        row = int(np.flatnonzero(missing.all(axis=1))[0])
        raise ValueError(f"sample {row} is NaN in every view: drop it")

    hashes = [_row_hashes(view.values) if view.hashes is None else view.hashes for view in checked]
    for h, view in zip(hashes, checked, strict=True):
        h[view.missing] = _MISSING  # not what a row of zeros has
    contents = [mixed(content_of(h)) for h in hashes]
    view_order = list(range(len(parts)))
    if not keep_view_order:
        view_order = order_of_views(contents, [(is_sparse(view.values), str(view.dtype)) for view in checked])
    keys = keys_of(hashes, contents)
    order = np.argsort(keys, kind="stable") if canonical else np.arange(lengths[0])

    def rows_of(v: int) -> Any:
        values, rank = checked[v].values, order if canonical else None
        if lazy[v]:
            return _rows_on_disk(checked[v], order, unit=unit)
        return unit_rows(values, rank) if unit else _ordered_rows(values, rank)

    arrays = tuple(rows_of(v) for v in view_order)
    return Views(
        arrays=arrays,
        order=order,
        view_order=tuple(view_order),
        row_keys=keys[order],
        missing=missing[order][:, view_order],
        sample_ids=ids,
        names=tuple(names[v] for v in view_order),
        as_given=tuple(parts[v] if unit and is_single(checked[v]) else None for v in view_order),
    )


def collect(views: Any, view_sizes: Sequence[int] | None) -> tuple[list[Any], list[str], NDArray[Any] | None]:
    """Return the parts of the input, aligned, with their names and the index of the samples."""
    if hasattr(views, "mod") and hasattr(views, "obs_names"):
        views = {name: _MuDataPart(part) for name, part in views.mod.items()}
    if isinstance(views, Mapping):
        names, parts = [str(name) for name in views], list(views.values())
    elif _is_matrix(views):
        parts = _split_columns(views, view_sizes)
        names = [f"view {v}" for v in range(len(parts))]
    elif isinstance(views, Sequence) and not isinstance(views, str | bytes):
        if len(views) == 0:
            raise ValueError("no views: expected at least one array of shape (n_samples, n_features)")
        if not _is_matrix(views[0]):
            # [[1, 2], [3, 4]] is one array.
            depth = _plain(views[0], "view 0").ndim
            if depth < 2:
                return collect(_plain(views, "the array"), view_sizes)
        names, parts = [f"view {v}" for v in range(len(views))], list(views)
    else:
        raise TypeError(f"views are a {type(views).__name__}: expected a list or dict of 2-D arrays, or one 2-D array")
    if view_sizes is not None and not _is_matrix(views):
        raise ValueError("view_sizes goes with a single 2-D array; these are separate views already")
    if not parts:
        raise ValueError("no views: expected at least one array of shape (n_samples, n_features)")
    return _align(parts, names)


class _MuDataPart:
    """A modality of a MuData object: its matrix and the names of its samples."""

    def __init__(self, part: Any) -> None:
        self.values = part.X
        self.index = part.obs_names


def _is_matrix(obj: Any) -> bool:
    return is_array(obj) or is_sparse(obj) or _is_indexed(obj) or (hasattr(obj, "shape") and hasattr(obj, "dtype"))


def _is_indexed(obj: Any) -> bool:
    return isinstance(obj, _MuDataPart) or (hasattr(obj, "index") and hasattr(obj, "iloc") and hasattr(obj, "columns"))


def _split_columns(matrix: Any, view_sizes: Sequence[int] | None) -> list[Any]:
    if view_sizes is None:
        return [matrix]
    if min(view_sizes) < 1:
        raise ValueError(f"view_sizes={list(view_sizes)}: every view needs at least one feature")
    if len(matrix.shape) != 2 or sum(view_sizes) != matrix.shape[1]:
        raise ValueError(
            f"view_sizes={list(view_sizes)} add up to {sum(view_sizes)} features, "
            f"the array of shape {tuple(matrix.shape)} has another number"
        )
    stops = np.cumsum(view_sizes)
    starts = [0, *stops[:-1]]
    if _is_indexed(matrix):
        return [matrix.iloc[:, a:b] for a, b in zip(starts, stops, strict=True)]
    return [matrix[:, a:b] for a, b in zip(starts, stops, strict=True)]


def _align(parts: list[Any], names: list[str]) -> tuple[list[Any], list[str], NDArray[Any] | None]:
    """Put the rows of all indexed parts into the order of the first one's index."""
    indexed = [v for v, part in enumerate(parts) if _is_indexed(part)]
    if not indexed:
        return parts, names, None
    first = np.asarray(parts[indexed[0]].index)
    aligned = list(parts)
    for v in indexed:
        index = np.asarray(parts[v].index)
        values = _frame_values(parts[v])
        if not np.array_equal(index, first):
            if len(set(index.tolist())) != len(index) or len(set(first.tolist())) != len(first):
                raise ValueError(f"{names[v]}: an index has duplicates, so the views cannot be aligned")
            if len(indexed) != len(parts):
                raise ValueError(f"{names[v]} has an index of another order, and views without an index cannot follow")
            lookup = {label: position for position, label in enumerate(index.tolist())}
            lacking = [label for label in first.tolist() if label not in lookup]
            if lacking or len(index) != len(first):
                extra = sorted(set(index.tolist()) - set(first.tolist()), key=str)
                raise ValueError(
                    f"{names[v]} and {names[indexed[0]]} describe different samples: {len(lacking)} missing "
                    f"(such as {lacking[:3]}), {len(extra)} extra (such as {extra[:3]}); keep the common ones"
                )
            values = values[[lookup[label] for label in first.tolist()]]
        aligned[v] = values
    return aligned, names, first


def _plain(part: Any, name: str) -> Any:
    """Return a dense array of NumPy's or PyTorch's base class."""
    if str(getattr(part, "layout", "torch.strided")) != "torch.strided":
        raise TypeError(f"{name} is a sparse tensor of PyTorch: pass a SciPy sparse matrix, or a dense tensor")
    try:
        return plain_array(part, name)
    except ValueError as error:
        raise ValueError(f"{name} is not a matrix: {error}") from None


def _frame_values(frame: Any) -> Any:
    """Return the values of a DataFrame, its own kind of missing value as NaN."""
    values = frame.values
    if isinstance(values, np.ndarray) and values.dtype.kind == "O":
        try:
            return frame.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            return values
    return values


@dataclass(frozen=True)
class _Checked:
    """A view that is known to be numeric and finite.

    Attributes
    ----------
    values : array, CSR, or what has rows
        Floating; missing rows are zero. On disk, it is as it was given.
    missing : ndarray of bool of shape (n,)
        Which rows are entirely NaN.
    hashes : ndarray of shape (n,), optional
        Of the rows, where the look at them has computed these already.
    """

    values: Any
    missing: NDArray[np.bool_]
    hashes: NDArray[np.int64] | None = None

    @property
    def dtype(self) -> Any:
        """Type of the values, once they are worked on."""
        dtype = self.values.dtype
        return dtype if self.hashes is None or dtype in (np.float32, np.float64) else np.dtype(np.float64)


def _is_on_disk(part: Any) -> bool:
    return isinstance(part, np.memmap) or getattr(part, "on_disk", False) is True


def _check_on_disk(part: Any, name: str) -> _Checked:
    """Look at a view on disk, block by block, as `_check_view` and `_row_hashes` do at one in memory."""
    check_kind(part, name)
    n = part.shape[0]
    missing, hashes = np.zeros(n, dtype=bool), np.zeros(n, dtype=np.int64)
    wrong: list[Wrong] = []
    for rows, block in _blocks_on_disk(part):
        missing[rows], hashes[rows], found = look_at(block, rows.start)
        wrong += found
    refuse_wrong(wrong, name)
    return _Checked(part, missing, hashes)


def look_at(block: NDArray[Any], first: int = 0) -> tuple[NDArray[np.bool_], NDArray[np.int64], list[Wrong]]:
    """Return which rows of a block are missing, and set these to zero, the hashes of all, and what is wrong with it."""
    missing = np.zeros(len(block), dtype=bool)
    wrong: list[Wrong] = []
    finite = np.isfinite(block)
    if not finite.all():
        missing = np.isnan(block).all(axis=1)
        found = np.argwhere(~finite & ~missing[:, None])
        if len(found):
            i, j = found[0].tolist()
            wrong = [(first + i, j, float(block[i, j]), len(found))]
        block[missing] = 0
    hashes = _row_hashes(block)
    hashes[missing] = _MISSING  # not what a row of zeros has
    return missing, hashes, wrong


def refuse_wrong(wrong: list[Wrong], name: str) -> None:
    """Raise if blocks of a view hold what is not finite."""
    if wrong:
        row, column, value, _ = wrong[0]
        raise ValueError(
            f"{name} contains NaN or infinity at row {row}, column {column} ({value}), and "
            f"{sum(count for *_, count in wrong) - 1} more: impute or drop them; "
            "a row that is NaN in the whole view is a missing view"
        )


def _blocks_on_disk(part: Any) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield blocks of rows of a view on disk, as floating arrays of their own."""
    n, d = part.shape
    step = max(1, _DISK_BLOCK // d)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        yield rows, floating(part[rows])


def floating(block: Any) -> NDArray[Any]:
    """Return a copy of a block of rows in float32 if it is that, in float64 else."""
    made: NDArray[Any] = np.array(block, order="C", subok=False)
    return made if made.dtype in (np.float32, np.float64) else made.astype(np.float64)


def _rows_on_disk(view: _Checked, order: NDArray[np.intp], *, unit: bool) -> NDArray[Any]:
    """Return the rows of a view on disk in an order, at unit length if asked for, in a temporary file.

    Both are read and written in large pieces: rows go to the block that they belong to, in the order in which they
    come, and then to their place in it.
    """
    n, d = view.values.shape
    made = scratch_array((n, d), view.dtype)
    rank = np.empty(n, dtype=np.intp)
    rank[order] = np.arange(n)
    step = max(1, _DISK_BLOCK // d)
    starts = np.arange(0, n, step)
    filled, arrived = starts.copy(), np.empty(n, dtype=np.intp)
    for rows, block in _blocks_on_disk(view.values):
        block[view.missing[rows]] = 0
        by_rank = np.argsort(rank[rows])
        ranks = rank[rows][by_rank]
        block = unit_rows(block, by_rank) if unit else block[by_rank]
        cuts = [0, *np.searchsorted(ranks, starts[1:]), len(ranks)]
        for b, (first, last) in enumerate(itertools.pairwise(cuts)):
            room = slice(filled[b], filled[b] + last - first)
            made[room], arrived[room] = block[first:last], ranks[first:last]
            filled[b] = room.stop
    for start in starts:
        rows = slice(start, min(start + step, n))
        made[arrived[rows]] = made[rows].copy()
    return made


def check_kind(part: Any, name: str) -> None:
    """Refuse what is not a matrix of real numbers, or is empty."""
    kind = part.dtype.kind if hasattr(part.dtype, "kind") else ("c" if part.is_complex() else "f")
    if kind == "c":
        raise ValueError(f"Complex data not supported: {name} has the type {part.dtype}; pass real numbers")
    if kind not in "biuf":
        raise TypeError(f"{name} has the type {part.dtype}, which is not numeric")
    if len(part.shape) != 2:
        raise ValueError(
            f"{name} has {len(part.shape)} dimensions (shape {tuple(part.shape)}); a view is (n_samples, n_features): "
            "reshape it, with X.reshape(-1, 1) for a single feature"
        )
    for count, what in zip(part.shape, ("sample(s)", "feature(s)"), strict=True):
        if count == 0:
            shape = tuple(part.shape)
            raise ValueError(f"{name} is empty: 0 {what} (shape={shape}) while a minimum of 1 is required.")


def _check_view(part: Any, name: str, device: Any) -> _Checked:
    """Return a view as a floating matrix on a device, and which of its rows are missing (set to zero)."""
    if hasattr(part, "__dask_graph__"):
        raise TypeError(
            f"{name} is a collection of Dask, on which ESTMC, ASRETR and TLRLF4MVC with the basis AGFT work: "
            "bring it into memory with .compute() for anything else"
        )
    if is_sparse(part):
        part = sp.csr_array(part)
        if not part.has_canonical_format:
            part = part.copy()
            part.sum_duplicates()
    else:
        part = _plain(part, name)
    if isinstance(part, np.ndarray) and part.dtype == object:
        if any(isinstance(value, str | bytes) for value in part.flat):
            raise TypeError(f"{name} holds text, which is not numeric")
        try:
            part = part.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} holds objects that are not numbers: {error}") from None
    check_kind(part, name)
    n = part.shape[0]
    values = part.data if is_sparse(part) else part
    if is_sparse(part) or isinstance(part, np.ndarray):
        if values.dtype not in (np.float32, np.float64):
            part = part.astype(np.float64)
            values = part.data if is_sparse(part) else part
    else:
        xp = namespace(part)
        if part.dtype not in (xp.float32, xp.float64):
            part = values = xp.astype(part, xp.float64)
    if device is not None:
        part = values = _tensor(part, device)
    xp = namespace(values)
    # A sum is finite exactly if all terms are (or overflow, which the look at the rows then tells apart).
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not math.isfinite(float(xp.sum(values)))
    if not suspicious:
        return _Checked(part, np.zeros(n, dtype=bool))
    return _Checked(*_blank_missing_rows(part, name))


def _blank_missing_rows(part: Any, name: str) -> tuple[Any, NDArray[np.bool_]]:
    """Set rows that are entirely NaN to zero in a copy; any other value that is not finite is an error."""
    host = np.asarray(part.toarray() if is_sparse(part) else on_host(part))
    finite = np.isfinite(host)
    missing = np.isnan(host).all(axis=1)
    wrong = np.argwhere(~finite & ~missing[:, None])
    if len(wrong):
        row, column = map(int, wrong[0])
        refuse_wrong([(row, column, float(host[row, column]), len(wrong))], name)
    if not missing.any():
        return part, missing
    if is_sparse(part):
        return sp.csr_array(np.where(missing[:, None], 0, host)), missing
    xp = namespace(part)
    part = xp.asarray(part, copy=True)
    part[placed(missing, part)] = 0
    return part, missing


def _tensor(part: Any, device: Any) -> Any:
    import torch

    if is_sparse(part):
        part = part.toarray()
    if isinstance(part, np.ndarray) and not part.flags.writeable:
        part = part.copy()  # PyTorch warns of such memory
    return torch.as_tensor(part, device=device)


def _ordered_rows(part: Any, order: NDArray[np.intp] | None) -> Any:
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
