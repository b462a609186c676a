"""ESTMC on a cluster of two worker processes of this machine: overhead against memory, growth, and more than fits.

Synthetic samples in three views of 32 features, ten clusters, float64, from Parquet files. Peaks are those of the
resident memory of the client (with the scheduler in it) and of the workers, sampled every 50 ms.

  python benchmarks/on_dask.py overhead            n = 200 000: seconds on the cluster over seconds in memory
  python benchmarks/on_dask.py growth              seconds of a round over n, with the slope; while the state is
                                                   spilled with --spill --memory 1GB --sizes 1000000 2000000
  python benchmarks/on_dask.py front-door          n = 2 000 000 with 1 GB a worker, by `MultiViewClustering`
  python benchmarks/on_dask.py large               n = 2 000 000 with 1 GB a worker: the state is spilled to disk
"""

import argparse
import statistics
import tempfile
import threading
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import dask
import dask.dataframe as dd
import numpy as np
import psutil
import pyarrow
import pyarrow.parquet
from distributed import Client, LocalCluster
from sklearn.exceptions import ConvergenceWarning

import tensormvc as tm

N_VIEWS, N_FEATURES, N_CLUSTERS, N_LATENT = 3, 32, 10, 20
ROWS_A_FILE = 50_000
# Warnings about memory that is not freed at once.
QUIET = {"logging.distributed.worker.memory": "error"}
# Memory that a task frees is for the next one: by default workers give it back, and the system clears it each time.
KEEP_MEMORY = {
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 2**28,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 2**25,
}
# Where memory is short, all that is free must go back: what travels between chunks and partitions is in small pieces,
# and the holes that they leave would count as used until a worker stops taking tasks.
GIVE_BACK = {"distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 2**14}


def write_views(folder, n):
    """Write samples around ten centres, a folder of Parquet files a view."""
    centres = np.random.default_rng(0).normal(size=(N_VIEWS, N_CLUSTERS, N_FEATURES))
    for v in range(N_VIEWS):
        (folder / str(v)).mkdir(parents=True)
        for start in range(0, n, ROWS_A_FILE):
            rows = np.arange(start, min(start + ROWS_A_FILE, n))
            rng = np.random.default_rng([v, start])
            values = centres[v, rows % N_CLUSTERS] + rng.normal(size=(len(rows), N_FEATURES))
            table = pyarrow.table({f"f{i}": column for i, column in enumerate(values.T)})
            pyarrow.parquet.write_table(table, folder / str(v) / f"{start:012d}.parquet", row_group_size=ROWS_A_FILE)
    return [folder / str(v) for v in range(N_VIEWS)]


class Peaks:
    """Largest resident memory of this process and of each of its children."""

    def __init__(self):
        self.client, self.workers, self.done = 0, {}, False

    def __enter__(self):
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def _watch(self):
        here = psutil.Process()
        while not self.done:
            self.client = max(self.client, here.memory_info().rss)
            for child in here.children(recursive=True):
                try:
                    self.workers[child.pid] = max(self.workers.get(child.pid, 0), child.memory_info().rss)
                except psutil.NoSuchProcess:
                    continue
            time.sleep(0.05)

    def __exit__(self, *error):
        self.done = True
        self.thread.join()

    def __str__(self):
        workers = sorted(self.workers.values(), reverse=True)[:2]
        return f"client {self.client / 1e9:.2f} GB, workers " + " and ".join(f"{peak / 1e9:.2f} GB" for peak in workers)


@contextmanager
def cluster(memory, keep_memory=True):
    with (
        dask.config.set({**QUIET, **(KEEP_MEMORY if keep_memory else GIVE_BACK)}),
        LocalCluster(n_workers=2, threads_per_worker=1, memory_limit=memory, dashboard_address=":0") as local,
        Client(local) as client,
    ):
        yield client


def model(rounds, verbose=0):
    return tm.ESTMC(
        N_CLUSTERS, "agft", n_latent=N_LATENT, random_state=0, max_iter=rounds, tol=0 if rounds < 51 else 1e-7,
        verbose=verbose,
    )  # fmt: skip


def fit(views, rounds, verbose=0):
    start = time.perf_counter()
    fitted = model(rounds, verbose).fit(views)
    labels = np.asarray(fitted.labels_)
    return labels, time.perf_counter() - start, statistics.median(r.seconds for r in fitted.history_[1:])


def overhead(n, rounds, memory):
    with tempfile.TemporaryDirectory() as folder:
        paths = write_views(Path(folder), n)
        views = [pyarrow.parquet.read_table(path).to_pandas().to_numpy() for path in paths]
        expected, here, round_here = fit(views, rounds)
        del views
        with Peaks() as peaks, cluster(memory):
            labels, there, round_there = fit([dd.read_parquet(path) for path in paths], rounds)
    print(f"n = {n:,}, {rounds} rounds at most")
    print("| where | fit, s | a round, s | ratio of fits |\n|---|---|---|---|")
    print(f"| in memory | {here:.1f} | {round_here:.2f} | 1.0 |")
    print(f"| on two workers | {there:.1f} | {round_there:.2f} | {there / here:.2f} |")
    print(f"labels equal: {np.array_equal(labels, expected)}; peaks: {peaks}")


def growth(sizes, rounds, memory, keep_memory):
    print("| n | fit, s | a round, s | peaks |\n|---|---|---|---|")
    times = []
    for n in sizes:
        with tempfile.TemporaryDirectory() as folder, Peaks() as peaks, cluster(memory, keep_memory):
            paths = write_views(Path(folder), n)
            _, total, one = fit([dd.read_parquet(path) for path in paths], rounds)
        times.append(one)
        print(f"| {n:,} | {total:.1f} | {one:.2f} | {peaks} |", flush=True)
    if len(sizes) > 1:
        print(f"log-log slope of a round over n: {np.polyfit(np.log(sizes), np.log(times), 1)[0]:.2f}")


def large(n, rounds, memory):
    state = n * 8 * (2 * N_VIEWS * N_FEATURES + 3 * N_VIEWS * N_LATENT)
    with tempfile.TemporaryDirectory() as folder:
        paths = write_views(Path(folder), n)
        with Peaks() as peaks, cluster(memory, keep_memory=False):
            labels, total, one = fit([dd.read_parquet(path) for path in paths], rounds, verbose=1)
    sizes = np.bincount(labels)
    truth = np.arange(n) % N_CLUSTERS
    print(f"n = {n:,}: {total / 60:.1f} minutes, {one:.1f} s a round; views and state {state / 1e9:.1f} GB; {peaks}")
    print(f"clusters of {sizes.tolist()}; ARI with the centres that made them: {tm.metrics.ari(truth, labels):.4f}")


def front_door(n, memory):
    with tempfile.TemporaryDirectory() as folder:
        paths = write_views(Path(folder), n)
        with Peaks() as peaks, cluster(memory, keep_memory=False):
            start = time.perf_counter()
            fitted = tm.MultiViewClustering(N_CLUSTERS, random_state=0, verbose=1)
            fitted.fit([dd.read_parquet(path) for path in paths])
            labels = np.asarray(fitted.labels_)
            seconds = time.perf_counter() - start
    ari = tm.metrics.ari(np.arange(n) % N_CLUSTERS, labels)
    print(f"n = {n:,}: {seconds:.0f} s, {len(fitted.landmarks_):,} landmarks; {peaks}; ARI {ari:.4f}")


def main():
    warnings.simplefilter("ignore", ConvergenceWarning)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["overhead", "growth", "large", "front-door"])
    parser.add_argument("-n", type=int)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 200_000, 400_000])
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--memory", help="of each worker, such as 1GB")
    parser.add_argument("--spill", action="store_true", help="growth where that memory is short")
    args = parser.parse_args()
    if args.what == "overhead":
        overhead(args.n or 200_000, args.rounds or 51, args.memory or "4GB")
    elif args.what == "front-door":
        front_door(args.n or 2_000_000, args.memory or "1GB")
    elif args.what == "growth":
        growth(args.sizes, args.rounds or 6, args.memory or "4GB", keep_memory=not args.spill)
    else:
        large(args.n or 2_000_000, args.rounds or 51, args.memory or "1GB")


if __name__ == "__main__":
    main()
