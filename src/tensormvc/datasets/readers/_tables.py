"""CSV and Parquet files: a folder with one file per view, or a single file."""

import csv
import os
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...views import Categories, categories_of
from .._dataset import LABEL_NAMES, Dataset, Request, by_name, encode, plain
from .._errors import Budget, DataError, LayoutError, reading, refuse_if, require
from ._align import absent_rows, align, take_rows
from ._rows import ParquetRows, batch_values

PARQUET = (".parquet", ".pq")
TABLES = (".csv", ".tsv", ".tab", *PARQUET)
_ID_NAMES = (
    "id", "ids", "sampleid", "sampleids", "sample", "samples", "samplename", "index", "name", "names", "barcode",
    "barcodes", "uid", "uuid", "unnamed0", "indexlevel0", "rowid", "rownames", "",
)  # fmt: skip
# A first column of these names holds ids if its values are unique.
_FIRST_IDS = re.compile(
    "(sample|subject|patient|participant|case|cell|donor|person|individual|specimen|respondent|customer|well|record|mrn"
    "|key)"
    "(no|nr|number|name|code|id)?"
)
_ENDS_IN_ID = re.compile(r"[\W_][iI][dD]$|[a-z]I[dD]$")
# The names of the index of a data frame, whose values only number the rows.
_INDEX_NAMES = ("", "index", "unnamed0", "indexlevel0", "rownames")
# Missing values in R and pandas.
_NULLS = ["", "NA", "NaN", "nan", "-NaN", "-nan", "N/A", "n/a", "#N/A", "#NA", "<NA>", "null", "NULL", "None"]
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip")
# Even a constant column takes one byte for this many rows.
_MAX_ROWS_PER_BYTE = 10_000


def read_tables(path: str, request: Request) -> Dataset:
    """Return the tables in a folder, or a single one, as views with their labels and sample ids."""
    views, labels = request.views, request.labels
    files = {file.stem: file for file in _files(path)}
    usual = [name for name in files if plain(name) in LABEL_NAMES and name not in (views or ())]
    label_files = [str(labels)] if labels in files else usual
    # Other files of labels are no views, either.
    view_names = [name for name in files if name not in {*usual, labels}] if views is None else list(views)
    listed = ", ".join(file.name for file in files.values())
    for name in view_names:
        refuse_if(name not in files, f"views contains {name!r}, but the files are {listed}")
    refuse_if(not view_names, f"there are no views, only the labels {listed}")
    budget, tables = Budget(), []
    for name in [*view_names, *(label_files if labels is not False else ())]:
        with reading(files[name]):
            tables.append(Table(files[name], budget, request.on))
    ids, rows = _match_rows(tables, len(view_names), request)
    wanted = None if labels in label_files else labels
    if wanted and not any(table.label_column(wanted) for table in tables):
        raise LayoutError(f"labels={wanted!r} is neither a file nor a column; {_outline(tables)}")
    known = None if request.categories == "auto" else request.categories or {}
    if known and len(known) == len(view_names) == 1:
        known = dict(zip(view_names, known.values(), strict=True))  # whatever its file is called
    matrices: list[Any] = []
    features: dict[str, np.ndarray] = {}
    categories: dict[str, Categories] = {}
    for name, table, picked in zip(view_names, tables, rows, strict=False):
        with reading(table.path):
            # Columns that look like labels are not features, whether they are wanted or not.
            without = {table.label_column(), table.label_column(wanted)}
            found = table.categories(without, None if known is None else known.get(name, {}))
            matrices.append(take_rows(table.features(without, found), picked))
            features[name] = table.feature_names(without, found)
            if found:
                categories[name] = found
    # Files of labels come before columns of labels.
    pairs = sorted(zip(tables, rows, strict=True), key=lambda pair: pair[0].path.stem not in label_files)
    absent = absent_rows(view_names, rows[: len(view_names)])
    return Dataset(by_name(matrices, view_names), _labels(pairs, wanted), ids, absent, features, categories)


