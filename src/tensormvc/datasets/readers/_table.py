"""One CSV or Parquet file: which of its columns are features, labels and sample ids."""

from __future__ import annotations

import csv
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .._errors import Budget, DataError, LayoutError, require
from .._labels import LABEL_NAMES, plain
from ._rows import ParquetRows, batch_values

PARQUET = (".parquet", ".pq")
_ID_NAMES = (
    "id", "ids", "sampleid", "sampleids", "sample", "samples", "samplename", "index", "name", "names", "barcode",
    "barcodes", "key", "uid", "uuid", "unnamed0", "indexlevel0", "rowid", "rownames", "",
)  # fmt: skip
_NULLS = ["", "NA", "NaN", "nan", "N/A", "null", "None"]
# Even a constant column takes one byte for this many rows.
_MAX_ROWS_PER_BYTE = 10_000


class Table:
    """One file: its columns, what each of them is, and its number of rows.

    Parameters
    ----------
    path : Path
        The file.
    budget : Budget
        Memory that its contents may use.
    on : str or None
        Name of the id column; by default the usual names are tried.
    """

    def __init__(self, path: Path, budget: Budget, on: str | None) -> None:
        self.path, self.name, self.budget = path, path.stem, budget
        self.types = require("pyarrow", "reading CSV and Parquet files").types
        self.table: Any = None
        if path.suffix.lower() in PARQUET:
            file = self._parquet()
            self.schema, self.n_rows = file.schema_arrow, int(file.metadata.num_rows)
            if not 0 <= self.n_rows <= _MAX_ROWS_PER_BYTE * path.stat().st_size:
                raise DataError(f"it declares {self.n_rows:,} rows, impossible for its size")
        else:
            self.table = _read_csv(path, budget)
            self.schema, self.n_rows = self.table.schema, int(self.table.num_rows)
        if len(set(self.schema.names)) < len(self.schema.names):
            raise DataError("two columns have the same name: rename one of them")
        if not self.n_rows or not self.schema.names:
            raise DataError("it has no rows")
        self.id_column = self._find_ids(on)

    def _parquet(self) -> Any:
        return require("pyarrow.parquet", "reading Parquet files").ParquetFile(self.path, buffer_size=2**16)

    def _find_ids(self, on: str | None) -> str | None:
        names: list[str] = self.schema.names
        if on is not None:
            return on if on in names else None
        first = names[0]
        is_float = {name: bool(self.types.is_floating(self.schema.field(name).type)) for name in names}
        for name in names:
            if plain(name) in _ID_NAMES and not is_float[name]:
                return name
        if plain(first) in LABEL_NAMES or is_float[first]:
            return None
        if plain(first).endswith("id") or (self._is_text(first) and len(set(self.column(first))) == self.n_rows):
            return first
        return None

    def _is_text(self, name: str) -> bool:
        kind = self.schema.field(name).type
        kind = kind.value_type if self.types.is_dictionary(kind) else kind
        return bool(self.types.is_string(kind) or self.types.is_large_string(kind))

    def label_column(self, wanted: str | None = None) -> str | None:
        """Return the name of the column of labels, if there is one."""
        names = [name for name in self.schema.names if name != self.id_column]
        if wanted is not None:
            return wanted if wanted in names else None
        if plain(self.name) in LABEL_NAMES and len(names) == 1:
            return str(names[0])
        for name in names:
            # A column y next to a column x is a coordinate.
            if plain(name) in LABEL_NAMES and not (plain(name) == "y" and any(plain(x) == "x" for x in names)):
                return str(name)
        return None

    def column(self, name: str) -> np.ndarray:
        """Return one column as numbers or text."""
        if self.table is not None:
            column = self.table.column(name)
        else:
            self.budget.take(self.n_rows * 64, f"column {name!r}")
            column = self._parquet().read([name], use_threads=False).column(name)
            if len(column) != self.n_rows:
                raise DataError(f"column {name!r} has {len(column)} of {self.n_rows} rows")
        if column.null_count:
            raise DataError(f"column {name!r} has empty places: fill them, or choose another column")
        if self._is_number(column.type) or self.types.is_boolean(column.type):
            return np.asarray(column.to_numpy())
        return np.array([str(value) for value in column.to_pylist()])

    def features(self, without: set[str]) -> Any:
        """Return the columns that are neither ids nor in `without`, as an array or, from Parquet, a row source."""
        names = tuple(name for name in self.schema.names if name != self.id_column and name not in without)
        if not names:
            raise DataError("it has no columns of numbers")
        types, widths = zip(*(self._number_type(name) for name in names), strict=True)
        dtype = np.result_type(*types)
        if self.table is None:
            return ParquetRows(str(self.path), names, widths, self.n_rows, dtype)
        self.budget.take(self.n_rows * len(names) * dtype.itemsize, "the table")
        return np.concatenate([batch_values(batch, names, dtype) for batch in self.table.to_batches()])

    def _is_number(self, kind: Any) -> bool:
        return bool(self.types.is_integer(kind) or self.types.is_floating(kind))

    def _number_type(self, name: str) -> tuple[np.dtype[Any], int]:
        """Return the NumPy type of a column and its number of features: the length of its lists, or one."""
        types = self.types
        kind, width = self.schema.field(name).type, 1
        if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
            width = len(next(self._parquet().iter_batches(1, columns=[name])).column(name)[0] or ())
            kind = kind.value_type
        if types.is_null(kind):
            return np.dtype(np.float64), width
        if types.is_boolean(kind):
            return np.dtype(np.uint8), width
        if not self._is_number(kind):
            raise LayoutError(
                f"column {name!r} is {kind}, not numbers: remove it, pass labels={name!r} if it holds the labels, "
                f"on={name!r} if it names the samples, or views=[files] to choose other files"
            )
        is_float = types.is_integer(kind) and name in self._columns_with_nulls
        return np.dtype(np.float64 if is_float else kind.to_pandas_dtype()), width

    @cached_property
    def _columns_with_nulls(self) -> set[str]:
        """Names of the columns with empty places; integers among them must become floating-point.

        They are found by reading the columns: the statistics in the file are optional, and asking for those of a
        damaged file crashes the interpreter (pyarrow 26; `test_fuzz_long`).
        """
        names = [field.name for field in self.schema if self.types.is_integer(field.type)]
        batches = (
            self._parquet().iter_batches(2**14, columns=names, use_threads=False)
            if self.table is None
            else self.table.to_batches()
        )
        return {
            name
            for batch in batches
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
            if column.null_count
        }


def _read_csv(path: Path, budget: Budget) -> Any:
    arrow = require("pyarrow.csv", "reading CSV files")
    budget.take(4 * path.stat().st_size, "the text")
    with open(path, encoding="utf-8-sig", newline="") as stream:
        head = stream.readline(2**24)
    if not head.strip():
        raise DataError("it is empty")
    delimiter = max("\t;,", key=head.count)
    names = next(csv.reader([head], delimiter=delimiter))
    has_header = not all(_is_number(name) for name in names)
    if has_header:  # repeated names are numbered, as pandas does
        names = [f"{name}.{i}" if name in names[:i] else name for i, name in enumerate(names)]
    else:
        names = [f"f{i}" for i in range(len(names))]
    return arrow.read_csv(
        path,
        read_options=arrow.ReadOptions(use_threads=False, column_names=names, skip_rows=int(has_header)),
        parse_options=arrow.ParseOptions(delimiter=delimiter),
        convert_options=arrow.ConvertOptions(null_values=_NULLS),
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
