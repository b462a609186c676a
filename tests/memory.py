"""How much memory code takes, in a process of its own."""

import subprocess
import sys

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
exec(sys.argv[1])
done, before = threading.Event(), anonymous()
peak, thread = before, threading.Thread(target=watch)
thread.start()
exec(sys.argv[2])
done.set()
thread.join()
print(peak - before)
"""


def peak_memory(setup, statement, paths):
    """Return by how many bytes a statement on ``views``, mapped from files, raises memory at most.

    Setup runs before, so that what the interpreter and its libraries take does not count. Neither do pages of files
    that are mapped (RssFile): the system takes them back when it needs them.
    """
    command = [sys.executable, "-c", _PROBE, setup, statement, *map(str, paths)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
