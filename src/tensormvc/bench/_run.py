"""Run a plan: fit by fit until all results are stored, in any number of processes."""

import math
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ._cells import Cell, all_jobs, cells, is_screened, n_later, tried
from ._data import Data, load
from ._fit import THREADS, evaluate
from ._plan import Plan, load_plan
from ._store import Store, StoredPlan

# Seconds until a process that found nothing to claim looks again, and between progress reports on workers.
_WAIT = 0.2
_REPORT = 1.0
Progress = Callable[[int, int, str], Any]


@dataclass(frozen=True)
class RunSummary:
    """The result of `run_plan`.

    Parameters
    ----------
    plan : str
        Name of the plan.
    results : Path
        The results file.
    n_fits : int
        Number of fits that the plan needs.
    n_before : int
        Number of fits that had been stored before this run.
    n_failed : int
        Number of fits that are stored as failures.
    errors : list of str
        Their error messages, the most frequent first.
    seconds : float
        Duration of this run.

    Examples
    --------
    >>> import tempfile, tensormvc as tm
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plan = Path(folder) / "tiny.toml"
    ...     _ = plan.write_text('''
    ... title = "k-means on a few digits"
    ... datasets = [{name = "digits", n_samples = 60}]
    ... baselines = ["kmeans-l2"]
    ... trials = 2
    ... ''')
    ...     summary = tm.bench.run_plan(plan, Path(folder) / "tiny.sqlite")
    >>> summary.n_fits, summary.n_failed
    (2, 0)
    """

    plan: str
    results: Path
    n_fits: int
    n_before: int
    n_failed: int
    errors: list[str]
    seconds: float


@dataclass(frozen=True)
class Outlook:
    """How much of a plan is done, and an estimate of the time left from the durations of finished fits."""

    n_done: int
    n_failed: int
    n_fits: int
    seconds_left: float
    # Fits that no duration is known for, of the same method on the same data: a rule of thumb stands in for it.
    n_untimed: int

    def in_words(self) -> str:
        """Return a line for the progress display."""
        left = self.n_fits - self.n_done
        words = f"{self.n_done} of {self.n_fits} fits" + (f", {self.n_failed} failed" if self.n_failed else "")
        if not left:
            return words
        roughly = f" ({self.n_untimed} fits by a rule of thumb)" if self.n_untimed else ""
        return f"{words}, about {in_hours(self.seconds_left)} left{roughly}"


# Rule of thumb for fits of a kind that has not run yet: seconds for 500 samples on one core, and the power of the
# number of samples with which they grow; measured on the data sets of the plans.
_ROUGH = {
    "t-SVD-MVC": (4.0, 2.3),
    "TLSpNM": (5.0, 2.3),
    "ASR-ETR": (2.0, 1.8),
    "ESTMC": (2.0, 1.6),
    "TLRLF4MVC": (3.0, 1.5),
}
_ROUGH_BASELINE = (1.0, 1.5)
# Full singular value decompositions of n × n slices.
_ROUGH_VIEW_MODE = {"t-SVD-MVC": 6.0, "TLSpNM": 6.0}


def _rough_seconds(method: str, transform: str, n_samples: int) -> float:
    seconds, power = _ROUGH.get(method, _ROUGH_BASELINE)
    factor = _ROUGH_VIEW_MODE.get(method, 1.0) if transform == "FFT(view mode)" else 1.0
    return float(factor * seconds * (n_samples / 500) ** power)


