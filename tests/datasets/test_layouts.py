"""The layouts that are known, each by name: what they load as, or how they fail."""

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

from tensormvc.datasets import DataError, load_views

h5py = pytest.importorskip("h5py", reason="h5py is not installed (extra 'io')")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra 'io')")

from .writers import cell, folder_of, mat, mat73, npz  # noqa: E402

N, DIMS = 30, (5, 7)
RNG = np.random.default_rng(0)
A, B = (RNG.normal(size=(N, d)) for d in DIMS)
SQUARE = RNG.normal(size=(N, N))
Y = np.repeat([0, 1, 2], N // 3)
COUNTS = [np.round(np.abs(view)).astype(np.uint8) for view in (A, B)]
SPARSE = [scipy.sparse.csc_array(np.where(view > 0.5, view, 0)) for view in (A, B)]
TEXTS = np.array(["cat", "dog", "owl"])[Y]
ONE_HOT = np.eye(3)[Y]


def record(**fields):
    return fields


def struct_array(*records):
    out = np.empty((1, len(records)), dtype=[(name, object) for name in records[0]])
    for i, fields in enumerate(records):
        for name, value in fields.items():
            out[0, i][name] = value
    return out


def csv(view, ids=None, labels=None, header=True, mark=","):
    columns = [f"f{i}" for i in range(view.shape[1])]
    rows = [[repr(float(x)) for x in row] for row in view]
    if ids is not None:
        columns = ["id", *columns]
        rows = [[str(i), *row] for i, row in zip(ids, rows, strict=True)]
    if labels is not None:
        columns = [*columns, "label"]
        rows = [[*row, str(label)] for row, label in zip(rows, labels, strict=True)]
    return "\n".join(mark.join(row) for row in ([columns] if header else []) + rows) + "\n"


IDS = [f"s{i:02d}" for i in range(N)]
BACK = list(range(N))[::-1]

# Name: what writes it, options, views expected in rows (None: A and B), labels expected.
LOADS = {
    # MATLAB, cells
    "cell data, samples in columns, truelabel in each cell": (
        mat(data=cell(A.T, B.T), truelabel=cell(Y[:, None] + 1, Y[:, None] + 1)), {}, None, Y),
    "cell X, samples in rows, Y from 1": (mat(X=cell(A, B), Y=Y[:, None] + 1), {}, None, Y),
    "cell X as a column, Y as a row from 0": (mat(X=cell(A, B, shape=(2, 1)), Y=Y), {}, None, Y),
    "cell fea, gt": (mat(fea=cell(A, B), gt=Y[:, None] + 1), {}, None, Y),
    "cell fea, gnd": (mat(fea=cell(A.T, B.T), gnd=Y + 1), {}, None, Y),
    "cell X, truth": (mat(X=cell(A.T, B.T), truth=Y[:, None]), {}, None, Y),
    "cell data, label": (mat(data=cell(A, B), label=Y), {}, None, Y),
    "cell data, labels": (mat(data=cell(A, B), labels=Y), {}, None, Y),
    "cell X, y in small letters": (mat(X=cell(A, B), y=Y), {}, None, Y),
    "names in capitals": (mat(DATA=cell(A, B), Labels=Y), {}, None, Y),
    "cell inside each cell": (mat(X=cell(cell(A), cell(B)), Y=Y), {}, None, Y),
    "cell inside one cell": (mat(X=cell(cell(A, B)), Y=cell(Y)), {}, None, Y),
    "each view another way round": (mat(X=cell(A, B.T), Y=Y), {}, None, Y),
    "cell with an empty place": (mat(X=cell(A, np.empty((0, 0)), B), Y=Y), {}, None, Y),
    "cell with the names of the views": (mat(X=cell("hog", A, "lbp", B), Y=Y), {}, None, Y),
    "cell of another name": (mat(multi_feats=cell(A, B), gt=Y), {}, None, Y),
    # MATLAB, other ways
    "numbered X1, X2": (mat(X1=A, X2=B, Y=Y), {}, None, Y),
    "numbered x_1, x_2, in the wrong order": (mat(x_2=B.T, x_1=A.T, gt=Y), {}, None, Y),
    "numbered view1, view2": (mat(view1=A, view2=B, labels=Y), {}, None, Y),
    "numbered with another name": (mat(omics1=A, omics2=B, labels=Y), {}, None, Y),
    "numbered beyond 9": (mat(**{f"X{i}": np.full((N, 2), i) + A[:, :2] for i in range(1, 12)}, Y=Y), {},
                          [np.full((N, 2), i) + A[:, :2] for i in range(1, 12)], Y),
    "matrices with names of their own": (mat(pixels=A, fourier=B, gnd=Y), {}, None, Y),
    "matrices with names of their own, and another": (mat(bbc=A.T, guardian=B.T, truth=Y, folds=np.ones((4, 9))), {},
                                                      None, Y),
    "struct with numbered views and labels": (mat(S=record(X1=A, X2=B, Y=Y)), {}, None, Y),
    "one matrix fea, gnd": (mat(fea=A, gnd=Y[:, None]), {}, [A], Y),
    "struct with a view a field": (mat(data=record(hog=A, lbp=B), gt=Y), {}, None, Y),
    "struct with views and labels": (mat(dataset=record(X=cell(A.T, B.T), Y=Y, name="toy")), {}, None, Y),
    "struct array, matrix in fea": (mat(data=struct_array(record(fea=A, name="a"), record(fea=B, name="b")), gt=Y),
                                    {}, None, Y),
    "struct array, labels in each": (mat(S=struct_array(record(X=A.T, gt=Y), record(X=B.T, gt=Y))), {}, None, Y),
    # MATLAB, types
    "sparse in columns": (mat(data=cell(SPARSE[0].T, SPARSE[1].T), truelabel=Y), {}, SPARSE, Y),
    "sparse in rows, compressed": (mat(compress=True, X=cell(*SPARSE), gt=Y), {}, SPARSE, Y),
    "unsigned bytes": (mat(X=cell(*COUNTS), Y=Y.astype(np.uint8)), {}, COUNTS, Y),
    "single": (mat(X=cell(A.astype(np.float32), B.astype(np.float32)), Y=Y.astype(np.int16)), {},
               [A.astype(np.float32), B.astype(np.float32)], Y),
    "logical": (mat(X=cell(A > 0, B > 0), Y=Y), {}, [A > 0, B > 0], Y),
    "labels that skip values, negative too": (mat(X=cell(A, B), Y=np.array([-1, 5, 70])[Y]), {}, None, Y),
    "labels one-hot in rows": (mat(X=cell(A, B), Y=ONE_HOT), {}, None, Y),
    "labels one-hot in columns": (mat(X=cell(A, B), Y=ONE_HOT.T), {}, None, Y),
    "labels as texts": (mat(X=cell(A, B), label=TEXTS.astype(object)[:, None]), {}, None, Y),
    "labels as a text matrix": (mat(X=cell(A, B), label=TEXTS), {}, None, Y),
    "labels of float type": (mat(X=cell(A, B), gt=Y.astype(float) + 1), {}, None, Y),
    "two equal labels, other numbers": (mat(X=cell(A, B), gt=Y + 1, Y=2 - Y), {}, None, Y),
    "other variables": (mat(X=cell(A, B), Y=Y, W=SQUARE, lam=0.1, name="toy", idx=np.arange(12), angle=np.arange(N),
                            opts=record(mode="x", k=3), folds=cell(np.arange(3), np.arange(4))), {}, None, Y),
    "compressed": (mat(compress=True, data=cell(A.T, B.T), truelabel=Y), {}, None, Y),
    "version 4": (mat(version="4", X1=A, X2=B, Y=Y.astype(float)), {}, None, Y),
    "version 4 sparse": (mat(version="4", X1=SPARSE[0], X2=SPARSE[1], Y=Y.astype(float)), {}, SPARSE, Y),
    "no labels, one shared length": (mat(X=cell(A.T, B.T)), {}, None, None),
    "square view, said": (mat(X=cell(A, SQUARE), Y=Y), {"samples": "rows"}, [A, SQUARE], Y),
    "square view in columns, said": (mat(X=cell(A.T, SQUARE), Y=Y), {"samples": "columns"}, [A, SQUARE.T], Y),
    "symmetric square view": (mat(X=cell(A, SQUARE + SQUARE.T), Y=Y), {}, [A, SQUARE + SQUARE.T], Y),
    "views chosen by name": (mat(P=A, Q=B, R=A[:, :3], gt=Y), {"views": ["P", "Q"]}, None, Y),
    "labels chosen by name": (mat(X=cell(A, B), gt=Y, fine=Y[::-1]), {"labels": "fine"}, None, Y[::-1]),
    "labels declined": (mat(X=cell(A, B), gt=Y), {"labels": False}, None, None),
    # MATLAB 7.3
    "7.3 cell, rows": (mat73(X=cell(A, B), Y=Y[:, None] + 1), {}, None, Y),
    "7.3 cell, columns": (mat73(data=cell(A.T, B.T), truelabel=cell(Y[:, None], Y[:, None])), {}, None, Y),
    "7.3 numbered, packed": (mat73(options={"compression": "gzip"}, X1=A, X2=B, gt=Y), {}, None, Y),
    "7.3 cell inside cells": (mat73(X=cell(cell(A), cell(B)), Y=Y), {}, None, Y),
    "7.3 struct": (mat73(data=record(hog=A, lbp=B), gt=Y), {}, None, Y),
    "7.3 struct array": (mat73(data=[record(fea=A, name="a"), record(fea=B, name="b")], gt=Y), {}, None, Y),
    "7.3 sparse": (mat73(X=cell(SPARSE[0].T, SPARSE[1].T), gt=Y), {}, SPARSE, Y),
    "7.3 bytes": (mat73(X=cell(*COUNTS), Y=Y.astype(np.uint8)), {}, COUNTS, Y),
    "7.3 labels as texts": (mat73(X=cell(A, B), label=cell(*map(str, TEXTS), shape=(N, 1))), {}, None, Y),
    "7.3 symmetric square view": (mat73(X=cell(A, SQUARE + SQUARE.T), Y=Y), {}, [A, SQUARE + SQUARE.T], Y),
    # NumPy
    "npz numbered": (npz(X1=A, X2=B, y=Y), {}, None, Y),
    "npz arr_0, arr_1 and labels as texts": (npz(arr_0=A, arr_1=B, labels=TEXTS), {}, None, Y),
    "npz view_0, view_1, n_views, labels": (npz(view_0=A, view_1=B, n_views=2, labels=Y), {}, None, Y),
    "npz in columns": (npz(X1=A.T, X2=B.T, y=Y), {}, None, Y),
    "npz without labels, equal shapes": (npz(X1=A, X2=A + 1), {}, [A, A + 1], None),
    "npz square": (npz(X1=SQUARE, X2=B, y=Y), {}, [SQUARE, B], Y),
    "npz Fortran order, single": (npz(X1=np.asfortranarray(A.astype("f4")), X2=B, y=Y), {}, [A.astype("f4"), B], Y),
    "npz big-endian": (npz(X1=A.astype(">f8"), X2=B, y=Y.astype(">i4")), {}, None, Y),
    # Tables
    "CSV by order": (folder_of(a__csv=csv(A), b__csv=csv(B)), {}, None, None),
    "CSV joined on id": (
        folder_of(a__csv=csv(A, IDS), b__csv=csv(B[BACK], [IDS[i] for i in BACK])), {}, None, None),
    "CSV labels in a file": (folder_of(a__csv=csv(A), b__csv=csv(B), labels__csv="label\n" + "\n".join(TEXTS)), {},
                             None, Y),
    "CSV labels in a file with id": (
        folder_of(a__csv=csv(A, IDS), b__csv=csv(B, IDS),
                  y__csv="id,class\n" + "\n".join(f"{IDS[i]},{Y[i]}" for i in BACK)), {}, None, Y),
    "CSV labels in a column": (folder_of(a__csv=csv(A, IDS, TEXTS), b__csv=csv(B, IDS)), {}, None, Y),
    "CSV without header": (folder_of(a__csv=csv(A, header=False), b__csv=csv(B, header=False)), {}, None, None),
    "CSV with semicolons": (folder_of(a__csv=csv(A, mark=";"), b__csv=csv(B, mark=";")), {}, None, None),
    "TSV with view2 before view10": (folder_of(view10__tsv=csv(B, mark="\t"), view2__tsv=csv(A, mark="\t")), {}, None,
                                     None),
    "CSV with the index of pandas": (folder_of(a__csv=csv(A, range(N)).replace("id,", ",", 1),
                                               b__csv=csv(B, range(N)).replace("id,", ",", 1)), {}, None, None),
    "CSV with different samples, inner": (
        folder_of(a__csv=csv(A, IDS), b__csv=csv(B[2:], IDS[2:])), {"join": "inner"}, [A[2:], B[2:]], None),
    "CSV with different samples, outer": (
        folder_of(a__csv=csv(A, IDS), b__csv=csv(B[2:], IDS[2:])), {"join": "outer"},
        [A, np.vstack([np.full((2, DIMS[1]), np.nan), B[2:]])], None),
    "CSV with a named id column": (
        folder_of(a__csv=csv(A, range(N)).replace("id,", "patient,", 1),
                  b__csv=csv(B[BACK], BACK).replace("id,", "patient,", 1)), {"on": "patient"}, None, None),
    "CSV with empty places": (folder_of(a__csv=csv(A).replace(repr(float(A[0, 0])), "", 1), b__csv=csv(B)), {},
                              [np.where(np.arange(N * DIMS[0]).reshape(A.shape) == 0, np.nan, A), B], None),
}  # fmt: skip

# Name: what writes it, options, what the message says.
FAILS = {
    "square view": (mat(X=cell(A, SQUARE), Y=Y), {}, "view 1 .*both lengths.*samples='rows' or samples='columns'"),
    "square views": (mat(X=cell(SQUARE, SQUARE + 1), Y=Y), {}, "samples='rows' or samples='columns'"),
    "7.3 square view": (mat73(X=cell(A, SQUARE), Y=Y), {}, "samples='rows' or samples='columns'"),
    "no labels, equal shapes": (mat(X=cell(A, A + 1)), {}, "no labels.*samples='rows' or samples='columns'"),
    "no labels, one matrix": (mat(X=A), {}, "no labels.*samples='rows' or samples='columns'"),
    "no shared length": (mat(X=cell(A, B[:20])), {}, "have no dimension in common"),
    "labels of another length": (mat(X=cell(A, B), Y=Y[:-1]), {}, r"'Y' \(29 values\) do not fit.*labels=False"),
    "labels that are no whole numbers": (mat(X=cell(A, B), Y=A[:, 0]), {}, "neither integers nor text.*labels=False"),
    "labels that differ between cells": (mat(X=cell(A, B), Y=cell(Y, Y[::-1])), {}, "'Y'.*labels=NAME"),
    "two different labels": (mat(X=cell(A, B), gt=Y, Y=Y % 2), {}, "'gt' and 'Y' could both be the labels.*labels="),
    "X and Y both views": (mat(X=A, Y=B, gt=Y), {}, r"views=\['X', 'Y'\]"),
    "two cells of unknown names": (mat(P=cell(A, B), Q=cell(A, A), gt=Y), {}, r"'P' and 'Q'.*views=\[name\]"),
    "no numbers": (mat(name="toy", author="somebody"), {}, r"no views.*views=\[names\].*it holds name: text"),
    "only labels": (mat(Y=Y), {}, r"no views were found.*Y: \(1, 30\)"),
    "complex": (mat(X1=A + 1j, X2=B + 1j, Y=Y), {}, r"no views were found.*\(30, 5\) complex"),
    "views named that are not there": (mat(X=cell(A, B)), {"views": ["Z"]},
                                       "'Z', which is not in the file; it holds X: "),
    "labels named that are not there": (mat(X=cell(A, B)), {"labels": "Z"},
                                        "labels='Z' is not in the file; it holds X: "),
    "samples said wrongly": (mat(X=cell(A.T, B.T), Y=Y), {"samples": "rows"}, r"samples='rows'.*\(5, 30\), \(7, 30\)"),
    "npz with pickled cells": (npz(X=cell(A, B), y=Y), {}, "pickled objects, which are never loaded"),
    "npz of three dimensions": (npz(X=np.ones((2, N, 4)), y=Y), {}, r"no views.*X: \(2, 30, 4\)"),
    "CSV with different lengths": (folder_of(a__csv=csv(A), b__csv=csv(B[1:])), {},
                                   r"different numbers of rows.*a.csv: \(30, 5\).*b.csv: \(29, 7\).*on=NAME"),
    "CSV with different samples": (folder_of(a__csv=csv(A, IDS), b__csv=csv(B[2:], IDS[2:])), {},
                                   "2 .such as 's00'. are only in the first.*join='inner'.*join='outer'"),
    "CSV with an id twice": (folder_of(a__csv=csv(A, IDS[:-1] + IDS[:1]), b__csv=csv(B, IDS)), {},
                             "'s00' more than once"),
    "CSV with a column of text": (folder_of(a__csv=csv(A, IDS, TEXTS).replace("label", "animal")), {},
                                  "column 'animal' is string, not numbers.*labels='animal'"),
    "CSV and Parquet of one name": (folder_of(a__csv=csv(A), a__tsv=csv(A)), {}, "'a' is there twice"),
    "folder without tables": (folder_of(readme__txt="hello"), {}, "without CSV or Parquet files .it holds readme.txt"),
    "empty folder": (folder_of(), {}, "without CSV or Parquet files .it holds nothing"),
    "only a label file": (folder_of(labels__csv="label\n1\n2\n"), {}, "no views, only the labels"),
}  # fmt: skip


def dense(view):
    return view.toarray() if scipy.sparse.issparse(view) else np.asarray(view)


def test_the_table_is_long_enough():
    assert len(LOADS) + len(FAILS) >= 30


@pytest.mark.parametrize("name", LOADS)
def test_layout_loads(name, tmp_path):
    write, options, expected, labels = LOADS[name]
    expected = [A, B] if expected is None else expected
    views, y = load_views(write(tmp_path), **options)
    assert [view.shape for view in views] == [view.shape for view in expected]
    for view, wanted in zip(views, expected, strict=True):
        np.testing.assert_array_equal(dense(view), dense(wanted))
        assert scipy.sparse.issparse(view) == scipy.sparse.issparse(wanted)
        if scipy.sparse.issparse(view):
            assert view.format == "csr"
        else:
            assert view.flags.c_contiguous
            assert view.flags.writeable
            assert view.dtype.isnative
            if "logical" not in name:
                assert view.dtype == np.asarray(wanted).dtype
    if labels is None:
        assert y is None
    else:
        assert y.dtype == np.intp
        np.testing.assert_array_equal(y, labels)


@pytest.mark.parametrize("name", FAILS)
def test_layout_fails_with_its_message(name, tmp_path):
    write, options, message = FAILS[name]
    path = write(tmp_path)
    with pytest.raises(DataError, match=re.compile(message, re.DOTALL)) as caught:
        load_views(path, **options)
    assert Path(path).name in str(caught.value)


def test_error_lists_variables_and_shapes(tmp_path):
    path = mat(X=cell(A, B), Y=Y[:-1], note="hello")(tmp_path)
    with pytest.raises(DataError) as caught:
        load_views(path)
    for part in (str(path), "(30, 5) float64", "(30, 7) float64", "Y: (1, 29) int64", "note: text"):
        assert part in str(caught.value)


def test_big_endian_matlab_file(tmp_path):
    """Written by hand: scipy writes only the order of the machine."""
    import struct

    def element(kind, content):
        return struct.pack(">II", kind, len(content)) + content + b"\0" * (-len(content) % 8)

    def matrix(name, values):
        body = element(6, struct.pack(">II", 6, 0)) + element(5, struct.pack(">ii", *values.shape))
        body += element(1, name.encode()) + element(9, values.astype(">f8").tobytes(order="F"))
        return element(14, body)

    path = tmp_path / "big.mat"
    header = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack(">H", 0x0100) + b"MI"
    path.write_bytes(header + matrix("X1", A) + matrix("X2", B) + matrix("Y", Y[:, None].astype(float)))
    views, y = load_views(path)
    np.testing.assert_array_equal(views[0], A)
    np.testing.assert_array_equal(views[1], B)
    np.testing.assert_array_equal(y, Y)


@pytest.mark.parametrize(
    ("name", "n", "dims", "n_classes"),
    [
        ("MSRCv1", 210, (24, 576, 512, 256, 254), 7),
        ("NGs", 500, (2000, 2000, 2000), 5),
        ("BBCSport", 544, (3183, 3203), 5),
        ("CCV", 6773, (20, 20, 20), 20),
        ("Caltech101-20_recomputed", 2386, (48, 40, 254, 1984, 512, 928), 20),
        ("ALOI-100_recomputed", 7200, (77, 13, 64, 125), 100),
        ("Handwritten", 2000, (216, 76, 64, 6, 240, 47), 10),
        ("100leaves", 1600, (64, 64, 64), 100),
        ("Hdigit", 10000, (784, 256), 10),
        ("MNIST70k", 70000, (32, 32, 32, 32), 10),
    ],
)
def test_benchmark_file(shared, name, n, dims, n_classes):
    path = shared / "data" / f"{name}.mat"
    if not path.exists():
        pytest.skip(f"no benchmark file {path}")
    views, y = load_views(path)
    assert [view.shape for view in views] == [(n, d) for d in dims]
    assert y.shape == (n,)
    np.testing.assert_array_equal(np.unique(y), np.arange(n_classes))
    import scipy.io

    stored = scipy.io.loadmat(path, mat_dtype=True)
    for view, wanted in zip(views, stored.get("data", stored.get("X")).ravel(), strict=True):
        wanted = dense(wanted)
        np.testing.assert_array_equal(dense(view), wanted if len(wanted) == n else wanted.T)
        assert scipy.sparse.issparse(view) or view.dtype == wanted.dtype
