"""How good and how fast the front door is: beside simple pipelines, for its constants, for the number of clusters.

    python benchmarks/auto.py sets seeds number tensors large --results docs/without_labels.jsonl
    python benchmarks/auto.py --results docs/without_labels.jsonl --table      # what is there so far, as Markdown
    python benchmarks/auto.py umap budgets                                     # times, as ratios in one run

Samples are shuffled, the number of clusters is that of the classes, everything else is the default. Labels only measure
results. Every result is one line of the results file, and a file that exists is continued. The benchmark files are
found in the folder that TENSORMVC_SHARED names, else in ../shared; requirements.txt lists what else is needed.
"""

import argparse
import itertools
import json
import os
import time
import warnings
import zlib
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.preprocessing import StandardScaler, normalize

import tensormvc as tm
from tensormvc.auto import _consensus, _members
from tensormvc.auto._estimator import _consensus as consensus_of
from tensormvc.auto._landmarks import shuffled
from tensormvc.auto._looks import gather_looks
from tensormvc.auto._samples import Samples, first_of_duplicates
from tensormvc.auto._spectrum import low_frequencies
from tensormvc.backend.linalg import one_hot
from tensormvc.bench._methods import BASELINES
from tensormvc.views import as_views

SETS = [
    "MSRCv1",
    "3Sources",
    "Dermatology",
    "ORL_4views",
    "NGs",
    "BBCSport",
    "PIE_face_10",
    "BBC4",
    "WebKB",
    "100leaves",
]
SETS += ["Handwritten", "LandUse-21", "BDGP", "Caltech101-20_recomputed", "Wikipedia", "Scene-15", "CCV"]
SETS += ["ALOI-100_recomputed", "Hdigit"]
OLD = ["MSRCv1", "NGs", "BBCSport", "100leaves", "Handwritten", "Caltech101-20_recomputed", "CCV"]
OLD += ["ALOI-100_recomputed", "Hdigit"]
LARGE = ["MNIST70k", "Fashion70k"]
# Three draws of half of the classes, one of three quarters, and one of half of the samples.
PARTS = ["half1", "half2", "half3", "most1", "samp1"]
# The names of the simple pipelines in the benchmark of the methods, and whether they get z-scores.
SIMPLE = {
    "unit length, k-means": ("kmeans-l2", False),
    "unit length, spectral": ("spectral-sim", False),
    "unit length, summed graphs": ("spectral-sum", False),
    "z-scores, k-means": ("kmeans-z", False),
    "z-scores, spectral": ("spectral-sim-z", False),
    "z-scores, summed graphs": ("spectral-sum-z", False),
    "z-scores at unit length, spectral": ("spectral-sim", True),
    "z-scores at unit length, summed graphs": ("spectral-sum", True),
}
MOST_FOR_TENSORS = 1000


def load(name):
    folder = Path(os.environ.get("TENSORMVC_SHARED", Path(__file__).parents[2] / "shared")) / "data"
    views, classes = tm.datasets.load_views(folder / f"{name}.mat")
    views, classes, _ = tm.datasets.shuffle_samples(views, classes, random_state=0)
    return list(views), np.unique(classes, return_inverse=True)[1]


# What the default is on a machine with nothing else to do, however busy this one is.
USUAL = {"effort": "high", "time_budget": 3600}


def fit(views, n_clusters, seed=0, **options):
    return tm.MultiViewClustering(n_clusters, random_state=seed, **options).fit(views)


def scores(classes, labels):
    report = tm.metrics.clustering_report(classes, labels)
    return {name: round(100 * report[name], 2) for name in ("ACC", "NMI", "ARI")}


def sets(results, names=SETS):
    """The front door beside eight simple pipelines."""
    for name in names:
        views, classes = load(name)
        k = classes.max() + 1
        if results.lack("set", name, "front door"):
            start = time.perf_counter()
            model = fit(views, k, **USUAL)
            report = model.report_
            certainty = report.certainty.split(":")[0]
            results.add(seconds=round(time.perf_counter() - start, 1), n=len(classes), k=int(k), effort=report.effort)
            results.keep(agreement=round(report.agreement, 3), certainty=certainty, **scores(classes, model.labels_))
        if name in LARGE:
            continue
        dense = [np.asarray(view.toarray() if hasattr(view, "toarray") else view, dtype=float) for view in views]
        for pipeline, (baseline, z_scored) in SIMPLE.items():
            if results.lack("set", name, pipeline):
                own = [StandardScaler().fit_transform(view) for view in dense] if z_scored else dense
                results.keep(**scores(classes, BASELINES[baseline].cluster(own, k, 0)))


