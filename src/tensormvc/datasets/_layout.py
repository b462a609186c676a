"""Which variables of a file are the views and which the labels, and whether samples are in rows or in columns."""

import re
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.metrics import adjusted_rand_score

from ..backend.arrays import is_sparse
from ._dataset import LABEL_NAMES, Codes, Request, Samples, encode, plain
from ._errors import DataError, refuse_if
from .readers._rows import RowSource
from .readers._values import is_matrix

Shape = tuple[int, int]

# In order of preference; compared by `plain`.
_VIEW_NAMES = (
    "data", "x", "fea", "feas", "feature", "features", "feat", "feats", "view", "views", "xs", "xx", "datas",
    "alldata", "allfea", "multiview", "mvdata", "viewdata", "modalities", "modality", "mod",
)  # fmt: skip
# Beginnings of numbered names: X1, X2, … or view_1, view_2, …
_NUMBERED = (*_VIEW_NAMES, "v", "fv", "k", "feav", "xv")

_REMEDY = "pass samples='rows' or samples='columns' to say where the samples are"
# Larger values are not read to see whether they are labels, or symmetric.
_SMALL_BYTES = 2**28


def choose(variables: dict[str, Any], request: Request, default: Samples | None) -> tuple[list[Any], Codes | None]:
    """Return the views with samples in rows, and the labels as codes from 0, or None.

    If the lengths leave it open where the samples are, `default` decides.
    """
    matrices = _find_views(variables) if request.views is None else _named_views(variables, request.views)
    if not matrices:
        expected = "numeric matrices in a cell (data, X, fea) or numbered (X1, X2, …)"
        raise DataError(f"no views were found: expected {expected}; pass views=[names] if they have other names")
    y = _find_labels(variables, [matrix.shape for matrix in matrices], request)
    samples = request.samples
    if samples is None and isinstance(variables.get("samples"), str) and variables["samples"] in ("rows", "columns"):
        samples = variables["samples"]  # written by save_views
    return _orient(matrices, None if y is None else len(y), samples, default), y


# ---------------------------------------------------------------------------------------------------------------------
# Views


def _matrices(value: Any) -> list[Any]:
    """Return the matrices in a value: the value itself, or those in its cells or its struct."""
    if is_matrix(value):
        return [value]
    if isinstance(value, list):
        return [matrix for part in value for matrix in _matrices(part)]
    return _find_views(value, inside=True) if isinstance(value, dict) else []


def _named_views(variables: dict[str, Any], names: Sequence[str]) -> list[Any]:
    matrices = []
    for name in names:
        refuse_if(name not in variables, f"views contains {name!r}, which is not in the file")
        value = variables[name]
        if isinstance(value, np.ndarray) and value.ndim == 1:
            value = value[:, None]
        refuse_if(not (parts := _matrices(value)), f"views contains {name!r}, which holds no numeric matrix")
        matrices += parts
    return matrices


def _find_views(scope: dict[str, Any], inside: bool = False) -> list[Any]:
    """Return the views among named values, by the first of these rules that finds some.

    Several matrices under a usual name, or numbered; one matrix under a usual name; the only numbered family of
    another name; the only cell or struct with several matrices; all matrices (not vectors) that fit the labels or
    share a length.
    """
    by_name = {plain(name): value for name, value in reversed(scope.items())}
    known = [_matrices(by_name[name]) for name in _VIEW_NAMES if name in by_name]
    families = _families(scope)
    usual = [group for name, group in families.items() if name in _NUMBERED]
    for group in known + usual:
        if len(group) > 1:
            return group
    for group in known:
        if group:
            second: Any = by_name.get("y")
            if _is_wide(second) and _codes(second) is None and set(second.shape) & set(group[0].shape):
                raise DataError("X and Y are both matrices: pass views=['X', 'Y'] if both are views, or views=['X']")
            return group
    unusual = [group for group in families.values() if len(group) > 1]
    if len(unusual) == 1 or usual:
        return unusual[0] if len(unusual) == 1 else usual[0]
    others = {name: value for name, value in scope.items() if plain(name) not in LABEL_NAMES}
    nested = {name: _matrices(value) for name, value in others.items() if isinstance(value, list | dict)}
    nested = {name: group for name, group in nested.items() if len(group) > 1 and any(map(_is_wide, group))}
    refuse_if(len(nested) > 1, f"{' and '.join(map(repr, nested))} could all be the views: pass views=[name]")
    if nested:
        return next(iter(nested.values()))
    return _loose_views(scope, others, inside)


