"""What the front door loses where data are missing, where new samples go, and what its confidence is worth.

    python benchmarks/front_door.py missing gaps blocks useless new confidence --results front_door.jsonl
    python benchmarks/front_door.py --results front_door.jsonl --table      # what is there so far, as Markdown
    python benchmarks/front_door.py --results front_door.jsonl --figures docs/figures

Every fit is one line of the results file, and a file that exists is continued. Labels only measure the results. The
benchmark files are found in the folder that TENSORMVC_SHARED names, else in ../shared; of larger ones a random 600
samples, or 12 per class, are used, so that the studies take about an hour.
"""

import argparse
import json
import os
import warnings
from functools import partial
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.impute import KNNImputer
from sklearn.metrics import roc_auc_score, silhouette_samples
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler, normalize

import tensormvc as tm

MOST_SAMPLES, SAMPLES_PER_CLASS = 600, 12
SETS = ["MSRCv1", "NGs", "BBCSport", "100leaves", "Handwritten", "3Sources", "ORL_4views", "BBC4"]
SETS += ["Caltech101-20_recomputed", "Scene-15"]
NUMERIC = ["MSRCv1", "100leaves", "Handwritten", "ORL_4views", "Scene-15", "LandUse-21"]
OTHERS = ["Dermatology", "PIE_face_10", "WebKB", "LandUse-21", "BDGP", "Wikipedia"]
DRAWS = 5


def folder():
    return Path(os.environ.get("TENSORMVC_SHARED", Path(__file__).parents[2] / "shared")) / "data"


def load(name):
    views, classes = tm.datasets.load_views(folder() / f"{name}.mat")
    views, classes, _ = tm.datasets.shuffle_samples(views, classes, random_state=0)
    views = [np.asarray(view.toarray() if hasattr(view, "toarray") else view, dtype=float) for view in views]
    classes = np.unique(classes, return_inverse=True)[1]
    most = max(MOST_SAMPLES, SAMPLES_PER_CLASS * (classes.max() + 1))
    return [view[:most] for view in views], classes[:most]


def fit(views, n_clusters):
    return tm.MultiViewClustering(n_clusters, random_state=0, time_budget=3600).fit(views)


def accuracy(classes, labels):
    return round(100 * tm.metrics.clustering_accuracy(classes, labels), 2)


def without_pairs(views, rate, seed):
    """Remove a share of all sample–view pairs; every sample keeps one view."""
    rng = np.random.default_rng(seed)
    n, m = len(views[0]), len(views)
    lots = rng.random((n, m))
    lots[np.arange(n), rng.integers(m, size=n)] = 2
    lost = lots < np.sort(lots.ravel())[int(rate * n * m)]
    return [np.where(lost[:, [v]], np.nan, view) for v, view in enumerate(views)]


