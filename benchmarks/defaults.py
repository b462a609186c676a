"""How the default parameters were found: by the agreement of labels with the neighbourhoods of every view, no classes.

Each setting is fitted to at most `--samples` random samples of each benchmark file, and scored by the modularity of its
labels on the 10-nearest-neighbour graph of each view, averaged over the views, times the share of the clusters asked
for that are not empty. The default is the setting with the best mean over the files of its score minus the best score
of the file. ACC is printed beside it and decides nothing. Results go to a file of JSON lines, so that an interrupted
run goes on where it was.
"""

import argparse
import json
import os
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import tensormvc as tm

FILES = [
    "MSRCv1",
    "NGs",
    "BBCSport",
    "Handwritten",
    "100leaves",
    "Hdigit",
    "CCV",
    "ALOI-100_recomputed",
    "Caltech101-20_recomputed",
    "MNIST70k",
]
# ASRETR is ESTMC with a ridge, which is off by default.
GRIDS = {
    "ESTMC": {"basis": ["gft-sum", "agft"], "alpha": [0.05, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]},
    "TSVDMVC": {"basis": ["gft-sum"], "lam": [0.1, 0.2, 0.5, 1.0, 2.0]},
    "TLSpNM": {"basis": ["gft-sum"], "lam": [0.1, 0.2, 0.5, 1.0]},
    "TLRLF4MVC": {
        "basis": ["gft-sum"],
        "lam": [0.001, 0.01, 0.03, 0.1, 1.0],
        "gamma": [0.01, 0.1, 0.5, 1.0, 3.0, 10.0],
        "mu_max": [0.01, 0.1],
    },
}


def sample(path, most):
    """Return a random part of a data set, its classes, and the neighbour graph of each view."""
    views, y = tm.datasets.load_views(path)
    chosen = np.sort(np.random.default_rng(0).permutation(len(y))[:most])
    parts = [view[chosen] for view in (views.values() if isinstance(views, dict) else views)]
    return parts, np.asarray(y)[chosen], [tm.SimGraph().fit([part]).graph_ for part in parts]


def score(method, setting, parts, y, graphs):
    """Fit one setting; return what is written down about it."""
    start = time.perf_counter()
    model = getattr(tm, method)(len(np.unique(y)), random_state=0, **setting)
    try:
        labels = model.fit_predict(parts)
    except (ValueError, FloatingPointError) as error:
        return {"error": str(error)}
    filled = len(np.unique(labels)) / model.n_clusters
    return {
        "score": filled * float(np.mean([tm.selection.modularity(graph, labels) for graph in graphs])),
        "acc": tm.metrics.clustering_accuracy(y, labels),
        "rounds": model.n_iter_,
        "seconds": time.perf_counter() - start,
    }


def run(folder, results, methods, most):
    """Fit what is not yet in the file of results."""
    done = {json.dumps(record["key"]) for record in read(results)}
    for method in methods:
        settings = [dict(zip(GRIDS[method], values, strict=True)) for values in product(*GRIDS[method].values())]
        for name in FILES:
            wanted = [setting for setting in settings if json.dumps([method, name, most, setting]) not in done]
            if not wanted:
                continue
            data = sample(folder / f"{name}.mat", most)
            for setting in wanted:
                record = {"key": [method, name, most, setting], **score(method, setting, *data)}
                with results.open("a") as file:
                    file.write(json.dumps(record) + "\n")


def read(results):
    """Return the records of earlier runs."""
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def report(results, most):
    """Print, for each method and setting, the mean score relative to the best of the file, and mean ACC."""
    records = [r for r in read(results) if r["key"][2] == most and "score" in r]
    for method in GRIDS:
        mine = [r for r in records if r["key"][0] == method]
        best = {}
        for r in mine:
            best[r["key"][1]] = max(best.get(r["key"][1], -1.0), r["score"])
        settings = {}
        for r in mine:
            settings.setdefault(json.dumps(r["key"][3]), []).append(r)
        rows = [
            (np.mean([r["score"] - best[r["key"][1]] for r in rs]), np.mean([r["acc"] for r in rs]), len(rs), name)
            for name, rs in settings.items()
        ]
        print(f"\n{method}: score lost against the best of the file; ACC (uses classes, decides nothing); files")
        for loss, acc, count, name in sorted(rows, reverse=True):
            print(f"{loss:8.4f}  {100 * acc:5.1f}  {count:2d}  {name}")


def main():
    root = Path(__file__).parents[1]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=Path, default=os.environ.get("TENSORMVC_SHARED", root.parent / "shared"))
    parser.add_argument("--results", type=Path, default=Path("defaults.jsonl"), help="file of results")
    parser.add_argument("--samples", type=int, default=400, help="most samples of a file (default 400)")
    parser.add_argument("--methods", nargs="*", default=list(GRIDS), choices=list(GRIDS))
    parser.add_argument("--report", action="store_true", help="print what is there and fit nothing")
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    if not args.report:
        run(Path(args.shared) / "data", args.results, args.methods, args.samples)
    report(args.results, args.samples)


if __name__ == "__main__":
    main()
