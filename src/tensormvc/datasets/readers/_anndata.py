"""The HDF5 files of AnnData (.h5ad) and MuData (.h5mu)."""

from typing import Any

import numpy as np

from .._dataset import LABEL_NAMES, Codes, Dataset, Labels, Request, by_name, encode, plain
from .._errors import DataError, LayoutError, refuse_if
from ._align import absent_rows, align, take_rows
from ._hdf5 import HDF5Reader
from ._values import Opaque, outline, sparse_from_vectors

_LABEL_COLUMNS = (*LABEL_NAMES, "celltype", "celltypes", "cellclass", "subtype", "diagnosis")


def read_h5mu(reader: HDF5Reader, request: Request) -> Dataset:
    """Return the X of each modality, samples matched by name, and a column of ``obs`` as labels."""
    root = reader.children(reader.file)
    refuse_if("mod" not in root, f"this is not a MuData file, because it has no group 'mod'; {_outline(root)}")
    modalities = reader.children(root["mod"])
    order = [name for name in words(reader.attribute(root["mod"], "mod-order")) if name in modalities]
    names = _selected(request, order or list(modalities), modalities)
    matrices, ids, features = [], [], []
    for name in names:
        parts = reader.children(modalities[name])
        refuse_if("X" not in parts, f"modality {name!r} has no X; {_outline(parts)}")
        matrices.append(_matrix(reader, parts["X"], name))
        ids.append(_index(reader, parts.get("obs"), name, matrices[-1].shape[0]))
        features.append(_var_names(reader, parts.get("var"), name))
    refuse_if(not matrices, "the file has no modalities")
    common, rows = align([f"modality {name!r}" for name in names], ids, request.join)
    matrices = [take_rows(view, picked) for view, picked in zip(matrices, rows, strict=True)]
    common = common.astype(str)
    tables = [root.get("obs"), *(reader.children(modalities[name]).get("obs") for name in names)]
    y = _labels(reader, tables, common, request.labels)
    return Dataset(by_name(matrices, names), y, common, absent_rows(names, rows), _named(names, matrices, features))


def read_h5ad(reader: HDF5Reader, request: Request) -> Dataset:
    """Return the blocks in ``obsm``, or X if there are none, and a column of ``obs`` as labels."""
    root = reader.children(reader.file)
    blocks = reader.children(root["obsm"]) if "obsm" in root else {}
    everything = blocks | {name: root[name] for name in ("X",) if name in root}
    names = _selected(request, list(blocks or everything), everything)
    matrices = [_matrix(reader, everything[name], name) for name in names]
    refuse_if(not matrices, f"the file has neither obsm nor X; {_outline(root)}")
    ids = _index(reader, root.get("obs"), "obs").astype(str)
    for name, view in zip(names, matrices, strict=True):
        refuse_if(view.shape[0] != len(ids), f"{name!r} has {view.shape[0]} rows for {len(ids)} samples")
    features = [
        _var_names(reader, root.get("var"), name)
        if name == "X"
        else np.array(words(reader.attribute(everything[name], "column-order")), dtype=str)
        for name in names
    ]
    y = _labels(reader, [root.get("obs")], ids, request.labels)
    return Dataset(by_name(matrices, names), y, ids, feature_names=_named(names, matrices, features))


def _selected(request: Request, default: list[str], available: dict[str, Any]) -> list[str]:
    for name in request.views or ():
        refuse_if(name not in available, f"views contains {name!r}, which is not in the file; {_outline(available)}")
    return default if request.views is None else list(request.views)


def words(values: Any) -> list[str]:
    """Return an attribute of several texts."""
    texts = () if values is None or np.ndim(values) != 1 else values
    return [word.decode("utf-8", "replace") if isinstance(word, bytes) else str(word) for word in texts]


def _outline(parts: dict[str, Any]) -> str:
    return outline({name: Opaque(str(getattr(part, "shape", "a group"))) for name, part in parts.items()})


