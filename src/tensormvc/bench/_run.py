"""Running a plan: fit after fit until all are in the file, with any number of processes at it."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ._cells import Cell, Job, cells, first_jobs, later_jobs, n_later
from ._data import Data, Facts, load
from ._fit import THREADS, environment, evaluate
from ._plan import Plan, load_plan
from ._store import Store, StoredPlan, count_keys

# Seconds until a process that has nothing to do looks again, and between reports on several.
_WAIT = 0.2
_TELL = 1.0
Progress = Callable[[int, int, str], Any]


@dataclass(frozen=True)
class RunSummary:
    """What a run has found and done.

    Parameters
    ----------
    plan : str
        Name of the plan.
    results : Path
        The file.
    n_fits : int
        Fits that the plan needs.
    n_before : int
        Those that were in the file before.
    n_failed : int
        Those that are in the file as failures.
    errors : list of str
        Their errors, the most frequent first.
    seconds : float
        How long the run took.

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
    """How much of a plan is done and how long the rest takes, from the times of fits that are."""

    n_done: int
    n_failed: int
    n_fits: int
    seconds_left: float
    # Fits of which no other of the same method on the same data has been timed: they are not in the seconds.
    n_untimed: int

    def in_words(self) -> str:
        """Return the outlook as a text."""
        left = self.n_fits - self.n_done
        words = f"{self.n_done} of {self.n_fits} fits"
        if self.n_failed:
            words += f", {self.n_failed} failed"
        if not left:
            return words
        if self.n_untimed == left:
            return f"{words}, time left not known yet"
        least = "at least " if self.n_untimed else "about "
        untimed = f" ({self.n_untimed} fits of unknown length not counted)" if self.n_untimed else ""
        return f"{words}, {least}{_duration(self.seconds_left)} left{untimed}"


