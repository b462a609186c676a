"""Compare `MultiViewClustering` with fixed pipelines, and label-free criteria with accuracy.

On every data set with at most 10 000 samples it runs `MultiViewClustering`, the baselines of the benchmark, and the
reference pipelines {unit length, z-scores} × {k-means, spectral clustering of SimG (concatenated views) and of SumG
(sum of the views' graphs), TSVDMVC and ESTMC on both graphs}. Labels only measure the results, unless stated otherwise.
All criteria of `select_model` are compared on one pool of estimators, and those that need only labels on everything.
Each result is appended to a CSV file, from which the tables are printed; an existing file is resumed.
"""

import argparse
import csv
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

import tensormvc as tm
from tensormvc import selection
from tensormvc.auto import _members
from tensormvc.auto._consensus import cluster_embedding, consensus_embedding
from tensormvc.auto._evidence import gather_evidence
from tensormvc.bench._methods import BASELINES
from tensormvc.penalties import ETR
from tensormvc.rows import SampleRandom
from tensormvc.views import as_views

SETS = [
    *["MSRCv1", "NGs", "BBCSport", "100leaves", "Handwritten", "Caltech101-20_recomputed", "CCV"],
    *["ALOI-100_recomputed", "Hdigit"],
]
FIXED = ["kmeans-l2", "kmeans-z", "spectral-sim", "spectral-sum", "spectral-gmc"]
FROM_GRAPHS = selection._ON_GRAPHS
CRITERIA = [*FROM_GRAPHS, "stability", "silhouette"]


def z_scored(views):
    return [StandardScaler().fit_transform(v.toarray() if hasattr(v, "toarray") else v) for v in views]


def reference_pipelines(most_tensor, most_anchors, device):
    """Return the fourteen pipelines by name, each with the largest number of samples it is run on."""
    common = {"random_state": 0, "device": device}
    made = {}
    for scaling, scale in {"unit": list, "z": z_scored}.items():
        kmeans = BASELINES["kmeans-l2" if scaling == "unit" else "kmeans-z"].cluster
        made[f"{scaling}, k-means"] = 10**9, kmeans, list
        for graph, name in (("SimG", "sim"), ("SumG", "sum")):
            made[f"{scaling}, spectral on {graph}"] = 10**9, BASELINES[f"spectral-{name}"].cluster, scale
            tensor = tm.TSVDMVC(basis=f"gft-{name}", lam=0.5, **common)
            anchors = tm.ESTMC(basis=f"gft-{name}", alpha=0.05, penalty=ETR(0.01), **common)
            made[f"{scaling}, TSVDMVC on {graph}"] = most_tensor, fitted(tensor), scale
            made[f"{scaling}, ESTMC on {graph}"] = most_anchors, fitted(anchors), scale
    return made


def fitted(model):
    return lambda views, c, seed: clone(model).set_params(n_clusters=c).fit_predict(views)


def pool(n_clusters, device):
    """Return estimators among which every data set has good and bad ones."""
    return {
        f"ESTMC, gft-{graph}, alpha {alpha:g}": tm.ESTMC(
            n_clusters, basis=f"gft-{graph}", alpha=alpha, random_state=0, device=device
        )
        for graph in ("sim", "sum")
        for alpha in (0.01, 0.1, 0.5, 2.0, 10.0)
    }


def variants(model, views, n_clusters):
    """Yield labels with one constant of `MultiViewClustering` changed at a time, from the members of one fit."""
    members = model.report_.members
    samples = SampleRandom(gather_evidence(views).first(len(model.landmarks_)).views, 0)
    scores = np.array([member.score for member in members])
    fewer, more = f", {n_clusters} frequencies", f", {int(_members.MORE_FREQUENCIES * n_clusters) + 1} frequencies"
    chosen = {
        "as it is": (_members.TEMPERATURE, ""),
        "temperature 0.02": (0.02, ""),
        "temperature 0.1": (0.1, ""),
        "equal weights": (np.inf, ""),
        "10 neighbours only": (_members.TEMPERATURE, "20 neighbours"),
        "20 neighbours only": (_members.TEMPERATURE, "10 neighbours"),
        "as many frequencies as clusters only": (_members.TEMPERATURE, more),
        "a third more frequencies only": (_members.TEMPERATURE, fewer),
    }
    for variant, (temperature, left_out) in chosen.items():
        kept = [i for i, member in enumerate(members) if not left_out or left_out not in member.name]
        weights = np.exp((scores[kept] / scores[kept].max() - 1) / temperature)
        embedding = consensus_embedding([members[i].labels for i in kept], weights, n_clusters)
        labels = np.empty(views.n_samples, dtype=int)
        labels[model.landmarks_] = cluster_embedding(embedding, n_clusters, samples)
        yield variant, labels


