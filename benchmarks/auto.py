"""The front door against fixed pipelines, and criteria without labels against accuracy.

For every data set with at most 10 000 samples: `MultiViewClustering`, the baselines of the benchmark, and the reference
pipelines {unit length, z-scored} × {k-means, spectral clustering of the neighbours in the views side by side, of
the sum of the views' graphs, TSVDMVC and ESTMC on both graphs}. Labels measure, and choose only where it is said.
Results are kept row by row in a CSV file, so that the same command goes on where it was; tables are printed from it.
"""

import argparse
import csv
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

import tensormvc as tm
from tensormvc import selection
from tensormvc._views import as_views
from tensormvc.bench._methods import BASELINES
from tensormvc.penalties import ETR

SETS = [
    *["MSRCv1", "NGs", "BBCSport", "100leaves", "Handwritten", "Caltech101-20_recomputed", "CCV"],
    *["ALOI-100_recomputed", "Hdigit"],
]
FIXED = ["kmeans-l2", "kmeans-z", "spectral-sim", "spectral-sum", "spectral-gmc"]
CRITERIA = ["neighbour-information", "modularity", "held-out-view"]


def z_scored(views):
    return [StandardScaler().fit_transform(v.toarray() if hasattr(v, "toarray") else v) for v in views]


def reference_pipelines(most_tensor, most_anchors):
    """Return the fourteen by name, with the largest number of samples that each is run on here."""
    made = {}
    for scaling, scale in {"unit": list, "z": z_scored}.items():
        kmeans = BASELINES["kmeans-l2" if scaling == "unit" else "kmeans-z"].cluster
        made[f"{scaling}, k-means"] = 10**9, kmeans, list
        for graph, name in (("SimG", "sim"), ("SumG", "sum")):
            made[f"{scaling}, spectral on {graph}"] = 10**9, BASELINES[f"spectral-{name}"].cluster, scale
            tensor = lambda v, c, seed, name=name: tm.TSVDMVC(c, basis=f"gft-{name}", lam=0.5, random_state=seed)  # noqa: E731
            anchors = lambda v, c, seed, name=name: tm.ESTMC(  # noqa: E731
                c, basis=f"gft-{name}", alpha=0.05, penalty=ETR(0.01), random_state=seed
            )
            made[f"{scaling}, TSVDMVC on {graph}"] = most_tensor, fitted(tensor), scale
            made[f"{scaling}, ESTMC on {graph}"] = most_anchors, fitted(anchors), scale
    return made


def fitted(make):
    return lambda views, c, seed: make(views, c, seed).fit_predict(views)


class Store:
    """Rows of results in a CSV file, each written as soon as it is known."""

    fields = ("dataset", "pipeline", "kind", "ACC", "NMI", "ARI", "seconds", *CRITERIA)

    def __init__(self, path):
        self.path = path
        self.rows = list(csv.DictReader(path.open())) if path.exists() else []
        self.done = {(row["dataset"], row["pipeline"]) for row in self.rows}

    def add(self, **row):
        new = not self.path.exists()
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, self.fields)
            if new:
                writer.writeheader()
            writer.writerow(row)
        self.rows.append({key: str(value) for key, value in row.items()})
        self.done.add((row["dataset"], row["pipeline"]))
        print(row["dataset"], row["pipeline"], f"{row['ACC']:.2f}", f"{row['seconds']:.1f} s", flush=True)


class Judge:
    """Scores labelings of one data set; the graphs that it needs are made once."""

    def __init__(self, views, y):
        self.views, self.y, self.judges = views, y, None

    def measure(self, store, dataset, pipeline, kind, labels, seconds):
        if self.judges is None:
            made = as_views(self.views, unit=False)
            self.judges = {name: selection._CRITERIA[name](made, self.views, 0) for name in CRITERIA}
        found = tm.metrics.clustering_report(self.y, labels)
        values = {name: round(100 * found[name], 3) for name in ("ACC", "NMI", "ARI")}
        scores = {name: round(judge(pipeline, labels), 6) for name, judge in self.judges.items()}
        store.add(dataset=dataset, pipeline=pipeline, kind=kind, seconds=round(seconds, 2), **values, **scores)


