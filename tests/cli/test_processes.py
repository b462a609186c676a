"""Interrupted, terminated and racing processes."""

import contextlib
import os
import pty
import signal
import subprocess
import sys
import time

import pytest

import tensormvc as tm

from .conftest import ENVIRONMENT, command

# Rounds without end, for somebody to interrupt.
ENDLESS = ["--param", "max_iter=1000000", "--param", "tol=0"]


def read_until(descriptor, text, seconds=120):
    """Read a terminal until a text has come."""
    seen, end = b"", time.monotonic() + seconds
    while text not in seen:
        assert time.monotonic() < end, seen
        try:
            seen += os.read(descriptor, 4096)
        except OSError:
            raise AssertionError(seen) from None
    return seen


@contextlib.contextmanager
def on_a_terminal(arguments, cwd):
    """Start a process of its own group whose stderr is a terminal; yield it and the other end."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        arguments,
        **{"cwd": cwd, "env": ENVIRONMENT | {"TERM": "xterm"}, "start_new_session": True},
        **{"stderr": theirs, "stdout": subprocess.PIPE, "text": True},
    )
    os.close(theirs)
    try:
        yield process, ours
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()
        os.close(ours)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_in_the_middle_of_a_fit(number, code, digits, tmp_path):
    (tmp_path / "labels.csv").write_text("old")
    arguments = command("cluster", digits, "-k", 10, "-o", "labels.csv", "--force", *ENDLESS)
    with on_a_terminal(arguments, tmp_path) as (process, terminal):
        read_until(terminal, b"of at most 1000000")  # the progress, which only a terminal sees
        os.killpg(process.pid, number)
        assert process.stdout.read() == ""
        assert process.wait(60) == code
    assert sorted(os.listdir(tmp_path)) == [digits, "labels.csv"]
    assert (tmp_path / "labels.csv").read_text() == "old"


@pytest.mark.parametrize(
    "arguments", [["cluster", "digits.npz", "-k", "3", "-o", "new.csv"], ["convert", "digits.npz", "new.mat"]]
)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_in_the_middle_of_writing(arguments, number, code, digits, tmp_path):
    """The disk takes its time: the data are in a temporary file and not yet safe."""
    script = (
        "import os, sys, time\n"
        "def slow(descriptor): print('syncing', file=sys.stderr, flush=True); time.sleep(60)\n"
        "os.fsync = slow\n"
        "from tensormvc.__main__ import main\nmain()"
    )
    with on_a_terminal([sys.executable, "-P", "-c", script, *arguments], tmp_path) as (process, terminal):
        read_until(terminal, b"syncing")
        assert len(os.listdir(tmp_path)) == 2  # the temporary folder is there
        os.killpg(process.pid, number)
        assert process.wait(60) == code
    assert os.listdir(tmp_path) == [digits]


@pytest.mark.parametrize("output", ["labels.csv", "copy.npz", "folder"])
def test_two_runs_for_one_target(output, digits, start, tmp_path):
    """One wins; the other says so, and neither leaves anything else behind."""
    if output == "folder":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra 'io')")
    started = []
    for seed in (1, 2):
        rest = ["convert", digits, output, "--shuffle", 1]
        if output == "labels.csv":
            rest = ["cluster", digits, "-k", 10, "-o", output, "--column", f"by{seed}"]
        started.append(start(*rest, "--seed", seed))
    ended = [(one.err, one.code) for one in (process.end() for process in started)]
    codes = [code for _, code in ended]
    assert sorted(codes) == [0, 4], ended
    winner = codes.index(0)
    assert f"{output} exists already" in ended[1 - winner][0]
    assert sorted(os.listdir(tmp_path)) == sorted([digits, output])
    if output == "labels.csv":
        lines = (tmp_path / output).read_text().splitlines()
        assert (lines[0], len(lines)) == (f"sample,by{winner + 1},confidence,runner_up", 101)
    else:
        _, y = tm.datasets.load_views(tmp_path / output)
        views, wanted = tm.datasets.load_views(tmp_path / digits)
        assert y.tolist() == tm.datasets.shuffle_samples(views, wanted, random_state=winner + 1)[1].tolist()
