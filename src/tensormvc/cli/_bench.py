"""``tensormvc bench``: run the paper's tables, and report the results."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ._options import Force, Json, argument, option
from ._outcome import BAD_DATA, BAD_OUTPUT, Failure, usage_error, working_on_data, writing_output
from ._report import command_line
from ._screen import TEXTS, progress, show

bench = typer.Typer(
    name="bench",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Run resumable benchmarks, and report them next to the figures of the paper.",
    epilog=TEXTS["exit_codes"],
)


def run_bench(
    plan: Annotated[str, argument("bench", "PLAN")],
    output: Annotated[Path | None, option("bench", "--output", "-o", metavar="RESULTS")] = None,
    data: Annotated[Path | None, option("bench", "--data", metavar="DIR")] = None,
    jobs: Annotated[int, option("bench", "--jobs", "-j", min=1)] = 1,
    retry: Annotated[bool, option("bench", "--retry")] = False,
    dry_run: Annotated[bool, option("bench", "--dry-run")] = False,
    seed: Annotated[int | None, option("bench", "--seed", min=0, max=2**31)] = None,
    as_json: Json = False,
) -> None:
    """Run the fits in PLAN that are not in RESULTS yet.

    The command can be killed at any time; run it again to resume. Several processes can share one RESULTS file. The
    errors of failed fits are stored.

    Example: tensormvc bench run smoke --jobs 2
    """
    from .. import bench as benchmark
    from ..bench._plan import PlanError
    from ..bench._run import plan_outlook

    try:
        loaded = benchmark.load_plan(plan, seed=seed)
    except PlanError as error:
        raise usage_error(str(error)) from error
    results = Path(f"{loaded.name}.sqlite") if output is None else output
    if dry_run:
        with working_on_data(), _results(results, BAD_OUTPUT):
            outlook = plan_outlook(loaded, results, data=data)
        words = f"{loaded.name}: {outlook.in_words()}"
        show({"plan": loaded.name, "results": results, **vars(outlook)}, as_json, [words])
        return
    with working_on_data(), _results(results, BAD_OUTPUT), progress(f"running {loaded.name}") as advance:
        summary = benchmark.run_plan(
            loaded, results, data=data, n_jobs=jobs, retry=retry, command=command_line(), progress=advance
        )
    lines = [
        f"{summary.plan}: {summary.n_fits:,} fits, {summary.n_before:,} of them from earlier runs; "
        f"{summary.seconds:.0f} seconds",
        f"Results: {summary.results}\nNext: tensormvc bench report {summary.results} -o report",
    ]
    show(vars(summary), as_json, lines)
    if summary.n_failed:
        message = f"{summary.n_failed} fits failed, the first with: {summary.errors[0]}\nRun them again with --retry."
        raise Failure(BAD_DATA, message)


def report_bench(
    results: Annotated[Path, argument("bench", "RESULTS")],
    output: Annotated[Path, option("bench_report", "--output", "-o", metavar="DIR")] = Path("bench-report"),
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write an HTML report, CSV and LaTeX tables of RESULTS, next to the figures of the paper.

    RESULTS may be unfinished: table cells without all their trials are left out.

    Example: tensormvc bench report smoke.sqlite -o report
    """
    from ..bench import write_bench_report

    with _results(results, BAD_DATA), writing_output(output):
        written = write_bench_report(results, output, force=force)
    show({"results": results, "files": written}, as_json, map(str, written))


@contextmanager
def _results(path: Path, code: int) -> Iterator[None]:
    """Turn errors of the results file into a `Failure`."""
    from ..bench._store import StoreError

    try:
        yield
    except (StoreError, sqlite3.Error) as error:
        text = str(error)
        raise Failure(code, text if str(path) in text else f"{path}: {text}") from error
