"""Folders of CSV and Parquet files, one a view, and single files of them."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..backend import LAZY_BYTES
from ._align import Join, align, take_rows
from ._dataset import Dataset, by_name
from ._errors import Budget, DataError, LayoutError, reading, require
from ._layout import LABEL_NAMES, encode, plain
from ._lazy import ParquetRows, RowSource, table_values

PARQUET = (".parquet", ".pq")
TABLES = (".csv", ".tsv", ".tab", *PARQUET)
_ID_NAMES = (
    "id", "ids", "sampleid", "sampleids", "sample", "samples", "samplename", "index", "name", "names", "barcode",
    "barcodes", "key", "uid", "uuid", "unnamed0", "indexlevel0", "rowid", "rownames", "",
)  # fmt: skip
# Even a constant column takes a byte for so many rows.
_MAX_ROWS_PER_BYTE = 10_000


class _Table:
    """One file: its columns, what each is for, and its number of rows."""

    def __init__(self, path: Path, budget: Budget, on: str | None) -> None:
        self.path, self.name, self.budget = path, path.stem, budget
        self.arrow = require("pyarrow", "reading CSV and Parquet files")
        self.table: Any = None
        if path.suffix.lower() in PARQUET:
            file = require("pyarrow.parquet", "reading Parquet files").ParquetFile(path, buffer_size=2**16)
            self.schema, self.n_rows = file.schema_arrow, int(file.metadata.num_rows)
            if not 0 <= self.n_rows <= _MAX_ROWS_PER_BYTE * path.stat().st_size:
                raise DataError(f"it declares {self.n_rows:,} rows, impossible for its size")
        else:
            self.table = _read_csv(path, budget)
            self.schema, self.n_rows = self.table.schema, int(self.table.num_rows)
        if len(set(self.schema.names)) < len(self.schema.names):
            raise DataError("two columns have the same name")
        if not self.n_rows or not self.schema.names:
            raise DataError("there are no rows in it")
        self.id_column = self._find_ids(on)

    def _find_ids(self, on: str | None) -> str | None:
        names = self.schema.names
        if on is not None:
            return on if on in names else None
        for name in names:
            if plain(name) in _ID_NAMES and not self._is_float(name):
                return str(name)
        first = names[0]
        if plain(first).endswith("id") and not self._is_float(first) and plain(first) not in LABEL_NAMES:
            return str(first)
        if self._is_text(first) and plain(first) not in LABEL_NAMES and len(set(self.text(first))) == self.n_rows:
            return str(first)
        return None

    def _is_float(self, name: str) -> bool:
        return bool(self.arrow.types.is_floating(self.schema.field(name).type))

    def _is_text(self, name: str) -> bool:
        kind = self.schema.field(name).type
        if self.arrow.types.is_dictionary(kind):
            kind = kind.value_type
        return bool(self.arrow.types.is_string(kind) or self.arrow.types.is_large_string(kind))

    def label_column(self, wanted: str | None) -> str | None:
        """Return the name of the column of labels, if there is one."""
        names = [name for name in self.schema.names if name != self.id_column]
        if wanted is not None:
            return wanted if wanted in names else None
        if plain(self.name) in LABEL_NAMES and len(names) == 1:
            return str(names[0])
        for name in names:
            # A column y beside a column x is a coordinate.
            if plain(name) in LABEL_NAMES and not (plain(name) == "y" and any(plain(x) == "x" for x in names)):
                return str(name)
        return None

    def text(self, name: str) -> np.ndarray:
        """Return one column: whole numbers, numbers or text."""
        if self.table is not None:
            column = self.table.column(name)
        else:
            parquet = require("pyarrow.parquet", "reading Parquet files")
            self.budget.take(self.n_rows * 64, f"column {name!r}")
            column = parquet.read_table(self.path, columns=[name], use_threads=False).column(name)
            if len(column) != self.n_rows:
                raise DataError(f"column {name!r} has {len(column)} rows of {self.n_rows}")
        if column.null_count:
            raise DataError(f"column {name!r} has empty places")
        kind = column.type
        if self.arrow.types.is_integer(kind) or self.arrow.types.is_floating(kind) or self.arrow.types.is_boolean(kind):
            return np.asarray(column.to_numpy())
        return np.array([str(value) for value in column.to_pylist()])

    def values(self, without: set[str], lazy: bool) -> Any:
        """Return the other columns as numbers, on disk if `lazy` and the file is Parquet."""
        names = tuple(name for name in self.schema.names if name != self.id_column and name not in without)
        if not names:
            raise DataError("it has no columns of numbers")
        types = [self._number_type(name) for name in names]
        dtype, widths = np.result_type(*(kind for kind, _ in types)), tuple(width for _, width in types)
        if self.table is None and lazy:
            return ParquetRows(str(self.path), names, widths, self.n_rows, dtype)
        self.budget.take(self.n_rows * sum(widths) * dtype.itemsize, "the table")
        if self.table is None:
            return np.asarray(ParquetRows(str(self.path), names, widths, self.n_rows, dtype))
        return table_values(self.table, names, dtype)

    def _number_type(self, name: str) -> tuple[np.dtype[Any], int]:
        types = self.arrow.types
        kind, length = self.schema.field(name).type, 1
        if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
            length = kind.list_size if types.is_fixed_size_list(kind) else self._list_length(name)
            kind = kind.value_type
        if types.is_null(kind):
            return np.dtype(np.float64), length
        if types.is_boolean(kind):
            return np.dtype(np.uint8), length
        if not (types.is_integer(kind) or types.is_floating(kind)):
            raise LayoutError(
                f"column {name!r} is {kind}, not numbers: remove it, pass labels={name!r} if it holds the labels, "
                f"on={name!r} if it names the samples, or views=[files] to choose other files"
            )
        dtype = np.dtype(kind.to_pandas_dtype())
        if types.is_integer(kind) and self._has_nulls(name):
            dtype = np.dtype(np.float64)
        return dtype, length

    def _has_nulls(self, name: str) -> bool:
        if self.table is not None:
            return bool(self.table.column(name).null_count)
        return name in self._columns_with_nulls

    @cached_property
    def _columns_with_nulls(self) -> set[str]:
        """Names of the columns of whole numbers with empty places, which must become floating.

        They are counted by walking through the file: the statistics in it need not be there, and asking for those of
        a damaged file ends the interpreter (pyarrow 26).
        """
        parquet = require("pyarrow.parquet", "reading Parquet files")
        names = [field.name for field in self.schema if self.arrow.types.is_integer(field.type)]
        batches = parquet.ParquetFile(self.path, buffer_size=2**16).iter_batches(
            batch_size=2**14, columns=names, use_threads=False
        )
        found: set[str] = set()
        for batch in batches:
            found.update(
                name for name, column in zip(batch.schema.names, batch.columns, strict=True) if column.null_count
            )
        return found

    def _list_length(self, name: str) -> int:
        parquet = require("pyarrow.parquet", "reading Parquet files")
        batch = next(parquet.ParquetFile(self.path).iter_batches(batch_size=1, columns=[name]))
        return len(batch.column(name)[0] or ())


def _read_csv(path: Path, budget: Budget) -> Any:
    csv_module = require("pyarrow.csv", "reading CSV files")
    budget.take(4 * path.stat().st_size, "the text")
    with open(path, encoding="utf-8-sig", newline="") as stream:
        head = stream.readline(2**24)
        if not head.strip():
            raise DataError("it is empty")
        delimiter = max("\t;,", key=head.count) if any(mark in head for mark in "\t;,") else ","
        names = next(csv.reader([head], delimiter=delimiter))
    headless = all(_is_number(name) for name in names)
    unique = list(names)
    if not headless:  # pandas, too, gives repeated names a number
        unique = [f"{name}.{i}" if name in names[:i] else name for i, name in enumerate(names)]
    options = csv_module.ReadOptions(
        use_threads=False,
        column_names=[f"f{i}" for i in range(len(names))] if headless else unique,
        skip_rows=0 if headless else 1,
    )
    convert = csv_module.ConvertOptions(null_values=["", "NA", "NaN", "nan", "N/A", "null", "None"])
    return csv_module.read_csv(
        path, read_options=options, parse_options=csv_module.ParseOptions(delimiter=delimiter), convert_options=convert
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _natural(path: Path) -> list[Any]:
    """Sort key that puts view2 before view10."""
    return [int(part) if part.isdigit() else part.lower() for part in re.split(r"(\d+)", path.name)]


def read_tables(
    path: str,
    *,
    views: Sequence[str] | None,
    labels: str | Literal[False] | None,
    on: str | None,
    join: Join | None,
    lazy: bool | None,
) -> Dataset:
    """Return the views and labels of a folder of tables or of one table."""
    if os.path.isdir(path):
        entries = sorted((Path(path) / name for name in os.listdir(path) if name[:1] not in "._"), key=_natural)
        files = [entry for entry in entries if entry.suffix.lower() in TABLES and entry.is_file()]
        if not files:
            others = ", ".join(entry.name for entry in entries[:10]) or "nothing"
            raise DataError(
                f"it is a folder without CSV or Parquet files (it holds {others}); a folder needs one such file a view"
            )
    else:
        files = [Path(path)]
    _check_stems(files)
    label_stems = [f.stem for f in files if plain(f.stem) in LABEL_NAMES and f.stem not in (views or ())]
    if isinstance(labels, str):
        label_stems = [f.stem for f in files if f.stem == labels] or label_stems
    view_stems = [f.stem for f in files if f.stem not in label_stems] if views is None else list(views)
    for stem in view_stems:
        if stem not in {f.stem for f in files}:
            raise DataError(f"views names {stem!r}; the files are {', '.join(f.name for f in files)}")
    if not view_stems:
        raise DataError(f"there is no view, only the labels {', '.join(f.name for f in files)}")
    budget = Budget()
    order = {stem: i for i, stem in enumerate(view_stems)}
    tables: dict[str, _Table] = {}
    for file in files:
        if file.stem in view_stems or (file.stem in label_stems and labels is not False):
            with reading(file):
                tables[file.stem] = _Table(file, budget, on)
    view_tables = sorted((tables[stem] for stem in view_stems), key=lambda table: order[table.name])
    label_tables = [tables[stem] for stem in label_stems if stem in tables]
    return _join(view_tables, label_tables, labels, on, join, lazy)


def _check_stems(files: list[Path]) -> None:
    stems = [file.stem for file in files]
    for stem in stems:
        if stems.count(stem) > 1:
            raise DataError(f"{stem!r} is there twice: {', '.join(f.name for f in files if f.stem == stem)}")


def _join(
    view_tables: list[_Table],
    label_tables: list[_Table],
    labels: str | Literal[False] | None,
    on: str | None,
    join: Join | None,
    lazy: bool | None,
) -> Dataset:
    tables = view_tables + label_tables
    with_ids = [table for table in tables if table.id_column is not None]
    wanted = labels if isinstance(labels, str) and labels not in {t.name for t in label_tables} else None
    columns = {t.name: None if labels is False else t.label_column(wanted) for t in tables}
    if wanted is not None and not any(columns.values()):
        raise DataError(f"labels names {wanted!r}, which is neither a file nor a column; {_outline(tables)}")
    # Columns that look like labels are no features, whether they are wanted or not.
    drop = {t.name: {c for c in (columns[t.name], t.label_column(None)) if c is not None} for t in tables}

    sizes = {t.n_rows for t in tables}
    rows: list[np.ndarray | None] = [None] * len(tables)
    ids = with_ids[0].text(str(with_ids[0].id_column)) if with_ids else None
    if len(with_ids) == len(tables) and len(tables) > 1:
        ids, rows = align([t.path.name for t in tables], [t.text(str(t.id_column)) for t in tables], join)
    elif on is not None and len(with_ids) < len(tables):
        absent = ", ".join(t.path.name for t in tables if t.id_column is None)
        raise LayoutError(f"on names {on!r}, which is no column of {absent}; {_outline(tables)}")
    elif len(sizes) > 1:
        raise LayoutError(
            f"the files have different numbers of rows and no common id column to join on; {_outline(tables)}; "
            "add a column 'id' to each, or pass on=NAME"
        )
    elif len(with_ids) > 1:
        for table in with_ids[1:]:
            if not np.array_equal(np.asarray(ids).astype(str), table.text(str(table.id_column)).astype(str)):
                raise DataError(
                    f"{with_ids[0].path.name} and {table.path.name} have ids in different orders and another file has "
                    f"none, so they cannot be joined; {_outline(tables)}"
                )

    views: list[Any] = []
    for table, picked in zip(view_tables, rows, strict=False):
        with reading(table.path):
            views.append(take_rows(table.values(drop[table.name], lazy is not False), picked))
    views = _settle(views, lazy)
    y: NDArray[np.intp] | None = None
    source = ""
    for table, picked in sorted(zip(tables, rows, strict=True), key=lambda pair: pair[0] not in label_tables):
        column = columns[table.name]
        if column is None:
            continue
        with reading(table.path):
            values = table.text(column)
            if picked is not None and bool(np.any(picked < 0)):
                raise LayoutError(f"labels are missing for {int(np.sum(picked < 0))} samples: pass labels=False")
            codes = encode(values if picked is None else values[picked], f"the labels in column {column!r}")
        if y is not None and not np.array_equal(y, codes):
            raise LayoutError(f"{source} and {table.path.name} have different labels: pass labels=NAME")
        y, source = codes, table.path.name
    return Dataset(by_name(views, [table.name for table in view_tables]), y, ids)


def _settle(views: list[Any], lazy: bool | None) -> list[Any]:
    """Read the views that are on disk unless they are large together or shall stay there."""
    if lazy or (lazy is None and sum(view.nbytes for view in views if isinstance(view, RowSource)) > LAZY_BYTES):
        return views
    return [np.asarray(view) if isinstance(view, RowSource) else view for view in views]


def _outline(tables: list[_Table]) -> str:
    shown = []
    for table in tables:
        names = ", ".join(table.schema.names[:5]) + (", …" if len(table.schema.names) > 5 else "")
        shown.append(f"{table.path.name}: {table.n_rows, len(table.schema.names)} with columns {names}")
    return "there are " + "; ".join(shown)
