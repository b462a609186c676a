"""The whole paper by one command: its plans, one after the other, into one results file, and the report on them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ._data import default_folder
from ._plan import Plan
from ._report import write_bench_report
from ._run import Outlook, Progress, RunSummary, plan_outlook, run_plan

# The quick ones first.
PAPER_PLANS = (
    "clustering",
    "ablation-basis",
    "ablation-kn",
    "ablation-ka",
    "shuffle-rate",
    "runtime",
    "ablation-basis-caltech",
    "shuffle-rate-caltech",
    "clustering-caltech",
)
RESULTS = "results.sqlite"


def paper_outlook(
    plans: Sequence[Plan], folder: Path, data: Path | None, n_jobs: int
) -> list[tuple[Plan, Outlook, float]]:
    """Return how much of each plan is left, and about how many seconds it takes with this number of processes."""
    outlooks = [plan_outlook(plan, folder / RESULTS, data=data, n_jobs=n_jobs) for plan in plans]
    return [(plan, one, one.seconds_left) for plan, one in zip(plans, outlooks, strict=True)]


def reproduce(
    plans: Sequence[Plan],
    folder: Path,
    *,
    data: Path | None = None,
    n_jobs: int = 1,
    command: str = "",
    progress: Callable[[Plan], Progress | None] = lambda plan: None,
) -> tuple[list[RunSummary], list[Path]]:
    """Run what is missing of the plans, and write the report; return the summaries and the files written.

    Parameters
    ----------
    plans : sequence of Plan
        The plans, in the order in which they run.
    folder : Path
        Folder of the results file and of the report, which is written again after every plan.
    data : Path, optional
        Folder of the data sets, see `run_plan`.
    n_jobs : int, default=1
        Number of processes; timings run alone.
    command : str, default=""
        The command line, for the report.
    progress : function of a Plan
        Returns the progress function of `run_plan`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    summaries, written = [], []
    for plan in plans:
        options: dict[str, Any] = {"data": data, "n_jobs": n_jobs, "command": command}
        summaries.append(run_plan(plan, folder / RESULTS, progress=progress(plan), **options))
        # The figures that are computed from the data take minutes.
        last = (data or default_folder()) if plan is plans[-1] else None
        written = write_bench_report(folder / RESULTS, folder, force=True, data=last)
    return summaries, written
