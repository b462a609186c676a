"""Damaged and hostile files: the library's own error, no crash, no allocation."""

import io
import os
import pickle
import struct
import subprocess
import sys
import tempfile
import tracemalloc
import zipfile
import zlib
from functools import reduce
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from tensormvc.datasets import DataError, RowSource, load_views
from tensormvc.datasets import _errors as errors
from tensormvc.datasets import _load as load

h5py = pytest.importorskip("h5py", reason="h5py is not installed (extra 'io')")
pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra 'io')")

from .writers import cell, mat, mat73, npz  # noqa: E402

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(60, 5)), RNG.normal(size=(60, 8))
Y = np.repeat([1, 2, 3], 20)


def parquet(folder):
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {f"f{i}": A[:, i] for i in range(5)} | {"k": np.arange(60), "e": pa.array(B.tolist())}
    table = pa.table({"id": [f"s{i}" for i in range(60)], **columns, "label": Y})
    pq.write_table(table, folder / "data.parquet", row_group_size=25)
    return folder / "data.parquet"


def h5mu(folder):
    path = folder / "data.h5mu"
    with h5py.File(path, "w") as file:
        for name, view in (("rna", A), ("atac", B)):
            group = file.create_group(f"mod/{name}")
            group["X"] = view
            group["obs/_index"] = [f"s{i}" for i in range(60)]
            group["obs"].attrs["_index"] = "_index"
        file["obs/_index"] = [f"s{i}" for i in range(60)]
        file["obs"].attrs["_index"] = "_index"
        file["obs/cell_type/codes"] = Y - 1
        file["obs/cell_type/categories"] = ["a", "b", "c"]
    return path


FILES = {
    "version 5": mat(X=cell(A, B), Y=Y, note="hello", opts={"k": 3, "mode": "x"}),
    "version 5 compressed": mat(compress=True, X=cell(A, B), Y=Y),
    "version 5 sparse": mat(X=cell(*(scipy.sparse.csc_array(np.where(v > 1, v, 0)) for v in (A, B))), Y=Y),
    "version 4": mat(version="4", X1=A, X2=B, Y=Y.astype(float)),
    "version 7.3": mat73(X=cell(A, B), Y=Y),
    "version 7.3 packed": mat73(options={"compression": "gzip"}, X=cell(A, B), Y=Y),
    "npz": npz(X1=A, X2=B, y=Y),
    "Parquet": parquet,
    "MuData": h5mu,
}


def load_all(path):
    """Load, and read what is lazy."""
    views, y = load_views(path)
    for view in views:
        if isinstance(view, RowSource):
            np.asarray(view)
    return views, y


@pytest.fixture
def peak():
    """Call something that must fail with a `DataError`; return the most memory it took."""

    def measure(path):
        tracemalloc.start()
        try:
            with pytest.raises(DataError) as caught:
                load_all(path)
            return tracemalloc.get_traced_memory()[1], str(caught.value)
        finally:
            tracemalloc.stop()

    return measure


# ---------------------------------------------------------------------------------------------------------------------
# Damage


