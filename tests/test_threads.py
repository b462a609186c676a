"""Work on our own threads: what it returns, how it fails, and that it lives through a fork."""

import multiprocessing
import threading

import numpy as np
import pytest

from tensormvc.backend import parallel_ranges


@pytest.fixture(autouse=True)
def three_threads(monkeypatch):
    monkeypatch.setattr("tensormvc.backend.threads._processors", lambda: 3)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")


def squares(n=100):
    out = np.zeros(n)

    def work(start, stop):
        # Inside a thread of ours there is no further cut.
        parallel_ranges(lambda lo, hi: out.__setitem__(slice(start + lo, start + hi), 1), stop - start)
        out[start:stop] *= np.arange(start, stop) ** 2

    parallel_ranges(work, n, 7)
    return out


def test_every_piece_is_worked_on_once():
    np.testing.assert_array_equal(squares(), np.arange(100.0) ** 2)


def test_callers_in_several_threads_do_not_wait_for_each_other():
    found = []
    callers = [threading.Thread(target=lambda: found.append(squares())) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(timeout=60)
    assert len(found) == 8
    assert all((out == np.arange(100.0) ** 2).all() for out in found)


@pytest.mark.parametrize("where", [0, 34, 68])
def test_an_error_waits_for_the_others(where):
    """Whichever thread it comes from: nothing goes on behind the caller's back."""
    begun, ended = [], []

    def work(start, stop):
        begun.append(start)
        if start == where:
            raise ValueError("of the work")
        threading.Event().wait(0.05)
        ended.append(start)

    with pytest.raises(ValueError, match="of the work"):
        parallel_ranges(work, 100, 34)
    assert sorted(ended) == sorted(set(begun) - {where})


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_threads_after_a_fork():
    squares()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        found = pool.apply_async(squares).get(timeout=60)
    np.testing.assert_array_equal(found, np.arange(100.0) ** 2)
