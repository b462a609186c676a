"""The command line. Commands import what they need when they run, so that ``--help`` and completion are fast."""

import inspect
import signal
import sys
from types import FrameType
from typing import Annotated

import typer

from .. import __version__
from ._audit import audit
from ._bench import bench, paper_bench, report_bench, run_bench
from ._cluster import cluster
from ._convert import convert, info
from ._demo import demo
from ._model import explain, predict
from ._options import option, with_groups
from ._outcome import INTERRUPTED, TERMINATED, with_outcome
from ._screen import TEXTS

__all__ = ["app", "run"]

app = typer.Typer(
    name="tensormvc",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=TEXTS["exit_codes"],
)
for group, commands in (
    (app, (cluster, predict, explain, audit, info, convert, demo)),
    (bench, (run_bench, report_bench, paper_bench)),
):
    for command in commands:
        # The terminal breaks the lines of a paragraph, not the source.
        paragraphs = (inspect.getdoc(command) or "").split("\n\n")
        words = "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
        register = group.command(command.__name__.removesuffix("_bench"), help=words, epilog=TEXTS["exit_codes"])
        register(with_outcome(with_groups(command)))
app.add_typer(bench)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"tensormvc {__version__}")
        raise typer.Exit


@app.callback()
def tensormvc(
    version: Annotated[bool, option("shared", "--version", callback=_print_version, is_eager=True)] = False,
) -> None:
    """Cluster samples that are described by several views, whatever the order of the rows.

    Example: tensormvc cluster data.mat -k 7 -o labels.csv
    """


def run() -> None:
    """Run the command given by the arguments of the process."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a character that the terminal lacks is no reason to fail
            stream.reconfigure(errors="replace")
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app(prog_name="tensormvc")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _terminate(number: int, frame: FrameType | None) -> None:
    # An exception, so that temporary files are removed on the way out.
    sys.exit(TERMINATED)
