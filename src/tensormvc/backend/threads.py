"""Threads of our own, with BLAS on one thread in each."""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import joblib
from threadpoolctl import ThreadpoolController

from .arrays import Array, is_tensor


def thread_count() -> int:
    """Return the number of threads to use: the available processors, or ``OMP_NUM_THREADS`` if that is fewer.

    Process pools (joblib, loky, Dask) set that variable in their workers, so nested parallelism does not oversubscribe
    the machine. Processors are counted once. `limited_threads` sets another number.
    """
    if asked := getattr(_this_thread, "asked", None):
        return int(asked)
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    available = _processors()
    return min(available, int(limit)) if limit.isdigit() and int(limit) > 0 else available


@cache
def _processors() -> int:
    # It reads files of the system each time.
    return int(joblib.cpu_count())


_this_thread = threading.local()

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property
else:
    import functools

    class cached_property(functools.cached_property):
        """Without the lock of Python 3.11, which all instances share, so that threads wait for each other."""

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            """Return the value, which is computed when it is first asked for."""
            if instance is None:
                return self
            values = vars(instance)
            if self.attrname not in values:
                values[self.attrname] = self.func(instance)
            return values[self.attrname]


# A device serves one of our threads after the other: its memory need not hold what all of them compute, and PyTorch
# starts its linear algebra there in one thread only.
device_lock = threading.Lock()


@contextmanager
def limited_threads(n_jobs: int | None) -> Iterator[None]:
    """Use so many threads, counted as in joblib (−1: all processors); None changes nothing."""
    if n_jobs is None:
        yield
        return
    before = getattr(_this_thread, "asked", None)
    _this_thread.asked = joblib.effective_n_jobs(n_jobs)
    try:
        with _libraries().limit(limits=_this_thread.asked):
            yield
    finally:
        _this_thread.asked = before


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def one_blas_thread() -> Any:
    """Return a context in which BLAS uses one thread: more take longer to synchronise than a small product takes."""
    return _libraries().limit(limits=1, user_api="blas")


def parallel_ranges(work: Callable[[int, int], None], size: int, grain: int = 1) -> None:
    """Run ``work(start, stop)`` over ``range(size)``, cut into one contiguous piece per thread.

    Pieces are multiples of `grain`, except for the last. NumPy releases the interpreter lock, so threads are enough;
    results must not depend on where the cuts are. Called from one of these threads, it runs the work there.
    """
    n_pieces = 1 if getattr(_this_thread, "works", False) else min(thread_count(), -(-size // grain))
    if n_pieces <= 1:
        work(0, size)
        return

    step = grain * -(-size // (grain * n_pieces))
    # Threads that each call a BLAS with threads of its own would wait for one another.
    with one_blas_thread():
        others = [_pool().submit(work, start, min(start + step, size)) for start in range(step, size, step)]
        try:
            with one_thread():
                work(0, step)
            for future in others:
                future.result()
        finally:
            # Nothing may continue after an error or Ctrl-C: the arrays belong to the caller.
            for future in others:
                future.cancel()
            wait(others)


def parallel_map(function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Return what a function makes of each item, in their order; threads take the next item when they are ready."""
    results: list[Any] = [None] * len(items)
    remaining = iter(range(len(items)))

    def work(start: int, stop: int) -> None:
        for i in remaining:
            results[i] = function(items[i])

    with one_blas_thread():
        parallel_ranges(work, min(len(items), thread_count()))
    return results


@cache
def _pool() -> ThreadPoolExecutor:
    # Kept, because starting a thread takes as long as a small piece of work.
    return ThreadPoolExecutor(_processors(), "tensormvc", initializer=_mark_thread)


def _mark_thread() -> None:
    _this_thread.works = True


if hasattr(os, "register_at_fork"):
    # Threads do not survive in a forked process.
    os.register_at_fork(after_in_child=_pool.cache_clear)


@contextmanager
def one_thread() -> Iterator[None]:
    """Make `parallel_ranges` use this thread only: for work that is one of many tasks already."""
    before = getattr(_this_thread, "works", False)
    _this_thread.works = True
    try:
        yield
    finally:
        _this_thread.works = before


def run_ranges(work: Callable[[int, int], None], array: Array, grain: int = 1) -> None:
    """Run ``work(start, stop)`` over the rows of an array, on all threads if it is a NumPy array."""
    if is_tensor(array):
        work(0, array.shape[0])
    else:
        parallel_ranges(work, array.shape[0], grain)
