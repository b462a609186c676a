"""Folders of CSV and Parquet files, one file per view, and single such files."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._dataset import Dataset, Request, by_name
from .._errors import Budget, DataError, LayoutError, reading
from .._labels import LABEL_NAMES, encode, plain
from ._align import align, take_rows
from ._table import PARQUET, Table

TABLES = (".csv", ".tsv", ".tab", *PARQUET)


def read_tables(path: str, request: Request) -> Dataset:
    """Return the tables in a folder, or a single one, as views with their labels and sample ids."""
    views, labels = request.views, request.labels
    files = {file.stem: file for file in _files(path)}
    label_names = [name for name in files if plain(name) in LABEL_NAMES and name not in (views or ())]
    if labels in files:
        label_names = [str(labels)]
    view_names = [name for name in files if name not in label_names] if views is None else list(views)
    listed = ", ".join(file.name for file in files.values())
    for name in view_names:
        if name not in files:
            raise DataError(f"views contains {name!r}, but the files are {listed}")
    if not view_names:
        raise DataError(f"there are no views, only the labels {listed}")
    budget = Budget()
    tables = []
    for name in [*view_names, *(label_names if labels is not False else ())]:
        with reading(files[name]):
            tables.append(Table(files[name], budget, request.on))
    ids, rows = _match_rows(tables, request)
    label_columns = _label_columns(tables, labels, label_names)
    matrices: list[Any] = []
    for table, picked in zip(tables[: len(view_names)], rows, strict=False):
        with reading(table.path):
            # Columns that look like labels are not features, whether they are wanted or not.
            without = {name for name in (label_columns[table.name], table.label_column()) if name is not None}
            matrices.append(take_rows(table.features(without), picked))
    # Files of labels come before columns of labels.
    pairs = sorted(zip(tables, rows, strict=True), key=lambda pair: pair[0].name not in label_names)
    return Dataset(by_name(matrices, view_names), _labels(pairs, label_columns), ids)


def _files(path: str) -> list[Path]:
    if not os.path.isdir(path):
        return [Path(path)]
    # Numbers are compared as numbers, so that view2 comes before view10.
    entries = sorted(
        (Path(path, name) for name in os.listdir(path) if name[0] not in "._"),
        key=lambda entry: [int(part) if part.isdigit() else part.lower() for part in re.split(r"(\d+)", entry.name)],
    )
    files = [entry for entry in entries if entry.suffix.lower() in TABLES and entry.is_file()]
    if not files:
        content = ", ".join(entry.name for entry in entries[:10]) or "nothing"
        raise DataError(f"this is a folder without CSV or Parquet files (it holds {content}): put one per view into it")
    stems = [file.stem for file in files]
    for stem in stems:
        if stems.count(stem) > 1:
            names = ", ".join(file.name for file in files if file.stem == stem)
            raise DataError(f"{stem!r} is there twice, as {names}: remove one of them")
    return files


def _label_columns(tables: list[Table], labels: Any, label_names: list[str]) -> dict[str, str | None]:
    """Return the column of labels of each table, if any."""
    wanted = None if labels is False or labels in label_names else labels
    columns = {table.name: None if labels is False else table.label_column(wanted) for table in tables}
    if wanted is not None and not any(columns.values()):
        raise LayoutError(f"labels={wanted!r} is neither a file nor a column; {_outline(tables)}")
    return columns


def _match_rows(tables: list[Table], request: Request) -> tuple[np.ndarray | None, list[np.ndarray | None]]:
    """Return the sample ids, and the rows that bring each table into their order (None: as they are)."""
    ids = {t.path.name: t.column(t.id_column) for t in tables if t.id_column is not None}
    if len(ids) == len(tables) > 1:
        return align(list(ids), list(ids.values()), request.join)
    if request.on is not None and len(ids) < len(tables):
        absent = ", ".join(table.path.name for table in tables if table.id_column is None)
        raise LayoutError(f"on={request.on!r} is not a column of {absent}; {_outline(tables)}")
    if len({table.n_rows for table in tables}) > 1:
        raise LayoutError(
            f"the files have different numbers of rows and no common id column to join on; {_outline(tables)}; "
            "add a column 'id' to each, or pass on=NAME"
        )
    first = next(iter(ids), None)
    for name, column in ids.items():
        if first is not None and not np.array_equal(ids[first].astype(str), column.astype(str)):
            raise DataError(
                f"{first} and {name} have their ids in different orders and another file has none, so they cannot be "
                f"joined; {_outline(tables)}"
            )
    return None if first is None else ids[first], [None] * len(tables)


def _labels(tables: list[tuple[Table, np.ndarray | None]], columns: dict[str, str | None]) -> NDArray[np.intp] | None:
    """Return the codes of the labels, on which all tables that have some must agree."""
    y: NDArray[np.intp] | None = None
    source = ""
    for table, picked in tables:
        column = columns[table.name]
        if column is None:
            continue
        with reading(table.path):
            values = table.column(column)
            if picked is not None and np.any(picked < 0):
                raise LayoutError(f"labels are missing for {int(np.sum(picked < 0))} samples: pass labels=False")
            codes = encode(values if picked is None else values[picked], f"the labels in column {column!r}")
        if y is not None and not np.array_equal(y, codes):
            raise LayoutError(f"{source} and {table.path.name} have different labels: pass labels=NAME")
        y, source = codes, table.path.name
    return y


def _outline(tables: list[Table]) -> str:
    shown = []
    for table in tables:
        names = ", ".join(table.schema.names[:5]) + (", …" if len(table.schema.names) > 5 else "")
        shown.append(f"{table.path.name}: {table.n_rows, len(table.schema.names)} with columns {names}")
    return "there are " + "; ".join(shown)