def large(results):
    """The two sets of 70 000 samples."""
    sets(results, LARGE)


def seeds(results):
    """Five seeds: how similar are the labels? Five permutations: are they the same to the last sample?"""
    for name in SETS:
        views, classes = load(name)
        if not results.lack("seeds", name, "front door"):
            continue
        k = classes.max() + 1
        labels = [fit(views, k, seed, **USUAL).labels_ for seed in range(5)]
        orders = [np.random.default_rng(seed).permutation(len(classes)) for seed in range(5)]
        same = [np.array_equal(fit([v[o] for v in views], k, **USUAL).labels_, labels[0][o]) for o in orders]
        pairs = [adjusted_rand_score(one, other) for one, other in itertools.combinations(labels, 2)]
        accuracy = [scores(classes, own)["ACC"] for own in labels]
        results.keep(ARI=round(float(np.mean(pairs)), 4), same=all(same), accuracy=accuracy)


def samples_of(views, most=1000):
    """Return the samples that a fit looks at: as views, which of the input they are, and the first of equal ones."""
    taken = as_views(views, unit=False, lenient=True).on_host()
    samples = Samples.of(taken.arrays, taken.missing)
    rows = samples.described[shuffled(taken.row_keys[samples.described])][:most]
    same = first_of_duplicates(samples.hashes[rows], samples.missing[rows])
    return samples.completed(taken, rows), taken.order[rows], same


def number(results):
    """The estimated number of clusters, beside others on the low frequencies of one graph."""
    for name in SETS:
        if results.lack("number", name, "front door"):
            views, classes = load(name)
            keep_numbers(results, views, classes, slow=True)


def subsets(results):
    """The estimated number of clusters of parts of the sets: some of the classes, or half of the samples."""
    for name, part in itertools.product([*SETS, *LARGE], PARTS):
        views, classes = load(name)
        rows = part_of(classes, name, part)
        if rows is not None and results.lack("subsets", name, part):
            keep_numbers(results, [view[rows] for view in views], classes[rows], slow=False)


