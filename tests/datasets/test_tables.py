"""Folders of CSV and Parquet tables: ids that look like numbers, marks for missing values, files without header."""

import re

import numpy as np
import pytest

from tensormvc.datasets import DataError, load_dataset, load_views

arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra 'io')")
parquet = pytest.importorskip("pyarrow.parquet")

N = 20
VALUES = np.arange(2.0 * N).reshape(N, 2) % 7
WELLS = [f"{number}E{letter}" for number in range(1, 11) for letter in (1, 12)]


def write(folder, name, ids, values, header="id,u,v"):
    folder.mkdir(exist_ok=True)
    lines = [",".join([str(label), *map(str, row)]) for label, row in zip(ids, values, strict=True)]
    (folder / f"{name}.csv").write_text("\n".join([header] * (header != "") + lines) + "\n")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "views"


@pytest.mark.parametrize(
    "column", ["id", "patient_id", "PatientID", "patient", "subject", "case", "mrn", "participant", "cell", "sample_no"]
)
@pytest.mark.parametrize(
    "ids",
    [
        WELLS,
        [f"{i}.0" for i in range(N)],
        [f"12.{i}" for i in range(1, N + 1)],  # 12.1 and 12.10
        [str(2**64 + i) for i in range(N)],
        [f"{i:05}" for i in range(N)],
        [f"+4900{i}" for i in range(N)],
        [*map(str, range(N))],
    ],
    ids=["wells", "floating-point", "versions", "above 2^64", "leading zeros", "telephone", "integers"],
)
def test_ids_are_text_whatever_they_look_like(folder, column, ids):
    write(folder, "a", ids, VALUES, f"{column},u,v")
    write(folder, "b", ids[::-1], VALUES[::-1], f"{column},w,x")
    write(folder, "labels", ids[::-1], [[i // 10] for i in range(N)][::-1], f"{column},label")
    for on in (None, column):
        data = load_dataset(folder, on=on)
        assert data.sample_ids.astype(str).tolist() == ids
        assert {name: names.tolist() for name, names in data.feature_names.items()} == {
            "a": ["u", "v"],
            "b": ["w", "x"],
        }
        np.testing.assert_array_equal(data.views["a"], VALUES)
        np.testing.assert_array_equal(data.views["b"], VALUES)
        np.testing.assert_array_equal(data.y, np.arange(N) // 10)


def test_ids_in_parquet_are_joined_with_their_text(folder):
    write(folder, "a", range(N), VALUES)
    table = arrow.table({"id": np.arange(N)[::-1], "w": VALUES[::-1, 0]})
    parquet.write_table(table, folder / "b.parquet")
    data = load_dataset(folder)
    assert data.sample_ids.tolist() == list(range(N))
    np.testing.assert_array_equal(data.views["b"][:, 0], VALUES[:, 0])
    write(folder, "a", [f"{i}" for i in range(N - 1)] + ["last"], VALUES)
    data = load_dataset(folder, join="outer")
    assert data.sample_ids.tolist() == [*map(str, range(N - 1)), "last", "19"]
    assert data.absent == {"a": 1, "b": 1}


def test_features_are_no_ids(folder):
    """Columns whose names end like those of ids, signs, and names of ids with repeated values."""
    write(folder, "a", VALUES[:, 0] + np.arange(N) / 100, VALUES, "lipid,%,v")
    write(folder, "b", np.arange(N) // 2, VALUES, "cell,w,x")
    data = load_dataset(folder)
    assert data.sample_ids is None
    assert data.views["a"].shape == data.views["b"].shape == (N, 3)
    np.testing.assert_array_equal(data.views["b"][:, 0], np.arange(N) // 2)


def test_numbers_that_repeat_are_features(tmp_path):
    """Whatever their column is called, unless it holds ids by all appearances."""
    for name in ("acid", "valid", "key"):
        (tmp_path / "one.csv").write_text(f"{name},u\n" + "\n".join(f"{i % 5},{i}.5" for i in range(20)))
        assert load_views(tmp_path / "one.csv")[0][0].shape == (20, 2)
    for name in ("sample_id", "id", "sampleID", "patientid"):
        (tmp_path / "one.csv").write_text(f"{name},u\n" + "\n".join(f"{i % 5},{i}.5" for i in range(20)))
        with pytest.raises(DataError, match=f"column '{name}' is taken for the sample ids, but 0 is there 4 times"):
            load_views(tmp_path / "one.csv")
    (tmp_path / "one.csv").write_text(",u\n" + "\n".join(f"{i % 10},{i}.5" for i in range(20)))
    assert load_views(tmp_path / "one.csv")[0][0].shape == (20, 1)  # the index of two data frames


@pytest.mark.parametrize("second", [WELLS[::-1], [*WELLS[2:], "98", "99"]], ids=["another order", "most of them"])
def test_what_looks_like_ids_is_not_paired_by_position(folder, second):
    write(folder, "a", WELLS, VALUES, "position,u,v")
    write(folder, "b", second, VALUES, "position,w,x")
    message = (
        r"a.csv and b.csv have the same values in column 'position', in another order: pass on='position' \(--on pos"
    )
    with pytest.raises(DataError, match=message):
        load_views(folder)
    assert load_dataset(folder, on="position", join="inner").sample_ids.tolist() == [w for w in WELLS if w in second]
    write(folder, "b", WELLS, VALUES, "position,w,x")  # a feature of both
    assert [view.shape for view in load_views(folder)[0]] == [(N, 3), (N, 3)]


@pytest.mark.parametrize("mark", ["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "None"])
def test_customary_marks_are_missing_values(folder, mark):
    values = VALUES.astype(object)
    values[3, 1] = mark
    write(folder, "a", WELLS, values)
    expected = VALUES.copy()
    expected[3, 1] = np.nan
    for categories in (None, "auto"):
        np.testing.assert_array_equal(load_dataset(folder, categories=categories).views["a"], expected)


@pytest.mark.parametrize(("mark", "n_marks"), [("-", 1), ("?", 8), (".", 1), ("missing", 1), ("3 or 4", 1)])
@pytest.mark.parametrize("categories", [None, "auto"])
def test_other_marks_are_quoted(folder, mark, n_marks, categories):
    values = VALUES.astype(object)
    values[3 : 3 + n_marks, 1] = mark
    write(folder, "a", WELLS, values)
    message = f"a.csv: column 'v' holds numbers, except for {mark!r} in row 4 of the data: leave missing values empty"
    with pytest.raises(DataError, match=re.escape(message)):
        load_dataset(folder, categories=categories)


def test_grades_are_categories(folder):
    grades = np.array(["1", "2", "3", "x", "+"])[np.arange(N) % 5]
    write(folder, "a", WELLS, np.column_stack([VALUES[:, 0], grades]))
    data = load_dataset(folder, categories="auto")
    assert data.feature_names["a"].tolist() == ["u", "v=+", "v=1", "v=2", "v=3", "v=x"]


@pytest.mark.parametrize("cell", ["{},5", "-{},25"])
def test_decimal_commas(folder, cell):
    folder.mkdir()
    rows = [f"{well};{i};{cell.format(i)}" for i, well in enumerate(WELLS)]
    (folder / "a.csv").write_text("\n".join(["id;u;v", *rows]))
    message = (
        f"column 'v' holds numbers with decimal commas, such as '{cell.format(0)}': write them with decimal points"
    )
    for categories in (None, "auto"):
        with pytest.raises(DataError, match=message):
            load_dataset(folder, categories=categories)


@pytest.mark.parametrize(
    ("first", "n_samples", "features"),
    [
        ("s0,0.5,3", 3, ["f1", "f2"]),
        ("s0,,3", 3, ["f1", "f2"]),
        ("id,0.5,3", 2, ["0.5", "3"]),
        ("patient,0.5,3", 2, ["0.5", "3"]),
        ("gene,0,1", 2, ["0", "1"]),
        (",2019,2021", 2, ["2019", "2021"]),
        ("gene,a,1", 2, ["a", "1"]),
    ],
)
def test_a_header_is_not_a_sample_and_a_sample_no_header(tmp_path, first, n_samples, features):
    path = tmp_path / "a.csv"
    path.write_text(f"{first}\ns1,1.5,4\ns2,2.5,5\n")
    data = load_dataset(path)
    assert data.sample_ids.tolist() == ["s0", "s1", "s2"][-n_samples:]
    assert data.feature_names["a"].tolist() == features
    assert data.views["a"].shape == (n_samples, 2)


def test_years_are_a_header(tmp_path):
    (tmp_path / "a.csv").write_text("country,1990,1995,2000\nFrance,1,2,3\nMadrid,3,1,1\n")
    assert load_dataset(tmp_path).feature_names["a"].tolist() == ["1990", "1995", "2000"]
    (tmp_path / "a.csv").write_text("Madrid,1990,1995,2001\nFrance,1,2,3\n")
    assert load_dataset(tmp_path).sample_ids.tolist() == ["Madrid", "France"]


def test_compressed_tables_are_not_skipped(folder):
    write(folder, "a", WELLS, VALUES)
    write(folder, "b", WELLS, VALUES)
    (folder / "README.gz").write_bytes(b"")
    (folder / ".hidden.csv.gz").write_bytes(b"")
    (folder / "b.csv.gz").write_bytes(b"")  # b.csv decompressed
    assert list(load_dataset(folder).views) == ["a", "b"]
    (folder / "c.CSV.gz").write_bytes(b"")
    with pytest.raises(DataError, match=r"c\.CSV\.gz is compressed: decompress it, or move it out of the folder"):
        load_views(folder)


@pytest.mark.parametrize("column", ["id", "patient", "name"])
@pytest.mark.parametrize("ids", [WELLS, [*range(N)], [f"p{i}" for i in range(N)]], ids=["wells", "numbers", "text"])
@pytest.mark.parametrize("empty", ["", " ", "NA"])
def test_an_empty_id_names_its_row(folder, column, ids, empty):
    write(folder, "a", ids, VALUES, f"{column},u,v")
    write(folder, "b", [*ids[:6], empty, *ids[7:]], VALUES, f"{column},w,x")
    with pytest.raises(DataError, match=rf"b\.csv: column '{column}' is empty in row 7 of the data: fill it in"):
        load_views(folder)


def test_an_empty_id_in_parquet_names_its_row(tmp_path):
    for ids in ([1, None, 3], [1.0, np.nan, 3.0], ["a", None, "c"]):
        parquet.write_table(arrow.table({"id": ids, "x": [1, 2, 3]}), tmp_path / "a.parquet")
        with pytest.raises(DataError, match="column 'id' is empty in row 2 of the data"):
            load_views(tmp_path)


def test_naming_one_file_of_labels_makes_no_view_of_the_others(folder):
    write(folder, "a", range(N), VALUES)
    write(folder, "labels", range(N), VALUES[:, :1], "id,fine")
    write(folder, "coarse", range(N), VALUES[:, :1] // 2, "id,group")
    data = load_dataset(folder, labels="coarse")
    assert list(data.views) == ["a"]
