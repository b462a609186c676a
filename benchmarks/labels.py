"""Write the labels of every estimator to a file, or compare two such files: what a refactoring must leave as it is.

    python benchmarks/labels.py before.npz        # on one revision
    python benchmarks/labels.py after.npz         # on the other
    python benchmarks/labels.py before.npz after.npz

The data are the embedded digits and the benchmark files, found in the folder that TENSORMVC_SHARED names, else in
../shared, and shuffled. A file that exists is continued.
"""

import argparse
import os
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

import tensormvc as tm

FILES = ["MSRCv1", "BBCSport", "Handwritten"]
BASES = ["fft", "fft-view", "dct", "haar", "random", "gft-sim", "gft-sum", "gft-gmc", "agft"]
METHODS = ["ESTMC", "ASRETR", "TLRLF4MVC", "TSVDMVC", "TLSpNM"]
# n × n tensors of 2 000 samples in six views take minutes each: fewer rounds, and one basis of each kind.
QUADRATIC, FEW_BASES, FEW_ROUNDS = {"TSVDMVC", "TLSpNM"}, ["fft", "gft-sum"], 12


def data():
    folder = Path(os.environ.get("TENSORMVC_SHARED", Path(__file__).parents[2] / "shared")) / "data"
    yield "digits", *tm.datasets.load_digits_views()
    for name in FILES:
        if (folder / f"{name}.mat").exists():
            yield name, *tm.datasets.load_views(folder / f"{name}.mat")


def cells(name, n_clusters, n_samples):
    large = n_samples > 1000
    yield f"{name} GMC", tm.GMC(n_clusters)
    yield f"{name} MultiViewClustering", tm.MultiViewClustering(n_clusters, random_state=0)
    for method in METHODS:
        quadratic = large and method in QUADRATIC
        for basis in FEW_BASES if quadratic else BASES:
            rounds = {"max_iter": FEW_ROUNDS} if quadratic else {}
            yield f"{name} {method} {basis}", getattr(tm, method)(n_clusters, basis=basis, random_state=0, **rounds)


def compute(path):
    found = dict(np.load(path)) if path.exists() else {}
    for name, views, classes in data():
        views, classes, _ = tm.datasets.shuffle_samples(views, classes, random_state=0)
        for cell, model in cells(name, len(np.unique(classes)), len(classes)):
            if cell not in found:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    found[cell] = model.fit(views).labels_
                np.savez(path, **found)
                print(cell, flush=True)


def compare(before, after):
    before, after = np.load(before), np.load(after)
    cells = [cell for cell in before.files if cell in after.files]
    different = [cell for cell in cells if not np.array_equal(before[cell], after[cell])]
    for cell in different:
        print(f"{cell}: ARI {adjusted_rand_score(before[cell], after[cell]):.4f}")
    print(f"{len(cells)} cells, {len(cells) - len(different)} of them array_equal")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="one file to write, or two to compare")
    files = parser.parse_args().files
    compute(files[0]) if len(files) == 1 else compare(*files[:2])


if __name__ == "__main__":
    main()
