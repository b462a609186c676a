"""How much memory code takes, in a process of its own, and where arrays are."""

import mmap
import subprocess
import sys

import numpy as np

_PROBE = """
import sys, threading, time, warnings
import numpy as np, tensormvc as tm

def anonymous():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1024

def watch():
    global peak
    while not done.wait(0.01):
        peak = max(peak, anonymous())

warnings.simplefilter("ignore")
views = [np.load(path, mmap_mode="r") for path in sys.argv[3:]]
done, peak = threading.Event(), anonymous()
thread = threading.Thread(target=watch)
thread.start()
exec(sys.argv[1])
before = peak = max(peak, anonymous())
exec(sys.argv[2])
done.set()
thread.join()
print(peak - before)
"""


def peak_memory(setup, statement, paths):
    """Return how many more bytes a statement on ``views``, mapped from files, takes at most than its setup took.

    Pages of files that are mapped (RssFile) do not count: the system takes them back when it needs them. What is there
    after the setup is no measure: how much of what is free the C library has given back by then is chance.
    """
    command = [sys.executable, "-c", _PROBE, setup, statement, *map(str, paths)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def is_on_disk(array):
    """Whether a NumPy array is mapped to a file."""
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array, mmap.mmap)
