"""What goes wrong ends with the documented code and one message, and leaves nothing half done behind."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import tensormvc as tm
from tensormvc.cli import app

from .conftest import ENVIRONMENT, command

CliRunner = pytest.importorskip("typer.testing").CliRunner


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cluster", "digits.npz", "-o", "l.csv", "--basis", "gft"], "only --method auto estimates it"),
        (["audit", "digits.npz", "--method", "gmc"], "Known classes in the file are never used"),
        (["cluster", "digits.npz", "-k", "3", "-o", "l.csv", "--method", "auto", "--basis", "fft"], "uses no basis"),
        (["cluster", "digits.npz", "-k", "3"], "-o labels.csv"),
        (["cluster", "digits.npz", "-k", "0", "-o", "l.csv"], "Invalid value for '-k'"),
        (["cluster", "digits.npz", "-k", "3", "-o", "l.docx"], "labels can be written to .csv"),
        (["cluster", "digits.npz", "-k", "3", "-o", "l.h5mu"], "is a copy of the input"),
        (["cluster", "digits.npz", "-k", "3", "-o", "-", "--json"], "would both write to standard output"),
        (["cluster", "digits.npz", "-k", "3", "-o", "l.csv", "--method", "gmc", "--basis", "fft"], "uses no basis"),
        (
            ["cluster", "digits.npz", "-k", "3", "-o", "l.csv", "--param", "lambda=1"],
            "ESTMC has alpha, device, max_iter",
        ),
        (["cluster", "digits.npz", "-k", "3", "-o", "l.csv", "--param", "alpha"], "expected NAME=VALUE"),
        (["cluster", "digits.npz", "-k", "3", "-o", "l.csv", "--param", "alpha=-1"], "'alpha' parameter"),
        (["cluster", "digits.npz", "-k", "3", "-o", "l.csv", "--param", "penalty=none"], "penalty"),
        (["cluster", "digits.npz", "-k", "3", "-o", "l.csv", "--param", "n_clusters=4"], "the option -k"),
        (["cluster", "digits.npz", "-k", "3", "-o", "l.csv", "--orders", "3"], "--orders requires --report"),
        (["cluster", "digits.npz", "-k", "3", "-o", "l.csv", "--labels", "y", "--no-labels"], "exclude each other"),
        (["cluster", "digits.npz", "-k", "3", "-o", "l.csv", "--column", "runner_up"], "is another column"),
        (["cluster", "digits.npz", "-o", "l.csv", "--view-weights", "view 0"], "expected NAME=NUMBER"),
        (
            ["cluster", "digits.npz", "-k", "3", "-o", "l.csv", "-m", "gmc", "--view-weights", "a=1"],
            "no weights of views",
        ),
        (["cluster", "digits.npz", "-k", "3", "-o", "l.csv", "--save", "digits.npz", "--force"], "is the input"),
        (["convert", "digits.npz", "out.csv"], "the ending must be"),
        (["convert", "digits.npz", "digits.npz", "--force"], "digits.npz is the input"),
        (["cluster", "digits.npz", "-k", "3", "-o", "l.csv", "--column", "sample"], "holds the sample ids"),
        (["cluster", "digits.npz", "-k", "3", "-o", "-", "--column", "sample"], "holds the sample ids"),
        (["audit", "digits.npz", "-k", "3", "--plot", "a.csv"], "the file must end in one of"),
        (["audit", "digits.npz", "-k", "3", "--jobs", "0"], "--jobs 0"),
        (["frobnicate"], "No such command"),
    ],
)
def test_wrong_usage(arguments, message, digits, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(app, arguments)
    assert ended.exit_code == 2
    assert message in " ".join(ended.output.replace("│", "").split())
    assert os.listdir(tmp_path) == [digits]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audit", "digits.npz", "--param", "alpha=1"], "-k N"),
        (["cluster", "-k", "x"], "Invalid value for '-k'"),
        ([], ""),
    ],
)
def test_wrong_usage_of_the_program(arguments, message, run_program, digits, tmp_path):
    ended = run_program(*arguments)
    assert ended.code == 2
    assert message in ended.err
    assert "Traceback" not in ended.err
    assert os.listdir(tmp_path) == [digits]


def damaged(path):
    """Files that hold no views, by name."""
    whole = path.read_bytes()
    (path.parent / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (path.parent / "flipped.npz").write_bytes(whole[:500] + bytes(byte ^ 255 for byte in whole[500:600]) + whole[600:])
    (path.parent / "noise.mat").write_bytes(np.random.default_rng(0).bytes(5000))
    (path.parent / "empty.h5mu").write_bytes(b"")
    views, _ = tm.datasets.load_views(path)
    views[1][3, 4] = np.inf
    np.savez(path.parent / "infinite.npz", X1=views[0], X2=views[1])
    np.savez(path.parent / "square.npz", y=np.arange(5), A=np.ones((3, 4)), B=np.ones((7, 8)))


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("cut.npz", "cut.npz: the file is damaged"),
        ("flipped.npz", "flipped.npz: "),
        ("noise.mat", "noise.mat: this is not a MATLAB file"),
        ("empty.h5mu", "empty.h5mu: it is empty"),
        ("infinite.npz", "view 1"),
        ("square.npz", "Say how to read the file with --views"),
        ("nowhere.mat", "nowhere.mat: no such file or folder"),
    ],
)
def test_bad_data(file, message, digits, tmp_path, monkeypatch):
    damaged(tmp_path / digits)
    before = sorted(os.listdir(tmp_path))
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(app, ["cluster", file, "-k", "3", "-o", "labels.csv", "--json"])
    assert ended.exit_code == 3
    assert ended.output.startswith("error: ")
    assert message in ended.output
    assert sorted(os.listdir(tmp_path)) == before


def test_bad_data_for_the_program(run_program, digits, tmp_path):
    damaged(tmp_path / digits)
    ended = run_program("cluster", "cut.npz", "-k", 3, "-o", "labels.csv", "--json")
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("error: cut.npz: the file is damaged")
    assert len(ended.err.splitlines()) == 1
    assert not (tmp_path / "labels.csv").exists()


def test_more_clusters_than_samples(run, digits):
    ended = run("cluster", digits, "-k", 101, "-o", "labels.csv")
    assert ended.code == 3
    assert "n_clusters=101 is more than n_samples=100" in ended.err


@pytest.mark.parametrize("arguments", [["cluster", "-k", "3", "-o", "there.csv"], ["convert", "there.npz"]])
def test_existing_output_is_kept_without_force(arguments, run, digits, tmp_path):
    target = tmp_path / next(part for part in arguments if part.startswith("there"))
    target.write_text("precious")
    name, *rest = arguments
    ended = run(name, digits, *rest)
    assert (ended.code, ended.out) == (4, "")
    assert ended.err == f"error: {target.name} exists already: pass --force to replace it\n"
    assert target.read_text() == "precious"
    assert run(name, digits, *rest, "--force").code == 0
    assert target.read_bytes()[:8] != b"precious"
    assert sorted(os.listdir(tmp_path)) == sorted([digits, target.name])


def test_a_link_stays_a_link(run, digits, tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "labels.csv").symlink_to(tmp_path / "far" / "real.csv")
    assert run("cluster", digits, "-k", 3, "-o", "labels.csv").code == 0
    assert (tmp_path / "labels.csv").is_symlink()
    assert (tmp_path / "far" / "real.csv").read_text().startswith("sample,cluster,")


def test_full_device(run_program, digits):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    ended = run_program("cluster", digits, "-k", 3, "-o", "/dev/full")
    assert (ended.code, ended.out) == (4, "")
    assert ended.err == "error: /dev/full cannot be written: No space left on device\n"
    with open("/dev/full", "w") as full:
        ended = run_program("info", digits, "--json", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert (ended.code, ended.err) == (4, "error: standard output cannot be written: No space left on device\n")


@pytest.fixture
def full_disk(tmp_path):
    """A file system of 64 KiB with 4 KiB left and an old file in it."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    made = mount and subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=64k", "tmpfs", place], capture_output=True, check=False
    )
    if not made or made.returncode:
        pytest.skip("mounting a small file system is not permitted")
    try:
        (place / "old.csv").write_text("old")
        (place / "filler").write_bytes(bytes(56 * 1024))
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def test_full_disk(run, digits, data, full_disk):
    for arguments in (
        ["cluster", digits, "-k", 3, "-o", full_disk / "old.csv", "--force", "--column", "c" * 9000],
        ["convert", digits, full_disk / "new.npz"],
        ["convert", digits, full_disk / "new.mat"],
    ):
        ended = run(*arguments)
        assert ended.code == 4, ended.err
        assert "No space left" in ended.err
        assert sorted(os.listdir(full_disk)) == ["filler", "old.csv"]
        assert (full_disk / "old.csv").read_text() == "old"


