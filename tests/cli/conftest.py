"""The command line is run as its users run it: in a process of its own."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import tensormvc as tm

pytest.importorskip("typer", reason="typer is not installed (extra 'cli')")

SOURCE = str(Path(tm.__file__).parents[1])
ENVIRONMENT = {**os.environ, "PYTHONPATH": SOURCE, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
ENVIRONMENT.pop("COLUMNS", None)


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int
    out: str
    err: str


def command(*arguments):
    return [sys.executable, "-P", "-m", "tensormvc", *map(str, arguments)]


@pytest.fixture
def run(tmp_path):
    """Run ``tensormvc`` with these arguments in the temporary folder."""

    def run(*arguments, **options):
        options = {"capture_output": True, "cwd": tmp_path, "env": ENVIRONMENT, "timeout": 300} | options
        ended = subprocess.run(command(*arguments), text=True, check=False, **options)
        assert "Traceback" not in (ended.stderr or ""), ended.stderr
        return Ended(ended.returncode, ended.stdout, ended.stderr)

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
