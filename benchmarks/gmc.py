"""GMC on a file, or on synthetic data of the size of CCV: seconds in units of one matrix product, and memory."""

import argparse
import resource
import time
from pathlib import Path

from _measure import unit

import tensormvc as tm
from tensormvc.graphs import gmc
from tensormvc.views import as_views


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, help="multi-view data that load_views reads")
    parser.add_argument("-k", type=int, default=20, help="clusters (default 20)")
    args = parser.parse_args()
    if args.file:
        views, _ = tm.datasets.load_views(args.file)
    else:
        views, _ = tm.datasets.make_multiview(6773, n_clusters=20, n_features=(20, 20, 20), random_state=0)
    made = as_views(views)
    product = unit()
    start = time.perf_counter()
    result = gmc(list(made.arrays), args.k)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"{args.file.name if args.file else 'synthetic'}: n = {made.n_samples}, {made.n_views} views, {args.k} clusters"
    )
    print("| seconds | units (2000³ matrix products) | rounds | converged | peak memory of the process, GB |")
    print("|---|---|---|---|---|")
    print(f"| {seconds:.1f} | {seconds / product:.0f} | {result.n_iter} | {result.converged} | {peak:.2f} |")


if __name__ == "__main__":
    main()
