"""Views: aligned, checked, scaled samples in an order that their values decide.

The order of the rows carries no information, so nothing may depend on it: everything is computed in a canonical order
given by an exact hash of each row, random numbers belong to the rows' values, and sums over samples run in blocks whose
size depends on the number of samples alone. The order of the views carries none either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..backend.arrays import Array, in_double, is_single, is_sparse, is_tensor, namespace, on_host, placed, torch_device
from ..backend.scratch import LAZY_BYTES
from ..rows import InMemory, OnDisk, RowArrays, Rows, row_work
from ._check import Checked, check_view, floating, row_sizes
from ._collect import Collected, check_lengths, collect, is_lazy
from ._disk import check_on_disk, rows_on_disk
from ._order import (
    MISSING_HASH,
    content_of,
    keys_of,
    mixed,
    order_of_views,
    ordered_rows,
    row_hashes,
    told_apart,
    unit_rows,
)
from ._tables import Categories

# Frequency of the cosines in `Views.probes`, for samples at unit length.
_PROBE_FREQUENCY = 3.0

ProbeDraws = list[tuple[Array, Array]]


@dataclass
class ProbeRows(RowArrays):
    """The views, a function of each sample that breaks ties (n,), and probes (n, count)."""

    views: list[Array]
    ties: Array
    probes: Array


@dataclass(frozen=True)
class Views:
    """Aligned views of the same samples, each row at unit length, in working order.

    Made by `as_views`. "Working order" is the canonical order, or the one given where that was asked for.

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
        Which rows were entirely NaN in a view, or absent from its table: they are zero rows here.
    sample_ids : ndarray or None
        Index of the samples as given, where the input had one; after a join, in the order of their first appearance.
    names : tuple of str
        Names of the views in working order.
    as_given : tuple
        Views in single precision before their rows were scaled; None for the others.
    on_disk : bool
        Whether arrays are in temporary files.
    feature_names : tuple of arrays of str, or None
        Names of the columns of each view, where the input had some.
    n_gaps : tuple of int
        Number of NaN in each view, which only a lenient `as_views` allows; missing rows do not count.
    categories : tuple of mappings
        For each view, the categories of its categorical columns, which only a lenient `as_views` encodes.
    device : torch.device or None
        Where the views are as tensors, or were before `on_host`.
    hashes : ndarray of int64 of shape (n_samples, n_views), or None
        Of the rows, which only a lenient `as_views` keeps, unless they are on disk.
    sizes : ndarray of shape (n_samples, n_views)
        The largest absolute value of each row, which only a lenient `as_views` looks for; NaN count as zero.
    contents : tuple of arrays of int64 of shape (1,)
        Hash of the values of each view, with which `row_keys` are made.
    """

    arrays: tuple[Any, ...]
    order: NDArray[np.intp]
    view_order: tuple[int, ...]
    row_keys: NDArray[np.uint64]
    missing: NDArray[np.bool_]
    sample_ids: NDArray[Any] | None
    names: tuple[str, ...]
    as_given: tuple[Any, ...]
    on_disk: bool = False
    feature_names: tuple[NDArray[np.str_] | None, ...] = ()
    n_gaps: tuple[int, ...] = ()
    categories: tuple[Categories, ...] = ()
    device: Any = None
    hashes: NDArray[np.int64] | None = None
    sizes: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    contents: tuple[NDArray[np.int64], ...] = ()

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.order)

    @property
    def n_views(self) -> int:
        """Number of views."""
        return len(self.view_order)

    @property
    def widths(self) -> list[int]:
        """Numbers of features."""
        return [array.shape[1] for array in self.arrays]

    @property
    def single_precision(self) -> bool:
        """Whether all views are in single precision."""
        return all(map(is_single, self.arrays))

    def __len__(self) -> int:
        return self.n_views

    def __getitem__(self, v: int) -> Any:
        return self.arrays[v]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.arrays)

    @cached_property
    def local_rows(self) -> InMemory:
        """The samples as rows in this process, which hold the "views" and the "keys"."""
        first = self.arrays[0]
        like = first if is_tensor(first) else np.empty((self.n_samples, 0))
        rows = OnDisk(like) if self.on_disk else InMemory(like)
        rows.hold(views=list(self.arrays), keys=self.row_keys)
        return rows

    @property
    def rows(self) -> Rows:
        """The samples as rows, wherever they are."""
        return self.local_rows

    def close(self, *, failed: bool = False) -> None:
        """Free what the rows hold beside the views."""
        self.__dict__.pop("local_rows", None)

    def rows_as_given(self, name: str) -> Any:
        """Return an array that the rows hold, in the order of the input; a Dask array if they are on a cluster."""
        return self.to_given_order(np.ascontiguousarray(on_host(self.local_rows[name])))

    def to_given_order(self, rows: Any) -> Any:
        """Put rows that are in working order back into the order of the input."""
        inverse = np.empty_like(self.order)
        inverse[self.order] = np.arange(len(self.order))
        return rows[inverse]

    def to_working_order(self, rows: Any) -> Any:
        """Put rows that are in the order of the input into working order."""
        return rows[self.order]

    def place(self, values: NDArray[Any]) -> Array:
        """Put a NumPy array where the views are: as it is, or as a tensor on their device."""
        return values if is_sparse(self.arrays[0]) else placed(values, self.arrays[0])

    def on_host(self) -> Views:
        """Return the same views as NumPy arrays; those on disk stay there."""
        return replace(self, arrays=tuple(array if is_lazy(array) else on_host(array) for array in self.arrays))

    def in_double(self, v: int) -> Any:
        """Return an array in float64.

        A view in single precision is scaled again from its given values, so that no rounding of unit lengths decides
        which of two samples at nearly equal distances is the nearer one.
        """
        array, given = self.arrays[v], self.as_given[v]
        if given is None:
            return in_double(array)
        values = floating(given[:]) if is_lazy(given) else given
        checked = check_view(values, self.names[v], array.device if is_tensor(array) else None)
        scaled = unit_rows(checked.values, self.order, double=True)
        return scaled if is_tensor(array) else on_host(scaled)

    def refuse_missing(self, what: str, instead: str) -> None:
        """Refuse missing samples where they would be similar to each other for that alone, and say what to use."""
        if self.missing.any():
            sample, view = np.argwhere(self.missing)[0]
            raise ValueError(
                f"{what} compares samples over all views, and sample {self.order[sample]} is missing in "
                f"{self.names[view]} ({int(self.missing.sum())} such rows in all): complete them with "
                f"tensormvc.impute_views, or use {instead}, which compares samples in the views that they have"
            )

    def probe_draws(self, count: int) -> ProbeDraws:
        """Return the random directions and shifts of `probes_of` for every view; the first ones are always the same."""
        draws = []
        for d in self.widths:
            rng = np.random.default_rng([20260101, d])
            # One probe after the other, so that the first ones do not depend on how many there are.
            drawn = _PROBE_FREQUENCY * rng.standard_normal((count, d + 1))
            directions, shifts = np.ascontiguousarray(drawn[:, :d].T), drawn[:, d]
            draws.append((self.rows.place(directions), self.rows.place(shifts)))
        return draws

    def hold_ties(self) -> None:
        """Add a function of the samples that breaks ties to the rows, as their "ties"."""
        if "ties" not in self.rows:
            self.rows.create(ties=())
            self.rows.each(_set_ties, self.probe_draws(1))

    def probes(self, count: int) -> Array:
        """Return `count` smooth generic functions of the samples, (n_samples, count), the same for every order.

        Sums over views of random cosines; the random directions belong to the features, not to the samples, so that a
        tiny change of the data changes them by little. They decide signs and rotations that mathematics leaves open.
        """
        rows = self.local_rows
        rows.create(probes=(count,))
        rows.each(_set_probes, self.probe_draws(count))
        probes = rows["probes"]
        rows.drop("probes")
        return probes


def probes_of(views: list[Array], draws: ProbeDraws) -> Array:
    """Return the probes of some rows of the views, (rows, count)."""
    total: Array = 0
    for view, (directions, shifts) in zip(views, draws, strict=True):
        angles = in_double(view) @ directions
        angles += shifts
        total = total + namespace(angles).cos(angles)
    return total


@row_work(reads="views", sets="ties")
def _set_ties(rows: ProbeRows, draws: ProbeDraws) -> None:
    rows.ties[...] = probes_of(rows.views, draws)[:, 0]


@row_work(reads="views", sets="probes")
def _set_probes(rows: ProbeRows, draws: ProbeDraws) -> None:
    rows.probes[...] = probes_of(rows.views, draws)


def as_float64(array: Any) -> Any:
    """Return a view as float64 on the host: a NumPy array, or CSR if it is sparse."""
    return in_double(on_host(array))


def as_views(
    views: Any,
    *,
    view_sizes: Sequence[int] | None = None,
    canonical: bool = True,
    keep_view_order: bool = False,
    unit: bool = True,
    device: Any = None,
    keep_on_disk: bool = False,
    lenient: bool = False,
    categories: Mapping[str, Categories] | None = None,
) -> Views:
    """Make `Views` from any form of input.

    Parameters
    ----------
    views : list, tuple or dict of 2-D arrays, a MuData object, one 2-D array, or Views
        Arrays may be NumPy, SciPy sparse, PyTorch, pandas DataFrames or AnnData objects (their X); the last two, and
        the modalities of MuData, are aligned on their index. Integers become float64; float32 stays. A row that is
        None, or NaN in all columns, is a missing sample. `Views` are returned as they are.
    view_sizes : sequence of int, optional
        How many columns of a single 2-D array belong to each view; all to one by default.
    canonical : bool, default=True
        Whether the samples are put into the canonical order. Transforms that depend on the order, and tests of the
        mathematics, switch it off.
    keep_view_order : bool, default=False
        Whether the views stay in the order given, for a transform along the views.
    unit : bool, default=True
        Whether each sample is scaled to unit length in each view.
    device : str or torch.device, optional
        Where the views go, as PyTorch tensors; by default to the device of the first tensor among them, and to NumPy if
        there is none. Sparse views become dense there, unless `lenient`: then all views stay on the host if one of them
        is sparse or on disk.
    keep_on_disk : bool, default=False
        Whether views on disk (`numpy.memmap`, or those that `load_views` leaves there) of more than 8 MB stay there.
        They are read in blocks, and a second time into temporary files if their rows are to be changed, by `canonical`
        or `unit`; else they are what is given, with NaN in missing rows.
    lenient : bool, default=False
        Whether to take data as they are measured, with `unit=False`: single values may be NaN, and stay so; tables and
        modalities may have different samples, and are joined on their index, with missing rows for absent samples;
        categorical columns of DataFrames become one column of zeros and ones per category (`encode_table`).
    categories : mapping of str to mapping, optional
        Categories of the columns of tables by the name of the view, as in the `Views` that a model was fitted to; by
        default, those that occur.

    Returns
    -------
    Views
    """
    if isinstance(views, Views):
        return views
    collected = collect(views, view_sizes, lenient=lenient, categories=categories)
    parts, names = collected.parts, collected.names
    given = next((part.device for part in parts if is_tensor(part)), None)
    where = device = given if device is None else torch_device(device)
    if lenient and any(is_sparse(part) or (keep_on_disk and is_lazy(part)) for part in parts):
        where, parts = None, [on_host(part) if is_tensor(part) else part for part in parts]
    lazy = _staying_on_disk(parts, keep_on_disk and where is None)
    checked = [
        check_on_disk(part, name, gaps=lenient) if stays else check_view(part, name, where, gaps=lenient)
        for part, name, stays in zip(parts, names, lazy, strict=True)
    ]
    check_lengths([view.values.shape[0] for view in checked], names)
    missing = _missing([view.missing for view in checked], collected)
    hashes = [row_hashes(view.values) if view.hashes is None else view.hashes for view in checked]
    for h, lacking in zip(hashes, missing.T, strict=True):
        h[lacking] = MISSING_HASH  # differs from the hash of a zero row
    sizes = _sizes(checked) if lenient else np.zeros(missing.shape)
    contents = [mixed(content_of(h)) for h in hashes]
    kinds = [(is_sparse(view.values), str(view.dtype)) for view in checked]
    view_order = list(range(len(parts))) if keep_view_order else order_of_views(contents, kinds)
    contents = told_apart(contents, view_order)
    keys = keys_of(hashes, contents)
    order = np.argsort(keys, kind="stable") if canonical else np.arange(len(keys))
    rank = order if canonical else None

    def rows_of(v: int) -> Any:
        if lazy[v]:
            return rows_on_disk(checked[v], order, unit=unit) if canonical or unit else parts[v]
        return unit_rows(checked[v].values, rank) if unit else ordered_rows(checked[v].values, rank)

    return Views(
        arrays=tuple(rows_of(v) for v in view_order),
        order=order,
        view_order=tuple(view_order),
        row_keys=keys[order],
        missing=missing[order][:, view_order],
        sample_ids=collected.sample_ids,
        names=tuple(names[v] for v in view_order),
        as_given=tuple(parts[v] if unit and is_single(checked[v]) else None for v in view_order),
        on_disk=any(lazy),
        feature_names=tuple(collected.feature_names[v] for v in view_order),
        n_gaps=tuple(checked[v].n_gaps for v in view_order),
        categories=tuple(collected.categories[v] for v in view_order),
        device=device,
        hashes=np.column_stack(hashes)[order][:, view_order] if lenient and not any(lazy) else None,
        sizes=sizes[order][:, view_order],
        contents=tuple(contents[v] for v in view_order),
    )


def _staying_on_disk(parts: list[Any], allowed: bool) -> list[bool]:
    """Return which views are on disk, if that is allowed and they are too large to be read."""
    lazy = [allowed and is_lazy(part) for part in parts]
    large = sum(part.nbytes for part, stays in zip(parts, lazy, strict=True) if stays) > LAZY_BYTES
    return [stays and large for stays in lazy]


def _sizes(checked: list[Checked]) -> NDArray[np.float64]:
    """Return the largest absolute value of each row, (n_samples, n_views)."""
    sizes = [row_sizes(view.values) if view.sizes is None else view.sizes for view in checked]
    return np.column_stack(sizes)


def _missing(missing_rows: list[NDArray[np.bool_]], collected: Collected) -> NDArray[np.bool_]:
    """Return which samples each view lacks, (n_samples, n_views); a sample without any view is an error."""
    missing = np.column_stack(missing_rows)
    for v, absent in enumerate(collected.absent):
        if absent is not None:
            missing[absent, v] = True
    lost = np.flatnonzero(missing.all(axis=1))
    if len(lost):
        sample = lost[0] if collected.sample_ids is None else collected.sample_ids[lost[0]]
        raise ValueError(f"sample {sample} is NaN in every view ({len(lost)} such samples): drop it")
    return missing
