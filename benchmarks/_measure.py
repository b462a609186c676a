"""How the benchmarks measure: medians of repeated runs, interleaved, and peak memory."""

import statistics
import time
import tracemalloc

import numpy as np


def seconds(functions, repeats=5):
    """Median seconds of each function; the functions take turns, so that a slow minute hits all of them."""
    times = {name: [] for name in functions}
    for function in functions.values():
        function()  # warm caches, allocate what is kept
    for _ in range(repeats):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def peak_bytes(function):
    """Bytes that a call holds at most beyond what was there before (as NumPy reports them)."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        result = function()
        peak = tracemalloc.get_traced_memory()[1] - before
        del result
    finally:
        tracemalloc.stop()
    return peak


def unit():
    """Seconds of one 2000 × 2000 float64 matrix product: what this machine can do."""
    a = np.random.default_rng(0).normal(size=(2000, 2000))
    return seconds({"gemm": lambda: a @ a})["gemm"]