@pytest.mark.parametrize("name", FILES)
def test_truncated(name, tmp_path):
    path = FILES[name](tmp_path)
    content = path.read_bytes()
    for length in sorted({0, 1, 4, 19, 100, 127, 128, 130, 136, len(content) // 2, len(content) - 9}):
        path.write_bytes(content[:length])
        with pytest.raises(DataError, match=path.name):
            load_all(path)


@pytest.mark.parametrize("ending", [".mat", ".npz", ".h5mu", ".h5ad", ".h5", ".parquet"])
@pytest.mark.parametrize(
    "content",
    [b"", b"\0", b"hello, this is no data\n" * 20, b"PK\x03\x04" + b"\0" * 200, b"\x89HDF\r\n\x1a\n" + b"\0" * 600],
    ids=["empty", "one byte", "text", "zip signature", "HDF5 signature"],
)
def test_not_what_the_name_says(ending, content, tmp_path):
    path = tmp_path / f"data{ending}"
    path.write_bytes(content)
    with pytest.raises(DataError, match=f"data{ending}: "):
        load_views(path)


def test_loadmat_alone_would_crash():
    """The reason for the walk over the tags before `scipy.io.loadmat`."""
    code = f"import io, scipy.io; scipy.io.loadmat(io.BytesIO({FALSE_SIZES['element of an unknown type']!r}))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode < 0


def test_sparse_array_whose_last_start_is_zero(tmp_path):
    """SciPy's own full check passes it, and its conversion writes out of bounds."""
    starts = struct.pack("<4i", 0, 2**30, 2**30, 0)
    parts = (element(5, b"\0" * 8), element(5, starts), element(9, b"\0" * 16))
    (tmp_path / "data.mat").write_bytes(mat5(matrix(5, (60, 3), *parts)))
    with pytest.raises(DataError, match="damaged row or column starts"):
        load_views(tmp_path / "data.mat")


def test_zip_without_arrays(tmp_path):
    with zipfile.ZipFile(tmp_path / "data.npz", "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(DataError, match=r"without \.npy"):
        load_views(tmp_path / "data.npz")


@pytest.mark.parametrize("ending", [".mat", ".npz", ".h5mu", ""])
def test_path_that_is_a_folder(ending, tmp_path):
    (tmp_path / f"data{ending}").mkdir()
    with pytest.raises(DataError, match="folder without CSV or Parquet"):
        load_views(tmp_path / f"data{ending}")


@pytest.mark.parametrize("path", ["missing.mat", "missing", "file.txt/inside.mat", "n" * 5000, "nul\0.mat"])
def test_missing_and_impossible_paths(path, tmp_path):
    (tmp_path / "file.txt").write_text("hello")
    with pytest.raises(DataError):
        load_views(str(tmp_path / path))


def test_missing_file_is_also_a_file_not_found_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file or folder") as caught:
        load_views(tmp_path / "missing.mat")
    restored = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(restored, DataError)
    assert str(restored) == str(caught.value)
    assert isinstance(type(restored).__new__(type(restored)), DataError)


def test_unknown_ending(tmp_path):
    (tmp_path / "data.xyz").write_bytes(b"something")
    with pytest.raises(DataError, match=r"'\.xyz' cannot be read; readable are \.mat, \.npz"):
        load_views(tmp_path / "data.xyz")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "data.mat")
    with pytest.raises(DataError, match="neither a file nor a folder"):
        load_views(tmp_path / "data.mat")


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_no_permission():
    """As an ordinary user: root may read everything."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for ending in ("mat", "npz", "h5mu", "parquet"):
            (folder / f"data.{ending}").write_bytes(b"hello")
            (folder / f"data.{ending}").chmod(0)
        (folder / "closed").mkdir()
        (folder / "closed" / "a.csv").write_text("1,2\n3,4\n")
        (folder / "closed").chmod(0)
        (folder / "open.csv").write_text("1,2\n3,4\n")
        # Modules that are imported late may not be readable for the other user either.
        code = f"""
import os, h5py, pyarrow.parquet
from tensormvc.datasets import load_views, DataError
load_views({str(folder)!r} + "/open.csv")
if os.getuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
for name in ("data.mat", "data.npz", "data.h5mu", "data.parquet", "closed", "closed/a.csv"):
    try:
        load_views({str(folder)!r} + "/" + name)
    except DataError as error:
        print(error)
"""
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        (folder / "closed").chmod(0o755)
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == 6, result.stdout
    assert all("no permission to read" in line for line in lines), result.stdout


# ---------------------------------------------------------------------------------------------------------------------
# False sizes


def element(kind, content, size=None):
    return struct.pack("<II", kind, len(content) if size is None else size) + content + b"\0" * (-len(content) % 8)


def mat5(*elements):
    return b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x0100) + b"IM" + b"".join(elements)


def matrix(kind, shape, *parts, name=b"X"):
    head = element(6, struct.pack("<II", kind, 0)) + element(5, struct.pack(f"<{len(shape)}i", *shape))
    return element(14, head + element(1, name) + b"".join(parts))


def compressed(content, declared=None):
    if declared is not None:
        content = content[:4] + struct.pack("<I", declared) + content[8:]
    packed = zlib.compress(content)
    return struct.pack("<II", 15, len(packed)) + packed


HUGE = 2**31 - 1
FALSE_SIZES = {
    "numbers": mat5(matrix(6, (HUGE, HUGE), element(9, b"\0" * 64))),
    "numbers whose product overflows": mat5(matrix(6, (2**16, 2**16, 2**16, 2**16), element(9, b"\0" * 64))),
    "negative": mat5(matrix(6, (-1, 8), element(9, b"\0" * 64))),
    "element": mat5(element(14, b"\0" * 64, size=2**32 - 8)),
    "compressed": mat5(compressed(matrix(6, (HUGE, 1), element(9, b"\0" * 64)), declared=2**32 - 1)),
    "compressed numbers": mat5(compressed(matrix(6, (HUGE, HUGE), element(9, b"\0" * 64)))),
    "cells": mat5(matrix(1, (HUGE, HUGE))),
    "structs": mat5(matrix(2, (HUGE, HUGE), element(5, struct.pack("<i", 8)), element(1, b"field\0\0\0"))),
    "structs without fields": mat5(matrix(2, (HUGE, 1), element(5, struct.pack("<i", 8)), element(1, b""))),
    "sparse": mat5(matrix(5, (HUGE, HUGE), element(5, b"\0" * 8), element(5, b"\0" * 8), element(9, b"\0" * 8))),
    "sparse rows": mat5(matrix(5, (HUGE, 1), element(5, b"\0" * 8), element(5, struct.pack("<2i", 0, 2)),
                               element(9, b"\0" * 16)), matrix(6, (3, 1), element(9, b"\0" * 24), name=b"Y")),
    "element of an unknown type": mat5(matrix(6, (2, 4), element(200, b"\0" * 64))),
    "text without characters": mat5(matrix(4, (HUGE, 4), element(4, b""))),
    "text": mat5(matrix(4, (HUGE, HUGE), element(4, b"\0" * 8))),
    "version 4": struct.pack("<5i", 0, HUGE, HUGE, 0, 2) + b"X\0" + b"\0" * 64,
    "version 4 name": struct.pack("<5i", 0, 2, 2, 0, HUGE) + b"X\0" + b"\0" * 64,
    "version 4 sparse": struct.pack("<5i", 2, 1, 3, 0, 2) + b"X\0" + struct.pack("<3d", 1e300, 1e300, 0),
    "nested": mat5(reduce(lambda inner, _: matrix(1, (1, 1), inner), range(30_000), b"")),
}  # fmt: skip


@pytest.mark.parametrize("name", FALSE_SIZES)
def test_false_sizes_in_matlab_files(name, tmp_path, peak):
    path = tmp_path / "data.mat"
    path.write_bytes(FALSE_SIZES[name])
    memory, message = peak(path)
    assert memory < 4e6
    assert str(path) in message


def test_compression_bomb(tmp_path, peak, monkeypatch):
    """Really so large: refused by the stated limit, half of the available memory."""
    path = tmp_path / "data.mat"
    path.write_bytes(mat5(compressed(matrix(6, (2**20, 4), element(9, b"\0" * 2**25)))))
    monkeypatch.setattr(errors, "available_memory", lambda: 2**25)
    memory, message = peak(path)
    assert memory < 4e6
    assert "half of the available memory" in message


def test_compressed_data_that_are_longer_than_declared(tmp_path, peak):
    content = matrix(6, (2, 4), element(9, b"\0" * 64))
    path = tmp_path / "data.mat"
    path.write_bytes(mat5(compressed(content + b"\0" * 2**25, declared=len(content) - 8)))
    memory, message = peak(path)
    assert memory < 4e6
    assert "longer than it declares" in message


def npy_header(shape, kind="<f8"):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": kind, "fortran_order": False, "shape": shape})
    return stream.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        npy_header((10**9, 10**9)) + b"\0" * 64,
        npy_header((-1, 8)) + b"\0" * 64,
        npy_header((8,)) + b"\0" * 63,
        npy_header((10**12,), "|S0"),
        npy_header((2, 2), "|V8") + b"\0" * 32,
        b"\x93NUMPY\x01\x00\xff\x7f" + b"(" * 9000,
        b"\x93NUMPY\x07\x00" + b"\0" * 100,
    ],
    ids=["huge", "negative", "cut off", "no width", "void", "brackets", "version"],
)
def test_false_sizes_in_npz(content, tmp_path, peak):
    path = tmp_path / "data.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", content)
    memory, _ = peak(path)
    assert memory < 4e6


def test_npz_bomb(tmp_path, peak, monkeypatch):
    path = tmp_path / "data.npz"
    np.savez_compressed(path, X1=np.zeros((2**20, 4)))
    monkeypatch.setattr(errors, "available_memory", lambda: 2**25)
    memory, message = peak(path)
    assert memory < 4e6
    assert "half of the available memory" in message


def test_false_sizes_in_hdf5(tmp_path, peak):
    path = tmp_path / "data.mat"
    with h5py.File(path, "w") as file:
        file.create_dataset("X1", (10**7, 10**7), dtype="f8", chunks=(100, 100))
        file.create_dataset("Y", (10**7,), dtype="i4", chunks=(100,))
    memory, message = peak(path)
    assert memory < 4e6
    assert "impossible for a file of" in message


def test_hdf5_does_not_leave_the_file(tmp_path):
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["X1"], file["X2"], file["y"] = A, B, Y
    with h5py.File(tmp_path / "data.h5", "w") as file:
        for name in ("X1", "X2", "y"):
            file[name] = h5py.ExternalLink("secret.h5", f"/{name}")
        file["soft"] = h5py.SoftLink("/soft")
    with pytest.raises(DataError, match="no views were found"):
        load_views(tmp_path / "data.h5")
    layout = h5py.VirtualLayout((60, 5), dtype="f8")
    layout[...] = h5py.VirtualSource(tmp_path / "secret.h5", "X1", (60, 5))
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        file.create_virtual_dataset("X1", layout)
    with pytest.raises(DataError, match="stored in other files"):
        load_views(tmp_path / "virtual.h5")
    with h5py.File(tmp_path / "raw.h5", "w") as file:
        file.create_dataset("X1", (60, 5), dtype="f8", external=[(str(tmp_path / "secret.h5"), 0, h5py.h5f.UNLIMITED)])
    with pytest.raises(DataError, match="stored in other files"):
        load_views(tmp_path / "raw.h5")


def test_hdf5_cells_that_hold_themselves(tmp_path):
    with h5py.File(tmp_path / "data.mat", "w") as file:
        refs = file.create_dataset("X", (2, 1), dtype=h5py.ref_dtype)
        refs.attrs["MATLAB_class"] = np.bytes_("cell")
        refs[...] = np.array([[refs.ref], [refs.ref]], dtype=h5py.ref_dtype)
    with pytest.raises(DataError, match=r"nested more than|more than .* cells"):
        load_views(tmp_path / "data.mat")


class Canary:
    def __reduce__(self):
        return os.mkdir, ("canary",)


def test_nothing_is_unpickled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cargo = np.array([Canary(), A], dtype=object)
    np.savez("objects.npz", X=cargo, y=Y)
    with zipfile.ZipFile("plain.npz", "w") as archive:
        archive.writestr("X.npy", pickle.dumps(Canary()))
    Path("pickle.npz").write_bytes(pickle.dumps(Canary()))
    Path("pickle.mat").write_bytes(pickle.dumps(Canary()))
    for path in Path().iterdir():
        with pytest.raises(DataError):
            load_views(path)
    assert not Path("canary").exists()
    np.savez("both.npz", X1=A, X2=B, y=Y, notes=cargo)
    assert len(load_views("both.npz")[0]) == 2
    assert not Path("canary").exists()


# ---------------------------------------------------------------------------------------------------------------------
# What is no fault of the file


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
def test_other_errors_are_not_hidden(error, tmp_path, monkeypatch):
    def fail(raw):
        raise error

    monkeypatch.setattr(load, "read_mat", fail)
    with pytest.raises(error):
        load_views(mat(X=cell(A, B), Y=Y)(tmp_path))


@pytest.mark.parametrize(("name", "module"), [("version 7.3", "h5py"), ("MuData", "h5py"), ("Parquet", "pyarrow")])
def test_missing_extra_says_how_to_install_it(name, module, tmp_path, monkeypatch):
    path = FILES[name](tmp_path)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"pip install 'tensormvc\[io\]'"):
        load_views(path)


# ---------------------------------------------------------------------------------------------------------------------
# Bit flips


def fuzz(path, n_files, seed=0):
    """Flip bits, half of the time near the start or the end, where the structure is; nothing but `DataError` comes."""
    original = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    rng = np.random.default_rng(seed)
    refused = 0
    for _ in range(n_files):
        content = original.copy()
        n_flips = rng.integers(1, 9)
        places = rng.integers(0, rng.choice([len(content), min(2048, len(content))]), n_flips)
        if rng.random() < 0.3:
            places = len(content) - 1 - places
        content[places] ^= (1 << rng.integers(0, 8, n_flips)).astype(np.uint8)
        path.write_bytes(content.tobytes())
        try:
            load_all(path)
        except DataError:
            refused += 1
    return refused


@pytest.mark.parametrize("name", FILES)
def test_fuzz(name, tmp_path):
    assert fuzz(FILES[name](tmp_path), 60) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_fuzz_long(name, tmp_path):
    assert fuzz(FILES[name](tmp_path), 2000, seed=1) > 0


@pytest.mark.parametrize("n_files", [12, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["MSRCv1", "NGs", "BBCSport", "100leaves", "ALOI-100_recomputed"])
def test_fuzz_benchmark_file(shared, name, n_files, tmp_path):
    source = shared / "data" / f"{name}.mat"
    if not source.exists():
        pytest.skip(f"no benchmark file {source}")
    (tmp_path / "data.mat").write_bytes(source.read_bytes())
    assert fuzz(tmp_path / "data.mat", n_files) > 0


@pytest.mark.parametrize("n_files", [20, pytest.param(400, marks=pytest.mark.slow)])
def test_fuzz_benchmark_file_decompressed(shared, n_files, tmp_path):
    """Without the checksums of the compression, flipped bits reach the reader."""
    source = shared / "data" / "MSRCv1.mat"
    if not source.exists():
        pytest.skip(f"no benchmark file {source}")
    stored = {name: value for name, value in scipy.io.loadmat(source).items() if name[:1] != "_"}
    scipy.io.savemat(tmp_path / "data.mat", stored)
    fuzz(tmp_path / "data.mat", n_files)
