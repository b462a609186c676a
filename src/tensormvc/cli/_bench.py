"""``tensormvc bench``: the paper's tables, run and reported."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ._options import Force, Json
from ._outcome import (
    BAD_DATA,
    BAD_OUTPUT,
    EXIT_CODES,
    Failure,
    usage_error,
    with_outcome,
    working_on_data,
    writing_output,
)
from ._report import command_line
from ._screen import console, print_json, progress

bench = typer.Typer(
    name="bench",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Run benchmarks that can be interrupted, and report them beside the paper's figures.",
    epilog=EXIT_CODES,
)

DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        show_default=False,
        help="Folder of the data sets; data in TENSORMVC_SHARED by default, else ../shared/data.",
    ),
]


@with_outcome
def run_bench(
    plan: Annotated[
        str,
        typer.Argument(
            metavar="PLAN",
            show_default=False,
            help="A plan by name (smoke, clustering, ablation-basis, ablation-kn, ablation-ka, runtime, shuffle-rate), "
            "or a TOML file.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="RESULTS",
            show_default=False,
            help="SQLite file of results; PLAN.sqlite by default. One that is there is gone on with.",
        ),
    ] = None,
    data: DataFolder = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes at work.")] = 1,
    retry: Annotated[bool, typer.Option("--retry", help="Try again what failed before.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what is left to do, and do nothing.")] = False,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", min=0, max=2**31, show_default=False, help="Seed of the first trial, instead of the plan's."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run what PLAN asks for and RESULTS lacks.

    Killed at any moment, the same command goes on where it was. Several can work on one file at once. What fails is
    stored with its error.

    Example: tensormvc bench run smoke --jobs 2
    """
    from .. import bench as benchmark
    from ..bench._plan import PlanError
    from ..bench._run import plan_outlook

    try:
        made = benchmark.load_plan(plan, seed=seed)
    except PlanError as error:
        raise usage_error(str(error)) from error
    results = Path(f"{made.name}.sqlite") if output is None else output
    if dry_run:
        with working_on_data(), _results(results):
            ahead = plan_outlook(made, results, data=data)
        if as_json:
            print_json({"plan": made.name, "results": results, **vars(ahead)})
        else:
            console().print(f"{made.name}: {ahead.in_words()}")
        return
    with working_on_data(), _results(results), progress(f"running {made.name}") as advance:
        found = benchmark.run_plan(
            made,
            results,
            data=data,
            n_jobs=jobs,
            retry=retry,
            command=command_line(),
            progress=lambda done, total, words: advance(done, words, total),
        )
    if as_json:
        print_json(vars(found))
    else:
        _show(found)
    if found.n_failed:
        raise Failure(
            BAD_DATA, f"{found.n_failed} fits failed, the first with: {found.errors[0]}\nTry them again with --retry."
        )


def _show(found: Any) -> None:
    screen = console()
    screen.print(
        f"{found.plan}: {found.n_fits:,} fits, {found.n_before:,} of them done before; {found.seconds:.0f} seconds"
    )
    screen.print(f"Results: {found.results}\nNext: tensormvc bench report {found.results} -o report")


@contextmanager
def _results(path: Path) -> Iterator[None]:
    """Turn what goes wrong with the file of results into a `Failure`."""
    from ..bench._store import StoreError

    try:
        yield
    except (StoreError, sqlite3.Error) as error:
        text = str(error)
        raise Failure(BAD_OUTPUT, text if str(path) in text else f"{path}: {text}") from error


@with_outcome
def report_bench(
    results: Annotated[
        Path, typer.Argument(metavar="RESULTS", show_default=False, help="SQLite file that bench run has made.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder for the page and the tables.")
    ] = Path("bench-report"),
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a page, CSV and LaTeX about RESULTS, with the paper's figures beside ours.

    RESULTS may be unfinished: cells without all their trials are left out.

    Example: tensormvc bench report smoke.sqlite -o report
    """
    from ..bench._report import write_bench_report
    from ..bench._store import StoreError

    try:
        with writing_output(output):
            written = write_bench_report(results, output, force=force)
    except (StoreError, sqlite3.Error) as error:
        text = str(error)
        raise Failure(BAD_DATA, text if str(results) in text else f"{results}: {text}") from error
    if as_json:
        print_json({"results": results, "files": written})
        return
    console().print("\n".join(f"{path}" for path in written))
