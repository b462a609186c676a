"""What views look like before they are clustered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ..backend import is_sparse
from ..views import mix, row_hashes
from .readers._rows import RowSource
from ._shuffle import as_named_views

_BLOCK_VALUES = 2**20
# Columns whose spreads differ by more than this factor are on different scales.
_MIXED_SCALE = 10.0


@dataclass(frozen=True)
class ViewDescription:
    """One view, as `describe` sees it.

    Attributes
    ----------
    name : str
        Its key, or its number.
    n_features : int
        Columns.
    dtype : str
        Type of the values.
    storage : str
        ``"dense"``, ``"sparse"`` or ``"on disk"``.
    density : float
        Share of the values that are not zero.
    minimum, maximum : float
        Least and greatest finite value.
    n_duplicates : int
        Rows that repeat an earlier row exactly.
    n_constant : int
        Columns with a single value.
    n_missing : int
        Rows that are NaN throughout: samples without this view.
    n_nonfinite : int
        Other values that are NaN or infinite.
    normalisation : str
        ``"tf-idf + L2"``, ``"z-score + L2"`` or ``"L2"``.
    why : str
        The reason for it.
    """

    name: str
    n_features: int
    dtype: str
    storage: str
    density: float
    minimum: float
    maximum: float
    n_duplicates: int
    n_constant: int
    n_missing: int
    n_nonfinite: int
    normalisation: str
    why: str


@dataclass(frozen=True)
class Description:
    """What `describe` found.

    Attributes
    ----------
    n_samples : int
        Rows of every view.
    views : tuple of ViewDescription
        One for each view.
    n_duplicates : int
        Samples that repeat an earlier one exactly in all views.
    class_counts : dict or None
        How many samples each label has.
    class_sorted : bool or None
        Whether equal labels stand together; a method that depends on the order then profits from the labels.
    """

    n_samples: int
    views: tuple[ViewDescription, ...]
    n_duplicates: int
    class_counts: dict[Any, int] | None
    class_sorted: bool | None

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the views as columns, which ``pandas.DataFrame`` takes."""
        records = [asdict(view) for view in self.views]
        return {key: [record[key] for record in records] for key in records[0]}

    def __str__(self) -> str:
        lines = [f"{self.n_samples:,} samples, {len(self.views)} view{'s'[: len(self.views) != 1]}"]
        if self.class_counts is not None:
            least, most = min(self.class_counts.values()), max(self.class_counts.values())
            lines[0] += f", {len(self.class_counts)} classes of {least:,}" + (f" to {most:,}" if most > least else "")
            lines[0] += ", class-sorted: shuffle first" if self.class_sorted else ", not class-sorted"
        if self.n_duplicates:
            lines.append(f"{self.n_duplicates:,} samples repeat an earlier one in all views")
        for view in self.views:
            parts = [f"{view.n_features:,} features", f"{view.dtype} {view.storage}", f"{view.density:.0%} non-zero"]
            parts.append(f"{view.minimum:.4g} to {view.maximum:.4g}")
            for count, text in (
                (view.n_duplicates, "repeated rows"),
                (view.n_constant, "constant columns"),
                (view.n_missing, "missing rows"),
                (view.n_nonfinite, "NaN or infinite values"),
            ):
                if count:
                    parts.append(f"{count:,} {text if count > 1 else text[:-1]}")
            lines.append(f"view {view.name}: {', '.join(parts)}")
            lines.append(f"    {view.normalisation}: {view.why}")
        return "\n".join(lines)

    __repr__ = __str__


def describe(views: Any, y: Any = None) -> Description:
    """Describe views: sizes, types, sparsity, duplicates, constant columns, order, and a normalisation that fits.

    Views on disk are read in blocks.

    Parameters
    ----------
    views : list, tuple or dict of (n_samples, n_features_v), or one array
        The views: arrays, sparse arrays, DataFrames or views on disk.
    y : array of shape (n_samples,), optional
        Labels.

    Returns
    -------
    Description
        Prints as a summary; ``to_dict()`` gives columns for a table.

    Examples
    --------
    >>> import tensormvc as tm
    >>> views, y = tm.datasets.load_digits_views(class_sorted=True)
    >>> tm.datasets.describe(views[:1], y)
    1,797 samples, 1 view, 10 classes of 174 to 183, class-sorted: shuffle first
    view 0: 64 features, float64 dense, 51% non-zero, 0 to 16, 3 constant columns
        L2: the features are on one scale
    """
    named = {str(name): _plain(view) for name, view in as_named_views(views).items()}
    lengths = {view.shape[0] for view in named.values()} | (set() if y is None else {len(y)})
    if len(lengths) != 1:
        raise ValueError(f"views and labels must have the same number of samples, got {sorted(lengths)}")
    (n_samples,) = lengths
    described, hashes = [], np.zeros(n_samples, np.int64)
    for number, (name, view) in enumerate(named.items()):
        description, rows = _describe_view(name, view)
        described.append(description)
        hashes += mix(rows + (number + 1))
    counts, in_order = None, None
    if y is not None:
        labels, codes, sizes = np.unique(np.asarray(y), return_inverse=True, return_counts=True)
        counts = dict(zip(labels.tolist(), sizes.tolist(), strict=True))
        in_order = bool(np.sum(codes[1:] != codes[:-1]) == len(labels) - 1)
    return Description(n_samples, tuple(described), _repeats(hashes), counts, in_order)


