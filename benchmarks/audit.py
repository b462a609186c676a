"""What an audit costs beyond its fits: the same fits alone, taking turns with it, and what the audit says itself."""

import argparse

import numpy as np
from _measure import seconds
from sklearn.base import clone
from sklearn.cluster import AgglomerativeClustering, Birch, KMeans, MiniBatchKMeans

import tensormvc as tm


def fits_alone(estimator, x, n_permutations):
    """Return a function that does the fits of an audit, with rows that are in order already."""
    rng = np.random.default_rng(0)
    n = len(x) if isinstance(x, np.ndarray) else len(x[0])
    orders = [np.arange(n), *(rng.permutation(n) for _ in range(n_permutations - 1)), np.arange(n)]
    data = [x[order] if isinstance(x, np.ndarray) else [view[order] for view in x] for order in orders]
    tasks = [(estimator, rows) for rows in data]
    if "random_state" in estimator.get_params():
        seeds = range(1, n_permutations)
        tasks += [(clone(estimator).set_params(random_state=seed), x) for seed in seeds]
    return lambda: [clone(model).fit_predict(rows) for model, rows in tasks]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--permutations", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    views, _ = tm.datasets.load_digits_views()
    few, _ = tm.datasets.load_digits_views(100)
    cases = {
        "KMeans(10, n_init=1)": (KMeans(10, n_init=1, random_state=0), views[0]),
        "KMeans(10, n_init=10)": (KMeans(10, n_init=10, random_state=0), views[0]),
        "MiniBatchKMeans(10)": (MiniBatchKMeans(10, random_state=0), views[0]),
        "Birch(threshold=20)": (Birch(n_clusters=10, threshold=20), views[0]),
        "AgglomerativeClustering(10)": (AgglomerativeClustering(10), views[0]),
        "TSVDMVC(10), 100 samples": (tm.TSVDMVC(10, basis="gft-sim", random_state=0), few),
    }
    print(f"{args.permutations} orders; digits, 1797 samples of 64 pixels where nothing else is said")
    print("| clusterer | fits alone, s | audit, s | audit / fits | beyond its fits, by the audit's own clock |")
    print("|---|---|---|---|---|")
    for name, (estimator, x) in cases.items():
        shares = []

        def audit(estimator=estimator, x=x, shares=shares):
            found = tm.audit_order(estimator, x, n_permutations=args.permutations)
            fits = sum(run["seconds"] for run in found.runs)
            shares.append(found.seconds / fits - 1)

        repeats = 1 if isinstance(x, list) else args.repeats
        times = seconds({"fits": fits_alone(estimator, x, args.permutations), "audit": audit}, repeats)
        ratio = times["audit"] / times["fits"]
        beyond = f"{100 * np.median(shares):.1f} %"
        print(f"| {name} | {times['fits']:.2f} | {times['audit']:.2f} | {ratio:.3f} | {beyond} |", flush=True)


if __name__ == "__main__":
    main()
