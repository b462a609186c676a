import os
import re

import numpy as np
import pytest
import scipy.sparse

from tensormvc.datasets import DataError, load_digits_views, load_views, save_views
from tensormvc.datasets import _save as save

pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra 'io')")

ENDINGS = [".npz", ".mat", ".parquet", ""]
RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(40, 6)), RNG.normal(size=(40, 6))
Y = np.repeat([0, 1, 2, 3], 10)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i1", "u2", "i8", ">f8"])
def test_round_trip(ending, dtype, tmp_path):
    views = [(10 * A).astype(dtype), (10 * B[:, :2]).astype(dtype)]
    save_views(tmp_path / f"data{ending}", views, Y)
    again, y = load_views(tmp_path / f"data{ending}")
    for view, wanted in zip(again, views, strict=True):
        np.testing.assert_array_equal(view, wanted)
        assert view.dtype == wanted.dtype.newbyteorder("=")
    np.testing.assert_array_equal(y, Y)


@pytest.mark.parametrize("ending", ENDINGS)
def test_round_trip_where_the_lengths_do_not_tell(ending, tmp_path):
    """Without labels, equal shapes, square: the file says where the samples are."""
    views = [A[:6], B[:6]]
    save_views(tmp_path / f"data{ending}", views)
    again, y = load_views(tmp_path / f"data{ending}")
    assert y is None
    np.testing.assert_array_equal(again, views)
    save_views(tmp_path / f"one{ending}", [A])
    np.testing.assert_array_equal(load_views(tmp_path / f"one{ending}")[0][0], A)


@pytest.mark.parametrize("ending", ENDINGS)
def test_round_trip_of_sparse_views_and_texts(ending, tmp_path):
    views = [scipy.sparse.csr_array(np.where(A > 1, A, 0)), scipy.sparse.coo_array(np.where(B > 1, 1.0, 0))]
    save_views(tmp_path / f"data{ending}", {"a": views[0], "b": views[1]}, np.array(["x", "yy", "zzz", "ä"])[Y])
    again, y = load_views(tmp_path / f"data{ending}")
    for view, wanted in zip(again, views, strict=True):
        if ending in (".npz", ".mat"):
            assert view.format == "csr"
            view = view.toarray()
        np.testing.assert_array_equal(view, wanted.toarray())
    np.testing.assert_array_equal(y, Y)


def test_more_than_nine_views_keep_their_order(tmp_path):
    views = [np.full((4, 2), float(i)) for i in range(12)]
    for ending in ENDINGS:
        save_views(tmp_path / f"data{ending}", views, [0, 0, 1, 1])
        np.testing.assert_array_equal(load_views(tmp_path / f"data{ending}")[0], views)


def test_data_frames(tmp_path):
    pandas = pytest.importorskip("pandas")
    save_views(tmp_path / "data.npz", [pandas.DataFrame(A)], pandas.Series(Y))
    views, y = load_views(tmp_path / "data.npz")
    np.testing.assert_array_equal(views[0], A)
    np.testing.assert_array_equal(y, Y)


def test_views_on_disk_are_converted(tmp_path):
    save_views(tmp_path / "folder", [A, B], Y)
    views, y = load_views(tmp_path / "folder", lazy=True)
    for ending in ENDINGS:
        save_views(tmp_path / f"data{ending}", views, y)
        np.testing.assert_array_equal(load_views(tmp_path / f"data{ending}")[0], [A, B])


@pytest.mark.parametrize("ending", ENDINGS)
def test_nothing_is_overwritten_unasked(ending, tmp_path):
    path = tmp_path / f"data{ending}"
    save_views(path, [A, B], Y)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        save_views(path, [B])
    np.testing.assert_array_equal(load_views(path)[0], [A, B])
    save_views(path, [B], overwrite=True)
    views, y = load_views(path)
    assert y is None
    np.testing.assert_array_equal(views, [B])
    assert os.listdir(tmp_path) == [path.name]


def test_a_folder_with_other_files_is_never_replaced(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "thesis.txt").write_text("precious")
    with pytest.raises(FileExistsError, match=r"thesis\.txt"):
        save_views(tmp_path / "data", [A], overwrite=True)
    assert (tmp_path / "data" / "thesis.txt").exists()
    with pytest.raises(FileExistsError):
        save_views(tmp_path, [A], overwrite=True)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_failure_leaves_what_was_there(ending, tmp_path, monkeypatch):
    path = tmp_path / f"data{ending}"
    save_views(path, [A], Y)

    def fail(place, views, y):
        if place.is_dir():
            (place / "view_1.parquet").write_bytes(b"half")
        else:
            place.write_bytes(b"half")
        raise KeyboardInterrupt

    for name in ("_write_npz", "_write_mat", "_write_parquet"):
        monkeypatch.setattr(save, name, fail)
    with pytest.raises(KeyboardInterrupt):
        save_views(path, [B], overwrite=True)
    monkeypatch.undo()
    np.testing.assert_array_equal(load_views(path)[0], [A])
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("data.csv", [A]), "the ending must be"),
        (("data.npz", [A, B[:3]]), "same number of samples"),
        (("data.npz", [A], Y[:3]), "same number of samples"),
        (("data.npz", [A], Y[:, None]), "y must be a vector"),
        (("data.npz", []), "no views"),
        (("data.npz", [A * 1j]), "real numbers"),
    ],
)
def test_wrong_arguments(arguments, message, tmp_path):
    with pytest.raises(ValueError, match=re.escape(message)):
        save_views(tmp_path / arguments[0], *arguments[1:])
    assert not os.listdir(tmp_path)


def test_too_large_for_matlab(tmp_path, monkeypatch):
    monkeypatch.setattr(save, "_MAT_BYTES", 100)
    with pytest.raises(DataError, match="folder of Parquet files"):
        save_views(tmp_path / "data.mat", [A])
    assert not os.listdir(tmp_path)


def test_matlab_file_reads_elsewhere(tmp_path):
    import scipy.io

    views, y = load_digits_views(30)
    save_views(tmp_path / "digits.mat", views, y)
    content = scipy.io.loadmat(tmp_path / "digits.mat")
    np.testing.assert_array_equal(content["X"][0, 2], views[2])
    np.testing.assert_array_equal(content["Y"].ravel(), y)