def part_of(classes, name, part, most=1500):
    """Return the samples of half of the classes, of three quarters, or half of the samples; None if too few."""
    rng = np.random.default_rng([zlib.crc32(part.encode()), zlib.crc32(name.encode())])
    n, k = len(classes), classes.max() + 1
    if part.startswith("samp"):
        return np.sort(rng.permutation(n)[: min(n // 2, 1000)])
    n_kept = int(np.ceil((0.5 if part.startswith("half") else 0.75) * k))
    if not 2 <= n_kept < k:
        return None
    rows = np.flatnonzero(np.isin(classes, rng.permutation(k)[:n_kept]))
    return np.sort(rng.permutation(rows)[:most]) if len(rows) > most else rows


def keep_numbers(results, views, classes, *, slow):
    found = tm.estimate_n_clusters(views)
    graph = gather_looks(samples_of(views)[0])[0].graph("joint")
    numbers, (values, vectors) = found.candidates, low_frequencies(graph, int(found.candidates[-1]) + 1)
    results.add(eigengap=int(numbers[np.argmax(np.diff(values)[numbers - 1])]), leiden=leiden(graph))
    if slow:
        labels = [_consensus.ward_labels(normalize(vectors[:, :k]), k) for k in numbers.tolist()]
        width = [silhouette_score(vectors[:, :k], own) for k, own in zip(numbers, labels, strict=True)]
        results.add(silhouette=int(numbers[np.argmax(width)]), gap=gap_statistic(vectors, numbers, labels))
    levels = [level.n_clusters for level in found.levels]
    results.keep(k=len(np.unique(classes)), estimate=found.n_clusters, levels=levels)


def gap_statistic(vectors, numbers, labels, n_references=5):
    """The number chosen by Tibshirani, Walther and Hastie (2001), against uniform points in the range of the data."""
    rng, gaps, deviations = np.random.default_rng(0), [], []
    for k, own in zip(numbers.tolist(), labels, strict=True):
        points = normalize(vectors[:, :k])
        references = [rng.uniform(points.min(axis=0), points.max(axis=0), points.shape) for _ in range(n_references)]
        logs = [np.log(dispersion(r, _consensus.ward_labels(r, k))) for r in references]
        gaps.append(np.mean(logs) - np.log(max(dispersion(points, own), 1e-300)))
        deviations.append(np.std(logs) * np.sqrt(1 + 1 / n_references))
    enough = [i for i in range(len(gaps) - 1) if gaps[i] >= gaps[i + 1] - deviations[i + 1]]
    return int(numbers[enough[0] if enough else np.argmax(gaps)])


def dispersion(points, labels):
    groups = one_hot(labels)
    centres = (groups.T @ points) / np.bincount(labels)[:, None]
    return float(np.square(points - groups @ centres).sum())


def leiden(graph):
    import igraph
    import leidenalg

    edges = graph.tocoo()
    once = edges.coords[0] < edges.coords[1]
    ends = np.column_stack([index[once] for index in edges.coords])
    network = igraph.Graph(graph.shape[0], ends.tolist(), edge_attrs={"weight": edges.data[once].tolist()})
    kind = leidenalg.RBConfigurationVertexPartition
    return len(leidenalg.find_partition(network, kind, weights="weight", resolution_parameter=1.0, seed=0))


def tensors(results):
    """What tensor methods add to the consensus, as further members of the way of looking that counts most."""
    for name in SETS:
        if not results.lack("tensors", name, "front door"):
            continue
        views, classes = load(name)
        views, classes = [view[:MOST_FOR_TENSORS] for view in views], classes[:MOST_FOR_TENSORS]
        k = int(classes.max() + 1)
        samples, order, same = samples_of(views)
        looks, _ = _members.run_looks(gather_looks(samples), k, None, 0, np.inf, lambda *_: None)
        alone = consensus_of(looks, k, 0, same)[0].argmax(axis=1)
        evidence, y = looks[0].evidence, classes[order]
        made = {
            f"ESTMC, alpha={alpha}": tm.ESTMC(k, "gft-sum", alpha=alpha, random_state=0) for alpha in (0.01, 0.1, 1)
        }
        made["TSVDMVC, lam=0.5"] = tm.TSVDMVC(k, "gft-sum", lam=0.5, random_state=0)
        parts = [np.asarray(p.toarray() if hasattr(p, "toarray") else p) for p in evidence.parts]
        found = {method: estimator.fit_predict(parts) for method, estimator in made.items()}
        labelings = {member.name: member.labels for member in looks[0].members} | found
        others = [(look.evidence, {member.name: member.labels for member in look.members}) for look in looks[1:]]
        with_them = _members._weighted([_members._scored(*look) for look in [(evidence, labelings), *others]])
        joint = consensus_of(with_them, k, 0, same)[0].argmax(axis=1)
        weight = sum(m.weight for look in with_them for m in look.members if m.name in found)
        results.add(alone=scores(y, alone)["ACC"], joint=scores(y, joint)["ACC"], weight=round(weight, 3))
        results.keep(**{method: scores(y, labels)["ACC"] for method, labels in found.items()})


def umap(results):
    """Seconds of the front door, with the number of clusters given and not, as shares of UMAP and k-means."""
    from umap import UMAP

    for name, repeats in (("Handwritten", 3), ("MNIST70k", 1)):
        views, classes = load(name)
        k = int(classes.max() + 1)
        joined = np.hstack([normalize(np.asarray(view, dtype=float)) for view in views])
        ways = {
            "UMAP + k-means": lambda x=joined, k=k: KMeans(k, n_init=10).fit_predict(
                UMAP(n_components=10).fit_transform(x)
            ),
            "front door": lambda v=views, k=k: fit(v, k).labels_,
            "front door, auto": lambda v=views: fit(v, "auto").labels_,
        }
        seconds = {way: [] for way in ways}
        for _ in range(repeats + 1):  # the first call compiles
            for way, cluster in ways.items():
                start = time.perf_counter()
                labels = cluster()
                seconds[way].append(time.perf_counter() - start)
                print(f"{name}: {way} {seconds[way][-1]:.2f} s, ACC {scores(classes, labels)['ACC']}", flush=True)
        medians = {way: float(np.median(own[1:])) for way, own in seconds.items()}
        for way, median in medians.items():
            print(f"{name}: {way}: {median:.2f} s, {median / medians['UMAP + k-means']:.2f} of UMAP + k-means")


def budgets(results):
    """Whether time budgets hold on MNIST70k."""
    views, classes = load("MNIST70k")
    for budget in (15, 60, 300):
        start = time.perf_counter()
        model = fit(views, 10, time_budget=budget)
        seconds, accuracy = time.perf_counter() - start, scores(classes, model.labels_)["ACC"]
        effort = f"effort {model.report_.effort}, {len(model.landmarks_)} landmarks"
        print(f"{budget} s: {seconds:.1f} s, {effort}, ACC {accuracy}", flush=True)


class Results:
    """Lines of a file, each a result of a study; what is there is not computed again."""

    def __init__(self, path):
        self.path = path
        self.lines = [json.loads(line) for line in path.read_text().splitlines()] if path and path.exists() else []
        self.known = {(line["study"], line["set"], line["pipeline"]) for line in self.lines}

    def lack(self, study, name, pipeline):
        self.line = {"study": study, "set": name, "pipeline": pipeline}
        return (study, name, pipeline) not in self.known

    def add(self, **values):
        self.line |= values

    def keep(self, **values):
        self.line |= values
        self.lines.append(self.line)
        print(self.line, flush=True)
        if self.path:
            with self.path.open("a") as file:
                file.write(json.dumps(self.line) + "\n")

    def of(self, study):
        chosen = [line for line in self.lines if line["study"] == study]
        return {name: {line["pipeline"]: line for line in chosen if line["set"] == name} for name in [*SETS, *LARGE]}


def table(results):
    """Print what is there as Markdown."""
    found = {name: lines for name, lines in results.of("set").items() if "front door" in lines}
    print("| data | ACC | NMI | ARI | agreement | certainty | " + " | ".join(SIMPLE) + " |")
    print("|---|---|---|---|---|---|" + "---|" * len(SIMPLE))
    for name, lines in found.items():
        own = lines["front door"]
        cells = [f"{own[key]:.1f}" for key in ("ACC", "NMI", "ARI")] + [f"{own['agreement']:.2f}", own["certainty"]]
        cells += [f"{lines[one]['ACC']:.1f}" if one in lines else "" for one in SIMPLE]
        print(f"| {name} | " + " | ".join(cells) + " |")
    for title, names in (("mean", [n for n in found if n in SETS]), ("mean of the nine old ones", OLD)):
        rows = [found[name] for name in names if name in found]
        means = [np.mean([row["front door"][key] for row in rows]) for key in ("ACC", "NMI", "ARI")]
        others = [np.mean([row[one]["ACC"] for row in rows if one in row]) for one in SIMPLE]
        print(f"| **{title}, {len(rows)} sets** | " + " | ".join(f"{x:.1f}" for x in means) + " | | | ", end="")
        print(" | ".join(f"{x:.1f}" for x in others) + " |")
    numbers = [(name, lines["front door"]) for name, lines in results.of("number").items() if lines]
    if numbers:
        ways = ["estimate", "silhouette", "eigengap", "gap", "leiden"]
        print(
            "\n| data | classes | estimate | three levels | "
            + " | ".join(ways[1:])
            + " |\n|---|---|---|---|---|---|---|---|"
        )
        for name, line in numbers:
            levels = ", ".join(map(str, line["levels"]))
            print(
                f"| {name} | {line['k']} | {line['estimate']} | {levels} | "
                + " | ".join(str(line[w]) for w in ways[1:])
                + " |"
            )
        right = {way: sum(near(line["k"], line[way]) for _, line in numbers) for way in ways}
        three = sum(any(near(line["k"], level) for level in line["levels"]) for _, line in numbers)
        print(f"right within 1 or a tenth, of {len(numbers)}: {right}; among three levels: {three}")
    if parts := [line for line in results.lines if line["study"] == "subsets"]:
        right = {
            way: np.mean([near(line["k"], line[way]) for line in parts]) for way in ("estimate", "eigengap", "leiden")
        }
        three = np.mean([any(near(line["k"], level) for level in line["levels"]) for line in parts])
        print(f"\nright on {len(parts)} parts of sets: {right}; among three levels: {three}")
    for study in ("seeds", "tensors"):
        for name, lines in results.of(study).items():
            for line in lines.values():
                print(
                    study, name, {key: value for key, value in line.items() if key not in ("study", "set", "pipeline")}
                )


def near(k, estimate):
    return abs(k - estimate) <= max(1, 0.1 * k)


def main():
    studies = {study.__name__: study for study in (sets, large, seeds, number, subsets, tensors, umap, budgets)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="*", choices=[*studies, []], help="what to run")
    parser.add_argument("--results", type=Path, help="file that results are added to")
    parser.add_argument("--table", action="store_true", help="print what is there")
    args = parser.parse_args()
    results = Results(args.results)
    warnings.simplefilter("ignore")
    for study in args.studies:
        studies[study](results)
    if args.table:
        table(results)


if __name__ == "__main__":
    main()