def _loose_views(scope: dict[str, Any], others: dict[str, Any], inside: bool) -> list[Any]:
    """Return the matrices that have names of their own."""
    loose = [value for value in others.values() if _is_wide(value)]
    labels = [_codes(value) for name, value in scope.items() if name not in others]
    n_samples = next((len(y) for y in labels if y is not None), None)
    if n_samples is not None:  # matrices of another length are something else
        loose = [value for value in loose if n_samples in value.shape] or loose
    if not loose:  # within a struct, a single feature is a view too
        return [value for value in others.values() if is_matrix(value)] if inside else []
    if not inside and not set.intersection(*(set(value.shape) for value in loose)):
        raise DataError("the matrices have no dimension in common: pass views=[names] to choose the views")
    return loose


def _families(scope: dict[str, Any]) -> dict[str, list[Any]]:
    """Return the matrices of numbered variables by their common name, in the order of their numbers."""
    numbered: dict[str, list[tuple[int, Any]]] = {}
    for name, value in scope.items():
        match = re.fullmatch(r"(.*?)[\W_]*0*(\d+)[\W_]*", name)
        if match and match[1] and plain(match[1]) not in LABEL_NAMES and len(matrices := _matrices(value)) == 1:
            numbered.setdefault(plain(match[1]), []).append((int(match[2]), matrices[0]))
    return {name: [value for _, value in sorted(group, key=itemgetter(0))] for name, group in numbered.items()}


def _is_wide(value: Any) -> bool:
    return is_matrix(value) and min(value.shape) > 1


# ---------------------------------------------------------------------------------------------------------------------
# Labels


def _find_labels(variables: dict[str, Any], shapes: list[Shape], request: Request) -> Codes | None:
    labels = request.labels
    if labels is False:
        return None
    possible = set.intersection(*(set(shape) for shape in shapes))
    if labels is None:
        candidates = _label_candidates(variables, set(request.views or ()))
    elif labels in variables:
        candidates = {labels: variables[labels]}
    else:
        raise DataError(f"labels={labels!r} is not in the file")
    codes = {name: _codes(value) for name, value in candidates.items()}
    fitting = {name: y for name, y in codes.items() if y is not None and len(y) in possible}
    if codes and not fitting:
        lengths = {name: "neither integers nor text" if y is None else f"{len(y)} values" for name, y in codes.items()}
        problem = ", ".join(f"{name!r} ({length})" for name, length in lengths.items())
        raise DataError(f"the labels {problem} do not fit the views {_list(shapes)}: pass labels=NAME or labels=False")
    first = next(iter(fitting), None)
    for name, y in fitting.items():
        other = fitting[first or name]
        if len(other) != len(y) or adjusted_rand_score(other, y) < 1:
            raise DataError(f"{first!r} and {name!r} could both be the labels and differ: pass labels=NAME")
    return None if first is None else fitting[first]


def _label_candidates(scope: dict[str, Any], taken: set[str], depth: int = 0) -> dict[str, Any]:
    """Return the values under the usual names of labels in order of preference, or else those inside structs."""
    names = [name for name in scope if plain(name) in LABEL_NAMES and name not in taken and not _is_empty(scope[name])]
    named = {name: scope[name] for name in sorted(names, key=lambda name: LABEL_NAMES.index(plain(name)))}
    if named or depth > 2:
        return named
    for name, value in scope.items():
        records = value if isinstance(value, list) else [value]
        inner = [_label_candidates(part, set(), depth + 1) for part in records if isinstance(part, dict)]
        # A struct array has the labels in each element; they are compared like a cell of labels.
        for field in dict.fromkeys(field for record in inner for field in record):
            together = [record[field] for record in inner if field in record]
            named[f"{name}.{field}"] = together if len(together) > 1 else together[0]
        if named:
            break
    return named


def _is_empty(value: Any) -> bool:
    return isinstance(value, np.ndarray | list) and np.size(np.asarray(value, dtype=object)) == 0


def _codes(value: Any) -> Codes | None:
    """Return a value as label codes, or None if it cannot be labels."""
    if isinstance(value, dict):
        inner = list(_label_candidates(value, set(), 3).values()) or list(value.values())
        return _codes(inner[0]) if len(inner) == 1 else None
    if isinstance(value, list):
        return _codes_of_cell(value)
    value = _in_memory(value)
    if not isinstance(value, np.ndarray) or value.size < 2 or value.ndim > 2:
        return None
    if value.dtype.kind in "US":
        return encode(value) if value.ndim == 1 else None
    if value.ndim == 2 and min(value.shape) > 1:
        return _codes_of_indicators(value) if value.dtype.kind in "biuf" else None
    try:
        return encode(value.reshape(-1))
    except DataError:
        return None


