"""``tensormvc`` in a process of its own, forked from one that has imported the packages already."""

import multiprocessing
import os
import sys
from dataclasses import dataclass
from multiprocessing import forkserver

AVAILABLE = "forkserver" in multiprocessing.get_all_start_methods()
PACKAGES = [
    "tensormvc.auto._estimator",
    "tensormvc.bench._reproduce",
    "tensormvc.cli",
    "tensormvc.methods",
    "tensormvc.report",
    "rich.progress",
    "rich.table",
    "sklearn.cluster",
    "matplotlib.pyplot",
    "pyarrow.parquet",
    "mudata",
    "dask.dataframe",
    "distributed",
]


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int
    out: str
    err: str


def start_server():
    """Start the process with the packages, which see the environment variables of this moment."""
    forkserver.set_forkserver_preload(PACKAGES)
    forkserver.ensure_running()


class Started:
    """The program, started in `folder` after the Python code `before`; its output goes to files in `outputs`."""

    def __init__(self, arguments, folder, environment, outputs, before=""):
        self.paths = [outputs / "out", outputs / "err"]
        arguments = [str(argument) for argument in arguments]
        self.process = multiprocessing.get_context("forkserver").Process(
            target=_program, args=(arguments, folder, environment, self.paths, before)
        )
        self.process.start()

    def end(self):
        """Wait until the program has ended."""
        self.process.join(300)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        return Ended(self.process.exitcode, *(path.read_text(encoding="utf-8") for path in self.paths))


def _program(arguments, folder, environment, outputs, before):
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for descriptor, path in enumerate(outputs, start=1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), descriptor)
    sys.argv = ["tensormvc", *arguments]
    exec(before, {})
    from tensormvc.__main__ import main

    main()