def _plain(view: Any) -> Any:
    if isinstance(view, RowSource):
        result: Any = view
    elif is_sparse(view):
        result = scipy.sparse.csr_array(view, copy=True)
        result.sum_duplicates()
        result.eliminate_zeros()
    else:
        result = view.to_numpy() if hasattr(view, "to_numpy") else np.asarray(view)
    if len(result.shape) != 2 or 0 in result.shape:
        raise ValueError(f"a view has the shape {tuple(result.shape)}; it must have two dimensions and not be empty")
    if result.dtype.kind not in "biuf":
        raise TypeError(f"a view has the type {result.dtype}, which is not real numbers")
    return result


def _blocks(view: Any) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield dense blocks of rows, as float64, with the number of their first row."""
    step = max(1, _BLOCK_VALUES // view.shape[1])
    for start in range(0, view.shape[0], step):
        block = view[start : start + step]
        yield start, np.asarray(block.toarray() if is_sparse(block) else block, dtype=np.float64)


def _describe_view(name: str, view: Any) -> tuple[ViewDescription, NDArray[np.int64]]:
    n_samples, n_features = view.shape
    least, most = np.full(n_features, np.inf), np.full(n_features, -np.inf)
    sums, squares = np.zeros(n_features), np.zeros(n_features)
    n_nonzero = n_ones = n_missing = n_nonfinite = n_finite_rows = 0
    whole = True
    hashes = np.empty(n_samples, np.int64)
    shift: NDArray[np.float64] | None = None
    for start, block in _blocks(view):
        hashes[start : start + len(block)] = row_hashes(block)
        finite = np.isfinite(block)
        absent = np.isnan(block).all(axis=1)
        n_missing += int(absent.sum())
        n_nonfinite += int((~finite[~absent]).sum())
        good = block[finite.all(axis=1)]
        n_nonzero += int(np.count_nonzero(block))
        if not len(good):
            continue
        n_ones += int(np.count_nonzero(good == 1))
        whole = whole and bool(np.all(good == np.floor(good)))
        np.minimum(least, good.min(axis=0), out=least)
        np.maximum(most, good.max(axis=0), out=most)
        shift = good[0] if shift is None else shift
        with np.errstate(over="ignore", invalid="ignore"):
            moved = good - shift
            sums += moved.sum(axis=0)
            squares += (moved**2).sum(axis=0)
        n_finite_rows += len(good)
    density = n_nonzero / (n_samples * n_features)
    constant = (least == most) | (n_finite_rows == 0)
    with np.errstate(over="ignore", invalid="ignore"):
        count = max(n_finite_rows, 1)
        spread = np.sqrt(np.maximum(squares / count - (sums / count) ** 2, 0))[~constant]
    storage = "on disk" if isinstance(view, RowSource) else "sparse" if is_sparse(view) else "dense"
    counts = whole and bool(least.min() >= 0) and density < 0.5 and n_ones > n_nonzero / 4
    normalisation, why = _normalisation(counts, storage == "sparse", density, spread)
    description = ViewDescription(
        name=name,
        n_features=n_features,
        dtype=str(view.dtype),
        storage=storage,
        density=density,
        minimum=float(least.min()) if n_finite_rows else float("nan"),
        maximum=float(most.max()) if n_finite_rows else float("nan"),
        n_duplicates=_repeats(hashes),
        n_constant=int(constant.sum()),
        n_missing=n_missing,
        n_nonfinite=n_nonfinite,
        normalisation=normalisation,
        why=why,
    )
    return description, hashes


def _normalisation(counts: bool, sparse: bool, density: float, spread: NDArray[np.float64]) -> tuple[str, str]:
    if counts:
        return (
            "tf-idf + L2",
            f"the values are counts, {density:.1%} of them not zero: frequent terms would drown the rare",
        )
    if sparse:
        return "L2", "the view is sparse, and subtracting means would make it dense"
    usual = float(np.median(spread)) if len(spread) else 0.0
    if (
        usual > 0
        and density >= 0.5
        and (float(spread.max()) > _MIXED_SCALE * usual or float(np.quantile(spread, 0.25)) * _MIXED_SCALE**2 < usual)
    ):
        return "z-score + L2", (
            f"the features are on different scales (standard deviations from {spread.min():.2g} to {spread.max():.2g})"
        )
    return "L2", "the features are on one scale"


def _repeats(hashes: NDArray[np.int64]) -> int:
    return len(hashes) - len(np.unique(hashes))