def _in_memory(value: Any) -> Any:
    """Return a small row source or sparse array as an array, and anything else as it is."""
    if isinstance(value, RowSource) and value.nbytes < _SMALL_BYTES:
        return np.asarray(value)
    is_small = is_sparse(value) and 8 * value.shape[0] * value.shape[1] < _SMALL_BYTES
    return value.toarray() if is_small else value


def _codes_of_cell(value: list[Any]) -> Codes | None:
    """Return the codes of a cell of texts, of numbers, or of one vector per view, which must agree."""
    if len(value) < 2:
        return _codes(value[0]) if value else None
    value = [part[0] if isinstance(part, list) and len(part) == 1 else part for part in value]
    if all(isinstance(part, str) for part in value):
        return encode(np.array(value))
    if all(isinstance(part, np.ndarray) and part.size == 1 and part.dtype.kind in "biuf" for part in value):
        return _codes(np.array([part.reshape(()) for part in value]))
    first, *others = [_codes(part) for part in value if not _is_empty(part)] or [None]
    agree = first is not None and all(other is not None and np.array_equal(first, other) for other in others)
    return first if agree else None


def _codes_of_indicators(value: np.ndarray) -> Codes | None:
    """Return the codes of a matrix with a single 1 in each row, or in each column."""
    in_rows, in_columns = np.all(value.sum(1) == 1), np.all(value.sum(0) == 1)
    if in_rows == in_columns or not np.all((value == 0) | (value == 1)):
        return None
    return encode(np.argmax(value, axis=1 if in_rows else 0))


# ---------------------------------------------------------------------------------------------------------------------
# Samples in rows or columns


def _orient(views: list[Any], n_samples: int | None, samples: Samples | None, default: Samples | None) -> list[Any]:
    """Return the views with samples in rows.

    The number of labels decides for each view; without labels, the only length that all views share does. If both
    lengths of a view fit, `samples` or else `default` must say where the samples are.
    """
    shapes = [view.shape for view in views]
    if samples not in (None, "rows", "columns"):
        raise ValueError(f"samples must be 'rows' or 'columns', got {samples!r}")
    if samples is not None:
        transposed = samples == "columns"
        lengths = {shape[transposed] for shape in shapes}
        if len(lengths) != 1 or (n_samples is not None and lengths != {n_samples}):
            raise DataError(f"with samples={samples!r}, the views {_list(shapes)} or the labels differ in length")
        return [_as_rows(view, transposed) for view in views]
    if n_samples is None:
        n_samples = _shared_length(shapes, default)
    oriented = []
    for number, (view, shape) in enumerate(zip(views, shapes, strict=True)):
        refuse_if(n_samples not in shape, f"view {number} has the shape {shape}, but there are {n_samples} samples")
        if shape[0] == shape[1] and default is None and not _is_symmetric(view):
            raise DataError(f"view {number} has the shape {shape}, and both lengths fit the samples; {_REMEDY}")
        oriented.append(_as_rows(view, shape[0] != n_samples))
    return oriented


def _shared_length(shapes: list[Shape], default: Samples | None) -> int:
    if default == "rows" and len({shape[0] for shape in shapes}) == 1:
        return shapes[0][0]
    shared = set.intersection(*(set(shape) for shape in shapes))
    refuse_if(not shared, f"the views {_list(shapes)} have no dimension in common: they are not of the same samples")
    refuse_if(len(shared) > 1, f"there are no labels, and the views {_list(shapes)} share two lengths; {_REMEDY}")
    return shared.pop()


def _is_symmetric(view: Any) -> bool:
    if is_sparse(view):
        return bool((view != view.T).nnz == 0)
    view = _in_memory(view)
    return isinstance(view, np.ndarray) and bool(np.array_equal(view, view.T))


def _as_rows(view: Any, transposed: bool) -> Any:
    """Return a view with samples in rows: a C-contiguous copy, CSR, or still on disk."""
    if transposed:
        view = view.T
    if isinstance(view, RowSource):
        return view
    if is_sparse(view):
        return scipy.sparse.csr_array(view)
    return np.array(view, dtype=view.dtype.newbyteorder("="), order="C")


def _list(shapes: Sequence[Shape]) -> str:
    return ", ".join(str(shape) for shape in shapes)