class Store:
    """Results in a CSV file, each appended as soon as it is computed."""

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
    """Scores clusterings of one data set with all criteria; their graphs are built once."""

    def __init__(self, views, y):
        self.views, self.y, self.evidence = as_views(views, unit=False), y, None

    def measure(self, store, dataset, pipeline, kind, labels, seconds, **others):
        if self.evidence is None:
            self.evidence = gather_evidence(self.views)
        metrics = tm.metrics.clustering_report(self.y, labels)
        values = {name: round(100 * metrics[name], 3) for name in ("ACC", "NMI", "ARI")}
        scores = dict.fromkeys(CRITERIA, "")
        working = self.views.to_working_order(labels)
        scores |= {name: round(self.evidence.score(working, *measure), 6) for name, measure in FROM_GRAPHS.items()}
        scores |= {name: round(score, 6) for name, score in others.items()}
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
        for variant, labels in variants(model, judge.views, c):
            judge.measure(store, name, f"variant: {variant}", "variant", labels, 0.0)
    pipelines = {f"baseline: {key}": (10**9, BASELINES[key].cluster, list) for key in FIXED}
    pipelines |= reference_pipelines(args.most_tensor, args.most_anchors, args.device)
    for pipeline, (most, cluster, scale) in pipelines.items():
        if (name, pipeline) in store.done or n > most:
            continue
        start = time.perf_counter()
        labels = cluster(scale(views), c, 0)
        kind = "baseline" if pipeline.startswith("baseline") else "reference"
        judge.measure(store, name, pipeline, kind, labels, time.perf_counter() - start)
    models = {key: model for key, model in pool(c, args.device).items() if (name, key) not in store.done}
    if models and n <= args.most_anchors:
        for model in models.values():
            model.fit(views)
        scores = {
            criterion: tm.select_model(models, views, criterion=criterion, random_state=0).scores
            for criterion in ("stability", "silhouette")
        }
        for i, (key, model) in enumerate(models.items()):
            others = {criterion: values[i] for criterion, values in scores.items()}
            judge.measure(store, name, key, "pool", model.labels_, 0.0, **others)
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
    leave_one_out(store, names)
    print("\nMembers and references:")
    judge_criteria(store, names, ("member", "reference"), FROM_GRAPHS)
    print("\nPool of estimators:")
    judge_criteria(store, names, ("pool",), CRITERIA)
    print("\n| data | classes | number found |\n|---|---|---|")
    for name in names:
        if (row := of.get((name, "number of clusters"))) is not None:
            print(f"| {name} | {row['kind'].split()[1]} | {row['ACC']} |")


def leave_one_out(store, names):
    """Print what each constant is worth, and the accuracy if constants are chosen on the other data sets."""
    rows = {(row["dataset"], row["pipeline"]): float(row["ACC"]) for row in store.rows if row["kind"] == "variant"}
    found = list(dict.fromkeys(pipeline for _, pipeline in rows))
    if not found or any((name, variant) not in rows for name in names for variant in found):
        return
    accuracy = np.array([[rows[name, variant] for name in names] for variant in found])
    print("\n| constants | mean ACC |\n|---|---|")
    for variant, values in zip(found, accuracy, strict=True):
        print(f"| {variant.removeprefix('variant: ')} | {values.mean():.2f} |")
    others = accuracy.sum(axis=1, keepdims=True) - accuracy
    held_out = [accuracy[np.argmax(others[:, i]), i] for i in range(len(names))]
    print(f"| the best on the other {len(names) - 1} data sets, for each | {np.mean(held_out):.2f} |")


def judge_criteria(store, names, kinds, criteria):
    """Print how well each criterion ranks clusterings, and how much worse its choice is than the best."""
    print("\n| criterion | data sets | rank correlation with ACC, mean | ACC of its choice | regret | worst regret |")
    print("|---|---|---|---|---|---|")
    for criterion in criteria:
        correlations, chosen, regrets = [], [], []
        for name in names:
            rows = [row for row in store.rows if row["dataset"] == name and row["kind"] in kinds]
            if not rows:
                continue
            acc = np.array([float(row["ACC"]) for row in rows])
            score = np.array([float(row[criterion]) for row in rows])
            correlations.append(spearmanr(score, acc)[0])
            chosen.append(acc[np.argmax(score)])
            regrets.append(acc.max() - chosen[-1])
        if chosen:
            means = f"{np.nanmean(correlations):.2f} | {np.mean(chosen):.1f} | {np.mean(regrets):.1f}"
            print(f"| {criterion} | {len(chosen)} | {means} | {np.max(regrets):.1f} |")


def budgets(folder):
    """Print time and accuracy on 70 000 samples for several time budgets."""
    views, y = tm.datasets.load_views(folder / "MNIST70k.mat")
    views = [np.asarray(view, dtype=np.float64) for view in views]
    print("| time budget, s | seconds | landmarks | clusterings combined | ACC |\n|---|---|---|---|---|")
    for budget in (15, 30, 60, 300):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="time_budget", category=RuntimeWarning)
            start = time.perf_counter()
            model = tm.MultiViewClustering(10, time_budget=budget, random_state=0).fit(views)
        accuracy = 100 * tm.metrics.clustering_accuracy(y, model.labels_)
        report = model.report_
        seconds = time.perf_counter() - start
        print(
            f"| {budget} | {seconds:.1f} | {report.n_landmarks} | {len(report.members)} | {accuracy:.1f} |", flush=True
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of the data sets")
    parser.add_argument(
        "--output", type=Path, default=Path("auto.csv"), help="CSV file of the results; an existing one is resumed"
    )
    parser.add_argument("--datasets", nargs="*", default=SETS)
    parser.add_argument(
        "--most-tensor", type=int, default=2500, help="largest data set for the references with TSVDMVC"
    )
    parser.add_argument(
        "--most-anchors", type=int, default=10_000, help="largest data set for the references with ESTMC"
    )
    parser.add_argument("--device", help="PyTorch device for TSVDMVC and ESTMC, such as cuda")
    parser.add_argument("--budgets", action="store_true", help="print only the table of time budgets on MNIST70k")
    parser.add_argument(
        "--tables", action="store_true", help="print the tables of an existing file, and compute nothing"
    )
    args = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.filterwarnings("ignore", message="Graph is not fully connected")
    if args.budgets:
        budgets(args.folder)
        return
    store = Store(args.output)
    if not args.tables:
        for name in args.datasets:
            run(store, name, args.folder, args)
    tables(store)


if __name__ == "__main__":
    main()
