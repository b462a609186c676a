"""The HDF5 files of AnnData (.h5ad) and MuData (.h5mu)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ._align import Join, align, take_rows
from ._dataset import Dataset, by_name
from ._errors import DataError, LayoutError
from ._hdf5 import HDF5Reader
from ._layout import LABEL_NAMES, encode, plain
from ._npz import compressed_sparse
from ._variables import Opaque, outline

_LABEL_COLUMNS = (*LABEL_NAMES, "celltype", "celltypes", "cellclass", "subtype", "diagnosis")


def read_h5mu(
    reader: HDF5Reader, views: Sequence[str] | None, labels: str | Literal[False] | None, join: Join | None
) -> Dataset:
    """Return the matrix X of each modality, samples matched by name, and a column of ``obs``."""
    root = reader.children(reader.file)
    if "mod" not in root:
        raise DataError(f"there is no group 'mod' in it, so it is not MuData; {outline(_sketch(reader, root))}")
    modalities = reader.children(root["mod"])
    order = reader.attribute(root["mod"], "mod-order")
    names = [name for name in _words(order) if name in modalities]
    names = _chosen(views, names or list(modalities), outline(_sketch(reader, modalities)))
    found, ids = [], []
    for name in names:
        parts = reader.children(modalities[name])
        if "X" not in parts:
            raise DataError(f"modality {name!r} has no X; {outline(_sketch(reader, modalities))}")
        found.append(_matrix(reader, parts["X"], name))
        ids.append(_index(reader, parts.get("obs"), name))
        if len(ids[-1]) != found[-1].shape[0]:
            raise DataError(f"modality {name!r} has {len(ids[-1])} names for {found[-1].shape[0]} samples")
    if not found:
        raise DataError("there are no modalities in it")
    common, rows = align([f"modality {name!r}" for name in names], ids, join)
    found = [take_rows(view, picked) for view, picked in zip(found, rows, strict=True)]
    tables = {"": root.get("obs")} | {name: reader.children(modalities[name]).get("obs") for name in names}
    common = common.astype(str)
    return Dataset(by_name(found, names), _labels(reader, tables, common, labels), common)


def read_h5ad(reader: HDF5Reader, views: Sequence[str] | None, labels: str | Literal[False] | None) -> Dataset:
    """Return the blocks in ``obsm``, or X where there are none, and a column of ``obs``."""
    root = reader.children(reader.file)
    blocks = reader.children(root["obsm"]) if "obsm" in root else {}
    names = list(blocks) or [name for name in ("X",) if name in root]
    everything = blocks | {name: root[name] for name in ("X",) if name in root}
    names = _chosen(views, names, outline(_sketch(reader, everything)), every=list(everything))
    found = [_matrix(reader, everything[name], name) for name in names]
    if not found:
        raise DataError(f"there is neither obsm nor X in it; {outline(_sketch(reader, root))}")
    ids = _index(reader, root.get("obs"), "obs")
    for name, view in zip(names, found, strict=True):
        if view.shape[0] != len(ids):
            raise DataError(f"{name!r} has {view.shape[0]} rows for {len(ids)} samples")
    ids = ids.astype(str)
    return Dataset(by_name(found, names), _labels(reader, {"": root.get("obs")}, ids, labels), ids)


def _chosen(views: Sequence[str] | None, names: list[str], found: str, every: list[str] | None = None) -> list[str]:
    if views is None:
        return names
    for name in views:
        if name not in (every or names):
            raise DataError(f"views names {name!r}, which is not there; {found}")
    return list(views)


def _words(values: Any) -> list[str]:
    """Return an attribute of several texts."""
    words = () if values is None or np.ndim(values) != 1 else values
    return [word.decode("utf-8", "replace") if isinstance(word, bytes) else str(word) for word in words]


def _sketch(reader: HDF5Reader, parts: dict[str, Any]) -> dict[str, Any]:
    return {
        name: Opaque(f"{part.shape} {part.dtype}" if reader.is_dataset(part) else f"group of {', '.join(part)}")
        for name, part in parts.items()
    }


def _matrix(reader: HDF5Reader, part: Any, name: str) -> Any:
    """Return a dense matrix as a source of rows, a sparse one as CSR, a table as an array."""
    if reader.is_dataset(part):
        if part.ndim == 1 and part.dtype.kind in "biuf":
            return reader.read(part)[:, None]
        if part.ndim != 2 or part.dtype.kind not in "biuf":
            raise DataError(f"{name!r} is no numeric matrix: {part.shape} {part.dtype}")
        return reader.rows(part)
    parts = reader.children(part)
    if {"data", "indices", "indptr"} <= set(parts):
        shape = reader.attribute(part, "shape" if "shape" in part.attrs else "h5sparse_shape")
        if shape is None:
            raise DataError(f"sparse {name!r} has no shape")
        kind = str(reader.attribute(part, "encoding-type" if "encoding-type" in part.attrs else "h5sparse_format"))
        data, indices, starts = (reader.read(parts[key]) for key in ("data", "indices", "indptr"))
        return compressed_sparse(data, indices, starts, shape, "csc" if "csc" in kind else "csr", reader.budget)
    columns = [parts[column] for column in _words(reader.attribute(part, "column-order")) if column in parts]
    if columns and all(reader.is_dataset(column) and column.dtype.kind in "biuf" for column in columns):
        return np.column_stack([reader.read(column) for column in columns])
    raise DataError(f"{name!r} is no numeric matrix: a group of {', '.join(parts)}")


def _index(reader: HDF5Reader, obs: Any, name: str) -> np.ndarray:
    if obs is None:
        raise DataError(f"{name!r} has no obs")
    if reader.is_dataset(obs):  # the compound tables of early AnnData
        raise DataError(f"{name!r} was written by AnnData before version 0.7: read and write it with a newer one")
    parts = reader.children(obs)
    key = "_index" if "_index" in parts else str(reader.attribute(obs, "_index"))
    if key not in parts or not reader.is_dataset(parts[key]):
        raise DataError(f"the obs of {name!r} has no index")
    return reader.text(parts[key])


def _labels(
    reader: HDF5Reader, tables: dict[str, Any], ids: np.ndarray, wanted: str | Literal[False] | None
) -> NDArray[np.intp] | None:
    """Return the codes of the first column of labels in these tables, matched to the ids."""
    if wanted is False:
        return None
    known: list[str] = []
    for source, obs in tables.items():
        if obs is None or reader.is_dataset(obs):
            continue
        parts = reader.children(obs)
        known += [name for name in parts if name[:1] != "_"]
        ranked = sorted(
            (name for name in parts if plain(name.rpartition(":")[2]) in _LABEL_COLUMNS),
            key=lambda name: _LABEL_COLUMNS.index(plain(name.rpartition(":")[2])),
        )
        column = (wanted if wanted in parts else None) if wanted else next(iter(ranked), None)
        if column is None:
            continue
        values = _column(reader, parts[column], column)
        names = _index(reader, obs, source or "obs").astype(str)
        if len(values) != len(names):
            raise DataError(f"column {column!r} has {len(values)} values for {len(names)} samples")
        _, rows = align(["the views", f"column {column!r}"], [ids, names], "inner")
        order = rows[1]
        if rows[0] is not None:
            raise LayoutError(f"column {column!r} lacks labels for some samples: pass labels=False")
        return encode(values if order is None else values[order], f"the labels in column {column!r}")
    if wanted is not None:
        raise DataError(f"labels names {wanted!r}, which is no column of obs; its columns are {', '.join(known)}")
    return None


def _column(reader: HDF5Reader, part: Any, name: str) -> np.ndarray:
    if reader.is_dataset(part):
        return reader.text(part)
    parts = reader.children(part)
    if not {"codes", "categories"} <= set(parts):
        raise DataError(f"column {name!r} of obs is neither numbers, text nor categories")
    codes, categories = reader.read(parts["codes"]).ravel(), reader.text(parts["categories"])
    if len(codes) and (codes.dtype.kind not in "iu" or int(codes.min()) < 0 or int(codes.max()) >= len(categories)):
        raise LayoutError(f"column {name!r} of obs has samples without a category: pass labels=False")
    return np.asarray(categories[codes])