@pytest.fixture
def locked_folder(data):
    """A folder, with a file of digits in it, that a process without privileges can read but not write."""
    if os.geteuid() == 0 and not sys.platform.startswith("linux"):
        pytest.skip("root can write everywhere, and its privilege to do so can only be dropped on Linux")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tm.datasets.save_views(folder / "digits.npz", *data)
        folder.chmod(0o555)
        yield folder
        folder.chmod(0o755)


# Root gives up its capability to write against permissions, bit 1 of the effective, permitted and inheritable sets. It
# remains root: another user might not reach the checkout or the virtual environment, which may be in a private folder.
UNPRIVILEGED = """
import ctypes, os
if os.geteuid() == 0:
    libc, header, sets = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    sets[:3] = [bits & ~2 for bits in sets[:3]]
    assert libc.capset(header, sets) == 0
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["cluster", "digits.npz", "-k", "3", "-o", "labels.csv"],
        ["cluster", "digits.npz", "-k", "3", "-o", "/dev/null", "--report", "new/page"],
        ["convert", "digits.npz", "new.mat"],
    ],
)
def test_folder_that_cannot_be_written(arguments, locked_folder, start):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra 'plot')")
    ended = start(*arguments, cwd=locked_folder, before=UNPRIVILEGED).end()
    assert (ended.code, ended.out) == (4, ""), ended.err
    assert f"no permission to write in {locked_folder}" in ended.err
    assert os.listdir(locked_folder) == ["digits.npz"]


def test_folder_that_is_locked_meanwhile(locked_folder, start):
    """The folder could be written at the start, but not any more when the labels are there."""
    code = f"{UNPRIVILEGED}\nimport tensormvc._files as files\nfiles.check_target = lambda *a, **k: None"
    ended = start("cluster", "digits.npz", "-k", "3", "-o", "labels.csv", cwd=locked_folder, before=code).end()
    assert (ended.code, ended.out) == (4, ""), ended.err
    assert ended.err == "error: labels.csv cannot be written: Permission denied\n"
    assert os.listdir(locked_folder) == ["digits.npz"]


def test_no_such_folder(run, digits):
    ended = run("cluster", digits, "-k", 3, "-o", "nowhere/labels.csv")
    assert ended.code == 4
    assert "there is no folder" in ended.err


@pytest.mark.parametrize(
    ("package", "arguments", "extra"),
    [
        ("typer", ["--help"], "cli"),
        ("rich", ["info", "digits.npz"], "cli"),
        ("pyarrow", ["cluster", "digits.npz", "-k", "3", "-o", "l.parquet"], "io"),
        ("pyarrow", ["info", "folder"], "io"),
        ("matplotlib", ["audit", "digits.npz", "-k", "3", "--plot", "a.png"], "plot"),
        ("matplotlib", ["cluster", "digits.npz", "-k", "3", "-o", "l.csv", "--report", "page"], "plot"),
    ],
)
def test_missing_package(package, arguments, extra, run_script, digits, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.csv").write_text("a,b\n1,2\n3,4\n")
    ended = run_script(f"sys.modules[{package!r}] = None", *arguments)
    assert (ended.code, ended.out) == (5, "")
    assert f"pip install 'tensormvc[{extra}]'" in ended.err
    assert "Traceback" not in ended.err
    assert sorted(os.listdir(tmp_path)) == [digits, "folder"]


def test_a_bug_is_no_fault_of_the_data(start, digits):
    code = "import tensormvc.datasets as d\ndef bug(*a, **k): raise RuntimeError('oops')\nd.describe = bug"
    ended = start("info", digits, before=code).end()
    assert ended.code == 1
    assert "RuntimeError: oops" in ended.err


def test_a_reader_that_goes_away(digits, tmp_path):
    process = subprocess.Popen(
        command("cluster", digits, "-k", 3, "-o", "-"),
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": tmp_path, "env": ENVIRONMENT},
    )
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 1
    assert b"Traceback" not in error
