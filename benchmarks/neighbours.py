"""Compare the neighbour search of `MultiViewClustering` with scikit-learn's.

scikit-learn looks at 2k + 2 candidates, as the rule for ties needs, which `find_neighbours` also applies. It computes
half of the products among few samples, bounds the k-th distance by groups of candidates instead of a heap, and uses
threads of its own, because those of OpenMP wait busily for each other. With `--busy`, other processes keep all
processors busy meanwhile.
"""

import argparse
import multiprocessing
import os

import numpy as np
import scipy.sparse as sp
from _measure import seconds
from sklearn.neighbors import NearestNeighbors

from tensormvc.graphs._fuzzy import find_neighbours

K = 10


def scikit_learn(points):
    return NearestNeighbors(n_neighbors=2 * K + 2, algorithm="brute").fit(points).kneighbors(points)


def spin():
    while True:
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--busy", action="store_true", help="measure on a busy machine")
    args = parser.parse_args()
    others = [multiprocessing.Process(target=spin, daemon=True) for _ in range(os.cpu_count() if args.busy else 0)]
    for process in others:
        process.start()
    rng = np.random.default_rng(0)
    cases = {f"{n} × {d}": rng.normal(size=(n, d)) for n, d in [(2000, 6), (2000, 240), (2500, 1000), (10_000, 32)]}
    cases["3000 × 3000, 1 % non-zero"] = sp.random_array((3000, 3000), density=0.01, format="csr", rng=rng)
    print("| samples | scikit-learn, s | find_neighbours, s |\n|---|---|---|")
    for name, points in cases.items():
        runs = {"scikit-learn": lambda x=points: scikit_learn(x), "ours": lambda x=points: find_neighbours([x], K)}
        measured = seconds(runs)
        print(f"| {name} | {measured['scikit-learn']:.3f} | {measured['ours']:.3f} |", flush=True)
    for process in others:
        process.terminate()


if __name__ == "__main__":
    main()
