"""Checks of a view: a matrix of finite real numbers, in which a row of NaN is a missing sample."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..backend.arrays import is_sparse, is_tensor, namespace, on_host, placed
from ..backend.threads import run_ranges
from ._collect import is_dask, plain_matrix
from ._order import MISSING_HASH, row_hashes

# Elements that are looked at together: what the cache holds.
_BLOCK = 1 << 16
# Row, column and value of the first entry of a block that is not finite, and how many there are.
Wrong = tuple[int, int, float, int]


@dataclass(frozen=True)
class Checked:
    """A view that is known to be numeric and finite.

    Attributes
    ----------
    values : array, CSR, or what has rows
        Floating; missing rows are zero. On disk, it is as it was given.
    missing : ndarray of bool of shape (n,)
        Which rows are entirely NaN.
    n_gaps : int
        Number of values in other rows that are NaN.
    hashes, sizes : ndarrays of shape (n,), optional
        Of the rows, where the look at them has computed these already.
    """

    values: Any
    missing: NDArray[np.bool_]
    n_gaps: int = 0
    hashes: NDArray[np.int64] | None = None
    sizes: NDArray[np.float64] | None = None

    @property
    def dtype(self) -> Any:
        """Type of the values, once they are worked on."""
        dtype = self.values.dtype
        return dtype if self.hashes is None or dtype in (np.float32, np.float64) else np.dtype(np.float64)


@dataclass(frozen=True)
class Look:
    """What a look at a block of rows finds.

    Attributes
    ----------
    missing : ndarray of bool of shape (n,)
        Which rows are entirely NaN; they are set to zero.
    hashes : ndarray of int64 of shape (n,)
        Of the rows.
    sizes : ndarray of shape (n,)
        The largest absolute value of each row; NaN count as zero.
    n_gaps : int
        Number of NaN in other rows, where these are allowed.
    wrong : list
        The first value that is not allowed.
    """

    missing: NDArray[np.bool_]
    hashes: NDArray[np.int64]
    sizes: NDArray[np.float64]
    n_gaps: int
    wrong: list[Wrong]


def look_at(block: NDArray[Any], first: int = 0, *, gaps: bool = False) -> Look:
    """Look at a block of rows, whose first one has this number; with `gaps`, single values may be NaN.

    Sets missing rows to zero, and all NaN to the same one.
    """
    missing, n_gaps = np.zeros(len(block), dtype=bool), 0
    wrong: list[Wrong] = []
    finite = np.isfinite(block)
    if not finite.all():
        lost = np.isnan(block)
        missing = lost.all(axis=1)
        lost[missing] = False
        refused = ~finite & ~missing[:, None] & ~(lost & gaps)
        if len(found := np.argwhere(refused)):
            i, j = found[0].tolist()
            wrong = [(first + i, j, float(block[i, j]), len(found))]
        block[missing] = 0
        block[lost] = np.nan
        n_gaps = int(lost.sum())
    hashes = row_hashes(block)
    hashes[missing] = MISSING_HASH  # differs from the hash of a zero row
    return Look(missing, hashes, row_sizes(block), n_gaps, wrong)


def row_sizes(view: Any) -> NDArray[np.float64]:
    """Return the largest absolute value of each row, dense or sparse; NaN count as zero."""
    if is_sparse(view):
        sizes = abs(view)
        np.nan_to_num(sizes.data, copy=False)
        return np.asarray(sizes.max(axis=1).toarray(), dtype=np.float64).ravel()
    if is_tensor(view):
        return np.asarray(on_host(view.abs().nan_to_num_(0.0, math.inf).amax(dim=1)), dtype=np.float64)
    sizes = np.empty(len(view))
    step = max(1, _BLOCK // view.shape[1])

    def work(start: int, stop: int) -> None:
        for lo in range(start, stop, step):
            rows = slice(lo, min(lo + step, stop))
            np.fmax.reduce(np.abs(view[rows]), axis=1, out=sizes[rows])

    run_ranges(work, view, step)
    return np.nan_to_num(sizes, copy=False, posinf=np.inf)


def refuse_wrong(wrong: list[Wrong], name: str) -> None:
    """Raise an error for values that are not finite."""
    if wrong:
        row, column, value, _ = wrong[0]
        raise ValueError(
            f"{name} contains NaN or infinity at row {row}, column {column} ({value}), and "
            f"{sum(count for *_, count in wrong) - 1} more: complete NaN with tensormvc.impute_views, and remove "
            "infinity; only a sample that is NaN in the whole row is missing in the view"
        )


def floating(block: Any) -> NDArray[Any]:
    """Return a copy of a block of rows in float32 if it is that, in float64 else."""
    made: NDArray[Any] = np.array(block, order="C", subok=False)
    return made if made.dtype in (np.float32, np.float64) else made.astype(np.float64)


def check_kind(part: Any, name: str) -> None:
    """Refuse what is not a matrix of real numbers, or is empty."""
    kind = part.dtype.kind if hasattr(part.dtype, "kind") else ("c" if part.is_complex() else "f")
    if kind == "c":
        raise ValueError(f"Complex data not supported: {name} has the type {part.dtype}; pass real numbers")
    if kind not in "biuf":
        raise TypeError(f"{name} has the type {part.dtype}, which is not numeric")
    if len(part.shape) != 2:
        raise ValueError(
            f"{name} has {len(part.shape)} dimensions (shape {tuple(part.shape)}); a view is (n_samples, n_features). "
            "Reshape your data with X.reshape(-1, 1) if it has a single feature"
        )
    for count, what in zip(part.shape, ("sample(s)", "feature(s)"), strict=True):
        if count == 0:
            shape = tuple(part.shape)
            raise ValueError(f"{name} is empty: 0 {what} (shape={shape}) while a minimum of 1 is required.")


def check_view(part: Any, name: str, device: Any, *, gaps: bool = False) -> Checked:
    """Return a view as a floating-point matrix on a device, and which of its rows are missing (set to zero).

    With `gaps`, single values may be NaN.
    """
    if is_dask(part):
        raise TypeError(
            f"{name} is a Dask collection, which only MultiViewClustering, and ESTMC, ASRETR and TLRLF4MVC with the "
            "basis AGFT accept: bring it into memory with .compute() for anything else"
        )
    if is_sparse(part):
        part = sp.csr_array(part)
        if not part.has_canonical_format:
            part = part.copy()
            part.sum_duplicates()
    else:
        part = plain_matrix(part, name)
    if isinstance(part, np.ndarray) and part.dtype == object:
        if any(isinstance(value, str | bytes) for value in part.flat):
            raise TypeError(
                f"{name} holds text, which is not numeric: encode it; MultiViewClustering encodes the categorical "
                "columns of DataFrames"
            )
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
        return Checked(part, np.zeros(n, dtype=bool))
    return _without_missing_rows(part, name, gaps)


def _without_missing_rows(part: Any, name: str, gaps: bool) -> Checked:
    """Set rows that are entirely NaN to zero in a copy; of other values only NaN may remain, and only with `gaps`."""
    n, d = part.shape
    if is_sparse(part):
        rows, columns, values = np.repeat(np.arange(n), np.diff(part.indptr)), part.indices, part.data
        missing = np.bincount(rows[np.isnan(values)], minlength=n) == d
    else:
        values = np.asarray(on_host(part))
        missing = np.isnan(values).all(axis=1)
        rows, columns = np.arange(n)[:, None], np.arange(d)
    lost = np.isnan(values) & ~missing[rows]
    wrong = np.isinf(values) if gaps else np.isinf(values) | lost
    if wrong.any():
        first = np.flatnonzero(wrong.ravel())[0]
        row, column = (int(np.broadcast_to(index, values.shape).ravel()[first]) for index in (rows, columns))
        refuse_wrong([(row, column, float(values.ravel()[first]), int(wrong.sum()))], name)
    if is_sparse(part):
        part = part.copy()
        part.data[missing[rows]] = 0
        part.data[lost] = np.nan  # all NaN are one, for the hashes
        part.eliminate_zeros()
    elif missing.any() or lost.any():
        part = namespace(part).asarray(part, copy=True)
        part[placed(missing, part)] = 0
        part[placed(lost, part)] = np.nan
    return Checked(part, missing, int(lost.sum()))


def _tensor(part: Any, device: Any) -> Any:
    import torch

    if is_sparse(part):
        part = part.toarray()
    if isinstance(part, np.ndarray) and not part.flags.writeable:
        part = part.copy()  # PyTorch warns of such memory
    return torch.as_tensor(part, device=device)
