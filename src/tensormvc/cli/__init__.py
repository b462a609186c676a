"""The command line. Each command imports what it needs, so that ``--help`` and completion answer at once."""

from __future__ import annotations

import inspect
import signal
import sys
from types import FrameType
from typing import Annotated

import typer

from .. import __version__
from ._audit import audit
from ._bench import bench, report_bench, run_bench
from ._cluster import cluster
from ._convert import convert, info
from ._demo import demo
from ._outcome import EXIT_CODES, INTERRUPTED, TERMINATED

__all__ = ["app", "run"]

app = typer.Typer(
    name="tensormvc",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_CODES,
)
for group, commands in ((app, (cluster, audit, info, convert, demo)), (bench, (run_bench, report_bench))):
    for command in commands:
        # Lines of the source mean nothing on a terminal of another width.
        paragraphs = (inspect.getdoc(command) or "").split("\n\n")
        words = "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
        group.command(command.__name__.removesuffix("_bench"), help=words, epilog=EXIT_CODES)(command)
app.add_typer(bench)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tensormvc {__version__}")
        raise typer.Exit


@app.callback()
def tensormvc(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Cluster samples that several views describe, whatever the order of the rows.

    Example: tensormvc cluster data.mat -k 7 -o labels.csv
    """


def run() -> None:
    """Run the command that the arguments of the process name."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a letter that the terminal lacks is no reason to fail
            stream.reconfigure(errors="replace")
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app(prog_name="tensormvc")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _terminate(number: int, frame: FrameType | None) -> None:
    # An exception, so that temporary files are removed on the way out.
    sys.exit(TERMINATED)