def run(store, name, folder, args):
    views, y = tm.datasets.load_views(folder / f"{name}.mat")
    views, y, _ = tm.datasets.shuffle_samples(views, y, random_state=0)
    c, n = len(np.unique(y)), len(y)
    judge = Judge(views, y)
    if (name, "MultiViewClustering") not in store.done:
        start = time.perf_counter()
        model = tm.MultiViewClustering(c, time_budget=1200, random_state=0).fit(views)
        seconds = time.perf_counter() - start
        for member in model.report_.members:
            labels = np.empty(n, dtype=int)
            labels[model.landmarks_] = member.labels
            judge.measure(store, name, f"member: {member.name}", "member", labels, 0.0)
        judge.measure(store, name, "MultiViewClustering", "auto", model.labels_, seconds)
    pipelines = {f"baseline: {key}": (10**9, BASELINES[key].cluster, list) for key in FIXED}
    pipelines |= reference_pipelines(args.most_tensor, args.most_anchors)
    for pipeline, (most, cluster, scale) in pipelines.items():
        if (name, pipeline) in store.done or n > most:
            continue
        start = time.perf_counter()
        labels = cluster(scale(views), c, 0)
        kind = "baseline" if pipeline.startswith("baseline") else "reference"
        judge.measure(store, name, pipeline, kind, labels, time.perf_counter() - start)
    if (name, "number of clusters") not in store.done:
        start = time.perf_counter()
        found = tm.estimate_n_clusters(views)
        blank = dict.fromkeys(CRITERIA, "")
        store.add(
            dataset=name,
            pipeline="number of clusters",
            kind=f"true {c}",
            ACC=found.n_clusters,
            NMI="",
            ARI="",
            seconds=round(time.perf_counter() - start, 2),
            **blank,
        )


def tables(store):
    names = [name for name in SETS if (name, "MultiViewClustering") in store.done]
    of = {(row["dataset"], row["pipeline"]): row for row in store.rows}
    accuracy = {key: float(row["ACC"]) for key, row in of.items()}
    print("\n| data | MultiViewClustering | best reference, by its labels | which | best fixed baseline |")
    print("|---|---|---|---|---|")
    fixed = {
        key: np.mean([accuracy[name, f"baseline: {key}"] for name in names])
        for key in FIXED
        if all((name, f"baseline: {key}") in accuracy for name in names)
    }
    best_fixed = max(fixed, key=fixed.get)
    ours, oracle, simple = [], [], []
    for name in names:
        references = {
            row["pipeline"]: float(row["ACC"])
            for key, row in of.items()
            if key[0] == name and row["kind"] == "reference"
        }
        best = max(references, key=references.get)
        ours.append(accuracy[name, "MultiViewClustering"])
        oracle.append(references[best])
        simple.append(accuracy[name, f"baseline: {best_fixed}"])
        print(
            f"| {name} | {ours[-1]:.1f} | {oracle[-1]:.1f} | {best} ({len(references)} of 14 run) | {simple[-1]:.1f} |"
        )
    means = [f"**{np.mean(values):.1f}**" for values in (ours, oracle, simple)]
    print(f"| **mean** | {means[0]} | {means[1]} | | {means[2]} ({best_fixed}) |")
    print("\n| criterion | rank correlation with ACC, mean over data sets | ACC of its choice | regret |")
    print("|---|---|---|---|")
    for criterion in CRITERIA:
        correlations, chosen, regrets = [], [], []
        for name in names:
            rows = [row for row in store.rows if row["dataset"] == name and row["kind"] in ("member", "reference")]
            acc = np.array([float(row["ACC"]) for row in rows])
            score = np.array([float(row[criterion]) for row in rows])
            correlations.append(spearmanr(score, acc)[0])
            chosen.append(acc[np.argmax(score)])
            regrets.append(acc.max() - chosen[-1])
        print(f"| {criterion} | {np.nanmean(correlations):.2f} | {np.mean(chosen):.1f} | {np.mean(regrets):.1f} |")
    print("\n| data | classes | number found |\n|---|---|---|")
    for name in names:
        if (row := of.get((name, "number of clusters"))) is not None:
            print(f"| {name} | {row['kind'].split()[1]} | {row['ACC']} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of the data sets")
    parser.add_argument("--output", type=Path, default=Path("auto.csv"), help="results so far, gone on with")
    parser.add_argument("--datasets", nargs="*", default=SETS)
    parser.add_argument("--most-tensor", type=int, default=2500, help="most samples for the references with TSVDMVC")
    parser.add_argument("--most-anchors", type=int, default=10_000, help="most samples for the references with ESTMC")
    parser.add_argument("--tables", action="store_true", help="print the tables of what is there, and compute nothing")
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.filterwarnings("ignore", message="Graph is not fully connected")
    store = Store(args.output)
    if not args.tables:
        for name in args.datasets:
            run(store, name, args.folder, args)
    tables(store)


if __name__ == "__main__":
    main()
