"""``tensormvc bench``: run the tables and figures of the paper, and report the results."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._options import Force, Json, argument, option
from ._outcome import BAD_DATA, BAD_OUTPUT, Failure, usage_error, working_on_data, writing_output
from ._report import command_line
from ._screen import TEXTS, progress, show

if TYPE_CHECKING:
    from ..bench import Plan

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
    device: Annotated[str | None, option("bench", "--device")] = None,
    as_json: Json = False,
) -> None:
    """Run the fits in PLAN that are not in RESULTS yet.

    The command can be killed at any time; run it again to resume. Several processes can share one RESULTS file. The
    errors of failed fits are stored.

    Example: tensormvc bench run smoke --jobs 2
    """
    from .. import bench as benchmark
    from ..bench._run import plan_outlook

    loaded = _plan(plan, seed=seed, device=device)
    results = Path(f"{loaded.name}.sqlite") if output is None else output
    if dry_run:
        with working_on_data(), _results(results, BAD_OUTPUT):
            outlook = plan_outlook(loaded, results, data=data, n_jobs=jobs, retry=retry)
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


def paper_bench(
    plan: Annotated[list[str] | None, argument("bench_paper", "PLAN")] = None,
    output: Annotated[Path, option("bench_paper", "--output", "-o", metavar="DIR")] = Path("paper"),
    data: Annotated[Path | None, option("bench", "--data", metavar="DIR")] = None,
    jobs: Annotated[int, option("bench", "--jobs", "-j", min=1)] = 1,
    device: Annotated[str | None, option("bench", "--device")] = None,
    dry_run: Annotated[bool, option("bench", "--dry-run")] = False,
    as_json: Json = False,
) -> None:
    """Run all tables and figures of the paper that are not in DIR yet, and write the report there.

    The command can be killed at any time; run it again to resume. The report is written after every plan.

    Example: tensormvc bench paper -o paper --jobs 2
    """
    from ..bench._reproduce import PAPER_PLANS, RESULTS, paper_outlook, reproduce
    from ..bench._run import in_hours

    plans = [_plan(name, device=device) for name in plan or PAPER_PLANS]
    results = output / RESULTS
    if dry_run:
        with working_on_data(), _results(results, BAD_OUTPUT):
            outlooks = paper_outlook(plans, output, data, jobs)
        lines = [
            f"{one.name}: {one.title}\n  {ahead.in_words()}; {in_hours(seconds)} with --jobs {jobs}"
            for one, ahead, seconds in outlooks
        ]
        total = sum(seconds for *_, seconds in outlooks)
        lines.append(f"All: about {in_hours(total)}. Grids may be widened, which adds fits.")
        parts = [{"plan": one.name, **vars(ahead), "seconds": seconds} for one, ahead, seconds in outlooks]
        show({"results": results, "plans": parts, "seconds": total}, as_json, lines)
        return
    with working_on_data(), _results(results, BAD_OUTPUT), writing_output(output), progress("the paper") as advance:
        summaries, written = reproduce(
            plans, output, data=data, n_jobs=jobs, command=command_line(), progress=lambda one: advance
        )
    lines = [f"{one.plan}: {one.n_fits:,} fits, {one.n_failed} failed; {in_hours(one.seconds)}" for one in summaries]
    show({"plans": summaries, "files": written}, as_json, [*lines, f"Report: {output / 'index.html'}"])
    if errors := [error for one in summaries for error in one.errors]:
        again = f"To run them again: tensormvc bench run PLAN -o {results} --retry"
        n_failed = sum(one.n_failed for one in summaries)
        raise Failure(BAD_DATA, f"{n_failed} fits failed, the first with: {errors[0]}\n{again}")


def report_bench(
    results: Annotated[Path, argument("bench", "RESULTS")],
    output: Annotated[Path, option("bench_report", "--output", "-o", metavar="DIR")] = Path("bench-report"),
    data: Annotated[Path | None, option("bench_report", "--data", metavar="DIR")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write an HTML report, CSV and LaTeX tables of RESULTS, next to the figures of the paper.

    RESULTS may be unfinished: table cells without all their trials are left out.

    Example: tensormvc bench report smoke.sqlite -o report
    """
    from ..bench import write_bench_report

    with working_on_data(), _results(results, BAD_DATA), writing_output(output):
        written = write_bench_report(results, output, force=force, data=data)
    show({"results": results, "files": written}, as_json, map(str, written))


def _plan(name: str, **options: Any) -> "Plan":
    """Load a plan, or end with an error of usage."""
    from ..bench import load_plan
    from ..bench._plan import PlanError

    try:
        return load_plan(name, **options)
    except PlanError as error:
        raise usage_error(str(error)) from error


@contextmanager
def _results(path: Path, code: int) -> Iterator[None]:
    """Turn errors of the results file into a `Failure`."""
    from ..bench._store import StoreError

    try:
        yield
    except (StoreError, sqlite3.Error) as error:
        text = str(error)
        raise Failure(code, text if str(path) in text else f"{path}: {text}") from error