def without_block(views, seed):
    """Remove one view of a third of the samples."""
    rng = np.random.default_rng(seed)
    v, rows = rng.integers(len(views)), rng.permutation(len(views[0]))[: len(views[0]) // 3]
    views = [view.copy() for view in views]
    views[v][rows] = np.nan
    return views


def without_cells(views, rate, seed):
    rng = np.random.default_rng(seed)
    return [np.where(rng.random(view.shape) < rate, np.nan, view) for view in views]


def mean_imputed(views):
    return [np.where(np.isnan(view), np.nan_to_num(np.nanmean(view, axis=0)), view) for view in views]


def neighbour_imputed(views):
    """scikit-learn's nearest-neighbour imputation of the standardised, concatenated views."""
    widths = np.cumsum([view.shape[1] for view in views])[:-1]
    scaled = StandardScaler().fit(np.hstack(views))
    completed = KNNImputer(n_neighbors=10, keep_empty_features=True).fit_transform(scaled.transform(np.hstack(views)))
    return np.split(scaled.inverse_transform(completed), widths, axis=1)


def complete_cases(views, n_clusters):
    """Cluster the samples without a gap, and place the others; chance where there are too few of them."""
    whole = ~np.any([np.isnan(view).any(axis=1) for view in views], axis=0)
    if whole.sum() < 3 * n_clusters:
        return np.zeros(len(whole), dtype=int)
    return fit([view[whole] for view in views], n_clusters).predict(views)


def rates_of(n_views):
    return [0.1, 0.3] + [0.5] * (n_views > 2) + [0.7] * (n_views > 3)


def fitted_labels(views, n_clusters, imputer=None):
    return fit(views if imputer is None else imputer(views), n_clusters).labels_


def incomplete(views, n_clusters, imputer):
    """Yield the front door, and what else can be done."""
    yield "front door", partial(fitted_labels, views, n_clusters)
    yield "mean imputation", partial(fitted_labels, views, n_clusters, mean_imputed)
    yield "neighbour imputation", partial(fitted_labels, views, n_clusters, imputer)
    yield "complete cases", partial(complete_cases, views, n_clusters)


def missing(run):
    for draw in range(DRAWS):
        for name in SETS:
            views, classes = load(name)
            k = len(np.unique(classes))
            if draw == 0:
                run(("missing", name, 0.0, draw, "front door"), classes, partial(fitted_labels, views, k))
            for rate in rates_of(len(views)):
                for method, labels in incomplete(without_pairs(views, rate, draw), k, tm.impute_views):
                    run(("missing", name, rate, draw, method), classes, labels)


def blocks(run):
    for draw in range(DRAWS):
        for name in SETS:
            views, classes = load(name)
            k = len(np.unique(classes))
            for method, labels in incomplete(without_block(views, draw), k, tm.impute_views):
                run(("blocks", name, 0.0, draw, method), classes, labels)


def gaps(run):
    for draw in range(DRAWS):
        for name in NUMERIC:
            views, classes = load(name)
            for rate in (0.05, 0.2, 0.5):
                k = len(np.unique(classes))
                for method, labels in incomplete(without_cells(views, rate, draw), k, neighbour_imputed):
                    if method != "complete cases":  # there are none
                        run(("gaps", name, rate, draw, method), classes, labels)


def useless(run):
    """Add a view that says nothing about the samples."""
    for draw in range(2):
        for name in SETS:
            views, classes = load(name)
            k, n, rng = len(np.unique(classes)), len(classes), np.random.default_rng(draw)
            others = {
                "noise": [rng.normal(size=(n, 30))],
                "constants": [np.full((n, 5), rng.normal())],
                "empty rows": [rng.normal(size=(n, 30)) * (rng.random((n, 1)) < 0.1)],
            }
            for what, other in {"front door": [], **others}.items():
                run(("useless", name, 0.0, draw, what), classes, partial(fitted_labels, [*views, *other], k))


def new(run):
    """Fit half of the samples, predict the other half: from all views, from one, from two."""
    for name in SETS + OTHERS:
        keys = [("new", name, 0.0, draw, "") for draw in range(DRAWS)]
        if all(map(run.knows, keys)):
            continue
        views, classes = load(name)
        together = fit(views, len(np.unique(classes))).labels_
        for draw, key in enumerate(keys):
            if run.knows(key):
                continue
            order = np.random.default_rng(draw).permutation(len(classes))
            one, two = order[: len(order) // 2], order[len(order) // 2 :]
            model = fit([view[one] for view in views], len(np.unique(classes)))
            result = placed(model, views, classes, one, two)
            run.keep(key, {**result, "fitted together": accuracy(classes[two], together[two])})


def placed(model, views, classes, fitted, others):
    """Accuracy of the fitted and of the other samples; of these also with the clusters matched as in the fit."""
    result = {"fitted": accuracy(classes[fitted], model.labels_)}
    scaled = [normalize(StandardScaler().fit_transform(view)) for view in views]
    for count in sorted({1, min(2, len(views)), len(views)}):
        used = list(range(count))
        labels = model.predict([view[others] if v in used else None for v, view in enumerate(views)])
        joined = np.hstack([scaled[v] for v in used])
        neighbours = KNeighborsClassifier(10).fit(joined[fitted], model.labels_).predict(joined[others])
        result[f"{count} views"] = accuracy(classes[others], labels)
        result[f"{count} views, kNN"] = accuracy(classes[others], neighbours)
    result["all views"], result["all views, kNN"] = result[f"{len(views)} views"], result[f"{len(views)} views, kNN"]
    match = matching(classes[fitted], model.labels_)
    for what, own in (("all views, matched as fitted", labels), ("kNN, matched as fitted", neighbours)):
        result[what] = round(100 * np.mean(match[own] == classes[others]), 2)
    return result


def matching(classes, labels):
    counts = np.zeros((labels.max() + 1, classes.max() + 1))
    np.add.at(counts, (labels, classes), 1)
    rows, columns = linear_sum_assignment(-counts)
    match = np.full(len(counts), -1)
    match[rows] = columns
    return match


def confidence(run):
    """Area under the curve for "wrongly placed" of low confidence, beside silhouettes and distances to centres."""
    for name in SETS + OTHERS:
        views, classes = load(name)
        key = ("confidence", name, 0.0, 0, "")
        if run.knows(key):
            continue
        model = fit(views, len(np.unique(classes)))
        wrong = matching(classes, model.labels_)[model.labels_] != classes
        together = np.hstack([normalize(StandardScaler().fit_transform(view)) for view in views])
        centres = np.array([together[model.labels_ == c].mean(axis=0) for c in range(model.n_clusters_)])
        distances = np.sort(KMeans(len(centres), init=centres, n_init=1, max_iter=1).fit(together).transform(together))
        scores = {
            "confidence": model.confidence_,
            "silhouette": silhouette_samples(together, model.labels_),
            "second centre": distances[:, 1] - distances[:, 0],
        }
        deciles = np.quantile(model.confidence_, np.linspace(0, 1, 11))
        groups = np.clip(np.searchsorted(deciles, model.confidence_, side="right") - 1, 0, 9)
        right = [float(np.mean(~wrong[groups == g])) if np.any(groups == g) else None for g in range(10)]
        result = {what: round(float(roc_auc_score(wrong, -score)), 3) for what, score in scores.items()}
        run.keep(key, {**result, "right_by_decile": right})


STUDIES = {study.__name__: study for study in (missing, blocks, gaps, useless, new, confidence)}


class Runner:
    """Runs what is not in the results file yet, and adds it there."""

    def __init__(self, path):
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.results = {tuple(record["key"]): record["result"] for record in map(json.loads, lines)}

    def knows(self, key):
        return key in self.results

    def __call__(self, key, classes, labels):
        if key not in self.results:
            self.keep(key, accuracy(classes, labels()))

    def keep(self, key, result):
        self.results[key] = result
        with self.path.open("a") as file:
            file.write(json.dumps({"key": key, "result": self.results[key]}) + "\n")
        print(*key, self.results[key], flush=True)


def table(results):
    """Return the means over sets and draws as Markdown tables; only sets with all methods and all draws count."""
    lines = []
    for study in ("missing", "blocks", "gaps", "useless"):
        cells = complete_draws({key[1:]: value for key, value in results.items() if key[0] == study})
        rates = sorted({rate for _, rate, _, _ in cells})
        methods = list(dict.fromkeys(method for *_, method in cells))
        lines += ["", f"**{study}**", "", "| rate | sets × draws | " + " | ".join(methods) + " |"]
        lines += ["|---" * (2 + len(methods)) + "|"]
        for rate in rates:
            runs = {(name, draw) for name, r, draw, _ in cells if r == rate}
            whole = [run for run in runs if all((run[0], rate, run[1], method) in cells for method in methods)]
            if rate == 0 and study == "missing":
                whole, shown = sorted(runs), methods[:1]
            else:
                shown = methods
            means = (
                [np.mean([cells[name, rate, draw, method] for name, draw in whole]) for method in shown]
                if whole
                else []
            )
            lines.append(f"| {rate:.0%} | {len(whole)} | " + " | ".join(f"{mean:.1f}" for mean in means) + " |")
    for study in ("new", "confidence"):
        found = [value for key, value in results.items() if key[0] == study]
        columns = list(dict.fromkeys(c for value in found for c in value if not c.endswith("decile")))
        for column in columns:
            values = [value[column] for value in found if column in value]
            lines.append(f"{study}: {column}: {np.mean(values):.3f} over {len(values)}")
    return "\n".join(lines)


def complete_draws(cells):
    """Return the results of draws in which as many fits of the front door were made as in the first."""
    made = [draw for _, rate, draw, method in cells if method == "front door" and rate > 0]
    return {key: value for key, value in cells.items() if made.count(key[2]) == made.count(0)}


def figures(results, where):
    """Draw accuracy against the share of missing pairs, and the share of right labels against the confidence."""
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
    cells = complete_draws({key[1:]: value for key, value in results.items() if key[0] == "missing"})
    for method in dict.fromkeys(key[-1] for key in cells):
        rates = sorted({rate for _, rate, _, m in cells if m == method})
        means = [np.mean([value for key, value in cells.items() if key[1] == r and key[3] == method]) for r in rates]
        ax.plot([100 * rate for rate in rates], means, "o-", label=method)
    ax.set(xlabel="missing sample–view pairs (%)", ylabel="mean ACC (%), by the labels", ylim=(0, 100))
    ax.legend(frameon=False)
    fig.savefig(where / "missing_views.png", dpi=150)
    fig, ax = plt.subplots(figsize=(5.5, 3.6), layout="constrained")
    deciles = [value["right_by_decile"] for key, value in results.items() if key[0] == "confidence"]
    rows = np.array([[np.nan if share is None else share for share in row] for row in deciles])
    ax.plot(np.arange(1, 11), 100 * rows.T, color="0.8", lw=1)
    ax.plot(np.arange(1, 11), 100 * np.nanmean(rows, axis=0), "o-", color="#0072B2", label=f"mean of {len(rows)} sets")
    ax.set(xlabel="decile of the confidence", ylabel="right labels (%), by the classes", ylim=(0, 100))
    ax.legend(frameon=False)
    fig.savefig(where / "reliability.png", dpi=150)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="*", help=", ".join(STUDIES))
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--figures", type=Path)
    arguments = parser.parse_args()
    run = Runner(arguments.results)
    warnings.simplefilter("ignore")
    for study in arguments.studies:
        STUDIES[study](run)
    if arguments.table:
        print(table(run.results))
    if arguments.figures is not None:
        figures(run.results, arguments.figures)


if __name__ == "__main__":
    main()