def _duration(seconds: float) -> str:
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
    """Run what is not yet in the file of results, and return when all of the plan is.

    Each result is one transaction. A process that is killed loses the fit it is at and nothing else; the next run goes
    on from there. Several processes, started at any time, share the work: none does what another has done or is doing.

    Parameters
    ----------
    plan : Plan, str or path-like
        The plan, its name, or its file; see `load_plan`.
    results : str or path-like
        The SQLite file; it is made if it is not there.
    data : str or path-like, optional
        Folder of the data sets; by default ``data`` in the folder that TENSORMVC_SHARED names, else in ``../shared``.
    n_jobs : int, default=1
        Processes at work; with more than one they divide the processors among them.
    retry : bool, default=False
        Whether to try again what failed before.
    command : str, default=""
        What to type to do the same, for the report.
    progress : function of two ints and a text, optional
        Called after every fit with the number done, the number of all, and both in words with the time left.

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
    start = time.time()
    if not isinstance(plan, Plan):
        plan = load_plan(plan)
    folder = None if data is None else Path(data)
    loaded = {planned.name: load(planned, folder) for planned in plan.datasets}
    facts = {name: one.facts for name, one in loaded.items()}
    wanted = cells(plan, facts)
    retry_before = start if retry else 0.0
    with Store(results) as store:
        known = {name: asdict(fact) for name, fact in facts.items()}
        store.save_plan(StoredPlan(plan.name, plan.text, plan.seed, known, command))
        before = outlook(plan, wanted, store, retry_before).n_done
        if progress is not None:
            progress(*_told(outlook(plan, wanted, store, retry_before)))
        if n_jobs == 1:
            _work(plan, wanted, loaded, store, retry_before, progress)
        else:
            _start_workers(plan, wanted, Path(results), folder, n_jobs, retry_before, store, progress)
        return _summary(plan, wanted, store, before, time.time() - start)


def plan_outlook(plan: Plan, results: str | Path, *, data: str | Path | None = None) -> Outlook:
    """Return what a run would have to do; nothing is run."""
    folder = None if data is None else Path(data)
    wanted = cells(plan, {planned.name: load(planned, folder).facts for planned in plan.datasets})
    if not Path(results).exists():
        jobs = len(first_jobs(plan, wanted)) + sum(n_later(plan, cell) for cell in wanted)
        return Outlook(0, 0, jobs, 0.0, jobs)
    with Store(results, must_exist=True) as store:
        return outlook(plan, wanted, store)


def outlook(plan: Plan, wanted: Sequence[Cell], store: Store, retry_before: float = 0.0) -> Outlook:
    """Return how far a plan is."""
    finished, seconds = store.finished(retry_before=retry_before), store.seconds()
    first = first_jobs(plan, list(wanted))
    screened: list[Cell] = []
    unknown: Counter[tuple[str, str, str]] = Counter()
    if plan.screen_trials is not None:
        for cell in wanted:
            if all(job.key in finished for job in first_jobs(plan, [cell])):
                screened.append(cell)
            else:
                unknown[cell.dataset, cell.method, cell.transform] += n_later(plan, cell)
    later = later_jobs(plan, screened, store.accuracies().get)
    jobs = list({job.key: job for job in [*first, *later]}.values())
    n_done = count_keys(jobs, finished)
    by_group: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for job in jobs:
        if job.key in seconds:
            by_group[job.group].append(seconds[job.key])
            by_group[job.group[:2]].append(seconds[job.key])
    left = unknown + Counter(job.group for job in jobs if job.key not in finished)
    total, untimed = 0.0, 0
    for group, count in left.items():
        times = by_group.get(group) or by_group.get(group[:2])
        if times:
            total += count * sum(times) / len(times)
        else:
            untimed += count
    workers = max(1, store.n_at_work())
    n_failed = n_done - count_keys(jobs, set(seconds))
    return Outlook(n_done, n_failed, len(jobs) + unknown.total(), total / workers, untimed)


def _told(now: Outlook) -> tuple[int, int, str]:
    return now.n_done, now.n_fits, now.in_words()


def _work(
    plan: Plan,
    wanted: list[Cell],
    loaded: Mapping[str, Data],
    store: Store,
    retry_before: float,
    progress: Progress | None,
    still_wanted: Callable[[], bool] = lambda: True,
) -> None:
    """Do fits until none is left, of those that need no others and then of those that the screening kept."""
    here = environment()

    def do_all(jobs: list[Job]) -> None:
        while still_wanted():
            job = store.claim(jobs, retry_before=retry_before)
            if job is None:
                if count_keys(jobs, store.finished(retry_before=retry_before)) == len(jobs):
                    return
                time.sleep(_WAIT)  # others are at the last ones, and may be killed
                continue
            store.finish(job, evaluate(job, loaded[job.dataset]), here)
            if progress is not None:
                progress(*_told(outlook(plan, wanted, store, retry_before)))

    do_all(first_jobs(plan, wanted))
    do_all(later_jobs(plan, wanted, store.accuracies().get))


def _start_workers(
    plan: Plan,
    wanted: list[Cell],
    results: Path,
    folder: Path | None,
    n_jobs: int,
    retry_before: float,
    store: Store,
    progress: Progress | None,
) -> None:
    """Let processes do the work, and tell how far they are."""
    each = str(max(1, (os.cpu_count() or 1) // n_jobs))
    given = {name: os.environ.get(name) for name in THREADS}
    os.environ.update({name: each for name, value in given.items() if value is None})
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=_be_a_worker, args=(plan, results, folder, retry_before, os.getpid()))
        for _ in range(n_jobs)
    ]
    try:
        with _interrupts_ignored():
            for worker in workers:
                worker.start()
        while any(worker.is_alive() for worker in workers):
            if progress is not None:
                progress(*_told(outlook(plan, wanted, store, retry_before)))
            multiprocessing.connection.wait([worker.sentinel for worker in workers if worker.is_alive()], _TELL)
    finally:
        for name, value in given.items():
            if value is None:
                os.environ.pop(name, None)
        for worker in workers:
            if worker.is_alive():
                worker.terminate()
            if worker.pid is not None:
                worker.join()
    if codes := [worker.exitcode for worker in workers if worker.exitcode]:
        raise RuntimeError(f"processes ended with {codes}; run the plan again to go on")


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Let processes that are started here ignore interrupts, from the very first.

    An interrupt goes to all processes at a terminal; the one that started the others ends them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _be_a_worker(plan: Plan, results: Path, folder: Path | None, retry_before: float, parent: int) -> None:
    """Work as one of several processes, as long as the one that started them is there."""
    # Where it was started by a thread that could not see to it before.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    loaded = {planned.name: load(planned, folder) for planned in plan.datasets}
    wanted = cells(plan, {name: data.facts for name, data in loaded.items()})
    with Store(results) as store:
        _work(plan, wanted, loaded, store, retry_before, None, lambda: os.getppid() == parent)


def _summary(plan: Plan, wanted: list[Cell], store: Store, n_before: int, seconds: float) -> RunSummary:
    jobs = all_jobs(plan, wanted, store.accuracies().get)
    rows = store.rows()
    ends = [rows[job.key].outcome.error for job in jobs if job.key in rows]
    errors = Counter(error for error in ends if error is not None)
    return RunSummary(
        plan=plan.name,
        results=store.path,
        n_fits=len(jobs),
        n_before=n_before,
        n_failed=errors.total(),
        errors=[error for error, _ in errors.most_common()],
        seconds=seconds,
    )


def all_jobs(plan: Plan, wanted: list[Cell], accuracy: Callable[[str], float | None]) -> list[Job]:
    """Return every fit that a plan needs, as far as the screening has decided."""
    both = [*first_jobs(plan, wanted), *later_jobs(plan, wanted, accuracy)]
    return list({job.key: job for job in both}.values())


def facts_of(stored: StoredPlan) -> dict[str, Facts]:
    """Return what was known of the data sets when a plan ran."""
    return {name: Facts.from_json(record) for name, record in stored.datasets.items()}
