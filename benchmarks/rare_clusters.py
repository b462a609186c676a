"""Whether rare clusters are found: the Jaccard index of a planted cluster with the most similar cluster of the fit.

Ten clusters in three views of 16, 32 and 64 features. One of them has a share of 0.1 %, 0.5 % or 1 % of the samples,
the others have equal shares; all are equally far apart. Only the landmarks are clustered, all others are placed.
"""

import argparse
import time

import numpy as np

import tensormvc as tm

N_CLUSTERS, WIDTHS = 10, (16, 32, 64)


def data(n, share, separation, seed):
    """Return views and labels; the rare cluster is the last one."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < share, N_CLUSTERS - 1, rng.integers(N_CLUSTERS - 1, size=n))
    centres = [separation * rng.normal(size=(N_CLUSTERS, d)) / np.sqrt(d) for d in WIDTHS]
    return [centre[y] + rng.normal(size=(n, centre.shape[1])) for centre in centres], y


def jaccard(y, labels):
    """Return the largest Jaccard index of the rare cluster with a cluster of the fit."""
    rare = y == N_CLUSTERS - 1
    both, sizes = np.bincount(labels[rare], minlength=labels.max() + 1), np.bincount(labels)
    return float(np.max(both / (rare.sum() + sizes - both)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="*", type=int, default=[100_000, 1_000_000])
    parser.add_argument("--shares", nargs="*", type=float, default=[0.001, 0.005, 0.01])
    parser.add_argument("--separation", type=float, default=6.0, help="length of the centres; samples spread by 1")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    args = parser.parse_args()
    print("| n | share | seed | landmarks | of the rare cluster | Jaccard | ARI | seconds |\n" + "|---" * 8 + "|")
    for n in args.sizes:
        for share in args.shares:
            for seed in args.seeds:
                views, y = data(n, share, args.separation, seed)
                start = time.perf_counter()
                model = tm.MultiViewClustering(N_CLUSTERS, random_state=0).fit(views)
                seconds = time.perf_counter() - start
                rare = int(np.sum(y[model.landmarks_] == N_CLUSTERS - 1))
                print(
                    f"| {n:,} | {share:.1%} | {seed} | {len(model.landmarks_):,} | {rare} "
                    f"| {jaccard(y, model.labels_):.3f} | {tm.metrics.ari(y, model.labels_):.3f} | {seconds:.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
