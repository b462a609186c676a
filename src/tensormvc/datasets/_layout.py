"""Which of a file's variables are the views, which the labels, and where the samples are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ..backend import is_sparse
from ._errors import DataError
from ._lazy import HDF5Rows, RowSource
from ._variables import Opaque, is_matrix

Samples = Literal["rows", "columns"]

# Compared without case, underscores, dots, spaces and hyphens.
VIEW_NAMES = (
    "data", "x", "fea", "feas", "feature", "features", "feat", "feats", "view", "views", "xs", "xx", "datas",
    "alldata", "allfea", "multiview", "mvdata", "viewdata", "modalities", "modality", "mod",
)  # fmt: skip
LABEL_NAMES = (
    "truelabel", "truelabels", "truth", "groundtruth", "gt", "gts", "gnd", "label", "labels", "y", "ytrue", "ys",
    "class", "classes", "classlabel", "classlabels", "classid", "cls", "target", "targets", "gtlabel", "labeltrue",
    "truey", "trueclass", "category", "categories", "lab", "lbl", "lbls", "gtlabels",
)  # fmt: skip
# Beginnings of numbered names: X1, X2, … or view_1, view_2, …
_NUMBERED = (*VIEW_NAMES, "v", "fv", "k", "feav", "xv")

# What may be read to see whether it is labels, or symmetric.
_SMALL_BYTES = 2**28


def plain(name: str) -> str:
    """Return a name as it is compared."""
    return re.sub(r"[\W_]+", "", name).lower()


def choose(
    variables: dict[str, Any],
    *,
    views: Sequence[str] | None,
    labels: str | Literal[False] | None,
    samples: Samples | None,
    default_samples: Samples | None = None,
) -> tuple[list[Any], NDArray[np.intp] | None]:
    """Return the views, samples in rows, and the labels as codes from 0 on, or None."""
    found = _named_views(variables, views) if views is not None else _find_views(variables)
    if not found:
        opaque = [f"{name!r} ({value.kind})" for name, value in variables.items() if isinstance(value, Opaque)]
        hint = f"; not usable: {', '.join(opaque)}" if opaque else ""
        raise DataError(
            "no views were found: expected numeric matrices in a cell (data, X, fea) or numbered (X1, X2, …); "
            f"pass views=[names] if they have other names{hint}"
        )
    shapes = [tuple(int(length) for length in view.shape) for view in found]
    y = _find_labels(variables, shapes, labels, taken=set(views or ()))
    if samples is None and isinstance(variables.get("samples"), str) and variables["samples"] in ("rows", "columns"):
        samples = variables["samples"]  # written by save_views
    return orient(found, shapes, None if y is None else len(y), samples, default_samples), y


# ---------------------------------------------------------------------------------------------------------------------
# Views


def _matrices(value: Any) -> list[Any]:
    """Return the matrices in a value: itself, those in its cells, those in its struct."""
    if is_matrix(value):
        return [value]
    if isinstance(value, list):
        return [matrix for part in value for matrix in _matrices(part)]
    if isinstance(value, dict):
        return _find_views(value, inside=True)
    return []


def _named_views(variables: dict[str, Any], names: Sequence[str]) -> list[Any]:
    if isinstance(names, str):
        names = [names]
    found = []
    for name in names:
        if name not in variables:
            raise DataError(f"views names {name!r}, which is not there")
        value = variables[name]
        if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "biuf":
            value = value[:, None]
        matrices = _matrices(value)
        if not matrices:
            raise DataError(f"views names {name!r}, which holds no numeric matrix")
        found += matrices
    return found


def _find_views(scope: dict[str, Any], inside: bool = False) -> list[Any]:
    """Return the matrices under the names that views have, the first way that gives some.

    Several matrices under one known name, or numbered, come before a single one; after the known names, the only
    cell or struct with several matrices; at last every matrix (not vector) that fits the labels or shares a length
    with all others.
    """
    by_name = {plain(name): value for name, value in reversed(scope.items())}
    known = [_matrices(by_name[name]) for name in VIEW_NAMES if name in by_name]
    families = _families(scope)
    several = [group for group in known if len(group) > 1] + [
        group for name, group in families.items() if name in _NUMBERED and len(group) > 1
    ]
    if several:
        return several[0]
    single = [group for group in known if group]
    if single:
        _refuse_second_matrix(by_name, single[0][0])
        return single[0]
    other = [group for group in families.values() if len(group) > 1]
    if len(other) == 1:
        return other[0]
    if families:
        alone = [group for name, group in families.items() if name in _NUMBERED]
        if alone:
            return alone[0]
    nested = {
        name: _matrices(value)
        for name, value in scope.items()
        if isinstance(value, list | dict) and plain(name) not in LABEL_NAMES
    }
    nested = {name: group for name, group in nested.items() if len(group) > 1 and not _is_vectors(group)}
    if len(nested) > 1:
        raise DataError(f"{' and '.join(map(repr, nested))} could all be the views: pass views=[name]")
    if nested:
        return next(iter(nested.values()))
    loose = [value for name, value in scope.items() if plain(name) not in LABEL_NAMES and _is_wide(value)]
    lengths = [
        len(y) for name, value in scope.items() if plain(name) in LABEL_NAMES and (y := _codes(value)) is not None
    ]
    if lengths:  # matrices of another length are something else
        loose = [value for value in loose if lengths[0] in value.shape] or loose
    if loose and set.intersection(*(set(value.shape) for value in loose)):
        return loose
    if not inside and len(loose) > 1:
        raise DataError("the matrices share no length: pass views=[names] to say which are the views")
    if inside and not loose:  # a single feature is a view too
        loose = [value for name, value in scope.items() if plain(name) not in LABEL_NAMES and is_matrix(value)]
    return loose


def _families(scope: dict[str, Any]) -> dict[str, list[Any]]:
    """Return the matrices of numbered variables, in the order of their numbers, by the common name."""
    numbered: dict[str, list[tuple[int, Any]]] = {}
    for name, value in scope.items():
        match = re.fullmatch(r"(.*?)[\W_]*0*(\d+)[\W_]*", name)
        if match and match[1] and plain(match[1]) not in LABEL_NAMES and len(_matrices(value)) == 1:
            numbered.setdefault(plain(match[1]), []).append((int(match[2]), _matrices(value)[0]))
    return {name: [value for _, value in sorted(group, key=lambda pair: pair[0])] for name, group in numbered.items()}


def _is_wide(value: Any) -> bool:
    return is_matrix(value) and min(value.shape) > 1


def _is_vectors(group: list[Any]) -> bool:
    return all(min(matrix.shape) == 1 for matrix in group)


def _refuse_second_matrix(by_name: dict[str, Any], first: Any) -> None:
    """Refuse to guess whether a lone X with a matrix Y of as many samples are two views."""
    second: Any = by_name.get("y")
    if _is_wide(second) and _codes(second) is None and set(second.shape) & set(first.shape):
        raise DataError("X and Y are both matrices: pass views=['X', 'Y'] if both are views, or views=['X']")


# ---------------------------------------------------------------------------------------------------------------------
# Labels


def encode(values: Any, what: str = "the labels") -> NDArray[np.intp]:
    """Return labels as codes 0, 1, … in the order of their sorted values; they are whole numbers or text."""
    values = np.asarray(values)
    if values.dtype.kind == "f":
        if not bool(np.all(np.isfinite(values))):
            raise DataError(f"{what} contain NaN or infinity: remove those samples, or pass labels=False")
        if bool(np.any(values != np.round(values))):
            raise DataError(f"{what} are not whole numbers: pass labels=NAME for the true ones, or labels=False")
    elif values.dtype.kind not in "biuUS":
        raise DataError(f"{what} have the type {values.dtype}: whole numbers or text are expected")
    return np.unique(values, return_inverse=True)[1].astype(np.intp).reshape(-1)


def _find_labels(
    variables: dict[str, Any],
    shapes: list[tuple[int, ...]],
    labels: str | Literal[False] | None,
    taken: set[str],
) -> NDArray[np.intp] | None:
    if labels is False:
        return None
    possible = set.intersection(*(set(shape) for shape in shapes))
    if labels is not None:
        if labels not in variables:
            raise DataError(f"labels names {labels!r}, which is not there")
        y = _codes(variables[labels])
        if y is None:
            raise DataError(f"labels names {labels!r}, which is not a vector of whole numbers or text")
        if len(y) not in possible:
            raise DataError(f"the labels {labels!r} are {len(y)}, which is no length of all views {_list(shapes)}")
        return y
    candidates = _label_candidates(variables, taken)
    usable = {name: y for name, value in candidates.items() if (y := _codes(value)) is not None}
    fitting = {name: y for name, y in usable.items() if len(y) in possible}
    if not fitting:
        problem = ", ".join(
            f"{name!r} ({len(usable[name])} of them)" if name in usable else f"{name!r} (no whole numbers or text)"
            for name in candidates
        )
        if candidates:
            raise DataError(
                f"the labels {problem} do not fit the views {_list(shapes)}: pass labels=NAME for the true ones, "
                "or labels=False to load without"
            )
        return None
    names = list(fitting)
    first = fitting[names[0]]
    for name in names[1:]:
        if not _same_partition(first, fitting[name]):
            raise DataError(f"{names[0]!r} and {name!r} could both be the labels and differ: pass labels=NAME")
    return first


def _label_candidates(scope: dict[str, Any], taken: set[str], depth: int = 0) -> dict[str, Any]:
    """Return the values under the names of labels, in the order of `LABEL_NAMES`, else those inside structs."""
    named = {name: value for name, value in scope.items() if plain(name) in LABEL_NAMES and name not in taken}
    named = {name: value for name, value in named.items() if not _is_empty(value)}
    if named or depth > 2:
        return dict(sorted(named.items(), key=lambda pair: LABEL_NAMES.index(plain(pair[0]))))
    for name, value in scope.items():
        records = value if isinstance(value, list) else [value]
        inner = [_label_candidates(part, set(), depth + 1) for part in records if isinstance(part, dict)]
        for record in inner:
            for field, found in record.items():
                # A struct array carries the labels in each element; they are compared like a cell of labels.
                together = [other[field] for other in inner if field in other]
                named[f"{name}.{field}"] = together if len(together) > 1 else found
        if named:
            return named
    return named


def _is_empty(value: Any) -> bool:
    return isinstance(value, np.ndarray | list) and np.size(np.asarray(value, dtype=object)) == 0


def _codes(value: Any) -> NDArray[np.intp] | None:
    """Return a value as label codes, or None if it cannot be labels."""
    if isinstance(value, dict):
        inner = list(_label_candidates(value, set(), 3).values()) or list(value.values())
        return _codes(inner[0]) if len(inner) == 1 else None
    if isinstance(value, list):
        return _codes_of_cell(value)
    if isinstance(value, RowSource):
        value = np.asarray(value) if value.nbytes < _SMALL_BYTES else None
    if is_sparse(value):
        value = value.toarray() if value.shape[0] * value.shape[1] * 8 < _SMALL_BYTES else None
    if not isinstance(value, np.ndarray) or value.size < 2:
        return None
    if value.dtype.kind in "US" and value.ndim == 1:
        return encode(value)
    if value.dtype.kind not in "biuf" or value.ndim > 2:
        return None
    if value.ndim == 1 or min(value.shape) == 1:
        flat = value.reshape(-1)
        whole = flat.dtype.kind != "f" or bool(np.all(np.isfinite(flat)) and np.all(flat == np.round(flat)))
        return encode(flat) if whole else None
    return _codes_of_indicators(value)


def _codes_of_cell(value: list[Any]) -> NDArray[np.intp] | None:
    """Return the codes of a cell of texts, of numbers, or of one vector a view, which must agree."""
    if not value:
        return None
    if all(isinstance(part, str) for part in value):
        return encode(np.array(value)) if len(value) > 1 else None
    if len(value) == 1:
        return _codes(value[0])
    if all(isinstance(part, list) and len(part) == 1 and isinstance(part[0], str) for part in value):
        return encode(np.array([part[0] for part in value]))
    if all(isinstance(part, np.ndarray) and part.size == 1 and part.dtype.kind in "biuf" for part in value):
        return _codes(np.array([part.reshape(()) for part in value]))
    vectors = [_codes(part) for part in value if not _is_empty(part)]
    first = vectors[0] if vectors else None
    if first is None or any(other is None or not np.array_equal(first, other) for other in vectors):
        return None
    return first


def _codes_of_indicators(value: np.ndarray) -> NDArray[np.intp] | None:
    """Return the codes of a matrix with a single 1 in each row, or in each column."""
    if not bool(np.all((value == 0) | (value == 1))):
        return None
    in_rows, in_columns = bool(np.all(value.sum(1) == 1)), bool(np.all(value.sum(0) == 1))
    if in_rows == in_columns:
        return None
    return encode(np.argmax(value, axis=1 if in_rows else 0))


def _same_partition(first: NDArray[np.intp], second: NDArray[np.intp]) -> bool:
    if len(first) != len(second):
        return False
    pairs = np.unique(np.stack([first, second]), axis=1).shape[1]
    return bool(pairs == first.max() + 1 == second.max() + 1)


# ---------------------------------------------------------------------------------------------------------------------
# Samples in rows or columns


def orient(
    views: list[Any],
    shapes: list[tuple[int, ...]],
    n_samples: int | None,
    samples: Samples | None,
    default: Samples | None = None,
) -> list[Any]:
    """Return the views with samples in rows.

    The number of labels decides for each view; without labels the one length that all views share does. Where both
    lengths of a view fit it is an error, unless `samples` or, at last, `default` says where they are.
    """
    if samples not in (None, "rows", "columns"):
        raise ValueError(f"samples must be 'rows' or 'columns', got {samples!r}")
    if samples is not None:
        axis = 0 if samples == "rows" else 1
        lengths = {shape[axis] for shape in shapes}
        if len(lengths) != 1 or (n_samples is not None and lengths != {n_samples}):
            labelled = "" if n_samples is None else f" and {n_samples} labels"
            raise DataError(
                f"with samples={samples!r} the views {_list(shapes)}{labelled} have different numbers of samples"
            )
        return [as_rows(view, axis == 1) for view in views]
    if n_samples is None:
        n_samples = _shared_length(shapes, default)
    axes = []
    for number, (view, shape) in enumerate(zip(views, shapes, strict=True)):
        if n_samples not in shape:
            raise DataError(
                f"view {number} has the shape {shape}, neither length of which is the number of samples, {n_samples}; "
                f"the views are {_list(shapes)}"
            )
        if shape[0] == shape[1] and default is None and not _is_symmetric(view):
            raise DataError(
                f"view {number} has the shape {shape}: both lengths are the number of samples, {n_samples}, so whether "
                "samples are rows or columns cannot be known; pass samples='rows' or samples='columns'"
            )
        axes.append(0 if shape[0] == n_samples and (shape[1] != n_samples or default != "columns") else 1)
    return [as_rows(view, axis == 1) for view, axis in zip(views, axes, strict=True)]


def _shared_length(shapes: list[tuple[int, ...]], default: Samples | None) -> int:
    shared = set.intersection(*(set(shape) for shape in shapes))
    if default is not None:
        axis = 0 if default == "rows" else 1
        if len({shape[axis] for shape in shapes}) == 1:
            return shapes[0][axis]
    if not shared:
        raise DataError(f"the views {_list(shapes)} share no length, so they do not describe the same samples")
    if len(shared) > 1:
        raise DataError(
            f"there are no labels, and the views {_list(shapes)} share two lengths, so whether samples are rows or "
            "columns cannot be known; pass samples='rows' or samples='columns'"
        )
    return int(shared.pop())


def _is_symmetric(view: Any) -> bool:
    if is_sparse(view):
        return bool((view != view.T).nnz == 0)
    if isinstance(view, RowSource) and view.nbytes < _SMALL_BYTES:
        view = np.asarray(view)
    return isinstance(view, np.ndarray) and bool(np.array_equal(view, view.T))


def as_rows(view: Any, transposed: bool) -> Any:
    """Return a view with samples in rows: C-contiguous and its own, CSR, or still on disk."""
    if isinstance(view, RowSource):
        if not transposed:
            return view
        return view.T if isinstance(view, HDF5Rows) else np.ascontiguousarray(np.asarray(view).T)
    if transposed:
        view = view.T
    if is_sparse(view):
        return scipy.sparse.csr_array(view)
    return np.array(view, dtype=view.dtype.newbyteorder("="), order="C")


def _list(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join(str(shape) for shape in shapes)