def _files(path: str) -> list[Path]:
    if not os.path.isdir(path):
        return [Path(path)]
    # Numbers are compared as numbers, so that view2 comes before view10.
    entries = sorted(
        (Path(path, name) for name in os.listdir(path) if name[0] not in "._"),
        key=lambda entry: [int(part) if part.isdigit() else part.lower() for part in re.split(r"(\d+)", entry.name)],
    )
    files = [entry for entry in entries if entry.suffix.lower() in TABLES and entry.is_file()]
    for entry in entries:
        is_table = entry.suffix.lower() in _COMPRESSED and Path(entry.stem).suffix.lower() in TABLES
        if is_table and entry.with_suffix("") not in files:
            raise DataError(f"{entry.name} is compressed: decompress it, or move it out of the folder")
    if not files:
        content = ", ".join(entry.name for entry in entries[:10]) or "nothing"
        raise DataError(f"this is a folder without CSV or Parquet files (it holds {content}): put one per view into it")
    stems = [file.stem for file in files]
    for file in files:
        if stems.count(file.stem) > 1:
            raise DataError(f"{file.stem!r} is there twice, once as {file.name}: remove one of the files")
    return files


def _match_rows(
    tables: list["Table"], n_views: int, request: Request
) -> tuple[np.ndarray | None, list[np.ndarray | None]]:
    """Return the sample ids, and the rows that bring each table into their order (None: as they are).

    The tables after the first `n_views` hold labels.
    """
    ids = {t.path.name: t.ids for t in tables if t.ids is not None}
    if len(ids) == len(tables) > 1:
        names, columns = list(ids), list(ids.values())
        if request.join not in ("outer", "auto"):
            return align(names, columns, request.join)
        common, rows = align(names[:n_views], columns[:n_views], request.join)
        return common, rows + [_label_rows(common, column) for column in columns[n_views:]]
    if request.on is not None and len(ids) < len(tables):
        raise LayoutError(f"on={request.on!r} is not a column of every file; {_outline(tables)}")
    if len({table.n_rows for table in tables}) > 1:
        remedy = "add a column 'id' to each, or pass on=NAME"
        raise LayoutError(f"the files have different numbers of rows and no id column: {_outline(tables)}; {remedy}")
    for table in tables:
        table.refuse_repeated_ids()
    first = next(iter(ids.values()), None)
    if first is not None and any(np.any(first.astype(str) != column.astype(str)) for column in ids.values()):
        raise DataError(f"the ids are in different orders, but not every file has ids to join on; {_outline(tables)}")
    by_first_name: dict[str, Table] = {}
    for table in tables:
        _refuse_shuffled(by_first_name.setdefault(table.schema.names[0], table), table)
    return first, [None] * len(tables)


def _refuse_shuffled(left: "Table", right: "Table") -> None:
    """Refuse to pair tables by position whose first columns look like the same ids in another order."""
    name, kinds = left.schema.names[0], [table.schema.field(0).type for table in (left, right)]
    # Features without names are f0, f1, …; their ranks, for example, are the same numbers in another order.
    if left is right or name == "f0" or any(map(left.arrow.types.is_nested, kinds)):
        return
    compute = require("pyarrow.compute", "reading CSV and Parquet files")
    a, b = (table.as_text(name).cast("string").drop_null() for table in (left, right))
    is_shared = compute.is_in(a, value_set=b.unique())
    are_unique = len(a.unique()) == len(a) and len(b.unique()) == len(b)
    if are_unique and not a.equals(b) and 2 * (compute.sum(is_shared).as_py() or 0) > len(a):
        raise LayoutError(
            f"{left.path.name} and {right.path.name} have the same values in column {name!r}, in another order: pass "
            f"on={name!r} (--on {name}) if it names the samples, or rename it in one of the files if it is a feature"
        )