def _matrix(reader: HDF5Reader, part: Any, name: str) -> Any:
    """Return a dense matrix as a row source, a sparse one as CSR, and a table as an array."""
    if reader.is_dataset(part):
        if part.ndim != 2 or part.dtype.kind not in "biuf":
            raise DataError(f"{name!r} is not a numeric matrix but {part.shape} {part.dtype}")
        return reader.rows(part)
    parts = reader.children(part)
    if {"data", "indices", "indptr"} <= set(parts):
        shape, kind = reader.attribute(part, "shape"), str(reader.attribute(part, "encoding-type"))
        refuse_if(shape is None, f"the sparse matrix {name!r} has no shape")
        vectors = [reader.read(parts[key]) for key in ("data", "indices", "indptr")]
        return sparse_from_vectors(vectors, shape, "csc" if "csc" in kind else "csr", reader.budget)
    columns = [parts[column] for column in words(reader.attribute(part, "column-order")) if column in parts]
    if columns and all(reader.is_dataset(column) and column.dtype.kind in "biuf" for column in columns):
        return np.column_stack([reader.read(column) for column in columns])
    raise DataError(f"{name!r} is not a numeric matrix but a group of {', '.join(parts)}")


def _var_names(reader: HDF5Reader, var: Any, name: str) -> np.ndarray:
    """Return the names in a table ``var``, none if it is damaged: features need no names."""
    try:
        return reader.text(index_column(reader, var, name)).astype(str)
    except DataError:
        return np.array([], dtype=str)


def _named(names: list[str], matrices: list[Any], features: list[np.ndarray]) -> dict[str, np.ndarray]:
    """Return the names of the features by view, of those views that have one name per feature."""
    triples = zip(names, matrices, features, strict=True)
    return {name: own for name, matrix, own in triples if len(own) == matrix.shape[1]}


def index_column(reader: HDF5Reader, obs: Any, name: str) -> Any:
    """Return the dataset in a table ``obs`` that names its samples."""
    refuse_if(obs is None, f"{name!r} has no table obs")
    if reader.is_dataset(obs):
        raise DataError(f"{name!r} was written by AnnData before version 0.7: read and write it with a newer version")
    parts = reader.children(obs)
    key = "_index" if "_index" in parts else str(reader.attribute(obs, "_index"))
    index = _values_of(reader, parts.get(key))
    refuse_if(index is None or not reader.is_dataset(index), f"the obs of {name!r} has no index")
    return index


def _values_of(reader: HDF5Reader, part: Any) -> Any:
    """Return the dataset of a column; text that may be missing, as pandas 3 has it, is written with a mask beside."""
    return part if part is None or reader.is_dataset(part) else reader.children(part).get("values", part)


def _index(reader: HDF5Reader, obs: Any, name: str, n_samples: int | None = None) -> np.ndarray:
    ids = reader.text(index_column(reader, obs, name))
    refuse_if(n_samples is not None and len(ids) != n_samples, f"{name!r} has {len(ids)} names for {n_samples} samples")
    return ids


def _labels(reader: HDF5Reader, tables: list[Any], ids: np.ndarray, wanted: Labels) -> Codes | None:
    """Return the codes of the first column of labels in these tables, matched to the ids."""
    known: list[str] = []
    for obs in tables if wanted is not False else ():
        if obs is None or reader.is_dataset(obs):
            continue
        parts = reader.children(obs)
        known += [name for name in parts if name[:1] != "_"]
        # MuData prefixes the columns of a modality with its name and a colon.
        usual = {plain(name.rpartition(":")[2]): name for name in reversed(parts)}
        candidates = [wanted] if wanted else [usual[key] for key in _LABEL_COLUMNS if key in usual]
        column = next((name for name in candidates if name in parts), None)
        if column is None:
            continue
        values = _column(reader, parts[column], column)
        names = _index(reader, obs, "obs", len(values)).astype(str)
        _, (order_of_ids, order) = align(["the views", f"column {column!r}"], [ids, names], "inner")
        if order_of_ids is not None:
            raise LayoutError(f"column {column!r} lacks labels for some samples: pass labels=False")
        return encode(values if order is None else values[order], f"the labels in column {column!r}")
    if wanted:
        raise LayoutError(f"labels={wanted!r} is not a column of obs, whose columns are {', '.join(known)}")
    return None


def _column(reader: HDF5Reader, part: Any, name: str) -> np.ndarray:
    if reader.is_dataset(plain_values := _values_of(reader, part)):
        return reader.text(plain_values)
    parts = reader.children(part)
    if not {"codes", "categories"} <= set(parts):
        raise DataError(f"column {name!r} of obs is neither numbers nor text nor categories")
    codes, categories = reader.read(parts["codes"]).ravel(), reader.text(_values_of(reader, parts["categories"]))
    if len(codes) and (codes.dtype.kind not in "iu" or int(codes.min()) < 0 or int(codes.max()) >= len(categories)):
        raise LayoutError(f"column {name!r} of obs has samples without a category: pass labels=False")
    return np.asarray(categories[codes])
