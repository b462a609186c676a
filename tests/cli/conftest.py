"""The command line is run as its users run it: in a process of its own.

Every command is also started from scratch (`run_program`, `run_script`). Elsewhere `run` forks the process from one
that has imported the packages, because the imports take most of the time of a short command.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tensormvc as tm

from . import forked
from .forked import Ended

pytest.importorskip("typer", reason="typer is not installed (extra 'cli')")

SOURCE = str(Path(tm.__file__).parents[1])
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
ENVIRONMENT.pop("COLUMNS", None)


def command(*arguments):
    return [sys.executable, "-P", "-m", "tensormvc", *map(str, arguments)]


@pytest.fixture
def run_program(tmp_path):
    """Run ``tensormvc`` with these arguments in the temporary folder, as a shell does."""

    def run(*arguments, **options):
        options = {"capture_output": True, "cwd": tmp_path, "env": ENVIRONMENT, "timeout": 300} | options
        ended = subprocess.run(command(*arguments), text=True, check=False, **options)
        assert "Traceback" not in (ended.stderr or ""), ended.stderr
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    return run


@pytest.fixture(scope="session")
def _server():
    if not forked.AVAILABLE:
        pytest.skip("this system does not fork processes")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        forked.start_server()


@pytest.fixture
def start(_server, tmp_path, tmp_path_factory):
    """Start ``tensormvc`` in the temporary folder with the imports behind it; ``end()`` waits for it."""

    def start(*arguments, cwd=tmp_path, env=ENVIRONMENT, before=""):
        return forked.Started(arguments, cwd, env, tmp_path_factory.mktemp("outputs"), before)

    return start


@pytest.fixture
def run(request):
    """Run ``tensormvc`` as `run_program` does, without waiting for its imports each time."""
    if not forked.AVAILABLE:
        return request.getfixturevalue("run_program")
    start = request.getfixturevalue("start")

    def run(*arguments, **options):
        ended = start(*arguments, **options).end()
        assert "Traceback" not in ended.err, ended.err
        return ended

    return run


@pytest.fixture
def run_script(tmp_path):
    """Run Python code that ends in ``main()``, with these arguments, in the temporary folder."""

    def run(code, *arguments, cwd=tmp_path):
        code = (
            f"import sys; sys.argv = ['tensormvc', *sys.argv[1:]]\n{code}\nfrom tensormvc.__main__ import main\nmain()"
        )
        ended = subprocess.run(
            [sys.executable, "-P", "-c", code, *map(str, arguments)],
            **{"capture_output": True, "cwd": cwd, "env": ENVIRONMENT, "timeout": 300, "text": True},
            check=False,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    return run


@pytest.fixture(scope="session")
def data():
    """Views and classes of the file `digits`."""
    return tm.datasets.load_digits_views(100, class_sorted=True)


@pytest.fixture
def digits(tmp_path, data):
    """A file with four views of 100 digits."""
    tm.datasets.save_views(tmp_path / "digits.npz", *data)
    return "digits.npz"