def _label_rows(ids: np.ndarray, label_ids: np.ndarray) -> np.ndarray:
    """Return the rows of a file of labels for these samples, -1 for those without a label; it may have others."""
    _, (_, rows) = align(["the views", "the labels"], [ids, label_ids], "outer")
    return (np.arange(len(label_ids)) if rows is None else rows)[: len(ids)]


def _labels(tables: list[tuple["Table", np.ndarray | None]], wanted: Any) -> NDArray[np.intp] | None:
    """Return the codes of the labels, on which all tables that have some must agree."""
    y, source = None, ""
    for table, picked in tables:
        if (column := table.label_column(wanted)) is None:
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


def _outline(tables: list["Table"]) -> str:
    columns = {table: table.schema.names for table in tables}
    shown = (f"{t.path.name}: {t.n_rows, len(c)}, first columns {', '.join(c[:5])}" for t, c in columns.items())
    return "there are " + "; ".join(shown)


class Table:
    """One CSV or Parquet file: its columns, what each of them is, and its number of rows.

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
        self.path, self.budget = path, budget
        self.arrow = require("pyarrow", "reading CSV and Parquet files")
        self.table: Any = None
        if path.suffix.lower() in PARQUET:
            file = self._parquet()
            self.schema, self.n_rows = file.schema_arrow, int(file.metadata.num_rows)
            if not 0 <= self.n_rows <= _MAX_ROWS_PER_BYTE * path.stat().st_size:
                raise DataError(f"it declares {self.n_rows:,} rows, impossible for its size")
        else:
            budget.take(4 * path.stat().st_size, "the text")
            self.table = _read_csv(path)
            self.schema, self.n_rows = self.table.schema, int(self.table.num_rows)
        if len(set(self.schema.names)) < len(self.schema.names):
            raise DataError("two columns have the same name: rename one of them")
        refuse_if(not self.n_rows or not self.schema.names, "it has no rows")
        self.id_column = self._find_ids(on)
        self.ids = None if self.id_column is None else self.column(self.id_column)

    def _parquet(self) -> Any:
        return require("pyarrow.parquet", "reading Parquet files").ParquetFile(self.path, buffer_size=2**16)

    def _batches(self, names: list[str], size: int = 2**14) -> Iterator[Any]:
        if self.table is not None:
            return iter(self.table.select(names).to_batches())
        return iter(self._parquet().iter_batches(size, columns=names, use_threads=False))

    def _find_ids(self, on: str | None) -> str | None:
        """Return the name of the id column, which becomes text unless it holds integers written as usual."""
        names: list[str] = self.schema.names
        usual = [name for name in names if plain(name) in _ID_NAMES and _is_id(name)]
        first = [name for name in names[:1] if plain(name) not in LABEL_NAMES]
        for name in [*usual, *first] if on is None else [on] * (on in names):
            kind = self.schema.field(name).type
            is_named = (_is_id(name) or plain(name).endswith("id")) and not self.arrow.types.is_nested(kind)
            if on is None and not is_named and not self._is_text(name):
                continue
            column = self.as_text(name)
            if on is None and not self._are_ids(name, column.drop_null().to_pylist()):
                continue
            is_same = self.arrow.types.is_integer(kind) and self._column(name).cast("string").equals(column)
            if self.table is not None and not is_same:
                self.table = self.table.set_column(names.index(name), name, column)
                self.schema = self.table.schema
            return name
        return None

    def _are_ids(self, name: str, values: list[Any]) -> bool:
        is_unique = len(set(values)) == len(values) > 0
        is_float = self.arrow.types.is_floating(self.schema.field(name).type)
        if is_float and not all(float(value).is_integer() for value in values):
            return is_unique and _is_id(name)  # and not a lipid
        word = plain(name)
        is_named = word in _ID_NAMES or _ENDS_IN_ID.search(name) or (word.endswith("id") and _FIRST_IDS.fullmatch(word))
        return is_unique or bool(is_named)

    def refuse_repeated_ids(self) -> None:
        """Refuse ids that would name several samples; the index of a joined data frame may repeat."""
        if self.ids is None or self.id_column is None or plain(self.id_column) in _INDEX_NAMES:
            return
        values, counts = np.unique(self.ids, return_counts=True)
        if counts.max() > 1:
            raise LayoutError(
                f"{self.path.name}: column {self.id_column!r} is taken for the sample ids, but "
                f"{values[counts.argmax()]!s} is there {counts.max()} times: pass on=NAME (--on NAME) for another "
                "column, or rename this one if it is a feature"
            )

    def as_text(self, name: str) -> Any:
        """Return a column with nulls for missing values, from CSV as the text in the file: 007 is not 7."""
        if self.table is None:
            self.budget.take(self.n_rows * 64, f"column {name!r}")
            return self._column(name)
        table = self.table if self._is_text(name) else _read_csv(self.path, name)
        return _without_empty_texts(table, [name])[name]

    def label_column(self, wanted: Any = None) -> str | None:
        """Return the name of the column of labels, if there is one; `wanted` is the parameter `labels`."""
        names: list[str] = [name for name in self.schema.names if name != self.id_column]
        if wanted is not None:
            return wanted if wanted in names else None
        if plain(self.path.stem) in LABEL_NAMES and len(names) == 1:
            return names[0]
        # A column y next to a column x is a coordinate.
        usual = set(LABEL_NAMES) - ({"y"} if "x" in map(plain, names) else set())
        return next((name for name in names if plain(name) in usual), None)

    def _column(self, name: str) -> Any:
        return self.arrow.chunked_array([batch.column(0) for batch in self._batches([name])])

    def column(self, name: str) -> np.ndarray:
        """Return one column as numbers or text."""
        self.budget.take(self.n_rows * 64, f"column {name!r}")
        column = self._column(name)
        if len(column) != self.n_rows:
            raise DataError(f"column {name!r} has {len(column)} values for {self.n_rows} rows")
        compute = require("pyarrow.compute", "reading CSV and Parquet files")
        is_empty = compute.is_null(column, nan_is_null=name == self.id_column)
        if (row := compute.index(is_empty, True).as_py()) >= 0:
            raise DataError(f"column {name!r} is empty in row {row + 1} of the data: fill it in, or remove the row")
        if self._is_number(column.type) or self.arrow.types.is_boolean(column.type):
            return np.asarray(column.to_numpy())
        return np.array([str(value) for value in column.to_pylist()])

    def categories(self, without: set[str | None], known: Categories | None) -> Categories:
        """Return the categories of the categorical columns, by default those that occur."""
        texts = [name for name in self._feature_columns(without) if self._is_text(name)]
        for name in texts:
            if name not in (known or ()):
                self._refuse_spoilt_numbers(name)
        names = texts if known is None else [*known]
        if lacking := [name for name in names if name not in self.schema.names]:
            raise LayoutError(f"there is no column {lacking[0]!r}, which has categories; {_outline([self])}")
        if self.table is not None:
            self.table = _without_empty_texts(self.table, names)
        return {name: self._categories(name) for name in names} if known is None else known

    def _refuse_spoilt_numbers(self, name: str) -> None:
        """Refuse a column of text that holds numbers, except for a few cells."""
        if self.arrow.types.is_dictionary(self.schema.field(name).type):
            return
        values = self.as_text(name).to_pylist()
        others = {row: value for row, value in enumerate(values) if value is not None and not _NUMBER.fullmatch(value)}
        n_numbers = sum(value is not None for value in values) - len(others)
        remedy = f"remove the column, or store it in Parquet with the type category if {name!r} holds categories"
        if others and all(re.fullmatch(r"[-+]?\d+,\d+", value) for value in others.values()):
            found = f"numbers with decimal commas, such as {next(iter(others.values()))!r}"
            raise DataError(f"column {name!r} holds {found}: write them with decimal points; or {remedy}")
        # Marks such as ? and - are hardly categories.
        are_marks = not any(re.search(r"\w", value) for value in others.values())
        if others and n_numbers > (1 if are_marks else 9) * len(others):
            row, value = next(iter(others.items()))
            found = f"numbers, except for {value!r} in row {row + 1} of the data"
            raise DataError(f"column {name!r} holds {found}: leave missing values empty; or {remedy}")

    def _categories(self, name: str) -> list[str]:
        declared = self.arrow.types.is_dictionary(self.schema.field(name).type)
        found: set[Any] = set()
        n_values = 0
        for batch in self._batches([name]):
            found |= set(batch.column(0).unique().to_pylist())
            n_values += len(batch) - batch.column(0).null_count
        remedy = f"remove it, or pass on={name!r} if it names the samples, or labels={name!r} if it holds labels"
        declare = None if declared else "store it in Parquet with the type category"
        try:
            return categories_of(found - {None}, n_values, f"column {name!r}", remedy, declare)
        except ValueError as error:
            raise LayoutError(str(error)) from None

    def features(self, without: set[str | None], categories: Categories) -> Any:
        """Return the columns that are neither ids nor in `without`, as an array or, from Parquet, a row source."""
        widths, dtype = self._widths(without, categories)
        if self.table is None:
            return ParquetRows(str(self.path), widths, self.n_rows, dtype, categories)
        self.budget.take(self.n_rows * sum(widths.values()) * dtype.itemsize, "the table")
        return np.concatenate([batch_values(batch, widths, dtype, categories) for batch in self.table.to_batches()])

    def feature_names(self, without: set[str | None], categories: Categories) -> np.ndarray:
        """Return the names of these features: the columns, numbered where a column holds lists, with the categories."""
        widths, _ = self._widths(without, categories)
        named = (
            [f"{name}={value}" for value in categories[name]]
            if name in categories
            else [name]
            if width == 1
            else [f"{name}[{i}]" for i in range(width)]
            for name, width in widths.items()
        )
        return np.array([name for names in named for name in names])

    def _widths(self, without: set[str | None], categories: Categories) -> tuple[dict[str, int], np.dtype[Any]]:
        """Return the columns with their numbers of features, categories last, and the type that holds them all."""
        names = [name for name in self._feature_columns(without) if name not in categories]
        types = {name: self._number_type(name) for name in names}
        widths = {name: width for name, (_, width) in types.items()}
        widths |= {name: len(values) for name, values in categories.items()}
        dtypes = [dtype for dtype, _ in types.values()] + [np.dtype(np.float64)] * bool(categories)
        return widths, np.result_type(*dtypes)

    def _feature_columns(self, without: set[str | None]) -> tuple[str, ...]:
        names = tuple(name for name in self.schema.names if name != self.id_column and name not in without)
        refuse_if(not names, "it has no features, only ids and labels")
        return names

    def _is_text(self, name: str) -> bool:
        types, kind = self.arrow.types, self.schema.field(name).type
        return bool(types.is_dictionary(kind) or types.is_string(kind) or types.is_large_string(kind))

    def _is_number(self, kind: Any) -> bool:
        return bool(self.arrow.types.is_integer(kind) or self.arrow.types.is_floating(kind))

    def _number_type(self, name: str) -> tuple[np.dtype[Any], int]:
        """Return the NumPy type of a column and its number of features: the length of its lists, or one."""
        types, kind, width = self.arrow.types, self.schema.field(name).type, 1
        if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
            width, kind = len(next(self._batches([name], 1)).column(0)[0] or ()), kind.value_type
        if types.is_null(kind):
            return np.dtype(np.float64), width
        if types.is_boolean(kind):
            return np.dtype(np.float64 if name in self._columns_with_nulls else np.uint8), width
        if not self._is_number(kind):
            remedy = f"remove it, or pass labels={name!r} if it holds labels, or on={name!r} if it names the samples"
            encode = ", or encode it as --method auto does (load_dataset with categories='auto')"
            encode = encode if self._is_text(name) else ""
            raise LayoutError(f"column {name!r} is {kind}, not numbers: {remedy}{encode}")
        is_float = types.is_integer(kind) and name in self._columns_with_nulls
        return np.dtype(np.float64 if is_float else kind.to_pandas_dtype()), width

    @cached_property
    def _columns_with_nulls(self) -> set[str]:
        """Names of the columns with empty places; integers and booleans among them must become floating-point.

        They are found by reading the columns: the statistics in the file are optional, and asking for those of a
        damaged file crashes the interpreter (pyarrow 26; `test_fuzz_long`).
        """
        types = self.arrow.types
        names = [field.name for field in self.schema if types.is_integer(field.type) or types.is_boolean(field.type)]
        return {name for batch in self._batches(names) for name in names if batch.column(name).null_count}


def _is_id(name: str) -> bool:
    """Whether this is a usual name of ids; signs alone, such as %, are none."""
    word = plain(name) or name.strip(" #")
    return word in _ID_NAMES or bool(_FIRST_IDS.fullmatch(word) or _ENDS_IN_ID.search(name))


def _is_header(names: list[str]) -> bool:
    """Whether these are names of columns, not the first sample: numbers, except perhaps for an id or a label."""
    numbers = [float(name) for name in names if _NUMBER.fullmatch(name)]
    others = [name for i, name in enumerate(names) if not (_NUMBER.fullmatch(name) or (i and name in _NULLS))]
    if len(others) != 1 or not numbers:
        return len(others) > 0
    # The other columns may be numbered, or named by years or wavelengths.
    steps = np.diff(numbers)
    is_scale = len(steps) > 1 and steps[0] > 0 and np.ptp(steps) == 0
    is_usual = _is_id(others[0]) or plain(others[0]) in LABEL_NAMES
    return bool(is_usual or is_scale or np.array_equal(numbers, np.arange(len(numbers))))


def _read_csv(path: Path, only: str | None = None) -> Any:
    """Return the table in a file of text, or `only` one of its columns, as text."""
    arrow = require("pyarrow.csv", "reading CSV files")
    with open(path, encoding="utf-8-sig", newline="") as stream:
        head = stream.readline(2**24)
    refuse_if(not head.strip(), "it is empty")
    delimiter = max("\t;,", key=head.count)
    names = next(csv.reader([head], delimiter=delimiter))
    n_skipped = int(_is_header(names))
    if n_skipped:  # repeated names are numbered, as pandas does
        names = [f"{name}.{i}" if name in names[:i] else name for i, name in enumerate(names)]
    else:
        names = [f"f{i}" for i in range(len(names))]
    text = {} if only is None else {only: require("pyarrow", "reading CSV files").string()}
    return arrow.read_csv(
        path,
        read_options=arrow.ReadOptions(use_threads=False, column_names=names, skip_rows=n_skipped),
        parse_options=arrow.ParseOptions(delimiter=delimiter),
        convert_options=arrow.ConvertOptions(null_values=_NULLS, column_types=text, include_columns=list(text)),
    )


def _without_empty_texts(table: Any, names: list[str]) -> Any:
    """Return a table that was read from CSV, where Arrow takes only empty numbers for missing."""
    arrow, compute = require("pyarrow", "reading CSV files"), require("pyarrow.compute", "reading CSV files")
    for name in names:
        column = table[name]
        if arrow.types.is_string(column.type):
            missing = compute.is_in(compute.utf8_trim_whitespace(column), value_set=arrow.array(_NULLS))
            column = compute.if_else(missing, arrow.scalar(None, column.type), column)
            table = table.set_column(table.schema.get_field_index(name), name, column)
    return table