def in_hours(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def run_plan(
    plan: Plan | str | Path,
    results: str | Path,
    *,
    data: str | Path | None = None,
    n_jobs: int = 1,
    retry: bool = False,
    command: str = "",
    progress: Progress | None = None,
) -> RunSummary:
    """Run the fits of a plan that are not in the results file yet, and return when all are stored.

    Every result is one transaction: a process that is killed loses only the fit it was running, and the next run
    resumes from there. Several processes, started at any time, can share one results file; no fit is run twice.

    Parameters
    ----------
    plan : Plan, str or path-like
        The plan, its name, or its file; see `load_plan`.
    results : str or path-like
        The SQLite file. An existing results file is resumed.
    data : str or path-like, optional
        Folder of the data sets; by default ``data`` in the folder that TENSORMVC_SHARED names, else ``../shared/data``.
    n_jobs : int, default=1
        Number of worker processes, which share the processor cores. A plan about seconds has one.
    retry : bool, default=False
        Whether to run failed fits again.
    command : str, default=""
        The command line that started this run, for the report.
    progress : function of two ints and a str, optional
        Called after every fit with the number of finished fits, the number of all fits, and a line of text.

    Returns
    -------
    RunSummary

    Examples
    --------
    See `RunSummary`.

    >>> import tensormvc as tm
    >>> tm.bench.load_plan("smoke").title
    'A quick look: embedded digits, two methods, four transforms, all baselines'
    """
    if n_jobs < 1:
        raise ValueError(f"n_jobs={n_jobs}: expected the number of processes, 1 or more")
    start = time.time()
    if not isinstance(plan, Plan):
        plan = load_plan(plan)
    n_jobs = used_jobs(plan, n_jobs)
    loaded, wanted = _load(plan, data)
    retry_before = start if retry else 0.0
    with Store(results) as store:
        facts = {name: asdict(one.facts) for name, one in loaded.items()}
        store.save_plan(StoredPlan(plan.name, plan.text, plan.seed, facts, command))
        n_before = outlook(plan, wanted, store, retry_before).n_done

        def report() -> None:
            if progress is not None:
                now = outlook(plan, wanted, store, retry_before)
                progress(now.n_done, now.n_fits, now.in_words())

        report()
        if n_jobs == 1:
            for has_finished_a_fit in _work(plan, wanted, loaded, store, retry_before):
                if has_finished_a_fit:
                    report()
        else:
            _start_workers(n_jobs, (plan, results, data, retry_before, os.getpid()), report)
        jobs, outcomes = all_jobs(plan, wanted, store.scores().get), store.outcomes()
        errors = Counter(outcomes[job.key].error or "" for job in jobs if job.key in outcomes)
        del errors[""]  # the successful fits
        return RunSummary(
            *(plan.name, store.path, len(jobs), n_before, errors.total()),
            errors=[error for error, _ in errors.most_common()],
            seconds=time.time() - start,
        )


def _load(plan: Plan, folder: str | Path | None) -> tuple[dict[str, Data], list[Cell]]:
    loaded = {planned.name: load(planned, folder) for planned in plan.datasets}
    return loaded, cells(plan, {name: data.facts for name, data in loaded.items()})


def used_jobs(plan: Plan, n_jobs: int) -> int:
    """Return the number of processes: fits beside each other would disturb timings."""
    return 1 if plan.is_timed else n_jobs


def plan_outlook(
    plan: Plan, results: str | Path, *, data: str | Path | None = None, n_jobs: int = 1, retry: bool = False
) -> Outlook:
    """Return how much of a plan is done, without running anything."""
    _, wanted = _load(plan, data)
    if Path(results).exists():
        with Store(results, must_exist=True) as store:
            found = outlook(plan, wanted, store, time.time() if retry else 0.0)
    else:
        found = _outlook(plan, wanted, {}, {})
    return replace(found, seconds_left=found.seconds_left / used_jobs(plan, n_jobs))


def outlook(plan: Plan, wanted: Sequence[Cell], store: Store, retry_before: float = 0.0) -> Outlook:
    """Return how much of a plan is done, and how long the rest may take."""
    found = _outlook(plan, wanted, store.scores(retry_before=retry_before), store.successful("seconds"))
    return replace(found, seconds_left=found.seconds_left / max(1, len(store.running())))


def _outlook(plan: Plan, wanted: Sequence[Cell], scores: Mapping[str, float], seconds: Mapping[str, float]) -> Outlook:
    finished = scores.keys()
    # Until a cell has been screened, it is not known which of its settings run later, only how many.
    undecided = Counter[tuple[str, ...]]()
    for cell in wanted:
        if not is_screened(plan, cell, tried(plan, cell, scores.get), scores.get):
            undecided[cell.group] += n_later(plan, cell)
    jobs = {job.key: job for job in all_jobs(plan, wanted, scores.get)}
    durations: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for key, job in jobs.items():
        if key in seconds:
            durations[job.group].append(seconds[key])
            durations[job.group[:2]].append(seconds[key])
    total, untimed, sizes = 0.0, 0, {cell.dataset: cell.n_samples for cell in wanted}
    for group, count in (undecided + Counter(job.group for key, job in jobs.items() if key not in finished)).items():
        if known := durations.get(group) or durations.get(group[:2]):
            total += count * sum(known) / len(known)
        else:
            dataset, method, transform = group
            total += count * _rough_seconds(method, transform, sizes[dataset])
            untimed += count
    done = jobs.keys() & finished
    # Both from the scores: durations are read later, when more fits may have ended.
    n_failed = sum(math.isnan(scores[key]) for key in done)
    return Outlook(len(done), n_failed, len(jobs) + undecided.total(), total, untimed)


def _work(plan: Plan, wanted: list[Cell], loaded: dict[str, Data], store: Store, retry_before: float) -> Iterator[bool]:
    """Run fits until none is left; the results of some decide about others.

    Yields True after each fit, and False from time to time while other processes run the last ones.
    """
    while True:
        scores = store.scores(retry_before=retry_before)
        # The other processes wait during a claim, so it looks only at what may be free.
        left = [job for job in all_jobs(plan, wanted, scores.get) if job.key not in scores]
        job = store.claim(left, retry_before=retry_before)
        if job is not None:
            store.finish(job, evaluate(job, loaded[job.dataset], plan.device))
        elif not left:
            return
        else:
            time.sleep(_WAIT)  # the other processes may be killed
        yield job is not None


def _start_workers(n_jobs: int, arguments: tuple[Any, ...], report: Callable[[], None]) -> None:
    """Run `_be_a_worker` in several processes, and report their progress until they end."""
    threads = dict.fromkeys(THREADS, str(max(1, (os.cpu_count() or 1) // n_jobs)))
    added = {name: value for name, value in threads.items() if name not in os.environ}
    os.environ.update(added)
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_be_a_worker, args=arguments) for _ in range(n_jobs)]
    try:
        with _interrupts_ignored():
            for worker in workers:
                worker.start()
        while running := [worker.sentinel for worker in workers if worker.is_alive()]:
            report()
            multiprocessing.connection.wait(running, _REPORT)
    finally:
        for name in added:
            os.environ.pop(name, None)
        for worker in workers:
            if worker.is_alive():
                worker.terminate()
            if worker.pid is not None:
                worker.join()
    if codes := [worker.exitcode for worker in workers if worker.exitcode]:
        raise RuntimeError(f"worker processes ended with exit codes {codes}; run the plan again to resume")


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Let the processes that start here ignore interrupts.

    A terminal sends an interrupt to all processes; the parent ends its workers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _be_a_worker(plan: Plan, results: str | Path, folder: str | Path | None, retry_before: float, parent: int) -> None:
    """Run fits until none is left or the parent process has ended."""
    # The parent could not arrange this if it started the worker from another thread.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    loaded, wanted = _load(plan, folder)
    with Store(results) as store:
        for _ in _work(plan, wanted, loaded, store, retry_before):
            if os.getppid() != parent:
                return
